"""Element-wise instructions: agreement with NumPy in fp32, engines, operand rules."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.together import together
from tests.trnsim.kernels import TARGETS, refused, rng, run
from trnsim import isa, language
from trnsim.errors import NotModelled, WrongArgument, WrongBuffer, WrongDtype, WrongEngine, WrongShape, WrongType
from trnsim.isa.enums import engine

F32, F16, I16, I32, U8, U16, U32 = (np.dtype(d) for d in ("f4", "f2", "i2", "i4", "u1", "u2", "u4"))
BF16 = np.dtype(ml_dtypes.bfloat16)
OPS = (
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    "equal",
    "greater",
    "less_equal",
    "logical_and",
    "logical_xor",
)


def meaning(name, x, y):
    """The operator in fp32, said with NumPy."""
    x, y = np.asarray(x).astype(F32), np.asarray(y).astype(F32)
    return getattr(np, name)(x, y).astype(F32)


def tensor_tensor(x, y, op, out, on=engine.unknown, **options):
    return run(lambda a, b, c: isa.tensor_tensor(dst=c, data1=a, data2=b, op=op, engine=on), x, y, out=[out], **options)


def runs_on(body, *inputs, **options):
    """Engines of the last instruction of ``body``."""
    stream = []
    run(body, *inputs, trace=stream, **options)
    return stream[-1].engine


# tensor_tensor


@pytest.mark.parametrize("target", TARGETS)
@together("name", OPS)
def test_tensor_tensor_is_fp32(name, target):
    r = rng(1)
    x, y = r.integers(-4, 5, (2, 8, 16)).astype(F32)
    np.testing.assert_array_equal(
        tensor_tensor(x, y, getattr(np, name), ((8, 16), F32), target=target), meaning(name, x, y)
    )


@settings(max_examples=40, deadline=None)
@given(
    left=st.sampled_from([F32, BF16, F16, I16, U8]),
    right=st.sampled_from([F32, BF16, I32]),
    out=st.sampled_from([F32, BF16, F16, I32]),
    name=st.sampled_from(OPS),
    seed=st.integers(0, 1000),
)
def test_tensor_tensor_mixes_dtypes_and_rounds_once(left, right, out, name, seed):
    r = rng(seed)
    x, y = (r.integers(0, 40, (4, 6)).astype(F32).astype(d) for d in (left, right))
    made = tensor_tensor(x, y, name, ((4, 6), out))
    assert made.dtype == out
    np.testing.assert_array_equal(made.astype(F32), meaning(name, x, y).astype(out).astype(F32))


def test_tensor_tensor_in_place_views_and_ranks():
    x, y = rng(2).normal(size=(2, 4, 12)).astype(F32)

    def body(a, b, c):
        isa.tensor_tensor(dst=a, data1=a, data2=b, op=np.add)
        isa.tensor_tensor(dst=c, data1=a[:, 0:12:2], data2=b.reshape((4, 2, 6))[:, 1, :], op=np.multiply)
        isa.tensor_tensor(dst=c.reshape((4, 2, 3)), data1=c, data2=a[:, 0:1].broadcast(1, 6), op=np.subtract)

    made = run(body, x, y, out=[((4, 6), F32)])
    total = x + y
    np.testing.assert_array_equal(made, total[:, ::2] * y[:, 6:] - total[:, :1])


def test_tensor_tensor_writes_psum_and_reads_one_operand_from_it():
    x, y = rng(3).normal(size=(2, 4, 5)).astype(F32)
    for psum in ((0,), (1,)):
        np.testing.assert_array_equal(tensor_tensor(x, y, np.add, ((4, 5), F32, language.psum), psum=psum), x + y)


def test_32_bit_integers_are_exact_on_gpsimd_by_default():
    x = np.array([[2**24 + 1, 2**31 - 1, -5, 123456789]], I32)
    y = np.array([[1, 1, 2**31 - 1, 987654321]], I32)

    def body(a, b, c):
        isa.tensor_tensor(c, a, b, op=np.multiply)

    made = run(body, x, y, out=[((1, 4), I32)])
    exact = [(int(a) * int(b) + 2**31) % 2**32 - 2**31 for a, b in zip(x[0], y[0], strict=True)]
    assert made[0].tolist() == exact
    assert runs_on(body, x, y, out=[((1, 4), I32)]) == "gpsimd"
    assert runs_on(body, x, y, out=[((1, 4), F32)]) == "vector"
    assert runs_on(body, x, y, out=[((1, 4), I32)], psum=(0,)) == "vector"
    assert runs_on(body, x.astype(F32), y, out=[((1, 4), I32)]) == "vector"


def test_32_bit_integers_go_through_fp32_on_the_vector_engine():
    x, one = np.array([[2**24 + 1, 2**31 - 1]], I32), np.ones((1, 2), I32)
    made = tensor_tensor(x, one, np.add, ((1, 2), I32), on=engine.vector)
    assert made.tolist() == [[2**24, 2**31 - 1]]
    # one operand in PSUM: GpSimd cannot help, so the default is inexact too
    assert tensor_tensor(x, one, np.add, ((1, 2), I32), psum=(1,)).tolist() == [[2**24, 2**31 - 1]]


def test_unsigned_words_wrap():
    x, y = np.array([[0xFFFFFFFF, 0x9E3779B9]], U32), np.array([[2, 0xD2511F53]], U32)
    made = tensor_tensor(x, y, np.multiply, ((1, 2), U32))
    assert made.tolist() == [[0xFFFFFFFE, 0x9E3779B9 * 0xD2511F53 % 2**32]]


@together("dtype", [U8, U16, U32, I16, I32])
@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"])
def test_bit_operators_are_exact(name, dtype):
    r = rng(4)
    words = np.dtype(f"u{dtype.itemsize}")
    x = r.integers(0, np.iinfo(words).max, (4, 9), words, endpoint=True)
    y = r.integers(0, 8 * dtype.itemsize, (4, 9)).astype(words) if "shift" in name else x[::-1].copy()
    made = tensor_tensor(x.view(dtype), y.view(dtype), name, ((4, 9), dtype))
    np.testing.assert_array_equal(made.view(words), getattr(np, name)(x, y))


def test_power_runs_on_gpsimd():
    x, y = np.array([[2.0, 9.0, -2.0]], F32), np.array([[10.0, 0.5, 3.0]], F32)
    assert tensor_tensor(x, y, "nl.power", ((1, 3), F32)).tolist() == [[1024.0, 3.0, -8.0]]
    assert runs_on(lambda a, b, c: isa.tensor_tensor(c, a, b, "power"), x, y, out=[((1, 3), F32)]) == "gpsimd"


def test_tensor_tensor_refuses():
    x = np.ones((4, 6), F32)
    out = [((4, 6), F32)]
    tt = isa.tensor_tensor
    error = refused(
        WrongBuffer,
        "psum-inputs",
        lambda a, b, c: tt(c, a, b, np.add),
        x,
        x,
        psum=(0, 1),
        out=out,
        says=("data1", "data2"),
    )
    assert error.got == ("psum", "psum")
    error = refused(
        WrongShape,
        "free-size-mismatch",
        lambda a, b, c: tt(c, a, b, np.add),
        x,
        x[:, :1],
        out=out,
        says=("data2", "tensor_scalar"),
    )
    assert (error.got, error.limit) == (1, 6)
    refused(WrongShape, "partition-mismatch", lambda a, b, c: tt(c, a, b, np.add), x, x[:2], out=out, says="data2")
    error = refused(
        WrongDtype,
        "bitvec-dtype",
        lambda a, b, c: tt(c, a, b, np.bitwise_and),
        x,
        x,
        out=out,
        says=("float32", "uint32"),
    )
    assert error.got == "float32"
    refused(
        WrongDtype,
        "bitvec-dtype",
        lambda a, b, c: tt(c, a, b, np.bitwise_and),
        x.astype(I32),
        x.astype(I32),
        out=out,
        says="dst",
    )
    refused(
        WrongEngine, "engine", lambda a, b, c: tt(c, a, b, np.add, engine=engine.scalar), x, x, out=out, says="scalar"
    )
    refused(
        WrongEngine,
        "engine",
        lambda a, b, c: tt(c, a, b, np.bitwise_or, engine="gpsimd"),
        x.astype(I32),
        x.astype(I32),
        out=[((4, 6), I32)],
        says="Vector Engine",
    )
    refused(WrongEngine, "engine", lambda a, b, c: tt(c, a, b, np.power, engine="vector"), x, x, out=out, says="GpSimd")
    refused(WrongBuffer, "gpsimd-psum", lambda a, b, c: tt(c, a, b, np.power), x, x, psum=(1,), out=out, says="data2")
    refused(
        WrongBuffer,
        "gpsimd-psum",
        lambda a, b, c: tt(c, a, b, np.add, engine="gpsimd"),
        x,
        x,
        out=[((4, 6), F32, language.psum)],
        says="dst",
    )
    refused(WrongArgument, "operator", lambda a, b, c: tt(c, a, b, np.divide), x, x, out=out, says="reciprocal")
    refused(WrongArgument, "operator-arity", lambda a, b, c: tt(c, a, b, np.abs), x, x, out=out)
    error = refused(WrongEngine, "generation", lambda a, b, c: tt(c, a, b, "abs_max"), x, x, out=out)
    assert (error.got, error.limit) == ("trn2", "trn3")
    refused(
        NotModelled,
        "shift-amount",
        lambda a, b, c: tt(c, a, b, np.left_shift),
        x.astype(I32),
        32 * x.astype(I32),
        out=[((4, 6), I32)],
        says="32",
    )
    refused(
        WrongDtype,
        "packed-dtype",
        lambda a, b, c: tt(c, a, b, np.add),
        x,
        x,
        out=[((4, 6), language.float8_e4m3fn_x4)],
        target="trn3",
    )


def test_abs_max_on_trn3():
    x, y = np.array([[-5.0, 1.0]], F32), np.array([[3.0, -1.0]], F32)
    assert tensor_tensor(x, y, "abs_max", ((1, 2), F32), target="trn3").tolist() == [[-5.0, -1.0]]


# scalar_tensor_tensor


@pytest.mark.parametrize("reverse0", [False, True])
@pytest.mark.parametrize("reverse1", [False, True])
def test_scalar_tensor_tensor(reverse0, reverse1):
    r = rng(5)
    x, y = r.normal(size=(2, 8, 10)).astype(F32)
    c = r.normal(size=(8, 1)).astype(F32)

    def body(a, b, s, out0, out1):
        for operand, out in ((s, out0), (2.5, out1)):
            isa.scalar_tensor_tensor(
                dst=out,
                data=a,
                op0=np.subtract,
                operand0=operand,
                op1=np.subtract,
                operand1=b,
                reverse0=reverse0,
                reverse1=reverse1,
            )

    for operand, made in zip((c, F32.type(2.5)), run(body, x, y, c, out=[((8, 10), F32)] * 2), strict=True):
        first = operand - x if reverse0 else x - operand
        np.testing.assert_array_equal(made, y - first if reverse1 else first - y)


def test_scalar_tensor_tensor_keeps_fp32_between_its_stages():
    x = np.array([[1.0]], BF16)
    made = run(
        lambda a, b, out: isa.scalar_tensor_tensor(out, a, np.add, 2.0**-20, np.subtract, b), x, x, out=[((1, 1), BF16)]
    )
    assert float(made[0, 0]) == 2.0**-20


def test_scalar_tensor_tensor_takes_operands_of_any_dtype():
    x, y, c = np.full((2, 3), 3, I32), np.full((2, 3), 4, U8), np.full((2, 1), 2, BF16)
    made = run(
        lambda a, b, s, out: isa.scalar_tensor_tensor(out, a, np.multiply, s, np.add, b), x, y, c, out=[((2, 3), F32)]
    )
    assert np.all(made == 10)


def test_scalar_tensor_tensor_refuses():
    x = np.ones((4, 6), F32)
    out = [((4, 6), F32)]
    stt = isa.scalar_tensor_tensor
    refused(
        WrongBuffer,
        "psum-inputs",
        lambda a, b, c: stt(c, a, np.add, 1.0, np.add, b),
        x,
        x,
        psum=(0, 1),
        out=out,
        says="operand1",
    )
    refused(
        WrongArgument,
        "operator-kind",
        lambda a, b, c: stt(c, a, np.bitwise_and, 1, np.add, b),
        x,
        x,
        out=out,
        says="op0",
    )
    refused(
        WrongArgument, "operator-arity", lambda a, b, c: stt(c, a, np.add, 1.0, np.abs, b), x, x, out=out, says="op1"
    )
    refused(
        WrongShape,
        "free-size-mismatch",
        lambda a, b, c: stt(c, a, np.add, 1.0, np.add, b),
        x,
        x[:, :1],
        out=out,
        says="operand1",
    )
    error = refused(
        WrongShape, "vector-operand", lambda a, b, c: stt(c, a, np.add, b, np.add, a), x, x, out=out, says="operand0"
    )
    assert error.limit == (4, 1)
    refused(
        WrongShape,
        "partition-mismatch",
        lambda a, b, c: stt(c, a, np.add, b, np.add, a),
        x,
        x[:2, :1],
        out=out,
        says="operand0",
    )
    refused(WrongType, "operand", lambda a, b, c: stt(c, a, np.add, 1.0, np.add, 2.0), x, x, out=out, says="operand1")
    refused(
        WrongArgument,
        "missing-operand",
        lambda a, b, c: stt(c, a, np.add, None, np.add, b),
        x,
        x,
        out=out,
        says="operand0",
    )


# reciprocal


@pytest.mark.parametrize("dtype", [F32, BF16, I32])
def test_reciprocal(dtype):
    x = np.array([[1, 2, 3, -8]], F32).astype(dtype)
    made = run(lambda a, b: isa.reciprocal(dst=b, data=a), x, out=[((1, 4), F32)])
    np.testing.assert_array_equal(made, (1 / x.astype(F32)))
    assert np.isinf(run(lambda a, b: isa.reciprocal(b, a), np.zeros((1, 1), F32), out=[((1, 1), F32)]))[0, 0]


def test_reciprocal_refuses():
    x = np.ones((4, 6), F32)
    refused(WrongShape, "free-size-mismatch", lambda a, b: isa.reciprocal(b, a), x, out=[((4, 5), F32)])
    refused(WrongType, "operand", lambda a, b: isa.reciprocal(b, 2.0), x, out=[((4, 6), F32)])


def test_without_values_the_rules_still_hold():
    x = np.ones((4, 6), F32)

    def body(a, b, c):
        isa.tensor_tensor(c, a, b, np.add)
        isa.scalar_tensor_tensor(c, a, np.add, a[:, 0:1], np.add, b)
        isa.reciprocal(c, a)
        isa.tensor_tensor_scan(c, a, b, a[:, 0:1], np.add, np.add)

    run(body, x, x, out=[((4, 6), F32)], numerics=False)
    refused(
        WrongBuffer,
        "psum-inputs",
        lambda a, b, c: isa.tensor_tensor(c, a, b, np.add),
        x,
        x,
        psum=(0, 1),
        out=[((4, 6), F32)],
        numerics=False,
    )
