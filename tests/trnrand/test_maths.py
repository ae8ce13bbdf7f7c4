"""The functions every device computes alike: accuracy against mpmath, and the same bits with and without C."""

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import special

from tests.trnrand.distributions import deviance_size
from trnrand import maths
from trnrand.binomial import log_complement
from trnrand.maths import normal_quantile
from trnsci.testing import assert_within, gamma

F64 = torch.float64


def spread(low, high, n=2000):
    return torch.from_numpy(np.random.Generator(np.random.Philox(1)).uniform(low, high, n))


CASES = {
    "log": (maths.log, mpmath.log, torch.exp(spread(-700, 700)), 1.0),
    "log near 1": (maths.log, mpmath.log, 1.0 + spread(-1e-6, 1e-6), 1.0),
    "exp": (maths.exp, mpmath.exp, spread(-700, 700), 1.0),
}


@pytest.mark.grid(1)
@pytest.mark.parametrize("name", CASES)
def test_error_is_below_an_ulp(name, loops):
    function, oracle, x, ulps = CASES[name]
    got = function(x)
    with mpmath.workdps(40):
        exact = [oracle(mpmath.mpf(float(v))) for v in x]
    with mpmath.workdps(40):
        pairs = zip(got, exact, strict=True)
        error = max(abs((mpmath.mpf(float(g)) - e) / math.ulp(abs(float(e)))) for g, e in pairs)
    assert error <= ulps


def test_turns(loops):
    t = torch.cat([spread(0, 1), torch.arange(8) / 8.0, torch.tensor([1.0 - 2.0**-53])]).double()
    sine, cosine = maths.sincos2pi(t)
    for got, oracle in ((sine, mpmath.sin), (cosine, mpmath.cos)):
        with mpmath.workdps(40):
            exact = torch.tensor([float(oracle(2 * mpmath.pi * mpmath.mpf(float(v)))) for v in t], dtype=torch.float64)
        assert (got - exact).abs().max() <= 2.0**-52


def test_both_ways_give_the_same_bits(pure):
    x, u = torch.exp(spread(-600, 600)), spread(0, 1)
    for function in (lambda: maths.log(x), lambda: maths.exp(maths.log(x)), lambda: torch.stack(maths.sincos2pi(u))):
        assert torch.equal(function(), pure(function))


def test_float32_functions():
    k = torch.cat([torch.arange(1, 3000), torch.randint(1, 2**24, (3000,), generator=torch.Generator().manual_seed(1))])
    u = (k.float() * 2.0**-24).double()
    assert ((maths.log32(u.float()) - u.log()).abs() <= 2.0**-23 * (1 + u.log().abs())).all()
    sine, cosine = maths.sincos2pi32(k)
    assert (sine - torch.sin(2 * math.pi * u)).abs().max() < 2.0**-22
    assert (cosine - torch.cos(2 * math.pi * u)).abs().max() < 2.0**-22


def _quantile(p):
    x = mpmath.mpf(float(special.ndtri(float(p))))
    for _ in range(3):
        x -= (mpmath.ncdf(x) - p) / mpmath.npdf(x)
    return x


def test_quantile_deviance_and_chances():
    p = torch.cat([spread(0, 1, 200), 10.0 ** spread(-300, -3, 200), 0.5 + spread(-1e-3, 1e-3, 50)])
    with mpmath.workdps(40):
        expected = torch.from_numpy(np.array([_quantile(mpmath.mpf(float(v))) for v in p], float))
    assert_within(normal_quantile(p), expected, 1e-15 * expected.abs())  # as stated
    k, rate = torch.arange(400).double(), torch.full((400,), 123.4, dtype=torch.float64)
    with mpmath.workdps(40):
        mean = mpmath.mpf(123.4)
        exact = [i * mpmath.log(mean) - mean - mpmath.loggamma(i + 1) for i in range(400)]
    # a deviance, Stirling's rest and half a logarithm, of at most 40 roundings each
    assert_within(maths.log_poisson(k, rate), np.array(exact, float), gamma(40, F64) * (5 + deviance_size(k, rate)))
    tiny = torch.tensor([1e-300, 1e-17, 1e-9, 0.3], dtype=torch.float64)
    # a logarithm within an ulp, a quotient, a product, and the oracle's ulp
    assert_within(log_complement(tiny), torch.log1p(-tiny), gamma(6, F64) * torch.log1p(-tiny).abs())


def test_gradients():
    x = spread(0.5, 3, 20).requires_grad_()
    for function in (maths.log, maths.exp, maths.sqrt, lambda x: maths.power(x, 1.7)):
        assert torch.autograd.gradcheck(function, (x,))
