"""``torch.autocast("neuron")``: products in half precision, sensitive functions in float32, as torch has it."""

import functools
from typing import Any

import torch
from torch import Tensor
from torch.library import Library, fallthrough_kernel

from trnsci.torch_internals import DispatchKey, DispatchKeySet, exclude_keys, tree_map

HALF = "mm addmm bmm baddbmm mv addmv addbmm matmul linear conv1d conv2d conv3d convolution conv_transpose2d.input"
HALF += " scaled_dot_product_attention"
WIDE = "softmax.int log_softmax.int layer_norm group_norm cross_entropy_loss nll_loss mse_loss l1_loss smooth_l1_loss"
WIDE += " binary_cross_entropy_with_logits exp log log2 log10 log1p pow.Tensor_Scalar rsqrt norm.Scalar cumsum prod"

_KEY = "AutocastPrivateUse1"


def register_autocast() -> list[Library]:
    """Register what autocast does with operators of the device; the libraries must be kept."""
    every, own = Library("_", "IMPL", _KEY), Library("aten", "IMPL", _KEY)
    every.fallback(fallthrough_kernel)
    for names, wide in ((HALF, False), (WIDE, True)):
        for name in names.split():
            packet, _, overload = name.partition(".")
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            own.impl(name, functools.partial(_cast, op, wide))
    return [every, own]


def _cast(op: Any, wide: bool, *args: Any, **kwargs: Any) -> Any:
    """Run an operator on operands of the precision autocast asks for."""
    dtype = torch.float32 if wide else torch.get_autocast_dtype("neuron")

    def cast(x: Any) -> Any:
        eligible = isinstance(x, Tensor) and x.is_floating_point() and x.dtype != torch.float64
        return x.to(dtype) if eligible else x

    with exclude_keys(DispatchKeySet(DispatchKey.AutocastPrivateUse1)):
        return op(*tree_map(cast, args), **tree_map(cast, kwargs))
