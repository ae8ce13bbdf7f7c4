"""The earlier `trnfft`: results as planes, Hann windows by default, one precision for all transforms."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import trnfft
import trnfft.nn
import trnsci
from trnfft import ComplexTensor
from trnsci import ArgumentError

# The earlier names of precisions, and the policy each of them is here.
MODES = {"fast": None, "fp32": "fp32", "kahan": "compensated", "double": "fp64", "fp64": "fp64", "ozaki": "fp64"}
_state: dict[str, Any] = {"precision": "fast", "verified": False, "multicore": False, "cores": 0}

Value = Tensor | ComplexTensor


def set_precision(mode: str) -> None:
    """Set the precision of all transforms: ``fast`` (single), ``kahan``, ``double`` or ``ozaki``."""
    if mode not in MODES:
        raise ArgumentError("set_precision", "mode", mode, f"one of {', '.join(map(repr, MODES))}")
    _state["precision"] = mode


def get_precision() -> str:
    """Return the precision of all transforms."""
    return str(_state["precision"])


def set_ozaki_product_precision_verified(verified: bool = True) -> None:
    """Note that products of the device were verified; here every product of split operands is exact by construction."""
    _state["verified"] = bool(verified)


def _run(function: Callable[..., Any], x: Any, *args: Any) -> Any:
    """Call a transform of ours at the precision in force."""
    return function(x, *args, precision=MODES[_state["precision"]])


def _planes(result: Value) -> ComplexTensor:
    return result if isinstance(result, ComplexTensor) else ComplexTensor(result)


def _real(x: Any) -> Any:
    """Return the real plane: transforms of real data read no other."""
    return x.real if isinstance(x, ComplexTensor) else x


def _merged(x: Any) -> Any:
    return x.to_torch() if isinstance(x, ComplexTensor) else x


_fft, _ifft, _rfft, _irfft, _hfft, _ihfft = (
    trnfft.fft, trnfft.ifft, trnfft.rfft, trnfft.irfft, trnfft.hfft, trnfft.ihfft
)  # fmt: skip
_fft2, _fftn, _ifftn, _rfft2, _irfft2, _rfftn, _irfftn, _stft, _istft = (
    trnfft.fft2, trnfft.fftn, trnfft.ifftn, trnfft.rfft2, trnfft.irfft2, trnfft.rfftn, trnfft.irfftn, trnfft.stft,
    trnfft.istft,
)  # fmt: skip


def fft(input: Any, n: int | None = None) -> ComplexTensor:  # noqa: A002
    """Transform along the last axis."""
    return _planes(_run(_fft, input, n))


def ifft(input: Any, n: int | None = None) -> ComplexTensor:  # noqa: A002
    """Invert `fft`."""
    return _planes(_run(_ifft, input, n))


def rfft(input: Any, n: int | None = None) -> ComplexTensor:  # noqa: A002
    """Transform real data along the last axis: the frequencies up to the middle."""
    return _planes(_run(_rfft, _real(input), n))


def irfft(input: Any, n: int | None = None) -> Tensor:  # noqa: A002
    """Invert `rfft`."""
    result: Tensor = _run(_irfft, _merged(input), n)
    return result


def hfft(input: Any, n: int | None = None) -> Tensor:  # noqa: A002
    """Transform half of a Hermitian signal to real frequencies."""
    result: Tensor = _run(_hfft, _merged(input), n)
    return result


def ihfft(input: Any, n: int | None = None) -> ComplexTensor:  # noqa: A002
    """Invert `hfft`."""
    return _planes(_run(_ihfft, _real(input), n))


def fft2(input: Any, s: Sequence[int] | None = None) -> ComplexTensor:  # noqa: A002
    """Transform along the last two axes."""
    return _planes(_run(_fft2, input, s))


def fftn(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] | None = None) -> ComplexTensor:  # noqa: A002
    """Transform along some axes, all of them by default."""
    return _planes(_run(_fftn, input, s, dim))


def ifftn(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] | None = None) -> ComplexTensor:  # noqa: A002
    """Invert `fftn`."""
    return _planes(_run(_ifftn, input, s, dim))


def rfft2(input: Any, s: Sequence[int] | None = None) -> ComplexTensor:  # noqa: A002
    """Transform real data along the last two axes."""
    return _planes(_run(_rfft2, _real(input), s))


def irfft2(input: Any, s: Sequence[int] | None = None) -> Tensor:  # noqa: A002
    """Invert `rfft2`."""
    result: Tensor = _run(_irfft2, _merged(input), s)
    return result


def rfftn(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] | None = None) -> ComplexTensor:  # noqa: A002
    """Transform real data along some axes."""
    return _planes(_run(_rfftn, _real(input), s, dim))


def irfftn(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] | None = None) -> Tensor:  # noqa: A002
    """Invert `rfftn`."""
    result: Tensor = _run(_irfftn, _merged(input), s, dim)
    return result


def _window(window: Tensor | None, win_length: int | None, n_fft: int, like: Tensor) -> Tensor:
    if window is not None:
        return window
    dtype = like.real.dtype if like.is_complex() else like.dtype
    return torch.hann_window(n_fft if win_length is None else win_length, dtype=dtype, device=like.device)


def stft(
    input: Any,  # noqa: A002
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool = True,
) -> ComplexTensor:
    """Transform overlapping frames, under a Hann window unless one is given."""
    x = _merged(input)
    own = _window(window, win_length, n_fft, x)
    return _planes(_stft(x, n_fft, hop_length, win_length, own, center, pad_mode, normalized, onesided))


def istft(
    input: Any,  # noqa: A002
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool = True,
    length: int | None = None,
) -> Tensor:
    """Invert `stft`."""
    x = _merged(input)
    own = _window(window, win_length, n_fft, x)
    return _istft(x, n_fft, hop_length, win_length, own, center, normalized, onesided, length)


def complex_matmul(a: Any, b: Any) -> ComplexTensor:
    """Return ``a @ b`` of planes."""
    return _planes(_planes(a) @ _planes(b))


@dataclass(frozen=True)
class FFTPlan:
    """How a length is transformed: ``cooley_tukey`` for powers of two, else ``bluestein`` in a padded length."""

    n: int
    algorithm: str
    inverse: bool
    padded_n: int | None = None

    @property
    def is_power_of_2(self) -> bool:
        """Whether the length is a power of two."""
        return self.n > 0 and self.n & (self.n - 1) == 0


@functools.lru_cache(maxsize=1024)
def create_plan(n: int, inverse: bool = False) -> FFTPlan:
    """Return the plan of a length; the same one for the same arguments."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ArgumentError("create_plan", "n", n, "a positive length")
    if n & (n - 1) == 0:
        return FFTPlan(n, "cooley_tukey", inverse)
    return FFTPlan(n, "bluestein", inverse, 1 << (2 * n - 2).bit_length())


