"""trnfft: Fourier transforms for Trainium, of any size, real and complex, over any axes.

| name | what it computes |
|---|---|
| `fft`, `ifft` | complex transform along one axis |
| `rfft`, `irfft` | real data and half of its spectrum |
| `hfft`, `ihfft` | half of a Hermitian signal and its real spectrum |
| `fft2`, `ifft2`, `rfft2`, `irfft2`, `hfft2`, `ihfft2` | the same over two axes |
| `fftn`, `ifftn`, `rfftn`, `irfftn`, `hfftn`, `ihfftn` | the same over several axes |
| `dct`, `idct`, `dst`, `idst` and with `n` | cosine and sine transforms, types 1 to 4 |
| `fftfreq`, `rfftfreq`, `fftshift`, `ifftshift`, `next_fast_len` | frequencies, orders and lengths |
| `fftconvolve`, `oaconvolve`, `correlate` | convolution and correlation |
| `stft`, `istft`, `spectrogram` | short-time transforms |
| `chirp_z` | values along a spiral |
| `plan` | a prepared transform |
| `with_callbacks`, `Scale`, `Window`, `Multiply`, `Convert` | what a plan does on the way in and out |
| `ComplexTensor`, `nn` | complex data as two real planes, and layers on it |
| `scipy_backend` | this library behind `scipy.fft` |
"""

from typing import TYPE_CHECKING

__standalone__ = True

from trnfft import nn, scipy_backend
from trnfft.callbacks import CallbackPlan, Convert, Multiply, Scale, Window, with_callbacks
from trnfft.chirp_z import chirp_z
from trnfft.complextensor import ComplexTensor
from trnfft.convolve import correlate, fftconvolve, oaconvolve
from trnfft.dct import dct, dctn, dst, dstn, idct, idctn, idst, idstn
from trnfft.fft import fft, hfft, ifft, ihfft, irfft, rfft
from trnfft.fftn import fft2, fftn, hfft2, hfftn, ifft2, ifftn, ihfft2, ihfftn, irfft2, irfftn, rfft2, rfftn
from trnfft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from trnfft.lengths import next_fast_len
from trnfft.plan import FFTPlan, plan
from trnfft.stft import istft, spectrogram, stft
from trnsci import HAS_NKI, earlier, library_functions

set_backend, get_backend = library_functions("trnfft")

if not TYPE_CHECKING:
    __getattr__ = earlier.names(__name__)

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
