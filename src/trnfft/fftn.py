"""Transforms over several axes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from trnfft import transform
from trnfft.arguments import (
    COMPLEX_OF,
    REAL_OF,
    as_complex,
    axes_of,
    integers,
    length_of,
    numeric,
    planned,
    real,
    resized,
    scale_of,
)
from trnfft.complextensor import ComplexTensor
from trnfft.fft import planes, real_planes
from trnsci import ArgumentError, array_function, check, is_resident
from trnsci.precision import Precision, resolve

if TYPE_CHECKING:
    from trnfft.plan import FFTPlan

Lengths = int | Sequence[int] | None
Axes = int | Sequence[int] | None

_SUMMARY = {
    "fftn": "Discrete Fourier transform over several axes; the n-D `fft`.",
    "ifftn": "Inverse of `fftn`.",
    "rfftn": "Transform real data over several axes; the last one is halved as by `rfft`.",
    "irfftn": "Inverse of `rfftn`: real data; pass ``s`` to get odd lengths of the last axis back.",
    "hfftn": "Transform a signal that is Hermitian in the last axis, stored by half: a real spectrum.",
    "ihfftn": "Inverse of `hfftn`: the half spectrum of real data, conjugated and scaled.",
}

_DOC = """{summary}

    Args:
        x: real or complex, as for `fft`{real}. A `ComplexTensor` gives planes back where the result is complex.
        s: length per axis; axes are cut, or padded with zeros at their end. -1 keeps a length.
        dim: the axes{default}
        norm: ``"backward"``, ``"ortho"`` or ``"forward"``, over all axes together.
        axes: NumPy's name for ``dim``.
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than ``x``.
        plan: made by `trnfft.plan` for these arguments.
        out: memory for the result, shared with no operand.

    Raises:
        ArgumentError: axes, lengths, norm, plan or ``out`` do not fit.
        DtypeError: ``x`` is no tensor of numbers this transform takes.

    Cost:
        ``5 n log2 n`` FLOPs for n points in all, half of that for real data. The error bound is that of `fft`.
    """


def _define(name: str, kind: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The n-D function and its 2-D form, which differ in their default axes alone."""

    def many(
        x: Any,
        s: Lengths = None,
        dim: Axes = None,
        norm: str | None = None,
        *,
        axes: Axes = None,
        precision: Precision | None = None,
        plan: FFTPlan | None = None,
        out: Any = None,
    ) -> Any:
        if plan is not None:
            return planned(name, plan).serve(name, x, s, dim, norm, axes, precision, out)
        return _RUN[kind](name, x, s, dim, norm, axes, precision, out)

    two_name = name.removesuffix("n") + "2"

    def two(
        x: Any,
        s: Lengths = None,
        dim: Axes = (-2, -1),
        norm: str | None = None,
        *,
        axes: Axes = None,
        precision: Precision | None = None,
        plan: FFTPlan | None = None,
        out: Any = None,
    ) -> Any:
        if axes is not None:
            if dim != (-2, -1):
                raise ArgumentError(
                    op=two_name, argument="dim and axes", got=(dim, axes), expected="one of them, not both"
                )
            dim = axes
        if plan is not None:
            return planned(two_name, plan).serve(two_name, x, s, dim, norm, None, precision, out)
        return _RUN[kind](two_name, x, s, dim, norm, None, precision, out)

    functions = []
    for function, called, default in ((many, name, "; by default all, or the last ``len(s)``."), (two, two_name, ".")):
        function.__name__ = function.__qualname__ = called
        is_real = "; real only" if kind in ("r2c", "conj r2c") else ""
        function.__doc__ = _DOC.format(summary=_SUMMARY[name], real=is_real, default=default)
        functions.append(array_function(function))
    return functions[0], functions[1]


