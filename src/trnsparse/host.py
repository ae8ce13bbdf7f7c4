"""The compiled loops for host tensors, cut over torch's threads; ``None`` where there are none to call."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trnsci import native

SOURCE = Path(__file__).with_name("loops.c")
NATIVE = (torch.float32, torch.float64, torch.complex64, torch.complex128)
# Products: how many sizes, then how many addresses.
_SIGNATURES = {"spmv": (2, 5), "spmm": (3, 5), "spmmt": (2, 5)}
# Multiply-adds below which a second thread costs more than it brings.
SERIAL = 2_000_000


def loop(stem: str, *tensors: Tensor) -> Any:
    """Return the compiled loop of this name for the tensors' dtype, or ``None``."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return None
    for tensor in tensors:
        if tensor.dtype not in NATIVE or tensor.device.type != "cpu" or tensor.is_conj() or tensor.is_neg():
            return None
    return _function(f"{stem}_{str(tensors[0].dtype).removeprefix('torch.')}")


@functools.cache
def _function(name: str) -> Any:
    library = native.load(SOURCE)
    if library is None:
        return None
    found = getattr(library, name)
    found.restype = ctypes.c_int64
    numbers, pointers = _SIGNATURES.get(name.split("_")[0], (0, 0))
    if pointers:
        # declared, so that plain integers may be passed
        found.argtypes = (ctypes.c_int64,) * numbers + (ctypes.c_void_p,) * pointers
    return found


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="trnsparse")


def over_rows(work: Callable[[int, int], Any], pointers: Tensor, entries: int, width: int) -> None:
    """Call ``work(first, last)`` on ranges of rows that hold equal shares of the entries."""
    rows = pointers.shape[0] - 1
    threads = torch.get_num_threads()
    if threads == 1 or entries * width < SERIAL:
        work(0, rows)
        return
    shares = torch.arange(1, threads, device=pointers.device) * entries // threads
    cuts = [0, *torch.searchsorted(pointers, shares).clamp(max=rows).tolist(), rows]
    others = [_pool(threads).submit(work, *span) for span in pairwise(cuts[1:])]
    work(cuts[0], cuts[1])
    for other in others:
        other.result()


def at(tensor: Tensor) -> ctypes.c_void_p:
    """The address of a contiguous tensor."""
    return ctypes.c_void_p(tensor.data_ptr())


def size(value: int) -> ctypes.c_int64:
    """An integer for C."""
    return ctypes.c_int64(value)
