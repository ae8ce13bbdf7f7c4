"""Short-time transforms on the CPU by the compiled loops: frames are cut, windowed, transformed and added in one go."""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any

import torch
from torch import Tensor

from trnfft.arguments import COMPLEX_OF, REAL_OF, factor
from trnfft.calls import declared
from trnfft.frames import PAD_MODES
from trnfft.host import MANY
from trnfft.jobs import job, suffix

_I, _P, _D = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double
_SIZES = ("signals", "length", "count", "hop", "by", "mode", "columns", "start", "apart", "between", "next")


class _Frames(ctypes.Structure):
    _fields_ = (("job", _P), *((name, _I) for name in _SIZES), ("scale", _D))


class _Made:
    """How frames lie, for one of the two functions; ``run`` takes its address, addresses and the number of threads."""

    __slots__ = ("_keep", "address", "run")

    def __init__(self, name: str, kind: str, n: int, dtype: torch.dtype, scale: str, sizes: dict[str, int]) -> None:
        work = job(kind, n, dtype)
        many = work.columns(sizes["signals"] * sizes["count"], 1)
        made = _Frames(job=work.address, columns=many, scale=factor(scale, n), **sizes)
        self._keep: tuple[Any, ...] = (made, work)
        self.address = ctypes.addressof(made)
        arguments = (_P, _P, _P, _P, _I) if name == "stft" else (_P, _P, _P, _P, _D, _I)
        self.run = declared(f"{name}_{suffix(dtype)}", arguments)


@functools.lru_cache(maxsize=128)
def _forward(
    signals: int,
    length: int,
    count: int,
    n: int,
    hop: int,
    by: int,
    mode: str,
    onesided: bool,
    dtype: torch.dtype,
    scale: str,
) -> _Made:
    sizes = {"signals": signals, "length": length, "count": count, "hop": hop, "by": by, "mode": PAD_MODES.index(mode)}
    return _Made("stft", "r2c" if onesided else "r2cc", n, dtype, scale, sizes)


@functools.lru_cache(maxsize=128)
def _backward(
    signals: int,
    length: int,
    count: int,
    n: int,
    hop: int,
    start: int,
    strides: tuple[int, ...],
    dtype: torch.dtype,
    scale: str,
) -> _Made:
    apart, following, between = strides
    sizes = {"signals": signals, "length": length, "count": count, "hop": hop, "start": start}
    return _Made("istft", "c2r", n, dtype, scale, sizes | {"apart": apart, "between": between, "next": following})


def _threads(numbers: int) -> int:
    return torch.get_num_threads() if numbers >= MANY else 1


def stft(x: Tensor, window: Tensor | None, n: int, hop: int, by: int, mode: str, onesided: bool, scale: str) -> Tensor:
    """Spectra [..., t, k] of real signals [..., l]; frames have at least 2 samples."""
    x = x.contiguous()
    length = x.shape[-1]
    count = (length + 2 * by - n) // hop + 1
    made = _forward(x.numel() // length, length, count, n, hop, by, mode, onesided, x.dtype, scale)
    out = torch.empty(*x.shape[:-1], count, n // 2 + 1 if onesided else n, dtype=COMPLEX_OF[x.dtype])
    window = None if window is None else window.contiguous()
    at = None if window is None else window.data_ptr()
    if made.run(made.address, x.data_ptr(), at, out.data_ptr(), _threads(out.numel())):
        raise MemoryError("no memory for the intermediate results of an stft")
    return out


def istft(
    x: Tensor, window: Tensor | None, n: int, hop: int, start: int, length: int, scale: str, least: float
) -> Tensor | None:
    """Samples from ``start`` on of the signals with these half spectra [..., k, t].

    ``None`` where squares of windows add up to less than ``least`` somewhere.
    """
    x = x.resolve_conj()
    flat = x.reshape(-1, *x.shape[-2:]) if x.ndim != 3 else x
    dtype = REAL_OF[x.dtype]
    made = _backward(flat.shape[0], length, x.shape[-1], n, hop, start, flat.stride(), dtype, scale)
    out = torch.empty(*x.shape[:-2], length, dtype=dtype)
    window = None if window is None else window.contiguous()
    at = None if window is None else window.data_ptr()
    failed = made.run(made.address, flat.data_ptr(), at, out.data_ptr(), least, _threads(math.prod(flat.shape)))
    if failed == 1:
        raise MemoryError("no memory for the intermediate results of an istft")
    return None if failed else out
