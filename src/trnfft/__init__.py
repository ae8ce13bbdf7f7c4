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

__standalone__ = True

from trnfft import nn as nn, scipy_backend as scipy_backend
from trnfft.callbacks import (
    CallbackPlan as CallbackPlan,
    Convert as Convert,
    Multiply as Multiply,
    Scale as Scale,
    Window as Window,
    with_callbacks as with_callbacks,
)
from trnfft.chirp_z import chirp_z as chirp_z
from trnfft.complextensor import ComplexTensor as ComplexTensor
from trnfft.convolve import correlate as correlate, fftconvolve as fftconvolve, oaconvolve as oaconvolve
from trnfft.dct import (
    dct as dct,
    dctn as dctn,
    dst as dst,
    dstn as dstn,
    idct as idct,
    idctn as idctn,
    idst as idst,
    idstn as idstn,
)
from trnfft.fft import fft as fft, hfft as hfft, ifft as ifft, ihfft as ihfft, irfft as irfft, rfft as rfft
from trnfft.fftn import (
    fft2 as fft2,
    fftn as fftn,
    hfft2 as hfft2,
    hfftn as hfftn,
    ifft2 as ifft2,
    ifftn as ifftn,
    ihfft2 as ihfft2,
    ihfftn as ihfftn,
    irfft2 as irfft2,
    irfftn as irfftn,
    rfft2 as rfft2,
    rfftn as rfftn,
)
from trnfft.frequencies import fftfreq as fftfreq, fftshift as fftshift, ifftshift as ifftshift, rfftfreq as rfftfreq
from trnfft.lengths import next_fast_len as next_fast_len
from trnfft.plan import FFTPlan as FFTPlan, plan as plan
from trnfft.stft import istft as istft, spectrogram as spectrogram, stft as stft
from trnsci import HAS_NKI as HAS_NKI, earlier, library_functions as _library_functions
from trnsim.lazy import export as _export

set_backend, get_backend = _library_functions("trnfft")
earlier.spell(__name__)
_export(__name__, "nn", "scipy_backend")
