"""Products with vectors, symmetric and triangular matrices on sharded arrays: gemv, symm, hemm, trmm.

| op | takes | gives |
|---|---|---|
| gemv | anything | what moves least: the matrix stays where it is |
| symm, hemm | anything; one triangle is sent where the other belongs | as gemm |
| trmm | anything | as gemm |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnblas.arguments import flag
from trnblas.gemv import gemv
from trnblas.sharded import keeps_sums, multiply, round_sums, transpose_part, widen
from trnblas.symm import hemm, symm
from trnblas.trmm import trmm
from trnsci.distributed import Part, Team, sharded
from trnsci.distributed.rules import place, positions

_MATRICES = {"a": 2, "b": 2, "c": 2}


@sharded(gemv, batch={"a": 2, "x": 1, "y": 1})
def _gemv(
    team: Team,
    alpha: complex,
    a: Part,
    x: Part,
    beta: complex,
    y: Part | None,
    trans: Any,
    precision: Any,
) -> Part:
    a, y = transpose_part("gemv", "trans", trans, a), None if beta == 0 else y
    exact = keeps_sums({"precision": precision, "target_error": None}, a.dtype)
    placed = place(team, "mk,k->m", a, x, sums=not exact)
    options: Any = {"precision": precision}
    if not placed.has_terms:
        addend = None
        if y is not None:
            addend = y.to(team, tuple(0 if label == "m" else None for label in placed.cut)).local
        matrix, vector = placed.operands
        return placed.result(team, gemv(alpha, matrix, vector, beta, addend, **options))
    options, (matrix, vector) = widen(options, *placed.operands)
    return round_sums(team, placed.result(team, gemv(alpha, matrix, vector, **options)), a.dtype, beta, y)


def _rows_of(team: Team, a: Part) -> tuple[Part, Tensor, Tensor]:
    """Return the matrix cut along rows, with the indices of the rows here and of all columns."""
    a = a.to(team, team.first(0))
    return a, *positions(team, a)


def mirror_triangle(team: Team, a: Part, down: bool, hermitian: bool) -> Part:
    """Return both triangles from the stored one, cut along rows."""
    a, row, column = _rows_of(team, a)
    zero = torch.zeros((), dtype=a.dtype, device=a.local.device)
    strict = torch.where(column < row if down else column > row, a.local, zero)
    mirrored = a.with_local(strict).transposed(conj=hermitian).to(team, team.first(0)).local
    diagonal = torch.where(column == row, a.local, zero)
    if hermitian and a.dtype.is_complex:
        diagonal = diagonal.real.to(a.dtype)
    return a.with_local(strict + mirrored + diagonal)


def _symmetric(op: str, team: Team, given: dict[str, Any], hermitian: bool) -> Part:
    right, down = flag(op, "side", given["side"], "lr"), flag(op, "lower", given["lower"], "ul")
    a, b = mirror_triangle(team, given["a"], down, hermitian), given["b"]
    left, other = (b, a) if right else (a, b)
    return multiply(team, given["alpha"], left, other, beta=given["beta"], c=given["c"], precision=given["precision"])


@sharded(symm, batch=_MATRICES)
def _symm(team: Team, **given: Any) -> Part:
    return _symmetric("symm", team, given, False)


@sharded(hemm, batch=_MATRICES)
def _hemm(team: Team, **given: Any) -> Part:
    return _symmetric("hemm", team, given, True)


@sharded(trmm, batch={"a": 2, "b": 2})
def _trmm(
    team: Team,
    alpha: complex,
    a: Part,
    b: Part,
    side: Any,
    lower: Any,
    trans_a: Any,
    diag: Any,
    precision: Any,
) -> Part:
    right, down = flag("trmm", "side", side, "lr"), flag("trmm", "lower", lower, "ul")
    unit = flag("trmm", "diag", diag, "nu")
    a, row, column = _rows_of(team, a)
    inside: Callable[[Tensor, Tensor], Tensor] = torch.gt if down else torch.lt
    zero, one = (torch.full((), value, dtype=a.dtype, device=a.local.device) for value in (0, 1))
    triangle = torch.where(inside(row, column), a.local, zero)
    triangle = triangle + torch.where(row == column, one if unit else a.local, zero)
    a = transpose_part("trmm", "trans_a", trans_a, a.with_local(triangle))
    left, other = (b, a) if right else (a, b)
    return multiply(team, alpha, left, other, precision=precision)
