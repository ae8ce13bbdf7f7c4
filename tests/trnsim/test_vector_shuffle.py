"""nc_stream_shuffle: rows that move within quadrants."""

import ml_dtypes
import numpy as np
import pytest

from tests.trnsim.kernels import refused, rng, run
from trnsim import isa
from trnsim.errors import (
    HardwareLimit,
    OutOfBounds,
    ReadUninitialized,
    WrongArgument,
    WrongDtype,
    WrongShape,
)

F32, I32, U8 = np.dtype("f4"), np.dtype("i4"), np.dtype("u1")
BF16 = np.dtype(ml_dtypes.bfloat16)


def shuffled(x, mask, dst):
    """Row by row, quadrant by quadrant."""
    made = dst.copy()
    for i in range(dst.shape[0]):
        if mask[i % 32] != 255:
            made[i] = x[i // 32 * 32 + mask[i % 32]]
    return made


@pytest.mark.parametrize("rows", [32, 64, 96, 128])
def test_shuffle_moves_rows_within_quadrants(rows):
    r = rng(rows)
    x, old = r.normal(size=(2, rows, 5)).astype(F32)
    mask = r.integers(0, 32, 32)
    mask[r.integers(0, 32, 8)] = 255

    def body(a, d, b):
        isa.tensor_copy(b, d)
        isa.nc_stream_shuffle(dst=b, src=a, shuffle_mask=list(mask))

    made = run(body, x, old, out=[((rows, 5), F32)])
    np.testing.assert_array_equal(made, shuffled(x, mask, old))


def test_shuffle_in_place_and_broadcast_of_one_row():
    x = rng().normal(size=(32, 4)).astype(F32)
    turn = [(i - 1) % 32 for i in range(32)]

    def body(a, b):
        isa.nc_stream_shuffle(dst=a, src=a, shuffle_mask=turn)
        isa.nc_stream_shuffle(dst=b, src=a[0:1, :], shuffle_mask=[0] * 32)

    made = run(body, x, out=[((32, 4), F32)])
    np.testing.assert_array_equal(made, np.repeat(x[31:32], 32, axis=0))


def test_shuffle_leaves_kept_rows_unwritten():
    mask = [0] * 31 + [255]

    def body(a, b, c):
        isa.nc_stream_shuffle(dst=b, src=a, shuffle_mask=mask)
        isa.tensor_copy(dst=c, src=b)

    error = refused(
        ReadUninitialized, "uninitialized", body, np.ones((32, 2), F32), out=[((32, 2), F32), ((32, 2), F32)]
    )
    assert error.got == (31, 0)


def test_shuffle_refuses():
    x = np.ones((64, 4), F32)
    out = [((64, 4), F32)]
    shuffle, same = isa.nc_stream_shuffle, list(range(32))
    error = refused(WrongArgument, "shuffle-mask", lambda a, b: shuffle(b, a, same[:31]), x, out=out)
    assert (error.got, error.limit) == (31, 32)
    refused(
        WrongArgument,
        "shuffle-mask",
        lambda a, b: shuffle(b, a, [32, *same[1:]]),
        x,
        out=out,
        says="shuffle_mask[0] is 32",
    )
    refused(WrongArgument, "shuffle-mask", lambda a, b: shuffle(b, a, 7), x, out=out)
    refused(WrongDtype, "same-dtype", lambda a, b: shuffle(b, a, same), x, out=[((64, 4), BF16)])
    refused(WrongShape, "free-size-mismatch", lambda a, b: shuffle(b, a, same), x, out=[((64, 5), F32)])
    error = refused(
        HardwareLimit,
        "start-partition",
        lambda a, b: shuffle(b[32:96, :], a, same),
        x,
        out=[((128, 4), F32)],
        says="0 or 64",
    )
    assert (error.got, error.limit) == (32, (0, 64))
    error = refused(OutOfBounds, "shuffle-bounds", lambda a, b: shuffle(b, a[0:16, :], same), x, out=[((32, 4), F32)])
    assert (error.got, error.limit) == (16, 16)
