"""trnrand: one stream of bits, everywhere.

| name | what it is |
|---|---|
| `philox4x32`, `threefry4x32`, `bits` | words from counters and keys, words of a stream |
| `Stream` | a key and a position as a value: `split`, `fold_in`, `at`, `jump` |
| `Generator` | a seed with every distribution as a method; `partition`, `spawn`, `get_state` |
| `default_rng` | NumPy's ``default_rng``: its methods, spelt as there, with NumPy arrays as results |
| `manual_seed`, `get_state`, `set_state`, `advance`, `spawn`, `default_generator` | the default generator |
| `uniform`, `normal`, `gamma`, `poisson`, ... | the distributions, with ``generator=`` |
| `Sobol`, `Halton`, `LatinHypercube` | points that fill the cube evenly |
| `XORWOW`, `MRG32k3a`, `MT19937` | cuRAND's own streams on the host, to compare while porting |
| `sketch` | a Gaussian projection whose matrix is drawn on chip |
"""

__standalone__ = True

from typing import TYPE_CHECKING

from trnrand.binomial import binomial
from trnrand.bits import bits
from trnrand.continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    pareto,
    truncated_normal,
    von_mises,
    weibull,
)
from trnrand.curand import MT19937, XORWOW, MRG32k3a
from trnrand.device import probe
from trnrand.discrete import bernoulli, categorical, geometric, multinomial, negative_binomial, rademacher
from trnrand.gamma import gamma
from trnrand.gamma_family import beta, chi_squared, dirichlet, f, student_t
from trnrand.generator import Generator, advance, default_generator, get_state, manual_seed, set_state, spawn
from trnrand.halton import Halton
from trnrand.latin import LatinHypercube
from trnrand.multivariate import multivariate_normal, orthogonal, unit_vector
from trnrand.normal import normal, standard_normal
from trnrand.numpy_generator import NumpyGenerator, default_rng
from trnrand.permutation import choice, permutation, shuffle
from trnrand.philox import philox4x32
from trnrand.poisson import poisson
from trnrand.randint import integers, randint
from trnrand.sketch import sketch
from trnrand.sobol import Sobol
from trnrand.stream import Stream
from trnrand.threefry import threefry4x32
from trnrand.uniform import random, uniform
from trnsci import HAS_NKI, earlier, library_functions

set_backend, get_backend = library_functions("trnrand")

if not TYPE_CHECKING:
    __getattr__ = earlier.names(__name__)

__all__ = [
    "HAS_NKI",
    "MT19937",
    "XORWOW",
    "Generator",
    "Halton",
    "LatinHypercube",
    "MRG32k3a",
    "NumpyGenerator",
    "Sobol",
    "Stream",
    "advance",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chi_squared",
    "choice",
    "default_generator",
    "default_rng",
    "dirichlet",
    "exponential",
    "f",
    "gamma",
    "geometric",
    "get_backend",
    "get_state",
    "gumbel",
    "integers",
    "laplace",
    "logistic",
    "lognormal",
    "manual_seed",
    "multinomial",
    "multivariate_normal",
    "negative_binomial",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "philox4x32",
    "poisson",
    "probe",
    "rademacher",
    "randint",
    "random",
    "set_backend",
    "set_state",
    "shuffle",
    "sketch",
    "spawn",
    "standard_normal",
    "student_t",
    "threefry4x32",
    "truncated_normal",
    "uniform",
    "unit_vector",
    "von_mises",
    "weibull",
]
