"""Tables of functions, each beside the one library call that it makes: what checks, dispatch and conversions cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.registry import Bench, Case, Peer


@dataclass(frozen=True, slots=True)
class Row:
    """One function at one size: ``library`` takes the same operands, tensors if it is torch's, else their arrays."""

    name: str
    ours: Callable[..., Any]
    library: Callable[..., Any]
    operands: Callable[[], tuple[Any, ...]]
    flops: int
    bytes: int
    of_torch: bool = False


def _prepared(row: Row, *operands: Any) -> tuple[Any, ...]:
    if row.of_torch:
        return row, *operands
    return row, *(x.numpy() if isinstance(x, torch.Tensor) else x for x in operands)


def called(op: str, tests: str, rows: Sequence[Row], tolerance: float = 1e-10, notes: str = "") -> Bench:
    """The benchmark of such a table, on the host. The first of several results is compared."""
    return Bench(
        op=op,
        run=lambda row, *operands: row.ours(*operands),
        tests=tests,
        cases=tuple(
            Case(name=r.name, inputs=lambda r=r: (r, *r.operands()), flops=r.flops, bytes=r.bytes, devices=("cpu",))
            for r in rows
        ),
        peers=(
            Peer(name="the library called", run=lambda row, *args: row.library(*args), prepare=_prepared, called=True),
        ),
        comparable=lambda result: result[0] if isinstance(result, tuple) else result,
        tolerance=tolerance,
        notes=notes,
        devices=("cpu",),
    )
