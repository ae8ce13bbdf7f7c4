"""``trnsolver.solve_banded`` beside SciPy, which takes one matrix at a time."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import torch

from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian
from trnsolver import solve_banded


def _case(bands: tuple[int, int], *shape: int) -> Case:
    n, batch = shape[-1], shape[0] if len(shape) == 2 else 1
    below, above = bands
    name = f"{f'{batch}x' if batch > 1 else ''}{n} rows, {below + above + 1} diagonals, float64"

    def inputs() -> tuple[object, ...]:
        ab = gaussian((*shape[:-1], below + above + 1, n), 1, dtype=torch.float64)
        ab[..., above, :] += 4.0
        return bands, ab, gaussian(shape, 2, dtype=torch.float64)

    flops = 2 * batch * n * (below * (below + above) + 2 * below + above + 1)
    return Case(name=name, inputs=inputs, flops=flops, bytes=8 * batch * n * (below + above + 3))


def _each(bands: tuple[int, int], ab: np.ndarray, b: np.ndarray) -> np.ndarray:
    if ab.ndim == 2:
        return scipy.linalg.solve_banded(bands, ab, b)
    return np.stack([scipy.linalg.solve_banded(bands, x, y) for x, y in zip(ab, b, strict=True)])


BENCH = Bench(
    op="trnsolver.solve_banded",
    run=solve_banded,
    tests="tests/trnsolver/test_solve_banded.py",
    cases=(_case((1, 1), 100_000), _case((2, 2), 100_000), _case((1, 1), 1000, 64)),
    peers=(
        Peer(
            name="scipy.linalg.solve_banded",
            run=_each,
            prepare=lambda bands, ab, b: (bands, ab.numpy(), b.numpy()),
            requires="scipy",
            devices=("cpu",),
            called=True,
        ),
    ),
)
