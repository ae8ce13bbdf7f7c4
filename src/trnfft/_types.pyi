"""Types of trnfft: written by ``python -m tools.stubs`` from the signatures in the source."""

from collections.abc import Callable
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from trnfft.callbacks import CallbackPlan
from trnfft.complextensor import ComplexTensor
from trnfft.convolve import Axes
from trnfft.dct import Axes as _dct_Axes
from trnfft.fftn import Axes as _fftn_Axes, Lengths
from trnfft.frequencies import Device
from trnfft.plan import FFTPlan
from trnsci.arrays import Array
from trnsci.config import BackendName
from trnsci.precision import Precision

@overload
def chirp_z(
    x: Tensor,
    m: int | None = None,
    w: complex | None = None,
    a: complex = 1.0,
    dim: int = -1,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
) -> Tensor:
    """Evaluate ``y[k] = sum_j x[j] z_k**-j`` at ``z_k = a * w**-k`` for k < m, by Bluestein's algorithm."""

@overload
def chirp_z(
    x: Array,
    m: int | None = None,
    w: complex | None = None,
    a: complex = 1.0,
    dim: int = -1,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
) -> Array:
    """Evaluate ``y[k] = sum_j x[j] z_k**-j`` at ``z_k = a * w**-k`` for k < m, by Bluestein's algorithm."""

@overload
def correlate(
    a: Tensor, b: Tensor, mode: str = "full", dim: Axes = None, *, axes: Axes = None, precision: Precision | None = None
) -> Tensor:
    """Correlate two arrays: ``y[k] = sum_j a[j + k - (len(b) - 1)] conj(b[j])``; arguments as `fftconvolve`."""

@overload
def correlate(
    a: Array, b: Array, mode: str = "full", dim: Axes = None, *, axes: Axes = None, precision: Precision | None = None
) -> Array:
    """Correlate two arrays: ``y[k] = sum_j a[j + k - (len(b) - 1)] conj(b[j])``; arguments as `fftconvolve`."""

@overload
def correlate(
    a: Tensor | Array,
    b: Tensor | Array,
    mode: str = "full",
    dim: Axes = None,
    *,
    axes: Axes = None,
    precision: Precision | None = None,
) -> Tensor:
    """Correlate two arrays: ``y[k] = sum_j a[j + k - (len(b) - 1)] conj(b[j])``; arguments as `fftconvolve`."""

