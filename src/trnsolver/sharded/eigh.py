"""The whole spectrum of a sharded Hermitian matrix by one-sided block Jacobi: blocks of rows meet in pairs on ranks.

`eigh` gives the eigenvalues on every rank and columns of the eigenvectors, `eigvalsh` the eigenvalues.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas import gemm
from trnblas.sharded_products import mirror_triangle
from trnsci.distributed import Part, Team, chunks, sharded
from trnsci.errors import NotConverged, UnsupportedError
from trnsolver.arguments import readable, roundoff
from trnsolver.eigen.eigh import Eigh, eigh, eigvalsh

_SWEEPS = 30
# Below this number of ranks, and below these rows times its cube root, each solves the whole: sweeps cost more.
_FEW, _SHORT = 16, 1100
# Sweeps that a plan, which has no data to converge, counts.
_PLANNED = 8


def _spectrum(op: str, team: Team, a: Part, lower: bool) -> tuple[Tensor, Part]:
    """All eigenvalues, ascending, on every rank, and columns of the eigenvectors.

    ``a + c`` is positive definite for ``c`` above the norm of ``a``; rotations of its rows, which make them orthogonal,
    end with the eigenvectors' adjoints times the eigenvalues. The condition of ``a + c`` is small, so the products of
    rows that the rotations come from are accurate.
    """
    n, ranks = a.shape[0], team.size(0)
    rows = mirror_triangle(team, a, lower, True).local
    start, size = chunks(n, ranks)[team.here(0)]
    if ranks < _FEW or n**3 < _SHORT**3 * ranks:
        values, vectors = eigh(a.with_local(rows, places=team.first(0)).whole(team))
        return values, a.with_local(vectors.narrow(1, start, size), places=team.first(1))
    shift = _shift(team, rows)
    work = rows.clone()
    work.diagonal(start).add_(shift)
    work, counts = _orthogonal(op, team, work, n, shift)
    vectors = (work / torch.linalg.vector_norm(work, dim=-1, keepdim=True)).conj().resolve_conj()  # [mine, n]
    values = _quotients(team, rows, vectors)
    every = torch.cat(team.all_gather(0, values, [(count,) for count in counts]))
    by = every.argsort() if readable(every) else torch.arange(n, device="cpu")
    return every[by.to(every.device)], a.with_local(_sort_columns(team, vectors, by, counts), places=team.first(1))


def _quotients(team: Team, rows: Tensor, vectors: Tensor) -> Tensor:
    """Rayleigh's, of the matrix itself, which the shift has not rounded; panels of its rows come round."""
    n = rows.shape[1]
    images = torch.empty_like(vectors)
    for rank, (start, size) in enumerate(chunks(n, team.size(0))):
        mine = rows.contiguous() if rank == team.here(0) else None
        panel = team.broadcast(0, mine, (size, n), rows.dtype, rank)()
        images[:, start : start + size] = gemm(1.0, vectors, panel, trans_b="t")
    return (vectors.conj() * images).sum(-1).real.contiguous()


def _sort_columns(team: Team, vectors: Tensor, by: Tensor, counts: list[int]) -> Tensor:
    """Return this rank's columns of the eigenvectors in the order of the values."""
    n, order, here = vectors.shape[1], by.tolist(), team.here(0)
    ends = list(itertools.accumulate(counts, initial=0))
    stored = [range(start, stop) for start, stop in itertools.pairwise(ends)]
    wanted = [order[start : start + size] for start, size in chunks(n, team.size(0))]
    pieces = [vectors[[k - ends[here] for k in ours if k in stored[here]]] for ours in wanted]
    coming = [[at for at, k in enumerate(wanted[here]) if k in theirs] for theirs in stored]
    received = team.all_to_all(0, pieces, [(len(at), n) for at in coming])
    columns = vectors.new_empty((n, len(wanted[here])))
    columns[:, list(itertools.chain(*coming))] = torch.cat(received).mT
    return columns


def _shift(team: Team, rows: Tensor) -> Tensor:
    """Above the norm: one and a half times the smaller of two bounds of it."""
    mine = torch.stack([rows.abs().sum(-1).max() if len(rows) else rows.real.sum(), rows.abs().square().sum()])
    both = torch.stack(team.all_gather(0, mine, [(2,)] * team.size(0)))
    bound = torch.minimum(both[:, 0].max(), both[:, 1].sum().sqrt())
    return 1.5 * torch.where(bound > 0, bound, torch.ones_like(bound))


