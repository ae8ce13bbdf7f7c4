"""Cases and kernels the random-number benchmarks share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.registry import Case, Kernel

ENGINES = {"philox4x32": 30, "threefry4x32": 30}
SAMPLES = 1 << 24


def case(
    name: str,
    arguments: tuple[Any, ...],
    elements: int,
    itemsize: int,
    operations: int,
    devices: tuple[str, ...] = ("cpu", "cuda"),
) -> Case:
    """A draw of so many elements, at so many operations each."""
    flops, size = operations * elements, itemsize * elements
    return Case(name=name, inputs=lambda: arguments, flops=flops, bytes=size, devices=devices)


def counter_kernels(kernel: Callable[..., Any]) -> tuple[Kernel, ...]:
    """A kernel that makes the words of 2**20 counters."""
    shapes = (128, 30), (4, 1 << 20)
    inputs = tuple(torch.empty(shape, dtype=torch.uint32, device="meta") for shape in shapes)
    return (Kernel(name="2^20 counters", kernel=kernel, inputs=lambda: inputs),)


def stream_kernels(kernel: Callable[..., Any]) -> tuple[Kernel, ...]:
    """A kernel that makes a stretch of a stream, for both engines and 2**24 elements."""
    return tuple(
        Kernel(
            name=f"2^24 {engine}",
            kernel=kernel,
            inputs=lambda width=width: (torch.empty((128, width), dtype=torch.uint32, device="meta"),),
            options={"blocks": SAMPLES // 4, "engine": engine},
        )
        for engine, width in ENGINES.items()
    )
