"""The place of an extreme of a vector: iamax, iamin."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from trnblas import host
from trnblas.arguments import rounds, spread, vectors
from trnblas.kernels import iamax as kernels
from trnsci import ArgumentError, Op, array_function
from trnsci.nki import P_MAX, launch


@array_function
def iamax(x: Tensor) -> Tensor:
    """Return the position (from 0) of the first element of largest ``|x|``; ``|Re| + |Im|`` for complex vectors.

    Args:
        x: [..., N], N at least 1. A NaN counts as larger than any number.

    Returns:
        [...], int64.

    Example:
        >>> iamax(torch.tensor([1.0, -3.0, 2.0]))
        tensor(1)
    """
    return _position("iamax", x)


@array_function
def iamin(x: Tensor) -> Tensor:
    """Return the position (from 0) of the first element of smallest ``|x|``; a NaN counts as smaller than any number.

    Example:
        >>> iamin(torch.tensor([1.0, -3.0, 0.5]))
        tensor(2)
    """
    return _position("iamin", x)


def _position(op: str, x: Tensor) -> Tensor:
    vectors(op, x)
    if x.shape[-1] == 0:
        raise ArgumentError(op=op, argument="shape of x", got=tuple(x.shape), expected="at least one element")
    return _iamax(x.detach(), op == "iamax")


def _fake(x: Tensor, largest: bool) -> Tensor:
    return x.new_empty(x.shape[:-1], dtype=torch.int64)


def _cost(x: Tensor, largest: bool) -> int:
    return x.numel()


_iamax = Op("trnblas::iamax", fake=_fake, cost=_cost)


def _sizes(x: Tensor) -> Tensor:
    return x.real.abs() + x.imag.abs() if x.is_complex() else x.abs()


@_iamax.impl("pytorch")
def _pytorch(x: Tensor, largest: bool) -> Tensor:
    if x.ndim == 1 and host.plain(x):
        # NumPy looks at many elements at a time, and agrees on NaN.
        sizes = np.abs(x.numpy())
        return torch.scalar_tensor(sizes.argmax() if largest else sizes.argmin(), dtype=torch.int64)
    size = _sizes(x)
    return size.argmax(-1) if largest else size.argmin(-1)


def _limits(x: Tensor, largest: bool) -> str | None:
    if x.is_complex():
        return "sums of |Re| and |Im| are compared on the host; pass _.real and _.imag parts, or use backend 'pytorch'"
    return rounds(x)


@_iamax.impl("nki", limits=_limits)
def _nki(x: Tensor, largest: bool) -> Tensor:
    result = _fake(x, largest)
    if result.numel() == 0:
        return result
    rows = spread(x.float(), repeat=True)  # [B, p, width]
    values, places = launch(kernels.iamax, rows, largest=largest)  # [B, p, 2 * T]
    # Of each tile of each partition: its best value and its best NaN flag, with positions. NaN wins, then size.
    tiles = values.shape[-1] // 2
    width = rows.shape[-1] // tiles
    start = (
        torch.arange(P_MAX, device=x.device).unsqueeze(-1) * rows.shape[-1]
        + torch.arange(tiles, device=x.device) * width
    )  # [p, T]
    index = places.long() + start.repeat(1, 2)
    flagged, plain = values[..., tiles:].flatten(1), values[..., :tiles].flatten(1)
    by_nan = index[..., tiles:].flatten(1).gather(1, flagged.argmax(1, keepdim=True))
    by_size = index[..., :tiles].flatten(1).gather(1, plain.argmax(1, keepdim=True))
    return torch.where(flagged.amax(1, keepdim=True) > 0, by_nan, by_size).reshape(result.shape)
