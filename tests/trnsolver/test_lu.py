import numpy as np
import pytest
import scipy.linalg
import torch

import trnsci
from trnsci import ArgumentError, DtypeError, NumericalError, Singular
from trnsci.testing import BACKENDS, Backend, gaussian, pairs, unit_roundoff
from trnsolver import det, inv, lu, lu_factor, lu_solve, slogdet, solve


def _bound(a):
    return 20 * max(a.shape[-2:]) * unit_roundoff(a.dtype)


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (4, 7), (5, 1), (33, 33), (2, 9, 9), (2, 40, 16), (130, 5), (0, 3), (3, 0)])
def test_p_l_u_multiply_back(backend, shape, norm):
    a = gaussian(shape, 1)
    with backend:
        p, lower, upper = lu(a)
    assert norm(p.double() @ lower.double() @ upper.double() - a.double()) <= _bound(a) * norm(a)
    assert not upper.tril(-1).any()
    assert not lower.triu(1).any()
    assert bool((lower.abs() <= 1.0).all())
    assert torch.equal(p.sum(-1), torch.ones(p.shape[:-1]))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("shape", [(130, 129), (200, 300)])
def test_several_panels(backend, shape, norm):
    a = gaussian(shape, 1)
    with backend:
        p, lower, upper = lu(a)
    assert norm(p.double() @ lower.double() @ upper.double() - a.double()) <= _bound(a) * norm(a)


@pytest.mark.parametrize("kind", ["gaussian", "zeros", "equal"])
@pytest.mark.parametrize("shape", [(1300, 20), (20, 1300)])
def test_shapes_beyond_a_square_of_the_kernel(shape, kind, norm):
    a = gaussian(shape, 3)
    if kind == "zeros":
        a[:, 5], a[7] = 0, 0
    elif kind == "equal":
        a = torch.ones(shape)
    with trnsci.backend("simulator"):
        factors, pivots = lu_factor(a)
    p, lower, upper = torch.lu_unpack(factors, pivots)
    assert norm(p.double() @ lower.double() @ upper.double() - a.double()) <= _bound(a) * norm(a)
    # ranks replace the last bits of what magnitudes are compared by
    assert float(lower.abs().max()) <= 1 + 2.0**-11
    if kind == "equal":
        assert not upper[1:].any()


def test_panels_of_the_host_are_counted():
    tall = torch.empty(1100, 192, device="meta")
    with trnsci.backend("simulator"):
        device, both = (trnsci.plan(lu_factor, x) for x in (tall, tall[:192, :192].to(torch.complex64)))
    assert not device.programs.remarks
    (remark,) = both.programs.remarks
    assert "blocks on the host: 3, counted with" in remark


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_hard_matrices(backend, family, norm):
    a = torch.from_numpy(family(17)).float()
    with backend:
        p, lower, upper = lu(a)
    growth = max(1.0, float(upper.abs().max()) / max(float(a.abs().max()), 1e-30))
    assert norm(p.double() @ lower.double() @ upper.double() - a.double()) <= _bound(a) * growth * norm(a)


@pytest.mark.parametrize(
    ("backend", "dtype", "shape"),
    pairs(BACKENDS, [torch.float32, torch.float64, torch.complex64, torch.complex128], [(70, 70), (70, 9), (9, 70)]),
    ids=str,
)
def test_pivots_are_lapacks(backend, dtype, shape):
    a = gaussian(shape, 2, dtype)
    with backend:
        factors, pivots = lu_factor(a)
    expected, places = scipy.linalg.lu_factor(a.numpy())
    assert np.array_equal(pivots.numpy() - 1, places)
    # Growth of errors in the factors is bounded by the condition of the leading blocks; 1e4 covers these.
    assert float((factors - torch.from_numpy(expected)).abs().max()) <= 1e4 * _bound(a)


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_solutions(backend, adjoint, dtype, norm):
    a, b = gaussian((2, 30, 30), 1, dtype), gaussian((2, 30, 4), 2, dtype)
    with backend:
        x = lu_solve(*lu_factor(a), b, adjoint=adjoint)
    wide = torch.complex128
    matrix = (a.mH if adjoint else a).to(wide)
    assert norm(matrix @ x.to(wide) - b.to(wide)) <= _bound(a) * (norm(a) * norm(x) + norm(b))


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_solve_inverse_and_determinant(backend, norm):
    a, b = gaussian((3, 20, 20), 3), gaussian((3, 20), 4)
    with backend:
        x, inverse, determinant, (phase, logarithm) = solve(a, b), inv(a), det(a), slogdet(a)
    assert x.shape == (3, 20)
    assert norm(a.double() @ x.double().unsqueeze(-1) - b.double().unsqueeze(-1)) <= _bound(a) * (
        norm(a) * norm(x.unsqueeze(-1)) + norm(b.unsqueeze(-1))
    )
    assert norm(a.double() @ inverse.double() - torch.eye(20)) <= _bound(a) * norm(a) * norm(inverse)
    signs, logs = np.linalg.slogdet(a.double().numpy())
    limit = _bound(a) * float(np.max(np.linalg.cond(a.double().numpy()))) * 20
    assert torch.equal(phase.double(), torch.from_numpy(signs))
    assert np.abs(logarithm.numpy() - logs).max() <= limit
    assert np.abs(determinant.numpy() / (signs * np.exp(logs)) - 1).max() <= 2 * limit


