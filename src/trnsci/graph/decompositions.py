"""Operators defined by others, for lowering: torch's definitions, and a few of our own."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten
# what torch defines besides its core set
_NAMES = (
    "_softmax",
    "_log_softmax",
    "_softmax_backward_data",
    "_log_softmax_backward_data",
    "diag_embed",
    "native_layer_norm_backward",
    "linalg_vector_norm",
    "mse_loss",
    "softplus",
    "softplus_backward",
    "leaky_relu",
    "leaky_relu_backward",
    "trace",
    "addmv",
    "nll_loss_forward",
    "norm",
    "zeros_like",
    "ones_like",
    "full_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "zeros",
    "ones",
    "elu",
    "hardtanh",
    "mish",
    "isfinite",
    "isinf",
    "roll",
)


def _mean(x: Tensor, dim: Any, options: Any) -> Tensor:
    return x.mean(dim, keepdim=options.get("keepdim", False)) if dim is not None else x.mean()


def _variance(x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
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


def _keep_lower(x: Tensor, diagonal: int = 0) -> Tensor:
    return torch.where(_above(x) <= diagonal, x, 0)


def _keep_upper(x: Tensor, diagonal: int = 0) -> Tensor:
    return torch.where(_above(x) >= diagonal, x, 0)


def _above(x: Tensor) -> Tensor:
    """Return how far each element lies above the diagonal."""
    return torch.arange(x.shape[-1], device=x.device) - torch.arange(x.shape[-2], device=x.device).unsqueeze(-1)


@functools.cache
def decompositions() -> Any:
    """Return torch's definitions of operators by others: the core set, and a few that programs do not have."""
    table = dict(torch._decomp.core_aten_decompositions())
    extra = torch._decomp.get_decompositions([getattr(_aten, name) for name in _NAMES if hasattr(_aten, name)])
    extra |= {
        _aten.native_layer_norm.default: _normalize_layer,
        _aten.var.correction: _variance,
        _aten.var_mean.correction: lambda x, dim=None, **options: (
            _variance(x, dim, **options),
            _mean(x, dim, options),
        ),
        _aten.std.correction: lambda x, dim=None, **options: _variance(x, dim, **options).sqrt(),
    }
    extra |= {_aten.tril.default: _keep_lower, _aten.triu.default: _keep_upper}
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
