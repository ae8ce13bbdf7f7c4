"""The cache folder: private to this user, refused when it is not, and never a source of anything that is executed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path

from trnsci import config
from trnsci.errors import ArgumentError


def folder() -> Path:
    """Return the cache folder, made for this user alone where there is none.

    Raises:
        ArgumentError: it belongs to another user, others may write into it, or it cannot be made.
    """
    path = config.CACHE_DIR.get()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        about = path.stat()
    except OSError as error:
        raise _refused(path, error.strerror or str(error), "a folder that can be made") from None
    _private(path, about)
    return path


def read(name: str) -> str | None:
    """Return the text of a file in the cache folder, or ``None`` where there is none.

    Raises:
        ArgumentError: the folder or the file belongs to another user, or others may write it.
    """
    path = config.CACHE_DIR.get() / name
    try:
        _private(path.parent, path.parent.stat())
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _refused(path, "a link", "a plain file") from None
        return None
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        _private(path, about)
        return file.read().decode(errors="replace") if stat.S_ISREG(about.st_mode) else None


def write(name: str, text: str) -> Path:
    """Put a file into the cache folder, whole or not at all, readable by this user alone; return its path."""
    path = folder() / name
    descriptor, fresh = tempfile.mkstemp(prefix=f"{name}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(fresh).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(fresh).unlink()
        raise
    return path


def _private(path: Path, about: os.stat_result) -> None:
    if about.st_uid != os.geteuid():
        raise _refused(path, f"owned by user {about.st_uid}", f"owned by user {os.geteuid()}, who runs this")
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        got = f"writable by others (mode {stat.S_IMODE(about.st_mode):o})"
        raise _refused(path, got, "writable by its owner alone")


def _refused(path: Path, got: str, expected: str) -> ArgumentError:
    hint = f"Run chmod go-w {path}, or name another folder with {config.CACHE_DIR.name}"
    return ArgumentError("trnsci", f"cache {path}", got, expected, hint=hint)
