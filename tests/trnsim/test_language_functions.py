"""Element-wise functions of one tile: NumPy's meaning, result dtypes, and which engine they need."""

import ml_dtypes
import numpy as np
import pytest
from scipy import special

from tests.together import together
from tests.trnsim.kernels import TARGETS, refused, rng
from tests.trnsim.rounded import EACH
from tests.trnsim.test_language_maths import call
from trnsim import language as nl
from trnsim.errors import WrongBuffer, WrongType

pytestmark = pytest.mark.sim

BF16 = ml_dtypes.bfloat16
expit = special.expit


def softplus(x):
    return np.logaddexp(0, x)


SMOOTH = {
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": expit,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * special.ndtr(x),
    "gelu_dx": lambda x: special.ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi),
    "gelu_apprx_tanh": lambda x: x * expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)),
    "gelu_apprx_sigmoid": lambda x: x * expit(1.702 * x),
    "gelu_apprx_sigmoid_dx": lambda x: expit(1.702 * x) * (1 + 1.702 * x * expit(-1.702 * x)),
    "silu": lambda x: x * expit(x),
    "silu_dx": lambda x: expit(x) * (1 + x * expit(-x)),
    "softplus": softplus,
    "mish": lambda x: x * np.tanh(softplus(x)),
    "erf": special.erf,
    "erf_dx": lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x),
    "square": np.square,
    "sign": np.sign,
    "abs": np.abs,
    "negative": np.negative,
    "reciprocal": np.reciprocal,
    "copy": np.copy,
}


@together("name", SMOOTH)
@pytest.mark.parametrize("target", TARGETS)
def test_functions_of_any_value(name, target):
    x = rng().uniform(-6, 6, (64, 3, 7)).astype(np.float32)
    got = call(getattr(nl, name), x, target=target)
    want = SMOOTH[name](x.astype(np.float64))
    np.testing.assert_allclose(got, want, rtol=EACH, atol=np.finfo(np.float32).tiny)


@pytest.mark.parametrize(
    ("name", "reference"), [("log", np.log), ("sqrt", np.sqrt), ("rsqrt", lambda x: 1 / np.sqrt(x))]
)
def test_functions_of_positive_values(name, reference):
    x = rng().uniform(0.01, 50, (128, 9)).astype(np.float32)
    np.testing.assert_allclose(call(getattr(nl, name), x), reference(x.astype(np.float64)), rtol=EACH, atol=0)


def test_arctan():
    x = rng().uniform(-1.5, 1.5, (16, 9)).astype(np.float32)
    np.testing.assert_allclose(call(nl.arctan, x), np.arctan(x.astype(np.float64)), rtol=EACH)


@pytest.mark.parametrize("reach", [3.0, 100.0, 1e4, 4e5])
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sine_and_cosine_of_large_arguments(name, reach):
    x = rng().uniform(-reach, reach, (128, 64)).astype(np.float32)
    got = call(getattr(nl, name), x)
    # the reduced argument is off by at most four units in the last place of π
    assert np.abs(got - getattr(np, name)(x.astype(np.float64))).max() < 4 * 2.0**-22


def test_sine_near_multiples_of_pi_and_of_other_dtypes():
    x = (np.arange(-20, 21) * np.pi / 2).astype(np.float32)[None]
    np.testing.assert_allclose(call(nl.sin, x), np.sin(x.astype(np.float64)), atol=5e-7)
    np.testing.assert_allclose(call(nl.cos, x), np.cos(x.astype(np.float64)), atol=5e-7)
    for dtype in (BF16, np.float16, np.int32):
        y = np.arange(-40, 40).reshape(2, 40).astype(dtype)
        got = call(lambda t: nl.sin(t, dtype=nl.float32), y)
        np.testing.assert_allclose(got, np.sin(y.astype(np.float64)), atol=5e-7)
    assert call(nl.sin, x.astype(BF16)).dtype == BF16


def test_tan():
    x = rng().uniform(-1.2, 1.2, (16, 9)).astype(np.float32)
    np.testing.assert_allclose(call(nl.tan, x), np.tan(x.astype(np.float64)), rtol=2e-6)


ROUNDING = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}
EDGES = np.array(
    [
        [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, 3.2, -3.7, 1e-30],
        [-1e-30, 8388607.5, -8388607.5, 8388609.0, 3e9, -3e9, 1e38, np.inf, -np.inf, np.nan],
    ],
    np.float32,
)


@pytest.mark.parametrize("name", ROUNDING)
def test_rounding_of_every_size(name):
    x = np.concatenate([EDGES, rng().uniform(-40, 40, EDGES.shape).astype(np.float32)])
    np.testing.assert_array_equal(call(getattr(nl, name), x), ROUNDING[name](x))
    low = x[:, :9].astype(BF16)
    np.testing.assert_array_equal(
        call(getattr(nl, name), low).astype(np.float32), ROUNDING[name](low.astype(np.float32))
    )
    whole = np.array([[2**31 - 1, -5]], np.int32)
    np.testing.assert_array_equal(call(getattr(nl, name), whole), whole)
    assert call(lambda t: getattr(nl, name)(t, dtype=nl.int32), x[1:]).dtype == np.int32


@together("name", [*SMOOTH, "sqrt", "sin", "floor"])
def test_result_dtype_is_the_inputs_or_the_one_asked_for(name):
    fn = getattr(nl, name)
    x = rng().uniform(0.5, 3, (4, 6)).astype(BF16)
    assert call(fn, x).dtype == BF16
    assert call(lambda t: fn(t, dtype=nl.float32), x).dtype == np.float32
    assert call(lambda t: fn(t, nl.float16), x).dtype == np.float16


def test_copy_is_bit_exact_and_converts():
    x = np.array([[2**31 - 1, -(2**31), 2**24 + 1]], np.int32)
    np.testing.assert_array_equal(call(nl.copy, x), x)
    np.testing.assert_array_equal(call(lambda t: nl.copy(t, dtype=nl.float32), x), x.astype(np.float32))
    np.testing.assert_array_equal(call(nl.copy, x.astype(np.float32), psum=(0,)), x.astype(np.float32))


def test_psum_tiles_and_rsqrt():
    x = rng().uniform(0.5, 3, (8, 6)).astype(np.float32)
    for name in ("exp", "sin", "floor", "abs", "reciprocal", "negative", "gelu"):
        call(getattr(nl, name), x, psum=(0,))
    refused(WrongBuffer, "gpsimd-psum", nl.rsqrt, x, psum=(0,), says="GpSimd")


def test_numbers_are_no_tiles():
    found = refused(WrongType, "operand", lambda: nl.exp(1.0), says=("1.0", "nl.load"))
    assert found.instruction == "nl.exp"
