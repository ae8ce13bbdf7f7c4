"""Types of trnrand: written by ``python -m tools.stubs`` from the signatures in the source."""

from typing import overload

import torch
from torch import Tensor

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
from trnrand.request import Size
from trnrand.sobol import Sobol as Sobol
from trnrand.source import Source
from trnrand.stream import Stream as Stream
from trnsci.arrays import Array
from trnsci.config import BackendName
from trnsci.nki import HAS_NKI as HAS_NKI

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

@overload
def bernoulli(
    *sizes: Size,
    size: Size | None = None,
    p: float | int | Tensor = 0.5,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def bernoulli(
    *sizes: Size,
    size: Size | None = None,
    p: float | int | Array = 0.5,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def bernoulli(
    *sizes: Size,
    size: Size | None = None,
    p: float | int | Tensor | Array = 0.5,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def beta(
    *sizes: Size,
    size: Size | None = None,
    a: float | int | Tensor,
    b: float | int | Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def beta(
    *sizes: Size,
    size: Size | None = None,
    a: float | int | Array,
    b: float | int | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def beta(
    *sizes: Size,
    size: Size | None = None,
    a: float | int | Tensor | Array,
    b: float | int | Tensor | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def binomial(
    *sizes: Size,
    size: Size | None = None,
    n: float | int | Tensor,
    p: float | int | Tensor = 0.5,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def binomial(
    *sizes: Size,
    size: Size | None = None,
    n: float | int | Array,
    p: float | int | Array = 0.5,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def binomial(
    *sizes: Size,
    size: Size | None = None,
    n: float | int | Tensor | Array,
    p: float | int | Tensor | Array = 0.5,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def categorical(
    *sizes: Size,
    size: Size | None = None,
    probs: Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def categorical(
    *sizes: Size,
    size: Size | None = None,
    probs: Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def categorical(
    *sizes: Size,
    size: Size | None = None,
    probs: Tensor | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def cauchy(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor = 0.0,
    scale: float | int | Tensor = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def cauchy(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Array = 0.0,
    scale: float | int | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def cauchy(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor | Array = 0.0,
    scale: float | int | Tensor | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def chi_squared(
    *sizes: Size,
    size: Size | None = None,
    df: float | int | Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def chi_squared(
    *sizes: Size,
    size: Size | None = None,
    df: float | int | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def chi_squared(
    *sizes: Size,
    size: Size | None = None,
    df: float | int | Tensor | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def choice(
    a: int | Tensor,
    *sizes: Size,
    size: Size | None = None,
    replace: bool = True,
    p: Tensor | None = None,
    device: torch.device | str | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def choice(
    a: int | Array,
    *sizes: Size,
    size: Size | None = None,
    replace: bool = True,
    p: Array | None = None,
    device: torch.device | str | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def choice(
    a: int | Tensor | Array,
    *sizes: Size,
    size: Size | None = None,
    replace: bool = True,
    p: Tensor | Array | None = None,
    device: torch.device | str | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def dirichlet(
    *sizes: Size,
    size: Size | None = None,
    alpha: Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def dirichlet(
    *sizes: Size,
    size: Size | None = None,
    alpha: Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def dirichlet(
    *sizes: Size,
    size: Size | None = None,
    alpha: Tensor | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def exponential(
    *sizes: Size,
    size: Size | None = None,
    scale: float | int | Tensor = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def exponential(
    *sizes: Size,
    size: Size | None = None,
    scale: float | int | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def exponential(
    *sizes: Size,
    size: Size | None = None,
    scale: float | int | Tensor | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def f(
    *sizes: Size,
    size: Size | None = None,
    dfnum: float | int | Tensor,
    dfden: float | int | Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def f(
    *sizes: Size,
    size: Size | None = None,
    dfnum: float | int | Array,
    dfden: float | int | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def f(
    *sizes: Size,
    size: Size | None = None,
    dfnum: float | int | Tensor | Array,
    dfden: float | int | Tensor | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def gamma(
    *sizes: Size,
    size: Size | None = None,
    shape: float | int | Tensor,
    scale: float | int | Tensor = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def gamma(
    *sizes: Size,
    size: Size | None = None,
    shape: float | int | Array,
    scale: float | int | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def gamma(
    *sizes: Size,
    size: Size | None = None,
    shape: float | int | Tensor | Array,
    scale: float | int | Tensor | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def geometric(
    *sizes: Size,
    size: Size | None = None,
    p: float | int | Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def geometric(
    *sizes: Size,
    size: Size | None = None,
    p: float | int | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def geometric(
    *sizes: Size,
    size: Size | None = None,
    p: float | int | Tensor | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
def get_backend() -> BackendName: ...
@overload
def gumbel(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor = 0.0,
    scale: float | int | Tensor = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def gumbel(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Array = 0.0,
    scale: float | int | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def gumbel(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor | Array = 0.0,
    scale: float | int | Tensor | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def integers(
    low: int,
    high: int | None = None,
    size: Size | None = None,
    *,
    dtype: torch.dtype | None = None,
    endpoint: bool = False,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def integers(
    low: int,
    high: int | None = None,
    size: Size | None = None,
    *,
    dtype: torch.dtype | None = None,
    endpoint: bool = False,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def laplace(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor = 0.0,
    scale: float | int | Tensor = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def laplace(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Array = 0.0,
    scale: float | int | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def laplace(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor | Array = 0.0,
    scale: float | int | Tensor | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def logistic(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor = 0.0,
    scale: float | int | Tensor = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def logistic(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Array = 0.0,
    scale: float | int | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def logistic(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor | Array = 0.0,
    scale: float | int | Tensor | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def lognormal(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor = 0.0,
    scale: float | int | Tensor = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def lognormal(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Array = 0.0,
    scale: float | int | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def lognormal(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor | Array = 0.0,
    scale: float | int | Tensor | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def multinomial(
    *sizes: Size,
    size: Size | None = None,
    n: float | int | Tensor,
    probs: Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def multinomial(
    *sizes: Size,
    size: Size | None = None,
    n: float | int | Array,
    probs: Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def multinomial(
    *sizes: Size,
    size: Size | None = None,
    n: float | int | Tensor | Array,
    probs: Tensor | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def multivariate_normal(
    *sizes: Size,
    size: Size | None = None,
    mean: Tensor,
    covariance: Tensor,
    method: str = "cholesky",
    dtype: torch.dtype | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def multivariate_normal(
    *sizes: Size,
    size: Size | None = None,
    mean: Array,
    covariance: Array,
    method: str = "cholesky",
    dtype: torch.dtype | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def multivariate_normal(
    *sizes: Size,
    size: Size | None = None,
    mean: Tensor | Array,
    covariance: Tensor | Array,
    method: str = "cholesky",
    dtype: torch.dtype | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def negative_binomial(
    *sizes: Size,
    size: Size | None = None,
    n: float | int | Tensor,
    p: float | int | Tensor = 0.5,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def negative_binomial(
    *sizes: Size,
    size: Size | None = None,
    n: float | int | Array,
    p: float | int | Array = 0.5,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def negative_binomial(
    *sizes: Size,
    size: Size | None = None,
    n: float | int | Tensor | Array,
    p: float | int | Tensor | Array = 0.5,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def normal(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor = 0.0,
    scale: float | int | Tensor = 1.0,
    method: str = "box-muller",
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def normal(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Array = 0.0,
    scale: float | int | Array = 1.0,
    method: str = "box-muller",
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def normal(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor | Array = 0.0,
    scale: float | int | Tensor | Array = 1.0,
    method: str = "box-muller",
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def pareto(
    *sizes: Size,
    size: Size | None = None,
    shape: float | int | Tensor,
    scale: float | int | Tensor = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def pareto(
    *sizes: Size,
    size: Size | None = None,
    shape: float | int | Array,
    scale: float | int | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def pareto(
    *sizes: Size,
    size: Size | None = None,
    shape: float | int | Tensor | Array,
    scale: float | int | Tensor | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def permutation(
    x: int | Tensor, *, device: torch.device | str | None = None, generator: Source | None = None
) -> Tensor: ...
@overload
def permutation(
    x: int | Array, *, device: torch.device | str | None = None, generator: Source | None = None
) -> Array: ...
@overload
def philox4x32(counter: Tensor, key: Tensor) -> Tensor: ...
@overload
def philox4x32(counter: Array, key: Array) -> Array: ...
@overload
def philox4x32(counter: Tensor | Array, key: Tensor | Array) -> Tensor: ...
@overload
def poisson(
    *sizes: Size,
    size: Size | None = None,
    rate: float | int | Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def poisson(
    *sizes: Size,
    size: Size | None = None,
    rate: float | int | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def poisson(
    *sizes: Size,
    size: Size | None = None,
    rate: float | int | Tensor | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def rademacher(
    *sizes: Size,
    size: Size | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def rademacher(
    *sizes: Size,
    size: Size | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def randint(
    *sizes: Size,
    size: Size | None = None,
    low: int = 0,
    high: int,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def randint(
    *sizes: Size,
    size: Size | None = None,
    low: int = 0,
    high: int,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def random(
    *sizes: Size,
    size: Size | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def random(
    *sizes: Size,
    size: Size | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
def set_backend(backend: BackendName | None, *, strict: bool = True) -> None: ...
def set_state(state: Array) -> Source: ...
@overload
def shuffle(x: Tensor, *, generator: Source | None = None) -> Tensor: ...
@overload
def shuffle(x: Array, *, generator: Source | None = None) -> Array: ...
@overload
def sketch(a: Tensor, size: int, *, generator: Source | None = None) -> Tensor: ...
@overload
def sketch(a: Array, size: int, *, generator: Source | None = None) -> Array: ...
@overload
def standard_normal(
    *sizes: Size,
    size: Size | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def standard_normal(
    *sizes: Size,
    size: Size | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def student_t(
    *sizes: Size,
    size: Size | None = None,
    df: float | int | Tensor,
    loc: float | int | Tensor = 0.0,
    scale: float | int | Tensor = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def student_t(
    *sizes: Size,
    size: Size | None = None,
    df: float | int | Array,
    loc: float | int | Array = 0.0,
    scale: float | int | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def student_t(
    *sizes: Size,
    size: Size | None = None,
    df: float | int | Tensor | Array,
    loc: float | int | Tensor | Array = 0.0,
    scale: float | int | Tensor | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def threefry4x32(counter: Tensor, key: Tensor) -> Tensor: ...
@overload
def threefry4x32(counter: Array, key: Array) -> Array: ...
@overload
def threefry4x32(counter: Tensor | Array, key: Tensor | Array) -> Tensor: ...
@overload
def truncated_normal(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor = 0.0,
    scale: float | int | Tensor = 1.0,
    low: float | int | Tensor = ...,
    high: float | int | Tensor = ...,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def truncated_normal(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Array = 0.0,
    scale: float | int | Array = 1.0,
    low: float | int | Array = ...,
    high: float | int | Array = ...,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def truncated_normal(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor | Array = 0.0,
    scale: float | int | Tensor | Array = 1.0,
    low: float | int | Tensor | Array = ...,
    high: float | int | Tensor | Array = ...,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def uniform(
    *sizes: Size,
    size: Size | None = None,
    low: float | int | Tensor = 0.0,
    high: float | int | Tensor = 1.0,
    ends: str = "[)",
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def uniform(
    *sizes: Size,
    size: Size | None = None,
    low: float | int | Array = 0.0,
    high: float | int | Array = 1.0,
    ends: str = "[)",
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def uniform(
    *sizes: Size,
    size: Size | None = None,
    low: float | int | Tensor | Array = 0.0,
    high: float | int | Tensor | Array = 1.0,
    ends: str = "[)",
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def unit_vector(
    *sizes: Size,
    size: Size | None = None,
    dim: int = 3,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def unit_vector(
    *sizes: Size,
    size: Size | None = None,
    dim: int = 3,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def von_mises(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor = 0.0,
    concentration: float | int | Tensor = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def von_mises(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Array = 0.0,
    concentration: float | int | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def von_mises(
    *sizes: Size,
    size: Size | None = None,
    loc: float | int | Tensor | Array = 0.0,
    concentration: float | int | Tensor | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def weibull(
    *sizes: Size,
    size: Size | None = None,
    shape: float | int | Tensor,
    scale: float | int | Tensor = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor: ...
@overload
def weibull(
    *sizes: Size,
    size: Size | None = None,
    shape: float | int | Array,
    scale: float | int | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array: ...
@overload
def weibull(
    *sizes: Size,
    size: Size | None = None,
    shape: float | int | Tensor | Array,
    scale: float | int | Tensor | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor: ...
