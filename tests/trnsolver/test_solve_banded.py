"""Band and tridiagonal systems against SciPy's and NumPy's."""

import functools

import numpy as np
import pytest
import scipy.linalg
import torch

import trnsci
from tests.together import together
from trnsci import ArgumentError, DtypeError, Singular
from trnsci.testing import gaussian, pairs
from trnsolver import solve_banded, solve_banded as function, solve_tridiagonal
from trnsolver.arguments import roundoff

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def drawn(shape, dtype, seed):
    real = gaussian(shape, seed, dtype=torch.float64)
    made = torch.complex(real, gaussian(shape, seed + 99, dtype=torch.float64)) if dtype.is_complex else real
    return made.to(dtype)


def dense(ab, below, above):
    """The matrix, entry by entry, as its definition has it."""
    n = ab.shape[-1]
    a = torch.zeros((*ab.shape[:-2], n, n), dtype=ab.dtype)
    for i in range(n):
        for j in range(max(0, i - below), min(n, i + above + 1)):
            a[..., i, j] = ab[..., above + i - j, j]
    return a


def backward_error(a, x, b):
    a, x, b = (t.to(torch.complex128) for t in (a, x, b))
    left = torch.linalg.matrix_norm(a @ x - b)
    return left / (torch.linalg.matrix_norm(a) * torch.linalg.matrix_norm(x))


@together(("dtype", "bands", "n"), pairs(DTYPES, [(0, 0), (1, 1), (2, 1), (0, 2), (3, 0), (1, 4)], [1, 2, 5, 40]))
def test_it_stays_within_its_stated_bound(dtype, bands, n):
    below, above = bands
    ab, b = drawn((3, below + above + 1, n), dtype, 1), drawn((3, n, 2), dtype, 2)
    ab[..., above, :] += 0.5  # no tiny pivots where there is no choice of rows
    a = dense(ab, below, above)
    x = solve_banded(bands, ab, b)
    assert x.dtype == dtype
    assert x.shape == b.shape
    growth = 2.0 ** min(8, n)
    assert float(backward_error(a, x, b).max()) <= 20 * (below + above + 1) * roundoff(dtype) * growth


@pytest.mark.parametrize("bands", [(1, 1), (2, 3)], ids=str)
def test_it_is_scipys(bands):
    ab, b = drawn((sum(bands) + 1, 30), torch.float64, 3), drawn((30,), torch.float64, 4)
    expected = scipy.linalg.solve_banded(bands, ab.numpy(), b.numpy())
    condition = np.linalg.cond(dense(ab, *bands).numpy())
    limit = 2 * 20 * (sum(bands) + 1) * 2.0**-53 * condition * np.linalg.norm(expected)
    assert np.linalg.norm(solve_banded(bands, ab, b).numpy() - expected) <= limit
    assert np.linalg.norm(solve_banded(bands, ab.numpy(), b.numpy()) - expected) <= limit


def test_exchanges_are_needed_and_made():
    # a zero on the diagonal: without exchanges there is no factorisation
    ab = torch.tensor([[0.0, 1.0, 2.0], [0.0, 1.0, 1.0], [1.0, 3.0, 0.0]], dtype=torch.float64)
    b = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    x = solve_banded((1, 1), ab, b)
    torch.testing.assert_close(dense(ab, 1, 1) @ x, b)


@pytest.mark.grid(1)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)], ids=str)
def test_tridiagonal(dtype, batch):
    n = 17
    lower, upper = drawn((*batch, n - 1), dtype, 1), drawn((*batch, n - 1), dtype, 2)
    diagonal, b = drawn((*batch, n), dtype, 3) + 4, drawn((*batch, n, 3), dtype, 4)
    a = torch.diag_embed(lower, -1) + torch.diag_embed(diagonal) + torch.diag_embed(upper, 1)
    x = solve_tridiagonal(lower, diagonal, upper, b)
    assert float(backward_error(a, x, b).max()) <= 60 * roundoff(dtype)
    vector = solve_tridiagonal(lower, diagonal, upper, b[..., 0])
    assert vector.shape == (*batch, n)
    torch.testing.assert_close(vector, x[..., 0])


def test_batches_broadcast():
    ab, b = drawn((5, 1, 3, 6), torch.float64, 1), drawn((4, 6, 2), torch.float64, 2)
    ab[..., 1, :] += 4
    x = solve_banded((1, 1), ab, b)
    assert x.shape == (5, 4, 6, 2)
    torch.testing.assert_close(dense(ab, 1, 1) @ x, b.expand_as(x))


@pytest.mark.parametrize("n", [0, 1])
def test_nothing_and_one(n):
    empty = torch.empty(max(0, n - 1), dtype=torch.float64)
    x = solve_tridiagonal(empty, torch.full((n,), 2.0, dtype=torch.float64), empty, torch.ones(n, dtype=torch.float64))
    assert x.tolist() == [0.5] * n
    assert solve_banded((0, 0), torch.ones(1, 3), torch.ones(3, 0)).shape == (3, 0)


