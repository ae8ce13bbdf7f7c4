"""Operators that move elements: views, joins, pads, fills, scatters into views, gathers, reversals."""

import math
from typing import Any

import torch
from torch import Tensor

from trnsci.graph import kernels
from trnsci.graph.expression_steps import Expressions
from trnsci.graph.expressions import Code
from trnsci.graph.layouts import P_MAX, View, whole_view
from trnsci.graph.steps import HostCall, Refused, Step


class Copies(Expressions):
    """One method for each operator, named after it."""

    def _view(self, node: Any, view_of: Any, *others: Any) -> Any:
        view = self.operand(node.args[0])
        try:
            return views_of(view, view_of(view.shown(), *others, **node.kwargs))
        except (RuntimeError, ValueError):
            view = self.contiguous(view)
            return views_of(view, view_of(view.shown(), *others, **node.kwargs))

    def _view_node(self, node: Any) -> Any:
        if node.meta["val"].dtype != node.args[0].meta["val"].dtype:
            raise Refused("programs do not read the bits of one dtype as another")
        return self._view(node, Tensor.view, node.meta["val"].shape)

    _reshape_node = __unsafe_view_node = _view_node

    def _clone_node(self, node: Any) -> Any:
        value = self.values[node.args[0]]
        if isinstance(value, HostCall):
            raise Refused("its operand is computed by torch")
        return value

    _detach_node = _alias_node = _contiguous_node = _lift_fresh_copy_node = _lift_fresh_node = _clone_node

    def _cat_node(self, node: Any, stacks: bool = False) -> View:
        """Join tensors along an axis, which those of a stack do not have yet."""
        value = node.meta["val"]
        axis = (node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)) % value.ndim
        views = [self.operand(x) for x in node.args[0] if x.meta["val"].numel()]
        if any(view.dtype != value.dtype for view in views):
            raise Refused("its operands have several dtypes")
        whole, start = self.allocate_view(value, self.level_of(*views)), 0
        for view in views:
            part = view.like(view.shown().unsqueeze(axis)) if stacks else view
            self.copy_into(whole.like(whole.shown().narrow(axis, start, part.shape[axis])), part)
            start += part.shape[axis]
        return whole

    def _stack_node(self, node: Any) -> View:
        return self._cat_node(node, stacks=True)

    def _constant_pad_nd_node(self, node: Any) -> View:
        view, pad = self.operand(node.args[0]), list(node.args[1])
        number = node.args[2] if len(node.args) > 2 else 0.0
        value = node.meta["val"]
        whole = self.allocate_view(value, view.buffer.level)
        here, there = whole.shown(), view.shown()
        for k in range(len(pad) // 2):
            axis, before, after = len(value.shape) - 1 - k, pad[2 * k], pad[2 * k + 1]
            there = there.narrow(axis, max(0, -before), there.shape[axis] + min(0, before) + min(0, after))
            here = here.narrow(axis, max(0, before), there.shape[axis])
        self._fill(whole, number)
        self.copy_into(whole.like(here), view.like(there))
        return whole

    def _fill(self, out: View, number: float) -> None:
        code = Code()
        self._write_expression([], [out], code, [code.emit("fill", number)])

    def _full_node(self, node: Any) -> View:
        return self._constant_view(node.meta["val"], node.args[1])

    _full_like_node = _new_full_node = _full_node

    def _constant_view(self, value: Tensor, number: Any) -> View:
        if value.dtype in (torch.int32, torch.int64, torch.bool) and value.numel() < 2**20:
            return self.constant(torch.full(value.shape, number, dtype=value.dtype, device="cpu"))
        if value.dtype not in (torch.float32, torch.bfloat16, torch.float16) or not isinstance(number, int | float):
            raise Refused(f"{value.dtype} has no arithmetic on the device")
        out = self.allocate_view(value, 0)
        self._fill(out, float(number))
        return out

    def _scatter(self, node: Any, view_of: Any) -> View:
        base, source = self.operand(node.args[0]), self.operand(node.args[1])
        value = node.meta["val"]
        if base.dtype != source.dtype:
            raise Refused("its operands have several dtypes")
        whole = self.allocate_view(value, self.level_of(base, source))
        self.copy_into(whole, base)
        self.copy_into(whole.like(view_of(whole.shown(), *node.args[2:], **node.kwargs)), source)
        return whole

    def _index_select_node(self, node: Any) -> View:
        return self._gather_slices(self.operand(node.args[0]), node.args[1], self.operand(node.args[2]))

    def _embedding_node(self, node: Any) -> View:
        return self._gather_slices(self.operand(node.args[0]), 0, self.operand(node.args[1]))

    def _flip_node(self, node: Any) -> View:
        view = self.operand(node.args[0])
        if view.dtype is not torch.float32 or 0 in view.shape:
            raise Refused("rows are reversed of float32")
        for dim in node.args[1]:
            axis = dim % len(view.shape)
            front = self.contiguous(view.like(view.shown().movedim(axis, 0)))
            rows, columns = front.shape[0], math.prod(front.shape[1:])
            out = self.allocate(front.shape, view.dtype, front.buffer.level)
            exchange = self.constant(torch.eye(P_MAX, dtype=torch.float32, device="cpu").flip(0))
            self.add(kernels.reverse, [front.buffer, exchange.buffer], [out], rows=rows, columns=columns)
            reversed_ = whole_view(out, front.shape, view.dtype)
            view = reversed_.like(reversed_.shown().movedim(0, axis))
        return view

    def _gather_slices(self, view: View, dim: int, index: View) -> View:
        """Return the slices of an axis that the indices name, by rows of a matrix."""
        if self.target == "trn1":
            raise Refused("trn1 gathers no rows by index")
        if view.dtype is not torch.float32 or index.buffer.dtype is not torch.int32 or not view.shape:
            raise Refused("rows are gathered of float32, by 32-bit indices")
        axis = dim % len(view.shape)
        front = self.contiguous(view.like(view.shown().movedim(axis, 0)))
        columns, rows = math.prod(front.shape[1:]), math.prod(index.shape)
        index = self.contiguous(index)
        out = self.allocate((rows, columns), view.dtype, self.level_of(front, index))
        operands = (front.buffer, (front.shape[0], columns)), (index.buffer, (rows,))
        static = {"rows": rows, "columns": columns}
        self.steps.append(Step(kernels.gather, operands, (out,), static, self._origin, level=out.level))
        result = whole_view(out, [*index.shape, *front.shape[1:]], view.dtype)
        return result if len(index.shape) != 1 else result.like(result.shown().movedim(0, axis))


def views_of(view: View, shown: Any) -> Any:
    """Return the view, or the views, that torch made of `View.shown`."""
    return view.like(shown) if isinstance(shown, Tensor) else [view.like(each) for each in shown]
