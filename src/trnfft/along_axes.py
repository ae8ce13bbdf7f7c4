"""Transforms along checked axes: what those of one axis and of several have in common."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from trnfft.arguments import COMPLEX_OF, REAL_OF, as_complex, numeric, real, resize_axes, scale_of
from trnfft.complextensor import ComplexTensor, parts_of
from trnfft.ops import C2C, C2R, R2C, C2CPlanes, C2RPlanes, R2CPlanes, half_shape, merge_planes
from trnsci import DtypeError, check, get_backend, is_resident, libraries, neuron, run
from trnsci.precision import resolve

# A complex tensor of either kind, or real data that becomes one.
Transformable = Tensor | ComplexTensor
libraries.operand("Transformable")


def operand(op: str, x: Any) -> Transformable:
    """Return what a complex transform accepts: planes, or a numeric tensor, as planes if in device memory."""
    if isinstance(x, ComplexTensor):
        return x
    x = numeric(op, x)
    return x if (x.is_cpu and type(x) is Tensor) or x.is_complex() or not is_resident(x) else ComplexTensor(x)


def half_operand(op: str, x: Any) -> Transformable:
    """Return what the inverse of a real transform accepts: planes, or a complex tensor."""
    return x if isinstance(x, ComplexTensor) else as_complex(numeric(op, x))


def complex_along(
    op: str, x: Any, dims: list[int], lengths: list[int], inverse: bool, *, norm: Any, precision: Any, out: Any
) -> Transformable:
    """Run `fft` or `ifft` along axes."""
    scale, policy = scale_of(op, norm, inverse), resolve(op, precision, x.dtype)
    if isinstance(x, ComplexTensor):
        re, im = resize_axes(x.real, dims, lengths), resize_axes(x.imag, dims, lengths)
        if _has_complex_numbers() and re.dtype in COMPLEX_OF:
            # Parts of PyTorch's result are views, which an op on planes could not return.
            planes = parts_of(run(C2C(merge_planes(re, im), dims, inverse, scale, policy)))
        else:
            planes = ComplexTensor(*run(C2CPlanes(re, im, dims, inverse, scale, policy)))
        return planes if out is None else into_planes(op, out, planes)
    x = resize_axes(x, dims, lengths)
    if out is not None:
        check.out(op, out, shape=tuple(x.shape), dtype=COMPLEX_OF.get(x.dtype, x.dtype), x=x)
    return run(C2C(x, dims, inverse, scale, policy), out)


def real_along(
    op: str, x: Any, dims: list[int], lengths: list[int], hermitian: bool, *, norm: Any, precision: Any, out: Any
) -> Transformable:
    """Run `rfft` along axes, or with the conjugate and the inverse's scale `ihfft`."""
    scale, policy = scale_of(op, norm, hermitian), resolve(op, precision, x.dtype)
    x = resize_axes(x, dims, lengths)
    if is_resident(x):
        # Device memory has no complex dtype.
        planes = ComplexTensor(*run(R2CPlanes(x, dims, scale, policy)))
        planes = planes.conj() if hermitian else planes
        return planes if out is None else into_planes(op, out, planes)
    if out is not None:
        check.out(op, out, shape=tuple(half_shape(x.shape, dims[-1])), dtype=COMPLEX_OF[x.dtype], x=x)
    call = R2C(x, dims, scale, policy)
    if not hermitian:
        return run(call, out)
    result = run(call).conj_physical_()
    return result if out is None else out.copy_(result)


def inverse_real_along(
    op: str, x: Any, dims: list[int], lengths: list[int], hermitian: bool, *, norm: Any, precision: Any, out: Any
) -> Tensor:
    """Run `irfft` along axes, to the last of ``lengths``, or on the conjugate `hfft`."""
    scale, policy = scale_of(op, norm, not hermitian), resolve(op, precision, x.dtype)
    n = lengths[-1]
    stored = [*lengths[:-1], n // 2 + 1]
    if isinstance(x, ComplexTensor):
        x = x.conj() if hermitian else x
        re, im = resize_axes(x.real, dims, stored), resize_axes(x.imag, dims, stored)
        return run(C2RPlanes(re, im, dims, n, scale, policy), out)
    x = resize_axes(x, dims, stored)
    if out is not None:
        shape = tuple(n if dim == dims[-1] else size for dim, size in enumerate(x.shape))
        check.out(op, out, shape=shape, dtype=REAL_OF[x.dtype], x=x)
    return run(C2R(x.conj() if hermitian else x, dims, n, scale, policy), out)


class Kind(NamedTuple):
    """A transform: what its operand may be, how it runs along axes, and whether in the direction of the inverse."""

    operand: Callable[[str, Any], Any]
    along: Callable[..., Any]
    backwards: bool


KINDS = {
    "fft": Kind(operand, complex_along, False),
    "ifft": Kind(operand, complex_along, True),
    "rfft": Kind(real, real_along, False),
    "ihfft": Kind(real, real_along, True),
    "irfft": Kind(half_operand, inverse_real_along, False),
    "hfft": Kind(half_operand, inverse_real_along, True),
}


def _has_complex_numbers() -> bool:
    """Return whether calls run on PyTorch here, which has complex numbers."""
    name = get_backend("trnfft")
    return name == "pytorch" or (name == "auto" and neuron.device() is None)


def into_planes(op: str, out: Any, result: ComplexTensor) -> ComplexTensor:
    """Copy a result into planes given as ``out``."""
    if not isinstance(out, ComplexTensor):
        raise DtypeError(op, "out", type(out), "a ComplexTensor, because x is one")
    for target, plane in ((out.real, result.real), (out.imag, result.imag)):
        check.out(op, target, shape=tuple(plane.shape), dtype=plane.dtype)
        target.copy_(plane)
    return out
