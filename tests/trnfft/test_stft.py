"""Short-time transforms against torch."""

import numpy as np
import pytest
import torch

import trnfft
import trnsci
from tests.together import together
from trnsci import ArgumentError, DtypeError
from trnsci.predict import prediction
from trnsci.testing import BACKENDS, gaussian

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
on_kernels = pytest.mark.parametrize("backend", [b for b in BACKENDS if b.runs_kernels], ids=str)

HANN = torch.hann_window
OPTIONS = [
    {"n_fft": 16, "window": HANN(16)},
    {"n_fft": 16, "hop_length": 5, "win_length": 10, "window": HANN(10)},
    {"n_fft": 15, "center": False, "normalized": True, "window": torch.ones(15)},
    {"n_fft": 16, "onesided": False, "pad_mode": "constant", "window": HANN(16)},
    {"n_fft": 16, "pad_mode": "replicate", "window": HANN(16)},
    {"n_fft": 16, "pad_mode": "circular", "window": HANN(16)},
    {"n_fft": 8, "hop_length": 8, "window": torch.ones(8)},
]


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", [(100,), (3, 101)], ids=str)
def test_agrees_with_torch(backend, options, shape):
    x = gaussian(shape, 1)
    expected = torch.stft(
        x.double(), return_complex=True, **{k: v.double() if k == "window" else v for k, v in options.items()}
    )
    with backend:
        got = trnfft.stft(x, **options)
    assert got.shape == expected.shape
    assert float((got - expected).norm()) <= 1e-6 * float(expected.norm())


# Signal, frame, hop: several signals in a block of 128 frames, ends in more than one block, gaps between frames, one
# reaching beyond both ends, a prime frame, a frame of a short window.
CUTS = [
    ((7, 300), 32, 8),
    ((2, 3000), 48, 10),
    ((1, 700), 30, 50),
    ((2, 25), 40, 7),
    ((3, 200), 31, 8),
    ((500,), 64, 1),
]


MODES = ["constant", "reflect", "replicate", "circular"]


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", range(len(CUTS)))
def test_frames_are_cut_where_torch_cuts_them(backend, case, mode):
    # every pair of a signal, a mode and a number of sides
    (shape, n, hop), onesided = CUTS[case], (case + MODES.index(mode)) % 2 == 0
    x, window = gaussian(shape, 1), HANN(n)
    expected = torch.stft(
        x.double(), n, hop, window=window.double(), pad_mode=mode, onesided=onesided, return_complex=True
    )
    with backend:
        got = trnfft.stft(x, n, hop, window=window, pad_mode=mode, onesided=onesided)
    assert got.shape == expected.shape
    # The bound of fp32 transforms, and one rounding of the windowed samples.
    assert float((got - expected).norm()) <= (5e-7 + 2**-24) * float(expected.norm())


@on_kernels
@pytest.mark.parametrize(
    ("mode", "onesided"), [*zip(MODES, (True, False, True, False), strict=True), ("reflect", True)]
)
def test_gradients_through_kernels(backend, mode, onesided):
    x, window = gaussian((2, 300), 1).requires_grad_(), HANN(32).requires_grad_()
    wide, wide_window = (t.detach().double().requires_grad_() for t in (x, window))
    options = {"hop_length": 9, "pad_mode": mode, "onesided": onesided}
    expected = torch.stft(wide, 32, window=wide_window, return_complex=True, **options)
    weight = gaussian(expected.shape, 2, torch.complex128)
    expected.backward(weight)
    with backend:
        trnfft.stft(x, 32, window=window, **options).backward(weight.to(torch.complex64))
    assert float((x.grad - wide.grad).norm()) <= 2e-6 * float(wide.grad.norm())
    assert float((window.grad - wide_window.grad).norm()) <= 2e-6 * float(wide_window.grad.norm())


@pytest.mark.parametrize(("shape", "n"), [((16_000,), 256), ((3, 2000), 400)])
def test_framing_is_part_of_one_program(shape, n):
    made = trnsci.plan(trnfft.stft, torch.empty(shape, device="meta"), n, window=torch.empty(n, device="meta"))
    (step,) = made.steps
    assert step.op == "trnfft::stft"
    found = prediction(step.call, "trn2")
    assert found.programs == 1
    assert found.seconds <= 80e-6


def test_no_frames_are_no_signal():
    with pytest.raises(ArgumentError, match="number of frames is 0"):
        trnfft.istft(torch.empty(4, 0, dtype=torch.complex64), 6)


def test_the_op_is_registered_correctly():
    x, window = gaussian((2, 40), 1), HANN(8)
    torch.library.opcheck(torch.ops.trnfft.stft.default, (x, window, 8, 3, 4, "reflect", True, "none", "fp32"))
    torch.library.opcheck(torch.ops.trnfft.stft.default, (x, None, 8, 3, 0, "constant", False, "root", "fp32"))


