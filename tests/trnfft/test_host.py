"""The host's compiled passes around complex transforms of half the length, and the same calls without them."""

import numpy as np
import pytest
import scipy.fft
import torch

import trnfft
from trnfft import host
from trnsci import native
from trnsci.testing import gaussian

# the accuracy promised for every length: relative L2 against float64
BOUND = {torch.float32: 5e-7, torch.float64: 1e-14}
NAMES = ["rfft", "irfft", "dct2", "dct3", "dst2", "dst3"]


@pytest.fixture(params=["native", "pure"])
def passes(request, monkeypatch):
    if request.param == "pure":
        monkeypatch.setenv("TRNSCI_NATIVE", "0")
    elif native.compiler() is None:
        pytest.skip("needs a C compiler")
    return request.param


def call(name, x, norm):
    if name in ("rfft", "irfft"):
        return getattr(trnfft, name)(x, norm=norm)
    return getattr(trnfft, name[:3])(x, type=int(name[3]), norm=norm)


def expected(name, x, norm):
    wide = x.numpy().astype(np.complex128 if x.is_complex() else np.float64)
    if name in ("rfft", "irfft"):
        return getattr(scipy.fft, name)(wide, norm=norm)
    return getattr(scipy.fft, name[:3])(wide, type=int(name[3]), norm=norm)


def operand(name, shape, dtype):
    x = gaussian(shape, 3, dtype)
    return torch.fft.rfft(x) if name == "irfft" else x


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1024,), (3, 1026), (9, 1024), (16384,), (2, 3, 16386), (40000,), (16385,)])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_results_are_those_of_scipy(passes, name, dtype, shape, norm):
    if name == "irfft" and shape[-1] % 2:
        shape = (*shape[:-1], shape[-1] + 1)
    x = operand(name, shape, dtype)
    found, exact = call(name, x, norm).numpy(), expected(name, x, norm)
    assert found.shape == exact.shape
    assert np.linalg.norm(found - exact) <= BOUND[dtype] * np.linalg.norm(exact)


@pytest.mark.parametrize("name", NAMES)
def test_strides_conjugates_and_empty_batches(passes, name):
    rows = operand(name, (2, 16384), torch.float64)
    for x in (rows.mT.contiguous().mT, rows[:0]):
        found, exact = call(name, x, None).numpy(), expected(name, x.contiguous(), None)
        assert found.shape == exact.shape
        assert np.linalg.norm(found - exact) <= 1e-14 * np.linalg.norm(exact)
    if name == "irfft":
        x = operand(name, (16384,), torch.float64)
        assert np.allclose(call(name, x.conj(), None), scipy.fft.irfft(x.numpy().conj()), rtol=0, atol=1e-14)


def test_a_longer_or_shorter_half_spectrum_is_padded_or_cut():
    x = operand("irfft", (16384,), torch.float64)
    for n in (16384, 16386, 20000, 16400):
        exact = scipy.fft.irfft(x.numpy(), n)
        assert np.linalg.norm(trnfft.irfft(x, n).numpy() - exact) <= 1e-14 * np.linalg.norm(exact)


def test_gradients_go_another_way():
    x = gaussian((16384,), 1, torch.float64).requires_grad_()
    g = gaussian((16384,), 2, torch.float64)
    trnfft.dct(x).backward(g)
    # the adjoint of type 2, with the first term of type 3 doubled
    doubled = torch.cat((2 * g[:1], g[1:]))
    exact = scipy.fft.dct(doubled.numpy(), type=3)
    assert np.linalg.norm(x.grad.numpy() - exact) <= 1e-14 * np.linalg.norm(exact)


def test_what_the_passes_take(monkeypatch):
    if native.compiler() is None:
        pytest.skip("needs a C compiler")
    x = torch.ones(1024)
    assert host.takes(x, 1024)
    assert not host.takes(x, 1025)
    assert not host.takes(x[:10], 10)
    assert not host.takes(x.half(), 1024)
    monkeypatch.setenv("TRNSCI_NATIVE", "0")
    assert not host.takes(x, 1024)
