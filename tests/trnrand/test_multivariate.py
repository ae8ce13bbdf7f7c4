"""Random vectors and matrices."""

import numpy as np
import pytest
import torch
from scipy import stats

from tests.together import together
from trnrand import Generator
from trnsci import ArgumentError, NotPositiveDefinite
from trnsci.testing import assert_within, gamma

F64 = torch.float64

MEAN = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
COVARIANCE = torch.tensor([[2.0, 0.6, 0.2], [0.6, 1.0, -0.3], [0.2, -0.3, 0.5]], dtype=torch.float64)


@pytest.mark.parametrize("method", ["cholesky", "eigh"])
def test_normal_vectors(method):
    x = Generator(2).multivariate_normal(50_000, mean=MEAN, covariance=COVARIANCE, method=method)
    for direction in (torch.tensor([1.0, 0, 0]), torch.tensor([0.3, -1.0, 2.0]), torch.tensor([1.0, 1.0, 1.0])):
        d = direction.double()
        law = stats.norm((d @ MEAN).item(), (d @ COVARIANCE @ d).sqrt().item())
        assert stats.kstest((x @ d).numpy(), law.cdf).pvalue > 1e-4


def test_vectors_broadcast_split_and_share():
    means, covariances = torch.stack([MEAN, 2 * MEAN]), torch.stack([COVARIANCE, 3 * COVARIANCE])
    whole = Generator(2).multivariate_normal(4, 2, mean=means, covariance=covariances)
    assert whole.shape == (4, 2, 3)
    parts = [
        Generator(2).partition(r, 3).multivariate_normal(4, 2, mean=means, covariance=covariances) for r in range(3)
    ]
    assert torch.equal(torch.cat(parts), whole)
    g = Generator(2)
    split = [g.multivariate_normal(n, 2, mean=means, covariance=covariances) for n in (1, 3)]
    assert torch.equal(torch.cat(split), whole)
    assert Generator(2).multivariate_normal(mean=means, covariance=COVARIANCE).shape == (2, 3)


def test_semidefinite_and_indefinite():
    rank_one = torch.ones(3, 3, dtype=torch.float64)
    x = Generator(1).multivariate_normal(5, mean=torch.zeros(3).double(), covariance=rank_one, method="eigh")
    # eigenvalues 0 are within n u of 3; normals of 53 bits stay below 8.6
    assert_within(x, x[:, :1].expand_as(x), 2 * 8.6 * (3 * 3 * gamma(9, F64)) ** 0.5)
    g = Generator(1)
    bad = torch.diag(torch.tensor([1.0, -1.0, 1.0])).double()
    for method in ("cholesky", "eigh"):
        with pytest.raises(NotPositiveDefinite):
            g.multivariate_normal(mean=MEAN, covariance=bad, method=method)
    with pytest.raises(ArgumentError, match="D differs"):
        g.multivariate_normal(mean=MEAN[:2], covariance=COVARIANCE)
    with pytest.raises(ArgumentError, match="finite"):
        g.multivariate_normal(mean=MEAN * float("nan"), covariance=COVARIANCE)
    assert g.position == 0


def test_gradients():
    mean, factor = MEAN.clone().requires_grad_(), torch.linalg.cholesky(COVARIANCE).requires_grad_()

    def drawn(mean, factor):
        return Generator(1).multivariate_normal(2, mean=mean, covariance=factor @ factor.T)

    assert torch.autograd.gradcheck(drawn, (mean, factor))


@together("dim", [1, 2, 3, 10])
def test_unit_vectors(dim):
    x = Generator(2).unit_vector(20_000, dim=dim, dtype=torch.float64)
    assert_within(x.norm(dim=-1), torch.ones(20_000), gamma(2 * dim + 4, F64))
    if dim > 1:
        # a coordinate of a uniform unit vector, squared, is beta distributed
        assert stats.kstest((x[:, -1] ** 2).numpy(), stats.beta(0.5, (dim - 1) / 2).cdf).pvalue > 1e-4
    parts = [Generator(2).partition(r, 3).unit_vector(7, dim=dim, dtype=torch.float64) for r in range(3)]
    assert torch.equal(torch.cat(parts), x[:7])


