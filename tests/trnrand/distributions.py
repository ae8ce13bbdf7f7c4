"""Every element-wise distribution, its parameters, and its law in scipy's words."""

import math

import numpy as np
import torch
from scipy import stats

# name: (arguments, scipy's frozen distribution)
CONTINUOUS = {
    "uniform": ({"low": -1.0, "high": 2.0}, stats.uniform(-1, 3)),
    "normal": ({"loc": 1.0, "scale": 2.0}, stats.norm(1, 2)),
    "lognormal": ({"loc": 0.5, "scale": 0.7}, stats.lognorm(0.7, scale=math.exp(0.5))),
    "exponential": ({"scale": 3.0}, stats.expon(scale=3)),
    "laplace": ({"loc": 1.0, "scale": 2.0}, stats.laplace(1, 2)),
    "cauchy": ({"loc": 1.0, "scale": 2.0}, stats.cauchy(1, 2)),
    "gumbel": ({"loc": 1.0, "scale": 2.0}, stats.gumbel_r(1, 2)),
    "logistic": ({"loc": 1.0, "scale": 2.0}, stats.logistic(1, 2)),
    "weibull": ({"shape": 1.7, "scale": 2.0}, stats.weibull_min(1.7, scale=2)),
    "pareto": ({"shape": 2.5, "scale": 2.0}, stats.pareto(2.5, scale=2)),
    "truncated_normal": ({"loc": 1.0, "scale": 2.0, "low": 2.0, "high": 9.0}, stats.truncnorm(0.5, 4.0, 1, 2)),
    "von_mises": ({"loc": 0.0, "concentration": 2.0}, stats.vonmises(2.0)),
    "gamma": ({"shape": 2.5, "scale": 2.0}, stats.gamma(2.5, scale=2)),
    "beta": ({"a": 0.5, "b": 2.0}, stats.beta(0.5, 2)),
    "chi_squared": ({"df": 3.0}, stats.chi2(3)),
    "student_t": ({"df": 4.0, "loc": 1.0, "scale": 2.0}, stats.t(4, 1, 2)),
    "f": ({"dfnum": 3.0, "dfden": 8.0}, stats.f(3, 8)),
}
DISCRETE = {
    "poisson": ({"rate": 4.0}, stats.poisson(4)),
    "bernoulli": ({"p": 0.3}, stats.bernoulli(0.3)),
    "geometric": ({"p": 0.2}, stats.geom(0.2)),
    "binomial": ({"n": 100, "p": 0.4}, stats.binom(100, 0.4)),
    "negative_binomial": ({"n": 3.5, "p": 0.4}, stats.nbinom(3.5, 0.4)),
    "randint": ({"low": -5, "high": 23}, stats.randint(-5, 23)),
}
ALL = {**CONTINUOUS, **DISCRETE, "rademacher": ({}, None)}


def chi_square(counts, law):
    """p-value of observed counts of whole numbers, tails put together so that every class expects at least 20."""
    n = sum(counts.values())
    low, high = (int(law.ppf(q)) for q in (1e-12, 1 - 1e-12))
    values = np.arange(low, high + 1)
    expected, observed = n * law.pmf(values), np.array([counts.get(int(v), 0) for v in values])
    groups, e, o = [], 0.0, 0
    for expects, seen in zip(expected, observed, strict=True):
        e, o = e + expects, o + seen
        if e >= 20:
            groups.append((e, o))
            e, o = 0.0, 0
    e, o = e + n - expected.sum(), o + n - observed.sum()
    groups[-1] = (groups[-1][0] + e, groups[-1][1] + o)
    statistic = sum((o - e) ** 2 / e for e, o in groups)
    return stats.chi2.sf(statistic, len(groups) - 1)


def deviance_size(x, m):
    """The magnitudes that `maths.deviance` adds up, and what a rounded ``m`` changes."""
    return torch.special.xlogy(x, x / m).abs() + (x - m).abs()
