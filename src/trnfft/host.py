"""Transforms on the CPU by compiled loops (``loops.c``), which need neither torch's nor SciPy's.

Without a C compiler, or with ``TRNSCI_NATIVE=0``, nothing here is used: torch transforms, with the same results to
rounding. Calls of few points are torch's as well.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnfft.arguments import COMPLEX_OF, REAL_OF
from trnfft.jobs import Job, job
from trnsci import native

# Points of a row from which the loops pay; shorter rows need company.
LEAST = 256
# Points of a call from which they pay, and from which threads do.
POINTS = 1024
MANY = 1 << 17

_REAL_OF = {**REAL_OF, torch.float32: torch.float32, torch.float64: torch.float64}
_PLAIN = (1.0, 1.0, 1.0, 1.0)
_TYPES = ("", "type1", "type2", "type3", "type4")


def takes(x: Tensor, lengths: list[int], *, trigonometric: bool = False) -> bool:
    """Whether the loops transform axes of these lengths, and faster than torch, which has no trigonometric ones."""
    if type(x) is not Tensor or not x.is_cpu or x.dtype not in _REAL_OF or x.is_neg():
        return False
    count = x.numel()
    for n in lengths:
        if n < LEAST and (n == 1 or (count < max(POINTS, 8 * n) and not trigonometric)):
            return False
    return count > 0 and native.why_not() is None


def _run(found: Job, x: Tensor, out: Tensor, dim: int, scale: float) -> None:
    threads = torch.get_num_threads() if out.numel() >= MANY else 1
    outer = inner = 1
    if out.ndim > 1:
        shape = out.shape
        outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    found(outer, inner, x.data_ptr(), out.data_ptr(), scale, threads)


def _laid_out(x: Tensor) -> tuple[Tensor, list[int] | None]:
    """A contiguous tensor with the data of x, and where its axes are in x: the order of memory where x is dense."""
    if x.is_contiguous():
        return x, None
    order = sorted(range(x.ndim), key=x.stride, reverse=True)
    turned = x.permute(order)
    return (turned, order) if turned.is_contiguous() else (x.contiguous(), None)


def _moved(dims: list[int], order: list[int] | None) -> list[int]:
    return dims if order is None else [order.index(dim) for dim in dims]


def _as_before(out: Tensor, order: list[int] | None) -> Tensor:
    return out if order is None else out.permute([order.index(dim) for dim in range(len(order))])


def c2c(x: Tensor, dims: list[int], inverse: bool, scale: float) -> Tensor:
    """Transforms of complex or real data along axes; ``scale`` multiplies the result."""
    dtype, kind = _REAL_OF[x.dtype], "c2c" if x.is_complex() else "r2cc"
    x, order = _laid_out(x.resolve_conj() if x.is_conj() else x)
    out = torch.empty_like(x, dtype=COMPLEX_OF[dtype])
    for dim in reversed(_moved(dims, order)):
        _run(job(kind, x.shape[dim], dtype, inverse=inverse), x, out, dim, scale)
        x, kind, scale = out, "c2c", 1.0
    return _as_before(out, order)


def r2c(x: Tensor, dims: list[int], scale: float) -> Tensor:
    """Half spectra, along the last of the axes, of real data."""
    dtype = x.dtype
    x, order = _laid_out(x)
    dims = _moved(dims, order)
    last, shape = dims[-1], list(x.shape)
    shape[last] = shape[last] // 2 + 1
    out = torch.empty(shape, dtype=COMPLEX_OF[dtype])
    _run(job("r2c", x.shape[last], dtype), x, out, last, scale)
    for dim in dims[:-1]:
        _run(job("c2c", shape[dim], dtype), out, out, dim, 1.0)
    return _as_before(out, order)


def c2r(x: Tensor, dims: list[int], n: int, scale: float) -> Tensor:
    """Real data, n points along the last of the axes, of half spectra; ``scale`` multiplies the bare inverse."""
    dtype = REAL_OF[x.dtype]
    if len(dims) > 1:
        x = c2c(x, dims[:-1], True, 1.0)
    conjugate = x.is_conj()
    x, order = _laid_out(x.conj() if conjugate else x)
    (last,) = _moved(dims[-1:], order)
    shape = list(x.shape)
    shape[last] = n
    out = torch.empty(shape, dtype=dtype)
    _run(job("c2r", n, dtype, conjugate=conjugate), x, out, last, scale)
    return _as_before(out, order)


def trigonometric(
    number: int,
    x: Tensor,
    dims: list[int],
    scales: list[float],
    sine: bool,
    ends: tuple[float, float, float, float] = _PLAIN,
) -> Tensor:
    """Cosine or sine transforms of types 1 to 4 along axes, each with a factor; ``ends`` as in `trnfft.jobs.job`."""
    x, order = _laid_out(x)
    out = torch.empty_like(x)
    for dim, scale in zip(_moved(dims, order), scales, strict=True):
        _run(job(_TYPES[number], x.shape[dim], x.dtype, sine=sine, ends=ends), x, out, dim, scale)
        x = out
    return _as_before(out, order)
