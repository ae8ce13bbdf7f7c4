"""Several contractions as one program: shared operands move once, common parts run once, equals are batched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import trnsci
from trnsci import ArgumentError, array_function, check, from_device, is_resident, to_device
from trnsci.precision import Precision
from trntensor.equation import Operand, Order, common_dtype, split_call
from trntensor.plan import make_plan
from trntensor.steps import ContractionStep, multiply, take_operands

# Copying operands side by side pays where a product is short; on a device, always: one program instead of many.
_SMALL = 1 << 14


@dataclass(slots=True)
class _Node:
    """One value: an operand, or a step of earlier values."""

    step: ContractionStep | None
    children: tuple[int, ...]
    depth: int
    precision: Precision | None
    value: Tensor | None = None


@array_function
@check.hands_on("einsum")
def multi_einsum(
    expressions: Sequence[Sequence[str | Operand]], *, precision: Precision | None = None, optimize: Order = "auto"
) -> list[Tensor]:
    """Evaluate several contractions together.

    Operands that are the same object are moved to the device once; steps that combine the same values in the same way
    run once; products of equal shape run as one batched product.

    Args:
        expressions: ``(subscripts, operand, ...)`` each, in either form `einsum` takes.
        precision: as for `einsum`, for all of them.
        optimize: as for `einsum`, for all of them.

    Returns:
        The results, in order; those of a device stay there where an operand of the expression lay there.

    Example:
        >>> a = torch.ones(2, 2)
        >>> multi_einsum([("ij,jk->ik", a, a), ("ij,jk->ki", a, a)])[1]
        tensor([[2., 2.],
                [2., 2.]])
    """
    graph = _Graph()
    roots: list[tuple[int, bool]] = []
    for index, expression in enumerate(check.sequence("multi_einsum", "expressions", expressions)):
        if isinstance(expression, str) or not isinstance(expression, list | tuple) or not expression:
            raise ArgumentError("multi_einsum", f"expression {index}", expression, "(subscripts, operand, ...)")
        text, tensors = split_call("multi_einsum", expression[0], expression[1:])
        dtype = common_dtype("multi_einsum", tensors)
        stays = any(is_resident(x) for x in tensors)
        roots.append((graph.add(text, tensors, dtype, precision, optimize), stays))
    graph.run()
    return [graph.result(node, stays) for node, stays in roots]


class _Graph:
    """Values with indices, equal ones with the same."""

    def __init__(self) -> None:
        self.nodes: list[_Node] = []
        self.indices: dict[Any, int] = {}
        # The kernels of every product: operands are moved here, once, instead of by each of them.
        self.moves = trnsci.get_backend("trnblas") in ("simulator", "nki")
        self.kept: list[Tensor] = []
        self.given: set[int] = set()

    def add(
        self, text: str, tensors: Sequence[Tensor], dtype: torch.dtype, precision: Precision | None, optimize: Any
    ) -> int:
        shapes = tuple(tuple(x.shape) for x in tensors)
        scheme = make_plan(text, shapes, dtype, precision, optimize=optimize)
        program, policy = scheme.program, None if precision is None else scheme.precision
        live = [self._operand(x, dtype) for x in tensors]
        for step in program.steps:
            children = tuple(take_operands(live, step.positions))
            key = (step.strategy, step.left, step.right, step.shape, step.order, children, policy)
            live.append(self._index(key, step, children, policy))
        return live[0]

    def _operand(self, x: Tensor, dtype: torch.dtype) -> int:
        key = ("operand", id(x), dtype)
        if key not in self.indices:
            value = x.to(dtype)
            # Identity is the key, so that the object must outlive the graph.
            self.kept.append(x)
            if self.moves and dtype.is_floating_point:
                value = to_device(value)
            self.indices[key] = len(self.nodes)
            self.nodes.append(_Node(None, (), 0, None, value))
        return self.indices[key]

    def _index(self, key: Any, step: ContractionStep, children: tuple[int, ...], precision: Precision | None) -> int:
        if key not in self.indices:
            self.indices[key] = len(self.nodes)
            depth = 1 + max(self.nodes[child].depth for child in children)
            self.nodes.append(_Node(step, children, depth, precision))
        return self.indices[key]

    def run(self) -> None:
        """Run level by level, products of one level and form side by side."""
        for depth in range(1, 1 + max((node.depth for node in self.nodes), default=0)):
            groups: dict[Any, list[_Node]] = {}
            for node in self.nodes:
                if node.depth == depth and node.step is not None:
                    step = node.step
                    dtype = self._value(node.children[0]).dtype
                    form = (step.strategy, step.left, step.right, step.shape, step.order, node.precision, dtype)
                    groups.setdefault(form, []).append(node)
            for nodes in groups.values():
                self._together(nodes)

    def _value(self, index: int) -> Tensor:
        value = self.nodes[index].value
        assert value is not None
        return value

    def _together(self, nodes: list[_Node]) -> None:
        step = nodes[0].step
        assert step is not None
        pairs = [[self._value(child) for child in node.children] for node in nodes]
        small = max(x.numel() for pair in pairs for x in pair) <= _SMALL
        if len(nodes) == 1 or step.strategy != "gemm" or step.right is None or not (self.moves or small):
            for node, pair in zip(nodes, pairs, strict=True):
                node.value = step(pair[0], pair[1] if len(pair) > 1 else None, node.precision)
            return
        exact = nodes[0].precision == "compensated"
        left = _stack_factors([step.left(pair[0], exact) for pair in pairs], [node.children[0] for node in nodes])
        right = _stack_factors([step.right(pair[1], exact) for pair in pairs], [node.children[1] for node in nodes])
        products = multiply(left, right, nodes[0].precision)
        for node, part in zip(nodes, products.unbind(0), strict=True):
            part = part.reshape(step.shape)
            node.value = part if step.order is None else part.permute(step.order)

    def result(self, index: int, stays: bool) -> Tensor:
        """Return a result in memory of its own, on the host unless it was to stay."""
        node = self.nodes[index]
        value = self._value(index)
        if self.moves and not stays:
            value = from_device(value)
        # Equal results are equal tensors, not one tensor, and none is a view of an operand.
        shared = index in self.given or node.step is None or node.step.strategy in ("permute", "diagonal", "copy")
        self.given.add(index)
        return value.clone() if shared else value


def _stack_factors(factors: Sequence[Tensor], numbers: Sequence[int]) -> Tensor:
    """Stack factors; one factor for all is not copied."""
    if len(set(numbers)) == 1:
        return factors[0].expand(len(factors), *factors[0].shape)
    return torch.stack(list(factors))
