"""Eigenvalues inside a spectrum against SciPy's dense ones, counts against counting."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import torch

import trnsolver as ts
from tests.together import together
from trnsci import ArgumentError, Singular

LINE = sp.diags_array([-np.ones(39), 2 * np.ones(40), -np.ones(39)], offsets=[-1, 0, 1], format="csr")
PHASE = sp.diags_array(np.exp(0.3j * np.arange(40)))
COMPLEX = sp.csr_array(PHASE @ LINE @ PHASE.conj())
RANDOM = sp.random_array((60, 60), density=0.1, random_state=np.random.default_rng(1), format="csr")
RANDOM = sp.csr_array(RANDOM + RANDOM.T)


@together(
    ("a", "sigma", "which"),
    [
        (a, s, w)
        for a in (LINE, COMPLEX, RANDOM)
        for s, w in ((0.31, "LM"), (0.31, "LA"), (0.31, "SA"), (-50.0, "LM"), (None, "LA"), (None, "SA"), (None, "LM"))
    ],
)
def test_pairs_are_those_scipy_selects(a, sigma, which):
    exact = np.linalg.eigvalsh(a.toarray())
    found = ts.eigsh(a, 3, sigma=sigma, which=which, tol=1e-13).require()
    distance = exact if sigma is None else 1 / (exact - sigma)
    order = {"LM": -abs(distance), "LA": -distance, "SA": distance}[which].argsort()[:3]
    rounding = 20 * len(exact) * 2.0**-53 * abs(exact).max()
    # values are no farther off than residuals (Weyl), which shifts and inverses let grow
    assert (np.abs(found.values - exact[order]) <= found.residuals + rounding).all()
    assert (found.residuals <= 1e-9).all()


@together(
    ("a", "ends"),
    [
        (a, e)
        for a in (LINE, COMPLEX, RANDOM)
        for e in ((-0.5, 0.7), (0.5, 0.5), (-np.inf, 1.0), (1.0, np.inf), (-np.inf, np.inf), (2.0, 3.99))
    ],
)
def test_counts_are_right_and_their_slack_is_small(a, ends):
    exact = np.linalg.eigvalsh(a.toarray())
    found = ts.count_eigenvalues(a, ends)
    # at 1.0 every order of the line meets a pivot that is zero, and the end is moved by 2**-26 of the norm
    assert found.slack <= 2e-7
    clear = min((abs(exact - end).min() for end in ends if np.isfinite(end)), default=1.0)
    assert clear > found.slack or ends[0] == ends[1]
    assert found.count == ((exact >= ends[0]) & (exact < ends[1])).sum()


def test_zero_pivots_in_every_order_are_counted():
    # a star without a diagonal: SuperLU gives up inside a supernode
    a = np.zeros((5, 5))
    a[3, :3] = a[:3, 3] = 6.8, 3.2, 2.4
    found = ts.count_eigenvalues(sp.csr_array(a), (0.0, 100.0))
    assert 1 <= found.count <= 4
    assert found.slack < 1e-5
    assert ts.count_eigenvalues(sp.csr_array(a), (1.0, 100.0)).count == 1


def test_a_float32_matrix_is_counted_in_float64():
    a = LINE.astype(np.float32)
    assert ts.count_eigenvalues(a, (0.0, 1.0)) == ts.count_eigenvalues(a.astype(np.float64), (0.0, 1.0))


def test_dense_subsets_are_those_of_scipy():
    a = torch.from_numpy(RANDOM.toarray())
    for options in ({"subset_by_index": (3, 7)}, {"subset_by_value": (-0.5, 0.5)}, {"subset_by_value": (99.0, 100.0)}):
        exact = scipy.linalg.eigh(a.numpy(), eigvals_only=True, **options)
        bound = 2 * 20 * 60 * 2.0**-53 * float(torch.linalg.matrix_norm(a, 2))
        assert abs(ts.eigvalsh(a, **options).numpy() - exact).max(initial=0.0) <= bound
        found = ts.eigh(a, **options)
        assert found.vectors.shape == (60, len(exact))
        left = (a @ found.vectors - found.vectors * found.values).abs()
        assert left.numel() == 0 or left.max() <= bound
    # the lower end is left out, the upper one is in
    ends = torch.diag(torch.tensor([1.0, 2.0, 3.0]))
    assert ts.eigvalsh(ends, subset_by_value=(1.0, 3.0)).tolist() == [2.0, 3.0]


def test_errors():
    with pytest.raises(Singular):
        ts.eigsh(sp.diags_array([1.0, 2.0, 3.0], format="csr"), 1, sigma=2.0)
    with pytest.raises(ArgumentError, match="1 to 40"):
        ts.eigsh(LINE, 41)
    with pytest.raises(ArgumentError, match="inf, expected a finite number"):
        ts.eigsh(LINE, sigma=float("inf"))
    with pytest.raises(ArgumentError, match="nan, expected a real number"):
        ts.eigsh(LINE, sigma=float("nan"))
    with pytest.raises(ArgumentError, match="low at most high"):
        ts.count_eigenvalues(LINE, (2.0, 1.0))
    a = torch.eye(3)
    with pytest.raises(ArgumentError, match="both"):
        ts.eigh(a, subset=(0, 1), subset_by_index=(0, 1))
    with pytest.raises(ArgumentError, match="different lengths"):
        ts.eigh(a.expand(2, 3, 3), subset_by_value=(0.0, 1.0))
    with pytest.raises(ArgumentError, match="low < high"):
        ts.eigvalsh(a, subset_by_value=(1.0, 1.0))
    with pytest.raises(ArgumentError, match="target_error"):
        ts.eigh(a, subset_by_index=(0, 1), target_error=1e-3)