@pytest.mark.grid(1)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("length", [None, 90])
def test_inverse_agrees_with_torch(options, length):
    x = gaussian((2, 100), 1)
    known = {k: v for k, v in options.items() if k != "pad_mode"}
    spectra = trnfft.stft(x, **options)
    expected = torch.istft(spectra, length=length, **known)
    got = trnfft.istft(spectra, length=length, **known)
    assert got.shape == expected.shape
    assert torch.allclose(got, expected, atol=1e-5)


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize(("hop", "n"), [(1, 57), (3, 64), (4, 57), (8, 64)])
def test_reconstruction_is_exact_to_rounding(backend, hop, n):
    x = gaussian((2, 3, n), 1)
    with backend:
        back = trnfft.istft(trnfft.stft(x, 16, hop, window=HANN(16)), 16, hop, window=HANN(16), length=n)
    assert back.shape == x.shape
    assert float((back - x).norm()) <= 2e-6 * float(x.norm())


def test_complex_signals():
    x, window = gaussian((70,), 1, torch.complex128), HANN(16, dtype=torch.float64)
    spectra = trnfft.stft(x, 16, window=window)
    assert torch.allclose(spectra, torch.stft(x, 16, window=window, return_complex=True))
    back = trnfft.istft(spectra, 16, window=window, return_complex=True, length=70)
    assert torch.allclose(back, x)


@pytest.mark.parametrize("power", [1, 2, 0.5])
def test_spectrogram(power):
    x = gaussian((80,), 1, torch.float64)
    expected = torch.stft(x, 16, window=HANN(16, dtype=torch.float64), return_complex=True).abs() ** power
    assert torch.allclose(trnfft.spectrogram(x, 16, window=HANN(16, dtype=torch.float64), power=power), expected)


def test_gradients():
    x = gaussian((30,), 1, torch.float64).requires_grad_()
    window = HANN(8, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: trnfft.stft(x, 8, window=window), (x,))
    spectra = trnfft.stft(x, 8, window=window).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda y: trnfft.istft(y, 8, window=window, length=30), (spectra,))


def test_numpy_in_numpy_out():
    assert isinstance(trnfft.stft(np.ones(40), 8), np.ndarray)


