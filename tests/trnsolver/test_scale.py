"""Factorisations and eigenvalues of matrices whose squares leave the dtype's range, on every backend."""

import math

import pytest
import torch

import trnsolver as ts
from trnsci import NotPositiveDefinite
from trnsci.testing import BACKENDS, gaussian, unit_roundoff

N = 6
CASES = [
    pytest.param(backend, dtype, scale, id=f"{backend}-{dtype}-{scale:.0e}")
    for backend in BACKENDS
    for dtype, powers in ((torch.float32, (-36, -30, -25, 25, 30, 36)), (torch.float64, (-300, -140, 140, 300)))
    for scale in (10.0**power for power in powers)
]


def _wide(*tensors):
    return [x.to(torch.complex128) for x in tensors]


def _near(found, expected, a):
    """Equal to a multiple of the roundoff, relative to the largest entry expected."""
    limit = 40 * N * unit_roundoff(a.dtype) * float(expected.abs().max())
    assert float((found - expected).abs().max()) <= limit


@pytest.mark.parametrize(("backend", "dtype", "scale"), CASES)
def test_positive_definite_matrices_of_any_size(backend, dtype, scale):
    near = torch.eye(N, dtype=torch.float64) + torch.ones(N, N, dtype=torch.float64)
    a = (near * scale).to(dtype)
    exact = a.to(torch.float64) / scale
    with backend:
        factor, inverse = ts.cholesky(a), ts.inv_spd(a)
        x = ts.solve_spd(a, a.sum(-1, keepdim=True))
        upper = ts.cholesky(a, upper=True)
    (low,) = _wide(factor.to(torch.float64) / math.sqrt(scale))
    _near(low @ low.mH, exact.to(low.dtype), a)
    assert torch.equal(upper, factor.mH)
    _near(inverse.to(torch.float64) * scale @ exact, torch.eye(N, dtype=torch.float64), a)
    _near(x.to(torch.float64), torch.ones(N, 1, dtype=torch.float64), a)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_diagonals_that_span_the_range_and_pivots_that_are_not_positive(backend):
    sizes = torch.logspace(-15, 15, N, dtype=torch.float64).to(torch.float32)
    a = sizes[:, None] * (2 * torch.eye(N) + torch.ones(N, N)) * sizes
    with backend:
        factor = ts.cholesky(a).to(torch.float64)
        left = (factor @ factor.mT - a.to(torch.float64)) / (sizes[:, None].to(torch.float64) * sizes)
        assert float(left.abs().max()) <= 40 * N * 2.0**-24
        for scale in (1e-30, 1.0, 1e30):
            with pytest.raises(NotPositiveDefinite) as caught:
                ts.cholesky(torch.diag(torch.tensor([scale, scale, -scale, scale])))
            assert caught.value.index == 2


@pytest.mark.parametrize(("backend", "dtype", "scale"), CASES)
def test_other_factors_of_any_size(backend, dtype, scale):
    a = (gaussian((N, N), 1, torch.float64) * scale).to(dtype)
    exact = (a.to(torch.float64) / scale).to(torch.complex128)
    symmetric, both = a + a.mT, exact + exact.mT
    with backend:
        q, r = ts.qr(a)
        p, lower, upper = ts.lu(a)
        u, s, vh = ts.svd(a)
        values, vectors = ts.eigh(symmetric)
        roots, right = ts.eig(a)
        form, basis = ts.schur(a)
        small, turned = ts.hessenberg(a)
        block, middle, order = ts.ldl(symmetric)
        inverse = ts.inv(a)
        x = ts.solve(a, a)
    down = lambda x: _wide(x.to(torch.complex128) / scale)[0]  # noqa: E731
    q, p, lower, u, vh, vectors, right, basis, turned, block = _wide(
        q, p, lower, u, vh, vectors, right, basis, turned, block
    )
    _near(q @ down(r), exact, a)
    _near(p @ lower @ down(upper), exact, a)
    _near((u * down(s)) @ vh, exact, a)
    _near(both @ vectors, vectors * down(values), a)
    _near(exact @ right, right * down(roots), a)
    _near(basis @ down(form) @ basis.mH, exact, a)
    _near(turned @ down(small) @ turned.mH, exact, a)
    _near(block @ down(middle) @ block.mT, both[order][:, order], a)
    condition = float(torch.linalg.cond(exact))
    for found in (inverse.to(torch.complex128) * scale @ exact, x.to(torch.complex128)):
        assert float((found - torch.eye(N)).abs().max()) <= 40 * N * unit_roundoff(dtype) * condition
