"""From a lowered graph to steps: each operator becomes a call of a kernel, a view, a pending expression, or stays."""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from trnsci.errors import UnsupportedError
from trnsci.graph.expressions import pointwise_rule
from trnsci.graph.layouts import Buffer, View, whole_view
from trnsci.graph.reduction_steps import REDUCTIONS, Reductions
from trnsci.graph.steps import HostCall, Refused, Step, describe_origin
from trnsci.graph.tracing import LAUNCH, REPEAT
from trnsci.torch_internals import tree_leaves

_aten = torch.ops.aten
# views that are the tensor itself where the shape stays the same
_IDENTITIES = frozenset(["expand", "view", "_unsafe_view", "reshape", "slice", "squeeze"])
_VIEWS = frozenset(
    [
        "permute",
        "transpose",
        "t",
        "slice",
        "select",
        "expand",
        "squeeze",
        "unsqueeze",
        "diagonal",
        "unfold",
        "split",
        "split_with_sizes",
        "unbind",
    ]
)
_SCATTERS: dict[str, Any] = {
    "select_scatter": torch.select,
    "slice_scatter": _aten.slice.Tensor,
    "diagonal_scatter": torch.diagonal,
}


class Builder(Reductions):
    """Builds the steps of one graph."""

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
                    self.settle(self.values.get(x, x)) if isinstance(x, Node) else x for x in tree_leaves(node.args[0])
                ]
        return results

    def _attribute(self, node: Any) -> Any:
        data = operator.attrgetter(node.target)(self.graph)
        if isinstance(data, torch.Generator):
            hint = "Draw from torch's default generator, or from one that counts its draws"
            raise UnsupportedError(
                "program", [("nki", "a torch.Generator is seeded once, when it is traced")], hint=hint
            )
        try:
            return self.constant(data)
        except Refused as refused:
            self.hosted.append(HostCall(node, str(refused), 0, data=data))
            return self.hosted[-1]

    def _value(self, node: Any) -> Any:
        try:
            return self._device_value(node)
        except Refused as refused:
            return self._leave(node, str(refused))

    def _leave(self, node: Node, reason: str) -> Any:
        """Leave an operator to torch: what it reads is settled."""
        level = 0
        for x in node.all_input_nodes:
            self.values[x] = value = self.settle(self.values[x])
            for each in tree_leaves(value):
                level = max(level, each.buffer.level if isinstance(each, View) else each.level)
        call = HostCall(node, reason, level, {x: self.values[x] for x in node.all_input_nodes})
        self.hosted.append(call)
        return call

    def _device_value(self, node: Any) -> Any:
        target: Any = node.target
        if target is operator.getitem:
            source = self.values[node.args[0]]
            if isinstance(source, HostCall):
                raise Refused("its operand is computed by torch")
            return source[node.args[1]]
        if any(isinstance(x, torch.Tensor) and not x.numel() for x in tree_leaves(node.meta.get("val"))):
            raise Refused("it has no elements")
        if pointwise_rule(node) is not None:
            return self._pointwise(node)
        if target is LAUNCH:
            return self._launch(node)
        if target is REPEAT:
            return self._repeat(node)
        packet = getattr(target, "overloadpacket", None)
        name = packet.__name__ if packet is not None and target.namespace == "aten" else ""
        handler = getattr(self, f"_{name}_node", None)
        if name in _IDENTITIES and _kind(node.args[0]) == _kind(node):
            return self._clone_node(node)
        if handler is not None:
            return handler(node)
        if name in REDUCTIONS:
            return self._reduce(node, name)
        if name in _VIEWS:
            return self._view(node, target, *node.args[1:])
        if name in _SCATTERS:
            return self._scatter(node, _SCATTERS[name])
        raise Refused(f"{target} is not in the set of operators that programs compute")

    def _launch(self, node: Any) -> Any:
        call = self.calls[node.args[0]]
        operands: list[Any] = []
        level = 0
        for x in node.args[1]:
            view = None if x is None else self.contiguous(self.operand(x))
            operands.append(None if view is None else (view.buffer, view.shape or (1,)))
            level = max(level, self.level_of(view))
        results = [self.allocate_view(spec, level) for spec in call.results]
        self.steps.append(
            Step(
                call.kernel,
                tuple(operands),
                tuple(view.buffer for view in results),
                call.static,
                self._origin,
                writes_given=False,
                single=call.single,
                level=level,
            )
        )
        return results

    def _repeat(self, node: Any) -> Any:
        loop = self.calls[node.args[0]]
        given = [self.operand(x) for x in node.args[1]]
        others = [self.contiguous(self.operand(x)) for x in node.args[2]]
        level = self.level_of(*given, *others)
        first = [self.allocate_view(view, level) for view in given]
        for to, view in zip(first, given, strict=True):
            self.copy_into(to, view)
        state = [view.buffer for view in first]
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
                view = inner.copy(view)
            saved.append(view)
        for view, to in zip(saved, first, strict=True):
            if view.buffer is not to.buffer or not view.is_whole:
                inner.copy_into(to, view)
        for step in _all_steps(inner.steps):
            step.level = level
        self.steps.append(
            Step(None, (), tuple(state), {}, self._origin, level=level, body=inner.steps, count=loop.count)
        )
        return first


def _kind(node: Any) -> tuple[Any, ...]:
    return tuple(node.meta["val"].shape), node.meta["val"].dtype


def _all_steps(steps: list[Step]) -> list[Step]:
    return [each for step in steps for each in (step, *_all_steps(step.body or []))]
