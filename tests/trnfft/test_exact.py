"""Digits of base 256: the kernel against exact integers, and transforms to their stated errors on every backend."""

from fractions import Fraction

import numpy as np
import pytest
import torch

import trnfft
import trnsci
from trnfft import exact
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
def test_digits_are_small_whole_numbers_that_add_up(count):
    x = torch.cat((gaussian((100,), 1, F64) / 8, torch.tensor([0.0, 1.0, -1.0, 0.5, 2.0**-52], dtype=F64)))
    found = exact.digits(x, count)
    assert found.dtype == torch.bfloat16
    assert float(found.abs().max()) <= 128
    assert torch.equal(found, found.round())
    assert float((exact.together(found) - x).abs().max()) <= 2.0 ** (-8 * count)


@on_kernels
@pytest.mark.parametrize(("rows", "columns", "count"), [(3, 5, 4), (128, 130, 7), (2, 513, 7)])
def test_the_kernel_multiplies_without_rounding(backend, rows, columns, count):
    from trnfft.kernels import exact as kernels
    from trnsci.nki import launch

    rng = np.random.default_rng(1)
    # The largest digits there are, so that sums come close to 2**24.
    x = rng.integers(-128, 129, (count, rows, columns)).astype(float)
    t = rng.integers(-128, 129, (count, rows, 6)).astype(float)
    # The result must stay below 1.
    t[0] = 0
    with backend:
        got = launch(kernels.exact, torch.from_numpy(x).bfloat16(), torch.from_numpy(t).bfloat16())

    def value(digits, row, column):
        return sum(Fraction(int(d)) / 2 ** (7 + 8 * i) for i, d in enumerate(digits[:, row, column]))

    for row, column in [(0, 0), (5, columns - 1), (2, columns // 2)]:
        product = sum(value(t, k, row) * value(x, k, column) for k in range(rows)) / 2
        # Levels below the last are left out, and the last digit is rounded.
        assert abs(value(got.double().numpy(), row, column) - product) <= Fraction(1, 2 ** (8 * count - 1)) * 2


def test_plans_say_that_digits_are_used():
    made = trnfft.plan((4, 100), C128)
    assert [stage.algorithm for stage in made.stages] == ["digits"]
    assert trnsci.plan(trnfft.fft, torch.empty(4, 131, dtype=C128, device="meta")).predicted["trn2"] > 0
