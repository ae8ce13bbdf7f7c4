"""Types of trnrand: written by ``python -m tools.stubs`` from the signatures in the source."""

from typing import overload

import torch
from torch import Tensor

from trnrand.request import Size
from trnrand.source import Source
from trnsci.arrays import Array
from trnsci.config import BackendName

@overload
def bernoulli(
    *sizes: Size,
    size: Size | None = None,
    p: float | int | Tensor = 0.5,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw Bernoulli trials: 1 with chance ``p``, else 0."""

@overload
def bernoulli(
    *sizes: Size,
    size: Size | None = None,
    p: float | int | Array = 0.5,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array:
    """Draw Bernoulli trials: 1 with chance ``p``, else 0."""

@overload
def bernoulli(
    *sizes: Size,
    size: Size | None = None,
    p: float | int | Tensor | Array = 0.5,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw Bernoulli trials: 1 with chance ``p``, else 0."""

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
) -> Tensor:
    """Draw beta numbers in [0, 1]: density proportional to ``x**(a - 1) * (1 - x)**(b - 1)``."""

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
) -> Array:
    """Draw beta numbers in [0, 1]: density proportional to ``x**(a - 1) * (1 - x)**(b - 1)``."""

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
) -> Tensor:
    """Draw beta numbers in [0, 1]: density proportional to ``x**(a - 1) * (1 - x)**(b - 1)``."""

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
) -> Tensor:
    """Draw binomial counts: successes in ``n`` independent trials."""

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
) -> Array:
    """Draw binomial counts: successes in ``n`` independent trials."""

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
) -> Tensor:
    """Draw binomial counts: successes in ``n`` independent trials."""

@overload
def categorical(
    *sizes: Size,
    size: Size | None = None,
    probs: Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw category indices 0 .. K - 1, each as likely as its share of ``probs``."""

@overload
def categorical(
    *sizes: Size,
    size: Size | None = None,
    probs: Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array:
    """Draw category indices 0 .. K - 1, each as likely as its share of ``probs``."""

@overload
def categorical(
    *sizes: Size,
    size: Size | None = None,
    probs: Tensor | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw category indices 0 .. K - 1, each as likely as its share of ``probs``."""

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
) -> Tensor:
    """Draw Cauchy numbers: ratios of two normal ones, shifted and scaled."""

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
) -> Array:
    """Draw Cauchy numbers: ratios of two normal ones, shifted and scaled."""

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
) -> Tensor:
    """Draw Cauchy numbers: ratios of two normal ones, shifted and scaled."""

