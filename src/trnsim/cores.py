"""A logical core: the two NeuronCores that run one program, what they share and how they meet.

Each core has a session of its own with private SBUF, PSUM and ``private_hbm``. Kernel arguments are shared, and so are
``shared_hbm`` tensors: the k-th one a core allocates is the k-th one of the other (or the one of the same name),
because both run the same program. `Device` is what the sessions know as ``machine``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from trnsim.memory import Storage
from trnsim.poison import spoil
from trnsim.races import Watch
from trnsim.refusals import forbid, refuse
from trnsim.session import Session
from trnsim.source_lines import warn
from trnsim.state import LNC_VARIABLE, SimParams
from trnsim.targets import Target
from trnsim.tensors.tensor import NkiTensor
from trnsim.versions import TRACED
from trnsim.workers import Workers


@dataclass(slots=True, eq=False)
class Post:
    """One core's half of a ``sendrecv``."""

    values: np.ndarray
    dst: NkiTensor
    send: int
    receive: int
    line: str
    poison: np.ndarray | None = None
    taken: bool = False


class Device:
    """The cores of one launch. Sessions call `note` for every touch of a tensor marked shared."""

    def __init__(self, workers: Workers | None, cores: int, rank: int = 0, world: Any = None) -> None:
        self.workers = workers
        self.cores = cores
        self.rank = rank
        self.world = world
        self.sessions: list[Session] = []
        self.watch = Watch()
        self._shared: dict[tuple[str, int], Storage] = {}
        self._constants: dict[int, tuple[np.ndarray, str]] = {}
        self._counts: dict[Any, int] = {}
        self._barriers: dict[int, dict[int, tuple[Storage, str]]] = {}
        self._posts: dict[tuple[int, int], dict[int, Post]] = {}
        self._inbox: dict[int, list[tuple[int, int]]] = {}

    def _count(self, *key: Any) -> int:
        n = self._counts.get(key, 0)
        self._counts[key] = n + 1
        return n

    # -- memory -------------------------------------------------------------------------------------------------------

    def share(self, session: Session, storage: Storage, name: str) -> Storage:
        """Return the tensor both cores share for this ``shared_hbm`` allocation, by ``name`` or by order."""
        if self.cores == 1:
            return storage
        first = self._shared.setdefault((name, self._count("shared", session.core, name)), storage)
        first.shared = True
        if (first.shape, first.dtype) != (storage.shape, storage.dtype):
            got, limit = ((each.shape, str(each.dtype)) for each in (storage, first))
            other = 1 - session.core
            raise refuse("shared-hbm", got=got, limit=limit, session=session, storage=storage, other=other, first=first)
        return first

    def constant(self, session: Session, array: np.ndarray) -> None:
        """Refuse a constant of the program that differs between the cores."""
        first, line = self._constants.setdefault(self._count("constant", session.core), (array, session.line()))
        if first is not array and (
            first.dtype != array.dtype or not np.array_equal(first, array, equal_nan=first.dtype.kind == "f")
        ):
            other = 1 - session.core
            raise refuse(
                "shared-constant:constant", got=array.shape, limit=first.shape, session=session, other=other, line=line
            )

    def note(self, session: Session, t: NkiTensor, write: bool, rows: np.ndarray | None = None) -> None:
        """Note that an instruction touches ``t``, or ``rows`` of it, which is shared or still to be received."""
        storage = t.storage
        if storage.on_chip:
            self._receive(session, storage)
        elif session.checks and session.numerics:
            self.watch.note(session, t, write, rows)

    # -- meeting ------------------------------------------------------------------------------------------------------

    def barrier(self, session: Session, data: NkiTensor) -> int:
        """Wait until both cores have come to their k-th barrier; returns k."""
        storage = data.storage
        k = self._count("barrier", session.core)
        here = self._barriers.setdefault(k, {})
        here[session.core] = (storage, session.line())
        if len(here) == self.cores:
            (a, line_a), (b, line_b) = here[0], here[1]
            forbid(a is not b, "barrier-data", got=(a.name, b.name), a=a, line_a=line_a, b=b, line_b=line_b)
            self.watch.met((storage,))
            del self._barriers[k]
        self._wait(session, lambda: len(here) == self.cores, f"core_barrier on {data.name}")
        return k

    def exchange(self, session: Session, post: Post, pipe: int) -> int:
        """Hand over one half of a ``sendrecv`` and take the other; returns how many this pipe has carried before."""
        k = self._count("pipe", session.core, pipe)
        posts = self._posts.setdefault((pipe, k), {})
        posts[session.core] = post
        if len(posts) == self.cores:
            self.watch.met()
        what = f"sendrecv on pipe {pipe}"
        self._inbox.setdefault(session.core, []).append((pipe, k))
        if self._wait(session, lambda: len(posts) == self.cores, what, optional=True):
            self._deliver(session, (pipe, k))
        else:
            # other pipes continue; an access of dst before the data is there waits
            storage = post.dst.storage
            for other in session.lifetimes.storages():
                if other.arena is storage.arena:
                    other.shared = True
        return k

    def finish(self, session: Session) -> None:
        """Take in what is still in flight when the core's program has ended."""
        self.watch.settle()
        for key in list(self._inbox.get(session.core, ())):
            self._complete(session, key)

    def _receive(self, session: Session, storage: Storage) -> None:
        for key in list(self._inbox.get(session.core, ())):
            dst: Any = self._posts[key][session.core].dst.storage
            if dst.arena is storage.arena:
                self._complete(session, key)
        storage.shared = False

    def _complete(self, session: Session, key: tuple[int, int]) -> None:
        posts = self._posts[key]
        line = posts[session.core].line
        self._wait(session, lambda: len(posts) == self.cores, f"sendrecv on pipe {key[0]}", line=line)
        self._deliver(session, key)

    def _deliver(self, session: Session, key: tuple[int, int]) -> None:
        me = session.core
        posts = self._posts[key]
        post = posts[me]
        self._inbox[me].remove(key)
        sender = posts.get(post.receive)
        if sender is None or sender.send != me or sum(p.send == me for p in posts.values()) != 1:
            told = "; ".join(
                f"core {c} sends to {p.send} and receives from {p.receive} ({p.line})" for c, p in sorted(posts.items())
            )
            raise refuse(
                "sendrecv-partner", got=[(c, p.send, p.receive) for c, p in sorted(posts.items())], key=key, told=told
            )
        dst, sent = post.dst, sender.dst
        if (sent.shape, sent.dtype) != (dst.shape, dst.dtype):
            got, limit = ((tile.shape, str(tile.dtype)) for tile in (sent, dst))
            raise refuse("sendrecv-shape:deliver", got=got, limit=limit, key=key, post=post, sender=sender, me=me)
        storage = dst.storage
        storage.shared = False
        session.write(dst, sender.values, "dst", compute=False)
        if sender.poison is not None:
            spoil(dst, sender.poison > 0, sender.poison)
        # another pipe may still bring something to the same tensor
        storage.shared = any(self._posts[k][me].dst.storage is storage for k in self._inbox[me])
        sender.taken = True
        if all(p.taken for p in posts.values()):
            del self._posts[key]

    def _wait(self, session: Session, ready: Any, what: str, **how: Any) -> bool:
        assert self.workers is not None
        return self.workers.wait(session, ready, lambda: f"core {1 - session.core} in {what}", **how)


