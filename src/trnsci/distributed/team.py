"""The ranks of one call: which one this is, and the exchanges between them, counted."""

import functools
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from trnsci.distributed.world import World
from trnsci.ledger import Exchange, record
from trnsci.patience import Patience
from trnsim import fabric
from trnsim.json_reader import parse_json

# Seconds between two looks at what other ranks say, and those a message gets that was sent before its rank failed.
_LOOK, _GRACE = 0.1, 2.0
# Bytes of a text between ranks at most.
_MOST = 1 << 30
# PyTorch renamed it between the versions we run on
_gather_into: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


@dataclass(frozen=True, slots=True)
class Wait:
    """An exchange in flight: call it for the result, or ask first whether it is ready."""

    take: Callable[[], Any]
    ready: Callable[[], bool] = lambda: True

    def __call__(self) -> Any:
        """Wait for the exchange, and return its result."""
        return self.take()


class Crossing(NamedTuple):
    """An exchange as a rank's link sees it.

    Attributes:
        kind: ``all_gather``, ``all_to_all``, ``broadcast`` or ``shift``.
        ranks: that take part.
        stride: ranks from one of them to the next, counted along the whole mesh.
        nbytes: received or sent, whichever is more.
        buffer: of the largest tensor that takes part.
    """

    kind: str
    ranks: int
    stride: int
    nbytes: int
    buffer: int


class Moment(NamedTuple):
    """An exchange that begins, or is waited for, after a number of steps."""

    step: int
    exchange: int
    begins: bool


@dataclass(slots=True)
class Tally:
    """Messages and bytes one rank received, and the exchanges it took part in."""

    messages: int = 0
    volume: int = 0
    exchanges: list[Crossing] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)


