"""Integral screening: Cauchy-Schwarz bounds, the quartets and density entries they keep, and what that saves."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trnsci import array_function, check
from trnsci.errors import ArgumentError
from trnsparse.coo import COOMatrix


@array_function
def schwarz_bounds(integrals: Tensor) -> Tensor:
    """Return ``Q[i, j] = sqrt(|(ij|ij)|)``, with which ``|(ij|kl)| <= Q[i, j] Q[k, l]``.

    Args:
        integrals: [n, n, n, n] all integrals, or [n, n] those with equal pairs, ``(ij|ij)``.
    """
    check.floating("schwarz_bounds", integrals=integrals)
    if integrals.ndim not in (2, 4) or len(set(integrals.shape)) > 1:
        raise ArgumentError(
            op="schwarz_bounds",
            argument="shape of integrals",
            got=tuple(integrals.shape),
            expected="[n, n] or [n, n, n, n]",
        )
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
    """Return every distinct quartet with ``Q[i, j] Q[k, l] > threshold``; none above it is lost.

    Work and memory are those of sorting the pairs: quartets are counted, and listed only by `Quartets.indices`.

    Args:
        bounds: symmetric [n, n], from `schwarz_bounds`.
        threshold: products of bounds above it are kept.
    """
    check.floating("screen_quartets", bounds=bounds)
    _square("screen_quartets", bounds)
    limit = _threshold("screen_quartets", threshold)
    i, j = torch.tril_indices(*bounds.shape, device=bounds.device)
    value, order = bounds[i, j].double().sort(descending=True)
    pairs = torch.stack([i[order], j[order]], 1)
    count = value.numel()
    # Bounds fall along the list, so what a pair is kept with is a beginning of it; each quartet counts once.
    reach = torch.searchsorted(-value, -limit / value.clamp(min=torch.finfo(torch.float64).tiny))
    reach = torch.where(value > 0, _exact(reach, value, limit), 0)
    counts = torch.minimum(reach, torch.arange(1, count + 1, device=reach.device))
    return Quartets(pairs, counts, count * (count + 1) // 2)


def _exact(reach: Tensor, value: Tensor, limit: float) -> Tensor:
    """Correct the division's rounding: the first product that is not above the limit ends the reach."""
    count = value.numel()
    for _ in range(4):
        back = (reach > 0) & (value * value[(reach - 1).clamp(min=0)] <= limit)
        on = (reach < count) & (value * value[reach.clamp(max=max(count - 1, 0))] > limit)
        reach = reach - back.long() + on.long()
    return reach


@array_function
def density_screen(bounds: Tensor, density: Tensor, threshold: float) -> COOMatrix:
    """Return the density's entries that can matter: those with ``Q[k, l] |P[k, l]| max(Q) > threshold``.

    Args:
        bounds: [n, n], from `schwarz_bounds`.
        density: [n, n]
        threshold: contributions to the Coulomb matrix above it are kept.
    """
    check.floating("density_screen", bounds=bounds, density=density)
    _square("density_screen", bounds)
    check.equal("density_screen", "shape", bounds=tuple(bounds.shape), density=tuple(density.shape))
    limit = _threshold("density_screen", threshold)
    top = bounds.max() if bounds.numel() else bounds.new_zeros(())
    row, col = (bounds * density.detach().abs() * top > limit).nonzero(as_tuple=True)
    return COOMatrix.sorted(row, col, density[row, col], (bounds.shape[0], bounds.shape[1]))


def _square(op: str, bounds: Tensor) -> None:
    if bounds.ndim != 2 or bounds.shape[0] != bounds.shape[1]:
        raise ArgumentError(op=op, argument="shape of bounds", got=tuple(bounds.shape), expected="[n, n]")


def _threshold(op: str, threshold: float) -> float:
    limit = float(check.number(op, "threshold", threshold).real)
    if not limit >= 0:
        raise ArgumentError(op=op, argument="threshold", got=threshold, expected="a number that is not negative")
    return limit