def _orthogonal(op: str, team: Team, work: Tensor, n: int, shift: Tensor) -> tuple[Tensor, list[int]]:
    """Rotate rows until they are orthogonal; return this rank's, and how many each rank holds."""
    ranks, here = team.size(0), team.here(0)
    cuts = [(start, start + (size + 1) // 2, start + size) for start, size in chunks(n, ranks)]
    halves = [(range(start, middle), range(middle, stop)) for start, middle, stop in cuts]
    blocks = [half for pair in halves for half in pair]
    held = {
        2 * here + k: work[rows.start - halves[here][0].start :][: len(rows)] for k, rows in enumerate(halves[here])
    }
    places = {block: block // 2 for block in range(2 * ranks)}
    limit = n * roundoff(work.dtype)
    for sweep in range(1, _SWEEPS + 1):
        worst = shift.new_zeros(())
        for pairs in _rounds(ranks):
            held, places = _exchange_blocks(team, held, places, pairs=pairs, blocks=blocks, n=n, like=work)
            # the smaller values always go to the same one of two, or they would change places for ever
            first, second = sorted(pairs[here])
            both = torch.cat([held[first], held[second]])
            gram = gemm(1.0, both, both, trans_b="c")
            cut = len(blocks[first])
            if cut and cut < len(both):
                scale = gram.diagonal().real.sqrt()
                cross = gram[:cut, cut:].abs() / (scale[:cut, None] * scale[None, cut:])
                worst = torch.maximum(worst, cross.max())
            if len(both):
                both = gemm(1.0, eigh(gram).vectors, both, trans_a="c")
            held[first], held[second] = both[:cut], both[cut:]
        told = torch.stack(team.all_gather(0, worst.reshape(1), [(1,)] * ranks))
        if not readable(told):
            if sweep == _PLANNED:
                break
        elif float(told.max()) <= limit:
            break
    else:
        raise NotConverged(op=op, iterations=_SWEEPS, residual=float(told.max()))
    mine = sorted(held)
    counts = [sum(len(blocks[b]) for b in places if places[b] == rank) for rank in range(ranks)]
    return torch.cat([held[b] for b in mine]), counts


def _rounds(ranks: int) -> list[list[tuple[int, int]]]:
    """Every pair of blocks once: a tournament in which the first stays and the others go round."""
    blocks = list(range(2 * ranks))
    rounds = []
    for _ in range(2 * ranks - 1):
        rounds.append([(blocks[i], blocks[-1 - i]) for i in range(ranks)])
        blocks = [blocks[0], blocks[-1], *blocks[1:-1]]
    return rounds


def _exchange_blocks(
    team: Team,
    held: dict[int, Tensor],
    places: dict[int, int],
    *,
    pairs: list[tuple[int, int]],
    blocks: list[range],
    n: int,
    like: Tensor,
) -> tuple[dict[int, Tensor], dict[int, int]]:
    """Send every block to the rank where it meets its partner."""
    ranks, here = team.size(0), team.here(0)
    goal = {block: rank for rank, pair in enumerate(pairs) for block in pair}
    pieces = []
    for rank in range(ranks):
        leaving = [held[b] for b in sorted(held) if goal[b] == rank]
        pieces.append(torch.cat(leaving) if leaving else like.new_zeros((0, n)))
    coming = [[b for b in sorted(places) if places[b] == rank and goal[b] == here] for rank in range(ranks)]
    shapes = [(sum(len(blocks[b]) for b in ids), n) for ids in coming]
    received = team.all_to_all(0, pieces, shapes)
    arrived: dict[int, Tensor] = {}
    for ids, piece in zip(coming, received, strict=True):
        arrived.update(zip(ids, piece.split([len(blocks[b]) for b in ids]), strict=True))
    return arrived, goal


def _check_options(op: str, a: Part, options: dict[str, Any]) -> None:
    given = [name for name, value in options.items() if value not in (None, "auto")]
    if given:
        reason = f"sharded matrices are solved whole, by one method; {given[0]} was given"
        raise UnsupportedError(op, [("distributed", reason)], hint="Cut the result, or gather the operand")


def _eigh_gradient(given: Mapping[str, Any], result: Any, values: Any, vectors: Any) -> Mapping[str, Any]:
    """Return the rule of `eigh`, from the gradients of either result; pairs of equal values contribute nothing."""
    w, v = result

    def of_a() -> Any:
        terms: list[Any] = []
        if values is not None:
            terms.append(gemm(1.0, v * values.unsqueeze(0), v, trans_b="c"))
        if vectors is not None:
            gaps = w.unsqueeze(0) - w.unsqueeze(1)
            equal = (gaps == 0).to(w.dtype)
            inner = gemm(1.0, v, vectors, trans_a="c") * ((1.0 - equal) / (gaps + equal))
            terms.append(gemm(1.0, v, gemm(1.0, inner, v, trans_b="c")))
        whole = sum(terms[1:], terms[0])
        mirrored = whole.transpose(0, 1)
        return 0.5 * (whole + (mirrored.conj() if whole.is_complex() else mirrored))

    return {"a": of_a}


def _eigvalsh_gradient(given: Mapping[str, Any], result: Any, grad: Any) -> Mapping[str, Any]:
    def of_a() -> Any:
        v = eigh(given["a"], given["UPLO"], uplo=given["uplo"]).vectors
        return gemm(1.0, v * grad.unsqueeze(-2), v, trans_b="c")

    return {"a": of_a}


@sharded(eigh, gradient=_eigh_gradient)
def _eigh(team: Team, a: Part, UPLO: str, uplo: str | None, **options: Any) -> Eigh:
    _check_options("trnsolver.eigh", a, options)
    if len(a.shape) > 2:
        reason = "it takes one sharded matrix; eigvalsh takes batches"
        raise UnsupportedError("trnsolver.eigh", [("distributed", reason)])
    values, vectors = _spectrum("eigh", team, a, (uplo or UPLO) in ("L", "l"))
    return Eigh(a.replicated(values), vectors)  # type: ignore[arg-type]


@sharded(eigvalsh, gradient=_eigvalsh_gradient, batch={"a": 2})
def _eigvalsh(team: Team, a: Part, UPLO: str, uplo: str | None, **options: Any) -> Part:
    _check_options("trnsolver.eigvalsh", a, options)
    values, _ = _spectrum("eigvalsh", team, a, (uplo or UPLO) in ("L", "l"))
    return a.replicated(values)
