"""``trnfft.stft`` beside torch."""

from __future__ import annotations

from typing import Any

import torch

import trnfft
from benchmarks.registry import Bench, Case, Kernel, Peer
from trnfft.device import launch
from trnfft.kernels import fft as kernels
from trnsci.testing import gaussian


def _case(batch: int, samples: int, n_fft: int) -> Case:
    frames = batch * (samples // (n_fft // 4) + 1)
    return Case(
        name=f"{batch}x{samples}, frames of {n_fft}",
        inputs=lambda: (gaussian((batch, samples), 1), n_fft, torch.hann_window(n_fft)),
        flops=5 * frames * n_fft * (n_fft.bit_length() - 1) // 2,
        bytes=4 * batch * samples + 8 * frames * (n_fft // 2 + 1),
    )


def _ours(x: torch.Tensor, n_fft: int, window: torch.Tensor) -> Any:
    return trnfft.stft(x, n_fft, window=window)


def _torch(x: torch.Tensor, n_fft: int, window: torch.Tensor) -> Any:
    return torch.stft(x, n_fft, window=window, return_complex=True)


def _kernel(name: str, samples: int, n_fft: int) -> Kernel:
    x, window = torch.empty(1, samples, device="meta"), torch.empty(n_fft, device="meta")
    made = launch.frame_program(x, window, n_fft, n_fft // 4, n_fft // 2, "reflect", True, "none", "fp32")
    assert made is not None
    inputs = (x.reshape(-1), None, *made.tables)
    return Kernel(name=name, kernel=kernels.fft, inputs=lambda: inputs, options={"program": made.steps})


BENCH = Bench(
    op="trnfft.stft",
    run=_ours,
    tests="tests/trnfft/test_stft.py",
    cases=(_case(1, 16_000, 256), _case(16, 160_000, 512)),
    peers=(Peer(name="torch.stft", run=_torch),),
    kernels=(
        _kernel("frames of 256, 16 000 samples, framing and window included", 16_000, 256),
        _kernel("frames of 1024, 160 000 samples, framing and window included", 160_000, 1024),
    ),
    tolerance=1e-5,
    notes="Ours takes any number of leading axes. On one short signal checks and dispatch show.",
)
