"""BLAS on spread arrays: gemm, syrk, trsm.

Placements, on a mesh of one axis; ``rows`` is a matrix cut along its rows, ``columns`` along its columns:

| op | takes | gives |
|---|---|---|
| gemm | anything | rows, columns, or copies when both operands are copies; what moves least |
| syrk | anything | rows |
| trsm | anything | columns (``a`` on the left), rows (on the right) |

On a mesh of two axes gemm cuts rows along the first and columns along the second (SUMMA); the others use the first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas.arguments import flag, transposition
from trnblas.gemm import gemm
from trnblas.syrk import syrk
from trnblas.trsm import trsm
from trnsci.distributed import Part, Team, chunks, sharded
from trnsci.distributed.parts import SUM, Places, traffic
from trnsci.distributed.team import OnChip
from trnsci.errors import Singular, UnsupportedError

# Policies that promise more than a sum of partial sums keeps: the sum over K stays in one product.
_WHOLE_SUMS = ("compensated", "kahan", "fp64")


def _gemm_gradient(given: Mapping[str, Any], result: Any, grad: Any) -> Mapping[str, Any]:
    kinds = {name: transposition("gemm", given[f"trans_{name}"], f"trans_{name}") for name in ("a", "b")}
    a, b, alpha = given["a"], given["b"], complex(given["alpha"]).conjugate()
    alpha = alpha if a.is_complex() else alpha.real
    options = {"precision": given["precision"], "target_error": given["target_error"]}

    def of_a() -> Any:
        # with op(a) = a, d a = g b^H; with op(a) = a^T, d a = conj(b) g^T; with op(a) = a^H, d a = b g^H
        if kinds["b"] == "t":
            return _back(a, kinds["a"], gemm(alpha, grad, b.conj() if b.is_complex() else b, **options))
        return _back(a, kinds["a"], gemm(alpha, grad, b, trans_b=_adjoint(kinds["b"]), **options))

    def of_b() -> Any:
        if kinds["a"] == "t":
            return _back(b, kinds["b"], gemm(alpha, a.conj() if a.is_complex() else a, grad, **options))
        return _back(b, kinds["b"], gemm(alpha, a, grad, trans_a=_adjoint(kinds["a"]), **options))

    beta = complex(given["beta"]).conjugate()
    return {"a": of_a, "b": of_b, "c": lambda: grad * (beta if a.is_complex() else beta.real)}


def _adjoint(kind: str) -> str:
    return {"n": "c", "c": "n"}[kind]


def _back(x: Any, kind: str, made: Any) -> Any:
    """The gradient of x from that of op(x), added up over batches that x was broadcast to."""
    for _ in range(made.ndim - x.ndim):
        made = made.sum(0)
    for dim in range(x.ndim - 2):
        if made.shape[dim] != x.shape[dim]:
            made = made.sum(dim, keepdim=True)
    if kind == "n":
        return made
    turned = made.transpose(-1, -2)
    return turned.conj() if kind == "c" and made.is_complex() else turned


@sharded(gemm, gradient=_gemm_gradient)
def _gemm(
    team: Team,
    alpha: complex,
    a: Part,
    b: Part,
    beta: complex,
    c: Part | None,
    trans_a: Any,
    trans_b: Any,
    precision: Any,
    target_error: Any,
    epilogue: Any,
    out: Part | None,
    **others: Any,
) -> Part:
    _bare("gemm", others)
    if epilogue is not None:
        raise UnsupportedError(
            op="gemm",
            reasons=[("distributed", "the sharded product has no epilogue")],
            hint="Apply bias and activation to the result",
        )
    a, b = _applied("trans_a", trans_a, a), _applied("trans_b", trans_b, b)
    made = multiply(team, alpha, a, b, precision, target_error)
    if c is not None and beta != 0:
        if c.shape != made.shape:
            raise UnsupportedError(
                op="gemm", reasons=[("distributed", f"c has shape {c.shape}, the result {made.shape}")], hint="Expand c"
            )
        made = made.with_local(made.local + beta * c.to(team, made.places).local)
    return written(team, made, out)


def multiply(team: Team, alpha: complex, a: Part, b: Part, precision: Any, target_error: Any = None) -> Part:
    """``alpha * a @ b`` by the form that suits placements and mesh."""
    options = {"precision": precision, "target_error": target_error}
    if len(a.shape) > 2 or len(b.shape) > 2:
        return _by_batch(team, alpha, a, b, options)
    if all(place is None for place in (*a.places, *b.places)):
        return a.with_local(gemm(alpha, a.local, b.local, **options), (a.shape[0], b.shape[1]))
    if len(team.shape) > 1:
        return _summa(team, alpha, a, b, options)
    return _one_axis(team, alpha, a, b, options)


def written(team: Team, made: Part, out: Part | None) -> Part:
    """The result, in the caller's memory where that is given."""
    if out is None:
        return made
    out.local.copy_(made.to(team, out.places).local)
    return out


