"""Transforms over several axes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from trnfft.along_axes import (
    KINDS,
    Kind,
    Transformable,
    complex_along,
    into_planes,
    inverse_real_along,
    real_along,
)
from trnfft.arguments import (
    COMPLEX_OF,
    as_complex,
    axes_of,
    check_plan,
    integers,
    length_of,
    replaces_transforms,
    scale_of,
)
from trnfft.complextensor import ComplexTensor
from trnsci import array_function, check
from trnsci.analogs import Given, given, replaces
from trnsci.planar import PlanarTensor
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


R = TypeVar("R")


class SeveralAxes(Protocol[R]):
    """A transform over several axes; a complex result is in planes where ``x`` is, or is in device memory."""

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
        out: R | None = None,
    ) -> R:
        """Transform ``x``."""


def _define_pair(name: str, along: Callable[..., R]) -> tuple[SeveralAxes[R], SeveralAxes[R]]:
    """Return the n-D function and its 2-D form, which differ in their default axes alone."""
    one = name.removesuffix("n")
    doc = functools.partial(_DOC.format, summary=_SUMMARY[name], real="; real only" if along is real_along else "")
    every, two = _function(name, None, KINDS[one], along), _function(f"{one}2", (-2, -1), KINDS[one], along)
    every.__doc__, two.__doc__ = doc(default="; by default all, or the last ``len(s)``."), doc(default=".")
    return array_function(every), array_function(two)


def _function(name: str, default: Axes, kind: Kind, along: Callable[..., R]) -> SeveralAxes[R]:
    assert kind.along is along

    def transform(
        x: Transformable,
        s: Lengths = None,
        dim: Axes = default,
        norm: str | None = None,
        *,
        axes: Axes = None,
        precision: Precision | None = None,
        plan: FFTPlan | None = None,
        out: R | None = None,
    ) -> R:
        if axes is not None:
            check.refuse(dim != default, name, "dim and axes", (dim, axes), "one of them, not both")
            dim = axes
        if plan is not None:
            given = None if dim == default else dim
            return check_plan(name, plan).serve(name, x, out, n=s, dim=given, norm=norm, precision=precision)
        return _along(name, kind, x, s, dim, norm, precision=precision, out=out)

    transform.__name__ = transform.__qualname__ = name
    return transform


def _along(op: str, kind: Kind, x: Any, s: Any, dim: Any, norm: Any, *, precision: Any, out: Any) -> Any:
    x = kind.operand(op, x)
    dims, lengths = axes_of(op, s, dim, None, x.shape)
    if not dims:
        scale_of(op, norm, False)
        return _copy_operand(op, kind, x, out)
    if kind.along is inverse_real_along and (s is None or integers(op, "s", s)[-1:] == [-1]):
        # The operand stores half of the last axis.
        lengths[-1] = length_of(op, None, 2 * (x.shape[dims[-1]] - 1), f"length of axis {dims[-1]}")
    return kind.along(op, x, dims, lengths, kind.backwards, norm=norm, precision=precision, out=out)


def _copy_operand(op: str, kind: Kind, x: Any, out: Any) -> Any:
    """Transform along no axis at all, which leaves complex data as it is."""
    check.refuse(kind.along is not complex_along, op, "dim", (), "at least one axis, which is halved")
    if isinstance(x, ComplexTensor):
        return x.clone() if out is None else into_planes(op, out, x)
    if out is None:
        return as_complex(x).clone()
    check.out(op, out, shape=tuple(x.shape), dtype=COMPLEX_OF.get(x.dtype, x.dtype), x=x)
    return out.copy_(as_complex(x))


fftn, fft2 = _define_pair("fftn", complex_along)
ifftn, ifft2 = _define_pair("ifftn", complex_along)
rfftn, rfft2 = _define_pair("rfftn", real_along)
irfftn, irfft2 = _define_pair("irfftn", inverse_real_along)
hfftn, hfft2 = _define_pair("hfftn", inverse_real_along)
ihfftn, ihfft2 = _define_pair("ihfftn", real_along)
for _transform in (fftn, fft2, ifftn, ifft2, rfftn, rfft2, irfftn, irfft2):
    replaces_transforms("numpy.fft", "scipy.fft")(_transform)

# torch's codes of scaling: none, by the root of the length, by the length
_FORWARD = {0: "backward", 1: "ortho", 2: "forward"}
_INVERSE = {0: "forward", 1: "ortho", 2: "backward"}


def _from_planar(x: Any) -> Any:
    return ComplexTensor(x.real_plane, x.imag_plane) if isinstance(x, PlanarTensor) else x


def _to_planar(value: Any, *_: Any) -> Any:
    return PlanarTensor(value.real, value.imag) if isinstance(value, ComplexTensor) else value


@replaces("aten::_fft_c2c", by=fftn, result=_to_planar, planes=True)
def _read_complex(x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Given:
    norm = (_FORWARD if forward else _INVERSE)[normalization]
    return given(fftn if forward else ifftn, _from_planar(x), dim=tuple(dim), norm=norm)


@replaces("aten::_fft_r2c", by=rfftn, result=_to_planar, planes=True)
def _read_real(x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Given:
    return given(rfftn if onesided else fftn, x, dim=tuple(dim), norm=_FORWARD[normalization])


@replaces("aten::_fft_c2r", by=irfftn, planes=True)
def _read_half(x: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Given:
    lengths = (*([-1] * (len(dim) - 1)), last_dim_size)
    return given(irfftn, _from_planar(x), dim=tuple(dim), s=lengths, norm=_INVERSE[normalization])
