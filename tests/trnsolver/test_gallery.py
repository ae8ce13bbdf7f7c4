"""Factorisations, systems and eigenvalues of a gallery of matrices at three scales, by LAPACK's ratios.

A ratio is a residual over ``n eps`` times the norms of what it is made of. LAPACK's own tests allow 30.
"""

import numpy as np
import pytest
import torch

import trnsolver as ts
from tests.trnsolver.gallery import DEFINITE, GALLERY, SYMMETRIC, matrix
from trnsci.testing import BACKENDS

ALLOWED = 30.0
SCALES = {torch.float32: (1.0, 1e-30, 1e30), torch.float64: (1.0, 1e-140, 1e140)}


def _wide(x):
    """An array of long doubles, so that residuals have no roundings of their own."""
    x = x.resolve_conj().numpy()
    return x.astype(np.clongdouble if np.iscomplexobj(x) else np.longdouble)


def _norm(x):
    return np.abs(x).sum(0).max(initial=0.0)


def _ratio(residual, size, n, eps):
    return float(_norm(residual) / (n * eps * size)) if size else float(_norm(residual) > 0)


class Case:
    """A matrix of the gallery, as a tensor and as long doubles divided by its scale."""

    def __init__(self, name, n, dtype, scale):
        exact = matrix(name, n)
        kind = dtype.to_complex() if np.iscomplexobj(exact) else dtype
        self.a = torch.from_numpy(exact * scale).to(kind)
        self.scale, self.eps, self.n = scale, torch.finfo(dtype).eps, len(exact)
        self.wide = _wide(self.a) / scale
        self.size = _norm(self.wide)

    def near(self, product, size=None):
        """The ratio of ``a - product``, both over the scale."""
        return _ratio(self.wide - product, self.size if size is None else size, self.n, self.eps)

    def orthogonal(self, q):
        return _ratio(q.conj().T @ q - np.eye(q.shape[1]), 1.0, self.n, self.eps)


def _cholesky(case):
    lower = _wide(ts.cholesky(case.a)) / np.sqrt(np.longdouble(case.scale))
    return [case.near(lower @ lower.conj().T)]


def _lu(case):
    lu, pivots = (x.numpy() for x in ts.lu_factor(case.a))
    wide = _wide(torch.from_numpy(lu))
    rows = np.arange(case.n)
    for i, pivot in enumerate(pivots - 1):
        rows[[i, pivot]] = rows[[pivot, i]]
    product = (np.tril(wide, -1) + np.eye(case.n)) @ (np.triu(wide) / case.scale)
    return [_ratio(case.wide[rows] - product, case.size, case.n, case.eps)]


def _qr(case):
    q, r = map(_wide, ts.qr(case.a))
    return [case.near(q @ (r / case.scale)), case.orthogonal(q)]


def _svd(case):
    u, s, vh = map(_wide, ts.svd(case.a))
    assert (np.diff(s) <= 0).all()
    return [case.near((u * (s / case.scale)) @ vh), case.orthogonal(u), case.orthogonal(vh.conj().T)]


def _eigh(case):
    values, vectors = map(_wide, ts.eigh(case.a))
    assert (np.diff(values) >= 0).all()
    return [case.near((vectors * (values / case.scale)) @ vectors.conj().T), case.orthogonal(vectors)]


def _eig(case):
    values, vectors = map(_wide, ts.eig(case.a))
    residual = case.wide @ vectors - vectors * (values / case.scale)
    return [_ratio(residual, case.size, case.n, case.eps)]


def _schur(case):
    t, z = map(_wide, ts.schur(case.a))
    return [case.near(z @ (t / case.scale) @ z.conj().T), case.orthogonal(z)]


def _ldl(case):
    lower, d, rows = ts.ldl(case.a)
    lower, d = _wide(lower), _wide(d) / case.scale
    product = lower @ d @ lower.conj().T
    return [_ratio(case.wide[np.ix_(rows.numpy(), rows.numpy())] - product, case.size, case.n, case.eps)]


def _solve_spd(case):
    return _solution(case, ts.solve_spd)


def _solve(case):
    if np.linalg.cond(case.wide.astype(complex)) * case.eps > 0.1:
        return []
    return _solution(case, ts.solve)


def _solution(case, solver):
    b = case.a.sum(-1, keepdim=True)
    x = _wide(solver(case.a, b))
    residual = case.wide @ x - _wide(b) / case.scale
    return [_ratio(residual, case.size * _norm(x), case.n, case.eps)]


# LAPACK's geev itself leaves 22 (OpenBLAS) to 55 (MKL) of n eps there: balancing harms it (Watkins, 2006)
BALANCED = {name: make for name, make in GALLERY.items() if name != "forsythe"}
FUNCTIONS = {
    "cholesky": (_cholesky, DEFINITE), "solve_spd": (_solve_spd, DEFINITE), "lu_factor": (_lu, GALLERY),
    "solve": (_solve, GALLERY), "qr": (_qr, GALLERY), "svd": (_svd, GALLERY), "eigh": (_eigh, SYMMETRIC),
    "ldl": (_ldl, SYMMETRIC), "eig": (_eig, BALANCED), "schur": (_schur, GALLERY),
}  # fmt: skip


def _above(function, backend, dtype, n, every=1):
    """Return the ratios above what LAPACK allows, of every so many of the matrices."""
    measure, names = FUNCTIONS[function]
    with backend:
        ratios = {
            (name, scale): max(measure(Case(name, n, dtype, scale)), default=0.0)
            for name in list(names)[::every]
            for scale in SCALES[dtype]
        }
    # not "above": NaN is wrong, too
    return {key: ratio for key, ratio in ratios.items() if not ratio <= ALLOWED}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", SCALES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_ratios_of_some_of_the_gallery_are_those_lapack_allows(function, dtype, backend):
    assert _above(function, backend, dtype, 7, every=17 if backend.runs_kernels else 1) == {}


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", SCALES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("n", [7, 33, 64])
def test_ratios_of_the_gallery_are_those_lapack_allows(function, dtype, backend, n):
    # singular vectors of 64 rows take seconds on the simulator
    above = _above(function, backend, dtype, n, every=5 if backend.runs_kernels and n == 64 else 1)
    assert above == {}


@pytest.mark.slow
@pytest.mark.xfail(
    strict=False,
    reason="moler of 64 rows has a ratio of 1005 on kernels in float32, LAPACK's is below 30;"
    " how the host rounds products decides",
)
def test_the_ratio_of_moler_on_kernels():
    with BACKENDS[1]:
        assert max(_lu(Case("moler", 64, torch.float32, 1.0))) <= ALLOWED


def test_the_gallery_has_what_its_names_say():
    assert len(GALLERY) == 53
    assert DEFINITE.keys() <= SYMMETRIC.keys() <= GALLERY.keys()
    for name in GALLERY:
        a = matrix(name, 16)
        assert np.array_equal(a, a.conj().T) == (name in SYMMETRIC), name
        assert name not in DEFINITE or np.linalg.eigvalsh(a)[0] > 0, name