def _bare(op: str, others: dict[str, Any]) -> None:
    """Parts of a result have bounds of their own; the whole has none to return."""
    if others.pop("return_error", False):
        raise UnsupportedError(
            op=op,
            reasons=[("distributed", "errors are bounded rank by rank, so that return_error has nothing to return")],
            hint="trnblas.error_bound says what a precision guarantees",
        )


def _applied(argument: str, trans: Any, part: Part) -> Part:
    kind = transposition("gemm", trans, argument)
    return part if kind == "n" else part.transposed(conj=kind == "c")


def _by_batch(team: Team, alpha: complex, a: Part, b: Part, options: Any) -> Part:
    """Batches are cut, matrices are whole: no product needs another rank."""
    shape = (*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])

    def cut(part: Part) -> Part:
        own = len(part.shape) == len(shape) and part.shape[0] == shape[0]
        return part.to(team, (0 if own else None, *[None] * (len(team.shape) - 1)))

    made = gemm(alpha, cut(a).local, cut(b).local, **options)
    return a.with_local(made, shape, (0, *[None] * (len(team.shape) - 1)))


def _one_axis(team: Team, alpha: complex, a: Part, b: Part, options: Any) -> Part:
    """Take the form that moves least: rows of a, columns of b, or the sum over K cut between ranks."""
    ranks = team.size(0)
    m, n = a.shape[0], b.shape[1]
    forms = {
        "rows": traffic(a.layout, (0,)) + traffic(b.layout, (None,)),
        "columns": traffic(b.layout, (1,)) + traffic(a.layout, (None,)),
        "sums": traffic(a.layout, (1,)) + traffic(b.layout, (0,)) + (ranks - 1) / ranks * m * n * a.dtype.itemsize,
    }
    if keeps_sums(options, a.dtype):
        del forms["sums"]
    form = min(forms, key=forms.__getitem__)
    if form == "sums":
        team.tally.on_chip = _on_chip(ranks, alpha, a, b, options)
        local = gemm(alpha, a.to(team, 1).local, b.to(team, 0).local, **options)
        return a.with_local(local, (m, n), (SUM,)).to(team, 0)
    if form == "columns":
        # the transposed product, by rows
        return _by_rows(team, alpha, b.transposed(), a.transposed(), options).transposed()
    return _by_rows(team, alpha, a, b, options)