@overload
def chi_squared(
    *sizes: Size,
    size: Size | None = None,
    df: float | int | Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw chi-squared numbers: gamma variates of shape ``df / 2`` and scale 2."""

@overload
def chi_squared(
    *sizes: Size,
    size: Size | None = None,
    df: float | int | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array:
    """Draw chi-squared numbers: gamma variates of shape ``df / 2`` and scale 2."""

@overload
def chi_squared(
    *sizes: Size,
    size: Size | None = None,
    df: float | int | Tensor | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw chi-squared numbers: gamma variates of shape ``df / 2`` and scale 2."""

@overload
def choice(
    a: int | Tensor,
    *sizes: Size,
    size: Size | None = None,
    replace: bool = True,
    p: Tensor | None = None,
    device: torch.device | str | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw elements of ``0 .. a - 1``, or rows of a tensor."""

@overload
def choice(
    a: int | Array,
    *sizes: Size,
    size: Size | None = None,
    replace: bool = True,
    p: Array | None = None,
    device: torch.device | str | None = None,
    generator: Source | None = None,
) -> Array:
    """Draw elements of ``0 .. a - 1``, or rows of a tensor."""

@overload
def choice(
    a: int | Tensor | Array,
    *sizes: Size,
    size: Size | None = None,
    replace: bool = True,
    p: Tensor | Array | None = None,
    device: torch.device | str | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw elements of ``0 .. a - 1``, or rows of a tensor."""

@overload
def dirichlet(
    *sizes: Size,
    size: Size | None = None,
    alpha: Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw Dirichlet vectors: K non-negative numbers that sum to 1."""

@overload
def dirichlet(
    *sizes: Size,
    size: Size | None = None,
    alpha: Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array:
    """Draw Dirichlet vectors: K non-negative numbers that sum to 1."""

@overload
def dirichlet(
    *sizes: Size,
    size: Size | None = None,
    alpha: Tensor | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw Dirichlet vectors: K non-negative numbers that sum to 1."""

@overload
def exponential(
    *sizes: Size,
    size: Size | None = None,
    scale: float | int | Tensor = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw exponential numbers of mean ``scale``."""

@overload
def exponential(
    *sizes: Size,
    size: Size | None = None,
    scale: float | int | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array:
    """Draw exponential numbers of mean ``scale``."""

@overload
def exponential(
    *sizes: Size,
    size: Size | None = None,
    scale: float | int | Tensor | Array = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw exponential numbers of mean ``scale``."""

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
) -> Tensor:
    """Draw Fisher's F: the ratio of two chi-squared numbers, each over its degrees of freedom."""

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
) -> Array:
    """Draw Fisher's F: the ratio of two chi-squared numbers, each over its degrees of freedom."""

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
) -> Tensor:
    """Draw Fisher's F: the ratio of two chi-squared numbers, each over its degrees of freedom."""

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
) -> Tensor:
    """Draw gamma variates: density proportional to ``x**(shape - 1) * exp(-x / scale)``."""

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
) -> Array:
    """Draw gamma variates: density proportional to ``x**(shape - 1) * exp(-x / scale)``."""

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
) -> Tensor:
    """Draw gamma variates: density proportional to ``x**(shape - 1) * exp(-x / scale)``."""

@overload
def geometric(
    *sizes: Size,
    size: Size | None = None,
    p: float | int | Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw geometric counts: trials up to and including the first success, 1, 2, 3, ..."""

@overload
def geometric(
    *sizes: Size,
    size: Size | None = None,
    p: float | int | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array:
    """Draw geometric counts: trials up to and including the first success, 1, 2, 3, ..."""

@overload
def geometric(
    *sizes: Size,
    size: Size | None = None,
    p: float | int | Tensor | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw geometric counts: trials up to and including the first success, 1, 2, 3, ..."""

def get_backend() -> BackendName:
    """Return the backend of trnrand in force here."""

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
) -> Tensor:
    """Draw Gumbel numbers: the distribution of the largest of many."""

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
) -> Array:
    """Draw Gumbel numbers: the distribution of the largest of many."""

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
) -> Tensor:
    """Draw Gumbel numbers: the distribution of the largest of many."""

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
) -> Tensor:
    """Draw integers as ``numpy.random.Generator.integers`` does; the numbers are those of `randint`."""

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
) -> Array:
    """Draw integers as ``numpy.random.Generator.integers`` does; the numbers are those of `randint`."""

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
) -> Tensor:
    """Draw Laplace (double exponential) numbers."""

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
) -> Array:
    """Draw Laplace (double exponential) numbers."""

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
) -> Tensor:
    """Draw Laplace (double exponential) numbers."""

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
) -> Tensor:
    """Draw logistic numbers."""

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
) -> Array:
    """Draw logistic numbers."""

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
) -> Tensor:
    """Draw logistic numbers."""

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
) -> Tensor:
    """Draw log-normal numbers: exponentials of normal ones."""

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
) -> Array:
    """Draw log-normal numbers: exponentials of normal ones."""

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
) -> Tensor:
    """Draw log-normal numbers: exponentials of normal ones."""

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
) -> Tensor:
    """Draw multinomial counts: how often each of K categories occurs in ``n`` draws."""

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
) -> Array:
    """Draw multinomial counts: how often each of K categories occurs in ``n`` draws."""

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
) -> Tensor:
    """Draw multinomial counts: how often each of K categories occurs in ``n`` draws."""

