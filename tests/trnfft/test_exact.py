"""Digits of base 256: the kernel against exact integers, and transforms to their stated errors on every backend."""

from fractions import Fraction

import numpy as np
import pytest
import torch

import trnfft
import trnsci
from trnfft import exact
from trnsci.predict import prediction
from trnsci.testing import BACKENDS, gaussian

F64, C64, C128 = torch.float64, torch.complex64, torch.complex128

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
on_kernels = pytest.mark.parametrize("backend", [b for b in BACKENDS if b.runs_kernels], ids=str)

SHAPES = [(1, 1), (3, 8), (5, 64), (2, 65), (2, 100), (2, 131), (1, 4096)]


def relative(got, expected):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    return np.linalg.norm(got - expected) / np.linalg.norm(expected)


@on_backends
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fp64_on_every_backend(backend, shape):
    x = gaussian(shape, 1, C128)
    half = np.fft.rfft(x.real.numpy())
    with backend:
        assert relative(trnfft.fft(x), np.fft.fft(x.numpy())) <= 1e-14
        assert relative(trnfft.ifft(x, norm="ortho"), np.fft.ifft(x.numpy(), norm="ortho")) <= 1e-14
        assert relative(trnfft.rfft(x.real), half) <= 1e-14
        assert relative(trnfft.irfft(torch.from_numpy(half), shape[-1]), x.real) <= 1e-14


@on_backends
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_compensated_on_every_backend(backend, shape):
    x = gaussian(shape, 1, C64)
    with backend:
        got = trnfft.fft(x, precision="compensated")
    assert got.dtype == C64
    assert relative(got, np.fft.fft(x.to(C128).numpy())) <= 1e-7


@on_kernels
def test_several_axes(backend):
    x = gaussian((3, 20, 7), 1, F64)
    with backend:
        spectrum = trnfft.rfftn(x, dim=(2, 0))
        back = trnfft.irfftn(spectrum, (7, 3), dim=(2, 0))
    assert relative(spectrum, np.fft.rfftn(x.numpy(), axes=(2, 0))) <= 1e-14
    assert relative(back, x) <= 1e-14


@on_kernels
def test_rows_of_different_size_keep_their_own_precision(backend):
    x = gaussian((4, 48), 1, C128) * torch.tensor([1e-200, 1.0, 1e200, 0.0], dtype=F64)[:, None]
    with backend:
        got = trnfft.fft(x)
    for row in range(3):
        # Norms of numbers this large would overflow.
        scale = float(x[row].abs().max())
        assert relative(got[row] / scale, np.fft.fft(x[row].numpy() / scale)) <= 1e-14
    assert torch.equal(got[3], torch.zeros(48, dtype=C128))


@on_kernels
def test_a_row_with_an_infinity_is_nan_and_the_others_are_not(backend):
    x = gaussian((3, 10), 1, C128)
    x[1, 4] = float("inf")
    with backend:
        got = trnfft.fft(x)
    assert bool(torch.isnan(got[1]).all())
    assert relative(got[::2], np.fft.fft(x[::2].numpy())) <= 1e-14


@on_kernels
def test_gradients_keep_the_precision(backend):
    x = gaussian((2, 12), 1, F64).requires_grad_()
    with backend:
        trnfft.rfft(x).abs().pow(2).sum().backward()
    wide = x.detach().clone().requires_grad_()
    torch.fft.rfft(wide).abs().pow(2).sum().backward()
    assert relative(x.grad, wide.grad) <= 2e-14


@pytest.mark.parametrize("count", [1, 4, 7])
def test_digits_are_small_whole_multiples_that_add_up(count):
    x = torch.cat((gaussian((100,), 1, F64) / 8, torch.tensor([0.0, 1.0, -1.0, 0.5, 2.0**-52], dtype=F64)))
    found = exact.digits(x, count)
    assert found.dtype == torch.bfloat16
    whole = found.double() * torch.tensor([2.0 ** (7 + 8 * i) for i in range(count)], dtype=F64)[:, None]
    assert float(whole.abs().max()) <= 128
    assert torch.equal(whole, whole.round())
    assert float((exact.together(found) - x).abs().max()) <= 2.0 ** (-8 * count)


