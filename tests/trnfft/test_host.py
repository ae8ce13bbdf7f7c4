"""The host's compiled loops against SciPy in float64, and the same calls without them."""

import numpy as np
import pytest
import scipy.fft
import torch

import trnfft
from trnfft import host, jobs
from trnsci import native
from trnsci.testing import gaussian

# the accuracy promised for every length: relative L2 against float64
BOUND = {torch.float32: 5e-7, torch.float64: 1e-14}
REAL = ["rfft", "ihfft", *(f"{family}{kind}" for family in ("dct", "dst") for kind in (1, 2, 3, 4))]
NAMES = ["fft", "ifft", "irfft", "hfft", *REAL]

# powers, products of small and of middling primes, primes, and primes times 2 and 4
LENGTHS = [256, 257, 262, 343, 509, 625, 1000, 1009, 1018, 1022, 1024, 1331, 2021, 2036, 4095, 4096, 8191, 10005, 16384]

needs_loops = pytest.mark.skipif(native.compiler() is None, reason="needs a C compiler")


@pytest.fixture(params=["native", "pure"])
def passes(request, monkeypatch):
    if request.param == "pure":
        monkeypatch.setenv("TRNSCI_NATIVE", "0")
    elif native.compiler() is None:
        pytest.skip("needs a C compiler")
    return request.param


def function(module, name):
    return getattr(module, name[:3] if name[-1].isdigit() else name)


def call(name, x, norm, axis=-1):
    if name[-1].isdigit():
        return function(trnfft, name)(x, type=int(name[3]), norm=norm, axis=axis)
    return function(trnfft, name)(x, norm=norm, axis=axis)


def expected(name, x, norm, axis=-1):
    wide = x.resolve_conj().numpy().astype(np.complex128 if x.is_complex() else np.float64)
    if name[-1].isdigit():
        return function(scipy.fft, name)(wide, type=int(name[3]), norm=norm, axis=axis)
    return function(scipy.fft, name)(wide, norm=norm, axis=axis)


def operand(name, shape, dtype, axis=-1):
    if name in REAL:
        return gaussian(shape, 3, dtype)
    x = gaussian(shape, 3, torch.complex64 if dtype == torch.float32 else torch.complex128)
    return torch.fft.rfft(x.real, dim=axis) if name in ("irfft", "hfft") else x


def close(found, exact, bound):
    found = np.asarray(found)
    assert found.shape == exact.shape
    assert np.linalg.norm(found - exact) <= bound * np.linalg.norm(exact)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1024,), (3, 1026), (9, 1024), (16384,), (2, 3, 16386), (40000,), (16385,)])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_results_are_those_of_scipy(passes, name, dtype, shape, norm):
    x = operand(name, shape, dtype)
    close(call(name, x, norm), expected(name, x, norm), BOUND[dtype])


@needs_loops
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_kind_of_length(name, dtype):
    for n in LENGTHS:
        # one row, and an odd number of rows: those of odd length are taken in pairs
        for shape in ((n,), (5, n)):
            x = operand(name, shape, dtype)
            close(call(name, x, None), expected(name, x, None), BOUND[dtype])


@needs_loops
@pytest.mark.parametrize("kind", jobs.KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_short_rows_are_right_though_torch_has_them(kind, dtype, monkeypatch):
    monkeypatch.setattr(host, "LEAST", 1)
    name = {"c2c": "fft", "r2c": "rfft", "c2r": "irfft", "r2cc": "fft"}.get(kind)
    names = [name] if name else [f"dct{kind[4]}", f"dst{kind[4]}"]
    for name in names:
        for n in range(2, 70):
            x = gaussian((3, n), n, dtype) if kind == "r2cc" else operand(name, (3, n), dtype)
            close(call(name, x, None), expected(name, x, None), BOUND[dtype])


@needs_loops
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [131071, 262144, 262147, 2 * 65537, 1 << 20])
def test_long_rows(dtype, n):
    for name in ("fft", "ifft", "rfft", "irfft", "dct2", "dst3", "dct4", "dst1"):
        x = operand(name, (n,), dtype)
        close(call(name, x, None), expected(name, x, None), BOUND[dtype])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_axis(passes, name, dtype):
    for shape, axis in (((500, 3), 0), ((2, 501, 17), 1), ((300, 40), 0)):
        x = operand(name, shape, dtype, axis)
        found = call(name, x, None, axis)
        close(found, expected(name, x, None, axis), BOUND[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(256, 300), (257, 500), (2, 256, 263), (256, 256, 4)])