@overload
def multivariate_normal(
    *sizes: Size,
    size: Size | None = None,
    mean: Tensor,
    covariance: Tensor,
    method: str = "cholesky",
    dtype: torch.dtype | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw normal vectors of a mean and a covariance."""

@overload
def multivariate_normal(
    *sizes: Size,
    size: Size | None = None,
    mean: Array,
    covariance: Array,
    method: str = "cholesky",
    dtype: torch.dtype | None = None,
    generator: Source | None = None,
) -> Array:
    """Draw normal vectors of a mean and a covariance."""

@overload
def multivariate_normal(
    *sizes: Size,
    size: Size | None = None,
    mean: Tensor | Array,
    covariance: Tensor | Array,
    method: str = "cholesky",
    dtype: torch.dtype | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw normal vectors of a mean and a covariance."""

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
) -> Tensor:
    """Draw negative binomial counts: failures before the ``n``-th success."""

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
) -> Array:
    """Draw negative binomial counts: failures before the ``n``-th success."""

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
) -> Tensor:
    """Draw negative binomial counts: failures before the ``n``-th success."""

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
) -> Tensor:
    """Draw normal numbers of mean ``loc`` and standard deviation ``scale``."""

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
) -> Array:
    """Draw normal numbers of mean ``loc`` and standard deviation ``scale``."""

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
) -> Tensor:
    """Draw normal numbers of mean ``loc`` and standard deviation ``scale``."""

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
) -> Tensor:
    """Draw Pareto numbers: ``P(x > t) = (scale / t)**shape`` for ``t >= scale``."""

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
) -> Array:
    """Draw Pareto numbers: ``P(x > t) = (scale / t)**shape`` for ``t >= scale``."""

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
) -> Tensor:
    """Draw Pareto numbers: ``P(x > t) = (scale / t)**shape`` for ``t >= scale``."""

@overload
def permutation(
    x: int | Tensor, *, device: torch.device | str | None = None, generator: Source | None = None
) -> Tensor:
    """Return a random order of ``0 .. x - 1``, or the rows of a tensor in random order."""

@overload
def permutation(x: int | Array, *, device: torch.device | str | None = None, generator: Source | None = None) -> Array:
    """Return a random order of ``0 .. x - 1``, or the rows of a tensor in random order."""

@overload
def philox4x32(counter: Tensor, key: Tensor) -> Tensor:
    """Compute Philox4x32-10 of counters [..., 4] and keys [..., 2], lowest word first; leading axes broadcast."""

@overload
def philox4x32(counter: Array, key: Array) -> Array:
    """Compute Philox4x32-10 of counters [..., 4] and keys [..., 2], lowest word first; leading axes broadcast."""

@overload
def philox4x32(counter: Tensor | Array, key: Tensor | Array) -> Tensor:
    """Compute Philox4x32-10 of counters [..., 4] and keys [..., 2], lowest word first; leading axes broadcast."""

