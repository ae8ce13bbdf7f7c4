"""Scalar Engine of trn3: activate2, with its stages, slopes and reductions."""

import numpy as np
import pytest

from tests.together import together
from tests.trnsim.kernels import refused, rng, run
from tests.trnsim.test_scalar import COLUMN, OUT, REFERENCE, ULP, X
from trnsim import isa as nisa, language as nl
from trnsim.errors import WrongArgument, WrongDtype, WrongEngine

pytestmark = pytest.mark.sim

STAGES = [
    (nl.multiply, nl.add, lambda x, a, b: x * a + b, {}),
    (nl.multiply, nl.subtract, lambda x, a, b: x * a - b, {}),
    (nl.multiply, nl.subtract, lambda x, a, b: b - x * a, {"reverse1": True}),
    (nl.multiply, nl.bypass, lambda x, a, b: x * a, {}),
    (nl.add, nl.bypass, lambda x, a, b: x + a, {"reverse0": True}),
    (nl.subtract, nl.bypass, lambda x, a, b: x - a, {}),
    (nl.subtract, nl.bypass, lambda x, a, b: a - x, {"reverse0": True}),
    (nl.bypass, nl.bypass, lambda x, a, b: x, {}),
    (None, None, lambda x, a, b: x, {}),
]


@together(("op0", "op1", "formula", "flags"), STAGES)
@pytest.mark.parametrize("columns", [False, True])
def test_activate2_stages(op0, op1, formula, flags, columns):
    x, a, b = (rng(i).uniform(-2, 2, shape).astype(np.float32) for i, shape in enumerate([(64, 6), (64, 1), (64, 1)]))

    def body(x, a, b, out):
        imm0, imm1 = (a, b) if columns else (1.5, -0.25)
        nisa.activate2(dst=out, op=nl.gelu, data=x, imm0=imm0, imm1=imm1, op0=op0, op1=op1, **flags)

    got = run(body, x, a, b, out=[((64, 6), nl.float32)], target="trn3")
    left, right = (a, b) if columns else (np.float32(1.5), np.float32(-0.25))
    want = REFERENCE["gelu"](formula(x, left, right).astype(np.float64))
    np.testing.assert_allclose(got, want, rtol=4 * ULP, atol=1e-30)


def test_prelu_has_a_slope_for_negative_values():
    x = rng().standard_normal((16, 5)).astype(np.float32)
    slope = rng(1).uniform(0, 1, (16, 1)).astype(np.float32)

    def body(x, slope, a, b):
        nisa.activate2(a, nl.prelu, x, 0.0, 0.0, nl.bypass, nl.bypass, relu_param=0.25)
        nisa.activate2(b, nl.prelu, x, 0.0, 0.0, nl.bypass, nl.bypass, relu_param=slope)

    a, b = run(body, x, slope, out=[((16, 5), nl.float32)] * 2, target="trn3")
    np.testing.assert_array_equal(a, np.where(x >= 0, x, x * np.float32(0.25)))
    np.testing.assert_array_equal(b, np.where(x >= 0, x, x * slope))


@pytest.mark.parametrize("op", ["add", "maximum", "minimum", "abs_max", "abs_min"])
def test_activate2_reductions(op):
    x = rng().integers(-4, 5, (16, 9)).astype(np.float32)
    more = rng(1).integers(-4, 5, (16, 9)).astype(np.float32)

    def body(x, more, first, total, scratch):
        stage = {"imm0": 0.0, "imm1": 0.0, "op0": nl.bypass, "op1": nl.bypass, "reduce_op": getattr(nl, op)}
        nisa.activate2(scratch, nl.copy, x, reduce_res=first, reduce_cmd=nisa.reduce_cmd.reset_reduce, **stage)
        nisa.activate2(scratch, nl.copy, more, reduce_res=total, reduce_cmd=nisa.reduce_cmd.reduce, **stage)

    out = [((16, 1), nl.float32)] * 2 + [((16, 9), nl.float32)]
    first, total, _ = run(body, x, more, out=out, target="trn3")

    def fold(row):
        held = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf, "abs_max": 0.0, "abs_min": np.inf}[op]
        for v in row:
            held = {
                "add": held + v,
                "maximum": max(held, v),
                "minimum": min(held, v),
                "abs_max": held if abs(held) > abs(v) else v,
                "abs_min": held if abs(held) < abs(v) else v,
            }[op]
        return held

    np.testing.assert_array_equal(first[:, 0], [fold(row) for row in x])
    np.testing.assert_array_equal(total[:, 0], [fold(row) for row in np.hstack([x, more])])


def test_activate2_needs_trn3_and_known_stages():
    def body(op0, op1, **more):
        return lambda x, out: nisa.activate2(out, nl.exp, x, 1.0, 1.0, op0, op1, **more)

    refused(
        WrongEngine, "generation", body(nl.multiply, nl.add), X, out=OUT, target="trn2", says=("trn3", "activation")
    )
    for op0, op1 in [(nl.add, nl.add), (nl.bypass, nl.add), (nl.maximum, nl.bypass), (nl.subtract, nl.multiply)]:
        refused(WrongArgument, "activate2-stages", body(op0, op1), X, out=OUT, target="trn3", says="op1 needs op0")
    refused(
        WrongArgument,
        "activate2-stages",
        body(nl.multiply, nl.bypass, reverse1=True),
        X,
        out=OUT,
        target="trn3",
        says="reverse1",
    )
    refused(
        WrongArgument,
        "reduce-op",
        body(nl.multiply, nl.add, reduce_cmd="reduce"),
        X,
        out=OUT,
        target="trn3",
        says="Name the reduction",
    )
    refused(
        WrongArgument,
        "reduce-op",
        body(nl.multiply, nl.add, reduce_cmd="reduce", reduce_op=nl.multiply),
        X,
        out=OUT,
        target="trn3",
        says="nl.multiply",
    )

    def mixed(x, a, b, out):
        nisa.activate2(out, nl.exp, x, a, b, nl.multiply, nl.add)

    found = refused(
        WrongDtype,
        "operand-dtype",
        mixed,
        X,
        COLUMN,
        COLUMN.astype(np.float16),
        out=OUT,
        target="trn3",
        says="one with",
    )
    assert (found.got, found.limit) == ("float32", "float16")
