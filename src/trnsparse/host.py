"""The compiled loops for host tensors, cut over torch's threads; ``None`` where there are none to call."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci import native

NATIVE = (torch.float32, torch.float64, torch.complex64, torch.complex128)
# Multiply-adds below which a second thread costs more than it brings.
SERIAL = 2_000_000
# Entries from which reading their columns takes so long that a copy in 32 bits is worth its memory.
MANY = 1 << 16
# Bytes from which memory comes from NumPy, which asks for large pages from there on.
LARGE = 1 << 22
_DTYPES: dict[torch.dtype, Any] = {
    torch.float32: np.float32,
    torch.float64: np.float64,
    torch.complex64: np.complex64,
    torch.complex128: np.complex128,
    torch.int64: np.int64,
}
# Arguments of the loops: i for an integer, d for a real number, p for the address of a tensor. Those over values
# exist for each dtype.
_VALUES = {
    "spmv": "iiippppp",
    "spmvt": "iiippppp",
    "spmm": "iiippppp",
    "spmmt": "iiippppp",
    "bsrmv": "iiiiiiippppp",
    "bsrmm": "iiiiiiippppp",
    "bsrmmt": "iiiiiiippppp",
    "sddmm": "iiippppp",
    "softmax": "iippp",
    "trsm": "iiiipppp",
    "ilu0": "ipppppp",
    "ic0": "ipppp",
    "cg": "iipppppppp",
    "fixed": "iipppppppp",
    "power": "iipppppppp",
    "spgemm": "ipppppppppppp",
}
_INDICES = {
    "sorted": "iiipppppppp",
    "turned": "iippppp",
    "falls": "ipp",
    "unsorted": "ipp",
    "sound": "iiipp",
    "blocks": "iiipppppp",
    "reached": "ipppppp",
    "united": "iipppppppp",
    "kept": "ipppppp",
    "cuthill": "ippppp",
}

_SOURCES = {
    "softmax": "softmax.c",
    "spgemm": "patterns.c",
    "trsm": "factors.c",
    "ilu0": "factors.c",
    "ic0": "factors.c",
}


def loop(stem: str, *tensors: Tensor) -> Any:
    """Return the compiled loop of this name for the tensors' dtype, or ``None``."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return None
    for tensor in tensors:
        if tensor.dtype not in NATIVE or not tensor.is_cpu or tensor.is_conj() or tensor.is_neg():
            return None
    return over_values(stem, tensors[0].dtype)


@functools.cache
def over_values(stem: str, dtype: torch.dtype, narrow: bool = False) -> Any:
    """Return the compiled loop of this name for values of a dtype, or ``None``; ``narrow`` takes columns of 32 bits."""
    source = _SOURCES.get(stem, "loops.c")
    name = f"{stem}_{str(dtype).removeprefix('torch.')}" + "_narrow" * narrow
    return _function(source, name, _VALUES[stem])


@functools.cache
def direct() -> Any:
    """Return the function that runs a prepared product, or ``None``: it has fewer arguments to convert."""
    found = _function("loops.c", "direct", "ppp")
    if found is not None:
        found.restype = None
    return found


@functools.cache
def blend(dtype: torch.dtype) -> Any:
    """Return the function for ``alpha y + beta c`` in the place of y, of as many real numbers as there are."""
    real = "float64" if dtype in (torch.float64, torch.complex128) else "float32"
    return _function("loops.c", f"blend_{real}", "iddpp")


def address(found: Any) -> int:
    """Where a compiled function is."""
    return ctypes.cast(found, ctypes.c_void_p).value or 0


def product(columns: int, trans: bool) -> str:
    """The name of the loop that multiplies by this many columns."""
    return ("spmvt" if trans else "spmv") if columns == 1 else "spmmt" if trans else "spmm"


def plain(tensor: Tensor) -> bool:
    """Whether a tensor's host memory holds its elements as they are, in order. It stays so."""
    return tensor.is_cpu and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def over_indices(name: str, *indices: Tensor) -> Any:
    """Return a compiled loop over int64 indices, or ``None``."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return None
    for index in indices:
        if type(index) is not Tensor or not index.is_cpu or index.dtype != torch.int64 or not index.is_contiguous():
            return None
    return _function("patterns.c", name, _INDICES[name])


@functools.cache
def _function(source: str, name: str, arguments: str) -> Any:
    library = native.load(Path(__file__).with_name(source))
    if library is None:
        return None
    found = getattr(library, name)
    found.restype = ctypes.c_int64
    # declared, so that plain integers may be passed
    kinds = {"i": ctypes.c_int64, "d": ctypes.c_double, "p": ctypes.c_void_p}
    found.argtypes = [kinds[kind] for kind in arguments]
    return found


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="trnsparse")


def empty(sizes: int | tuple[int, ...], like: Tensor) -> Tensor:
    """Memory for a result, of the dtype and device of a tensor."""
    return torch.from_numpy(np.empty(sizes, _DTYPES[like.dtype])) if _large(sizes, like) else like.new_empty(sizes)


def zeros(sizes: int | tuple[int, ...], like: Tensor) -> Tensor:
    """Zeros for a result, of the dtype and device of a tensor."""
    return torch.from_numpy(np.zeros(sizes, _DTYPES[like.dtype])) if _large(sizes, like) else like.new_zeros(sizes)


def _large(sizes: int | tuple[int, ...], like: Tensor) -> bool:
    """Whether memory comes from NumPy, which asks for large pages: touching it first is several times cheaper."""
    count = sizes if isinstance(sizes, int) else math.prod(sizes)
    # no element takes more than 16 bytes
    if 16 * count < LARGE or count * like.element_size() < LARGE or like.dtype not in _DTYPES:
        return False
    return type(like) is Tensor and like.is_cpu and torch._C._functorch.peek_interpreter_stack() is None


def over_rows(work: Callable[[int, int], Any], pointers: Tensor, entries: int, width: int) -> None:
    """Call ``work(first, last)`` on ranges of rows that hold equal shares of the entries."""
    rows = pointers.shape[0] - 1
    threads = torch.get_num_threads()
    if threads == 1 or entries * width < SERIAL:
        work(0, rows)
        return
    shares = torch.arange(1, threads, device=pointers.device) * entries // threads
    cuts = [0, *torch.searchsorted(pointers, shares).clamp(max=rows).tolist(), rows]
    _together(work, cuts)


def over(work: Callable[[int, int], Any], count: int, width: int) -> None:
    """Call ``work(first, last)`` on equal shares of ``count`` things that take ``width`` multiply-adds each."""
    threads = min(torch.get_num_threads(), count)
    if threads < 2 or count * width < SERIAL:
        work(0, count)
        return
    cuts = [count * thread // threads for thread in range(threads + 1)]
    _together(work, cuts)


def _together(work: Callable[[int, int], Any], cuts: list[int]) -> None:
    others = [_pool(len(cuts) - 1).submit(work, *span) for span in pairwise(cuts[1:])]
    work(cuts[0], cuts[1])
    for other in others:
        other.result()


def at(*tensors: Tensor) -> tuple[int, ...]:
    """The addresses of contiguous tensors."""
    return tuple(tensor.data_ptr() for tensor in tensors)
