"""Operands of torch's sparse products and attention, as functions here take them."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from trnsci.analogs import PLAIN, Different
from trnsci.torch_internals import disable_modes
from trnsparse.bound_mask import BoundMask
from trnsparse.csr import CSRMatrix
from trnsparse.masks import as_mask, causal, from_dense

_LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def as_matrix(a: Tensor) -> CSRMatrix:
    """Return a sparse tensor as a matrix."""
    if a.layout not in _LAYOUTS:
        raise Different(f"its first operand has the layout {str(a.layout).removeprefix('torch.')}")
    if a.requires_grad and torch.is_grad_enabled():
        raise Different("the gradient of a sparse tensor is torch's")
    if a.ndim != 2 or a.dense_dim():
        raise Different("its sparse operand is no matrix of numbers")
    return CSRMatrix.from_torch(a)


def as_dense(b: Tensor) -> Tensor:
    """Return a dense operand."""
    if b.layout != torch.strided:
        raise Different("what a product of sparse matrices stores is torch's choice")
    return b


def read_mask(q: Tensor, k: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Any:
    """Return the mask of a call of torch's attention, bound to a tracer's operands where they are a tracer's."""
    mask: Any = causal() if is_causal else None
    if attn_mask is not None:
        if attn_mask.dtype != torch.bool or attn_mask.ndim != 2:
            raise Different("its mask is no plain matrix of booleans")
        if type(attn_mask) not in PLAIN:
            raise Different("its mask depends on values, which a compiled graph does not have")
        mask = from_dense(attn_mask)
    return mask if type(q) in PLAIN or q.is_meta else _bind_constants(mask, q, k)


def _bind_constants(mask: Any, q: Tensor, k: Tensor) -> BoundMask:
    """Bind a mask for a tracer's operands: its blocks are constants of the graph."""
    lengths = q.shape[-2], k.shape[-2]
    if any(type(length) is not int for length in lengths):
        raise Different("its mask depends on lengths, which are symbols here")
    names = ("indptr", "indices", "slots", "insides")
    with disable_modes():
        bound = as_mask(mask).bind(*lengths)
        blocks = [{name: getattr(pattern, name).numpy() for name in names} for pattern in bound.patterns]
    patterns = [
        replace(pattern, **{name: torch.tensor(array, device="cpu") for name, array in arrays.items()})  # type: ignore[arg-type]
        for pattern, arrays in zip(bound.patterns, blocks, strict=True)
    ]
    return replace(bound, patterns=tuple(patterns))
