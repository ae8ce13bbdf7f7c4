"""The position of an extreme of a vector: iamax, iamin."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnblas import host_blas
from trnblas.arguments import over_partitions, rounds, vectors
from trnblas.kernels import iamax as kernels
from trnsci import ArgumentError, array_function, op, run
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
    return _position("iamax", x, largest=True)


@array_function
def iamin(x: Tensor) -> Tensor:
    """Return the position (from 0) of the first element of smallest ``|x|``; a NaN counts as smaller than any number.

    Example:
        >>> iamin(torch.tensor([1.0, -3.0, 0.5]))
        tensor(2)
    """
    return _position("iamin", x, largest=False)


def _position(name: str, x: Tensor, *, largest: bool) -> Tensor:
    vectors(name, x)
    if x.shape[-1] == 0:
        raise ArgumentError(name, "shape of x", tuple(x.shape), "at least one element")
    return run(Iamax(x.detach(), largest))


@op("trnblas::iamax")
class Iamax(NamedTuple):
    """The position of the first largest element, or of the first smallest one."""

    x: Tensor  # [..., N]
    largest: bool

    def fake(self) -> Tensor:
        return self.x.new_empty(self.x.shape[:-1], dtype=torch.int64)

    def cost(self) -> int:
        return self.x.numel()

    def limits(self, implementation: str) -> str | None:
        if implementation == "host":
            return host_blas.refusal(self.x, ndim=1)
        if implementation == "nki" and self.x.is_complex():
            return "sums of |Re| and |Im| are compared on the host; pass _.real and _.imag parts, or use pytorch"
        return rounds(self.x) if implementation == "nki" else None

    def calls(self, implementation: str) -> str:
        return "numpy.argmax and numpy.argmin" if self.largest else "numpy.argmin"

    def host(self) -> Tensor:
        # NumPy looks at many elements at a time, and takes the first NaN for the largest as for the smallest.
        x = self.x.numpy()
        if not self.largest:
            return torch.scalar_tensor(int(np.abs(x).argmin()), dtype=torch.int64, device="cpu")
        # No magnitudes are written; of two equal ones the first counts.
        index = max(int(x.argmax()), int(x.argmin()), key=lambda i: (abs(x[i]), -i))
        return torch.scalar_tensor(index, dtype=torch.int64, device="cpu")

    def pytorch(self) -> Tensor:
        x = self.x
        size = x.real.abs() + x.imag.abs() if x.is_complex() else x.abs()
        return size.argmax(-1) if self.largest else size.argmin(-1)

    def nki(self) -> Tensor:
        x = self.x
        if 0 in x.shape[:-1]:
            return self.fake()
        rows = over_partitions(x.float(), repeat=True)  # [B, p, width]
        values, positions = launch(kernels.iamax, rows, largest=self.largest)  # [B, p, 2, T]
        # Of each tile of each partition: its best value and its best NaN flag, with positions. NaN wins, then size.
        tiles, width = values.shape[-1], rows.shape[-1]
        partition, tile = (torch.arange(size, device=x.device) for size in (P_MAX, tiles))
        start = partition.unsqueeze(-1) * width + tile * (width // tiles)  # [p, T]
        index = positions.long() + start.unsqueeze(1)
        plain, flagged = (part.flatten(1) for part in values.unbind(2))
        at_plain, at_flagged = (part.flatten(1) for part in index.unbind(2))
        by_nan = at_flagged.gather(1, flagged.argmax(1, keepdim=True))
        by_size = at_plain.gather(1, plain.argmax(1, keepdim=True))
        return torch.where(flagged.amax(1, keepdim=True) > 0, by_nan, by_size).reshape(x.shape[:-1])
