"""Operators: how kernels may spell them, what they compute, where they are legal."""

import operator as python

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.together import together
from trnsim.errors import NotModelled, WrongArgument, WrongDtype, WrongEngine
from trnsim.isa import alu
from trnsim.isa.words import bits, immediate_bits, resize
from trnsim.targets import TARGETS
from trnsim.tensors.dtypes import to_f32

# the reference's operator table: name, legal as a reduction
BITVEC = {
    "invert": False,
    "bitwise_and": True,
    "bitwise_or": True,
    "bitwise_xor": True,
    "left_shift": False,
    "right_shift": False,
}
ARITHMETIC = {
    "add": True,
    "subtract": True,
    "multiply": True,
    "maximum": True,
    "minimum": True,
    "equal": False,
    "not_equal": False,
    "greater_equal": False,
    "greater": False,
    "less_equal": False,
    "less": False,
    "logical_and": True,
    "logical_or": True,
    "logical_xor": True,
    "power": False,
    "abs_max": False,
    "abs_min": False,
}
UNARY = ("abs", "square", "relu", "rsqrt", "reciprocal")

# meanings in Python's own arithmetic, on float64 values that are exact in fp32
MEANING = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "maximum": max,
    "minimum": min,
    "equal": lambda x, y: float(x == y),
    "not_equal": lambda x, y: float(x != y),
    "greater_equal": lambda x, y: float(x >= y),
    "greater": lambda x, y: float(x > y),
    "less_equal": lambda x, y: float(x <= y),
    "less": lambda x, y: float(x < y),
    "logical_and": lambda x, y: float(bool(x) and bool(y)),
    "logical_or": lambda x, y: float(bool(x) or bool(y)),
    "logical_xor": lambda x, y: float(bool(x) != bool(y)),
    "abs_max": lambda x, y: x if abs(x) > abs(y) else y,
    "abs_min": lambda x, y: x if abs(x) < abs(y) else y,
}


def named(name):
    """What a kernel passes: a function that happens to have this name."""

    def function(x, y=None):
        return x

    function.__name__ = name
    return function


def test_the_table_is_the_references():
    assert set(alu.OPERATORS) == set(BITVEC) | set(ARITHMETIC) | set(UNARY)
    for name, reduces in {**BITVEC, **ARITHMETIC, **dict.fromkeys(UNARY, False)}.items():
        found = alu.OPERATORS[name]
        assert (found.ufunc is not None) == reduces, name
        assert found.bitvec == (name in BITVEC)
        assert found.arity == (1 if name in (*UNARY, "invert") else 2)
        assert found.since == (4 if name in ("abs_max", "abs_min", "square", "relu") else 2)


@together("name", [*BITVEC, *ARITHMETIC, *UNARY])
def test_functions_and_strings_name_an_operator(name):
    for spelling in (named(name), name, f"nl.{name}", f"nki.language.{name}", alu.OPERATORS[name]):
        assert alu.operator(spelling).name == name


@together(
    ("spelling", "name"),
    [
        (np.add, "add"),
        (np.subtract, "subtract"),
        (np.multiply, "multiply"),
        (np.max, "maximum"),
        (np.amin, "minimum"),
        (np.abs, "abs"),
        (np.power, "power"),
        (np.greater_equal, "greater_equal"),
        (np.bitwise_and, "bitwise_and"),
        (np.invert, "invert"),
        (np.left_shift, "left_shift"),
        (max, "maximum"),
        (python.sub, "subtract"),
        (python.xor, "bitwise_xor"),
        (python.lt, "less"),
    ],
)
def test_numpy_and_python_spellings(spelling, name):
    assert alu.operator(spelling).name == name


@together(
    ("op", "teaches"),
    [
        (np.divide, "reciprocal"),
        (np.fmod, "remainder"),
        ("exp", "nisa.activation"),
        ("logical_not", "logical_xor"),
        (None, "nl.add"),
        ("nonsense", "nl.add"),
    ],
)
def test_what_no_engine_computes_is_refused_with_a_way_out(op, teaches):
    with pytest.raises(WrongArgument) as caught:
        alu.operator(op, "op0")
    assert caught.value.rule == "operator"
    assert "add" in caught.value.limit
    assert teaches in str(caught.value)
    assert "op0" in str(caught.value)


