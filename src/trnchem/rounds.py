"""Pairs of occupied orbitals on several ranks: blocks of B visit, and whoever is free computes.

A rank keeps its own rows of B. Blocks of rows visit all ranks, one after the other; the pairs of two blocks can be
computed by either owner, when the other's block visits. Each owner has half of them to do, and says in the store all
ranks share that it has begun. A rank that has to wait for the next block, because another is behind, computes what is
not its own to do with blocks that visited before. What is sent does not depend on who computes what.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnchem.budget import AHEAD, KEPT, Block, blocks_of, dtype_of, duty
from trnchem.checkpoint import Slots
from trnchem.pairs import PairState, Workspace, groups
from trnchem.store import Store
from trnsci.distributed.team import LiveTeam, Wait
from trnsci.errors import RankFailed
from trnsim.json_reader import parse_json

if TYPE_CHECKING:
    from trnchem.sharded import ShardedRun

# Seconds between two messages about finished pairs.
TELL_EVERY = 0.5


class Rounds:
    """The pair stage of one rank.

    Args:
        run: the calculation of this rank.
        store: this rank's rows of B.
        done: which pairs were finished before the start, the same on every rank.
        put: moves rows to where products run.
        finished: called after each group of pairs with the orbital, the first other one, and their energies.
    """

    def __init__(
        self,
        run: ShardedRun,
        store: Store,
        done: PairState,
        put: Callable[[Tensor], Tensor],
        finished: Callable[[int, int, tuple[Tensor, Tensor]], None],
    ) -> None:
        team, plan = self._team, self._plan = run.team, run.plan
        self._store, self._put, self._done, self._finished = store, put, done, finished
        self._vectors, self._dtype = run.metric.vectors, dtype_of(plan.precision)
        self._work = Workspace(run.energies_of_orbitals(), plan.width, plan.sizes.spins)
        self._here = team.here(0)
        every = blocks_of(plan.sizes.nocc, team.size(0), plan.rows)
        self._mine = [block for block in every if block.owner == self._here]
        self._start = self._mine[0].first if self._mine else 0
        self._visits = [
            block for block in every if any(self._left(block, other) for other in every if other.owner != block.owner)
        ]
        self._kept: deque[tuple[Block, Tensor]] = deque(maxlen=KEPT)
        self._asked: set[tuple[int, int]] = set()

    def run(self) -> None:
        """Compute this rank's pairs, and others' where there is time."""
        later = iter(self._visits)
        coming: deque[tuple[Block, Wait]] = deque()
        self._invite(coming, later, AHEAD)
        # nobody can help with these, so they come first
        for one, other in combinations_with_replacement(self._mine, 2):
            if self._left(one, other):
                self._compute(one, self._own(one), other, self._own(other))
        while coming:
            block, wait = coming.popleft()
            while not wait.ready() and self._help():
                pass
            rows = wait()
            if block.owner != self._here:
                self._kept.append((block, self._put(rows)))
            del rows
            self._invite(coming, later, 1)
            if block.owner != self._here:
                self._meet(*self._kept[-1])
        while self._help():
            pass

    def _invite(self, coming: deque[tuple[Block, Wait]], later: Iterator[Block], count: int) -> None:
        for _ in range(count):
            block = next(later, None)
            if block is not None:
                own = self._own(block, put=False) if block.owner == self._here else None
                shape = (block.size, self._plan.sizes.nvir, self._vectors)
                coming.append((block, self._team.broadcast(0, own, shape, self._dtype, block.owner)))

    def _own(self, block: Block, put: bool = True) -> Tensor:
        rows = self._store.rows(block.first - self._start, block.last - self._start)
        return self._put(rows) if put else rows

    def _meet(self, block: Block, rows: Tensor) -> None:
        """Compute what this rank has to do with a block that visits."""
        for own in self._mine:
            if duty(own, block) == self._here and self._claim_pairs(own, block):
                self._compute(own, self._own(own), block, rows)

    def _help(self) -> bool:
        """Compute the pairs of two blocks that are another rank's to do, if there are any left here."""
        for block, rows in self._kept:
            for own in self._mine:
                if duty(own, block) != self._here and self._claim_pairs(own, block):
                    self._compute(own, self._own(own), block, rows)
                    return True
        return False

    def _claim_pairs(self, own: Block, block: Block) -> bool:
        """Say that this rank computes the pairs of two blocks, unless somebody has said so."""
        low, high = sorted((own.first, block.first))
        if (low, high) in self._asked or not self._left(own, block):
            return False
        self._asked.add((low, high))
        return self._team.world.notes.add(f"pairs/{low}/{high}", 1) == 1

    def _left(self, one: Block, other: Block) -> bool:
        low, high = sorted((one, other), key=lambda block: block.first)
        done = self._done.done[low.first : low.last, high.first : high.last]
        # below the diagonal nothing is ever done
        return not bool(done.triu().eq(torch.ones_like(done).triu()).all() if low == high else done.all())

    def _compute(self, one: Block, one_rows: Tensor, other: Block, other_rows: Tensor) -> None:
        swapped = one.first > other.first
        low, left, high, right = (other, other_rows, one, one_rows) if swapped else (one, one_rows, other, other_rows)
        plan = self._plan
        blocks = (low.first, low.last, high.first, high.last)
        for mine, others in groups(self._done, *blocks, plan.width, plan.sizes.spins):
            ones = left[mine.start - low.first : mine.stop - low.first]
            rest = right[others.start - high.first : others.stop - high.first]
            for finished in self._work.by_orbital(ones, rest, mine.start, others.start, plan.precision):
                self._finished(*finished)


