"""Grids: views of a tensor that count tiles, or blocks of tiles, instead of elements.

HBM, and tensors that were on chip before, hold elements in row-major order. Storage that is allocated on chip as a grid
is *packed*: one tile after the other along the free dimension.
"""

import math
from typing import Any, Self, TypeVar

from trnsim.refusals import forbid, refuse
from trnsim.tensors.dtypes import DType
from trnsim.tensors.layout import is_register
from trnsim.tensors.objects import MemoryRegion
from trnsim.tensors.tensor import NkiTensor

Sizes = tuple[int, ...]
G = TypeVar("G", bound="NkiGrid")


class NkiGrid:
    """Base of `NkiTileGrid` and `NkiBlockGrid`; see the module text. Made by ``nl.tiles`` and its siblings.

    Along every dimension ``_region`` are the indices of the tiles the grid covers, cut into cells of ``_block`` tiles,
    ``_picked`` the cells that were selected, and ``_kept`` says whether a coordinate is left for it.
    """

    def __init__(
        self, tensor: NkiTensor, extent: Sizes, tile_shape: Sizes, block_shape: Sizes, *, packed: bool = False
    ) -> None:
        # leading dimensions that are not tiled are indexed one by one
        prefix = (1,) * (len(extent) - len(tile_shape))
        self.tile_shape = tile_shape
        self._tensor = tensor
        self._extent = extent
        self._tile = prefix + tile_shape
        self._block = prefix + block_shape
        self._packed = packed
        self._cover(tuple(range(-(-n // t)) for n, t in zip(extent, self._tile, strict=True)))
        self._kept = (True,) * len(extent)

    def _cover(self, region: tuple[range, ...]) -> None:
        self._region = region
        self._picked = tuple(range(-(-len(r) // b)) for r, b in zip(region, self._block, strict=True))

    @property
    def buffer(self) -> MemoryRegion:
        """Memory of the tensor behind the grid."""
        return self._tensor.buffer

    @property
    def dtype(self) -> DType:
        """Data type of its elements."""
        return self._tensor.dtype

    @property
    def shape(self) -> Sizes:
        """Cells along every coordinate that is left."""
        return tuple(len(cells) for cells, kept in zip(self._picked, self._kept, strict=True) if kept)

    @property
    def element_shape(self) -> Sizes:
        """Elements along every dimension; one that is not tiled goes with its coordinate."""
        return tuple(self._elements(d) for d in range(len(self._extent)) if self._is_shown(d))

    @property
    def index_step_elements(self) -> Sizes:
        """Elements from one cell to the next along every coordinate that is left."""
        steps = zip(self._picked, self._block, self._tile, self._kept, strict=True)
        return tuple(cells.step * block * tile for cells, block, tile, kept in steps if kept)

    @property
    def is_remainder(self) -> bool:
        """Return whether a selected cell is smaller than the others, being the last of a dimension."""
        axes = enumerate(zip(self._picked, self._block, self._tile, strict=True))
        return any(block * tile * len(cells) != self._elements(d) for d, (cells, block, tile) in axes)

    @property
    def is_data_representable(self) -> bool:
        """Return whether `data` can be one tensor: cells without gaps, and packed ones in the order of its elements."""
        if not self._is_contiguous():
            return False
        return not self._packed or self._is_run() or self._is_whole()

    @property
    def data(self) -> NkiTensor:
        """Return the selection as the tensor an instruction takes; all of a packed grid has two dimensions."""
        forbid(not self.is_data_representable, "grid-data:data", got=self.shape, kind=type(self).__name__)
        return self._packed_data() if self._packed else self._row_major_data()

    def __getitem__(self, key: Any) -> Self:
        """Return the grid of the selected cells: an integer consumes a coordinate, a slice keeps it."""
        keys = key if isinstance(key, tuple) else (key,)
        left = [d for d, kept in enumerate(self._kept) if kept]
        forbid(len(keys) > len(left), "grid-index:getitem", got=len(keys), limit=len(left), t=self)
        grid = object.__new__(type(self))
        grid.__dict__.update(self.__dict__)
        picked, kept = list(self._picked), list(self._kept)
        for k, d in zip(keys, left, strict=False):
            kept[d] = isinstance(k, slice)
            picked[d] = _slice_cells(picked[d], k) if kept[d] else _pick_cell(picked[d], k)
        grid._picked, grid._kept = tuple(picked), tuple(kept)
        return grid

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    def __repr__(self) -> str:
        parts = f"shape={self.shape}, tile_shape={self.tile_shape}, element_shape={self.element_shape}"
        return f"{type(self).__name__}({self._tensor.name}, {parts}, dtype={self.dtype}, buffer={self.buffer})"

    # -- for those who make grids -------------------------------------------------------------------------------------

    @property
    def tiles_per_cell(self) -> Sizes:
        """Tiles of a cell along every tiled dimension."""
        return self._block[self._partition :]

    @property
    def kept(self) -> tuple[bool, ...]:
        """Return of every dimension of `element_shape` whether a coordinate is left for it."""
        return tuple(kept for d, kept in enumerate(self._kept) if self._is_shown(d))

    @kept.setter
    def kept(self, kept: tuple[bool, ...]) -> None:
        self._kept = kept

    def regroup(self, kind: type[G], block_shape: Sizes) -> G:
        """Return the tiles of the selected cells as a grid of another kind."""
        forbid(not self._is_contiguous(), "grid-data:regrouped", got=self.shape)
        grid = kind(self._tensor, self._extent, self.tile_shape, block_shape, packed=self._packed)
        grid._cover(tuple(self._tiles(d) for d in range(len(self._extent))))
        grid._kept = tuple(self._is_shown(d) for d in range(len(self._extent)))
        return grid

    # -- geometry -----------------------------------------------------------------------------------------------------

    @property
    def _partition(self) -> int:
        """First tiled dimension, the partitions of packed storage."""
        return len(self._extent) - len(self.tile_shape)

    def _is_shown(self, d: int) -> bool:
        return self._kept[d] or d >= self._partition

    def _is_contiguous(self) -> bool:
        return all(len(cells) <= 1 or cells.step == 1 for cells in self._picked)

    def _is_whole(self) -> bool:
        """Return whether this is all of a storage that divides into tiles."""
        sizes = zip(self._extent, self._tile, strict=True)
        return all(len(self._tiles(d)) * tile == extent for d, (extent, tile) in enumerate(sizes))

    def _is_run(self) -> bool:
        """Return whether packed tiles are neighbours along the first free dimension, or just one."""
        several = [d for d in range(len(self._extent)) if len(self._tiles(d)) > 1]
        free = self._partition + 1
        whole = all(
            extent <= tile for extent, tile in zip(self._extent[free + 1 :], self._tile[free + 1 :], strict=True)
        )
        return not several or (several == [free] and whole)

    def _tiles(self, d: int) -> range:
        """Tile indices along dimension ``d``, of cells without gaps."""
        cells, block = self._picked[d], self._block[d]
        return self._region[d][cells[0] * block : (cells[-1] + 1) * block]

    def _elements(self, d: int) -> int:
        """Return elements selected along dimension ``d``."""
        block, tile = self._block[d], self._tile[d]
        parts = (self._region[d][cell * block : (cell + 1) * block] for cell in self._picked[d])
        return sum(min((part[-1] + 1) * tile, self._extent[d]) - part[0] * tile for part in parts)

    def _row_major_data(self) -> NkiTensor:
        tensor = self._tensor
        for d in reversed(range(len(self._extent))):
            start = self._tiles(d)[0] * self._tile[d]
            shown = self._is_shown(d)
            tensor = tensor.slice(d, start, start + self._elements(d)) if shown else tensor.select(d, start)
        return tensor

    def _packed_data(self) -> NkiTensor:
        if not self._is_run():
            return self._tensor
        first = 0
        for d, (extent, tile) in enumerate(zip(self._extent, self._tile, strict=True)):
            first = first * -(-extent // tile) + self._tiles(d)[0]
        rows, columns, *inner = self.tile_shape
        columns *= len(self._tiles(self._partition + 1))
        free = math.prod(self.tile_shape[1:])
        tensor = self._tensor.slice(1, first * free, first * free + columns * math.prod(inner))
        tensor = tensor.reshape((rows, columns, *inner))
        for d in range(len(self.tile_shape)):
            tensor = tensor.slice(d, 0, self._elements(self._partition + d))
        return tensor


def _pick_cell(cells: range, index: Any) -> range:
    """Return the one cell an integer selects."""
    if is_register(index):
        raise refuse("grid-index:pick_cell-device", got=repr(index), index=index)
    if type(index) is not int:
        raise refuse("grid-index:pick_cell-type", got=type(index).__name__, limit=("int", "slice"), value=index)
    if not -len(cells) <= index < len(cells):
        raise refuse("grid-index:pick_cell-bounds", got=index, limit=len(cells), last=len(cells) - 1)
    return range(cells[index], cells[index] + 1)


def _slice_cells(cells: range, part: slice) -> range:
    """Return the cells a slice selects, at least one."""
    ends = [end for end in (part.start, part.stop, part.step) if end is not None]
    if not all(type(end) is int for end in ends) or (part.step or 1) < 1:
        raise refuse("grid-index:slice_cells-type", got=str(part), part=part)
    forbid(not cells[part], "grid-index:slice_cells-bounds", got=str(part), limit=len(cells), part=part)
    return cells[part]


class NkiTileGrid(NkiGrid):
    """A tensor seen as tiles: ``shape`` counts tiles, ``grid[i, j].data`` is one."""


class NkiBlockGrid(NkiGrid):
    """A tensor seen as blocks of tiles: ``shape`` counts blocks, ``nl.tiles(grid[i, j])`` the tiles of one."""

    @property
    def block_shape(self) -> Sizes:
        """Tiles of a block along every tiled dimension."""
        return self.tiles_per_cell
