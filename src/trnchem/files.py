"""Files that survive a crash: whole when they appear, on the disk when they are said to be, and of one writer."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import tempfile
from pathlib import Path

from trnsci import ArgumentError

# what a file system answers that cannot synchronise a folder
_CANNOT = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


class Files:
    """What a checkpoint asks of the operating system. Tests put one in its place that fails, or loses power."""

    def create(self, path: Path) -> tuple[int, Path]:
        """Open a new file beside ``path``, under a name nobody else has; return its descriptor and its path."""
        descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".new", dir=path.parent)
        return descriptor, Path(name)

    def open(self, path: Path) -> int:
        """Open a file to read and write; a link is refused, and a pipe does not block."""
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)

    def reserve(self, descriptor: int, size: int) -> None:
        """Take the space of a file now, so that a disk that fills up later does not matter."""
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            os.ftruncate(descriptor, size)

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        """Write all of the data."""
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view, offset)
            view, offset = view[written:], offset + written

    def sync(self, descriptor: int) -> None:
        """Return when what was written is on the disk."""
        os.fsync(descriptor)

    def replace(self, fresh: Path, path: Path) -> None:
        """Give a file its name, in one step, and have the folder that says so on the disk."""
        fresh.replace(path)
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
        finally:
            os.close(descriptor)


class Lock:
    """The right to write a file, which the operating system takes back from a process that dies.

    The file beside it says who has it: process and host.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, path.with_name(f"{path.name}.lock")
        self._descriptor = self._take()
        # A full disk has no room for the name, and the lock holds without it: the checkpoint has its space already.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def _take(self) -> int:
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            try:
                descriptor = os.open(self._lock, flags, 0o600)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENXIO):
                    raise
                raise self._refused("not a plain file", "one that this program wrote") from None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 300, 0).decode(errors="replace").strip() or "another process"
                os.close(descriptor)
                raise self._refused(f"in use by {holder}", "a file that nobody else writes") from None
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), self._lock.lstat()):
                    return descriptor
            # whoever had it has deleted it since
            os.close(descriptor)

    def _refused(self, got: str, expected: str) -> ArgumentError:
        hint = f"Wait for that calculation, or name another file ({self._lock.name} says who has this one)"
        return ArgumentError("dfmp2", f"checkpoint {self._path}", got, expected, hint=hint)

    def release(self) -> None:
        """Let somebody else write."""
        self._lock.unlink(missing_ok=True)
        os.close(self._descriptor)
