"""Operators that reduce: along rows, along columns, or everything."""

from __future__ import annotations

import math
from typing import Any

import torch

from trnsci.graph import kernels
from trnsci.graph.copy_steps import Copies
from trnsci.graph.expression_steps import WIDEST
from trnsci.graph.layouts import P_MAX, Buffer, View, collapse, whole_view
from trnsci.graph.steps import Refused


class Reductions(Copies):
    """One method for each operator, named after it."""

    def _sum_node(self, node: Any) -> View:
        return self._reduce(node, "add")

    def _mean_node(self, node: Any) -> View:
        source, value = node.args[0].meta["val"], node.meta["val"]
        return self._reduce(node, "add", value.numel() / source.numel())

    def _amax_node(self, node: Any) -> View:
        return self._reduce(node, "maximum")

    def _amin_node(self, node: Any) -> View:
        return self._reduce(node, "minimum")

    def _any_node(self, node: Any) -> View:
        return self._reduce(node, "maximum")

    def _all_node(self, node: Any) -> View:
        return self._reduce(node, "minimum")

    def _max_node(self, node: Any) -> View:
        if len(node.args) > 1:
            raise Refused("positions of maxima are not computed by programs")
        return self._reduce(node, "maximum")

    def _min_node(self, node: Any) -> View:
        if len(node.args) > 1:
            raise Refused("positions of minima are not computed by programs")
        return self._reduce(node, "minimum")

    def _reduce(self, node: Any, op: str, scale: float = 1.0) -> View:
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
        permuted = view.like(view.shown().permute(*kept, *reduced)) if rank else view
        self._write_reduction(out, permuted, len(kept), op, scale)
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
