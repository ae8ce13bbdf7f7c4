"""Element-wise functions of two operands: agreement with NumPy, broadcasting, result dtypes, refusals."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.together import together
from tests.trnsim.kernels import refused, rng, run
from tests.trnsim.rounded import EACH, rounded, within
from trnsim import isa as nisa, language as nl
from trnsim.errors import WrongArgument, WrongBuffer, WrongDtype, WrongEngine, WrongShape
from trnsim.language.maths import SimulationOnly
from trnsim.language.results import promote

pytestmark = pytest.mark.sim

BF16 = ml_dtypes.bfloat16


def call(fn, *inputs, **options):
    """What the tile returned by ``fn(*tiles)`` holds; it must be a new tile in SBUF unless ``where`` says otherwise."""
    made = []
    where = options.pop("where", nl.sbuf)

    def body(*tiles):
        result = fn(*tiles)
        assert result.buffer == where
        made.append(np.array(result.array))

    run(body, *inputs, **options)
    return made[0]


ARITHMETIC = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
BITS = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


@together("name", ARITHMETIC)
def test_arithmetic_of_tiles_numbers_and_columns(name):
    fn, reference = getattr(nl, name), ARITHMETIC[name]
    x, y = (rng(i).integers(-3, 4, (32, 5, 6)).astype(np.float32) for i in (1, 2))
    column = rng(3).integers(-3, 4, (32, 1)).astype(np.float32)
    wide = column[:, :, None]
    cases = [
        (call(fn, x, y), reference(x, y)),
        (call(lambda t: fn(t, 2.0), x), reference(x, np.float32(2))),
        (call(lambda t: fn(2.0, t), x), reference(np.float32(2), x)),
        (call(fn, x, column), reference(x, wide)),
        (call(fn, column, x), reference(wide, x)),
        (call(fn, x, column.astype(BF16)), reference(x, wide)),
        (call(fn, x[:, :1].copy(), y), reference(x[:, :1], y)),
        (call(fn, x[:, :, :1].copy(), y[:, :1].copy()), reference(x[:, :, :1], y[:, :1])),
    ]
    for got, want in cases:
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, want.astype(np.float32))


@together("name", BITS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32], ids=lambda d: d.__name__)
def test_bits_are_exact(name, dtype):
    fn, reference = getattr(nl, name), BITS[name]
    info = np.iinfo(dtype)
    x, y = (rng(i).integers(info.min, info.max, (16, 9), dtype=dtype) for i in (1, 2))
    column = y[:, :1].copy()
    np.testing.assert_array_equal(call(fn, x, y), reference(x, y))
    np.testing.assert_array_equal(call(fn, x, column), reference(x, column))
    np.testing.assert_array_equal(call(lambda t: fn(t, 5), x), reference(x, dtype(5)))


def test_shifts_and_invert():
    x = rng().integers(0, 2**32, (8, 8), dtype=np.uint32)
    by = rng(1).integers(0, 32, (8, 8), dtype=np.uint32)
    np.testing.assert_array_equal(call(nl.left_shift, x, by), x << by)
    np.testing.assert_array_equal(call(nl.right_shift, x, by), x >> by)
    np.testing.assert_array_equal(call(lambda t: nl.right_shift(t, 7), x), x >> 7)
    np.testing.assert_array_equal(call(nl.invert, x), ~x)


def test_power_and_logical_not():
    x = rng().uniform(0.5, 2, (8, 6)).astype(np.float32)
    y = rng(1).uniform(-2, 2, (8, 6)).astype(np.float32)
    within(call(nl.power, x, y), np.power(rounded(x), y))
    within(call(lambda t: nl.power(t, 2.5), x), np.power(rounded(x), 2.5))
    within(call(lambda t: nl.power(2.0, t), x), np.power(2.0, rounded(x)))
    flags = rng(2).integers(0, 2, (8, 6)).astype(np.float32)
    np.testing.assert_array_equal(call(nl.logical_not, flags), 1 - flags)


@pytest.mark.parametrize(("name", "wins"), [("abs_max", np.greater), ("abs_min", np.less)])
def test_signed_extremes_of_magnitude(name, wins):
    x, y = (rng(i).integers(-3, 4, (16, 5)).astype(np.float32) for i in (1, 2))
    column = y[:, :1].copy()
    for other in (y, column):
        want = np.where(wins(np.abs(x), np.abs(other)), x, other)
        np.testing.assert_array_equal(call(getattr(nl, name), x, other, target="trn3"), want)
    refused(WrongEngine, "generation", lambda a: getattr(nl, name)(a, 1.0), x, target="trn2", says="trn2 lacks")


@settings(max_examples=30, deadline=None)
@given(
    partitions=st.sampled_from([1, 5, 128]),
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    squeeze=st.integers(0, 7),
    dtype=st.sampled_from([np.float32, np.float16, BF16, np.int8, np.int16]),
)
def test_free_dimensions_of_one_broadcast_like_numpy(partitions, shape, squeeze, dtype):
    x = rng(1).integers(-8, 8, (partitions, *shape)).astype(dtype)
    small = [1 if squeeze >> i & 1 else n for i, n in enumerate(shape)]
    y = rng(2).integers(-8, 8, (partitions, *small)).astype(dtype)
    want = x.astype(np.float32) - y.astype(np.float32)
    np.testing.assert_array_equal(call(nl.subtract, x, y).astype(np.float32), want)
    np.testing.assert_array_equal(call(nl.subtract, y, x).astype(np.float32), -want)


def test_int32_tiles_are_exact_on_gpsimd():
    x = np.array([[2**24 + 1, 2**31 - 1, -5]], np.int32)
    np.testing.assert_array_equal(call(nl.add, x, x), x + x)


PROMOTIONS = [
    (nl.int32, nl.float16, nl.float16),
    (nl.uint16, nl.tfloat32, nl.tfloat32),
    (nl.float32, nl.tfloat32, nl.float32),
    (nl.float32, nl.bfloat16, nl.float32),
    (nl.float16, nl.bfloat16, nl.float32),
    (nl.float8_e4m3, nl.float16, nl.float16),
    (nl.float8_e4m3, nl.bfloat16, nl.bfloat16),
    (nl.float8_e4m3, nl.float8_e5m2, nl.bfloat16),
    (nl.int16, nl.int32, nl.int32),
    (nl.uint8, nl.uint16, nl.uint16),
    (nl.uint16, nl.int32, nl.int32),
    (nl.int8, nl.uint8, nl.int16),
    (nl.int8, nl.uint16, nl.int32),
    (nl.int32, nl.uint32, nl.float32),
    (nl.bool_, nl.int8, nl.int16),
    (nl.bfloat16, nl.bfloat16, nl.bfloat16),
]


@together(("a", "b", "wanted"), PROMOTIONS)
def test_two_dtypes_promote(a, b, wanted):
    assert promote(a, b) is wanted or promote(a, b) == wanted
    assert str(promote(b, a)) == str(wanted)


def test_result_dtypes():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert call(nl.add, x, x.astype(BF16)).dtype == np.float32
    assert call(lambda t: nl.add(t, 1), x.astype(BF16)).dtype == BF16
    assert call(lambda t: nl.add(t, 1, dtype=nl.int16), x).dtype == np.int16
    assert call(lambda t: nl.greater(t, 1.0, dtype=nl.uint8), x).dtype == np.uint8
    assert call(lambda t: nl.greater(t, 1.0), x.astype(BF16)).dtype == BF16


def test_the_truth_of_a_comparison():
    def body(x):
        assert nl.equal(x, 1.0)
        assert not nl.equal(x, 2.0)

    run(body, np.ones((4, 4), np.float32))


@pytest.mark.parametrize(("name", "reference"), [("divide", np.divide), ("fmod", np.fmod), ("mod", np.mod)])
def test_division_and_remainders_work_in_simulation_with_a_warning(name, reference):
    fn = getattr(nl, name)
    x, y = (rng(i).uniform(-5, 5, (8, 6)).astype(np.float32) for i in (1, 2))
    with pytest.warns(SimulationOnly, match=f"nl.{name} works in simulation only"):
        got = call(fn, x, y)
    # a remainder is what is left of x, one rounding off
    close = {"rtol": EACH, "atol": 0 if name == "divide" else EACH * 5}
    np.testing.assert_allclose(got, reference(x, y), **close)
    with pytest.warns(SimulationOnly):
        np.testing.assert_allclose(call(lambda t: fn(t, 1.5), x), reference(x, np.float32(1.5)), **close)
    with pytest.warns(SimulationOnly):
        np.testing.assert_allclose(call(lambda t: fn(2.0, t), x), reference(np.float32(2), x), **close)
    with pytest.warns(SimulationOnly):
        np.testing.assert_allclose(call(fn, x, y[:, :1].copy()), reference(x, y[:, :1]), **close)


def test_integer_remainders_are_exact():
    x = np.array([[2**31 - 1, -7, 7, -(2**31)]], np.int32)
    y = np.array([[1000, 3, -3, 7]], np.int32)
    with pytest.warns(SimulationOnly):
        np.testing.assert_array_equal(call(nl.mod, x, y), np.mod(x.astype(np.int64), y))
    with pytest.warns(SimulationOnly):
        np.testing.assert_array_equal(call(nl.fmod, x, y), np.fmod(x.astype(np.int64), y))


def test_operator_constants_are_no_functions():
    for name, hint in (("average", "tensor_partition_reduce"), ("prelu", "activate2"), ("bypass", "activate2")):
        op = getattr(nl, name)
        assert op.__name__ == name
        assert repr(op) == f"nl.{name}"
        with pytest.raises(WrongArgument, match=hint) as caught:
            op(1.0)
        assert caught.value.rule == "operator-constant"


X = np.ones((8, 4), np.float32)


def test_refusals():
    refused(WrongShape, "broadcast", nl.add, X, np.ones((8, 3), np.float32), says=("(8, 4)", "(8, 3)", "equal or 1"))
    refused(WrongShape, "broadcast", nl.add, X, np.ones((8, 2, 2), np.float32), says="(8, 2, 2)")
    found = refused(WrongArgument, "operand", lambda: nl.add(1.0, 2.0), says=("float", "tile"))
    assert found.instruction == "nl.add"
    refused(WrongDtype, "bitvec-dtype", nl.bitwise_and, X, X, says="float32")
    refused(WrongBuffer, "psum-inputs", nl.add, X, X, psum=(0, 1), says="both in psum")

    def far():
        nl.add(nl.zeros((4, 4), nl.float32, buffer=nl.hbm), 1.0)

    refused(WrongBuffer, "buffer", far, says="private_hbm")


def test_functions_serve_as_operators():
    def body(x, out):
        nisa.tensor_tensor(out, x, x, op=nl.multiply)
        nisa.tensor_scalar(out, out, op0=nl.add, operand0=1.0, op1=nl.maximum, operand1=3.0)

    np.testing.assert_array_equal(run(body, 2 * X, out=[((8, 4), nl.float32)]), 5.0)
