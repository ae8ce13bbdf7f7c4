"""Reductions: axes, accumulators and chains."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.together import together
from tests.trnsim.kernels import TARGETS, refused, rng, run
from trnsim import isa
from trnsim.errors import ReadUninitialized, WrongArgument, WrongDtype, WrongEngine, WrongShape
from trnsim.isa.enums import reduce_cmd as cmd

F32, I16, I32, U8, U32 = (np.dtype(d) for d in ("f4", "i2", "i4", "u1", "u4"))
BF16 = np.dtype(ml_dtypes.bfloat16)
SHAPE = (4, 3, 5, 2)


# tensor_reduce


@together("target", TARGETS)
@together("axis", [3, (3,), [2, 3], (1, 2, 3), -1, (3, 2)])
@pytest.mark.parametrize("name", ["add", "maximum", "minimum", "multiply"])
def test_reduce_folds_the_last_axes(name, axis, target):
    x = rng(1).integers(-3, 4, SHAPE).astype(F32)
    axes = tuple(a % 4 for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    expected = getattr(np, name).reduce(x, axis=axes)
    out = expected.shape if expected.ndim > 1 else (4, 1)
    made = run(
        lambda a, b: isa.tensor_reduce(dst=b, op=getattr(np, name), data=a, axis=axis),
        x,
        out=[(out, F32)],
        target=target,
    )
    np.testing.assert_array_equal(made.reshape(expected.shape), expected)


@pytest.mark.parametrize("dtype", [BF16, I32, U8])
def test_reduce_adds_in_fp32_and_rounds_once(dtype):
    x = rng(2).integers(0, 100, (4, 50)).astype(F32).astype(dtype)
    wide, narrow = run(
        lambda a, b, c: [isa.tensor_reduce(t, np.add, a, 1) for t in (b, c)], x, out=[((4, 1), F32), ((4, 1), BF16)]
    )
    total = x.astype(F32).sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(wide, total)
    np.testing.assert_array_equal(narrow.astype(F32), total.astype(BF16).astype(F32))


def test_reduce_error_stays_within_the_fp32_bound():
    x = rng(3).normal(size=(128, 2000)).astype(F32)
    made = run(lambda a, b: isa.tensor_reduce(b, np.add, a, axis=1), x, out=[((128, 1), F32)])[:, 0]
    wide = x.astype(np.float64)
    bound = x.shape[1] * 2.0**-24 * np.abs(wide).sum(axis=1)
    assert np.all(np.abs(made - wide.sum(axis=1)) <= bound)


def test_reduce_negates_keeps_dimensions_and_subtracts_in_order():
    x = np.array([[5.0, 3.0, 1.0]], F32)

    def body(a, b, c, d):
        isa.tensor_reduce(dst=b, op="maximum", data=a, axis=1, negate=True)
        isa.tensor_reduce(dst=c, op="add", data=a.reshape((1, 3, 1)), axis=(1, 2), keepdims=True)
        isa.tensor_reduce(dst=d, op="subtract", data=a, axis=1)

    made = run(body, x, out=[((1, 1), F32), ((1, 1, 1), F32), ((1, 1), F32)])
    assert [float(m.reshape(-1)[0]) for m in made] == [-5.0, 9.0, 1.0]


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_reduce_of_bits_is_exact(name):
    x = rng(4).integers(0, 2**32, (4, 3, 7), np.uint32)
    made = run(lambda a, b: isa.tensor_reduce(b, name, a, axis=2), x.view(I32), out=[((4, 3), I32)])
    np.testing.assert_array_equal(made.view(U32), getattr(np, name).reduce(x, axis=2))


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_reduce_of_truth_values(name):
    x = np.array([[1, 0, 2], [1, 5, 1], [0, 0, 0]], F32)
    made = run(lambda a, b: isa.tensor_reduce(b, name, a, axis=1), x, out=[((3, 1), U8)])
    np.testing.assert_array_equal(made[:, 0], getattr(np, name).reduce(x != 0, axis=1).astype(U8))


def test_reduce_reads_strided_views_and_psum_and_writes_in_place():
    x = rng(5).integers(0, 9, (4, 6, 2)).astype(F32)

    def body(a, b):
        isa.tensor_reduce(b, np.add, a.permute((0, 2, 1)), axis=2)
        isa.tensor_reduce(b[:, 0:1], np.maximum, b, axis=1)

    made = run(body, x, psum=(0,), out=[((4, 2), F32)])
    total = x.sum(axis=1)
    np.testing.assert_array_equal(made[:, 0], total.max(axis=1))
    np.testing.assert_array_equal(made[:, 1], total[:, 1])


def test_reduce_refuses():
    x = np.ones(SHAPE, F32)
    one, three = [((4, 1), F32)], [((4, 3), F32)]
    reduce = isa.tensor_reduce
    error = refused(
        WrongArgument, "reduce-axis", lambda a, b: reduce(b, np.add, a, axis=0), x, out=one, says="partitions"
    )
    assert error.limit == [(3,), (2, 3), (1, 2, 3)]
    error = refused(WrongArgument, "reduce-axis", lambda a, b: reduce(b, np.add, a, axis=1), x, out=one, says="(2, 3)")
    assert error.got == (1,)
    refused(WrongArgument, "reduce-axis", lambda a, b: reduce(b, np.add, a, axis=(1, 3)), x, out=one)
    refused(WrongArgument, "reduce-axis", lambda a, b: reduce(b, np.add, a, axis=(3, 3)), x, out=one)
    refused(WrongArgument, "reduce-axis", lambda a, b: reduce(b, np.add, a, axis=4), x, out=one)
    refused(WrongArgument, "reduce-axis", lambda a, b: reduce(b, np.add, a, axis="x"), x, out=one)
    error = refused(
        WrongShape, "reduce-shape", lambda a, b: reduce(b, np.add, a, axis=3), x, out=three, says="[4, 3, 5]"
    )
    assert (error.got, error.limit) == (3, 15)
    refused(WrongShape, "partition-mismatch", lambda a, b: reduce(b, np.add, a, axis=(1, 2, 3)), x, out=[((2, 1), F32)])
    error = refused(WrongArgument, "reduction-operator", lambda a, b: reduce(b, np.power, a, axis=3), x, out=one)
    assert "maximum" in error.limit
    refused(WrongDtype, "bitvec-dtype", lambda a, b: reduce(b, np.bitwise_or, a, axis=(1, 2, 3)), x, out=one)
    refused(
        WrongArgument,
        "negate",
        lambda a, b: reduce(b, np.bitwise_or, a, axis=(1, 2, 3), negate=True),
        x.astype(I32),
        out=[((4, 1), I32)],
    )


# tensor_scalar_cumulative


def cumulative(x, op0, operand, op1, reg):
    """The reference's loop, in fp32."""
    made = np.empty(x.shape, F32)
    reg = np.broadcast_to(np.asarray(reg, F32), (x.shape[0], 1))[:, 0].copy()
    for i in range(x.shape[1]):
        reg = op1(op0(x[:, i].astype(F32), np.broadcast_to(operand, (x.shape[0], 1))[:, 0]), reg).astype(F32)
        made[:, i] = reg
    return made


