"""Gaussian sketches: a random projection whose matrix is generated where it is used."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import torch
from torch import Tensor

from trnrand.device import start, trust
from trnrand.kernels import sketch as kernels
from trnrand.normal import Normal
from trnrand.request import Request, drawing
from trnrand.segment import Segment
from trnrand.source import Source
from trnsci import Cost, check, cuda, op, run
from trnsci.gradient import saves
from trnsci.nki import P_MAX, launch

# normals that fit a core's SBUF beside the tiles that make and use them: 96 KiB of a partition
KERNEL_LIMIT = P_MAX * 96 * 256


@drawing
def sketch(a: Tensor, size: int, *, generator: Source | None = None) -> Tensor:
    """Project the rows of ``a``: ``normals.T @ a``, where ``normals`` is what ``normal(M, size)`` would give.

    Args:
        a: [M, N], float32 or float64.
        size: rows of the result.

    Returns:
        [size, N], with a gradient to ``a``. Divide by ``sqrt(size)`` to keep lengths on average.

    Raises:
        ArgumentError: ``a`` is not a matrix, or the generator is partitioned. Nothing was drawn.

    Error bound:
        That of the product, ``g(M) |normals|.T @ |a|``, and the normals' own (see `normal`).

    Cost:
        ``2 M N size`` FLOPs. The kernel draws the normals on chip: they never pass through device memory.
    """
    dtype = check.floating("sketch", a=a)
    check.refuse(a.ndim != 2, "sketch", "shape of a", tuple(a.shape), "[M, N]")
    check.option("sketch", "dtype of a", dtype, (torch.float32, torch.float64))
    size = check.integer("sketch", "size", size, 1)
    request = Request("sketch", ((a.shape[0], size),), generator, dtype=dtype, device=a.device)
    check.refuse(request.source.size > 1, "sketch", "generator", "a partitioned one", "one that is not")
    wide = dtype == torch.float64
    stream, first = request.claim(2 if wide else 1)
    segment = Segment.of(stream, first, a.shape[0] * size, 2 if wide else 4)
    projected = run(Sketch(a, segment, size))
    request.commit()
    return projected


@op("trnrand::sketch", calls="triton trnrand.cuda.streams and torch.matmul")
class Sketch(NamedTuple):
    """``normals.T @ a`` with normals [M, size] of a segment."""

    a: Tensor  # [M, N]
    segment: tuple[int, ...]
    size: int

    def fake(self) -> Tensor:
        return self.a.new_empty((self.size, self.a.shape[1]))

    def cost(self) -> Cost:
        m, n = self.a.shape
        read, written = self.a.nbytes, self.a.element_size() * self.size * n
        return Cost(flops=2 * m * n * self.size + 40 * m * self.size, read=read, written=written)

    def pytorch(self) -> Tensor:
        return self._normals(self.a.device).T @ self.a

    def _normals(self, device: torch.device) -> Tensor:
        """Return the matrix, [M, size]."""
        return run(Normal(self.segment, self.a.dtype, device)).view(self.a.shape[0], self.size)

    def cuda(self) -> Tensor:
        normals = Normal(self.segment, self.a.dtype, self.a.device).cuda()
        return torch.mm(normals.view(self.a.shape[0], self.size).t(), self.a)

    def compiles(self) -> tuple[Hashable, float]:
        return Normal(self.segment, self.a.dtype, self.a.device).compiles()

    def nki(self) -> Tensor:
        if self.a.numel() == 0:
            return self.fake().zero_()
        segment = Segment(self.segment)
        trust(segment.engine.name)
        engine = segment.engine.name
        product: Tensor = launch(kernels.sketch, start(segment), self.a.contiguous(), size=self.size, engine=engine)
        return product

    def limits(self, implementation: str) -> str | None:
        if implementation == "cuda":
            return cuda.why_no_triton(self.a.device)
        if implementation != "nki":
            return None
        skip, size = self.segment[1], self.size
        if self.a.dtype != torch.float32:
            return f"the kernel takes float32, and a is {str(self.a.dtype).removeprefix('torch.')}"
        if skip or size % 4:
            return f"the kernel makes normals four at a time: position {skip} and size {size} must be multiples of 4"
        if self.a.shape[0] * size > KERNEL_LIMIT:
            return f"the kernel keeps up to {KERNEL_LIMIT} normals on chip, and this call has {self.a.shape[0] * size}"
        return None

    @saves()
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        return {"a": self._normals(grad.device) @ grad} if "a" in needs else {}
