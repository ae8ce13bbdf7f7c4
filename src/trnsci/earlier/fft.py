"""The earlier `trnfft`: results as planes, Hann windows by default, one precision for all transforms."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import trnfft
import trnfft.nn
import trnsci
from trnfft import ComplexTensor
from trnsci import ArgumentError
from trnsci.earlier.calls import Function, read_calls

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


def _as_planes(result: Value) -> ComplexTensor:
    return result if isinstance(result, ComplexTensor) else ComplexTensor(result)


def _merge_planes(x: Any) -> Any:
    return x.to_torch() if isinstance(x, ComplexTensor) else x


def _convert(before: Function, after: Function) -> Callable[[Function], Function]:
    """Return a decorator of transforms: they run at the precision in force, on and to what earlier ones had."""

    def decorate(function: Function) -> Function:
        return lambda x, *args: after(function(before(x), *args, precision=MODES[_state["precision"]]))

    return decorate


def _convert_frames(function: Function) -> Function:
    """Decorate `stft` or `istft`: the window is Hann's unless one is given, and complex results are planes."""

    def run(x: Any, n_fft: int, hop: int | None, width: int | None, window: Tensor | None, *rest: Any) -> Any:
        x = _merge_planes(x)
        if window is None:
            dtype = x.real.dtype if x.is_complex() else x.dtype
            window = torch.hann_window(n_fft if width is None else width, dtype=dtype, device=x.device)
        result: Tensor = function(x, n_fft, hop, width, window, *rest)
        return _as_planes(result) if result.is_complex() else result

    return run


_WAYS = {
    "planes": _convert(lambda x: x, _as_planes),
    # transforms of real data read no other plane
    "real": _convert(lambda x: x.real if isinstance(x, ComplexTensor) else x, _as_planes),
    "half": _convert(_merge_planes, lambda x: x),
    "frames": _convert_frames,
}
_TRANSFORMS = read_calls("trnfft", _WAYS)["trnfft"]


def complex_matmul(a: Any, b: Any) -> ComplexTensor:
    """Return ``a @ b`` of planes."""
    return _as_planes(_as_planes(a) @ _as_planes(b))


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


def create_plan(n: int, inverse: bool = False) -> FFTPlan:
    """Return the plan of a length; the same one for the same arguments."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ArgumentError("create_plan", "n", n, "a positive length")
    return _plan(n, bool(inverse))


@functools.lru_cache(maxsize=1024)
def _plan(n: int, inverse: bool) -> FFTPlan:
    if n & (n - 1) == 0:
        return FFTPlan(n, "cooley_tukey", inverse)
    return FFTPlan(n, "bluestein", inverse, 1 << (2 * n - 2).bit_length())


def clear_plan_cache() -> None:
    """Forget all plans."""
    _plan.cache_clear()
    trnsci.clear_plans()


def complex_mask_apply(mask: Any, spec: Any) -> ComplexTensor:
    """Return a spectrum times a mask, element by element."""
    return _as_planes(_as_planes(mask) * _as_planes(spec))


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
    result: ComplexTensor = _TRANSFORMS["ifft" if inverse else "fft"](x)
    return result


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


_PLANS = (create_plan, clear_plan_cache, set_precision, get_precision, set_ozaki_product_precision_verified)
_KERNELS = (complex_mask_apply, complex_linear, set_multicore, get_multicore, multi_core_fft)
MODULES: dict[str, dict[str, Any]] = {
    "trnfft": {**_TRANSFORMS, **{f.__name__: f for f in (*_PLANS, complex_matmul, FFTPlan)}},
    "trnfft.complex": {"ComplexTensor": ComplexTensor, "complex_matmul": complex_matmul},
    "trnfft.nn": {
        "ComplexTensor": ComplexTensor,
        "ComplexModReLU": trnfft.nn.ModReLU,
        "ComplexConv1d": ComplexConv1d,
    },
    "trnfft.nki": {
        "butterfly_stage_kernel": None,
        "complex_gemm": complex_matmul,
        **{f.__name__: f for f in _KERNELS},
    },
}
CLASSES: dict[type, dict[str, Any]] = {
    ComplexTensor: {
        "to_torch_complex": ComplexTensor.to_torch,
        "from_polar": staticmethod(lambda magnitude, phase: ComplexTensor.polar(magnitude, phase)),
    }
}
