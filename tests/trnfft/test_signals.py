"""Short-time transforms by the compiled loops: torch in float64 is the oracle, and torch's own code without loops."""

import pytest
import torch

import trnfft
from trnfft import signals
from trnsci import ArgumentError, native
from trnsci.testing import gaussian

BOUND = {torch.float32: 1e-6, torch.float64: 1e-13}

needs_loops = pytest.mark.skipif(native.compiler() is None, reason="needs a C compiler")
pytestmark = needs_loops

# even, odd and prime frames, one with a factor that is too large for passes, longer ones, and frames of two samples
CASES = [(64, 16), (63, 10), (61, 61), (100, 33), (262, 64), (263, 100), (1024, 256), (4099, 1000), (2, 1), (8, 3)]


def close(found, exact, bound):
    assert found.shape == exact.shape
    assert float((found - exact).norm()) <= bound * float(exact.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("n", "hop"), CASES)
@pytest.mark.parametrize("batch", [(), (1,), (3,), (2, 5)])
def test_both_ways(dtype, n, hop, batch):
    length = 3 * n + 77
    x = gaussian((*batch, length), 1, dtype)
    window = torch.hann_window(n, periodic=False, dtype=dtype) + 0.1
    flat = x.double().reshape(-1, length)
    exact = torch.stft(flat, n, hop, window=window.double(), return_complex=True)
    found = trnfft.stft(x, n, hop, window=window)
    close(found.reshape(exact.shape), exact, BOUND[dtype])
    # in either order of memory, and where batches are apart
    for spectra in (found, found.contiguous(), found.repeat(*[1] * len(batch), 1, 2)[..., : found.shape[-1]]):
        made = trnfft.istft(spectra, n, hop, window=window)
        again = torch.istft(exact, n, hop, window=window.double())
        close(made.reshape(again.shape), again, BOUND[dtype])


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("n", [16, 17, 300])
def test_padding(mode, onesided, n):
    x = gaussian((3, n), 1, torch.float64)
    options = {"pad_mode": mode, "onesided": onesided, "window": torch.hann_window(n, dtype=torch.float64)}
    exact = torch.stft(x, n, 5, return_complex=True, **options)
    close(trnfft.stft(x, n, 5, **options), exact, 1e-13)


@pytest.mark.parametrize("options", [{"center": False}, {"length": 500}, {"length": 2000}, {"normalized": True}, {}])
def test_ends(options):
    window = torch.hamming_window(64, dtype=torch.float64)
    spectra = gaussian((2, 33, 50), 1, torch.complex128)
    exact = torch.istft(spectra, 64, 20, window=window, **options)
    close(trnfft.istft(spectra, 64, 20, window=window, **options), exact, 1e-13)


def test_without_a_window_and_with_gaps():
    spectra = gaussian((33, 50), 1, torch.complex128)
    close(trnfft.istft(spectra, 64, 16), torch.istft(spectra, 64, 16), 1e-13)
    close(trnfft.istft(spectra, 64, 64), torch.istft(spectra, 64, 64), 1e-13)
    for hop in (65, 100):
        with pytest.raises(ArgumentError, match="squares that add up to"):
            trnfft.istft(spectra, 64, hop)


def test_a_window_that_vanishes_somewhere_is_refused_wherever_that_is():
    spectra = gaussian((33, 50), 1, torch.complex128)
    window = torch.ones(64, dtype=torch.float64)
    window[:16] = 0
    # at hop 32 every sample is in the other half of some frame, except at the beginning
    close(trnfft.istft(spectra, 64, 32, window=window), torch.istft(spectra, 64, 32, window=window), 1e-13)
    with pytest.raises(ArgumentError, match="at sample 0"):
        trnfft.istft(spectra, 64, 32, window=window, center=False)
    with pytest.raises(ArgumentError, match="at sample"):
        trnfft.istft(spectra, 64, 64, window=window)


def test_threads_change_no_bit():
    x = gaussian((3, 200000), 1)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            spectra = trnfft.stft(x, 512, 100)
            results.append((spectra, trnfft.istft(spectra, 512, 100), trnfft.istft(spectra[:1], 512, 100)))
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_conjugates_slices_and_strided_windows():
    x = gaussian((2, 4000), 1, torch.float64)[:, ::2]
    window = torch.hann_window(128, dtype=torch.float64)[::2]
    exact = torch.stft(x, 64, 16, window=window, return_complex=True)
    close(trnfft.stft(x, 64, 16, window=window), exact, 1e-13)
    exact = torch.istft(exact.conj(), 64, 16, window=window)
    found = trnfft.stft(x, 64, 16, window=window)
    close(trnfft.istft(found.conj(), 64, 16, window=window), exact, 1e-13)


def test_the_loops_do_it(monkeypatch):
    taken = []
    for name in ("stft", "istft"):
        function = getattr(signals, name)
        monkeypatch.setattr(signals, name, lambda *args, f=function, n=name: (taken.append(n), f(*args))[1])
    spectra = trnfft.stft(torch.ones(400), 64)
    trnfft.istft(spectra, 64)
    assert taken == ["stft", "istft"]
    # what has a gradient, another precision or no loops goes another way
    trnfft.stft(torch.ones(400, requires_grad=True), 64)
    trnfft.stft(torch.ones(400), 64, window=torch.ones(64, requires_grad=True))
    trnfft.istft(spectra, 64, precision="fp64")
    monkeypatch.setenv("TRNSCI_NATIVE", "0")
    trnfft.istft(trnfft.stft(torch.ones(400), 64), 64)
    assert taken == ["stft", "istft"]
