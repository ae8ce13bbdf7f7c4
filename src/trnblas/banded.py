"""Band matrices stored by diagonals: gbmv, sbmv, hbmv, tbmv, tbsv.

Storage is BLAS's: column j of the matrix is column j of ``a``, diagonals are rows, from the uppermost down. Elements of
``a`` that lie outside the matrix are not read. Work and memory grow with the band, never with N squared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from trnblas import host
from trnblas.arguments import HALF, Trans, alike, conjugated, finished, flag, needed, nonsingular, rounds, transposition
from trnblas.bands import dense, diagonals, inside, mirrored, outer_band, reverse, shifted, windows, without_row
from trnblas.gemm import gemm
from trnblas.kernels import banded as kernels
from trnblas.trsm import trsm
from trnsci import ArgumentError, Op, array_function, check
from trnsci.gradient import Saved
from trnsci.nki import P_MAX, launch

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
    return _product("gbmv", a, x, y, alpha, beta, m, ku, kind, False, "general", out)


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
    return _symmetric("sbmv", k, alpha, a, x, beta, y, lower, out, hermitian=False)


@array_function
def hbmv(
    k: int, alpha: complex, a: Tensor, x: Tensor, beta: complex = 0.0, y: Tensor | None = None,
    lower: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``alpha * A @ x + beta * y`` with A Hermitian; the imaginary diagonal is not read. As `sbmv` otherwise."""
    return _symmetric("hbmv", k, alpha, a, x, beta, y, lower, out, hermitian=True)


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
    stored, kind, unit = _triangular("tbmv", k, a, x, lower, trans, diag)
    ku = 0 if stored else k
    return _product("tbmv", a, x, None, 1.0, 0.0, a.shape[-1], ku, kind, unit, "general", out)


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
    stored, kind, unit = _triangular("tbsv", k, a, x, lower, trans, diag)
    if out is not None:
        shape = (*check.broadcast("tbsv", a=a.shape[:-2], x=x.shape[:-1]), x.shape[-1])
        check.out("tbsv", out, shape=shape, dtype=a.dtype, a=a, x=x)
    if not unit:
        nonsingular("tbsv", a.select(-2, 0 if stored else k))
    made = _solve(a, x, stored, kind, unit)
    return made if out is None else out.copy_(made)


def _counts(op: str, **values: int) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ArgumentError(op=op, argument=name, got=value, expected="an integer, 0 or more")


def _band(op: str, a: Tensor, x: Tensor, rows: int, n: int | None) -> None:
    if not alike(a, x):
        check.floating(op, a=a, x=x)
        check.same_device(op, a=a, x=x)
    if a.ndim != 2 or x.ndim != 1:
        check.ndim(op, 2, a=a)
        check.ndim(op, 1, x=x)
        check.broadcast(op, a=a.shape[:-2], x=x.shape[:-1])
    if a.shape[-2] != rows or (n is not None and a.shape[-1] != n):
        expected = f"[..., {rows}, {'N' if n is None else n}]"
        raise ArgumentError(op=op, argument="shape of a", got=tuple(a.shape), expected=expected)


def _symmetric(
    op: str, k: int, alpha: complex, a: Tensor, x: Tensor, beta: complex, y: Tensor | None,
    lower: bool | int | str, out: Tensor | None, *, hermitian: bool,
) -> Tensor:  # fmt: skip
    if type(k) is not int or k < 0:
        _counts(op, k=k)
    _band(op, a, x, k + 1, None)
    if a.shape[-1] != x.shape[-1]:
        check.equal(op, "N", a=a.shape[-1], x=x.shape[-1])
    ku = 0 if flag(op, "lower", lower, "ul") else k
    form = "hermitian" if hermitian and a.is_complex() else "symmetric"
    return _product(op, a, x, y, alpha, beta, a.shape[-1], ku, "n", False, form, out)


def _triangular(
    op: str, k: int, a: Tensor, x: Tensor, lower: bool | int | str, trans: bool | int | str, diag: bool | int | str
) -> tuple[bool, Trans, bool]:
    if type(k) is not int or k < 0:
        _counts(op, k=k)
    _band(op, a, x, k + 1, None)
    if a.shape[-1] != x.shape[-1]:
        check.equal(op, "N", a=a.shape[-1], x=x.shape[-1])
    return flag(op, "lower", lower, "ul"), transposition(op, trans), flag(op, "diag", diag, "nu")


