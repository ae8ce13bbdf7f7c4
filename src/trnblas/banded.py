"""Band matrices stored by diagonals: gbmv, sbmv, hbmv, tbmv, tbsv.

Storage is BLAS's: column j of the matrix is column j of ``a``, diagonals are rows, from the uppermost down. Elements of
``a`` that lie outside the matrix are not read. Work and memory grow with the band, never with N squared.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from trnblas import host_blas
from trnblas.accuracy import error_bound
from trnblas.arguments import HALF, Trans, alike, combine, conjugate, flag, nonsingular, require, rounds, transposition
from trnblas.band_storage import (
    Form,
    dense,
    diagonals,
    mirrored_slope,
    outer_band,
    reverse,
    slope_factors,
    weights_by_row,
    windows,
    without_row,
)
from trnblas.gemm import gemm
from trnblas.kernels import banded as kernels
from trnblas.trsm import Trsm
from trnsci import ArgumentError, array_function, check, op, run
from trnsci.arrays import like
from trnsci.gradient import saves
from trnsci.nki import P_MAX, launch
from trnsci.precision import DEFAULT

# Rows a banded solve takes at a time, at least.
_BLOCK = 64


@array_function
def gbmv(
    m: int, n: int, kl: int, ku: int, alpha: complex, a: Tensor, x: Tensor, beta: complex = 0.0,
    y: Tensor | None = None, trans: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``alpha * op(A) @ x + beta * y`` with A [M, N] of ``kl`` diagonals below and ``ku`` above the main one.

    Args:
        m: rows of A.
        n: columns of A.
        kl: diagonals below.
        ku: diagonals above.
        alpha: a number.
        a: [..., kl + ku + 1, N], ``a[ku + i - j, j] = A[i, j]``.
        x: [..., N], or [..., M] when transposed.
        beta: a number. When it is 0, ``y`` is not read.
        y: [..., M], or [..., N] when transposed.
        trans: ``"n"``, ``"t"`` or ``"c"``.
        out: memory for the result, shared with no operand.

    Error bound:
        That of `gemm` with ``K = kl + ku + 1``.

    Example:
        >>> gbmv(2, 2, 0, 0, 1.0, torch.tensor([[2.0, 3.0]]), torch.ones(2))
        tensor([2., 3.])
    """
    if type(m) is not int or type(n) is not int or type(kl) is not int or type(ku) is not int or min(m, n, kl, ku) < 0:
        _counts("gbmv", m=m, n=n, kl=kl, ku=ku)
    _band("gbmv", a, x, kl + ku + 1, n)
    kind = transposition("gbmv", trans)
    source = n if kind == "n" else m
    if x.shape[-1] != source:
        check.equal("gbmv", "N" if kind == "n" else "M", A=source, x=x.shape[-1])
    return _product("gbmv", a, x, y=y, alpha=alpha, beta=beta, m=m, ku=ku, kind=kind, out=out)


