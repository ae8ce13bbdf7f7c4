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
    work = _orthogonal(op, team, work, n, shift)
    counts = [count for _, count in chunks(n, ranks)]
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


def _orthogonal(op: str, team: Team, work: Tensor, n: int, shift: Tensor) -> Tensor:
    """Rotate rows until they are orthogonal.

    Every rank has two blocks, as two rows of chairs. After a round all blocks but the first move one chair on, so that
    in a sweep every two of them meet once, and are back where they began.
    """
    ranks, here = team.size(0), team.here(0)
    sizes = [half for _, size in chunks(n, ranks) for half in ((size + 1) // 2, size // 2)]
    upper, lower = work.split(sizes[2 * here : 2 * here + 2])
    tops, bottoms = list(range(0, 2 * ranks, 2)), list(range(1, 2 * ranks, 2))
    limit, none = n * roundoff(work.dtype), work[:0]
    for sweep in range(1, _SWEEPS + 1):
        worst = shift.new_zeros(())
        for _ in range(2 * ranks - 1):
            # the smaller values always go to the same one of two, or they would change places for ever
            is_swapped = tops[here] > bottoms[here]
            both = torch.cat([lower, upper] if is_swapped else [upper, lower])
            gram = gemm(1.0, both, both, trans_b="c")
            cut = sizes[min(tops[here], bottoms[here])]
            if cut and cut < len(both):
                scale = gram.diagonal().real.sqrt()
                cross = gram[:cut, cut:].abs() / (scale[:cut, None] * scale[None, cut:])
                worst = torch.maximum(worst, cross.max())
            if len(both):
                both = gemm(1.0, eigh(gram).vectors, both, trans_a="c")
            upper, lower = (both[cut:], both[:cut]) if is_swapped else (both[:cut], both[cut:])
            if ranks > 1:
                tops, bottoms = [tops[0], bottoms[0], *tops[1:-1]], [*bottoms[1:], tops[-1]]
                first, last = here == 0, here == ranks - 1
                on, back = (lower if first else none if last else upper), none if first else lower
                above = team.shift(0, on.contiguous(), (0 if first else sizes[tops[here]], n), -1)
                below = team.shift(0, back.contiguous(), (0 if last else sizes[bottoms[here]], n))
                from_before, from_after = above(), below()
                upper, lower = upper if first else from_before, upper if last else from_after
        told = torch.stack(team.all_gather(0, worst.reshape(1), [(1,)] * ranks))
        if sweep == _PLANNED if not readable(told) else float(told.max()) <= limit:
            return torch.cat([upper, lower])
    raise NotConverged(op=op, iterations=_SWEEPS, residual=float(told.max()))


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
