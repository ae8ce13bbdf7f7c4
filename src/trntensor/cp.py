"""Canonical polyadic decomposition by alternating least squares."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from trnsci import ArgumentError, array_function, check, host
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
class CP(Decomposed):
    """``x[i, j, ...] = sum over r of weights[r] factors[0][i, r] factors[1][j, r] ...``; columns have norm 1."""

    weights: Tensor
    factors: tuple[Tensor, ...]
    convergence: Convergence = field(compare=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor it stands for."""
        return tuple(factor.shape[0] for factor in self.factors)

    def network(self, labels: str, fresh: Callable[[], str]) -> list[tuple[str, Tensor]]:
        """Return weights and factors, which share one inner label."""
        rank = fresh()
        parts = [(label + rank, factor) for label, factor in zip(labels, self.factors, strict=True)]
        return [(rank, self.weights), *parts]


@array_function
def cp(
    x: Tensor,
    rank: int,
    *,
    nonnegative: bool = False,
    init: str | Sequence[Tensor] = "svd",
    max_iter: int = 200,
    tol: float = 1e-8,
    seed: int = 0,
    callback: Progress | None = None,
) -> CP:
    """Approximate a tensor by a sum of ``rank`` products of vectors.

    Args:
        x: a tensor of two or more axes, any floating-point dtype; half precision is computed in float32.
        rank: number of terms.
        nonnegative: keep weights and factors at or above 0 (hierarchical least squares, column by column).
        init: ``svd`` (leading singular vectors of the unfoldings, random columns where these are too few),
            ``random``, or factors [n, rank] to start from, one for each axis.
        max_iter: sweeps at most.
        tol: stop when the relative error changes by less than this in a sweep.
        seed: of the random columns.
        callback: called with sweep and relative error; iteration ends early when it returns ``False``.

    Returns:
        `CP`, with ``convergence`` to say how it ended. Reaching ``max_iter`` is no error: the result says so.

    Cost:
        ``2 * rank * numel`` FLOPs per axis and sweep.

    Example:
        >>> cp(torch.ones(2, 3, 4), 1).convergence.error < 1e-6
        True
    """
    work, exponent = real_input("cp", x, 2)
    rank = check.integer("cp", "rank", rank, 1, 2**63 - 1)
    check_sweeps("cp", max_iter, tol, callback)
    check.flag("cp", nonnegative=nonnegative)
    seed = check.integer("cp", "seed", seed, -(2**62), 2**62)
    if nonnegative and (work.is_complex() or bool((work < 0).any())):
        raise ArgumentError("cp", "x", "negative or complex values", "values >= 0")
    if isinstance(init, str):
        check.option("cp", "init", init, ("svd", "random"))
        factors = [_start(work, axis, rank, init=init, seed=seed, nonnegative=nonnegative) for axis in range(work.ndim)]
    else:
        check.tensor("cp", **{f"init[{i}]": factor for i, factor in enumerate(check.sequence("cp", "init", init))})
        got, wanted = [tuple(factor.shape) for factor in init], [(n, rank) for n in work.shape]
        check.refuse(got != wanted, "cp", "init", got, f"factors of shapes {wanted}")
        factors = [factor.to(work) for factor in init]
    norm = torch.linalg.vector_norm(work)
    labels = "".join(chr(ord("a") + axis) for axis in range(work.ndim))
    errors: list[float] = []
    converged = False
    weights = work.new_ones(rank)
    for sweep in range(max_iter):
        for axis in range(work.ndim):
            others = [n for n in range(work.ndim) if n != axis]
            terms = ",".join([labels, *(labels[n] + "z" for n in others)])
            product = einsum(f"{terms}->{labels[axis]}z", work, *(factors[n].conj() for n in others))
            gram = torch.ones((rank, rank), dtype=work.dtype, device=work.device)
            for n in others:
                gram = gram * (factors[n].mH @ factors[n])
            if nonnegative:
                factors[axis] = _columns(factors[axis] * weights, product, gram)
            else:
                # Equal columns make the Gram matrix singular; the pseudoinverse then takes the least-norm solution.
                factors[axis] = product @ torch.linalg.pinv(gram.conj(), hermitian=True)
            weights = torch.linalg.vector_norm(factors[axis], dim=0).to(work.dtype)
            factors[axis] = factors[axis] / torch.where(weights == 0, 1, weights)
        # The last product and Gram matrix give the error without forming the approximation.
        scaled = factors[-1] * (weights / norm)
        inner = (scaled.conj() * (product / norm)).sum().real
        own = (gram * (scaled.mH @ scaled)).sum().real
        whole = ",".join(["z", *(label + "z" for label in labels)]) + "->" + labels
        formed = functools.partial(einsum, whole, weights, *factors)
        errors.append(relative_error(work, norm, 1 - 2 * inner + own, formed))
        if callback is not None and callback(sweep, errors[-1]) is False:
            break
        if errors[-1] == 0.0 or (sweep > 0 and abs(errors[-2] - errors[-1]) < tol):
            converged = True
            break
    info = Convergence(iterations=len(errors), converged=converged, errors=tuple(errors))
    return CP(scale_up(weights, exponent).to(x.dtype), tuple(factor.to(x.dtype) for factor in factors), info)


def _start(x: Tensor, axis: int, rank: int, *, init: str, seed: int, nonnegative: bool) -> Tensor:
    generator = torch.Generator().manual_seed(seed + axis)
    shape = (x.shape[axis], rank)
    factor = torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu").to(x)
    if init == "svd":
        flat = unfold(x, axis)
        count = min(rank, *flat.shape)
        factor[:, :count] = host.svd("cp", flat)[0][:, :count]
    factor = factor.abs().to(x.dtype) if nonnegative else factor
    return factor / torch.linalg.vector_norm(factor, dim=0).to(x.dtype)


def _columns(factor: Tensor, product: Tensor, gram: Tensor) -> Tensor:
    """Run one pass of nonnegative least squares, a column at a time."""
    factor = factor.clone()
    for r in range(factor.shape[1]):
        rest = factor @ gram[:, r] - factor[:, r] * gram[r, r]
        factor[:, r] = ((product[:, r] - rest) / gram[r, r].clamp_min(torch.finfo(factor.dtype).tiny)).clamp_min(0)
    return factor
