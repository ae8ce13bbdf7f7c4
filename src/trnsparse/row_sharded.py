"""A sparse matrix cut along its rows between ranks, and which rows of a dense operand each of them touches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnsci import check
from trnsci.errors import ArgumentError
from trnsparse.arguments import sparse
from trnsparse.bsr import BSRMatrix
from trnsparse.csr import CSRMatrix
from trnsparse.matrix import SparseMatrixLike

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from trnsci.distributed import Part, Team


class RowSharded:
    """One rank's rows of a sparse matrix, from `shard_rows`; ``a @ b`` and `spmm` take a DTensor and give one.

    Attributes:
        shape: (M, K) of the whole.
        mesh: the mesh, or its sizes alone, to plan with.
        local: this rank's rows, in CSR or BSR, whose columns are those it touches and no others.
        touched: per rank along the first axis of the mesh, the columns its rows touch, rising: what it needs of ``b``.
        is_near: whether every rank needs rows of the ranks beside it alone, which come by messages of neighbours.
    """

    ndim = 2

    def __init__(
        self,
        shape: tuple[int, int],
        mesh: DeviceMesh | tuple[int, ...],
        locals_: Sequence[CSRMatrix | BSRMatrix],
        touched: tuple[Tensor, ...],
        rank: int,
    ) -> None:
        self.shape, self.mesh, self.touched = shape, mesh, touched
        # a copy, so that the whole can be freed
        self.local = locals_[rank].clone()
        self._sizes = tuple((tuple(part.values.shape), part.shape) for part in locals_)
        self._nnz = sum(part.nnz for part in locals_)
        # per rank, how many rows of b come from and go to the ranks at each distance
        width, ranks = max(1, -(-shape[1] // len(touched))), len(touched)
        self._neighbours: list[dict[tuple[str, int], int]] = [{} for _ in touched]
        for me, columns in enumerate(touched):
            owners, counts = (columns // width).unique(return_counts=True)
            for owner, count in zip(owners.tolist(), counts.tolist(), strict=True):
                self._neighbours[me]["from", (owner - me) % ranks] = count
                self._neighbours[owner]["to", (me - owner) % ranks] = count
        self.is_near = ranks > 2 and all(far in (0, 1, ranks - 1) for each in self._neighbours for _, far in each)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the values."""
        return self.local.dtype

    @property
    def nnz(self) -> int:
        """Stored entries of all ranks."""
        return self._nnz

    def for_rank(self, coordinate: Sequence[int]) -> RowSharded:
        """Return the matrix as another rank has it, without data: what a plan runs with."""
        other = object.__new__(RowSharded)
        other.__dict__.update(self.__dict__)
        values, shape = self._sizes[coordinate[0]]
        rows = shape[0] if self.local.format == "csr" else -(-shape[0] // values[1])

        def index(count: int) -> Tensor:
            return torch.empty(count, dtype=torch.int64, device="meta")

        indices = {"indptr": index(rows + 1), "indices": index(values[0])}
        other.local = type(self.local)._rebuilt(indices, torch.empty(values, dtype=self.dtype, device="meta"), shape)
        return other

    def class_of(self, coordinate: Sequence[int]) -> tuple[object, ...]:
        """Return the sizes of a rank's rows, and what it exchanges with ranks at each distance."""
        return self._sizes[coordinate[0]], tuple(sorted(self._neighbours[coordinate[0]].items()))

    def held(self) -> list[Tensor]:
        """Return the tensors of this rank's rows."""
        return [*self.local._indices().values(), self.local.values]

    def times(self, team: Team, part: Part) -> Part:
        """Multiply by a dense matrix inside a sharded algorithm."""
        from trnsparse.sharded import product

        return product(team, self, part)

    def __matmul__(self, other: Any) -> Any:
        from trnsparse.spmm import spmm, spmv

        if not isinstance(other, Tensor):
            return NotImplemented
        return spmv(self, other) if other.ndim == 1 else spmm(self, other)

    def __repr__(self) -> str:
        ranks = "x".join(map(str, sizes_of(self.mesh)))
        kind = str(self.dtype).removeprefix("torch.")
        return (
            f"RowSharded({self.shape[0]}x{self.shape[1]} {self.local.format}, nnz={self.nnz}, {kind}, on {ranks} ranks)"
        )


def shard_rows(matrix: SparseMatrixLike, mesh: DeviceMesh | tuple[int, ...]) -> RowSharded:
    """Cut a sparse matrix along its rows over the first axis of a mesh. Nothing is sent: each rank keeps its rows.

    Which rows of a dense operand travel where is worked out here, once; products then move those and no others.

    Args:
        matrix: the whole, the same on every rank; BSR stays BSR (in blocks of its own where a cut goes through one),
            every other format becomes CSR.
        mesh: from `trnsci.distributed.mesh`; or sizes of one, to plan with.

    Returns:
        This rank's rows. Rows are cut as ``torch.chunk`` cuts, so some ranks may have none.

    Example:
        >>> from trnsci import distributed
        >>> a = shard_rows(CSRMatrix.from_dense(torch.eye(3)), distributed.mesh())
        >>> b = distributed.shard(torch.arange(6.0).reshape(3, 2), distributed.mesh(), 0)
        >>> distributed.gather(a @ b)
        tensor([[0., 1.],
                [2., 3.],
                [4., 5.]])
        >>> distributed.leave()
    """
    from trnsci.distributed.parts import chunks

    matrix = sparse("shard_rows", "matrix", matrix)
    if matrix.requires_grad:
        raise ArgumentError(
            op="shard_rows",
            argument="matrix",
            got="values that require grad",
            expected="values without, because the sharded product has no gradient",
            hint="Cut it off with .detach()",
        )
    known = isinstance(mesh, tuple) or hasattr(mesh, "get_coordinate")
    check.refuse(not known, "shard_rows", "mesh", type(mesh), "a mesh, or the sizes of one")
    sizes = sizes_of(mesh)
    rank = 0
    if not isinstance(mesh, tuple):
        coordinate = mesh.get_coordinate()
        if coordinate is None:
            raise ArgumentError("shard_rows", "mesh", mesh, "a mesh that this rank is part of")
        rank = coordinate[0]
        if matrix.device.type != mesh.device_type:
            got = {"matrix": matrix.device.type, "mesh": mesh.device_type}
            raise ArgumentError("shard_rows", "device", got, hint="Move the matrix with .to(device)")
    compressed = matrix if isinstance(matrix, BSRMatrix) else matrix.to_csr()
    cuts = chunks(matrix.shape[0], sizes[0])
    parts, touched = zip(*(_compact(compressed[start : start + size]) for start, size in cuts), strict=True)
    return RowSharded(matrix.shape, mesh, parts, touched, rank)


def sizes_of(mesh: DeviceMesh | tuple[int, ...]) -> tuple[int, ...]:
    """Return sizes of a mesh, or of one to plan with."""
    return mesh if isinstance(mesh, tuple) else tuple(mesh.shape)


def _compact(matrix: CSRMatrix | BSRMatrix) -> tuple[CSRMatrix | BSRMatrix, Tensor]:
    """Return the matrix with only the columns (or block columns) it touches, and which they are."""
    width = matrix.block[1] if isinstance(matrix, BSRMatrix) else 1
    units, positions = torch.unique(matrix.indices, return_inverse=True)
    columns = (units[:, None] * width + torch.arange(width, device=units.device)).flatten()
    # only the last block can reach over the edge
    columns = columns[columns < matrix.shape[1]]
    indices = {"indptr": matrix.indptr, "indices": positions.reshape(matrix.indices.shape)}
    return type(matrix)._rebuilt(indices, matrix.values, (matrix.shape[0], columns.numel())), columns
