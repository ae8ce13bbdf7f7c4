"""Triangular solves, incomplete factors, orders, and the choice of a format."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import trnsparse as ts
from tests.together import together
from trnsci import ArgumentError
from trnsci.errors import NotPositiveDefinite, Singular
from trnsci.testing import assert_within, gamma, gaussian, pairs

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def system(n, dtype, seed=0):
    dense = torch.where(gaussian((n, n), seed) > 0.8, gaussian((n, n), seed + 1, dtype), 0)
    return dense - torch.diag(dense.diagonal()) + 4 * torch.eye(n, dtype=dtype)


@pytest.fixture(params=["compiled", "pure"])
def loops(request, monkeypatch):
    if request.param == "pure":
        monkeypatch.setattr("trnsci.loops.compiled", None)


SOLVES = pairs(DTYPES, [True, False], [True, False], ["n", "t", "c"])
# 1e200 only where the numbers themselves stay in the dtype, and there is a diagonal to differ.
SCALED = [(*case, scale) for case in SOLVES for scale in (1.0, 1e-30)]
SCALED += [(*case, 1e200) for case in SOLVES if case[0] in (torch.float64, torch.complex128) and not case[2]]


@together(("dtype", "lower", "unit", "trans", "scale"), SCALED)
def test_the_backward_error_is_small(dtype, lower, unit, trans, scale):
    """With diagonals that differ by ``scale``: quotients of entries leave float32, or even float64."""
    n = 40
    dense = system(n, dtype)
    dense[::7] *= scale
    part = (torch.tril if lower else torch.triu)(dense)
    # the other triangle is not read
    dense.masked_fill_(~(torch.tril if lower else torch.triu)(torch.ones(n, n, dtype=torch.bool)), torch.nan)
    if unit:
        part = part - torch.diag(part.diagonal()) + torch.eye(n, dtype=dtype)
        dense.diagonal()[::3] = torch.nan
        dense.diagonal()[1::3] = 1e30
    op = {"n": part, "t": part.mT, "c": part.mH}[trans].resolve_conj()
    b = gaussian((n, 3), 5, dtype)
    x = ts.solve_triangular(ts.CSRMatrix.from_dense(dense), b, lower=lower, unit_diagonal=unit, trans=trans)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    limit = 4 * gamma(n + 4, dtype) * (op.abs().double() @ x.abs().double()) + gamma(1, dtype) * b.abs().double()
    assert_within(op.to(wide) @ x.to(wide), b.to(wide), limit)
    assert ts.solve_triangular(ts.CSRMatrix.from_dense(dense), b[:, 0], lower=lower).shape == (n,)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients_of_a_solve(dtype):
    a = ts.CSRMatrix.from_dense(torch.tril(system(5, dtype)))
    values, b = a.values.clone().requires_grad_(), gaussian((5, 2), 1, dtype).requires_grad_()
    for unit in (False, True):

        def run(v, b, unit=unit):
            return ts.solve_triangular(a.with_values(v), b, unit_diagonal=unit)

        assert torch.autograd.gradcheck(run, (values, b))


def test_a_zero_on_the_diagonal_is_named():
    with pytest.raises(Singular) as caught:
        ts.solve_triangular(ts.CSRMatrix.from_dense(torch.diag(torch.tensor([1.0, 0.0, 2.0]))), torch.ones(3))
    assert caught.value.index == 1
    with pytest.raises(Singular) as caught:
        ts.ilu0(ts.CSRMatrix.from_dense(torch.tensor([[1.0, 1.0], [1.0, 1.0]])))
    assert caught.value.index == 1
    with pytest.raises(NotPositiveDefinite) as caught:
        ts.ic0(ts.CSRMatrix.from_dense(torch.tensor([[1.0, 2.0], [2.0, 1.0]])))
    assert caught.value.index == 1


@pytest.mark.grid(1)
@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_incomplete_factors_agree_with_the_matrix_on_its_pattern(dtype):
    dense = system(30, dtype)
    lower, upper = (x.to_dense() for x in ts.ilu0(ts.CSRMatrix.from_dense(dense)))
    assert torch.equal(lower, torch.tril(lower))
    assert torch.equal(lower.diagonal(), torch.ones(30, dtype=dtype))
    wide = torch.complex128 if dtype.is_complex else torch.float64
    product = torch.where(dense != 0, lower.to(wide) @ upper.to(wide), 0)
    assert_within(product, dense, 4 * gamma(31, dtype) * (lower.abs().double() @ upper.abs().double()))
    hermitian = dense + dense.mH + 20 * torch.eye(30, dtype=dtype)
    factor = ts.ic0(ts.CSRMatrix.from_dense(hermitian)).to_dense()
    product = torch.where(hermitian != 0, factor.to(wide) @ factor.mH.to(wide), 0)
    assert_within(product, hermitian, 4 * gamma(32, dtype) * (factor.abs().double() @ factor.abs().double().mH))


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_a_small_pivot_can_be_replaced(dtype):
    dense = torch.tensor([[1.0, 2.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 5.0]], dtype=dtype)
    with pytest.raises(Singular) as caught:
        ts.ilu0(ts.CSRMatrix.from_dense(dense))
    assert caught.value.index == 1
    lower, upper = ts.ilu0(ts.CSRMatrix.from_dense(dense), boost=(1e-3, 0.5))
    assert upper[1, 1] == 0.5
    # the factors are those of the matrix with the pivot moved
    dense[1, 1] += 0.5
    assert torch.equal((lower @ upper).to_dense(), dense)


def test_where_nothing_is_dropped_the_factors_are_the_exact_ones():
    dense = torch.diag(torch.full((9,), 3.0)) + torch.diag(torch.ones(8), 1) + torch.diag(torch.ones(8), -1)
    a = ts.CSRMatrix.from_dense(dense.double())
    # A factor is that of a matrix g(n + 1) away (Higham, Theorem 10.3) and moves by the condition, 5, times that (Sun).
    exact = torch.linalg.cholesky(dense.double())
    assert_within(ts.ic0(a).to_dense(), exact, 2 * gamma(10, torch.float64) * 5 * exact.abs().max())
    lower, upper = (x.to_dense() for x in ts.ilu0(a))
    assert_within(lower @ upper, dense, 2 * gamma(10, torch.float64) * (lower.abs() @ upper.abs()))


def test_factors_refuse_gradients_and_rectangles():
    with pytest.raises(ArgumentError, match=r"Pass a.detach\(\)"):
        ts.ilu0(ts.eye(3).requires_grad_())
    with pytest.raises(ArgumentError, match="N differs: rows has N=2, columns has N=3"):
        ts.ic0(ts.CSRMatrix.from_dense(torch.ones(2, 3)))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
def test_the_order_brings_a_shuffled_band_together(kind):
    shuffle = np.random.default_rng(1).permutation(60)
    offsets = (-2, -1, 0, 1)  # the pattern of a + a.T counts
    band = sp.diags_array([np.ones(60 - abs(k)) for k in offsets], offsets=offsets).tocsr()
    a = ts.CSRMatrix.from_scipy(band[shuffle][:, shuffle])
    order = ts.reverse_cuthill_mckee(a.to_bsr(4) if kind == "bsr" else getattr(a, f"to_{kind}")())
    assert sorted(order.tolist()) == list(range(60))
    if kind != "bsr":
        assert ts.bandwidth(a[order][:, order]) <= 3 < ts.bandwidth(a)
    assert ts.reverse_cuthill_mckee(ts.eye(0)).numel() == 0


def test_the_cheapest_format_is_chosen_and_the_reason_given():
    # one entry in each block of 128: nothing is gained by loading the block
    place = torch.arange(0, 4096, 128)
    row, col = place.repeat_interleave(32), place.repeat(32)
    few = ts.COOMatrix(row, col, torch.ones(1024), (4096, 4096)).to_csr()
    assert ts.choose(few, 64).format == "csr"
    blocks = torch.zeros(1024, 1024)
    blocks[:128, :128] = 1
    found = ts.choose(ts.CSRMatrix.from_dense(blocks), 512)
    assert found.format == "bsr" == min(found.seconds, key=found.seconds.get)
    assert "bsr is predicted fastest on trn2: csr" in found.reason
    assert ts.choose(ts.CSRMatrix.from_dense(torch.ones(256, 256)), 64).format in ("bsr", "dense")
    assert ts.choose(few, 8, where="trn1").seconds["csr"] is None
    assert ts.choose(few, 8, where="host").format == "csr"
    with pytest.raises(ArgumentError, match="where is 'gpu'"):
        ts.choose(few, 8, where="gpu")
