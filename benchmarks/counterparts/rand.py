"""trnrand beside NumPy's generator, and beside torch where NumPy has no such distribution."""

from __future__ import annotations

from functools import partial as f
from typing import Any

import numpy as np
import scipy.stats
import torch
from scipy.stats import qmc

import trnrand
from benchmarks.counterparts import Cases, double

ALONE = {
    "get_backend": "a setting",
    "set_backend": "a setting",
    "probe": "runs on a device only",
    "default_generator": "a setting",
    "default_rng": "a setting",
    "manual_seed": "a setting",
    "spawn": "a value that calls are made with",
    "advance": "moves a position",
}


def cases(n: int) -> Cases:
    """Calls for n by n numbers."""
    return {**_continuous(n * n), **_discrete(n * n), **_shaped(n), **_words(n * n), **_quasi(n)}


def _continuous(count: int) -> Cases:
    rng, generator = np.random.default_rng(1), torch.Generator().manual_seed(1)
    return {
        "uniform": (f(trnrand.uniform, count), "torch.rand", f(torch.rand, count, generator=generator)),
        "random": (f(trnrand.random, count), "torch.rand", f(torch.rand, count, generator=generator)),
        "normal": (f(trnrand.normal, count), "torch.randn", f(torch.randn, count, generator=generator)),
        "standard_normal": (
            f(trnrand.standard_normal, count),
            "torch.randn",
            f(torch.randn, count, generator=generator),
        ),
        "lognormal": (f(trnrand.lognormal, count), "numpy", f(rng.lognormal, size=count)),
        "exponential": (f(trnrand.exponential, count), "numpy", f(rng.exponential, size=count)),
        "laplace": (f(trnrand.laplace, count), "numpy", f(rng.laplace, size=count)),
        "gumbel": (f(trnrand.gumbel, count), "numpy", f(rng.gumbel, size=count)),
        "logistic": (f(trnrand.logistic, count), "numpy", f(rng.logistic, size=count)),
        "cauchy": (f(trnrand.cauchy, count), "numpy", f(rng.standard_cauchy, size=count)),
        "weibull": (f(trnrand.weibull, count, shape=2.0), "numpy", f(rng.weibull, 2.0, size=count)),
        "pareto": (f(trnrand.pareto, count, shape=2.0), "numpy", f(rng.pareto, 2.0, size=count)),
        "truncated_normal": (
            f(trnrand.truncated_normal, count, low=-2.0, high=2.0),
            "torch trunc_normal_",
            lambda: torch.nn.init.trunc_normal_(torch.empty(count), generator=generator),
        ),
        "von_mises": (f(trnrand.von_mises, count), "numpy", f(rng.vonmises, 0.0, 1.0, size=count)),
        "gamma": (f(trnrand.gamma, count, shape=2.5), "numpy", f(rng.gamma, 2.5, size=count)),
        "beta": (f(trnrand.beta, count, a=2.0, b=3.0), "numpy", f(rng.beta, 2.0, 3.0, size=count)),
        "chi_squared": (f(trnrand.chi_squared, count, df=3.0), "numpy", f(rng.chisquare, 3.0, size=count)),
        "student_t": (f(trnrand.student_t, count, df=3.0), "numpy", f(rng.standard_t, 3.0, size=count)),
        "f": (f(trnrand.f, count, dfnum=3.0, dfden=4.0), "numpy", f(rng.f, 3.0, 4.0, size=count)),
    }


