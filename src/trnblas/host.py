"""The host's own BLAS where PyTorch has no call for an operation: through SciPy, when it is installed.

An array contiguous by rows is the transpose of one contiguous by columns, which is what BLAS takes, so nothing is
copied: sides and triangles are exchanged instead.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnblas.arguments import in_place

_LETTERS = {torch.float32: "s", torch.float64: "d"}


@functools.cache
def _library() -> Any:
    try:
        from scipy.linalg import blas
    except ImportError:
        return None
    return blas


def serves(*tensors: Tensor) -> bool:
    """Whether SciPy's BLAS can take these: real matrices in host memory, not empty, and nothing to differentiate."""
    if _library() is None or torch.compiler.is_compiling() or not in_place(*tensors):
        return False
    return all(
        type(t) is Tensor and t.is_cpu and t.ndim == 2 and t.dtype in _LETTERS and t.numel() > 0 for t in tensors
    )


def call(name: str, like: Tensor, *args: Any, **options: Any) -> Any:
    """Run a routine of the precision of ``like``."""
    return getattr(_library(), _LETTERS[like.dtype] + name)(*args, **options)


def by_columns(x: Tensor) -> tuple[np.ndarray[Any, Any], bool]:
    """Memory of ``x`` contiguous by columns, and whether it is then the transpose of ``x``."""
    x = x.detach()
    if not x.is_contiguous() and x.mT.is_contiguous():
        return x.numpy(), False
    return x.contiguous().numpy().T, True


def symmetric_product(a: Tensor, b: Tensor, lower: bool) -> Tensor:
    """``a @ b`` with one triangle of ``a`` stored."""
    matrix, turned = by_columns(a)
    stored = lower != turned
    if b.shape[1] == 1:
        return torch.from_numpy(call("symv", a, 1.0, matrix, b.detach()[:, 0].numpy(), lower=stored)).unsqueeze(1)
    right, across = by_columns(b)
    made = torch.from_numpy(call("symm", a, 1.0, matrix, right, side=int(across), lower=stored))
    return made.mT if across else made


def symmetric_square(x: Tensor, lower: bool) -> Tensor:
    """The triangle of ``x @ x.T``, zeros elsewhere."""
    matrix, turned = by_columns(x)
    # The result is symmetric, so reading it by rows is asking for the other triangle.
    return torch.from_numpy(call("syrk", x, 1.0, matrix, trans=int(turned), lower=not lower)).mT


def symmetric_sum(x: Tensor, y: Tensor, lower: bool) -> Tensor:
    """The triangle of ``x @ y.T + y @ x.T``, zeros elsewhere."""
    left, turned = by_columns(x)
    right = y.detach().contiguous().numpy().T if turned else np.asfortranarray(y.detach().numpy())
    return torch.from_numpy(call("syr2k", x, 1.0, left, right, trans=int(turned), lower=not lower)).mT


def triangular_product(a: Tensor, b: Tensor, lower: bool, unit: bool) -> Tensor:
    """``a @ b`` with ``a`` triangular."""
    matrix, turned = by_columns(a)
    flags = {"lower": lower != turned, "diag": int(unit)}
    if b.shape[1] == 1:
        made = call("trmv", a, matrix, b.detach()[:, 0].contiguous().numpy(), trans=int(turned), **flags)
        return torch.from_numpy(made).unsqueeze(1)
    right, across = by_columns(b)
    # b.T @ a.T, when b comes transposed: what multiplies from the right is the transpose of a.
    made = call("trmm", a, 1.0, matrix, right, side=int(across), trans_a=int(turned != across), **flags)
    found = torch.from_numpy(made)
    return found.mT if across else found


def triangular_solve(a: Tensor, b: Tensor, lower: bool, unit: bool) -> Tensor:
    """``inv(a) @ b`` with ``a`` triangular, contiguous by columns as LAPACK leaves it."""
    matrix, turned = by_columns(a)
    flags = {"lower": lower != turned, "diag": int(unit)}
    if b.shape[1] == 1:
        made = call("trsv", a, matrix, b.detach()[:, 0].contiguous().numpy(), trans=int(turned), **flags)
        return torch.from_numpy(made).unsqueeze(0).mT
    right = torch.empty_like(b.mT, memory_format=torch.contiguous_format).copy_(b.detach().mT).mT
    call("trsm", a, 1.0, matrix, right.numpy(), trans_a=int(turned), overwrite_b=True, **flags)
    return right
