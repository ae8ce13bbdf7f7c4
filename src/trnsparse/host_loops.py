"""The compiled incomplete factorisations (`trnsci.loops`) for host tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci import host, loops

NATIVE = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def factor_incomplete(name: str, indptr: Tensor, indices: Tensor, values: Tensor, *more: Tensor | None) -> int | None:
    """Factor in place; return the row without a pivot, -1 if all have one, or ``None`` where torch must do it."""
    if loops.compiled is None or values.dtype not in NATIVE or host.refusal((indptr, indices, values)):
        return None
    arrays: list[Any] = [x if x is None else x.numpy() for x in (indptr, indices, values, *more)]
    row: int = getattr(loops.compiled, name)(NATIVE.index(values.dtype), *arrays)
    return row
