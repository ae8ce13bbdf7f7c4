"""Types of trnfft: written by ``python -m tools.stubs`` from the signatures in the source."""

from trnfft import nn as nn, scipy_backend as scipy_backend
from trnfft._types import (
    chirp_z as chirp_z,
    correlate as correlate,
    dct as dct,
    dctn as dctn,
    dst as dst,
    dstn as dstn,
    fft as fft,
    fft2 as fft2,
    fftconvolve as fftconvolve,
    fftfreq as fftfreq,
    fftn as fftn,
    get_backend as get_backend,
    hfft as hfft,
    hfft2 as hfft2,
    hfftn as hfftn,
    idct as idct,
    idctn as idctn,
    idst as idst,
    idstn as idstn,
    ifft as ifft,
    ifft2 as ifft2,
    ifftn as ifftn,
    ihfft as ihfft,
    ihfft2 as ihfft2,
    ihfftn as ihfftn,
    irfft as irfft,
    irfft2 as irfft2,
    irfftn as irfftn,
    istft as istft,
    oaconvolve as oaconvolve,
    rfft as rfft,
    rfft2 as rfft2,
    rfftfreq as rfftfreq,
    rfftn as rfftn,
    set_backend as set_backend,
    spectrogram as spectrogram,
    stft as stft,
    with_callbacks as with_callbacks,
)
from trnfft.callbacks import (
    CallbackPlan as CallbackPlan,
    Convert as Convert,
    Multiply as Multiply,
    Scale as Scale,
    Window as Window,
)
from trnfft.complextensor import ComplexTensor as ComplexTensor
from trnfft.frequencies import fftshift as fftshift, ifftshift as ifftshift
from trnfft.lengths import next_fast_len as next_fast_len
from trnfft.plan import FFTPlan as FFTPlan, plan as plan
from trnsci.nki import HAS_NKI as HAS_NKI
