"""Scalar Engine: activation functions, scale and bias, the accumulators, and what it refuses."""

import warnings

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special

from tests.together import together
from tests.trnsim.kernels import TARGETS, refused, rng, run
from tests.trnsim.rounded import rounded, within
from trnsim import isa as nisa, language as nl
from trnsim.errors import ReadUninitialized, WrongArgument, WrongBuffer, WrongCall, WrongDtype, WrongEngine, WrongShape
from trnsim.isa.activations import FUNCTIONS, OutOfRange

pytestmark = pytest.mark.sim

ROOT_2PI = np.sqrt(2 * np.pi)
expit = special.expit

# the mathematical functions in float64, from SciPy and NumPy
REFERENCE = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "sigmoid": expit,
    "relu": lambda x: np.where(x > 0, x, 0),
    "prelu": lambda x: np.where(x > 0, x, 0),
    "gelu": lambda x: x * special.ndtr(x),
    "gelu_dx": lambda x: special.ndtr(x) + x * np.exp(-x * x / 2) / ROOT_2PI,
    "gelu_apprx_tanh": lambda x: x * expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)),
    "gelu_apprx_sigmoid": lambda x: x * expit(1.702 * x),
    "gelu_apprx_sigmoid_dx": lambda x: expit(1.702 * x) * (1 + 1.702 * x * expit(-1.702 * x)),
    "silu": lambda x: x * expit(x),
    "silu_dx": lambda x: expit(x) * (1 + x * expit(-x)),
    "tanh": np.tanh,
    "softplus": lambda x: np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)),
    "erf": special.erf,
    "erf_dx": lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x),
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "arctan": np.arctan,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sign": np.sign,
    "abs": np.abs,
}
POSITIVE = ("log", "sqrt", "rsqrt", "reciprocal")
# fp32 evaluation: one rounding of the result and, for NumPy's fp32 kernels, up to four units in the last place
ULP = 2.0**-23


def inputs(name, shape=(128, 48), seed=1):
    x = rng(seed).uniform(-9, 9, shape)
    if name in POSITIVE:
        x = np.abs(x) + 1e-3
    elif name in ("sin", "arctan"):
        x = x / 9 * (np.pi if name == "sin" else np.pi / 2)
    return x.astype(np.float32)


def activate(op, **more):
    def body(*tiles):
        *operands, dst = tiles
        nisa.activation(dst=dst, op=op, data=operands[0], **more)

    return body


def test_the_table_has_every_documented_function():
    assert set(FUNCTIONS) == set(REFERENCE)
    for name in FUNCTIONS:
        assert hasattr(nl, name)


@together("name", REFERENCE)
def test_every_function_is_the_mathematical_one(name):
    x = inputs(name)
    got = run(activate(getattr(nl, name)), x, out=[(x.shape, nl.float32)])
    want = REFERENCE[name](x.astype(np.float64))
    assert np.all(np.abs(got - want) <= 4 * ULP * np.abs(want) + 1e-37)


@together("name", [n for n in REFERENCE if not FUNCTIONS[n].narrow])
def test_unbounded_functions_have_finite_limits_at_infinity(name):
    x = np.array([[np.inf, -np.inf, 3e38, -3e38, 0.0, np.nan]], np.float32)
    got = run(activate(getattr(nl, name)), x, out=[(x.shape, nl.float32)])[0]
    assert not np.isnan(got[:5]).any()
    if name not in ("sign",):
        assert np.isnan(got[5])
    if name in ("gelu", "silu", "mish", "gelu_apprx_tanh", "gelu_apprx_sigmoid"):
        assert got[0] == np.inf
        assert got[1] == 0.0
    if name.endswith("_dx") and name != "erf_dx":
        assert (got[0], got[1]) == (1.0, 0.0)


def test_erf_and_gelu_keep_relative_accuracy_in_their_tails():
    x = np.concatenate([-np.logspace(-30, 0.9, 500), np.logspace(-30, 0.9, 500), np.linspace(-9, -4, 1000)])
    x = x.astype(np.float32)[None]
    for name in ("erf", "gelu", "gelu_dx"):
        got = run(activate(name), x, out=[(x.shape, nl.float32)])
        want = REFERENCE[name](x.astype(np.float64))
        assert np.all(np.abs(got - want) <= 4 * ULP * np.abs(want) + 1e-37), name