def _on_chip(ranks: int, alpha: complex, a: Part, b: Part, options: Any) -> OnChip:
    """The kernel that adds up between ranks while it multiplies, and why it could not take this product."""
    (m, k), n = a.shape, b.shape[1]
    refusal = ""
    if m % ranks or k % ranks:
        refusal = f"M = {m} and K = {k} do not divide between {ranks} ranks"
    elif a.dtype not in (torch.float32, torch.bfloat16, torch.float16) or options["precision"] not in (None, "fp32"):
        refusal = f"it multiplies float32 and shorter, not {a.dtype} with precision={options['precision']!r}"
    elif alpha != 1:
        refusal = f"alpha is {alpha}"
    operands = ((k // ranks, m), (k // ranks, n))
    return OnChip("trnblas.kernels.sharded.sharded_gemm", operands, a.dtype, refusal)


def _by_rows(team: Team, alpha: complex, a: Part, b: Part, options: Any) -> Part:
    """Each rank keeps its rows of a; panels of b come round, one in use and the next under way."""
    a = a.to(team, 0)
    n = b.shape[1]
    if b.places[0] == SUM or (b.places[0] == 0 and keeps_sums(options, a.dtype)):
        b = b.to(team, 1)
    if b.places[0] is None:
        return a.with_local(gemm(alpha, a.local, b.local, **options), (a.shape[0], n), (0,))
    along = b.places[0]
    local = a.local.new_zeros(a.local.shape[0], n)
    for start, size, panel in _panels(team, 0, b, along):  # type: ignore[arg-type]
        if along == 0:
            gemm(alpha, a.local.narrow(1, start, size), panel, 1.0, local, out=local, **options)
        else:
            local.narrow(1, start, size).copy_(gemm(alpha, a.local, panel, **options))
    return a.with_local(local, (a.shape[0], n), (0,))


def _panels(team: Team, axis: int, part: Part, dim: int) -> Iterator[tuple[int, int, Tensor]]:
    """Yield every rank's part of ``part`` in turn, as start, size and tensor; the next travels while one is used."""
    cuts = [(rank, start, size) for rank, (start, size) in enumerate(chunks(part.shape[dim], team.size(axis))) if size]

    def send(rank: int, size: int) -> Any:
        shape = list(part.local.shape)
        shape[dim] = size
        mine = part.local if team.here(axis) == rank else None
        return team.broadcast(axis, mine, shape, part.dtype, rank)

    waits = [send(cuts[0][0], cuts[0][2])] if cuts else []
    for number, (_, start, size) in enumerate(cuts):
        if number + 1 < len(cuts):
            waits.append(send(cuts[number + 1][0], cuts[number + 1][2]))
        yield start, size, waits[number]()
        waits[number] = None


def _summa(team: Team, alpha: complex, a: Part, b: Part, options: Any) -> Part:
    """Rows along the first axis of the mesh, columns along the second; panels of K go to whoever needs them."""
    rest = (None,) * (len(team.shape) - 2)
    places: Places = (0, 1, *rest)
    shape = (a.shape[0], b.shape[1])
    a, b = a.to(team, places), b.to(team, places)
    if keeps_sums(options, a.dtype):
        local = gemm(alpha, a.to(team, (0, None, *rest)).local, b.to(team, (None, 1, *rest)).local, **options)
        return a.with_local(local, shape)
    local = a.local.new_zeros(a.local.shape[0], b.local.shape[1])
    of_a, of_b = chunks(a.shape[1], team.size(1)), chunks(b.shape[0], team.size(0))
    edges = sorted({start for start, size in (*of_a, *of_b) if size} | {a.shape[1]})
    segments = list(itertools.pairwise(edges))

    def send(lo: int, hi: int) -> tuple[Any, Any]:
        owner_a = next(r for r, (start, size) in enumerate(of_a) if start <= lo < start + size)
        owner_b = next(r for r, (start, size) in enumerate(of_b) if start <= lo < start + size)
        mine_a = mine_b = None
        if team.here(1) == owner_a:
            mine_a = a.local.narrow(1, lo - of_a[owner_a][0], hi - lo)
        if team.here(0) == owner_b:
            mine_b = b.local.narrow(0, lo - of_b[owner_b][0], hi - lo)
        return (
            team.broadcast(1, mine_a, (a.local.shape[0], hi - lo), a.dtype, owner_a),
            team.broadcast(0, mine_b, (hi - lo, b.local.shape[1]), b.dtype, owner_b),
        )

    waits: list[Any] = [send(*segments[0])] if segments else []
    for number in range(len(segments)):
        if number + 1 < len(segments):
            waits.append(send(*segments[number + 1]))
        left, right = (wait() for wait in waits[number])
        gemm(alpha, left, right, 1.0, local, out=local, **options)
        waits[number] = None
    return a.with_local(local, shape)


def keeps_sums(options: Any, dtype: torch.dtype) -> bool:
    """Whether a call promises more than sums of partial sums keep, so that no sum may be cut between ranks."""
    exact = options["precision"] in _WHOLE_SUMS or options["target_error"] is not None
    return exact and dtype not in (torch.float64, torch.complex128)


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
    out: Part | None,
    **others: Any,
) -> Part:
    _bare("syrk", others)
    down = flag("syrk", "lower", lower, "ul")
    kind = transposition("syrk", trans, "trans")
    a = (a if kind == "n" else a.transposed()).to(team, team.first(0))
    n = a.shape[0]
    cuts = chunks(n, team.size(0))
    start, rows = cuts[team.here(0)]
    local = a.local.new_zeros(rows, n)
    options = {"precision": precision, **others}
    for at, size, panel in _panels(team, 0, a, 0):
        block = local.narrow(1, at, size)
        if at == start:
            block.copy_(syrk(alpha, a.local, lower=down, **options))
        elif (at < start) == down and rows:
            block.copy_(gemm(alpha, a.local, panel, trans_b=True, **options))
    if c is not None:
        kept = c.to(team, team.first(0)).local
        row = torch.arange(start, start + rows, device=kept.device)[:, None]
        column = torch.arange(n, device=kept.device)[None, :]
        inside = column <= row if down else column >= row
        local = torch.where(inside, local if beta == 0 else local + beta * kept, kept)
    return written(team, a.with_local(local, (n, n)), out)


@sharded(trsm)
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
    out: Part | None,
    **others: Any,
) -> Part:
    _bare("trsm", others)
    if others["target_error"] is not None:
        raise UnsupportedError(
            op="trsm",
            reasons=[("distributed", "errors are bounded per rank, and a solve between ranks has no target_error")],
            hint="Ask for precision= instead",
        )
    right, down = flag("trsm", "side", side, "lr"), flag("trsm", "lower", lower, "ul")
    unit = flag("trsm", "diag", diag, "nu")
    kind = transposition("trsm", trans_a, "trans_a")
    if right:
        # x op(a) = b is op(a)^T x^T = b^T
        flipped = {"n": "t", "t": "n", "c": "conj"}[kind]
        made = solve_triangle(team, alpha, a, b.transposed(), down, flipped, unit, {"precision": precision})
        made = made.transposed()
    else:
        made = solve_triangle(team, alpha, a, b, down, kind, unit, {"precision": precision})
    return written(team, made, out)


