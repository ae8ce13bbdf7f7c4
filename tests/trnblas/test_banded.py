import numpy as np
import pytest
import torch

from tests.together import together
from tests.trnblas.oracles import C64, C128, F32, F64, KERNELS, gradient_bound, scipy_blas, sum_bound
from trnblas import gbmv, hbmv, sbmv, tbmv, tbsv
from trnsci import ArgumentError, Singular, UnsupportedError
from trnsci.testing import BACKENDS, assert_within, gaussian, pairs

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
TRANS = {"n": 0, "t": 1, "c": 2}


def outside_spoiled(a, keep):
    """NaN where the storage lies outside the matrix: ``keep(row, column)`` says where it does not."""
    rows, columns = np.indices(a.shape)
    return torch.where(torch.from_numpy(keep(rows, columns)), a, torch.nan)


@pytest.mark.parametrize(
    ("backend", "dtype", "trans", "size"),
    pairs(
        BACKENDS,
        [F32, C64],
        ["n", "t", "c"],
        [(7, 9, 2, 1), (9, 7, 0, 3), (5, 5, 0, 0), (200, 150, 3, 2), (4, 4, 6, 6), (2, 2, 1, 1), (3, 5, 2, 1)],
    ),
    ids=str,
)
def test_general_bands(backend, dtype, trans, size):
    m, n, kl, ku = size
    a = gaussian((kl + ku + 1, n), 1, dtype)
    x, y = (gaussian((s,), i, dtype) for i, s in ((2, n if trans == "n" else m), (3, m if trans == "n" else n)))
    alpha, beta = (0.5 - 1j, 2j) if dtype.is_complex else (0.5, -2.0)
    spoiled = outside_spoiled(a, lambda r, j: (r - ku + j >= 0) & (r - ku + j < m))
    with backend:
        got = gbmv(m, n, kl, ku, alpha, spoiled, x, beta, y, trans)
    # Written out: SciPy demands more rows than diagonals in some shapes.
    dense = torch.zeros(m, n, dtype=C128 if dtype.is_complex else F64)
    for i in range(m):
        for j in range(max(0, i - kl), min(n, i + ku + 1)):
            dense[i, j] = a[ku + i - j, j]
    dense = {"n": dense, "t": dense.mT, "c": dense.mH}[trans]
    expected = alpha * (dense @ x.to(dense.dtype)) + beta * y
    bound = sum_bound(kl + ku + 1, abs(alpha) * (dense.abs() @ x.abs().double()) + abs(beta) * y.abs(), dtype)
    assert_within(got, expected, bound)


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize(("n", "k"), [(9, 2), (6, 0), (140, 4), (3, 5)])
def test_symmetric_and_triangular_bands(backend, lower, n, k):
    for dtype in (F32, C64):
        z = dtype.is_complex
        a, x, y = gaussian((k + 1, n), 1, dtype), gaussian((n,), 2, dtype), gaussian((n,), 3, dtype)
        keep = (lambda r, j: j + r < n) if lower else (lambda r, j, k=k: j - (k - r) >= 0)
        spoiled = outside_spoiled(a, keep)
        size = sum_bound(4 * k + 2, a.abs().sum(0).max() * x.abs().max() * (2 * k + 2) + y.abs(), dtype)
        with backend:
            product = (hbmv if z else sbmv)(k, 0.5, spoiled, x, 0.25, y, lower)
            expected = scipy_blas("hbmv" if z else "sbmv", k, 0.5, a, x, beta=0.25, y=y, lower=lower, complex_valued=z)
            assert_within(product, expected, size)
            for trans in ("n", "t", "c"):
                for unit in (0, 1):
                    options = {"lower": lower, "trans": TRANS[trans], "diag": unit, "complex_valued": z}
                    got = tbmv(k, spoiled, x, lower, trans, unit)
                    assert_within(got, scipy_blas("tbmv", k, a, x, **options), size)


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("trans", ["n", "t", "c"])
@pytest.mark.parametrize(("n", "k"), [(9, 2), (150, 3), (5, 0)])
def test_banded_systems(backend, lower, trans, n, k):
    for dtype in (F32, C64):
        a, x = gaussian((k + 1, n), 1, dtype) / 4, gaussian((n,), 2, dtype)
        a[0 if lower else k] = a[0 if lower else k] + 3
        keep = (lambda r, j: j + r < n) if lower else (lambda r, j, k=k: j - (k - r) >= 0)
        with backend:
            got = tbsv(k, outside_spoiled(a, keep), x, lower, trans)
        options = {"lower": lower, "trans": TRANS[trans], "complex_valued": dtype.is_complex}
        expected = scipy_blas("tbsv", k, a, x, **options)
        # Diagonally dominant: inverses are below 1, so the error is a small multiple of the solution's.
        assert_within(got, expected, 64 * (k + 2) * 2.0**-24 * expected.abs().max())


@on_backends
def test_batches_out_and_empties(backend):
    a, x, out = gaussian((2, 1, 3, 10), 1), gaussian((4, 10), 2), torch.empty(2, 4, 10)
    with backend:
        got = sbmv(2, 1.0, a, x, lower=1)
        assert sbmv(2, 1.0, a, x, lower=1, out=out) is out
        assert gbmv(0, 0, 0, 0, 1.0, torch.ones(1, 0), torch.ones(0)).shape == (0,)
        solved = tbsv(2, a + 5, x, lower=1)
    assert torch.equal(out, got)
    for i in range(2):
        for j in range(4):
            expected = scipy_blas("sbmv", 2, 1.0, a[i, 0], x[j], lower=1)
            assert_within(got[i, j], expected, sum_bound(5, torch.tensor(40.0), F32))
            # |inv(A)| |A| |x|, the inverse bounded by that of the comparison matrix.
            band = (a[i, 0] + 5).double()
            exact = scipy_blas("tbsv", 2, a[i, 0] + 5, x[j], lower=1)
            size = scipy_blas("tbmv", 2, band.abs(), exact.abs(), lower=1)
            comparison = torch.cat([band[:1].abs(), -band[1:].abs()])
            assert_within(solved[i, j], exact, sum_bound(4, scipy_blas("tbsv", 2, comparison, size, lower=1), F32))


