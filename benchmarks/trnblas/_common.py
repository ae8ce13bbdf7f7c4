"""What the benchmarks of trnblas share: shapes without data, operands with a fixed seed, Fortran order for SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.registry import Case, Kernel
from trnsci.testing import gaussian

F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16


def name_of(dtype: torch.dtype) -> str:
    """As the tables show it."""
    return str(dtype).removeprefix("torch.")


def case(
    sizes: str, make: Callable[[torch.dtype], tuple[Any, ...]], flops: int, elements: int, dtype: torch.dtype = F64
) -> Case:
    """One size: ``make`` builds the arguments, ``elements`` are read or written once."""
    return Case(
        name=f"{sizes} {name_of(dtype)}", inputs=lambda: make(dtype), flops=flops, bytes=dtype.itemsize * elements
    )


def kernel(
    sizes: str, run: Callable[..., Any], *shapes: tuple[int, ...] | None, dtype: torch.dtype = F32, **options: Any
) -> Kernel:
    """One prediction: tensors without data, ``None`` for those left out."""

    def inputs() -> tuple[Any, ...]:
        return tuple(None if s is None else torch.empty(s, dtype=dtype, device="meta") for s in shapes)

    return Kernel(name=f"{sizes} {name_of(dtype)}", kernel=run, inputs=inputs, options=options)


def to_fortran(*args: Any) -> tuple[Any, ...]:
    """Tensors as NumPy arrays in the order BLAS wants, outside the clock."""
    return tuple(np.asfortranarray(x.numpy()) if isinstance(x, torch.Tensor) else x for x in args)


def as_stored(*args: Any) -> tuple[Any, ...]:
    """Tensors as NumPy arrays where they lie: a routine that wants another order copies them inside the clock."""
    return tuple(x.numpy() if isinstance(x, torch.Tensor) else x for x in args)


def dominant(n: int, dtype: torch.dtype, seed: int = 1) -> torch.Tensor:
    """A well-conditioned matrix whose triangles are well-conditioned too."""
    return gaussian((n, n), seed, dtype) / (2 * n**0.5) + 2 * torch.eye(n, dtype=dtype)
