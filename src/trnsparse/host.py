"""The compiled incomplete factorisations for host tensors; ``None`` where there are none to call."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trnsci import native

NATIVE = (torch.float32, torch.float64, torch.complex64, torch.complex128)
# Arguments of the loops: i for an integer, p for the address of a tensor. They exist for each dtype.
_ARGUMENTS = {"ilu0": "ipppppp", "ic0": "ipppp"}


def loop(stem: str, *tensors: Tensor) -> Any:
    """Return the compiled loop of this name for the tensors' dtype, or ``None``."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return None
    for tensor in tensors:
        if tensor.dtype not in NATIVE or not tensor.is_cpu or tensor.is_conj() or tensor.is_neg():
            return None
    return _function(f"{stem}_{str(tensors[0].dtype).removeprefix('torch.')}", _ARGUMENTS[stem])


@functools.cache
def _function(name: str, arguments: str) -> Any:
    library = native.load(Path(__file__).with_name("factors.c"))
    if library is None:
        return None
    function = getattr(library, name)
    function.restype = ctypes.c_int64
    # declared, so that plain integers may be passed
    kinds = {"i": ctypes.c_int64, "p": ctypes.c_void_p}
    function.argtypes = [kinds[kind] for kind in arguments]
    return function


def at(*tensors: Tensor) -> tuple[int, ...]:
    """The addresses of contiguous tensors."""
    return tuple(tensor.data_ptr() for tensor in tensors)