def _c2c(op: str, x: Any, s: Any, dim: Any, norm: Any, axes: Any, precision: Any, out: Any, inverse: bool) -> Any:
    scale = scale_of(op, norm, inverse)
    if isinstance(x, ComplexTensor):
        dims, lengths = axes_of(op, s, dim, axes, x.shape)
        return planes(op, x, dims, lengths, scale, precision, out, inverse) if dims else x.clone()
    x = numeric(op, x)
    if is_resident(x) and not x.is_complex():
        return _c2c(op, ComplexTensor(x), s, dim, norm, axes, precision, out, inverse)
    dims, lengths = axes_of(op, s, dim, axes, x.shape)
    if s is not None:
        for axis, length in zip(dims, lengths, strict=True):
            x = resized(x, axis, length)
    policy = resolve(op, precision, x.dtype)
    if out is not None:
        check.out(op, out, shape=tuple(x.shape), dtype=COMPLEX_OF.get(x.dtype, x.dtype), x=x)
    if not dims:
        result = as_complex(x).clone()
        return result if out is None else out.copy_(result)
    if out is None:
        return transform.c2c(x, dims, inverse, scale, policy)
    return transform.c2c.write(out, x, dims, inverse, scale, policy)


def _r2c(op: str, x: Any, s: Any, dim: Any, norm: Any, axes: Any, precision: Any, out: Any, hermitian: bool) -> Any:
    scale = scale_of(op, norm, hermitian)
    x = real(op, x)
    dims, lengths = axes_of(op, s, dim, axes, x.shape)
    _some(op, dims)
    if s is not None:
        for axis, length in zip(dims, lengths, strict=True):
            x = resized(x, axis, length)
    policy = resolve(op, precision, x.dtype)
    if is_resident(x):
        return real_planes(op, x, dims, scale, policy, out, hermitian)
    if out is not None:
        check.out(op, out, shape=tuple(transform.half(x.shape, dims[-1])), dtype=COMPLEX_OF[x.dtype], x=x)
    result = transform.r2c(x, dims, scale, policy)
    result = result.conj_physical_() if hermitian else result
    return result if out is None else out.copy_(result)


def _c2r(op: str, x: Any, s: Any, dim: Any, norm: Any, axes: Any, precision: Any, out: Any, hermitian: bool) -> Any:
    scale = scale_of(op, norm, not hermitian)
    split = isinstance(x, ComplexTensor)
    if not split:
        x = as_complex(numeric(op, x))
    dims, lengths = axes_of(op, s, dim, axes, x.shape)
    _some(op, dims)
    if s is None or integers(op, "s", s)[-1:] == [-1]:
        # the operand stores half of the last axis
        lengths[-1] = length_of(op, None, 2 * (x.shape[dims[-1]] - 1), f"length of axis {dims[-1]}")
    n = lengths[-1]
    stored = [*lengths[:-1], n // 2 + 1]
    policy = resolve(op, precision, x.dtype)
    if split:
        x = x.conj() if hermitian else x
        parts: list[Tensor] = []
        for part in (x.real, x.imag):
            for axis, length in zip(dims, stored, strict=True):
                part = resized(part, axis, length)
            parts.append(part)
        result = transform.c2r_planes(parts[0], parts[1], dims, n, scale, policy)
        return result if out is None else out.copy_(result)
    if s is not None:
        for axis, length in zip(dims, stored, strict=True):
            x = resized(x, axis, length)
    if out is not None:
        shape = list(x.shape)
        shape[dims[-1]] = n
        check.out(op, out, shape=tuple(shape), dtype=REAL_OF[x.dtype], x=x)
    result = transform.c2r(x.conj() if hermitian else x, dims, n, scale, policy)
    return result if out is None else out.copy_(result)


def _some(op: str, dims: list[int]) -> None:
    if not dims:
        raise ArgumentError(op=op, argument="dim", got=(), expected="at least one axis, which is halved")


_RUN: dict[str, Callable[..., Any]] = {
    "c2c": functools.partial(_c2c, inverse=False),
    "inverse c2c": functools.partial(_c2c, inverse=True),
    "r2c": functools.partial(_r2c, hermitian=False),
    "conj r2c": functools.partial(_r2c, hermitian=True),
    "c2r": functools.partial(_c2r, hermitian=False),
    "conj c2r": functools.partial(_c2r, hermitian=True),
}

fftn, fft2 = _define("fftn", "c2c")
ifftn, ifft2 = _define("ifftn", "inverse c2c")
rfftn, rfft2 = _define("rfftn", "r2c")
irfftn, irfft2 = _define("irfftn", "c2r")
hfftn, hfft2 = _define("hfftn", "conj c2r")
ihfftn, ihfft2 = _define("ihfftn", "conj r2c")
