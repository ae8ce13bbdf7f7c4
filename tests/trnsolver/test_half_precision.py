"""Half precision: computed in float32, rounded once, returned in the operands' dtype."""

import ml_dtypes
import numpy as np
import pytest
import torch
from scipy import linalg

import trnsolver as ts
from tests.together import together
from trnsci import DtypeError, NumericalError
from trnsci.testing import assert_within, gaussian

N = 12
G = gaussian((N, N), 1)
SPD = G @ G.T + N * torch.eye(N)
RIGHT = gaussian((N,), 2)
# of each function its operands, and the same from SciPy in float64
CALLS = {
    "cholesky": ((SPD,), lambda a: linalg.cholesky(a, lower=True)),
    "solve": ((SPD, RIGHT), linalg.solve),
    "inv": ((SPD,), linalg.inv),
    "svdvals": ((G,), linalg.svdvals),
    "eigvalsh": ((SPD,), linalg.eigvalsh),
    "expm": ((G / N,), linalg.expm),
    "pinv": ((SPD,), linalg.pinv),
    "sqrtm": ((SPD,), linalg.sqrtm),
}


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
@together("name", CALLS)
def test_results_are_those_of_float32_rounded_once(name, half):
    operands, oracle = CALLS[name]
    operands = [x.to(half) for x in operands]
    got = getattr(ts, name)(*operands)
    assert got.dtype == half
    expected = torch.from_numpy(np.asarray(oracle(*(x.double().numpy() for x in operands))))
    # float32 leaves about 1e-5 of these well-conditioned matrices, rounding half an ulp
    bound = (torch.finfo(half).eps / 2) * expected.abs() + 3e-5 * expected.abs().max()
    assert_within(got.double(), expected, bound)


@together("name", ["cg", "gmres", "minres", "bicgstab"])
def test_solvers_answer_in_half_precision(name):
    found = getattr(ts, name)(SPD.bfloat16(), RIGHT.bfloat16())
    assert found.converged
    expected = linalg.solve(SPD.bfloat16().double().numpy(), RIGHT.bfloat16().double().numpy())
    np.testing.assert_allclose(found.x.double().numpy(), expected, rtol=2**-8, atol=1e-4)
    assert found.x.dtype == torch.bfloat16


@together("kind", [np.float16, ml_dtypes.bfloat16])
def test_arrays_answer_in_kind(kind):
    a = SPD.numpy().astype(kind)
    values, vectors = ts.eigh(a)
    assert (type(values), values.dtype, vectors.dtype) == (np.ndarray, np.dtype(kind), np.dtype(kind))
    out = np.empty((N, N), kind)
    assert ts.cholesky(a, out=out) is out
    np.testing.assert_array_equal(out, ts.cholesky(a))


def test_gradients_and_integers_keep_their_kinds():
    a = SPD.half().requires_grad_()
    ts.cholesky(a).sum().backward()
    assert a.grad.dtype == torch.float16
    assert ts.lu_factor(G.half())[1].dtype == torch.int32
    assert ts.eig(G.half()).eigenvalues.dtype == torch.complex64


def test_mixtures_and_overflows_are_refused():
    for other in (RIGHT, RIGHT.double(), RIGHT.bfloat16()):
        with pytest.raises(DtypeError, match="float16"):
            ts.solve(SPD.half(), other)
    with pytest.raises(NumericalError, match=r"inv: the result overflows torch\.float16\. Convert to float32"):
        ts.inv(1e-6 * torch.eye(3).half())
