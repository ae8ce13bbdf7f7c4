"""This process among the ranks: starting, meshes, and finding out who is missing when a message does not come."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import itertools
import json
import math
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import HashStore, PrefixStore
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate

from trnsci import check, config
from trnsci.distributed.groups import Groups
from trnsci.errors import ArgumentError, RankFailed

# Beats to wait before a pulse counts as stopped.
_LOOKS = 2.5
# What a rank does before its first call.
_NOTHING = "nothing"
# Worlds this process has been in: all ranks leave one and enter the next together.
_worlds = itertools.count()


class World:
    """The store all ranks share, this rank's pulse in it, and what this rank is doing.

    Every rank writes a beat and its current call into the store, from a thread. A rank whose message does not come is
    found by reading the others' entries: one that raised says so, one that died has no pulse, one that hangs is behind.
    """

    def __init__(self, timeout: float) -> None:
        self.rank, self.size, self.timeout = dist.get_rank(), dist.get_world_size(), timeout
        self.number, self.op, self.team = next(_worlds), _NOTHING, ""
        # calls so far, by the ranks that take part in them
        self._calls: dict[str, int] = {}
        self._ranks: tuple[int, ...] = tuple(range(self.size))
        # whether this rank stands in an exchange of the call it is in, and how many of them it has started
        self.waiting, self.started = False, 0
        self.meshes: dict[Any, DeviceMesh] = {}
        self._store: Any = PrefixStore(f"trnsci/{self.number}", dist.distributed_c10d._get_default_store())
        self._beat = 0
        self._state = "alive"
        self._stop = threading.Event()
        self._writing = threading.Lock()
        self.groups = Groups(self)
        self._publish(self._store)
        self._pulse = threading.Thread(target=self._keep_beating, name="trnsci pulse", daemon=True)
        self._pulse.start()

    @property
    def _interval(self) -> float:
        """Seconds between two beats."""
        return min(1.0, self.timeout / 6)

    @property
    def patience(self) -> float:
        """Seconds to wait for a message, so that finding out who is missing ends within the timeout."""
        return self.timeout - _LOOKS * self._interval

    def begin(self, op: str, ranks: Sequence[int]) -> None:
        """A new call of some ranks; each of them counts the same ones."""
        self.team = hashlib.sha256(repr(sorted(ranks)).encode()).hexdigest()[:12]
        self._calls[self.team] = self._calls.get(self.team, 0) + 1
        self.op, self._ranks, self.waiting, self.started = op, tuple(ranks), False, 0

    @property
    def notes(self) -> Any:
        """A store of the call under way, for counters and short texts all its ranks read."""
        return PrefixStore(f"call/{self.team}/{self._calls[self.team]}", self._store)

    @property
    def _fault(self) -> str:
        return f"fault/{self.team}/{self._calls.get(self.team, 0)}"

    def raised(self, error: BaseException) -> None:
        """Tell ranks that wait for this one in the same call that it will not come."""
        text = f"raised {type(error).__name__}: {error}"
        with contextlib.suppress(RuntimeError):
            said = {"rank": self.rank, "op": self.op, "text": text, "started": self.started}
            self._store.set(self._fault, json.dumps(said))

    def fault(self) -> dict[str, Any] | None:
        """What another rank has said went wrong in this call."""
        key = self._fault
        try:
            said = json.loads(self._store.get(key)) if self._store.check([key]) else None
        except RuntimeError:
            text = "keeps the store the ranks meet in, and cannot be reached"
            return {"rank": 0, "op": self.op, "text": text, "started": 0}
        return said if said and said["rank"] != self.rank else None

    def failure(self, waiting_for: str) -> RankFailed:
        """Find out which rank is missing, and say it."""
        said = self.fault()
        if said is None:
            said = self._missing()
        return RankFailed(
            op=said["op"] or self.op,
            failed=said["rank"],
            reason=said["text"],
            rank=self.rank,
            waiting_for=f"{waiting_for} in {self.op}",
        )

    def meet(self, where: str, ranks: Sequence[int]) -> None:
        """Wait until all of some ranks have come to a place."""
        self._store.set(f"meet/{where}/{self.rank}", "here")
        keys = [f"meet/{where}/{rank}" for rank in ranks]
        deadline = time.monotonic() + self.patience
        while not self._there(keys):
            if time.monotonic() > deadline:
                raise self.failure("the other ranks")
            time.sleep(1e-3)

    def _there(self, keys: list[str]) -> bool:
        try:
            return bool(self._store.check(keys))
        except RuntimeError as error:
            raise self.failure("the other ranks") from error

    def _missing(self) -> dict[str, Any]:
        before = self._entries()
        time.sleep(_LOOKS * self._interval)
        after = self._entries()
        said = self.fault()
        if said is not None:
            return said
        behind = []
        for rank, entry in after.items():
            if rank == self.rank:
                continue
            if entry.get("state") != "alive":
                return {
                    "rank": rank,
                    "op": entry.get("op", self.op),
                    "text": f"has {entry.get('state', 'said nothing')}",
                }
            if entry["beat"] == before[rank].get("beat"):
                # what it did last it may not have had the time to say
                return {"rank": rank, "op": self.op, "text": "has died or stands still: its pulse stopped"}
            reached = entry["calls"].get(self.team, 0)
            if reached < self._calls[self.team]:
                behind.append((reached, rank, entry["op"]))
        if behind:
            _, rank, op = min(behind)
            if op == _NOTHING:
                return {"rank": rank, "op": self.op, "text": "has not reached this call, nor any before it"}
            return {"rank": rank, "op": op, "text": f"has not reached this call; it was last in {op}"}
        for rank, entry in after.items():
            if rank != self.rank and not entry["waiting"] and not before[rank].get("waiting"):
                return {
                    "rank": rank,
                    "op": entry["op"],
                    "text": "is alive in this call and has not come to the exchange",
                }
        return {"rank": -1, "op": self.op, "text": "is not known; every rank is alive and in this call"}

    def _entries(self) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        for rank in self._ranks:
            key = f"pulse/{rank}"
            try:
                found[rank] = json.loads(self._store.get(key)) if self._store.check([key]) else {}
            except RuntimeError:
                found[rank] = {}
        return found

    def _publish(self, store: Any) -> None:
        with self._writing:
            self._beat += 1
            entry = {"beat": self._beat, "calls": dict(self._calls), "op": self.op, "state": self._state}
            entry["waiting"] = self.waiting
            store.set(f"pulse/{self.rank}", json.dumps(entry))

    def _keep_beating(self) -> None:
        # a client of its own, because requests of one client wait for each other
        store = self._store.clone()
        while not self._stop.wait(self._interval):
            try:
                self._publish(store)
            except RuntimeError:
                return

    def leave(self) -> None:
        """Say goodbye."""
        self._stop.set()
        self._state = "ended"
        with contextlib.suppress(RuntimeError):
            self._publish(self._store)


_world: World | None = None


def world() -> World:
    """Return this process's world; there is one after the first `mesh`."""
    global _world
    if _world is None:
        if not dist.is_initialized():
            raise ArgumentError(
                op="trnsci.distributed",
                argument="torch.distributed",
                got="not started",
                expected="a process group",
                hint="Call trnsci.distributed.mesh() first, in a program started by `trnsci launch` or torchrun",
            )
        _world = World(float(config.DISTRIBUTED_TIMEOUT.get()))
        atexit.register(leave)
    return _world


