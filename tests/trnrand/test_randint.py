"""Integers of any range."""

import pytest
import torch
from scipy import stats

from tests.together import together
from trnrand import Generator
from trnsci import ArgumentError, DtypeError
from trnsci.testing import BACKENDS

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


@together("span", [1, 2, 3, 2**31 + 1, 2**32, 2**32 + 1, 3 * 2**60, 2**64])
def test_integers_of_any_range_are_even(span):
    low = -(2**63) if span > 2**62 else -5
    x = Generator(6).randint(60_000, low=low, high=low + span).tolist()
    assert min(x) >= low
    assert max(x) < low + span
    parts = min(span, 60)
    counts = torch.bincount(torch.tensor([(v - low) * parts // span for v in x]), minlength=parts)
    assert (
        parts == 1
        or stats.chisquare(counts.numpy(), [60_000 * _share(i, parts, span) for i in range(parts)]).pvalue > 1e-4
    )


def _share(i, parts, span):
    """How much of ``span`` integers falls into class i of (value * parts // span)."""
    return (-(-(i + 1) * span // parts) + -(i * span // -parts) * -1) / span


def test_rejected_words_are_drawn_again():
    # a quarter of all words falls into the uneven rest of this range
    span = 3 * 2**30
    whole = Generator(2).randint(2000, high=span)
    g = Generator(2)
    assert torch.equal(torch.cat([g.randint(700, high=span), g.randint(1300, high=span)]), whole)
    assert whole.max() < span
    counts = torch.bincount(whole // 2**30, minlength=3)
    assert stats.chisquare(counts.numpy()).pvalue > 1e-4


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])
@pytest.mark.parametrize("span", [1, 7, 3 * 2**30, 2**32, 2**32 + 1, 2**60 + 1, 2**64])
def test_every_way_gives_the_same_bits(backend, engine, span, pure):
    low = -(2**63) if span > 2**62 else -5

    def draw():
        # begins inside a block
        return Generator(3, engine=engine).advance(3).randint(301, low=low, high=low + span)

    with backend:
        made = draw()
    assert torch.equal(made, pure(draw))


def test_threads_do_not_change_the_integers():
    before = torch.get_num_threads()
    try:
        made = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            made.append([Generator(3).advance(1).randint(200_001, high=high) for high in (3 * 2**30, 2**60 + 1)])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*made, strict=True))


def test_errors_leave_the_generator_alone():
    g = Generator(1)
    with pytest.raises(ArgumentError, match="low must be less than high") as caught:
        g.randint(2, low=5, high=2)
    assert caught.value.got == {"low": 5, "high": 2}
    with pytest.raises(ArgumentError, match="int64"):
        g.randint(2, high=2**63 + 1)
    with pytest.raises(DtypeError, match="an integer"):
        g.randint(2, high=2.5)
    assert g.position == 0
