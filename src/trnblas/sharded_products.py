"""Products with vectors, symmetric and triangular matrices on sharded arrays: gemv, symm, hemm, trmm.

| op | takes | gives |
|---|---|---|
| gemv | anything; the matrix stays where it is | rows |
| symm, hemm | anything; one triangle is sent where the other belongs | as gemm |
| trmm | anything | as gemm |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnblas.arguments import flag, transposition
from trnblas.gemm import gemm
from trnblas.gemv import gemv
from trnblas.sharded import by_batch, keeps_sums, multiply, positions, rounded, widened
from trnblas.symm import hemm, symm
from trnblas.trmm import trmm
from trnsci.distributed import Part, Team, sharded
from trnsci.distributed.parts import SUM, Places


@sharded(gemv)
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
    kind = transposition("gemv", trans, "trans")
    a = a if kind == "n" else a.transposed(conj=kind == "c")
    if len(a.shape) > 2 or len(x.shape) > 1 or (y is not None and len(y.shape) > 1):
        columns = [part.with_local(part.local.unsqueeze(-1), (*part.shape, 1)) for part in (x, y) if part is not None]
        product = by_batch(team, lambda m, v, w=None: gemm(alpha, m, v, beta, w, precision=precision), a, *columns)
        return product.with_local(product.local.squeeze(-1), product.shape[:-1])
    return _stationary(team, alpha, a, x, beta=beta, y=None if beta == 0 else y, precision=precision)


def _stationary(team: Team, alpha: complex, a: Part, x: Part, *, beta: complex, y: Part | None, precision: Any) -> Part:
    """Keep the matrix in place: ranks that share a row add up, and get the part of x their columns meet."""
    cut = [place for place in a.places if place is not None]
    if SUM in cut or len(set(cut)) < len(cut):
        a = a.to(team, team.first(0))
    if keeps_sums({"precision": precision, "target_error": None}, a.dtype):
        a = a.to(team, tuple(None if place == 1 else place for place in a.places))
    part = x.to(team, tuple(0 if place == 1 else None for place in a.places))
    places: Places = tuple({0: 0, 1: SUM, None: None}[place] for place in a.places)  # type: ignore[index]
    if SUM not in places:
        addend = None if y is None else y.to(team, places).local
        return a.with_local(gemv(alpha, a.local, part.local, beta, addend, precision=precision), a.shape[:1], places)
    options, (matrix, vector) = widened({"precision": precision}, a.local, part.local)
    terms = a.with_local(gemv(alpha, matrix, vector, **options), a.shape[:1], places)
    summed = None if 0 in places else 0
    sums = terms.to(team, tuple(summed if place == SUM else place for place in places))
    return rounded(team, sums, a.dtype, beta, y)


def _rows_of(team: Team, a: Part) -> tuple[Part, Tensor, Tensor]:
    """Return the matrix cut along rows, with the indices of the rows here and of all columns."""
    a = a.to(team, team.first(0))
    return a, *positions(team, a)


def _whole_matrix(team: Team, a: Part, down: bool, hermitian: bool) -> Part:
    """Return both triangles from the stored one."""
    a, row, column = _rows_of(team, a)
    zero = torch.zeros((), dtype=a.dtype, device=a.local.device)
    strict = torch.where(column < row if down else column > row, a.local, zero)
    mirrored = a.with_local(strict).transposed(conj=hermitian).to(team, team.first(0)).local
    diagonal = torch.where(column == row, a.local, zero)
    if hermitian and a.dtype.is_complex:
        diagonal = diagonal.real.to(a.dtype)
    return a.with_local(strict + mirrored + diagonal)


def _symmetric(op: str, team: Team, given: dict[str, Any], hermitian: bool) -> Part:
    a, b, c, beta = given["a"], given["b"], given["c"], given["beta"]
    right, down = flag(op, "side", given["side"], "lr"), flag(op, "lower", given["lower"], "ul")
    if any(part is not None and len(part.shape) > 2 for part in (a, b, c)):
        public, parts = hemm if hermitian else symm, [part for part in (a, b, c) if part is not None]
        return by_batch(
            team,
            lambda x, y, z=None: public(given["alpha"], x, y, beta, z, right, down, precision=given["precision"]),
            *parts,
        )
    a = _whole_matrix(team, a, down, hermitian)
    left, other = (b, a) if right else (a, b)
    return multiply(team, given["alpha"], left, other, beta=beta, c=c, precision=given["precision"])


@sharded(symm)
def _symm(team: Team, **given: Any) -> Part:
    return _symmetric("symm", team, given, False)


@sharded(hemm)
def _hemm(team: Team, **given: Any) -> Part:
    return _symmetric("hemm", team, given, True)


@sharded(trmm)
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
    unit, kind = flag("trmm", "diag", diag, "nu"), transposition("trmm", trans_a, "trans_a")
    if len(a.shape) > 2 or len(b.shape) > 2:
        flags = (right, down, kind, unit)
        return by_batch(team, lambda x, y: trmm(alpha, x, y, *flags, precision=precision), a, b)
    a, row, column = _rows_of(team, a)
    inside: Callable[[Tensor, Tensor], Tensor] = torch.gt if down else torch.lt
    zero, one = (torch.full((), value, dtype=a.dtype, device=a.local.device) for value in (0, 1))
    triangle = torch.where(inside(row, column), a.local, zero)
    triangle = triangle + torch.where(row == column, one if unit else a.local, zero)
    a = a.with_local(triangle)
    a = a if kind == "n" else a.transposed(conj=kind == "c")
    left, other = (b, a) if right else (a, b)
    return multiply(team, alpha, left, other, precision=precision)
