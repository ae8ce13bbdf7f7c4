"""Chains of a compiled graph as one program: a product, functions of its result, a sum; or a product of a product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from trnblas.gemm import Gemm
from trnsci import config, neuron, ops, predict
from trnsci.errors import TrnError
from trnsci.libraries import Fusion, graph_pass
from trnsci.precision import DEFAULT
from trnsci.specs import freeze
from trntensor.expression import UNARY
from trntensor.fuse import MAX_EXTRAS, fuse

_aten = torch.ops.aten
_gemm = ops.definition(Gemm).registered
# what an epilogue may do, as `fuse` writes it down
_STEPS: dict[Any, Callable[..., Any]] = {
    _aten.add.Tensor: torch.add,
    _aten.sub.Tensor: torch.sub,
    _aten.mul.Tensor: torch.mul,
    _aten.div.Tensor: torch.div,
    _aten.maximum.default: torch.maximum,
    _aten.minimum.default: torch.minimum,
    _aten.neg.default: lambda x: x * -1.0,
    _aten.pow.Tensor_Scalar: lambda x, power: x**power,
    **{getattr(_aten, name).default: function for name, function in UNARY.items()},
}
_SUMS = (_aten.sum.default, _aten.sum.dim_IntList)


@graph_pass
def fuse_chains(graph: GraphModule, *, always: bool) -> Fusion:
    """Replace chains by programs of `fuse`, in place; see `trnsci.libraries.graph_pass`."""
    done = Fusion()
    for node in list(graph.graph.nodes):
        if node.target is _gemm and node.users:
            chains = (_pair(node), _epilogue(node), _epilogue(node, sums=False))
            refusals = {}
            for chain in filter(None, chains):
                refusals[str(chain)] = why = _replace_chain(graph, chain, always=always)
                if not why:
                    done.fused.append(str(chain))
                    break
            else:
                done.left_alone += [f"{chain}: {why}" for chain, why in refusals.items()]
    if done.fused:
        graph.recompile()
    return done


@dataclass
class _Chain:
    """Nodes that one program replaces: ``nodes`` in order, its operands, and how `fuse` describes it."""

    nodes: list[Node]
    operands: list[Node]
    equations: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return " -> ".join(str(node.target).removeprefix("aten.").partition(".default")[0] for node in self.nodes)


def _shape(node: Any) -> tuple[Any, ...]:
    return tuple(node.meta["val"].shape)


def _only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _read_product(node: Node) -> Any:
    """Return a product as a `Gemm` of the graph's nodes; ``None`` where a program would compute something else."""
    call: Any = Gemm(*node.args, **node.kwargs)  # type: ignore[arg-type]
    plain = call.bias is None and call.activation == "none" and not call.target
    return call if plain and call.precision == DEFAULT[node.meta["val"].dtype] else None


def _pair(node: Node) -> _Chain | None:
    """Two products of matrices, the result of one an operand of the other."""
    after = _only_user(node)
    if after is None or after.target is not _gemm:
        return None
    first, second = _read_product(node), _read_product(after)
    if first is None or second is None or any(x.c is not None or x.alpha != 1 for x in (first, second)):
        return None
    if any(len(_shape(x)) != 2 for x in (first.a, first.b, second.a, second.b)) or second.a is second.b:
        return None
    link, other = ("in,na->ia", second.b) if second.a is node else ("in,ai->an", second.a)
    return _Chain([node, after], [first.a, first.b, other], ("im,mn->in", link))


def _epilogue(node: Node, *, sums: bool = True) -> _Chain | None:
    """Return a product, what is done to each of its elements, and sums of the result, as far as one kernel can go."""
    product, shape = _read_product(node), _shape(node)
    if product is None or len(shape) not in (2, 3) or isinstance(product.alpha, complex) or not product.alpha:
        return None
    a, b, c, alpha, beta = product.a, product.b, product.c, product.alpha, product.beta
    if any(_shape(x)[:-2] != shape[:-2] for x in (a, b)):
        return None
    labels = "bmn"[-len(shape) :]
    nodes = [node]
    extras: dict[Node, str | None] = {} if c is None else {c: _labels(c, labels, shape, node)}
    if None in extras.values():
        return None
    while (after := _only_user(nodes[-1])) is not None and _elementwise(after, shape):
        others = {x: _labels(x, labels, shape, node) for x in after.all_input_nodes if x is not nodes[-1]}
        if None in others.values() or len({**extras, **others}) > MAX_EXTRAS:
            break
        nodes, extras = [*nodes, after], {**extras, **others}
    steps = nodes[1:]
    kept = _kept_axes(after, labels) if sums and after is not None else None
    if kept is not None and after is not None:
        nodes.append(after)
    if len(nodes) == 1:
        return None

    def function(t: Any, *given: Any) -> Any:
        known: dict[Any, Any] = dict(zip(extras, given, strict=True))
        known[node] = (t if alpha == 1 else t * alpha) if c is None else t * alpha + known[c] * beta
        for step in steps:
            known[step] = _STEPS[step.target](*(known.get(x, x) if isinstance(x, Node) else x for x in step.args))
        return known[steps[-1] if steps else node]

    prefix = labels[:-2]
    options: dict[str, Any] = {"epilogue": function, "extras": tuple(extras.values())}
    if kept is not None:
        options["reduce"] = f"{labels}->{kept}"
    return _Chain(nodes, [a, b, *extras], (f"{prefix}mk,{prefix}kn->{labels}",), options)


