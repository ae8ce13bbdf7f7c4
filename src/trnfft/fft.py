"""One-dimensional transforms: complex, real and Hermitian."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from trnfft.along_axes import Transformable, complex_along, half_operand, inverse_real_along, operand, real_along
from trnfft.arguments import axis_of, length_of, planned, real
from trnsci import array_function
from trnsci.precision import Precision

if TYPE_CHECKING:
    from trnfft.plan import FFTPlan


@array_function
def fft(
    x: Transformable,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Transformable | None = None,
) -> Transformable:
    """Compute the discrete Fourier transform along one axis: ``y[k] = sum_j x[j] exp(-2 pi i j k / n)``.

    Args:
        x: [..., N] real or complex. Halves are computed in float32, integers in float64. A `ComplexTensor` gives one.
        n: length of the transform; ``x`` is cut, or padded with zeros at its end.
        dim: the axis.
        norm: ``"backward"`` (default, no scale), ``"ortho"`` (``1/sqrt(n)``) or ``"forward"`` (``1/n``).
        axis: NumPy's name for ``dim``.
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than ``x``.
        plan: from `trnfft.plan`, for these arguments, which are not given again.
        out: memory for the result, shared with no operand.

    Returns:
        [..., n] complex, in the precision of ``x``; a `ComplexTensor` where ``x`` is one or is in device memory.

    Raises:
        ArgumentError: an axis, length, norm, plan or ``out`` does not fit.
        DtypeError: ``x`` is no tensor of numbers.

    Error bound:
        relative L2 error, for all data: ``8 log2(2 n) u`` in torch.fft and SciPy; where torch.fft transforms a length
        with a prime factor p of 17 or more, as it does on GPUs and under ``torch.func``, ``4 min(p, 128) u`` is added.
        Half spectra count as what they are the half of. On the device 1e-5 in fp32 for each product (one, two or four;
        5e-7 in all for Gaussian data), 1e-7 compensated, 1e-14 in fp64; see docs/trnfft/fft.md.

    Cost:
        ``5 n log2 n`` FLOPs, half of that for real input.

    Example:
        >>> fft(torch.tensor([1.0, 0.0, 0.0, 0.0])).real
        tensor([1., 1., 1., 1.])
    """
    if plan is not None:
        return planned("fft", plan).serve("fft", x, n=n, dim=dim, norm=norm, axis=axis, precision=precision, out=out)
    x = operand("fft", x)
    dim = axis_of("fft", dim, axis, x.ndim)
    length = length_of("fft", n, x.shape[dim])
    return complex_along("fft", x, [dim], [length], norm=norm, precision=precision, out=out, inverse=False)


@array_function
def ifft(
    x: Transformable,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Transformable | None = None,
) -> Transformable:
    """Compute the inverse of `fft`: ``y[j] = 1/n sum_k x[k] exp(2 pi i j k / n)``; arguments are those of `fft`.

    Example:
        >>> ifft(torch.tensor([4.0, 0.0, 0.0, 0.0])).real
        tensor([1., 1., 1., 1.])
    """
    if plan is not None:
        return planned("ifft", plan).serve("ifft", x, n=n, dim=dim, norm=norm, axis=axis, precision=precision, out=out)
    x = operand("ifft", x)
    dim = axis_of("ifft", dim, axis, x.ndim)
    length = length_of("ifft", n, x.shape[dim])
    return complex_along("ifft", x, [dim], [length], norm=norm, precision=precision, out=out, inverse=True)


@array_function
def rfft(
    x: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Transformable | None = None,
) -> Transformable:
    """Transform real data: the first ``n // 2 + 1`` terms of `fft`, the rest being their conjugates. Half the cost.

    Arguments are those of `fft`; ``x`` is real. The result is complex, a `ComplexTensor` for ``x`` in device memory.

    Example:
        >>> rfft(torch.tensor([1.0, 1.0, 1.0, 1.0]))
        tensor([4.+0.j, 0.+0.j, 0.+0.j])
    """
    if plan is not None:
        return planned("rfft", plan).serve("rfft", x, n=n, dim=dim, norm=norm, axis=axis, precision=precision, out=out)
    x = real("rfft", x)
    dim = axis_of("rfft", dim, axis, x.ndim)
    length = length_of("rfft", n, x.shape[dim])
    return real_along("rfft", x, [dim], [length], norm=norm, precision=precision, out=out, hermitian=False)


@array_function
def ihfft(
    x: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Transformable | None = None,
) -> Transformable:
    """Compute the inverse of `hfft`: the half spectrum of real data, conjugated, over n. Arguments as `rfft`.

    Example:
        >>> ihfft(torch.tensor([1.0, 1.0, 1.0, 1.0])).real
        tensor([1., 0., 0.])
    """
    if plan is not None:
        return planned("ihfft", plan).serve(
            "ihfft", x, n=n, dim=dim, norm=norm, axis=axis, precision=precision, out=out
        )
    x = real("ihfft", x)
    dim = axis_of("ihfft", dim, axis, x.ndim)
    length = length_of("ihfft", n, x.shape[dim])
    return real_along("ihfft", x, [dim], [length], norm=norm, precision=precision, out=out, hermitian=True)


@array_function
def irfft(
    x: Transformable,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Compute the inverse of `rfft`: real data of length ``n`` (default ``2 * (N - 1)``) from half a spectrum.

    Imaginary parts that a real signal cannot have, of the mean and for even n of the highest frequency, are ignored.
    Arguments are those of `fft`; pass ``n`` to get odd lengths back.

    Example:
        >>> irfft(rfft(torch.tensor([1.0, 2.0, 3.0])), 3)
        tensor([1., 2., 3.])
    """
    if plan is not None:
        return planned("irfft", plan).serve(
            "irfft", x, n=n, dim=dim, norm=norm, axis=axis, precision=precision, out=out
        )
    x = half_operand("irfft", x)
    dim = axis_of("irfft", dim, axis, x.ndim)
    length = length_of("irfft", n, 2 * (x.shape[dim] - 1))
    return inverse_real_along("irfft", x, [dim], [length], norm=norm, precision=precision, out=out, hermitian=False)


@array_function
def hfft(
    x: Transformable,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Transform half of a Hermitian signal: a real spectrum of length ``n``. Arguments as `irfft`.

    Example:
        >>> hfft(torch.tensor([1.0, 0.0, 0.0]))
        tensor([1., 1., 1., 1.])
    """
    if plan is not None:
        return planned("hfft", plan).serve("hfft", x, n=n, dim=dim, norm=norm, axis=axis, precision=precision, out=out)
    x = half_operand("hfft", x)
    dim = axis_of("hfft", dim, axis, x.ndim)
    length = length_of("hfft", n, 2 * (x.shape[dim] - 1))
    return inverse_real_along("hfft", x, [dim], [length], norm=norm, precision=precision, out=out, hermitian=True)
