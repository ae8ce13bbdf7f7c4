"""gemm on sharded arrays, and what other products share with it.

Any placement will do. On a mesh of one axis it gives rows, columns, or copies when both operands are copies: what moves
least. On a mesh of two axes it cuts rows along the first and columns along the second (SUMMA). Batches are cut instead
of matrices.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from trnblas.arguments import HALF, transposition
from trnblas.gemm import gemm
from trnsci.distributed import Part, Team, chunk, chunks, sharded
from trnsci.distributed.calls import refuse_sharded
from trnsci.distributed.parts import SUM, Place, Places
from trnsci.distributed.rules import choose_cut
from trnsci.distributed.team import Wait, in_flight

# Axes of the mesh that cut the rows of a product, and those that cut its columns.
Axes = tuple[tuple[int, ...], tuple[int, ...]]
# Rounds in which panels of K travel at most, and the least of a segment that a round takes.
_ROUNDS, _NARROW = 8, 128
# Policies that promise more than a sum of partial sums keeps: the sum over K stays in one product.
_WHOLE_SUMS = ("compensated", "kahan", "fp64")


def _gemm_gradient(given: Mapping[str, Any], result: Any, grad: Any) -> Mapping[str, Any]:
    a, b = given["a"], given["b"]
    kinds = [transposition("gemm", given[name], name) for name in ("trans_a", "trans_b")]
    left, right = map(_transpose, (a, b), kinds)
    alpha, beta = (complex(given[name]).conjugate() for name in ("alpha", "beta"))
    alpha, beta = (alpha, beta) if a.is_complex() else (alpha.real, beta.real)
    options = {"precision": given["precision"], "target_error": given["target_error"]}
    return {
        "a": lambda: _transpose(_sum_batches(gemm(alpha, grad, right, trans_b="c", **options), a), kinds[0]),
        "b": lambda: _transpose(_sum_batches(gemm(alpha, left, grad, trans_a="c", **options), b), kinds[1]),
        "c": lambda: grad * beta,
    }


def _transpose(x: Any, kind: str) -> Any:
    """Return ``op(x)``; of ``op(x)`` that is ``x`` again."""
    if kind == "n":
        return x
    transposed = x.transpose(-1, -2)
    return transposed.conj() if kind == "c" and x.is_complex() else transposed


def _sum_batches(grad: Any, x: Any) -> Any:
    """Sum a gradient over the batches that x was broadcast to."""
    for _ in range(grad.ndim - x.ndim):
        grad = grad.sum(0)
    for dim in range(x.ndim - 2):
        if grad.shape[dim] != x.shape[dim]:
            grad = grad.sum(dim, keepdim=True)
    return grad


@sharded(gemm, gradient=_gemm_gradient, batch={"a": 2, "b": 2, "c": 2})
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
) -> Part:
    if epilogue is not None:
        raise refuse_sharded("gemm", "the sharded product has no epilogue", "Apply bias and activation to the result")
    a, b = transpose_part("gemm", "trans_a", trans_a, a), transpose_part("gemm", "trans_b", trans_b, b)
    return multiply(team, alpha, a, b, beta=beta, c=c, precision=precision, target_error=target_error)


def transpose_part(op: str, argument: str, trans: Any, part: Part) -> Part:
    """Return ``op(part)`` for an argument that says whether to transpose or conjugate."""
    kind = transposition(op, trans, argument)
    return part if kind == "n" else part.transposed(conj=kind == "c")


def multiply(
    team: Team,
    alpha: complex,
    a: Part,
    b: Part,
    *,
    beta: complex = 0.0,
    c: Part | None = None,
    precision: Any,
    target_error: Any = None,
) -> Part:
    """Return ``alpha * a @ b + beta * c``, rounded once, by the form that suits placements and mesh."""
    options = {"precision": precision, "target_error": target_error}
    c, whole = None if beta == 0 else c, keeps_sums(options, a.dtype)
    axes: Axes = ((0,), (1,))
    if all(place is None for place in (*a.places, *b.places)):
        axes = ((), ())
    elif len(team.shape) > 2:
        cut = tuple(tuple(i for i, p in enumerate(x.places) if p == dim) for x, dim in ((a, 0), (b, 1)))
        if all(1 <= len(way) <= 2 for way in cut) and not set(cut[0]) & set(cut[1]):
            axes = (cut[0], cut[1])
    elif len(team.shape) == 1:
        (label,), _ = choose_cut("mk,kn->mn", [a.layout, b.layout], sums=not whole)
        if label == "k":
            options, (left, right) = widen(options, a.to(team, 1).local, b.to(team, 0).local)
            terms = a.with_local(gemm(alpha, left, right, **options), (a.shape[0], b.shape[1]), (SUM,))
            return round_sums(team, terms.to(team, 0), a.dtype, beta, c)
        axes = ((), (0,)) if label == "n" else ((0,), ())
    return _summa(team, alpha, a, b, beta=beta, c=c, options=options, axes=axes)


def round_sums(team: Team, sums: Part, dtype: torch.dtype, beta: complex, c: Part | None) -> Part:
    """Add ``beta * c`` to sums in the arithmetic they were computed in, and round once."""
    local = sums.local
    if c is not None and beta != 0:
        local = torch.add(local, c.to(team, sums.places).local.to(local.dtype), alpha=beta)
    return sums.with_local(local.to(dtype))


def widen(options: Any, *operands: Tensor) -> tuple[Any, list[Tensor]]:
    """Return options and operands for a sum that is cut between ranks, in the precision of its terms."""
    if operands[0].dtype not in HALF:
        return options, list(operands)
    # bfloat16 values are what "fast" multiplies, exactly, and adds up in float32
    policy = "fast" if operands[0].dtype == torch.bfloat16 else "fp32"
    return {**options, "precision": policy}, [x.float() for x in operands]


def _summa(
    team: Team, alpha: complex, a: Part, b: Part, *, beta: complex, c: Part | None, options: Any, axes: Axes
) -> Part:
    """Cut rows along some axes of the mesh and columns along others; panels of K are gathered, the next under this one.

    Where two axes cut the rows, the chips and the cores of a chip, a panel reaches a chip once and is shared inside.
    """
    rows, columns = axes

    def at(of_rows: Place, of_columns: Place) -> Places:
        cut = dict.fromkeys(rows, of_rows) | dict.fromkeys(columns, of_columns)
        return tuple(cut.get(axis) for axis in range(len(team.shape)))

    shape = (a.shape[0], b.shape[1])
    whole = a.places == at(0, None), b.places == at(None, 1)
    if all(whole) or keeps_sums(options, a.dtype):
        addend = None if c is None else c.to(team, at(0, 1)).local
        left, right = a.to(team, at(0, None)).local, b.to(team, at(None, 1)).local
        return a.with_local(gemm(alpha, left, right, beta, addend, **options), shape, at(0, 1))
    # an operand that is whole along K already stays so
    a, b = (x if kept else x.to(team, at(0, 1)) for x, kept in zip((a, b), whole, strict=True))
    ways = [() if whole[0] else columns, () if whole[1] else rows]
    spans = [_nested_spans(a.shape[1], [team.size(axis) for axis in way]) for way in ways]
    edges = sorted({start for cuts in spans for start, size in cuts if size} | {a.shape[1]})
    segments = list(itertools.pairwise(edges))
    rounds = max(1, min(_ROUNDS, min((hi - lo for lo, hi in segments), default=1) // _NARROW))
    panels = [
        _Panels(team, x, dim, way, cuts, segments, rounds)
        for x, dim, way, cuts in zip((a, b), (1, 0), ways, spans, strict=True)
    ]
    wide = torch.float32 if a.dtype in HALF else a.dtype
    local = a.local.new_zeros(a.local.shape[0], b.local.shape[1], dtype=wide)
    outer = in_flight(lambda turn: [panel.start(turn) for panel in panels], ((turn,) for turn in range(rounds)))
    turns = itertools.count()

    def share(*pieces: Any) -> list[Wait]:
        turn = next(turns)
        return [panel.share(turn, piece) for panel, piece in zip(panels, pieces, strict=True)]

    for operands in in_flight(share, outer):
        wider, (left, right) = widen(options, *operands)
        local = gemm(alpha, left, right, 1.0, local, **wider)
    return round_sums(team, a.with_local(local, shape, at(0, 1)), a.dtype, beta, c)


def _nested_spans(extent: int, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return start and length of every part of an axis that several axes of a mesh cut, one inside the other."""
    spans = [(0, extent)]
    for size in sizes:
        spans = [(start + at, length) for start, whole in spans for at, length in chunks(whole, size)]
    return spans