def leave() -> None:
    """End this process's part: say goodbye to the other ranks and close ``torch.distributed``. Safe to call twice."""
    global _world
    if _world is not None:
        _world.leave()
        _world = None
    if dist.is_initialized():
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()


def mesh(
    *shape: int, names: Sequence[str] | None = None, device: str | None = None, timeout: float | None = None
) -> DeviceMesh:
    """Arrange the ranks in a grid.

    Starts ``torch.distributed`` from the variables torchrun sets when nobody has; alone, the program is a world of one.

    Args:
        shape: sizes of the grid, whose product is the number of ranks; by default one row of all.
        names: of the grid's axes.
        device: ``cpu`` (gloo), ``cuda`` (nccl) or ``neuron``; by default ``cuda`` where there is one, else ``cpu``.
        timeout: seconds a rank waits for another before it raises `RankFailed`; by default the variable
            ``TRNSCI_DISTRIBUTED_TIMEOUT``.

    Returns:
        The mesh; the same one for the same arguments.

    Example:
        >>> from trnsci import distributed
        >>> grid = distributed.mesh()
        >>> grid.size()
        1
        >>> distributed.leave()
    """
    if timeout is not None and not timeout > 0:
        raise ArgumentError(op="mesh", argument="timeout", got=timeout, expected="a positive number of seconds")
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if not dist.is_initialized():
        _start(kind, timeout)
    here = world()
    if timeout is not None:
        here.timeout = timeout
    sizes = shape or (here.size,)
    if any(not isinstance(n, int) or n < 1 for n in sizes) or math.prod(sizes) != here.size:
        raise ArgumentError(
            op="mesh",
            argument="shape",
            got=sizes,
            expected=f"sizes whose product is {here.size}, the number of ranks",
            hint="Start another number with `trnsci launch -n N program.py`",
        )
    if names is not None and len(names) != len(sizes):
        raise ArgumentError(op="mesh", argument="names", got=tuple(names), expected=f"{len(sizes)} names")
    key = (kind, tuple(sizes), tuple(names) if names else None)
    if key not in here.meshes:
        # each new one is process groups of its own
        here.meshes[key] = init_device_mesh(kind, key[1], mesh_dim_names=key[2])
    return here.meshes[key]


