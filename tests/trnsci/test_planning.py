import numpy as np
import pytest
import torch

import trnblas
import trnsci
from trnsci.testing import counting_op

A = torch.ones(4, 4)


def test_every_backend_has_a_verdict():
    told = trnsci.explain(trnblas.gemm, 1.0, A, A)
    assert [v.name for v in told.calls[0].verdicts] == ["nki", "simulator", "cuda", "pytorch"]
    assert told["nki"].refusal == "no Neuron device"
    assert told["simulator"].takes
    assert told["pytorch"].takes
    assert told.calls[0].chosen == "pytorch"
    assert str(told).splitlines() == [
        "trnblas::gemm float32[4x4] float32[4x4] runs on pytorch: no Neuron device",
        "  nki        no: no Neuron device",
        "  simulator  yes",
        "  cuda       no: an operand is not on an NVIDIA GPU",
        "  pytorch    yes",
    ]


def test_a_refused_call_is_explained_and_not_raised():
    op = counting_op()
    with trnsci.backend("simulator"):
        told = trnsci.explain(op.op, A.double())
    assert told.calls[0].chosen == "none"
    assert not told["simulator"].takes
    assert told["simulator"].refusal == "takes float32, not float64"


def test_ops_and_programs_can_be_explained():
    op = counting_op()
    assert trnsci.explain(op.op, A).calls[0].op == op.op.name

    def program(x):
        return trnblas.gemm(1.0, op(x), x)

    assert [call.op for call in trnsci.explain(program, A).calls] == [op.op.name, "trnblas::gemm"]
    assert [step.op for step in trnsci.plan(program, A).steps] == [op.op.name, "trnblas::gemm"]
    assert not op.calls


def test_numpy_operands_and_nothing_is_computed():
    plan = trnsci.plan(trnblas.gemm, 1.0, np.ones((3, 2)), np.ones((2, 5)))
    assert plan.flops == 60
    assert str(plan.steps[0].call.a) == "float64[3x2]"


def test_a_plan_of_a_bad_call_raises_what_the_call_would():
    with pytest.raises(trnsci.ArgumentError, match="K differs"):
        trnsci.plan(trnblas.gemm, 1.0, A, torch.ones(3, 3))


def test_huge_shapes_cost_nothing_to_plan():
    big = torch.empty(65536, 65536, device="meta")
    assert trnsci.plan(trnblas.gemm, 1.0, big, big).flops == 2 * 65536**3
