"""The cache folder: private to this user, refused when it is not, and never a source of anything that is executed."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from trnsci import config
from trnsci.errors import ArgumentError

# Bytes of a file that are read at most.
_MOST = 16 << 20


def folder() -> Path:
    """Return the cache folder, made for this user alone where there is none.

    Raises:
        ArgumentError: it belongs to another user or is behind a link of one, others may write it, or it cannot be made.
    """
    with _open_folder(create=True):
        return config.CACHE_DIR.get()


def read(name: str) -> str | None:
    """Return the text of a file in the cache folder, or ``None`` where there is none.

    Raises:
        ArgumentError: the folder or the file belongs to another user, or others may write it.
    """
    path = config.CACHE_DIR.get() / name
    try:
        with _open_folder(create=False) as where:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=where)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _folder_error(path, "a link", "a plain file") from None
        return None
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if exposed := find_exposure(about):
            raise _folder_error(path, *exposed)
        if not stat.S_ISREG(about.st_mode):
            return None
        if about.st_size > _MOST:
            raise _folder_error(path, f"a file of {about.st_size} bytes", f"at most {_MOST}")
        return file.read(_MOST).decode(errors="replace")


def write(name: str, text: str) -> Path:
    """Put a file into the cache folder, whole or not at all, readable by this user alone; return its path."""
    fresh = f".{name}-{secrets.token_hex(16)}.partial"
    with _open_folder(create=True) as where:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=where)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(fresh, name, src_dir_fd=where, dst_dir_fd=where)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(fresh, dir_fd=where)
            raise
    return config.CACHE_DIR.get() / name


@contextlib.contextmanager
def _open_folder(*, create: bool) -> Iterator[int]:
    """Yield a descriptor of the cache folder: what was checked is used, whatever its name comes to mean."""
    path = config.CACHE_DIR.get()
    for part in (path, *path.parents):
        if (link := _foreign_link(part)) is not None:
            raise _folder_error(path, f"behind the link {part} of user {link}", "a folder no other user leads to")
    try:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        if not create and isinstance(error, OSError):
            raise
        raise _folder_error(path, getattr(error, "strerror", None) or str(error), "a folder that can be made") from None
    try:
        if exposed := find_exposure(os.fstat(descriptor)):
            raise _folder_error(path, *exposed)
        yield descriptor
    finally:
        os.close(descriptor)


def _foreign_link(path: Path) -> int | None:
    """Return the user who made a link, unless that is root or this user, or it is no link."""
    try:
        about = path.lstat()
    except (OSError, ValueError):
        return None
    return about.st_uid if stat.S_ISLNK(about.st_mode) and about.st_uid not in (0, os.geteuid()) else None


def find_exposure(about: os.stat_result) -> tuple[str, str] | None:
    """Return how a file or folder may be another user's work, and what is expected; ``None`` if it is this user's."""
    if about.st_uid != os.geteuid():
        return f"owned by user {about.st_uid}", f"owned by user {os.geteuid()}, who runs this"
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"writable by others (mode {stat.S_IMODE(about.st_mode):o})", "writable by its owner alone"
    return None


def _folder_error(path: Path, got: str, expected: str) -> ArgumentError:
    hint = f"Run chmod go-w {path}, or name another folder with {config.CACHE_DIR.name}"
    return ArgumentError("trnsci", f"cache {path}", got, expected, hint=hint)
