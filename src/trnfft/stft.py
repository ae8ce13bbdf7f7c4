"""Short-time Fourier transforms with torch's conventions, and their exact inverse."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trnfft import transform
from trnfft.arguments import COMPLEX_OF, integer, length_of, numeric
from trnsci import ArgumentError, DtypeError, array_function, check
from trnsci.precision import Precision, resolve

PAD_MODES = ("constant", "reflect", "replicate", "circular")


@array_function
def stft(
    x: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool = True,
    *,
    precision: Precision | None = None,
) -> Any:
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
    n_fft, hop, taper = _frames("stft", n_fft, hop_length, win_length, window, x)
    check.ndim("stft", 1, x=x)
    is_complex = x.is_complex() or (taper is not None and taper.is_complex())
    if onesided is None:
        onesided = not is_complex
    elif onesided and is_complex:
        raise DtypeError(
            op="stft", argument="onesided", got=True, expected="False for complex data", hint="Its halves differ"
        )
    check.option("stft", "pad_mode", pad_mode, PAD_MODES)
    if center:
        x = _padded(x, n_fft // 2, pad_mode)
    if x.shape[-1] < n_fft:
        expected = f"at least n_fft={n_fft} samples, padding included"
        raise ArgumentError(op="stft", argument="length of x", got=x.shape[-1], expected=expected)
    policy = resolve("stft", precision, x.dtype)
    frames = x.unfold(-1, n_fft, hop)  # [..., t, n]
    if taper is not None:
        frames = frames * taper
    scale = "root" if normalized else "none"
    last = [frames.ndim - 1]
    if onesided:
        spectrum = transform.r2c(frames, last, scale, policy).mT
    else:
        spectrum = transform.c2c(frames, last, False, scale, policy).mT
    return spectrum if return_complex else torch.stack([spectrum.real, spectrum.imag], -1)


@array_function
def istft(
    x: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
    *,
    precision: Precision | None = None,
) -> Any:
    """The signal whose `stft` is closest to ``x``; the signal itself where ``x`` is one's `stft`.

    Frames are transformed back, windowed, added where they overlap and divided by the sum of squared windows.

    Args:
        x: [..., frequencies, frames] complex.
        n_fft: length of a frame.
        hop_length: distance of frames; by default ``n_fft // 4``.
        win_length: length of the window; by default ``n_fft``.
        window: [win_length]; by default ones.
        center: whether `stft` had it.
        normalized: whether `stft` had it.
        onesided: whether ``x`` has ``n_fft // 2 + 1`` frequencies; by default found from its shape.
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
    if not x.is_complex():
        raise DtypeError(op="istft", argument="dtype of x", got=x.dtype, expected="complex")
    check.ndim("istft", 2, x=x)
    n_fft, hop, taper = _frames("istft", n_fft, hop_length, win_length, window, x)
    half = n_fft // 2 + 1
    onesided = (x.shape[-2] != n_fft or half == n_fft) if onesided is None else onesided
    if x.shape[-2] != (half if onesided else n_fft):
        expected = f"{half if onesided else n_fft} for n_fft={n_fft}"
        raise ArgumentError(op="istft", argument="number of frequencies", got=x.shape[-2], expected=expected)
    if return_complex and onesided:
        raise ArgumentError(op="istft", argument="return_complex", got=True, expected="False for one-sided data")
    policy = resolve("istft", precision, x.dtype)
    scale = "root" if normalized else "full"
    spectra = x.mT
    last = [x.ndim - 1]
    if return_complex:
        frames = transform.c2c(spectra, last, True, scale, policy)
    else:
        # of a whole spectrum the first half is read, as torch does: that of a real signal repeats it
        frames = transform.c2r(spectra[..., :half], last, n_fft, scale, policy)
    if taper is None:
        taper = torch.ones(n_fft, dtype=frames.dtype, device=x.device)
    count = x.shape[-1]
    total = n_fft + hop * (count - 1)
    start = n_fft // 2 if center else 0
    stop = start + length if length is not None else total - start if center else total
    signal = _overlap_add(frames * taper, hop)
    weight = _overlap_add((taper * taper).expand(count, n_fft), hop)
    covered = min(stop, total)
    signal, weight = signal[..., start:covered], weight[start:covered]
    sizes = weight.detach().abs()
    if not weight.is_meta and weight.numel() and float(sizes.min()) < 1e-11:
        raise ArgumentError(
            op="istft",
            argument="window",
            got=f"squares that add up to {float(sizes.min()):.1e} at sample {int(sizes.argmin())}",
            expected="windows that overlap to more than 1e-11 everywhere",
            hint="Use a smaller hop_length, or center=True",
        )
    signal = signal / weight
    return functional.pad(signal, (0, stop - covered)) if stop > covered else signal


