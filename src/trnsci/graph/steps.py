"""Steps of a program: calls of kernels, loops of them, and the operators that stay with torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from trnsci.graph.layouts import Buffer, View
from trnsci.torch_internals import tree_leaves


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
        body: steps of a loop, with its count; kernel is ``None`` then. Without a count it runs while the last of its
            results holds.
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
    count: int | None = 1

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
        """Buffers of device memory that it reads."""
        return [each for value in self.values.values() for each in tree_leaves(value) if isinstance(each, View)]


@dataclass(eq=False)
class Pending:
    """A pointwise node that is part of an expression not yet written as a step."""

    node: Node
    level: int
    dtype: torch.dtype
    shape: tuple[int, ...]


def describe_origin(node: Any) -> str:
    """Return the operator of a node and the line of the function that called it."""
    name = str(node.target).removeprefix("aten.").partition(".default")[0]
    line = str(node.meta.get("stack_trace") or "").strip()
    return f"{name} at {line}" if line else name
