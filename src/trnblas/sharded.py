"""gemm on sharded arrays, and what other products share with it.

Any placement will do. On a mesh of one axis it gives rows, columns, or copies when both operands are copies: what moves
least. On a mesh of two axes it cuts rows along the first and columns along the second (SUMMA). Batches are cut instead
of matrices.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas.arguments import HALF, transposition
from trnblas.gemm import gemm
from trnsci.distributed import Part, Team, chunks, sharded
from trnsci.distributed.parts import SUM, Places, traffic
from trnsci.distributed.team import OnChip
from trnsci.errors import UnsupportedError

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


def _back(x: Any, kind: str, grad: Any) -> Any:
    """Return the gradient of x from that of op(x), summed over batches that x was broadcast to."""
    for _ in range(grad.ndim - x.ndim):
        grad = grad.sum(0)
    for dim in range(x.ndim - 2):
        if grad.shape[dim] != x.shape[dim]:
            grad = grad.sum(dim, keepdim=True)
    if kind == "n":
        return grad
    transposed = grad.transpose(-1, -2)
    return transposed.conj() if kind == "c" and grad.is_complex() else transposed


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
) -> Part:
    if epilogue is not None:
        raise UnsupportedError(
            op="gemm",
            reasons=[("distributed", "the sharded product has no epilogue")],
            hint="Apply bias and activation to the result",
        )
    a, b = _applied("trans_a", trans_a, a), _applied("trans_b", trans_b, b)
    if c is not None and any(len(part.shape) > 2 for part in (a, b, c)):
        options = {"precision": precision, "target_error": target_error}
        return by_batch(team, lambda x, y, z: gemm(alpha, x, y, beta, z, **options), a, b, c)
    return multiply(team, alpha, a, b, beta=beta, c=c, precision=precision, target_error=target_error)


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
    c = None if beta == 0 else c
    if len(a.shape) > 2 or len(b.shape) > 2:
        assert c is None
        return by_batch(team, lambda x, y: gemm(alpha, x, y, **options), a, b)
    if all(place is None for place in (*a.places, *b.places)):
        return _whole(team, alpha, a, b.local, beta=beta, c=c, options=options)
    if len(team.shape) > 1:
        return _summa(team, alpha, a, b, beta=beta, c=c, options=options)
    return _one_axis(team, alpha, a, b, beta=beta, c=c, options=options)


def _whole(team: Team, alpha: complex, a: Part, b: Tensor, *, beta: complex, c: Part | None, options: Any) -> Part:
    """Multiply where no sum is cut between ranks; the product is placed as the rows of ``a`` are."""
    addend = None if c is None else c.to(team, a.places).local
    return a.with_local(gemm(alpha, a.local, b, beta, addend, **options), (a.shape[0], b.shape[1]))


def rounded(team: Team, sums: Part, dtype: torch.dtype, beta: complex, c: Part | None) -> Part:
    """Add ``beta * c`` to sums in the arithmetic they were computed in, and round once."""
    local = sums.local
    if c is not None and beta != 0:
        local = torch.add(local, c.to(team, sums.places).local.to(local.dtype), alpha=beta)
    return sums.with_local(local.to(dtype))


def positions(team: Team, part: Part) -> tuple[Tensor, Tensor]:
    """Return the indices of the rows of a matrix that are here, [m, 1], and of all its columns, [1, N]."""
    start = part.layout.starts(team.coordinate)[-2]
    row = torch.arange(start, start + part.local.shape[-2], device=part.local.device)[:, None]
    return row, torch.arange(part.shape[-1], device=part.local.device)[None, :]


def _applied(argument: str, trans: Any, part: Part) -> Part:
    kind = transposition("gemm", trans, argument)
    return part if kind == "n" else part.transposed(conj=kind == "c")


def by_batch(team: Team, fn: Callable[..., Any], *parts: Part) -> Any:
    """Cut batches and keep matrices whole, so that ``fn`` needs no other rank."""
    batch = torch.broadcast_shapes(*(part.shape[:-2] for part in parts))

    def cut(part: Part) -> Tensor:
        own = len(part.shape) == len(batch) + 2 and part.shape[0] == batch[0]
        return part.to(team, team.first(0 if own else None)).local

    def whole(local: Tensor) -> Part:
        return parts[0].with_local(local, (batch[0], *local.shape[1:]), team.first(0))

    local = fn(*map(cut, parts))
    return whole(local) if isinstance(local, Tensor) else type(local)(*map(whole, local))


def _one_axis(team: Team, alpha: complex, a: Part, b: Part, *, beta: complex, c: Part | None, options: Any) -> Part:
    """Take the form that moves least: rows of a, columns of b, or the sum over K cut between ranks."""
    ranks = team.size(0)
    m, n = a.shape[0], b.shape[1]
    added = (ranks - 1) / ranks * m * n * _term(a.dtype).itemsize
    forms = {
        "rows": traffic(a.layout, (0,)) + traffic(b.layout, (None,)),
        "columns": traffic(b.layout, (1,)) + traffic(a.layout, (None,)),
        "sums": traffic(a.layout, (1,)) + traffic(b.layout, (0,)) + added,
    }
    if keeps_sums(options, a.dtype):
        del forms["sums"]
    form = min(forms, key=forms.__getitem__)
    if form == "sums" or ("sums" in forms and (a.places, b.places) == ((1,), (0,))):
        team.tally.on_chip = _on_chip(ranks, alpha, a, b, options)
    if form == "sums":
        local = _terms(alpha, a.to(team, 1).local, b.to(team, 0).local, options)
        return rounded(team, a.with_local(local, (m, n), (SUM,)).to(team, 0), a.dtype, beta, c)
    if form == "columns":
        # the transposed product, by rows
        c = None if c is None else c.transposed()
        return _by_rows(team, alpha, b.transposed(), a.transposed(), beta=beta, c=c, options=options).transposed()
    return _by_rows(team, alpha, a, b, beta=beta, c=c, options=options)


def _term(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype for terms of a sum: half precision would round each of them."""
    return torch.float32 if dtype in HALF else dtype


