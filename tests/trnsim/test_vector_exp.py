"""Vector Engine of trn3: the exponential with a running sum."""

import numpy as np
import pytest

from tests.trnsim.kernels import refused, rng, run
from tests.trnsim.rounded import rounded, within
from tests.trnsim.test_scalar import OUT, X
from trnsim import isa as nisa, language as nl
from trnsim.errors import ReadUninitialized, WrongArgument, WrongDtype, WrongEngine

pytestmark = pytest.mark.sim


def test_exponential_is_a_softmax_in_pieces():
    x = rng().standard_normal((128, 64)).astype(np.float32)
    top = x.max(axis=1, keepdims=True)
    cmd = nisa.reduce_cmd

    def body(x, top, out, total, loaded):
        nisa.exponential(out[:, :32], x[:, :32], max_value=top, reduce_cmd=cmd.reset_reduce)
        nisa.exponential(out[:, 32:], x[:, 32:], top, reduce_res=total, reduce_cmd=cmd.reduce)
        nisa.exponential(out, x, top, loaded, cmd.load_reduce, 3.0)

    out, total, loaded = run(body, x, top, out=[(x.shape, nl.float32)] + [((128, 1), nl.float32)] * 2, target="trn3")
    want = np.exp(rounded(x - top))
    within(out, want)
    within(total[:, 0], want.sum(1))
    within(loaded[:, 0], want.sum(1) + 3)


def test_exponential_constraints():
    def body(**more):
        return lambda x, out: nisa.exponential(out, x, **more)

    refused(WrongEngine, "generation", body(), X, out=OUT, says=("trn3", "nl.exp"))
    refused(WrongArgument, "reduce-init", body(reduce_init=1.0), X, out=OUT, target="trn3", says="load_reduce")
    refused(WrongArgument, "reduce-cmd", body(reduce_cmd="reset"), X, out=OUT, target="trn3", says="reset")
    refused(WrongDtype, "operand-dtype", body(), X, out=[((8, 4), nl.uint32)], target="trn3", says="uint32")
    refused(WrongDtype, "operand-dtype", body(), X.astype(bool), out=OUT, target="trn3", says="bool")

    def idle_then_reduce(x, out):
        nisa.exponential(out, x, reduce_cmd="reset_reduce")
        nisa.exponential(out, x)
        nisa.exponential(out, x, reduce_cmd="reduce")

    refused(ReadUninitialized, "accumulator", idle_then_reduce, X, out=OUT, target="trn3", says="idle")

    def idle_result(x, out, column):
        nisa.exponential(out, x, reduce_res=column)

    refused(WrongArgument, "reduce-cmd", idle_result, X, out=[*OUT, ((8, 1), nl.float32)], target="trn3", says="idle")
