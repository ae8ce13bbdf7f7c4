"""Functions of many calls as one program, and call by call: ``python -m benchmarks.programs [NAME ...]``.

Times are predicted, with what starting work on each generation costs (`trnsci.links`).
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

import trnfft
import trnsci
import trnsolver
import trnsparse
from trnsci.config import TargetName
from trnsci.plans import seconds

Case = tuple[Callable[..., Any], tuple[Any, ...]]
TARGETS: tuple[TargetName, ...] = ("trn1", "trn2")


def gaussian_process(x: Tensor, y: Tensor, scale: Tensor, length: Tensor, noise: Tensor) -> tuple[Tensor, ...]:
    """One step of gradient descent on the negative log likelihood."""
    inputs = [p.detach().requires_grad_() for p in (scale, length, noise)]
    with torch.enable_grad():
        distance = (x[:, None] - x[None, :]) / inputs[1]
        covariance = inputs[0] * torch.exp(-0.5 * distance * distance) + inputs[2] * torch.eye(len(x))
        factor = trnsolver.cholesky(covariance)
        z = trnsolver.solve_triangular(factor, y[:, None], upper=False)
        loss = 0.5 * (z * z).sum() + factor.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi)
        grads = torch.autograd.grad(loss, inputs)
    return loss.detach(), *(p - 0.01 * g for p, g in zip((scale, length, noise), grads, strict=True))


MODES = 8


def fourier_operator(x: Tensor, y: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
    """One step of training two Fourier layers."""
    inputs = [p.detach().requires_grad_() for p in weights]
    with torch.enable_grad():
        lift, real, imag, skip, project = inputs
        h = torch.einsum("bixy,ih->bhxy", x, lift)
        for layer in range(2):
            spectrum = trnfft.rfft2(h)
            mix = torch.complex(real[layer], imag[layer])
            mixed = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :MODES, :MODES], mix)
            rest = spectrum.shape[3] - MODES, spectrum.shape[2] - MODES
            padded = torch.nn.functional.pad(mixed, (0, rest[0], 0, rest[1]))
            beside = torch.einsum("bixy,ih->bhxy", h, skip[layer])
            h = torch.nn.functional.gelu(trnfft.irfft2(padded, s=x.shape[2:]) + beside)
        loss = (torch.einsum("bixy,ih->bhxy", h, project) - y).square().mean()
        grads = torch.autograd.grad(loss, inputs)
    return loss.detach(), *(p - 0.01 * g for p, g in zip(weights, grads, strict=True))


def solitons(v: Tensor, half: Tensor, g: Tensor, steps: int = 150) -> Tensor:
    """Runge-Kutta steps of the Korteweg-de Vries equation, linear terms by an integrating factor."""

    def step(v: Tensor) -> Tensor:
        a = g * trnfft.fft(trnfft.ifft(v).real ** 2)
        b = g * trnfft.fft(trnfft.ifft(half * (v + a / 2)).real ** 2)
        c = g * trnfft.fft(trnfft.ifft(half * v + b / 2).real ** 2)
        d = g * trnfft.fft(trnfft.ifft(half**2 * v + half * c).real ** 2)
        return half**2 * v + (half**2 * a + 2 * half * (b + c) + d) / 6

    return trnsci.repeat(steps, step, v)[0]


def _conjugate_gradients(multiply: Callable[[Tensor], Tensor], b: Tensor, steps: int) -> Tensor:
    def step(x: Tensor, r: Tensor, d: Tensor, rr: Tensor) -> tuple[Tensor, ...]:
        q = multiply(d)
        alpha = rr / (d * q).sum()
        x, r = x + alpha * d, r - alpha * q
        after = (r * r).sum()
        return x, r, r + (after / rr) * d, after

    return trnsci.repeat(steps, step, torch.zeros_like(b), b, b, (b * b).sum())[0]


@functools.cache
def _laplacian(side: int) -> trnsparse.CSRMatrix:
    one = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(side, side))
    return trnsparse.CSRMatrix.from_scipy(scipy.sparse.kronsum(one, one).tocsr().astype(np.float32))


def poisson(b: Tensor, side: int, steps: int = 50) -> Tensor:
    """Conjugate gradients on the Laplacian of a square grid, as a sparse matrix."""
    laplacian = _laplacian(side)
    return _conjugate_gradients(lambda d: trnsparse.spmv(laplacian, d), b, steps)


def poisson_stencil(b: Tensor, side: int, steps: int = 50) -> Tensor:
    """Solve the same with differences of neighbours instead of a matrix."""

    def multiply(d: Tensor) -> Tensor:
        grid = torch.nn.functional.pad(d.reshape(side, side), (1, 1, 1, 1))
        near = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
        return (4 * grid[1:-1, 1:-1] - near).reshape(-1)

    return _conjugate_gradients(multiply, b, steps)


def self_consistent_field(density: Tensor, core: Tensor, integrals: Tensor, orthogonal: Tensor) -> tuple[Tensor, ...]:
    """One iteration for five occupied orbitals."""
    coulomb = torch.einsum("pqrs,rs->pq", integrals, density)
    exchange = torch.einsum("prqs,rs->pq", integrals, density)
    fock = core + 2 * coulomb - exchange
    energies, orbitals = trnsolver.eigh(orthogonal.mT @ fock @ orthogonal)
    occupied = (orthogonal @ orbitals)[:, :5]
    return (density * (core + fock)).sum(), occupied @ occupied.mT, energies


def _random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0)) * 0.3


def cases() -> dict[str, Case]:
    """Return what is predicted: a function and its arguments."""
    x, n, c = torch.linspace(0, 1, 1000), 24, 16
    weights = _random(1, c), _random(2, c, c, 8, 8), _random(2, c, c, 8, 8), _random(2, c, c), _random(c, 1)
    wave = [_random(4096, dtype=torch.complex64) for _ in range(3)]
    return {
        "Gaussian process step, n = 1000": (
            gaussian_process,
            (x, torch.sin(6 * x), torch.tensor(1.0), torch.tensor(0.3), torch.tensor(0.1)),
        ),
        "Fourier operator step, 32 x 32": (fourier_operator, (_random(2, 1, 32, 32), _random(2, 1, 32, 32), *weights)),
        "solitons, 4096 points, 150 steps": (solitons, tuple(wave)),
        "cg, Laplacian of 316 x 316, 50 steps": (poisson, (_random(316 * 316), 316)),
        "the same by differences": (poisson_stencil, (_random(316 * 316), 316)),
        "SCF iteration, 24 basis functions": (
            self_consistent_field,
            (_random(n, n), _random(n, n), _random(n, n, n, n), _random(n, n)),
        ),
    }


def rows(names: list[str]) -> Iterator[str]:
    """Yield the table in Markdown, line by line."""
    yield "| function | launches | target | one program | call by call | ratio |"
    yield "|---|---|---|---|---|---|"
    for name, (function, args) in cases().items():
        if names and not any(word in name for word in names):
            continue
        if function is poisson:
            # checks of a sparse matrix look at its values: it is made before the function is traced
            _laplacian(args[1])
        plan = trnsci.program(function).plan(*args)
        for target in TARGETS:
            one, each = plan.predict(target), plan.predict_calls(target)
            starts = f"{one.launches + one.hosted} instead of {each.launches + each.hosted}"
            kernels = f"{seconds(one.total)} (kernels {seconds(one.low)} to {seconds(one.high)})"
            ratio = f"{each.total / one.total:.1f}"
            yield f"| {name} | {starts} | {target} | {kernels} | {seconds(each.total)} | {ratio} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="words of the functions to predict; all without any")
    for line in rows(parser.parse_args().names):
        print(line, flush=True)
