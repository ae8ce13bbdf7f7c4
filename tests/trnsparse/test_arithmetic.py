"""Operators of sparse matrices against SciPy's, for every format, operand and side."""

import operator
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import trnsparse as ts
from trnsci import ArgumentError

FORMATS = ("coo", "csr", "csc", "bsr", "dia", "sell")
OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.matmul)
ENTRIES = np.array([[0, 2.0, 0], [4, 0, 0], [0, 0, 3], [1, 0, 5]])
OPERANDS = {
    "number": 2.0,
    "zero": np.float64(0),
    "whole number": 3,
    "complex number": 2 + 1j,
    "number of NumPy": np.float64(-3),
    "vector": np.array([1.0, 2, 4]),
    "row": np.array([[1.0, 2, 4]]),
    "column": np.array([[1.0], [2], [4], [8]]),
    "matrix": np.arange(1, 13.0).reshape(4, 3),
    "element": np.array([[2.0]]),
    "another shape": np.ones((2, 5)),
    "sparse row": sp.csr_array(np.array([[1.0, 0, 4]])),
    "sparse column": sp.csc_array(np.array([[1.0], [0], [4], [8]])),
    "sparse matrix": sp.coo_array(np.array([[1.0, 2, 0], [0, 0, 1], [1, 0, 3], [0, 7, 0]])),
}

# blocks and diagonals hold zeros of their own, which become NaN and inf in SciPy's, too; compressed rows hold none
ON_ZEROS = ((operator.truediv, "zero"), (operator.pow, "number of NumPy"))


def _matrix(dense, form):
    made = ts.CSRMatrix.from_dense(torch.as_tensor(dense))
    return made.to_bsr(2) if form == "bsr" else getattr(made, f"to_{form}")()


def _forms(operand):
    """The operand as NumPy's or SciPy's, as torch's and as ours."""
    yield operand
    if isinstance(operand, np.ndarray):
        yield torch.from_numpy(operand.copy())
    elif sp.issparse(operand):
        yield from (_matrix(operand.toarray(), form) for form in FORMATS)
    elif isinstance(operand, float):
        yield torch.tensor(operand, dtype=torch.float64)


