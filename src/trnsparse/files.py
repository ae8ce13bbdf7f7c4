"""Sparse matrices in files: ``.npz`` of SciPy's layout, of our own where SciPy has none, and Matrix Market."""

from __future__ import annotations

import gzip
import math
import operator
import os
import stat
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
import torch

from trnsci import memory
from trnsci.arrays import from_numpy, to_numpy
from trnsci.errors import ArgumentError, CapacityError, DtypeError
from trnsci.memory import free_bytes
from trnsparse.arguments import sparse
from trnsparse.bsr import BSRMatrix
from trnsparse.coo import COOMatrix
from trnsparse.csr import CSCMatrix, CSRMatrix
from trnsparse.dia import DIAMatrix
from trnsparse.matrix import SparseMatrix
from trnsparse.sell import SELLMatrix

# Members of an archive at most; no format has more than seven arrays.
MAX_MEMBERS = 32
# Archives that expand to more bytes than this, and to more than this many times their own, are no matrices: indices
# of real ones shrink to a tenth at best, and only constant bytes to a thousandth.
MAX_EXPANDED, MAX_RATIO = 1 << 30, 200


def read_arrays(path: str | Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of an ``.npz`` file by name, without unpickling.

    Raises:
        ArgumentError: it is a pipe or a device, has too many members or one twice, or expands beyond `MAX_RATIO`.
        CapacityError: the arrays do not fit into memory.
        ValueError: a member is no array, or claims another size than it has. `zipfile` and NumPy raise others.
    """
    with open_plain(path) as file, zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        _check_members(path, members, os.fstat(file.fileno()).st_size)
        return {member.filename.removesuffix(".npy"): _read_array(archive, member) for member in members}


def open_plain(path: str | Path) -> BinaryIO:
    """Open a plain file to read; a pipe or a device, which could keep a reader waiting, is refused."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        if Path(path).is_dir():
            raise IsADirectoryError(f"{path} is a directory")
        raise _refusal(path, "no plain file", "an .npz file or one of Matrix Market")
    return os.fdopen(descriptor, "rb")


def _check_members(path: str | Path, members: list[zipfile.ZipInfo], length: int) -> None:
    names = [member.filename for member in members]
    if len(names) > MAX_MEMBERS or len(set(names)) < len(names):
        got = f"{len(names)} members, {len(set(names))} of them with names of their own"
        raise _refusal(path, got, f"at most {MAX_MEMBERS}, each with one")
    expanded = sum(member.file_size for member in members)
    if expanded > MAX_EXPANDED and expanded > MAX_RATIO * length:
        got = f"{length} bytes that expand to {expanded}"
        hint = "Nothing was read. If it is a matrix of yours, write it uncompressed"
        raise _refusal(path, got, f"at most {MAX_RATIO} times the bytes of the file", hint)
    if expanded > (available := free_bytes()):
        raise CapacityError("host", expanded, available, f"load of {path}: nothing was read. Use a machine with more")


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    """Read one array; NumPy allocates as many bytes as the header claims, so these are checked first."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename} is compressed by method {member.compress_type}, and NumPy uses 0 and 8")
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in read_header:
            raise ValueError(f"{member.filename} has version {version} of NumPy's format, and 1.0 and 2.0 are known")
        shape, _, dtype = read_header[version](stream)
        claimed, held = math.prod(shape) * dtype.itemsize, member.file_size - stream.tell()
    if claimed != held:
        raise ValueError(f"{member.filename} claims {claimed} bytes, and has {held}")
    with archive.open(member) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def _refusal(path: str | Path, got: str, expected: str, hint: str = "Nothing was read") -> ArgumentError:
    return ArgumentError("load", f"file {path}", got, expected, hint=hint)


# The endings of Matrix Market's names, and what such a file begins with.
MARKET = (".mtx", ".mtx.gz")
BANNER = b"%%MatrixMarket"
_CLASSES = (COOMatrix, CSRMatrix, CSCMatrix, BSRMatrix, DIAMatrix, SELLMatrix)
KINDS: dict[str, Any] = {kind.format: kind for kind in _CLASSES}


def write(matrix: SparseMatrix, path: str | Path) -> None:
    """Write a matrix to a file whose format follows from its name."""
    is_half = matrix.dtype in (torch.bfloat16, torch.float16)
    if str(path).endswith(MARKET):
        if is_half:
            hint = "Convert it with .to(torch.float32), or choose a name that ends in .npz"
            raise DtypeError("save", "dtype", matrix.dtype, "one that Matrix Market has", hint=hint)
        import scipy.io

        opened = gzip.open if str(path).endswith(".gz") else open
        with opened(path, "wb") as file:
            scipy.io.mmwrite(file, matrix.detach().to_coo().to_scipy())
        return
    over_edge = isinstance(matrix, BSRMatrix) and any(n % b for n, b in zip(matrix.shape, matrix.block, strict=True))
    if not (is_half or over_edge or isinstance(matrix, SELLMatrix)):
        sp.save_npz(path, matrix.detach().to_scipy())
        return
    values = matrix.values.detach()
    arrays = {name: to_numpy(index) for name, index in matrix._indices().items()}
    arrays["values"] = to_numpy(values.view(torch.int16) if values.dtype == torch.bfloat16 else values)
    tag = f"{matrix.format} {str(values.dtype).removeprefix('torch.')}"
    arrays |= {"format": np.array(tag), "shape": np.array(matrix.shape)}
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


def load(path: str | Path) -> SparseMatrix:
    """Read a matrix from a file of `SparseMatrix.save`, of ``scipy.sparse.save_npz`` or of Matrix Market.

    Its structure is checked. A file of SciPy's gives the format it has, one of Matrix Market coordinates.

    Raises:
        ArgumentError: the file is damaged, of another format, or expands to much more than it has. Nothing in it is
            unpickled.
        CapacityError: the matrix does not fit into memory.
    """
    try:
        with open_plain(path) as file:
            is_market = file.read(len(BANNER)) == BANNER or str(path).endswith(MARKET)
        if not is_market:
            return _read_npz(path)
        import scipy.io

        return COOMatrix.from_scipy(sp.coo_array(scipy.io.mmread(path)))
    except (FileNotFoundError, PermissionError, IsADirectoryError, CapacityError):
        raise
    except _DAMAGE as error:
        if isinstance(error, ArgumentError) and error.op == "load":
            raise
        if (full := memory.capacity_error("load", error)) is not None:
            raise full from None
        raise ArgumentError(
            op="load",
            argument=f"file {path}",
            got=f"damaged ({error})",
            expected="a file that save, scipy.sparse.save_npz or scipy.io.mmwrite has written",
            hint="Write it again, or take a copy",
        ) from error


def _read_npz(path: str | Path) -> SparseMatrix:
    members = read_arrays(path)
    tag = members.pop("format", np.array(""))
    is_scipys = tag.dtype.kind == "S"
    name, _, dtype = (tag.item().decode("ascii") if is_scipys else str(tag)).partition(" ")
    if name not in KINDS or (not is_scipys and not dtype):
        raise ArgumentError("load", "format", name, f"one of {', '.join(KINDS)}")
    rows, columns = members.pop("shape").tolist()
    shape = (operator.index(rows), operator.index(columns))
    if is_scipys:
        matrix = _build_scipy(name, members, shape)
        return DIAMatrix.from_scipy(matrix) if name == "dia" else sparse("load", "file", matrix)
    arrays = {key: from_numpy(member) for key, member in members.items()}
    values = arrays.pop("values")
    values = values.view(torch.bfloat16) if dtype == "bfloat16" else values
    result: SparseMatrix = KINDS[name](**arrays, values=values, shape=shape)
    return result


def _build_scipy(name: str, members: dict[str, Any], shape: tuple[int, ...]) -> Any:
    """Return the matrix of the arrays that ``scipy.sparse.save_npz`` writes."""
    data = members["data"]
    if name == "dia":
        return sp.dia_array((data, members["offsets"]), shape=shape)
    if name == "coo":
        coordinates = members["coords"] if "coords" in members else (members["row"], members["col"])
        return sp.coo_array((data, tuple(coordinates)), shape=shape)
    kinds = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}
    return kinds[name]((data, members["indices"], members["indptr"]), shape=shape)


# What NumPy, SciPy, their archives and our own checks of a structure raise, depending on which byte is wrong.
_DAMAGE: tuple[type[Exception], ...] = (
    ArithmeticError,
    OSError,
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    RuntimeError,
    MemoryError,
    AttributeError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    SyntaxError,
    tokenize.TokenError,
)

__all__ = ["load", "write"]
