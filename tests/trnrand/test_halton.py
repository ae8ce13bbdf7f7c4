"""Halton points against scipy's."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest, qmc

import trnsci
from trnrand import Generator, Halton
from trnsci import ArgumentError, UnsupportedError
from trnsci.testing import BACKENDS, assert_within

on_kernels = pytest.mark.parametrize("backend", [b for b in BACKENDS if b.runs_kernels], ids=str)


@pytest.mark.grid(1)
@pytest.mark.parametrize(("d", "offset", "n"), [(1, 0, 500), (5, 3, 500), (30, 10**5, 300), (200, 17, 50)])
def test_agrees_with_scipy(d, offset, n, loops):
    expected = qmc.Halton(d, scramble=False).fast_forward(offset).random(n)
    # ours is rounded once; scipy adds up to 21 digits, each rounded
    assert_within(Halton(d).at(offset).random(n, dtype=torch.float64), torch.from_numpy(expected), 21 * 2.0**-53)


@on_kernels
@pytest.mark.parametrize(("d", "offset", "n"), [(1, 0, 1), (3, 1000, 700), (18, 2**22 - 600, 600)])
def test_kernels_stay_within_a_rounding_for_every_digit(backend, d, offset, n):
    expected = Halton(d).at(offset).random(n, dtype=torch.float64)
    with backend:
        made = Halton(d).at(offset).random(n)
    assert made.max() < 1
    assert_within(made, expected, 22 * 2.0**-24)


@pytest.mark.grid(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("offset", [0, 10**6, 2**33, 2**44])
def test_both_ways_give_the_same_bits(offset, dtype, pure):
    def points():
        return Halton(40).at(offset).random(60, dtype=dtype)

    assert torch.equal(points(), pure(points))


def test_scrambled_points():
    x = Halton(3, scramble=True, generator=Generator(1)).random(3000, dtype=torch.float64)
    for axis, base in enumerate((2, 3, 5)):
        # permuted digits still visit every one of the first base**k intervals equally often
        counts = torch.bincount((x[:, axis] * base).long(), minlength=base)
        assert counts.max() - counts.min() <= 1
    first = torch.stack(
        [Halton(2, scramble=True, generator=Generator(s)).random(1, dtype=torch.float64)[0] for s in range(300)]
    )
    assert kstest(first[:, 1].numpy(), "uniform").pvalue > 1e-4
    s = Halton(3, scramble=True, generator=Generator(1))
    assert torch.equal(torch.cat([s.random(10), s.random(20)]), s.at(0).random(30))
    # the mean of squared centred discrepancies of independent points
    independent = ((5 / 4) ** 3 - (13 / 12) ** 3) / 1024
    assert qmc.discrepancy(x.numpy()[:1024]) < independent / 4


def test_narrow_dtypes_stay_below_one():
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        assert Halton(2).random(4096, dtype=dtype).max() < 1


def test_errors_and_registration():
    with pytest.raises(ArgumentError, match="1 to 10000"):
        Halton(10001)
    with pytest.raises(ArgumentError, match="no more points"):
        Halton(2).at(2**45).random(1)
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match="4194304"):
        Halton(2).at(2**22).random(4)
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match="float32"):
        Halton(2).random(4, dtype=torch.float64)
    assert np.isclose(Halton(2).at(1).random(1)[0, 1].item(), 1 / 3)