def _discrete(count: int) -> Cases:
    rng, generator = np.random.default_rng(1), torch.Generator().manual_seed(1)
    probs = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    many = 20 * count
    return {
        "poisson": (f(trnrand.poisson, count, rate=4.0), "numpy", f(rng.poisson, 4.0, size=count)),
        "binomial": (f(trnrand.binomial, count, n=20, p=0.3), "numpy", f(rng.binomial, 20, 0.3, size=count)),
        "negative_binomial": (
            f(trnrand.negative_binomial, count, n=5, p=0.3),
            "numpy",
            f(rng.negative_binomial, 5, 0.3, size=count),
        ),
        "geometric": (f(trnrand.geometric, count, p=0.3), "numpy", f(rng.geometric, 0.3, size=count)),
        "bernoulli": (
            f(trnrand.bernoulli, count, p=0.3),
            "torch.rand",
            lambda: torch.rand(count, generator=generator) < 0.3,
        ),
        "rademacher": (f(trnrand.rademacher, count), "numpy", lambda: 2 * rng.integers(0, 2, count, np.int8) - 1),
        "randint": (f(trnrand.randint, count, high=1000), "numpy", f(rng.integers, 0, 1000, count)),
        "integers": (f(trnrand.integers, 0, 1000, count), "numpy", f(rng.integers, 0, 1000, count)),
        "categorical": (
            f(trnrand.categorical, count, probs=probs),
            "torch.multinomial",
            f(torch.multinomial, probs, count, replacement=True, generator=generator),
        ),
        "multinomial": (
            f(trnrand.multinomial, count, n=20, probs=probs),
            "numpy",
            f(rng.multinomial, 20, probs.numpy(), size=count),
        ),
        "permutation": (f(trnrand.permutation, count), "torch.randperm", f(torch.randperm, count, generator=generator)),
        "choice": (f(trnrand.choice, 1000, count), "numpy", f(rng.choice, 1000, count)),
        "choice distinct": (
            f(trnrand.choice, many, count // 8, replace=False),
            "numpy",
            f(rng.choice, many, count // 8, replace=False),
        ),
        "choice few": (f(trnrand.choice, many, 10, replace=False), "numpy", f(rng.choice, many, 10, replace=False)),
    }


def _shaped(n: int) -> Cases:
    rng, few = np.random.default_rng(1), 4
    x, array = double(n, n), np.empty((n, n))
    mean, covariance = torch.zeros(few, dtype=torch.float64), torch.eye(few, dtype=torch.float64)
    plain = mean.numpy(), covariance.numpy()
    return {
        "shuffle": (f(trnrand.shuffle, x.clone()), "numpy", f(rng.shuffle, array)),
        "multivariate_normal": (
            f(trnrand.multivariate_normal, n * n, mean=mean, covariance=covariance),
            "numpy",
            f(rng.multivariate_normal, *plain, size=n * n, method="cholesky"),
        ),
        "dirichlet": (
            f(trnrand.dirichlet, n * n, alpha=torch.ones(few)),
            "numpy",
            f(rng.dirichlet, np.ones(few), size=n * n),
        ),
        "unit_vector": (
            f(trnrand.unit_vector, n * n, dim=3),
            "numpy, normalised",
            lambda: (v := rng.standard_normal((n * n, 3))) / np.linalg.norm(v, axis=1, keepdims=True),
        ),
        "orthogonal": (f(trnrand.orthogonal, n=n), "scipy.stats", f(scipy.stats.ortho_group.rvs, n, random_state=rng)),
        "sketch": (
            f(trnrand.sketch, x, 4),
            "torch, two calls",
            lambda: torch.randn(4, n, dtype=torch.float64) @ x,
        ),
    }


def _words(count: int) -> Cases:
    philox, counter, key = np.random.Philox(1), torch.zeros(count // 4, 4, dtype=torch.int64), torch.zeros(2).long()
    wide = torch.zeros(4, dtype=torch.int64)
    raw = f(philox.random_raw, count // 2)
    generator = trnrand.Generator(1)
    state, torch_state = generator.get_state(), torch.get_rng_state()
    return {
        "bits": (f(trnrand.bits, 1, 0, count), "numpy Philox", raw),
        "philox4x32": (f(trnrand.philox4x32, counter, key), "numpy Philox", raw),
        "threefry4x32": (f(trnrand.threefry4x32, counter, wide), "numpy Philox", raw),
        "get_state": (trnrand.get_state, "torch", torch.get_rng_state),
        "set_state": (f(trnrand.set_state, state), "torch", f(torch.set_rng_state, torch_state)),
        "XORWOW": (f(trnrand.XORWOW(1).words, count), "numpy Philox", raw),
        "MRG32k3a": (f(trnrand.MRG32k3a(1).words, count), "numpy Philox", raw),
        "MT19937": (f(trnrand.MT19937(1).words, count), "numpy MT19937", f(np.random.MT19937(1).random_raw, count)),
    }


def _quasi(n: int) -> Cases:
    points = 1 << (n * n // 4).bit_length()
    table: Cases = {}
    for name, scramble in (("Sobol", False), ("Sobol owen", "owen"), ("Sobol lms", "lms"), ("Halton", False)):
        ours = getattr(trnrand, name.partition(" ")[0])(4, scramble=scramble)
        theirs = getattr(qmc, name.partition(" ")[0])(4, scramble=bool(scramble))
        table[name] = (
            lambda ours=ours: ours.reset().random(points),
            "scipy.stats.qmc",
            lambda theirs=theirs: theirs.reset().random(points),
        )
    cube = qmc.LatinHypercube(4)
    table["LatinHypercube"] = (
        lambda: trnrand.LatinHypercube(4, points).random(points),
        "scipy.stats.qmc",
        f(cube.random, points),
    )
    return table


def _again(sequence: Any, points: int) -> Any:
    """Draw the first points of a sequence."""
    return sequence.reset().random(points)
