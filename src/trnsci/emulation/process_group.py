"""Process group ``neuron`` of the emulated device: gloo behind the rules that are documented or reported of Neuron's.

A group must exist before the device is used, and helpers are spawned, not forked. Parts are equal: ``all_to_all``
has no split sizes and wants 4, 8 or a multiple of 32 ranks that follow one another, in a group that divides the world.
A barrier is of all ranks. ``send`` and ``recv`` are a switch (`Rules.has_send`). Host tensors need ``cpu:gloo`` in the
backend's name.
The device is ``neuron`` on every rank. On a Trainium ``neuron:0`` belongs to rank 0 alone, which cannot be enforced
here: torch fills in the index 0 before the device is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from trnsci.emulation import rules
from trnsci.torch_internals import c10d, world
from trnsim import fabric

if TYPE_CHECKING:
    from trnsci.emulation.device import Machine

# Neuron cuts what it exchanges at COLLECTIVE_BUCKETSIZE_IN_MB
BUCKET = 512 * 2**20
_Base: Any = dist.ProcessGroup


def register_group(machine: Machine) -> None:
    """Let ``init_process_group("neuron")`` join ranks of the emulated machine."""

    def create(store: Any, rank: int, size: int, timeout: timedelta) -> NeuronGroup:
        machine.join()
        return NeuronGroup(machine, store, rank, size, timeout)

    if "neuron" not in dist.Backend.backend_list:
        dist.Backend.register_backend("neuron", create, devices=["neuron"])


class NeuronGroup(_Base):  # type: ignore[misc]
    """Ranks of one group. Their numbers travel by gloo, to host tensors that the results are copied from."""

    def __init__(self, machine: Machine, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._machine = machine
        self._gloo = c10d.ProcessGroupGloo(store, rank, size, timeout=timeout)

    def getBackendName(self) -> str:
        """Return the name ``torch.distributed`` shows."""
        return "neuron"

    @property
    def group_name(self) -> str:
        """Name torch has given the group."""
        return world.pg_names[self]

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """Reduce tensors over all ranks, in place."""
        return self._reduce("all_reduce", tensors, opts or c10d.AllreduceOptions(), self._gloo.allreduce)

    def reduce(self, tensors: Any, opts: Any = None) -> Any:
        """Reduce tensors to one rank, in place."""
        return self._reduce("reduce", tensors, opts or c10d.ReduceOptions(), self._gloo.reduce)

    def _reduce(self, name: str, tensors: list[Tensor], opts: Any, collective: Callable[..., Any]) -> Any:
        opts, average = _as_sum(opts)
        sent = self._send(name, tensors)

        def divide() -> list[Tensor]:
            return [x / self.size() if average else x for x in sent]

        return self._finish(collective(sent, opts), tensors, divide)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        """Reduce several tensors over all ranks."""
        works = [self.allreduce([x], opts) for x in tensors]
        return _join(works)

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        """Send one rank's tensors to all; on the device an all-reduce with zeros, so its bytes count twice."""
        sent = self._send("broadcast", tensors, times=2)
        return self._finish(self._gloo.broadcast(sent, opts or c10d.BroadcastOptions()), tensors, lambda: sent)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Gather equal tensors of all ranks into lists."""
        _require_equal("all_gather", [*outputs[0], *inputs])
        sent = self._send("all_gather", inputs)
        parts = [torch.empty_like(sent[0]) for _ in outputs[0]]
        return self._finish(self._gloo.allgather([parts], sent), outputs[0], lambda: parts)

    def all_gather_single(self, output: Tensor, given: Tensor, opts: Any = None) -> Any:
        """Gather equal tensors of all ranks into one."""
        _require_size("all_gather_into_tensor", output, self.size() * given.numel())
        sent = self._send("all_gather", [given])
        parts = [torch.empty_like(sent[0]) for _ in range(self.size())]
        return self._finish(self._gloo.allgather([parts], sent), [output], lambda: [torch.cat(parts)])

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Gather several tensors."""
        return _join([self.all_gather_single(a, b, opts) for a, b in zip(outputs, inputs, strict=True)])

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Reduce lists of equal tensors over all ranks, and keep this rank's."""
        _require_equal("reduce_scatter", [*outputs, *inputs[0]])
        return self._reduce_parts(outputs[0], self._send("reduce_scatter", inputs[0]), opts)

    def reduce_scatter_single(self, output: Tensor, given: Tensor, opts: Any = None) -> Any:
        """Reduce tensors over all ranks, and keep this rank's part."""
        _require_size("reduce_scatter_tensor", given, self.size() * output.numel())
        whole = self._send("reduce_scatter", [given])[0]
        return self._reduce_parts(output, list(whole.split(max(1, output.numel()))), opts)

    def _reduce_parts(self, output: Tensor, parts: list[Tensor], opts: Any) -> Any:
        opts, average = _as_sum(opts or c10d.ReduceScatterOptions())
        reduction = c10d.AllreduceOptions()
        reduction.reduceOp = opts.reduceOp
        whole = torch.cat(parts) if parts else output.new_empty(0)
        size = output.numel()

        def own() -> list[Tensor]:
            part = whole[self.rank() * size : (self.rank() + 1) * size]
            return [part / self.size() if average else part]

        return self._finish(self._gloo.allreduce([whole], reduction), [output], own)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Reduce and scatter several tensors."""
        return _join([self.reduce_scatter_single(a, b, opts) for a, b in zip(outputs, inputs, strict=True)])

    def all_to_all_single(
        self, output: Tensor, given: Tensor, coming: Sequence[int], leaving: Sequence[int], opts: Any = None
    ) -> Any:
        """Exchange equal parts between all ranks."""
        if any(n != 1 for n in (*(coming or ()), *(leaving or ()))) and self._is_on_device([given]):
            raise NotImplementedError(
                "all_to_all_single of the neuron backend has no split sizes: exchange equal parts"
            )
        _require_size("all_to_all_single", output, given.numel())
        self._require_exchange([given])
        sent = self._send("all_to_all", [given])[0]
        received = torch.empty_like(sent)
        work = self._gloo.alltoall_base(received, sent, list(coming or ()), list(leaving or ()))
        return self._finish(work, [output], lambda: [received])

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Exchange lists of equal tensors between all ranks."""
        _require_equal("all_to_all", [*outputs, *inputs])
        self._require_exchange(inputs)
        sent = torch.cat(self._send("all_to_all", inputs))
        received = torch.empty_like(sent)
        work = self._gloo.alltoall_base(received, sent, [], [])
        return self._finish(work, outputs, lambda: list(received.chunk(self.size())))

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Gather equal tensors on one rank."""
        _require_equal("gather", [*(outputs[0] if outputs else ()), *inputs])
        sent = self._send("gather", inputs)
        parts = [torch.empty_like(sent[0]) for _ in (outputs[0] if outputs else ())]
        work = self._gloo.gather([parts] if outputs else [], sent, opts or c10d.GatherOptions())
        return self._finish(work, outputs[0] if outputs else [], lambda: parts)

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Send each rank its part from one rank."""
        _require_equal("scatter", [*outputs, *(inputs[0] if inputs else ())])
        parts = self._send("scatter", inputs[0]) if inputs else []
        received = [torch.empty_like(self._copy_to_host(x)) for x in outputs]
        work = self._gloo.scatter(received, [parts] if inputs else [], opts or c10d.ScatterOptions())
        return self._finish(work, outputs, lambda: received)

    def send(self, tensors: Any, target: int, tag: int = 0) -> Any:
        """Send to a rank."""
        self._require_send("send", tensors)
        return self._gloo.send(self._send("send", tensors), target, tag)

    def recv(self, tensors: Any, source: int, tag: int = 0) -> Any:
        """Receive from a rank."""
        self._require_send("recv", tensors)
        received = [self._copy_to_host(x) for x in tensors]
        return _Receipt(self._gloo.recv(received, source, tag), lambda: self._write(tensors, received))

    def barrier(self, opts: Any = None) -> Any:
        """Wait for all ranks of the world."""
        if self.size() != dist.get_world_size():
            raise RuntimeError("the neuron backend has a barrier on the default group alone")
        return self._gloo.barrier()

    # names before torch 2.13
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _is_on_device(self, tensors: Sequence[Tensor]) -> bool:
        """Return whether tensors are the device's; raise for host tensors of a group without ``cpu:gloo``."""
        kinds = {x.device.type for x in tensors}
        if kinds == {"cpu"} and "cpu:gloo" not in world.pg_backend_config.get(self, ""):
            raise RuntimeError(
                "No backend type associated with device type cpu: start the group as cpu:gloo,neuron:neuron"
            )
        if len(kinds) > 1:
            raise ValueError(f"tensors of one collective are on {sorted(kinds)}")
        return kinds == {"neuron"}

    def _copy_to_host(self, x: Tensor) -> Tensor:
        """Return a contiguous host copy of a tensor, flat, in the precision of the device."""
        numbers = self._machine.memory.numbers(x.detach())
        if x.device.type == "neuron" and self._machine.limits.casts:
            numbers = rules.lower_precision(numbers)
        return numbers.reshape(-1).clone()

    def _send(self, name: str, tensors: Sequence[Tensor], times: int = 1) -> list[Tensor]:
        """Count a collective, and return host copies of its operands."""
        if self._is_on_device(tensors):
            nbytes = times * sum(x.nbytes for x in tensors)
            self._machine.record.collective(name, math.ceil(nbytes / BUCKET) or 1, nbytes)
        return [self._copy_to_host(x) for x in tensors]

    def _finish(self, work: Any, targets: Sequence[Tensor], results: Callable[[], list[Tensor]]) -> Any:
        """Return the work of a collective that copies its results to tensors of the device when it has ended."""

        def copy(done: Any) -> list[Tensor]:
            done.wait()
            return self._write(targets, results())

        return c10d._create_work_from_future(work.get_future().then(copy))

    def _write(self, targets: Sequence[Tensor], results: Sequence[Tensor]) -> list[Tensor]:
        """Copy flat host tensors to tensors of the device, and return these."""
        for target, result in zip(targets, results, strict=True):
            numbers = self._machine.memory.numbers(target.detach())
            numbers.copy_(rules.narrow_result(result, numbers.dtype).reshape(numbers.shape))
        return list(targets)

    def _require_exchange(self, tensors: Sequence[Tensor]) -> None:
        size, everyone = self.size(), dist.get_world_size()
        ranks = dist.get_process_group_ranks(self)
        if self._is_on_device(tensors) and size > 1 and not fabric.can_exchange_among(ranks, everyone):
            groups = f"4, 8 or multiples of 32 that follow one another and divide the world of {everyone}"
            raise RuntimeError(f"all_to_all of the neuron backend does not support ranks {ranks}: it has {groups}")

    def _require_send(self, name: str, tensors: Sequence[Tensor]) -> None:
        if self._is_on_device(tensors) and not self._machine.limits.has_send:
            raise NotImplementedError(f"the neuron backend has no {name}: use a collective of all ranks")


