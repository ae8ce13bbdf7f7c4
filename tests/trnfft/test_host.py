"""The host's compiled loops against SciPy in float64, and the same calls without them."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.fft
import torch
from torch.autograd import forward_ad

import trnfft
from trnfft import calls, host, jobs
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
    monkeypatch.setattr(calls, "pays", lambda count, lengths: True)
    for kept in (calls.c2c, calls.r2c, calls.c2r):
        kept.cache_clear()
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


@needs_loops
@pytest.mark.parametrize("name", ["fft2", "rfft2", "irfft2", "ihfft2", "hfft2"])
@pytest.mark.parametrize("shape", [(5, 333, 91), (37, 45, 91), (7, 300, 64), (1000, 11, 13), (3, 1023, 77)])
def test_threads_change_no_bit_over_several_axes(name, shape):
    before = torch.get_num_threads()
    x = gaussian(shape, 1) if name in ("rfft2", "ihfft2") else gaussian(shape, 1, torch.complex64)
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(getattr(trnfft, name)(x))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


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
    assert host.able(x)
    assert host.able(x[:1])
    assert not host.able(x[:0])
    assert not host.able(x.half())
    assert not host.able(torch._neg_view(x))
    assert not host.able(torch.nn.Parameter(x))
    assert not host.able(torch.ones(1024, device="meta"))
    monkeypatch.setenv("TRNSCI_NATIVE", "0")
    assert not host.able(x)


def test_where_the_loops_pay():
    assert calls.pays(1024, [1024])
    assert calls.pays(256, [256])
    assert calls.pays(1024, [16])
    assert calls.pays(1024, [16, 64])
    assert not calls.pays(512, [16])
    assert not calls.pays(1200, [200])
    assert not calls.pays(1024, [1024, 1])


def test_negative_and_conjugate_views_are_what_they_say():
    z = gaussian((3, 1024), 1, torch.complex128)
    for x in (z.conj().imag, torch._neg_view(z.real.contiguous())):
        assert torch.allclose(trnfft.rfft(x), torch.fft.rfft(x), rtol=1e-12, atol=1e-11)
    assert torch.allclose(trnfft.fft(z.conj()), torch.fft.fft(z.conj()), rtol=1e-12, atol=1e-11)
    assert torch.allclose(trnfft.irfft(z.conj()), torch.fft.irfft(z.conj()), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "ihfft", "fft2", "dct"])
def test_forward_mode_tangents_are_not_lost(passes, name):
    x = operand(name, (4, 1024), torch.float64)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, 3 * x)
        tangent = forward_ad.unpack_dual(getattr(trnfft, name)(dual)).tangent
    close(tangent, 3 * getattr(scipy.fft, name)(x.numpy()), 1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(9, 64, 60), (3, 40, 33), (700, 8, 8), (2, 3, 16, 20), (1, 100, 130)])
def test_planes_go_through_all_axes_together(passes, dtype, shape):
    before = torch.get_num_threads()
    x, bound = gaussian(shape, 1, dtype), BOUND[dtype]
    z = gaussian(shape, 2, torch.complex64 if dtype == torch.float32 else torch.complex128)
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            for name, operand_ in (("fft2", z), ("ifft2", z), ("rfft2", x), ("irfft2", z), ("ihfft2", x), ("hfft2", z)):
                for given in (operand_, operand_.conj(), operand_.mT):
                    wide = given.resolve_conj().numpy().astype(np.complex128 if given.is_complex() else np.float64)
                    close(getattr(trnfft, name)(given), getattr(scipy.fft, name)(wide), bound)
            close(trnfft.fftn(z), scipy.fft.fftn(z.to(torch.complex128).numpy()), bound)
    finally:
        torch.set_num_threads(before)


@needs_loops
def test_python_threads_share_the_engine():
    data = [gaussian((5 + k, 1000 + 24 * k), k, torch.float64) for k in range(4)]
    exact = [scipy.fft.rfft2(x.numpy()) for x in data]
    wrong = []

    def work():
        for turn in range(10):
            for x, y in zip(data, exact, strict=True):
                if np.linalg.norm(trnfft.rfft2(x).numpy() - y) > 1e-14 * np.linalg.norm(y):
                    wrong.append(turn)
            # jobs that others still run are built anew
            calls.r2c.cache_clear()
            jobs.job.cache_clear()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# in a program of its own: this one has memory filled by torch's threads, which do not survive a fork
FORKED = """
import os, numpy, torch, trnfft
torch.set_num_threads(2)
x = torch.randn(16, 1 << 14, dtype=torch.complex128)
trnfft.fft(x)
child = os.fork()
if child == 0:
    exact = numpy.fft.fft(x.numpy())
    os._exit(0 if numpy.linalg.norm(trnfft.fft(x).numpy() - exact) <= 1e-14 * numpy.linalg.norm(exact) else 1)
raise SystemExit(os.waitpid(child, 0)[1])
"""


@needs_loops
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_transforms_as_well():
    assert subprocess.run([sys.executable, "-c", FORKED], timeout=120, check=False).returncode == 0


@needs_loops
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_few_rows_and_many_short_ones(dtype):
    for shape in ((1000, 2), (1000, 3), (501, 5), (300, 7), (2, 1500), (3, 1331), (4, 1024), (9, 2046), (17, 1100)):
        for name in NAMES:
            x = operand(name, shape, dtype)
            close(call(name, x, None), expected(name, x, None), BOUND[dtype])
