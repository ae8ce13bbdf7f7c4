"""syrk and trsm on sharded arrays.

| op | takes | gives |
|---|---|---|
| syrk | anything | rows |
| trsm | anything | columns (``a`` on the left), rows (on the right) |

On a mesh of several axes these are cut along the first. Batches are cut instead of matrices.
"""

from __future__ import annotations

from typing import Any

import torch

from trnblas.arguments import HALF, flag, transposition
from trnblas.gemm import gemm
from trnblas.sharded import multiply
from trnblas.syrk import syrk
from trnblas.trsm import trsm
from trnsci.distributed import Part, Team, chunks, sharded
from trnsci.distributed.calls import refuse_sharded, written
from trnsci.distributed.rules import by_batch, positions
from trnsci.errors import Singular


@sharded(syrk)
def _syrk(
    team: Team,
    alpha: complex,
    a: Part,
    beta: complex,
    c: Part | None,
    trans: Any,
    lower: Any,
    precision: Any,
    target_error: Any,
    out: Part | None,
) -> Part:
    down = flag("syrk", "lower", lower, "ul")
    kind = transposition("syrk", trans, "trans")
    options = {"precision": precision, "target_error": target_error}
    given = [a] if c is None else [a, c]
    if any(len(part.shape) > 2 for part in given):
        product = by_batch(team, lambda x, y=None: syrk(alpha, x, beta, y, kind, down, **options), *given)
    else:
        # the rank with the longest rows of a triangle computes as much as of the whole
        a = a if kind == "n" else a.transposed()
        product = multiply(team, alpha, a, a.transposed(), beta=beta, c=c, **options).to(team, team.first(0))
        row, column = positions(team, product)
        rest = torch.zeros_like(product.local) if c is None else c.to(team, product.places).local
        product = product.with_local(torch.where(column <= row if down else column >= row, product.local, rest))
    return _into_triangle(team, product, down, out)


def _into_triangle(team: Team, product: Part, down: bool, out: Part | None) -> Part:
    """Return the result; in memory that is given, leave the other triangle as it is."""
    if out is None:
        return product
    row, column = positions(team, product)
    inside, kept = column <= row if down else column >= row, out.to(team, product.places).local
    return written(team, product.with_local(torch.where(inside, product.local, kept)), out)


@sharded(trsm, batch={"a": 2, "b": 2})
def _trsm(
    team: Team,
    alpha: complex,
    a: Part,
    b: Part,
    side: Any,
    lower: Any,
    trans_a: Any,
    diag: Any,
    precision: Any,
    target_error: Any,
) -> Part:
    if target_error is not None:
        reason = "errors are bounded per rank, and a solve between ranks has no target_error"
        raise refuse_sharded("trsm", reason, "Ask for precision= instead")
    right, down = flag("trsm", "side", side, "lr"), flag("trsm", "lower", lower, "ul")
    unit = flag("trsm", "diag", diag, "nu")
    kind = transposition("trsm", trans_a, "trans_a")
    if right:
        # x op(a) = b is op(a)^T x^T = b^T
        flipped = {"n": "t", "t": "n", "c": "conj"}[kind]
        columns = b.transposed()
        solution = solve_triangle(team, alpha, a, columns, down=down, kind=flipped, unit=unit, precision=precision)
        return solution.transposed()
    return solve_triangle(team, alpha, a, b, down=down, kind=kind, unit=unit, precision=precision)


def solve_triangle(
    team: Team,
    alpha: complex,
    a: Part,
    b: Part,
    *,
    down: bool,
    kind: str = "n",
    unit: bool = False,
    precision: Any = None,
) -> Part:
    """Keep each rank's right-hand sides and pass rows of a round, in the order of the substitution.

    A row panel of ``a`` finishes the unknowns of its block (not transposed), or takes finished ones out of all others
    (transposed), so no rank ever holds more of ``a`` than two panels.
    """
    a, b = a.to(team, team.first(0)), b.to(team, team.first(1))
    n = a.shape[0]
    # what is half done is not rounded to half precision
    wide = torch.float32 if b.dtype in HALF else b.dtype
    x = b.local.to(wide) * alpha
    transposed = kind in ("t", "c")
    cuts = [(rank, start, size) for rank, (start, size) in enumerate(chunks(n, team.size(0))) if size]
    forwards = down != transposed
    for rank, start, size in cuts if forwards else cuts[::-1]:
        mine = a.local if team.here(0) == rank else None
        rows = team.broadcast(0, mine, (size, n), a.dtype, rank)()
        rows = (rows.conj().resolve_conj() if kind == "conj" else rows).to(wide)
        here, block = x.narrow(0, start, size), rows.narrow(1, start, size)
        before, after = (0, start), (start + size, n - start - size)
        known = before if down else after
        if not transposed and known[1]:
            done = x.narrow(0, *known)
            here.copy_(gemm(-1.0, rows.narrow(1, *known), done, 1.0, here, precision=precision))
        try:
            solved = trsm(
                1.0, block, here, lower=down, trans_a=kind if transposed else "n", diag=unit, precision=precision
            )
        except Singular as error:
            raise Singular(op=team.op.split(".")[-1], index=start + error.index) from None
        here.copy_(solved)
        if transposed and known[1]:
            rest = x.narrow(0, *known)
            rest.copy_(gemm(-1.0, rows.narrow(1, *known), here, 1.0, rest, trans_a=kind, precision=precision))
    return b.with_local(x.to(b.dtype))
