"""Transforms on the CPU by compiled loops (``loops.c``), which need neither torch's nor SciPy's.

Without a C compiler, or with ``TRNSCI_NATIVE=0``, nothing here is used: torch transforms, with the same results to
rounding. Calls of few points are torch's as well: where that is faster, functions here return ``None``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnfft import calls
from trnfft.arguments import COMPLEX_OF, REAL_OF
from trnfft.calls import Call
from trnfft.jobs import SOURCE, Ends
from trnsci import native

# Points of a result from which threads pay.
MANY = 1 << 17

_REAL_OF = {**REAL_OF, torch.float32: torch.float32, torch.float64: torch.float64}


def able(x: Tensor) -> bool:
    """Whether the loops read a tensor at all."""
    if type(x) is not Tensor or not x.is_cpu or x.dtype not in _REAL_OF or x.is_neg():
        return False
    return x.numel() > 0 and native.load(SOURCE) is not None


def _run(call: Call, x: Tensor, im: Tensor | None, dtype: torch.dtype) -> Tensor:
    # sizes one by one are read faster than a tuple of them
    out = torch.empty(*call.shape, dtype=dtype)
    threads = torch.get_num_threads() if out.numel() >= MANY else 1
    if call.run(call.address, x.data_ptr(), None if im is None else im.data_ptr(), out.data_ptr(), threads):
        raise MemoryError("no memory for the intermediate results of a transform")
    return out


def _laid_out(x: Tensor, dims: list[int]) -> tuple[Tensor, tuple[int, ...], list[int] | None]:
    """A contiguous tensor with the data of x, axes in it, and the order of x's: that of memory where x is dense."""
    if x.is_contiguous():
        return x, tuple(dims), None
    order = sorted(range(x.ndim), key=x.stride, reverse=True)
    turned = x.permute(order)
    if turned.is_contiguous():
        return turned, tuple(order.index(dim) for dim in dims), order
    return x.contiguous(), tuple(dims), None


def _as_before(out: Tensor, order: list[int] | None) -> Tensor:
    return out if order is None else out.permute([order.index(dim) for dim in range(len(order))])


def c2c(x: Tensor, dims: list[int], inverse: bool, scale: str) -> Tensor | None:
    """Transforms of complex or real data along axes."""
    dtype, kind = _REAL_OF[x.dtype], "c2c" if x.is_complex() else "r2cc"
    if not x.is_contiguous() and not calls.pays(x.numel(), [x.shape[dim] for dim in dims]):
        return None
    x, axes, order = _laid_out(x.resolve_conj() if x.is_conj() else x, dims)
    call = calls.c2c(kind, x.shape, axes, dtype, inverse, scale)
    return None if call is None else _as_before(_run(call, x, None, COMPLEX_OF[dtype]), order)


def c2c_planes(re: Tensor, im: Tensor, dims: list[int], inverse: bool, scale: str) -> Tensor | None:
    """`c2c` of contiguous planes."""
    call = calls.c2c("p2c", re.shape, tuple(dims), re.dtype, inverse, scale)
    return None if call is None else _run(call, re, im, COMPLEX_OF[re.dtype])


def r2c(x: Tensor, dims: list[int], scale: str, conjugate: bool = False) -> Tensor | None:
    """Half spectra, along the last of the axes, of real data, or their conjugates."""
    if not x.is_contiguous() and not calls.pays(x.numel(), [x.shape[dim] for dim in dims]):
        return None
    x, axes, order = _laid_out(x, dims)
    call = calls.r2c(x.shape, axes, x.dtype, scale, conjugate)
    return None if call is None else _as_before(_run(call, x, None, COMPLEX_OF[x.dtype]), order)


def c2r(x: Tensor, dims: list[int], n: int, scale: str) -> Tensor | None:
    """Real data, n points along the last of the axes, of half spectra of the length that belongs to n."""
    dtype, conjugate = REAL_OF[x.dtype], x.is_conj()
    if not x.is_contiguous() and not calls.pays(x.numel(), [*(x.shape[dim] for dim in dims[:-1]), n]):
        return None
    x, axes, order = _laid_out(x.conj() if conjugate else x, dims)
    call = calls.c2r("c2r", x.shape, axes, n, dtype, conjugate, scale)
    return None if call is None else _as_before(_run(call, x, None, dtype), order)


def c2r_planes(re: Tensor, im: Tensor, dims: list[int], n: int, scale: str) -> Tensor | None:
    """`c2r` of contiguous planes."""
    call = calls.c2r("p2r", re.shape, tuple(dims), n, re.dtype, False, scale)
    return None if call is None else _run(call, re, im, re.dtype)


def trigonometric(
    number: int, x: Tensor, dims: list[int], scales: list[float], sine: bool, ends: Ends = (1.0, 1.0, 1.0, 1.0)
) -> Tensor | None:
    """Cosine or sine transforms of types 1 to 4 along axes, each with a factor; ``ends`` as in `trnfft.jobs.job`."""
    x, axes, order = _laid_out(x, dims)
    call = calls.trigonometric(number, x.shape, axes, tuple(scales), x.dtype, sine, ends)
    return None if call is None else _as_before(_run(call, x, None, x.dtype), order)
