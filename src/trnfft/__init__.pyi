"""Types of trnfft: written by ``python -m tools.stubs`` from the signatures in the source."""

from collections.abc import Callable
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from trnfft import nn as nn, scipy_backend as scipy_backend
from trnfft.callbacks import (
    CallbackPlan as CallbackPlan,
    Convert as Convert,
    Multiply as Multiply,
    Scale as Scale,
    Window as Window,
)
from trnfft.complextensor import ComplexTensor
from trnfft.convolve import Axes
from trnfft.dct import Axes as _dct_Axes
from trnfft.fftn import Axes as _fftn_Axes, Lengths
from trnfft.frequencies import Device, fftshift as fftshift, ifftshift as ifftshift
from trnfft.lengths import next_fast_len as next_fast_len
from trnfft.plan import FFTPlan as FFTPlan, plan as plan
from trnsci.arrays import Array
from trnsci.config import BackendName
from trnsci.nki import HAS_NKI as HAS_NKI
from trnsci.precision import Precision

__all__ = [
    "HAS_NKI",
    "CallbackPlan",
    "ComplexTensor",
    "Convert",
    "FFTPlan",
    "Multiply",
    "Scale",
    "Window",
    "chirp_z",
    "correlate",
    "dct",
    "dctn",
    "dst",
    "dstn",
    "fft",
    "fft2",
    "fftconvolve",
    "fftfreq",
    "fftn",
    "fftshift",
    "get_backend",
    "hfft",
    "hfft2",
    "hfftn",
    "idct",
    "idctn",
    "idst",
    "idstn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "istft",
    "next_fast_len",
    "nn",
    "oaconvolve",
    "plan",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
    "scipy_backend",
    "set_backend",
    "spectrogram",
    "stft",
    "with_callbacks",
]

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
) -> Tensor: ...
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
) -> Array: ...
@overload
def correlate(
    a: Tensor, b: Tensor, mode: str = "full", dim: Axes = None, *, axes: Axes = None, precision: Precision | None = None
) -> Tensor: ...
@overload
def correlate(
    a: Array, b: Array, mode: str = "full", dim: Axes = None, *, axes: Axes = None, precision: Precision | None = None
) -> Array: ...
@overload
def correlate(
    a: Tensor | Array,
    b: Tensor | Array,
    mode: str = "full",
    dim: Axes = None,
    *,
    axes: Axes = None,
    precision: Precision | None = None,
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> ComplexTensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> ComplexTensor: ...
@overload
def fftconvolve(
    a: Tensor, b: Tensor, mode: str = "full", dim: Axes = None, *, axes: Axes = None, precision: Precision | None = None
) -> Tensor: ...
@overload
def fftconvolve(
    a: Array, b: Array, mode: str = "full", dim: Axes = None, *, axes: Axes = None, precision: Precision | None = None
) -> Array: ...
@overload
def fftconvolve(
    a: Tensor | Array,
    b: Tensor | Array,
    mode: str = "full",
    dim: Axes = None,
    *,
    axes: Axes = None,
    precision: Precision | None = None,
) -> Tensor: ...
@overload
def fftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, device: Device = None) -> Tensor: ...
@overload
def fftfreq(
    n: int, d: float = 1.0, *, dtype: np.dtype[Any] | type[np.floating[Any]] | type[float], device: Device = None
) -> Array: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> ComplexTensor: ...
def get_backend() -> BackendName: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> ComplexTensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> ComplexTensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> ComplexTensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
@overload
def oaconvolve(
    a: Tensor, b: Tensor, mode: str = "full", dim: Axes = None, *, axes: Axes = None, precision: Precision | None = None
) -> Tensor: ...
@overload
def oaconvolve(
    a: Array, b: Array, mode: str = "full", dim: Axes = None, *, axes: Axes = None, precision: Precision | None = None
) -> Array: ...
@overload
def oaconvolve(
    a: Tensor | Array,
    b: Tensor | Array,
    mode: str = "full",
    dim: Axes = None,
    *,
    axes: Axes = None,
    precision: Precision | None = None,
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Array: ...
@overload
def rfftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, device: Device = None) -> Tensor: ...
@overload
def rfftfreq(
    n: int, d: float = 1.0, *, dtype: np.dtype[Any] | type[np.floating[Any]] | type[float], device: Device = None
) -> Array: ...
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
) -> Tensor: ...
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
) -> Array: ...
def set_backend(backend: BackendName | None, *, strict: bool = True) -> None: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
def with_callbacks(
    plan: FFTPlan,
    *,
    load: Callable[[Tensor | Array], Tensor | Array] | None = None,
    store: Callable[[Tensor | Array], Tensor | Array] | None = None,
) -> CallbackPlan: ...
