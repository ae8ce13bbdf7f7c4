"""Steps after a product, before it leaves the device: scale, bias, activation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from trnsci import ArgumentError, check
from trnsci.arrays import from_numpy

Activation = Literal["none", "relu", "gelu", "silu", "sigmoid", "tanh"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


@dataclass(frozen=True, eq=False)
class Epilogue:
    """``activation(scale * product + bias)``, fused into the kernel of the product.

    Attributes:
        bias: [N], added to every row, or ``None``.
        scale: a number.
        activation: ``none``, ``relu``, ``gelu`` (with the error function), ``silu``, ``sigmoid`` or ``tanh``.
    """

    bias: Tensor | None = None
    scale: float = 1.0
    activation: Activation = "none"

    def __post_init__(self) -> None:
        check.option("Epilogue", "activation", self.activation, tuple(ACTIVATIONS))
        if isinstance(self.bias, np.ndarray):
            object.__setattr__(self, "bias", from_numpy(self.bias))
        object.__setattr__(self, "scale", check.number("Epilogue", "scale", self.scale))

    def check(self, op: str, a: Tensor, n: int) -> None:
        """Fit the product: real operands, a bias of its dtype, device and N."""
        check.refuse(a.is_complex(), op, "epilogue", "complex operands", "real operands")
        if self.bias is not None:
            check.floating(op, a=a, bias=self.bias)
            check.same_device(op, a=a, bias=self.bias)
            if tuple(self.bias.shape) != (n,):
                raise ArgumentError(op, "shape of bias", tuple(self.bias.shape), f"({n},)")

    def __call__(self, product: Tensor) -> Tensor:
        """Apply it with PyTorch."""
        product = product if self.scale == 1 else product * self.scale
        product = product if self.bias is None else product + self.bias
        return ACTIVATIONS[self.activation](product)