def _result(operate, left, right):
    """Dense values, or the exception."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            made = operate(left, right)
        except (TypeError, ValueError, NotImplementedError, IndexError) as error:
            return error
    if isinstance(made, ts.SparseMatrix):
        return made.to_dense().numpy()
    return made.toarray() if sp.issparse(made) else np.asarray(made)


@pytest.mark.parametrize("reverse", [False, True], ids=["left", "right"])
@pytest.mark.parametrize("operate", OPERATORS)
@pytest.mark.parametrize("form", FORMATS)
def test_operators_give_what_scipy_gives(form, operate, reverse):
    for dense in (ENTRIES, ENTRIES[:3]):
        ours, theirs = _matrix(dense, form), sp.csr_array(dense)
        for name, operand in OPERANDS.items():
            if form in ("bsr", "dia") and (operate, name) in ON_ZEROS:
                continue
            tall = getattr(operand, "ndim", 0) == 2 and operand.shape[0] == 4
            operand = operand[: len(dense)] if tall and not sp.issparse(operand) else operand
            operand = operand.tocsr()[: len(dense)] if tall and sp.issparse(operand) else operand
            expected = _result(operate, *((operand, theirs) if reverse else (theirs, operand)))
            for given in _forms(operand):
                made = _result(operate, *((given, ours) if reverse else (ours, given)))
                if isinstance(expected, Exception):
                    assert isinstance(made, Exception), (name, type(given), made)
                else:
                    assert not isinstance(made, Exception), (name, type(given), made)
                    assert made.shape == expected.shape, (name, type(given))
                    np.testing.assert_allclose(made, expected, rtol=1e-15, err_msg=name)


@pytest.mark.parametrize("form", FORMATS)
def test_quotients_divide_entries_by_their_own_columns(form):
    made = _matrix(np.array([[0.0, 2], [4, 0]]), form) / torch.tensor([2.0, 4.0], dtype=torch.float64)
    assert made.format == form
    assert made.to_dense().tolist() == [[0, 0.5], [2, 0]]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("shape", [(1, 3), (4, 1), (1, 1)])
def test_a_row_or_column_is_broadcast_over_what_is_larger(form, shape):
    small, full = ENTRIES[: shape[0], : shape[1]] + (shape[1] == 1), np.arange(12.0).reshape(4, 3)
    assert np.array_equal((_matrix(small, form) * torch.from_numpy(full)).to_dense().numpy(), small * full)
    assert np.array_equal((_matrix(small, form) * _matrix(full, "csr")).to_dense().numpy(), small * full)
    assert np.array_equal((_matrix(small, form) - full), small - full)


def test_absent_entries_stay_absent_beside_infinities():
    row = ts.CSRMatrix.from_dense(torch.tensor([[1.0, 0.0]]))
    made = ts.CSRMatrix.from_dense(torch.tensor([[2.0, torch.inf], [0.0, 3.0]])) * row
    assert made.to_dense().tolist() == [[2.0, 0.0], [0.0, 0.0]]
    assert (row / torch.tensor([2.0, 0.0])).to_dense().tolist() == [[0.5, 0.0]]


@pytest.mark.parametrize("form", FORMATS)
def test_gradients_flow_through_operators(form):
    def function(a, b, row):
        x = _matrix(a, form)
        return (x * row + x / b - row).sum(0), (x * 2 * _matrix(b, "csr")).to_dense(), (row - x**2)

    a, b = (torch.from_numpy(x).clone().requires_grad_() for x in (ENTRIES + 1, np.arange(1, 13.0).reshape(4, 3)))
    row = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, (a, b, row))


def test_what_would_fill_the_matrix_is_refused_with_a_way_out():
    made = _matrix(ENTRIES, "csr")
    with pytest.raises(ArgumentError, match=r"add: b is 2\.0, expected 0, a dense tensor.*add it to to_dense\(\)"):
        made + 2.0
    with pytest.raises(ArgumentError, match="exponent is 0, expected a number other than 0"):
        made**0
    with pytest.raises(ArgumentError, match="shape") as caught:
        made * torch.ones(4, dtype=torch.float64)
    assert caught.value.got == {"a": (4, 3), "b": (4,)}
    with pytest.raises(ArgumentError, match="at most two dimensions"):
        made * np.ones((2, 4, 3))
    with pytest.raises(TypeError, match="unsupported operand"):
        2.0 / made


def test_numpy_and_scipy_see_the_dense_array():
    made = _matrix(ENTRIES, "csc")
    assert np.array_equal(np.asarray(made), ENTRIES)
    assert np.asarray(made, dtype=np.float32).dtype == np.float32
    assert np.array_equal((abs(-made)).to_dense().numpy(), np.abs(ENTRIES))
    with pytest.raises(ValueError, match="copy"):
        np.array(made, copy=False)


DOUBLED = sp.coo_array(([3.0, -1.0, 2.0, 5.0, -5.0], ([0, 0, 1, 2, 2], [0, 0, 1, 0, 0])), shape=(3, 3))


@pytest.mark.parametrize(
    "operate", [abs, lambda a: a**2, lambda a: a**0.5, operator.neg, lambda a: a.sum(), lambda a: a.T]
)
def test_entries_at_one_position_are_added_up_before_anything_else(operate):
    made, exact = operate(ts.COOMatrix.from_scipy(DOUBLED)), operate(DOUBLED)
    if sp.issparse(exact):
        made, exact = made.to_dense(), exact.toarray()
    np.testing.assert_allclose(made, exact)


def _reaching_over(form, outside):
    """The same 5 by 5 matrix, with values outside of it."""
    dense = torch.arange(25.0, dtype=torch.float64).reshape(5, 5)
    if form == "bsr":
        padded = torch.full((6, 6), outside, dtype=torch.float64)
        padded[:5, :5] = dense
        blocks = padded.reshape(3, 2, 3, 2).transpose(1, 2).reshape(9, 2, 2)
        return ts.BSRMatrix([0, 3, 6, 9], [0, 1, 2] * 3, blocks, (5, 5))
    if form == "sell":
        padded = torch.full((2, 4, 5), outside, dtype=torch.float64)
        padded.view(8, 5)[:5] = dense
        columns = torch.arange(5).expand(8, 5).where(torch.arange(8)[:, None] < 5, -1).reshape(2, 4, 5)
        return ts.SELLMatrix(4, [0, 20, 40], columns.mT.flatten(), padded.mT.flatten(), (5, 5))
    values = torch.full((9, 5), outside, dtype=torch.float64)
    for i in range(5):
        values[4 - i : 9 - i, i] = dense[i]
    return ts.DIAMatrix(range(-4, 5), values, (5, 5))


@pytest.mark.parametrize("outside", [7.0, np.inf, np.nan])
@pytest.mark.parametrize("form", ["bsr", "dia", "sell"])
def test_values_outside_the_matrix_reach_no_result(form, outside):
    a, dense = _reaching_over(form, outside), torch.arange(25.0, dtype=torch.float64).reshape(5, 5)
    # a power of absent entries would fill what lies outside again
    b, x = a.with_values(a.values * outside) if outside == 7 else a, torch.ones(5, dtype=torch.float64)
    times = 7.0 if outside == 7 else 1.0
    assert a.sum() == dense.sum()
    assert a[2, 3] == 13
    assert torch.equal(b @ x, times * dense @ x)
    assert torch.equal(x @ b, times * x @ dense)
    assert torch.equal((b.T @ a).to_dense(), times * dense.T @ dense)
    inverse = a.with_values(a.values + 1) ** -1
    assert torch.allclose(inverse @ x, (1 / (dense + 1)) @ x)
