"""Matrices of a batch are independent: what one of them holds leaves the results of the others as they were."""

import pytest
import torch

import trnsolver as ts
from trnsci import ArgumentError
from trnsci.testing import BACKENDS, gaussian

N = 6
RIGHT = gaussian((4, N, 2), 3, torch.float64)


# where the kernels of spectra take another method
LARGE = 18


def _definite(a):
    n = a.shape[-1]
    return a @ a.mT / n + torch.eye(n, dtype=a.dtype)


def _right(a):
    return RIGHT.to(a.dtype)


# functions of a batch of matrices, and what is done to general ones first
FUNCTIONS = {
    "lu_factor": (ts.lu_factor, None),
    "lu": (ts.lu, None),
    "solve": (lambda a: ts.solve(a, _right(a)), None),
    "inv": (ts.inv, None),
    "det": (ts.det, None),
    "slogdet": (ts.slogdet, None),
    "qr": (ts.qr, None),
    "qr_pivoted": (ts.qr_pivoted, None),
    "geqrf": (ts.geqrf, None),
    "svd": (ts.svd, None),
    "svd jacobi": (lambda a: ts.svd(a[..., :4, :4]), None),
    "svdvals": (ts.svdvals, None),
    "pinv": (ts.pinv, None),
    "matrix_rank": (ts.matrix_rank, None),
    "cond": (ts.cond, None),
    "polar": (ts.polar, None),
    "lstsq": (lambda a: ts.lstsq(a[..., :4], _right(a)), None),
    "lstsq by values": (lambda a: ts.lstsq(a[..., :4], _right(a), driver="gelsd"), None),
    "eig": (ts.eig, None),
    "schur": (ts.schur, None),
    "hessenberg": (ts.hessenberg, None),
    "sign": (ts.sign, None),
    "solve_triangular": (lambda a: ts.solve_triangular(a, _right(a), upper=True), None),
    "inv_triangular": (ts.inv_triangular, None),
    "solve_banded": (lambda a: ts.solve_banded((1, 1), a[..., :3, :], _right(a)), None),
    "eigh": (ts.eigh, _definite),
    "eigvalsh": (ts.eigvalsh, _definite),
    "ldl": (ts.ldl, _definite),
    "cholesky": (ts.cholesky, _definite),
    "solve_spd": (lambda a: ts.solve_spd(a, _right(a)), _definite),
    "inv_spd": (ts.inv_spd, _definite),
    "inv_sqrt_spd": (ts.inv_sqrt_spd, _definite),
    "newton_schulz": (lambda a: ts.inv_sqrt_spd(a, method="newton_schulz"), _definite),
    "sqrtm": (ts.sqrtm, _definite),
    "logm": (ts.logm, _definite),
    "expm": (ts.expm, None),
    "svd_randomized": (lambda a: ts.svd_randomized(a, 2).s, None),
}


def _parts(found):
    return found if isinstance(found, tuple) else (found,)


def _drawn(name, n=N):
    fn, first = FUNCTIONS[name]
    a = gaussian((4, n, n), 1)
    return fn, a if first is None else first(a)


def _without(part, index):
    return torch.cat([part[:index], part[index + 1 :]])


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize(
    ("name", "n"), [(name, N) for name in FUNCTIONS] + [(name, LARGE) for name in ("eigh", "svd", "polar", "lu", "qr")]
)
@pytest.mark.parametrize("factor", [1e14, 1e-14])
def test_a_factor_in_one_leaves_the_others(backend, name, n, factor):
    fn, a = _drawn(name, n)
    if name == "expm":
        factor = min(factor, 1.0)  # the exponential of anything so large overflows
    scaled = a.clone()
    scaled[1] *= factor
    with backend:
        before, after = _parts(fn(a)), _parts(fn(scaled))
    for one, other in zip(before, after, strict=True):
        if one.ndim and one.shape[0] == 4:
            assert torch.equal(_without(one, 1), _without(other, 1))


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=str)
def test_what_is_not_finite_is_named_with_its_place(backend, name, value):
    fn, a = _drawn(name)
    a[2, 1, 1] = value
    with backend, pytest.raises(ArgumentError, match=r"\[2, 1, 1\]"):
        fn(a)
