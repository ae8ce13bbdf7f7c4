"""Products by gathers on chip, of meshes, random patterns and power laws, beside SciPy."""

import functools

import numpy as np
import scipy.sparse
import torch

import trnsparse
from benchmarks.registry import Bench, Case, Kernel, Peer
from trnsparse.kernels import sell_spmm as kernels
from trnsparse.sell_spmm import Layout, count_far, count_near, shapes

EACH = 10  # entries in a row


def _random(rows: int) -> scipy.sparse.csr_array:
    columns = np.sort(np.random.default_rng(0).integers(0, rows, (rows, EACH), np.int32), 1)
    return _pattern(columns.ravel(), np.arange(0, rows * EACH + 1, EACH), rows)


def _near(rows: int) -> scipy.sparse.csr_array:
    """Seven entries in a row, no further from its diagonal than those of a mesh in the plane after reordering."""
    reach = round(5.6 * rows**0.5)
    away = np.random.default_rng(0).integers(-reach, reach + 1, (rows, 7), np.int32)
    columns = np.sort(np.clip(np.arange(rows, dtype=np.int32)[:, None] + away, 0, rows - 1), 1)
    return _pattern(columns.ravel(), np.arange(0, rows * 7 + 1, 7), rows)


def _power(rows: int) -> scipy.sparse.csr_array:
    rng, weight = np.random.default_rng(0), np.arange(1, rows + 1) ** -0.9
    ends = [rng.permutation(rows)[rng.choice(rows, rows * EACH, p=weight / weight.sum())] for _ in range(2)]
    return scipy.sparse.csr_array((np.ones(rows * EACH, np.float32), tuple(ends)), shape=(rows, rows))


def _pattern(columns: np.ndarray, pointers: np.ndarray, rows: int) -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array((np.ones(columns.size, np.float32), columns, pointers), shape=(rows, rows))


@functools.cache
def _layout(make, rows: int) -> Layout:
    matrix = make(rows)
    matrix.sum_duplicates()
    matrix.sort_indices()
    found = count_near(matrix.indptr, matrix.indices) or count_far(matrix.indptr, matrix.indices, rows)
    assert found is not None
    return found


def _case(name: str, make, rows: int) -> Case:
    def inputs():
        return trnsparse.CSRMatrix.from_scipy(make(rows)), torch.ones(rows)

    return Case(name=f"{name}, {rows} rows float32", inputs=inputs, flops=20 * rows, bytes=88 * rows)


def _kernel(name: str, make, rows: int) -> Kernel:
    def inputs():
        arrays = [
            None if x is None else np.broadcast_to(np.int32(0), tuple(x.shape)) for x in shapes(_layout(make, rows))
        ]
        for values in (1, 5):
            arrays[values] = None if arrays[values] is None else arrays[values].astype(np.float32)
        return (np.broadcast_to(np.float32(0), (1, rows)), *arrays)

    def options():
        layout = _layout(make, rows)
        names = ("rows", "run", "slices", "reach", "room", "hubs", "hub_slices")
        return {name: getattr(layout, name) for name in names}

    return Kernel(name=f"{name}, {rows} rows x 1 float32", kernel=kernels.sell_spmm, inputs=inputs, options=options)


BENCH = Bench(
    op="trnsparse.sell_spmm",
    run=lambda a, x: a @ x,
    tests="tests/trnsparse/test_routes.py",
    cases=(_case("random", _random, 100000), _case("near the diagonal", _near, 100000)),
    peers=(
        Peer(
            name="scipy",
            requires="scipy",
            devices=("cpu",),
            prepare=lambda a, x: (a.to_scipy(), x.numpy()),
            run=lambda a, x: torch.from_numpy(a @ x),
        ),
    ),
    kernels=(
        _kernel("near the diagonal", _near, 100000),
        _kernel("random", _random, 100000),
        _kernel("power law", _power, 100000),
    ),
    notes="The cost of a gather on chip is assumed: no published figure fixes it.",
)
