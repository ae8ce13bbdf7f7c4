"""Least squares for matrices of any rank: by QR where that finds full rank, by singular values elsewhere."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, array_function, check, op, run
from trnsci.accuracy import state_error
from trnsci.analogs import PLAIN, Different, given, replaces, resembles
from trnsci.caches import kept
from trnsci.gradient import saves
from trnsci.planning import remark
from trnsolver.arguments import check_result, finite, matrices, nonsingular, readable, right_hand_side, roundoff
from trnsolver.dense.qr import factor_checked
from trnsolver.dense.solve_triangular import triangular
from trnsolver.dense.target_error import lstsq_to
from trnsolver.eigen.svd import svd
from trnsolver.scaling import near_one

Driver = Literal["gels", "gelsy", "gelsd", "gelss"]
DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


class LeastSquares(NamedTuple):
    """The fields of `torch.linalg.lstsq`, the solution first."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@resembles("numpy.linalg.lstsq", left="it returns singular values, and residuals by rules of its own")
@array_function
def lstsq(
    a: Tensor,
    b: Tensor,
    rcond: float | None = None,
    *,
    driver: Driver | None = None,
    target_error: float | None = None,
) -> LeastSquares:
    """Find the ``x`` of least norm that minimises ``norm(a @ x - b)``: the arguments of `torch.linalg.lstsq`.

    Args:
        a: [..., M, N], of any rank.
        b: [..., M, K] or [..., M].
        rcond: singular values up to ``rcond`` times the largest count as zero; ``max(M, N)`` times epsilon by default,
            epsilon where it is negative.
        driver: LAPACK's name for what is computed. ``gels`` assumes full rank; ``gelsy``, the default, decides the
            rank; ``gelsd`` and ``gelss`` return the singular values as well.
        target_error: relative forward error of ``solution`` to reach, for one matrix of full column rank. Everything is
            then in float64, from float32 factors of the system that residual and solution fulfil together. The error is
            verified; `trnsci.achieved` returns it.

    Returns:
        `LeastSquares`: ``solution`` [..., N, K] or [..., N]; ``residuals`` [..., K], the squares of the norms of the
        columns of ``a @ x - b``, empty unless M > N and every matrix has full rank (where ranks cannot be read, traced
        or under vmap, unless M > N); ``rank`` [...], empty for ``gels``; ``singular_values`` [..., min(M, N)], empty
        but for ``gelsd`` and ``gelss``. Gradients flow through the first two.

    Raises:
        Singular: ``driver`` is ``gels``, and a column depends on those before it.
        NotConverged: ``target_error`` could not be verified; ``residual`` is the error that could.

    Error bound:
        ``x`` solves a system within ``20 max(M, N) u norm(a)`` and ``20 max(M, N) u norm(b)`` of this one.

    Cost:
        ``2 N**2 (M - N / 3)`` FLOPs for full rank, about ten times that otherwise.

    Example:
        >>> found = lstsq(torch.tensor([[1.0], [1.0]]), torch.tensor([1.0, 3.0]))
        >>> found.solution.round(decimals=4), found.residuals.round(decimals=4), found.rank
        (tensor([2.]), tensor([2.]), tensor(1))
    """
    if target_error is not None:
        for name, value in (("rcond", rcond), ("driver", driver)):
            if value is not None:
                raise ArgumentError("lstsq", name, value, "None with target_error")
        return _to_a_target(a, b, target_error)
    matrices("lstsq", look=False, a=a)
    chosen = "gelsy" if driver is None else driver
    check.option("lstsq", "driver", chosen, DRIVERS)
    vector = right_hand_side("lstsq", a, b, look=False)
    right = b.unsqueeze(-1) if vector else b
    x, rank, values = run(LstsqCall(a, right, _least(a, rcond, chosen), chosen))
    check_result("lstsq", x, a=a, b=b)
    return LeastSquares(x.squeeze(-1) if vector else x, _residuals(a, right, x, rank), rank, values)


def _as_torch(value: LeastSquares, a: Tensor, b: Tensor, *_: Any, driver: str | None = None, **__: Any) -> LeastSquares:
    """Return a result of torch's: without residuals for ``gelsy``, and singular values without a gradient."""
    if type(a) in PLAIN and value.rank.numel() and int(value.rank.min()) < min(a.shape[-2:]):
        raise Different("the rank is LAPACK's to decide")
    value = value._replace(singular_values=value.singular_values.detach())
    return value._replace(residuals=a.new_empty(0, dtype=a.dtype.to_real())) if driver in (None, "gelsy") else value


