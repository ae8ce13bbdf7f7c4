"""From a lowered graph to steps: each operator becomes a call of a kernel, a view, a pending expression, or stays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from trnsci.config import TargetName
from trnsci.graph import kernels
from trnsci.graph.expressions import Code, Value, pointwise_rule, why_not_pointwise
from trnsci.graph.layouts import P_MAX, STORED, Buffer, View, collapse, cut_blocks, row_major, whole_view
from trnsci.graph.tracing import LAUNCH, REPEAT, Calls

_aten = torch.ops.aten
# bytes of an SBUF partition that the values of one expression may take, twice
_EXPRESSION_BYTES = 80 << 10
_WIDEST = 2048
_NUMPY = (torch.float32, torch.int32, torch.int64, torch.bool, torch.uint8)
# elements below which a transposed copy is left to DMA, and constants are compared
_FEW = 2048


class Refused(Exception):
    """An operator that stays with torch, and why."""


@dataclass(eq=False)
class Step:
    """One call inside a program: a kernel's function, its operands, and the buffers it writes.

    Attributes:
        kernel: the function; operands and results are its first arguments where ``writes_given``.
        operands: buffers with the shape they are passed in, or ``None``.
        results: buffers it writes.
        static: compile-time arguments.
        origin: the traced operator and its source line.
        body: steps of a loop, with its count; kernel is ``None`` then.
    """

    kernel: Any
    operands: tuple[tuple[Buffer, tuple[int, ...]] | None, ...]
    results: tuple[Buffer, ...]
    static: dict[str, Any]
    origin: str = ""
    writes_given: bool = True
    single: bool = True
    level: int = 0
    body: list[Step] | None = None
    count: int = 1

    @property
    def reads(self) -> list[Buffer]:
        """Buffers it reads that existed before it."""
        own = [operand[0] for operand in self.operands if operand is not None]
        if self.body is not None:
            written = {buffer for step in self.body for buffer in step.results}
            own += [buffer for step in self.body for buffer in step.reads if buffer not in written]
        return own


@dataclass(eq=False)
class HostCall:
    """An operator that stays with torch, after the program of its level."""

    node: Node
    reason: str
    level: int
    values: dict[Node, Any] = field(default_factory=dict)
    # a constant that only torch knows
    data: Any = None

    @property
    def operands(self) -> list[View]:
        """What it reads of device memory."""
        return [each for value in self.values.values() for each in _leaves(value) if isinstance(each, View)]


@dataclass(eq=False)
class Pending:
    """A pointwise node that is part of an expression not yet written as a step."""

    node: Node
    level: int
    dtype: torch.dtype
    shape: tuple[int, ...]


class Builder:
    """Builds the steps of one graph."""

    def __init__(
        self, graph: GraphModule, calls: Calls, target: TargetName, names: Callable[[str], str] | None = None
    ) -> None:
        self.graph = graph
        self.target = target
        self.calls = calls
        self.steps: list[Step] = []
        self.hosted: list[HostCall] = []
        self.constants: list[Buffer] = []
        self.values: dict[Node, Any] = {}
        self.pending: dict[tuple[Any, ...], list[Pending]] = {}
        self._counts: dict[str, int] = {}
        self._names = names or self._name
        self._kept: dict[Any, Buffer] = {}
        self._origin = ""

    def _name(self, stem: str) -> str:
        self._counts[stem] = self._counts.get(stem, -1) + 1
        return f"{stem}{self._counts[stem]}"

    def build(self, inputs: Sequence[Buffer]) -> list[Any]:
        """Go through the nodes in order; return the values of the results."""
        given = iter(inputs)
        for node in self.graph.graph.nodes:
            if node.op == "placeholder":
                buffer = next(given)
                value = node.meta["val"]
                self.values[node] = whole_view(buffer, tuple(value.shape), value.dtype)
            elif node.op == "get_attr":
                self.values[node] = self._attribute(node)
            elif node.op == "call_function":
                self._origin = describe_origin(node)
                self.values[node] = self._value(node)
            elif node.op == "output":
                results = [
                    self.settle(self.values.get(x, x)) if isinstance(x, Node) else x for x in _leaves(node.args[0])
                ]
        return results

    def _attribute(self, node: Node) -> Any:
        data = _attribute(self.graph, node.target)
        try:
            return self.constant(data)
        except Refused as refused:
            self.hosted.append(HostCall(node, str(refused), 0, data=data))
            return self.hosted[-1]

    def constant(self, data: Tensor) -> View:
        """Return a constant as a buffer of the program; the same tensor is one buffer."""
        if data.dtype not in STORED:
            raise Refused(f"a constant of {data.dtype} has no place on the device")
        key = (
            (data.dtype, tuple(data.shape), data.numpy(force=True).tobytes())
            if data.numel() <= _FEW and data.dtype in _NUMPY
            else id(data)
        )
        if key not in self._kept:
            stored = data.detach().to(STORED[data.dtype]).contiguous().reshape(-1)
            buffer = Buffer(self._names("constant"), tuple(data.shape) or (1,), stored.dtype, data=(stored, data))
            self._kept[key] = buffer
            self.constants.append(buffer)
        return whole_view(self._kept[key], tuple(data.shape), data.dtype)

    def _value(self, node: Node) -> Any:
        try:
            return self._device_value(node)
        except Refused as refused:
            return self._leave(node, str(refused))

    def _leave(self, node: Node, reason: str) -> Any:
        """Leave an operator to torch: what it reads is settled."""
        level = 0
        for x in node.all_input_nodes:
            self.values[x] = value = self.settle(self.values[x])
            for each in _leaves(value):
                level = max(level, each.buffer.level if isinstance(each, View) else each.level)
        call = HostCall(node, reason, level, {x: self.values[x] for x in node.all_input_nodes})
        self.hosted.append(call)
        return call

    def _device_value(self, node: Node) -> Any:
        target: Any = node.target
        if target is operator.getitem:
            source = self.values[node.args[0]]
            if isinstance(source, HostCall):
                raise Refused("its operand is computed by torch")
            return source[node.args[1]]
        rule = pointwise_rule(node)
        if rule is not None:
            return self._pointwise(node)
        if target is LAUNCH:
            return self._launch(node)
        if target is REPEAT:
            return self._repeat(node)
        packet = getattr(target, "overloadpacket", None)
        name = packet.__name__ if packet is not None and target.namespace == "aten" else ""
        handler = getattr(self, f"_{name}_node", None)
        if name in _IDENTITIES and tuple(node.args[0].meta["val"].shape) == tuple(node.meta["val"].shape):
            return self._clone_node(node)
        if handler is not None:
            return handler(node)
        if name in _VIEWS:
            return self._view(node)
        if name in _SCATTERS:
            return self._scatter(node, _SCATTERS[name])
        raise Refused(f"{target} is not in the set of operators that programs compute")

    # operands

    def operand(self, x: Any) -> View:
        """Return an operand in HBM: what torch computed comes as an argument of the next program."""
        value = self.settle(self.values[x])
        self.values[x] = value
        if isinstance(value, HostCall):
            value = self._fetched(x, value)
        if not isinstance(value, View):
            raise Refused("an operand is not a tensor")
        return value

    def _fetched(self, x: Node, call: HostCall) -> View:
        data = x.meta["val"]
        if not isinstance(data, Tensor) or data.dtype not in STORED:
            raise Refused(f"its operand {x} is {getattr(data, 'dtype', 'no tensor')}, which is computed by torch")
        name = f"{call.node.name}_hbm"
        key = id(call)
        if key not in self._kept:
            self._kept[key] = Buffer(name, tuple(data.shape) or (1,), STORED[data.dtype], call.level + 1, data=call)
        return whole_view(self._kept[key], tuple(data.shape), data.dtype)

    def level_of(self, *values: Any) -> int:
        """Return the first program that can have all values."""
        levels = [0]
        for value in values:
            if isinstance(value, Pending):
                levels.append(value.level)
            elif isinstance(value, View):
                levels.append(value.buffer.level)
            elif isinstance(value, HostCall):
                levels.append(value.level + 1)
        return max(levels)

    def settle(self, value: Any) -> Any:
        """Return a value in HBM, writing the expression it is part of where it is pending."""
        if isinstance(value, list | tuple):
            return type(value)(self.settle(each) for each in value)
        if isinstance(value, Pending):
            self._flush((value.shape, value.level))
            return self.values[value.node]
        return value

    def allocate(self, shape: Sequence[int], dtype: torch.dtype, level: int) -> Buffer:
        """Return a new buffer of the program."""
        if dtype not in STORED:
            raise Refused(f"{dtype} has no place on the device")
        return Buffer(self._names("t"), tuple(shape) or (1,), STORED[dtype], level)

    def add(self, kernel: Any, operands: Sequence[Any], results: Sequence[Buffer], **static: Any) -> None:
        """Append a call of one of `trnsci.graph.kernels`, which writes given buffers."""
        level = max(buffer.level for buffer in results)
        passed = tuple((buffer, buffer.shape) for buffer in operands)
        self.steps.append(Step(kernel, passed, tuple(results), static, self._origin, level=level))

    # pointwise

    def _pointwise(self, node: Node) -> Any:
        why = why_not_pointwise(node)
        if why:
            raise Refused(why)
        value = node.meta["val"]
        inputs = [self.values[x] for x in node.all_input_nodes]
        if node.target is _aten._to_copy.default and inputs and getattr(inputs[0], "dtype", None) == value.dtype:
            return inputs[0]
        if value.numel() == 0:
            raise Refused("it is empty")
        for x, each in zip(node.all_input_nodes, inputs, strict=True):
            if isinstance(each, HostCall):
                self.operand(x)
        level = self.level_of(*inputs)
        pending = Pending(node, level, value.dtype, tuple(value.shape))
        self.pending.setdefault((pending.shape, level), []).append(pending)
        return pending

    def _flush(self, key: tuple[Any, ...]) -> None:
        """Write all pending nodes of a shape as one step."""
        group = self.pending.pop(key, [])
        if not group:
            return
        shape, level = key
        inside = {each.node for each in group}
        operands = {x for each in group for x in each.node.all_input_nodes if self._pending_node(x) not in inside}
        for x in operands:
            self.values[x] = self._contiguous_inside(self.operand(x))
        code = Code()
        written: dict[Node, Value] = {}
        views: list[View] = []
        for each in group:
            for x in each.node.all_input_nodes:
                if x in operands and x not in written:
                    views.append(self._viewed(x, shape))
                    written[x] = code.new(views[-1].buffer.dtype)
        for each in group:
            written[each.node] = self._written(each, code, written)
        kept = [each for each in group if any(user not in inside for user in self._users(each))]
        outs = [self.allocate(shape, each.dtype, level) for each in kept]
        for each, out in zip(kept, outs, strict=True):
            self.values[each.node] = whole_view(out, shape, each.dtype)
        self._write_expression(shape, views, outs, code, [written[each.node].index for each in kept])

    def _pending_node(self, x: Node) -> Node:
        """Return the node whose pending value a node shows: itself, unless it is a view of the same shape."""
        value = self.values[x]
        return value.node if isinstance(value, Pending) else x

    def _users(self, pending: Pending, node: Node | None = None) -> Iterator[Node]:
        """Yield the nodes that read a pending value, also those that read it through views of the same shape."""
        for user in (node or pending.node).users:
            if self.values.get(user) is pending:
                yield from self._users(pending, user)
            else:
                yield user

    def _viewed(self, x: Node, shape: tuple[int, ...]) -> View:
        view = self.operand(x)
        return view.like(view.shown().expand(shape))

    def _contiguous_inside(self, view: View) -> View:
        """Return a view whose innermost elements are neighbours, or that is small: DMA is slow at single elements."""
        strides = [s for n, s in zip(view.size, view.stride, strict=True) if n > 1 and s]
        if not strides or strides[-1] == 1 or math.prod(view.size) < _FEW:
            return view
        return self.contiguous(view)

    def _written(self, each: Pending, code: Code, written: dict[Node, Value]) -> Value:
        node = each.node
        rule = pointwise_rule(node)
        assert rule is not None
        args = map_arg(node.args, lambda x: written[self._pending_node(x)])
        kwargs = {k: v for k, v in node.kwargs.items() if k in ("alpha", "approximate")}
        value = rule(code, *args, **kwargs)
        if each.dtype not in (torch.float32, torch.bool):
            code.dtypes[value.index] = each.dtype
        return value

    def _write_expression(
        self, shape: tuple[int, ...], views: list[View], outs: list[Buffer], code: Code, stored: list[int]
    ) -> None:
        slots, instructions, kept = _allocate_slots(code, len(views), stored)
        widest = max(64, min(_WIDEST, _EXPRESSION_BYTES // (4 * max(1, len(slots)))))
        strides = [(view.stride, view.offset) for view in views] + [(row_major(shape), 0) for _ in outs]
        for cut in cut_blocks(shape, strides, widest):
            count = len(views)
            self.add(
                kernels.pointwise,
                [view.buffer for view in views],
                outs,
                blocks=tuple((p, sizes, at[:count], at[count:]) for p, sizes, at in cut.blocks),
                in_strides=cut.strides[:count],
                out_strides=cut.strides[count:],
                code=instructions,
                stored=kept,
                dtypes=tuple(slots),
            )

    # copies and views

    def contiguous(self, view: View) -> View:
        """Return a view as a buffer of its own, in order."""
        if view.is_whole:
            return view
        out = self.allocate(view.size, view.dtype, view.buffer.level)
        self.copy_into(whole_view(out, view.size, view.dtype), view)
        return whole_view(out, view.size, view.dtype)

    def copy_into(self, to: View, view: View) -> None:
        """Copy elements: by the Tensor Engine where a matrix is transposed, else by DMA."""
        sizes, (out_strides, strides) = collapse(view.size, [to.stride, view.stride])
        matrix = len(sizes) >= 2 and strides[-1] != 1 and strides[-2] == 1 and to.is_whole
        if matrix and math.prod(sizes) >= _FEW and view.buffer.dtype in (torch.float32,):
            self._transpose(to, view.buffer, sizes, strides, view.offset)
            return
        if (
            strides[-1] == 0
            and math.prod(sizes) >= _FEW
            and view.dtype in (torch.float32, torch.bfloat16, torch.float16)
        ):
            code = Code()
            value = code.emit("copy", code.new(view.dtype))
            self._write_expression(tuple(view.size), [view], [to.buffer], code, [value.index])
            return
        part = tuple(sizes), tuple(out_strides), to.offset, tuple(strides), view.offset
        self.add(kernels.copy, [view.buffer], [to.buffer], parts=_three_axes(part))

    def _transpose(self, to: View, source: Buffer, sizes: list[int], strides: list[int], offset: int) -> None:
        columns, rows, lead = sizes[-2], sizes[-1], sizes[:-2]
        matrices = []
        for index, position in enumerate(_positions(lead)):
            at = sum(i * s for i, s in zip(position, strides, strict=False))
            matrices.append((index * rows * columns, offset + at))
        self.add(
            kernels.transpose,
            [source],
            [to.buffer],
            matrices=tuple(matrices),
            rows=rows,
            columns=columns,
            stride=strides[-1],
        )

    def _view(self, node: Node) -> Any:
        view = self.operand(node.args[0])
        others = node.args[1:]
        try:
            return _views(view, node.target(view.shown(), *others, **node.kwargs))
        except (RuntimeError, ValueError):
            view = self.contiguous(view)
            return _views(view, node.target(view.shown(), *others, **node.kwargs))

    def _reshaped(self, node: Node) -> View:
        view, shape = self.operand(node.args[0]), tuple(node.meta["val"].shape)
        try:
            return view.like(view.shown().view(shape))
        except RuntimeError:
            view = self.contiguous(view)
            return view.like(view.shown().view(shape))

    _view_node = _reshape_node = __unsafe_view_node = _reshaped

    def _clone_node(self, node: Node) -> Any:
        value = self.values[node.args[0]]
        if isinstance(value, HostCall):
            raise Refused("its operand is computed by torch")
        return value

    _detach_node = _alias_node = _contiguous_node = _lift_fresh_copy_node = _lift_fresh_node = _clone_node

    def _cat_node(self, node: Node) -> View:
        parts: Any = node.args[0]
        dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
        value = node.meta["val"]
        views = [self.operand(x) for x in parts if x.meta["val"].numel()]
        if any(view.dtype != value.dtype for view in views):
            raise Refused("its operands have several dtypes")
        out = self.allocate(value.shape, value.dtype, self.level_of(*views))
        whole, start, axis = whole_view(out, value.shape, value.dtype), 0, dim % value.ndim
        for view in views:
            width = view.size[axis]
            self.copy_into(whole.like(whole.shown().narrow(axis, start, width)), view)
            start += width
        return whole

    def _stack_node(self, node: Node) -> View:
        parts: Any = node.args[0]
        dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
        value = node.meta["val"]
        views = [self.operand(x) for x in parts]
        if any(view.dtype != value.dtype for view in views):
            raise Refused("its operands have several dtypes")
        out = self.allocate(value.shape, value.dtype, self.level_of(*views))
        whole = whole_view(out, value.shape, value.dtype)
        for index, view in enumerate(views):
            self.copy_into(whole.like(whole.shown().select(dim, index)), view)
        return whole

    def _constant_pad_nd_node(self, node: Node) -> View:
        view, pad = self.operand(node.args[0]), list(node.args[1])
        number = node.args[2] if len(node.args) > 2 else 0.0
        value = node.meta["val"]
        out = self.allocate(value.shape, value.dtype, view.buffer.level)
        whole = whole_view(out, value.shape, value.dtype)
        here, there = whole.shown(), view.shown()
        for k in range(len(pad) // 2):
            axis, before, after = len(value.shape) - 1 - k, pad[2 * k], pad[2 * k + 1]
            there = there.narrow(axis, max(0, -before), there.shape[axis] + min(0, before) + min(0, after))
            here = here.narrow(axis, max(0, before), there.shape[axis])
        self._fill(out, value.shape, value.dtype, number)
        self.copy_into(whole.like(here), view.like(there))
        return whole

    def _fill(self, out: Buffer, shape: Sequence[int], dtype: torch.dtype, number: float) -> None:
        code = Code()
        self._write_expression(tuple(shape), [], [out], code, [code.fill(number).index])

    def _full_node(self, node: Node) -> View:
        return self._filled(node.meta["val"], node.args[1])

    _full_like_node = _new_full_node = _full_node

    def _zeros_node(self, node: Node) -> View:
        return self._filled(node.meta["val"], 0.0)

    _zeros_like_node = _new_zeros_node = _zeros_node

    def _ones_node(self, node: Node) -> View:
        return self._filled(node.meta["val"], 1.0)

    _ones_like_node = _new_ones_node = _ones_node

    def _filled(self, value: Tensor, number: Any) -> View:
        if value.dtype not in (torch.float32, torch.bfloat16, torch.float16) or not isinstance(number, int | float):
            raise Refused(f"{value.dtype} has no arithmetic on the device")
        out = self.allocate(value.shape, value.dtype, 0)
        self._fill(out, value.shape, value.dtype, float(number))
        return whole_view(out, value.shape, value.dtype)

    def _scatter(self, node: Node, view_of: Any) -> View:
        base, source = self.operand(node.args[0]), self.operand(node.args[1])
        value = node.meta["val"]
        if base.dtype != source.dtype:
            raise Refused("its operands have several dtypes")
        out = self.allocate(value.shape, value.dtype, self.level_of(base, source))
        whole = whole_view(out, value.shape, value.dtype)
        self.copy_into(whole, base)
        self.copy_into(whole.like(view_of(whole.shown(), *node.args[2:], **node.kwargs)), source)
        return whole

    def _index_select_node(self, node: Node) -> View:
        return self._gathered(self.operand(node.args[0]), node.args[1], self.operand(node.args[2]))

    def _embedding_node(self, node: Node) -> View:
        return self._gathered(self.operand(node.args[0]), 0, self.operand(node.args[1]))

    def _flip_node(self, node: Node) -> View:
        view = self.operand(node.args[0])
        if view.dtype is not torch.float32 or 0 in view.size:
            raise Refused("rows are reversed of float32")
        for dim in node.args[1]:
            axis = dim % len(view.size)
            front = self.contiguous(view.like(view.shown().movedim(axis, 0)))
            rows, columns = front.size[0], math.prod(front.size[1:])
            out = self.allocate(front.size, view.dtype, front.buffer.level)
            exchange = self.constant(torch.eye(P_MAX).flip(0))
            self.add(kernels.reverse, [front.buffer, exchange.buffer], [out], rows=rows, columns=columns)
            reversed_ = whole_view(out, front.size, view.dtype)
            view = reversed_.like(reversed_.shown().movedim(0, axis))
        return view

    def _gathered(self, view: View, dim: int, index: View) -> View:
        """Return the slices of an axis that the indices name, by rows of a matrix."""
        axis = dim % max(1, len(view.size))
        if self.target == "trn1":
            raise Refused("trn1 gathers no rows by index")
        if view.dtype is not torch.float32 or index.buffer.dtype is not torch.int32 or 0 in (*view.size, *index.size):
            raise Refused("rows are gathered of float32, by 32-bit indices")
        front = self.contiguous(view.like(view.shown().movedim(axis, 0)))
        columns, rows = math.prod(front.size[1:]), math.prod(index.size)
        index = self.contiguous(index)
        out = self.allocate((rows, columns), view.dtype, self.level_of(front, index))
        operands = (front.buffer, (front.size[0], columns)), (index.buffer, (rows,))
        static = {"rows": rows, "columns": columns}
        self.steps.append(Step(kernels.gather, operands, (out,), static, self._origin, level=out.level))
        result = whole_view(out, [*index.size, *front.size[1:]], view.dtype)
        return result if len(index.size) != 1 else result.like(result.shown().movedim(0, axis))

    # reductions

    def _sum_node(self, node: Node) -> View:
        return self._reduce(node, "add")

    def _mean_node(self, node: Node) -> View:
        source, value = node.args[0].meta["val"], node.meta["val"]
        return self._reduce(node, "add", value.numel() / source.numel())

    def _amax_node(self, node: Node) -> View:
        return self._reduce(node, "maximum")

    def _amin_node(self, node: Node) -> View:
        return self._reduce(node, "minimum")

    def _any_node(self, node: Node) -> View:
        return self._reduce(node, "maximum")

    def _all_node(self, node: Node) -> View:
        return self._reduce(node, "minimum")

    def _max_node(self, node: Node) -> View:
        if len(node.args) > 1:
            raise Refused("positions of maxima are not computed by programs")
        return self._reduce(node, "maximum")

    def _min_node(self, node: Node) -> View:
        if len(node.args) > 1:
            raise Refused("positions of minima are not computed by programs")
        return self._reduce(node, "minimum")

    def _reduce(self, node: Node, op: str, scale: float = 1.0) -> View:
        view, value = self.operand(node.args[0]), node.meta["val"]
        allowed = (torch.float32, torch.bfloat16, torch.float16, torch.bool)
        if view.dtype not in allowed or value.dtype not in allowed or not math.prod(view.size):
            raise Refused(f"programs reduce floating-point numbers, not {view.dtype} to {value.dtype}")
        dims = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        rank = len(view.size)
        axes = range(rank) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
        reduced = sorted({axis % max(1, rank) for axis in axes} & set(range(rank)))
        kept = [axis for axis in range(rank) if axis not in reduced]
        out = self.allocate(value.shape, value.dtype, view.buffer.level)
        turned = view.like(view.shown().permute(*kept, *reduced)) if rank else view
        self._write_reduction(out, turned, len(kept), op, scale)
        return whole_view(out, value.shape, value.dtype)

    def _write_reduction(self, out: Buffer, view: View, kept: int, op: str, scale: float) -> None:
        rows, (row_strides,) = collapse(view.size[:kept], [view.stride[:kept]])
        inner, (strides,) = collapse(view.size[kept:], [view.stride[kept:]])
        total = math.prod(rows)
        if total == 1 and not (len(inner) == 1 and strides[0] == 1):
            view = self.contiguous(view)
            inner, strides = [math.prod(inner)], [1]
        if total == 1:
            blocks = tuple((p, n, at + view.offset) for p, n, at in _whole_blocks(inner[0]))
            self.add(kernels.reduce_all, [view.buffer], [out], blocks=blocks, op=op, scale=scale)
        elif len(rows) == 1 and row_strides[0] == 1 and len(inner) == 1:
            groups = tuple(
                (
                    min(_WIDEST, total - c),
                    c,
                    tuple(
                        (min(P_MAX, inner[0] - r), view.offset + r * strides[0] + c) for r in range(0, inner[0], P_MAX)
                    ),
                )
                for c in range(0, total, _WIDEST)
            )
            self.add(kernels.reduce_columns, [view.buffer], [out], groups=groups, stride=strides[0], op=op, scale=scale)
        elif len(rows) == 1 and len(inner) == 1 and strides[0] == 1:
            self._reduce_rows(out, view, total, row_strides[0], inner[0], op=op, scale=scale)
        else:
            n = math.prod(inner)
            self._reduce_rows(out, self.contiguous(view), total, n, n, op=op, scale=scale)

    def _reduce_rows(self, out: Buffer, view: View, rows: int, stride: int, n: int, *, op: str, scale: float) -> None:
        groups = tuple(
            (
                min(P_MAX, rows - r),
                r,
                tuple(((min(_WIDEST, n - c),), view.offset + r * stride + c) for c in range(0, n, _WIDEST)),
            )
            for r in range(0, rows, P_MAX)
        )
        self.add(kernels.reduce_rows, [view.buffer], [out], groups=groups, strides=(stride, 1), op=op, scale=scale)

    # kernels and loops

    def _launch(self, node: Node) -> Any:
        call = self.calls[node.args[0]]
        operands: list[Any] = []
        level = 0
        for x in node.args[1]:
            if x is None:
                operands.append(None)
                continue
            view = self.contiguous(self.operand(x))
            operands.append((view.buffer, view.size or (1,)))
            level = max(level, view.buffer.level)
        results = [self.allocate(spec.shape, spec.dtype, level) for spec in call.results]
        self.steps.append(
            Step(
                call.kernel,
                tuple(operands),
                tuple(results),
                call.static,
                self._origin,
                writes_given=False,
                single=call.single,
                level=level,
            )
        )
        return [whole_view(b, spec.shape, spec.dtype) for b, spec in zip(results, call.results, strict=True)]

    def _repeat(self, node: Node) -> Any:
        loop = self.calls[node.args[0]]
        given = [self.operand(x) for x in node.args[1]]
        others = [self.contiguous(self.operand(x)) for x in node.args[2]]
        level = self.level_of(*given, *others)
        state = [self.allocate(view.size, view.dtype, level) for view in given]
        for buffer, view in zip(state, given, strict=True):
            self.copy_into(whole_view(buffer, view.size, view.dtype), view)
        inner = Builder(loop.body, self.calls, self.target, self._names)
        inner._kept = self._kept
        inner.constants = self.constants
        results = inner.build([*state, *(view.buffer for view in others)])
        if inner.hosted:
            call = inner.hosted[0]
            raise Refused(f"in a loop {describe_origin(call.node)} stays with torch: {call.reason}")
        # a result that is part of the state is saved before the state changes
        saved = []
        for index, (view, buffer) in enumerate(zip(results, state, strict=True)):
            moved = isinstance(view, View) and view.buffer in state and view.buffer is not buffer
            if isinstance(view, View) and moved and state.index(view.buffer) < index:
                view = _saved(inner, view)
            saved.append(view)
        for view, buffer, old in zip(saved, state, given, strict=True):
            if view.buffer is not buffer or not view.is_whole:
                inner.copy_into(whole_view(buffer, old.size, old.dtype), view)
        for step in _all_steps(inner.steps):
            step.level = level
        self.steps.append(
            Step(None, (), tuple(state), {}, self._origin, level=level, body=inner.steps, count=loop.count)
        )
        return [whole_view(buffer, view.size, view.dtype) for buffer, view in zip(state, given, strict=True)]


def _saved(builder: Builder, view: View) -> View:
    out = builder.allocate(view.size, view.dtype, view.buffer.level)
    builder.copy_into(whole_view(out, view.size, view.dtype), view)
    return whole_view(out, view.size, view.dtype)


def _all_steps(steps: list[Step]) -> list[Step]:
    return [each for step in steps for each in (step, *_all_steps(step.body or []))]


# views that are the tensor itself where the shape stays the same
_IDENTITIES = frozenset("expand view _unsafe_view reshape slice squeeze".split())
_VIEWS = frozenset(
    "permute transpose t slice select expand squeeze unsqueeze diagonal unfold split split_with_sizes unbind "
    "narrow movedim mT view_as as_strided_copy".split()
)
_SCATTERS: dict[str, Any] = {
    "select_scatter": torch.select,
    "slice_scatter": _aten.slice.Tensor,
    "diagonal_scatter": torch.diagonal,
}


def _views(view: View, shown: Any) -> Any:
    return view.like(shown) if isinstance(shown, Tensor) else [view.like(each) for each in shown]


def _attribute(graph: GraphModule, name: Any) -> Tensor:
    value: Any = graph
    for part in str(name).split("."):
        value = getattr(value, part)
    return value  # type: ignore[no-any-return]


def _leaves(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, list | tuple) else [value]


def _positions(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    positions: list[tuple[int, ...]] = [()]
    for n in sizes:
        positions = [(*p, i) for p in positions for i in range(n)]
    return positions


def _whole_blocks(n: int) -> list[tuple[int, int, int]]:
    """Cut n neighbours into blocks (partitions, elements of each, offset)."""
    blocks = []
    start = 0
    while n - start >= P_MAX:
        each = min(_WIDEST, (n - start) // P_MAX)
        blocks.append((P_MAX, each, start))
        start += P_MAX * each
    if n > start:
        blocks.append((1, n - start, start))
    return blocks


def _three_axes(part: tuple[Any, ...]) -> tuple[Any, ...]:
    """Cut a copy of more axes than a descriptor has into several."""
    sizes, out_strides, out_offset, strides, offset = part
    if len(sizes) <= 3:
        return (part,)
    parts: list[Any] = []
    for i in range(sizes[0]):
        inner = sizes[1:], out_strides[1:], out_offset + i * out_strides[0], strides[1:], offset + i * strides[0]
        parts += _three_axes(inner)
    return tuple(parts)


def _allocate_slots(code: Code, loaded: int, stored: list[int]) -> tuple[list[Any], tuple[Any, ...], tuple[int, ...]]:
    """Give values slots, reused after their last use; return slots' dtypes, instructions and the stored slots."""
    last: dict[int, int] = dict.fromkeys(range(loaded), -1)
    for at, (op, _, left, right, constant) in enumerate(code.instructions):
        for value in _read(op, left, right, constant):
            last[value] = at
    keep = set(stored)
    slot_of, dtypes, free = {value: value for value in range(loaded)}, [code.dtypes[v] for v in range(loaded)], []
    instructions = []
    for at, (op, result, left, right, constant) in enumerate(code.instructions):
        read = _read(op, left, right, constant)
        dtype = code.dtypes[result]
        reusable = next((slot for slot in free if dtypes[slot] == dtype), None)
        if reusable is None:
            dtypes.append(dtype)
            slot = len(dtypes) - 1
        else:
            free.remove(reusable)
            slot = reusable
        instructions.append((op, slot, *_renamed(op, left, right, constant, slot_of)))
        slot_of[result] = slot
        for value in set(read):
            if last[value] == at and value not in keep and value >= loaded:
                free.append(slot_of[value])
    return dtypes, tuple(instructions), tuple(slot_of[value] for value in stored)


def _read(op: str, left: Any, right: Any, constant: Any) -> list[int]:
    if op == "select":
        return [constant, *(x[1] for x in (left, right) if x[0] == "slot")]
    if op == "fill":
        return []
    values = [] if constant == "left" else [int(left)]
    return [*values, int(right)] if constant in ("", "left") else values


def _renamed(op: str, left: Any, right: Any, constant: Any, slot_of: dict[int, int]) -> tuple[Any, Any, Any]:
    if op == "select":
        one, two = (("slot", slot_of[x[1]]) if x[0] == "slot" else x for x in (left, right))
        return one, two, slot_of[constant]
    if op == "fill":
        return left, right, constant
    first = left if constant == "left" else slot_of[int(left)]
    second = slot_of[int(right)] if constant in ("", "left") else right
    return first, second, constant


def describe_origin(node: Node) -> str:
    """Return the operator of a node and the line of the function that called it."""
    name = str(node.target).removeprefix("aten.").partition(".default")[0]
    line = str(node.meta.get("stack_trace") or "").strip()
    return f"{name} at {line}" if line else name