def test_sin_beyond_pi_is_the_cubic_hardware_extrapolates():
    x = np.array([[9.0, -9.0, 4.0, 100.0]], np.float32)
    with pytest.warns(OutOfRange, match="sin: values outside"):
        got = run(activate(nl.sin), x, out=[(x.shape, nl.float32)])[0]
    assert got[0] == pytest.approx(27.65, abs=0.01)
    t = np.abs(x[0].astype(np.float64)) - np.pi
    np.testing.assert_allclose(got, np.sign(x[0]) * (t**3 / 6 - t), rtol=1e-6)


@together(
    ("name", "bad", "good"),
    [
        ("log", 2.0**-65, 2.0**-64),
        ("log", -1.0, 1.0),
        ("arctan", 1.6, 1.5),
        ("sqrt", 2.0**-117, 2.0**-116),
        ("rsqrt", 2.0**98, 2.0**97),
        ("reciprocal", -(2.0**43), -(2.0**42)),
        ("reciprocal", 2.0**-43, 2.0**-42),
    ],
)
def test_narrow_functions_warn_outside_their_range_and_stay_mathematical(name, bad, good):
    for value, expected in ((bad, True), (good, False)):
        x = np.full((2, 3), value, np.float32)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = run(activate(getattr(nl, name)), x, out=[(x.shape, nl.float32)])
        assert any(w.category is OutOfRange for w in caught) is expected
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(got, REFERENCE[name](x.astype(np.float64)), rtol=4 * ULP)


def test_scale_and_bias_take_numbers_and_columns():
    x = rng().standard_normal((128, 20)).astype(np.float32)
    scale, bias = (rng(i).standard_normal((128, 1)).astype(np.float32) for i in (1, 2))

    def body(x, scale, bias, a, b, c):
        nisa.activation(a, nl.exp, x, scale=scale, bias=bias)
        nisa.activation(b, nl.exp, x, bias, 0.5)
        nisa.activation(dst=c, op=nl.exp, data=x, scale=-1, bias=0.25)

    made = run(body, x, scale, bias, out=[((128, 20), nl.float32)] * 3)
    for got, want in zip(made, (x * scale + bias, x * np.float32(0.5) + bias, -x + np.float32(0.25)), strict=True):
        np.testing.assert_allclose(got, np.exp(want.astype(np.float64)), rtol=4 * ULP)


BIAS_DTYPES = [nl.bfloat16, nl.float16, nl.int8, nl.int32, nl.uint16, nl.float8_e4m3, nl.float8_e5m2]


@together("dtype", BIAS_DTYPES)
def test_bias_may_have_any_dtype(dtype):
    x = rng().standard_normal((32, 8)).astype(np.float32)
    bias = rng(1).integers(0, 5, (32, 1)).astype(dtype)

    def body(x, bias, out):
        nisa.activation(dst=out, op=nl.copy, data=x, bias=bias)

    np.testing.assert_array_equal(run(body, x, bias, out=[((32, 8), nl.float32)]), x + bias.astype(np.float32))


DTYPES = [
    nl.float32, nl.bfloat16, nl.float16, nl.float8_e4m3, nl.float8_e5m2, nl.float8_e4m3fn,
    nl.int8, nl.int16, nl.int32, nl.uint8, nl.uint16, nl.uint32,
]  # fmt: skip


@together("source", DTYPES)
@pytest.mark.parametrize("target", [nl.float32, nl.bfloat16, nl.int16, nl.uint8], ids=str)
def test_any_dtype_goes_in_and_out_through_fp32(source, target):
    x = rng().integers(0, 100, (16, 12)).astype(np.float32).astype(source)

    def body(x, out):
        nisa.activation(dst=out, op=nl.square, data=x, scale=0.125)

    got = run(body, x, out=[((16, 12), target)])
    want = np.square(x.astype(np.float32) * np.float32(0.125))
    if target.kind in "iu":
        info = np.iinfo(target)
        want = np.clip(np.rint(want), info.min, info.max)
    np.testing.assert_array_equal(got, want.astype(target))


