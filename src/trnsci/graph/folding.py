"""Smaller graphs: constants computed once, parts of a stack read directly, values that are not read dropped."""

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from trnsci.torch_internals import disable_modes

_aten = torch.ops.aten
# bytes beyond which a constant is computed by the program instead
_LARGEST = 64 << 20
_FILLS = (_aten.full.default, _aten.zeros.default, _aten.ones.default)


def fold(graph: GraphModule) -> GraphModule:
    """Simplify a lowered graph in place, and return it."""
    detach_copies(graph)
    for node in list(graph.graph.nodes):
        _read_stack(node)
    graph.graph.eliminate_dead_code(_has_effect)
    _fold_constants(graph)
    graph.graph.eliminate_dead_code(_has_effect)
    graph.recompile()
    return graph


def _has_effect(node: Node) -> bool:
    """Return whether a node does something besides its result: operators without one raise for what they see."""
    schema = getattr(node.target, "_schema", None)
    return node.is_impure() or (schema is not None and not schema.returns)


def detach_copies(graph: GraphModule) -> None:
    """Replace detaching in place, which ``torch.tensor`` does, by detaching: it changes no values."""
    for node in graph.graph.nodes:
        if node.target is _aten.detach_.default:
            node.target = _aten.detach.default
    graph.recompile()


def _read_stack(node: Node) -> None:
    """Replace an element of a stack, along the axis it added, by the tensor that was stacked."""
    if node.target is not _aten.select.int or not isinstance(node.args[0], Node):
        return
    stack, dim, index = node.args
    if stack.target is not _aten.stack.default or not isinstance(dim, int) or not isinstance(index, int):  # type: ignore[union-attr]
        return
    parts: Any = stack.args[0]  # type: ignore[union-attr]
    stacked_axis: Any = stack.args[1] if len(stack.args) > 1 else 0  # type: ignore[union-attr]
    rank = node.meta["val"].ndim + 1
    part = parts[index]
    if stacked_axis % rank == dim % rank and part.meta["val"].dtype == node.meta["val"].dtype:
        node.replace_all_uses_with(part)


def _fold_constants(graph: GraphModule) -> None:
    known: dict[Node, Tensor] = {}
    for node in list(graph.graph.nodes):
        if node.op == "get_attr":
            value = getattr(graph, node.target, None)
            if isinstance(value, Tensor):
                known[node] = value
        elif _is_constant(node, known):
            with disable_modes(), torch.no_grad():
                result = node.target(
                    *map_arg(node.args, lambda x: known[x]), **map_arg(node.kwargs, lambda x: known[x])
                )
            if isinstance(result, Tensor) and result.nbytes <= _LARGEST:
                known[node] = result
    for node, value in known.items():
        if node.op == "call_function" and any(user not in known for user in node.users):
            _hold(graph, node, value)


def _is_constant(node: Node, known: dict[Node, Tensor]) -> bool:
    target: Any = node.target
    if node.op != "call_function" or getattr(target, "namespace", "") != "aten" or node.target in _FILLS:
        return False
    if torch.Tag.nondeterministic_seeded in target.tags or target._schema.is_mutable:
        return False
    value = node.meta.get("val")
    return isinstance(value, Tensor) and all(x in known for x in node.all_input_nodes)


def _hold(graph: GraphModule, node: Node, value: Tensor) -> None:
    name = f"folded_{node.name}"
    graph.register_buffer(name, value.detach(), persistent=False)
    with graph.graph.inserting_before(node):
        held = graph.graph.get_attr(name)
    held.meta = dict(node.meta)
    node.replace_all_uses_with(held)