class _Panels:
    """The panels of one operand: in every round a slice of each segment of K, gathered from its owners.

    Attributes:
        part: the operand, and the axis ``dim`` of it that is K.
        way: axes of the mesh that cut K, the outer one first; two at most.
        spans: what each owner has of K.
        segments: stretches of K with one owner in each operand.
    """

    def __init__(
        self,
        team: Team,
        part: Part,
        dim: int,
        way: tuple[int, ...],
        spans: Sequence[tuple[int, int]],
        segments: Sequence[tuple[int, int]],
        rounds: int,
    ) -> None:
        self.team, self.part, self.dim, self.way, self.rounds = team, part, dim, way, rounds
        self.spans = spans
        self.segments = [[(lo, hi) for lo, hi in segments if at <= lo < at + size] for at, size in spans]
        here = 0
        for axis in way:
            here = here * team.size(axis) + team.here(axis)
        self.here = here

    def _width(self, owner: int, turn: int) -> int:
        return sum(chunk(hi - lo, self.rounds, turn)[1] for lo, hi in self.segments[owner])

    def _shape(self, width: int) -> list[int]:
        shape = list(self.part.local.shape)
        shape[self.dim] = width
        return shape

    def start(self, turn: int) -> Wait:
        """Start gathering a round's slices along the outer axis; the result is a list by its ranks."""
        begin, slices = self.spans[self.here][0], []
        for lo, hi in self.segments[self.here]:
            at, width = chunk(hi - lo, self.rounds, turn)
            slices.append(self.part.local.narrow(self.dim, lo - begin + at, width))
        mine = torch.cat(slices, self.dim) if slices else self.part.local.narrow(self.dim, 0, 0)
        inner = len(self.spans) // self.team.size(self.way[0]) if self.way else 1
        owners = range(self.here % inner, len(self.spans), inner)
        shapes = [self._shape(self._width(owner, turn)) for owner in owners]
        return self.team.start_all_gather(self.way[0] if self.way else None, mine.contiguous(), shapes)

    def share(self, turn: int, pieces: list[Tensor]) -> Wait:
        """Start sharing them along the inner axis; the result is the panel, in the order of K."""
        if len(self.way) < 2:
            return Wait(lambda: torch.cat(pieces, self.dim))
        inner, outer = self.team.size(self.way[1]), self.team.size(self.way[0])
        widths = [[self._width(o * inner + i, turn) for o in range(outer)] for i in range(inner)]
        shapes = [self._shape(sum(row)) for row in widths]
        wait = self.team.start_all_gather(self.way[1], torch.cat(pieces, self.dim), shapes)

        def join() -> Tensor:
            split = [x.split(row, self.dim) for x, row in zip(wait(), widths, strict=True)]
            return torch.cat([split[i][o] for o in range(outer) for i in range(inner)], self.dim)

        return Wait(join, wait.ready)


def keeps_sums(options: Any, dtype: torch.dtype) -> bool:
    """Return whether a call promises more than sums of partial sums keep, so that no sum may be cut."""
    exact = options["precision"] in _WHOLE_SUMS or options["target_error"] is not None
    return exact and dtype not in (torch.float64, torch.complex128)
