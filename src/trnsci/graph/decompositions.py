"""Operators defined by others, for lowering: torch's definitions, and a few of our own."""

import functools
from typing import Any

import torch
from torch import Tensor

from trnsci.tables import read_table
from trnsci.torch_internals import decomp

_aten = torch.ops.aten
# what torch defines besides its core set
_NAMES = tuple(row["operator"] for row in read_table("decompositions.csv"))


def _variance(x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    if x.is_complex():
        parts = (_variance(part, dim, correction=correction, keepdim=keepdim) for part in (x.real, x.imag))
        return sum(parts)  # type: ignore[return-value]
    axes = list(range(x.ndim)) if dim is None else dim
    centred = x - x.mean(axes, keepdim=True)
    squares = (centred * centred).sum(axes, keepdim=keepdim)
    count = x.numel() // max(1, squares.numel())
    return squares / max(0.0, count - (1.0 if correction is None else correction))


def _normalize_layer(x: Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    axes = list(range(x.ndim - len(shape), x.ndim))
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    scale = ((centred * centred).mean(axes, keepdim=True) + eps).rsqrt()
    result = centred * scale
    result = result if weight is None else result * weight
    return result if bias is None else result + bias, mean, scale


def _above(x: Tensor) -> Tensor:
    """Return how far each element lies above the diagonal."""
    return torch.arange(x.shape[-1], device=x.device) - torch.arange(x.shape[-2], device=x.device).unsqueeze(-1)


# elements of comparisons by which programs sort and gather; larger ones stay with torch
_COMPARED = 1 << 24
_SORTED = (torch.float32, torch.bfloat16, torch.float16)


def _sort(x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = True) -> Any:
    """Sort by counting the elements before each one: the device compares all pairs at once. NaN is the largest."""
    if not x.ndim or x.dtype not in _SORTED or not 0 < x.numel() * x.shape[dim] <= _COMPARED:
        return NotImplemented
    rows, n = x.movedim(dim, -1), x.shape[dim]
    one, other = rows.unsqueeze(-1), rows.unsqueeze(-2)
    less = (one < other) | (other.isnan() & ~one.isnan())
    greater = (one > other) | (one.isnan() & ~other.isnan())
    before, after = (greater, less) if not descending else (less, greater)
    place = torch.arange(n, dtype=torch.float32, device=x.device)
    earlier = place.unsqueeze(-1) > place
    rank = (before | (~before & ~after & earlier)).to(torch.float32).sum(-1)
    chosen = rank.unsqueeze(-1) == place  # [..., element, position]
    values = torch.where(chosen, one, 0.0).sum(-2)
    indices = torch.where(chosen, place.unsqueeze(-1), 0.0).sum(-2).to(torch.int64)
    return values.to(x.dtype).movedim(-1, dim), indices.movedim(-1, dim)


def _gather(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Any:
    """Gather along an axis by comparing every index with every position."""
    if not x.ndim or x.dtype not in _SORTED or not 0 < index.numel() * x.shape[dim] <= _COMPARED:
        return NotImplemented
    axis = dim % x.ndim
    if any(index.shape[k] != x.shape[k] for k in range(x.ndim) if k != axis):
        return NotImplemented
    place = torch.arange(x.shape[axis], dtype=torch.float32, device=x.device)
    chosen = index.movedim(axis, -1).to(torch.float32).unsqueeze(-1) == place  # [..., result, position]
    return torch.where(chosen, x.movedim(axis, -1).unsqueeze(-2), 0.0).sum(-1).to(x.dtype).movedim(-1, axis)


def _compare_first(reduction: Any) -> Any:
    """Return ``any`` or ``all`` of numbers by truth values."""

    def reduce(x: Tensor, *args: Any, **options: Any) -> Any:
        return NotImplemented if x.dtype in (torch.bool, torch.uint8) else reduction(x != 0, *args, **options)

    return reduce


def _count(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Add up truth values as float32, which counts to 2**24."""
    if x.dtype is not torch.bool or dtype not in (None, torch.int64) or x.numel() > _COMPARED:
        return NotImplemented
    return x.to(torch.float32).sum(dim, keepdim).to(torch.int64)


@functools.cache
def decompositions() -> Any:
    """Return torch's definitions of operators by others: the core set, and a few that programs do not have."""
    table = dict(decomp.core_aten_decompositions())
    extra = decomp.get_decompositions([getattr(_aten, name) for name in _NAMES if hasattr(_aten, name)])
    extra |= {
        _aten.native_layer_norm.default: _normalize_layer,
        _aten.var.correction: _variance,
        _aten.var_mean.correction: lambda x, dim=None, *, correction=None, keepdim=False: (
            _variance(x, dim, correction=correction, keepdim=keepdim),
            x.mean(dim, keepdim=keepdim),
        ),
        _aten.std.correction: lambda x, dim=None, **options: _variance(x, dim, **options).sqrt(),
    }
    extra |= {
        _aten.tril.default: lambda x, diagonal=0: torch.where(_above(x) <= diagonal, x, torch.zeros_like(x)),
        _aten.triu.default: lambda x, diagonal=0: torch.where(_above(x) >= diagonal, x, torch.zeros_like(x)),
        _aten.sort.default: _sort,
        _aten.gather.default: _gather,
        _aten.sum.default: _count,
        _aten.sum.dim_IntList: _count,
    }
    for each in (_aten.any, _aten.all):
        extra |= {op: _compare_first(op) for op in (each.default, each.dim, each.dims)}
    extra[_aten.sort.stable] = lambda x, *, stable=True, dim=-1, descending=False: _sort(x, dim, descending)
    native = {
        _aten.silu.default,
        _aten.gelu.default,
        _aten.clamp.default,
        _aten.stack.default,
        _aten.constant_pad_nd.default,
    }
    # constants are computed as they are: their definitions use dtypes that the host lacks
    native |= {_aten.eye.default, _aten.eye.m}
    return {target: rule for target, rule in {**table, **extra}.items() if target not in native}