def _start(kind: str, timeout: float | None) -> None:
    launched = config.launched_rank()
    if kind == "cuda":
        torch.cuda.set_device(launched or 0)
    engine = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}.get(kind, kind)
    seconds = timeout if timeout is not None else config.DISTRIBUTED_TIMEOUT.get()
    limit = timedelta(seconds=2 * seconds)
    if launched is not None:
        dist.init_process_group(engine, timeout=limit)
    else:
        dist.init_process_group(engine, store=HashStore(), rank=0, world_size=1, timeout=limit)


def shard(tensor: Tensor, mesh: DeviceMesh, *placements: Any) -> DTensor:
    """Spread a tensor that every rank has over a mesh. Nothing is sent: each rank keeps its part.

    Args:
        tensor: the whole tensor, the same on every rank.
        mesh: from `mesh`.
        placements: per axis of the mesh, the axis of the tensor that is cut along it, or ``None`` for a copy on every
            rank; torch's ``Shard`` and ``Replicate`` are taken too. Axes of the mesh left out hold copies.

    Returns:
        A DTensor, a leaf that requires grad if the tensor does. Parts are as ``torch.chunk`` cuts: equal except the
        last ones, which may be empty.

    Example:
        >>> from trnsci import distributed
        >>> a = distributed.shard(torch.ones(4, 2), distributed.mesh(), 0)
        >>> distributed.gather(a).shape
        torch.Size([4, 2])
        >>> distributed.leave()
    """
    from trnsci.distributed.parts import Part, placed

    if isinstance(tensor, DTensor):
        raise ArgumentError(
            op="shard",
            argument="tensor",
            got="a DTensor",
            expected="a tensor that every rank has in whole",
            hint="Change a placement with .redistribute(mesh, placements)",
        )
    check.tensor("shard", tensor=tensor)
    if not isinstance(mesh, DeviceMesh) or mesh.get_coordinate() is None:
        raise ArgumentError(
            op="shard", argument="mesh", got=mesh, expected="a mesh that this rank is part of, from distributed.mesh()"
        )
    if tensor.requires_grad and not tensor.is_leaf:
        raise ArgumentError(
            op="shard",
            argument="tensor",
            got="the result of a computation that requires grad",
            expected="a leaf",
            hint="Gradients do not pass shard: spread the leaves, or detach first",
        )
    places = placed("shard", placements, mesh.ndim, tensor.ndim)
    local = Part.cut(tensor.detach(), places, tuple(mesh.shape), tuple(mesh.get_coordinate() or ()))
    made = local.on(mesh)
    made.requires_grad_(tensor.requires_grad)
    return made


def gather(tensor: DTensor) -> Tensor:
    """Return the whole tensor on every rank. Gradients pass, when every rank goes on alike with the whole."""
    if not isinstance(tensor, DTensor):
        raise ArgumentError(op="gather", argument="tensor", got=type(tensor), expected="a DTensor")
    whole: Tensor = _Gathered.apply(tensor)  # type: ignore[no-untyped-call]
    return whole


class _Gathered(torch.autograd.Function):
    """Each rank's part of the gradient is its part of the whole's, which all ranks have."""

    @staticmethod
    def forward(ctx: Any, tensor: DTensor) -> Tensor:
        from trnsci.distributed.calls import run

        ctx.mesh, ctx.placements = tensor.device_mesh, tensor.placements
        whole: Tensor = run("gather", lambda team, part: part.whole(team), ctx.mesh, (tensor,), {})
        # a copy on every rank is the operand's own memory
        return whole if any(p.is_shard() or p.is_partial() for p in ctx.placements) else whole.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        places = [Replicate() if p.is_partial() else p for p in ctx.placements]
        return shard(grads[0].detach(), ctx.mesh, *places)
