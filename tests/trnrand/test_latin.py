"""Latin hypercubes."""

import pytest
import torch
from scipy.stats import kstest

from trnrand import Generator, LatinHypercube
from trnsci import ArgumentError
from trnsci.testing import assert_within, gamma


@pytest.mark.parametrize("jitter", [True, False])
def test_every_slice_holds_one_point(jitter):
    x = LatinHypercube(4, 137, jitter=jitter, generator=Generator(1)).random(137, dtype=torch.float64)
    for axis in range(4):
        assert sorted((x[:, axis] * 137).long().tolist()) == list(range(137))
    assert len({tuple((x[:, axis] * 137).long().tolist()) for axis in range(4)}) == 4
    if not jitter:
        assert_within(x * 137 % 1, torch.full_like(x, 0.5), 137 * gamma(3, x.dtype))


def test_parts_of_a_design():
    design = LatinHypercube(2, 50, generator=Generator(1))
    whole = design.at(0).random(50)
    assert torch.equal(torch.cat([design.random(20), design.random(30)]), whole)
    assert torch.equal(design.at(33).random(5), whole[33:38])
    with pytest.raises(ArgumentError) as caught:
        design.random(1)
    assert caught.value.got == {"position": 50, "n": 1, "points": 50}
    with pytest.raises(ArgumentError):
        LatinHypercube(2, 0)


def test_points_are_uniform():
    first = [LatinHypercube(1, 7, generator=Generator(s)).random(1, dtype=torch.float64).item() for s in range(300)]
    assert kstest(first, "uniform").pvalue > 1e-4
