"""Types of trnrand: written by ``python -m tools.stubs`` from the signatures in the source."""

from trnrand._types import (
    bernoulli as bernoulli,
    beta as beta,
    binomial as binomial,
    categorical as categorical,
    cauchy as cauchy,
    chi_squared as chi_squared,
    choice as choice,
    dirichlet as dirichlet,
    exponential as exponential,
    f as f,
    gamma as gamma,
    geometric as geometric,
    get_backend as get_backend,
    gumbel as gumbel,
    integers as integers,
    laplace as laplace,
    logistic as logistic,
    lognormal as lognormal,
    multinomial as multinomial,
    multivariate_normal as multivariate_normal,
    negative_binomial as negative_binomial,
    normal as normal,
    pareto as pareto,
    permutation as permutation,
    philox4x32 as philox4x32,
    poisson as poisson,
    rademacher as rademacher,
    randint as randint,
    random as random,
    set_backend as set_backend,
    set_state as set_state,
    shuffle as shuffle,
    sketch as sketch,
    standard_normal as standard_normal,
    student_t as student_t,
    threefry4x32 as threefry4x32,
    truncated_normal as truncated_normal,
    uniform as uniform,
    unit_vector as unit_vector,
    von_mises as von_mises,
    weibull as weibull,
)
from trnrand.bits import bits as bits
from trnrand.curand import MT19937 as MT19937, XORWOW as XORWOW, MRG32k3a as MRG32k3a
from trnrand.device import probe as probe
from trnrand.generator import (
    Generator as Generator,
    advance as advance,
    default_generator as default_generator,
    get_state as get_state,
    manual_seed as manual_seed,
    spawn as spawn,
)
from trnrand.halton import Halton as Halton
from trnrand.latin import LatinHypercube as LatinHypercube
from trnrand.multivariate import orthogonal as orthogonal
from trnrand.numpy_generator import NumpyGenerator as NumpyGenerator, default_rng as default_rng
from trnrand.sobol import Sobol as Sobol
from trnrand.stream import Stream as Stream
from trnsci.nki import HAS_NKI as HAS_NKI
