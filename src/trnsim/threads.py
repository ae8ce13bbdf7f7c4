"""One BLAS thread while a kernel runs, and independent launches side by side where cores are idle.

A kernel is hundreds of products of at most 128×128×512. Each would wake every thread of NumPy's BLAS and wait for the
last of them, which costs more than the product, and on a loaded machine a time slice. So a launch runs on the thread it
was called from. Independent launches run two at a time: what is not a product holds Python's lock, so that more threads
only wait for each other.

NumPy has no interface for this. Its BLAS has one, OpenBLAS or MKL; with any other the setting is left alone.
"""

import contextvars
import ctypes
import functools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_OPENBLAS = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")
_MKL = "MKL_{}"

_lock = threading.Lock()
_running = 0
_before = 0


def _libraries() -> list[str]:
    """Return paths of the BLAS libraries this process has loaded."""
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
    """Return functions that get and set the number of threads of NumPy's BLAS; ``None`` when it has none."""
    import numpy as np

    # the library is loaded by the first product
    np.matmul(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
    candidates = [(path, pattern) for path in _libraries() for pattern in (*_OPENBLAS, _MKL)]
    # NumPy's own copy first: SciPy and others may have loaded theirs
    for path, pattern in sorted(candidates, key=lambda f: "numpy" not in f[0]):
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
def one_torch_thread() -> Iterator[None]:
    """Let torch's own loops of the calling thread run there too: conversions around a launch are as small as it is."""
    torch = sys.modules.get("torch")
    before = 1 if torch is None else torch.get_num_threads()
    if torch is None or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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


def _idle() -> int:
    """Return the cores that were idle in the last minute."""
    return int((os.cpu_count() or 1) - os.getloadavg()[0]) if hasattr(os, "getloadavg") else 0


def side_by_side(launch: Callable[[T], R], arguments: Iterable[T]) -> Iterator[R]:
    """``map`` for independent launches: two at a time while two cores are idle, else in turn; results in order."""
    if _idle() < 2:
        yield from map(launch, arguments)
        return
    running: deque[Future[R]] = deque()
    with ThreadPoolExecutor(2) as pool:
        for given in arguments:
            running.append(pool.submit(contextvars.copy_context().run, launch, given))
            if len(running) == 2:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
