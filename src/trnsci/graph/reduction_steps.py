"""Operators that reduce: along rows, along columns, or everything."""

import math
from typing import Any

import torch

from trnsci.graph import kernels
from trnsci.graph.copy_steps import Copies
from trnsci.graph.expression_steps import WIDEST
from trnsci.graph.layouts import P_MAX, Buffer, View, collapse, whole_view
from trnsci.graph.steps import Refused

# operators that reduce, and by which operation of the device
REDUCTIONS = {
    **dict.fromkeys(("sum", "mean"), "add"),
    **dict.fromkeys(("amax", "max", "any"), "maximum"),
    **dict.fromkeys(("amin", "min", "all"), "minimum"),
}


class Reductions(Copies):
    """Steps of operators that reduce."""

    def _reduce(self, node: Any, name: str) -> View:
        if name in ("max", "min") and len(node.args) > 1:
            raise Refused(f"positions of {name}ima are not computed by programs")
        view, value, op = self.operand(node.args[0]), node.meta["val"], REDUCTIONS[name]
        scale = value.numel() / math.prod(view.shape) if name == "mean" and 0 not in view.shape else 1.0
        allowed = (torch.float32, torch.bfloat16, torch.float16, torch.bool)
        if view.dtype not in allowed or value.dtype not in allowed or not math.prod(view.shape):
            raise Refused(f"programs reduce floating-point numbers, not {view.dtype} to {value.dtype}")
        dims = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        rank = len(view.shape)
        axes = range(rank) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
        reduced = sorted({axis % max(1, rank) for axis in axes} & set(range(rank)))
        kept = [axis for axis in range(rank) if axis not in reduced]
        out = self.allocate(value.shape, value.dtype, view.buffer.level)
        permuted = view.like(view.shown().permute(*kept, *reduced)) if rank else view
        self._write_reduction(out, permuted, len(kept), op, scale)
        return whole_view(out, value.shape, value.dtype)

    def _write_reduction(self, out: Buffer, view: View, kept: int, op: str, scale: float) -> None:
        rows, (row_strides,) = collapse(view.shape[:kept], [view.stride[:kept]])
        inner, (strides,) = collapse(view.shape[kept:], [view.stride[kept:]])
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
                    min(WIDEST, total - c),
                    c,
                    tuple(
                        (min(P_MAX, inner[0] - r), view.offset + r * strides[0] + c) for r in range(0, inner[0], P_MAX)
                    ),
                )
                for c in range(0, total, WIDEST)
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
                tuple(((min(WIDEST, n - c),), view.offset + r * stride + c) for c in range(0, n, WIDEST)),
            )
            for r in range(0, rows, P_MAX)
        )
        self.add(kernels.reduce_rows, [view.buffer], [out], groups=groups, strides=(stride, 1), op=op, scale=scale)


def _whole_blocks(n: int) -> list[tuple[int, int, int]]:
    """Cut n neighbours into blocks (partitions, elements of each, offset)."""
    blocks = []
    start = 0
    while n - start >= P_MAX:
        each = min(WIDEST, (n - start) // P_MAX)
        blocks.append((P_MAX, each, start))
        start += P_MAX * each
    if n > start:
        blocks.append((1, n - start, start))
    return blocks
