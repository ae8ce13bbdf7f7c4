"""Stochastic traces against exact ones: error bars that hold, exact where they must be, every kind of operator."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import torch

import trnsci
import trnsolver
import trnsparse
from trnsci import ArgumentError, DtypeError
from trnsci.testing import gaussian

METHODS = ("hutchinson", "hutch++")


def decaying(n, power, *, dtype=torch.float64):
    """Return a positive matrix with eigenvalues 1, 2**-power, 3**-power, and so on."""
    q = torch.linalg.qr(gaussian((n, n), dtype=dtype)).Q
    values = torch.arange(1, n + 1, dtype=torch.float64) ** -power
    return (q * values) @ q.mH, float(values.sum())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_error_bars_hold_as_often_as_normal_ones(method, dtype):
    a, exact = decaying(120, 1.0, dtype=dtype)
    estimates = [trnsolver.trace(a, products=36, method=method, seed=seed) for seed in range(200)]
    off = torch.tensor([float(abs(x.value - exact) / x.error) for x in estimates])
    # four standard deviations of a count of 200
    for widths, share in ((1, 0.683), (2, 0.94)):
        assert abs((off < widths).double().mean() - share) <= 4 * (share * (1 - share) / 200) ** 0.5
    mean = torch.stack([x.value for x in estimates]).mean()
    assert abs(mean - exact) < 4 * float(torch.stack([x.error for x in estimates]).mean()) / 200**0.5


def test_hutch_plus_plus_is_exact_for_a_low_rank_and_better_for_a_decaying_spectrum():
    a, _ = decaying(100, 0.0)
    low = a[:, :8] @ a[:, :8].mH
    found = trnsolver.trace(low, products=30)
    assert abs(found.value - low.trace()) <= 1e-13
    assert found.error <= 1e-13
    a, exact = decaying(200, 2.0)
    errors = {
        method: np.mean(
            [abs(float(trnsolver.trace(a, products=60, method=method, seed=s).value) - exact) for s in range(20)]
        )
        for method in METHODS
    }
    assert errors["hutch++"] < errors["hutchinson"] / 10


@pytest.mark.parametrize("method", METHODS)
def test_with_as_many_products_as_rows_the_trace_is_exact(method):
    a = gaussian((7, 7), dtype=torch.float64)
    found = trnsolver.trace(a, products=7, method=method)
    assert abs(found.value - a.trace()) <= 1e-14
    assert found.error == 0
    assert found.products == 7


def test_every_kind_of_operator_gives_the_same_estimate():
    dense = scipy.sparse.random(50, 50, 0.2, random_state=0, format="csr") + scipy.sparse.eye(50, format="csr")
    a = torch.from_numpy(dense.toarray())
    want = trnsolver.trace(a, products=18)
    like = torch.empty(50, dtype=torch.float64)
    others = [
        trnsparse.CSRMatrix.from_scipy(dense),
        dense,
        scipy.sparse.linalg.aslinearoperator(dense),
        a.to_sparse_csr(),
    ]
    for other in others:
        found = trnsolver.trace(other, products=18)
        assert abs(float(found.value) - float(want.value)) <= 1e-12
    found = trnsolver.trace(lambda x: a @ x, products=18, like=like)
    assert abs(found.value - want.value) <= 1e-12
    assert isinstance(trnsolver.trace(a.numpy(), products=18).value, np.ndarray | np.generic)


def test_extreme_scales_and_kernels():
    a, exact = decaying(60, 1.0)
    for power in (-280, 280):
        found = trnsolver.trace(a * 10.0**power, products=30)
        assert abs(float(found.value) / 10.0**power - exact) <= 6 * float(found.error) / 10.0**power
    single = a.float()
    with trnsci.backend("simulator", strict=False):
        found = trnsolver.trace(single, products=30)
    assert abs(float(found.value) - exact) <= 6 * float(found.error)


def test_gradients_flow_to_the_matrix():
    a = gaussian((20, 20), dtype=torch.float64).requires_grad_()
    trnsolver.trace(a, products=9, method="hutchinson").value.backward()
    # of each sample z z.T, whose diagonal is one
    assert torch.allclose(a.grad.diagonal(), torch.ones(20, dtype=torch.float64))


def test_mistakes_name_both_values():
    with pytest.raises(ArgumentError, match=r"products is 5, expected .*6"):
        trnsolver.trace(torch.eye(9), products=5)
    with pytest.raises(ArgumentError, match="method is 'best'"):
        trnsolver.trace(torch.eye(9), method="best")
    with pytest.raises(ArgumentError, match=r"shape of a is \(3, 4\)"):
        trnsolver.trace(torch.ones(3, 4))
    with pytest.raises(ArgumentError, match="like is None, expected a vector"):
        trnsolver.trace(lambda x: x)
    with pytest.raises(ArgumentError, match=r"shape of like is \(2, 2\)"):
        trnsolver.trace(lambda x: x, like=torch.ones(2, 2))
    with pytest.raises(DtypeError, match="int64"):
        trnsolver.trace(lambda x: x, like=torch.ones(2, dtype=torch.int64))
