"""The reader of ``.npz`` archives: sizes are checked against each other, the file and the memory before any is used."""

from __future__ import annotations

import math
import os
import stat
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from trnsci.errors import ArgumentError, CapacityError
from trnsci.memory import free_bytes

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
