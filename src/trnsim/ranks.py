"""A kernel on several ranks at once: each has its own device memory, and ``nki.collectives`` connects them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trnsim.arrays import copy_of, is_array, is_torch, map_items, to_numpy
from trnsim.collectives.world import World
from trnsim.kernel import Launch, as_kernel, params_of
from trnsim.refusals import forbid, refuse
from trnsim.session import Record
from trnsim.threads import one_blas_thread
from trnsim.workers import Workers


class PerRank:
    """An argument that differs from rank to rank."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)

    def __repr__(self) -> str:
        return f"per_rank({self.values!r})"


def per_rank(values: Sequence[Any]) -> PerRank:
    """Mark a list as one value for each rank: ``simulate_ranks(kernel, 4)(per_rank(shards), weights)``."""
    return PerRank(values)


def simulate_ranks(
    kernel: Any,
    ranks: int,
    *,
    ranks_per_node: int | None = None,
    target: Any = None,
    nki: str | None = None,
    checks: bool = True,
    strict: bool = False,
    numerics: bool = True,
    lint: str | None = None,
    seed: int = 0,
    trace: list[Record] | None = None,
) -> Callable[..., list[Any]]:
    """Return a callable that runs ``kernel`` on ``ranks`` ranks and returns their results in a list.

    Arguments marked with `per_rank` are dealt out; any other goes to every rank, arrays as copies. An array given to
    all ranks is changed in place only if every rank leaves the same in it.

    Args:
        kernel: as in `simulate`; ``kernel[2]`` gives every rank two cores.
        ranks: how many.
        ranks_per_node: ranks of one instance, for collectives that care (default: all are on one).
        target: as in `simulate`, like all that follow.
        nki: version of NKI.
        checks: enforce the hardware's rules.
        strict: refuse every read of unwritten memory.
        numerics: compute values.
        lint: what to do with Python the NKI compiler refuses.
        seed: initial state of the random-number instructions.
        trace: receives the instruction streams of all ranks.
    """
    jitted = as_kernel(kernel)
    forbid(ranks < 1, "ranks", got=ranks)
    if ranks_per_node is not None and (ranks_per_node < 1 or ranks % ranks_per_node):
        raise refuse("ranks-per-node", got=ranks_per_node, limit=ranks)
    more = {"strict": strict, "numerics": numerics, "seed": seed}
    params = params_of(jitted, target=target, nki=nki, checks=checks, lint=lint, **more)

    def run(*args: Any, **kwargs: Any) -> list[Any]:
        dealt = Deal(ranks, copies=numerics)
        workers = Workers()
        world = World(ranks, workers, ranks_per_node)
        launches = [Launch(jitted, params, trace, rank=r, world=world, workers=workers) for r in range(ranks)]
        try:
            for rank, launch in enumerate(launches):
                own = tuple(dealt.take(a, rank) for a in args), {k: dealt.take(v, rank) for k, v in kwargs.items()}
                for session, body in zip(launch.sessions, launch.bodies(*own), strict=True):
                    label = f"rank {rank}" if launch.cores == 1 else f"rank {rank} core {session.core}"
                    workers.add(session, label, body)
            with one_blas_thread():
                raw = workers.run()
            results = [
                launch.results(raw[i * launch.cores : (i + 1) * launch.cores]) for i, launch in enumerate(launches)
            ]
            dealt.check()
        except BaseException:
            for launch in launches:
                launch.arguments.restore()
            raise
        for launch in launches:
            launch.arguments.write_back()
        dealt.gather()
        return results

    return run


class Deal:
    """Arguments handed out to ranks. An array that several ranks get is copied for each."""

    def __init__(self, ranks: int, *, copies: bool) -> None:
        self.ranks = ranks
        self.copies = copies
        self._given: dict[int, tuple[Any, list[Any]]] = {}

    def take(self, value: Any, rank: int) -> Any:
        """Return the part of ``rank``."""
        if isinstance(value, PerRank):
            forbid(len(value.values) != self.ranks, "per-rank", got=len(value.values), limit=self.ranks)
            part = value.values[rank]
            if sum(v is part for v in value.values) == 1:
                return part
            value = part
        return self._copy_argument(value) if self.copies else value

    def _copy_argument(self, value: Any) -> Any:
        if is_array(value):
            copies = self._given.setdefault(id(value), (value, []))[1]
            copies.append(copy_of(value))
            return copies[-1]
        return map_items(value, self._copy_argument)

    def check(self) -> None:
        """Refuse different writes to an array that all ranks were given."""
        for _, copies in self._given.values():
            first = to_numpy(copies[0])
            forbid(any(to_numpy(c).tobytes() != first.tobytes() for c in copies[1:]), "per-rank-write", got=first.shape)

    def gather(self) -> None:
        """Bring what all ranks wrote alike into the caller's array."""
        for value, copies in self._given.values():
            if is_torch(value):
                value.detach().copy_(copies[0])
            elif isinstance(value, np.ndarray) and value.flags.writeable:
                value[...] = copies[0]
