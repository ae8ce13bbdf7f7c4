"""The host's BLAS and the pure PyTorch path compute the same thing, whatever way matrices lie in memory."""

import pytest
import torch

from tests.trnblas.oracles import F32, F64, sum_bound
from trnblas import host, symm, symv, syrk, trmm, trmv
from trnsci.testing import assert_within, gaussian

LAYOUTS = {
    "by rows": lambda x: x,
    "by columns": lambda x: x.mT.contiguous().mT,
    "strided": lambda x: torch.stack([x, x], -1)[..., 0],
}


@pytest.fixture(params=["scipy", "torch alone"])
def library(request, monkeypatch):
    if request.param == "torch alone":
        monkeypatch.setattr(host, "_library", lambda: None)
    return request.param


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize(
    ("left", "right"), [("by rows", "by columns"), ("by columns", "by rows"), ("strided", "strided")]
)
@pytest.mark.parametrize(("n", "columns"), [(5, 3), (600, 40), (7, 1)])
def test_every_layout(library, dtype, lower, left, right, n, columns):
    square, other = gaussian((n, n), 1, dtype), gaussian((n, columns), 2, dtype)
    a, b = LAYOUTS[left](square), LAYOUTS[right](other)
    kept = square.double().tril() if lower else square.double().triu()
    strict = square.double().tril(-1) if lower else square.double().triu(1)
    eye, wide = torch.eye(n, dtype=F64), other.double()
    outer = wide @ wide.mT
    # Two computed results in double precision: each within its own bound.
    for got, expected, size in (
        (symm(1.0, a, b, lower=lower), (kept + strict.mT) @ wide, (kept + strict.mT).abs() @ wide.abs()),
        (trmm(1.0, a, b, lower=lower), kept @ wide, kept.abs() @ wide.abs()),
        (
            trmm(1.0, a, b, lower=lower, trans_a="t", diag="u"),
            (strict + eye).mT @ wide,
            (strict.abs() + eye).mT @ wide.abs(),
        ),
        (
            symv(1.0, a, b[:, 0], lower=lower),
            ((kept + strict.mT) @ wide)[:, 0],
            ((kept + strict.mT).abs() @ wide.abs())[:, 0],
        ),
        (trmv(a, b[:, 0], lower), (kept @ wide)[:, 0], (kept.abs() @ wide.abs())[:, 0]),
        (syrk(1.0, b, lower=lower), outer.tril() if lower else outer.triu(), wide.abs() @ wide.abs().mT),
    ):
        assert got.dtype == dtype
        assert_within(got, expected, 2 * sum_bound(max(n, columns), size, dtype))


def test_operands_are_left_alone(library):
    a, x = gaussian((6, 6), 1), gaussian((6,), 2)
    before = a.clone(), x.clone()
    trmv(a, x)
    symv(1.0, a, x)
    assert torch.equal(a, before[0])
    assert torch.equal(x, before[1])


def test_what_is_not_for_scipy():
    plain = torch.ones(2, 2)
    assert host.serves(plain, plain)
    assert not host.serves(plain.clone().requires_grad_())
    assert not host.serves(plain.bfloat16())
    assert not host.serves(torch.ones(0, 2))
    assert not host.serves(torch.ones(2, 2, 2))
    assert not host.serves(plain.to("meta"))
