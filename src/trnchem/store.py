"""Where B lives between stages: host memory, device memory, or a scratch file."""

import errno
import os
import re
import resource
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnchem.molecules import missing
from trnsci import CapacityError


class Store(ABC):
    """Three-index integrals [nocc, nvir, naux], written by columns, fitted and read by rows."""

    _columns: int

    @abstractmethod
    def put_columns(self, first: int, block: Tensor) -> None:
        """Keep [nocc, nvir, w] from column ``first`` on."""

    @abstractmethod
    def put_rows(self, first: int, rows: Tensor) -> None:
        """Keep fitted rows [n, nvir, vectors] in place of those that were not."""

    def end_fit(self, vectors: int) -> None:
        """End the fit: from now on rows have this many columns."""
        self._columns = vectors

    @abstractmethod
    def rows(self, first: int, last: int, into: Tensor | None = None) -> Tensor:
        """Return rows [last - first, nvir, columns]; what must be read is read ``into`` memory that is given."""

    def columns(self, first: int, last: int) -> Tensor:
        """Return columns [nocc, nvir, last - first]."""
        return self.rows(0, sys.maxsize)[:, :, first:last]


class HostStore(Store):
    """One array in host memory, fitted in place."""

    def __init__(self, shape: tuple[int, int, int], dtype: torch.dtype) -> None:
        self._array, self._columns = torch.empty(shape, dtype=dtype, device="cpu"), shape[2]

    def put_columns(self, first: int, block: Tensor) -> None:
        """Keep a block."""
        self._array[:, :, first : first + block.shape[2]] = block

    def put_rows(self, first: int, rows: Tensor) -> None:
        """Keep fitted rows."""
        self._array[first : first + len(rows), :, : rows.shape[2]] = rows

    def rows(self, first: int, last: int, into: Tensor | None = None) -> Tensor:
        """Return a view."""
        return self._array[first:last, :, : self._columns]


class DeviceStore(Store):
    """Blocks where the products left them: in device memory, or marked so on the simulator."""

    def __init__(self) -> None:
        self._blocks: list[Tensor] = []
        self._rows: list[Tensor] = []

    def put_columns(self, first: int, block: Tensor) -> None:
        """Keep a block."""
        self._blocks.append(block)

    def put_rows(self, first: int, rows: Tensor) -> None:
        """Keep fitted rows."""
        self._rows.append(rows)

    def end_fit(self, vectors: int) -> None:
        """Let go of rows that were not fitted."""
        self._blocks, self._rows = [], [torch.cat(self._rows) if len(self._rows) > 1 else self._rows[0]]

    def rows(self, first: int, last: int, into: Tensor | None = None) -> Tensor:
        """Return rows, fitted ones once every row is."""
        if not self._blocks:
            return self._rows[0][first:last]
        if len(self._blocks) > 1:
            self._blocks = [torch.cat(self._blocks, 2)]
        return self._blocks[0][first:last]


class DiskStore(Store):
    """A dataset of a scratch file, in chunks of one occupied orbital."""

    def __init__(self, dataset: Any, file: Path) -> None:
        self._dataset, self._file, self._columns = dataset, file, dataset.shape[2]
        self._bytes = dataset.size * dataset.dtype.itemsize

    def put_columns(self, first: int, block: Tensor) -> None:
        """Write a block."""
        with full_disk(self._file, self._bytes):
            self._dataset[:, :, first : first + block.shape[2]] = block.contiguous().numpy()

    def put_rows(self, first: int, rows: Tensor) -> None:
        """Write fitted rows."""
        with full_disk(self._file, self._bytes):
            self._dataset[first : first + len(rows), :, : rows.shape[2]] = rows.numpy()

    def rows(self, first: int, last: int, into: Tensor | None = None) -> Tensor:
        """Read rows."""
        if into is None:
            return torch.from_numpy(self._dataset[first:last, :, : self._columns])
        self._dataset.read_direct(into.numpy(), np.s_[first:last, :, : self._columns], np.s_[: last - first])
        return into[: last - first]

    def columns(self, first: int, last: int) -> Tensor:
        """Read columns."""
        return torch.from_numpy(self._dataset[:, :, first:last])


@contextmanager
def scratch(
    shape: tuple[int, int, int], width: int, dtype: torch.dtype, folder: str | Path | None
) -> Iterator[DiskStore]:
    """Yield a store in a file of its own, which has no name: it is gone when the process is, whatever ended it."""
    where = Path(tempfile.gettempdir() if folder is None else folder)
    needed = int(np.prod(shape)) * dtype.itemsize
    free = shutil.disk_usage(where).free
    if free < needed:
        hint = "Free some space, name another folder with scratch=, or give a larger memory= so that B stays there"
        raise CapacityError(f"disk of {where}", needed, free, hint)
    nvir, naux = shape[1:]
    chunks, kind = (1, nvir, min(width, naux)), str(dtype).removeprefix("torch.")
    with full_disk(where / "B.h5", needed), tempfile.TemporaryDirectory(prefix="trnchem-", dir=where) as name:
        # no cache of chunks: every row is read as a whole, and the memory budget counts what is read
        file = h5py().File(Path(name) / "B.h5", "w", rdcc_nbytes=0)
    try:
        yield DiskStore(file.create_dataset("B", shape, kind, chunks=chunks), where / "B.h5")
    finally:
        # on a full disk HDF5 cannot write the rest of a file that is gone next: that must not hide the reason
        with suppress(OSError, RuntimeError):
            file.close()


@contextmanager
def full_disk(
    path: Path, required: int, hint: str = "Free some space, or name another folder", *, end: int | None = None
) -> Iterator[None]:
    """Convert the operating system's refusal to write into CapacityError.

    Args:
        path: the file that is written.
        required: bytes to be written.
        hint: what to do.
        end: size of the file afterwards, which limits on sizes count; ``required`` for a new file.
    """
    try:
        yield
    except OSError as error:
        # HDF5 names the number in its text alone
        named = re.search(r"errno = (\d+)", str(error)) if error.errno is None else None
        number = int(named[1]) if named else error.errno
        if number not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise
        text = f"Writing {path.name} failed: {os.strerror(number)}. {hint}"
        where, free = f"disk of {path.parent}", shutil.disk_usage(path.parent).free
        limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        if number == errno.EFBIG and limit != resource.RLIM_INFINITY:
            raise CapacityError("largest file of this process (ulimit -f)", end or required, limit, text) from error
        if number == errno.EDQUOT:
            raise CapacityError(f"quota on the {where}", required, None, text) from error
        if free >= required and os.statvfs(path.parent).f_favail == 0:
            raise CapacityError(f"new files on the {where}", 1, 0, text, unit="files") from error
        raise CapacityError(where, required, free, text) from error


def h5py() -> Any:
    """Import h5py, or say how to get it."""
    try:
        import h5py
    except ImportError as error:
        raise missing("h5py", error) from None
    return h5py