def clear_plan_cache() -> None:
    """Forget all plans."""
    create_plan.cache_clear()
    trnsci.clear_plans()


def complex_gemm(a: Any, b: Any) -> ComplexTensor:
    """Return ``a @ b`` of planes."""
    return complex_matmul(a, b)


def complex_mask_apply(mask: Any, spec: Any) -> ComplexTensor:
    """Return a spectrum times a mask, element by element."""
    return _planes(_planes(mask) * _planes(spec))


def complex_linear(x: Any, w_real: Tensor, w_imag: Tensor) -> ComplexTensor:
    """Return ``x @ W^T`` for weights ``W`` [out, in] as planes."""
    return complex_matmul(x, ComplexTensor(w_real, w_imag).mT)


def set_multicore(enabled: bool, num_cores: int = 0) -> None:
    """Ask for several cores; plans here choose the number of cores by predicted time."""
    _state["multicore"], _state["cores"] = bool(enabled), int(num_cores)


def get_multicore() -> bool:
    """Return whether several cores were asked for."""
    return bool(_state["multicore"])


def multi_core_fft(x: Any, inverse: bool = False) -> ComplexTensor:
    """Transform along the last axis."""
    return ifft(x) if inverse else fft(x)


class ComplexConv1d(trnfft.nn.ComplexConv1d):
    """A complex convolution whose sixth argument is ``bias``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, bias=bias)


_TRANSFORMS = (fft, ifft, rfft, irfft, hfft, ihfft, fft2, fftn, ifftn, rfft2, irfft2, rfftn, irfftn, stft, istft)
_PLANS = (create_plan, clear_plan_cache, set_precision, get_precision, set_ozaki_product_precision_verified)
_KERNELS = (complex_gemm, complex_mask_apply, complex_linear, set_multicore, get_multicore, multi_core_fft)
MODULES: dict[str, dict[str, Any]] = {
    "trnfft": {**{f.__name__: f for f in (*_TRANSFORMS, *_PLANS, complex_matmul)}, "FFTPlan": FFTPlan},
    "trnfft.complex": {"ComplexTensor": ComplexTensor, "complex_matmul": complex_matmul},
    "trnfft.nn": {
        "ComplexTensor": ComplexTensor,
        "ComplexModReLU": trnfft.nn.ModReLU,
        "ComplexConv1d": ComplexConv1d,
    },
    "trnfft.nki": {
        "HAS_NKI": trnsci.HAS_NKI,
        "set_backend": trnfft.set_backend,
        "get_backend": trnfft.get_backend,
        "butterfly_stage_kernel": None,
        **{f.__name__: f for f in _KERNELS},
    },
}
CLASSES: dict[type, dict[str, Any]] = {
    ComplexTensor: {"to_torch_complex": ComplexTensor.to_torch, "from_polar": ComplexTensor.polar}
}
