"""Counts and categories beyond what all distributions share."""

from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats

from tests.trnrand.distributions import chi_square
from trnrand import Generator
from trnsci import ArgumentError


def test_certain_outcomes():
    g = Generator(1)
    assert g.binomial(50, n=7, p=0.0).sum() == 0
    assert (g.binomial(50, n=7, p=1.0) == 7).all()
    assert g.binomial(50, n=0, p=0.4).sum() == 0
    assert not g.bernoulli(50, p=0.0).any()
    assert g.bernoulli(50, p=1.0).all()
    assert (g.geometric(50, p=1.0) == 1).all()
    assert (g.negative_binomial(50, n=3.0, p=1.0) == 0).all()
    assert set(g.rademacher(100).tolist()) == {-1, 1}


def test_categories():
    probs = torch.tensor([0.0, 1.0, 3.0, 0.0, 6.0, 0.0])
    x = Generator(3).categorical(20_000, probs=probs)
    counts = torch.bincount(x, minlength=6)
    assert counts[[0, 3, 5]].sum() == 0
    assert stats.chisquare(counts[[1, 2, 4]].numpy(), [2000, 6000, 12000]).pvalue > 1e-4
    rows = torch.eye(4)
    assert Generator(3).categorical(probs=rows).tolist() == [0, 1, 2, 3]
    assert Generator(3).categorical(5, 4, probs=rows).tolist() == [[0, 1, 2, 3]] * 5
    whole = Generator(3).categorical(5, 4, probs=torch.rand(4, 7, generator=torch.Generator().manual_seed(1)))
    parts = [
        Generator(3)
        .partition(r, 3)
        .categorical(5, 4, probs=torch.rand(4, 7, generator=torch.Generator().manual_seed(1)))
        for r in range(3)
    ]
    assert torch.equal(torch.cat(parts), whole)


def test_multinomial():
    probs = torch.tensor([1.0, 0.0, 3.0, 6.0])
    x = Generator(3).multinomial(20_000, n=30, probs=probs)
    assert x.shape == (20_000, 4)
    assert (x.sum(-1) == 30).all()
    assert x[:, 1].sum() == 0
    for k, p in ((0, 0.1), (2, 0.3), (3, 0.6)):
        assert chi_square(Counter(x[:, k].tolist()), stats.binom(30, p)) > 1e-4
    g = Generator(3)
    assert torch.equal(torch.cat([g.multinomial(5, n=30, probs=probs), g.multinomial(4, n=30, probs=probs)]), x[:9])
    parts = [Generator(3).partition(r, 2).multinomial(9, n=30, probs=probs) for r in range(2)]
    assert torch.equal(torch.cat(parts), x[:9])
    assert Generator(3).multinomial(n=torch.tensor([1.0, 5.0]), probs=probs).sum(-1).tolist() == [1, 5]
    assert Generator(3).multinomial(n=9, probs=probs).shape == (4,)


def test_errors_leave_the_generator_alone():
    g = Generator(1)
    for call, words in (
        (lambda: g.categorical(2, probs=torch.tensor([0.5, -0.5])), "non-negative"),
        (lambda: g.categorical(2, probs=torch.zeros(3)), "positive weight"),
        (lambda: g.categorical(2, probs=torch.tensor(1.0)), "K >= 1"),
        (lambda: g.multinomial(2, n=-1, probs=torch.ones(3)), "whole number"),
        (lambda: g.multinomial(3, n=torch.ones(2), probs=torch.ones(3)), "broadcast"),
    ):
        with pytest.raises(ArgumentError, match=words):
            call()
    assert g.position == 0


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])
def test_categories_on_ten_million(engine):
    probs = torch.arange(1.0, 51.0)
    counts = torch.bincount(Generator(9, engine=engine).categorical(10**7, probs=probs), minlength=50)
    assert stats.chisquare(counts.numpy(), 10**7 * (probs.double() / probs.sum()).numpy()).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])
def test_multinomial_on_ten_million(engine):
    probs = torch.tensor([1.0, 0.0, 3.0, 6.0])
    x = Generator(9, engine=engine).multinomial(10**7, n=4, probs=probs, dtype=torch.int8)
    # the joint law: every composition of 4 over the three categories that have weight
    codes, counts = (x[:, 0].long() * 25 + x[:, 2].long() * 5 + x[:, 3].long()).unique(return_counts=True)
    law = stats.multinomial(4, [0.1, 0.3, 0.6])
    expected = 10**7 * np.array([law.pmf([c // 25, c // 5 % 5, c % 5]) for c in codes.tolist()])
    assert x[:, 1].sum() == 0
    assert len(codes) == 15
    assert stats.chisquare(counts.numpy(), expected).pvalue > 1e-4
