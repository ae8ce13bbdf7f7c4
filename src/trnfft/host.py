"""Real transforms on the CPU through complex ones of half the length; compiled passes (``loops.c``) on either side.

A complex transform of n / 2 points costs half of one of n, and vendors' real transforms of a few long rows often cost
more than both. Without a C compiler, or with ``TRNSCI_NATIVE=0``, nothing here is used.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnfft.arguments import COMPLEX_OF
from trnfft.tables import roots
from trnsci import native

SOURCE = Path(__file__).with_name("loops.c")
# Points from which the passes pay: around cosine and sine transforms, and in place of the vendor's real transforms.
LEAST = 1024
LONG = 16384
# Bytes of a group of rows that stays in the cache of a core with its intermediate results.
GROUP = 1 << 19

Fft = Callable[[Tensor], Tensor]
_KINDS = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_I, _P = ctypes.c_int64, ctypes.c_void_p
_SIGNATURES = {
    "r2c": (_I, _I, _P, _P, ctypes.c_double, _P),
    "c2r": (_I, _I, _P, _P, ctypes.c_double, _P),
    "fold": (_I, _I, ctypes.c_int, _P, _P),
    "unfold": (_I, _I, ctypes.c_int, _P, _P),
    "type2": (_I, _I, ctypes.c_int, _P, _P, _P, ctypes.c_double, _P),
    "type3": (_I, _I, ctypes.c_int, _P, _P, _P, ctypes.c_double, _P),
}


@functools.cache
def _loop(name: str, dtype: torch.dtype) -> Any:
    # only asked for after `takes` has said yes
    library = native.load(SOURCE)
    assert library is not None
    found = getattr(library, f"{name}_{str(dtype).removeprefix('torch.')}")
    found.argtypes, found.restype = _SIGNATURES[name], None
    return found


def takes(x: Tensor, n: int) -> bool:
    """Whether rows of n real points, or their half spectra, may go through the passes."""
    plain = type(x) is Tensor and x.device.type == "cpu" and x.dtype in _KINDS
    return plain and n % 2 == 0 and n >= LEAST and native.why_not() is None


@functools.lru_cache(maxsize=64)
def _table(n: int, count: int, dtype: torch.dtype) -> Tensor:
    """``exp(-2 pi i k / n)`` for k < count."""
    return torch.from_numpy(roots(np.arange(count), n, -1)).to(COMPLEX_OF[dtype])


def _groups(rows: int, n: int, size: int) -> list[slice]:
    step = max(1, GROUP // (n * size))
    return [slice(at, min(at + step, rows)) for at in range(0, rows, step)]


def r2c(x: Tensor, scale: float) -> Tensor:
    """Half spectra [..., n / 2 + 1] of real rows [..., n]."""
    n = x.shape[-1]
    flat = torch.view_as_complex(x.contiguous().reshape(-1, n // 2, 2))
    out = torch.empty((flat.shape[0], n // 2 + 1), dtype=flat.dtype)
    table, loop = _table(n, n // 2, x.dtype), _loop("r2c", x.dtype)
    for here in _groups(flat.shape[0], n, x.element_size()):
        z = torch.fft.fft(flat[here])
        loop(z.shape[0], n // 2, z.data_ptr(), table.data_ptr(), scale, out[here].data_ptr())
    return out.reshape(*x.shape[:-1], n // 2 + 1)


def c2r(x: Tensor, n: int, scale: float, dtype: torch.dtype) -> Tensor:
    """Real rows [..., n] of half spectra [..., n / 2 + 1]; ``scale`` multiplies the unnormalised inverse."""
    flat = x.resolve_conj().contiguous().reshape(-1, n // 2 + 1)
    out = torch.empty((flat.shape[0], n // 2), dtype=x.dtype)
    table, loop = _table(n, n // 2, dtype), _loop("c2r", dtype)
    for here in _groups(flat.shape[0], n, dtype.itemsize):
        z = out[here]
        loop(z.shape[0], n // 2, flat[here].data_ptr(), table.data_ptr(), scale, z.data_ptr())
        z.copy_(torch.fft.ifft(z, norm="forward"))
    return torch.view_as_real(out).reshape(*x.shape[:-1], n)


def type2(x: Tensor, factor: float, sine: bool, fft: Fft) -> Tensor:
    """The cosine (or sine) transform of type 2 of rows [..., n]; ``fft`` transforms complex rows."""
    n = x.shape[-1]
    flat, made = x.contiguous().reshape(-1, n), torch.empty((x.numel() // n, n), dtype=x.dtype)
    w, p = _table(n, n // 2, x.dtype).data_ptr(), _table(4 * n, n // 2 + 1, x.dtype).data_ptr()
    fold, finish = _loop("fold", x.dtype), _loop("type2", x.dtype)
    groups = _groups(flat.shape[0], n, x.element_size())
    folded = torch.empty((groups[0].stop, n // 2), dtype=COMPLEX_OF[x.dtype])
    for here in groups:
        rows = here.stop - here.start
        fold(rows, n, sine, flat[here].data_ptr(), folded.data_ptr())
        z = fft(folded[:rows])
        finish(rows, n // 2, sine, z.data_ptr(), w, p, factor, made[here].data_ptr())
    return made.reshape(x.shape)


def type3(x: Tensor, factor: float, sine: bool, ifft: Fft) -> Tensor:
    """The cosine (or sine) transform of type 3 of rows [..., n]; ``ifft`` is the inverse, without a factor."""
    n = x.shape[-1]
    flat, made = x.contiguous().reshape(-1, n), torch.empty((x.numel() // n, n), dtype=x.dtype)
    w, p = _table(n, n // 2, x.dtype).data_ptr(), _table(4 * n, n // 2 + 1, x.dtype).data_ptr()
    begin, unfold = _loop("type3", x.dtype), _loop("unfold", x.dtype)
    groups = _groups(flat.shape[0], n, x.element_size())
    z = torch.empty((groups[0].stop, n // 2), dtype=COMPLEX_OF[x.dtype])
    for here in groups:
        rows = here.stop - here.start
        begin(rows, n // 2, sine, flat[here].data_ptr(), w, p, factor, z.data_ptr())
        folded = ifft(z[:rows])
        unfold(rows, n, sine, folded.data_ptr(), made[here].data_ptr())
    return made.reshape(x.shape)
