"""trnrand: one stream of bits, everywhere.

| name | what it is |
|---|---|
| `philox4x32`, `threefry4x32`, `bits` | words from counters and keys, words of a stream |
| `Stream` | a key and a position as a value: `split`, `fold_in`, `at`, `jump` |
| `Generator` | a seed with every distribution as a method; `partition`, `spawn`, `get_state` |
| `manual_seed`, `get_state`, `set_state`, `advance`, `spawn`, `default_generator` | the generator of module-level functions |
| `uniform`, `normal`, `gamma`, `poisson`, ... | the distributions, with ``generator=`` |
"""

from trnrand.bits import bits, philox4x32, threefry4x32
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
from trnrand.discrete import (
    bernoulli,
    binomial,
    categorical,
    geometric,
    multinomial,
    negative_binomial,
    rademacher,
    randint,
)
from trnrand.gamma import gamma
from trnrand.gammas import beta, chi_squared, dirichlet, f, student_t
from trnrand.generator import Generator, advance, default_generator, get_state, manual_seed, set_state, spawn
from trnrand.multivariate import multivariate_normal, orthogonal, unit_vector
from trnrand.normal import normal
from trnrand.permutation import choice, permutation, shuffle
from trnrand.poisson import poisson
from trnrand.stream import Stream
from trnrand.uniform import uniform
from trnsci import HAS_NKI, library_functions

set_backend, get_backend = library_functions("trnrand")