def solve_triangle(
    team: Team, alpha: complex, a: Part, b: Part, down: bool, kind: str, unit: bool, options: Any
) -> Part:
    """Each rank keeps its right-hand sides; rows of a come round, in the order of the substitution.

    A row panel of ``a`` finishes the unknowns of its block (not transposed), or takes finished ones out of all others
    (transposed), so no rank ever holds more of ``a`` than two panels.
    """
    a, b = a.to(team, team.first(0)), b.to(team, team.first(1))
    n = a.shape[0]
    x = b.local * alpha
    transposed = kind in ("t", "c")
    cuts = [(rank, start, size) for rank, (start, size) in enumerate(chunks(n, team.size(0))) if size]
    forwards = down != transposed
    for rank, start, size in cuts if forwards else cuts[::-1]:
        mine = a.local if team.here(0) == rank else None
        rows = team.broadcast(0, mine, (size, n), a.dtype, rank)()
        rows = rows.conj().resolve_conj() if kind == "conj" else rows
        here, block = x.narrow(0, start, size), rows.narrow(1, start, size)
        before, after = (0, start), (start + size, n - start - size)
        known = before if down else after
        if not transposed and known[1]:
            done = x.narrow(0, *known)
            here.copy_(gemm(-1.0, rows.narrow(1, *known), done, 1.0, here, **options))
        try:
            solved = trsm(1.0, block, here, lower=down, trans_a=kind if transposed else "n", diag=unit, **options)
        except Singular as error:
            raise Singular(op=team.op.split(".")[-1], index=start + error.index) from None
        here.copy_(solved)
        if transposed and known[1]:
            rest = x.narrow(0, *known)
            rest.copy_(gemm(-1.0, rows.narrow(1, *known), here, 1.0, rest, trans_a=kind, **options))
    return b.with_local(x)
