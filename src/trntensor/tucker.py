"""Tucker decomposition: higher-order SVD, and its improvement by orthogonal iteration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from trnsci import array_function, check, host
from trntensor.decomposed import (
    Convergence,
    Decomposed,
    Progress,
    check_sweeps,
    real_input,
    relative_error,
    scale_up,
    unfold,
)
from trntensor.einsum import einsum


@dataclass(frozen=True, slots=True, eq=False)
class Tucker(Decomposed):
    """``x[i, j, ...] = sum core[p, q, ...] factors[0][i, p] factors[1][j, q] ...``, with orthonormal columns."""

    core: Tensor
    factors: tuple[Tensor, ...]
    convergence: Convergence = field(compare=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor it stands for."""
        return tuple(factor.shape[0] for factor in self.factors)

    def network(self, labels: str, fresh: Callable[[], str]) -> list[tuple[str, Tensor]]:
        """Return the core, and a factor for every axis."""
        inner = [fresh() for _ in labels]
        parts = [(label + rank, factor) for label, rank, factor in zip(labels, inner, self.factors, strict=True)]
        return [("".join(inner), self.core), *parts]


@array_function
def tucker(
    x: Tensor,
    ranks: int | Sequence[int],
    *,
    method: str = "hooi",
    max_iter: int = 50,
    tol: float = 1e-8,
    callback: Progress | None = None,
) -> Tucker:
    """Approximate a tensor by a small core and an orthonormal factor per axis.

    Args:
        x: a tensor, any floating-point dtype; half precision is computed in float32.
        ranks: size of the core, one number for all axes or one each.
        method: ``hosvd`` (one pass, error at most ``sqrt(ndim)`` times the best) or ``hooi`` (iterated from there).
        max_iter: sweeps of ``hooi`` at most.
        tol: stop when the relative error changes by less than this in a sweep.
        callback: called with sweep and relative error; iteration ends early when it returns ``False``.

    Example:
        >>> tucker(torch.ones(2, 3, 4), 1).core.shape
        torch.Size([1, 1, 1])
    """
    work, exponent = real_input("tucker", x)
    check.option("tucker", "method", method, ("hosvd", "hooi"))
    check_sweeps("tucker", max_iter, tol, callback)
    sizes = [ranks] * work.ndim if isinstance(ranks, int) else check.sequence("tucker", "ranks", ranks)
    check.equal("tucker", "number of axes", x=work.ndim, ranks=len(sizes))
    given = [check.integer("tucker", f"rank of axis {axis}", rank, 1, 2**63 - 1) for axis, rank in enumerate(sizes)]
    sizes = [min(rank, size) for rank, size in zip(given, work.shape, strict=True)]
    factors = [_leading(unfold(work, axis), rank) for axis, rank in enumerate(sizes)]
    norm = torch.linalg.vector_norm(work)
    core = _project(work, factors)
    errors = [_error(work, norm, core, factors)]
    converged = method == "hosvd"
    for sweep in range(max_iter if method == "hooi" else 0):
        for axis, rank in enumerate(sizes):
            factors[axis] = _leading(unfold(_project(work, factors, axis), axis), rank)
        core = _project(work, factors)
        errors.append(_error(work, norm, core, factors))
        if callback is not None and callback(sweep, errors[-1]) is False:
            break
        if abs(errors[-2] - errors[-1]) < tol:
            converged = True
            break
    info = Convergence(iterations=len(errors) - 1, converged=converged, errors=tuple(errors))
    return Tucker(scale_up(core, exponent).to(x.dtype), tuple(factor.to(x.dtype) for factor in factors), info)


def _leading(flat: Tensor, rank: int) -> Tensor:
    """Return the leading left singular vectors, completed to an orthonormal set where columns are too few."""
    full = rank > min(flat.shape)
    return host.svd("tucker", flat, full=full)[0][:, :rank]


def _project(x: Tensor, factors: Sequence[Tensor], leave: int | None = None) -> Tensor:
    """Contract every axis with its factor, except one."""
    for axis, factor in enumerate(factors):
        if axis != leave:
            labels = "".join(chr(ord("a") + n) for n in range(x.ndim))
            x = einsum(f"{labels},{labels[axis]}z->{labels.replace(labels[axis], 'z')}", x, factor.conj())
    return x


def _error(x: Tensor, norm: Tensor, core: Tensor, factors: Sequence[Tensor]) -> float:
    square = 1 - torch.linalg.vector_norm(core / norm) ** 2
    return relative_error(x, norm, square, lambda: _project(core, [factor.mH for factor in factors]))
