"""A program of the earlier suite: transforms by the earlier names, against NumPy and torch."""

import pytest
import torch
from trnfft.complex import ComplexTensor
from trnfft.nki import complex_gemm, complex_linear, complex_mask_apply, dispatch, multi_core_fft

import trnfft
from trnfft.nn import ComplexBatchNorm1d, ComplexConv1d, ComplexLinear, ComplexModReLU
from trnfft.stft import stft

close = torch.testing.assert_close
torch.manual_seed(0)
s = torch.randn(12)
z = trnfft.fft(s)
assert isinstance(z, ComplexTensor)
close(z.to_torch_complex(), torch.fft.fft(s))
assert torch.allclose(z.real, torch.fft.fft(s).real, atol=1e-5)
close(trnfft.ifft(z).real, s)
close(trnfft.irfft(trnfft.rfft(s), n=12), s)
close(trnfft.irfft(trnfft.rfft(ComplexTensor(s)), 12), s)
m = torch.randn(4, 6)
close(trnfft.fft2(m).to_torch_complex(), torch.fft.fft2(m))
close(trnfft.irfft2(trnfft.rfft2(m), s=(4, 6)), m)
close(trnfft.ifftn(trnfft.fftn(ComplexTensor(m))).real, m)
close(trnfft.irfftn(trnfft.rfftn(m, dim=(0, 1)), s=(4, 6), dim=(0, 1)), m)
close(trnfft.hfft(trnfft.ihfft(s), n=12), s)
w = torch.randn(800)
X = trnfft.stft(w, 64, 16)
assert isinstance(X, ComplexTensor)
close(
    X.to_torch_complex(), torch.stft(w, 64, 16, window=torch.hann_window(64), return_complex=True), atol=1e-4, rtol=1e-4
)
close(trnfft.istft(X, 64, 16, length=800), w, atol=1e-4, rtol=1e-4)
for mode in ("fast", "kahan", "double", "ozaki"):
    trnfft.set_precision(mode)
    assert trnfft.get_precision() == mode
    close(trnfft.fft(s).to_torch_complex(), torch.fft.fft(s))
trnfft.set_precision("fast")
with pytest.raises(ValueError, match="quadruple"):
    trnfft.set_precision("quadruple")
p = trnfft.create_plan(48)
assert (p.n, p.inverse, p.is_power_of_2, p.padded_n) == (48, False, False, 128)
assert trnfft.create_plan(48) is p
trnfft.clear_plan_cache()
assert trnfft.create_plan(64).is_power_of_2
c = ComplexTensor.from_polar(torch.ones(3), torch.zeros(3))
close(c.real, torch.ones(3))
close((c * c.conj()).real, torch.ones(3))
assert c.reshape(3, 1).unsqueeze(0).squeeze(0).transpose(0, 1).shape == (1, 3)
W = ComplexTensor(torch.randn(3, 4), torch.randn(3, 4))
V = ComplexTensor(torch.randn(4, 2), torch.randn(4, 2))
close(trnfft.complex_matmul(W, V).to_torch_complex(), W.to_torch_complex() @ V.to_torch_complex())
close(complex_gemm(W, V).real, (W.to_torch_complex() @ V.to_torch_complex()).real)
close(
    complex_linear(V.transpose(0, 1), W.real, W.imag).to_torch_complex(),
    V.to_torch_complex().T @ W.to_torch_complex().T,
)
close(complex_mask_apply(W, W).to_torch_complex(), W.to_torch_complex() ** 2)
close(multi_core_fft(s).real, torch.fft.fft(s).real, atol=1e-5, rtol=1e-5)
layer = torch.nn.Sequential(ComplexLinear(4, 6), ComplexModReLU(6))
out = layer(ComplexTensor(torch.randn(2, 4), torch.randn(2, 4)))
assert out.shape == (2, 6)
out.abs().sum().backward()
conv = ComplexConv1d(2, 3, 3, 1, 1, False)
assert conv(ComplexTensor(torch.randn(1, 2, 8), torch.randn(1, 2, 8))).shape == (1, 3, 8)
assert ComplexBatchNorm1d(2)(ComplexTensor(torch.randn(4, 2, 8), torch.randn(4, 2, 8))).shape == (4, 2, 8)

# modules that programs import beside the library, and a function that shares its name with one
assert stft is trnfft.stft
assert dispatch.complex_gemm is complex_gemm
close(ComplexTensor.from_polar(magnitude=torch.ones(2), phase=torch.zeros(2)).real, torch.ones(2))
assert trnfft.create_plan(100, True) is trnfft.create_plan(n=100, inverse=True)
with pytest.raises(RuntimeError, match="n is 0"):
    trnfft.fft(s, n=0)