class _Receipt(dist.Work):
    """A ``recv`` under way; gloo has no future for it."""

    def __init__(self, work: Any, write: Callable[[], Any]) -> None:
        super().__init__()
        self._work, self._write = work, write

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait for the message, and copy it to the device."""
        self._work.wait(timeout)
        self._write()
        return True

    def is_completed(self) -> bool:
        """Return whether the message has come."""
        return bool(self._work.is_completed())


def _as_sum(opts: Any) -> tuple[Any, bool]:
    """Return options gloo knows, and whether their sum is to be divided by the ranks."""
    if opts.reduceOp != dist.ReduceOp.AVG:
        return opts, False
    opts.reduceOp = dist.ReduceOp.SUM
    return opts, True


def _join(works: list[Any]) -> Any:
    """Return one work for several."""
    futures = torch.futures.collect_all([work.get_future() for work in works])
    return c10d._create_work_from_future(futures.then(lambda done: [x for f in done.wait() for x in f.wait()]))


def _require_equal(name: str, tensors: Sequence[Tensor]) -> None:
    shapes = sorted({tuple(x.shape) for x in tensors})
    if len(shapes) > 1:
        raise ValueError(f"{name} of the neuron backend wants equal parts, and they have shapes {shapes}")


def _require_size(name: str, x: Tensor, wanted: int) -> None:
    if x.numel() != wanted:
        raise ValueError(f"{name} of the neuron backend wants equal parts: {wanted} elements, and it has {x.numel()}")