def test_without_exchanges(norm):
    a = gaussian((3, 12, 12), 1, torch.float64) + 12 * torch.eye(12, dtype=torch.float64)
    p, lower, upper = lu(a, pivot=False)
    assert p.numel() == 0
    assert norm(lower @ upper - a) <= _bound(a) * norm(a)
    with pytest.raises(Singular):
        lu(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), pivot=False)


def test_a_singular_matrix_is_named():
    a = torch.ones(3, 3)
    for call in (lambda: solve(a, torch.ones(3)), lambda: inv(a), lambda: lu_solve(*lu_factor(a), torch.ones(3))):
        with pytest.raises(Singular) as caught:
            call()
        assert caught.value.index == 1


def test_gradients():
    a = gaussian((4, 4), 1, torch.float64).requires_grad_()
    b = gaussian((4, 2), 2, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(solve, (a, b))
    assert torch.autograd.gradcheck(det, (a,))
    assert torch.autograd.gradcheck(lambda a: lu(a)[1:], (a,))


@pytest.mark.grid(1)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 3)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_kernel_gradients(shape, dtype, gradient):
    a, b = gaussian(shape, 1, dtype), gaussian((shape[-2], 2), 2, dtype)
    functions = [lambda a: lu(a)[1:]]
    if shape[-1] == shape[-2]:
        functions += [
            lambda a: solve(a, b),
            lambda a: lu_solve(*lu_factor(a), b),
            lambda a: lu_solve(*lu_factor(a), b, adjoint=True),
        ]
    for fn in functions:
        expected, found = (gradient(fn, a, Backend(name)) for name in ("pytorch", "simulator"))
        limit = 20 * 5 * unit_roundoff(dtype) * float(torch.linalg.cond(a).max()) ** 3
        assert float((found - expected).abs().max()) <= limit * float(expected.abs().max())


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_entries_that_outgrow_the_dtype_are_an_error(backend):
    n = 132
    a = np.where(np.arange(n) == n - 1, 1.0, np.eye(n) - np.tril(np.ones((n, n)), -1))
    with backend, pytest.raises(NumericalError, match="overflows"):
        lu_factor(torch.from_numpy(a).float())


@pytest.mark.parametrize("adjoint", [False, True])
def test_wrong_factors_and_pivots_are_named(adjoint):
    a, b = gaussian((256, 256), 1) + 16 * torch.eye(256), gaussian((256, 8), 2)
    factors, pivots = lu_factor(a)
    for value, text in ((0, "pivots is 0"), (257, "pivots is 257")):
        wrong = pivots.clone()
        wrong[5] = value
        with pytest.raises(ArgumentError, match=text):
            lu_solve(factors, wrong, b, adjoint=adjoint)
    bad = factors.clone()
    bad[9, 9] = 0.0
    with pytest.raises(Singular):
        lu_solve(bad, pivots, b, adjoint=adjoint)
    bad[9, 9] = float("inf")
    with pytest.raises(ArgumentError, match=r"factors\[9, 9\] is inf"):
        lu_solve(bad, pivots, b, adjoint=adjoint)
    with pytest.raises(DtypeError):
        lu_solve(factors, pivots.long(), b, adjoint=adjoint)
    with pytest.raises(DtypeError):
        lu_solve(factors, pivots, b.double(), adjoint=adjoint)


def test_mismatch():
    with pytest.raises(ArgumentError) as caught:
        solve(torch.eye(3), torch.ones(4, 2))
    assert caught.value.got == {"a": 3, "b": 4}