def test_several_axes(passes, dtype, shape):
    x, bound = gaussian(shape, 1, dtype), BOUND[dtype]
    z = gaussian(shape, 2, torch.complex64 if dtype == torch.float32 else torch.complex128)
    exact = scipy.fft.rfft2(x.double().numpy(), axes=(0, 1))
    close(trnfft.rfft2(x, axes=(0, 1)), exact, bound)
    half = torch.from_numpy(exact).to(z.dtype)
    close(trnfft.irfft2(half, shape[:2], axes=(0, 1)), scipy.fft.irfft2(half.numpy(), shape[:2], axes=(0, 1)), bound)
    for name, operand_ in (("fft2", z), ("ifft2", z), ("fft2", x)):
        wide = operand_.to(torch.complex128).numpy()
        close(getattr(trnfft, name)(operand_), getattr(scipy.fft, name)(wide), bound)
    close(trnfft.dctn(x, 2, axes=(0, 1)), scipy.fft.dctn(x.double().numpy(), 2, axes=(0, 1)), bound)


@pytest.mark.parametrize("name", NAMES)
def test_strides_conjugates_and_empty_batches(passes, name):
    rows = operand(name, (2, 16384), torch.float64)
    for x in (rows.mT.contiguous().mT, rows[:0]):
        close(call(name, x, None), expected(name, x.contiguous(), None), 1e-14)
    if name not in REAL:
        close(call(name, rows.conj(), None), expected(name, rows.conj(), None), 1e-14)


def test_a_longer_or_shorter_half_spectrum_is_padded_or_cut():
    x = operand("irfft", (16384,), torch.float64)
    for n in (16384, 16386, 20000, 16400, 16383):
        close(trnfft.irfft(x, n), scipy.fft.irfft(x.numpy(), n), 1e-14)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [1024, 1025])
def test_ends_are_scaled_in_the_loops(passes, kind, n):
    x = gaussian((3, n), 1, torch.float64)
    for name in ("dct", "idct", "dst", "idst"):
        for norm, ends in (("ortho", None), ("ortho", False), (None, True)):
            exact = getattr(scipy.fft, name)(x.numpy(), kind, norm=norm, orthogonalize=ends)
            close(getattr(trnfft, name)(x, kind, norm=norm, orthogonalize=ends), exact, 1e-14)


def test_parts_of_complex_data_are_rows(passes):
    x = gaussian((3, 1024), 1, torch.complex128)
    for kind in (1, 2, 3, 4):
        close(trnfft.dct(x, kind), scipy.fft.dct(x.numpy(), kind), 1e-14)
        close(trnfft.dst(x.conj(), kind, axis=-1), scipy.fft.dst(x.numpy().conj(), kind), 1e-14)


@needs_loops
@pytest.mark.parametrize("name", NAMES)
def test_threads_change_no_bit(name):
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            x = operand(name, (37, 4095), torch.float32)
            y = operand(name, (4095, 37), torch.float32, 0)
            results.append((call(name, x, None), call(name, y, None, 0)))
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_gradients_go_another_way():
    x = gaussian((16384,), 1, torch.float64).requires_grad_()
    g = gaussian((16384,), 2, torch.float64)
    trnfft.dct(x).backward(g)
    # the adjoint of type 2, with the first term of type 3 doubled
    doubled = torch.cat((2 * g[:1], g[1:]))
    close(x.grad, scipy.fft.dct(doubled.numpy(), type=3), 1e-14)


def test_gradients_of_a_prime_length():
    x = gaussian((2, 1009), 1, torch.float64).requires_grad_()
    g = gaussian((2, 505), 2, torch.complex128)
    trnfft.rfft(x).backward(g)
    full = np.zeros((2, 1009), complex)
    full[:, :505] = g.numpy()
    close(x.grad, (scipy.fft.ifft(full) * 1009).real, 1e-14)


@needs_loops
def test_what_the_loops_take(monkeypatch):
    x = torch.ones(1024)
    assert host.takes(x, [1024])
    assert host.takes(x, [1021])
    assert host.takes(x, [16])
    assert not host.takes(x[:512], [16])
    assert host.takes(x[:512], [16], trigonometric=True)
    assert not host.takes(x, [1024, 1])
    assert not host.takes(x[:0], [1024])
    assert not host.takes(x.half(), [1024])
    assert not host.takes(torch.ones(1024, device="meta"), [1024])
    monkeypatch.setenv("TRNSCI_NATIVE", "0")
    assert not host.takes(x, [1024])


def test_negative_and_conjugate_views_are_what_they_say():
    z = gaussian((3, 1024), 1, torch.complex128)
    for x in (z.conj().imag, torch._neg_view(z.real.contiguous())):
        assert torch.allclose(trnfft.rfft(x), torch.fft.rfft(x), rtol=1e-12, atol=1e-11)
    assert torch.allclose(trnfft.fft(z.conj()), torch.fft.fft(z.conj()), rtol=1e-12, atol=1e-11)
    assert torch.allclose(trnfft.irfft(z.conj()), torch.fft.irfft(z.conj()), rtol=1e-12, atol=1e-11)