def test_arity_kind_reduction_and_generation_are_checked():
    with pytest.raises(WrongArgument) as caught:
        alu.binary("abs", "op")
    assert (caught.value.rule, caught.value.got) == ("operator-arity", "abs")
    with pytest.raises(WrongArgument) as caught:
        alu.reduction("power", "op")
    assert caught.value.rule == "reduction-operator"
    assert set(caught.value.limit) == {n for n, r in {**BITVEC, **ARITHMETIC}.items() if r}
    with pytest.raises(WrongArgument) as caught:
        alu.reduction("subtract", "reduce_op", ("add", "maximum"))
    assert caught.value.limit == ["add", "maximum"]
    with pytest.raises(WrongArgument) as caught:
        alu.arithmetic(alu.binary("bitwise_or"), "op1")
    assert caught.value.rule == "operator-kind"
    for name in ("abs_max", "abs_min", "square", "relu"):
        with pytest.raises(WrongEngine) as engine:
            alu.generation(alu.operator(name), TARGETS["trn2"], "op0")
        assert (engine.value.rule, engine.value.got, engine.value.limit) == ("generation", "trn2", "trn3")
        assert alu.generation(alu.operator(name), TARGETS["trn3"], "op0").name == name


small = st.integers(-2000, 2000).map(float)


@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(small, small), min_size=1, max_size=8), name=st.sampled_from(sorted(MEANING)))
def test_arithmetic_is_what_python_says(pairs, name):
    x, y = (np.array(v, np.float32)[None] for v in zip(*pairs, strict=True))
    made = alu.binary(name).fn(x, y)
    assert made.dtype == np.float32
    assert made[0].tolist() == [MEANING[name](a, b) for a, b in pairs]


def test_unary_operators():
    x = np.array([[-4.0, 0.25, 9.0]], np.float32)
    assert alu.operator("abs").fn(x).tolist() == [[4.0, 0.25, 9.0]]
    assert alu.operator("square").fn(x).tolist() == [[16.0, 0.0625, 81.0]]
    assert alu.operator("relu").fn(x).tolist() == [[0.0, 0.25, 9.0]]
    assert alu.operator("reciprocal").fn(x)[0].tolist() == [-0.25, 4.0, float(np.float32(1) / np.float32(9))]
    with np.errstate(invalid="ignore"):
        made = alu.operator("rsqrt").fn(x)[0]
    assert np.isnan(made[0])
    assert made[1:].tolist() == [2.0, float(np.float32(1 / 3))]


def test_abs_max_and_abs_min_keep_the_sign_and_break_ties_to_the_right():
    x, y = np.array([[-5.0, 1.0, 2.0]], np.float32), np.array([[3.0, -1.0, -7.0]], np.float32)
    assert alu.binary("abs_max").fn(x, y).tolist() == [[-5.0, -1.0, -7.0]]
    assert alu.binary("abs_min").fn(x, y).tolist() == [[3.0, -1.0, 2.0]]


def test_fp32_arithmetic_loses_integers_above_two_to_the_24():
    x = np.array([[2**24 + 1]], np.int32)
    one = np.array([[1]], np.int32)
    assert alu.binary("add").fn(to_f32(x), to_f32(one)).tolist() == [[2.0**24]]
    assert alu.integer(alu.binary("add"), x, one, x.dtype).tolist() == [[2**24 + 2]]


WORDS = st.integers(0, 2**32 - 1)


@settings(max_examples=80, deadline=None)
@given(
    a=WORDS,
    b=WORDS,
    left=st.sampled_from("iu"),
    right=st.sampled_from("iu"),
    out=st.sampled_from("iu"),
    name=st.sampled_from(["add", "subtract", "multiply", "maximum", "less"]),
)
def test_gpsimd_integers_are_exact_modulo_two_to_the_32(a, b, left, right, out, name):
    def value(word, kind):
        return word - 2**32 if kind == "i" and word >= 2**31 else word

    def array(word, kind):
        return np.array([[word]], np.uint32).view(f"{kind}4")

    x, y = value(a, left), value(b, right)
    expected = int(MEANING[name](x, y))
    made = alu.integer(alu.binary(name), array(a, left), array(b, right), np.dtype(f"{out}4"))
    assert made.dtype == np.dtype(f"{out}4")
    assert int(made[0, 0]) == value(expected % 2**32, out)