@together(
    ("call", "error", "words"),
    [
        (lambda: trnfft.stft(torch.ones(9), 0), ArgumentError, "n_fft"),
        (lambda: trnfft.stft(torch.ones(9), 4, 0), ArgumentError, "hop_length"),
        (lambda: trnfft.stft(torch.ones(9), 4, win_length=5), ArgumentError, "from 1 to n_fft=4"),
        (lambda: trnfft.stft(torch.ones(9), 4, window=torch.ones(3)), ArgumentError, "(4,)"),
        (lambda: trnfft.stft(torch.ones(3), 8), ArgumentError, "more than n_fft // 2 = 4"),
        (lambda: trnfft.stft(torch.ones(3), 8, center=False), ArgumentError, "at least n_fft=8"),
        (lambda: trnfft.stft(torch.ones(9), 4, pad_mode="mirror"), ArgumentError, "'mirror'"),
        (lambda: trnfft.stft(torch.ones(9, dtype=torch.complex64), 4, onesided=True), DtypeError, "onesided"),
        (lambda: trnfft.istft(torch.ones(3, 5), 4), DtypeError, "complex"),
        (lambda: trnfft.istft(torch.ones(4, 5, dtype=torch.complex64), 9), ArgumentError, "5 for n_fft=9"),
        (
            lambda: trnfft.istft(torch.ones(3, 5, dtype=torch.complex64), 4, 4, window=torch.tensor([0.0, 1, 1, 0])),
            ArgumentError,
            "more than 1e-11",
        ),
        (lambda: trnfft.spectrogram(torch.ones(9), 4, power=0), ArgumentError, "above 0"),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_real_and_imaginary_parts_come_along_a_last_axis_as_on_torch():
    x, window = torch.randn(500, dtype=torch.float64), torch.hann_window(64, dtype=torch.float64)
    got = trnfft.stft(x, 64, 16, window=window, return_complex=False)
    expected = torch.view_as_real(torch.stft(x, 64, 16, window=window, return_complex=True))
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("kwargs", [{}, {"center": False}, {"onesided": False, "normalized": True}], ids=str)
def test_of_a_whole_spectrum_the_first_half_is_read_as_torch_does(kwargs):
    x = gaussian((10, 4), 1, torch.complex128)  # not the spectrum of a real signal
    found = trnfft.istft(x, 10, 5, **kwargs)
    expected = torch.istft(x, 10, 5, window=torch.ones(10, dtype=torch.float64), **kwargs)
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_complex_windows_are_torchs():
    window = gaussian((10,), 2, torch.complex128)
    x = gaussian((10, 6), 1, torch.complex128)
    found = trnfft.istft(x, 10, 3, window=window, return_complex=True)
    expected = torch.istft(x, 10, 3, window=window, return_complex=True)
    assert torch.allclose(found, expected, rtol=1e-11, atol=1e-12)
    signal = gaussian((40,), 3, torch.complex128)
    spectra = trnfft.stft(signal, 10, 3, window=window, center=True, return_complex=True)
    assert torch.allclose(trnfft.istft(spectra, 10, 3, window=window, return_complex=True, length=40), signal)


@pytest.mark.parametrize(("n_fft", "hop"), [(256, 64), (200, 50), (128, 48), (64, 64), (512, 16)])
def test_long_signals_and_their_gradients_are_torchs(n_fft, hop):
    # frames that meet evenly are added as slices, others by torch; windows are added up once for all that repeat
    window = torch.hamming_window(n_fft, dtype=torch.float64)
    spectra = torch.stft(gaussian((2, 20000), 1, torch.float64), n_fft, hop, window=window, return_complex=True)
    mine, theirs = (spectra.clone().requires_grad_() for _ in range(2))
    found = trnfft.istft(mine, n_fft, hop, window=window)
    expected = torch.istft(theirs, n_fft, hop, window=window)
    assert torch.allclose(found, expected, rtol=1e-11, atol=1e-12)
    ramp = torch.linspace(0, 1, found.shape[-1], dtype=torch.float64)
    (found * ramp).sum().backward()
    (expected * ramp).sum().backward()
    assert torch.allclose(mine.grad, theirs.grad, rtol=1e-11, atol=1e-12)


# Frames of one and two samples, where half a spectrum is as long as a whole one.
@pytest.mark.filterwarnings("ignore:The length of signal is shorter")
@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_shortest_frames_are_torchs(backend, dtype, n):
    x, window = gaussian((2, 9), 1, dtype), torch.linspace(0.5, 1, n, dtype=torch.float64)
    for hop, center, onesided, normalized in ((1, True, None, False), (1, False, False, True), (n, True, False, False)):
        options = {"hop_length": hop, "window": window, "center": center, "normalized": normalized}
        expected = torch.stft(x, n, onesided=onesided, return_complex=True, **options)
        with backend:
            got = trnfft.stft(x, n, onesided=onesided, **options)
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
        for whole in (False, expected.shape[-2] == n and onesided is not True):
            with backend:
                back = trnfft.istft(expected, n, onesided=onesided, return_complex=whole, length=9, **options)
            theirs = torch.istft(expected, n, onesided=onesided, return_complex=whole, length=9, **options)
            torch.testing.assert_close(back, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore:The length of signal is shorter")
@together("options", [{"center": False}, {"length": 500}, {"length": 2000}, {"normalized": True}, {}])
def test_ends_of_the_inverse(options):
    window = torch.hamming_window(64, dtype=torch.float64)
    spectra = gaussian((2, 33, 50), 1, torch.complex128)
    expected = torch.istft(spectra, 64, 20, window=window, **options)
    torch.testing.assert_close(trnfft.istft(spectra, 64, 20, window=window, **options), expected)


def test_a_window_that_vanishes_somewhere_is_refused_wherever_that_is():
    spectra = gaussian((33, 50), 1, torch.complex128)
    window = torch.ones(64, dtype=torch.float64)
    window[:16] = 0
    # at hop 32 every sample is in the other half of some frame, except at the beginning
    expected = torch.istft(spectra, 64, 32, window=window)
    torch.testing.assert_close(trnfft.istft(spectra, 64, 32, window=window), expected)
    with pytest.raises(ArgumentError, match="at sample 0"):
        trnfft.istft(spectra, 64, 32, window=window, center=False)
    with pytest.raises(ArgumentError, match="at sample"):
        trnfft.istft(spectra, 64, 64, window=window)
    with pytest.raises(ArgumentError, match="hop_length is 65, expected at most win_length=64"):
        trnfft.istft(spectra, 64, 65)


def test_conjugates_slices_and_strided_windows():
    x = gaussian((2, 4000), 1, torch.float64)[:, ::2]
    window = torch.hann_window(128, dtype=torch.float64)[::2]
    expected = torch.stft(x, 64, 16, window=window, return_complex=True)
    found = trnfft.stft(x, 64, 16, window=window)
    torch.testing.assert_close(found, expected)
    for spectra in (found.conj(), found.contiguous(), found.repeat(1, 1, 2)[..., : found.shape[-1]]):
        theirs = torch.istft(spectra, 64, 16, window=window)
        torch.testing.assert_close(trnfft.istft(spectra, 64, 16, window=window), theirs)
