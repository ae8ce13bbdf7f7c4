"""Rows of one length, written and read again, beside the same in NumPy."""

from __future__ import annotations

import numpy as np
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


def _numpy(a: sp.csr_array) -> torch.Tensor:
    """Rows as long as the longest, by index arrays, and back."""
    lengths = np.diff(a.indptr)
    row = np.repeat(np.arange(a.shape[0]), lengths)
    at = row, np.arange(a.nnz) - a.indptr[row]
    columns = np.full((a.shape[0], lengths.max()), -1)
    values = np.zeros(columns.shape, a.dtype)
    columns[at], values[at] = a.indices, a.data
    row, position = np.nonzero(columns >= 0)
    back = sp.coo_array((values[row, position], (row, columns[row, position])), shape=a.shape).tocsr()
    return torch.from_numpy(back.data)


BENCH = Bench(
    op="trnsparse.ell",
    run=lambda a, format_: getattr(trnsparse, format_).of(a).to_csr().values,
    tests="tests/trnsparse/test_formats.py",
    cases=(_case(2000, 0.005, "ELL"), _case(20000, 0.001, "ELL"), _case(20000, 0.001, "HYB")),
    peers=(
        Peer(
            name="NumPy, by index arrays",
            run=_numpy,
            prepare=lambda a, format_: (a.to_scipy(),),
            devices=("cpu",),
            takes=lambda a, format_: format_ == "ELL",
        ),
    ),
    notes="No library on the host has these formats. They have no kernel: they are read and written, and products run "
    "on compressed rows.",
    devices=("cpu",),
)
