"""Dense product at the stored blocks of a BSR pattern, on the Tensor Engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnsci import Op
from trnsci.gradient import Saved
from trnsci.nki import launch
from trnsparse.arguments import KERNEL_DTYPES, evenly
from trnsparse.indices import expand
from trnsparse.kernels import bsr_sddmm as kernels


def sampled_blocks(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor, bm: int, bn: int) -> Tensor:
    """Blocks ``a[i] @ b[j].T`` [blocks, bm, bn] without conjugation, a [M, D], b [N, D]; zero outside the matrix."""
    return _bsr_sddmm(indptr, indices, a.resolve_conj(), b.resolve_conj(), bm, bn)


def _fake(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor, bm: int, bn: int) -> Tensor:
    return a.new_empty((indices.shape[0], bm, bn))


def _cost(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor, bm: int, bn: int) -> int:
    return 2 * indices.shape[0] * bm * bn * a.shape[1] * (4 if a.is_complex() else 1)


_bsr_sddmm = Op("trnsparse::bsr_sddmm", fake=_fake, cost=_cost)


@_bsr_sddmm.impl("pytorch")
def _pytorch(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor, bm: int, bn: int) -> Tensor:
    left = padded(a, bm).reshape(-1, bm, a.shape[1])[expand(indptr, indices.shape[0])]
    right = padded(b, bn).reshape(-1, bn, b.shape[1])[indices]
    return left @ right.mT


def padded(x: Tensor, size: int) -> Tensor:
    """Append rows of zeros up to a multiple of ``size``."""
    missing = -x.shape[0] % size
    return torch.nn.functional.pad(x, (0, 0, 0, missing)) if missing else x


@_bsr_sddmm.impl("nki", dtypes=KERNEL_DTYPES)
def _nki(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor, bm: int, bn: int) -> Tensor:
    return _launched(indptr.tolist(), indices.tolist(), a, b, bm, bn)


@_bsr_sddmm.prediction
def _predicted(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor, bm: int, bn: int) -> Tensor:
    pointers, columns = evenly(indices.shape[0], indptr.shape[0] - 1, -(-b.shape[0] // bn))
    return _launched(pointers, columns, a, b, bm, bn)


def _launched(pointers: list[int], columns: list[int], a: Tensor, b: Tensor, bm: int, bn: int) -> Tensor:
    if not columns or a.shape[1] == 0:
        return a.new_zeros((len(columns), bm, bn))
    made: Tensor = launch(
        kernels.bsr_sddmm,
        _turned(a, bm),
        _turned(b, bn),
        pointers=tuple(pointers),
        columns=tuple(columns),
        block=(bm, bn),
    )  # [blocks, bm, bn]
    return made


def _turned(x: Tensor, size: int) -> Tensor:
    """The transpose, with columns of zeros up to a multiple of ``size``, written once."""
    made = x.new_zeros((x.shape[1], x.shape[0] + -x.shape[0] % size))
    made[:, : x.shape[0]] = x.mT
    return made


@_bsr_sddmm.workspace
def _workspace(backend: str, indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor, bm: int, bn: int) -> int:
    heights = ((a.shape[0], bm), (b.shape[0], bn))
    if backend == "pytorch":
        # What the blocks meet is gathered, from copies with whole blocks where the last is not.
        copies = sum(height + -height % size for height, size in heights if height % size)
        return (indices.shape[0] * (bm + bn) + copies) * a.shape[1] * a.element_size()
    return sum(height + -height % size for height, size in heights) * a.shape[1] * a.element_size()


@_bsr_sddmm.vjp(saves=("indptr", "indices", "a", "b"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    from trnsparse.bsr import BSRMatrix
    from trnsparse.bsr_spmm import block_product

    shape = (saved.a.shape[0], saved.b.shape[0])
    indices = {"indptr": saved.indptr, "indices": saved.indices}
    blocks = BSRMatrix._rebuilt(indices, grad, shape)
    found: dict[str, Any] = {}
    if saved.needs("a"):
        found["a"] = block_product(blocks, saved.b.conj().resolve_conj())
    if saved.needs("b"):
        found["b"] = block_product(blocks.transpose(), saved.a.conj().resolve_conj())
    return found
