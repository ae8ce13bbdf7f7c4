"""Transforms over several axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from trnfft.along_axes import (
    Transformable,
    complex_along,
    half_operand,
    inverse_real_along,
    operand,
    real_along,
)
from trnfft.arguments import COMPLEX_OF, as_complex, axes_of, integers, length_of, planned, real
from trnfft.complextensor import ComplexTensor
from trnsci import ArgumentError, array_function, check
from trnsci.precision import Precision

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
        plan: from `trnfft.plan`, for these arguments.
        out: memory for the result, shared with no operand.

    Raises:
        ArgumentError: axes, lengths, norm, plan or ``out`` do not fit.
        DtypeError: ``x`` is no tensor of numbers this transform takes.

    Cost:
        ``5 n log2 n`` FLOPs for n points in all, half of that for real data. The error bound is that of `fft`.
    """


class ComplexResult(Protocol):
    """A transform over several axes whose result is complex: planes where ``x`` is, or is in device memory."""

    __name__: str

    def __call__(
        self,
        x: Transformable,
        s: Lengths = None,
        dim: Axes = None,
        norm: str | None = None,
        *,
        axes: Axes = None,
        precision: Precision | None = None,
        plan: FFTPlan | None = None,
        out: Transformable | None = None,
    ) -> Transformable:
        """Transform ``x``."""


class RealResult(Protocol):
    """A transform over several axes whose result is real."""

    __name__: str

    def __call__(
        self,
        x: Transformable,
        s: Lengths = None,
        dim: Axes = None,
        norm: str | None = None,
        *,
        axes: Axes = None,
        precision: Precision | None = None,
        plan: FFTPlan | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Transform ``x``."""


def _define(name: str, along: Callable[..., Any]) -> tuple[Any, Any]:
    """Define the n-D function and its 2-D form, which differ in their default axes alone."""

    def many(
        x: Transformable,
        s: Lengths = None,
        dim: Axes = None,
        norm: str | None = None,
        *,
        axes: Axes = None,
        precision: Precision | None = None,
        plan: FFTPlan | None = None,
        out: Transformable | None = None,
    ) -> Transformable:
        if plan is not None:
            served: Transformable = planned(name, plan).serve(
                name, x, n=s, dim=dim, norm=norm, axis=axes, precision=precision, out=out
            )
            return served
        result: Transformable = along(name, x, s, dim, norm, axes, precision, out)
        return result

    two_name = name.removesuffix("n") + "2"

    def two(
        x: Transformable,
        s: Lengths = None,
        dim: Axes = (-2, -1),
        norm: str | None = None,
        *,
        axes: Axes = None,
        precision: Precision | None = None,
        plan: FFTPlan | None = None,
        out: Transformable | None = None,
    ) -> Transformable:
        if axes is not None:
            if dim != (-2, -1):
                raise ArgumentError(
                    op=two_name, argument="dim and axes", got=(dim, axes), expected="one of them, not both"
                )
            dim = axes
        if plan is not None:
            served: Transformable = planned(two_name, plan).serve(
                two_name, x, n=s, dim=dim, norm=norm, axis=None, precision=precision, out=out
            )
            return served
        result: Transformable = along(two_name, x, s, dim, norm, None, precision, out)
        return result

    functions = []
    for function, called, default in ((many, name, "; by default all, or the last ``len(s)``."), (two, two_name, ".")):
        function.__name__ = function.__qualname__ = called
        is_real = "; real only" if name in ("rfftn", "ihfftn") else ""
        function.__doc__ = _DOC.format(summary=_SUMMARY[name], real=is_real, default=default)
        functions.append(array_function(function))
    return functions[0], functions[1]


def _complex(inverse: bool) -> Callable[..., Any]:
    def along(op: str, x: Any, s: Any, dim: Any, norm: Any, axes: Any, precision: Any, out: Any) -> Transformable:
        x = operand(op, x)
        dims, lengths = axes_of(op, s, dim, axes, x.shape)
        if dims:
            return complex_along(op, x, dims, lengths, norm=norm, precision=precision, out=out, inverse=inverse)
        if isinstance(x, ComplexTensor):
            return x.clone()
        result = as_complex(x).clone()
        if out is None:
            return result
        check.out(op, out, shape=tuple(x.shape), dtype=COMPLEX_OF.get(x.dtype, x.dtype), x=x)
        copied: Tensor = out.copy_(result)
        return copied

    return along


def _real(hermitian: bool) -> Callable[..., Any]:
    def along(op: str, x: Any, s: Any, dim: Any, norm: Any, axes: Any, precision: Any, out: Any) -> Transformable:
        x = real(op, x)
        dims, lengths = axes_of(op, s, dim, axes, x.shape)
        _some(op, dims)
        return real_along(op, x, dims, lengths, norm=norm, precision=precision, out=out, hermitian=hermitian)

    return along


def _inverse_real(hermitian: bool) -> Callable[..., Any]:
    def along(op: str, x: Any, s: Any, dim: Any, norm: Any, axes: Any, precision: Any, out: Any) -> Tensor:
        x = half_operand(op, x)
        dims, lengths = axes_of(op, s, dim, axes, x.shape)
        _some(op, dims)
        if s is None or integers(op, "s", s)[-1:] == [-1]:
            # The operand stores half of the last axis.
            lengths[-1] = length_of(op, None, 2 * (x.shape[dims[-1]] - 1), f"length of axis {dims[-1]}")
        return inverse_real_along(op, x, dims, lengths, norm=norm, precision=precision, out=out, hermitian=hermitian)

    return along


def _some(op: str, dims: list[int]) -> None:
    if not dims:
        raise ArgumentError(op=op, argument="dim", got=(), expected="at least one axis, which is halved")


fftn: ComplexResult
fft2: ComplexResult
ifftn: ComplexResult
ifft2: ComplexResult
rfftn: ComplexResult
rfft2: ComplexResult
irfftn: RealResult
irfft2: RealResult
hfftn: RealResult
hfft2: RealResult
ihfftn: ComplexResult
ihfft2: ComplexResult

fftn, fft2 = _define("fftn", _complex(inverse=False))
ifftn, ifft2 = _define("ifftn", _complex(inverse=True))
rfftn, rfft2 = _define("rfftn", _real(hermitian=False))
irfftn, irfft2 = _define("irfftn", _inverse_real(hermitian=False))
hfftn, hfft2 = _define("hfftn", _inverse_real(hermitian=True))
ihfftn, ihfft2 = _define("ihfftn", _real(hermitian=True))
