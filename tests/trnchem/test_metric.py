"""The metric: Cholesky, the eigenvalue fallback, and matrices that are no metric."""

import numpy as np
import pytest
import torch

from trnchem import MP2Options, dfmp2
from trnchem.metric import fit_matrix
from trnsci import NumericalError


def random_metric(count, lowest, seed=0):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((count, count)))
    values = np.concatenate([[lowest], np.linspace(0.5, 3.0, count - 1)])
    whole = Q @ np.diag(values) @ Q.T
    return torch.from_numpy((whole + whole.T) / 2)


def test_the_fit_matrix_is_a_root_of_the_inverse():
    metric = random_metric(40, 1e-3)
    X, how = fit_matrix(metric)
    assert (how.method, how.functions, how.vectors) == ("cholesky", 40, 40)
    # condition 3e3, so 3e3 * 40 * 2**-53 relative
    np.testing.assert_allclose(X @ X.T, np.linalg.inv(metric.numpy()), rtol=0, atol=1e-7)
    assert str(how) == "Cholesky; 40 of 40 vectors kept"


@pytest.mark.parametrize("lowest", [0.0, -1e-14])
def test_a_dependent_metric_falls_back_to_eigenvalues_and_says_so(lowest):
    metric = random_metric(40, lowest)
    if lowest == 0.0:
        metric[3], metric[:, 3] = metric[4].clone(), metric[:, 4].clone()
        metric[3, 3] = metric[4, 3] = metric[3, 4] = metric[4, 4]
        metric[3, 3] -= 1e-15
    X, how = fit_matrix(metric)
    assert how.method == "eigenvalues"
    assert how.vectors < how.functions == 40
    np.testing.assert_allclose(X @ X.T, np.linalg.pinv(metric.numpy(), rcond=1e-9), rtol=0, atol=1e-7)
    assert "not positive definite; " in str(how)


@pytest.mark.parametrize("lowest", [-0.1, -1e-6])
def test_a_matrix_that_is_no_metric_is_refused(lowest):
    with pytest.raises(NumericalError) as caught:
        fit_matrix(random_metric(20, lowest))
    assert caught.value.op == "dfmp2"
    assert "eigenvalue -" in str(caught.value)
    assert "Check the auxiliary basis" in str(caught.value)


def test_a_metric_of_nans_is_refused():
    metric = random_metric(8, 0.1)
    metric[2, 2] = float("nan")
    with pytest.raises(NumericalError, match="holds NaN or infinity"):
        fit_matrix(metric)


def test_doubled_auxiliary_functions_change_nothing_but_the_count(water):
    from pyscf import df, gto

    single = df.make_auxbasis(water.mol, mp2fit=True)
    shells = {
        element: gto.basis.load(name, element) if isinstance(name, str) else name for element, name in single.items()
    }
    doubled = {element: [*listed, *listed[:3]] for element, listed in shells.items()}
    expected, found = (
        dfmp2(water, options=MP2Options(auxbasis=shells)),
        dfmp2(water, options=MP2Options(auxbasis=doubled)),
    )
    assert expected.metric.method == "cholesky"
    assert found.metric.method == "eigenvalues"
    assert found.metric.functions > expected.metric.functions
    assert found.metric.vectors == expected.metric.vectors
    assert found.e_corr == pytest.approx(expected.e_corr, abs=1e-8)


def test_a_fallback_goes_through_disk_too(water, tmp_path, monkeypatch):
    from pyscf import df, gto

    from trnchem.budget import overhead

    single = df.make_auxbasis(water.mol, mp2fit=True)
    doubled = {e: [*gto.basis.load(n, e), *gto.basis.load(n, e)[:3]] for e, n in single.items() if isinstance(n, str)}
    whole = dfmp2(water, options=MP2Options(auxbasis=doubled))
    monkeypatch.setattr("trnchem.budget.overhead", lambda: 0)
    needed = max(stage.nbytes for stage in whole.plan.stages) - overhead()
    small = dfmp2(water, memory=needed, options=MP2Options(auxbasis=doubled, scratch=tmp_path))
    assert small.e_corr == pytest.approx(whole.e_corr, abs=1e-12)
