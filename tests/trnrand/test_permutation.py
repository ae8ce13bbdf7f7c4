"""Orders and selections."""

from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats

from trnrand import Generator
from trnsci import ArgumentError, DtypeError
from trnsci.testing import BACKENDS


def test_every_order_is_as_likely():
    g = Generator(5)
    seen = Counter(tuple(g.permutation(4).tolist()) for _ in range(4800))
    assert len(seen) == 24
    assert stats.chisquare(list(seen.values())).pvalue > 1e-4


def test_permutation_and_shuffle_agree():
    x = torch.arange(30).view(10, 3)
    order = Generator(1).permutation(10)
    assert sorted(order.tolist()) == list(range(10))
    assert torch.equal(Generator(1).permutation(x), x[order])
    y = x.clone()
    assert Generator(1).shuffle(y) is y
    assert torch.equal(y, x[order])
    # in place whatever the array's memory; one that cannot be written is refused before the draw
    for z in (x.numpy().copy(), np.flip(x.numpy().copy()[::-1, ::-1]), x.numpy().astype(">i8")):
        g = Generator(1)
        assert g.shuffle(z) is z
        assert np.array_equal(z, y.numpy())
    z.flags.writeable = False
    before = g.get_state()
    with pytest.raises(ArgumentError, match="read-only"):
        g.shuffle(z)
    assert torch.equal(g.get_state(), before)
    assert Generator(1).permutation(0).shape == (0,)


def test_shares():
    x = torch.arange(11)
    calls = [lambda g: g.permutation(11), lambda g: g.permutation(x)]
    calls += [lambda g, n=n: g.choice(n, 5, replace=False) for n in (11, 40, 10**13)]
    for call in calls:
        parts = [call(Generator(1).partition(r, 3)) for r in range(3)]
        assert torch.equal(torch.cat(parts), call(Generator(1)))


def test_choice():
    x = Generator(1).choice(5, 10_000)
    assert stats.chisquare(torch.bincount(x).numpy()).pvalue > 1e-4
    p = torch.tensor([0.0, 1.0, 2.0, 0.0, 1.0])
    x = Generator(1).choice(torch.tensor([10, 20, 30, 40, 50]), 100, 100, p=p)
    assert x.shape == (100, 100)
    assert stats.chisquare([(x == v).sum() for v in (20, 30, 50)], [2500, 5000, 2500]).pvalue > 1e-4
    for weights in (None, torch.arange(1.0, 21.0)):
        x = Generator(1).choice(20, 4, 5, replace=False, p=weights)
        assert x.shape == (4, 5)
        assert len(set(x.flatten().tolist())) == 20
    g = Generator(2)
    first = Counter(int(g.choice(3, 2, replace=False, p=torch.tensor([1.0, 2.0, 5.0]))[0]) for _ in range(2000))
    assert stats.chisquare([first[k] for k in range(3)], [250, 500, 1250]).pvalue > 1e-4
    assert Generator(1).choice(torch.eye(3), 2).shape == (2, 3)


def test_few_of_many_are_drawn_without_the_others():
    g, backend = Generator(1), BACKENDS[1]
    assert len(set(g.choice(10**15, 1000, replace=False).tolist())) == 1000
    # an element of the stream for each, whatever there is to choose from
    assert g.position == 1000
    for n, wanted in ((16, 2), (2**33, 40), (8000, 1000)):
        x = Generator(3).choice(n, wanted, replace=False)
        assert len(set(x.tolist())) == wanted
        assert 0 <= x.min() <= x.max() < n
        with backend:
            assert torch.equal(Generator(3).choice(n, wanted, replace=False), x)
    pairs = Counter(tuple(g.choice(16, 2, replace=False).tolist()) for _ in range(4800))
    counts = [pairs[i, j] for i in range(16) for j in range(16) if i != j]
    assert sum(counts) == 4800
    assert stats.chisquare(counts).pvalue > 1e-4


def test_errors():
    g = Generator(1)
    for call, words in (
        (lambda: g.permutation(-1), "non-negative"),
        (lambda: g.permutation(torch.tensor(1)), "one axis"),
        (lambda: g.choice(0, 2), "at least one element"),
        (lambda: g.choice(3, 4, replace=False), "replace=True"),
        (lambda: g.choice(3, 2, replace=False, p=torch.tensor([1.0, 0.0, 0.0])), "replace=True"),
        (lambda: g.choice(3, 2, p=torch.ones(4)), "shape of p"),
        (lambda: g.partition(0, 2).shuffle(torch.arange(3)), "partitioned"),
    ):
        with pytest.raises(ArgumentError, match=words):
            call()
    for call in (lambda: g.permutation(1.5), lambda: g.shuffle([1]), lambda: g.choice(1.5, 2)):
        with pytest.raises(DtypeError):
            call()
    assert g.position == 0
