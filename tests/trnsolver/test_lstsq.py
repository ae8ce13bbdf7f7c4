import contextlib

import numpy as np
import pytest
import torch

import trnsci
from tests.together import together
from trnsci import ArgumentError, DtypeError, NotConverged, Singular
from trnsci.arrays import to_numpy
from trnsci.testing import BACKENDS, gaussian, pairs, unit_roundoff
from trnsolver import LeastSquares, lstsq
from trnsolver.dense.target_error import lstsq_to

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
DRIVERS = ["gels", "gelsy", "gelsd", "gelss"]
# tall, square, wide, one column, one row; rank 0 means full
SHAPES = [(9, 4, 0), (5, 5, 0), (4, 9, 0), (7, 1, 0), (1, 6, 0), (9, 6, 2), (6, 9, 3), (6, 6, 5)]


def _matrix(shape, rank, seed, dtype):
    m, n = shape[-2:]
    if not rank:
        return gaussian(shape, seed, dtype)
    return gaussian((*shape[:-2], m, rank), seed, dtype) @ gaussian((*shape[:-2], rank, n), seed + 1, dtype)


def _holds(a, b, x, rank=0):
    """Wedin's bound on the distance to the solution of least norm, by NumPy's SVD in double precision."""
    wide = torch.complex128 if a.is_complex() else torch.float64
    for one, right, found in zip(
        to_numpy(a.to(wide)).reshape(-1, *a.shape[-2:]),
        to_numpy(b.to(wide)).reshape(-1, *b.shape[-2:]),
        to_numpy(x.to(wide)).reshape(-1, *x.shape[-2:]),
        strict=True,
    ):
        u, s, vh = np.linalg.svd(one, full_matrices=False)
        k = rank or min(one.shape)
        exact = vh[:k].conj().T @ ((u[:, :k].conj().T @ right) / s[:k, None])
        left, kappa = np.linalg.norm(one @ exact - right), s[0] / s[k - 1]
        limit = kappa * (np.linalg.norm(exact) + np.linalg.norm(right) / s[0]) + kappa**2 * left / s[0]
        assert np.linalg.norm(found - exact) <= 20 * max(one.shape) * unit_roundoff(a.dtype) * limit


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("m", "n", "rank"), SHAPES)
def test_solutions_of_least_norm(backend, dtype, m, n, rank):
    a, b = _matrix((m, n), rank, 1, dtype), gaussian((m, 3), 5, dtype)
    with backend:
        found = lstsq(a, b)
    assert isinstance(found, LeastSquares)
    _holds(a, b, found.solution, rank)
    assert found.rank.tolist() == (rank or min(m, n))


@pytest.mark.parametrize(
    ("backend", "dtype", "shape", "kind"),
    [
        # double precision on the simulator corrects every entry of large factors
        pytest.param(
            *case,
            marks=[pytest.mark.slow] if case[0].runs_kernels and case[1] in (torch.float64, torch.complex128) else [],
        )
        for case in pairs(BACKENDS, DTYPES, [(33, 13), (40, 40), (13, 33)], ["ones", "checkers", "repeated"])
    ],
    ids=str,
)
def test_ranks_that_rounding_hides(backend, dtype, shape, kind):
    # diagonals of r at the level of underflow, or exactly zero, must not be divided by
    m, n = shape
    rows, columns = torch.arange(m).unsqueeze(1), torch.arange(n)
    a, rank = {
        "ones": (torch.ones(m, n), 1),
        "checkers": ((rows + columns) % 2, 2),
        "repeated": ((columns % 3 + 1) * (rows % 5 - 2.0) + (columns % 2) * rows, 2),
    }[kind]
    a, b = a.to(dtype), gaussian((m, 2), 5, dtype)
    with backend:
        found = lstsq(a, b)
    assert int(found.rank) == rank
    _holds(a, b, found.solution, rank)