class Ledger:
    """Finished pairs of all ranks: each keeps its own, and the first hears of everybody's as they come.

    Args:
        team: the ranks.
        state: what was finished before the start; on the first rank, what is known so far.
        heard: whether the first rank wants to know before the end.
        slots: of the checkpoint, where there is one and this rank can write it.
    """

    def __init__(self, team: LiveTeam, state: PairState, heard: bool, slots: Slots | None) -> None:
        self._team, self.state, self._heard, self._slots = team, state, heard, slots
        self._mine = PairState.empty(len(state.done))
        self._first = team.here(0) == 0
        self._unsaid: list[Any] = []
        self._said, self._next = 0, dict.fromkeys(range(1, team.size(0)), 0)
        self._then = time.monotonic()

    def keep(self, i: int, j: int, energies: tuple[Tensor, Tensor]) -> None:
        """Keep a group of pairs that is finished here."""
        if self._slots is not None:
            self._slots.put(i, j, energies)
        self._mine.put(i, j, energies)
        if self._first:
            self.state.put(i, j, energies)
        elif self._heard:
            self._unsaid.append((i, j, *(part.tolist() for part in energies)))
        # what is not in the file yet is told at once
        if self._heard and time.monotonic() - self._then > (TELL_EVERY if self._slots is not None else 0.0):
            self.hear() if self._first else self._tell()
            self._then = time.monotonic()

    def _tell(self) -> None:
        key = f"pairs of/{self._team.here(0)}/{self._said}"
        self._team.world.notes.set(key, json.dumps([self._slots is not None, self._unsaid]))
        self._said += 1
        self._unsaid = []

    def hear(self) -> None:
        """Put into the state what other ranks have said, on the first rank, and into the file what they could not."""
        notes = self._team.world.notes
        # a store that is gone has nothing to tell, and the next exchange says why
        with contextlib.suppress(RankFailed):
            for rank in self._next if self._first else ():
                while notes.check([key := f"pairs of/{rank}/{self._next[rank]}"]):
                    written, groups = parse_json(notes.get(key))
                    for i, j, *parts in groups:
                        opposite, same = (torch.tensor(part, dtype=torch.float64, device="cpu") for part in parts)
                        self.state.put(i, j, (opposite, same))
                        if self._slots is not None and not written:
                            self._slots.put(i, j, (opposite, same))
                    self._next[rank] += 1

    def close(self) -> None:
        """Bring everybody's pairs together: afterwards every rank has the same state."""
        mine = torch.stack([self._mine.opposite, self._mine.same, self._mine.done.double()])
        opposite, same, done = self._team.all_reduce(0, mine)
        fresh = done > 0
        self.state.opposite = torch.where(fresh, opposite, self.state.opposite)
        self.state.same = torch.where(fresh, same, self.state.same)
        self.state.done = fresh | self.state.done