@array_function
def spectrogram(
    x: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    power: float = 2.0,
    *,
    precision: Precision | None = None,
) -> Any:
    """Magnitudes of `stft` raised to ``power``: 1 for magnitude, 2 for power. Other arguments are those of `stft`.

    Example:
        >>> spectrogram(torch.ones(8), 4, 4, center=False)[0]
        tensor([16., 16.])
    """
    if not isinstance(power, int | float) or power <= 0:
        raise ArgumentError(op="spectrogram", argument="power", got=power, expected="a number above 0")
    y = stft(x, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, precision=precision)
    if power == 2:
        return y.real.square() + y.imag.square()
    return y.abs() if power == 1 else y.abs() ** power


def _frames(op: str, n_fft: Any, hop: Any, win: Any, window: Any, x: Tensor) -> tuple[int, int, Tensor | None]:
    """Frame length, hop, and the window padded to a frame (``None`` for ones)."""
    n_fft = length_of(op, n_fft, 0, "n_fft")
    hop = n_fft // 4 if hop is None else integer(op, "hop_length", hop)
    if hop < 1:
        raise ArgumentError(op=op, argument="hop_length", got=hop, expected="at least 1")
    size = n_fft if win is None else integer(op, "win_length", win)
    if not 0 < size <= n_fft:
        raise ArgumentError(op=op, argument="win_length", got=size, expected=f"from 1 to n_fft={n_fft}")
    if window is None:
        if size == n_fft:
            return n_fft, hop, None
        window = torch.ones(size, dtype=x.real.dtype if x.is_complex() else x.dtype, device=x.device)
    check.tensor(op, window=window)
    if window.ndim != 1 or window.shape[0] != size:
        raise ArgumentError(
            op=op, argument="shape of window", got=tuple(window.shape), expected=f"({size},) = (win_length,)"
        )
    if window.device != x.device:
        check.same_device(op, x=x, window=window)
    real = x.real.dtype if x.is_complex() else x.dtype
    window = window.to(COMPLEX_OF[real] if window.is_complex() else real)
    left = (n_fft - size) // 2
    return n_fft, hop, functional.pad(window, (left, n_fft - size - left)) if size < n_fft else window


def _padded(x: Tensor, by: int, mode: str) -> Tensor:
    if mode in ("reflect", "circular") and by > x.shape[-1] - (mode == "reflect"):
        expected = f"more than n_fft // 2 = {by} samples for pad_mode {mode!r}"
        raise ArgumentError(op="stft", argument="length of x", got=x.shape[-1], expected=expected)
    if mode == "constant":
        return functional.pad(x, (by, by))
    if mode != "constant" and x.shape[-1] == 0:
        raise ArgumentError(op="stft", argument="length of x", got=0, expected=f"samples to pad with mode {mode!r}")
    rows = x.reshape(1, math.prod(x.shape[:-1]), x.shape[-1])
    return functional.pad(rows, (by, by), mode=mode).reshape(*x.shape[:-1], -1)


def _overlap_add(frames: Tensor, hop: int) -> Tensor:
    """Add [..., t, n] at distance ``hop``: [..., n + hop (t - 1)]."""
    count, n = frames.shape[-2:]
    total = n + hop * (count - 1)
    return torch.ops.aten.unfold_backward(frames, [*frames.shape[:-2], total], frames.ndim - 2, n, hop)