@together(
    ("dtype", "driver", "vector", "shape"),
    pairs(DTYPES, DRIVERS, [False, True], [(6, 3), (3, 6), (4, 4), (2, 6, 3), (2, 3, 6), (5, 0), (0, 3), (0, 6, 3)]),
)
def test_fields_are_those_of_torch(dtype, driver, vector, shape):
    a, b = gaussian(shape, 1, dtype), gaussian(shape[:-1] if vector else (*shape[:-1], 2), 2, dtype)
    found = lstsq(a, b, driver=driver)
    if shape[0] == 0 and len(shape) == 3:
        # torch refuses what has no matrices
        assert found.solution.shape == (0, 3) if vector else (0, 3, 2)
        return
    expected = torch.linalg.lstsq(a, b, driver=driver)
    assert found._fields == ("solution", "residuals", "rank", "singular_values")
    for name in ("solution", "rank", "singular_values"):
        mine, theirs = getattr(found, name), getattr(expected, name)
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype), name
        assert torch.allclose(mine, theirs, rtol=1e-3 if unit_roundoff(dtype) > 1e-9 else 1e-9), name
    # torch computes none with gelsy, though it documents them for every driver
    if driver != "gelsy":
        assert found.residuals.shape == expected.residuals.shape
        assert found.residuals.dtype == expected.residuals.dtype
    if shape[-2] > shape[-1]:
        x, right = (t.unsqueeze(-1) if vector else t for t in (found.solution, b))
        left = np.linalg.norm(to_numpy(a @ x - right), axis=-2)
        assert np.allclose(found.residuals.numpy(), left**2, rtol=1e-4)
    else:
        assert found.residuals.shape == (0,)


def test_residuals_need_every_rank_to_be_full():
    a, b = gaussian((3, 6, 2), 1, torch.float64), gaussian((3, 6, 1), 2, torch.float64)
    assert lstsq(a, b).residuals.shape == (3, 1)
    a[1, :, 1] = a[1, :, 0]
    for driver in DRIVERS[1:]:
        found = lstsq(a, b, driver=driver)
        assert found.residuals.shape == (0,)
        assert found.rank.tolist() == [2, 1, 2]


@together("dtype", DTYPES)
@together("shape", [(5, 8, 6), (5, 40, 33), (5, 70, 8), (3, 2, 9, 4)])
def test_each_matrix_of_a_batch_has_its_rank(dtype, shape):
    a, b = gaussian(shape, 1, dtype), gaussian((*shape[:-1], 2), 2, dtype)
    flat, right = a.reshape(-1, *shape[-2:]), b.reshape(-1, shape[-2], 2)
    # a column that the one before it gives: found wherever the columns stand
    flat[1, :, 1] = flat[1, :, 0]
    x, _, rank, _ = lstsq(a, b)
    expected = torch.full((len(flat),), shape[-1])
    expected[1] -= 1
    assert rank.shape == shape[:-2]
    assert torch.equal(rank.reshape(-1), expected)
    for i, one in enumerate(x.reshape(-1, shape[-1], 2)):
        _holds(flat[i], right[i], one, 0 if i != 1 else shape[-1] - 1)


def test_one_matrix_and_many_right_hand_sides():
    a, b = gaussian((6, 3), 1, torch.float64), gaussian((4, 6, 2), 2, torch.float64)
    for matrix in (a, _matrix((6, 3), 2, 3, torch.float64)):
        found = lstsq(matrix, b)
        assert found.solution.shape == (4, 3, 2)
        assert found.rank.shape == ()
        for i in range(4):
            alone = lstsq(matrix, b[i]).solution
            kept = torch.linalg.svdvals(matrix)[: int(found.rank)]
            limit = 2 * 20 * 6 * 2.0**-53 * float(kept[0] / kept[-1]) ** 2 * float(alone.norm() + b[i].norm() / kept[0])
            assert float((found.solution[i] - alone).norm()) <= limit
    some = torch.stack([a, _matrix((6, 3), 2, 3, torch.float64)]).unsqueeze(1)
    found = lstsq(some, b.reshape(2, 2, 6, 2))
    assert found.solution.shape == (2, 2, 3, 2)
    assert found.rank.tolist() == [[3], [2]]