def _elementwise(node: Node, shape: tuple[Any, ...]) -> bool:
    """Return whether an operator can be a step of an epilogue."""
    square = node.target is not _aten.pow.Tensor_Scalar or bool(node.args[1] == 2)
    return node.target in _STEPS and not node.kwargs and _shape(node) == shape and square


def _labels(x: Node, labels: str, shape: tuple[Any, ...], like: Node) -> str | None:
    """Return the axes of a product that an operand varies along; ``None`` where it cannot be an extra one."""
    value = x.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype != like.meta["val"].dtype or value.ndim > len(shape):
        return None
    pairs = list(zip(value.shape, shape[len(shape) - value.ndim :], labels[len(shape) - value.ndim :], strict=True))
    if any(size not in (1, whole) for size, whole, _ in pairs):
        return None
    return "".join(label for size, _, label in pairs if size != 1)


def _kept_axes(node: Node, labels: str) -> str | None:
    """Return the axes a sum keeps; ``None`` where it is no sum a kernel can do."""
    if node.target not in _SUMS or node.kwargs or len(node.args) > 2:
        return None
    axes: Any = node.args[1] if len(node.args) == 2 and node.args[1] else range(len(labels))
    summed = {axis % len(labels) for axis in axes}
    return "".join(label for axis, label in enumerate(labels) if axis not in summed)


def _replace_chain(graph: GraphModule, chain: _Chain, *, always: bool) -> str:
    """Put a program in the place of a chain, or say why not."""
    sizes = [size for node in (*chain.operands, *chain.nodes) for size in _shape(node)]
    if any(type(size) is not int for size in sizes):
        return "its sizes are not known when it compiles"
    try:
        traced = _trace_program(fuse(*chain.equations, **chain.options), chain)
    except TrnError as error:
        return str(error)
    why = _refusal(traced, always=always)
    if why:
        return why
    last = chain.nodes[-1]
    inputs = [node for node in traced.graph.nodes if node.op == "placeholder"]
    with graph.graph.inserting_before(last):
        result: Any = graph.graph.graph_copy(traced.graph, dict(zip(inputs, chain.operands, strict=True)))
    last.replace_all_uses_with(result)
    result.meta = {**last.meta, **result.meta}
    for node in reversed(chain.nodes):
        graph.graph.erase_node(node)
    return ""


def _trace_program(program: Callable[..., Any], chain: _Chain) -> GraphModule:
    """Return the program as operators, on the shapes of its operands, with the shape the graph expects."""
    first, wanted = len(chain.equations) + 1, _shape(chain.nodes[-1])

    def call(*operands: torch.Tensor) -> torch.Tensor:
        given = [x.reshape([n for n in x.shape if n != 1]) for x in operands[first:]]
        result: torch.Tensor = program(*operands[:first], *given)
        return result.reshape(wanted)

    with torch.no_grad():
        return make_fx(call)(*(node.meta["val"] for node in chain.operands))


def _refusal(traced: GraphModule, *, always: bool) -> str:
    """Return why a program is not one, or not worth one; empty where it is."""
    registered = {op.registered: op for op in ops.all_ops()}
    calls = [
        registered[node.target].kind(*torch.fx.map_arg(node.args, lambda x: x.meta["val"]))
        for node in traced.graph.nodes
        if node.target in registered
    ]
    if len(calls) != 1:
        return "no one kernel runs it"
    call = freeze(calls[0])
    refused = call._op.refusal(call, "nki")
    if refused is not None:
        return str(refused)
    if not always:
        decision = call._op.decide(call)
        if decision.implementation != "nki":
            return f"nothing to gain on {decision.backend}: {decision.reason}"
    device = neuron.device()
    return predict.obstacle(call, device.target if device is not None else config.TARGET.get()) or ""
