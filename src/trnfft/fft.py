"""One-dimensional transforms: complex, real and Hermitian."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from trnfft import transform
from trnfft.arguments import (
    COMPLEX_OF,
    REAL_OF,
    as_complex,
    axis_of,
    length_of,
    numeric,
    planned,
    real,
    resized,
    scale_of,
)
from trnfft.complextensor import ComplexTensor, parts_of
from trnsci import DtypeError, array_function, check, is_resident
from trnsci.precision import Precision, resolve

if TYPE_CHECKING:
    from trnfft.plan import FFTPlan

Transformable = Tensor | ComplexTensor


@array_function
def fft(
    x: Any,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Any = None,
) -> Any:
    """Discrete Fourier transform along one axis: ``y[k] = sum_j x[j] exp(-2 pi i j k / n)``.

    Args:
        x: [..., N] real or complex. Halves are computed in float32, integers in float64. A `ComplexTensor` gives one.
        n: length of the transform; ``x`` is cut, or padded with zeros at its end.
        dim: the axis.
        norm: ``"backward"`` (default, no scale), ``"ortho"`` (``1/sqrt(n)``) or ``"forward"`` (``1/n``).
        axis: NumPy's name for ``dim``.
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than ``x``.
        plan: made by `trnfft.plan` for these arguments; it carries them, and they are not given again.
        out: memory for the result, shared with no operand.

    Returns:
        [..., n] complex, in the precision of ``x``; a `ComplexTensor` where ``x`` is one or is in device memory.

    Raises:
        ArgumentError: an axis, length, norm, plan or ``out`` does not fit.
        DtypeError: ``x`` is no tensor of numbers.

    Error bound:
        relative L2 error, for all data: 1e-5 in fp32 for each product on the device (one, two or four; 5e-7 in all
        for Gaussian data), 1e-7 compensated, 1e-14 in fp64; see docs/trnfft/transform.md.

    Cost:
        ``5 n log2 n`` FLOPs, half of that for real input.

    Example:
        >>> fft(torch.tensor([1.0, 0.0, 0.0, 0.0])).real
        tensor([1., 1., 1., 1.])
    """
    if plan is not None:
        return planned("fft", plan).serve("fft", x, n, dim, norm, axis, precision, out)
    return _complex("fft", x, n, dim, norm, axis, precision, out, False)


@array_function
def ifft(
    x: Any,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Any = None,
) -> Any:
    """Inverse of `fft`: ``y[j] = 1/n sum_k x[k] exp(2 pi i j k / n)``; arguments are those of `fft`.

    Example:
        >>> ifft(torch.tensor([4.0, 0.0, 0.0, 0.0])).real
        tensor([1., 1., 1., 1.])
    """
    if plan is not None:
        return planned("ifft", plan).serve("ifft", x, n, dim, norm, axis, precision, out)
    return _complex("ifft", x, n, dim, norm, axis, precision, out, True)


def _complex(
    op: str, x: Any, n: Any, dim: Any, norm: Any, axis: Any, precision: Any, out: Any, inverse: bool
) -> Transformable:
    scale = scale_of(op, norm, inverse)
    if isinstance(x, ComplexTensor):
        dim = axis_of(op, dim, axis, x.ndim)
        return planes(op, x, [dim], [length_of(op, n, x.shape[dim])], scale, precision, out, inverse)
    x = numeric(op, x)
    if is_resident(x) and not x.is_complex():
        return _complex(op, ComplexTensor(x), n, dim, norm, axis, precision, out, inverse)
    dim = axis_of(op, dim, axis, x.ndim)
    length = length_of(op, n, x.shape[dim])
    if x.shape[dim] != length:
        x = resized(x, dim, length)
    policy = resolve(op, precision, x.dtype)
    if out is None:
        return transform.c2c(x, [dim], inverse, scale, policy)
    check.out(op, out, shape=tuple(x.shape), dtype=COMPLEX_OF.get(x.dtype, x.dtype), x=x)
    return transform.c2c.write(out, x, [dim], inverse, scale, policy)


def planes(
    op: str, x: ComplexTensor, dims: list[int], lengths: list[int], scale: str, precision: Any, out: Any, inverse: bool
) -> ComplexTensor:
    """A complex transform of split planes."""
    policy = resolve(op, precision, x.dtype)
    re, im = x.real, x.imag
    for dim, length in zip(dims, lengths, strict=True):
        if re.shape[dim] != length:
            re, im = resized(re, dim, length), resized(im, dim, length)
    if transform.on_host() and re.dtype in COMPLEX_OF:
        # PyTorch has complex numbers: parts of its result are views, which an op on planes could not return.
        result = parts_of(transform.c2c(transform.merged(re, im), dims, inverse, scale, policy))
    else:
        result = ComplexTensor(*transform.c2c_planes(re, im, dims, inverse, scale, policy))
    return result if out is None else into_planes(op, out, result)


def into_planes(op: str, out: Any, result: ComplexTensor) -> ComplexTensor:
    """Copy a result into planes given as ``out``."""
    if not isinstance(out, ComplexTensor):
        raise DtypeError(op=op, argument="out", got=type(out), expected="a ComplexTensor, because x is one")
    for target, plane in ((out.real, result.real), (out.imag, result.imag)):
        check.out(op, target, shape=tuple(plane.shape), dtype=plane.dtype)
        target.copy_(plane)
    return out


@array_function
def rfft(
    x: Any,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Any:
    """Transform real data: the first ``n // 2 + 1`` terms of `fft`, the rest being their conjugates. Half the cost.

    Arguments are those of `fft`; ``x`` is real. The result is complex, a `ComplexTensor` for ``x`` in device memory.

    Example:
        >>> rfft(torch.tensor([1.0, 1.0, 1.0, 1.0]))
        tensor([4.+0.j, 0.+0.j, 0.+0.j])
    """
    if plan is not None:
        return planned("rfft", plan).serve("rfft", x, n, dim, norm, axis, precision, out)
    return forward_real("rfft", x, n, dim, norm, axis, precision, out, False)


@array_function
def ihfft(
    x: Any,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Any:
    """Inverse of `hfft`: the half spectrum, conjugated and divided by n, of real data. Arguments as `rfft`.

    Example:
        >>> ihfft(torch.tensor([1.0, 1.0, 1.0, 1.0])).real
        tensor([1., 0., 0.])
    """
    if plan is not None:
        return planned("ihfft", plan).serve("ihfft", x, n, dim, norm, axis, precision, out)
    return forward_real("ihfft", x, n, dim, norm, axis, precision, out, True)


def forward_real(
    op: str, x: Any, n: Any, dim: Any, norm: Any, axis: Any, precision: Any, out: Any, hermitian: bool
) -> Transformable:
    """`rfft`, or with the conjugate and the inverse's scale `ihfft`."""
    scale = scale_of(op, norm, hermitian)
    x = real(op, x)
    dim = axis_of(op, dim, axis, x.ndim)
    length = length_of(op, n, x.shape[dim])
    if x.shape[dim] != length:
        x = resized(x, dim, length)
    policy = resolve(op, precision, x.dtype)
    if is_resident(x):
        return real_planes(op, x, [dim], scale, policy, out, hermitian)
    if out is not None:
        check.out(op, out, shape=tuple(transform.half(x.shape, dim)), dtype=COMPLEX_OF[x.dtype], x=x)
        if not hermitian:
            return transform.r2c.write(out, x, [dim], scale, policy)
    result = transform.r2c(x, [dim], scale, policy)
    result = result.conj_physical_() if hermitian else result
    return result if out is None else out.copy_(result)


