"""Binomial counts for all trials and chances."""

from collections import Counter

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

from tests.trnrand.distributions import chi_square, deviance_size
from trnrand import Generator, maths
from trnrand.binomial import _log_chance
from trnsci.testing import BACKENDS, assert_within, gamma

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


@pytest.mark.parametrize(("n", "p"), [(1, 0.5), (20, 0.03), (20, 0.97), (1000, 0.5), (10**6, 1e-5), (10**6, 0.3)])
def test_law(n, p):
    x = Generator(4).binomial(40_000, n=n, p=p)
    assert chi_square(Counter(x.tolist()), stats.binom(n, p)) > 1e-4


@on_backends
@pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])
def test_every_way_gives_the_same_bits(backend, engine, pure):
    n = torch.tensor([0.0, 1.0, 20.0, 1e3, 1e9, 2.0**53], dtype=torch.float64)
    p = torch.tensor([0.0, 1e-12, 0.03, 0.5, 0.7, 1.0], dtype=torch.float64)
    n, p = (x.flatten().repeat(9) for x in torch.meshgrid(n, p, indexing="ij"))
    with backend:
        made = Generator(1, engine=engine).binomial(n=n, p=p)
    assert torch.equal(made, pure(lambda: Generator(1, engine=engine).binomial(n=n, p=p)))
    assert ((made >= 0) & (made <= n)).all()


def test_chances_do_not_cancel():
    k = torch.arange(301).double()
    n, p = torch.full_like(k, 300.0), torch.full_like(k, 0.37)
    with mpmath.workdps(40):
        chance, rest = mpmath.mpf(0.37), 1 - mpmath.mpf(0.37)
        exact = [mpmath.log(mpmath.binomial(300, i) * chance**i * rest ** (300 - i)) for i in range(301)]
    # terms of the saddle-point expansion, none larger than a deviance; at most 40 roundings each
    size = 8 + deviance_size(k, n * p) + deviance_size(n - k, n * (1.0 - p))
    assert_within(_log_chance(k, n, p, 1.0 - p), np.array(exact, float), gamma(40, n.dtype) * size)
    assert maths.stirling_error(torch.tensor([16.0, 1e8])).min() > 0