def _digits(rng, count, *shape):
    """The largest digits there are, so that sums come close to 2**24, with their powers of two along the first axis."""
    whole = rng.integers(-128, 129, (count, *shape)).astype(float)
    return whole * (2.0 ** (-7 - 8 * np.arange(count))).reshape(-1, *[1] * len(shape))


def _value(found, *at):
    """What digits along the first axis add up to, exactly."""
    return sum(Fraction(float(d)) for d in found[(slice(None), *at)])


@on_kernels
@pytest.mark.parametrize(("rows", "columns", "count"), [(3, 5, 4), (64, 130, 7), (2, 513, 7)])
def test_the_kernel_multiplies_without_rounding(backend, rows, columns, count):
    from trnfft.kernels import exact as kernels
    from trnsci.nki import launch

    rng = np.random.default_rng(1)
    x, t = _digits(rng, count, 2, rows, columns), _digits(rng, count, 2 * rows, 6)
    # The result must stay below 1.
    t[0] = 0
    made = torch.from_numpy(x).bfloat16().reshape(count, 2, rows, 1, columns).movedim(0, 3)
    table = torch.from_numpy(t / 2).bfloat16().movedim(0, 1).unsqueeze(1)
    with backend:
        got = launch(kernels.exact, made.contiguous(), table.contiguous())
    found = got.double().numpy()[:, 0].swapaxes(0, 1)  # [count, 6, columns]
    x = x.reshape(count, 2 * rows, columns)
    for row, column in [(0, 0), (5, columns - 1), (2, columns // 2)]:
        product = sum(_value(t, k, row) * _value(x, k, column) for k in range(2 * rows)) / 2
        # Levels below the last are left out, and the last digit is rounded.
        assert abs(_value(found, row, column) - product) <= Fraction(1, 2 ** (8 * count - 1)) * 2


# Data that wastes the room of fixed point numbers: a single point, a pure tone, a ramp, a point beside small noise.
HARD = {
    "point": lambda n: np.eye(1, n, 5)[0] + 0j,
    "tone": lambda n: np.exp(2j * np.pi * np.arange(n) * 7 / n),
    "ramp": lambda n: np.arange(n) + 0j,
    "spike": lambda n: np.eye(1, n, 3)[0] + 1e-3 * gaussian((n,), 1, C128).numpy(),
}


@on_kernels
@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("n", [60, 1024, 4096])
def test_hard_data_stays_within_the_stated_errors(backend, name, n):
    x = HARD[name](n)
    with backend:
        got = trnfft.fft(torch.from_numpy(x))
        short = trnfft.fft(torch.from_numpy(x.astype(np.complex64)), precision="compensated")
    assert relative(got, np.fft.fft(x)) <= 1e-14
    assert relative(short, np.fft.fft(x.astype(np.complex64).astype(np.complex128))) <= 1e-7


@on_kernels
def test_fp64_against_more_than_float64(backend):
    mpmath = pytest.importorskip("mpmath", reason="the oracle is mpmath")
    n = 72
    x = gaussian((n,), 1, C128)
    with mpmath.workdps(40):
        turn = [mpmath.expjpi(mpmath.mpf(-2 * e) / n) for e in range(n)]
        points = [mpmath.mpc(z) for z in x.tolist()]
        exactly = [complex(mpmath.fsum(z * turn[j * k % n] for j, z in enumerate(points))) for k in range(n)]
    with backend:
        assert relative(trnfft.fft(x), exactly) <= 1e-14


@pytest.mark.parametrize(
    ("n", "expected"),
    [(1, ((1, 1),)), (64, ((64, 1),)), (100, ((10, 10),)), (4096, ((64, 64),)), (1 << 18, ((64, 64), (64, 1)))],
)
def test_two_factors_share_a_program(n, expected):
    assert exact.programs(n) == expected


@pytest.mark.parametrize(("n", "count"), [(64, 1), (1000, 1), (4096, 1), (8192, 2)])
def test_lengths_of_two_factors_are_one_program(n, count):
    (step,) = trnsci.plan(trnfft.fft, torch.empty(4, n, dtype=C128, device="meta")).steps
    assert prediction(step.op, step.args, "trn2").programs == count


def test_plans_say_that_digits_are_used():
    made = trnfft.plan((4, 100), C128)
    assert [stage.algorithm for stage in made.stages] == ["digits"]
    assert trnsci.plan(trnfft.fft, torch.empty(4, 131, dtype=C128, device="meta")).predicted["trn2"] > 0
