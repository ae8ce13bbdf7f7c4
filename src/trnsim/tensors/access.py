"""Addresses the hardware understands: explicit access patterns, and offsets that are known only at run time."""

from __future__ import annotations

from typing import Any, Self

from trnsim.errors import WrongArgument, WrongBuffer, WrongShape, wrong_memory, wrong_pair, wrong_shape
from trnsim.tensors.dtypes import as_dtype, int32, uint32
from trnsim.tensors.layout import Dynamic, as_index, late, merge
from trnsim.tensors.views import Views, index_tile


class Access(Views):
    """Access methods of ``NkiTensor``."""

    __slots__ = ()

    def vector_select(self, dim: int, vector_offset: Any) -> Self:
        """Row ``vector_offset[p]`` for each partition ``p``: a gather or scatter by DMA."""
        if dim != 0:
            raise WrongArgument(f"vector_select: dim {dim}", "indirect", dim, 0, "only dimension 0 can be gathered")
        if self.on_chip:
            hint = "gather and scatter address rows of HBM; within a partition use nc_n_gather"
            raise wrong_memory("indirect", f"vector_select: {self.name}", self.buffer, "hbm", hint)
        self._once("vector_select")
        index = run_time_rows(vector_offset, "vector_select")
        if index.shape[1] != 1:
            hint = "one row index per partition: a [P, 1] tile"
            raise wrong_shape("indirect", "vector_select: vector_offset", index.shape, (index.shape[0], 1), hint)
        dynamic = Dynamic("vector", index, self.strides[0], 0, self.shape[0])
        return self._view((index.shape[0], *self.shape[1:]), self.strides, self.offset, dynamic=dynamic)

    def indirect(self, index: Any, num_elem: int | None = None) -> Self:
        """Tensor indirection of trn3: columns of the free dimension picked by ``index``, shape [P, K].

        Offset ``i`` is ``index[i % G, i // G]`` within each group of G partitions (32 for the Tensor Engine, 16 for the
        others); ``num_elem`` of them are used.
        """
        if not self.on_chip:
            hint = "gather rows of HBM with dma_copy and vector_select"
            raise wrong_memory("indirect", f"indirect: {self.name}", self.buffer, "sbuf or psum", hint)
        self._once("indirect")
        index_tile(index, "indirect", "[P, K] SBUF tile", hint="pass an SBUF tile of integers, free-dimension offsets")
        if index.shape[0] != self.shape[0]:
            own, hint = self.shape[0], "the index tile spans the partitions it serves"
            raise wrong_pair("indirect", "indirect: index", index.shape[0], self.name, own, hint, of="partitions")
        count = index.size if num_elem is None else as_index(num_elem)
        if not 1 <= count <= index.size:
            raise WrongArgument(
                f"indirect: num_elem is {count} and the index holds {index.size} offsets",
                rule="indirect",
                got=count,
                limit=index.size,
                hint="num_elem is how many offsets of the index are used",
            )
        stride = merge(self.shape[1:], self.strides[1:])
        if stride is None:
            raise WrongShape(
                f"indirect: the free dimensions of {self.name} are not contiguous "
                f"(shape {self.shape}, strides {self.strides})",
                rule="contiguous",
                got=self.strides,
                hint="offsets count elements of one evenly spaced free dimension: copy the tensor first",
            )
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
                raise WrongShape(
                    f"ap: the partition step of {self.name} must be its row of {row} elements, not {strides[0]}",
                    rule="partition-step",
                    got=strides[0],
                    limit=row,
                    hint="every partition does the same access; pick partitions with the offset and the count",
                )
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
            raise WrongArgument(
                "ap: scalar_offset and vector_offset exclude each other",
                rule="indirect",
                got=("scalar_offset", "vector_offset"),
                hint="pass one of them",
            )
        dim = self._dim(indirect_dim, "ap: indirect_dim")
        step = self.strides[dim] * old_size // new_size
        bound = self.storage.rows * row // max(step, 1)
        if scalar_offset is not None:
            return Dynamic("scalar", self.run_time_scalar(scalar_offset, "ap: scalar_offset"), step, -1, bound)
        if self.on_chip or dim != 0:
            raise WrongBuffer(
                f"ap: vector_offset on {self.name} in {self.buffer}, indirect_dim {dim}",
                rule="indirect",
                got=(str(self.buffer), dim),
                limit=("hbm", 0),
                hint="gather and scatter address the first dimension of an HBM tensor",
            )
        return Dynamic("vector", run_time_rows(vector_offset, "ap: vector_offset"), step, 0, bound)


def _pattern(pattern: Any) -> tuple[list[int], list[int]]:
    """Counts and steps of an access pattern."""
    try:
        pairs = [(as_index(step), as_index(count)) for step, count in pattern]
    except (TypeError, ValueError):
        hint = "give a list of [step, count] pairs, outermost first"
        raise WrongArgument(f"ap: pattern {pattern!r}", "view", repr(pattern), "[[step, count], …]", hint) from None
    if not pairs or any(count < 1 or step < 0 for step, count in pairs):
        raise WrongArgument(f"ap: pattern {pattern}", "view", pattern, hint="counts are at least 1, steps at least 0")
    return [count for _, count in pairs], [step for step, _ in pairs]


def run_time_rows(index: Any, what: str) -> Any:
    """Check a vector of row indices: 32-bit integers in SBUF, two-dimensional."""
    hint = "pass a tile of row indices, 32-bit integers, loaded into SBUF with dma_copy"
    index_tile(index, what, "[P, 1] SBUF tile", dtypes=(int32, uint32), hint=hint)
    if index.ndim > 2 and index.free_size == index.shape[1]:
        index = index._view(index.shape[:2], index.strides[:2], index.offset)
    if index.ndim != 2:
        raise wrong_shape("indirect", f"{what}: the index {index.name}", index.shape, 2, "an index tile is [P, n]")
    return index
