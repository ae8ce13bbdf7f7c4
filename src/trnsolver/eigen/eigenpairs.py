"""Checked arguments of eigensolvers in Krylov spaces, and their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnsci import ArgumentError, NotConverged, check, run
from trnsci.arrays import Answer
from trnsci.ops import Call
from trnsci.planning import home
from trnsci.plans import Cost
from trnsolver.arguments import no_gradient
from trnsolver.eigen.krylov_schur import WHOLE, Krylov, find_pairs, rounding
from trnsolver.krylov.operators import Counted, Matrix, Operator, operator, tolerance
from trnsolver.krylov.vectors import norms


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


class Eigenpairs(NamedTuple):
    """Eigenpairs as an op returns them, with the products they took; see `Pairs`."""

    values: Tensor
    vectors: Tensor
    residuals: Tensor
    converged: bool
    iterations: int
    products: int


def find(call: Call[Eigenpairs]) -> Pairs:
    """Run the call of an eigensolver."""
    values, vectors, residuals, converged, iterations, _ = run(call)
    return Pairs(values=values, vectors=vectors, residuals=residuals, converged=converged, iterations=iterations)


class Search(NamedTuple):
    """A checked search for eigenpairs in a Krylov space.

    Attributes:
        op: the solver, for errors.
        hermitian: whether ``a`` is.
        a: [N, N].
        k, which, tol, maxiter: as for `lanczos`.
        seed: of the vectors drawn.
        stride: products between two looks at the pairs.
        like: no numbers, of the dtype and on the device of the vectors.
    """

    op: str
    hermitian: bool
    a: Operator
    k: int
    which: str
    tol: float
    maxiter: int
    seed: int
    stride: int
    like: Tensor

    @property
    def rows(self) -> int:
        """Length of the vectors."""
        assert self.a.shape is not None
        return self.a.shape[0]

    @property
    def size(self) -> int:
        """Vectors of the space before it restarts."""
        return self.rows if self.rows <= WHOLE else min(self.rows, max(2 * self.k + 16, 24))

    def fake(self, dtype: torch.dtype) -> Eigenpairs:
        """Return the result on shapes alone, values of the dtype."""
        kind = dtype if dtype.is_complex else self.like.dtype
        values = self.like.new_empty(self.k, dtype=dtype)
        vectors = self.like.new_empty((self.rows, self.k), dtype=kind)
        residuals = self.like.new_empty(self.k, dtype=dtype.to_real())
        return Eigenpairs(values, vectors, residuals, False, self.maxiter, 0)

    def cost(self) -> Cost:
        """Return the cost of a product and of making it orthogonal to half of the space on average, twice."""
        vectors, size, times = self.size, self.like.element_size(), 4 if self.like.is_complex() else 1
        flops = 2 * (self.a.stored + 2 * vectors * self.rows) * times
        return Cost(
            flops, (self.a.stored + 2 * vectors * self.rows) * size, self.rows * size, vectors * self.rows * size
        )

    def limits(self, implementation: str) -> str | None:
        """Return why the basis is not kept in an array, or ``None``."""
        return "there are no rows" if implementation == "host" and not self.rows else None

    def columns(self) -> Tensor:
        """Return memory of the columns that the operator multiplies."""
        return self.like.new_empty((self.rows, 1))

    def operands(self) -> list[Tensor]:
        """Return the tensors."""
        return [*self.a.operands(), self.like]

    def prepare(self, *, arrays: bool = False) -> Krylov:
        """Return the space before its first product, with its basis in an array or in a tensor."""
        source = torch.Generator().manual_seed(self.seed)

        def draw() -> Tensor:
            return torch.randn(self.rows, dtype=self.like.dtype, device="cpu", generator=source).to(self.like.device)

        # the first one was drawn to see the scale of functions
        draw()
        if arrays:
            apply, start = self.a.on_arrays(both=False)[0], lambda: draw().numpy()
            return Krylov(apply, start, size=self.size, hermitian=self.hermitian)
        multiply = self.a.apply
        return Krylov(lambda x: multiply(x.unsqueeze(-1)).squeeze(-1), draw, size=self.size, hermitian=self.hermitian)

    def find(self, space: Krylov) -> Eigenpairs:
        """Let the space grow until it has the pairs."""
        kind, where, k = self.like.dtype, self.like.device, self.k
        options: dict[str, Any] = {"which": self.which, "tol": self.tol, "most": self.maxiter, "stride": self.stride}
        ritz, confirmed = find_pairs(self.op, space, k, **options)
        x = torch.as_tensor(space.combine_rows(ritz.vectors[:, :k]), device=where).mT
        spectrum = torch.from_numpy(ritz.values[:k]).to(where)
        if not space.hermitian:
            x, spectrum = x.to(kind.to_complex()), spectrum.to(kind.to_complex())
        x, many = x / norms(x), Counted(self.a.apply)
        image = many(x) if x.dtype == kind else torch.complex(many(x.real.contiguous()), many(x.imag.contiguous()))
        true = norms(image - x * spectrum)
        converged = confirmed and bool((true <= (self.tol + rounding(space.basis)) * ritz.scale).all())
        values, residuals = spectrum / self.a.scale, true / self.a.scale
        return Eigenpairs(values, x, residuals, converged, space.products, space.products + many.products)


def check_search(
    op: str,
    a: Matrix,
    k: int,
    *,
    n: int | None,
    which: str,
    tol: float,
    maxiter: int | None,
    start: tuple[torch.dtype, torch.device | str, int],
    hermitian: bool = True,
    stride: int | None = None,
) -> Search:
    """Check what `lanczos` and `arnoldi` share.

    ``start`` is the dtype, device and seed of the first vector, ``stride`` how many products pass between two looks at
    the pairs: all of a space by default.
    """
    dtype, device, seed = start
    if home() is None:
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
    else:
        source = torch.Generator().manual_seed(seed)
        probe = torch.randn(rows, dtype=kind, device="cpu", generator=source)
        wrapped = wrapped.scale_by_product(probe.to(where).unsqueeze(-1))
    most, like = maxiter if maxiter is not None else max(300, 10 * rows), torch.empty(0, dtype=kind, device=where)
    search = Search(op, hermitian, wrapped, k, which, tol, most, seed, stride or 0, like)
    return search._replace(stride=stride or search.size)
