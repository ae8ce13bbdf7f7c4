"""Convolution and correlation against SciPy; the chirp z-transform; frequencies, shifts and lengths."""

import functools
import itertools
import math

import mpmath
import numpy as np
import pytest
import scipy.fft
import scipy.signal
import torch
from hypothesis import given, strategies as st

import trnfft
from tests.together import together
from trnsci import ArgumentError, DtypeError
from trnsci.testing import BACKENDS, gaussian

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)

SHAPES = [
    ((5,), (3,)),
    ((3,), (5,)),
    ((7, 4), (3, 2)),
    ((40,), (40,)),
    ((5000,), (7,)),
    ((7,), (5000,)),
    ((50, 300), (3, 7)),
]
PAIRS = {
    "fftconvolve": scipy.signal.fftconvolve,
    "oaconvolve": scipy.signal.oaconvolve,
    "correlate": scipy.signal.correlate,
}


def close(got, expected, bound):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    assert np.linalg.norm(got - expected) <= bound


@pytest.mark.grid(1)
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_every_mode_agrees_with_scipy(name, left, right):
    for mode, dtype in itertools.product(("full", "same", "valid"), (torch.float64, torch.complex128)):
        a, b = gaussian(left, 1, dtype), gaussian(right, 2, dtype)
        expected = PAIRS[name](a.numpy(), b.numpy(), mode)
        close(getattr(trnfft, name)(a, b, mode), expected, 1e-13 * float(a.norm() * b.norm()))


@pytest.mark.parametrize("name", ["fftconvolve", "oaconvolve"])
def test_axes_and_broadcasting(name):
    a, b = gaussian((4, 1, 3000), 1, torch.float64), gaussian((1, 5, 9), 2, torch.float64)
    expected = PAIRS[name](a.numpy(), b.numpy(), axes=2)
    close(getattr(trnfft, name)(a, b, axes=2), expected, 1e-12 * float(a.norm() * b.norm()))
    close(getattr(trnfft, name)(a, b, dim=-1), expected, 1e-12 * float(a.norm() * b.norm()))


@on_backends
def test_single_precision_on_every_backend(backend):
    a, b = gaussian((3, 200), 1), gaussian((3, 31), 2)
    with backend:
        got = trnfft.fftconvolve(a, b, dim=1)
    expected = scipy.signal.fftconvolve(a.double().numpy(), b.double().numpy(), axes=1)
    close(got, expected, 3 * 5e-7 * float(a.norm() * b.norm()))


def test_convolution_is_differentiable():
    a, b = gaussian((7,), 1, torch.float64).requires_grad_(), gaussian((3,), 2, torch.float64).requires_grad_()
    for function, mode in itertools.product((trnfft.fftconvolve, trnfft.correlate), ("full", "same", "valid")):
        assert torch.autograd.gradcheck(lambda a, b, f=function, m=mode: f(a, b, m), (a, b))


def test_empty_operands():
    assert trnfft.fftconvolve(torch.ones(0), torch.ones(3)).shape == (0,)


def test_mistakes_of_convolution():
    with pytest.raises(ArgumentError, match="mode"):
        trnfft.fftconvolve(torch.ones(3), torch.ones(3), "circular")
    with pytest.raises(ArgumentError) as caught:
        trnfft.fftconvolve(torch.ones(3), torch.ones(3, 3))
    assert caught.value.got == {"a": 1, "b": 2}
    with pytest.raises(ArgumentError, match=r"dim is \(0, 0\), expected axes that differ"):
        trnfft.fftconvolve(torch.ones(3, 3), torch.ones(3, 3), dim=(0, -2))
    with pytest.raises(ArgumentError, match="every axis"):
        trnfft.correlate(torch.ones(3, 9), torch.ones(9, 3), "valid")
    with pytest.raises(DtypeError, match="not mixed"):
        trnfft.fftconvolve(torch.ones(3), torch.ones(3, dtype=torch.float64))


# Chirp z


@together(
    ("n", "m", "w", "a"),
    [
        (10, None, None, 1),
        (10, 7, None, 1),
        (10, 20, np.exp(-0.1j), 1.1 + 0.2j),
        (33, 5, 0.99 * np.exp(-0.2j), 0.9),
        (1, 4, None, 2),
    ],
)
def test_chirp_z_is_the_sum_it_says(n, m, w, a):
    x = gaussian((3, n), 1, torch.complex128).numpy()
    count = m or n
    ratio = np.exp(-2j * np.pi / count) if w is None else w
    points = a * ratio ** -np.arange(count)
    expected = x @ points[None, :] ** -np.arange(n)[:, None]
    close(trnfft.chirp_z(x, m, w, a), expected, 1e-12 * np.linalg.norm(expected))
    close(trnfft.chirp_z(x.T, m, w, a, 0), expected.T, 1e-12 * np.linalg.norm(expected))


