"""Normal numbers against Box and Muller's formula in mpmath's precision."""

import math

import numpy as np
import pytest
import torch
from scipy import special

from tests.trnrand.distributions import ALL
from trnrand import Generator, bits, normal
from trnsci.testing import BACKENDS, assert_within

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


def formula(words, bits_of_a_uniform):
    """Box and Muller in long double, from integers of so many bits, two to a pair."""
    k = np.asarray(words, dtype=np.longdouble)
    scale = np.longdouble(2.0) ** -bits_of_a_uniform
    radius = np.sqrt(-2 * np.log((k[0::2] + 1) * scale))
    angle = 2 * np.longdouble("3.14159265358979323846264338") * k[1::2] * scale
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).reshape(-1).astype(np.float64)


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])
def test_float32_stays_within_its_bound(backend, engine, loops):
    words = (bits(3, 0, 1400, engine=engine).long() >> 8).numpy()
    expected = torch.from_numpy(formula(words, 24))
    with backend:
        made = normal(1395, generator=Generator(3, engine=engine).advance(5))
    bound = 2.0**-21 + (2.0**-20 if backend.runs_kernels else 0)
    assert_within(made, expected[5:], bound * (1 + expected[5:].abs()))


@on_backends
def test_float64_stays_within_its_bound(backend, loops):
    words = bits(3, 0, 2800).long()
    wide = (words[1::2] << 21 | words[0::2] >> 11).numpy()
    expected = torch.from_numpy(formula(wide, 53))
    with backend:
        made = normal(1397, dtype=torch.float64, generator=Generator(3).advance(5))
    assert_within(made, expected[3:], 2.0**-49 * (1 + expected[3:].abs()))


def test_the_largest_radius_is_reached_and_finite():
    assert math.sqrt(-2 * math.log(2.0**-24)) < 5.77
    x = normal(10**6, generator=Generator(1))
    assert torch.isfinite(x).all()
    assert x.abs().max() <= 5.77


def test_the_inverse_method_is_the_quantile():
    u = Generator(1).uniform(1000, ends="()", dtype=torch.float64)
    z = normal(1000, method="inverse", dtype=torch.float64, generator=Generator(1))
    expected = torch.from_numpy(special.ndtri(u.numpy()))
    assert_within(z, expected, 4e-15 * expected.abs().clamp(min=0.01))


def test_pairs_do_not_feel_where_calls_begin():
    whole = Generator(2).normal(50, dtype=torch.float64)
    g = Generator(2)
    parts = [g.normal(n, dtype=torch.float64) for n in (1, 2, 3, 5, 39)]
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.cuda
@pytest.mark.parametrize("name", [n for n in ALL if n not in ("truncated_normal", "von_mises")])
@pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])
def test_the_same_bits_on_a_gpu(name, engine):
    arguments = ALL[name][0]
    expected = getattr(Generator(3, engine=engine).advance(5), name)(20_003, **arguments)
    made = getattr(Generator(3, engine=engine).advance(5), name)(20_003, device="cuda", **arguments)
    assert torch.equal(made.cpu(), expected)
