"""Products of a sparse matrix cut along its rows with sharded dense ones, `spmm` and `spmv`, and attention in a ring.

The matrix comes from `trnsparse.shard_rows`. The dense operand is taken in any placement and brought to a cut along K;
from there each rank receives the rows its own rows touch, and no others. Results are cut along M over the first axis
of the mesh; what another axis of the mesh cuts (columns, batches) stays cut. `attention` cuts positions of queries and
keys alike; keys and values go round while a block of them is used, and blocks that the mask drops are not computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnsci import check
from trnsci.distributed import Part, Team, chunks, sharded
from trnsci.distributed.parts import Places
from trnsci.distributed.team import Wait
from trnsci.errors import ArgumentError, UnsupportedError
from trnsparse.arguments import operation
from trnsparse.attention import attend, attention
from trnsparse.csr import CSRMatrix
from trnsparse.masks import Shifted, as_mask
from trnsparse.row_sharded import RowSharded, sizes_of
from trnsparse.spmm import spmm, spmv


def _check(public: Any, a: Any, b: Tensor, **options: Any) -> None:
    """Run the function's own checks, on a matrix of the whole shape and no entries."""
    op = public.__name__
    if not isinstance(a, RowSharded):
        raise ArgumentError(
            op=op,
            argument="a",
            got=type(a).__name__,
            expected="rows of a matrix cut between ranks, because the other operand is sharded",
            hint="Cut it with trnsparse.shard_rows(matrix, mesh)",
        )
    if operation(op, options["trans"]) != "n":
        raise UnsupportedError(
            op=op,
            reasons=[("distributed", f"trans is {options['trans']!r}, and a matrix cut along rows has no transpose")],
            hint="Cut the transpose: trnsparse.shard_rows(matrix.T, mesh)",
        )

    def index(count: int) -> Tensor:
        return torch.empty(count, dtype=torch.int64, device="meta")

    indices = {"indptr": index(a.shape[0] + 1), "indices": index(0)}
    if options.get("format") in ("auto", "csr", "bsr", "dense"):
        # each rank converts its own rows, for which there is nothing here to convert
        options["format"] = "stored"
    public(CSRMatrix._rebuilt(indices, torch.empty(0, dtype=a.dtype, device="meta"), a.shape), b, **options)


@sharded(spmm, check=lambda a, b, **options: _check(spmm, a, b, **options))
def _spmm(team: Team, a: RowSharded, b: Part, c: Part | None, trans: Any, **options: Any) -> Part:
    return product(team, a, b, c, **options)


@sharded(spmv, check=lambda a, x, **options: _check(spmv, a, x, **options))
def _spmv(team: Team, a: RowSharded, x: Part, y: Part | None, trans: Any, **options: Any) -> Part:
    return product(team, a, x, y, public=spmv, **options)


def product(
    team: Team, a: RowSharded, b: Part, c: Part | None = None, *, public: Callable[..., Tensor] = spmm, **options: Any
) -> Part:
    """Return rows of ``a @ b``, and of what is added to it."""
    _one_mesh(public.__name__, team, a)
    axis = len(b.shape) - (2 if public is spmm else 1)
    needed = _gather_needed(team, a, b, axis)
    places: Places = (axis, *needed.places[1:])
    shape = (*b.shape[:axis], a.shape[0], *b.shape[axis + 1 :])
    addend = {"c" if public is spmm else "y": None if c is None else c.to(team, places).local}
    return b.with_local(public(a.local, needed.local, **addend, **options), shape, places)


def _one_mesh(op: str, team: Team, a: RowSharded) -> None:
    mesh = getattr(team, "mesh", None)
    if sizes_of(a.mesh) != team.shape or (mesh is not None and a.mesh != mesh):
        raise ArgumentError(op, "mesh", {"a": a.mesh, "b": mesh or team.shape}, hint="Use one mesh")


