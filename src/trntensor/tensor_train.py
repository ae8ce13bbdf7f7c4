"""Tensor trains: decomposition by successive SVDs, truncated by rank or by error, and rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from trnsci import ArgumentError, array_function, check, host
from trntensor.decomposed import Convergence, Decomposed, real_input, scale_down, scale_up


@dataclass(frozen=True, slots=True, eq=False)
class TensorTrain(Decomposed):
    """``x[i, j, ...] = cores[0][:, i, :] @ cores[1][:, j, :] @ ...``; cores are [r, n, r'], the outer ranks 1."""

    cores: tuple[Tensor, ...]
    convergence: Convergence = field(compare=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor it stands for."""
        return tuple(core.shape[1] for core in self.cores)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Sizes between the cores, with 1 at both ends."""
        return (1, *(core.shape[2] for core in self.cores))

    def network(self, labels: str, fresh: Callable[[], str]) -> list[tuple[str, Tensor]]:
        """Return a core for every axis, with an inner label between neighbours."""
        inner = [fresh() for _ in range(len(labels) + 1)]
        return [(inner[n] + labels[n] + inner[n + 1], core) for n, core in enumerate(self.cores)]

    def round(self, *, rank: int | Sequence[int] | None = None, error: float | None = None) -> TensorTrain:
        """Return the same train with smaller ranks: orthogonalised from the right, then truncated from the left.

        Args:
            rank: largest rank, or one for every bond.
            error: relative error allowed, in the Frobenius norm.
        """
        dtype = self.cores[0].dtype
        cores = [core.float() if core.dtype in (torch.float16, torch.bfloat16) else core for core in self.cores]
        for n in range(len(cores) - 1, 0, -1):
            left, size, right = cores[n].shape
            q, r = torch.linalg.qr(cores[n].reshape(left, size * right).mH)
            cores[n] = q.mH.reshape(-1, size, right)
            cores[n - 1] = torch.tensordot(cores[n - 1], r.mH, 1)
        cores[0], exponent = scale_down(cores[0])
        norm = float(torch.linalg.vector_norm(cores[0]))
        limits = _limits("round", rank, error, len(cores), norm)
        lost = 0.0
        for n in range(len(cores) - 1):
            left, size, right = cores[n].shape
            u, rest, gone = _split(cores[n].reshape(left * size, right), limits[n])
            lost += gone
            cores[n] = u.reshape(left, size, -1)
            cores[n + 1] = torch.tensordot(rest, cores[n + 1], 1)
        cores[-1] = scale_up(cores[-1], exponent)
        return TensorTrain(tuple(core.to(dtype) for core in cores), _info(lost, norm))


@array_function
def tensor_train(x: Tensor, rank: int | Sequence[int] | None = None, *, error: float | None = None) -> TensorTrain:
    """Decompose a tensor into a train of three-index cores.

    Args:
        x: a tensor, any floating-point dtype; half precision is computed in float32.
        rank: largest rank, or one for every bond.
        error: relative error allowed, in the Frobenius norm; ranks are then as small as that permits.

    Returns:
        `TensorTrain`, exact up to rounding where neither limit is given. ``convergence.error`` comes from the singular
        values left out.

    Example:
        >>> tensor_train(torch.ones(2, 3, 4), error=1e-6).ranks
        (1, 1, 1, 1)
    """
    work, exponent = real_input("tensor_train", x)
    norm = float(torch.linalg.vector_norm(work))
    limits = _limits("tensor_train", rank, error, work.ndim, norm)
    cores: list[Tensor] = []
    left, lost = 1, 0.0
    rest = work.reshape(1, -1)
    for axis, size in enumerate(work.shape[:-1]):
        u, rest, gone = _split(rest.reshape(left * size, -1), limits[axis])
        lost += gone
        cores.append(u.reshape(left, size, -1))
        left = u.shape[1]
    cores.append(scale_up(rest, exponent).reshape(left, work.shape[-1], 1))
    return TensorTrain(tuple(core.to(x.dtype) for core in cores), _info(lost, norm))


def _info(lost: float, norm: float) -> Convergence:
    return Convergence(iterations=1, converged=True, errors=(math.sqrt(lost) / norm if norm > 0 else 0.0,))


def _limits(
    op: str, rank: int | Sequence[int] | None, error: float | None, axes: int, norm: float
) -> list[tuple[int | None, float]]:
    """Return, for every bond, the largest rank and the square norm that may be left out."""
    bonds = max(0, axes - 1)
    ranks: list[int | None] = [None] * bonds
    if rank is not None:
        given = [rank] * bonds if isinstance(rank, int) else check.sequence(op, "rank", rank)
        check.equal(op, "number of bonds", x=bonds, rank=len(given))
        ranks = [check.integer(op, "rank", value, 1, 2**63 - 1) for value in given]
    allowed = 0.0
    if error is not None:
        if isinstance(error, bool) or not isinstance(error, int | float) or not error >= 0:
            raise ArgumentError(op, "error", error, "a number of at least 0")
        # The squares of what the bonds leave out add up to the square of the whole error.
        allowed = (error * norm) ** 2 / max(1, bonds)
    return [(value, allowed) for value in ranks]


def _split(flat: Tensor, limit: tuple[int | None, float]) -> tuple[Tensor, Tensor, float]:
    u, s, v = host.svd("tensor_train", flat)
    most, allowed = limit
    tails = torch.flip(torch.cumsum(torch.flip(s.double() ** 2, (0,)), 0), (0,))
    keep = int((tails > allowed).sum())
    keep = max(1, keep if most is None else min(keep, most))
    gone = float(tails[keep]) if keep < len(s) else 0.0
    return u[:, :keep], s[:keep, None].to(v.dtype) * v[:keep], gone
