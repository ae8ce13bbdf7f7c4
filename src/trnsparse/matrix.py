"""Base of sparse formats: arithmetic, conversions, files, slices and a printed picture."""

from __future__ import annotations

import functools
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, cast, overload

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from trnsci import check
from trnsci.arrays import Array, from_numpy, pass_through, to_numpy
from trnsci.backends import on_host
from trnsci.errors import ArgumentError, DtypeError
from trnsim import notebook
from trnsparse.indices import in_blocks, scatter_values
from trnsparse.picture import drawn, picture

if TYPE_CHECKING:
    from trnsparse.bsr import BSRMatrix
    from trnsparse.coo import COOMatrix
    from trnsparse.csr import CSCMatrix, CSRMatrix
    from trnsparse.dia import DIAMatrix
    from trnsparse.sell import SELLMatrix

# A matrix or array of scipy.sparse, which comes without types.
Foreign: TypeAlias = sp.sparray | sp.spmatrix
# What functions take for a sparse matrix: one of ours, of SciPy's or of torch's.
SparseMatrixLike: TypeAlias = "SparseMatrix | Foreign | Tensor"

T = TypeVar("T")
S = TypeVar("S", bound="SparseMatrix")

SUPPORTED = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.int32,
    torch.int64,
    torch.bool,
)


@functools.cache
def _products() -> Any:
    """Return the module of the operators, which imports this one."""
    from trnsparse import products

    return products


@functools.cache
def _arithmetic() -> Any:
    """Return the module of the elementwise operators, which imports this one."""
    from trnsparse import arithmetic

    return arithmetic


