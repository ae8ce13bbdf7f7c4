"""The host's BLAS and the pure PyTorch path compute the same thing, whatever way matrices lie in memory."""

import numpy as np
import pytest
import torch

from tests.trnblas.oracles import F32, F64, sum_bound
from trnblas import host, symm, symv, syr2k, syrk, trmm, trmv, trsm
from trnsci.testing import assert_within, gamma, gaussian

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
    outer, mirrored = wide @ wide.mT, wide.flip(0)
    both = wide @ mirrored.mT + mirrored @ wide.mT
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
        (
            syr2k(1.0, b, b.flip(0), lower=lower),
            (both.tril() if lower else both.triu()),
            wide.abs() @ mirrored.abs().mT + mirrored.abs() @ wide.abs().mT,
        ),
        (syrk(1.0, b, lower=lower), outer.tril() if lower else outer.triu(), wide.abs() @ wide.abs().mT),
    ):
        assert got.dtype == dtype
        assert_within(got, expected, 2 * sum_bound(max(n, columns), size, dtype))


@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize(
    ("left", "right"), [("by rows", "by columns"), ("by columns", "by rows"), ("strided", "strided")]
)
@pytest.mark.parametrize(("n", "columns"), [(5, 3), (300, 40), (7, 1)])
@pytest.mark.parametrize(("trans", "diag"), [("n", "n"), ("t", "n"), ("n", "u"), ("t", "u")])
def test_solves_of_every_layout(library, lower, left, right, n, columns, trans, diag):
    square = gaussian((n, n), 1, F64) / (2 * n**0.5) + 2 * torch.eye(n, dtype=F64)
    other = gaussian((n, columns), 2, F64)
    full = square.tril() if lower else square.triu()
    full = full - torch.diag(full.diagonal() - 1) if diag == "u" else full
    full = full.mT if trans == "t" else full
    expected = torch.from_numpy(np.linalg.solve(full.numpy(), other.numpy()))
    got = trsm(1.0, LAYOUTS[left](square), LAYOUTS[right](other), 0, lower, trans, diag)
    inverse = torch.linalg.inv(full).abs()
    assert got.mT.is_contiguous()
    assert_within(got, expected, 4 * gamma(n + 2, F64) * (inverse @ full.abs() @ expected.abs()))


def test_operands_are_left_alone(library):
    a, x = gaussian((6, 6), 1), gaussian((6,), 2)
    trsm(1.0, a, x.unsqueeze(1).mT.contiguous().mT)
    b = gaussian((6, 3), 3).mT.contiguous().mT
    kept = b.clone()
    trsm(1.0, a, b)
    assert torch.equal(b, kept)
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
