"""Sobol points against scipy's, and their scramblings by what they must preserve."""

import warnings

import numpy as np
import pytest
import torch
from scipy.stats import kstest, qmc

import trnsci
from trnrand import Generator, Sobol
from trnsci import ArgumentError, UnsupportedError
from trnsci.testing import BACKENDS

on_kernels = pytest.mark.parametrize("backend", [b for b in BACKENDS if b.runs_kernels], ids=str)


def scipy_points(d, offset, n):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        points = qmc.Sobol(d, scramble=False)
        return (points.fast_forward(offset) if offset else points).random(n)


@pytest.mark.parametrize(
    ("d", "offset", "n"), [(1, 0, 1000), (2, 3, 100), (40, 12345, 200), (1111, 7, 33), (21201, 5, 3)]
)
def test_agrees_with_scipy_point_for_point(d, offset, n, loops):
    made = Sobol(d).at(offset).random(n, dtype=torch.float64)
    assert np.array_equal(made.numpy(), scipy_points(d, offset, n))


@pytest.mark.grid(1)
@on_kernels
@pytest.mark.parametrize(("d", "offset", "n"), [(1, 0, 1), (3, 5, 700), (18, 1000, 300), (2, 511, 513), (1, 0, 66_000)])
@pytest.mark.parametrize("scramble", [False, "lms"])
def test_kernels_give_the_same_points(backend, d, offset, n, scramble):
    expected = Sobol(d, scramble=scramble, generator=Generator(1)).at(offset).random(n)
    with backend:
        made = Sobol(d, scramble=scramble, generator=Generator(1)).at(offset).random(n)
    assert torch.equal(made, expected)


@pytest.mark.parametrize("scramble", ["owen", "lms"])
def test_scrambling_keeps_every_elementary_interval(scramble):
    x = Sobol(2, scramble=scramble, generator=Generator(3)).random(256, dtype=torch.float64)
    for p in range(9):
        cells = (x[:, 0] * 2**p).long() * 2 ** (8 - p) + (x[:, 1] * 2 ** (8 - p)).long()
        # dimensions 1 and 2 are a (0, 8, 2)-net: one point in each of 256 boxes of every form
        assert cells.unique().numel() == 256


@pytest.mark.parametrize("scramble", ["owen", "lms"])
def test_scrambled_points_are_uniform(scramble):
    first = torch.stack(
        [Sobol(3, scramble=scramble, generator=Generator(s)).random(1, dtype=torch.float64)[0] for s in range(500)]
    )
    for axis in range(3):
        assert kstest(first[:, axis].numpy(), "uniform").pvalue > 1e-4


def test_owen_scrambling_integrates_better_than_order_n():
    def error(n):
        total = 0.0
        for seed in range(30):
            x = Sobol(4, scramble=True, generator=Generator(seed)).random(n, dtype=torch.float64)
            total += (torch.exp(x).prod(-1).mean() - (np.e - 1) ** 4).item() ** 2
        return (total / 30) ** 0.5

    # nested scrambling gives n**-1.5 for smooth integrands, plain Monte Carlo n**-0.5
    assert error(2048) < error(128) * 16**-1.1


def test_position_copies_and_dtypes():
    s = Sobol(3)
    a, b = s.random(5), s.random(6)
    assert torch.equal(torch.cat([a, b]), Sobol(3).random(11))
    assert s.position == 11
    assert torch.equal(s.reset().fast_forward(5).random(6), b)
    assert torch.equal(s.at(5).random(6), b)
    assert "position=11" in repr(s)
    for dtype in (torch.float16, torch.bfloat16):
        x = Sobol(1).random(5000, dtype=dtype)
        assert x.dtype == dtype
        assert x.max() < 1
    out = torch.empty(4, 3, dtype=torch.float64)
    assert Sobol(3).random(4, out=out) is out
    assert Sobol(2).random(0).shape == (0, 2)


def test_bits_are_the_points():
    raw = Sobol(3).bits(50)
    assert torch.equal((raw >> 11 & (1 << 53) - 1).double() * 2.0**-53, Sobol(3).random(50, dtype=torch.float64))


def test_scrambling_comes_from_the_generator():
    g = Generator(1)
    a, b = Sobol(2, scramble=True, generator=g), Sobol(2, scramble=True, generator=g)
    assert not torch.equal(a.random(4), b.random(4))
    assert g.position == 2
    assert torch.equal(a.reset().random(4), Sobol(2, scramble=True, generator=Generator(1)).random(4))


def test_errors_and_registration():
    for call, argument in (
        (lambda: Sobol(0), "d"),
        (lambda: Sobol(21202), "d"),
        (lambda: Sobol(2, scramble="faure"), "scramble"),
        (lambda: Sobol(2).random(-1), "n"),
        (lambda: Sobol(2).at(-1), "offset"),
    ):
        with pytest.raises(ArgumentError) as caught:
            call()
        assert caught.value.argument == argument
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match="float32"):
        Sobol(2).random(4, dtype=torch.float64)