IDENTITY = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}


@settings(max_examples=40, deadline=None)
@given(
    op0=st.sampled_from([np.add, np.multiply, np.maximum, np.subtract]),
    name=st.sampled_from(sorted(IDENTITY)),
    vector=st.booleans(),
    load=st.booleans(),
    dtype=st.sampled_from([F32, BF16, I16, U8]),
    n=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_cumulative(op0, name, vector, load, dtype, n, seed):
    r = rng(seed)
    x = r.integers(0, 5, (3, n)).astype(F32).astype(dtype)
    c, first = r.normal(size=(2, 3, 1)).astype(F32)

    def body(a, s, i, b):
        isa.tensor_scalar_cumulative(
            dst=b,
            src=a,
            op0=op0,
            op1=name,
            imm0=s if vector else 1.5,
            imm1=i if load else None,
            reduce_cmd=cmd.load_reduce if load else cmd.reset_reduce,
        )

    made = run(body, x, c, first, out=[((3, n), F32)])
    expected = cumulative(x, op0, c if vector else F32.type(1.5), getattr(np, name), first if load else IDENTITY[name])
    np.testing.assert_array_equal(made, expected)


def test_cumulative_goes_on_where_the_last_one_stopped():
    x = rng(6).normal(size=(4, 10)).astype(F32)

    def body(a, b):
        isa.tensor_scalar_cumulative(b[:, 0:4], a[:, 0:4], np.multiply, np.add, 2.0)
        isa.tensor_scalar_cumulative(b[:, 4:10], a[:, 4:10], np.multiply, np.add, 2.0, reduce_cmd=cmd.reduce)

    made = run(body, x, out=[((4, 10), F32)])
    np.testing.assert_array_equal(made, cumulative(x, np.multiply, F32.type(2), np.add, 0.0))


def test_cumulative_refuses():
    x = np.ones((4, 6), F32)
    out = [((4, 6), F32)]
    run_sum = isa.tensor_scalar_cumulative
    error = refused(
        WrongDtype,
        "cumulative-dtype",
        lambda a, b: run_sum(b, a, np.add, np.add, 0.0),
        x.astype(I32),
        out=out,
        says=("src", "int32"),
    )
    assert "float32" in error.limit
    refused(
        WrongDtype,
        "cumulative-dtype",
        lambda a, b: run_sum(b, a, np.add, np.add, 0.0),
        x,
        out=[((4, 6), U32)],
        says="dst",
    )
    error = refused(
        WrongArgument, "reduction-operator", lambda a, b: run_sum(b, a, np.add, np.logical_and, 0.0), x, out=out
    )
    assert error.limit == ["add", "subtract", "multiply", "maximum", "minimum"]
    refused(WrongArgument, "operator-kind", lambda a, b: run_sum(b, a, np.bitwise_and, np.add, 1), x, out=out)
    error = refused(
        WrongArgument,
        "reduce-cmd",
        lambda a, b: run_sum(b, a, np.add, np.add, 0.0, reduce_cmd=cmd.idle),
        x,
        out=out,
        says="idle",
    )
    assert error.limit == ["reset_reduce", "reduce", "load_reduce"]
    refused(
        WrongArgument,
        "reduce-init",
        lambda a, b: run_sum(b, a, np.add, np.add, 0.0, reduce_cmd=cmd.load_reduce),
        x,
        out=out,
        says="imm1",
    )
    refused(
        WrongArgument, "reduce-init", lambda a, b: run_sum(b, a, np.add, np.add, 0.0, imm1=1.0), x, out=out, says="imm1"
    )
    refused(
        WrongDtype,
        "operand-dtype",
        lambda a, c, b: run_sum(b, a, np.add, np.add, c),
        x,
        np.ones((4, 1), BF16),
        out=out,
        says="imm0",
    )
    error = refused(
        ReadUninitialized,
        "accumulator",
        lambda a, b: run_sum(b, a, np.add, np.add, 0.0, reduce_cmd="reduce"),
        x,
        out=out,
        says="reset_reduce",
    )
    assert error.got == 0


# tensor_scalar_reduce


@pytest.mark.parametrize("target", TARGETS)
@together("name", ["add", "multiply", "maximum", "minimum"])
def test_scalar_reduce_gives_both_results(name, target):
    r = rng(7)
    x = r.integers(-2, 3, (4, 3, 2)).astype(F32)
    c = r.integers(1, 3, (4, 1)).astype(F32)

    def body(a, s, b, total):
        isa.tensor_scalar_reduce(dst=b, data=a, op0=np.add, operand0=s, reduce_op=getattr(np, name), reduce_res=total)

    made, total = run(body, x, c, out=[((4, 6), F32), ((4, 1), F32)], target=target)
    expected = x.reshape(4, 6) + c
    np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(total[:, 0], getattr(np, name).reduce(expected, axis=1))


def test_scalar_reduce_chains_through_the_accumulator():
    x = rng(8).integers(0, 9, (4, 12)).astype(F32)

    def body(a, b, total, negative, loaded):
        step = {"op0": np.multiply, "operand0": 2.0, "reduce_op": np.add}
        isa.tensor_scalar_reduce(b[:, 0:4], a[:, 0:4], **step)
        isa.tensor_scalar_reduce(b[:, 4:8], a[:, 4:8], **step, reduce_cmd=cmd.reduce)
        isa.tensor_scalar_reduce(b[:, 8:12], a[:, 8:12], **step, reduce_cmd=cmd.reduce, reduce_res=total)
        isa.tensor_scalar_reduce(
            b[:, 0:4], a[:, 0:4], **step, reduce_cmd=cmd.reduce, reduce_res=negative, reduce_res_negate=True
        )
        isa.tensor_scalar_reduce(
            b[:, 0:4], a[:, 0:4], **step, reduce_cmd=cmd.load_reduce, reduce_init=total, reduce_res=loaded
        )

    one = ((4, 1), F32)
    made, total, negative, loaded = run(body, x, out=[((4, 12), F32), one, one, one])
    np.testing.assert_array_equal(made, 2 * x)
    np.testing.assert_array_equal(total[:, 0], 2 * x.sum(axis=1))
    more = 2 * x[:, :4].sum(axis=1)
    np.testing.assert_array_equal(negative[:, 0], -(total[:, 0] + more))
    np.testing.assert_array_equal(loaded[:, 0], total[:, 0] + more)


def test_scalar_reduce_folds_fp32_and_rounds_only_what_it_writes():
    x = np.full((1, 4), 1.0, BF16)
    made, total = run(
        lambda a, b, t: isa.tensor_scalar_reduce(b, a, np.add, 2.0**-10, np.add, t),
        x,
        out=[((1, 4), BF16), ((1, 1), F32)],
    )
    assert made.astype(F32).tolist() == [[1.0] * 4]
    assert float(total[0, 0]) == 4 + 2.0**-8


def test_scalar_reduce_of_unary_operators():
    x = np.array([[-1.0, 2.0]], F32)
    made = run(
        lambda a, b, t: isa.tensor_scalar_reduce(b, a, "abs", None, np.add, t), x, out=[((1, 2), F32), ((1, 1), F32)]
    )
    assert [m.tolist() for m in made] == [[[1.0, 2.0]], [[3.0]]]
    made = run(
        lambda a, b, t: isa.tensor_scalar_reduce(b, a, "square", 0, np.add, t),
        x,
        out=[((1, 2), F32), ((1, 1), F32)],
        target="trn3",
    )
    assert made[1].tolist() == [[5.0]]


def test_lanes_belong_to_partitions():
    x = np.arange(64, dtype=F32).reshape(64, 1)

    def body(a, b, top, low):
        isa.tensor_scalar_reduce(b[0:32, :], a[0:32, :], np.add, 0.0, np.add)
        isa.tensor_scalar_reduce(b[32:64, :], a[32:64, :], np.add, 100.0, np.add)
        isa.tensor_scalar_reduce(b[0:32, :], a[0:32, :], np.add, 0.0, np.add, top, reduce_cmd=cmd.reduce)
        isa.tensor_scalar_reduce(b[32:64, :], a[32:64, :], np.add, 0.0, np.add, low, reduce_cmd=cmd.reduce)

    _, top, low = run(body, x, out=[((64, 1), F32), ((32, 1), F32), ((32, 1), F32)])
    np.testing.assert_array_equal(top, 2 * x[:32])
    np.testing.assert_array_equal(low, 2 * x[32:] + 100)


def test_scalar_reduce_refuses():
    x = np.ones((4, 6), F32)
    out = [((4, 6), F32), ((4, 1), F32)]
    tsr = isa.tensor_scalar_reduce
    error = refused(
        WrongArgument, "reduction-operator", lambda a, b, t: tsr(b, a, np.add, 0.0, np.subtract, t), x, out=out
    )
    assert error.limit == ["add", "multiply", "maximum", "minimum"]
    refused(
        WrongArgument, "operator-kind", lambda a, b, t: tsr(b, a, np.bitwise_and, 1, np.add, t), x, out=out, says="op0"
    )
    refused(
        WrongArgument,
        "reverse",
        lambda a, b, t: tsr(b, a, np.subtract, 0.0, np.add, t, reverse0=True),
        x,
        out=out,
        says="reverse0",
    )
    refused(WrongArgument, "negate", lambda a, b, t: tsr(b, a, np.add, 0.0, np.add, reduce_res_negate=True), x, out=out)
    error = refused(
        WrongArgument, "reduce-cmd", lambda a, b, t: tsr(b, a, np.add, 0.0, np.add, t, reduce_cmd="idle"), x, out=out
    )
    assert error.got == "idle"
    refused(
        WrongArgument, "reduce-init", lambda a, b, t: tsr(b, a, np.add, 0.0, np.add, t, reduce_init=1.0), x, out=out
    )
    refused(
        WrongArgument,
        "reduce-init",
        lambda a, b, t: tsr(b, a, np.add, 0.0, np.add, t, reduce_cmd="load_reduce"),
        x,
        out=out,
    )
    error = refused(
        WrongShape, "vector-operand", lambda a, b, t: tsr(b, a, np.add, 0.0, np.add, b), x, out=out, says="reduce_res"
    )
    assert error.limit == (4, 1)
    refused(
        WrongShape,
        "partition-mismatch",
        lambda a, b, t: tsr(b, a, np.add, 0.0, np.add, t),
        x,
        out=[((4, 6), F32), ((2, 1), F32)],
        says="reduce_res",
    )
    refused(WrongEngine, "generation", lambda a, b, t: tsr(b, a, "relu", None, np.add, t), x, out=out, says="trn2")
    refused(
        ReadUninitialized,
        "accumulator",
        lambda a, b, t: tsr(b, a, np.add, 0.0, np.add, t, reduce_cmd=cmd.reduce),
        x,
        out=out,
    )


def test_an_idle_instruction_leaves_the_accumulator_undefined():
    x, mask = np.ones((4, 6), F32), np.ones((4, 6), U8)

    def body(a, m, b, t):
        isa.tensor_scalar_reduce(b, a, np.add, 0.0, np.add)
        isa.select_reduce(b, m, a, 0.0)
        isa.tensor_scalar_reduce(b, a, np.add, 0.0, np.add, t, reduce_cmd=cmd.reduce)

    refused(ReadUninitialized, "accumulator", body, x, mask, out=[((4, 6), F32), ((4, 1), F32)], says="idle")


def test_without_values_the_rules_still_hold():
    x = np.ones((4, 6), F32)

    def body(a, b, t, six, two):
        isa.tensor_reduce(t, np.add, a, 1)
        isa.tensor_scalar_cumulative(b, a, np.add, np.add, 0.0)
        isa.tensor_scalar_cumulative(b, a, np.add, np.add, 0.0, reduce_cmd=cmd.reduce)
        isa.tensor_scalar_reduce(b, a, np.add, t, np.add, t, reduce_cmd=cmd.reduce)
        isa.bn_stats(six, a)
        isa.bn_aggr(two, six)

    one = ((4, 1), F32)
    run(body, x, out=[((4, 6), F32), one, ((4, 6), F32), ((4, 2), F32)], numerics=False)
    refused(
        ReadUninitialized,
        "accumulator",
        lambda a, b: isa.tensor_scalar_cumulative(b, a, np.add, np.add, 0.0, reduce_cmd="reduce"),
        x,
        out=[((4, 6), F32)],
        numerics=False,
    )
