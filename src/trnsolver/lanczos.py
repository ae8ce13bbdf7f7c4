"""A few eigenpairs of large matrices: Lanczos, Arnoldi and LOBPCG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, NotConverged, array_function, check
from trnsci.arrays import Answer, to_numpy
from trnsolver.arguments import no_gradient
from trnsolver.columns import norms
from trnsolver.complement import Guard
from trnsolver.krylov_schur import WHOLE, Krylov, find_pairs, rounding
from trnsolver.operators import Apply, Callback, Matrix, Operator, called, on_host, operator, preconditioned, tolerance
from trnsolver.tiles import near_one


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs(Answer):
    """Eigenpairs found by iteration.

    Attributes:
        values: [K].
        vectors: [N, K], of unit length.
        residuals: [K]: ``norm(a @ v - v * w)``.
        converged: whether all are below the tolerance, and a random direction orthogonal to them met none that is
            better: copies of a multiple eigenvalue are not missed.
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
            worst = float(self.residuals.max())
            hint = "Raise maxiter, which includes the search for repeated eigenvalues, or tol"
            raise NotConverged(op="eigensolver", iterations=self.iterations, residual=worst, hint=hint)
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
    return restarted("lanczos", a, k, n=n, which=which, tol=tol, maxiter=maxiter, start=(dtype, device, seed))


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
    return restarted("arnoldi", a, k, n=n, which=which, tol=tol, maxiter=maxiter, start=(dtype, device, seed))


