"""Convolution and correlation by transforms."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trnfft.arguments import COMPLEX_OF, dims_of, numeric, resize_axes
from trnfft.lengths import next_fast_len
from trnfft.ops import C2C, C2R, R2C
from trnsci import ArgumentError, DtypeError, array_function, check, neuron, run
from trnsci.analogs import resembles
from trnsci.arrays import like
from trnsci.precision import Precision, resolve

Axes = int | Sequence[int] | None

# Blocks of overlap and add are not shorter.
_LEAST_BLOCK = 1024


@resembles("scipy.signal.fftconvolve")
@array_function
def fftconvolve(
    a: Tensor,
    b: Tensor,
    mode: str = "full",
    dim: Axes = None,
    *,
    axes: Axes = None,
    precision: Precision | None = None,
) -> Tensor:
    """Convolve two arrays over the given axes: ``y[k] = sum_j a[j] b[k - j]``.

    Args:
        a: real or complex.
        b: the same number of dimensions and dtype; axes that are not convolved broadcast.
        mode: ``"full"``, ``"same"`` (size of ``a``, centred) or ``"valid"`` (terms without zero padding).
        dim: the axes; by default all.
        axes: NumPy's name for ``dim``.
        precision: as for `fft`.

    Raises:
        ArgumentError: sizes, axes or mode do not fit.
        DtypeError: dtypes differ or hold no numbers.

    Error bound:
        relative to ``norm(a) * norm(b)``: that of three transforms of the padded length.

    Example:
        >>> fftconvolve(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 1.0, 0.5])).round(decimals=4)
        tensor([0.0000, 1.0000, 2.5000, 4.0000, 1.5000])
    """
    return _convolve("fftconvolve", a, b, mode, dim, axes=axes, precision=precision)


def _convolve(
    op: str,
    a: Any,
    b: Any,
    mode: str = "full",
    dim: Axes = None,
    *,
    correlates: bool = False,
    axes: Axes = None,
    precision: Any = None,
) -> Tensor:
    a, b, dims = _operands(op, a, b, mode=mode, dim=dim, axes=axes)
    swapped = mode == "valid" and _smaller(op, a, b, dims)
    if swapped:
        a, b = b, a
    other = torch.conj_physical(b).flip(dims) if correlates else b
    policy = resolve(op, precision, a.dtype)
    axis, block = _block(a, other, dims)
    if axis < 0:
        whole = _full(a, other, dims, policy)
    else:
        longer, shorter = (a, other) if a.shape[axis] >= other.shape[axis] else (other, a)
        whole = _overlap_add(longer, shorter, dims=dims, axis=axis, block=block, policy=policy)
    result = _cut(whole, a, b, mode, dims)
    return torch.conj_physical(result).flip(dims) if swapped and correlates else result


@resembles("scipy.signal.oaconvolve")
@like(fftconvolve, functools.partial(_convolve, "oaconvolve"))
def oaconvolve(*args: Any, **kwargs: Any) -> Any:
    """Convolve by overlap and add: SciPy's name for `fftconvolve`, which uses it where it is less work.

    Blocks of the longer operand are cut along the one axis where that saves most.

    Example:
        >>> oaconvolve(torch.ones(6), torch.ones(2)).round(decimals=4)
        tensor([1., 2., 2., 2., 2., 2., 1.])
    """


@like(fftconvolve, functools.partial(_convolve, "correlate", correlates=True))
def correlate(*args: Any, **kwargs: Any) -> Any:
    """Correlate two arrays: ``y[k] = sum_j a[j + k - (len(b) - 1)] conj(b[j])``; arguments as `fftconvolve`.

    Example:
        >>> correlate(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 1.0, 0.5])).round(decimals=4)
        tensor([0.5000, 2.0000, 3.5000, 3.0000, 0.0000])
    """


def _operands(op: str, a: Any, b: Any, *, mode: str, dim: Any, axes: Any) -> tuple[Tensor, Tensor, list[int]]:
    check.option(op, "mode", mode, ("full", "same", "valid"))
    a, b = numeric(op, a), numeric(op, b)
    neuron.give_planes(a, b)
    if a.dtype != b.dtype:
        if {a.dtype, b.dtype} not in ({d, c} for d, c in COMPLEX_OF.items()):
            got = {"a": a.dtype, "b": b.dtype}
            raise DtypeError(op, "dtype", got, hint="Convert one side; precision is not mixed silently")
        a, b = (x if x.is_complex() else x.to(COMPLEX_OF[x.dtype]) for x in (a, b))
    check.equal(op, "number of dimensions", a=a.ndim, b=b.ndim)
    check.same_device(op, a=a, b=b)
    dims = sorted(dims_of(op, dim, axes, a.ndim))
    check.refuse(len(set(dims)) < len(dims), op, "dim", tuple(dims), "axes that differ")
    rest = [d for d in range(a.ndim) if d not in dims]
    check.broadcast(op, a=tuple(a.shape[d] for d in rest), b=tuple(b.shape[d] for d in rest))
    return a, b, dims


def _smaller(op: str, a: Tensor, b: Tensor, dims: list[int]) -> bool:
    """Return whether ``b`` is the larger one of a valid convolution; one must be larger on every axis."""
    if all(a.shape[d] >= b.shape[d] for d in dims):
        return False
    if all(a.shape[d] <= b.shape[d] for d in dims):
        return True
    got = {"a": tuple(a.shape), "b": tuple(b.shape)}
    raise ArgumentError(op, "shape", got, "one operand at least as long as the other on every axis, for mode 'valid'")


def _product(a: Tensor, b: Tensor, dims: list[int], lengths: list[int], policy: Precision) -> Tensor:
    """Return the circular convolution of zero-padded operands."""
    padded = [resize_axes(x, dims, lengths) for x in (a, b)]
    if a.is_complex():
        spectra = [run(C2C(x, dims, inverse=False, scale="none", precision=policy)) for x in padded]
        return run(C2C(spectra[0] * spectra[1], dims, inverse=True, scale="full", precision=policy))
    spectra = [run(R2C(x, dims, scale="none", precision=policy)) for x in padded]
    return run(C2R(spectra[0] * spectra[1], dims, lengths[-1], scale="full", precision=policy))


def _full(a: Tensor, b: Tensor, dims: list[int], policy: Precision) -> Tensor:
    if not dims:
        return a * b
    if 0 in (*a.shape, *b.shape):
        sizes = [
            max(0, a.shape[d] + b.shape[d] - 1) if d in dims and a.shape[d] and b.shape[d] else 0 if d in dims else n
            for d, n in enumerate(
                torch.broadcast_shapes(*([1 if i in dims else m for i, m in enumerate(x.shape)] for x in (a, b)))
            )
        ]
        return a.new_zeros(sizes)
    sizes = [a.shape[d] + b.shape[d] - 1 for d in dims]
    lengths = [next_fast_len(size, not a.is_complex()) for size in sizes]
    return resize_axes(_product(a, b, dims, lengths, policy), dims, sizes)


def _cut(full: Tensor, a: Tensor, b: Tensor, mode: str, dims: list[int]) -> Tensor:
    for dim in dims:
        n, m = a.shape[dim], b.shape[dim]
        if mode == "same":
            full = full.narrow(dim, (full.shape[dim] - n) // 2, n)
        elif mode == "valid":
            full = full.narrow(dim, min(n, m) - 1, abs(n - m) + 1)
    return full.contiguous()


def _block(a: Tensor, b: Tensor, dims: list[int]) -> tuple[int, int]:
    """Return the axis to cut and the transform length of its blocks; axis -1 where one transform is as good."""
    best, chosen, length = 1.0, -1, 0
    if 0 in (*a.shape, *b.shape):
        return chosen, length
    for dim in dims:
        long, short = max(a.shape[dim], b.shape[dim]), min(a.shape[dim], b.shape[dim])
        whole = long + short - 1
        if whole <= _LEAST_BLOCK:
            continue
        block = next_fast_len(min(whole, max(8 * short, _LEAST_BLOCK)), not a.is_complex())
        if block >= whole:
            continue
        count = -(-long // (block - short + 1))
        share = count * block * math.log2(block) / (whole * math.log2(whole))
        if share < best:
            best, chosen, length = share, dim, block
    return chosen, length


def _overlap_add(x: Tensor, h: Tensor, *, dims: list[int], axis: int, block: int, policy: Precision) -> Tensor:
    n, m = x.shape[axis], h.shape[axis]
    step = block - m + 1
    count = -(-n // step)
    # Blocks become an axis in front, which broadcasts against the other operand.
    x = resize_axes(x, [axis], [count * step]).unflatten(axis, (count, step)).movedim(axis, 0)
    sizes = [block if d == axis else x.shape[1 + d] + h.shape[d] - 1 for d in dims]
    lengths = [
        block if d == axis else next_fast_len(size, not x.is_complex()) for d, size in zip(dims, sizes, strict=True)
    ]
    later = [d + 1 for d in dims]
    y = resize_axes(_product(x, h.unsqueeze(0), later, lengths, policy), later, sizes)
    head, tail = y.narrow(axis + 1, 0, step), y.narrow(axis + 1, step, m - 1)
    y = head.movedim(0, axis).flatten(axis, axis + 1)
    # The tail of a block is shorter than a step: it falls into the next block alone.
    tail = resize_axes(tail, [axis + 1], [step]).movedim(0, axis).flatten(axis, axis + 1)
    y = resize_axes(y, [axis], [(count + 1) * step])
    tail = torch.cat((torch.zeros_like(y.narrow(axis, 0, step)), tail), axis)
    return (y + tail).narrow(axis, 0, n + m - 1)
