"""Direct solution of sparse systems: factors that are computed once and solve for many right-hand sides."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, get_args, overload

import numpy as np
import torch
from torch import Tensor

from trnsci import ArgumentError, NotConverged, UnsupportedError, array_function, check, neuron, predict
from trnsci.accuracy import state_error
from trnsci.analogs import Different, Given, given, refuse_options, replaces, resembles
from trnsci.arrays import Array, from_numpy, to_numpy
from trnsci.backends import library, on_host
from trnsci.links import link
from trnsci.planning import remark
from trnsolver.arguments import check_result, double_dtype, finite, or_shapes
from trnsolver.dense.solve import SlogDet
from trnsolver.dense.target_error import exponents, scale_exactly, target, times
from trnsolver.sparse_direct.compressed_rows import Compressed, Index, Sparse, compress_rows, compress_square
from trnsolver.sparse_direct.fronts import Analysis, analyse_pattern
from trnsolver.sparse_direct.multifrontal import MultifrontalCholesky, MultifrontalLU
from trnsolver.sparse_direct.orderings import Ordering, match_rows, order_of
from trnsolver.sparse_direct.refine_sparse import refine_solution
from trnsolver.sparse_direct.sparse_qr import SparseQR, analyse_qr
from trnsolver.sparse_direct.superlu import Engine, SuperLU

Kind = Literal["lu", "cholesky", "qr"]
Method = Literal["auto", "superlu", "multifrontal"]
# Columns of the identity that one solve of a gradient of a determinant takes.
_COLUMNS = 256


class SparseFactor:
    """Factors of a sparse matrix, or of many of one pattern: `factor_sparse` makes them.

    Attributes:
        kind: ``lu``, ``cholesky`` or ``qr``.
        method: ``superlu`` or ``multifrontal``.
        shape: rows and columns of a matrix.
        batch: leading axes of the values.
    """

    def __init__(self, a: Compressed, engine: Engine, kind: Kind, method: str) -> None:
        self._a, self._engine = a, engine
        self.kind, self.method, self.shape = kind, method, a.shape
        self.batch = tuple(a.values.shape[:-1])

    def __getstate__(self) -> dict[str, Any]:
        engine = self._engine
        # SuperLU's objects stay where they are: a copy factors the same values in the same order again
        return {**self.__dict__, "_engine": replace(engine, factors=()) if isinstance(engine, SuperLU) else engine}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if isinstance(engine := self._engine, SuperLU):
            self._engine = SuperLU.of(engine.op, engine.a, _rows(self._a), engine.kind, engine.columns)

    @property
    def order(self) -> Tensor:
        """The order in which columns are eliminated, [N]."""
        return self._engine.order

    @property
    def fill(self) -> int:
        """Entries of the factors of one matrix."""
        return self._engine.fill

    def __repr__(self) -> str:
        m, n = self.shape
        many = f"{math.prod(self.batch)} of " if self.batch else ""
        entries = len(self._a.indices)
        return f"SparseFactor({many}{m} x {n}, {self.kind} by {self.method}, {entries} entries, {self.fill} in factors)"

    def refactor(self, values: Sparse | Array) -> SparseFactor:
        """Return factors of other values on the same pattern; its order, and all else it decides, is kept.

        Args:
            values: [..., nnz] in the order of compressed rows, or a sparse matrix of the same pattern.
        """
        if isinstance(values, np.ndarray):
            values = from_numpy(values)
        if not isinstance(values, Tensor) or values.layout != torch.strided:
            other = compress_rows("SparseFactor.refactor", values, lower=self.kind == "cholesky")
            same = other.shape == self.shape and np.array_equal(other.indptr, self._a.indptr)
            if not same or not np.array_equal(other.indices, self._a.indices):
                got = f"{len(other.indices)} entries of a {other.shape[0]} x {other.shape[1]} matrix"
                raise ArgumentError(
                    op="SparseFactor.refactor",
                    argument="pattern of values",
                    got=got,
                    expected=f"the {len(self._a.indices)} entries that were factored",
                    hint="factor_sparse takes any pattern",
                )
            values = other.values
        if values.dtype != self._a.values.dtype:
            check.floating("SparseFactor.refactor", values=values, factored=self._a.values)
        rows = compress_rows("SparseFactor.refactor", self._a, values, lower=self.kind == "cholesky")
        return SparseFactor(rows, self._engine.refactor(_rows(rows)), self.kind, self.method)

    @overload
    def solve(self, b: Tensor, *, trans: bool | str = ..., target_error: float | None = ...) -> Tensor: ...
    @overload
    def solve(self, b: Array, *, trans: bool | str = ..., target_error: float | None = ...) -> Array: ...
    @array_function  # type: ignore[misc]
    def solve(self, b: Tensor, *, trans: bool | str = False, target_error: float | None = None) -> Tensor:
        """Solve ``op(a) @ x = b``, by least squares with QR of more rows than columns.

        Args:
            b: [..., M, K] or [..., M]; the batch axes of the values, or any for one matrix. Gradients flow to it and to
                the values.
            trans: ``False`` or ``"n"``, ``True`` or ``"t"`` for the transpose, ``"c"`` for the adjoint. With QR that is
                the shortest solution.
            target_error: relative error of ``x`` to reach in the 2-norm, for one square matrix; ``x`` is then float64
                or complex128. The error is verified, and `trnsci.achieved` returns it: for LU and QR by a row of the
                inverse after the other, which takes N solves.

        Raises:
            Singular: with QR, a column depends on others to working precision; ``index`` names it.
            NotConverged: the target was not reached; ``residual`` is the error that was.

        Error bound:
            backward: ``norm(b - a @ x) <= 20 N u g (norm(a) norm(x) + norm(b))`` with ``g`` the growth of entries: 1
            for Cholesky and QR.
        """
        op = "SparseFactor.solve"
        letter = _letter(op, trans)
        check.floating(op, a=self._a.values, b=b)
        check.ndim(op, 1, b=b)
        if not b.is_meta:
            check.same_device(op, a=self._a.values, b=b)
            check.data(op, b=b)
        rows, columns = self.shape if letter == "n" else self.shape[::-1]
        vector = b.ndim == 1 or tuple(b.shape) == (*self.batch, rows)
        size = b.shape[-1] if vector else b.shape[-2]
        check.equal(op, "M", a=rows, b=size, hint="Right-hand sides are columns")
        finite(op, b=b)
        if target_error is not None:
            goal = target(op, target_error, a=self._a.values, b=b)
            return self._to(b, vector, letter, goal)
        wide, folded = self._fold_batches(op, b.unsqueeze(-1) if vector else b)
        if wide.numel() == 0 or columns == 0:
            x = wide.new_zeros((wide.shape[0], columns, wide.shape[2]))
        else:
            x = _Solve.apply(self, _rows(self._a), wide, letter)  # type: ignore[no-untyped-call]
        check_result(op, x, b=b)
        x = self._unfold_batches(x, folded)
        return x.squeeze(-1) if vector else x

    def _fold_batches(self, op: str, b: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        """Return ``b`` as [B, M, K], and its batch axes; for one matrix, all batches are columns."""
        if self.batch:
            given = check.broadcast(op, a=self.batch, b=b.shape[:-2])
            check.refuse(given != self.batch, op, "batch shape of b", tuple(b.shape[:-2]), str(self.batch))
            many = math.prod(self.batch)
            return b.expand(*self.batch, *b.shape[-2:]).reshape(many, *b.shape[-2:]), self.batch
        outer = (*b.shape[:-2], b.shape[-1])
        return b.movedim(-2, 0).reshape(1, b.shape[-2], math.prod(outer)), outer

    def _unfold_batches(self, x: Tensor, outer: tuple[int, ...]) -> Tensor:
        if self.batch:
            return x.reshape(*outer, *x.shape[-2:])
        return x.reshape(x.shape[1], *outer).movedim(0, -2)

    def _where(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return row and column of every entry."""
        return torch.from_numpy(self._a.rows).to(device), torch.from_numpy(self._a.indices).to(device)

    def _to(self, b: Tensor, vector: bool, letter: str, goal: float) -> Tensor:
        if self.batch or b.ndim > 2 or self.shape[0] != self.shape[1]:
            got = f"a batch {self.batch} of {self.shape}, b {tuple(b.shape)}"
            raise ArgumentError("SparseFactor.solve", "target_error", got, "one square matrix, b [N] or [N, K]")
        wide = double_dtype(self._a.values.dtype)
        columns = (b.detach().unsqueeze(-1) if vector else b.detach()).to(wide)
        op, own = "SparseFactor.solve", self._a.values.detach().unsqueeze(0)
        power = exponents(own, -1) if own.numel() else own.new_zeros((1, 1), dtype=torch.int32)

        def solve(r: Tensor, letter: str) -> Tensor:
            # residuals shrink below the range of the factors: columns are solved for at the size of the matrix
            size = exponents(r, 0)
            scaled = times(r, power - size).to(own.dtype)
            return times(self._engine.solve(scaled.unsqueeze(0), letter)[0].to(wide), size)

        values, moved = scale_exactly(op, own.to(wide), -power)[0], exponents(columns, 0)
        best = refine_solution(
            self._a, values, scale_exactly(op, columns, -moved), letter, solve, goal, definite=self.kind == "cholesky"
        )
        if not best.error <= goal:
            raise NotConverged(
                op=op,
                iterations=best.steps,
                residual=best.error,
                message=f"target error {goal:.3g} was not reached: {best.error:.3g} after {best.steps} corrections",
                hint="Ask for less, or regularise the matrix",
            )
        x = scale_exactly(op, best.x, moved - power)
        state_error(best.error)
        return x.squeeze(-1) if vector else x

    def slogdet(self) -> SlogDet:
        """Return signs and logarithms of the determinants, [...]; gradients flow to the values.

        The gradient takes the entries of the inverse that ``a`` stores: N solves, some hundred at a time.
        """
        sign, logarithm = _LogDet.apply(self, _rows(self._a))  # type: ignore[no-untyped-call]
        return SlogDet(sign.reshape(self.batch), logarithm.reshape(self.batch))

    def diagonal(self) -> Tensor:
        """Return the diagonal [..., N] of L (Cholesky), U (LU) or R (QR), in the order of elimination."""
        diagonal = self._engine.diagonal()
        return diagonal.reshape(*self.batch, diagonal.shape[-1])

    def triangles(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """L and U as sparse tensors of torch, and the orders with ``a[rows][:, columns] = L @ U``; by SuperLU only."""
        if not isinstance(self._engine, SuperLU):
            reason = "fronts and reflections are kept as they are"
            hint = "factor_sparse(a, method='superlu')"
            raise UnsupportedError("SparseFactor.triangles", [(self.method, reason)], hint=hint)
        lower, upper, rows, columns = self._engine.triangles()
        first, second = map(_torch_sparse, (lower, upper))
        return first, second, torch.from_numpy(rows.astype(np.int64)), torch.from_numpy(columns.astype(np.int64))


def _torch_sparse(a: Any) -> Tensor:
    indptr, indices, values = (torch.from_numpy(part) for part in (a.indptr, a.indices, a.data))
    return torch.sparse_csr_tensor(indptr, indices, values, size=a.shape, device="cpu", check_invariants=False)


def _rows(a: Compressed) -> Tensor:
    return a.values.reshape(math.prod(a.values.shape[:-1]), a.values.shape[-1])


def _letter(op: str, trans: bool | str) -> str:
    letter = {False: "n", True: "t"}.get(trans, trans) if isinstance(trans, bool) else trans
    check.option(op, "trans", letter, ("n", "t", "c"))
    return str(letter)


class _Solve(torch.autograd.Function):
    """``x`` of ``op(a) @ x = b``; the gradient of ``b`` is a solve with the adjoint."""

    @staticmethod
    def forward(ctx: Any, factor: SparseFactor, values: Tensor, b: Tensor, letter: str) -> Tensor:
        x = factor._engine.solve(b.detach(), letter)
        ctx.factor, ctx.letter = factor, letter
        ctx.save_for_backward(values, b, x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        values, b, x = ctx.saved_tensors
        if ctx.letter == "t":
            # the transpose is the adjoint between conjugates
            grad, b, x = grad.conj(), b.conj(), x.conj()
        plain = ctx.letter == "n"
        back = _solve_with_values(ctx.factor, values, grad, "c" if plain else "n")
        of_values = None
        if ctx.needs_input_grad[1]:
            of_values = _gradient(ctx.factor, values, grad, b=b, x=x, back=back, plain=plain)
        return None, of_values, back.conj() if ctx.letter == "t" else back, None


def _solve_with_values(factor: SparseFactor, values: Tensor, b: Tensor, letter: str) -> Tensor:
    x: Tensor = _Solve.apply(factor, values, b, letter)  # type: ignore[no-untyped-call]
    return x


def _gradient(
    factor: SparseFactor, values: Tensor, grad: Tensor, *, b: Tensor, x: Tensor, back: Tensor, plain: bool
) -> Tensor:
    """Compute the gradient of the entries: ``-back @ x.mH``, and what a system not square adds (Golub and Pereyra)."""
    pairs = [(-back, x) if plain else (-x, back)]
    if factor.shape[0] != factor.shape[1]:
        outer, inner = (b, x) if plain else (grad, back)
        left = outer - _product(factor, values, inner)
        pairs.append((left, _solve_with_values(factor, values, back if plain else x, "n")))
    row, column = factor._where(x.device)

    def entries(i: Tensor, j: Tensor) -> Tensor:
        terms: Tensor = sum((left[:, i] * right[:, j].conj()).sum(-1) for left, right in pairs)  # type: ignore[assignment]
        return terms

    if factor.kind != "cholesky":
        return entries(row, column)
    return _lower(row, column, entries(row, column), entries(column, row))


def _lower(row: Tensor, column: Tensor, here: Tensor, there: Tensor) -> Tensor:
    """Return the gradient of a triangle that stands for a Hermitian matrix."""
    both = torch.where(row > column, here + there.conj(), 0.0)
    on = here.real.to(here.dtype) if here.is_complex() else here
    return torch.where(row == column, on, both)


def _product(factor: SparseFactor, values: Tensor, x: Tensor) -> Tensor:
    row, column = factor._where(x.device)
    terms = values.unsqueeze(-1) * x[:, column]
    return x.new_zeros((x.shape[0], factor.shape[0], x.shape[2])).index_add(1, row, terms)


class _LogDet(torch.autograd.Function):
    """Sign and logarithm; the gradient is the adjoint of the inverse at the entries stored."""

    @staticmethod
    def forward(ctx: Any, factor: SparseFactor, values: Tensor) -> tuple[Tensor, Tensor]:
        sign, logarithm = factor._engine.slogdet()
        ctx.factor = factor
        ctx.save_for_backward(values)
        ctx.mark_non_differentiable(sign)
        return sign, logarithm

    @staticmethod
    def backward(ctx: Any, _: Any, grad: Tensor) -> tuple[Any, ...]:
        (values,), factor = ctx.saved_tensors, ctx.factor
        n = factor.shape[0]
        row, column = factor._where(values.device)
        here, there = torch.zeros_like(values), torch.zeros_like(values)
        for start in range(0, n, _COLUMNS):
            width = min(_COLUMNS, n - start)
            eye = torch.eye(n, dtype=values.dtype, device=values.device)[:, start : start + width]
            inverse = _solve_with_values(factor, values, eye.expand(len(values), n, width), "n")
            inside = (row >= start) & (row < start + width)
            here = here.masked_scatter(inside, inverse[:, column[inside], row[inside] - start])
            inside = (column >= start) & (column < start + width)
            there = there.masked_scatter(inside, inverse[:, row[inside], column[inside] - start])
        entries = here.conj()
        if factor.kind == "cholesky":
            entries = _lower(row, column, entries, there.conj())
        return None, entries * grad.unsqueeze(-1)


@array_function
def factor_sparse(
    a: Sparse,
    *,
    kind: Kind = "lu",
    values: Tensor | None = None,
    ordering: Ordering | Tensor | None = None,
    method: Method = "auto",
) -> SparseFactor:
    """Factor a sparse matrix; the result solves for any number of right-hand sides.

    Args:
        a: sparse [M, N], of trnsparse, SciPy or torch; square, or with at least as many rows as columns for QR.
        kind: ``lu``; ``cholesky`` for Hermitian positive definite matrices, of which the lower triangle is read;
            ``qr`` for least squares, and for systems where LU is not stable enough.
        values: [..., nnz], the entries of many matrices of this one pattern, in the order of compressed rows, in place
            of those of ``a``. Gradients flow to them.
        ordering: what keeps the factors sparse, as `fill_ordering` names it, or an order of columns [N]. By default
            ``amd``, and ``colamd`` for LU by SuperLU.
        method: ``superlu``, on the host; ``multifrontal``: dense blocks in batches, by the kernels and on the devices
            of this library; or ``auto``: multifrontal where the settings admit kernels only, for tensors outside host
            memory, for batches, and on a Trainium where the largest block is predicted to pay; else SuperLU.
            QR has one method, multifrontal on the host.

    Raises:
        NotPositiveDefinite: with Cholesky, a pivot is not positive; ``index`` is its row.
        Singular: with LU, a pivot is zero; SuperLU does not say which, and ``index`` is -1.

    Cost:
        depends on the pattern: ``fill`` says what the factors hold. Of a five-point grid of n by n, ``O(n**3)`` FLOPs.

    Example:
        >>> import scipy.sparse as sp
        >>> a = sp.diags_array([2.0, 4.0, 5.0], format="csr")
        >>> factor_sparse(a, kind="cholesky").solve(torch.ones(3, dtype=torch.float64))
        tensor([0.5000, 0.2500, 0.2000], dtype=torch.float64)
    """
    op = "factor_sparse"
    check.option(op, "kind", kind, get_args(Kind))
    check.option(op, "method", method, get_args(Method))
    lower = kind == "cholesky"
    matrix = compress_rows(op, a, values) if kind == "qr" else compress_square(op, a, values, lower=lower)
    m, n = matrix.shape
    if m < n:
        expected = f"at least as many rows as columns, but it has {m} and {n}"
        raise ArgumentError(op, "shape of a", matrix.shape, expected, hint="Factor the transpose, and solve with trans")
    numbers = _rows(matrix).detach()
    if kind == "qr":
        check.refuse(method == "superlu", op, "method", method, "'auto' or 'multifrontal' for QR")
        on_host("trnsolver.factor_sparse")
        plan = analyse_qr(matrix, _order(op, matrix, ordering, "amd", kind))
        return SparseFactor(matrix, SparseQR.of(op, plan, or_shapes(numbers)), kind, "multifrontal")
    if method == "superlu" or (method == "auto" and _on_host_alone(numbers)):
        on_host("trnsolver.factor_sparse")
        check.refuse(numbers.device.type != "cpu", op, "method", "superlu", f"multifrontal on {numbers.device}")
        if method == "superlu" or neuron.device() is None:
            remark("SuperLU on the host, by SciPy")
            default: Ordering = "colamd" if kind == "lu" else "amd"
            own = (kind == "cholesky" or len(numbers) == 1) and (ordering is None or str(ordering) == default)
            order = None if own else _order(op, matrix, ordering, default, kind)
            return SparseFactor(matrix, SuperLU.of(op, matrix, numbers, kind, order), kind, "superlu")
    rows = match_rows(op, matrix, numbers) if kind == "lu" else np.arange(n, dtype=np.int64)
    order = _order(op, matrix, ordering, "amd", kind)
    analysis = analyse_pattern(matrix, order, rows, lower=lower)
    verdict, pays = _verdict(analysis, numbers)
    remark(verdict)
    if method == "auto" and not pays and _on_host_alone(numbers):
        return SparseFactor(matrix, SuperLU.of(op, matrix, numbers, kind, order), kind, "superlu")
    shapes = or_shapes(numbers)
    if kind == "cholesky":
        return SparseFactor(matrix, MultifrontalCholesky.of(op, analysis, shapes), kind, "multifrontal")
    return SparseFactor(matrix, MultifrontalLU.of(op, analysis, torch.from_numpy(rows), shapes), kind, "multifrontal")


def _on_host_alone(values: Tensor) -> bool:
    """Return whether nothing asks for kernels, a device or a batch."""
    choice = library("trnsolver").choice()
    return values.device.type == "cpu" and len(values) <= 1 and choice.name not in ("nki", "simulator")


def _order(op: str, a: Compressed, given: Ordering | Tensor | None, default: Ordering, kind: str) -> Index:
    n, ordering = a.shape[1], default if given is None else given
    if isinstance(ordering, str):
        check.option(op, "ordering", ordering, get_args(Ordering))
        if kind != "qr":
            return order_of(a, ordering)
        pattern = a.scipy().astype(np.int32)
        gram = pattern.T @ pattern
        return order_of(compress_rows(op, gram.astype(np.float64)), ordering)
    check.kind(op, "ordering", ordering, Tensor | np.ndarray | list | tuple, "a name or a permutation")
    order = to_numpy(torch.as_tensor(ordering, device="cpu"))
    if order.dtype.kind not in "iuf" or not np.array_equal(np.sort(order), np.arange(n)):
        raise ArgumentError(op, "ordering", order, f"a permutation of 0 to {n - 1}")
    return order.astype(np.int64)


def _verdict(analysis: Analysis, values: Tensor) -> tuple[str, bool]:
    """Whether blocks on the device are predicted to pay, and why: one of them must outweigh the start of a program."""
    batch, rate = max(1, len(values)), predict.host()
    speed = rate.float64 if values.dtype in (torch.float64, torch.complex128) else rate.float32
    largest = max(
        (g * (p**3 // 3 + p * p * q + p * q * q) for g, p, q in (x.shape for x in analysis.groups)), default=0
    )
    here, start = batch * largest / speed, link("trn2").dispatch
    pays = here > start
    word = "pays" if pays else "does not pay"
    text = (
        f"{len(analysis.groups)} groups of fronts, the largest front {analysis.largest} rows, "
        f"{batch * analysis.flops:.3g} FLOP, {analysis.fill} entries in the factor; a device {word}: "
        f"the largest group takes the host about {here:.2g} s, starting a program {start:.2g} s"
    )
    return text, pays


@array_function
@check.hands_on("factor_sparse", "SparseFactor.solve")
def solve_sparse(
    a: Sparse,
    b: Tensor,
    *,
    kind: Kind = "lu",
    values: Tensor | None = None,
    ordering: Ordering | Tensor | None = None,
    method: Method = "auto",
    target_error: float | None = None,
) -> Tensor:
    """Solve ``a @ x = b`` for a sparse ``a`` by its factors: arguments of `factor_sparse` and `SparseFactor.solve`.

    Args:
        a: sparse [M, N].
        b: [..., M, K] or [..., M].
        kind: ``lu``, ``cholesky``, or ``qr``, which gives least squares.
        values: of many matrices of this pattern.
        ordering: what keeps the factors sparse.
        method: ``auto``, ``superlu`` or ``multifrontal``.
        target_error: relative error to reach.

    Example:
        >>> import scipy.sparse as sp
        >>> solve_sparse(sp.csr_array([[2.0, 1.0], [0.0, 4.0]]), torch.ones(2, dtype=torch.float64))
        tensor([0.3750, 0.2500], dtype=torch.float64)
    """
    factor = factor_sparse(a, kind=kind, values=values, ordering=ordering, method=method)
    return factor.solve(b, target_error=target_error)


def _as_vector(x: Any, A: Any, b: Any, *_: Any, **__: Any) -> Any:
    return x.ravel() if np.ndim(b) == 2 and b.shape[1] == 1 else x


@replaces("scipy.sparse.linalg.spsolve", by=solve_sparse, result=_as_vector, order="F")
def _read_spsolve(A: Any, b: Any, permc_spec: Any, use_umfpack: bool) -> Given:
    refuse_options(permc_spec=permc_spec)
    if getattr(A, "format", "") not in ("csc", "csr") or type(b) is not np.ndarray or A.dtype != b.dtype:
        raise Different("no compressed matrix and dense right-hand side of one dtype")
    return given(solve_sparse, A, b)


resembles(
    "scipy.sparse.linalg.splu", "scipy.sparse.linalg.factorized", left="it returns an object of SuperLU's or a function"
)(factor_sparse)
