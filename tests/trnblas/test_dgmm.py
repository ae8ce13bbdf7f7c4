import pytest
import torch

from tests.together import together
from tests.trnblas.oracles import C64, C128, F32, F64, KERNELS, sum_bound
from trnblas import arguments, axpy, dgmm, geam
from trnsci import ArgumentError, UnsupportedError
from trnsci.testing import BACKENDS, assert_within, gaussian

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("dtype", [F32, C64], ids=str)
@pytest.mark.parametrize("side", ["l", "r"])
@pytest.mark.parametrize("shape", [(1, 1), (129, 7), (2, 3, 600)])
def test_diagonal_factors(backend, dtype, side, shape):
    a, x = gaussian(shape, 1, dtype), gaussian((shape[-2 if side == "l" else -1],), 2, dtype)
    with backend:
        got = dgmm(a, x, side)
    wide = a.to(C128 if dtype.is_complex else F64), x.to(C128 if dtype.is_complex else F64)
    expected = torch.diag(wide[1]) @ wide[0] if side == "l" else wide[0] @ torch.diag(wide[1])
    assert_within(got, expected, sum_bound(1, expected.abs(), dtype))


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("dtype", [F32, C64], ids=str)
@pytest.mark.parametrize(("trans_a", "trans_b"), [("n", "n"), ("t", "n"), ("n", "c"), ("c", "t")])
def test_sums_of_matrices(backend, dtype, trans_a, trans_b):
    a, b = gaussian((20, 20), 1, dtype), gaussian((20, 20), 2, dtype)
    alpha, beta = (0.5 - 1j, 2j) if dtype.is_complex else (0.5, -2.0)
    view = {"n": lambda x: x, "t": lambda x: x.mT, "c": lambda x: x.mH}
    with backend:
        got = geam(alpha, a, beta, b, trans_a, trans_b)
    wide = C128 if dtype.is_complex else F64
    x, y = view[trans_a](a).to(wide), view[trans_b](b).to(wide)
    assert_within(got, alpha * x + beta * y, sum_bound(2, abs(alpha) * x.abs() + abs(beta) * y.abs(), dtype))


@on_backends
def test_out_batches_and_empties(backend):
    a, x, out = gaussian((3, 1, 4, 5), 1), gaussian((2, 5), 2), torch.empty(3, 2, 4, 5)
    with backend:
        assert dgmm(a, x, out=out) is out
        assert dgmm(torch.ones(0, 3), torch.ones(3)).shape == (0, 3)
        total = torch.empty(4, 5)
        assert geam(1.0, a[0, 0], 1.0, a[1, 0], out=total) is total
    assert torch.equal(out, a * x.unsqueeze(-2))
    assert torch.equal(total, a[0, 0] + a[1, 0])


@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
def test_gradients(dtype):
    a, x = gaussian((2, 3), 1, dtype).requires_grad_(), gaussian((3,), 2, dtype).requires_grad_()
    assert torch.autograd.gradcheck(dgmm, (a, x))
    assert torch.autograd.gradcheck(lambda a, x: torch.ops.trnblas.dgmm.default(a, x, True), (a, x))
    assert torch.autograd.gradcheck(lambda a: geam(0.5, a, 2.0, a), (a,))
    torch.library.opcheck(torch.ops.trnblas.dgmm.default, (a, x, True))


@together("dtype", [F32, C64, torch.bfloat16])
def test_large_results_are_the_same_in_large_pages(monkeypatch, dtype):
    a, x = gaussian((5, 7), 1, dtype), gaussian((7,), 2, dtype)
    calls = (
        lambda a: dgmm(a, x),
        lambda a: dgmm(a, x[:5], "l"),
        lambda a: dgmm(a, x.expand(3, 7)),
        lambda a: geam(2.0, a.mT, 3.0, a.mT),
        lambda a: axpy(a, a.flip(0), 3.0),
    )
    expected = [call(a) for call in calls]
    with monkeypatch.context() as patched:
        patched.setattr(arguments, "_MAPPED", 1)
        for call, result in zip(calls, expected, strict=True):
            assert torch.equal(call(a), result)
            assert torch.equal(torch.func.vmap(call)(torch.stack([a, a]))[1], result)
            wanted = a.clone().requires_grad_()
            call(wanted).abs().sum().backward()
            assert wanted.grad is not None


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_a_kernel_that_would_round_refuses(backend):
    with backend, pytest.raises(UnsupportedError, match="would round float64"):
        dgmm(torch.ones(2, 2, dtype=F64), torch.ones(2, dtype=F64))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: dgmm(torch.ones(2, 3), torch.ones(2)), "dgmm: N differs: a has N=3, x has N=2"),
        (lambda: dgmm(torch.ones(2, 3), torch.ones(3), "l"), "dgmm: M differs: a has M=2, x has M=3"),
        (lambda: geam(1.0, torch.ones(2, 3), 1.0, torch.ones(3, 2)), "a has shape=(2, 3), b has shape=(3, 2)"),
    ],
)
def test_bad_arguments_are_named(call, text):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert text in str(caught.value)
