"""Repeat a tile of one partition over several, and add partitions: engines read no partition but their own."""

from collections.abc import Iterator
from contextlib import contextmanager

import trnsim.isa as nisa
from trnsim.language.results import map_tile, tile
from trnsim.session import Session, require_session
from trnsim.tensors.dtypes import float32, same_dtype
from trnsim.tensors.objects import MemoryRegion
from trnsim.tensors.tensor import NkiTensor

sbuf, psum = MemoryRegion.sbuf, MemoryRegion.psum


@contextmanager
def _implicit(s: Session) -> Iterator[None]:
    """Mark instructions that no source line has, which the compiler may do without: the time model asks."""
    s.state["implicit"] = True
    try:
        yield
    finally:
        s.state["implicit"] = False


def repeat_partition(x: NkiTensor, partitions: int) -> NkiTensor:
    """Repeat a tile of one partition over many: products with ones on the Tensor Engine, a bank of PSUM at a time.

    Other dtypes, wide tiles of more dimensions, and partitions the engine cannot start at, go to HBM and are read back
    for each partition.
    """
    if x.buffer is not sbuf:
        x = map_tile(nisa.tensor_copy, x, None)
    s = require_session("nl.broadcast_to")
    bank = s.target.psum_bank_bytes // x.itemsize
    products = same_dtype(x.dtype, float32) and x.partition_start % 32 == 0 and x.dynamic is None
    if products and (x.free_size <= bank or x.ndim == 2):
        with _implicit(s):
            return _products(x, partitions, bank)
    scratch = tile(x.shape, x.dtype, MemoryRegion.private_hbm)
    nisa.dma_copy(scratch, x)
    dst = tile((partitions, *x.shape[1:]), x.dtype)
    nisa.dma_copy(dst, scratch.broadcast(0, partitions))
    return dst


def _products(x: NkiTensor, partitions: int, bank: int) -> NkiTensor:
    ones = tile((1, partitions), float32)
    nisa.memset(ones, 1.0)
    if x.free_size <= bank:
        sums = tile((partitions, *x.shape[1:]), float32, psum)
        nisa.nc_matmul(sums, ones, x)
        return map_tile(nisa.tensor_copy, sums, None)
    dst = tile((partitions, x.shape[1]), float32)
    for column in range(0, x.shape[1], bank):
        piece = x[:, column : min(column + bank, x.shape[1])]
        sums = tile((partitions, piece.shape[1]), float32, psum)
        nisa.nc_matmul(sums, ones, piece)
        nisa.tensor_copy(dst[:, column : column + piece.shape[1]], sums)
    return dst


def sum_partitions(column: NkiTensor) -> NkiTensor:
    """Add the partitions of a float32 column [P, 1] by a product with ones; return a bank of PSUM [1, 1]."""
    ones, total = tile(column.shape, float32), tile((1, 1), float32, psum)
    nisa.memset(ones, 1.0)
    nisa.nc_matmul(total, column, ones)
    return total