@pytest.mark.grid(1)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("m", "n", "rank"), [(40, 40, 0), (90, 33, 0), (33, 90, 0), (40, 1, 0), (64, 40, 17), (48, 48, 47)]
)
def test_matrices_large_enough_for_lapack(dtype, m, n, rank):
    a, b = _matrix((m, n), rank, 1, dtype), gaussian((m, 3), 5, dtype)
    x, residuals, found, values = lstsq(a, b)
    _holds(a, b, x, rank)
    assert (found.tolist(), found.dtype, found.shape) == (rank or min(m, n), torch.int64, ())
    assert residuals.shape == ((3,) if m > n and not rank else (0,))
    assert (values.shape, values.dtype) == ((0,), dtype.to_real())


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_ranks_are_told_near_and_far_from_the_threshold(dtype):
    """A hundred spectra around rcond: the default agrees with the singular values but within a factor of two."""
    for seed in range(100):
        q, _ = np.linalg.qr(to_numpy(gaussian((40, 40), seed, dtype)))
        p, _ = np.linalg.qr(to_numpy(gaussian((40, 40), seed + 500, dtype)))
        smallest = 10.0 ** -(4 + seed % 5)
        s = np.concatenate([np.linspace(1, 2, 39), [smallest]])
        a, b = torch.from_numpy((q * s) @ p), gaussian((40, 1), seed, dtype)
        for rcond in (smallest / 8, smallest * 2):
            expected = 40 if smallest / 2 > rcond else 39
            assert int(lstsq(a, b, rcond).rank) == expected, (seed, rcond)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_a_triangle_of_ones_hides_its_rank_on_its_diagonal(backend):
    # every pivot is 1, and the smallest singular value near 2**-30
    a, b = torch.eye(30) - torch.ones(30, 30).triu(1), gaussian((30, 2), 1)
    with backend:
        found = lstsq(a, b)
    assert int(found.rank) == 29
    _holds(a, b, found.solution, 29)
    many = lstsq(a.expand(5, -1, -1), b.expand(5, -1, -1))
    assert many.rank.tolist() == [29] * 5


def test_rcond_decides_the_rank():
    a, b = torch.diag(torch.tensor([1.0, 1e-2, 1e-4])), torch.ones(3)
    for driver in ("gelsy", "gelsd", "gelss"):
        for rcond, rank in ((None, 3), (1e-3, 2), (0.1, 1), (0.0, 3), (-1.0, 3), (1.0, 0)):
            found = lstsq(a, b, rcond, driver=driver)
            assert int(found.rank) == rank, (driver, rcond)
            assert torch.allclose(found.solution, torch.where(torch.arange(3) < rank, 1 / a.diagonal(), 0.0))
    assert torch.equal(lstsq(a, b, driver="gelsd").singular_values, a.diagonal())


def test_strides_arrays_and_zeros():
    a, b = gaussian((12, 20), 1, torch.float64)[::2, 1::5], gaussian((2, 6), 2, torch.float64).mT
    _holds(a, b, lstsq(a, b).solution)
    found = lstsq(a.numpy(), b.numpy())
    assert type(found) is LeastSquares
    assert all(isinstance(part, np.ndarray) for part in found)
    zero = lstsq(torch.zeros(4, 2), torch.ones(4))
    assert int(zero.rank) == 0
    assert zero.solution.tolist() == [0.0, 0.0]


@pytest.mark.grid(1)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 4), (2, 5, 3)])
def test_gradients(dtype, shape):
    a = gaussian(shape, 1, dtype).requires_grad_()
    b = gaussian((*shape[:-1], 2), 2, dtype).requires_grad_()
    assert torch.autograd.gradcheck(lambda *x: lstsq(*x)[0], (a, b))
    if shape[-2] > shape[-1] > 0:
        assert torch.autograd.gradcheck(lambda *x: lstsq(*x)[1], (a, b))


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("rank", [0, 2])
def test_gradients_on_every_backend(backend, rank, gradient):
    b = gaussian((6, 2), 3, torch.float64)
    a = _matrix((6, 3), rank, 1, torch.float64)
    found = gradient(lambda x: lstsq(x, b).solution, a, backend)
    expected = gradient(lambda x: torch.linalg.pinv(x, rtol=1e-8) @ b, a, BACKENDS[0])
    assert torch.allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_gradients_of_repeated_singular_values_and_of_ranks_that_stay():
    eye = torch.eye(3, dtype=torch.float64).requires_grad_()
    b = gaussian((3, 2), 2, torch.float64).requires_grad_()
    for driver in DRIVERS:
        assert torch.autograd.gradcheck(lambda *x, driver=driver: lstsq(*x, driver=driver)[0], (eye, b))
    assert torch.autograd.gradgradcheck(lambda *x: lstsq(*x)[0], (eye, b))
    # along factors the rank stays what it is
    left, right = (gaussian(s, i, torch.float64).requires_grad_() for i, s in ((3, (5, 2)), (4, (2, 4))))
    b = gaussian((5, 2), 5, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y, z: lstsq(x @ y, z, 1e-8)[0], (left, right, b))


def test_torch_transforms():
    a, b = gaussian((4, 6, 3), 1, torch.float64), gaussian((4, 6), 2, torch.float64)
    expected = lstsq(a, b).solution
    assert torch.allclose(torch.func.vmap(lambda x, y: lstsq(x, y).solution)(a, b), expected, rtol=1e-12)
    grad = torch.func.grad(lambda x: lstsq(x, b[0]).solution.sum())(a[0])
    wanted = a[0].clone().requires_grad_()
    lstsq(wanted, b[0]).solution.sum().backward()
    assert torch.allclose(grad, wanted.grad, rtol=1e-12)


