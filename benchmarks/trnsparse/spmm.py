"""CSR times dense beside SciPy and torch.sparse."""

import numpy as np
import torch

from benchmarks.registry import Bench, Case, Kernel, Peer
from benchmarks.trnsparse._patterns import scattered
from trnsparse.kernels import spmm as kernels


def _case(side: int, density: float, n: int, devices: tuple[str, ...] = ("cpu", "cuda")) -> Case:
    entries = round(side * side * density)

    def inputs():
        b = torch.randn(side, n, generator=torch.Generator().manual_seed(0))
        return scattered(side, side, density), b if n > 1 else b[:, 0]

    size = 12 * entries + 8 * side * n
    name = f"{side}x{side} {density:.2%} x {n} float32"
    return Case(name=name, inputs=inputs, flops=2 * entries * n, bytes=size, devices=devices)


def _kernel(rows: int, each: int, n: int) -> Kernel:
    entries = rows * each
    bounds = tuple(range(0, entries + 1, 128 * each))
    return Kernel(
        name=f"{rows}x{rows} {each} a row x {n} float32",
        kernel=kernels.spmm,
        inputs=lambda: (
            (37 * np.arange(entries, dtype=np.int32) % rows)[:, None],
            np.zeros((entries, 1), np.float32),
            np.zeros((entries, 1), np.float32),
            np.zeros((rows, n), np.float32),
        ),
        options={"rows": rows, "bounds": bounds},
        targets=("trn2", "trn3"),
    )


BENCH = Bench(
    op="trnsparse.spmm",
    run=lambda a, b: a @ b,
    tests="tests/trnsparse/test_spmm.py",
    cases=(
        _case(2000, 0.005, 1),
        _case(20000, 0.001, 1),
        _case(20000, 0.001, 4),
        _case(20000, 0.001, 32),
        _case(4096, 0.01, 256),
        _case(100000, 0.0001, 1, devices=("cuda",)),
        _case(100000, 0.0001, 64, devices=("cuda",)),
    ),
    peers=(
        Peer(
            name="scipy",
            requires="scipy",
            devices=("cpu",),
            prepare=lambda a, b: (a.to_scipy(), b.numpy()),
            run=lambda a, b: torch.from_numpy(a @ b),
        ),
        Peer(name="torch.sparse", prepare=lambda a, b: (a.to_torch(), b), run=lambda a, b: a @ b),
    ),
    kernels=(_kernel(1024, 16, 1), _kernel(1024, 16, 512)),
)
