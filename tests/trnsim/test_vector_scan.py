"""tensor_tensor_scan: a recurrence along the free dimensions."""

import ml_dtypes
import numpy as np
from hypothesis import given, settings, strategies as st

from tests.trnsim.kernels import refused, rng, run
from trnsim import isa
from trnsim.errors import WrongArgument, WrongBuffer, WrongShape

F32, F16, I16, I32, U8, U16, U32 = (np.dtype(d) for d in ("f4", "f2", "i2", "i4", "u1", "u2", "u4"))
BF16 = np.dtype(ml_dtypes.bfloat16)


def scanned(x, y, state, op0, op1, reverse0, reverse1):
    """Element by element in fp32, as the reference's pseudocode has it."""
    made = np.empty(x.shape, F32)
    for p in range(x.shape[0]):
        now = F32.type(state[p, 0] if np.ndim(state) else state)
        for i in range(x.shape[1]):
            now = op0(now, x[p, i]) if reverse0 else op0(x[p, i], now)
            now = F32.type(op1(y[p, i], now) if reverse1 else op1(now, y[p, i]))
            made[p, i] = now
    return made


@settings(max_examples=30, deadline=None)
@given(
    op0=st.sampled_from([np.multiply, np.add, np.subtract, np.maximum]),
    op1=st.sampled_from([np.add, np.subtract, np.multiply, np.minimum]),
    reverse0=st.booleans(),
    reverse1=st.booleans(),
    vector=st.booleans(),
    n=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_scan(op0, op1, reverse0, reverse1, vector, n, seed):
    r = rng(seed)
    x, y = r.normal(size=(2, 3, n)).astype(F32)
    first = r.normal(size=(3, 1)).astype(F32)

    def body(a, b, s, c):
        isa.tensor_tensor_scan(
            dst=c,
            data0=a,
            data1=b,
            initial=s if vector else 0.5,
            op0=op0,
            op1=op1,
            reverse0=reverse0,
            reverse1=reverse1,
        )

    made = run(body, x, y, first, out=[((3, n), F32)])
    np.testing.assert_array_equal(made, scanned(x, y, first if vector else 0.5, op0, op1, reverse0, reverse1))


def test_scan_keeps_its_state_in_fp32_and_flattens_free_dimensions():
    x = np.ones((2, 2, 3), BF16)
    y = np.full((2, 2, 3), 2.0**-10, BF16)
    made = run(lambda a, b, c: isa.tensor_tensor_scan(c, a, b, 1.0, np.multiply, np.add), x, y, out=[((2, 6), F32)])
    np.testing.assert_array_equal(made[0], 1 + 2.0**-10 * np.arange(1, 7))


def test_scan_refuses():
    x = np.ones((4, 6), F32)
    out = [((4, 6), F32)]
    scan = isa.tensor_tensor_scan
    refused(
        WrongBuffer,
        "psum-inputs",
        lambda a, b, c: scan(c, a, b, 0.0, np.add, np.add),
        x,
        x,
        psum=(0, 1),
        out=out,
        says=("data0", "data1"),
    )
    refused(
        WrongShape,
        "free-size-mismatch",
        lambda a, b, c: scan(c, a, b, 0.0, np.add, np.add),
        x,
        x[:, :5],
        out=out,
        says="data1",
    )
    refused(
        WrongArgument,
        "operator-kind",
        lambda a, b, c: scan(c, a, b, 0.0, np.bitwise_and, np.add),
        x,
        x,
        out=out,
        says="op0",
    )
    refused(
        WrongArgument, "operator-arity", lambda a, b, c: scan(c, a, b, 0.0, np.add, np.abs), x, x, out=out, says="op1"
    )
    refused(
        WrongShape, "vector-operand", lambda a, b, c: scan(c, a, b, a, np.add, np.add), x, x, out=out, says="initial"
    )
    refused(
        WrongArgument,
        "scalar-operand",
        lambda a, b, c: scan(c, a, b, "zero", np.add, np.add),
        x,
        x,
        out=out,
        says="initial",
    )