def _terms(alpha: complex, a: Tensor, b: Tensor, options: Any, onto: Tensor | None = None) -> Tensor:
    """Add the terms of a product whose sum is cut to ``onto``."""
    options, (a, b) = widened(options, a, b)
    return gemm(alpha, a, b, **options) if onto is None else gemm(alpha, a, b, 1.0, onto, out=onto, **options)


def widened(options: Any, *operands: Tensor) -> tuple[Any, list[Tensor]]:
    """Return options and operands for a sum that is cut between ranks, in the precision of its terms."""
    if operands[0].dtype not in HALF:
        return options, list(operands)
    # bfloat16 values are what "fast" multiplies, exactly, and adds up in float32
    policy = "fast" if operands[0].dtype == torch.bfloat16 else "fp32"
    return {**options, "precision": policy}, [x.float() for x in operands]


def _on_chip(ranks: int, alpha: complex, a: Part, b: Part, options: Any) -> OnChip:
    """Return the kernel that adds up between ranks while it multiplies, and why it cannot run this product."""
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


def _by_rows(team: Team, alpha: complex, a: Part, b: Part, *, beta: complex, c: Part | None, options: Any) -> Part:
    """Keep each rank's rows of a and pass panels of b round, one in use and the next under way."""
    a = a.to(team, 0)
    n = b.shape[1]
    if b.places[0] == SUM or (b.places[0] == 0 and keeps_sums(options, a.dtype)):
        b = b.to(team, 1)
    if b.places[0] is None:
        return _whole(team, alpha, a, b.local, beta=beta, c=c, options=options)
    along = b.places[0]
    local = a.local.new_zeros(a.local.shape[0], n, dtype=_term(a.dtype) if along == 0 else a.dtype)
    addend = None if along == 0 or c is None else c.to(team, 0).local
    for start, size, panel in panels(team, 0, b, along):  # type: ignore[arg-type]
        if along == 0:
            _terms(alpha, a.local.narrow(1, start, size), panel, options, local)
        else:
            of_c = None if addend is None else addend.narrow(1, start, size)
            local.narrow(1, start, size).copy_(gemm(alpha, a.local, panel, beta, of_c, **options))
    return rounded(team, a.with_local(local, (a.shape[0], n), (0,)), a.dtype, beta, c if along == 0 else None)


def panels(team: Team, axis: int, part: Part, dim: int) -> Iterator[tuple[int, int, Tensor]]:
    """Yield every rank's part of ``part`` in turn, as start, size and tensor; the next travels while one is used."""
    cuts = [(rank, start, size) for rank, (start, size) in enumerate(chunks(part.shape[dim], team.size(axis))) if size]

    def send(rank: int, size: int) -> Any:
        shape = list(part.local.shape)
        shape[dim] = size
        mine = part.local if team.here(axis) == rank else None
        return team.broadcast(axis, mine, shape, part.dtype, rank)

    waits = [send(cuts[0][0], cuts[0][2])] if cuts else []
    for index, (_, start, size) in enumerate(cuts):
        if index + 1 < len(cuts):
            waits.append(send(cuts[index + 1][0], cuts[index + 1][2]))
        yield start, size, waits[index]()
        waits[index] = None


def _summa(team: Team, alpha: complex, a: Part, b: Part, *, beta: complex, c: Part | None, options: Any) -> Part:
    """Cut rows along the first axis of the mesh and columns along the second; broadcast panels of K."""
    rest = (None,) * (len(team.shape) - 2)
    places: Places = (0, 1, *rest)
    shape = (a.shape[0], b.shape[1])
    a, b = a.to(team, places), b.to(team, places)
    if keeps_sums(options, a.dtype):
        addend = None if c is None else c.to(team, places).local
        left, right = a.to(team, (0, None, *rest)).local, b.to(team, (None, 1, *rest)).local
        return a.with_local(gemm(alpha, left, right, beta, addend, **options), shape)
    local = a.local.new_zeros(a.local.shape[0], b.local.shape[1], dtype=_term(a.dtype))
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
    for index in range(len(segments)):
        if index + 1 < len(segments):
            waits.append(send(*segments[index + 1]))
        left, right = (wait() for wait in waits[index])
        _terms(alpha, left, right, options, local)
        waits[index] = None
    return rounded(team, a.with_local(local, shape), a.dtype, beta, c)


def keeps_sums(options: Any, dtype: torch.dtype) -> bool:
    """Return whether a call promises more than sums of partial sums keep, so that no sum may be cut."""
    exact = options["precision"] in _WHOLE_SUMS or options["target_error"] is not None
    return exact and dtype not in (torch.float64, torch.complex128)
