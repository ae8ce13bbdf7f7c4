"""Dense product at the stored blocks of a BSR pattern, on the Tensor Engine."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from trnsci import op, programs, run
from trnsci.nki import launch
from trnsparse.arguments import KERNEL_DTYPES, evenly, only, together
from trnsparse.indices import expand
from trnsparse.kernels import bsr_sddmm as kernels


def sampled_blocks(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor, block: tuple[int, int]) -> Tensor:
    """Return blocks ``a[i] @ b[j].T`` [blocks, bm, bn], not conjugated, of a [M, D] and b [N, D]; zero outside."""
    return run(together(BsrSddmm(indptr, indices, a.resolve_conj(), b.resolve_conj(), *block)))


@op("trnsparse::bsr_sddmm")
class BsrSddmm(NamedTuple):
    """Products of blocks of rows of ``a`` and ``b`` at the blocks of a pattern, without conjugation."""

    indptr: Tensor  # [block rows + 1]
    indices: Tensor  # [blocks]
    a: Tensor  # [M, D]
    b: Tensor  # [N, D]
    bm: int
    bn: int

    def fake(self) -> Tensor:
        return self.a.new_empty((self.indices.shape[0], self.bm, self.bn))

    def cost(self) -> int:
        return 2 * self.indices.shape[0] * self.bm * self.bn * self.a.shape[1] * (4 if self.a.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        return only(self.a.dtype, KERNEL_DTYPES) if implementation == "nki" else None

    def pytorch(self) -> Tensor:
        left = pad_blocks(self.a, self.bm).unflatten(0, (-1, self.bm))[expand(self.indptr, self.indices.shape[0])]
        right = pad_blocks(self.b, self.bn).unflatten(0, (-1, self.bn))[self.indices]
        return left @ right.mT

    def nki(self) -> Tensor:
        return self._launch_kernel(self.indptr.tolist(), self.indices.tolist())

    def prediction(self) -> Tensor:
        across = -(-self.b.shape[0] // self.bn)
        return self._launch_kernel(*evenly(self.indices.shape[0], self.indptr.shape[0] - 1, across))

    def _launch_kernel(self, pointers: list[int], columns: list[int]) -> Tensor:
        if not columns or self.a.shape[1] == 0:
            return self.a.new_zeros((len(columns), self.bm, self.bn))
        left, right = _transpose_blocks(self.a, self.bm), _transpose_blocks(self.b, self.bn)
        block, parts = (self.bm, self.bn), []

        def row(count: int) -> programs.Size:
            options = {"pointers": (0, count), "columns": (0,) * count, "block": block}
            return programs.size_of(kernels.bsr_sddmm, (left[:, : self.bm], right), options)

        for some in programs.runs(row, [hi - lo for lo, hi in pairwise(pointers)]):
            starts = pointers[some.start : some.stop + 1]
            if starts[0] < starts[-1]:
                rows = left[:, some.start * self.bm : some.stop * self.bm].contiguous()
                own, met = tuple(start - starts[0] for start in starts), tuple(columns[starts[0] : starts[-1]])
                parts.append(launch(kernels.bsr_sddmm, rows, right, pointers=own, columns=met, block=block))
        return parts[0] if len(parts) == 1 else torch.cat(parts)  # [blocks, bm, bn]

    def workspace(self, implementation: str) -> int:
        heights = ((self.a.shape[0], self.bm), (self.b.shape[0], self.bn))
        width = self.a.shape[1] * self.a.element_size()
        if implementation == "pytorch":
            # What the blocks meet is gathered, from copies with whole blocks where the last is not.
            copies = sum(height + -height % size for height, size in heights if height % size)
            return (self.indices.shape[0] * (self.bm + self.bn) + copies) * width
        return sum(height + -height % size for height, size in heights) * width

    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        from trnsparse.bsr_spmm import BsrSpmm, adjoint

        gradients = {}
        rows, columns = self.a.shape[0], self.b.shape[0]
        product = BsrSpmm(self.indptr, self.indices, grad.resolve_conj(), self.b.conj().resolve_conj(), rows)
        if "a" in needs:
            gradients["a"] = run(product)
        if "b" in needs:
            conjugate = product._replace(blocks=grad.conj().resolve_conj())
            gradients["b"] = run(adjoint(conjugate, self.a.conj().resolve_conj(), columns))
        return gradients


def pad_blocks(x: Tensor, size: int) -> Tensor:
    """Append rows of zeros up to a multiple of ``size``."""
    missing = -x.shape[0] % size
    return torch.nn.functional.pad(x, (0, 0, 0, missing)) if missing else x


def _transpose_blocks(x: Tensor, size: int) -> Tensor:
    """Return the transpose, with columns of zeros up to a multiple of ``size``, written once."""
    result = x.new_zeros((x.shape[1], x.shape[0] + -x.shape[0] % size))
    result[:, : x.shape[0]] = x.mT
    return result
