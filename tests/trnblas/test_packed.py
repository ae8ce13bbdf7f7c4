import pytest
import torch

from tests.trnblas.oracles import C64, C128, F32, F64, scipy_blas, sum_bound
from trnblas import hpmv, hpr, hpr2, spmv, spr, spr2, tpmv, tpsv
from trnsci import ArgumentError, Singular
from trnsci.testing import BACKENDS, assert_within, gaussian

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
TRANS = {"n": 0, "t": 1, "c": 2}


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("n", [1, 9, 40])
def test_products_and_updates(backend, lower, n):
    for dtype in (F32, C64):
        z = dtype.is_complex
        ap, x, y = gaussian((n * (n + 1) // 2,), 1, dtype), gaussian((n,), 2, dtype), gaussian((n,), 3, dtype)
        alpha = 0.5 - 1j if z else 0.5
        options = {"lower": lower, "complex_valued": z}
        bound = sum_bound(n, (n * ap.abs().max() * x.abs().max() + y.abs().max()) * 2, dtype)
        name = "hpmv" if z else "spmv"
        with backend:
            got = (hpmv if z else spmv)(n, alpha, ap, x, 0.25, y, lower)
            assert_within(got, scipy_blas(name, n, alpha, ap, x, beta=0.25, y=y, **options), bound)
            rank_one, scale = (hpr, 0.5) if z else (spr, 0.5)
            expected = scipy_blas("hpr" if z else "spr", n, scale, x, ap, **options)
            size = x.abs().max() * (x.abs().max() + y.abs().max()) * 4 + ap.abs().max()
            assert_within(rank_one(n, scale, x, ap, lower), expected, sum_bound(4, size, dtype))
            expected = scipy_blas("hpr2" if z else "spr2", n, alpha, x, y, ap, **options)
            assert_within((hpr2 if z else spr2)(n, alpha, x, y, ap, lower), expected, sum_bound(4, size * 2, dtype))


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("trans", ["n", "t", "c"])
@pytest.mark.parametrize("unit", [0, 1])
def test_triangles(backend, lower, trans, unit):
    n = 12
    for dtype in (F32, C64):
        ap, x = gaussian((n * (n + 1) // 2,), 1, dtype) / 8, gaussian((n,), 2, dtype)
        diagonal = torch.tensor([(i * (2 * n - i + 1) // 2) if lower else (i * (i + 3) // 2) for i in range(n)])
        ap[diagonal] += 2
        options = {"lower": lower, "trans": TRANS[trans], "diag": unit, "complex_valued": dtype.is_complex}
        with backend:
            product, solved = tpmv(n, ap, x, lower, trans, unit), tpsv(n, ap, x, lower, trans, unit)
        bound = sum_bound(n, n * ap.abs().max() * x.abs().max(), dtype)
        assert_within(product, scipy_blas("tpmv", n, ap, x, **options), bound)
        assert_within(solved, scipy_blas("tpsv", n, ap, x, **options), 40 * bound)


@on_backends
def test_batches_and_out(backend):
    ap, x, out = gaussian((2, 1, 6), 1), gaussian((3, 3), 2), torch.empty(2, 3, 3)
    with backend:
        assert spmv(3, 1.0, ap, x, out=out) is out
        updated = spr(3, 1.0, x, ap, out=torch.empty(2, 3, 6))
    for i in range(2):
        for j in range(3):
            size = scipy_blas("spmv", 3, 1.0, ap[i, 0].abs(), x[j].abs())
            assert_within(out[i, j], scipy_blas("spmv", 3, 1.0, ap[i, 0], x[j]), sum_bound(3, size, F32))
            size = scipy_blas("spr", 3, 1.0, x[j].abs(), ap[i, 0].abs())
            assert_within(updated[i, j], scipy_blas("spr", 3, 1.0, x[j], ap[i, 0]), sum_bound(2, size, F32))


@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
def test_gradients(dtype):
    ap, x, y = ((gaussian((s,), i, dtype) + 3).requires_grad_() for i, s in ((1, 6), (2, 3), (3, 3)))
    assert torch.autograd.gradcheck(lambda ap, x: hpmv(3, 0.5, ap, x), (ap, x))
    assert torch.autograd.gradcheck(lambda x, y, ap: hpr2(3, 0.5, x, y, ap, 1), (x, y, ap))
    assert torch.autograd.gradcheck(lambda ap, x: tpsv(3, ap, x, 1), (ap, x))


def test_singular():
    with pytest.raises(Singular) as caught:
        tpsv(2, torch.tensor([1.0, 2.0, 0.0]), torch.ones(2))
    assert caught.value.index == 1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: spmv(3, 1.0, torch.ones(5), torch.ones(3)),
            "shape of ap is (5,), expected [..., 6], which is n (n + 1) / 2",
        ),
        (lambda: spmv(-1, 1.0, torch.ones(5), torch.ones(3)), "spmv: n is -1, expected a number of rows"),
        (lambda: spmv(2, 1.0, torch.ones(3), torch.ones(3)), "N differs: ap has N=2, x has N=3"),
        (lambda: spr(2, 1.0, torch.ones(3), torch.ones(3)), "N differs: ap has N=2, x has N=3"),
    ],
)
def test_bad_arguments_are_named(call, text):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert text in str(caught.value)
