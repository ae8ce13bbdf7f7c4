"""Repeated and clustered eigenvalues, each as often as it is one, against dense eigenvalues and ARPACK."""

import functools

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg
import torch

import trnsolver as ts
from tests.together import together
from tests.trnsolver.gallery import SYMMETRIC, matrix
from trnsci.testing import BACKENDS

NAMES = {"LM": "magnitude", "LA": "largest", "SA": "smallest"}


def _line(n):
    return sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))


def _grid(n, dimensions=2):
    """The Laplacian by 5 or 7 points on a square or a cube, where most eigenvalues are repeated."""
    return functools.reduce(lambda a, _: sp.csr_array(sp.kronsum(a, _line(n))), range(dimensions - 1), _line(n))


def _rotated(values, kind=float):
    """A dense matrix of given eigenvalues."""
    n, rng = len(values), np.random.default_rng(len(values))
    x = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if kind is complex else 0.0)
    q = np.linalg.qr(x)[0]
    a = (q * np.asarray(values)) @ q.conj().T
    return sp.csr_array(0.5 * (a + a.conj().T))


def _cluster(width):
    rest = np.random.default_rng(3).random(90)
    return _rotated([*(2 + width * np.arange(4)), *(-1.9 - width * np.arange(3)), *rest])


def _cube_graph(dimensions):
    """The adjacency of a hypercube: ``d - 2 i``, as often as ``d`` over ``i``."""
    edge = sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    return functools.reduce(lambda a, _: sp.csr_array(sp.kronsum(a, edge)), range(dimensions - 1), edge)


MATRICES = {
    "square 9": _grid(9),
    "square 20": _grid(20),
    "cube 5": _grid(5, 3),
    "four copies": sp.block_diag([_rotated(np.random.default_rng(1).standard_normal(25))] * 4, format="csr"),
    "copies of a square": sp.block_diag([_grid(7)] * 2, format="csr"),
    "clusters of 1e-9": _cluster(1e-9),
    "clusters of 1e-12": _cluster(1e-12),
    "identity": sp.eye_array(100, format="csr"),
    "zero": sp.csr_array((100, 100)),
    "rank 3": _rotated([3.0, 3.0, -3.0, *np.zeros(97)]),
    "Hermitian, each three times": _rotated(np.repeat(np.random.default_rng(2).standard_normal(30), 3), complex),
    "both signs": _rotated([*np.arange(1.0, 51.0), *-np.arange(1.0, 51.0)]),
    "reflection": sp.csr_array(scipy.linalg.hadamard(128).astype(float)),
    "hypercube": _cube_graph(7),
    "outlier": _rotated([1e3, 1e3, *np.repeat(np.linspace(0.0, 1.0, 20), 4)]),
}


def _assert_wanted(found, exact, which, k, sigma=None, tol=1e-9):
    """Values claimed are those that an eigensolver of all finds first, in the order of ``which``."""
    assert found.converged
    heights = {"LM": np.abs, "LA": np.real, "SA": lambda x: -x.real}[which]
    spectrum = exact if sigma is None else 1 / (exact - sigma)
    values = np.asarray(found.values)
    order = (-heights(spectrum)).argsort()
    reach = tol * (float(np.abs(exact).max()) or 1.0)
    if which == "LM":
        # of two at one distance either may come first
        off = exact * 0 if sigma is None else sigma + 0 * exact
        wanted, values = np.abs(exact - off)[order[:k]], np.abs(values - off[:k])
    else:
        wanted = exact[order[:k]]
    assert np.abs(np.sort(values) - np.sort(wanted)).max() <= reach, (np.sort(values), np.sort(wanted))


@together("name", MATRICES)
def test_eigsh_finds_every_copy(name):
    a = MATRICES[name]
    exact = np.linalg.eigvalsh(a.toarray())
    for which in NAMES:
        for k in (2, 3, 6):
            _assert_wanted(ts.eigsh(a, k, which=which), exact, which, k)
    size = max(float(np.abs(exact).max()), 1.0)
    for which, k in (("LM", 4), ("LA", 3), ("SA", 2)):
        sigma = 0.3137 * size
        _assert_wanted(ts.eigsh(a, k, sigma=sigma, which=which), exact, which, k, sigma, tol=1e-7)


FEW = ("square 9", "four copies", "clusters of 1e-9", "rank 3", "Hermitian, each three times")


@together("name", FEW)
def test_operators_single_precision_and_other_methods_find_every_copy(name):
    _every_method(MATRICES[name].toarray())


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MATRICES if name not in FEW])
def test_more_matrices_by_every_method(name):
    _every_method(MATRICES[name].toarray())


def _every_method(a, *, may_give_up=()):
    """Check the claims of every method; those that ``may_give_up`` need not make one."""
    exact, n, k = np.linalg.eigvalsh(a), len(a), 3
    double = torch.from_numpy(a)
    single = double.to(torch.complex64 if double.is_complex() else torch.float32)
    start = torch.eye(n, dtype=double.dtype)[:, :k].contiguous()
    for which, name in NAMES.items():
        times = double.__matmul__
        _assert_wanted(ts.lanczos(times, k, n=n, dtype=double.dtype, which=name), exact, which, k, tol=1e-5)
        _assert_wanted(ts.lanczos(single, k, which=name, tol=1e-5), exact, which, k, tol=1e-4)
        _assert_wanted(ts.arnoldi(double, k, which=name, tol=1e-8), exact, which, k, tol=1e-7)
        if which == "LM":
            continue
        # starts that see a part of the matrix only
        # tol is relative to the values wanted, which may be zeros: rounding decides, after 250 to 450 steps
        found = {"davidson": ts.davidson(double, k, which=name, tol=1e-5, maxiter=1000)}
        if n >= 3 * k:
            found["lobpcg"] = ts.lobpcg(double, start, largest=which == "LA", tol=1e-5, maxiter=400)
        for method, pairs in found.items():
            if pairs.converged or method not in may_give_up:
                _assert_wanted(pairs, exact, which, k, tol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS[1:], ids=str)
