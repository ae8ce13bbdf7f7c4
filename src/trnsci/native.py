"""Small C helpers for host loops that torch cannot express in one pass.

A source file shipped with a library is compiled once with the machine's C compiler into the cache directory and loaded
with ctypes. Without a compiler, or with ``TRNSCI_NATIVE=0``, `load` returns ``None`` and the caller takes its
pure-torch path, which gives the same bits; so it does, with a warning, where the compiler fails.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import platform
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

from trnsci import config

FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-ffp-contract=off", "-fPIC", "-shared", "-pthread")


@functools.cache
def compiler() -> str | None:
    """The C compiler used, or ``None``."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def why_not() -> str | None:
    """Why helpers are not compiled here, or ``None`` when they are."""
    if not config.NATIVE.get():
        return f"{config.NATIVE.name}=0"
    return None if compiler() else "no C compiler (cc, gcc or clang) on this machine"


def load(source: Path) -> ctypes.CDLL | None:
    """The compiled form of a C file, or ``None`` where helpers cannot be or are not to be compiled."""
    return None if why_not() else _load(source)


@functools.cache
def _load(source: Path) -> ctypes.CDLL | None:
    found = compiler()
    assert found is not None
    try:
        return _from_cache(found, source)
    except (OSError, subprocess.CalledProcessError) as error:
        said = str(getattr(error, "stderr", None) or error).strip()
        warnings.warn(
            f"{found} made nothing loadable of {source.name}, so slower PyTorch code runs instead: {said[:500]}. "
            f"Mend the compiler, or set {config.NATIVE.name}=0 to do without it.",
            RuntimeWarning,
            stacklevel=3,
        )
        return None


def _from_cache(found: str, source: Path) -> ctypes.CDLL:
    # the headers it may include lie beside it
    text = b"".join(path.read_bytes() for path in [source, *sorted(source.parent.glob("*.h"))])
    key = hashlib.sha256(
        b"\0".join([text, _version(found), platform.processor().encode(), _cpu(), *map(str.encode, FLAGS)])
    )
    built = config.CACHE_DIR.get() / "native" / f"{source.stem}-{key.hexdigest()[:20]}.so"
    try:
        return ctypes.CDLL(str(built)) if built.exists() else _built(found, source, built)
    except OSError:
        # the cache cannot be written, or nothing in it may be loaded: every process builds for itself, and what is
        # loaded needs its file no longer
        with tempfile.TemporaryDirectory() as folder:
            return _built(found, source, Path(folder) / built.name)


def _built(found: str, source: Path, built: Path) -> ctypes.CDLL:
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
        made = Path(scratch) / built.name
        subprocess.run([found, *FLAGS, "-o", str(made), str(source), "-lm"], check=True, capture_output=True, text=True)
        # a rename is atomic, so processes that build at the same time both end with a whole file
        made.replace(built)
    return ctypes.CDLL(str(built))


def _version(found: str) -> bytes:
    return subprocess.run([found, "--version"], check=True, capture_output=True).stdout


def _cpu() -> bytes:
    """What ``-march=native`` depends on, so that a cache shared between machines never serves foreign instructions."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.machine().encode()
    lines = info.read_bytes().split(b"\n")
    return next((line for line in lines if line.startswith((b"flags", b"Features"))), b"")