def test_errors():
    a, b = torch.ones(4, 2), torch.ones(4)
    with pytest.raises(ArgumentError, match="driver is 'qr', expected one of 'gels', 'gelsy', 'gelsd', 'gelss'"):
        lstsq(a, b, driver="qr")
    with pytest.raises(Singular) as caught:
        lstsq(torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), torch.ones(3), driver="gels")
    assert caught.value.index == 1
    with pytest.raises(ArgumentError, match="None with driver='gels'"):
        lstsq(a, b, 1e-3, driver="gels")
    with pytest.raises(ArgumentError, match="rcond is nan, expected a number"):
        lstsq(a, b, float("nan"))
    with pytest.raises(ArgumentError, match="M differs: a has M=4, b has M=3"):
        lstsq(a, torch.ones(3))
    with pytest.raises(DtypeError, match="float32"):
        lstsq(a, b.double())
    for bad in (float("nan"), float("inf")):
        for driver in DRIVERS:
            with pytest.raises(ArgumentError, match=r"a\[0, 0\]"):
                lstsq(torch.full((4, 2), bad), b, driver=driver)
            with pytest.raises(ArgumentError, match=r"b\[0\]"):
                lstsq(gaussian((4, 2), 1), torch.full((4,), bad), driver=driver)


def _spread(n, cond, seed=1):
    rng = np.random.default_rng(seed)
    u, v = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return torch.from_numpy((u * np.logspace(0, -np.log10(cond), n)) @ v)


@pytest.mark.parametrize("cond", [1e2, 1e6])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_least_squares_to_a_target(cond, noise):
    import mpmath

    a = torch.cat([_spread(12, cond), _spread(12, cond, 3)])
    b = a @ gaussian((12,), 2, torch.float64) + noise * gaussian((24,), 5, torch.float64)
    found, stated = trnsci.achieved(lstsq, a, b, target_error=1e-12)
    with mpmath.workdps(60):
        wide, right = mpmath.matrix(a.tolist()), mpmath.matrix(b.tolist())
        exact = mpmath.lu_solve(wide.T * wide, wide.T * right)
    expected = torch.tensor([float(value) for value in exact], dtype=torch.float64)
    error = float(torch.linalg.vector_norm(found.solution - expected) / torch.linalg.vector_norm(expected))
    # the oracle is rounded once
    assert error <= stated + 2.0**-53
    assert stated <= 1e-12
    assert int(found.rank) == 12
    with BACKENDS[1]:
        assert "float32 factors" in lstsq_to(a, b, 1e-12).method


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("decades", [10, 30])
def test_least_squares_of_rows_of_any_scale_claim_nothing_wrong(seed, decades):
    import mpmath

    rng = np.random.default_rng(seed)
    scales = 10.0 ** rng.uniform(-decades, decades, (10, 1))
    a, b = (torch.from_numpy(scales * rng.standard_normal((10, k))) for k in (4, 1))
    with contextlib.suppress(NotConverged):
        found = lstsq(a, b[:, 0], target_error=1e-8)
        with mpmath.workdps(250):
            wide, right = mpmath.matrix(a.tolist()), mpmath.matrix(b.tolist())
            exact = mpmath.lu_solve(wide.T * wide, wide.T * right)
        expected = torch.tensor([float(value) for value in exact], dtype=torch.float64)
        assert float(torch.linalg.vector_norm(found.solution - expected)) <= 1e-8 * float(expected.norm())


def test_least_squares_that_keep_no_promise():
    with pytest.raises(NotConverged):
        lstsq(torch.ones(4, 2), torch.ones(4), target_error=1e-10)
    with pytest.raises(ArgumentError, match="as many rows as columns"):
        lstsq(torch.ones(2, 4), torch.ones(2), target_error=1e-10)
    with pytest.raises(ArgumentError, match="driver is 'gelsd', expected None with target_error"):
        lstsq(torch.ones(4, 2), torch.ones(4), driver="gelsd", target_error=1e-10)
    with pytest.raises(ArgumentError, match="None with target_error"):
        lstsq(torch.ones(4, 2), torch.ones(4), rcond=1e-3, target_error=1e-10)
    assert lstsq(torch.ones(4, 0), torch.ones(4), target_error=1e-10).solution.shape == (0,)