@settings(max_examples=40, deadline=None)
@given(
    partitions=st.sampled_from([1, 3, 31, 32, 64, 127, 128]),
    free=st.sampled_from([(1,), (7,), (4, 5), (2, 3, 4), (1, 9), (600,)]),
    step=st.sampled_from([1, 2, 3]),
    psum=st.booleans(),
    op=st.sampled_from(["exp", "gelu", "relu", "tanh", "copy"]),
    scale=st.floats(-2, 2, width=32),
    target=st.sampled_from(TARGETS),
)
def test_activation_of_views_in_either_memory(partitions, free, step, psum, op, scale, target):
    x = rng(partitions).uniform(-3, 3, (partitions, *free)).astype(np.float32)

    def body(x, out):
        last = x.ndim - 1
        view = x.slice(last, 0, x.shape[last], step)
        room = out.slice(last, 0, out.shape[last], step)
        nisa.memset(dst=out, value=7.0)
        nisa.activation(dst=room, op=op, data=view, scale=scale)

    got = run(
        body, x, out=[(x.shape, nl.float32, nl.psum if psum else nl.sbuf)], psum=(0,) if psum else (), target=target
    )
    want = np.full(x.shape, 7.0)
    want[..., ::step] = REFERENCE[op]((x * np.float32(scale)).astype(np.float64))[..., ::step]
    np.testing.assert_allclose(got, want, rtol=4 * ULP, atol=1e-30)


def test_ranks_may_differ_when_element_counts_agree():
    x = rng().standard_normal((8, 3, 4)).astype(np.float32)
    np.testing.assert_array_equal(
        run(activate(nl.relu), x, out=[((8, 12), nl.float32)]), np.maximum(x, 0).reshape(8, 12)
    )


def test_in_place_activation():
    x = rng().standard_normal((8, 12)).astype(np.float32)

    def body(x, out):
        nisa.activation(dst=x, op=nl.copy, data=x, scale=2.0)
        nisa.tensor_copy(dst=out, src=x)

    np.testing.assert_array_equal(run(body, x, out=[((8, 12), nl.float32)]), 2 * x)


def test_names_are_accepted_as_operators():
    x = np.abs(rng().standard_normal((4, 4)).astype(np.float32)) + 0.5
    for op in ("exp", "tanh", "sigmoid", nl.exp):
        run(activate(op), x, out=[((4, 4), nl.float32)])


def test_reduction_chain_across_instructions():
    x = rng().standard_normal((128, 40)).astype(np.float32)
    cmd = nisa.reduce_cmd

    def body(x, first, total, again, scratch):
        nisa.activation(scratch, nl.exp, x, reduce_op=nl.add, reduce_res=first, reduce_cmd=cmd.reset_reduce)
        nisa.activation(scratch, nl.square, x, reduce_op=nl.add, reduce_cmd=cmd.reduce)
        nisa.activation(scratch, nl.copy, x)
        nisa.activation(scratch, nl.copy, x, reduce_op=nl.add, reduce_res=total, reduce_cmd=cmd.reduce)
        nisa.activation(scratch, nl.copy, x, reduce_res=again)

    out = [((128, 1), nl.float32)] * 3 + [((128, 40), nl.float32)]
    first, total, again, _ = run(body, x, out=out)
    wide = rounded(x)
    within(first[:, 0], np.exp(wide).sum(1))
    within(total[:, 0], np.concatenate([np.exp(wide), wide**2, wide], 1).sum(1))
    np.testing.assert_array_equal(again, total)


