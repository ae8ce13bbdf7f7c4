"""Tiles and blocks: grids over tensors, and storage that is made of tiles."""

import math
from typing import Any, TypeVar

from trnsim.language.results import function
from trnsim.refusals import forbid, refuse
from trnsim.session import require_session
from trnsim.tensors.grids import NkiBlockGrid, NkiGrid, NkiTileGrid, Sizes
from trnsim.tensors.objects import MemoryRegion, is_on_chip
from trnsim.tensors.tensor import NkiTensor

G = TypeVar("G", bound=NkiGrid)


@function
def tiles(source: Any, *, tile_shape: Any = None) -> NkiTileGrid:
    """Return a view of a tensor, or of the cells of a grid, that counts tiles; the last ones are as small as they are.

    ``tile_shape`` applies to the last dimensions. A grid's own is the default.
    """
    return _view_grid(NkiTileGrid, source, tile_shape, None)


@function
def blocks(source: Any, *, tile_shape: Any = None, block_shape: Any) -> NkiBlockGrid:
    """Return a view of a tensor, or of the cells of a grid, that counts blocks of ``block_shape`` tiles."""
    return _view_grid(NkiBlockGrid, source, tile_shape, block_shape)


@function
def alloc_tiles(
    *, tile_shape: Any, element_shape: Any, buffer: Any, dtype: Any, address: Any = None, name: str = ""
) -> NkiTileGrid:
    """Allocate memory for a grid of tiles: row-major in HBM, on chip one tile after the other in each partition."""
    return allocate_grid(NkiTileGrid, tile_shape, None, element_shape, buffer, dtype, address, name)


@function
def alloc_blocks(
    *,
    tile_shape: Any,
    block_shape: Any,
    element_shape: Any,
    buffer: Any,
    dtype: Any,
    address: Any = None,
    name: str = "",
) -> NkiBlockGrid:
    """Allocate memory as ``alloc_tiles`` does, and count blocks of ``block_shape`` tiles."""
    return allocate_grid(NkiBlockGrid, tile_shape, block_shape, element_shape, buffer, dtype, address, name)


def _view_grid(kind: type[G], source: Any, tile_shape: Any, block_shape: Any) -> G:
    if isinstance(source, NkiGrid):
        if tile_shape is not None and tile_shape != source.tile_shape:
            # cut anew, which packed tiles do not allow
            return _view_grid(kind, source.data, tile_shape, block_shape)
        rank = len(source.tile_shape)
        return source.regroup(kind, _tiles_per_cell(kind, block_shape, rank))
    if not isinstance(source, NkiTensor):
        raise refuse("grid-source", got=type(source).__name__, limit=("NkiTensor", "NkiGrid"), value=source)
    if tile_shape is None:
        raise refuse("tile-shape:viewed", limit=source.shape)
    # a dimension on chip that is not tiled would be the partitions
    tile = _sizes("tile_shape", tile_shape, source.ndim if source.on_chip else 1, source.ndim)
    return kind(source, source.shape, tile, _tiles_per_cell(kind, block_shape, len(tile)))


def allocate_grid(
    kind: type[G], tile: Any, block: Any, extent: Any, buffer: Any, dtype: Any, address: Any, name: str
) -> G:
    """Allocate the memory of a grid."""
    if not isinstance(buffer, MemoryRegion):
        raise refuse("buffer:allocate_grid", got=type(buffer).__name__, value=buffer)
    extent = _sizes("element_shape", extent, 1, 5)
    tile = _sizes("tile_shape", tile, 2, len(extent))
    block = _tiles_per_cell(kind, block, len(tile))
    shape, packed = extent, is_on_chip(buffer)
    if packed:
        prefix = len(extent) - len(tile)
        count = math.prod(-(-n // t) for n, t in zip(extent[prefix:], tile, strict=True))
        shape = (tile[0], math.prod(extent[:prefix]) * count * math.prod(tile[1:]))
    tensor = require_session("nl.alloc_tiles").allocate(shape, dtype, buffer, name, address)
    return kind(tensor, extent, tile, block, packed=packed)


def grid_like(grid: G, axes: Any, buffer: Any, dtype: Any, address: Any, name: str) -> G:
    """Allocate a grid with the selected cells of another, packed; ``axes`` permutes its tiled dimensions."""
    tile, block, extent, kept = grid.tile_shape, grid.tiles_per_cell, grid.element_shape, grid.kept
    if axes is not None:
        prefix = len(extent) - len(tile)
        check_transpose(axes, extent[prefix:], buffer)
        tile, block = tuple(tile[axis] for axis in axes), tuple(block[axis] for axis in axes)
        extent = (*extent[:prefix], *(extent[prefix + axis] for axis in axes))
        kept = (*kept[:prefix], *(kept[prefix + axis] for axis in axes))
    copy = allocate_grid(type(grid), tile, block, extent, buffer, dtype, address, name)
    copy.kept = kept
    return copy


def check_transpose(axes: Any, shape: Sizes, buffer: Any) -> None:
    """Raise unless ``dma_transpose`` has the permutation ``axes`` of ``shape`` into SBUF."""
    forbid(type(axes) is not tuple, "transpose-axes:check_transpose-type", got=type(axes).__name__, value=axes)
    if axes != {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}.get(len(shape)):
        known = "(1, 0), (2, 1, 0) or (3, 1, 2, 0), for two, three or four dimensions"
        raise refuse("transpose-axes:check_transpose-value", got=axes, limit=known, shape=shape)
    forbid(buffer is not MemoryRegion.sbuf, "transpose-axes:check_transpose-buffer", got=str(buffer))


def _tiles_per_cell(kind: type[G], block_shape: Any, rank: int) -> Sizes:
    return (1,) * rank if kind is NkiTileGrid else _sizes("block_shape", block_shape, rank, rank)


def _sizes(what: str, sizes: Any, least: int, most: int) -> Sizes:
    """Return a tuple of positive Python integers."""
    if type(sizes) is not tuple or not all(type(n) is int for n in sizes):
        raise refuse("tile-shape:sizes-type", got=type(sizes).__name__, what=what, value=sizes)
    if not least <= len(sizes) <= most or min(sizes, default=0) < 1:
        limit = f"{least} to {most} dimensions" if least != most else f"{least} dimensions"
        raise refuse("tile-shape:sizes-shape", got=sizes, limit=f"{limit}, each at least 1", what=what)
    return sizes
