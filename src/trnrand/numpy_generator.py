"""`default_rng`: the methods of ``numpy.random.Generator``, spelt as NumPy spells them, on the streams of trnrand."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from trnrand import continuous, discrete, gamma_family, multivariate, permutation as orders
from trnrand.binomial import binomial
from trnrand.gamma import gamma
from trnrand.normal import normal
from trnrand.poisson import poisson
from trnrand.randint import integers
from trnrand.source import Source
from trnrand.stream import Stream
from trnrand.uniform import uniform
from trnsci import check
from trnsci.arrays import from_numpy, to_numpy
from trnsci.errors import DtypeError

Array: TypeAlias = np.ndarray[Any, Any]
Numbers: TypeAlias = npt.ArrayLike
Shape: TypeAlias = int | Sequence[int] | None
X = TypeVar("X", bound="Array | MutableSequence[Any]")


class NumpyGenerator(Source):
    """Random numbers as NumPy arrays: ``numpy.random.Generator`` by name, order and defaults of its arguments.

    The numbers are those of ``trnrand.Generator(seed)`` in float64, not NumPy's. Without a size and with numbers as
    parameters, a method returns one of NumPy's scalars.

    Args:
        seed: as for `Generator`.
        engine: as for `Generator`.
    """

    gives_arrays = True

    def __getattr__(self, name: str) -> NoReturn:
        known = hasattr(np.random.Generator, name)
        more = f": numpy.random.default_rng() has {name}, trnrand has not" if known else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{more}", name=name)

    def _draw(self, function: Callable[..., Any], size: Shape, **given: Any) -> Any:
        """Return what a distribution gives for parameters, in NumPy's kind."""
        for name, value in given.items():
            if isinstance(value, np.generic):
                given[name] = value.item()
            elif isinstance(value, np.ndarray | list | tuple):
                given[name] = np.asarray(value) if name == "out" else np.asarray(value, dtype=np.float64)
        shape = () if size is None else (_shape(size),)
        result = function(*shape, generator=self, **given)
        array = to_numpy(result) if isinstance(result, torch.Tensor) else result
        return array[()] if size is None and given.get("out") is None else array

    def _floats(
        self, function: Callable[..., Any], size: Shape, dtype: npt.DTypeLike, out: Array | None, **given: Any
    ) -> Any:
        wanted = out.shape if size is None and out is not None else size
        return self._draw(function, wanted, dtype=_dtype(dtype), out=out, **given)

    def integers(
        self,
        low: int,
        high: int | None = None,
        size: Shape = None,
        dtype: npt.DTypeLike = np.int64,
        endpoint: bool = False,
    ) -> Array:
        """Draw integers from ``low`` (or 0) below ``high`` (or ``low``), or up to it with ``endpoint``."""
        shape = None if size is None else _shape(size)
        result = to_numpy(integers(low, high, shape, dtype=_dtype(dtype), endpoint=endpoint, generator=self))
        return result[()] if size is None else result

    def random(self, size: Shape = None, dtype: npt.DTypeLike = np.float64, out: Array | None = None) -> Array:
        """Draw uniform numbers in [0, 1)."""
        return self._floats(uniform, size, dtype, out)

    def standard_normal(self, size: Shape = None, dtype: npt.DTypeLike = np.float64, out: Array | None = None) -> Array:
        """Draw normal numbers of mean 0 and standard deviation 1."""
        return self._floats(normal, size, dtype, out)

    def standard_exponential(
        self, size: Shape = None, dtype: npt.DTypeLike = np.float64, out: Array | None = None
    ) -> Array:
        """Draw exponential numbers of mean 1."""
        return self._floats(continuous.exponential, size, dtype, out)

    def standard_gamma(
        self, shape: Numbers, size: Shape = None, dtype: npt.DTypeLike = np.float64, out: Array | None = None
    ) -> Array:
        """Draw gamma numbers of scale 1."""
        return self._floats(gamma, size, dtype, out, shape=shape)

    def uniform(self, low: Numbers = 0.0, high: Numbers = 1.0, size: Shape = None) -> Array:
        """Draw uniform numbers in [low, high)."""
        return self._draw(uniform, size, dtype=torch.float64, low=low, high=high)

    def normal(self, loc: Numbers = 0.0, scale: Numbers = 1.0, size: Shape = None) -> Array:
        """Draw normal numbers."""
        return self._draw(normal, size, dtype=torch.float64, loc=loc, scale=scale)

    def lognormal(self, mean: Numbers = 0.0, sigma: Numbers = 1.0, size: Shape = None) -> Array:
        """Draw numbers whose logarithm is normal."""
        return self._draw(continuous.lognormal, size, dtype=torch.float64, loc=mean, scale=sigma)

    def exponential(self, scale: Numbers = 1.0, size: Shape = None) -> Array:
        """Draw exponential numbers of mean ``scale``."""
        return self._draw(continuous.exponential, size, dtype=torch.float64, scale=scale)

    def laplace(self, loc: Numbers = 0.0, scale: Numbers = 1.0, size: Shape = None) -> Array:
        """Draw Laplace's double exponential numbers."""
        return self._draw(continuous.laplace, size, dtype=torch.float64, loc=loc, scale=scale)

    def logistic(self, loc: Numbers = 0.0, scale: Numbers = 1.0, size: Shape = None) -> Array:
        """Draw logistic numbers."""
        return self._draw(continuous.logistic, size, dtype=torch.float64, loc=loc, scale=scale)

    def gumbel(self, loc: Numbers = 0.0, scale: Numbers = 1.0, size: Shape = None) -> Array:
        """Draw Gumbel numbers."""
        return self._draw(continuous.gumbel, size, dtype=torch.float64, loc=loc, scale=scale)

    def standard_cauchy(self, size: Shape = None) -> Array:
        """Draw Cauchy numbers of position 0 and width 1."""
        return self._draw(continuous.cauchy, size, dtype=torch.float64)

    def weibull(self, a: Numbers, size: Shape = None) -> Array:
        """Draw Weibull numbers of scale 1."""
        return self._draw(continuous.weibull, size, dtype=torch.float64, shape=a)

    def rayleigh(self, scale: Numbers = 1.0, size: Shape = None) -> Array:
        """Draw lengths of vectors of two normal numbers."""
        width = np.asarray(scale) * math.sqrt(2.0)
        return self._draw(continuous.weibull, size, dtype=torch.float64, shape=2.0, scale=width[()])

    def pareto(self, a: Numbers, size: Shape = None) -> Array:
        """Draw Pareto numbers of the second kind (Lomax), as NumPy does: `trnrand.pareto` less 1."""
        return self._draw(continuous.pareto, size, dtype=torch.float64, shape=a) - 1.0

    def vonmises(self, mu: Numbers, kappa: Numbers, size: Shape = None) -> Array:
        """Draw angles from -pi to pi around ``mu``."""
        return self._draw(continuous.von_mises, size, dtype=torch.float64, loc=mu, concentration=kappa)

    def gamma(self, shape: Numbers, scale: Numbers = 1.0, size: Shape = None) -> Array:
        """Draw gamma numbers."""
        return self._draw(gamma, size, dtype=torch.float64, shape=shape, scale=scale)

    def beta(self, a: Numbers, b: Numbers, size: Shape = None) -> Array:
        """Draw beta numbers."""
        return self._draw(gamma_family.beta, size, dtype=torch.float64, a=a, b=b)

    def chisquare(self, df: Numbers, size: Shape = None) -> Array:
        """Draw sums of squares of ``df`` normal numbers."""
        return self._draw(gamma_family.chi_squared, size, dtype=torch.float64, df=df)

    def standard_t(self, df: Numbers, size: Shape = None) -> Array:
        """Draw Student's t."""
        return self._draw(gamma_family.student_t, size, dtype=torch.float64, df=df)

    def f(self, dfnum: Numbers, dfden: Numbers, size: Shape = None) -> Array:
        """Draw quotients of two mean squares."""
        return self._draw(gamma_family.f, size, dtype=torch.float64, dfnum=dfnum, dfden=dfden)

    def dirichlet(self, alpha: Numbers, size: Shape = None) -> Array:
        """Draw shares that sum to 1."""
        return self._draw(gamma_family.dirichlet, size, dtype=torch.float64, alpha=np.asarray(alpha))

    def poisson(self, lam: Numbers = 1.0, size: Shape = None) -> Array:
        """Draw counts of events of rate ``lam``."""
        return self._draw(poisson, size, rate=lam)

    def binomial(self, n: Numbers, p: Numbers, size: Shape = None) -> Array:
        """Draw successes in ``n`` trials."""
        return self._draw(binomial, size, n=n, p=p)

    def negative_binomial(self, n: Numbers, p: Numbers, size: Shape = None) -> Array:
        """Draw failures before ``n`` successes."""
        return self._draw(discrete.negative_binomial, size, n=n, p=p)

    def geometric(self, p: Numbers, size: Shape = None) -> Array:
        """Draw trials up to the first success."""
        return self._draw(discrete.geometric, size, p=p)

    def multinomial(self, n: Numbers, pvals: Numbers, size: Shape = None) -> Array:
        """Draw counts of categories in ``n`` draws."""
        return self._draw(discrete.multinomial, size, n=n, probs=np.asarray(pvals))

    def multivariate_normal(self, mean: Numbers, cov: Numbers, size: Shape = None, *, method: str = "svd") -> Array:
        """Draw normal vectors. ``"svd"`` and ``"eigh"`` factor by `eigh`, ``"cholesky"`` by Cholesky."""
        chosen = "eigh" if method == "svd" else method
        return self._draw(
            multivariate.multivariate_normal, size, mean=np.asarray(mean), covariance=np.asarray(cov), method=chosen
        )

    def bytes(self, length: int) -> bytes:
        """Draw random bytes."""
        drawn: bytes = self.integers(0, 256, length, np.uint8).tobytes()
        return drawn

    def permutation(self, x: int | Numbers, axis: int = 0) -> Array:
        """Draw a random order of ``0 .. x - 1``, or a copy of an array in random order along an axis."""
        if isinstance(x, int | np.integer):
            return to_numpy(orders.permutation(int(x), generator=self))
        array = np.asarray(x)
        return np.take(array, self.permutation(array.shape[axis]), axis)

    def shuffle(self, x: X, axis: int = 0) -> None:
        """Put an array (along an axis) or a list in random order, in place."""
        if isinstance(x, np.ndarray):
            x[...] = self.permutation(x, axis)
            return
        if not isinstance(x, MutableSequence) or axis:
            raise DtypeError("shuffle", "x", type(x), "an array, or a list with axis=0")
        x[:] = [x[i] for i in self.permutation(len(x))]

    def choice(
        self, a: int | Numbers, size: Shape = None, replace: bool = True, p: Numbers | None = None, axis: int = 0
    ) -> Array:
        """Draw elements of ``0 .. a - 1``, or of an array along an axis, in random order."""
        array = None if isinstance(a, int | np.integer) else np.asarray(a)
        count = operator.index(a) if array is None else array.shape[axis]  # type: ignore[arg-type]
        weights = None if p is None else from_numpy(np.asarray(p, dtype=np.float64))
        shape = () if size is None else _shape(size)
        index = to_numpy(orders.choice(count, shape, replace=replace, p=weights, generator=self))[()]
        return index if array is None else np.take(array, index, axis)


@check.hands_on("Generator")
def default_rng(seed: int | Stream | NumpyGenerator | None = None) -> NumpyGenerator:
    """Return a generator that is called as ``numpy.random.default_rng``'s; a generator is returned as it is.

    Args:
        seed: as for `Generator`; ``None`` is a seed of the operating system.

    Example:
        >>> rng = trnrand.default_rng(0)
        >>> rng.integers(0, 10, size=5)
        array([3, 8, 7, 6, 9])
        >>> rng.normal(10.0, 0.5, size=(2, 2)).dtype
        dtype('float64')
    """
    return seed if isinstance(seed, NumpyGenerator) else NumpyGenerator(seed)


def _shape(size: Any) -> tuple[int, ...]:
    return tuple(map(int, size)) if isinstance(size, Sequence | np.ndarray) else (int(size),)


def _dtype(dtype: npt.DTypeLike) -> torch.dtype:
    return from_numpy(np.empty(0, dtype=dtype)).dtype