@overload
def dct(
    x: Tensor,
    type: int = 2,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the discrete cosine transform along one axis."""

@overload
def dct(
    x: Array,
    type: int = 2,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Return the discrete cosine transform along one axis."""

@overload
def dct(
    x: Tensor | Array,
    type: int = 2,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return the discrete cosine transform along one axis."""

@overload
def dctn(
    x: Tensor,
    type: int = 2,
    s: _dct_Axes = None,
    dim: _dct_Axes = None,
    norm: str | None = None,
    *,
    axes: _dct_Axes = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the discrete cosine transform along several axes."""

@overload
def dctn(
    x: Array,
    type: int = 2,
    s: _dct_Axes = None,
    dim: _dct_Axes = None,
    norm: str | None = None,
    *,
    axes: _dct_Axes = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Return the discrete cosine transform along several axes."""

@overload
def dctn(
    x: Tensor | Array,
    type: int = 2,
    s: _dct_Axes = None,
    dim: _dct_Axes = None,
    norm: str | None = None,
    *,
    axes: _dct_Axes = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return the discrete cosine transform along several axes."""

@overload
def dst(
    x: Tensor,
    type: int = 2,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Discrete sine transform along one axis."""

@overload
def dst(
    x: Array,
    type: int = 2,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Discrete sine transform along one axis."""

@overload
def dst(
    x: Tensor | Array,
    type: int = 2,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Discrete sine transform along one axis."""

@overload
def dstn(
    x: Tensor,
    type: int = 2,
    s: _dct_Axes = None,
    dim: _dct_Axes = None,
    norm: str | None = None,
    *,
    axes: _dct_Axes = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Discrete sine transform along several axes."""

@overload
def dstn(
    x: Array,
    type: int = 2,
    s: _dct_Axes = None,
    dim: _dct_Axes = None,
    norm: str | None = None,
    *,
    axes: _dct_Axes = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Discrete sine transform along several axes."""

@overload
def dstn(
    x: Tensor | Array,
    type: int = 2,
    s: _dct_Axes = None,
    dim: _dct_Axes = None,
    norm: str | None = None,
    *,
    axes: _dct_Axes = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Discrete sine transform along several axes."""

@overload
def fft(
    x: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Compute the discrete Fourier transform along one axis: ``y[k] = sum_j x[j] exp(-2 pi i j k / n)``."""

@overload
def fft(
    x: Array,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Compute the discrete Fourier transform along one axis: ``y[k] = sum_j x[j] exp(-2 pi i j k / n)``."""

@overload
def fft(
    x: ComplexTensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """Compute the discrete Fourier transform along one axis: ``y[k] = sum_j x[j] exp(-2 pi i j k / n)``."""

@overload
def fft2(
    x: Tensor,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Discrete Fourier transform over several axes; the n-D `fft`."""

@overload
def fft2(
    x: Array,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Discrete Fourier transform over several axes; the n-D `fft`."""

@overload
def fft2(
    x: ComplexTensor,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """Discrete Fourier transform over several axes; the n-D `fft`."""

@overload
def fftconvolve(
    a: Tensor, b: Tensor, mode: str = "full", dim: Axes = None, *, axes: Axes = None, precision: Precision | None = None
) -> Tensor:
    """Convolve two arrays over the given axes: ``y[k] = sum_j a[j] b[k - j]``."""

@overload
def fftconvolve(
    a: Array, b: Array, mode: str = "full", dim: Axes = None, *, axes: Axes = None, precision: Precision | None = None
) -> Array:
    """Convolve two arrays over the given axes: ``y[k] = sum_j a[j] b[k - j]``."""

@overload
def fftconvolve(
    a: Tensor | Array,
    b: Tensor | Array,
    mode: str = "full",
    dim: Axes = None,
    *,
    axes: Axes = None,
    precision: Precision | None = None,
) -> Tensor:
    """Convolve two arrays over the given axes: ``y[k] = sum_j a[j] b[k - j]``."""

@overload
def fftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, device: Device = None) -> Tensor:
    """Return frequencies of `fft`'s terms in cycles per unit of ``d``: ``[0, 1, ..., -2, -1] / (n d)``."""

@overload
def fftfreq(
    n: int, d: float = 1.0, *, dtype: np.dtype[Any] | type[np.floating[Any]] | type[float], device: Device = None
) -> Array:
    """Return frequencies of `fft`'s terms in cycles per unit of ``d``: ``[0, 1, ..., -2, -1] / (n d)``."""

@overload
def fftn(
    x: Tensor,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Discrete Fourier transform over several axes; the n-D `fft`."""

@overload
def fftn(
    x: Array,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Discrete Fourier transform over several axes; the n-D `fft`."""

@overload
def fftn(
    x: ComplexTensor,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """Discrete Fourier transform over several axes; the n-D `fft`."""

def get_backend() -> BackendName:
    """Return the backend of trnfft in force here."""

@overload
def hfft(
    x: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Transform half of a Hermitian signal: a real spectrum of length ``n``. Arguments as `irfft`."""

@overload
def hfft(
    x: Array,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Transform half of a Hermitian signal: a real spectrum of length ``n``. Arguments as `irfft`."""

@overload
def hfft(
    x: ComplexTensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: ComplexTensor | None = None,
) -> Tensor:
    """Transform half of a Hermitian signal: a real spectrum of length ``n``. Arguments as `irfft`."""

@overload
def hfft2(
    x: Tensor,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Transform a signal that is Hermitian in the last axis, stored by half: a real spectrum."""

@overload
def hfft2(
    x: Array,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Transform a signal that is Hermitian in the last axis, stored by half: a real spectrum."""

@overload
def hfft2(
    x: ComplexTensor,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: ComplexTensor | None = None,
) -> Tensor:
    """Transform a signal that is Hermitian in the last axis, stored by half: a real spectrum."""

@overload
def hfftn(
    x: Tensor,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Transform a signal that is Hermitian in the last axis, stored by half: a real spectrum."""

@overload
def hfftn(
    x: Array,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Transform a signal that is Hermitian in the last axis, stored by half: a real spectrum."""

@overload
def hfftn(
    x: ComplexTensor,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: ComplexTensor | None = None,
) -> Tensor:
    """Transform a signal that is Hermitian in the last axis, stored by half: a real spectrum."""

@overload
def idct(
    x: Tensor,
    type: int = 2,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of `dct`."""

@overload
def idct(
    x: Array,
    type: int = 2,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Inverse of `dct`."""

@overload
def idct(
    x: Tensor | Array,
    type: int = 2,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Inverse of `dct`."""

@overload
def idctn(
    x: Tensor,
    type: int = 2,
    s: _dct_Axes = None,
    dim: _dct_Axes = None,
    norm: str | None = None,
    *,
    axes: _dct_Axes = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of `dctn`."""

@overload
def idctn(
    x: Array,
    type: int = 2,
    s: _dct_Axes = None,
    dim: _dct_Axes = None,
    norm: str | None = None,
    *,
    axes: _dct_Axes = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Inverse of `dctn`."""

@overload
def idctn(
    x: Tensor | Array,
    type: int = 2,
    s: _dct_Axes = None,
    dim: _dct_Axes = None,
    norm: str | None = None,
    *,
    axes: _dct_Axes = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Inverse of `dctn`."""

@overload
def idst(
    x: Tensor,
    type: int = 2,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of `dst`."""

@overload
def idst(
    x: Array,
    type: int = 2,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Inverse of `dst`."""

@overload
def idst(
    x: Tensor | Array,
    type: int = 2,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Inverse of `dst`."""

@overload
def idstn(
    x: Tensor,
    type: int = 2,
    s: _dct_Axes = None,
    dim: _dct_Axes = None,
    norm: str | None = None,
    *,
    axes: _dct_Axes = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of `dstn`."""

@overload
def idstn(
    x: Array,
    type: int = 2,
    s: _dct_Axes = None,
    dim: _dct_Axes = None,
    norm: str | None = None,
    *,
    axes: _dct_Axes = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Inverse of `dstn`."""

@overload
def idstn(
    x: Tensor | Array,
    type: int = 2,
    s: _dct_Axes = None,
    dim: _dct_Axes = None,
    norm: str | None = None,
    *,
    axes: _dct_Axes = None,
    orthogonalize: bool | None = None,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Inverse of `dstn`."""

@overload
def ifft(
    x: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Compute the inverse of `fft`: ``y[j] = 1/n sum_k x[k] exp(2 pi i j k / n)``; arguments are those of `fft`."""

@overload
def ifft(
    x: Array,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Compute the inverse of `fft`: ``y[j] = 1/n sum_k x[k] exp(2 pi i j k / n)``; arguments are those of `fft`."""

@overload
def ifft(
    x: ComplexTensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """Compute the inverse of `fft`: ``y[j] = 1/n sum_k x[k] exp(2 pi i j k / n)``; arguments are those of `fft`."""

@overload
def ifft2(
    x: Tensor,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of `fftn`."""

@overload
def ifft2(
    x: Array,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Inverse of `fftn`."""

@overload
def ifft2(
    x: ComplexTensor,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """Inverse of `fftn`."""

@overload
def ifftn(
    x: Tensor,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of `fftn`."""

@overload
def ifftn(
    x: Array,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Inverse of `fftn`."""

@overload
def ifftn(
    x: ComplexTensor,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: ComplexTensor | None = None,
) -> ComplexTensor:
    """Inverse of `fftn`."""

@overload
def ihfft(
    x: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Compute the inverse of `hfft`: the half spectrum of real data, conjugated, over n. Arguments as `rfft`."""

@overload
def ihfft(
    x: Array,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Compute the inverse of `hfft`: the half spectrum of real data, conjugated, over n. Arguments as `rfft`."""

@overload
def ihfft2(
    x: Tensor,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of `hfftn`: the half spectrum of real data, conjugated and scaled."""

@overload
def ihfft2(
    x: Array,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Inverse of `hfftn`: the half spectrum of real data, conjugated and scaled."""

@overload
def ihfftn(
    x: Tensor,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of `hfftn`: the half spectrum of real data, conjugated and scaled."""

@overload
def ihfftn(
    x: Array,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Inverse of `hfftn`: the half spectrum of real data, conjugated and scaled."""

@overload
def irfft(
    x: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Compute the inverse of `rfft`: real data of length ``n`` (default ``2 * (N - 1)``) from half a spectrum."""

@overload
def irfft(
    x: Array,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Compute the inverse of `rfft`: real data of length ``n`` (default ``2 * (N - 1)``) from half a spectrum."""

@overload
def irfft(
    x: ComplexTensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: ComplexTensor | None = None,
) -> Tensor:
    """Compute the inverse of `rfft`: real data of length ``n`` (default ``2 * (N - 1)``) from half a spectrum."""

@overload
def irfft2(
    x: Tensor,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of `rfftn`: real data; pass ``s`` to get odd lengths of the last axis back."""

@overload
def irfft2(
    x: Array,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Inverse of `rfftn`: real data; pass ``s`` to get odd lengths of the last axis back."""

@overload
def irfft2(
    x: ComplexTensor,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: ComplexTensor | None = None,
) -> Tensor:
    """Inverse of `rfftn`: real data; pass ``s`` to get odd lengths of the last axis back."""

@overload
def irfftn(
    x: Tensor,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of `rfftn`: real data; pass ``s`` to get odd lengths of the last axis back."""

@overload
def irfftn(
    x: Array,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Inverse of `rfftn`: real data; pass ``s`` to get odd lengths of the last axis back."""

@overload
def irfftn(
    x: ComplexTensor,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: ComplexTensor | None = None,
) -> Tensor:
    """Inverse of `rfftn`: real data; pass ``s`` to get odd lengths of the last axis back."""

@overload
def istft(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
    *,
    precision: Precision | None = None,
) -> Tensor:
    """Return the signal whose `stft` is closest to ``x``; the signal itself where ``x`` is one's `stft`."""

@overload
def istft(
    x: Array,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Array | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
    *,
    precision: Precision | None = None,
) -> Array:
    """Return the signal whose `stft` is closest to ``x``; the signal itself where ``x`` is one's `stft`."""

@overload
def istft(
    x: Tensor | Array,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | Array | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
    *,
    precision: Precision | None = None,
) -> Tensor:
    """Return the signal whose `stft` is closest to ``x``; the signal itself where ``x`` is one's `stft`."""

@overload
def oaconvolve(
    a: Tensor, b: Tensor, mode: str = "full", dim: Axes = None, *, axes: Axes = None, precision: Precision | None = None
) -> Tensor:
    """Convolve by overlap and add: SciPy's name for `fftconvolve`, which uses it where it is less work."""

@overload
def oaconvolve(
    a: Array, b: Array, mode: str = "full", dim: Axes = None, *, axes: Axes = None, precision: Precision | None = None
) -> Array:
    """Convolve by overlap and add: SciPy's name for `fftconvolve`, which uses it where it is less work."""

@overload
def oaconvolve(
    a: Tensor | Array,
    b: Tensor | Array,
    mode: str = "full",
    dim: Axes = None,
    *,
    axes: Axes = None,
    precision: Precision | None = None,
) -> Tensor:
    """Convolve by overlap and add: SciPy's name for `fftconvolve`, which uses it where it is less work."""

@overload
def rfft(
    x: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Transform real data: the first ``n // 2 + 1`` terms of `fft`, the rest being their conjugates. Half the cost."""

@overload
def rfft(
    x: Array,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    axis: int | None = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Transform real data: the first ``n // 2 + 1`` terms of `fft`, the rest being their conjugates. Half the cost."""

@overload
def rfft2(
    x: Tensor,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Transform real data over several axes; the last one is halved as by `rfft`."""

@overload
def rfft2(
    x: Array,
    s: Lengths = None,
    dim: _fftn_Axes = ...,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Transform real data over several axes; the last one is halved as by `rfft`."""

@overload
def rfftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, device: Device = None) -> Tensor:
    """Return frequencies of `rfft`'s terms: ``[0, 1, ..., n // 2] / (n d)``; arguments as `fftfreq`."""

@overload
def rfftfreq(
    n: int, d: float = 1.0, *, dtype: np.dtype[Any] | type[np.floating[Any]] | type[float], device: Device = None
) -> Array:
    """Return frequencies of `rfft`'s terms: ``[0, 1, ..., n // 2] / (n d)``; arguments as `fftfreq`."""

@overload
def rfftn(
    x: Tensor,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Transform real data over several axes; the last one is halved as by `rfft`."""

@overload
def rfftn(
    x: Array,
    s: Lengths = None,
    dim: _fftn_Axes = None,
    norm: str | None = None,
    *,
    axes: _fftn_Axes = None,
    precision: Precision | None = None,
    plan: FFTPlan | None = None,
    out: Array | None = None,
) -> Array:
    """Transform real data over several axes; the last one is halved as by `rfft`."""

def set_backend(backend: BackendName | None, *, strict: bool = True) -> None:
    """Set the backend of trnfft: ``auto``, ``nki``, ``simulator`` or ``pytorch``."""

@overload
def spectrogram(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    power: float = 2.0,
    *,
    precision: Precision | None = None,
) -> Tensor:
    """Return magnitudes of `stft` raised to ``power``: 1 for magnitude, 2 for power; else the arguments of `stft`."""

@overload
def spectrogram(
    x: Array,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Array | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    power: float = 2.0,
    *,
    precision: Precision | None = None,
) -> Array:
    """Return magnitudes of `stft` raised to ``power``: 1 for magnitude, 2 for power; else the arguments of `stft`."""

@overload
def spectrogram(
    x: Tensor | Array,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | Array | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    power: float = 2.0,
    *,
    precision: Precision | None = None,
) -> Tensor:
    """Return magnitudes of `stft` raised to ``power``: 1 for magnitude, 2 for power; else the arguments of `stft`."""

@overload
def stft(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool = True,
    *,
    precision: Precision | None = None,
) -> Tensor:
    """Transform windowed frames: ``y[..., k, t] = sum_j window[j] x[..., t hop + j] exp(-2 pi i j k / n_fft)``."""

@overload
def stft(
    x: Array,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Array | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool = True,
    *,
    precision: Precision | None = None,
) -> Array:
    """Transform windowed frames: ``y[..., k, t] = sum_j window[j] x[..., t hop + j] exp(-2 pi i j k / n_fft)``."""

@overload
def stft(
    x: Tensor | Array,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | Array | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool = True,
    *,
    precision: Precision | None = None,
) -> Tensor:
    """Transform windowed frames: ``y[..., k, t] = sum_j window[j] x[..., t hop + j] exp(-2 pi i j k / n_fft)``."""

def with_callbacks(
    plan: FFTPlan,
    *,
    load: Callable[[Tensor | Array], Tensor | Array] | None = None,
    store: Callable[[Tensor | Array], Tensor | Array] | None = None,
) -> CallbackPlan:
    """Let a plan pass its data through functions on the way in and on the way out: cuFFT's load and store callbacks."""
