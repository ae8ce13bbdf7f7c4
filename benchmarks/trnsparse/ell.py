"""Rows of one length, written and read again, beside SciPy's coordinates of the same entries."""

from __future__ import annotations

import scipy.sparse as sp
import torch

import trnsparse
from benchmarks.registry import Bench, Case, Peer
from benchmarks.trnsparse._patterns import scattered


def _case(side: int, density: float, format_: str) -> Case:
    entries = round(side * side * density)
    return Case(
        name=f"{side}x{side} {density:.2%} {format_}",
        inputs=lambda: (scattered(side, side, density), format_),
        flops=0,
        bytes=48 * entries,
    )


def _dense(a: sp.csr_array) -> torch.Tensor:
    return torch.from_numpy(a.data)


BENCH = Bench(
    op="trnsparse.ell",
    run=lambda a, format_: getattr(trnsparse, format_).of(a).to_csr().values,
    tests="tests/trnsparse/test_formats.py",
    cases=(_case(2000, 0.005, "ELL"), _case(20000, 0.001, "ELL"), _case(20000, 0.001, "HYB")),
    peers=(
        Peer(
            name="scipy coo",
            run=lambda a: _dense(a.tocoo().tocsr()),
            prepare=lambda a, format_: (a.to_scipy(),),
            requires="scipy",
            devices=("cpu",),
        ),
    ),
    notes="No library on the host has these formats, so SciPy writes and reads coordinates, which pad nothing. They "
    "have no kernel: they are read and written, and products run on compressed rows.",
    devices=("cpu",),
)