replaces("aten::linalg_lstsq", by=lstsq, result=_as_torch)(functools.partial(given, lstsq))


def _to_a_target(a: Tensor, b: Tensor, target_error: float) -> LeastSquares:
    result = lstsq_to(a, b, target_error)
    state_error(result.bound)
    x, wide = result.x, result.x.dtype
    vector = x.ndim == 1
    rank = torch.tensor(a.shape[-1], device=a.device)
    columns, right = (part.unsqueeze(-1) if vector else part for part in (x, b.detach().to(wide)))
    left = _residuals(a.detach().to(wide), right, columns, rank)
    return LeastSquares(x, left, rank, x.new_empty((0,), dtype=wide.to_real()))


def _least(a: Tensor, rcond: float | None, driver: str) -> float:
    """Return the share of the largest singular value that others must exceed."""
    epsilon = 2 * roundoff(a.dtype)
    if rcond is None:
        return max(a.shape[-2:]) * epsilon
    check.refuse(driver == "gels", "lstsq", "rcond", rcond, "None with driver='gels': rank is full")
    if isinstance(rcond, bool) or not isinstance(rcond, int | float) or rcond != rcond:
        raise ArgumentError("lstsq", "rcond", rcond, "a number")
    return epsilon if rcond < 0 else float(rcond)


def _residuals(a: Tensor, b: Tensor, x: Tensor, rank: Tensor) -> Tensor:
    m, n = a.shape[-2:]
    # a tracer cannot know the ranks: it gets the residuals whatever they are
    if m <= n or (readable(rank) and not (rank.item() == n if rank.ndim == 0 else bool((rank == n).all()))):
        return a.new_empty((0,), dtype=a.dtype.to_real())
    return squares(gemm(1.0, a, x, -1.0, b))


def squares(left: Tensor) -> Tensor:
    """Return the squares of the norms of columns."""
    return (left.real.square() + left.imag.square() if left.is_complex() else left.square()).sum(-2)


