"""What ops that run on the host whatever the backend have in common."""

from __future__ import annotations

import functools
from typing import Any

import torch
from scipy.linalg import lapack
from torch import Tensor

from trnsci.host import transformed

_LETTERS = {torch.float32: "s", torch.float64: "d", torch.complex64: "c", torch.complex128: "z"}
# why the others refuse: of a batch torch takes all matrices in one call
ONE_MATRIX = "SciPy's LAPACK takes one matrix a call"


@functools.cache
def routine(name: str, dtype: torch.dtype) -> Any:
    """LAPACK's routine for a dtype: ``getrs`` is ``dgetrs`` in float64."""
    return getattr(lapack, _LETTERS[dtype] + name)


def one_matrix(*operands: Tensor) -> bool:
    """Whether each operand is one matrix, not a batch, with entries."""
    return all(x.ndim == 2 and x.numel() for x in operands)


def cubes(a: Tensor, factor: float) -> int:
    """``factor * N**3`` FLOPs a matrix, four times that for complex ones."""
    return round(factor * a.numel() * a.shape[-1] * (4 if a.is_complex() else 1))


def in_memory(x: Tensor) -> Tensor:
    """The same numbers where SciPy can read them: in host memory, without a gradient or a lazy conjugate."""
    return x.detach().cpu().resolve_conj().resolve_neg()


def no_transform() -> str | None:
    """Why SciPy cannot take a call under ``torch.func``, or ``None``."""
    return "torch.func transforms only torch's own functions, and this runs in SciPy" if transformed() else None
