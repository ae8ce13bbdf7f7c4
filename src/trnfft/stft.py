"""Short-time Fourier transforms with torch's conventions, and their exact inverse."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from trnfft.arguments import COMPLEX_OF, Scale, integer, length_of, numeric
from trnfft.device import launch
from trnfft.device.tables import weight_half
from trnfft.framing import PAD_MODES, cut_frames, fold_padding, overlap_add
from trnfft.ops import C2C, C2R, R2C
from trnfft.ops.fft import bound, flops
from trnsci import ArgumentError, DtypeError, array_function, check, neuron, op, run
from trnsci.analogs import Different, Given, given, replaces, resembles
from trnsci.gradient import saves
from trnsci.precision import Precision, resolve
from trnsci.torch_internals import is_batchedtensor

# Samples of frames up to which adding all windows up takes less than finding what repeats.
_FEW = 1 << 14
# What squared windows must add up to everywhere: torch's bound.
_LEAST = 1e-11


@op("trnfft::stft")
class Stft(NamedTuple):
    """Frames of real signals [..., l], padded by ``by`` samples at either end, to their spectra [..., t, k]."""

    x: Tensor
    window: Tensor | None
    n: int
    hop: int
    by: int
    mode: str
    onesided: bool
    scale: Scale
    precision: Precision

    @property
    def shape(self) -> list[int]:
        """Shape of the spectra."""
        frames = (self.x.shape[-1] + 2 * self.by - self.n) // self.hop + 1
        return [*self.x.shape[:-1], frames, self.n // 2 + 1 if self.onesided else self.n]

    def fake(self) -> Tensor:
        return self.x.new_empty(self.shape, dtype=COMPLEX_OF[self.x.dtype])

    def cost(self) -> int:
        frames = [*self.shape[:-1], self.n]
        windowed = 0 if self.window is None else math.prod(frames)
        return flops(frames, [len(frames) - 1], True) + windowed

    def bound(self, implementation: str) -> float:
        frames = [*self.shape[:-1], self.n]
        # One rounding of the windowed samples.
        rounding = 2.0**-53 if self.precision == "fp64" else 2.0**-24
        return bound(implementation, frames, [len(frames) - 1], self.precision) + rounding

    def limits(self, implementation: str) -> str | None:
        return launch.limits([self.n], [0]) if implementation == "nki" else None

    def pytorch(self) -> Tensor:
        frames = cut_frames(self.x, self.window, self.n, self.hop, self.by, self.mode)
        last = [frames.ndim - 1]
        if self.onesided:
            return R2C(frames, last, self.scale, self.precision).pytorch()
        return C2C(frames, last, inverse=False, scale=self.scale, precision=self.precision).pytorch()

    def nki(self) -> Tensor:
        return self.fake() if self.x.numel() == 0 else torch.complex(*launch.stft(*self))

    @saves("x", "window")
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        n, by, last = self.n, self.by, [grad.ndim - 1]
        if self.onesided:
            frames = run(C2R(weight_half(grad, last[0], n, 0.5), last, n, self.scale, self.precision))
        else:
            frames = run(C2C(grad, last, inverse=True, scale=self.scale, precision=self.precision)).real
        gradients: dict[str, Tensor] = {}
        if "x" in needs:
            windowed = frames if self.window is None else frames * self.window
            signal = overlap_add(windowed, self.hop)
            length = self.x.shape[-1] + 2 * by
            gradients["x"] = fold_padding(functional.pad(signal, (0, length - signal.shape[-1])), by, self.mode)
        if self.window is not None and "window" in needs:
            cut = cut_frames(self.x, None, n, self.hop, by, self.mode)
            gradients["window"] = (frames * cut).reshape(-1, n).sum(0)
        return gradients


@resembles("scipy.signal.stft")
@array_function
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
    """Transform windowed frames: ``y[..., k, t] = sum_j window[j] x[..., t hop + j] exp(-2 pi i j k / n_fft)``.

    Args:
        x: [..., L] real or complex; at most one leading axis on torch, any number here.
        n_fft: length of a frame.
        hop_length: distance of frames; by default ``n_fft // 4``.
        win_length: length of the window, centred in the frame; by default ``n_fft``.
        window: [win_length]; by default ones.
        center: whether frame t is centred at sample ``t * hop_length``, ``n_fft // 2`` samples padded on either side.
        pad_mode: ``constant``, ``reflect``, ``replicate`` or ``circular``.
        normalized: whether to divide by ``sqrt(n_fft)``.
        onesided: whether to keep ``n_fft // 2 + 1`` frequencies; by default for real ``x`` and window.
        return_complex: ``False`` gives real and imaginary parts along a last axis of 2, as torch does.
        precision: as for `fft`.

    Returns:
        [..., frequencies, frames] complex, or [..., frequencies, frames, 2] real.

    Raises:
        ArgumentError: lengths, window or options do not fit, or ``x`` is shorter than a frame.
        DtypeError: a dtype is not numeric, or ``onesided`` is asked of complex data.

    Example:
        >>> stft(torch.ones(8), 4, 4, center=False).real
        tensor([[4., 4.],
                [0., 0.],
                [0., 0.]])
    """
    x = numeric("stft", x)
    neuron.give_planes(x)
    n_fft, hop, taper = _frames("stft", n_fft, hop=hop_length, win=win_length, window=window, x=x)
    check.ndim("stft", 1, x=x)
    check.flag("stft", center=center, normalized=normalized, return_complex=return_complex)
    is_complex = x.is_complex() or (taper is not None and taper.is_complex())
    onesided = not is_complex if onesided is None else onesided
    check.flag("stft", onesided=onesided)
    if onesided and is_complex:
        raise DtypeError("stft", "onesided", True, "False for complex data", hint="Its halves differ")
    check.option("stft", "pad_mode", pad_mode, PAD_MODES)
    by = n_fft // 2 if center else 0
    if center:
        _check_padding(x, by, pad_mode)
    if x.shape[-1] + 2 * by < n_fft:
        expected = f"at least n_fft={n_fft} samples, padding included"
        raise ArgumentError("stft", "length of x", x.shape[-1] + 2 * by, expected)
    policy = resolve("stft", precision, x.dtype)
    scale: Scale = "root" if normalized else "none"
    if is_complex:
        frames = cut_frames(x, taper, n_fft, hop, by, pad_mode)
        spectrum = run(C2C(frames, [frames.ndim - 1], inverse=False, scale=scale, precision=policy)).mT
    else:
        spectrum = run(Stft(x, taper, n_fft, hop, by, pad_mode, onesided, scale, policy)).mT
    return spectrum if return_complex else torch.stack([spectrum.real, spectrum.imag], -1)


@replaces("aten::stft", by=stft, decomposes=True)
def _read_torch(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Given:
    if align_to_window or return_complex is None or not (x.is_floating_point() or x.is_complex()):
        raise Different("its frames lie otherwise, torch chooses what it returns, or it refuses integers")
    framing = {"center": False, "normalized": normalized, "onesided": onesided, "return_complex": return_complex}
    return given(stft, x, n_fft, hop_length, win_length, window, **framing)


@replaces("aten::istft", decomposes=True)
@resembles("scipy.signal.istft")
@array_function
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
    """Return the signal whose `stft` is closest to ``x``; the signal itself where ``x`` is one's `stft`.

    Frames are transformed back, windowed, added where they overlap and divided by the sum of squared windows.

    Args:
        x: [..., frequencies, frames] complex.
        n_fft: length of a frame.
        hop_length: distance of frames; by default ``n_fft // 4``.
        win_length: length of the window; by default ``n_fft``.
        window: [win_length]; by default ones.
        center: whether `stft` had it.
        normalized: whether `stft` had it.
        onesided: whether ``x`` has ``n_fft // 2 + 1`` frequencies; by default read from its shape.
        length: of the signal; without it, what the frames cover, less the padding of ``center``.
        return_complex: whether the signal is complex, which needs all frequencies.
        precision: as for `fft`.

    Returns:
        [..., length].

    Raises:
        ArgumentError: shapes do not fit, or squared windows add up to nothing somewhere.

    Example:
        >>> istft(stft(torch.arange(8.0), 4), 4, length=8).round(decimals=4)
        tensor([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    x = numeric("istft", x)
    neuron.give_planes(x)
    if not x.is_complex():
        raise DtypeError("istft", "dtype of x", x.dtype, "complex")
    check.ndim("istft", 2, x=x)
    check.flag("istft", center=center, normalized=normalized, return_complex=return_complex)
    n_fft, hop, taper = _frames("istft", n_fft, hop=hop_length, win=win_length, window=window, x=x)
    if hop > (n_fft if win_length is None else win_length):
        expected = f"at most win_length={n_fft if win_length is None else win_length}, or samples are in no frame"
        raise ArgumentError("istft", "hop_length", hop, expected)
    half = n_fft // 2 + 1
    onesided = x.shape[-2] != n_fft if onesided is None else onesided
    check.flag("istft", onesided=onesided)
    if x.shape[-2] != (half if onesided else n_fft):
        expected = f"{half if onesided else n_fft} for n_fft={n_fft}"
        raise ArgumentError("istft", "number of frequencies", x.shape[-2], expected)
    check.refuse(return_complex and onesided, "istft", "return_complex", True, "False for one-sided data")
    policy = resolve("istft", precision, x.dtype)
    scale: Scale = "root" if normalized else "full"
    count = x.shape[-1]
    check.refuse(count == 0, "istft", "number of frames", 0, "at least 1")
    total = n_fft + hop * (count - 1)
    start = n_fft // 2 if center else 0
    length = None if length is None else check.integer("istft", "length", length, 0, 2**48)
    stop = start + length if length is not None else total - start if center else total
    covered = min(stop, total)
    spectra = x.mT
    last = [x.ndim - 1]
    if return_complex:
        frames = run(C2C(spectra, last, inverse=True, scale=scale, precision=policy))
    else:
        # of a whole spectrum the first half is read, as torch does: that of a real signal repeats it
        frames = run(C2R(spectra if onesided else spectra[..., :half], last, n_fft, scale, policy))
    if taper is None:
        taper = torch.ones(n_fft, dtype=frames.dtype, device=x.device)
    signal = overlap_add(frames * taper, hop)
    weight = _overlap_windows(taper * taper, hop, count)
    signal, weight = signal[..., start:covered], weight[start:covered]
    sizes = weight.detach().abs() if weight.is_complex() else weight.detach()
    hidden = weight.is_meta or is_batchedtensor(weight)
    if not hidden and weight.numel() and float(sizes.min()) < _LEAST:
        got = f"squares that add up to {float(sizes.min()):.1e} at sample {int(sizes.argmin())}"
        expected = "windows that overlap to more than 1e-11 everywhere"
        raise ArgumentError("istft", "window", got, expected, hint="Use a smaller hop_length, or center=True")
    signal = signal / weight
    return functional.pad(signal, (0, stop - covered)) if stop > covered else signal


def _overlap_windows(squares: Tensor, hop: int, count: int) -> Tensor:
    """Add up squared windows [n] of ``count`` frames; between the ends they repeat from frame to frame."""
    n = squares.shape[0]
    met = -(-n // hop)
    if hop > n or count <= met or count * n < _FEW:
        return overlap_add(squares.expand(count, n), hop)
    ends = overlap_add(squares.expand(met, n), hop)
    head, step, tail = ends.split([hop * (met - 1), hop, n - hop])
    return torch.cat([head, step.repeat(count - met + 1), tail])


@array_function
@check.hands_on("stft")
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
    """Return magnitudes of `stft` raised to ``power``: 1 for magnitude, 2 for power; else the arguments of `stft`.

    Example:
        >>> spectrogram(torch.ones(8), 4, 4, center=False)[0]
        tensor([16., 16.])
    """
    if not isinstance(power, int | float) or not 0 < power < math.inf:
        raise ArgumentError("spectrogram", "power", power, "a number above 0")
    y = stft(x, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, precision=precision)
    if power == 2:
        return y.real.square() + y.imag.square()
    return y.abs() if power == 1 else y.abs() ** float(power)


def _frames(op: str, n_fft: Any, *, hop: Any, win: Any, window: Any, x: Tensor) -> tuple[int, int, Tensor | None]:
    """Return frame length, hop, and the window padded to a frame (``None`` for ones)."""
    n_fft = length_of(op, n_fft, 0, "n_fft")
    hop = n_fft // 4 if hop is None else integer(op, "hop_length", hop)
    check.refuse(hop < 1, op, "hop_length", hop, "at least 1")
    size = n_fft if win is None else integer(op, "win_length", win)
    if not 0 < size <= n_fft:
        raise ArgumentError(op, "win_length", size, f"from 1 to n_fft={n_fft}")
    if window is None:
        if size == n_fft:
            return n_fft, hop, None
        window = torch.ones(size, dtype=x.real.dtype, device=x.device)
    if type(window) is not Tensor:
        check.tensor(op, window=window)
    if window.ndim != 1 or window.shape[0] != size:
        raise ArgumentError(op, "shape of window", tuple(window.shape), f"({size},) = (win_length,)")
    if window.device != x.device:
        check.same_device(op, x=x, window=window)
    real = x.real.dtype
    if window.dtype is not real:
        window = window.to(COMPLEX_OF[real] if window.is_complex() else real)
    left = (n_fft - size) // 2
    return n_fft, hop, functional.pad(window, (left, n_fft - size - left)) if size < n_fft else window


def _check_padding(x: Tensor, by: int, mode: str) -> None:
    length = x.shape[-1]
    if mode in ("reflect", "circular") and by > length - int(mode == "reflect"):
        raise ArgumentError("stft", "length of x", length, f"more than n_fft // 2 = {by} samples for pad_mode {mode!r}")
    if mode != "constant" and length == 0:
        raise ArgumentError("stft", "length of x", 0, f"samples to pad with mode {mode!r}")
