"""Screened product: entries whose bound is too small take no part, and blocks without others are not touched."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnsci import array_function, check, op, programs, run
from trnsci.host import transformed
from trnsci.nki import N_TILE, P_MAX, launch
from trnsparse.arguments import KERNEL_DTYPES, dense, evenly, only, same_kind, shaped, sparse, together
from trnsparse.bsr import BSRMatrix
from trnsparse.bsr_sddmm import padded, sampled_blocks
from trnsparse.bsr_spmm import BsrSpmm
from trnsparse.indices import compress, expand, transposition
from trnsparse.kernels import screened_spmm as kernels
from trnsparse.matrix import SparseMatrixLike
from trnsparse.screening import as_threshold, check_bounds


@array_function
@check.hands_on("from_dense")
def screened_spmm(a: SparseMatrixLike, u: Tensor, w: Tensor, b: Tensor, threshold: float) -> Tensor:
    """Return ``a' @ b`` with ``a'[i, k] = a[i, k]`` where ``u[i] w[k] > threshold`` and 0 elsewhere.

    The kernel screens blocks before the Tensor Engine reads them: it stores no screened copy of ``a``.

    Args:
        a: dense or sparse [M, K]; anything but BSR is taken in blocks of 128.
        u: [M] bounds of the rows, finite and not negative.
        w: [K] bounds of the columns, finite and not negative.
        b: [K, N]
        threshold: products of bounds above it are kept.

    Error bound:
        That of `spmm`. A product of bounds within three roundings of the threshold may fall on either side, and one
        below the dtype's range, taken relative to the largest, counts as 0.
    """
    u, w = check_bounds("screened_spmm", u=u, w=w)
    dense("screened_spmm", b=b)
    shaped("screened_spmm", u=(u, "[M]"), w=(w, "[K]"), b=(b, "[K, N]"))
    if isinstance(a, Tensor) and a.layout is torch.strided:
        a = BSRMatrix.from_dense(a)
    a = sparse("screened_spmm", "a", a)
    blocks = a.to_bsr(a.block) if isinstance(a, BSRMatrix) else a.to_bsr()
    same_kind("screened_spmm", a=blocks, b=b)
    check.equal("screened_spmm", "K", a=a.shape[1], w=w.shape[0], b=b.shape[0])
    check.equal("screened_spmm", "M", a=a.shape[0], u=u.shape[0])
    check.same_device("screened_spmm", u=u, w=w, b=b)
    exact = torch.float64 if blocks.dtype in (torch.float64, torch.complex128) else torch.float32
    limit = as_threshold("screened_spmm", threshold)
    (u, u_scale), (w, w_scale) = _near_one(u), _near_one(w)
    limit = limit * u_scale * w_scale
    values, u, w = blocks.values.resolve_conj(), u.to(exact), w.to(exact)
    return run(together(ScreenedSpmm(blocks.indptr, blocks.indices, values, u, w, b.resolve_conj(), limit)))


def _near_one(bounds: Tensor) -> tuple[Tensor, float]:
    """Scale bounds by a power of two that brings the largest near 1, and return that power too."""
    if bounds.is_meta or bounds.numel() == 0:
        return bounds.double(), 1.0
    scale = 2.0 ** -min(max(math.frexp(float(bounds.max()))[1], -1000), 1000)
    return bounds.double() * scale, scale


@op("trnsparse::screened_spmm")
class ScreenedSpmm(NamedTuple):
    """Blocks times a dense matrix without the entries whose bound is at most the threshold."""

    indptr: Tensor  # [block rows + 1]
    indices: Tensor  # [blocks]
    blocks: Tensor  # [blocks, bm, bn]
    u: Tensor  # [M]
    w: Tensor  # [K]
    b: Tensor  # [K, N]
    threshold: float

    def fake(self) -> Tensor:
        return self.b.new_empty((self.u.shape[0], self.b.shape[1]))

    def cost(self) -> int:
        return 2 * self.blocks.numel() * self.b.shape[1] * (4 if self.b.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        if implementation != "nki":
            return None
        _, bm, bn = self.blocks.shape
        if max(bm, bn) > P_MAX:
            return f"takes blocks of up to {P_MAX}x{P_MAX}, not {bm}x{bn}"
        return only(self.b.dtype, KERNEL_DTYPES)

    def bounds(self) -> tuple[Tensor, Tensor]:
        """Return the bounds of the rows of every block row, and of the columns of every block column."""
        _, bm, bn = self.blocks.shape
        return padded(self.u[:, None], bm).reshape(-1, bm), padded(self.w[:, None], bn).reshape(-1, bn)

    def block_rows(self) -> Tensor:
        """Return the block row of every block."""
        return expand(self.indptr, self.indices.shape[0])

    def stays(self) -> Tensor:
        """Return which entries of which blocks are above the threshold."""
        u, w = self.bounds()
        return u[self.block_rows()][:, :, None] * w[self.indices][:, None, :] > self.threshold

    def survivors(self) -> ScreenedSpmm:
        """Return the call with only the blocks that hold an entry above the threshold."""
        u, w = self.bounds()
        rows = self.block_rows()
        kept = (u.amax(1)[rows] * w.amax(1)[self.indices] > self.threshold).nonzero().flatten()
        indptr = compress(rows[kept], self.indptr.shape[0] - 1)
        return self._replace(indptr=indptr, indices=self.indices[kept], blocks=self.blocks[kept])

    def pytorch(self) -> Tensor:
        # torch.func sees no sizes that depend on data
        call = self if transformed() else self.survivors()
        blocks = torch.where(call.stays(), call.blocks, 0)
        return run(BsrSpmm(call.indptr, call.indices, blocks, self.b, self.u.shape[0]))

    def nki(self) -> Tensor:
        call = self.survivors()
        return call._launched(call.indptr.tolist(), call.indices.tolist())

    def prediction(self) -> Tensor:
        across = -(-self.b.shape[0] // self.blocks.shape[2])
        return self._launched(*evenly(self.indices.shape[0], self.indptr.shape[0] - 1, across))

    def _launched(self, pointers: list[int], columns: list[int]) -> Tensor:
        if not columns or self.b.numel() == 0:
            return self.b.new_zeros((self.u.shape[0], self.b.shape[1]))
        count, bm, bn = self.blocks.shape
        tiles = self.blocks.new_empty((bn, count, bm)).copy_(self.blocks.permute(2, 0, 1))
        limit = torch.full((bn, 1), self.threshold, dtype=torch.float32, device=self.b.device)  # [bn, 1]
        bounds, w, b = self.u.unsqueeze(0).expand(bn, -1), self.w.unsqueeze(1).contiguous(), self.b.contiguous()
        parts = []

        def row(some: int) -> programs.Size:
            operands = tiles.new_empty((bn, some * bm)), limit.new_empty((bn, bm)), w, limit, b[:, :N_TILE]
            options = {"height": bm, "pointers": (0, some), "columns": (0,) * some}
            return programs.size_of(kernels.screened_spmm, operands, options)

        for some in programs.runs(row, [hi - lo for lo, hi in pairwise(pointers)]):
            starts = pointers[some.start : some.stop + 1]
            pattern: dict[str, Any] = {
                "height": bm,
                "pointers": tuple(start - starts[0] for start in starts),
                "columns": tuple(columns[starts[0] : starts[-1]]),
            }
            here = bounds[:, some.start * bm : some.stop * bm].contiguous()  # [bn, M]
            own = tiles[:, starts[0] : max(starts[-1], starts[0] + 1)].flatten(1)  # [bn, blocks * bm]
            parts.append(launch(kernels.screened_spmm, own, here, w, limit, b, **pattern))
        return parts[0] if len(parts) == 1 else torch.cat(parts)  # [M, N]

    def workspace(self, implementation: str) -> int:
        # Blocks that survive, and either which entries stay and what is left of them, or those transposed; bounds in
        # every partition. Only the data tells how many survive, so all are counted.
        beside = self.blocks.numel() if implementation == "pytorch" else self.blocks.shape[2] * self.u.nbytes
        return 2 * self.blocks.nbytes + beside

    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        gradients = {}
        _, bm, bn = self.blocks.shape
        grad = grad.resolve_conj()
        if "blocks" in needs:
            part = sampled_blocks(self.indptr, self.indices, grad, self.b.conj(), (bm, bn))
            gradients["blocks"] = torch.where(self.stays(), part, 0)
        if "b" in needs:
            indptr, indices, order = transposition(self.indptr, self.indices, -(-self.b.shape[0] // bn))
            blocks = self.blocks[order].mH.resolve_conj().contiguous()
            gradients["b"] = run(ScreenedSpmm(indptr, indices, blocks, self.w, self.u, grad, self.threshold))
        return gradients
