"""One-dimensional transforms: complex, real and Hermitian."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from torch import Tensor

from trnfft.along_axes import KINDS, Transformable, inverse_real_along
from trnfft.arguments import axis_of, check_plan, length_of, replaces_transforms
from trnsci import array_function
from trnsci.arrays import like
from trnsci.precision import Precision

if TYPE_CHECKING:
    from trnfft.plan import FFTPlan


@replaces_transforms("numpy.fft", "scipy.fft")
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
    return _along("fft", x, n, dim, norm, axis, precision, plan, out)


def _along(
    op: str,
    x: Any,
    n: Any = None,
    dim: Any = -1,
    norm: Any = None,
    axis: Any = None,
    precision: Any = None,
    plan: Any = None,
    out: Any = None,
) -> Transformable:
    if plan is not None:
        given = axis if axis is not None else None if dim == -1 else dim
        return check_plan(op, plan).serve(op, x, out, n=n, dim=given, norm=norm, precision=precision)
    take, along, backwards = KINDS[op]
    x = take(op, x)
    dim = axis_of(op, dim, axis, x.ndim)
    stored = x.shape[dim]
    # half a spectrum stores fewer points than it has
    length = length_of(op, n, 2 * (stored - 1) if along is inverse_real_along else stored)
    return along(op, x, [dim], [length], backwards, norm=norm, precision=precision, out=out)


def _to_real(op: str, *args: Any, **options: Any) -> Tensor:
    return _along(op, *args, **options)  # type: ignore[return-value]


@replaces_transforms("numpy.fft", "scipy.fft")
@like(fft, functools.partial(_along, "ifft"))
def ifft(*args: Any, **kwargs: Any) -> Any:
    """Compute the inverse of `fft`: ``y[j] = 1/n sum_k x[k] exp(2 pi i j k / n)``; arguments are those of `fft`.

    Example:
        >>> ifft(torch.tensor([4.0, 0.0, 0.0, 0.0])).real
        tensor([1., 1., 1., 1.])
    """


@replaces_transforms("numpy.fft", "scipy.fft")
@like(fft, functools.partial(_along, "rfft"))
def rfft(*args: Any, **kwargs: Any) -> Any:
    """Transform real data: the first ``n // 2 + 1`` terms of `fft`, the rest being their conjugates. Half the cost.

    Arguments are those of `fft`; ``x`` is real. The result is complex, a `ComplexTensor` for ``x`` in device memory.

    Example:
        >>> rfft(torch.tensor([1.0, 1.0, 1.0, 1.0]))
        tensor([4.+0.j, 0.+0.j, 0.+0.j])
    """


@replaces_transforms("numpy.fft", "scipy.fft")
@like(fft, functools.partial(_along, "ihfft"))
def ihfft(*args: Any, **kwargs: Any) -> Any:
    """Compute the inverse of `hfft`: the half spectrum of real data, conjugated, over n. Arguments as `rfft`.

    Example:
        >>> ihfft(torch.tensor([1.0, 1.0, 1.0, 1.0])).real
        tensor([1., 0., 0.])
    """


@replaces_transforms("numpy.fft", "scipy.fft")
@like(fft, functools.partial(_to_real, "irfft"))
def irfft(*args: Any, **kwargs: Any) -> Any:
    """Compute the inverse of `rfft`: real data of length ``n`` (default ``2 * (N - 1)``) from half a spectrum.

    Imaginary parts that a real signal cannot have, of the mean and for even n of the highest frequency, are ignored.
    Arguments are those of `fft`; pass ``n`` to get odd lengths back.

    Example:
        >>> irfft(rfft(torch.tensor([1.0, 2.0, 3.0])), 3)
        tensor([1., 2., 3.])
    """


@replaces_transforms("numpy.fft", "scipy.fft")
@like(fft, functools.partial(_to_real, "hfft"))
def hfft(*args: Any, **kwargs: Any) -> Any:
    """Transform half of a Hermitian signal: a real spectrum of length ``n``. Arguments as `irfft`.

    Example:
        >>> hfft(torch.tensor([1.0, 0.0, 0.0]))
        tensor([1., 1., 1., 1.])
    """