class Team:
    """A mesh as an algorithm sees it: the grid's shape, this rank's coordinate, and exchanges along an axis.

    The base class sends nothing and counts everything, on tensors without data: planning runs an algorithm with it.
    Parts may differ in size; gathered ones travel padded to the largest, which is what the counts say.
    """

    def __init__(self, op: str, shape: Sequence[int], coordinate: Sequence[int], device: torch.device) -> None:
        self.op, self.shape, self.coordinate, self.device = op, tuple(shape), tuple(coordinate), device
        self.tally = Tally()
        # steps of the algorithm so far, as a plan counts them
        self.steps: Callable[[], int] = lambda: 0

    def size(self, axis: int) -> int:
        """Return the number of ranks along an axis of the grid."""
        return self.shape[axis]

    def first(self, place: int | None) -> tuple[int | None, ...]:
        """Return the placement that cuts ``place`` along the first axis of the grid, with copies along the others."""
        return (place, *[None] * (len(self.shape) - 1))

    def here(self, axis: int) -> int:
        """Return this rank's index along an axis."""
        return self.coordinate[axis]

    def _count(self, kind: str, axis: int, messages: int, received: int, crossed: int, buffer: int) -> None:
        self.tally.messages += messages
        self.tally.volume += received
        stride = math.prod(self.shape[axis + 1 :])
        self.tally.exchanges.append(Crossing(kind, self.size(axis), stride, crossed, buffer))

    def all_gather(self, axis: int, tensor: Tensor, shapes: Sequence[Sequence[int]]) -> list[Tensor]:
        """Return every rank's tensor, in order; ``shapes`` are theirs."""
        gathered: list[Tensor] = self.start_all_gather(axis, tensor, shapes)()
        return gathered

    def start_all_gather(self, axis: int | None, tensor: Tensor, shapes: Sequence[Sequence[int]]) -> Wait:
        """Start `all_gather`; without an axis, this rank's own tensor is the result."""
        ranks = 1 if axis is None else self.size(axis)
        if axis is None or ranks == 1:
            return Wait(lambda: [tensor])
        width = max(_nbytes(shape, tensor.dtype) for shape in shapes)
        nbytes = (ranks - 1) * width
        self._count("all_gather", axis, ranks - 1 if width else 0, nbytes, nbytes, ranks * width)
        received = torch.empty((ranks, width), dtype=torch.uint8, device=self.device)

        def take() -> list[Tensor]:
            return [_unpad(row, shape, tensor.dtype) for row, shape in zip(received, shapes, strict=True)]

        if not width:
            return Wait(take)
        return self._start("all_gather", axis, nbytes, _gather_into, received.view(-1), _pad(tensor, width), take=take)

    def all_to_all(self, axis: int, pieces: Sequence[Tensor], shapes: Sequence[Sequence[int]]) -> list[Tensor]:
        """Send ``pieces[r]`` to rank r; return what each rank sent here, whose shapes are ``shapes``."""
        return self.start_all_to_all(axis, pieces, shapes)()

    def start_all_to_all(self, axis: int, pieces: Sequence[Tensor], shapes: Sequence[Sequence[int]]) -> Wait:
        """Start `all_to_all`; call what is returned to wait for it."""
        if self.size(axis) == 1:
            return Wait(lambda: list(pieces))
        dtype, here = pieces[0].dtype, self.here(axis)
        coming, leaving = [_nbytes(shape, dtype) for shape in shapes], [piece.nbytes for piece in pieces]
        nbytes = sum(coming) - coming[here]
        messages = sum(size > 0 for rank, size in enumerate(coming) if rank != here)
        crossed, buffer = max(nbytes, sum(leaving) - leaving[here]), max(sum(coming), sum(leaving))
        self._count("all_to_all", axis, messages, nbytes, crossed, buffer)
        rows = self._exchange("all_to_all", axis, nbytes, [as_bytes(piece) for piece in pieces], coming)
        return Wait(lambda: [_unpad(row, shape, dtype) for row, shape in zip(rows(), shapes, strict=True)], rows.ready)

    def _exchange(
        self, kind: str, axis: int, nbytes: int, sent: Sequence[Tensor], coming: Sequence[int], step: int = 0
    ) -> Wait:
        """Start sending bytes to all ranks along an axis; the result has ``coming`` bytes of every rank.

        With a ``step``, everything goes to the rank ``step`` before.
        """
        received = torch.empty(sum(coming), dtype=torch.uint8, device=self.device)
        full = [x for x in sent if len(x)]
        # a single message needs no copy
        data = full[0] if len(full) == 1 else torch.cat(list(sent))
        exchange = (dist.all_to_all_single, received, data, list(coming), [len(x) for x in sent])
        return self._start(kind, axis, nbytes, *exchange, take=lambda: received.split(list(coming)))

    def broadcast(
        self, axis: int, tensor: Tensor | None, shape: Sequence[int], dtype: torch.dtype, source: int
    ) -> Wait:
        """Start sending ``tensor`` from rank ``source`` to all; call what is returned to wait for it."""
        if self.size(axis) == 1:
            assert tensor is not None
            return Wait(lambda: tensor)
        nbytes, away = _nbytes(shape, dtype), self.here(axis) != source
        received = nbytes if away else 0
        self._count("broadcast", axis, int(away), received, nbytes, nbytes)
        if away or nbytes == 0:
            data = torch.empty(nbytes, dtype=torch.uint8, device=self.device)
        else:
            assert tensor is not None
            data = as_bytes(tensor)

        def take() -> Tensor:
            return _unpad(data, shape, dtype)

        if nbytes == 0:
            return Wait(take)
        send = functools.partial(dist.broadcast, group_src=source)
        return self._start("broadcast", axis, received, send, data, take=take)

    def shift(self, axis: int, tensor: Tensor, shape: Sequence[int], step: int = 1) -> Wait:
        """Start passing ``tensor`` to the rank ``step`` before and taking that of the one after, which has ``shape``.

        The last rank's neighbour is the first; call what is returned to wait.
        """
        ranks, here = self.size(axis), self.here(axis)
        if ranks == 1:
            return Wait(lambda: tensor)
        received = _nbytes(shape, tensor.dtype)
        crossed = max(received, tensor.nbytes)
        self._count("shift", axis, int(received > 0), received, crossed, crossed)
        sent, coming = [torch.empty(0, dtype=torch.uint8, device=self.device)] * ranks, [0] * ranks
        target, source = (here - step) % ranks, (here + step) % ranks
        sent[target], coming[source] = as_bytes(tensor), received
        rows = self._exchange("shift", axis, received, sent, coming, step)
        return Wait(lambda: _unpad(rows()[source], shape, tensor.dtype), rows.ready)

    def reduce_scatter(self, axis: int, pieces: Sequence[Tensor]) -> Tensor:
        """Return the sum over ranks of ``pieces[here]``, added in the order of ranks: the same bits every time."""
        mine = pieces[self.here(axis)]
        received = self.all_to_all(axis, pieces, [mine.shape] * self.size(axis))
        total = received[0].clone() if len(received) > 1 else received[0]
        for piece in received[1:]:
            total += piece
        return total

    def all_reduce(self, axis: int, tensor: Tensor) -> Tensor:
        """Return the sum over ranks, the same bits on each."""
        ranks = self.size(axis)
        if ranks == 1:
            return tensor
        pieces = list(torch.tensor_split(tensor.reshape(-1), ranks))
        mine = self.reduce_scatter(axis, pieces)
        parts = self.all_gather(axis, mine, [piece.shape for piece in pieces])
        return torch.cat(parts).reshape(tensor.shape)

    def _start(
        self,
        kind: str,
        axis: int,
        nbytes: int | None,
        collective: Callable[..., Any],
        *args: Any,
        take: Callable[[], Any] = lambda: None,
    ) -> Wait:
        """Start an exchange of torch's along an axis, which receives ``nbytes``; ``take`` returns what has come."""
        moments, exchange = self.tally.moments, len(self.tally.exchanges) - 1
        moments.append(Moment(self.steps(), exchange, True))

        def wait() -> Any:
            moments.append(Moment(self.steps(), exchange, False))
            return take()

        return Wait(wait)


