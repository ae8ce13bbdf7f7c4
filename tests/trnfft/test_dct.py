"""Cosine and sine transforms against SciPy."""

import functools
import itertools

import numpy as np
import pytest
import scipy.fft
import torch

import trnfft
from trnfft.device.digit_programs import BOUND
from trnsci import ArgumentError
from trnsci.testing import BACKENDS, gaussian

NAMES = ("dct", "idct", "dst", "idst")

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


def close(got, expected, bound=BOUND["fp64"]):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    assert np.linalg.norm(got - expected) <= bound * max(np.linalg.norm(expected), 1e-300)


@pytest.mark.grid(1)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_every_type_norm_and_length_agrees_with_scipy(name, kind):
    for n in (2, 3, 4, 5, 8, 9, 17, 32, 100):
        x = gaussian((3, n), n, torch.float64)
        for norm, ends in itertools.product((None, "ortho", "forward"), (None, True, False)):
            got = getattr(trnfft, name)(x, kind, norm=norm, orthogonalize=ends)
            close(got, getattr(scipy.fft, name)(x.numpy(), kind, norm=norm, orthogonalize=ends), 1e-14)


@pytest.mark.grid(1)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_axes_lengths_and_complex_data(name, kind):
    x = gaussian((4, 5, 6), 1, torch.complex128)
    close(getattr(trnfft, name)(x, kind, 7, 1), getattr(scipy.fft, name)(x.numpy(), kind, 7, 1))
    close(getattr(trnfft, name)(x, kind, axis=0), getattr(scipy.fft, name)(x.numpy(), kind, axis=0))
    many, theirs = getattr(trnfft, name + "n"), getattr(scipy.fft, name + "n")
    close(many(x.real, kind), theirs(x.real.numpy(), kind))
    close(many(x.real, kind, (3, 8), (2, 0), "ortho"), theirs(x.real.numpy(), kind, (3, 8), (2, 0), "ortho"))


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_single_precision_on_every_backend(backend, name, kind):
    for n in (9, 150):
        x = gaussian((3, n), 1)
        with backend:
            got = getattr(trnfft, name)(x, kind)
        assert got.dtype == torch.float32
        close(got, getattr(scipy.fft, name)(x.double().numpy(), kind), 1e-6)


# Data that requires a gradient takes the definition, by transforms, instead of SciPy.
@pytest.mark.grid(1)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_the_definition_agrees_with_scipy(name, kind):
    for n in (2, 3, 4, 7, 32, 45, 1009):
        x = gaussian((3, n), n, torch.float64).requires_grad_()
        for norm, ends in ((None, None), (None, True), ("ortho", None), ("ortho", False), ("forward", True)):
            got = getattr(trnfft, name)(x, kind, norm=norm, orthogonalize=ends).detach()
            close(got, getattr(scipy.fft, name)(x.detach().numpy(), kind, norm=norm, orthogonalize=ends), 1e-14)


@pytest.mark.grid(1)
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("forward", ["dct", "dst"])
def test_inverse_undoes(kind, forward):
    x = gaussian((2, 33), 1, torch.float64)
    there = getattr(trnfft, forward)(x, kind, norm="ortho")
    close(getattr(trnfft, "i" + forward)(there, kind, norm="ortho"), x)
    # The orthogonal form keeps lengths.
    assert abs(float(there.norm() - x.norm())) < 1e-13 * float(x.norm())


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["dct", "idst"])
def test_gradients(backend, kind, name):
    function = getattr(trnfft, name)
    for n, norm in ((5, "ortho"), (4, None)):
        x = gaussian((2, n, 2), 1, torch.float64).requires_grad_()
        call = functools.partial(function, type=kind, axis=1, norm=norm)
        with backend:
            assert torch.autograd.gradcheck(call, (x,), fast_mode=True)
            assert torch.autograd.gradgradcheck(call, (x,), fast_mode=True)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_the_op_is_registered_correctly(kind):
    x = gaussian((2, 6, 3), 1, torch.float64).requires_grad_()
    for sine, orthogonal in ((False, True), (True, False)):
        arguments = (x, kind, [1, 2], sine, orthogonal, "none", "fp64")
        torch.library.opcheck(torch.ops.trnfft.dct.default, arguments)


def test_out():
    x = gaussian((3, 8), 1)
    out = torch.empty(3, 8)
    assert trnfft.dct(x, out=out) is out
    assert torch.equal(out, trnfft.dct(x))


def test_mistakes():
    with pytest.raises(ArgumentError, match="type") as caught:
        trnfft.dct(torch.ones(4), 5)
    assert caught.value.got == 5
    with pytest.raises(ArgumentError, match="at least 2 points"):
        trnfft.dct(torch.ones(1), 1)
