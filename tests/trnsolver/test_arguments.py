"""What every solver refuses: entries that are not finite, also where they would leave no trace; foreign pivots."""

import pytest
import torch

import trnsolver as ts
from tests.together import together
from trnsci import ArgumentError, DtypeError, Singular

INF = float("inf")


def _diagonal(value, n=4):
    a = torch.eye(n, dtype=torch.float64)
    a[2, 2] = value
    return a


B = torch.ones(4, 2, dtype=torch.float64)
# an infinite divisor makes a zero of what it divides: the solution alone looks sound
CALLS = {
    "solve": lambda a: ts.solve(a, B),
    "solve_spd": lambda a: ts.solve_spd(a, B),
    "solve_triangular": lambda a: ts.solve_triangular(a, B, upper=True),
    "cholesky": ts.cholesky,
    "cholesky_solve": lambda a: ts.cholesky_solve(B, a),
    "cholesky_inverse": ts.cholesky_inverse,
    "lu_solve": lambda a: ts.lu_solve(a, torch.arange(1, 5, dtype=torch.int32), B),
    "lu_inverse": lambda a: ts.lu_inverse(a, torch.arange(1, 5, dtype=torch.int32)),
    "lu_solve with the adjoint": lambda a: ts.lu_solve(a, torch.arange(1, 5, dtype=torch.int32), B, adjoint=True),
    "solve_triangular of many columns": lambda a: ts.solve_triangular(a, B.repeat(1, 600), upper=True),
    "solve_triangular of rows": lambda a: ts.solve_triangular(a, B.mT, upper=True, left=False),
    "cholesky_solve of many columns": lambda a: ts.cholesky_solve(B.repeat(1, 600), a),
    "lu_solve of a batch": lambda a: ts.lu_solve(a, torch.arange(1, 5, dtype=torch.int32), B.expand(600, 4, 2)),
    "inv": ts.inv,
    "inv_spd": ts.inv_spd,
    "inv_triangular": ts.inv_triangular,
    "det": ts.det,
    "eigh": ts.eigh,
    "svd": ts.svd,
    "expm": ts.expm,
    "lstsq": lambda a: ts.lstsq(a, B),
    "ldl_solve": lambda a: ts.ldl_solve(torch.eye(4, dtype=a.dtype), a, torch.arange(4), B),
}


@pytest.mark.grid(1)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("value", [INF, -INF, float("nan")], ids=str)
def test_an_entry_that_is_not_finite_is_named(name, value):
    with pytest.raises(ArgumentError, match="finite") as caught:
        CALLS[name](_diagonal(value))
    assert caught.value.argument.endswith("[2, 2]")


@together("name", ["solve", "solve_triangular", "cholesky_solve", "lu_solve", "lu_inverse", "inv"])
def test_a_zero_divisor_is_named(name):
    with pytest.raises(Singular) as caught:
        CALLS[name](_diagonal(0.0))
    assert caught.value.index == 2


def test_only_the_triangle_that_is_read_is_blamed():
    a = _diagonal(1.0)
    a[0, 3] = float("nan")
    assert torch.equal(ts.cholesky(a), torch.eye(4, dtype=torch.float64))
    a[3, 0] = INF
    with pytest.raises(ArgumentError) as caught:
        ts.cholesky(a)
    assert caught.value.argument == "a[3, 0]"


@pytest.mark.parametrize("columns", [0, 1, 2000])
@pytest.mark.parametrize("name", ["solve_triangular", "cholesky_solve", "lu_solve"])
def test_a_zero_that_divides_zeros_is_named(name, columns):
    a, b = _diagonal(0.0), torch.zeros(4, columns, dtype=torch.float64)
    pivots = torch.arange(1, 5, dtype=torch.int32)
    calls = {
        "solve_triangular": lambda: ts.solve_triangular(a, b, upper=True),
        "cholesky_solve": lambda: ts.cholesky_solve(b, a),
        "lu_solve": lambda: ts.lu_solve(a, pivots, b),
    }
    with pytest.raises(Singular) as caught:
        calls[name]()
    assert (caught.value.op, caught.value.index) == (name, 2)


@pytest.mark.parametrize("row", [0, -3, 5])
def test_pivots_beyond_the_rows_are_refused_before_memory_is_touched(row):
    factors, pivots = ts.lu_factor(_diagonal(2.0).expand(600, 4, 4))
    pivots = pivots.clone()
    pivots[5, 1] = row
    with pytest.raises(ArgumentError) as caught:
        ts.lu_solve(factors, pivots, B)
    assert caught.value.got == row
    assert "rows from 1 to 4" in str(caught.value)


def test_pivots_of_another_shape_or_dtype_are_refused():
    factors, pivots = ts.lu_factor(_diagonal(2.0))
    with pytest.raises(DtypeError, match="int32"):
        ts.lu_solve(factors, pivots.long(), B)
    with pytest.raises(ArgumentError) as caught:
        ts.lu_inverse(factors, pivots[:3])
    assert caught.value.got == (3,)
