"""GpSimd Engine: patterns, masks and reductions across partitions."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.together import together
from tests.trnsim.kernels import TARGETS, refused, rng, run
from trnsim import isa as nisa, language as nl
from trnsim.errors import (
    WrongArgument,
    WrongBuffer,
    WrongDtype,
    WrongShape,
)

pytestmark = pytest.mark.sim

BF16 = ml_dtypes.bfloat16


def affine(pattern, partitions, offset=0, multiplier=0):
    """The reference's nested loops, in Python integers modulo 2^32."""
    rows = []
    for channel in range(partitions):
        row = []
        for index in itertools.product(*(range(count) for _, count in pattern)):
            value = offset + channel * multiplier + sum(i * step for i, (step, _) in zip(index, pattern, strict=True))
            row.append((value + 2**31) % 2**32 - 2**31)
        rows.append(row)
    return np.array(rows)


PATTERNS = st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 5)), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(
    pattern=PATTERNS,
    offset=st.integers(-(2**31), 2**31 - 1),
    multiplier=st.integers(-(10**6), 10**6),
    partitions=st.sampled_from([1, 5, 128]),
)
def test_iota_counts_in_wrapping_32_bit_integers(pattern, offset, multiplier, partitions):
    n = int(np.prod([count for _, count in pattern]))

    def body(out):
        nisa.iota(dst=out, pattern=[list(p) for p in pattern], offset=offset, channel_multiplier=multiplier)

    got = run(body, out=[((partitions, n), nl.int32)])
    np.testing.assert_array_equal(got, affine(pattern, partitions, offset, multiplier))


@together("dtype", [nl.float32, nl.bfloat16, nl.int16, nl.uint8, nl.float16, nl.uint32])
def test_iota_converts_to_any_dtype(dtype):
    got = run(lambda out: nisa.iota(out, [[1, 300]], 5), out=[((3, 300), dtype)])
    want = np.arange(5, 305)
    if dtype.kind in "iu":
        want = np.clip(want, np.iinfo(dtype).min, np.iinfo(dtype).max)
    np.testing.assert_array_equal(got, np.tile(want.astype(np.float32).astype(dtype), (3, 1)))


def test_iota_into_a_view_with_a_register_offset():
    def body(out):
        nisa.memset(out, 0)
        nisa.iota(out[:, 0:12:3], [[10, 2], [1, 2]], offset=nisa.register_alloc(7), channel_multiplier=100)

    got = run(body, out=[((2, 12), nl.int32)])
    want = np.zeros((2, 12), int)
    want[:, ::3] = [[7, 8, 17, 18], [107, 108, 117, 118]]
    np.testing.assert_array_equal(got, want)


def test_iota_constraints():
    def body(*args, **kwargs):
        return lambda out: nisa.iota(out, *args, **kwargs)

    out = [((4, 6), nl.int32)]
    found = refused(WrongShape, "pattern", body([[1, 5]]), out=out, says=("5 elements", "6 per partition"))
    assert (found.got, found.limit) == (5, 6)
    refused(WrongArgument, "pattern", body([[1, 1]] * 4 + [[1, 6]]), out=out, says="5 dimensions")
    refused(WrongArgument, "pattern", body([[1, 0]]), out=out, says="empty")
    refused(WrongArgument, "pattern", body([6]), out=out, says="[step, count]")
    refused(WrongArgument, "int32", body([[1, 6]], 2**31), out=out, says=str(2**31))
    refused(WrongDtype, "int32", body([[1, 6]], 1.5), out=out, says="1.5")
    refused(WrongBuffer, "buffer", body([[1, 6]]), out=[((4, 6), nl.int32, nl.psum)], says="psum")
    refused(WrongDtype, "packed-dtype", body([[0, 6]]), out=[((4, 6), nl.float4_e2m1fn_x4)], says="x4")


COMPARE = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}


@together("op", COMPARE)
@pytest.mark.parametrize("target", TARGETS)
def test_affine_select_compares_an_affine_value_with_zero(op, target):
    x = rng().standard_normal((64, 4, 8)).astype(np.float32)
    pattern = [[-8, 4], [-1, 8]]

    def body(x, out):
        nisa.affine_select(out, pattern, 1, x, -3.0e38, cmp_op=getattr(nl, op), offset=-2)

    got = run(body, x, out=[((64, 32), nl.float32)], target=target)
    keep = COMPARE[op](affine(pattern, 64, -2, 1), 0)
    np.testing.assert_array_equal(got, np.where(keep, x.reshape(64, 32), np.float32(-3.0e38)))


def test_affine_select_makes_a_causal_mask():
    x = rng().standard_normal((128, 128)).astype(np.float32)
    lowest = float(np.finfo(np.float32).min)

    def body(x, out):
        nisa.affine_select(
            dst=out,
            pattern=[[-1, 128]],
            channel_multiplier=1,
            on_true_tile=x,
            on_false_value=lowest,
            cmp_op=nl.greater_equal,
        )

    got = run(body, x, out=[((128, 128), nl.float32)])
    np.testing.assert_array_equal(got, np.where(np.tri(128, dtype=bool), x, np.float32(lowest)))


def test_affine_select_keeps_the_bits_of_equal_dtypes_and_converts_others():
    x = np.array([[2**31 - 1, -(2**31), 2**24 + 1, 5]], np.int32)

    def body(x, same, other):
        for out in (same, other):
            nisa.affine_select(out, [[1, 4]], 0, x, -1.0, cmp_op=nl.less, offset=-3)

    same, other = run(body, x, out=[((1, 4), nl.int32), ((1, 4), nl.float32)])
    np.testing.assert_array_equal(same, [[2**31 - 1, -(2**31), 2**24 + 1, -1]])
    np.testing.assert_array_equal(other, [[2.0**31, -(2.0**31), 2.0**24, -1]])


