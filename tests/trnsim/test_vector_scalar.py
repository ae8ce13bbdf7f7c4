"""tensor_scalar: two stages with per-partition operands, on three engines."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.together import together
from tests.trnsim.kernels import TARGETS, refused, rng, run
from trnsim import isa, language
from trnsim.errors import NotModelled, WrongArgument, WrongBuffer, WrongDtype, WrongEngine, WrongShape
from trnsim.isa.enums import engine

F32, I8, I16, I32, U8, U16, U32 = (np.dtype(d) for d in ("f4", "i1", "i2", "i4", "u1", "u2", "u4"))
BF16 = np.dtype(ml_dtypes.bfloat16)
OPS = ("add", "subtract", "multiply", "maximum", "minimum", "greater", "equal", "logical_or")


def stage(name, x, y, reverse):
    x, y = (y, x) if reverse else (x, y)
    return getattr(np, name)(x, y).astype(F32)


def tensor_scalar(x, *tiles, out, engine_name="unknown", target="trn2", psum=(), **arguments):
    """Run it; a tile named in an argument as its position stands for that input."""

    def body(a, *rest):
        *given_tiles, dst = rest
        made = {k: given_tiles[v[0]] if isinstance(v, list) else v for k, v in arguments.items()}
        isa.tensor_scalar(dst=dst, data=a, engine=engine[engine_name], **made)

    return run(body, x, *tiles, out=[out], target=target, psum=psum)


@settings(max_examples=60, deadline=None)
@given(
    op0=st.sampled_from(OPS),
    op1=st.sampled_from([None, *OPS]),
    reverse0=st.booleans(),
    reverse1=st.booleans(),
    tile0=st.booleans(),
    tile1=st.booleans(),
    dtype=st.sampled_from([F32, BF16, I16, I32, U8]),
    seed=st.integers(0, 999),
)
def test_two_stages_in_fp32(op0, op1, reverse0, reverse1, tile0, tile1, dtype, seed):
    r = rng(seed)
    x = r.integers(0, 9, (4, 6)).astype(F32).astype(dtype)
    columns = r.normal(size=(2, 4, 1)).astype(F32)
    a = columns[0] if tile0 else F32.type(1.25)
    b = columns[1] if tile1 else F32.type(-2.0)
    arguments = {"op0": op0, "operand0": [0] if tile0 else 1.25, "reverse0": reverse0}
    expected = stage(op0, x.astype(F32), a, reverse0)
    if op1 is not None:
        arguments |= {"op1": op1, "operand1": [1] if tile1 else -2, "reverse1": reverse1}
        expected = stage(op1, expected, b, reverse1)
    made = tensor_scalar(x, *columns, out=((4, 6), F32), **arguments)
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_docstring_shapes_views_and_psum(target):
    r = rng(1)
    x = r.normal(size=(8, 3, 4)).astype(F32)
    c = r.normal(size=(8, 1)).astype(F32)

    def body(a, s, b):
        isa.tensor_scalar(dst=b, data=a.permute((0, 2, 1)), op0=np.subtract, operand0=s, op1=np.multiply, operand1=3.0)
        isa.tensor_scalar(dst=b, data=b, op0=np.add, operand0=1.0)

    made = run(body, x, c, psum=(0,), out=[((8, 12), F32)], target=target)
    np.testing.assert_array_equal(made, (x.transpose(0, 2, 1).reshape(8, 12) - c) * F32.type(3) + F32.type(1))


def test_no_rounding_between_stages_and_one_at_the_end():
    x = np.array([[1.0]], BF16)
    made = tensor_scalar(x, out=((1, 1), BF16), op0=np.add, operand0=2.0**-20, op1=np.subtract, operand1=1.0)
    assert float(made[0, 0]) == 2.0**-20


def test_integers_above_two_to_the_24_round():
    x = np.array([[2**24 + 1]], I32)
    assert tensor_scalar(x, out=((1, 1), I32), op0=np.add, operand0=0.0).tolist() == [[2**24]]


@together("name", ["abs", "reciprocal", "rsqrt"])
@pytest.mark.parametrize("nothing", [None, 0, 0.0])
def test_unary_operators_take_nothing(name, nothing):
    x = np.array([[0.25, 4.0]], F32)
    expected = {"abs": [0.25, 4.0], "reciprocal": [4.0, 0.25], "rsqrt": [2.0, 0.5]}[name]
    assert tensor_scalar(x, out=((1, 2), F32), op0=name, operand0=nothing).tolist() == [expected]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("square", [4.0, 9.0]), ("relu", [0.0, 3.0]), ("abs_max", [-2.0, 3.0]), ("abs_min", [1.0, 1.0])],
)
def test_operators_of_trn3(name, expected):
    x = np.array([[-2.0, 3.0]], F32)
    operand = None if name in ("square", "relu") else 1.0
    assert tensor_scalar(x, out=((1, 2), F32), op0=name, operand0=operand, target="trn3").tolist() == [expected]
    for target in ("trn1", "trn2"):
        error = refused(
            WrongEngine,
            "generation",
            lambda a, b: isa.tensor_scalar(b, a, name, operand),
            x,
            out=[((1, 2), F32)],
            target=target,
            says=target,
        )
        assert error.limit == "trn3"


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.sampled_from([U8, I8, U16, I16, U32, I32]),
    op0=st.sampled_from(["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]),
    op1=st.sampled_from([None, "bitwise_and", "bitwise_xor", "left_shift", "right_shift", "invert"]),
    tile=st.booleans(),
    seed=st.integers(0, 999),
)
def test_bit_stages_are_exact(dtype, op0, op1, tile, seed):
    r = rng(seed)
    words = np.dtype(f"u{dtype.itemsize}")
    width = 8 * dtype.itemsize
    top = np.iinfo(words).max
    x = r.integers(0, top, (4, 6), words, endpoint=True)
    shift0, shift1 = "shift" in op0, op1 is not None and "shift" in op1
    c = r.integers(0, width if shift0 else int(top) + 1, (4, 1), np.int64).astype(words)
    second = int(r.integers(0, width if shift1 else int(top) + 1))
    expected = getattr(np, op0)(x, c if tile else c[0, 0])
    arguments = {"op0": op0, "operand0": [0] if tile else int(c[0, 0])}
    if op1 == "invert":
        arguments |= {"op1": op1}
        expected = ~expected
    elif op1 is not None:
        arguments |= {"op1": op1, "operand1": second}
        expected = getattr(np, op1)(expected, words.type(second))
    made = tensor_scalar(x.view(dtype), c.view(dtype), out=((4, 6), dtype), **arguments)
    np.testing.assert_array_equal(made.view(words), expected)


def test_bits_reversed_negative_and_cut():
    x = np.array([[0, 3, 31]], U32)
    assert tensor_scalar(x, out=((1, 3), U32), op0=np.left_shift, operand0=1, reverse0=True).tolist() == [
        [1, 8, 1 << 31]
    ]
    assert tensor_scalar(x, out=((1, 3), U32), op0=np.bitwise_xor, operand0=-1).tolist() == [
        [2**32 - 1, 2**32 - 4, 2**32 - 32]
    ]
    wide = np.array([[0xABCD1234]], U32)
    assert tensor_scalar(
        wide, out=((1, 1), U8), op0=np.right_shift, operand0=8, op1=np.bitwise_and, operand1=0xFF
    ).tolist() == [[0x12]]


@together(
    ("arguments", "engine_name", "target", "expected"),
    [
        ({"op0": "add", "operand0": 1.0}, "unknown", "trn2", "vector"),
        ({"op0": "rsqrt", "operand0": 0.0}, "unknown", "trn2", "gpsimd"),
        ({"op0": "add", "operand0": 1.0, "op1": "rsqrt"}, "unknown", "trn1", "gpsimd"),
        ({"op0": "power", "operand0": 2.0}, "gpsimd", "trn2", "gpsimd"),
        ({"op0": "power", "operand0": 2.0}, "vector", "trn2", "vector"),
        ({"op0": "multiply", "operand0": 2.0, "op1": "add", "operand1": 1.0}, "scalar", "trn2", "scalar"),
        ({"op0": "multiply", "operand0": 2.0}, "scalar", "trn2", "scalar"),
        ({"op0": "add", "operand0": 2.0}, "scalar", "trn2", "scalar"),
        ({"op0": "maximum", "operand0": 2.0}, "scalar", "trn3", "scalar"),
    ],
)
def test_engines(arguments, engine_name, target, expected):
    stream = []
    run(
        lambda a, b: isa.tensor_scalar(dst=b, data=a, engine=engine[engine_name], **arguments),
        np.ones((2, 3), F32),
        out=[((2, 3), F32)],
        target=target,
        trace=stream,
    )
    record = stream[-1]
    assert (record.engine, record.name) == (expected, "tensor_scalar")
    assert record.cost["op0"] == arguments["op0"]


def refuse(error, rule, x=None, out=((4, 6), F32), target="trn2", psum=(), says=(), tile=None, **arguments):
    data = np.ones((4, 6), F32) if x is None else x
    operand = np.ones((4, 1), F32) if tile is None else tile

    def body(a, t, b):
        made = {k: t if v is ... else v for k, v in arguments.items()}
        isa.tensor_scalar(dst=b, data=a, **made)

    return refused(error, rule, body, data, operand, out=[out], target=target, psum=psum, says=says)


def test_engines_refuse():
    error = refuse(
        WrongEngine, "scalar-operators", op0="subtract", operand0=1.0, engine="scalar", says=("nl.subtract", "trn2")
    )
    assert ("multiply", "add") in error.limit
    refuse(WrongEngine, "scalar-operators", op0="add", operand0=1.0, op1="multiply", operand1=2.0, engine="scalar")
    refuse(WrongEngine, "engine", op0="multiply", operand0=1.0, engine="scalar", target="trn1", says="activation")
    refuse(WrongEngine, "engine", op0="add", operand0=1.0, engine="gpsimd", says="rsqrt")
    refuse(WrongEngine, "engine", op0="rsqrt", operand0=None, engine="vector", says="GpSimd")
    refuse(
        WrongEngine,
        "engine",
        x=np.ones((4, 6), I32),
        out=((4, 6), I32),
        op0="bitwise_and",
        operand0=1,
        engine="gpsimd",
        says="Vector Engine",
    )
    refuse(WrongEngine, "engine", op0="add", operand0=1.0, engine="sync")
    refuse(WrongBuffer, "gpsimd-psum", op0="rsqrt", operand0=0, psum=(0,), says="data")
    refuse(WrongBuffer, "gpsimd-psum", op0="power", operand0=..., engine="gpsimd", psum=(1,), says="operand0")


def test_operands_refuse():
    error = refuse(
        WrongDtype,
        "operand-dtype",
        tile=np.ones((4, 1), BF16),
        op0="add",
        operand0=...,
        says=("operand0", "bfloat16", "float32"),
    )
    assert (error.got, error.limit) == ("bfloat16", ["float32"])
    refuse(
        WrongDtype,
        "operand-dtype",
        tile=np.ones((4, 1), I32),
        op0="add",
        operand0=1.0,
        op1="multiply",
        operand1=...,
        says="operand1",
    )
    error = refuse(WrongShape, "vector-operand", tile=np.ones((4, 2), F32), op0="add", operand0=...)
    assert (error.got, error.limit) == ((4, 2), (4, 1))
    refuse(WrongShape, "partition-mismatch", tile=np.ones((2, 1), F32), op0="add", operand0=..., says="operand0")
    refuse(WrongArgument, "missing-operand", op0="add", operand0=None, says="operand0")
    refuse(WrongArgument, "missing-operand", op0="add", operand0=1.0, op1="add", says="operand1")
    refuse(WrongArgument, "unused-operand", op0="add", operand0=1.0, operand1=2.0, says="operand1")
    refuse(WrongArgument, "unused-operand", op0="add", operand0=1.0, reverse1=True, says="reverse1")
    error = refuse(WrongArgument, "unary-operand", op0="abs", operand0=2.0, says=("nl.abs", "2.0"))
    assert error.limit == (None, 0)
    refuse(WrongArgument, "unary-operand", op0="abs", operand0=..., says="in1")
    refuse(WrongArgument, "unary-operand", op0="abs", operand0=None, reverse0=True)
    refuse(WrongArgument, "scalar-operand", op0="add", operand0="1", says="operand0")
    refuse(WrongArgument, "scalar-operand", op0="add", operand0=isa.VirtualRegister(3), says="register_store")


def test_operators_refuse():
    words = np.ones((4, 6), I32)
    error = refuse(
        WrongArgument,
        "operator-kind",
        x=words,
        out=((4, 6), I32),
        op0="bitwise_and",
        operand0=1,
        op1="add",
        operand1=1,
        says=("bitvec", "arithmetic"),
    )
    assert error.got == ("bitvec", "arithmetic")
    refuse(WrongArgument, "first-operator", op0="add", operand0=1.0, op1="relu", target="trn3", says="op0")
    refuse(WrongDtype, "bitvec-dtype", op0="bitwise_and", operand0=1, says=("float32", "view"))
    refuse(WrongDtype, "bitvec-dtype", x=words, op0="bitwise_and", operand0=1, says="dst")
    refuse(WrongDtype, "bitvec-dtype", x=words, out=((4, 6), I32), op0="bitwise_and", operand0=1.0, says="operand0")
    refuse(WrongDtype, "bitvec-dtype", x=words, out=((4, 6), I32), op0="bitwise_and", operand0=..., says="operand0")
    refuse(
        WrongDtype,
        "bitvec-width",
        x=words.astype(U8),
        out=((4, 6), U8),
        tile=np.ones((4, 1), I32),
        op0="bitwise_and",
        operand0=...,
        says=("int32", "uint8"),
    )
    refuse(
        WrongArgument,
        "bitvec-immediate",
        x=words.astype(U8),
        out=((4, 6), U8),
        op0="bitwise_and",
        operand0=0x100,
        says="0x100",
    )
    error = refuse(NotModelled, "shift-amount", x=words, out=((4, 6), I32), op0="left_shift", operand0=32)
    assert (error.got, error.limit) == (32, 31)
    refuse(WrongShape, "free-size-mismatch", out=((4, 5), F32), op0="add", operand0=1.0)
    refuse(WrongArgument, "operator", op0=np.divide, operand0=2.0, says="reciprocal")


def test_gathered_integers_are_no_address_arithmetic():
    def body(a, i, b):
        isa.tensor_scalar(dst=b, data=a.indirect(i, num_elem=4), op0=np.add, operand0=1.0)

    index = np.zeros((16, 1), U16)
    refused(WrongArgument, "indirect-address", body, np.ones((16, 8), I32), index, out=[((16, 4), I32)], target="trn3")
    made = run(body, np.arange(128, dtype=F32).reshape(16, 8), index, out=[((16, 4), F32)], target="trn3")
    np.testing.assert_array_equal(made, np.repeat(8 * np.arange(16)[:, None] + 1, 4, axis=1))


def test_operands_are_not_gathered():
    def body(a, i, b):
        isa.tensor_scalar(dst=b, data=a, op0=np.add, operand0=a.indirect(i, num_elem=1))

    refused(
        WrongArgument,
        "indirect-operand",
        body,
        np.ones((16, 8), F32),
        np.zeros((16, 1), U16),
        out=[((16, 8), F32)],
        target="trn3",
        says="operand0",
    )


def test_without_values_the_rules_still_hold():
    x, c, w = np.ones((4, 6), F32), np.ones((4, 1), F32), np.ones((4, 6), I32)

    def body(a, s, i, b, d):
        isa.tensor_scalar(b, a, np.add, s, False, np.multiply, 2.0)
        isa.tensor_scalar(d, i, np.bitwise_and, 3, op1=np.left_shift, operand1=2)

    run(body, x, c, w, out=[((4, 6), F32), ((4, 6), I32)], numerics=False)
    refused(
        WrongShape,
        "vector-operand",
        lambda a, b: isa.tensor_scalar(b, a, np.add, a),
        x,
        out=[((4, 6), F32)],
        numerics=False,
    )


def test_results_land_in_psum():
    x = rng().normal(size=(4, 6)).astype(F32)
    made = tensor_scalar(x, out=((4, 6), F32, language.psum), op0=np.multiply, operand0=2.0)
    np.testing.assert_array_equal(made, 2 * x)
