"""Steps that every operator may need: operands in HBM, pointwise expressions, and copies of views."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from trnsci.config import TargetName
from trnsci.graph import kernels
from trnsci.graph.expressions import Code, Value, pointwise_rule, why_not_pointwise
from trnsci.graph.layouts import STORED, Buffer, View, collapse, cut_blocks, whole_view
from trnsci.graph.steps import HostCall, Pending, Refused, Step
from trnsci.graph.tracing import Calls

_aten = torch.ops.aten
# bytes of an SBUF partition that the values of one expression may take, twice
_EXPRESSION_BYTES = 80 << 10
WIDEST = 2048
_NUMPY = (torch.float32, torch.int32, torch.int64, torch.bool, torch.uint8)
# elements below which a transposed copy is left to DMA, and constants are compared
_FEW = 2048


class Expressions:
    """The state of a build, and steps of pointwise expressions and copies."""

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

    def constant(self, data: Tensor) -> View:
        """Return a constant as a buffer of the program; the same tensor is one buffer."""
        if getattr(data, "dtype", None) not in STORED:
            raise Refused(f"a constant of {getattr(data, 'dtype', type(data))} has no place on the device")
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

    def operand(self, x: Any) -> View:
        """Return an operand in HBM: what torch computed comes as an argument of the next program."""
        value = self.settle(self.values[x])
        self.values[x] = value
        if isinstance(value, HostCall):
            value = self._fetch_host_value(x, value)
        if not isinstance(value, View):
            raise Refused("an operand is not a tensor")
        return value

    def _fetch_host_value(self, x: Node, call: HostCall) -> View:
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

    def allocate_view(self, like: Any, level: int) -> View:
        """Return all of a new buffer for a tensor of this shape and dtype."""
        return whole_view(self.allocate(like.shape, like.dtype, level), like.shape, like.dtype)

    def add(self, kernel: Any, operands: Sequence[Any], results: Sequence[Buffer], **static: Any) -> None:
        """Append a call of one of `trnsci.graph.kernels`, which writes given buffers."""
        level = max(buffer.level for buffer in results)
        passed = tuple((buffer, buffer.shape) for buffer in operands)
        self.steps.append(Step(kernel, passed, tuple(results), static, self._origin, level=level))

    def _pointwise(self, node: Any) -> Any:
        why = why_not_pointwise(node)
        if why:
            raise Refused(why)
        value = node.meta["val"]
        inputs = [self.values[x] for x in node.all_input_nodes]
        if node.target is _aten._to_copy.default and inputs and getattr(inputs[0], "dtype", None) == value.dtype:
            return inputs[0]
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
                    views.append(self._view_operand(x, shape))
                    written[x] = code.new(views[-1].buffer.dtype)
        for each in group:
            written[each.node] = self._write_value(each, code, written)
        kept = [each for each in group if any(user not in inside for user in self._users(each))]
        outs = [self.allocate_view(each, level) for each in kept]
        self.values.update(zip((each.node for each in kept), outs, strict=True))
        self._write_expression(views, outs, code, [written[each.node] for each in kept])

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

    def _view_operand(self, x: Node, shape: tuple[int, ...]) -> View:
        view = self.operand(x)
        return view.like(view.shown().expand(shape))

    def _contiguous_inside(self, view: View) -> View:
        """Return a view whose innermost elements are neighbours, or that is small: DMA is slow at single elements."""
        strides = [s for n, s in zip(view.shape, view.stride, strict=True) if n > 1 and s]
        if not strides or strides[-1] == 1 or math.prod(view.shape) < _FEW:
            return view
        return self.contiguous(view)

    def _write_value(self, each: Pending, code: Code, written: dict[Node, Value]) -> Value:
        node = each.node
        rule = pointwise_rule(node)
        assert rule is not None
        look_up: Any = lambda x: written[self._pending_node(x)]  # noqa: E731
        args: Any = map_arg(node.args, look_up)
        kwargs = {k: v for k, v in node.kwargs.items() if k in ("alpha", "approximate")}
        if node.target is _aten._to_copy.default:
            kwargs["dtype"] = each.dtype
        value = rule(code, *args, **kwargs)
        if each.dtype in (torch.bfloat16, torch.float16):
            code.dtypes[value.index] = each.dtype
        return value

    def _write_expression(self, views: list[View], outs: list[View], code: Code, stored: list[Value]) -> None:
        slots, instructions, kept = code.allocate_slots(len(views), [value.index for value in stored])
        widest = max(64, min(WIDEST, _EXPRESSION_BYTES // (4 * max(1, len(slots)))))
        count = len(views)
        for cut in cut_blocks(outs[0].shape, [(view.stride, view.offset) for view in (*views, *outs)], widest):
            self.add(
                kernels.pointwise,
                [view.buffer for view in views],
                [view.buffer for view in outs],
                blocks=tuple((p, sizes, at[:count], at[count:]) for p, sizes, at in cut.blocks),
                in_strides=cut.strides[:count],
                out_strides=cut.strides[count:],
                code=instructions,
                stored=kept,
                dtypes=tuple(slots),
            )

    def contiguous(self, view: View) -> View:
        """Return a view as a buffer of its own, in order."""
        return view if view.is_whole else self.copy(view)

    def copy(self, view: View) -> View:
        """Return a copy of a view in a buffer of its own, in order."""
        out = self.allocate_view(view, view.buffer.level)
        self.copy_into(out, view)
        return out

    def copy_into(self, to: View, view: View) -> None:
        """Copy elements: by the Tensor Engine where a matrix is transposed, else by DMA."""
        sizes, (out_strides, strides) = collapse(view.shape, [to.stride, view.stride])
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
            self._write_expression([view], [to], code, [code.emit("copy", code.new(view.dtype))])
            return
        part = tuple(sizes), tuple(out_strides), to.offset, tuple(strides), view.offset
        self.add(kernels.copy, [view.buffer], [to.buffer], parts=_three_axes(part))

    def _transpose(self, to: View, source: Buffer, sizes: list[int], strides: list[int], offset: int) -> None:
        columns, rows, lead = sizes[-2], sizes[-1], sizes[:-2]
        matrices = []
        for index, position in enumerate(itertools.product(*map(range, lead))):
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
