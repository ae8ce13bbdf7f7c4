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

from trnrand.binomial import binomial as binomial
from trnrand.bits import bits as bits
from trnrand.continuous import (
    cauchy as cauchy,
    exponential as exponential,
    gumbel as gumbel,
    laplace as laplace,
    logistic as logistic,
    lognormal as lognormal,
    pareto as pareto,
    truncated_normal as truncated_normal,
    von_mises as von_mises,
    weibull as weibull,
)
from trnrand.curand import MT19937 as MT19937, XORWOW as XORWOW, MRG32k3a as MRG32k3a
from trnrand.device import probe as probe
from trnrand.discrete import (
    bernoulli as bernoulli,
    categorical as categorical,
    geometric as geometric,
    multinomial as multinomial,
    negative_binomial as negative_binomial,
    rademacher as rademacher,
)
from trnrand.gamma import gamma as gamma
from trnrand.gamma_family import (
    beta as beta,
    chi_squared as chi_squared,
    dirichlet as dirichlet,
    f as f,
    student_t as student_t,
)
from trnrand.generator import (
    Generator as Generator,
    advance as advance,
    default_generator as default_generator,
    get_state as get_state,
    manual_seed as manual_seed,
    set_state as set_state,
    spawn as spawn,
)
from trnrand.halton import Halton as Halton
from trnrand.latin import LatinHypercube as LatinHypercube
from trnrand.multivariate import (
    multivariate_normal as multivariate_normal,
    orthogonal as orthogonal,
    unit_vector as unit_vector,
)
from trnrand.normal import normal as normal, standard_normal as standard_normal
from trnrand.numpy_generator import NumpyGenerator as NumpyGenerator, default_rng as default_rng
from trnrand.permutation import choice as choice, permutation as permutation, shuffle as shuffle
from trnrand.philox import philox4x32 as philox4x32
from trnrand.poisson import poisson as poisson
from trnrand.randint import integers as integers, randint as randint
from trnrand.sketch import sketch as sketch
from trnrand.sobol import Sobol as Sobol
from trnrand.stream import Stream as Stream
from trnrand.threefry import threefry4x32 as threefry4x32
from trnrand.uniform import random as random, uniform as uniform
from trnsci import HAS_NKI as HAS_NKI, earlier, library_functions as _library_functions
from trnsim.lazy import export as _export

set_backend, get_backend = _library_functions("trnrand")
earlier.spell(__name__)
_export(__name__)
