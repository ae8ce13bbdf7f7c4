"""Integral screening: Cauchy-Schwarz bounds, the quartets and density entries they keep, and what that saves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trnsci import array_function, check
from trnsci.backends import on_host
from trnsci.errors import ArgumentError, DtypeError
from trnsparse.arguments import dense
from trnsparse.coo import COOMatrix


@array_function
def schwarz_bounds(integrals: Tensor) -> Tensor:
    """Return ``Q[i, j] = sqrt(|(ij|ij)|)``, with which ``|(ij|kl)| <= Q[i, j] Q[k, l]``.

    Args:
        integrals: [n, n, n, n] all integrals, or [n, n] those with equal pairs, ``(ij|ij)``.
    """
    on_host("trnsparse.schwarz_bounds")
    dense("schwarz_bounds", integrals=integrals)
    check.floating("schwarz_bounds", integrals=integrals)
    if integrals.ndim not in (2, 4) or len(set(integrals.shape)) > 1:
        raise ArgumentError("schwarz_bounds", "shape of integrals", tuple(integrals.shape), "[n, n] or [n, n, n, n]")
    equal = torch.einsum("ijij->ij", integrals) if integrals.ndim == 4 else integrals
    return equal.abs().sqrt()


@dataclass(frozen=True, eq=False)
class Quartets:
    """The quartets (ij|kl), i ≥ j, k ≥ l, (ij) ≥ (kl) in the order of ``pairs``, that a threshold keeps.

    Attributes:
        pairs: [P, 2] pairs (i, j) by falling bound.
        counts: [P] for each pair, how many of the pairs from the first to itself it is kept with.
        total: quartets without screening.
    """

    pairs: Tensor
    counts: Tensor
    total: int

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def fraction(self) -> float:
        """Kept over total."""
        return len(self) / max(self.total, 1)

    def indices(self) -> Tensor:
        """Return [kept, 4]: i, j, k, l of every kept quartet."""
        left = torch.repeat_interleave(torch.arange(self.counts.numel(), device=self.counts.device), self.counts)
        first = self.counts.cumsum(0) - self.counts
        right = torch.arange(left.numel(), device=left.device) - first[left]
        return torch.cat([self.pairs[left], self.pairs[right]], 1)

    def __str__(self) -> str:
        return f"{len(self)} of {self.total} quartets kept ({self.fraction:.2%})"


@array_function
def screen_quartets(bounds: Tensor, threshold: float) -> Quartets:
    """Return every distinct quartet with ``Q[i, j] Q[k, l] > threshold``, compared exactly: none above it is lost.

    Work and memory are those of sorting the pairs: quartets are counted, and listed only by `Quartets.indices`.

    Args:
        bounds: symmetric [n, n], from `schwarz_bounds`: finite and not negative. Of two that differ the larger counts.
        threshold: products of bounds above it are kept.
    """
    on_host("trnsparse.screen_quartets")
    bounds = check_bounds("screen_quartets", bounds=bounds)[0]
    _square("screen_quartets", bounds)
    limit = as_threshold("screen_quartets", threshold)
    check.data("screen_quartets", bounds=bounds)
    i, j = torch.tril_indices(*bounds.shape, device=bounds.device)
    value, order = torch.maximum(bounds, bounds.mT)[i, j].double().sort(descending=True)
    pairs = torch.stack([i[order], j[order]], 1)
    count = value.numel()
    # Bounds fall along the list, so what a pair is kept with is a beginning of it; each quartet counts once.
    counts = torch.minimum(_reach(value, limit), torch.arange(1, count + 1, device=value.device))
    return Quartets(pairs, counts, count * (count + 1) // 2)


def _reach(value: Tensor, limit: float) -> Tensor:
    """Return, for each of falling values, how many of the first have a product with it above the limit."""
    low = torch.zeros(value.shape, dtype=torch.int64, device=value.device)
    high = torch.full_like(low, value.numel())
    for _ in range(value.numel().bit_length()):
        middle = (low + high) // 2
        above = _product_above(value, value[middle.clamp(max=value.numel() - 1)], limit) & (low < high)
        low, high = torch.where(above, middle + 1, low), torch.where(above, high, middle)
    return low


def _product_above(x: Tensor, y: Tensor, limit: float) -> Tensor:
    """Return whether ``x * y > limit`` for non-negative float64, without rounding, overflow or underflow."""
    from trnblas.split import two_product

    (x, x_exponent), (y, y_exponent) = torch.frexp(x), torch.frexp(y)
    fraction, exponent = math.frexp(limit)
    # Fractions lie between 1/2 and 1, so that exponents further apart than 2 decide alone.
    shift = (exponent - x_exponent - y_exponent).clamp(-4, 4)
    target = fraction * torch.pow(2.0, shift.double())
    product, rounding = two_product(x, y)
    return (product > target) | ((product == target) & (rounding > 0))


@array_function
def density_screen(bounds: Tensor, density: Tensor, threshold: float) -> COOMatrix:
    """Return the density's entries that can matter: those with ``Q[k, l] |P[k, l]| max(Q) > threshold``.

    A product within three roundings of the threshold may fall on either side. A NaN in the density is kept.

    Args:
        bounds: [n, n], from `schwarz_bounds`: finite and not negative.
        density: [n, n]
        threshold: contributions to the Coulomb matrix above it are kept.
    """
    on_host("trnsparse.density_screen")
    bounds = check_bounds("density_screen", bounds=bounds)[0]
    dense("density_screen", density=density)
    check.floating("density_screen", density=density)
    check.data("density_screen", bounds=bounds, density=density)
    check.same_device("density_screen", bounds=bounds, density=density)
    _square("density_screen", bounds)
    check.equal("density_screen", "shape", bounds=tuple(bounds.shape), density=tuple(density.shape))
    limit = as_threshold("density_screen", threshold)
    # Scaled by a power of two, so that the largest bound is near 1 and products neither overflow nor underflow early.
    top = float(bounds.max()) if bounds.numel() else 0.0
    scale = 2.0 ** -min(max(math.frexp(top)[1], -500), 500)
    weight = (bounds.double() * scale) * (top * scale * density.detach().abs().double())
    row, col = (~(weight <= limit * scale * scale)).nonzero(as_tuple=True)
    return COOMatrix.sorted(row, col, density[row, col], (bounds.shape[0], bounds.shape[1]))


def check_bounds(op: str, **bounds: Any) -> list[Tensor]:
    """Check that bounds are real tensors, finite and not negative, and return them detached."""
    for name, value in bounds.items():
        dense(op, **{name: value})
        if value.is_complex() or value.dtype == torch.bool:
            raise DtypeError(op, f"dtype of {name}", value.dtype, "real numbers")
        if value.is_meta:
            # planning runs on shapes
            continue
        check.data(op, **{name: value})
        bad = ~(torch.isfinite(value) & (value >= 0))
        if bool(bad.any()):
            at = tuple(bad.nonzero()[0].tolist())
            raise ArgumentError(
                op=op,
                argument=f"{name}[{', '.join(map(str, at))}]",
                got=value[at].item(),
                expected="a finite bound that is not negative",
                hint="Check the integrals the bounds come from",
            )
    return [value.detach() for value in bounds.values()]


def _square(op: str, bounds: Tensor) -> None:
    if bounds.ndim != 2 or bounds.shape[0] != bounds.shape[1]:
        raise ArgumentError(op, "shape of bounds", tuple(bounds.shape), "[n, n]")


def as_threshold(op: str, threshold: float) -> float:
    """Return a threshold as a number that is not negative."""
    limit = float(check.real(op, "threshold", threshold))
    check.refuse(limit < 0, op, "threshold", threshold, "a number that is not negative")
    return limit
