"""Addresses the hardware understands: explicit access patterns, and offsets that are known only at run time."""

from typing import Any, Self

from trnsim.refusals import forbid, refuse
from trnsim.tensors.dtypes import as_dtype, int32, uint32
from trnsim.tensors.layout import Dynamic, as_index, late, merge
from trnsim.tensors.views import Views, index_tile


class Access(Views):
    """Access methods of ``NkiTensor``."""

    __slots__ = ()

    def vector_select(self, dim: int, vector_offset: Any) -> Self:
        """Return row ``vector_offset[p]`` for each partition ``p``: a gather or scatter by DMA."""
        forbid(dim != 0, "indirect:vector_select-value", got=dim)
        forbid(self.on_chip, "indirect:vector_select-buffer", got=str(self.buffer), t=self)
        self._once("vector_select")
        index = run_time_rows(vector_offset, "vector_select")
        forbid(index.shape[1] != 1, "indirect:vector_select-shape", got=index.shape, limit=(index.shape[0], 1))
        dynamic = Dynamic("vector", index, self.strides[0], 0, self.shape[0])
        return self._view((index.shape[0], *self.shape[1:]), self.strides, self.offset, dynamic=dynamic)

    def indirect(self, index: Any, num_elem: int | None = None) -> Self:
        """Tensor indirection of trn3: columns of the free dimension picked by ``index``, shape [P, K].

        Offset ``i`` is ``index[i % G, i // G]`` within each group of G partitions (32 for the Tensor Engine, 16 for the
        others); ``num_elem`` of them are used.
        """
        forbid(not self.on_chip, "indirect:indirect-buffer", got=str(self.buffer), t=self)
        self._once("indirect")
        index_tile(index, "indirect", "[P, K] SBUF tile", hint="pass an SBUF tile of integers, free-dimension offsets")
        if index.shape[0] != self.shape[0]:
            own, hint = self.shape[0], "the index tile spans the partitions it serves"
            raise refuse("indirect:indirect-shape", got=index.shape[0], limit=own, hint=hint, t=self)
        count = index.size if num_elem is None else as_index(num_elem)
        forbid(not 1 <= count <= index.size, "indirect:indirect-value", got=count, limit=index.size)
        stride = merge(self.shape[1:], self.strides[1:])
        if stride is None:
            raise refuse("contiguous:indirect", got=self.strides, t=self)
        dynamic = Dynamic("tensor", index, stride, 1, self.free_size, count)
        return self._view((self.shape[0], count), (self.strides[0], stride), self.offset, dynamic=dynamic)

    def ap(
        self,
        pattern: Any,
        offset: Any = None,
        scalar_offset: Any = None,
        vector_offset: Any = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> Self:
        """Return an explicit access pattern ``[[stride, count], …]`` over the storage, from this view's offset on.

        Args:
            pattern: steps and counts in elements of ``dtype``; on chip the first is the partition, stepping by the row.
            offset: elements to add to the offset of this view.
            scalar_offset: a register or [1, 1] SBUF tile: run-time offset along ``indirect_dim``.
            vector_offset: an SBUF tile of row indices along dimension 0 of an HBM tensor, one for each row of the
                pattern.
            indirect_dim: dimension of this view whose stride scales the run-time offset.
            dtype: reinterpret the storage.
        """
        new = self.dtype if dtype is None else as_dtype(dtype)
        old_size, new_size = self.itemsize, int(new.itemsize)
        shape, strides = _pattern(pattern)
        start = self.offset * old_size // new_size + (0 if offset is None else as_index(offset))
        row = self.storage.row * self.storage.itemsize // new_size
        if self.on_chip:
            if len(shape) < 2:
                shape, strides = [*shape, 1], [*strides, 1]
            # a step of one row of the view means the next partition too
            if shape[0] > 1 and strides[0] != row and not (strides[0] == self.free_size and self.is_contiguous()):
                raise refuse("partition-step:ap", got=strides[0], limit=row, t=self)
            strides[0] = row
        dynamic = None
        if scalar_offset is not None or vector_offset is not None:
            dynamic = self._run_time(scalar_offset, vector_offset, indirect_dim, old_size, new_size, row)
            if dynamic.kind == "vector":
                strides[0] = dynamic.stride
        view = self._view(shape, strides, start, new)
        view.dynamic = dynamic
        error = view.extent_error()
        if error is not None and dynamic is not None:
            raise error
        if error is not None:
            view.dynamic = late(error)
        return view

    def _run_time(
        self, scalar_offset: Any, vector_offset: Any, indirect_dim: int, old_size: int, new_size: int, row: int
    ) -> Dynamic:
        if scalar_offset is not None and vector_offset is not None:
            raise refuse("indirect:run_time-value", got=("scalar_offset", "vector_offset"))
        dim = self._dim(indirect_dim, "ap: indirect_dim")
        step = self.strides[dim] * old_size // new_size
        bound = self.storage.rows * row // max(step, 1)
        if scalar_offset is not None:
            return Dynamic("scalar", self.run_time_scalar(scalar_offset, "ap: scalar_offset"), step, -1, bound)
        if self.on_chip or dim != 0:
            raise refuse("indirect:run_time-buffer", got=(str(self.buffer), dim), limit=("hbm", 0), t=self, dim=dim)
        return Dynamic("vector", run_time_rows(vector_offset, "ap: vector_offset"), step, 0, bound)


def _pattern(pattern: Any) -> tuple[list[int], list[int]]:
    """Return counts and steps of an access pattern."""
    try:
        pairs = [(as_index(step), as_index(count)) for step, count in pattern]
    except (TypeError, ValueError):
        raise refuse("view:form", got=repr(pattern), pattern=pattern) from None
    forbid(not pairs or any(count < 1 or step < 0 for step, count in pairs), "view:entries", got=pattern)
    return [count for _, count in pairs], [step for step, _ in pairs]


def run_time_rows(index: Any, what: str) -> Any:
    """Check a vector of row indices: 32-bit integers in SBUF, two-dimensional."""
    hint = "pass a tile of row indices, 32-bit integers, loaded into SBUF with dma_copy"
    index_tile(index, what, "[P, 1] SBUF tile", dtypes=(int32, uint32), hint=hint)
    if index.ndim > 2 and index.free_size == index.shape[1]:
        index = index._view(index.shape[:2], index.strides[:2], index.offset)
    forbid(index.ndim != 2, "indirect:run_time_rows", got=index.shape, what=what, index=index)
    return index