def test_corners_outside_the_matrix_are_not_read():
    ab, b = drawn((3, 6), torch.float64, 1), drawn((6,), torch.float64, 2)
    ab[1] += 4
    expected = solve_banded((1, 1), ab, b)
    ab[0, 0] = ab[2, -1] = float("nan")
    assert torch.equal(solve_banded((1, 1), ab, b), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_gradients(dtype):
    ab, b = drawn((2, 4, 6), dtype, 1), drawn((6, 2), dtype, 2)
    ab[..., 1, :] += 4
    ab, b = ab.requires_grad_(), b.requires_grad_()
    assert torch.autograd.gradcheck(lambda p, q: function((2, 1), p, q), (ab, b))
    assert torch.autograd.gradgradcheck(lambda p, q: function((2, 1), p, q), (ab, b))


def test_gradients_of_the_three_diagonals():
    parts = [drawn((size,), torch.float64, seed) for seed, size in enumerate((4, 5, 4, 5))]
    parts[1] += 4
    assert torch.autograd.gradcheck(solve_tridiagonal, [part.requires_grad_() for part in parts])


def test_a_singular_matrix_is_named_with_its_column():
    diagonal = torch.ones(2, 3, 4, dtype=torch.float64)
    diagonal[1, 2, 2] = 0.0
    none = torch.zeros(2, 3, 3, dtype=torch.float64)
    with pytest.raises(Singular) as caught:
        solve_tridiagonal(none, diagonal, none, torch.ones(2, 3, 4, 1, dtype=torch.float64))
    assert caught.value.op == "solve_tridiagonal"
    assert caught.value.index == 2
    assert caught.value.batch == (1, 2)


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=str)
def test_entries_that_are_not_finite_are_named(value):
    ab, b = torch.ones(3, 4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    ab[1] = 4.0
    ab[1, 2] = value
    with pytest.raises(ArgumentError, match="finite") as caught:
        solve_banded((1, 1), ab, b)
    assert caught.value.argument == "ab[1, 2]"
    ab[1, 2], b[1] = 4.0, value
    with pytest.raises(ArgumentError, match="finite") as caught:
        solve_banded((1, 1), ab, b)
    assert caught.value.argument == "b[1]"


def test_bad_arguments_are_named():
    ab, b = torch.ones(3, 4), torch.ones(4)
    with pytest.raises(ArgumentError) as caught:
        solve_banded((2, 1), ab, b)
    assert caught.value.got == {"ab": 3, "bands": 4}
    with pytest.raises(ArgumentError) as caught:
        solve_banded((-1, 3), ab, b)
    assert caught.value.argument == "bands"
    assert "negative" in str(caught.value)
    with pytest.raises(ArgumentError) as caught:
        solve_banded((1, 1), ab, torch.ones(5))
    assert caught.value.got == {"a": 4, "b": 5}
    with pytest.raises(ArgumentError) as caught:
        solve_tridiagonal(torch.ones(4), torch.ones(4), torch.ones(3), b)
    assert caught.value.got == {"lower": 4, "upper": 3, "diagonal": 3}
    with pytest.raises(DtypeError):
        solve_banded((1, 1), ab.int(), b)


def test_the_plan_says_where_and_why():
    plan = trnsci.plan(solve_banded, (1, 1), torch.ones(3, 100), torch.ones(100, 2))
    assert plan.backend == "pytorch"
    assert "chain of dependent steps" in plan.reason
    assert plan.steps[0].cost.flops == 2 * 100 * (2 + 6 + 2)
    with trnsci.backend("simulator"):
        ab = torch.ones(3, 5)
        ab[1] = 4.0
        assert solve_banded((1, 1), ab, torch.ones(5)).shape == (5,)


def test_same_bits_twice():
    ab, b = drawn((8, 5, 50), torch.float32, 1), drawn((8, 50, 3), torch.float32, 2)
    assert torch.equal(solve_banded((2, 2), ab, b), solve_banded((2, 2), ab, b))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_batches_and_tangents_of_torch_func(dtype):
    lower, upper = gaussian((3, 4), 1, dtype), gaussian((3, 4), 2, dtype)
    diagonal, b = gaussian((3, 5), 3, dtype) + 5, gaussian((3, 5, 2), 4, dtype)
    expected = solve_tridiagonal(lower, diagonal, upper, b)
    torch.testing.assert_close(torch.func.vmap(solve_tridiagonal)(lower, diagonal, upper, b), expected)
    # one matrix for many right-hand sides, and many matrices for one
    over_b = torch.func.vmap(solve_tridiagonal, (None, None, None, 2), 2)(lower, diagonal, upper, b)
    torch.testing.assert_close(over_b, expected)
    over_a = torch.func.vmap(solve_tridiagonal, (0, 0, 0, None))(lower, diagonal, upper, b[0])
    torch.testing.assert_close(over_a[1], solve_tridiagonal(lower[1], diagonal[1], upper[1], b[0]))
    operands = tuple(x[0].clone().requires_grad_() for x in (lower, diagonal, upper, b))
    assert torch.autograd.gradcheck(solve_tridiagonal, operands, check_forward_ad=True)
    ab = gaussian((4, 5), 5, dtype) + torch.tensor([[0.0], [8.0], [0.0], [0.0]], dtype=dtype)
    banded = functools.partial(solve_banded, (2, 1))
    assert torch.autograd.gradcheck(
        banded, (ab.clone().requires_grad_(), b[0].clone().requires_grad_()), check_forward_ad=True
    )
    if not dtype.is_complex:
        forward, reverse = (transform(banded, 0)(ab, b[0]) for transform in (torch.func.jacfwd, torch.func.jacrev))
        torch.testing.assert_close(forward, reverse)
