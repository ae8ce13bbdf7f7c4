"""Digits of base 256: the kernel against exact integers, and transforms to their stated errors on every backend."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch

import trnfft
import trnsci
from tests.together import together
from trnfft import exact
from trnfft.device import digit_programs
from trnfft.device.bounds import guaranteed_error
from trnsci.predict import prediction
from trnsci.testing import BACKENDS, gaussian

F64, C64, C128 = torch.float64, torch.complex64, torch.complex128
# what is promised, relative in the 2-norm
FP64, COMPENSATED = digit_programs.BOUND["fp64"], digit_programs.BOUND["compensated"]

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
on_kernels = pytest.mark.parametrize("backend", [b for b in BACKENDS if b.runs_kernels], ids=str)

# One factor, two, three, chirps; few columns, whose digits are turned on chip, and enough to fill a tile.
SHAPES = [(1, 1), (3, 8), (5, 64), (2, 65), (2, 100), (2, 131), (1, 4096), (40, 144), (1, 8192), (9, 263)]


def relative(got, expected):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    return np.linalg.norm(got - expected) / np.linalg.norm(expected)


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fp64_on_every_backend(backend, shape):
    x = gaussian(shape, 1, C128)
    half = np.fft.rfft(x.real.numpy())
    bound = FP64 if backend.runs_kernels else 2 * guaranteed_error("pytorch", [shape[-1]], 1, 1, "fp64")
    with backend:
        assert relative(trnfft.fft(x), np.fft.fft(x.numpy())) <= bound
        assert relative(trnfft.ifft(x, norm="ortho"), np.fft.ifft(x.numpy(), norm="ortho")) <= bound
        assert relative(trnfft.rfft(x.real), half) <= bound
        assert relative(trnfft.irfft(torch.from_numpy(half), shape[-1]), x.real) <= bound


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_compensated_on_every_backend(backend, shape):
    x = gaussian(shape, 1, C64)
    with backend:
        got = trnfft.fft(x, precision="compensated")
    assert got.dtype == C64
    assert relative(got, np.fft.fft(x.to(C128).numpy())) <= COMPENSATED


@on_kernels
def test_several_axes(backend):
    x = gaussian((3, 20, 7), 1, F64)
    with backend:
        spectrum = trnfft.rfftn(x, dim=(2, 0))
        back = trnfft.irfftn(spectrum, (7, 3), dim=(2, 0))
    assert relative(spectrum, np.fft.rfftn(x.numpy(), axes=(2, 0))) <= FP64
    assert relative(back, x) <= FP64


# Axes in several orders, between and beside others, some of them chirps.
AXES = [
    ((3, 20, 7), (1, 2)),
    ((4, 6, 5, 3), (3, 0, 2, 1)),
    ((2, 67, 5), (2, 1)),
    pytest.param((67, 3, 71), (0, 1, 2), marks=pytest.mark.slow),
    ((2, 70, 66), (1, 2)),
    # Small factors, each of which costs a bit.
    ((135, 65), (0, 1)),
    ((2,) * 9, tuple(range(9))),
]


@on_kernels
@pytest.mark.parametrize(("shape", "dims"), AXES, ids=str)
def test_axes_in_any_order_are_one_program(backend, shape, dims):
    x = gaussian(shape, 1, C128)
    (step,) = trnsci.plan(trnfft.fftn, torch.empty(shape, dtype=C128, device="meta"), dim=dims).steps
    assert prediction(step.call, "trn2").programs == 1
    with backend:
        assert relative(trnfft.fftn(x, dim=dims), np.fft.fftn(x.numpy(), axes=dims)) <= FP64
        got = trnfft.ifftn(x.to(C64), dim=dims, norm="ortho", precision="compensated")
    assert relative(got, np.fft.ifftn(x.to(C64).to(C128).numpy(), axes=dims, norm="ortho")) <= COMPENSATED


@on_kernels
def test_rows_of_different_size_keep_their_own_precision(backend):
    x = gaussian((4, 48), 1, C128) * torch.tensor([1e-200, 1.0, 1e200, 0.0], dtype=F64)[:, None]
    with backend:
        got = trnfft.fft(x)
    for row in range(3):
        # Norms of numbers this large would overflow.
        scale = float(x[row].abs().max())
        assert relative(got[row] / scale, np.fft.fft(x[row].numpy() / scale)) <= FP64
    assert torch.equal(got[3], torch.zeros(48, dtype=C128))


@on_kernels
def test_a_row_with_an_infinity_is_nan_and_the_others_are_not(backend):
    x = gaussian((3, 10), 1, C128)
    x[1, 4] = float("inf")
    with backend:
        got = trnfft.fft(x)
    assert bool(torch.isnan(got[1]).all())
    assert relative(got[::2], np.fft.fft(x[::2].numpy())) <= FP64


@on_kernels
def test_gradients_keep_the_precision(backend):
    x = gaussian((2, 12), 1, F64).requires_grad_()
    with backend:
        trnfft.rfft(x).abs().pow(2).sum().backward()
    wide = x.detach().clone().requires_grad_()
    torch.fft.rfft(wide).abs().pow(2).sum().backward()
    assert relative(x.grad, wide.grad) <= 2 * FP64


@pytest.mark.parametrize("count", [1, 4, 7])
def test_digits_are_small_whole_multiples_that_add_up(count):
    x = torch.cat((gaussian((100,), 1, F64) / 8, torch.tensor([0.0, 1.0, -1.0, 0.5, 2.0**-52], dtype=F64)))
    found = digit_programs.digits(x, count)
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


def _launched(backend, x, t, program):
    """Digits [count, ...] of a program: x [count, 2, n, F] and its table, digits first."""
    from trnfft.kernels import exact as kernels
    from trnsci.nki import launch

    table = torch.from_numpy(t / 2).bfloat16().movedim(0, -1 if t.ndim == 3 else 2).contiguous()
    with backend:
        got = launch(
            kernels.exact, torch.from_numpy(x).bfloat16().movedim(0, 2).contiguous(), table.reshape(-1), program=program
        )
    return got.double().movedim(2, 0).numpy()


@on_kernels
@pytest.mark.parametrize(("rows", "columns", "count"), [(3, 5, 4), (64, 130, 7), (2, 513, 8)])
def test_the_kernel_multiplies_without_rounding(backend, rows, columns, count):
    rng = np.random.default_rng(1)
    x, t = _digits(rng, count, 2, rows, columns), _digits(rng, count, 2 * rows, 1, 2 * rows)
    # The result must stay below 1.
    t[0] = 0
    found = _launched(backend, x, t, (("product", 0, (rows, 1, 1, 1, 1, 1, True)),))
    found, x = found.reshape(count, 2 * rows, columns), x.reshape(count, 2 * rows, columns)
    for row, column in [(0, 0), (2 * rows - 1, columns - 1), (2, columns // 2)]:
        product = sum(_value(t, k, 0, row) * _value(x, k, column) for k in range(2 * rows)) / 2
        # Levels below the last are left out, and the last digit is rounded.
        assert abs(_value(found, row, column) - product) <= Fraction(1, 2 ** (8 * count - 1)) * 2


@on_kernels
@pytest.mark.parametrize(("outer", "points", "inner", "count"), [(1, 6, 5, 4), (3, 128, 1, 7), (2, 256, 3, 8)])
def test_the_kernel_multiplies_by_a_diagonal_without_rounding(backend, outer, points, inner, count):
    rng = np.random.default_rng(2)
    n, rows = outer * points * inner, np.gcd(points, 128)
    x, t = _digits(rng, count, 2, n, 1), _digits(rng, count, 2, points)
    t[0] = 0
    found = _launched(backend, x, t, (("multiply", 0, (outer, int(rows), points // int(rows), inner)),))
    for at in (0, 1, n // 2, n - 1):
        k = at // inner % points
        (a, b), (c, d) = ([_value(data, *place) for place in places] for data, places in (
            (x, [(0, at, 0), (1, at, 0)]), (t, [(0, k), (1, k)])
        ))  # fmt: skip
        for part, product in ((0, (a * c - b * d) / 2), (1, (a * d + b * c) / 2)):
            assert abs(_value(found, part, at, 0) - product) <= Fraction(1, 2 ** (8 * count - 1)) * 2


# Data that wastes the room of fixed point numbers: a single point, a pure tone, a ramp, a point beside small noise.
HARD = {
    "point": lambda n: np.eye(1, n, 5)[0] + 0j,
    "tone": lambda n: np.exp(2j * np.pi * np.arange(n) * 7 / n),
    "ramp": lambda n: np.arange(n) + 0j,
    "spike": lambda n: np.eye(1, n, 3)[0] + 1e-3 * gaussian((n,), 1, C128).numpy(),
}


@pytest.mark.grid(1)
@on_kernels
@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("n", [60, 521, 1024, 4096, 16384])
def test_hard_data_stays_within_the_stated_errors(backend, name, n):
    x = HARD[name](n)
    with backend:
        got = trnfft.fft(torch.from_numpy(x))
        short = trnfft.fft(torch.from_numpy(x.astype(np.complex64)), precision="compensated")
    assert relative(got, np.fft.fft(x)) <= FP64
    assert relative(short, np.fft.fft(x.astype(np.complex64).astype(np.complex128))) <= COMPENSATED


@on_kernels
def test_fp64_against_more_than_float64(backend):
    n = 72
    x = gaussian((n,), 1, C128)
    with mpmath.workdps(40):
        turn = [mpmath.expjpi(mpmath.mpf(-2 * e) / n) for e in range(n)]
        points = [mpmath.mpc(z) for z in x.tolist()]
        exactly = [complex(mpmath.fsum(z * turn[j * k % n] for j, z in enumerate(points))) for k in range(n)]
    with backend:
        assert relative(trnfft.fft(x), exactly) <= FP64


@pytest.mark.slow
@on_kernels
@pytest.mark.parametrize("n", [10007, 65537, 1 << 17, 1 << 18, 3**11, 1 << 20])
def test_long_lengths(backend, n):
    x = gaussian((1, n), 1, C128)
    tone = torch.from_numpy(np.exp(2j * np.pi * np.arange(n) * 7 / n))[None]
    expected = np.zeros((1, n), np.complex128)
    expected[0, 7] = n
    with backend:
        assert relative(trnfft.fft(x), np.fft.fft(x.numpy())) <= FP64
        assert relative(trnfft.fft(tone), expected) <= FP64
        short = trnfft.fft(x.to(C64), precision="compensated")
    assert relative(short, np.fft.fft(x.to(C64).to(C128).numpy())) <= COMPENSATED


@pytest.mark.parametrize(("shape", "most"), [((4096,), 400), ((251,), 400), ((48, 64), 120)])
def test_what_is_too_long_for_a_program_is_several_launches(shape, most, monkeypatch):
    monkeypatch.setattr(digit_programs, "_FEW", 0)
    monkeypatch.setenv("TRNSCI_PROGRAM_INSTRUCTIONS", str(most))
    x = gaussian(shape, 1, C128)
    with trnsci.backend("simulator"):
        found = trnfft.fftn(x)
        (step,) = trnsci.plan(trnfft.fftn, x).steps
        assert relative(trnfft.ifftn(found), x.numpy()) <= 2 * FP64
    assert relative(found, np.fft.fftn(x.numpy())) <= FP64
    made = prediction(step.call, "trn2")
    assert made.programs > 1
    assert made.longest[0] <= most


@together(
    ("n", "length", "factors"),
    [(1, 1, (1,)), (64, 64, (64,)), (100, 100, (10, 10)), (4096, 4096, (64, 64)), (1 << 18, 1 << 18, (64, 64, 64))],
)
def test_factors_of_digits(n, length, factors):
    axis = digit_programs.axis_for(n)
    assert (axis.length, axis.factors, axis.chirp) == (length, factors, False)


@together("n", [67, 131, 1009, 2018, 65537])
def test_chirps_of_digits_hold_the_convolution(n):
    axis = digit_programs.axis_for(n)
    assert axis.chirp
    assert axis.length >= 2 * n - 1
    assert np.prod(axis.factors) == axis.length
    assert max(axis.factors) <= 64


@pytest.mark.parametrize(
    "n", [1, 64, 1000, 4096, 8192, 131, 1009, *(pytest.param(n, marks=pytest.mark.slow) for n in (1 << 17, 65537))]
)
def test_every_length_is_one_program(n):
    for dtype, precision in ((C128, None), (C64, "compensated")):
        (step,) = trnsci.plan(trnfft.fft, torch.empty(1, n, dtype=dtype, device="meta"), precision=precision).steps
        assert prediction(step.call, "trn2").programs == 1


@pytest.mark.parametrize(
    ("precision", "points", "count"),
    [("fp64", 4096, 7), ("fp64", 1 << 20, 8), ("compensated", 4096, 4), ("compensated", 1 << 20, 5)],
)
def test_longer_transforms_have_more_digits(precision, points, count):
    assert digit_programs.count_for(precision, points) == count


def test_many_residues_share_tables():
    made = digit_programs.digit_program((1 << 18,), 1, -1, "fp64")
    # One table for each residue of the first factor would take 1 GB.
    assert made.tables.nbytes <= 64 << 20


def test_plans_say_that_digits_are_used():
    made = trnfft.plan((4, 100), C128)
    assert [stage.algorithm for stage in made.stages] == ["digits"]
    assert made.tables
    mixed = trnfft.plan((4, 131, 100), C64, kind="fftn", dim=(2, 1), precision="compensated")
    assert [(stage.axis, stage.algorithm) for stage in mixed.stages] == [(2, "digits"), (1, "chirp in digits")]
    assert "131 points, chirp in digits" in str(mixed)
    assert trnsci.plan(trnfft.fft, torch.empty(4, 131, dtype=C128, device="meta")).predicted["trn2"] > 0