@array_function
def sbmv(
    k: int, alpha: complex, a: Tensor, x: Tensor, beta: complex = 0.0, y: Tensor | None = None,
    lower: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``alpha * A @ x + beta * y`` with A symmetric, ``k`` diagonals beside the main one, one side stored.

    Args:
        k: diagonals beside the main one.
        alpha: a number.
        a: [..., k + 1, N]: ``a[i - j, j] = A[i, j]`` when ``lower``, else ``a[k + i - j, j] = A[i, j]``.
        x: [..., N]
        beta: a number. When it is 0, ``y`` is not read.
        y: [..., N]
        lower: which side is stored.
        out: memory for the result, shared with no operand.

    Example:
        >>> sbmv(1, 1.0, torch.tensor([[2.0, 2.0], [1.0, 0.0]]), torch.ones(2), lower=True)
        tensor([3., 3.])
    """
    return _symmetric("sbmv", k, alpha, a, x, beta, y, lower, out=out)


@array_function
def tbmv(
    k: int, a: Tensor, x: Tensor, lower: bool | int | str = False, trans: bool | int | str = False,
    diag: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``op(A) @ x`` with A triangular of ``k`` diagonals beside the main one, stored as for `sbmv`.

    Example:
        >>> tbmv(0, torch.tensor([[2.0, 3.0]]), torch.ones(2))
        tensor([2., 3.])
    """
    stored, kind, unit = _triangular("tbmv", k, a, x, lower=lower, trans=trans, diag=diag)
    ku = 0 if stored else k
    return _product("tbmv", a, x, y=None, alpha=1.0, beta=0.0, m=a.shape[-1], ku=ku, kind=kind, unit=unit, out=out)


@array_function
def tbsv(
    k: int, a: Tensor, x: Tensor, lower: bool | int | str = False, trans: bool | int | str = False,
    diag: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Solve ``op(A) @ y = x`` with A triangular of ``k`` diagonals beside the main one, stored as for `sbmv`.

    Raises:
        Singular: an element of the diagonal is zero; the error names its index.

    Example:
        >>> tbsv(0, torch.tensor([[2.0, 4.0]]), torch.ones(2))
        tensor([0.5000, 0.2500])
    """
    stored, kind, unit = _triangular("tbsv", k, a, x, lower=lower, trans=trans, diag=diag)
    if out is not None:
        shape = (*check.broadcast("tbsv", a=a.shape[:-2], x=x.shape[:-1]), x.shape[-1])
        check.out("tbsv", out, shape=shape, dtype=a.dtype, a=a, x=x)
    result = run(BandSolve(a, x, stored, kind, unit))
    if not unit:
        nonsingular("tbsv", a, result, lambda band: band[..., 0 if stored else k, :])
    return result if out is None else out.copy_(result)


def _counts(function: str, **values: int) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ArgumentError(function, name, value, "an integer, 0 or more")


def _band(name: str, a: Tensor, x: Tensor, rows: int, n: int | None) -> None:
    alike(name, a=a, x=x)
    if a.ndim != 2 or x.ndim != 1:
        check.ndim(name, 2, a=a)
        check.ndim(name, 1, x=x)
        check.broadcast(name, a=a.shape[:-2], x=x.shape[:-1])
    if a.shape[-2] != rows or (n is not None and a.shape[-1] != n):
        raise ArgumentError(name, "shape of a", tuple(a.shape), f"[..., {rows}, {'N' if n is None else n}]")


def _one_side(name: str, k: int, a: Tensor, x: Tensor) -> None:
    if type(k) is not int or k < 0:
        _counts(name, k=k)
    _band(name, a, x, k + 1, None)
    if a.shape[-1] != x.shape[-1]:
        check.equal(name, "N", a=a.shape[-1], x=x.shape[-1])


def _symmetric(
    name: str, k: int, alpha: complex, a: Tensor, x: Tensor, beta: complex = 0.0, y: Tensor | None = None,
    lower: bool | int | str = False, *, hermitian: bool = False, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    _one_side(name, k, a, x)
    ku = 0 if flag(name, "lower", lower, "ul") else k
    form: Form = "hermitian" if hermitian and a.is_complex() else "symmetric"
    return _product(name, a, x, y=y, alpha=alpha, beta=beta, m=a.shape[-1], ku=ku, form=form, out=out)


@like(sbmv, functools.partial(_symmetric, "hbmv", hermitian=True))
def hbmv(*args: Any, **kwargs: Any) -> Any:
    """Return ``alpha * A @ x + beta * y`` with A Hermitian; the imaginary diagonal is not read. As `sbmv` otherwise."""


def _triangular(
    name: str, k: int, a: Tensor, x: Tensor, *, lower: bool | int | str, trans: bool | int | str, diag: bool | int | str
) -> tuple[bool, Trans, bool]:
    _one_side(name, k, a, x)
    return flag(name, "lower", lower, "ul"), transposition(name, trans), flag(name, "diag", diag, "nu")


def _product(
    function: str, a: Tensor, x: Tensor, *, y: Tensor | None, alpha: complex, beta: complex, m: int, ku: int,
    kind: Trans = "n", unit: bool = False, form: Form = "general", out: Tensor | None,
) -> Tensor:  # fmt: skip
    alpha = check.coefficient(function, "alpha", alpha, a.dtype)
    beta = check.coefficient(function, "beta", beta, a.dtype)
    require(function, "y", y, coefficient="beta", scalar=beta, shape="[..., M]")
    if y is not None:
        alike(function, a=a, x=x, y=y)
        check.ndim(function, 1, y=y)
        check.equal(function, "M", product=m if kind == "n" else a.shape[-1], y=y.shape[-1])
        check.broadcast(function, a=a.shape[:-2], x=x.shape[:-1], y=y.shape[:-1])
    call = Banded(a, x, y, alpha, beta, m, ku, kind, unit, form)
    if out is not None:
        check.out(function, out, shape=call.shape, dtype=a.dtype, a=a, x=x, y=y)
    return run(call, out)


@op("trnblas::banded")
class Banded(NamedTuple):
    """``alpha * op(A) @ x + beta * y``; A is [M, N] with ``ku`` diagonals above the main one, ones where ``unit``.

    Of a ``symmetric`` or ``hermitian`` one, ``a`` has one side.
    """

    a: Tensor  # [..., D, N]
    x: Tensor  # [..., N] or [..., M]
    y: Tensor | None
    alpha: complex
    beta: complex
    m: int
    ku: int
    trans: Trans
    unit: bool
    form: Form

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        y = () if self.y is None else self.y.shape[:-1]
        batch = check.broadcast("gbmv", a=self.a.shape[:-2], x=self.x.shape[:-1], y=y)
        return (*batch, self.m if self.trans == "n" else self.a.shape[-1])

    def fake(self) -> Tensor:
        return self.x.new_empty(self.shape)

    def cost(self) -> int:
        batch = math.prod(check.broadcast("gbmv", a=self.a.shape[:-2], x=self.x.shape[:-1]))
        each = (2 if self.form == "general" else 4) * (4 if self.a.is_complex() else 1)
        return each * batch * self.a.shape[-1] * self.a.shape[-2]

    def bound(self, implementation: str) -> float:
        terms = self.a.shape[-2] if self.form == "general" else 2 * self.a.shape[-2]
        return error_bound(terms, self.a.dtype, "fp32" if self.a.dtype in HALF else None)

    def limits(self, implementation: str) -> str | None:
        if implementation == "nki":
            return rounds(self.x)
        if implementation == "host":
            if self.form == "symmetric" and self.a.is_complex():
                return "BLAS has no complex symmetric bands"
            if self.alpha == 0:
                return "nothing is multiplied"
            if self._routine == "gbmv" and min(self.m, self.a.shape[-1]) < self.a.shape[-2]:
                return "SciPy takes no more diagonals than the matrix has rows and columns"
            return _host_refusal(self.a, self.x, self.m, self.ku)
        return None

    def calls(self, implementation: str) -> str:
        return host_blas.name(self._routine, self.a)

    @property
    def _routine(self) -> str:
        if self.form != "general":
            return "sbmv" if self.form == "symmetric" else "hbmv"
        return "tbmv" if self.unit else "gbmv"

    def host(self) -> Tensor:
        a, x, ku, alpha, routine = self.a.numpy(), self.x.numpy(), self.ku, self.alpha, self._routine
        k, trans = a.shape[0] - 1, "ntc".index(self.trans)
        compute = host_blas.routine(routine, self.a.dtype)
        if routine == "gbmv":
            product = compute(self.m, a.shape[1], k - ku, ku, alpha, a, x, trans=trans)
        elif routine == "tbmv":
            product = compute(k, a, x, lower=ku == 0, trans=trans, diag=1)
            product = product if alpha == 1 else alpha * product
        else:
            product = compute(k, alpha, a, x, lower=ku == 0)
        return combine(torch.from_numpy(product), 1.0, self.beta, self.y, self.a.dtype)

    def pytorch(self) -> Tensor:
        a, x, dtype = self.a, self.x, self.a.dtype
        if dtype in HALF:
            a, x = a.float(), x.float()
        weights, offset = weights_by_row(a, self.m, self.ku, trans=self.trans, unit=self.unit, form=self.form)
        product = (weights * windows(x, weights.shape[-2], weights.shape[-1], offset)).sum(-2)
        return combine(product, self.alpha, self.beta, self.y, dtype)

    @saves("a", "x")
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        a, x, m, ku, trans, unit, form = self.a, self.x, self.m, self.ku, self.trans, self.unit, self.form
        alpha, gradients = conjugate(self.alpha, a), {}
        if "x" in needs:
            # Of the adjoint of op(A): A itself, its conjugate, or its conjugate transpose.
            adjoint: Trans = "c" if form == "general" and trans == "n" else "n"
            factor = a.conj() if trans == "t" or form == "symmetric" else a
            of_x = run(Banded(factor, grad, None, alpha, 0.0, m, ku, adjoint, unit, form))
            gradients["x"] = of_x.sum_to_size(x.shape)
        if "a" in needs:
            if form != "general":
                of_a = mirrored_slope(alpha, grad, x, rows=a.shape[-2], ku=ku, hermitian=form == "hermitian")
            else:
                of_a = outer_band(*slope_factors(trans, alpha, grad, x), a.shape[-2], ku, m)
            gradients["a"] = (without_row(of_a, ku) if unit else of_a).sum_to_size(a.shape)
        if self.y is not None and "y" in needs:
            gradients["y"] = (conjugate(self.beta, a) * grad).sum_to_size(self.y.shape)
        return gradients

    def nki(self) -> Tensor:
        weights, offset = weights_by_row(self.a, self.m, self.ku, trans=self.trans, unit=self.unit, form=self.form)
        product = _kernel(weights, windows(self.x, weights.shape[-2], weights.shape[-1], offset))
        return combine(product, self.alpha, self.beta, self.y, self.a.dtype)


def _host_refusal(a: Tensor, x: Tensor, m: int, ku: int) -> str | None:
    if m <= a.shape[-2] - 1 - ku or a.shape[-1] <= ku:
        return "SciPy takes no bands wider than the matrix"
    if x.ndim > 1:
        return "it takes one vector, not a batch of them"
    return host_blas.refusal(a, x, dtypes=host_blas.ALL_LETTERS)


def _kernel(weights: Tensor, values: Tensor) -> Tensor:
    """Multiply and sum over the diagonals, [..., D, P] both."""
    if weights.is_complex():
        rr, ii = _kernel(weights.real, values.real), _kernel(weights.imag, values.imag)
        ri, ir = _kernel(weights.real, values.imag), _kernel(weights.imag, values.real)
        return torch.complex(rr - ii, ri + ir)
    shape = torch.broadcast_shapes(weights.shape, values.shape)
    d, p = shape[-2:]
    if 0 in shape:
        return weights.new_zeros((*shape[:-2], p), dtype=torch.float32)
    width = -(-p // P_MAX)
    operand = weights.dtype if weights.dtype in HALF else torch.float32
    tiles = [
        pad(t.expand(shape).to(operand), (0, width * P_MAX - p)).reshape(-1, d, P_MAX, width).contiguous()
        for t in (weights, values)
    ]  # [B, D, p, width]
    sums: Tensor = launch(kernels.banded, *tiles)  # [B, p, width]
    return sums.reshape(*shape[:-2], -1)[..., :p]


@op("trnblas::band_solve", composed=True)
class BandSolve(NamedTuple):
    """``inv(op(A)) @ x`` with A triangular, stored by diagonals."""

    a: Tensor  # [..., K + 1, N]
    x: Tensor  # [..., N]
    lower: bool
    trans: Trans
    unit: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return (*check.broadcast("tbsv", a=self.a.shape[:-2], x=self.x.shape[:-1]), self.x.shape[-1])

    def fake(self) -> Tensor:
        return self.x.new_empty(self.shape)

    def cost(self) -> int:
        return 2 * math.prod(self.shape) * self.a.shape[-2] * (4 if self.a.is_complex() else 1)

    @property
    def _main(self) -> int:
        return 0 if self.lower else self.a.shape[-2] - 1

    def limits(self, implementation: str) -> str | None:
        return _host_refusal(self.a, self.x, self.a.shape[-1], self._main) if implementation == "host" else None

    def calls(self, implementation: str) -> str:
        return host_blas.name("tbsv", self.a)

    def host(self) -> Tensor:
        solve, k, trans = host_blas.routine("tbsv", self.a.dtype), self.a.shape[0] - 1, "ntc".index(self.trans)
        solved = solve(k, self.a.numpy(), self.x.numpy(), lower=self.lower, trans=trans, diag=self.unit)
        return torch.from_numpy(solved)

    def pytorch(self) -> Tensor:
        """Solve with products and solves of whole blocks."""
        a, x, dtype = self.a, self.x, self.a.dtype
        if dtype in HALF:
            a, x = a.float(), x.float()
        rows = diagonals(a, a.shape[-2] - 1, self.lower)
        if self.unit:
            rows = torch.cat([torch.ones_like(rows[..., :1, :]), rows[..., 1:, :]], -2)
        rows = rows.conj_physical() if self.trans == "c" else rows
        x, n = x.expand(self.shape), x.shape[-1]
        # Transposing moves no diagonal, it renames the side.
        if self.lower == (self.trans == "n"):
            return _substitute(rows, x).to(dtype)
        # Backwards, an upper triangle is a lower one; diagonal s is short by s at its end.
        backwards = torch.stack([reverse(d, s, n) for s, d in enumerate(rows.unbind(-2))], -2)
        return _substitute(backwards, x.flip(-1)).flip(-1).to(dtype)

    @saves("a")
    def vjp(self, grad: Tensor, needs: frozenset[str], result: Tensor) -> dict[str, Tensor]:
        a, trans = self.a, self.trans
        adjoint: Trans = "c" if trans == "n" else "n"
        slope = run(BandSolve(a.conj() if trans == "t" else a, grad, self.lower, adjoint, self.unit))
        gradients = {}
        if "x" in needs:
            gradients["x"] = slope.sum_to_size(self.x.shape)
        if "a" in needs:
            of_a = outer_band(*slope_factors(trans, -1.0, slope, result), a.shape[-2], self._main, a.shape[-1])
            gradients["a"] = (without_row(of_a, self._main) if self.unit else of_a).sum_to_size(a.shape)
        return gradients


def _substitute(rows: Tensor, x: Tensor) -> Tensor:
    """Solve a lower band system block by block; a block meets only the one before it."""
    n, k = x.shape[-1], rows.shape[-2] - 1
    if n == 0:
        return x.clone()
    block = max(k, _BLOCK)
    solved: list[Tensor] = []
    for start in range(0, n, block):
        stop = min(n, start + block)
        right = x[..., start:stop].unsqueeze(-1)
        if solved and k:
            before = dense(rows, start, stop, start - block, start)
            right = gemm(-1.0, before, solved[-1], 1.0, right)
        block_rows = dense(rows, start, stop, start, stop)
        call = Trsm(block_rows, right, alpha=1.0, lower=True, unit=False, precision=DEFAULT[rows.dtype])
        solved.append(run(call))
    return torch.cat(solved, -2).squeeze(-1)
