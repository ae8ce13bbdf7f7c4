"""Errors proved in plain float64 are no less than the errors against 80 digits."""

import mpmath
import numpy as np
import pytest
import torch

from trnsci.testing import BACKENDS
from trnsolver import eigh
from trnsolver.dense import proved_errors
from trnsolver.dense.target_error import eigh_to, lstsq_to, solve_to

SCALES = (1.0, 1e-160, 1e160)


def _spread(rng, m, n, cond):
    """A matrix of this condition number, its rows graded where that is large."""
    u, v = (np.linalg.qr(rng.standard_normal((size, n)))[0] for size in (m, n))
    rows = 10.0 ** rng.uniform(-3, 3, (m, 1)) if cond > 1e6 else 1.0
    return rows * ((u * np.logspace(0, -np.log10(cond), n)) @ v.T)


def _exact(a, b):
    with mpmath.workdps(80):
        wide, right = mpmath.matrix(a.tolist()), mpmath.matrix(b.tolist())
        return mpmath.lu_solve(wide.H * wide, wide.H * right) if wide.rows > wide.cols else mpmath.lu_solve(wide, right)


def _error(x, exact):
    """The error of a column relative to it, in 80 digits: scales beyond float64's squares."""
    with mpmath.workdps(80):
        return float(mpmath.norm(mpmath.matrix(x.tolist()) - exact) / mpmath.norm(exact))


@pytest.mark.parametrize("shape", [(6, 6), (9, 5)], ids=str)
@pytest.mark.parametrize("cond", [1e1, 1e7, 1e13])
def test_systems_and_least_squares(shape, cond):
    rng, prove = (
        np.random.default_rng(3),
        proved_errors.solve_system if shape[0] == shape[1] else proved_errors.solve_least_squares,
    )
    proved = 0
    for scale, other in [(one, two) for one in SCALES for two in SCALES]:
        a, b = scale * _spread(rng, *shape, cond), other * rng.standard_normal((shape[0], 2))
        found = prove(torch.from_numpy(a), torch.from_numpy(b), 1e-3)
        if found is not None:
            proved += 1
            errors = [_error(found[0][:, k], _exact(a, b[:, k])) for k in range(2)]
            assert max(errors) <= found[1] <= 1e-3
    # but for solutions that leave the range, what has half of its digits is proved
    assert proved >= (7 if cond < 1e8 else 0)


def test_what_is_not_proved_is_left_to_others():
    a, b = torch.ones(3, 3, dtype=torch.float64), torch.ones(3, 1, dtype=torch.float64)
    assert proved_errors.solve_system(a, b, 1e-3) is None
    assert (
        proved_errors.solve_least_squares(torch.ones(5, 2, dtype=torch.float64), torch.ones(5, 1).double(), 1e-3)
        is None
    )
    assert proved_errors.solve_system(torch.eye(3, dtype=torch.float64), 0 * b, 1e-3) is None
    with BACKENDS[1]:
        assert not proved_errors.apply_to(a)
    with np.errstate(all="raise"):
        assert solve_to(torch.eye(3), torch.tensor([1.0, 0.0, 1e-300]), 1e-10).method == "elimination in float64"
        assert lstsq_to(torch.eye(4)[:, :2], torch.ones(4), 1e-10).method == "elimination in float64"


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_eigenpairs(dtype):
    rng = np.random.default_rng(5)
    for scale in (1.0, 1e-100, 1e100):
        a = rng.standard_normal((2, 5, 5)) + (1j * rng.standard_normal((2, 5, 5)) if dtype.is_complex else 0.0)
        a = torch.from_numpy(scale * (a + a.conj().swapaxes(-1, -2))).to(dtype)
        found = eigh_to(a, 1e-12)
        assert found.trajectory == ()
        left = 0.0
        for matrix, values, vectors in zip(a, found.values, found.vectors, strict=True):
            with mpmath.workdps(60):
                m, v, w = (mpmath.matrix(x.tolist()) for x in (matrix, vectors, torch.diag(values)))
                off = mpmath.norm(m * v - v * w, 2) / mpmath.norm(m, 2) + mpmath.norm(v.H * v - mpmath.eye(5), 2)
                left = max(left, float(off))
        assert left <= found.bound <= 1e-12
    # squares of its entries leave the range, and nothing is proved in float64
    tiny = 1e-200 * torch.eye(3, dtype=torch.float64)
    assert not proved_errors.defect(tiny, *reversed(eigh(tiny))) <= 1.0
