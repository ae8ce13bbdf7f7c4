"""Conjugate gradients on sharded arrays: any placement in, rows of the solution out.

The matrix is sharded, or sparse and cut along its rows (``trnsparse.shard_rows``), where a step moves the rows at each
cut alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnblas import gemm
from trnsci.distributed import Part, Team, chunks, sharded
from trnsci.distributed.parts import Sharded
from trnsci.errors import UnsupportedError
from trnsolver.arguments import square
from trnsolver.krylov.cg import cg, iterate_conjugate
from trnsolver.krylov.iteration import Result
from trnsolver.krylov.linear_system import check_system
from trnsolver.krylov.operators import far_from_one, preconditioner_or_identity
from trnsolver.scaling import largest, near_one


def _check_cg(a: Any, b: Tensor, **options: Any) -> None:
    """Shapes and dtypes; values steer everything else."""
    if isinstance(a, Sharded):
        a = torch.empty(a.shape, dtype=a.dtype, device="meta")
    elif not isinstance(a, Tensor):
        raise UnsupportedError(
            op="cg",
            reasons=[("distributed", f"a is a {type(a).__name__}, and the right-hand side is sharded")],
            hint="Spread a matrix with trnsci.distributed.shard, or a sparse one with trnsparse.shard_rows",
        )
    square("cg", look=False, a=a)
    stop = {name: options[name] for name in ("x0", "tol", "maxiter")}
    check_system("cg", a, b, callback=None, look=False, **stop)


def _find_scales(team: Team, held: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return powers of two that bring a matrix, whose entries are local, and its right-hand sides near 1."""
    mine = torch.cat([largest(held.detach(), (0, 1)), largest(right.detach(), 0)], 1)[0]
    every = torch.stack(team.all_gather(0, mine, [mine.shape] * team.size(0)))
    powers = near_one(every, 0, beyond=far_from_one(right.dtype))[0]
    return powers[:1], powers[1:]


def _operator(team: Team, a: Part | Sharded, b: Part, local: Tensor, power: Tensor) -> Callable[[Tensor], Tensor]:
    """Rows of ``power * a @ x`` from rows of ``x``."""
    n = b.shape[0]
    if isinstance(a, Sharded):
        return lambda x: a.times(team, b.with_local(x, (n, x.shape[1]), team.first(0))).local * power
    local = local * power
    sizes = [size for _, size in chunks(n, team.size(0))]

    def apply(x: Tensor) -> Tensor:
        pieces = team.all_gather(0, x.contiguous(), [(size, x.shape[1]) for size in sizes])
        return gemm(1.0, local, torch.cat(pieces))

    return apply


@sharded(cg, check=_check_cg)
def _cg(
    team: Team,
    a: Part | Sharded,
    b: Part,
    x0: Part | None,
    tol: float,
    maxiter: int | None,
    preconditioner: Any,
    callback: Any,
) -> Result:
    """Each rank keeps its rows of everything; a step gathers the direction and adds three numbers per column."""
    vector = len(b.shape) == 1
    rows = b.to(team, team.first(0))
    right = rows.local[:, None] if vector else rows.local
    held = a.held()[-1].reshape(1, -1) if isinstance(a, Sharded) else a.to(team, team.first(0)).local
    of_a, of_b = _find_scales(team, held, right)
    apply, factor = _operator(team, a, b, held, of_a), (of_a.double() / of_b.double()).to(of_a.dtype)
    right = right * of_b

    def inner(x: Tensor, y: Tensor) -> Tensor:
        return team.all_reduce(0, (x.conj() * y).sum(0))

    if x0 is None:
        x = torch.zeros_like(right)
    else:
        start = x0.to(team, team.first(0)).local
        x = (start[:, None] if vector else start) / factor
    scale = inner(right, right).real.sqrt()
    if x0 is not None:
        # the solution for a column of zeros is known
        x = torch.where(scale > 0, x, 0.0)
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    limit = 10 * b.shape[0] if maxiter is None else maxiter
    history: list[float] = []

    def size(r: Tensor, again: bool) -> float:
        if again:
            history.pop()
        if r.is_meta:
            # a plan counts one step: data decides how many there are
            history.append(0.0 if history else 2 * tol)
            return history[-1]
        history.append(float((inner(r, r).real.sqrt() / scale).amax()) if r.shape[1] else 0.0)
        if callback is not None and not again:
            callback(len(history) - 1, history[-1])
        return history[-1]

    improve, r = preconditioner_or_identity("cg", preconditioner), right - apply(x)
    x, done = iterate_conjugate(apply, improve, right, x, r, inner=inner, size=size, tol=tol, most=limit)
    x = x * factor
    solution = rows.with_local(x[:, 0] if vector else x)
    return Result(
        x=solution,  # type: ignore[arg-type]
        converged=done,
        iterations=len(history) - 1,
        residuals=tuple(history),
        op="cg",
    )
