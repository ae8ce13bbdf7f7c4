"""One BLAS thread while a kernel runs.

A kernel is hundreds of products of at most 128×128×512. Each would wake every thread of NumPy's BLAS and wait for the
last of them, which costs more than the product, and on a loaded machine a time slice. So a launch runs on the thread it
was called from; independent launches can run on threads of their own, side by side.

NumPy has no interface for this. Its BLAS has one, OpenBLAS or MKL; with any other the setting is left alone.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_OPENBLAS = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")
_MKL = "MKL_{}"

_lock = threading.Lock()
_running = 0
_before = 0


def _libraries() -> list[str]:
    """Paths of the BLAS libraries this process has loaded."""
    if sys.platform == "linux":
        lines = Path("/proc/self/maps").read_text().splitlines()
        paths = {line.split(maxsplit=5)[5] for line in lines if line.count(" ") >= 5 and "/" in line}
    else:
        import numpy

        folder = Path(numpy.__file__).parent
        paths = {str(p) for where in (folder / ".dylibs", folder.parent / "numpy.libs") for p in where.glob("*")}
    names = ("openblas", "mkl_rt")
    return sorted(p for p in paths if any(name in Path(p).name for name in names))


@functools.cache
def _controls() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Functions that get and set the number of threads of NumPy's BLAS; ``None`` when it has none."""
    import numpy as np

    # the library is loaded by the first product
    np.matmul(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
    found = [(path, pattern) for path in _libraries() for pattern in (*_OPENBLAS, _MKL)]
    # NumPy's own copy first: SciPy and others may have loaded theirs
    for path, pattern in sorted(found, key=lambda f: "numpy" not in f[0]):
        mkl = pattern == _MKL
        try:
            library = ctypes.CDLL(path)
            get = getattr(library, pattern.format("Get_Max_Threads" if mkl else "get_num_threads"))
            put = getattr(library, pattern.format("Set_Num_Threads" if mkl else "set_num_threads"))
        except (OSError, AttributeError):
            continue
        get.restype, get.argtypes = ctypes.c_int, []
        put.restype, put.argtypes = None, [ctypes.c_int]
        return get, put
    return None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let NumPy's products run on the calling thread; the last launch to end restores the number of threads."""
    global _before, _running
    controls = _controls()
    if controls is None:
        yield
        return
    get, put = controls
    with _lock:
        if not _running:
            _before = get()
            put(1)
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                put(_before)