@overload
def poisson(
    *sizes: Size,
    size: Size | None = None,
    rate: float | int | Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw Poisson counts: ``P(k) = rate**k * exp(-rate) / k!``."""

@overload
def poisson(
    *sizes: Size,
    size: Size | None = None,
    rate: float | int | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array:
    """Draw Poisson counts: ``P(k) = rate**k * exp(-rate) / k!``."""

@overload
def poisson(
    *sizes: Size,
    size: Size | None = None,
    rate: float | int | Tensor | Array,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | Array | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw Poisson counts: ``P(k) = rate**k * exp(-rate) / k!``."""

@overload
def rademacher(
    *sizes: Size,
    size: Size | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw Rademacher signs: -1 or 1 with equal chance, one word each."""

@overload
def rademacher(
    *sizes: Size,
    size: Size | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array:
    """Draw Rademacher signs: -1 or 1 with equal chance, one word each."""

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
) -> Tensor:
    """Draw integers from ``low`` up to but not including ``high``, every one equally likely."""

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
) -> Array:
    """Draw integers from ``low`` up to but not including ``high``, every one equally likely."""

@overload
def random(
    *sizes: Size,
    size: Size | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw uniform numbers in [0, 1), by NumPy's name; arguments as for `uniform`."""

@overload
def random(
    *sizes: Size,
    size: Size | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array:
    """Draw uniform numbers in [0, 1), by NumPy's name; arguments as for `uniform`."""

def set_backend(backend: BackendName | None, *, strict: bool = True) -> None:
    """Set the backend of trnrand: ``auto``, ``nki``, ``simulator`` or ``pytorch``."""

def set_state(state: Array) -> Source:
    """Return the default generator to a state."""

@overload
def shuffle(x: Tensor, *, generator: Source | None = None) -> Tensor:
    """Put the rows of ``x`` in random order, in place; the order is that of `permutation`. Returns ``x``."""

@overload
def shuffle(x: Array, *, generator: Source | None = None) -> Array:
    """Put the rows of ``x`` in random order, in place; the order is that of `permutation`. Returns ``x``."""

@overload
def sketch(a: Tensor, size: int, *, generator: Source | None = None) -> Tensor:
    """Project the rows of ``a``: ``normals.T @ a``, where ``normals`` is what ``normal(M, size)`` would give."""

@overload
def sketch(a: Array, size: int, *, generator: Source | None = None) -> Array:
    """Project the rows of ``a``: ``normals.T @ a``, where ``normals`` is what ``normal(M, size)`` would give."""

@overload
def standard_normal(
    *sizes: Size,
    size: Size | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw normal numbers of mean 0 and standard deviation 1, by NumPy's name; arguments as for `normal`."""

@overload
def standard_normal(
    *sizes: Size,
    size: Size | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array:
    """Draw normal numbers of mean 0 and standard deviation 1, by NumPy's name; arguments as for `normal`."""

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
) -> Tensor:
    """Draw Student's t: a normal number over the root of a chi-squared one per degree of freedom."""

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
) -> Array:
    """Draw Student's t: a normal number over the root of a chi-squared one per degree of freedom."""

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
) -> Tensor:
    """Draw Student's t: a normal number over the root of a chi-squared one per degree of freedom."""

@overload
def threefry4x32(counter: Tensor, key: Tensor) -> Tensor:
    """Compute Threefry4x32-20 of counters [..., 4] and keys [..., 4], lowest word first; leading axes broadcast."""

@overload
def threefry4x32(counter: Array, key: Array) -> Array:
    """Compute Threefry4x32-20 of counters [..., 4] and keys [..., 4], lowest word first; leading axes broadcast."""

@overload
def threefry4x32(counter: Tensor | Array, key: Tensor | Array) -> Tensor:
    """Compute Threefry4x32-20 of counters [..., 4] and keys [..., 4], lowest word first; leading axes broadcast."""

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
) -> Tensor:
    """Draw normal numbers conditioned to lie in [low, high], by the inverse distribution function."""

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
) -> Array:
    """Draw normal numbers conditioned to lie in [low, high], by the inverse distribution function."""

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
) -> Tensor:
    """Draw normal numbers conditioned to lie in [low, high], by the inverse distribution function."""

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
) -> Tensor:
    """Draw uniform numbers between ``low`` and ``high``."""

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
) -> Array:
    """Draw uniform numbers between ``low`` and ``high``."""

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
) -> Tensor:
    """Draw uniform numbers between ``low`` and ``high``."""

@overload
def unit_vector(
    *sizes: Size,
    size: Size | None = None,
    dim: int = 3,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw vectors uniform on the unit sphere."""

@overload
def unit_vector(
    *sizes: Size,
    size: Size | None = None,
    dim: int = 3,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Array | None = None,
    generator: Source | None = None,
) -> Array:
    """Draw vectors uniform on the unit sphere."""

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
) -> Tensor:
    """Draw von Mises angles: density proportional to ``exp(concentration * cos(x - loc))`` on the circle."""

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
) -> Array:
    """Draw von Mises angles: density proportional to ``exp(concentration * cos(x - loc))`` on the circle."""

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
) -> Tensor:
    """Draw von Mises angles: density proportional to ``exp(concentration * cos(x - loc))`` on the circle."""

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
) -> Tensor:
    """Draw Weibull numbers: ``P(x > t) = exp(-(t / scale)**shape)``."""

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
) -> Array:
    """Draw Weibull numbers: ``P(x > t) = exp(-(t / scale)**shape)``."""

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
) -> Tensor:
    """Draw Weibull numbers: ``P(x > t) = exp(-(t / scale)**shape)``."""