class _Format(ABCMeta):
    """Lets every format be called with one matrix, as SciPy's are."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        if len(args) != 1 or options:
            return super().__call__(*args, **options)
        (matrix,), kind = args, cast("type[SparseMatrix]", cls)
        if isinstance(matrix, SparseMatrix):
            return kind._from(matrix)
        if sp.issparse(matrix):
            return kind.from_scipy(matrix)
        if isinstance(matrix, Tensor) and matrix.layout != torch.strided:
            return kind.from_torch(matrix)
        return kind.from_dense(matrix)


class SparseMatrix(metaclass=_Format):
    """A sparse matrix: index tensors that never change, and ``values``, through which gradients flow.

    The matrix owns its indices: they are copied when it is created. Values given as a tensor are that tensor, and every
    product reads them afresh; values given as a NumPy array, a SciPy matrix or a list are copied.
    """

    format: str
    shape: tuple[int, int]
    ndim = 2
    _values: Tensor
    _index_names: tuple[str, ...] = ("indptr", "indices")

    def __init_subclass__(cls) -> None:
        pass_through(cls)

    @property
    def values(self) -> Tensor:
        """The entries, or blocks."""
        # of another name: torch 2.11 traces self.__dict__["values"] as this property
        values = self._values
        index = self.__dict__.get(self._index_names[-1])
        if index is not None and (not values.ndim or values.shape[0] != index.shape[0]):
            lengths = {"indices": index.shape[0], "values": tuple(values.shape)}
            raise ArgumentError(type(self).__name__, "length", lengths, hint="Whoever owns the values resized them")
        return values

    @values.setter
    def values(self, values: Tensor) -> None:
        self._values = values

    @classmethod
    def from_dense(cls, dense: Tensor | Array) -> Self:
        """Return a dense matrix [M, N]; entries that are not zero decide what is stored."""
        from trnsparse.coo import COOMatrix

        return cls._from(COOMatrix.from_dense(dense))

    @classmethod
    def from_scipy(cls, matrix: Foreign) -> SparseMatrix:
        """Return a ``scipy.sparse`` matrix or array of any format; duplicates are added up. Its arrays are copied."""
        from trnsparse.coo import COOMatrix

        return cls._from(COOMatrix.from_scipy(as_scipy(f"{cls.__name__}.from_scipy", matrix)))

    @classmethod
    def from_torch(cls, tensor: Tensor) -> Self:
        """Return a two-dimensional ``torch.sparse`` tensor of any layout."""
        from trnsparse.coo import COOMatrix

        return cls._from(COOMatrix.from_torch(tensor))

    @classmethod
    def _from(cls, matrix: SparseMatrix) -> Self:
        """Return a matrix in the format of this class."""
        converted: Self = getattr(matrix, f"to_{cls.format}")()
        return converted

    @abstractmethod
    def to_coo(self) -> COOMatrix:
        """Return the matrix as sorted coordinates without duplicates."""

    @abstractmethod
    def transpose(self) -> SparseMatrix:
        """Return the transpose."""

    def with_values(self, values: Tensor | Array) -> Self:
        """Return a matrix of the same pattern with other values, or blocks; NumPy's are copied."""
        if isinstance(values, np.ndarray):
            values = as_values("with_values", values)
        values = self._check_values(values)
        return self._share(self._rebuilt(self._index_on(values.device), values, self.shape))

    def _indices(self) -> dict[str, Tensor]:
        """Return the index tensors by constructor argument."""
        return {name: self.__dict__[name] for name in self._index_names}

    @classmethod
    def _rebuilt(cls, indices: dict[str, Tensor], values: Tensor, shape: tuple[int, int]) -> Self:
        """Return a matrix from the parts, without checks."""
        result = cls.__new__(cls)
        result.__dict__.update(indices, _values=values, shape=shape)
        return result

    @cached_property
    def _derived(self) -> dict[str, Any]:
        """Values computed from the pattern alone, shared by all matrices of that pattern."""
        return {}

    def _once(self, name: str, compute: Callable[[], T]) -> T:
        """Return what `compute` gives, computed once for the pattern."""
        if name not in self._derived:
            with torch.inference_mode(False):
                self._derived[name] = compute()
        result: T = self._derived[name]
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_derived"}

    def _index_on(self, device: torch.device) -> dict[str, Tensor]:
        """Return the index tensors where values are."""
        indices = self._indices()
        return indices if device == self.device else {name: index.to(device) for name, index in indices.items()}

    def _check_values(self, values: Any) -> Tensor:
        check.tensor("with_values", values=values)
        values = as_values("with_values", values)
        if values.shape != self.values.shape:
            expected = f"{tuple(self.values.shape)}, one for each entry of the pattern"
            raise ArgumentError("with_values", "shape of values", tuple(values.shape), expected)
        return values

    def _share(self, other: S) -> S:
        """Hand what was computed from the pattern to a matrix of the same pattern, which is returned."""
        if other.device == self.device:
            other.__dict__["_derived"] = self._derived
        return other

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        """Where values and indices live."""
        return self.values.device

    @property
    def nnz(self) -> int:
        """Stored entries, zeros among them included; of a BSR matrix, the elements of its blocks."""
        return self.values.numel()

    @property
    def density(self) -> float:
        """Stored entries over all entries."""
        return self.nnz / max(self.shape[0] * self.shape[1], 1)

    @property
    def requires_grad(self) -> bool:
        """Whether gradients with respect to the values are recorded."""
        return self.values.requires_grad

    @property
    def T(self) -> SparseMatrix:
        """The transpose."""
        return self.transpose()

    @property
    def H(self) -> SparseMatrix:
        """The conjugate transpose."""
        return self.transpose().conj()

    def to_csr(self) -> CSRMatrix:
        """Return the matrix in compressed rows."""
        from trnsparse.csr import CSRMatrix

        own = self.to_coo()
        return own._share(CSRMatrix._rebuilt({"indptr": own.pointers, "indices": own.col}, own.values, self.shape))

    def to_csc(self) -> CSCMatrix:
        """Return the matrix in compressed columns."""
        from trnsparse.csr import CSCMatrix

        columns = self.to_coo().transpose().to_csr()
        return CSCMatrix._rebuilt(columns._indices(), columns.values, self.shape)

    def to_bsr(self, block: int | tuple[int, int] = 128) -> BSRMatrix:
        """Return the matrix in dense blocks; only blocks that hold an entry are stored."""
        from trnsparse.bsr import BSRMatrix, as_block

        own, (bm, bn) = self.to_coo(), as_block("to_bsr", block)
        grid = -(-self.shape[0] // bm), -(-self.shape[1] // bn)
        indptr, indices, at = own._once(f"blocks of {bm}x{bn}", lambda: in_blocks(own.row, own.col, (bm, bn), grid))
        blocks = scatter_values(own.values, at, indices.numel() * bm * bn).reshape(-1, bm, bn)
        return BSRMatrix._rebuilt({"indptr": indptr, "indices": indices}, blocks, self.shape)

    def to_dia(self) -> DIAMatrix:
        """Return the diagonals that hold an entry, whole: zeros where they hold none."""
        from trnsparse.dia import DIAMatrix

        own, rows = self.to_coo(), self.shape[0]
        check.data("to_dia", a=own.row)
        offsets, rank = torch.unique(own.col - own.row, return_inverse=True)
        values = scatter_values(own.values, rank * rows + own.row, offsets.numel() * rows)
        return DIAMatrix._rebuilt({"offsets": offsets}, values.reshape(offsets.numel(), rows), self.shape)

    def to_sell(self, size: int | None = None) -> SELLMatrix:
        """Return the matrix in slices of ``size`` rows (by default 32), each as wide as its longest row."""
        from trnsparse.sell import SELLMatrix

        each = 32 if size is None else check.integer("to_sell", "size", size, 1)
        own = self.to_coo()
        check.data("to_sell", a=own.row)

        def arrange() -> tuple[Tensor, Tensor, Tensor]:
            lengths, slices = own.pointers.diff(), -(-self.shape[0] // each)
            padded = torch.nn.functional.pad(lengths, (0, slices * each - self.shape[0]))
            widths = padded.reshape(slices, each).amax(1) if slices else padded
            offsets = torch.nn.functional.pad((widths * each).cumsum(0), (1, 0))
            turn = torch.arange(own.row.numel(), device=own.device) - own.pointers[own.row]
            at = offsets[own.row // each] + turn * each + own.row % each
            return offsets, torch.full((int(offsets[-1]),), -1, device=own.device).index_put((at,), own.col), at

        offsets, columns, at = own._once(f"slices of {each}", arrange)
        indices = {"size": torch.tensor([each], device=own.device), "offsets": offsets, "columns": columns}
        return SELLMatrix._rebuilt(indices, scatter_values(own.values, at, columns.numel()), self.shape)

    def to_dense(self) -> Tensor:
        """Return a dense tensor [M, N]."""
        coo, (rows, columns) = self.to_coo(), self.shape
        return scatter_values(coo.values, coo.row * columns + coo.col, rows * columns).reshape(self.shape)

    def to_scipy(self) -> Foreign:
        """Return a ``scipy.sparse`` array of the same format, detached from gradients."""
        raise NotImplementedError

    def to_torch(self) -> Tensor:
        """Return a ``torch.sparse`` tensor of the same layout."""
        raise NotImplementedError

    def conj(self) -> Self:
        """Return the complex conjugate."""
        return self.with_values(self.values.conj().resolve_conj()) if self.dtype.is_complex else self

    def _summed(self) -> Self:
        """Return the matrix with at most one entry at each position."""
        return self

    def abs(self) -> Self:
        """Return absolute values."""
        own = self._summed()
        return own.with_values(own.values.abs())

    def to(self, target: torch.device | str | torch.dtype) -> Self:
        """Return the matrix on another device or in another dtype."""
        return self.with_values(self.values.to(target))

    def cuda(self) -> Self:
        """Return the matrix on the current CUDA device."""
        return self.to("cuda")

    def cpu(self) -> Self:
        """Return the matrix in host memory."""
        return self.to("cpu")

    def detach(self) -> Self:
        """Return the matrix cut off from gradients."""
        return self.with_values(self.values.detach())

    def clone(self) -> Self:
        """Return a copy with values of its own."""
        return self.with_values(self.values.clone())

    def requires_grad_(self, wanted: bool = True) -> Self:
        """Record gradients with respect to the values from now on."""
        self.values.requires_grad_(wanted)
        return self

    def prune(self, threshold: float = 0.0) -> COOMatrix:
        """Return the entries with absolute value above ``threshold``."""
        coo = self.to_coo()
        kept = coo.values.abs() > threshold
        return coo.select(kept)

    def diagonal(self, offset: int = 0) -> Tensor:
        """Return the diagonal ``a[i, i + offset]``, zeros where nothing is stored."""
        coo = self.to_coo()
        length = max(0, min(self.shape[0] + min(offset, 0), self.shape[1] - max(offset, 0)))
        check.data("diagonal", a=coo.row)
        on = (coo.col - coo.row == offset).nonzero().flatten()
        return scatter_values(coo.values[on], torch.minimum(coo.row[on], coo.col[on]), length)

    def trace(self) -> Tensor:
        """Return the sum of the diagonal."""
        return self.diagonal().sum()

    def sum(self, axis: int | None = None) -> Tensor:
        """Return the sum of all entries, or of every column (``axis=0``) or row (``axis=1``)."""
        on_host("trnsparse.sum")
        if axis is None:
            # diagonals and slices store more than the entries
            return (self.to_coo() if self.format in ("dia", "sell") else self).values.sum()
        check.refuse(axis not in (0, 1, -1, -2), "sum", "axis", axis, "None, 0 or 1, or from the end -2 or -1")
        coo = self.to_coo()
        index, size = (coo.col, self.shape[1]) if axis in (0, -2) else (coo.row, self.shape[0])
        return coo.values.new_zeros(size).index_add(0, index, coo.values)

    def save(self, path: str | Path) -> None:
        """Write a file that `load` reads: Matrix Market where the name ends in ``.mtx``, and ``.npz`` otherwise.

        ``scipy.io.mmread`` and ``scipy.sparse.load_npz`` read them too, but for dtypes SciPy lacks, and blocks that
        reach over the edge.
        """
        from trnsparse.files import write

        write(self, path)

    @overload
    def __matmul__(self, other: SparseMatrix) -> SparseMatrix: ...
    @overload
    def __matmul__(self, other: Tensor) -> Tensor: ...
    @overload
    def __matmul__(self, other: Array) -> Array: ...
    @overload
    def __matmul__(self, other: Foreign) -> SparseMatrix: ...
    def __matmul__(self, other: Any) -> Any:
        return _products().matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _products().rmatmul(other, self)

    def __add__(self, other: Any) -> Any:
        """Add a sparse matrix, a dense tensor that broadcasts, which makes the sum dense, or the number 0."""
        return _arithmetic().combine(self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return _arithmetic().combine(self, other, 1, -1)

    def __rsub__(self, other: Any) -> Any:
        return _arithmetic().combine(self, other, -1, 1)

    def __neg__(self) -> Self:
        return self.with_values(-self.values)

    def __pos__(self) -> Self:
        return self.clone()

    def __abs__(self) -> Self:
        return self.abs()

    def __mul__(self, other: Any) -> Any:
        """Multiply elementwise by a number, a sparse matrix or a dense tensor; rows and columns are broadcast."""
        return _arithmetic().times(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        """Divide elementwise by a number, a dense tensor that broadcasts, or a sparse matrix: a dense quotient."""
        return _arithmetic().over(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _arithmetic().under(self, other)

    def __pow__(self, exponent: Any) -> Any:
        """Return the stored entries to a power that is a number and not 0."""
        return _arithmetic().power(self, exponent)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return a dense array: NumPy and SciPy take one where they know no sparse matrix of others."""
        if copy is False:
            raise ValueError("a sparse matrix has no dense array to share; leave out copy=False")
        array = to_numpy(self.detach().to_dense())
        return array if dtype is None else array.astype(dtype)

    def __getitem__(self, key: Any) -> Any:
        from trnsparse.slicing import slice_matrix

        return slice_matrix(self, key)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        where = "" if self.device.type == "cpu" else f", device={str(self.device)!r}"
        return (
            f"{type(self).__name__}({self.shape[0]}x{self.shape[1]}, nnz={self.nnz}, {kind}{self._extra()}"
            f", density {self.density:.2%}{where})"
        )

    def _extra(self) -> str:
        return ""

    def __str__(self) -> str:
        coo = self.to_coo()
        return f"{self!r}\n{picture(coo.row, coo.col, self.shape)}"

    def _repr_html_(self) -> str:
        coo = self.to_coo()
        return notebook.fragment(repr(self), drawn(coo.row, coo.col, self.shape, f"pattern of {self!r}"))

    # NumPy arrays on the left of an operator leave the operation to us.
    __array_ufunc__ = None


def is_sparse(value: Any) -> bool:
    """Return whether this is a sparse matrix: one of ours, of SciPy's or of torch's."""
    if isinstance(value, Tensor):
        return value.layout is not torch.strided
    return isinstance(value, SparseMatrix) or sp.issparse(value)


def as_values(op: str, values: Any) -> Tensor:
    """Return values as a tensor of a dtype the library computes with: the tensor itself, or a copy of anything else."""
    check.whole(op, values=values)
    try:
        tensor = values if isinstance(values, Tensor) else from_numpy(np.array(values))
    except ValueError:
        raise DtypeError(op, "values", type(values), "an array of numbers") from None
    if tensor.layout != torch.strided or tensor.is_nested:
        raise DtypeError(op, "layout of values", tensor.layout, "a dense tensor")
    if tensor.dtype not in SUPPORTED:
        listed = ", ".join(str(dtype).removeprefix("torch.") for dtype in SUPPORTED)
        raise DtypeError(op, "dtype of values", tensor.dtype, f"one of {listed}")
    if tensor._base is not None and tensor._base.layout != torch.strided:
        # torch can neither conjugate nor trace views of its compressed tensors, which ``csr.values()`` is
        return tensor.clone() if tensor.requires_grad else tensor.detach()
    return tensor


def as_scipy(op: str, matrix: Any) -> Any:
    """Return a ``scipy.sparse`` matrix or array of two dimensions; refuse anything else."""
    if not sp.issparse(matrix):
        raise DtypeError(op, "matrix", type(matrix), "a scipy.sparse matrix or array")
    check.refuse(matrix.ndim != 2, op, "shape", matrix.shape, "two dimensions")
    if matrix.format in ("csr", "csc"):
        check.pattern(op, matrix.indptr, matrix.indices, matrix.shape[:: -1 if matrix.format == "csc" else 1])
    return matrix
