"""A convolution as one plan beside torch's three calls, and the predicted time of its one program on Trainium."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.fft
import torch

import trnfft
from benchmarks.registry import Bench, Case, Kernel, Peer
from trnfft.device import chains
from trnfft.device.chains import Step, Varies
from trnfft.kernels import fft as kernels
from trnsci.testing import gaussian


def _inputs(rows: int, n: int) -> tuple[Any, ...]:
    """Signals, the transform of a filter, and the plan that convolves with it."""
    x, factors = gaussian((rows, n), 1), gaussian((n // 2 + 1,), 2, dtype=torch.complex64)
    forward = trnfft.plan((rows, n), torch.float32, kind="rfft")
    back = trnfft.plan((rows, n // 2 + 1), torch.complex64, kind="irfft", n=n)
    return x, factors, trnfft.with_callbacks(forward, store=trnfft.Multiply(factors)).then(back)


def _case(rows: int, n: int) -> Case:
    return Case(
        name=f"convolution {rows}x{n} float32",
        inputs=lambda: _inputs(rows, n),
        flops=rows * (5 * n * math.ceil(math.log2(n)) + 3 * n),
        bytes=8 * rows * n,
        devices=("cpu",),
    )


def _ours(x: torch.Tensor, factors: torch.Tensor, plan: Any) -> torch.Tensor:
    return plan(x)


def _torch(x: torch.Tensor, factors: torch.Tensor, plan: Any) -> torch.Tensor:
    return torch.fft.irfft(torch.fft.rfft(x) * factors, x.shape[-1])


def _scipy(x: np.ndarray, factors: np.ndarray) -> np.ndarray:
    return scipy.fft.irfft(scipy.fft.rfft(x) * factors, x.shape[-1])


def _kernel(name: str, rows: int, n: int, steps: tuple[Step, ...], factors: tuple[Varies, ...], real: bool) -> Kernel:
    def made() -> chains.Chain:
        return chains.chain((rows, n), (1,), steps, factors, real, torch.float32, False)

    def inputs() -> tuple[Any, ...]:
        chain, plane = made(), torch.empty(rows * n, device="meta")
        size = sum(each.parts * math.prod(slot.padded) for each, slot in zip(factors, chain.slots, strict=True))
        given = torch.empty(size, device="meta")
        return plane, None if real else torch.empty_like(plane), chain.matrices, chain.twiddles, given

    return Kernel(name=name, kernel=kernels.fft, inputs=inputs, options=lambda: {"program": made().steps})


def _convolution(rows: int, n: int, first: int) -> Kernel:
    steps = (Step("r2c", -1, n, "none"), Step("times", 0, 0, "none"), Step("c2r", 1, n, "full"))
    each = "a factor for each row" if first == 0 else "one factor for all rows"
    return _kernel(f"convolution {n}, batch {rows}, {each}", rows, n, steps, (Varies(first, 2),), True)


def _windowed(rows: int, n: int) -> Kernel:
    steps = (Step("times", 0, 0, "none"), Step("c2c", -1, n, "none"))
    return _kernel(f"windowed c2c {n}, batch {rows}", rows, n, steps, (Varies(1, 1),), False)


BENCH = Bench(
    op="trnfft.callbacks",
    run=_ours,
    tests="tests/trnfft/test_callbacks.py",
    cases=(_case(1024, 1024), _case(16, 1000)),
    peers=(
        Peer(name="torch.fft", run=_torch),
        Peer(
            name="scipy.fft",
            run=_scipy,
            prepare=lambda x, factors, plan: (x.numpy(), factors.numpy()),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
    kernels=(
        _convolution(1024, 1024, 1),
        _convolution(1024, 1024, 0),
        _convolution(4, 1024, 1),
        _convolution(1, 1 << 20, 1),
        _windowed(1024, 1024),
        _windowed(256, 4096),
    ),
    tolerance=1e-5,
    notes="On the host a plan with callbacks is torch's three calls; on Trainium it is one program.",
    devices=("cpu",),
)