def _gather_needed(team: Team, a: RowSharded, b: Part, axis: int) -> Part:
    """Return the rows of the dense operand that this rank's rows touch, in order."""
    mine = a.touched[team.here(0)]
    # what the other axes of the mesh cut stays cut, K excepted
    others = tuple(place if isinstance(place, int) and place != axis else None for place in b.places[1:])
    if b.places == (None, *others):
        return b.with_local(_pick(b.local, axis, mine), places=(None, *others))
    b = b.to(team, (axis, *others))
    cuts = chunks(b.shape[axis], team.size(0))
    start, size = cuts[team.here(0)]

    def among(columns: Tensor, start: int, size: int) -> Tensor:
        return columns[(columns >= start) & (columns < start + size)]

    ranks, here = len(cuts), team.here(0)

    def leaving(rank: int) -> Tensor:
        return _pick(b.local, axis, among(a.touched[rank], start, size) - start)

    def coming(rank: int) -> list[int]:
        shape = list(b.local.shape)
        shape[axis] = among(mine, *cuts[rank]).numel()
        return shape

    if a.is_near:
        waits = {here: Wait(lambda: leaving(here))}
        for step in (1, -1):
            before, after = (here - step) % ranks, (here + step) % ranks
            waits[after] = team.shift(0, leaving(before), coming(after), step)
        rows = [wait() for _, wait in sorted(waits.items())]
    else:
        rows = team.all_to_all(0, [leaving(rank) for rank in range(ranks)], [coming(rank) for rank in range(ranks)])
    # ranks hold rising rows, so one after the other is the order of the columns
    return b.with_local(torch.cat(rows, axis), places=(None, *others))


def _pick(x: Tensor, axis: int, positions: Tensor) -> Tensor:
    if x.is_meta:
        return x.new_empty((*x.shape[:axis], positions.numel(), *x.shape[axis + 1 :]))
    return x.index_select(axis, positions)


def _check_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Any = None, scale: float | None = None, *, block: int = 128
) -> None:
    """Run the function's checks on one position; a mask of all of them need not fit one rank."""
    if min(q.ndim, k.ndim, v.ndim) > 1:
        check.equal("attention", "K", k=k.shape[-2], v=v.shape[-2])
        as_mask(mask).fits(q.shape[-2], k.shape[-2])
        q, k, v = (x[..., :1, :] for x in (q, k, v))
    attention(q, k, v, None, scale, block=block)


@sharded(attention, check=_check_attention)
def _attention(team: Team, q: Part, k: Part, v: Part, mask: Any, scale: float | None, block: int) -> Part:
    rule = as_mask(mask)
    if rule.by_batch or rule.by_head:
        raise UnsupportedError("attention", [("distributed", "its mask reads the index of the batch or of the head")])
    where = team.first(len(q.shape) - 2)
    q, k, v = (x.to(team, where) for x in (q, k, v))
    ranks, here, width = team.size(0), team.here(0), k.shape[-1]
    cuts, first = chunks(k.shape[-2], ranks), chunks(q.shape[-2], ranks)[here][0]
    held = torch.cat([k.local, v.local], -1)
    exact = torch.float64 if q.dtype == torch.float64 else torch.float32
    output = q.local.new_zeros((*q.local.shape[:-1], v.shape[-1]), dtype=exact)
    total = output.new_full((*output.shape[:-1], 1), -math.inf)
    for turn in range(ranks):
        owner, following = (here + turn) % ranks, cuts[(here + turn + 1) % ranks][1]
        # the next block travels while this one is used
        wait = team.shift(0, held, (*held.shape[:-2], following, held.shape[-1])) if turn + 1 < ranks else None
        keys, values = held[..., :width], held[..., width:]
        more, weight = attend(q.local, keys, values, Shifted(rule, first, cuts[owner][0]), scale=scale, block=block)
        both = torch.logaddexp(total, weight)
        # a query that has seen no key yet
        there = torch.where(both == -math.inf, 0.0, both)
        output, total = output * (total - there).exp() + more * (weight - there).exp(), both
        held = held if wait is None else wait()
    return q.with_local(output.to(q.dtype), (*q.shape[:-1], v.shape[-1]))