def test_affine_select_constraints():
    x = np.ones((4, 6), np.float32)
    out = [((4, 6), nl.float32)]

    def body(**more):
        call = {"pattern": [[1, 6]], "channel_multiplier": 0, "on_false_value": 0.0} | more
        return lambda x, out: nisa.affine_select(dst=out, on_true_tile=x, **call)

    refused(WrongArgument, "compare-operator", body(cmp_op=nl.add), x, out=out, says=("nl.add", "nl.equal"))
    refused(WrongShape, "pattern", body(pattern=[[1, 3]]), x, out=out, says="3 elements")
    refused(WrongArgument, "scalar-operand", body(on_false_value="0"), x, out=out, says="on_false_value")
    refused(WrongShape, "free-size-mismatch", body(), x[:, :5].copy(), out=out, says="on_true_tile")
    refused(WrongShape, "partition-mismatch", body(), x[:3].copy(), out=out, says="partitions")
    refused(WrongBuffer, "buffer", body(), x, out=out, psum=(0,), says="psum")


@together(("op", "fold"), [("add", np.sum), ("maximum", np.max), ("average", np.mean)])
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int16], ids=lambda d: np.dtype(d).name)
def test_tensor_partition_reduce(op, fold, dtype):
    x = rng().integers(-50, 50, (96, 3, 7)).astype(dtype)

    def body(x, out):
        nisa.tensor_partition_reduce(out, getattr(nl, op), x)

    got = run(body, x, out=[((1, 3, 7), nl.float32)])
    np.testing.assert_allclose(got[0], fold(x.astype(np.float64), axis=0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("op", ["bitwise_or", "bitwise_and"])
def test_tensor_partition_reduce_of_bits(op):
    x = rng().integers(0, 2**32, (5, 9), dtype=np.uint32)
    got = run(
        lambda x, out: nisa.tensor_partition_reduce(dst=out, op=getattr(nl, op), data=x), x, out=[((1, 9), nl.uint32)]
    )
    np.testing.assert_array_equal(got[0], getattr(np, op).reduce(x, axis=0))


def test_tensor_partition_reduce_of_int32_is_exact_and_wraps():
    x = rng().integers(-(2**31), 2**31, (7, 5)).astype(np.int32)
    total, top = run(
        lambda x, a, b: (nisa.tensor_partition_reduce(a, nl.add, x), nisa.tensor_partition_reduce(b, nl.maximum, x)),
        x,
        out=[((1, 5), nl.int32)] * 2,
    )
    np.testing.assert_array_equal(total[0], x.astype(np.int64).sum(0).astype(np.uint32).view(np.int32))
    np.testing.assert_array_equal(top[0], x.max(0))


def test_tensor_partition_reduce_constraints():
    x = np.ones((4, 6), np.float32)

    def body(op):
        return lambda x, out: nisa.tensor_partition_reduce(out, op, x)

    one = [((1, 6), nl.float32)]
    refused(WrongArgument, "reduction-operator", body(nl.multiply), x, out=one, says=("nl.multiply", "nl.average"))
    refused(
        WrongShape, "partition-reduce", body(nl.add), x, out=[((4, 6), nl.float32)], says=("4 partitions", "(1, 6)")
    )
    refused(WrongShape, "free-size-mismatch", body(nl.add), x, out=[((1, 5), nl.float32)], says="5")
    refused(WrongDtype, "bitvec-dtype", body(nl.bitwise_or), x, out=one, says="float32")
    refused(WrongBuffer, "buffer", body(nl.add), x, out=one, psum=(0,), says="psum")


@pytest.mark.parametrize("checks", [True, False])
def test_timing_only_mode_follows_every_instruction(checks):
    trace = []

    def body(x, low, short, index, seed, six, lanes):
        wide = nl.ndarray((32, 8), nl.float32)
        half = nl.ndarray((32, 8), nl.bfloat16)
        nisa.iota(nl.ndarray((32, 8), nl.int32), [[1, 8]], 0, 1)
        nisa.affine_select(wide, [[1, 8]], 1, x, 0.0, nl.less)
        nisa.tensor_partition_reduce(wide[0:1], nl.average, x)
        nisa.local_gather(wide[:, 0:5], x, short, 1, 5)
        nisa.nc_n_gather(half, low, index)
        nisa.nonzero_with_count(nl.ndarray((32, 9), nl.int32), x)
        nisa.topk(half[:, 0:4], nl.ndarray((32, 4), nl.uint32), low, 100)
        nisa.rng(nl.ndarray((32, 8), nl.uint8))
        nisa.set_rng_seed(seed)
        nisa.rand_set_state(six)
        nisa.rand_set_state(lanes, engine=nisa.engine.vector)
        nisa.rand_get_state(nl.ndarray((32, 6), nl.uint32))
        nisa.rand2(half, 0.0, 1.0)
        nisa.dropout(half, low, 0.5)

    inputs = [
        np.ones((32, 8), np.float32),
        np.ones((32, 8), BF16),
        np.zeros((32, 2), np.uint16),
        np.zeros((32, 8), np.uint32),
        np.ones((1, 1), np.int32),
        np.ones((32, 6), np.uint32),
        np.ones((32, 24), np.uint32),
    ]
    run(body, *inputs, target="trn3", numerics=False, checks=checks, trace=trace)
    assert [r.name for r in trace if r.engine != "dma"][-14:] == [
        *("iota", "affine_select", "tensor_partition_reduce", "local_gather", "nc_n_gather", "nonzero_with_count"),
        *("topk", "rng", "set_rng_seed", "rand_set_state", "rand_set_state", "rand_get_state", "rand2", "dropout"),
    ]
