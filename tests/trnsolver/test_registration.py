"""Every op of the library as torch sees it: schema, shapes, strides, autograd and dynamic shapes."""

import pytest
import torch
from torch.library import opcheck

import trnsolver  # noqa: F401
from trnsci.ops import all_ops, find
from trnsci.testing import gaussian

N = 5


def _calls(dtype, grad):
    """Arguments of every op: batches of square, tall and wide matrices."""

    def given(x):
        return x.detach().clone().requires_grad_(grad)

    a = gaussian((3, N, N), 1, dtype) + 3 * torch.eye(N, dtype=dtype)
    b = gaussian((3, N, 2), 2, dtype)
    tall, right = gaussian((3, 7, 4), 3, dtype), gaussian((3, 7, 2), 4, dtype)
    spd = a @ a.mH
    factors, pivots = torch.linalg.lu_factor(a)
    lower = torch.linalg.cholesky(spd)
    reflectors, tau = torch.geqrf(tall)
    vectors = [x[0] for x in (spd, b, b, b)]
    return {
        "lu": [(given(a),), (given(tall),)],
        "lu_solve": [(given(factors), pivots, given(b), False), (given(factors), pivots, given(b), True)],
        "qr": [(given(x), "reduced") for x in (a, tall, tall.mT.contiguous())],
        "qr_pivoted": [(given(tall), "reduced")],
        "cholesky": [(given(spd),)],
        "cholesky_solve": [(given(b), given(lower), False)],
        "cholesky_inverse": [(given(lower), False)],
        "svd": [(given(tall), False, "auto"), (given(a), True, "auto")],
        "svdvals": [(given(tall),)],
        "eigh": [(given(spd), "auto")],
        "eigvalsh": [(given(spd),)],
        "inv_triangular": [(given(a), False), (given(a), True)],
        "solve_triangular": [(given(a), given(b), True, False), (given(a), given(b), False, True)],
        "inv_sqrt_spd": [(given(spd),)],
        "lstsq": [(given(tall), given(right), 1e-14, driver) for driver in ("gelsy", "gelsd", "gels")],
        "chebyshev_steps": [(*vectors, gaussian((3, 2), 5, torch.float64))],
        "eig": [(given(a),)],
        "eigvals": [(given(a),)],
        "hessenberg": [(a,)],
        "schur": [(a, False), (a, True)],
        "ldl": [(spd, True)],
        "gebrd": [(tall,), (tall.mT,)],
        "geqrf": [(tall,)],
        "householder_product": [(given(reflectors), given(tau))],
        "ormqr": [(given(reflectors), given(tau), given(right), True, False)],
        "solve_banded": [(given(a[:, :3] + torch.tensor([[0.0], [5.0], [0.0]])), given(b), 1, 1)],
        "pinv": [(given(tall), None, None, False), (given(spd), torch.tensor(0.1, dtype=dtype.to_real()), None, True)],
        "expm": [(given(a),), (given(a[0]),)],
        "matrix_function": [(given(a), "sqrtm"), (given(spd), "logm")],
    }


# the first call of every op; others of it, with more shapes and options, are slow
CASES = [
    pytest.param(name, index, marks=[pytest.mark.slow] if index else [])
    for name, calls in sorted(_calls(torch.float64, False).items())
    for index in range(len(calls))
]


def test_no_op_is_left_out():
    assert {op.name for op in all_ops() if op.name.startswith("trnsolver::") and not op.eager} == {
        f"trnsolver::{name}" for name in _calls(torch.float64, False)
    }


@pytest.mark.grid(1)
@pytest.mark.parametrize(("dtype", "grad"), [(torch.float64, True), (torch.complex64, False)], ids=["real", "complex"])
@pytest.mark.parametrize(("name", "index"), CASES)
def test_torch_finds_no_fault(name, index, dtype, grad):
    opcheck(find(f"trnsolver::{name}").registered, _calls(dtype, grad)[name][index])