def test_orthogonal_matrices():
    q = Generator(2).orthogonal(3000, n=4, dtype=torch.float64)
    # Householder's columns: sqrt(n) gamma(c n n) in norm, c small (Higham, Theorem 19.4)
    assert_within(q @ q.mT, torch.eye(4).expand_as(q), 2 * 4**0.5 * gamma(6 * 4 * 4, F64) + gamma(4, F64))
    # an entry of a Haar matrix is a coordinate of a uniform unit vector; determinants of both signs occur
    for i, j in ((0, 0), (3, 1)):
        assert stats.kstest((q[:, i, j] ** 2).numpy(), stats.beta(0.5, 1.5).cdf).pvalue > 1e-4
    assert stats.binomtest(int((torch.det(q) > 0).sum()), 3000).pvalue > 1e-4
    assert torch.equal(Generator(2).orthogonal(n=4, dtype=torch.float64), q[0])
    parts = [Generator(2).partition(r, 3).orthogonal(n=4, dtype=torch.float64) for r in range(3)]
    assert torch.equal(torch.cat(parts), q[0])
    with pytest.raises(ArgumentError, match="at least 1"):
        Generator(1).orthogonal(n=0)


both_engines = pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])


def assert_law(values, cdf):
    """Kolmogorov and Smirnov, and chi-square on a thousand equal classes."""
    u = cdf(values.double().numpy())
    assert stats.kstest(u, "uniform").pvalue > 1e-4
    assert stats.chisquare(np.bincount((u * 1000).astype(int).clip(0, 999), minlength=1000)).pvalue > 1e-4


@pytest.mark.slow
@both_engines
@pytest.mark.parametrize("method", ["cholesky", "eigh"])
def test_normal_vectors_on_ten_million(method, engine):
    x = Generator(9, engine=engine).multivariate_normal(10**7, mean=MEAN, covariance=COVARIANCE, method=method)
    # the squared distance that the covariance defines has a chi-squared law, and so tests all directions at once
    z = torch.linalg.solve_triangular(torch.linalg.cholesky(COVARIANCE), (x - MEAN).T, upper=False)
    assert_law((z**2).sum(0), stats.chi2(3).cdf)
    assert_law(x @ torch.tensor([0.3, -1.0, 2.0]).double(), _along([0.3, -1.0, 2.0]).cdf)


def _along(direction):
    d = torch.tensor(direction).double()
    return stats.norm((d @ MEAN).item(), (d @ COVARIANCE @ d).sqrt().item())


@pytest.mark.slow
@both_engines
def test_dirichlet_on_ten_million(engine):
    alpha = torch.tensor([0.5, 2.0, 3.5], dtype=torch.float64)
    x = Generator(9, engine=engine).dirichlet(10**7, alpha=alpha)
    # parts and sums of parts are beta distributed, and a part's share of the others is independent of the rest
    for k in range(3):
        assert_law(x[:, k], stats.beta(alpha[k].item(), (alpha.sum() - alpha[k]).item()).cdf)
    assert_law(x[:, 0] / (x[:, 0] + x[:, 1]), stats.beta(0.5, 2.0).cdf)


@pytest.mark.slow
@both_engines
def test_unit_vectors_on_ten_million(engine):
    x = Generator(9, engine=engine).unit_vector(10**7, dim=3, dtype=torch.float64)
    # Archimedes: every coordinate of a point of the sphere is uniform
    for d in (torch.tensor([0.0, 0, 1]), torch.tensor([0.6, 0.0, -0.8])):
        assert_law(x @ d.double(), stats.uniform(-1, 2).cdf)


@pytest.mark.slow
@both_engines
def test_orthogonal_matrices_on_ten_million(engine):
    q = Generator(9, engine=engine).orthogonal(10**7, n=2, dtype=torch.float64)
    turns = torch.atan2(q[:, 1, 0], q[:, 0, 0])
    assert_law(turns, stats.uniform(-np.pi, 2 * np.pi).cdf)
    assert stats.binomtest(int((torch.linalg.det(q) > 0).sum()), 10**7).pvalue > 1e-4
