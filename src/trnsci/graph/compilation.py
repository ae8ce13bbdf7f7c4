"""From a traced graph to the programs that run it: lowered, folded, built, and split where they must be."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from trnsci import config, programs
from trnsci.arrays import from_numpy
from trnsci.graph.builder import Builder
from trnsci.graph.folding import fold
from trnsci.graph.layouts import STORED, Buffer, View
from trnsci.graph.source import Segment, write_segment
from trnsci.graph.steps import HostCall, Step, describe_origin
from trnsci.graph.tracing import CALLS, lower
from trnsci.programs import Size
from trnsci.specs import ResidentTensor

_aten = torch.ops.aten


@dataclass(eq=False)
class Compiled:
    """Programs of one graph, in order, and what torch computes after each of them.

    Attributes:
        inputs: buffers of the planes of the arguments.
        constants: buffers whose data belongs to the programs.
        stages: programs of a level, then the operators that torch runs.
        results: views, operators of torch, or constants of the graph, one for each plane of a result.
        left: reasons of ops that no kernel takes, by name.
        calls: kernel calls and loops that its graphs refer to by index.
    """

    inputs: list[Buffer]
    constants: list[Buffer]
    stages: list[tuple[list[Segment], list[HostCall]]]
    results: list[Any]
    left: dict[str, str] = field(default_factory=dict)
    graph: GraphModule | None = None
    calls: list[Any] = field(default_factory=list)
    resident: dict[str, dict[Buffer, Tensor]] = field(default_factory=dict)

    @property
    def segments(self) -> list[Segment]:
        """All programs."""
        return [segment for segments, _ in self.stages for segment in segments]

    @property
    def host_calls(self) -> list[HostCall]:
        """Everything that stays with torch."""
        return [call for _, calls in self.stages for call in calls]

    @property
    def splits(self) -> tuple[str, ...]:
        """Where the graph is split, and why."""
        return tuple(dict.fromkeys(f"{describe_origin(call.node)}: {call.reason}" for call in self.host_calls))

    @property
    def nbytes(self) -> int:
        """Bytes of the constants, for the cache."""
        return sum(buffer.nbytes for buffer in self.constants)

    @property
    def hbm_bytes(self) -> int:
        """Bytes of arguments, constants and intermediates in HBM; what a program writes stays until it ends."""
        peaks = [0]
        for segment in self.segments:
            written = {buffer for step in segment.steps for buffer in _all_results(step)}
            peaks.append(sum(buffer.nbytes for buffer in {*segment.inputs, *written}))
        return max(peaks)


def _all_results(step: Step) -> list[Buffer]:
    inner = [buffer for each in step.body or [] for buffer in _all_results(each)]
    return [*step.results, *inner]


def compile_graph(traced: GraphModule, inputs: Sequence[Tensor], target: config.TargetName, name: str) -> Compiled:
    """Compile a traced graph for operands of these shapes and dtypes."""
    lowered, left = lower(traced, inputs, target)
    fold(lowered)
    placeholders = [node for node in lowered.graph.nodes if node.op == "placeholder"]
    buffers = [_input(index, node) for index, node in enumerate(placeholders)]
    builder = Builder(lowered, CALLS, target)
    results = builder.build(buffers)
    levels = [0, *(step.level for step in builder.steps), *(call.level for call in builder.hosted)]
    stages = []
    for level in range(max(levels) + 1):
        steps = [step for step in builder.steps if step.level == level]
        hosted = [call for call in builder.hosted if call.level == level]
        stages.append((_segments(steps, builder, results, f"{name}_{level}" if level else name), hosted))
    return Compiled(buffers, builder.constants, stages, results, left, lowered)


def _input(index: int, node: Node) -> Buffer:
    value = node.meta["val"]
    return Buffer(f"x{index}", tuple(value.shape) or (1,), STORED.get(value.dtype, value.dtype))


def _segments(steps: list[Step], builder: Builder, results: list[Any], name: str) -> list[Segment]:
    """Write the steps of a level as one program, or as few as the limits of size admit."""
    if not steps:
        return []
    last = {buffer: step for step in builder.steps for buffer in step.reads}
    after = {view.buffer for view in results if isinstance(view, View)}
    after |= {view.buffer for call in builder.hosted for view in call.operands}
    here = set(steps)
    needed = after | {buffer for buffer, step in last.items() if step not in here}
    whole = write_segment(steps, list(needed), name)
    if size_of(whole).fits:
        return [whole]
    groups: list[list[Step]] = []
    group: list[Step] = []
    used = Size(0, 0)
    for step in steps:
        size = size_of(write_segment([step], list(step.results), name))
        total = Size(*(a + b for a, b in zip(used, size, strict=True)))
        if group and not total.fits:
            groups.append(group)
            group, total = [], size
        group.append(step)
        used = total
    groups.append(group)
    segments = []
    for index, some in enumerate(groups):
        later = {buffer for group in groups[index + 1 :] for step in group for buffer in step.reads}
        segments.append(write_segment(some, list(needed | later), f"{name}_part{index}"))
    return segments


def size_of(segment: Segment) -> Size:
    """Return how long a program is; the body of a loop is counted once."""
    static = {"turns": (1,) * len(segment.loops)} if segment.loops else {}
    return programs.size_of(segment.kernel, segment.shapes(), static)


class Run:
    """One run of compiled programs: values of buffers and of operators of torch."""

    def __init__(self, compiled: Compiled, launcher: Any, keep: Any) -> None:
        self.compiled = compiled
        self.launcher = launcher
        self.keep = keep
        self.memory: dict[Buffer, Tensor] = {}
        self.hosted: dict[Node, Any] = {}
        self.changes: list[tuple[Tensor, Tensor]] = []
        self.launches = 0

    def __call__(self, inputs: Sequence[Tensor], constants: dict[Buffer, Tensor]) -> list[Tensor]:
        """Run everything on the planes of the arguments; return planes of the results."""
        for buffer, plane in zip(self.compiled.inputs, inputs, strict=True):
            self.memory[buffer] = plane
        self.memory.update(constants)
        for segments, calls in self.compiled.stages:
            for segment in segments:
                self._launch(segment)
            for call in calls:
                self._call(call)
        return [self._value(value) for value in self.compiled.results]

    def _launch(self, segment: Segment) -> None:
        given = tuple(self._as_stored(buffer) for buffer in segment.inputs)
        with segment.noting_origin():
            results = self.launcher.launch(segment.kernel, given, self.launcher.cores, segment.static)
        self.launches += 1
        for buffer, result in zip(segment.outputs, results if isinstance(results, tuple) else (results,), strict=True):
            # a program that reads nothing has no operand to return tensors for
            self.memory[buffer] = self.keep(result if isinstance(result, Tensor) else from_numpy(result))

    def _as_stored(self, buffer: Buffer) -> Tensor:
        """Return the tensor of a buffer as the device stores it."""
        data = self._data(buffer)
        if data.dtype != buffer.dtype:
            if data.dtype is torch.int64 and data.numel() and int(data.abs().max()) >= 1 << 31:
                raise OverflowError(f"{buffer.name} of a program has integers beyond 32 bits: the device has no others")
            data = data.to(buffer.dtype)
        return data.contiguous().reshape(buffer.shape)

    def _data(self, buffer: Buffer) -> Tensor:
        """Return the tensor of a buffer, which may be what torch computed."""
        return self.memory[buffer] if buffer in self.memory else self.hosted[buffer.data.node]

    def _call(self, call: HostCall) -> None:
        if call.data is not None:
            self.hosted[call.node] = call.data
            return
        if call.node.target is _aten.copy_.default and self._note_change(call):
            return
        values = {node: self._value(value) for node, value in call.values.items()}
        args, kwargs = map_arg((call.node.args, call.node.kwargs), lambda x: values[x])
        self.hosted[call.node] = call.node.target(*args, **kwargs)  # type: ignore[operator]

    def _note_change(self, call: HostCall) -> bool:
        """Note that a result belongs in an argument that the function changed; return whether it is one."""
        to, value = (call.values[node] for node in call.node.all_input_nodes)
        if not isinstance(to, View) or to.buffer not in self.compiled.inputs or not to.is_whole:
            return False
        target = self.memory[to.buffer]
        self.hosted[call.node] = changed = self._value(value).reshape(target.shape).clone()
        self.changes.append((target, changed))
        return True

    def write_changes(self) -> None:
        """Change the arguments; what results show of them was read before."""
        for target, changed in self.changes:
            target.copy_(changed)

    def _value(self, value: Any) -> Any:
        """Return a value as torch has it."""
        if isinstance(value, HostCall):
            return self.hosted[value.node]
        if isinstance(value, list | tuple):
            return [self._value(each) for each in value]
        return self.read(value) if isinstance(value, View) else value

    def read(self, view: View) -> Tensor:
        """Return the elements of a view, in the dtype torch knows."""
        data = self._data(view.buffer)
        data = data.as_subclass(Tensor) if isinstance(data, ResidentTensor) else data
        flat = data.to(view.dtype).reshape(-1).contiguous()
        return flat.as_strided(view.shape, view.stride, flat.storage_offset() + view.offset)