@op(
    "trnsolver::lstsq",
    composed=True,
    calls={"host": "scipy.linalg.lapack.gelsy", "cuda": "torch.geqrf and torch.linalg.solve_triangular"},
)
class LstsqCall(NamedTuple):
    """Solution, rank and singular values; the latter two are empty where the driver returns none."""

    a: Tensor  # [..., M, N]
    b: Tensor  # [..., M, K]
    least: float
    driver: Driver

    def fake(self) -> tuple[Tensor, Tensor, Tensor]:
        a, b = self.a, self.b
        batch = check.broadcast("lstsq", a=a.shape[:-2], b=b.shape[:-2])
        ranks = (0,) if self.driver == "gels" else a.shape[:-2]
        values = (*a.shape[:-2], min(a.shape[-2:])) if self.driver in ("gelsd", "gelss") else (0,)
        return (
            b.new_empty((*batch, a.shape[-1], b.shape[-1])),
            a.new_empty(ranks, dtype=torch.int64),
            a.new_empty(values, dtype=a.dtype.to_real()),
        )

    def cost(self) -> int:
        a, m, n = self.a, max(self.a.shape[-2:]), min(self.a.shape[-2:])
        each = 2 * n * n * (m - n // 3) + 4 * m * n * self.b.shape[-1]
        return a.numel() // max(1, m * n) * each * (4 if a.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        a, b, (m, n) = self.a, self.b, self.a.shape[-2:]
        if implementation == "host":
            if self.driver != "gelsy":
                return f"decides the rank by QR with exchanged columns, which {self.driver} does not"
            if a.numel() == 0 or b.numel() == 0 or self.least >= 1:
                return "an operand is empty, or no singular value counts"
            return None if a.shape[:-2] == b.shape[:-2] else "each matrix has its own right-hand sides there"
        if implementation != "cuda":
            return None
        if a.ndim < 3 or a.numel() == 0 or b.numel() == 0:
            return "pays for batches, where cuBLAS factors all matrices at once"
        if self.driver not in ("gels", "gelsy"):
            return f"decides the rank by QR, and {self.driver} returns singular values"
        if m < n or m > 256 or a.shape[:-2] != b.shape[:-2]:
            return f"cuBLAS factors batches of M >= N up to 256 rows, each with its own right-hand side, not {m}x{n}"
        return None

    def host(self) -> tuple[Tensor, Tensor, Tensor]:
        a, b, least = self.a, self.b, self.least
        finite("lstsq", a=a)
        (m, n), k = a.shape[-2:], b.shape[-1]
        systems, rights = a.numpy().reshape(-1, m, n), b.numpy().reshape(-1, m, k)
        if m < n:
            rights = np.pad(rights, ((0, 0), (0, n - m), (0, 0)))
        solve, work = _gelsy(systems.dtype, m, n, k)
        solutions, ranks = np.empty((len(systems), k, n), systems.dtype), np.empty(len(systems), np.int64)
        for i, right in enumerate(rights):
            _, x, _, ranks[i], _ = solve(systems[i], right, np.zeros((n, 1), np.int32), least, work)
            solutions[i] = x[:n].T
        batch = a.shape[:-2]
        x = torch.from_numpy(solutions.reshape(*batch, k, n)).mT
        return x, torch.from_numpy(ranks.reshape(batch)), a.new_empty((0,), dtype=a.dtype.to_real())

    def cuda(self) -> tuple[Tensor, Tensor, Tensor]:
        """One QR of ``[a, b]``: what it leaves of ``b`` is the right-hand side of the triangle."""
        a, b, least, driver = self.a, self.b, self.least, self.driver
        n = a.shape[-1]
        whole = torch.geqrf(torch.cat([a, b], -1)).a[..., :n, :]
        # what follows is asked for while the GPU factors
        values = a.new_empty((0,), dtype=a.dtype.to_real())
        r, right = whole[..., :n], whole[..., n:]
        if driver == "gels":
            x = torch.linalg.solve_triangular(r, right, upper=True)
            finite("lstsq", a=a)
            nonsingular("lstsq", r.diagonal(dim1=-2, dim2=-1))
            return x, a.new_empty((0,), dtype=torch.int64), values
        # one call for solution and inverse: what it takes is the length of its chain, not the columns
        eye = _eye(n, a.dtype, a.device).expand(r.shape)
        both = torch.linalg.solve_triangular(r, torch.cat([right, eye], -1), upper=True)
        x, inverse = both[..., : b.shape[-1]].contiguous(), both[..., b.shape[-1] :]
        # The norm of r is that of a. What is not finite there, a zero on the diagonal, or a norm that overflows, makes
        # this NaN or infinite, and nothing is proved.
        ratio = torch.linalg.vector_norm(a, dim=(-2, -1)) * torch.linalg.vector_norm(inverse, dim=(-2, -1))
        limit = 1.0 / least if least > 0 else math.inf
        rank = a.new_full(a.shape[:-2], n, dtype=torch.int64)
        if ratio.amax().item() < limit:
            return x, rank, values
        finite("lstsq", a=a)
        return (*_solve_deficient(a, b, least, x, ratio < limit), values)

    def pytorch(self) -> tuple[Tensor, Tensor, Tensor]:
        """Solve by QR for full rank, where that is assumed or found; singular values for anything else."""
        a, b, least, driver = self.a, self.b, self.least, self.driver
        finite("lstsq", a=a)
        x, rank, values = self.fake()
        if a.numel() == 0:
            return x.zero_(), rank.zero_(), values
        if a.is_meta and driver == "gelsy":
            remark("counted for full rank: what lacks it takes the singular values as well")
            return _through(a, *_factor_tall(a), b), rank, values
        if driver == "gels":
            q, r = _factor_tall(a)
            nonsingular("lstsq", r.diagonal(dim1=-2, dim2=-1))
            return _through(a, q, r, b), rank, values
        if driver == "gelsy" and readable(a):
            x, full = _by_qr(a, b, least)
            rank.fill_(min(a.shape[-2:]))
            return (x, rank, values) if bool(full.all()) else (*_solve_deficient(a, b, least, x, full), values)
        x, s, counted = _by_values(a, b, least)
        return x, counted, s if values.shape == s.shape else values

    @saves("a", "b", host=True, pytorch=True)
    def vjp(
        self, grad: tuple[Tensor, Any, Any], needs: frozenset[str], result: tuple[Tensor, Tensor, Tensor]
    ) -> dict[str, Tensor]:
        grad_a, grad_b = _pull_back(self, result[0], result[1], grad[0])
        if self.driver in ("gelsd", "gelss") and grad[2] is not None:
            u, _, vh = svd(self.a, full_matrices=False)
            grad_a = grad_a + gemm(1.0, u * grad[2].unsqueeze(-2).to(u.dtype), vh)
        return {"a": grad_a, "b": grad_b}


@functools.lru_cache(maxsize=128)
def _gelsy(kind: np.dtype[Any], m: int, n: int, k: int) -> tuple[Any, int]:
    """Return LAPACK's complete orthogonal factorisation for such systems, and the size of its work space."""
    solve, size = scipy.linalg.get_lapack_funcs(("gelsy", "gelsy_lwork"), dtype=kind)
    return solve, int(size(m, n, k, 0.0)[0].real)


@kept
def _eye(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.eye(n, dtype=dtype, device=device)


def _by_qr(a: Tensor, b: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Return solutions for full rank, and which matrices surely have it.

    The Frobenius norms of ``r`` and its inverse bound the ratio of the extreme singular values from above.
    """
    q, r = _factor_tall(a)
    # a zero on the diagonal decides; it is replaced so that nothing is divided by it
    divides = torch.isfinite(r).all(-1) & (r.diagonal(dim1=-2, dim2=-1) != 0)
    eye = torch.eye(r.shape[-1], dtype=r.dtype, device=r.device).expand(r.shape)
    whole = r if bool(divides.all()) else torch.where(divides.all(-1)[..., None, None], r, eye)
    inverse = torch.linalg.matrix_norm(triangular(whole, eye, lower=False))
    # where a norm overflows or vanishes nothing is proved
    full = divides.all(-1) & (torch.linalg.matrix_norm(whole) * inverse * least < 1.0)
    return _through(a, q, whole, b), full


def _factor_tall(a: Tensor) -> tuple[Tensor, Tensor]:
    """Factor ``a``, or ``a.mH`` where that is the tall one."""
    return factor_checked(a if a.shape[-2] >= a.shape[-1] else a.mH)


def _through(a: Tensor, q: Tensor, r: Tensor, b: Tensor) -> Tensor:
    """Return the solution for full rank, from these factors."""
    if a.shape[-2] >= a.shape[-1]:
        return triangular(r, gemm(1.0, q, b, trans_a="c"), lower=False)
    return gemm(1.0, q, triangular(r.mH, b, lower=True))


def _solve_deficient(a: Tensor, b: Tensor, least: float, x: Tensor, full: Tensor) -> tuple[Tensor, Tensor]:
    """Return solutions and ranks, those of matrices without full rank by singular values."""
    if not bool(full.any()):
        x, _, rank = _by_values(a, b, least)
        return x, rank
    batch, rest = x.shape[:-2], (~full).expand(x.shape[:-2])
    rank = torch.full(batch, min(a.shape[-2:]), device=a.device)
    matrix, right = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
    x[rest], _, rank[rest] = _by_values(matrix[rest], right[rest], least)
    return x, _once(rank, a.shape[:-2])


def _once(rank: Tensor, shape: torch.Size) -> Tensor:
    """Return a count of each right-hand side as one of each matrix."""
    extra = rank.ndim - len(shape)
    for axis in range(extra):
        rank = rank.narrow(axis, 0, 1)
    for axis, size in enumerate(shape, extra):
        rank = rank.narrow(axis, 0, size)
    return rank.reshape(shape)


def _by_values(a: Tensor, b: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the solution, singular values and rank."""
    scale = near_one(a, (-2, -1))
    u, s, vh = svd(a * scale, full_matrices=False)
    kept = s > least * s.amax(-1, keepdim=True)
    inverse = torch.where(kept, 1.0 / torch.where(kept, s, 1.0), 0.0).to(a.dtype)
    x = gemm(1.0, vh, inverse.unsqueeze(-1) * gemm(1.0, u, b, trans_a="c"), trans_a="c")
    return x * scale, s / scale.squeeze(-1), kept.sum(-1)


def _pull_back(call: LstsqCall, x: Tensor, rank: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Return gradients of ``a`` and ``b`` from that of ``x = p @ b``, ``p`` the pseudo-inverse at constant rank.

    ``dp = -p da p + p p.mH da.mH (1 - a p) + (1 - p a) da.mH p.mH p`` (Golub and Pereyra).
    """
    a, b, _, driver = call
    m, n = a.shape[-2:]

    def solve_right(matrix: Tensor, right: Tensor) -> Tensor:
        return run(call._replace(a=matrix, b=right))[0]

    back = solve_right(a.mH, grad)
    twice = solve_right(a, back)
    grad_a = gemm(-1.0, back, x, trans_b="c") + gemm(1.0, b - gemm(1.0, a, x), twice, trans_b="c")
    if m < n or (driver != "gels" and not (readable(rank) and bool((rank == n).all()))):
        off = grad - solve_right(a, gemm(1.0, a, grad))
        grad_a = grad_a + gemm(1.0, solve_right(a.mH, x), off, trans_b="c")
    return grad_a.sum_to_size(a.shape), back.sum_to_size(b.shape)