class _Works(list[Any]):
    """Several messages, as one."""

    def is_completed(self) -> bool:
        """Return whether all have arrived."""
        return all(work.is_completed() for work in self)

    def wait(self) -> None:
        """Wait for all."""
        for work in self:
            work.wait()


class LiveTeam(Team):
    """A team that moves data, through ``torch.distributed``'s own collectives."""

    def __init__(self, op: str, mesh: DeviceMesh, world: World) -> None:
        coordinate = mesh.get_coordinate() or ()
        own = f"cuda:{torch.cuda.current_device()}" if mesh.device_type == "cuda" else mesh.device_type
        super().__init__(op, tuple(mesh.shape), tuple(coordinate), torch.device(own))
        self.mesh, self.world = mesh, world
        self._groups: dict[int, Any] = {}

    def _group(self, axis: int) -> Any:
        if axis not in self._groups:
            self._groups[axis] = self.world.groups.along(self.mesh, axis)
        return self._groups[axis]

    def _exchange(
        self, kind: str, axis: int, nbytes: int, sent: Sequence[Tensor], coming: Sequence[int], step: int = 0
    ) -> Wait:
        if self.mesh.device_type != "neuron":
            return super()._exchange(kind, axis, nbytes, sent, coming)
        if step and self.world.has_send:
            return self._pass_on(axis, nbytes, sent, coming, step)
        # Neuron exchanges equal parts between groups of some sizes; others gather what everyone sends
        mine = torch.tensor([max(map(len, sent))], dtype=torch.int32, device=self.device)
        ranks, here = self.size(axis), self.here(axis)
        widths = torch.empty(ranks, dtype=torch.int32, device=self.device)
        self._start("sizes", axis, None, _gather_into, widths, mine)()
        width = int(widths.max())
        rows = torch.stack([_pad(piece, width) for piece in sent]).view(-1)
        group = dist.get_process_group_ranks(self._group(axis))
        everything = not fabric.can_exchange_among(group, self.world.size)
        received = rows.new_empty((ranks, ranks if everything else 1, width))

        def take() -> list[Tensor]:
            return [row[here if everything else 0][:count] for row, count in zip(received, coming, strict=True)]

        if not width:
            return Wait(take)
        collective = _gather_into if everything else dist.all_to_all_single
        return self._start(kind, axis, nbytes, collective, received.view(-1), rows, take=take)

    def _pass_on(self, axis: int, nbytes: int, sent: Sequence[Tensor], coming: Sequence[int], step: int) -> Wait:
        """Send to the rank before and receive from the rank after, where the process group can."""
        ranks, here = self.size(axis), self.here(axis)
        source, target = (here + step) % ranks, (here - step) % ranks
        # a byte where there is nothing: every rank learns whether the group can send
        data = _pad(sent[target], max(1, len(sent[target])))
        received = torch.empty(max(1, coming[source]), dtype=torch.uint8, device=self.device)

        def start(group: Any, async_op: bool) -> _Works:
            return _Works([group.recv([received], source, 0), group.send([data], target, 0)])

        try:
            return self._start("shift", axis, nbytes, start, take=lambda: [received[:count] for count in coming])
        except NotImplementedError:
            # every rank is told so before anything was sent
            self.world.has_send = False
            return self._exchange("shift", axis, nbytes, sent, coming, step)

    def all_gather_json(self, axis: int, value: Any) -> list[Any]:
        """Return every rank's value, through JSON."""
        data = torch.tensor(list(json.dumps(value).encode()), dtype=torch.uint8, device=self.device)
        length = torch.tensor([len(data)], device=self.device)
        lengths = torch.cat(self.all_gather(axis, length, [(1,)] * self.size(axis))).tolist()
        return [
            parse_json(bytes(row.tolist()), most=_MOST) for row in self.all_gather(axis, data, [(n,) for n in lengths])
        ]

    def end(self) -> None:
        """Wait until every rank has reached the end of the call, so that none leaves one that another failed in."""
        for axis in range(len(self.shape)):
            if self.size(axis) > 1:
                said = torch.ones(1, dtype=torch.uint8, device=self.device)
                heard = torch.empty(self.size(axis), dtype=torch.uint8, device=self.device)
                self._start("the end", axis, None, _gather_into, heard, said)()

    def _start(
        self,
        kind: str,
        axis: int,
        nbytes: int | None,
        collective: Callable[..., Any],
        *args: Any,
        take: Callable[[], Any] = lambda: None,
    ) -> Wait:
        # every rank counts the exchanges of a call alike
        self.world.started += 1
        number = self.world.started
        work = collective(*args, group=self._group(axis), async_op=True)

        def wait() -> Any:
            self._finish(work, kind, nbytes, number)
            return take()

        return Wait(wait, work.is_completed)

    def _finish(self, work: Any, kind: str, nbytes: int | None, number: int) -> None:
        """Wait for an exchange, watching the clock and what other ranks say."""
        start, patience = time.monotonic(), Patience(self.world.patience)
        pause, next_look, look = 20e-6, start + _LOOK, None
        self.world.waiting = True
        while not work.is_completed():
            time.sleep(pause)
            pause = min(1.5 * pause, 2e-3)
            now = time.monotonic()
            if patience.is_over():
                raise self.world.failure(kind)
            if look is None and now > next_look:
                look = self.world.look()
            elif look is not None and look.done():
                # an answer that does not come, or a store that has gone, is no reason to stop waiting for a message
                said = None if look.exception() else look.result()
                next_look, look = now + _LOOK, None
                if said is not None:
                    # what was sent before the fault may still arrive, and then this rank finds the same fault itself
                    patience.shorten(_GRACE if number <= said["started"] else 0.0)
        try:
            work.wait()
        except RuntimeError as error:
            raise self.world.failure(kind) from error
        self.world.waiting = False
        if nbytes is not None:
            record(Exchange(self.op, kind, nbytes, time.monotonic() - start))


