"""Sampled products in compressed formats."""

import pytest
import torch

import trnsci
import trnsparse as ts
from trnsci import ArgumentError
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian, pairs


def pattern(m, n, seed=0, dtype=torch.float32):
    kept = gaussian((m, n), seed) > 1.2
    return torch.where(kept, torch.ones((), dtype=dtype), 0)


SHAPES = [(1, 1, 1), (130, 60, 5), (20, 30, 130), (10, 300, 2050), (4, 4, 0), (0, 3, 2)]


@pytest.mark.parametrize(
    ("backend", "shape", "kind"), pairs(BACKENDS, SHAPES, [ts.COOMatrix, ts.CSRMatrix, ts.CSCMatrix]), ids=str
)
def test_samples_are_those_of_the_dense_product(backend, shape, kind):
    m, n, d = shape
    where, a, b = pattern(m, n), gaussian((m, d), 1), gaussian((d, n), 2)
    with backend:
        made = ts.sddmm(kind.from_dense(where), a, b)
    assert made.format == kind.format
    wanted = torch.where(where != 0, a.double() @ b.double(), 0)
    assert_within(made.to_dense(), wanted, gamma(d + 2, a.dtype) * (a.abs().double() @ b.abs().double()))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_alpha_beta_and_gradients(dtype):
    where = ts.CSRMatrix.from_dense(pattern(6, 5, dtype=dtype))
    a, b = gaussian((6, 3), 1, dtype).requires_grad_(), gaussian((3, 5), 2, dtype).requires_grad_()
    made = ts.sddmm(where, a, b, alpha=2.0, beta=-1.0).to_dense()
    wanted = torch.where(where.to_dense() != 0, 2 * (a @ b) - 1, 0)
    # both are within the bound for D = 3; a complex product is four real ones
    limit = 2 * (4 if dtype.is_complex else 1) * gamma(5, dtype) * (2 * (a.detach().abs() @ b.detach().abs()) + 1)
    assert_within(made.detach(), wanted.detach(), limit)
    assert torch.autograd.gradcheck(lambda a, b: ts.sddmm(where, a, b).values, (a, b))


@pytest.mark.sim
def test_kernel_gradients_are_those_of_float64():
    where = ts.CSRMatrix.from_dense(pattern(40, 30))
    a, b, g = gaussian((40, 6), 1), gaussian((6, 30), 2), gaussian((where.nnz,), 3)
    with trnsci.backend("simulator"):
        x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
        ts.sddmm(where, x, y).values.backward(g)
    full = where.with_values(g).to_dense().double()
    assert_within(x.grad, full @ b.double().T, gamma(32, a.dtype) * (full.abs() @ b.abs().double().T))
    assert_within(y.grad, a.double().T @ full, gamma(42, a.dtype) * (a.abs().double().T @ full.abs()))


def test_the_op_is_well_registered():
    where = ts.CSRMatrix.from_dense(pattern(6, 5))
    args = (where.indptr, where.indices, gaussian((6, 3)).requires_grad_(), gaussian((5, 3)).requires_grad_())
    torch.library.opcheck(torch.ops.trnsparse.sddmm.default, args)


def test_mistakes_are_named():
    where = ts.eye(3)
    with pytest.raises(ArgumentError, match="D differs: a has D=2, b has D=4"):
        ts.sddmm(where, torch.ones(3, 2), torch.ones(4, 3))
    with pytest.raises(ArgumentError, match="M differs: pattern has M=3, a has M=2"):
        ts.sddmm(where, torch.ones(2, 2), torch.ones(2, 3))


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("scale", [1e14, 1e-14, float("nan")])
def test_rows_are_independent(backend, scale):
    where, a, b = ts.CSRMatrix.from_dense(pattern(40, 30)), gaussian((40, 5), 1), gaussian((5, 30), 2)
    with backend:
        plain = ts.sddmm(where, a, b).values
        a[7] *= scale
        other = ts.sddmm(where, a, b).values
    others = where.to_coo().row != 7
    assert torch.equal(other[others], plain[others])
