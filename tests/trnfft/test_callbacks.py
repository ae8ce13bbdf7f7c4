"""Callbacks: NumPy in float64 as oracle, one program on kernels, gradients, and what is left to PyTorch."""

import numpy as np
import pytest
import torch

import trnfft
import trnsci
from trnfft import Convert, Multiply, Scale, Window, plan
from trnfft.callbacks import CallbackPlan
from trnfft.device import chains
from trnsci import ArgumentError
from trnsci.testing import BACKENDS, gaussian

F32, C64 = torch.float32, torch.complex64
on_kernels = pytest.mark.parametrize("backend", [b for b in BACKENDS if b.runs_kernels], ids=str)


def wide(x):
    return x.to(torch.complex128 if x.is_complex() else torch.float64).numpy()


def convolution(shape, factors, *more, axes=1):
    """Steps of a circular convolution over the last axes, given the transform of the other signal."""
    kinds = ("rfft", "irfft") if axes == 1 else ("rfft2", "irfft2")
    half = (*shape[:-1], shape[-1] // 2 + 1)
    back = plan(half, C64, kind=kinds[1], n=shape[-1] if axes == 1 else shape[-2:])
    return CallbackPlan((plan(shape, F32, kind=kinds[0]), Multiply(factors), back, *more))


def convolved(x, factors, axes=1):
    dims = tuple(range(-axes, 0))
    return np.fft.irfftn(np.fft.rfftn(wide(x), axes=dims) * wide(factors), x.shape[-axes:], axes=dims)


def one_program(backend, steps, x, exact, size, rounding=0.0):
    """The result of one kernel, whose error in the 2-norm is what its op guarantees relative to ``size``."""
    with backend, trnsci.ledger() as book:
        found = steps(x)
        launches = trnsci.plan(steps, x).programs.launches
    (entry,) = book.entries
    assert (entry.step.op, entry.step.implementation, launches) == ("trnfft::chain", "nki", 1)
    assert found.shape == exact.shape
    assert np.linalg.norm(wide(found) - exact) <= (entry.error_bound + rounding) * size
    return found


# Rows of a full tile, few rows, a prime, one point; factors for all rows, for each, for some axes, of one element.
CONVOLUTIONS = [
    ((128, 256), (129,), 1),
    ((130, 135), (130, 68), 1),
    ((3, 300), (3, 151), 1),
    ((2, 1009), (), 1),
    ((2, 3, 64), (3, 33), 1),
    ((4, 1), (1,), 1),
    ((2, 40, 128), (40, 65), 2),
]


@on_kernels
@pytest.mark.parametrize(("shape", "of", "axes"), CONVOLUTIONS)
def test_a_convolution_is_one_program_within_its_bound(backend, shape, of, axes):
    x, factors = gaussian(shape, 1), gaussian(of, 2, dtype=C64)
    if not of:
        # a number that is complex would not leave half a spectrum what it is
        factors = factors.real.clone()
    size = np.linalg.norm(wide(x)) * np.abs(wide(factors)).max()
    one_program(backend, convolution(shape, factors, axes=axes), x, convolved(x, factors, axes), size)


@on_kernels
@pytest.mark.parametrize("shape", [(128, 64), (3, 30), (2, 226)])
@pytest.mark.parametrize("dtype", [torch.int16, torch.uint8, torch.bfloat16, torch.int64], ids=str)
def test_conversion_window_and_scale_are_inside_the_program(backend, shape, dtype):
    x = (torch.arange(shape[0] * shape[1]).reshape(shape) * 7 % 101).to(dtype)
    window = torch.hann_window(shape[1])
    spectrum = CallbackPlan((Convert(F32), Window(window), plan(shape, F32, kind="rfft"), Scale(0.25)))
    exact = 0.25 * np.fft.rfft(wide(x.float()) * wide(window))
    one_program(backend, spectrum, x, exact, 0.25 * np.sqrt(shape[1]) * np.linalg.norm(wide(x.float())))
    half = convolution(shape, torch.ones(shape[1] // 2 + 1), Scale(2.0), Convert(torch.bfloat16))
    found = one_program(backend, half, x.float(), 2 * wide(x.float()), 2 * np.linalg.norm(wide(x.float())), 2.0**-8)
    assert found.dtype == torch.bfloat16


@on_kernels
def test_complex_chains_over_inner_axes_and_both_ends(backend):
    x, factors = gaussian((3, 24, 5), 1, dtype=C64), gaussian((24, 1), 2, dtype=C64)
    there, back = plan((3, 24, 5), C64, dim=1), plan((3, 24, 5), C64, dim=1, kind="ifft")
    chain = CallbackPlan((Multiply(factors), there, Window(torch.hann_window(24), dim=1), back, Scale(2j)))
    spectrum = np.fft.fft(wide(x) * wide(factors), axis=1) * wide(torch.hann_window(24))[:, None]
    size = 2 * np.linalg.norm(wide(x)) * np.abs(wide(factors)).max()
    one_program(backend, chain, x, 2j * np.fft.ifft(spectrum, axis=1), size)


@on_kernels
def test_chains_beyond_the_limit_are_several_programs(backend, monkeypatch):
    monkeypatch.setenv("TRNSCI_PROGRAM_INSTRUCTIONS", "40")
    monkeypatch.setattr(chains, "_FEW", 64)
    x, factors = gaussian((256, 128), 1), gaussian((65,), 2, dtype=C64)
    with backend:
        smooth = convolution((256, 128), factors)
        error = wide(smooth(x)) - convolved(x, factors)
        assert trnsci.plan(smooth, x).programs.launches > 1
    assert np.linalg.norm(error) <= 1e-5 * np.linalg.norm(wide(x)) * np.abs(wide(factors)).max()


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_gradients_of_data_and_factors_are_those_of_the_definition(backend):
    x, window, factors = gaussian((4, 30), 1), gaussian((30,), 2), gaussian((16,), 3, dtype=C64)
    weights = gaussian((4, 30), 4)

    def gradients(convolve, *operands):
        leaves = [operand.detach().clone().requires_grad_() for operand in operands]
        (convolve(*leaves) * weights).sum().backward()
        return [leaf.grad for leaf in leaves]

    def ours(x, window, factors):
        steps = convolution((4, 30), factors).steps
        return CallbackPlan((Window(window), *steps, Scale(0.5)))(x)

    def theirs(x, window, factors):
        return 0.5 * torch.fft.irfft(torch.fft.rfft(x * window) * factors, 30)

    with backend:
        found = gradients(ours, x, window, factors)
    exactly = gradients(theirs, x.double(), window.double(), factors.to(torch.complex128))
    for mine, exact in zip(found, exactly, strict=True):
        assert (mine - exact).norm() <= 2e-6 * exact.norm()


def test_chain_is_an_operator_of_torch():
    x = gaussian((2, 8), 1).requires_grad_()
    factors = [gaussian((8,), 2).requires_grad_(), gaussian((2, 5), 3, dtype=C64).requires_grad_()]
    kinds, lengths, scales = "times rfft times irfft", [0, 8, 0, 8], "none none none full"
    arguments = (x, factors, [1], kinds, lengths, scales, F32, "fp32")
    torch.library.opcheck(torch.ops.trnfft.chain.default, arguments)
    # without a trace of the backward pass, which takes seconds
    z = gaussian((2, 8), 4, dtype=C64).requires_grad_()
    arguments = (z, factors[:1], [1], "fft times", [8, 0], "root none", C64, "fp32")
    torch.library.opcheck(torch.ops.trnfft.chain.default, arguments, test_utils=("test_schema", "test_faketensor"))


def test_what_is_not_a_program_says_so_and_runs_in_pytorch():
    x, factors = gaussian((3, 16), 1), gaussian((9,), 2, dtype=C64)
    steps = convolution((3, 16), factors, torch.relu, Scale(2.0))
    assert [type(part).__name__ for part in steps.parts[1:]] == ["builtin_function_or_method", "Scale"]
    text = str(steps)
    assert "one program on Trainium: rfft, Multiply, irfft" in text
    assert "callback relu: PyTorch, beside programs" in text
    exact = 2 * np.maximum(convolved(x, factors), 0)
    assert np.linalg.norm(wide(steps(x)) - exact) <= 1e-5 * np.linalg.norm(wide(x)) * np.abs(wide(factors)).max()
    # Factors that would change shape or dtype, other axes in between, float64, halves of Hermitian signals.
    real = plan((3, 16), F32, kind="rfft")
    apart = [
        (Multiply(factors.to(torch.complex128)), real),
        (real, Multiply(gaussian((2, 3, 9), 3, dtype=C64))),
        (plan((3, 16), C64), Scale(2.0), plan((3, 16), C64, dim=0), Scale(2.0)),
        (Scale(2.0), plan((3, 16), torch.float64, kind="rfft")),
        (Scale(2.0), plan((3, 16), F32, kind="ihfft")),
        (Convert(torch.int32), real),
        (Scale(2.0), plan((3, 16), F32, kind="rfft", n=20)),
    ]
    for steps in apart:
        assert len(CallbackPlan(steps).parts) >= 2, steps


def test_callbacks_are_the_functions_before_and_after_the_transform():
    x = gaussian((3, 16), 1, dtype=torch.float64)
    window, weights = torch.hann_window(3, dtype=torch.float64), gaussian((9,), 2, dtype=torch.complex128)
    forward = trnfft.plan((3, 16), torch.float64, kind="rfft")
    fused = trnfft.with_callbacks(forward, load=trnfft.Window(window, dim=0), store=trnfft.Multiply(weights))
    exact = np.fft.rfft(x.numpy() * window.numpy()[:, None]) * weights.numpy()
    assert abs(fused(x).numpy() - exact).max() <= 1e-14 * 16
    assert isinstance(fused(x.numpy()), np.ndarray)
    whole = fused.then(trnfft.plan((3, 9), torch.complex128, kind="irfft")).then(trnfft.Convert(torch.float32))
    assert whole(x).dtype == torch.float32
    assert len(whole.plans) == 2
    assert "callback Multiply: PyTorch, beside programs" in str(whole)
    assert torch.autograd.gradcheck(fused.then(torch.abs), (x.clone().requires_grad_(),))
    integers = trnfft.with_callbacks(forward, load=lambda n: trnfft.Scale(0.5)(n.double()))
    assert integers(torch.ones(3, 16, dtype=torch.int16))[0, 0] == 8
    with pytest.raises(ArgumentError, match="shape and dtype"):
        trnfft.with_callbacks(forward)(x.float())
    with pytest.raises(ArgumentError, match="a tensor"):
        trnfft.with_callbacks(forward, store=lambda y: 3)(x)
    with pytest.raises(ArgumentError, match="what plan"):
        trnfft.with_callbacks(torch.fft.fft)
    with pytest.raises(ArgumentError, match="function or a plan"):
        trnfft.with_callbacks(forward, load=3.0)
    with pytest.raises(ArgumentError, match="N"):
        trnfft.with_callbacks(forward, load=trnfft.Window(window))(x)
