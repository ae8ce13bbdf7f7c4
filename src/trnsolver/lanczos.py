"""A few eigenpairs of large matrices: Lanczos, Arnoldi and LOBPCG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, NotConverged, array_function, check
from trnsci.arrays import Answer
from trnsolver.eig import eig
from trnsolver.operators import Apply, Callback, Matrix, Operator, called, norms, operator, preconditioned, tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs(Answer):
    """Eigenpairs found by iteration.

    Attributes:
        values: [K].
        vectors: [N, K], of unit length.
        residuals: [K]: ``norm(a @ v - v * w)``.
        converged: whether all are below the tolerance.
        iterations: products with ``a`` (blocks of them for LOBPCG).
    """

    values: Tensor
    vectors: Tensor
    residuals: Tensor
    converged: bool
    iterations: int

    def require(self) -> Pairs:
        """Return itself; raise `NotConverged` unless everything was found."""
        if not self.converged:
            raise NotConverged(op="eigensolver", iterations=self.iterations, residual=float(self.residuals.max()))
        return self


@array_function
def lanczos(
    a: Matrix,
    k: int,
    *,
    n: int | None = None,
    which: Literal["largest", "smallest", "magnitude"] = "largest",
    tol: float = 1e-6,
    maxiter: int | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> Pairs:
    """``k`` extreme eigenpairs of a Hermitian operator, by thick-restart Lanczos with full orthogonalisation.

    Args:
        a: [N, N] matrix or anything `trnsolver.cg` takes.
        k: how many.
        n: rows, when ``a`` is a function.
        which: ``largest``, ``smallest``, or largest in ``magnitude``.
        tol: residual to reach, relative to the largest eigenvalue met.
        maxiter: products with ``a``.
        dtype: of the vectors, when ``a`` is not a tensor.
        device: of the vectors, likewise.
        seed: of the start vector.

    Example:
        >>> lanczos(torch.diag(torch.tensor([1.0, 5.0, 3.0, 2.0])), 1).values.round(decimals=4)
        tensor([5.])
    """
    return _restarted("lanczos", a, k, n=n, which=which, tol=tol, maxiter=maxiter, start=(dtype, device, seed))


@array_function
def arnoldi(
    a: Matrix,
    k: int,
    *,
    n: int | None = None,
    which: Literal["magnitude", "largest", "smallest"] = "magnitude",
    tol: float = 1e-6,
    maxiter: int | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> Pairs:
    """``k`` eigenpairs of a general operator, by Krylov-Schur restarts; values and vectors are complex.

    Arguments as for `lanczos`; ``largest`` and ``smallest`` go by the real part.

    Example:
        >>> arnoldi(torch.diag(torch.tensor([1.0, 5.0, 3.0, 2.0])), 1).values.real.round(decimals=4)
        tensor([5.])
    """
    return _restarted("arnoldi", a, k, n=n, which=which, tol=tol, maxiter=maxiter, start=(dtype, device, seed))


def _restarted(
    op: str,
    a: Matrix,
    k: int,
    *,
    n: int | None,
    which: str,
    tol: float,
    maxiter: int | None,
    start: tuple[torch.dtype, torch.device | str, int],
) -> Pairs:
    hermitian, (dtype, device, seed) = op == "lanczos", start
    check.data(op, wrapped=True, a=a)
    wrapped = operator(op, a)
    rows = wrapped.shape[0] if wrapped.shape is not None else n
    if rows is None:
        raise ArgumentError(op, "n", None, "the number of rows, because a is a function")
    check.integer(op, "k", k, 1, check.integer(op, "n", rows))
    check.integer(op, "seed", seed)
    if maxiter is not None:
        check.integer(op, "maxiter", maxiter, at_least=0)
    tolerance(op, tol)
    if which not in ("largest", "smallest", "magnitude"):
        raise ArgumentError(op, "which", which, "'largest', 'smallest' or 'magnitude'")
    known: Any = wrapped.matrix if wrapped.matrix is not None else a
    kind = known.dtype if isinstance(getattr(known, "dtype", None), torch.dtype) else dtype
    place = known.device if isinstance(getattr(known, "device", None), torch.device) else torch.device(device)
    # A real operator on complex vectors costs twice; a general spectrum is complex anyway.
    work = kind if hermitian or kind.is_complex else (torch.complex64 if kind == torch.float32 else torch.complex128)
    apply = wrapped.apply if work == kind else _on_complex(wrapped.apply)
    size = min(rows, max(2 * k + 10, 20))
    most = maxiter if maxiter is not None else max(300, 10 * rows)
    source = torch.Generator().manual_seed(seed)
    # ``a @ v = v @ h[:m] + next * h[m]`` with the rows of the basis for the columns of ``v``
    basis = torch.zeros(size + 1, rows, dtype=work, device=place)
    h = basis.new_zeros((size + 1, size))
    first = torch.randn(rows, dtype=work, generator=source).to(place)
    basis[0] = first / torch.linalg.vector_norm(first)
    keep, count = 0, 0
    while True:
        m = _extended(apply, basis, h, keep, source=source)
        count += m - keep
        core, coupling = h[:m, :m], h[m, :m]
        values, vectors = torch.linalg.eigh(0.5 * (core + core.mH)) if hermitian else eig(core)
        order = _ranked(values, which)
        values, vectors = values[order], vectors[:, order]
        left = (coupling @ vectors).abs()
        scale = float(values.abs().max()) or 1.0
        done = bool((left[:k] <= tol * scale).all()) or m == rows
        if done or count >= most:
            break
        keep = min(k + (size - k) // 2, m - 1)
        ritz = vectors[:, :keep] if hermitian else torch.linalg.qr(vectors[:, :keep]).Q
        core = torch.diag(values[:keep]).to(work) if hermitian else ritz.mH @ core @ ritz
        coupling, last = coupling @ ritz, basis[m].clone()
        basis[:keep], basis[keep] = gemm(1.0, ritz, basis[:m], trans_a=True), last
        h.zero_()
        h[:keep, :keep], h[keep, :keep] = core, coupling
    x = gemm(1.0, basis[:m], vectors[:, :k].to(work), trans_a=True)
    x = x / norms(x)
    true = norms(apply(x) - x * values[:k].to(work))
    eps = torch.finfo(true.dtype).eps
    return Pairs(
        values=values[:k] / wrapped.scale,
        vectors=x,
        residuals=true / wrapped.scale,
        converged=bool((true <= (tol + 10 * eps * rows**0.5) * scale).all()),
        iterations=count,
    )


def _on_complex(apply: Apply) -> Apply:
    def both(x: Tensor) -> Tensor:
        return torch.complex(apply(x.real.contiguous()), apply(x.imag.contiguous()))

    return both


def _ranked(values: Tensor, which: str) -> Tensor:
    if which == "magnitude":
        return values.abs().argsort(descending=True)
    real = values.real if values.is_complex() else values
    return real.argsort(descending=which == "largest")


def _extended(apply: Apply, basis: Tensor, h: Tensor, known: int, *, source: torch.Generator) -> int:
    """Grow an orthonormal basis and the projected operator in place; return how many products there are."""
    size, rows = h.shape[1], basis.shape[1]
    for j in range(known, size):
        w = apply(basis[j].unsqueeze(-1)).squeeze(-1)
        w, column = _orthogonal(basis[: j + 1], w)
        h[: j + 1, j] = column
        length = torch.linalg.vector_norm(w)
        scale = torch.linalg.vector_norm(column) + length
        if float(length) > 10 * torch.finfo(length.dtype).eps * float(scale):
            h[j + 1, j] = length
        elif j + 1 == rows:
            return rows
        else:
            # An invariant space: go on with a new direction, which nothing couples to.
            w, _ = _orthogonal(basis[: j + 1], torch.randn(rows, dtype=w.dtype, generator=source).to(w.device))
            length = torch.linalg.vector_norm(w)
        basis[j + 1] = w / length
    return size


def _orthogonal(basis: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """``w`` without its part in the space of the rows of ``basis``, and that part; twice is enough."""
    first = basis.conj() @ w
    w = torch.addmv(w, basis.mT, first, alpha=-1.0)
    second = basis.conj() @ w
    return torch.addmv(w, basis.mT, second, alpha=-1.0), first + second


@array_function
def lobpcg(
    a: Matrix,
    x: Tensor,
    *,
    b: Matrix | None = None,
    preconditioner: Apply | None = None,
    largest: bool = False,
    tol: float = 1e-6,
    maxiter: int = 200,
    callback: Callback | None = None,
) -> Pairs:
    """Extreme eigenpairs of ``a @ v = b @ v * w`` from a block ``x`` [N, K] of starts (Knyazev).

    Args:
        a: Hermitian operator.
        x: [N, K], linearly independent, 3 K at most N.
        b: Hermitian positive definite operator; identity by default.
        preconditioner: close to the inverse of ``a``.
        largest: the largest eigenvalues instead of the smallest.
        tol: residual to reach, relative to the largest Ritz value.
        maxiter: steps.
        callback: called with the step and the largest residual.

    Example:
        >>> start = torch.eye(4)[:, :1] + 0.1
        >>> lobpcg(torch.diag(torch.tensor([1.0, 5.0, 3.0, 2.0])), start, largest=True).values.round(decimals=4)
        tensor([5.])
    """
    tolerance("lobpcg", tol)
    check.dense("lobpcg", x=x)
    check.data("lobpcg", wrapped=True, a=a, b=b, x=x)
    check.equal("lobpcg", "dimensions", x=x.ndim, matrix=2)
    check.integer("lobpcg", "maxiter", maxiter, at_least=0)
    called("lobpcg", "callback", callback)
    improve = preconditioned("lobpcg", preconditioner)
    n, k = x.shape
    multiplied = _square_map("a", a, n)
    left = multiplied.apply
    other = None if b is None else _square_map("b", b, n)
    right = (lambda y: y) if other is None else other.apply
    if 3 * k > n:
        raise ArgumentError("lobpcg", "shape of x", tuple(x.shape), f"at most {n // 3} columns")
    sign = -1.0 if largest else 1.0
    directions = x.new_zeros((n, 0))
    x = _b_orthonormal(x, right)
    if x.shape[1] < k:
        raise ArgumentError(
            op="lobpcg",
            argument="x",
            got=f"{x.shape[1]} such columns",
            expected=f"{k} columns that are finite and linearly independent in the product of b",
        )
    residuals, values, step = x.new_full((k,), float("inf")).real, x.new_zeros(k).real, 0
    converged = False
    for step in range(maxiter + 1):
        ax = left(x)
        values = (x.conj() * ax).sum(0).real
        r = ax - right(x) * values.to(x.dtype)
        residuals = norms(r)
        worst = float(residuals.max())
        scale = float(values.abs().max()) or 1.0
        if callback is not None:
            callback(step, worst / scale)
        converged = worst <= tol * scale
        if converged or step == maxiter or not math.isfinite(worst):
            break
        w = improve(r)
        space = _b_orthonormal(
            torch.cat([x, w / norms(w).clamp_min(torch.finfo(values.dtype).tiny), directions], -1), right
        )
        core = gemm(1.0, space, left(space), trans_a="c")
        _, vectors = torch.linalg.eigh(sign * 0.5 * (core + core.mH))
        chosen = vectors[:, :k]
        following = gemm(1.0, space, chosen)
        # What the step added, without the part along the old block.
        directions = following - gemm(1.0, x, gemm(1.0, x, right(following), trans_a="c"))
        size = norms(directions)
        directions = directions[:, size > 0] / size[size > 0]
        x = following
    order = (sign * values).argsort()
    scale = 1.0 if other is None else other.scale
    values, residuals = values[order] * (scale / multiplied.scale), residuals[order] * (scale**0.5 / multiplied.scale)
    vectors = x[:, order] * scale**0.5
    return Pairs(values=values, vectors=vectors, residuals=residuals, converged=converged, iterations=step)


def _square_map(name: str, a: Any, n: int) -> Operator:
    """Return what multiplies columns of ``n`` rows by ``a``, or by a multiple of it."""
    wrapped = operator("lobpcg", a)
    if wrapped.shape not in (None, (n, n)):
        raise ArgumentError("lobpcg", f"shape of {name}", wrapped.shape, f"({n}, {n}), as x has rows")
    return wrapped


def _b_orthonormal(x: Tensor, right: Apply) -> Tensor:
    """Columns orthonormal in the inner product of ``b``, dependent ones left out; twice is enough."""
    for _ in range(2):
        gram = gemm(1.0, x, right(x), trans_a="c")
        if not bool(gram.isfinite().all()):
            return x[:, :0]
        values, vectors = torch.linalg.eigh(0.5 * (gram + gram.mH))
        kept = values > values[-1:] * torch.finfo(values.dtype).eps * x.shape[1] * 10
        x = gemm(1.0, x, vectors[:, kept] * values[kept].rsqrt().to(x.dtype))
    return x.flip(-1)
