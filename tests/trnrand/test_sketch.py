"""Noise made on chip and multiplied there."""

import pytest
import torch

import trnsci
from trnrand import Generator, sketch
from trnsci import ArgumentError, UnsupportedError
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])
@pytest.mark.parametrize(("m", "size", "n"), [(1, 4, 1), (127, 8, 5), (129, 132, 513), (300, 260, 3)])
def test_is_the_product_with_the_same_normals(backend, engine, m, size, n):
    a = gaussian((m, n), seed=1)
    noise = Generator(3, engine=engine).normal(m, size).double()
    with backend:
        made = sketch(a, size, generator=Generator(3, engine=engine))
    bound = gamma(m + 2, torch.float32) * (noise.abs().T @ a.abs().double())
    if backend.runs_kernels:
        bound = bound + (2.0**-19 * (1 + noise.abs())).T @ a.abs().double()
    assert_within(made, noise.T @ a.double(), bound)


@on_backends
def test_gradient(backend):
    a = gaussian((40, 6), seed=2).requires_grad_()
    weights = gaussian((8, 6), seed=3)
    with backend:
        (sketch(a, 8, generator=Generator(3)) * weights).sum().backward()
    noise = Generator(3).normal(40, 8).double()
    bound = (2.0**-19 * (1 + noise.abs())) @ weights.abs().double()
    assert_within(a.grad, noise @ weights.double(), bound)


def test_float64_and_position():
    a = gaussian((9, 4), seed=1, dtype=torch.float64)
    g = Generator(3)
    made = sketch(a, 5, generator=g)
    noise = Generator(3).normal(9, 5, dtype=torch.float64)
    assert_within(made, noise.T @ a, 2 * gamma(9, a.dtype) * (noise.abs().T @ a.abs()))
    assert g.position == 90
    assert sketch(torch.empty(0, 3), 4, generator=g).tolist() == [[0.0] * 3] * 4


def test_refusals():
    with trnsci.backend("simulator"):
        with pytest.raises(UnsupportedError, match="multiples of 4"):
            sketch(torch.ones(4, 4), 5, generator=Generator(1))
        with pytest.raises(UnsupportedError, match="multiples of 4"):
            sketch(torch.ones(4, 4), 8, generator=Generator(1).advance(1))
        with pytest.raises(UnsupportedError, match="on chip"):
            sketch(torch.ones(10**5, 4), 64, generator=Generator(1))
    with pytest.raises(ArgumentError, match=r"\[M, N\]"):
        sketch(torch.ones(4), 5)
    with pytest.raises(ArgumentError, match="partitioned"):
        sketch(torch.ones(4, 4), 4, generator=Generator(1).partition(0, 2))