def test_kernels_find_every_copy(backend):
    a = np.kron(np.eye(2), _grid(6).toarray())
    with backend:
        found = ts.lanczos(torch.from_numpy(a).float(), 3, which="smallest", tol=1e-4)
    _assert_wanted(found, np.linalg.eigvalsh(a), "SA", 3, tol=1e-3)


def test_a_space_that_starts_and_residuals_never_leave_is_left():
    # the diagonal of the first block has the smallest entries, and the second block the smallest eigenvalue
    first, second = 0.1 * torch.diag(torch.arange(1.0, 41.0)), 5.0 * torch.eye(40) - torch.ones(40, 40)
    a = torch.block_diag(first, second).double()
    assert abs(float(ts.davidson(a, 1).require().values[0]) + 35.0) <= 1e-4
    start = torch.eye(80, dtype=torch.float64)[:, :1].contiguous()
    assert abs(float(ts.lobpcg(a, start).require().values[0]) + 35.0) <= 1e-4


def test_pairs_are_claimed_after_a_search_and_not_before():
    a = _grid(20)
    alone = ts.eigsh(a, 3, which="LA").iterations
    few = ts.eigsh(a, 3, which="LA", maxiter=alone // 2)
    assert not few.converged
    assert few.iterations <= alone
    assert len(ts.eigsh(a, 30, sigma=1.2345, maxiter=1).values) == 30
    # a function may return its argument, which nobody writes to
    assert abs(ts.lanczos(lambda x: x, 2, n=100).require().values - 1.0).max() <= 1e-14


@pytest.mark.slow
def test_no_claim_is_wrong_for_random_spectra():
    rng = np.random.default_rng(0)
    isolated = ([1.0], [0.99], [0.98])
    for trial in range(1000):
        n = int(rng.choice([70, 100, 200]))
        values = [
            lambda n=n: np.repeat(rng.standard_normal(n // 3), 3) * 10.0 ** rng.integers(-3, 4),
            lambda n=n: rng.integers(0, 8, n).astype(float),
            lambda n=n: np.concatenate([*(each * rng.integers(1, 4) for each in isolated), rng.random(n) * 0.5]),
            lambda n=n: np.concatenate([1 + 1e-9 * np.arange(rng.integers(1, 6)), rng.random(n) * 0.7]),
            lambda n=n: np.concatenate([[1e3, 1e3], np.repeat(np.linspace(0, 1, 20), 2), rng.random(n) + 1]),
        ][trial % 5]()
        k, which = int(rng.integers(1, 8)), rng.choice(list(NAMES))
        tol = float(rng.choice([1e-10, 1e-6, 1e-4]))
        diagonal = torch.from_numpy(values).unsqueeze(-1)
        found = ts.lanczos(lambda x: diagonal * x, k, n=len(values), which=NAMES[which], tol=tol, seed=trial)  # noqa: B023
        _assert_wanted(found, values, which, k, tol=5 * tol)


@pytest.mark.slow
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("scale", [1.0, 1e-140, 1e140])
def test_the_gallery(name, scale, copies):
    whole = np.kron(np.eye(copies), matrix(name, 64)) * scale
    exact = np.linalg.eigvalsh(whole)
    a, size = sp.csr_array(whole), float(np.abs(exact).max())
    for which in NAMES:
        for k in (1, 3, 6):
            if k < len(whole):
                _assert_wanted(ts.eigsh(a, k, which=which), exact, which, k)
        if size and len(whole) > 16:
            # not an eigenvalue, but among them
            sigma = exact[len(exact) // 3] + 0.0137 * size
            _assert_wanted(ts.eigsh(a, 3, sigma=sigma, which=which), exact, which, 3, sigma, tol=1e-7)
    if scale == 1:
        # most of these spectra cluster at an end, where both of them are slow
        _every_method(whole, may_give_up=("davidson", "lobpcg"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", "fdFD")
@pytest.mark.parametrize("which", NAMES)
def test_answers_are_those_of_arpack(kind, which):
    # the matrices of SciPy's own tests: random ones, positive definite or not, dense or sparse
    rng = np.random.default_rng(2300)
    tol, slack = (1e-5, 3e-4) if kind in "fF" else (1e-10, 1e-9)
    for n, density, definite in ((100, 1.0, True), (100, 1.0, False), (300, 0.02, False)):
        a = rng.standard_normal((n, n)) * (rng.random((n, n)) < density)
        a = a + 1j * rng.standard_normal((n, n)) * (a != 0) if kind in "FD" else a
        a = sp.csr_array((a @ a.conj().T if definite else a + a.conj().T).astype(kind))
        for k in (2, 6):
            values = scipy.sparse.linalg.eigsh(a, k, which=which, return_eigenvectors=False)
            found = ts.eigsh(a, k, which=which, tol=tol).require()
            assert np.abs(np.sort(found.values) - np.sort(values)).max() <= slack * np.linalg.norm(a.toarray(), 2)