def restarted(
    op: str,
    a: Matrix,
    k: int,
    *,
    n: int | None,
    which: str,
    tol: float,
    maxiter: int | None,
    start: tuple[torch.dtype, torch.device | str, int],
    stride: int | None = None,
) -> Pairs:
    """What `lanczos` and `arnoldi` share.

    ``start`` is the dtype, device and seed of the first vector, ``stride`` how many products pass between two looks at
    the pairs: all of a space by default.
    """
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
    where = known.device if isinstance(getattr(known, "device", None), torch.device) else torch.device(device)
    if wrapped.matrix is not None:
        no_gradient(op, wrapped.matrix)
    most = maxiter if maxiter is not None else max(300, 10 * rows)
    source = torch.Generator().manual_seed(seed)

    def draw() -> Tensor:
        return torch.randn(rows, dtype=kind, device="cpu", generator=source).to(where)

    wrapped = wrapped.probed(draw().unsqueeze(-1))
    size = rows if rows <= WHOLE else min(rows, max(2 * k + 16, 24))
    vectors = torch.empty(0, dtype=kind, device=where)
    if rows and on_host((wrapped.matrix, getattr(wrapped.entries, "values", None), vectors)):
        space = Krylov(wrapped.on_arrays().apply, lambda: draw().numpy(), size=size, hermitian=hermitian)
    else:
        apply: Apply = lambda x: wrapped.apply(x.unsqueeze(-1)).squeeze(-1)  # noqa: E731
        space = Krylov(apply, draw, size=size, hermitian=hermitian)
    ritz, confirmed = find_pairs(op, space, k, which=which, tol=tol, most=most, stride=stride or size)
    x = torch.as_tensor(space.combined(ritz.vectors[:, :k]), device=where).mT
    spectrum = torch.from_numpy(ritz.values[:k]).to(where)
    if not hermitian:
        x, spectrum = x.to(kind.to_complex()), spectrum.to(kind.to_complex())
    x = x / norms(x)
    if x.dtype == kind:
        image = wrapped.apply(x)
    else:
        image = torch.complex(wrapped.apply(x.real.contiguous()), wrapped.apply(x.imag.contiguous()))
    true = norms(image - x * spectrum)
    return Pairs(
        values=spectrum / wrapped.scale,
        vectors=x,
        residuals=true / wrapped.scale,
        converged=confirmed and bool((true <= (tol + rounding(space.basis)) * ritz.scale).all()),
        iterations=space.products,
    )


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
    check.flag("lobpcg", largest=largest)
    tolerance("lobpcg", tol)
    check.dense("lobpcg", x=x)
    check.data("lobpcg", wrapped=True, a=a, b=b, x=x)
    check.equal("lobpcg", "dimensions", x=x.ndim, matrix=2)
    check.integer("lobpcg", "maxiter", maxiter, at_least=0)
    called("lobpcg", "callback", callback)
    improve = preconditioned("lobpcg", preconditioner)
    n, k = x.shape
    multiplied = _square_map("a", a, x)
    left = multiplied.apply
    other = None if b is None else _square_map("b", b, x)
    right = (lambda y: y) if other is None else other.apply
    if 3 * k > n:
        raise ArgumentError("lobpcg", "shape of x", tuple(x.shape), f"at most {n // 3} columns")
    sign = -1.0 if largest else 1.0
    directions = x.new_zeros((n, 0))
    x = _b_orthonormal(x, right, directions)
    if x.shape[1] < k:
        raise ArgumentError(
            op="lobpcg",
            argument="x",
            got=f"{x.shape[1]} such columns",
            expected=f"{k} columns that are finite and linearly independent in the product of b",
        )
    guard, source, confirmed, norm = Guard(k), torch.Generator().manual_seed(0), False, 0.0
    for step in range(maxiter + 1):
        ax = left(x)
        values = (x.conj() * ax).sum(0).real
        order = (sign * values).argsort()
        x, ax, values = x[:, order], ax[:, order], values[order]
        r = ax - right(x) * values.to(x.dtype)
        residuals = norms(r)
        worst, scale = float(residuals[:k].max()), float(values[:k].abs().max()) or 1.0
        if callback is not None:
            callback(step, worst / scale)
        # a residual is not asked to be smaller than rounding leaves it
        enough, fresh = tol * scale + rounding(x.mT) * max(norm, scale), False
        if worst <= enough:
            heights = to_numpy(-sign * values)
            fresh = guard.has_changed(heights, enough)
            confirmed = not fresh and guard.is_resolved(heights, to_numpy(residuals), k, enough)
        if confirmed or step == maxiter or not math.isfinite(worst):
            break
        if fresh:
            drawn = improve(torch.randn((n, 1), dtype=x.dtype, device="cpu", generator=source).to(x.device))
            x, directions = torch.cat([x[:, :k], _b_orthonormal(drawn, right, x[:, :k])], -1), x[:, :0]
            continue
        w = improve(r[:, residuals > enough])
        w = w / norms(w).clamp_min(torch.finfo(values.dtype).tiny)
        space = torch.cat([x, _b_orthonormal(torch.cat([w, directions], -1), right, x)], -1)
        core = gemm(1.0, space, left(space), trans_a="c")
        spectrum, vectors = torch.linalg.eigh(sign * 0.5 * (core + core.mH))
        norm = max(norm, float(spectrum.abs().max()))
        following = gemm(1.0, space, vectors[:, : x.shape[1]])
        # What the step added, without the part along the old block.
        directions = following - gemm(1.0, x, gemm(1.0, x, right(following), trans_a="c"))
        size = norms(directions)
        # of a column that has converged it is rounding
        moved = size > rounding(x.mT) * norms(following)
        directions = directions[:, moved] / size[moved]
        x = following
    scale = 1.0 if other is None else other.scale
    return Pairs(
        values=values[:k] * (scale / multiplied.scale),
        vectors=x[:, :k] * scale**0.5,
        residuals=residuals[:k] * (scale**0.5 / multiplied.scale),
        converged=confirmed,
        iterations=step,
    )


def _square_map(name: str, a: Any, x: Tensor) -> Operator:
    """Return what multiplies columns like those of ``x`` by ``a``, or by a multiple of it."""
    wrapped, n = operator("lobpcg", a), len(x)
    if wrapped.shape not in (None, (n, n)):
        raise ArgumentError("lobpcg", f"shape of {name}", wrapped.shape, f"({n}, {n}), as x has rows")
    return wrapped.probed(x * near_one(x.detach(), 0))


def _b_orthonormal(x: Tensor, right: Apply, beside: Tensor) -> Tensor:
    """Columns orthonormal in the inner product of ``b``, also to those ``beside``; dependent ones are left out."""
    for _ in range(2):
        x = x - gemm(1.0, beside, gemm(1.0, right(beside), x, trans_a="c"))
        gram = gemm(1.0, x, right(x), trans_a="c")
        if not bool(gram.isfinite().all()):
            return x[:, :0]
        values, vectors = torch.linalg.eigh(0.5 * (gram + gram.mH))
        kept = values > values[-1:] * torch.finfo(values.dtype).eps * x.shape[1] * 10
        x = gemm(1.0, x, vectors[:, kept] * values[kept].rsqrt().to(x.dtype))
    return x.flip(-1)
