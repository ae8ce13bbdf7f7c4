"""Pair energies from B: every pair once, blocks from memory or disk, the same arithmetic whatever the blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

import trnblas
from trnchem.orbitals import CLOSED, Spins
from trnchem.store import Store
from trnsci import from_device
from trnsci.precision import Precision


@dataclass(slots=True, eq=False)
class PairState:
    """Energies so far: of pairs, or of quadrature points and random vectors.

    Attributes:
        opposite: [nocc, nocc], ``sum_ab T_ab**2 / D`` of pairs ``i <= j``; zero below the diagonal. Half of it in an
            open shell, and none of two orbitals of the same spin. [points, vectors] without pairs.
        same: [nocc, nocc], ``sum_ab T_ab (T_ab - T_ba) / D``, likewise, and none of different spins.
        done: which these are.
    """

    opposite: Tensor
    same: Tensor
    done: Tensor = field(repr=False)

    @classmethod
    def empty(cls, rows: int, columns: int | None = None) -> PairState:
        """Return a state in which nothing has been done; a square one unless ``columns`` says otherwise."""
        zeros = torch.zeros((rows, rows if columns is None else columns), dtype=torch.float64, device="cpu")
        return cls(zeros, zeros.clone(), torch.zeros_like(zeros, dtype=torch.bool))

    @property
    def done_count(self) -> int:
        """Pairs done."""
        return int(self.done.sum())

    @property
    def pairs(self) -> int:
        """All pairs."""
        return len(self.done) * (len(self.done) + 1) // 2

    def put(self, i: int, j: int, energies: tuple[Tensor, Tensor]) -> None:
        """Keep opposite- and same-spin energies of orbital ``i`` with those from ``j`` on."""
        end = j + len(energies[0])
        self.opposite[i, j:end], self.same[i, j:end] = energies
        self.done[i, j:end] = True

    def totals(self) -> tuple[float, float]:
        """Return opposite- and same-spin energy of all pairs: those off the diagonal count twice."""
        opposite, same = (float(2 * part.sum() - part.diagonal().sum()) for part in (self.opposite, self.same))
        return opposite, same


def run_pairs(
    store: Store,
    energies: tuple[Tensor, Tensor],
    state: PairState,
    *,
    rows: int,
    width: int,
    precision: Precision,
    finished: Callable[[int, int, tuple[Tensor, Tensor]], None],
    spins: Spins = CLOSED,
) -> None:
    """Compute every pair that is not done.

    Args:
        store: B.
        energies: of the occupied orbitals and of each set of virtual ones, in B's dtype.
        state: receives the energies.
        rows: occupied orbitals in a block of B.
        width: pairs at once.
        precision: of the products.
        finished: called after each group of pairs with the orbital, the first other one, and their energies.
        spins: of the occupied orbitals.
    """
    nocc, work = len(energies[0]), Workspace(energies, width, spins)
    for first, last in _ranges(0, nocc, rows):
        left: Tensor | None = None
        for start, stop in _ranges(first, nocc, rows):
            wanted = list(groups(state, first, last, start, stop, width, spins))
            if not wanted:
                continue
            left = store.rows(first, last) if left is None else left
            right = left if start == first else store.rows(start, stop)
            for own, others in wanted:
                ones, rest = (
                    left[own.start - first : own.stop - first],
                    right[others.start - start : others.stop - start],
                )
                for i, j, energies_ij in work.by_orbital(ones, rest, own.start, others.start, precision):
                    state.put(i, j, energies_ij)
                    finished(i, j, energies_ij)


def _ranges(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    for first in range(start, stop, size):
        yield first, min(stop, first + size)


def groups(
    state: PairState, first: int, last: int, start: int, stop: int, width: int, spins: Spins
) -> Iterator[tuple[slice, slice]]:
    """Yield pairs of two blocks that are not done: occupied orbitals and others, either of one spin.

    A group has one orbital and at most ``width`` others. Where all pairs of a molecule are no more and none is done, it
    has all orbitals of a spin: calls cost more than the arithmetic.
    """
    whole, i = width >= state.done.numel() and not bool(state.done.any()), first
    while i < last:
        i_end, j = spins.until(i, last) if whole else i + 1, max(i, start)
        while j < stop:
            end = spins.until(j, min(stop, (j // width + 1) * width))
            if not bool(state.done[i:i_end, j:end].all()):
                yield slice(i, i_end), slice(j, end)
            j = end
        i = i_end


class Workspace:
    """Memory for the integrals of one group of pairs, used again for the next."""

    def __init__(self, energies: tuple[Tensor, Tensor], width: int, spins: Spins) -> None:
        self._occ, vir = energies
        self._spins = spins
        # [nvir, nvir] for the spins of the other orbital and of this one
        self._sums = {(b, a): vir[b][:, None] + vir[a] for b in range(len(vir)) for a in range(b + 1)}
        # two allocations, so that each starts where vector instructions like it
        self._memory = [torch.empty(width * vir.shape[1] ** 2, dtype=vir.dtype, device="cpu") for _ in range(2)]

    def by_orbital(
        self, ones: Tensor, others: Tensor, i: int, j: int, precision: Precision
    ) -> Iterator[tuple[int, int, tuple[Tensor, Tensor]]]:
        """Yield `energies` of every orbital with those from its own on: the orbital, the first of those, energies."""
        opposite, same = self.energies(ones, others, i, j, precision)
        for row in range(len(ones)):
            skip = max(0, i + row - j)
            yield i + row, j + skip, (opposite[row, skip:], same[row, skip:])

    def energies(self, ones: Tensor, others: Tensor, i: int, j: int, precision: Precision) -> tuple[Tensor, Tensor]:
        """Compute opposite- and same-spin energies, [rows, columns], of orbitals from ``i`` with those from ``j`` on.

        Either are all of one spin.
        """
        (count, nvir, naux), rows = others.shape, len(ones)
        size = count * rows * nvir * nvir
        y, z = (memory[:size].view(-1, nvir, nvir) for memory in self._memory)
        # a fresh result is cheaper than the checks that writing into a given one takes
        t = from_device(
            trnblas.gemm(1.0, others.reshape(-1, naux), ones.reshape(-1, naux).mT, precision=precision)
        )  # [count nvir, rows nvir]
        t = t.reshape(count, nvir, rows, nvir).transpose(1, 2).contiguous().view(-1, nvir, nvir)
        set_j, set_i = self._spins.of(j), self._spins.of(i)
        above = (self._occ[j : j + count, None] + self._occ[i : i + rows]).view(-1, 1, 1)
        torch.sub(above, self._sums[set_j, set_i], out=y)
        torch.div(t, y, out=y)
        square = _dots(y, t).view(count, rows).mT
        if set_i != set_j:
            return square / 2, torch.zeros_like(square)
        z.copy_(t.mT)
        exchanged = square - _dots(y, z).view(count, rows).mT
        return (square, exchanged) if self._spins.up is None else (torch.zeros_like(square), exchanged / 2)


def _dots(one: Tensor, other: Tensor) -> Tensor:
    """Return [n], the scalar products of matrices: row by row, because a long sum of one sign drifts in float32."""
    count, _, columns = one.shape
    rows = torch.bmm(one.view(-1, 1, columns), other.view(-1, columns, 1))
    return rows.view(count, -1).sum(1, dtype=torch.float64)
