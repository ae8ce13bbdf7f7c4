"""Poisson counts for every rate."""

from collections import Counter

import pytest
import torch
from scipy import stats

from tests.trnrand.distributions import chi_square
from trnrand import Generator
from trnsci.testing import BACKENDS

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


@pytest.mark.parametrize("rate", [0.001, 0.5, 9.999, 10.0, 30.0, 1000.0, 1e5])
def test_law_for_every_rate(rate):
    x = Generator(11).poisson(50_000, rate=rate)
    assert chi_square(Counter(x.tolist()), stats.poisson(rate)) > 1e-4


@pytest.mark.parametrize("rate", [1e9, 1e15, 2.0**62])
def test_large_rates_are_normal_to_their_skewness(rate):
    x = Generator(11).poisson(50_000, rate=rate, dtype=torch.float64)
    assert stats.kstest(((x - rate) / rate**0.5).numpy(), "norm").pvalue > 1e-4


def test_no_rate_no_event():
    assert Generator(1).poisson(100, rate=0.0).sum() == 0


@on_backends
@pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])
def test_every_way_gives_the_same_bits(backend, engine, pure):
    rate = torch.tensor([0.0, 0.3, 5.0, 9.99, 10.0, 50.0, 1e6, 1e12], dtype=torch.float64).repeat(31)
    with backend:
        made = Generator(1, engine=engine).poisson(rate=rate)
    assert torch.equal(made, pure(lambda: Generator(1, engine=engine).poisson(rate=rate)))
