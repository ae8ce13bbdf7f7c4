"""Files that survive a crash: whole when they appear, on the disk when they are said to be, and of one writer.

A file is written under a temporary name, which holds the digest of its final name and a random token. The writer locks
the file itself, before it has its final name, so there is no lock file that could be somebody else's.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
from pathlib import Path

# Every temporary file begins with this; a checkpoint may not.
PREFIX = ".trnchem-"
_SUFFIX = ".partial"
# what a file system answers that cannot synchronise a folder, and one that has no second names for a file
_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
_CANNOT_LINK = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class Files:
    """Calls of a checkpoint to the operating system. Tests put one in its place that fails, or loses power."""

    def create(self, path: Path) -> tuple[int, Path]:
        """Create and lock a temporary file in the folder of ``path``; return its descriptor and its path."""
        while True:
            fresh = path.with_name(f"{_own_prefix(path)}{secrets.token_hex(16)}{_SUFFIX}")
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(fresh, flags, 0o600)
            try:
                # another process may have removed it before it was locked, as if its owner had died
                if lock(descriptor) and has_name(descriptor, fresh):
                    return descriptor, fresh
            except OSError:
                os.close(descriptor)
                fresh.unlink(missing_ok=True)
                raise
            os.close(descriptor)

    def open(self, path: Path) -> int:
        """Open a file to read and write; a link is refused, and a pipe does not block."""
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)

    def reserve(self, descriptor: int, size: int) -> None:
        """Take the space of a file now, so that a disk that fills up later does not matter."""
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno not in _CANNOT_SYNC:
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

    def publish(self, fresh: Path, path: Path) -> None:
        """Give a temporary file its name, in one step, and synchronise the folder.

        Raises:
            FileExistsError: the name is taken. Its file stays as it is.
        """
        try:
            os.link(fresh, path)
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
            # a file system without links: somebody who takes the name between these two lines loses the file
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
            fresh.rename(path)
        else:
            fresh.unlink()
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _CANNOT_SYNC:
                raise
        finally:
            os.close(descriptor)


def _own_prefix(path: Path) -> str:
    return f"{PREFIX}{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:32]}-"


def remove_partials(path: Path) -> None:
    """Delete the temporary files of ``path`` that dead processes of this user left behind, and no other file."""
    pattern = re.compile(re.escape(_own_prefix(path)) + r"[0-9a-f]{32}" + re.escape(_SUFFIX))
    # a folder that cannot be listed or written keeps them
    with contextlib.suppress(OSError):
        for each in path.parent.iterdir():
            if pattern.fullmatch(each.name):
                _remove_partial(each)


def _remove_partial(fresh: Path) -> None:
    try:
        descriptor = os.open(fresh, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        # a link, a folder, somebody else's, or gone
        return
    try:
        about = os.fstat(descriptor)
        if stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and lock(descriptor):
            fresh.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def lock(descriptor: int) -> bool:
    """Take the right to write a file; ``False`` if another process has it. The system takes it back at its death."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def has_name(descriptor: int, path: Path) -> bool:
    """Return whether ``path`` names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