def _product(
    op: str, a: Tensor, x: Tensor, y: Tensor | None, alpha: complex, beta: complex, m: int, ku: int, kind: Trans,
    unit: bool, form: str, out: Tensor | None,
) -> Tensor:  # fmt: skip
    alpha, beta = check.coefficient(op, "alpha", alpha, a.dtype), check.coefficient(op, "beta", beta, a.dtype)
    needed(op, "y", y, "beta", beta, "[..., M]")
    length = m if kind == "n" else a.shape[-1]
    if y is not None:
        check.floating(op, a=a, x=x, y=y)
        check.same_device(op, a=a, y=y)
        check.ndim(op, 1, y=y)
        check.equal(op, "M", product=length, y=y.shape[-1])
        check.broadcast(op, a=a.shape[:-2], x=x.shape[:-1], y=y.shape[:-1])
    call = (a, x, y, alpha, beta, m, ku, kind, unit, form)
    if out is not None:
        check.out(op, out, shape=tuple(_fake(*call).shape), dtype=a.dtype, a=a, x=x, y=y)
    made = _banded(*call)
    return made if out is None else out.copy_(made)


def _fake(
    a: Tensor, x: Tensor, y: Tensor | None, alpha: complex, beta: complex, m: int, ku: int, trans: str, unit: bool,
    form: str,
) -> Tensor:  # fmt: skip
    batch = check.broadcast("gbmv", a=a.shape[:-2], x=x.shape[:-1], y=() if y is None else y.shape[:-1])
    return x.new_empty((*batch, m if trans == "n" else a.shape[-1]))


def _cost(a: Tensor, x: Tensor, *rest: Any) -> int:
    batch = math.prod(check.broadcast("gbmv", a=a.shape[:-2], x=x.shape[:-1]))
    each = (2 if rest[-1] == "general" else 4) * (4 if a.is_complex() else 1)
    return each * batch * a.shape[-1] * a.shape[-2]


# ``alpha * op(A) @ x + beta * y``; A is [M, N] with ``ku`` diagonals above the main one, which is ones where ``unit``.
# Of a ``symmetric`` or ``hermitian`` one, ``a`` has one side.
_banded = Op(
    "trnblas::banded",
    fake=_fake,
    cost=_cost,
    schema="(Tensor a, Tensor x, Tensor? y, Scalar alpha, Scalar beta, int m, int ku, str trans, bool unit, str form)"
    " -> Tensor",
)


@_banded.impl("pytorch")
def _pytorch(
    a: Tensor, x: Tensor, y: Tensor | None, alpha: complex, beta: complex, m: int, ku: int, trans: Trans, unit: bool,
    form: str,
) -> Tensor:  # fmt: skip
    if alpha != 0 and host.takes_band(a, x, m, ku, form):
        return finished(host.band_product(alpha, a, x, m, ku, trans, unit, form), 1.0, beta, y, a.dtype)
    dtype = a.dtype
    if dtype in HALF:
        a, x = a.float(), x.float()
    weights, offset = _weights(a, m, ku, trans, unit, form)
    product = (weights * windows(x, *weights.shape[-2:], offset)).sum(-2)
    return finished(product, alpha, beta, y, dtype)


def _weights(a: Tensor, m: int, ku: int, trans: Trans, unit: bool, form: str) -> tuple[Tensor, int]:
    """Diagonals aligned by rows of the result, the first to meet ``x`` at ``row - offset``."""
    n, kl = a.shape[-1], a.shape[-2] - 1 - ku
    if unit:
        a = torch.cat([a[..., :ku, :], torch.ones_like(a[..., :1, :]), a[..., ku + 1 :, :]], -2)
    if form != "general":
        return mirrored(a, ku == 0, form == "hermitian"), a.shape[-2] - 1
    if trans != "n":
        return inside(a.conj_physical() if trans == "c" else a, m, ku), ku
    # Row i meets x from i - kl on: diagonals aligned by row instead of by column, the lowest first.
    weights = torch.stack([shifted(a[..., kl + ku - d, :], d - kl, m) for d in range(kl + ku + 1)], -2)
    return inside(weights, n, kl), kl


