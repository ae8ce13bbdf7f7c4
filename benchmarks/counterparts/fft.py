"""trnfft beside torch.fft, scipy.fft and scipy.signal."""

from __future__ import annotations

from functools import partial as f

import scipy.fft
import scipy.signal
import torch

import trnfft
from benchmarks.counterparts import Cases
from trnsci.testing import gaussian

ALONE = {
    "get_backend": "a setting",
    "set_backend": "a setting",
    "plan": "a value that calls are made with; torch keeps its plans to itself",
    "with_callbacks": "a value that calls are made with",
}


def cases(n: int) -> Cases:
    """Calls along n points, n by n for several axes."""
    return {**_transforms(n), **_cosines(n), **_signals(n)}


def _transforms(n: int) -> Cases:
    z, x = gaussian((n,), 1, torch.complex64), gaussian((n,), 2)
    image, plane = gaussian((n, n), 3, torch.complex64), gaussian((n, n), 4)
    data = {"": (z, x), "2": (image, plane), "n": (image, plane)}
    whole = {"fft": 0, "ifft": 0, "rfft": 1, "irfft": 0, "hfft": 0, "ihfft": 1}
    table: Cases = {}
    for suffix, operands in data.items():
        for name, which in whole.items():
            full, operand = name + suffix, operands[which]
            table[full] = (
                f(getattr(trnfft, full), operand),
                f"torch.fft.{full}",
                f(getattr(torch.fft, full), operand),
            )
    table["fftfreq"] = (f(trnfft.fftfreq, n), "torch.fft.fftfreq", f(torch.fft.fftfreq, n))
    table["rfftfreq"] = (f(trnfft.rfftfreq, n), "torch.fft.rfftfreq", f(torch.fft.rfftfreq, n))
    table["fftshift"] = (f(trnfft.fftshift, z), "torch.fft.fftshift", f(torch.fft.fftshift, z))
    table["ifftshift"] = (f(trnfft.ifftshift, z), "torch.fft.ifftshift", f(torch.fft.ifftshift, z))
    table["next_fast_len"] = (f(trnfft.next_fast_len, n), "scipy.fft.next_fast_len", f(scipy.fft.next_fast_len, n))
    return table


def _cosines(n: int) -> Cases:
    x, plane = gaussian((n,), 1), gaussian((n, n), 2)
    table: Cases = {}
    for name in ("dct", "idct", "dst", "idst"):
        for suffix, operand in (("", x), ("n", plane)):
            full = name + suffix
            theirs = f(getattr(scipy.fft, full), operand.numpy())
            table[full] = (f(getattr(trnfft, full), operand), f"scipy.fft.{full}", theirs)
    return table


def _signals(n: int) -> Cases:
    x, y, signal = gaussian((n,), 1), gaussian((n,), 2), gaussian((8 * n,), 3)
    window, size = torch.hann_window(16), 16
    spectrum = torch.stft(signal, size, window=window, return_complex=True)
    a, b, long = x.numpy(), y.numpy(), signal.numpy()
    return {
        "chirp_z": (f(trnfft.chirp_z, x), "scipy.signal.czt", f(scipy.signal.czt, a)),
        "fftconvolve": (f(trnfft.fftconvolve, x, y), "scipy.signal", f(scipy.signal.fftconvolve, a, b)),
        "oaconvolve": (f(trnfft.oaconvolve, signal, y), "scipy.signal", f(scipy.signal.oaconvolve, long, b)),
        "correlate": (f(trnfft.correlate, x, y), "scipy.signal", f(scipy.signal.correlate, a, b, method="fft")),
        "stft": (
            f(trnfft.stft, signal, size, window=window),
            "torch.stft",
            f(torch.stft, signal, size, window=window, return_complex=True),
        ),
        "istft": (
            f(trnfft.istft, spectrum, size, window=window),
            "torch.istft",
            f(torch.istft, spectrum, size, window=window),
        ),
        "spectrogram": (
            f(trnfft.spectrogram, signal, size, window=window),
            "torch.stft",
            lambda: torch.stft(signal, size, window=window, return_complex=True).abs().square(),
        ),
    }
