"""`Generator`: a seed, a position, and every distribution as a method."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

import torch
from torch import Tensor

from trnrand import continuous, discrete, gamma_family, multivariate, permutation as orders
from trnrand.binomial import binomial
from trnrand.gamma import gamma
from trnrand.normal import normal, standard_normal
from trnrand.poisson import poisson
from trnrand.randint import integers, randint
from trnrand.source import Source, default, set_default
from trnrand.uniform import random, uniform
from trnsci import check, figures
from trnsim import notebook

P = ParamSpec("P")


def _method(function: Callable[P, Tensor]) -> Callable[Concatenate[Any, P], Tensor]:
    """Return a distribution as a method: the generator is ``self``."""

    @functools.wraps(function)
    def bound(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        kwargs["generator"] = self
        return function(*args, **kwargs)

    return bound


class Generator(Source):
    """Random numbers from a seed: the same bits on every backend, for every tile, shape, call splitting and partition.

    Args:
        seed: the key, an integer below ``2**64`` (Philox) or ``2**128`` (Threefry); a `Stream`; or ``None`` for a
            seed of the operating system.
        engine: ``"philox4x32"`` or ``"threefry4x32"``.

    Example:
        >>> g = trnrand.Generator(7)
        >>> g.uniform(2, 2).shape
        torch.Size([2, 2])
        >>> g.position
        4
    """

    def _repr_html_(self) -> str:
        return notebook.fragment(repr(self), notebook.points("256 pairs of its next uniform numbers", self._preview()))

    def plot(self, n: int = 256, axes: figures.Axes | None = None) -> figures.Axes:
        """Draw ``n`` pairs of the next uniform numbers, without drawing them; return Matplotlib's axes."""
        return figures.plot_points(self._preview(n), repr(self), axes)

    def _preview(self, n: int = 256) -> Any:
        """Return pairs of the next uniform numbers; the generator stays where it is."""
        return uniform(n, 2, dtype=torch.float64, generator=self.clone_state()).numpy()

    uniform = _method(uniform)
    random = _method(random)
    normal = _method(normal)
    standard_normal = _method(standard_normal)
    lognormal = _method(continuous.lognormal)
    exponential = _method(continuous.exponential)
    laplace = _method(continuous.laplace)
    cauchy = _method(continuous.cauchy)
    gumbel = _method(continuous.gumbel)
    logistic = _method(continuous.logistic)
    weibull = _method(continuous.weibull)
    pareto = _method(continuous.pareto)
    truncated_normal = _method(continuous.truncated_normal)
    von_mises = _method(continuous.von_mises)
    gamma = _method(gamma)
    beta = _method(gamma_family.beta)
    chi_squared = _method(gamma_family.chi_squared)
    student_t = _method(gamma_family.student_t)
    f = _method(gamma_family.f)
    dirichlet = _method(gamma_family.dirichlet)
    poisson = _method(poisson)
    bernoulli = _method(discrete.bernoulli)
    rademacher = _method(discrete.rademacher)
    geometric = _method(discrete.geometric)
    binomial = _method(binomial)
    negative_binomial = _method(discrete.negative_binomial)
    randint = _method(randint)
    integers = _method(integers)
    categorical = _method(discrete.categorical)
    multinomial = _method(discrete.multinomial)
    permutation = _method(orders.permutation)
    shuffle = _method(orders.shuffle)
    choice = _method(orders.choice)
    multivariate_normal = _method(multivariate.multivariate_normal)
    unit_vector = _method(multivariate.unit_vector)
    orthogonal = _method(multivariate.orthogonal)


set_default(Generator(0))


def default_generator() -> Source:
    """Return the generator of module-level functions; seeded with 0 until `manual_seed` says otherwise."""
    return default()


@check.hands_on("Generator")
def manual_seed(seed: int) -> Source:
    """Seed the default generator, and return it."""
    return default().manual_seed(seed)


def get_state() -> Tensor:
    """Return state of the default generator."""
    return default().get_state()


def set_state(state: torch.Tensor) -> Source:
    """Return the default generator to a state."""
    return default().set_state(state)


def advance(words: int) -> Source:
    """Move the default generator."""
    return default().advance(words)


def spawn(count: int) -> list[Source]:
    """Return independent generators from the default one."""
    return default().spawn(count)