def test_reset_empties_the_registers_without_adding():
    x = np.ones((4, 8), np.float32)

    def body(x, out, scratch):
        nisa.activation(scratch, nl.copy, x, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.activation(scratch, nl.copy, x, reduce_op=nl.add, reduce_res=out, reduce_cmd=nisa.reduce_cmd.reset)

    np.testing.assert_array_equal(run(body, x, out=[((4, 1), nl.float32), ((4, 8), nl.float32)])[0], 0)


def test_registers_belong_to_lanes():
    x = np.ones((128, 8), np.float32)

    def body(x, out, scratch):
        nisa.activation(scratch[:64], nl.copy, x[:64], reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.activation(
            scratch[64:], nl.copy, x[64:], scale=2.0, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce
        )
        nisa.activation(scratch, nl.copy, x, reduce_op=nl.add, reduce_res=out, reduce_cmd=nisa.reduce_cmd.reduce)

    got = run(body, x, out=[((128, 1), nl.float32), ((128, 8), nl.float32)])[0][:, 0]
    np.testing.assert_array_equal(got, [16.0] * 64 + [24.0] * 64)


def test_reduction_is_taken_before_the_output_is_rounded():
    x = np.full((2, 256), 1 + 2.0**-10, np.float32)

    def body(x, low, total):
        nisa.activation(low, nl.copy, x, reduce_op=nl.add, reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce)

    low, total = run(body, x, out=[(x.shape, nl.bfloat16), ((2, 1), nl.float32)])
    np.testing.assert_array_equal(low.astype(np.float32), 1.0)
    np.testing.assert_array_equal(total, 256 * (1 + 2.0**-10))


def test_reduce_res_may_alias_dst():
    x = rng().standard_normal((8, 1)).astype(np.float32)

    def body(x, out):
        nisa.activation(out, nl.square, x, reduce_op=nl.add, reduce_res=out, reduce_cmd=nisa.reduce_cmd.reset_reduce)

    np.testing.assert_array_equal(run(body, x, out=[((8, 1), nl.float32)]), x * x)


def test_activation_reduce_sums_all_free_dimensions():
    x = rng().standard_normal((32, 3, 5)).astype(np.float32)
    bias = rng(1).standard_normal((32, 1)).astype(np.float32)

    def body(x, bias, out, total):
        nisa.activation_reduce(out, nl.tanh, x, nl.add, total, bias=bias, scale=0.5)

    out, total = run(body, x, bias, out=[(x.shape, nl.float32), ((32, 1), nl.float32)])
    want = np.tanh(rounded(x) * 0.5 + bias[:, :, None])
    within(out, want)
    within(total[:, 0], want.sum((1, 2)))


X = np.ones((8, 4), np.float32)
OUT = [((8, 4), nl.float32)]
COLUMN = np.ones((8, 1), np.float32)


def test_unknown_function():
    found = refused(WrongArgument, "activation-function", activate(nl.cos), X, out=OUT, says=("cos", "nl.cos"))
    assert found.got == "cos"
    assert "exp" in found.limit


def test_accumulating_on_registers_nobody_reset():
    body = activate(nl.exp, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reduce)
    refused(ReadUninitialized, "accumulator", body, X, out=OUT, says=("lane 0", "reset_reduce"))

    def read_only(x, out, column):
        nisa.activation(out, nl.exp, x, reduce_res=column)

    refused(ReadUninitialized, "accumulator", read_only, X, out=[*OUT, ((8, 1), nl.float32)], says="reduce_res")


def test_only_add_reduces_and_load_reduce_is_unknown():
    found = refused(
        WrongArgument,
        "reduce-op",
        activate(nl.exp, reduce_op=nl.maximum, reduce_cmd="reset_reduce"),
        X,
        out=OUT,
        says="nl.maximum",
    )
    assert found.limit == ["add"]
    refused(
        WrongArgument,
        "reduce-cmd",
        activate(nl.exp, reduce_op=nl.add, reduce_cmd="load_reduce"),
        X,
        out=OUT,
        says="load_reduce",
    )


@pytest.mark.parametrize("wrong", [(8, 4), (4, 1), (8, 2)])
def test_bias_scale_and_reduce_res_must_be_columns(wrong):
    other = np.ones(wrong, np.float32)
    rule = "partition-mismatch" if wrong[0] != 8 else "vector-operand"
    for role in ("bias", "scale", "reduce_res"):

        def body(x, column, out, role=role):
            more = {"reduce_op": nl.add, "reduce_cmd": "reset_reduce"} if role == "reduce_res" else {}
            nisa.activation(out, nl.exp, x, **{role: column}, **more)

        refused(WrongShape, rule, body, X, other, out=OUT, says=role)


def test_scale_must_be_float32_and_bias_not_tfloat32():
    def scaled(x, column, out):
        nisa.activation(out, nl.exp, x, scale=column)

    found = refused(WrongDtype, "operand-dtype", scaled, X, COLUMN.astype(ml_dtypes.bfloat16), out=OUT, says="scale")
    assert found.got == "bfloat16"

    def biased(x, out):
        column = nl.ndarray((8, 1), nl.tfloat32)
        nisa.memset(column, 1.0)
        nisa.activation(out, nl.exp, x, bias=column)

    refused(WrongDtype, "operand-dtype", biased, X, out=OUT, says="tfloat32")


def test_trn1_takes_no_scalar_bias_and_no_bias_with_reciprocal():
    found = refused(WrongEngine, "bias", activate(nl.exp, bias=0.5), X, out=OUT, target="trn1", says=("0.5", "memset"))
    assert found.limit == "trn2"

    def body(x, column, out):
        nisa.activation(out, nl.reciprocal, x, bias=column)

    refused(WrongEngine, "bias", body, X, COLUMN, out=OUT, target="trn1", says="reciprocal")
    np.testing.assert_array_equal(run(body, X, COLUMN, out=OUT, target="trn2"), 0.5)


def test_sizes_must_agree():
    found = refused(WrongShape, "free-size-mismatch", activate(nl.exp), X, out=[((8, 5), nl.float32)], says=("4", "5"))
    assert {found.got, found.limit} == {4, 5}
    refused(WrongShape, "partition-mismatch", activate(nl.exp), X, out=[((4, 4), nl.float32)], says=("8", "4"))


def test_data_in_hbm_is_refused():
    def body(out):
        far = nl.zeros((8, 4), nl.float32, buffer=nl.hbm)
        nisa.activation(out, nl.exp, far)

    refused(WrongBuffer, "buffer", body, out=OUT, says="private_hbm")


def test_packed_dtypes_are_refused():
    def body(x, out):
        nisa.activation(nl.ndarray((8, 4), nl.float8_e4m3fn_x4), nl.copy, x)

    refused(WrongDtype, "packed-dtype", body, X, out=OUT, says="float8_e4m3fn_x4")


def test_registers_are_no_immediates():
    def body(x, out):
        nisa.activation(out, nl.exp, x, scale=nisa.register_alloc(2))

    refused(WrongArgument, "scalar-operand", body, X, out=OUT, says="register")


def test_misspelt_arguments_show_the_signature():
    def body(x, out):
        nisa.activation(dst=out, op=nl.exp, data=x, reduce=nl.add)

    found = refused(
        WrongCall, "signature", body, X, out=OUT, says=("unexpected keyword argument 'reduce'", "reduce_cmd")
    )
    assert "(dst" in found.hint


def test_scalar_engine_gathers_and_scatters_on_trn3():
    x = rng().standard_normal((16, 10)).astype(np.float32)
    index = np.tile(np.array([7, 0, 3, 9], np.uint32)[:, None], (4, 1))

    def body(x, index, out):
        nisa.activation(dst=out, op=nl.square, data=x.indirect(index, num_elem=4))

    np.testing.assert_array_equal(
        run(body, x, index, out=[((16, 4), nl.float32)], target="trn3"), np.square(x[:, [7, 0, 3, 9]])
    )

    def into_psum(x, index, out):
        nisa.memset(out, 0.0)
        nisa.activation(dst=out.indirect(index, num_elem=4), op=nl.square, data=x[:, :4])

    out = [((16, 10), nl.float32, nl.psum)]
    refused(WrongBuffer, "indirect-scalar-psum", into_psum, x, index, out=out, target="trn3", says="psum")


def test_timing_only_mode_follows_the_program():
    trace = []

    def body(x, column, out, total):
        nisa.activation(out, nl.exp, x, bias=column, reduce_op=nl.add, reduce_res=total, reduce_cmd="reset_reduce")

    run(body, X, COLUMN, out=[*OUT, ((8, 1), nl.float32)], numerics=False, trace=trace)
    record = trace[-1]
    assert (record.name, record.engine) == ("activation", "scalar")
    assert record.cost == {"op": "exp", "reduce": "reset_reduce"}
    assert [o.shape for o in record.reads] == [(8, 4), (8, 1)]
    assert [o.shape for o in record.writes] == [(8, 4), (8, 1)]
