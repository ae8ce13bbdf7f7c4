"""The compiled host loops (``native/``): where they run, and how they are called."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from trnrand.engines import Engine
from trnsci import native

SOURCE = Path(__file__).parent / "native" / "trnrand.c"
WORDS, UNIFORM32, UNIFORM64, NORMAL32, NORMAL64 = range(5)
LOG, EXP, SIN_TURN, COS_TURN = range(4)

_I, _U64, _I64, _P, _F = ctypes.c_int, ctypes.c_uint64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_double
_LARGE = 1 << 20
_NUMPY = {
    torch.uint32: np.uint32, torch.int64: np.int64, torch.float32: np.float32, torch.float64: np.float64,
    torch.bool: np.bool_,
}  # fmt: skip
# what the laws of one uniform are written as
RESULTS = {torch.float32: 0, torch.float64: 1, torch.int64: 2, torch.bool: 3}
_SIGNATURES = {
    "trnrand_fill": (_I, _I, _P, _P, _U64, _U64, _P, _I),
    "trnrand_gamma": (_I, _P, _P, _U64, _U64, _P, _I64, _P, _I),
    "trnrand_poisson": (_I, _P, _P, _U64, _U64, _P, _I64, _P, _I),
    "trnrand_binomial": (_I, _P, _P, _U64, _U64, _P, _I64, _P, _I64, _P, _I),
    "trnrand_inverse": (_I, _I, _P, _P, _U64, _U64, _F, _F, _I, _P, _I),
    "trnrand_randint": (_I, _P, _P, _P, _U64, _U64, _U64, _I64, _P, _I),
    "trnrand_map": (_I, _P, _P, _U64, _I),
    "trnrand_sobol": (_I, _P, _I, _U64, _U64, _P, _I),
    "trnrand_halton": (_I, _P, _I, _U64, _U64, _P, _I),
}


def helper(device: torch.device) -> ctypes.CDLL | None:
    """The compiled loops, for tensors of the CPU; ``None`` elsewhere and where `trnsci.native.why_not` has a reason."""
    return _declared(native.load(SOURCE)) if device.type == "cpu" else None


@functools.cache
def _declared(library: ctypes.CDLL | None) -> ctypes.CDLL | None:
    if library is not None:
        for name, arguments in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, None
    return library


def words(values: Sequence[int]) -> ctypes.Array[ctypes.c_uint32]:
    """A C array of uint32."""
    return (ctypes.c_uint32 * len(values))(*values)


def empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str = "cpu") -> Tensor:
    """Fresh memory; large arrays of the CPU are NumPy's, which asks for huge pages and so is cheaper to touch first."""
    if torch.device(device).type != "cpu" or math.prod(shape) < _LARGE or torch.compiler.is_compiling():
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.empty(shape, _NUMPY[dtype]))


def fill(
    library: ctypes.CDLL, kind: int, engine: Engine, key: Sequence[int], base: Sequence[int], first: int, out: Tensor
) -> None:
    """Write elements ``first ...`` of a stream into a contiguous tensor of the CPU."""
    threads = torch.get_num_threads()
    library.trnrand_fill(kind, engine.number, words(key), words(base), first, out.numel(), out.data_ptr(), threads)


def sampler(
    library: ctypes.CDLL,
    name: str,
    engine: Engine,
    key: Sequence[int],
    base: Sequence[int],
    first: int,
    parameter: Tensor,
    count: int,
) -> Tensor:
    """``count`` gamma or Poisson variates as float64; ``parameter`` is float64, of one element or of ``count``."""
    parameter = parameter.contiguous()
    out = empty((count,), torch.float64)
    step = 1 if parameter.numel() == count else 0
    getattr(library, f"trnrand_{name}")(
        engine.number,
        words(key),
        words(base),
        first,
        count,
        parameter.data_ptr(),
        step,
        out.data_ptr(),
        torch.get_num_threads(),
    )
    return out


def binomial(
    library: ctypes.CDLL,
    engine: Engine,
    key: Sequence[int],
    base: Sequence[int],
    stride: int,
    n: Tensor,
    p: Tensor,
    count: int,
) -> Tensor:
    """``count`` binomial counts as float64 from every ``stride``-th substream.

    ``n`` and ``p`` are float64, of one element or of ``count``.
    """
    given = [x.contiguous() for x in (n, p)]
    pointers = [part for x in given for part in (x.data_ptr(), 1 if x.numel() == count else 0)]
    out = empty((count,), torch.float64)
    threads = torch.get_num_threads()
    library.trnrand_binomial(
        engine.number, words(key), words(base), stride - 1, count, *pointers, out.data_ptr(), threads
    )
    return out


def inverse(
    library: ctypes.CDLL,
    law: int,
    parameters: Sequence[float],
    engine: Engine,
    key: Sequence[int],
    base: Sequence[int],
    first: int,
    out: Tensor,
) -> None:
    """Write a law of one uniform (`trnrand.inverse`), of one or two parameters, into a contiguous tensor."""
    a, b = parameters if len(parameters) == 2 else (parameters[0], 0.0)
    kind, count, threads = RESULTS[out.dtype], out.numel(), torch.get_num_threads()
    library.trnrand_inverse(
        law, engine.number, words(key), words(base), first, count, a, b, kind, out.data_ptr(), threads
    )


def integers(
    library: ctypes.CDLL,
    engine: Engine,
    key: Sequence[int],
    base: Sequence[int],
    other: Sequence[int],
    first: int,
    span: int,
    low: int,
    count: int,
) -> Tensor:
    """``count`` integers from ``low``, below ``low + span``; ``other`` is the counter of the substreams."""
    out = empty((count,), torch.int64)
    library.trnrand_randint(
        engine.number,
        words(key),
        words(base),
        words(other),
        first,
        count,
        span % (1 << 64),
        low,
        out.data_ptr(),
        torch.get_num_threads(),
    )
    return out


def mapped(library: ctypes.CDLL, kind: int, x: Tensor) -> Tensor:
    """A function of `trnrand.maths`, element by element; float64."""
    x = x.contiguous()
    out = empty(tuple(x.shape), x.dtype)
    library.trnrand_map(kind, x.data_ptr(), out.data_ptr(), x.numel(), torch.get_num_threads())
    return out
