"""Selection by predicate and by index range, and sequence bounds."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.together import together
from tests.trnsim.kernels import refused, rng, run
from trnsim import isa, language
from trnsim.errors import HardwareLimit, WrongArgument, WrongBuffer, WrongDtype, WrongEngine, WrongShape
from trnsim.isa.enums import reduce_cmd as cmd

F32, F16, I8, I16, I32, U8, U16, U32 = (np.dtype(d) for d in ("f4", "f2", "i1", "i2", "i4", "u1", "u2", "u4"))
BF16 = np.dtype(ml_dtypes.bfloat16)
LEAST = np.finfo(F32).min


# select_reduce


@together("predicate", [U8, I8, U16, I16, np.dtype(bool)])
@pytest.mark.parametrize("dtype", [F32, BF16, F16, I16, U8], ids=str)
@together("reverse", [False, True])
def test_select(dtype, predicate, reverse):
    r = rng(1)
    x = r.integers(0, 50, (4, 10)).astype(F32).astype(dtype)
    mask = r.integers(0, 2, (4, 10)).astype(predicate)
    column = r.normal(size=(4, 1)).astype(F32)

    def body(a, m, c, number, vector):
        isa.select_reduce(dst=number, predicate=m, on_true=a, on_false=-1.5, reverse_pred=reverse)
        isa.select_reduce(dst=vector, predicate=m, on_true=a, on_false=c, reverse_pred=reverse)

    number, vector = run(body, x, mask, column, out=[((4, 10), F32)] * 2)
    chosen = ~mask.astype(bool) if reverse else mask.astype(bool)
    np.testing.assert_array_equal(number, np.where(chosen, x.astype(F32), F32.type(-1.5)))
    np.testing.assert_array_equal(vector, np.where(chosen, x.astype(F32), column))


def test_select_finds_the_maximum_and_chains():
    r = rng(2)
    x = r.normal(size=(4, 12)).astype(F32)
    mask = r.integers(0, 2, (4, 12)).astype(U8)

    def body(a, m, b, t):
        isa.select_reduce(b[:, 0:6], m[:, 0:6], a[:, 0:6], float(LEAST), reduce_cmd=cmd.reset_reduce)
        isa.select_reduce(
            b[:, 6:12], m[:, 6:12], a[:, 6:12], float(LEAST), reduce_res=t, reduce_cmd=cmd.reduce, reduce_op=np.max
        )

    made, top = run(body, x, mask, out=[((4, 12), F32), ((4, 1), F32)])
    expected = np.where(mask, x, LEAST)
    np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(top[:, 0], expected.max(axis=1))


def test_select_takes_other_ranks_psum_and_rounds_the_maximum_apart():
    x = rng(3).normal(size=(4, 6)).astype(F32)
    mask = np.ones((4, 2, 3), U8)
    made, top = run(
        lambda a, m, b, t: isa.select_reduce(b, m, a, 0.0, t, cmd.reset_reduce),
        x,
        mask,
        psum=(0,),
        out=[((4, 3, 2), BF16, language.psum), ((4, 1), F32)],
    )
    np.testing.assert_array_equal(made.reshape(4, 6).astype(F32), x.astype(BF16).astype(F32))
    np.testing.assert_array_equal(top[:, 0], x.max(axis=1))


def test_select_refuses():
    x, mask = np.ones((4, 6), F32), np.ones((4, 6), U8)
    out = [((4, 6), F32), ((4, 1), F32)]
    select = isa.select_reduce
    error = refused(
        WrongDtype,
        "predicate-dtype",
        lambda a, m, b, t: select(b, m, a, 0.0),
        x,
        mask.astype(U32),
        out=out,
        says="uint32",
    )
    assert error.limit == ["bool", "int16", "int8", "uint16", "uint8"]
    for bad in (I32, U32):
        refused(
            WrongDtype,
            "select-dtype",
            lambda a, m, b, t: select(b, m, a, 0.0),
            x.astype(bad),
            mask,
            out=out,
            says="tensor_copy_predicated",
        )
    refused(
        WrongBuffer,
        "psum-inputs",
        lambda a, m, b, t: select(b, m, a, 0.0),
        x,
        mask,
        psum=(0, 1),
        out=out,
        says=("on_true", "predicate"),
    )
    refused(
        WrongShape,
        "free-size-mismatch",
        lambda a, m, b, t: select(b, m, a, 0.0),
        x,
        mask[:, :5],
        out=out,
        says="predicate",
    )
    refused(WrongShape, "vector-operand", lambda a, m, b, t: select(b, m, a, a), x, mask, out=out, says="on_false")
    refused(
        WrongArgument,
        "reduction-operator",
        lambda a, m, b, t: select(b, m, a, 0.0, t, cmd.reset_reduce, np.add),
        x,
        mask,
        out=out,
    )
    refused(
        WrongArgument,
        "reduce-cmd",
        lambda a, m, b, t: select(b, m, a, 0.0, t),
        x,
        mask,
        out=out,
        says=("idle", "reset_reduce"),
    )
    refused(
        WrongArgument,
        "reduce-cmd",
        lambda a, m, b, t: select(b, m, a, 0.0, t, cmd.load_reduce),
        x,
        mask,
        out=out,
        says="load_reduce",
    )
    refused(
        WrongDtype,
        "reduce-dtype",
        lambda a, m, b, t: select(b, m, a, 0.0, t, cmd.reset_reduce),
        x,
        mask,
        out=[((4, 6), F32), ((4, 1), I32)],
        says="reduce_res",
    )
    refused(
        WrongShape,
        "vector-operand",
        lambda a, m, b, t: select(b, m, a, 0.0, b, cmd.reset_reduce),
        x,
        mask,
        out=out,
        says="reduce_res",
    )


# range_select


COMPARE = {
    "equal": np.equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}


@settings(max_examples=40, deadline=None)
@given(
    first=st.sampled_from(sorted(COMPARE)),
    second=st.sampled_from(sorted(COMPARE)),
    start=st.integers(-5, 20),
    dtype=st.sampled_from([F32, BF16, F16]),
    target=st.sampled_from(["trn2", "trn3"]),
    seed=st.integers(0, 99),
)
def test_range_select(first, second, start, dtype, target, seed):
    r = rng(seed)
    x = r.normal(size=(4, 10)).astype(dtype)
    low, high = r.integers(-3, 25, (2, 4, 1)).astype(F32)

    def body(a, lo, hi, b, t):
        isa.range_select(
            dst=b,
            on_true_tile=a,
            comp_op0=COMPARE[first],
            comp_op1=second,
            bound0=lo,
            bound1=hi,
            reduce_res=t,
            range_start=start,
        )

    made, top = run(body, x, low, high, out=[((4, 10), F32), ((4, 1), F32)], target=target)
    index = start + np.arange(10)
    keep = COMPARE[first](index, low) & COMPARE[second](index, high)
    expected = np.where(keep, x.astype(F32), LEAST)
    np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(top[:, 0], expected.max(axis=1))


def test_range_select_downcasts_to_minus_infinity_but_reduces_in_fp32():
    x, bound = np.ones((1, 4), F32), np.full((1, 1), 100, F32)
    made, top = run(
        lambda a, c, b, t: isa.range_select(b, a, "greater", "greater", c, c, reduce_res=t),
        x,
        bound,
        out=[((1, 4), BF16), ((1, 1), F32)],
    )
    assert np.all(np.isneginf(made.astype(F32)))
    assert float(top[0, 0]) == LEAST


def test_range_select_chains_and_takes_the_sentinel_in_any_spelling():
    x = rng(5).normal(size=(4, 9)).astype(F32)
    low, high = np.zeros((4, 1), F32), np.full((4, 1), 8, F32)

    def body(a, lo, hi, b, t):
        bounds = {"comp_op0": np.greater_equal, "comp_op1": np.less, "bound0": lo, "bound1": hi}
        isa.range_select(b[:, 0:3], a[:, 0:3], **bounds, on_false_value=-3.4028235e38)
        isa.range_select(b[:, 3:6], a[:, 3:6], **bounds, range_start=3.0, reduce_cmd=cmd.reduce, on_false_value=LEAST)
        isa.range_select(
            b[:, 6:9],
            a[:, 6:9],
            **bounds,
            range_start=6,
            reduce_cmd=cmd.reduce,
            reduce_res=t,
            on_false_value=float(LEAST),
        )

    made, top = run(body, x, low, high, out=[((4, 9), F32), ((4, 1), F32)])
    expected = np.where(np.arange(9) < 8, x, LEAST)
    np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(top[:, 0], expected.max(axis=1))


def test_range_select_refuses():
    x, c = np.ones((4, 6), F32), np.ones((4, 1), F32)
    out = [((4, 6), F32), ((4, 1), F32)]

    def body(**changes):
        arguments = {"comp_op0": np.less, "comp_op1": np.less} | changes
        return lambda a, lo, hi, b, t: isa.range_select(b, a, bound0=lo, bound1=hi, **arguments)

    error = refused(WrongEngine, "generation", body(), x, c, c, out=out, target="trn1", says="trn1")
    assert error.limit == "trn2"
    error = refused(WrongArgument, "comparison", body(comp_op1=np.not_equal), x, c, c, out=out, says="comp_op1")
    assert error.limit == ["equal", "less", "less_equal", "greater", "greater_equal"]
    error = refused(WrongArgument, "range-fill", body(on_false_value=0.0), x, c, c, out=out, says="0.0")
    assert error.limit == float(LEAST)
    refused(WrongArgument, "range-fill", body(on_false_value=float("-inf")), x, c, c, out=out, says="inf")
    refused(WrongArgument, "range-start", body(range_start=0.5), x, c, c, out=out, says="0.5")
    error = refused(HardwareLimit, "range-limit", body(range_start=2**24), x, c, c, out=out)
    assert error.limit == 2**24
    refused(WrongDtype, "range-dtype", body(), x.astype(I16), c, c, out=out, says="int16")
    refused(WrongDtype, "operand-dtype", body(), x, c.astype(I32), c, out=out, says="bound0")
    refused(WrongShape, "vector-operand", body(), x, c, x, out=out, says="bound1")
    refused(WrongShape, "partition-mismatch", body(), x, c[:2], c, out=out, says="bound0")
    refused(WrongArgument, "reduction-operator", body(reduce_op=np.add), x, c, c, out=out)
    refused(WrongArgument, "reduce-cmd", body(reduce_cmd=cmd.load_reduce), x, c, c, out=out)
    refused(
        WrongArgument,
        "reduce-cmd",
        lambda a, lo, hi, b, t: isa.range_select(b, a, np.less, np.less, lo, hi, reduce_cmd=cmd.idle, reduce_res=t),
        x,
        c,
        c,
        out=out,
        says="idle",
    )


# sequence_bounds


def bounds(row):
    """Walk outwards from each element while the id is the same."""
    n = len(row)
    starts, ends = [], []
    for i, segment in enumerate(row):
        if segment == 0:
            starts.append(n)
            ends.append(-1)
            continue
        first = i
        while first > 0 and row[first - 1] == segment:
            first -= 1
        end = i + 1
        while end < n and row[end] == segment:
            end += 1
        starts.append(first)
        ends.append(end)
    return [starts, ends]


@settings(max_examples=40, deadline=None)
@given(
    row=st.lists(st.integers(0, 3), min_size=1, max_size=20),
    source=st.sampled_from([F32, I32]),
    out=st.sampled_from([F32, I32]),
)
def test_sequence_bounds(row, source, out):
    made = run(
        lambda a, b: isa.sequence_bounds(dst=b, segment_ids=a), np.array([row], source), out=[((1, 2, len(row)), out)]
    )
    assert made.dtype == out
    assert made[0].tolist() == bounds(row)


def test_sequence_bounds_runs_on_gpsimd_and_refuses():
    ids = np.array([[0, 1, 1, 2]], I32)
    out = [((1, 2, 4), I32)]
    stream = []
    run(lambda a, b: isa.sequence_bounds(b, a), ids, out=out, trace=stream)
    assert stream[-1].engine == "gpsimd"
    refused(WrongBuffer, "gpsimd-psum", lambda a, b: isa.sequence_bounds(b, a), ids, psum=(0,), out=out)
    refused(
        WrongDtype,
        "sequence-dtype",
        lambda a, b: isa.sequence_bounds(b, a),
        ids.astype(I16),
        out=out,
        says="segment_ids",
    )
    refused(
        WrongDtype, "sequence-dtype", lambda a, b: isa.sequence_bounds(b, a), ids, out=[((1, 2, 4), BF16)], says="dst"
    )
    error = refused(
        WrongShape,
        "sequence-partitions",
        lambda a, b: isa.sequence_bounds(b, a),
        np.ones((2, 4), I32),
        out=[((2, 2, 4), I32)],
    )
    assert (error.got, error.limit) == (2, 1)
    error = refused(WrongShape, "result-size", lambda a, b: isa.sequence_bounds(b, a), ids, out=[((1, 4), I32)])
    assert (error.got, error.limit) == (4, 8)
    refused(WrongArgument, "segment-ids", lambda a, b: isa.sequence_bounds(b, a), -ids, out=out, says="-1")
    refused(
        WrongArgument,
        "segment-ids",
        lambda a, b: isa.sequence_bounds(b, a),
        np.array([[0.5]], F32),
        out=[((1, 2, 1), F32)],
        says="0.5",
    )


def test_without_values_the_rules_still_hold():
    x, mask, c = np.ones((4, 6), F32), np.ones((4, 6), U8), np.ones((4, 1), F32)

    def body(a, m, s, b, t):
        isa.select_reduce(b, m, a, s, t, cmd.reset_reduce)
        isa.range_select(b, a, np.less, np.less, s, s, cmd.reduce, t)

    run(body, x, mask, c, out=[((4, 6), F32), ((4, 1), F32)], numerics=False)
    refused(
        WrongDtype,
        "predicate-dtype",
        lambda a, b: isa.select_reduce(b, a, a, 0.0),
        x,
        out=[((4, 6), F32)],
        numerics=False,
    )
