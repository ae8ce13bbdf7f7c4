"""Matrices that factorisations find hard, and the norm they are measured in."""

import numpy as np
import pytest
import torch

from trnsci.arrays import to_numpy


def _spectrum(n, seed, values):
    q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    return (q * values) @ q.T


FAMILIES = {
    "random": lambda n: np.random.default_rng(1).standard_normal((n, n)),
    "graded": lambda n: np.logspace(0, -6, n)[:, None] * np.random.default_rng(2).standard_normal((n, n)),
    "cond 1e3": lambda n: _spectrum(n, 3, np.logspace(0, -3, n)),
    "cond 1e7": lambda n: _spectrum(n, 6, np.logspace(0, -7, n)),
    "cond 1e12": lambda n: _spectrum(n, 4, np.logspace(0, -12, n)),
    "repeated": lambda n: _spectrum(n, 5, np.repeat([3.0, -1.0], [n - n // 2, n // 2])),
    "singular": lambda n: np.outer(np.arange(1.0, n + 1), np.ones(n)),
    "hilbert": lambda n: 1.0 / (np.arange(n)[:, None] + np.arange(n) + 1.0),
    "wilkinson": lambda n: np.diag(np.abs(np.arange(n) - n // 2) * 1.0) + np.eye(n, k=1) + np.eye(n, k=-1),
    "zero": lambda n: np.zeros((n, n)),
    "ones": lambda n: np.ones((n, n)),
    "rank 2": lambda n: np.random.default_rng(7).standard_normal((n, 2)) @ np.ones((2, n)),
    # entries double with every step of an elimination
    "growth": lambda n: np.where(np.arange(n) == n - 1, 1.0, np.eye(n) - np.tril(np.ones((n, n)), -1)),
    "graded both": lambda n: np.logspace(12, -12, n)[:, None] * _spectrum(n, 8, np.ones(n)) * np.logspace(-12, 12, n),
    "tiny": lambda n: 1e-30 * np.random.default_rng(9).standard_normal((n, n)),
    "huge": lambda n: 1e30 * np.random.default_rng(10).standard_normal((n, n)),
}


@pytest.fixture(params=sorted(FAMILIES))
def family(request):
    return FAMILIES[request.param]


@pytest.fixture
def hard():
    """Every family in one batch, so that none may disturb another."""

    def stacked(n, copies=1):
        return torch.stack([torch.from_numpy(each(n)) for each in FAMILIES.values()] * copies)

    return stacked


@pytest.fixture
def norm():
    """The spectral norm by NumPy in double precision, the largest over a batch."""

    def measure(x):
        wide = to_numpy(x.to(torch.complex128 if x.is_complex() else torch.float64))
        return float(np.max(np.linalg.norm(wide, 2, axis=(-2, -1)))) if wide.size else 0.0

    return measure


@pytest.fixture
def gradient():
    """The gradient of a fixed weighted sum of a function's results, on a backend."""

    def measure(fn, x, backend):
        x = x.detach().clone().requires_grad_()
        with backend:
            found = fn(x)
            loss = x.new_zeros((), dtype=torch.float64)
            for result in found if isinstance(found, tuple) else (found,):
                weights = torch.linspace(-1.0, 2.0, result.numel(), dtype=torch.float64).reshape(result.shape)
                parts = (result.real, result.imag) if result.is_complex() else (result,)
                loss = loss + sum((part.double() * weights).sum() for part in parts)
            loss.backward()
        return x.grad

    return measure