def test_power_and_mixed_dtypes_stay_fp32_on_gpsimd():
    word, short = np.dtype(np.int32), np.dtype(np.int16)
    assert not alu.native(alu.binary("power"), word, word)
    assert not alu.native(alu.binary("add"), word, short)
    assert alu.native(alu.binary("add"), word, word)


DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]


@settings(max_examples=80, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(DTYPES), name=st.sampled_from(sorted(BITVEC)))
def test_bitvec_works_on_bit_patterns(data, dtype, name):
    width = np.dtype(dtype).itemsize * 8
    mask = 2**width - 1
    a = data.draw(st.integers(0, mask))
    b = data.draw(st.integers(0, width - 1 if name.endswith("shift") else mask))
    meaning = {
        "invert": lambda: ~a,
        "bitwise_and": lambda: a & b,
        "bitwise_or": lambda: a | b,
        "bitwise_xor": lambda: a ^ b,
        "left_shift": lambda: a << b,
        "right_shift": lambda: a >> b,
    }
    x, y = (np.array([[v]], f"u{width // 8}").view(dtype) for v in (a, b))
    made = alu.bitvec(alu.operator(name), x, None if name == "invert" else y, x.dtype)
    assert made.dtype == np.dtype(dtype)
    assert int(bits(made)[0, 0]) == meaning[name]() & mask


def test_right_shift_is_logical():
    x, one = np.array([[-8]], np.int32), np.array([[1]], np.int32)
    assert alu.bitvec(alu.binary("right_shift"), x, one, x.dtype).tolist() == [[0x7FFFFFFC]]


def test_a_shift_by_the_word_size_is_not_documented():
    with pytest.raises(NotModelled) as caught:
        alu.bitvec(alu.binary("left_shift"), np.array([[1]], np.int16), np.array([[16]], np.int16), np.dtype("i2"))
    assert (caught.value.rule, caught.value.got, caught.value.limit) == ("shift-amount", 16, 15)


def test_words_of_other_widths_extend_by_their_sign_and_are_cut():
    narrow = np.array([[-1]], np.int8)
    wide = alu.bitvec(alu.binary("bitwise_and"), narrow, np.array([[0x1234]], np.uint16), np.dtype("u4"))
    assert wide.tolist() == [[0x1234]]
    assert resize(np.array([[0x80]], np.uint8), np.dtype("i1"), np.dtype("i4")).tolist() == [[-128]]
    assert resize(np.array([[0x1FF]], np.uint16), np.dtype("u2"), np.dtype("u1")).tolist() == [[0xFF]]


def test_immediates_are_integers_that_fit():
    assert int(immediate_bits(-1, 2, "operand0")) == 0xFFFF
    with pytest.raises(WrongDtype) as caught:
        immediate_bits(3.0, 4, "operand0")
    assert (caught.value.rule, caught.value.got) == ("bitvec-dtype", "float")
    with pytest.raises(WrongArgument) as wide:
        immediate_bits(256, 1, "operand1")
    assert (wide.value.rule, wide.value.got, wide.value.limit) == ("bitvec-immediate", 256, 8)
    assert "operand1" in str(wide.value)


def test_reductions_fold_in_order():
    x = np.array([[10.0, 3.0, 2.0]], np.float32)
    expected = {
        "add": 15.0,
        "subtract": 5.0,
        "multiply": 60.0,
        "maximum": 10.0,
        "minimum": 2.0,
        "logical_and": 1.0,
        "logical_xor": 1.0,
    }
    for name, value in expected.items():
        made = alu.reduce(alu.reduction(name), x)
        assert made.dtype == np.float32
        assert made.tolist() == [value], name
    words = np.array([[12, 10]], np.int32)
    assert alu.reduce(alu.reduction("bitwise_and"), words).tolist() == [8]
    assert alu.reduce(alu.reduction("bitwise_or"), words).tolist() == [14]
    assert alu.reduce(alu.reduction("bitwise_xor"), words).tolist() == [6]
