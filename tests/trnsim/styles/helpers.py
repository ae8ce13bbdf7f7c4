"""What production kernels bring along: assertions, tiled ranges, views over ``.ap``, a stack of SBUF addresses."""

from dataclasses import dataclass

from trnsim import isa as nisa, language as nl
from trnsim.language import NKIObject

P_MAX = 128


def kernel_assert(condition, message):
    assert condition, f"[kernel] {message}"


def div_ceil(n, d):
    return (n + d - 1) // d


def get_program_info():
    """Grid dimensions, cores, and which core this is."""
    if nl.program_ndim() == 0:
        return 0, 1, 0
    return nl.program_ndim(), nl.num_programs(axes=0), nl.program_id(axis=0)


@dataclass
class TiledRangeIterator(NKIObject):
    size: int
    index: int
    start_offset: int
    end_offset: int = 0

    def __post_init__(self):
        self.end_offset = self.start_offset + self.size


def tiled_range(total, tile):
    """One object for each tile, the last one smaller."""
    tiles = []
    for i in range(div_ceil(total, tile)):
        tiles.append(TiledRangeIterator(min(tile, total - i * tile), i, i * tile))
    return tiles


@dataclass
class TensorView(NKIObject):
    """A strided view that is composed on the host of the compiler and becomes one access pattern."""

    base_tensor: object
    sizes: tuple = ()
    strides: tuple = ()
    offset: int = 0
    _scalar_offset: object = None
    _indirect_dim: int = 0

    def __post_init__(self):
        if self.sizes == ():
            self.sizes = tuple(self.base_tensor.shape)
            strides = []
            step = 1
            for i in range(len(self.sizes)):
                strides.append(step)
                step = step * self.sizes[len(self.sizes) - 1 - i]
            ordered = []
            for i in range(len(strides)):
                ordered.append(strides[len(strides) - 1 - i])
            self.strides = tuple(ordered)

    def _with(self, sizes, strides, offset):
        return TensorView(
            self.base_tensor, tuple(sizes), tuple(strides), offset, self._scalar_offset, self._indirect_dim
        )

    def slice(self, dim, start, end, step=1):
        kernel_assert(start >= 0 and start < end and end <= self.sizes[dim], f"slice {start}:{end} of {self.sizes}")
        sizes, strides = list(self.sizes), list(self.strides)
        sizes[dim] = div_ceil(end - start, step)
        offset = self.offset + start * strides[dim]
        strides[dim] = strides[dim] * step
        return self._with(sizes, strides, offset)

    def permute(self, dims):
        sizes, strides = [], []
        for d in dims:
            sizes.append(self.sizes[d])
            strides.append(self.strides[d])
        return self._with(sizes, strides, self.offset)

    def reshape_dim(self, dim, shape):
        sizes, strides = [], []
        for d in range(len(self.sizes)):
            if d == dim:
                step = self.strides[d]
                inner = []
                for i in range(len(shape)):
                    inner.append(step)
                    step = step * shape[len(shape) - 1 - i]
                for i in range(len(shape)):
                    sizes.append(shape[i])
                    strides.append(inner[len(shape) - 1 - i])
            else:
                sizes.append(self.sizes[d])
                strides.append(self.strides[d])
        return self._with(sizes, strides, self.offset)

    def broadcast(self, dim, size):
        kernel_assert(self.sizes[dim] == 1, f"dimension {dim} of {self.sizes} is not 1")
        sizes, strides = list(self.sizes), list(self.strides)
        sizes[dim], strides[dim] = size, 0
        return self._with(sizes, strides, self.offset)

    def expand_dim(self, dim):
        sizes, strides = list(self.sizes), list(self.strides)
        sizes.insert(dim, 1)
        strides.insert(dim, 0)
        return self._with(sizes, strides, self.offset)

    def select(self, dim, index):
        made = self.slice(dim, index, index + 1)
        return made._with(
            made.sizes[:dim] + made.sizes[dim + 1 :], made.strides[:dim] + made.strides[dim + 1 :], made.offset
        )

    def at(self, scalar_offset, indirect_dim=0):
        return TensorView(self.base_tensor, self.sizes, self.strides, self.offset, scalar_offset, indirect_dim)

    def get_view(self):
        pattern = []
        for i in range(len(self.sizes)):
            pattern.append([self.strides[i], self.sizes[i]])
        if self._scalar_offset == None:  # noqa: E711
            return self.base_tensor.ap(pattern=pattern, offset=self.offset)
        return self.base_tensor.ap(
            pattern=pattern, offset=self.offset, scalar_offset=self._scalar_offset, indirect_dim=self._indirect_dim
        )


@dataclass
class SbufStack(NKIObject):
    """Addresses by hand: tensors are put one after the other and given back by scope."""

    base: int = 0
    limit: int = 180 * 1024
    _marks: tuple = ()

    def alloc(self, shape, dtype, name=""):
        row = 1
        for n in shape[1:]:
            row = row * n
        size = div_ceil(row * dtype.itemsize, 32) * 32
        kernel_assert(self.base + size <= self.limit, f"{size} bytes at {self.base} exceed {self.limit}")
        tensor = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, name=name, address=(0, self.base))
        self.base = self.base + size
        return tensor

    def open_scope(self):
        # NKI expands no star
        self._marks = self._marks + (self.base,)  # noqa: RUF005

    def close_scope(self):
        self.base = self._marks[-1]
        self._marks = self._marks[:-1]


def load_tile(src, dtype=None):
    tile = nl.ndarray(src.shape, dtype=src.dtype if dtype == None else dtype, buffer=nl.sbuf)  # noqa: E711
    nisa.dma_copy(dst=tile, src=src)
    return tile


def transpose_to_sbuf(tile):
    """A tile [p, f] as [f, p], through PSUM."""
    p, f = tile.shape
    flipped = nl.ndarray((f, p), dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=flipped, data=tile)
    made = nl.ndarray((f, p), dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=made, src=flipped)
    return made