def logical_cores(target: Target) -> int:
    """NeuronCores that can run one kernel together."""
    return 2 if target.generation >= 3 else 1


class GridMismatch(RuntimeWarning):
    """A kernel is launched on other cores than ``NEURON_LOGICAL_NC_CONFIG`` says, which the compiler refuses."""


def launch_grid(kernel: Any, params: SimParams) -> tuple[int, ...]:
    """Return the grid of a launch: the one in brackets, else the cores the environment gives a logical core.

    The variable counts from NKI 0.7 on.
    """
    grid: tuple[int, ...] = kernel.grid
    said = params.logical_cores if params.nki >= TRACED else ""
    forbid(said not in ("", "1", "2"), "grid:launch_grid", got=said, limit=("1", "2"), LNC_VARIABLE=LNC_VARIABLE)
    cores = int(said or 1)
    if grid and said and grid != (cores,) and params.lint != "off":
        text = f"{kernel!r} with {LNC_VARIABLE}={said}: the two must agree, else the compiler stops with NCC_EVRF066"
        warn(text, GridMismatch)
    return grid or ((cores,) if cores > 1 else ())


def check_grid(grid: tuple[int, ...], target: Target) -> int:
    """Return cores a launch grid asks for; raises when ``target`` has no such logical core."""
    if len(grid) > 1:
        raise refuse(
            "grid:check_grid-value", got=grid, given=list(grid), ndim=len(grid), fields={"target": target.name}
        )
    cores = grid[0] if grid else 1
    limit = logical_cores(target)
    if cores > limit:
        hint = "launch with kernel[1] or kernel[2]"
        if limit == 1:
            hint = f"trn1 runs a kernel on one core: launch without a grid, and with {LNC_VARIABLE} unset"
        many, where = "s" if limit > 1 else "", {"target": target.name}
        raise refuse("grid:check_grid-limit", got=cores, limit=limit, hint=hint, target=target, many=many, fields=where)
    return cores