def test_work_grows_with_the_band():
    n = 300_000
    a, x = torch.ones(3, n, dtype=F64), torch.ones(n, dtype=F64)
    got = sbmv(2, 1.0, a, x, lower=1)
    assert got[:3].tolist() == [3.0, 4.0, 5.0]
    assert bool((got[2:-2] == 5.0).all())


@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
def test_gradients(dtype):
    a, x = gaussian((4, 5), 1, dtype).requires_grad_(), gaussian((5,), 2, dtype).requires_grad_()
    b, y = (gaussian((2, 5), 3, dtype) + 4).requires_grad_(), gaussian((6,), 4, dtype).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, x: gbmv(6, 5, 2, 1, 0.5, a, x), (a, x))
    assert torch.autograd.gradcheck(lambda a, y: gbmv(6, 5, 2, 1, 0.5, a, y, trans="c"), (a, y))
    assert torch.autograd.gradcheck(lambda b, x: hbmv(1, 0.5, b, x, lower=1), (b, x))
    assert torch.autograd.gradcheck(lambda b, x: tbsv(1, b, x), (b, x))
    assert torch.autograd.gradcheck(lambda b, x: tbsv(1, b, x, 1, "c", 1), (b, x))
    alpha = 0.5 - 1j if dtype.is_complex else 0.5
    operator, solve = torch.ops.trnblas.banded.default, torch.ops.trnblas.band_solve.default
    for trans, u, v in (("n", x, y), ("t", y, x), ("c", y, x)):
        flags = (alpha, 2.0, 6, 1, trans, False, "general")
        assert torch.autograd.gradcheck(lambda a, u, v, f=flags: operator(a, u, v, *f), (a, u, v))
    for form in ("symmetric", "hermitian" if dtype.is_complex else "symmetric"):
        for ku in (0, 1):
            flags = (alpha, 0.0, 5, ku, "n", False, form)
            assert torch.autograd.gradcheck(lambda b, x, f=flags: operator(b, x, None, *f), (b, x))
    for trans in "ntc":
        for lower, unit in ((True, False), (False, True)):
            flags = (lower, trans, unit)
            assert torch.autograd.gradcheck(lambda b, x, f=flags: solve(b, x, *f), (b, x))
            assert torch.autograd.gradgradcheck(lambda b, x, f=flags: solve(b, x, *f), (b, x))


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_gradients_through_kernels_and_refusal(backend):
    a, x = gaussian((3, 9), 1).requires_grad_(), gaussian((9,), 2).requires_grad_()
    with backend:
        sbmv(2, 1.0, a, x, lower=1).square().sum().backward()
        with pytest.raises(UnsupportedError, match="would round float64"):
            sbmv(2, 1.0, a.detach().double(), x.detach().double())
    b, y = (t.detach().double().requires_grad_() for t in (a, x))
    sbmv(2, 1.0, b, y, lower=1).square().sum().backward()
    limits = gradient_bound(lambda a, x: sbmv(2, 1.0, a, x, lower=1).square().sum(), (a, x), 20)
    for got, expected, limit in zip((a, x), (b, y), limits, strict=True):
        assert_within(got.grad, expected.grad, limit)


def test_opcheck():
    a, x = gaussian((3, 5), 1, F64).requires_grad_(), gaussian((5,), 2, F64).requires_grad_()
    options = (0.5, 0.0, 5, 1, "n", False, "general")
    torch.library.opcheck(torch.ops.trnblas.banded.default, (a, x, None, *options))
    torch.library.opcheck(torch.ops.trnblas.band_solve.default, (a, x, True, "t", True))


def test_a_zero_on_the_diagonal_is_named():
    with pytest.raises(Singular) as caught:
        tbsv(0, torch.tensor([[1.0, 0.0]]), torch.ones(2))
    assert caught.value.index == 1


@together(
    ("call", "text"),
    [
        (
            lambda: gbmv(2, 2, -1, 0, 1.0, torch.ones(1, 2), torch.ones(2)),
            "gbmv: kl is -1, expected an integer, 0 or more",
        ),
        (lambda: gbmv(2, 2, 1, 0, 1.0, torch.ones(1, 2), torch.ones(2)), "shape of a is (1, 2), expected [..., 2, 2]"),
        (lambda: gbmv(2, 2, 0, 0, 1.0, torch.ones(1, 2), torch.ones(3)), "gbmv: N differs: A has N=2, x has N=3"),
        (lambda: sbmv(1, 1.0, torch.ones(2, 3), torch.ones(2)), "sbmv: N differs: a has N=3, x has N=2"),
        (lambda: sbmv(1, 1.0, torch.ones(2, 3), torch.ones(3), 1.0), "y is None, expected a tensor"),
        (lambda: tbmv(1, torch.ones(3, 3), torch.ones(3)), "shape of a is (3, 3), expected [..., 2, N]"),
    ],
)
def test_bad_arguments_are_named(call, text):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert text in str(caught.value)