def real_planes(
    op: str, x: Tensor, dims: list[int], scale: str, policy: Precision, out: Any, hermitian: bool
) -> ComplexTensor:
    """Half a spectrum as planes: device memory has no complex dtype to put it in."""
    result = ComplexTensor(*transform.r2c_planes(x, dims, scale, policy))
    result = result.conj() if hermitian else result
    return result if out is None else into_planes(op, out, result)


@array_function
def irfft(
    x: Any,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Any:
    """Inverse of `rfft`: real data of length ``n`` (by default ``2 * (N - 1)``) from half a spectrum.

    Imaginary parts that a real signal cannot have, of the mean and for even n of the highest frequency, are ignored.
    Arguments are those of `fft`; pass ``n`` to get odd lengths back.

    Example:
        >>> irfft(rfft(torch.tensor([1.0, 2.0, 3.0])), 3)
        tensor([1., 2., 3.])
    """
    if plan is not None:
        return planned("irfft", plan).serve("irfft", x, n, dim, norm, axis, precision, out)
    return inverse_real("irfft", x, n, dim, norm, axis, precision, out, False)


@array_function
def hfft(
    x: Any,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Any:
    """Transform half of a Hermitian signal: a real spectrum of length ``n``. Arguments as `irfft`.

    Example:
        >>> hfft(torch.tensor([1.0, 0.0, 0.0]))
        tensor([1., 1., 1., 1.])
    """
    if plan is not None:
        return planned("hfft", plan).serve("hfft", x, n, dim, norm, axis, precision, out)
    return inverse_real("hfft", x, n, dim, norm, axis, precision, out, True)


def inverse_real(
    op: str, x: Any, n: Any, dim: Any, norm: Any, axis: Any, precision: Any, out: Any, hermitian: bool
) -> Tensor:
    """`irfft`, or of the conjugate with the forward scale `hfft`."""
    scale = scale_of(op, norm, not hermitian)
    if isinstance(x, ComplexTensor):
        dim = axis_of(op, dim, axis, x.ndim)
        length = length_of(op, n, 2 * (x.shape[dim] - 1))
        x = x.conj() if hermitian else x
        re, im = resized(x.real, dim, length // 2 + 1), resized(x.imag, dim, length // 2 + 1)
        result = transform.c2r_planes(re, im, [dim], length, scale, resolve(op, precision, x.dtype))
    else:
        x = as_complex(numeric(op, x))
        dim = axis_of(op, dim, axis, x.ndim)
        length = length_of(op, n, 2 * (x.shape[dim] - 1))
        if x.shape[dim] != length // 2 + 1:
            x = resized(x, dim, length // 2 + 1)
        policy = resolve(op, precision, x.dtype)
        if out is not None:
            shape = tuple(length if d == dim else size for d, size in enumerate(x.shape))
            check.out(op, out, shape=shape, dtype=REAL_OF[x.dtype], x=x)
        result = transform.c2r(x.conj() if hermitian else x, [dim], length, scale, policy)
    return result if out is None else out.copy_(result)
