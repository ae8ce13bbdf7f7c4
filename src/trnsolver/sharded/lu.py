"""LU, general systems and inverses of sharded matrices; columns are dealt block by block, and their owner finds pivots.

| op | gives |
|---|---|
| lu_factor | rows of the factors; pivots on every rank |
| solve, lu_solve | columns of the solution; a vector is on every rank |
| inv | columns of the inverse |
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from trnblas import gemm
from trnblas.sharded_triangles import solve_triangle
from trnsci.distributed import Part, Team, sharded
from trnsci.errors import Singular, UnsupportedError
from trnsolver.arguments import readable
from trnsolver.dense.lu import LU, lu_factor, lu_solve
from trnsolver.dense.pivots import permutation_of
from trnsolver.dense.solve import inv, solve
from trnsolver.dense.solve_triangular import triangular
from trnsolver.sharded.cholesky import Dealt, _solve_spd, solve_columns, unit_columns

# Columns of a block, at most.
_BLOCK = 256


class Factored(NamedTuple):
    """Rows of the packed factors, LAPACK's pivots on every rank, and the first pivot that is zero, or -1."""

    factors: Part
    pivots: Tensor
    zero: int


def _factor_columns(team: Team, a: Part) -> Factored:
    """Factor right-looking: the owner of a block of columns factors it, and every rank updates its own columns."""
    n = a.shape[0]
    deal = Dealt(team, n, 0, max(1, min(_BLOCK, -(-n // (12 * team.size(0))))))
    local = deal.deal(a.transposed().to(team, team.first(0)).local).mT.contiguous()  # [n, columns of this rank]
    pivots = torch.arange(1, n + 1, dtype=torch.int32, device=local.device)
    zero = -1
    for index, start in enumerate(range(0, n, deal.block)):
        owner, stop = index % deal.ranks, min(start + deal.block, n)
        width, after = stop - start, deal.before(index + 1)
        sent = None
        if owner == deal.here:
            panel = lu_factor(local[start:, after - width : after])
            sent = torch.cat([panel.factors, panel.pivots.to(local.dtype).unsqueeze(0)])
        panel_and_pivots = team.broadcast(0, sent, (n - start + 1, width), local.dtype, owner)()
        factors, swaps = panel_and_pivots[:-1], panel_and_pivots[-1].real.to(torch.int32)
        if readable(factors):
            pivots[start:stop] = swaps + start
            none = (factors.diagonal() == 0).nonzero()
            zero = start + int(none[0]) if zero < 0 and len(none) else zero
            local[start:] = local[start:][permutation_of(swaps, n - start)]
        if owner == deal.here:
            local[start:, after - width : after] = factors
        if after < local.shape[1]:
            right = triangular(factors[:width], local[start:stop, after:], lower=True, unit=True)
            local[start:stop, after:] = right
            local[stop:, after:] = gemm(-1.0, factors[width:], right, 1.0, local[stop:, after:])
    columns = deal.collect(local.mT.contiguous())
    return Factored(a.with_local(columns, places=team.first(0)).transposed().to(team, team.first(0)), pivots, zero)


def _with_factors(team: Team, factors: Part, pivots: Tensor, b: Part, adjoint: bool) -> Part:
    """Columns of the solution."""
    b = b.to(team, team.first(1))
    rows = factors.shape[0]
    order = permutation_of(pivots, rows) if readable(pivots) else torch.arange(rows, device="cpu")
    if adjoint:
        x = solve_triangle(team, 1.0, factors, b, down=False, kind="c")
        x = solve_triangle(team, 1.0, factors, x, down=True, kind="c", unit=True)
        return x.with_local(torch.empty_like(x.local).index_copy_(0, order.to(x.local.device), x.local))
    x = b.with_local(b.local[order.to(b.local.device)])
    x = solve_triangle(team, 1.0, factors, x, down=True, unit=True)
    return solve_triangle(team, 1.0, factors, x, down=False)


def _regular(op: str, factored: Factored) -> Factored:
    if factored.zero >= 0:
        raise Singular(op=op, index=factored.zero, hint="Use lstsq or pinv for singular matrices")
    return factored


def _refuse(op: str, reason: str) -> UnsupportedError:
    return UnsupportedError(op, [("distributed", reason)], hint="Gather the operands")


@sharded(lu_factor)
def _lu_factor(team: Team, a: Part, pivot: bool, out: Any) -> LU:
    if len(a.shape) != 2 or a.shape[0] != a.shape[1] or not pivot or out is not None:
        reason = f"it factors one square sharded matrix with pivots, into memory of its own; this one is {a.shape}"
        raise _refuse("trnsolver.lu_factor", reason)
    factored = _factor_columns(team, a)
    return LU(factored.factors, a.replicated(factored.pivots))  # type: ignore[arg-type]


@sharded(lu_solve)
def _lu_solve(team: Team, factors: Part, pivots: Any, b: Part, left: bool, adjoint: bool) -> Part:
    if len(factors.shape) != 2 or not left or not isinstance(pivots, Part):
        raise _refuse("trnsolver.lu_solve", "it takes the sharded factors and pivots of one matrix, on the left")
    whole = pivots.whole(team)

    def between(x: Part) -> Part:
        return _with_factors(team, factors, whole, x, adjoint)

    return solve_columns(team, lambda f, x: lu_solve(f, whole, x), between, factors, b)


def _solve_gradient(given: Mapping[str, Any], result: Any, grad: Any) -> Mapping[str, Any]:
    a, assume = given["a"].transpose(-1, -2), given["assume"]
    back = functools.cache(lambda: solve(a.conj() if a.is_complex() else a, grad, assume=assume))

    def of_a() -> Any:
        left, right = (x.unsqueeze(1) if x.ndim == 1 else x for x in (back(), result))
        return gemm(-1.0, left, right, trans_b="c")

    return {"a": of_a, "b": back}


def _inv_gradient(given: Mapping[str, Any], result: Any, grad: Any) -> Mapping[str, Any]:
    return {"a": lambda: gemm(-1.0, gemm(1.0, result, grad, trans_a="c"), result, trans_b="c")}


@sharded(solve, gradient=_solve_gradient)
def _solve(
    team: Team,
    a: Part,
    b: Part,
    left: bool,
    assume: Literal["gen", "pos"],
    target_error: float | None,
) -> Part:
    if not left or target_error is not None:
        raise _refuse("trnsolver.solve", "a sharded system has its matrix on the left and no target_error")
    if assume == "pos":
        return _solve_spd(team, a, b)

    def between(x: Part) -> Part:
        factored = _regular("solve", _factor_columns(team, a))
        return _with_factors(team, factored.factors, factored.pivots, x, False)

    return solve_columns(team, solve, between, a, b)


@sharded(inv, gradient=_inv_gradient, batch={"a": 2})
def _inv(team: Team, a: Part) -> Part:
    factored = _regular("inv", _factor_columns(team, a))
    return _with_factors(team, factored.factors, factored.pivots, unit_columns(team, a), False)