@_banded.vjp(saves=("a", "x"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    a, x, m, ku, trans, unit, form = saved.a, saved.x, saved.m, saved.ku, saved.trans, saved.unit, saved.form
    alpha, found = conjugated(saved.alpha, a), {}
    if saved.needs("x"):
        # Of the adjoint of op(A): A itself, its conjugate, or its conjugate transpose.
        adjoint = "c" if form == "general" and trans == "n" else "n"
        factor = a.conj() if trans == "t" or form == "symmetric" else a
        found["x"] = _banded(factor, grad, None, alpha, 0.0, m, ku, adjoint, unit, form).sum_to_size(x.shape)
    if saved.needs("a"):
        rows = a.shape[-2]
        if form != "general":
            made = _mirrored_slope(alpha, grad, x, rows, ku, form == "hermitian")
        elif trans == "n":
            made = outer_band(grad, alpha * x.conj(), rows, ku, m)
        elif trans == "t":
            made = outer_band(x.conj(), alpha * grad, rows, ku, m)
        else:
            made = outer_band(x, (alpha * grad).conj(), rows, ku, m)
        found["a"] = (without_row(made, ku) if unit else made).sum_to_size(a.shape)
    if saved.needs("y"):
        found["y"] = (conjugated(saved.beta, a) * grad).sum_to_size(saved.y.shape)
    return found


def _mirrored_slope(alpha: complex, grad: Tensor, x: Tensor, rows: int, ku: int, hermitian: bool) -> Tensor:
    """An element beside the diagonal counts twice, one on it once and, in Hermitian matrices, with its real part."""
    n = x.shape[-1]
    straight = outer_band(grad, alpha * x.conj(), rows, ku, n)
    across = (
        outer_band(x, (alpha * grad).conj(), rows, ku, n)
        if hermitian
        else outer_band(x.conj(), alpha * grad, rows, ku, n)
    )
    main = straight[..., ku : ku + 1, :]
    if hermitian:
        main = torch.complex(main.real, torch.zeros_like(main.real))
    both = straight + across
    return torch.cat([both[..., :ku, :], main, both[..., ku + 1 :, :]], -2)


def _limits(a: Tensor, x: Tensor, *_: Any) -> str | None:
    return rounds(x)


@_banded.impl("nki", limits=_limits)
def _nki(
    a: Tensor, x: Tensor, y: Tensor | None, alpha: complex, beta: complex, m: int, ku: int, trans: Trans, unit: bool,
    form: str,
) -> Tensor:  # fmt: skip
    weights, offset = _weights(a, m, ku, trans, unit, form)
    return finished(_kernel(weights, windows(x, *weights.shape[-2:], offset)), alpha, beta, y, a.dtype)


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
    made: Tensor = launch(kernels.banded, *tiles)  # [B, p, width]
    return made.reshape(*shape[:-2], -1)[..., :p]


def _solve_fake(a: Tensor, x: Tensor, lower: bool, trans: str, unit: bool) -> Tensor:
    return x.new_empty((*check.broadcast("tbsv", a=a.shape[:-2], x=x.shape[:-1]), x.shape[-1]))


def _solve_cost(a: Tensor, x: Tensor, lower: bool, trans: str, unit: bool) -> int:
    batch = math.prod(check.broadcast("tbsv", a=a.shape[:-2], x=x.shape[:-1]))
    return 2 * batch * a.shape[-2] * a.shape[-1] * (4 if a.is_complex() else 1)


_solve = Op("trnblas::band_solve", fake=_solve_fake, cost=_solve_cost)


@_solve.impl("pytorch")
def _solve_pytorch(a: Tensor, x: Tensor, lower: bool, trans: str, unit: bool) -> Tensor:
    if host.takes_band(a, x, a.shape[-1], 0 if lower else a.shape[-2] - 1, "general"):
        return host.band_solve(a, x, lower, trans, unit)
    return _solve_nki(a, x, lower, trans, unit)


@_solve.impl("nki")
def _solve_nki(a: Tensor, x: Tensor, lower: bool, trans: str, unit: bool) -> Tensor:
    """Solve with products and solves of whole blocks."""
    shape, dtype = _solve_fake(a, x, lower, trans, unit).shape, a.dtype
    if dtype in HALF:
        a, x = a.float(), x.float()
    rows = diagonals(a, a.shape[-2] - 1, lower)
    if unit:
        rows = torch.cat([torch.ones_like(rows[..., :1, :]), rows[..., 1:, :]], -2)
    rows = rows.conj_physical() if trans == "c" else rows
    x = x.expand(shape)
    # Transposing moves no diagonal, it renames the side.
    if lower == (trans == "n"):
        return _substituted(rows, x).to(dtype)
    # Backwards, an upper triangle is a lower one; diagonal s is short by s at its end.
    n = x.shape[-1]
    backwards = torch.stack([reverse(d, s, n) for s, d in enumerate(rows.unbind(-2))], -2)
    return _substituted(backwards, x.flip(-1)).flip(-1).to(dtype)


def _substituted(rows: Tensor, x: Tensor) -> Tensor:
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
        solved.append(trsm(1.0, dense(rows, start, stop, start, stop), right, lower=True))
    return torch.cat(solved, -2).squeeze(-1)


@_solve.vjp(saves=("a", "result"))
def _solve_gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    a, solved, lower, trans, unit = saved.a, saved.result, saved.lower, saved.trans, saved.unit
    adjoint = {"n": "c", "c": "n", "t": "n"}[trans]
    slope = _solve(a.conj() if trans == "t" else a, grad, lower, adjoint, unit)
    found = {}
    if saved.needs("x"):
        found["x"] = slope.sum_to_size(saved.x.shape)
    if saved.needs("a"):
        n, rows, main = a.shape[-1], a.shape[-2], 0 if lower else a.shape[-2] - 1
        if trans == "n":
            made = outer_band(-slope, solved.conj(), rows, main, n)
        elif trans == "t":
            made = outer_band(solved.conj(), -slope, rows, main, n)
        else:
            made = outer_band(solved, -slope.conj(), rows, main, n)
        found["a"] = (without_row(made, main) if unit else made).sum_to_size(a.shape)
    return found