@on_backends
def test_chirp_angles_are_reduced_exactly(backend):
    x = gaussian((1, 3001), 1, torch.complex64)
    expected = np.fft.fft(x.numpy().astype(np.complex128))
    with backend:
        got = trnfft.chirp_z(x)
    close(got, expected, 1e-6 * np.linalg.norm(expected))


@functools.cache
def spiral(n, m, w, a):
    """[m, n]: the powers ``z_k ** -j``, from mpmath."""
    with mpmath.workdps(30):
        rows = []
        for k in range(m):
            step = mpmath.mpc(w) ** k / mpmath.mpc(a)
            row = [mpmath.mpc(1)]
            for _ in range(n - 1):
                row.append(row[-1] * step)
            rows.append([np.clongdouble(complex(v)) for v in row])
    return np.array(rows)


# Inside and outside the circle, on it, and so steep that float64 could not hold w ** (n ** 2 / 2).
@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize(
    ("w", "a"), [(0.99 * np.exp(-0.1j), 1.02), (1.01 * np.exp(2j), 0.98j), (np.exp(0.3j), 1), (0.5, 1), (1.3, 4j)]
)
def test_chirp_z_along_spirals_stays_within_its_stated_error(backend, w, a):
    n, m = 70, 50
    for dtype, bound in ((torch.float32, 1e-6), (torch.float64, 1e-13)):
        for x in (gaussian((n,), 1, dtype), torch.ones(n, dtype=dtype), (-1.0) ** torch.arange(n, dtype=dtype)):
            with np.errstate(invalid="ignore"):
                # what float64 cannot hold is left out below
                terms = spiral(n, m, w, a) * x.numpy()
            norms = np.linalg.norm(terms, axis=-1)
            held = norms * n < torch.finfo(dtype).max
            with backend:
                got = trnfft.chirp_z(x, m, w, a).numpy()[held]
            allowed = (bound + n * m * 2.0**-50) * math.sqrt(n) * norms[held] + torch.finfo(dtype).tiny
            assert np.all(np.abs(got - terms[held].sum(-1)) <= allowed)


def test_mistakes_of_chirp_z():
    with pytest.raises(ArgumentError, match="not 0"):
        trnfft.chirp_z(torch.ones(3), 3, 0.0)
    with pytest.raises(ArgumentError, match="at least 1"):
        trnfft.chirp_z(torch.ones(3), 0)


# Frequencies


@given(n=st.integers(1, 50), d=st.floats(0.01, 100))
def test_frequencies_agree_with_numpy(n, d):
    assert np.allclose(trnfft.fftfreq(n, d, dtype=torch.float64), np.fft.fftfreq(n, d), rtol=1e-15, atol=0)
    assert np.allclose(trnfft.rfftfreq(n, d, dtype=torch.float64), np.fft.rfftfreq(n, d), rtol=1e-15, atol=0)


@given(shape=st.lists(st.integers(0, 5), min_size=1, max_size=3), data=st.data())
def test_shifts_agree_with_numpy_and_undo_each_other(shape, data):
    x = torch.arange(int(np.prod(shape))).reshape(shape)
    axes = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    assert np.array_equal(trnfft.fftshift(x, axes), np.fft.fftshift(x.numpy(), axes))
    assert np.array_equal(trnfft.ifftshift(x, axes=axes), np.fft.ifftshift(x.numpy(), axes))
    assert torch.equal(trnfft.ifftshift(trnfft.fftshift(x, axes), axes), x)


def test_fast_lengths_agree_with_scipy():
    for target in range(1, 3000):
        assert trnfft.next_fast_len(target) == scipy.fft.next_fast_len(target)
        assert trnfft.next_fast_len(target, True) == scipy.fft.next_fast_len(target, True)
    with pytest.raises(ArgumentError, match="at least 0"):
        trnfft.next_fast_len(-1)


def test_mistakes_of_frequencies():
    with pytest.raises(ArgumentError, match="at least 1"):
        trnfft.fftfreq(0)
    with pytest.raises(ArgumentError, match="not 0"):
        trnfft.rfftfreq(4, 0.0)


def test_a_chirp_of_few_points_to_many_keeps_its_angles():
    # Powers of w go up to the square of the longer side: in float64 their angles lost more than is stated.
    w, m = complex(np.exp(0.7j)), 513
    with mpmath.workdps(40):
        powers = np.array([complex(mpmath.mpc(w) ** k) for k in range(m)])
    found = trnfft.chirp_z(torch.tensor([1.0, 1.0j], dtype=torch.complex128), m, w).numpy()
    assert np.all(np.abs(found - (1 + 1j * powers)) <= (1e-13 + 2 * m * 2.0**-50) * 2)


def test_points_off_the_circle_compile():
    x = gaussian((1, 40), 1, torch.complex64)
    compiled = torch.compile(lambda x: trnfft.chirp_z(x, 20, 0.9, 1.1), backend="aot_eager")
    assert torch.equal(compiled(x), trnfft.chirp_z(x, 20, 0.9, 1.1))
