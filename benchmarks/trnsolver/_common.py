"""Cases, peers and kernels the solvers' benchmarks share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from benchmarks.registry import TARGETS, Bench, Case, Kernel, Peer
from trnsolver.dense.identity import identity


def case(shape: tuple[int, ...], matrix: Callable[[tuple[int, ...]], torch.Tensor], flops: int) -> Case:
    """One matrix, or a batch of them, at so many operations each."""
    *batch, m, n = shape
    name = f"{''.join(f'{size}x' for size in batch)}({m}x{n}) float32"
    count = torch.Size(batch).numel()
    return Case(name=name, inputs=lambda: (matrix(shape),), flops=count * flops, bytes=8 * count * m * n)


def scipy_peer(name: str, run: Callable[..., Any]) -> Peer:
    """A function of SciPy on the same numbers."""
    return Peer(name=name, run=run, prepare=lambda a: (a.numpy(),), requires="scipy", devices=("cpu",))


def tiles() -> tuple[torch.Tensor, ...]:
    """The table of most factorisations: an identity."""
    return (identity(torch.device("cpu")),)


def kernel(
    entry: Callable[..., Any],
    shape: tuple[int, ...],
    tables: Callable[[], tuple[Any, ...]] = tiles,
    *,
    options: Mapping[str, Any] | None = None,
    targets: tuple[str, ...] = TARGETS,
    slow: bool = False,
) -> Kernel:
    """A kernel of one operand [B, M, N] and its tables."""
    return Kernel(
        name="x".join(map(str, shape)),
        kernel=entry,
        inputs=lambda: (torch.empty(shape, device="meta"), *tables()),
        options=options or {},
        targets=targets,
        slow=slow,
    )


def batched(
    stem: str,
    run: Callable[..., Any],
    entry: Callable[..., Any],
    options: Callable[[int], Mapping[str, Any]],
    shapes: tuple[tuple[int, int], ...] = ((1024, 32), (1024, 8), (1024, 64)),
) -> Bench:
    """The benchmark of a kernel of small matrices: so many of so many rows, the first of them for every target."""
    return Bench(
        op=f"trnsolver.{stem}",
        run=run,
        tests="tests/trnsolver/test_batches.py",
        cases=(),
        peers=(),
        kernels=tuple(
            kernel(entry, (batch, n, n), tuple, options=options(n), targets=TARGETS if index == 0 else ("trn2",))
            for index, (batch, n) in enumerate(shapes)
        ),
    )
