"""BSR matrix times dense matrix: one matmul of the Tensor Engine for each stored block."""

import heapq
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from trnsci import cuda, op, programs, run
from trnsci.gradient import saves
from trnsci.host import is_transformed
from trnsci.nki import K_TILE, M_TILE, N_TILE, PSUM_BANKS, launch
from trnsparse import scipy_views
from trnsparse.arguments import HALF, KERNEL_DTYPES, evenly, only, together
from trnsparse.bsr import BSRMatrix
from trnsparse.bsr_sddmm import pad_blocks, sampled_blocks
from trnsparse.indices import expand, transposition
from trnsparse.kernels import bsr_spmm as kernels

Pieces = tuple[tuple[int, int], ...]  # (start, size) of each run of rows of the dense operand a tile meets
Steps = tuple[tuple[int, Pieces], ...]  # the block row of each tile and its pieces


def in_order(rows: Sequence[Sequence[Pieces]], banks: int = 1) -> tuple[Steps, list[int]]:
    """Return the tiles of all block rows in the order of their use, and the index of each, row by row.

    Args:
        rows: for each block row, the pieces of each of its tiles; pieces of no size meet nothing.
        banks: of PSUM that the sums of one block row take.
    """
    order = _fewest_new_first(rows)
    together = max(1, (PSUM_BANKS - 1) // banks)
    first = [0]
    for row in rows:
        first.append(first[-1] + len(row))
    tiles = [(row[at], i, first[i] + at) for i in order for row in (rows[i],) for at in range(len(row))]
    head = sum(len(rows[i]) for i in order[:together])
    tiles[:head] = sorted(tiles[:head])
    steps = tuple((i, tuple(piece for piece in pieces if piece[1] > 0)) for pieces, i, _ in tiles)
    return steps, [index for _, _, index in tiles]


def _fewest_new_first(rows: Sequence[Sequence[Pieces]]) -> list[int]:
    """Order block rows: next is one that needs the fewest tiles of the dense operand not needed before."""
    needs = [{start // K_TILE for pieces in row for start, _ in pieces} for row in rows]
    users: dict[int, list[int]] = {}
    for i, need in enumerate(needs):
        for tile in need:
            users.setdefault(tile, []).append(i)
    new = [len(need) for need in needs]
    heap = [(count, i) for i, count in enumerate(new)]
    heapq.heapify(heap)
    order: list[int] = []
    while heap:
        count, i = heapq.heappop(heap)
        if count != new[i]:
            continue
        order.append(i)
        new[i] = -1
        for tile in needs[i]:
            for other in users.pop(tile, ()):
                if new[other] > 0:
                    new[other] -= 1
                    heapq.heappush(heap, (new[other], other))
    return order


# Elements of a block from which a call for each costs less than gathering what they meet.
LARGE = 4096
# Elements of a block, and columns, below which SciPy multiplies faster than torch.
SMALL, FEW = 64, 8
GPU_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def block_product(a: BSRMatrix, b: Tensor) -> Tensor:
    """Return ``a @ b`` [M, N] for b [K, N]."""
    return run(together(BsrSpmm(a.indptr, a.indices, a.values.resolve_conj(), b.resolve_conj(), a.shape[0])))


@op(
    "trnsparse::bsr_spmm", calls={"cuda": "triton trnsparse.cuda.bsr_spmm", "host": "scipy.sparse.bsr_array.__matmul__"}
)
class BsrSpmm(NamedTuple):
    """Blocks in compressed rows times a dense matrix."""

    indptr: Tensor  # [block rows + 1]
    indices: Tensor  # [blocks]
    blocks: Tensor  # [blocks, bm, bn]
    b: Tensor  # [K, N]
    rows: int

    def fake(self) -> Tensor:
        return self.b.new_empty((self.rows, self.b.shape[1]))

    def cost(self) -> int:
        return 2 * self.blocks.numel() * self.b.shape[1] * (4 if self.b.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        if implementation == "host":
            _, bm, bn = self.blocks.shape
            if bm * bn >= SMALL and self.b.shape[1] >= FEW:
                return f"pays for blocks of fewer than {SMALL} elements, or fewer than {FEW} columns"
            return only(self.b.dtype, scipy_views.DTYPES)
        if implementation == "cuda":
            _, bm, bn = self.blocks.shape
            if min(bm, bn) < 16:
                return f"takes blocks of at least 16x16, not {bm}x{bn}"
            if self.b.numel() == 0 or self.rows == 0:
                return "there is nothing to multiply"
            return only(self.b.dtype, GPU_DTYPES) or cuda.why_no_triton(self.b.device)
        return only(self.b.dtype, KERNEL_DTYPES) if implementation == "nki" else None

    def compiles(self) -> tuple[Hashable, float]:
        _, bm, bn = self.blocks.shape
        return ("trnsparse.cuda.bsr_spmm", self.b.dtype, bm, bn, min(64, self.b.shape[1])), 2.0

    def cuda(self) -> Tensor:
        from trnsparse.cuda import bsr_spmm as gpu

        return gpu.bsr_spmm(self.indptr, self.indices, self.blocks.contiguous(), self.b.contiguous(), self.rows)

    def host(self) -> Tensor:
        bn = self.blocks.shape[2]
        columns = -(-self.b.shape[0] // bn)
        b = pad_blocks(self.b.detach(), bn)
        return scipy_views.product(self.indptr, self.indices, self.blocks, b, columns, False)[: self.rows]

    def pytorch(self) -> Tensor:
        _, bm, bn = self.blocks.shape
        dtype, n = self.b.dtype, self.b.shape[1]
        work = torch.float32 if dtype in HALF else dtype
        blocks, b = self.blocks.to(work), self.b.to(work)
        recorded = torch.is_grad_enabled() and (blocks.requires_grad or b.requires_grad)
        if bm * bn >= LARGE and b.is_cpu and not recorded and not is_transformed():
            return _accumulate_blocks(self._replace(blocks=blocks, b=b)).to(dtype)
        met = pad_blocks(b, bn).unflatten(0, (-1, bn))[self.indices]
        terms = torch.bmm(blocks, met)  # [blocks, bm, n]
        rows = expand(self.indptr, self.indices.shape[0])
        sums = terms.new_zeros((self.indptr.shape[0] - 1, bm, n)).index_add(0, rows, terms)
        return sums.flatten(0, 1)[: self.rows].to(dtype)

    def nki(self) -> Tensor:
        return self._launch_kernel(self.indptr.tolist(), self.indices.tolist())

    def prediction(self) -> Tensor:
        across = -(-self.b.shape[0] // self.blocks.shape[2])
        return self._launch_kernel(*evenly(self.indices.shape[0], self.indptr.shape[0] - 1, across))

    def _launch_kernel(self, pointers: list[int], columns: list[int]) -> Tensor:
        if not columns or self.b.numel() == 0:
            return self.b.new_zeros((self.rows, self.b.shape[1]))
        b, height, parts = self.b.contiguous(), self.blocks.shape[1], []
        for some in programs.runs(self._row, [hi - lo for lo, hi in pairwise(pointers)]):
            starts, rows = pointers[some.start : some.stop + 1], min(self.rows, some.stop * height)
            here = slice(starts[0], starts[-1])
            if here.start == here.stop:
                parts.append(b.new_zeros((rows - some.start * height, b.shape[1])))
                continue
            own = [start - starts[0] for start in starts]
            steps, tiles_hbm = pack_tiles(own, columns[here], self.blocks[here], b.shape[0])
            options = {"rows": rows - some.start * height, "height": height, "steps": steps}
            parts.append(launch(kernels.bsr_spmm, tiles_hbm, b, **options))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _row(self, count: int) -> programs.Size:
        """Return the length of a program of one block row of some blocks, and of the columns cut together."""
        _, bm, bn = self.blocks.shape
        across = -(-self.b.shape[0] // bn)
        blocks = self.blocks.new_empty((count, bm, bn), device="meta")
        steps, tiles_hbm = pack_tiles([0, count], [i % across for i in range(count)], blocks, self.b.shape[0])
        options = {"rows": bm, "height": bm, "steps": steps}
        return programs.size_of(kernels.bsr_spmm, (tiles_hbm, self.b[:, :N_TILE].to("meta")), options)

    def workspace(self, implementation: str) -> int:
        count, bm, bn = self.blocks.shape
        depth, n = self.b.shape
        # a copy with whole blocks where the last is not
        whole = (depth + -depth % bn) * n if depth % bn else 0
        if implementation == "host":
            return whole * self.b.element_size()
        if implementation == "pytorch":
            width = 4 if self.b.dtype in HALF else self.b.element_size()
            wide = self.blocks.numel() + self.b.numel() if width > self.b.element_size() else 0
            if bm * bn >= LARGE and not self.b.is_cuda:
                return width * (wide + self.rows * n) if wide else 0
            # What the blocks meet, their products and the sums; operands that are widened or padded to whole blocks.
            return width * ((count * (bm + bn) + 2 * self.rows) * n + wide + whole)
        share, cuts, part = _shape(bn)
        tiles = min(count, -(-count // share) + self.indptr.shape[0] - 1) if share > 1 else count * cuts
        return tiles * share * part * bm * self.blocks.element_size()

    @saves("indptr", "indices", "blocks", "b", host=True)
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        gradients = {}
        _, bm, bn = self.blocks.shape
        if "blocks" in needs:
            gradients["blocks"] = sampled_blocks(self.indptr, self.indices, grad, self.b.conj(), (bm, bn))
        if "b" in needs:
            gradients["b"] = run(adjoint(self, grad.resolve_conj(), self.b.shape[0]))
        return gradients


def adjoint(call: BsrSpmm, b: Tensor, columns: int) -> BsrSpmm:
    """Return the product of the conjugate transpose, which has ``columns`` rows, with another dense matrix."""
    indptr, indices, order = transposition(call.indptr, call.indices, -(-columns // call.blocks.shape[2]))
    return BsrSpmm(indptr, indices, call.blocks[order].mH.resolve_conj().contiguous(), b, columns)


def _accumulate_blocks(call: BsrSpmm) -> Tensor:
    """Multiply large blocks one by one, each added where it belongs, without gathering or scattering."""
    _, bm, bn = call.blocks.shape
    result = call.b.new_zeros((call.rows, call.b.shape[1]))
    rows = expand(call.indptr, call.indices.shape[0]).tolist()
    for block, i, j in zip(call.blocks, rows, call.indices.tolist(), strict=True):
        to, of = result[i * bm : (i + 1) * bm], call.b[j * bn : (j + 1) * bn]
        to.addmm_(block[: to.shape[0], : of.shape[0]], of)
    return result


def pack_tiles(pointers: list[int], columns: list[int], blocks: Tensor, depth: int) -> tuple[Steps, Tensor]:
    """Return blocks as a kernel's stationary tiles, side by side in HBM in the order of use, and that order.

    A block deeper than the array is cut; several shallow blocks of one block row share a tile. What reaches over the
    edge of the matrix is zero and has no rows of ``b`` to meet.
    """
    _, bm, bn = blocks.shape
    share, cuts, part = _shape(bn)
    rows = [
        [
            (column * bn + cut * part, min(part, bn - cut * part, depth - column * bn - cut * part))
            for column in columns[lo:hi]
            for cut in range(cuts)
        ]
        for lo, hi in pairwise(pointers)
    ]
    steps, order = in_order(
        [[tuple(row[at : at + share]) for at in range(0, len(row), share)] for row in rows], -(-bm // M_TILE)
    )
    position = [0] * len(order)
    for at, index in enumerate(order):
        position[index] = at
    # For each piece of a block its tile, and where in the tile it lies.
    tile, slot = [], []
    first = 0
    for row in rows:
        tile += [position[first + at // share] for at in range(len(row))]
        slot += [at % share for at in range(len(row))]
        first += -(-len(row) // share)
    # Written once, in the kernel's layout: a matrix may be most of the memory there is.
    tiles = blocks.new_zeros((share, part, len(order), bm))
    view = tiles.permute(2, 0, 3, 1)  # [tiles, share, bm, part]
    where = torch.tensor([tile, slot], device=blocks.device)
    for cut in range(cuts):
        piece = blocks[:, :, cut * part : (cut + 1) * part]
        view[..., : piece.shape[2]][where[0, cut::cuts], where[1, cut::cuts]] = piece
    return steps, tiles.reshape(share * part, -1)


def _shape(bn: int) -> tuple[int, int, int]:
    """Return how many blocks share a tile, how many tiles a block is cut into, and the depth of a piece."""
    return max(1, K_TILE // bn), -(-bn // K_TILE), min(bn, K_TILE)