def in_flight(start: Callable[..., Sequence[Wait]], turns: Iterable[Iterable[Any]]) -> Iterator[list[Any]]:
    """Yield the results of the exchanges that ``start(*turn)`` begins; those of the next turn travel meanwhile."""
    waits: Sequence[Wait] | None = None
    for turn in turns:
        following = start(*turn)
        if waits is not None:
            yield [wait() for wait in waits]
        waits = following
    if waits is not None:
        yield [wait() for wait in waits]


def _nbytes(shape: Sequence[int], dtype: torch.dtype) -> int:
    count = dtype.itemsize
    for size in shape:
        count *= size
    return count


def as_bytes(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor, of which it is a view where it can be one."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    if flat.device.type == "neuron":
        # Neuron's tensors do not tell how they lie in memory
        flat = tensor.detach().resolve_conj().clone(memory_format=torch.contiguous_format).reshape(-1)
    elif flat.stride() != (1,):
        # a single element is contiguous whatever its stride, but has no view as bytes
        flat = flat.new_empty(flat.shape).copy_(flat)
    return (torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat).view(torch.uint8)


def _pad(tensor: Tensor, width: int) -> Tensor:
    data = as_bytes(tensor)
    return data if data.numel() == width else torch.nn.functional.pad(data, (0, width - data.numel()))


def _unpad(row: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    used = row[: _nbytes(shape, dtype)]
    if used.device.type == "neuron" or used.storage_offset() % dtype.itemsize:
        # Neuron's tensors do not tell where in memory they begin
        used = used.clone()
    return used.view(dtype).reshape(tuple(shape))
