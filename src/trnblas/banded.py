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
from torch.compiler import is_compiling
from torch.nn.functional import pad

from trnblas import host
from trnblas.arguments import HALF, Trans, accumulated, alike, flag, in_place, nonsingular, rounds, transposition
from trnblas.bands import dense, diagonals, inside, mirrored, reverse, shifted
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
    made = _multiplied(a, x, m, ku, kind, False, "general")
    return accumulated("gbmv", alpha, made, beta, y, out, a=a, x=x)


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
    made = _multiplied(a, x, a.shape[-1], 0 if stored else k, kind, unit, "general")
    return accumulated("tbmv", 1.0, made, 0.0, None, out, a=a, x=x)


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
    made = _substitution(a, x, stored, kind != "n", unit) if _solve.straight() else None
    if made is None:
        if not unit:
            nonsingular("tbsv", a.select(-2, 0 if stored else k))
        made = _answer(a, x, stored, kind, unit)
    if out is None:
        return made
    check.out("tbsv", out, shape=tuple(made.shape), dtype=made.dtype, a=a, x=x)
    return out.copy_(made)


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
    n = a.shape[-1]
    made = _multiplied(a, x, n, ku, "n", False, "hermitian" if hermitian and a.is_complex() else "symmetric")
    return accumulated(op, alpha, made, beta, y, out, a=a, x=x)


def _triangular(
    op: str, k: int, a: Tensor, x: Tensor, lower: bool | int | str, trans: bool | int | str, diag: bool | int | str
) -> tuple[bool, Trans, bool]:
    if type(k) is not int or k < 0:
        _counts(op, k=k)
    _band(op, a, x, k + 1, None)
    if a.shape[-1] != x.shape[-1]:
        check.equal(op, "N", a=a.shape[-1], x=x.shape[-1])
    return flag(op, "lower", lower, "ul"), transposition(op, trans), flag(op, "diag", diag, "nu")


def _answer(a: Tensor, x: Tensor, lower: bool, kind: Trans, unit: bool) -> Tensor:
    """``inv(op(A)) @ x`` with A triangular."""
    if in_place(a, x) and not a.is_complex() and not is_compiling():
        return _solve(a, x, lower, kind != "n", unit)
    return _solved(a, x, lower, kind, unit)


def _solved(a: Tensor, x: Tensor, lower: bool, kind: Trans, unit: bool) -> Tensor:
    """Solve with kernels of whole blocks."""
    rows = diagonals(a, a.shape[-2] - 1, lower)
    if unit:
        rows = torch.cat([torch.ones_like(rows[..., :1, :]), rows[..., 1:, :]], -2)
    rows = rows.conj() if kind == "c" else rows
    # Transposing moves no diagonal, it renames the side.
    if lower == (kind == "n"):
        return _substituted(rows, x)
    # Backwards, an upper triangle is a lower one; diagonal s is short by s at its end.
    n = x.shape[-1]
    turned = [reverse(d, s, n) for s, d in enumerate(rows.unbind(-2))]
    return _substituted(torch.stack(turned, -2), x.flip(-1)).flip(-1)


def _multiplied(a: Tensor, x: Tensor, m: int, ku: int, kind: Trans, unit: bool, form: str) -> Tensor:
    """``op(A) @ x`` with A [M, N] of ``ku`` diagonals above the main one; ``unit`` puts ones on that."""
    if _product.straight():
        made = _walked(a, x, m, ku, kind != "n", unit, form == "symmetric")
        if made is not None:
            return made
    if in_place(a, x) and not a.is_complex() and not is_compiling():
        return _product(a, x, m, ku, kind != "n", unit, form == "symmetric")
    return _by_windows(a, x, m, ku, kind, unit, form)


def _by_windows(a: Tensor, x: Tensor, m: int, ku: int, kind: Trans, unit: bool, form: str) -> Tensor:
    """Align the diagonals by rows of the result, and multiply each by what it meets of ``x``."""
    n, kl = a.shape[-1], a.shape[-2] - 1 - ku
    if unit:
        ones = torch.ones_like(a[..., :1, :])
        a = torch.cat([a[..., :ku, :], ones, a[..., ku + 1 :, :]], -2)
    if form != "general":
        return _banded(mirrored(a, ku == 0, form == "hermitian"), x, a.shape[-2] - 1)
    if kind != "n":
        return _banded(inside(a.conj() if kind == "c" else a, m, ku), x, ku)
    # Row i meets x from i - kl on: diagonals aligned by row instead of by column, the lowest first.
    weights = torch.stack([shifted(a[..., kl + ku - d, :], d - kl, m) for d in range(kl + ku + 1)], -2)
    return _banded(inside(weights, n, kl), x, kl)


def _substituted(rows: Tensor, x: Tensor) -> Tensor:
    """Solve a lower band system block by block; a block meets only the one before it."""
    n, k = x.shape[-1], rows.shape[-2] - 1
    if n == 0:
        return x.clone()
    block = max(k, _BLOCK)
    found: list[Tensor] = []
    for start in range(0, n, block):
        stop = min(n, start + block)
        right = x[..., start:stop].unsqueeze(-1)
        if found and k:
            before = dense(rows, start, stop, start - block, start)
            right = gemm(-1.0, before, found[-1], 1.0, right)
        found.append(trsm(1.0, dense(rows, start, stop, start, stop), right, lower=True))
    return torch.cat(found, -2).squeeze(-1)


def _product_fake(a: Tensor, x: Tensor, m: int, ku: int, trans: bool, unit: bool, symmetric: bool) -> Tensor:
    batch = check.broadcast("gbmv", a=a.shape[:-2], x=x.shape[:-1])
    return x.new_empty((*batch, a.shape[-1] if trans else m))


def _product_cost(a: Tensor, x: Tensor, m: int, ku: int, trans: bool, unit: bool, symmetric: bool) -> int:
    batch = math.prod(check.broadcast("gbmv", a=a.shape[:-2], x=x.shape[:-1]))
    return batch * a.shape[-1] * a.shape[-2] * (4 if symmetric else 2)


# What real operands without gradients go through: the host walks the band where it lies.
_product = Op("trnblas::band_product", fake=_product_fake, cost=_product_cost)


@_product.impl("pytorch")
def _product_pytorch(a: Tensor, x: Tensor, m: int, ku: int, trans: bool, unit: bool, symmetric: bool) -> Tensor:
    made = _walked(a, x, m, ku, trans, unit, symmetric)
    return _product_nki(a, x, m, ku, trans, unit, symmetric) if made is None else made


def _walked(a: Tensor, x: Tensor, m: int, ku: int, trans: bool, unit: bool, symmetric: bool) -> Tensor | None:
    """The product by the compiled loop, or ``None`` where that cannot take it."""
    loop = host.band_loop("product", a, x)
    if loop is None:
        return None
    n, length = a.shape[1], a.shape[1] if trans else m
    a, row = host.band_rows(a)
    x, y = x.contiguous(), x.new_empty(length)
    loop(m, n, a.shape[0], ku, a.data_ptr(), row, x.data_ptr(), y.data_ptr(), trans, unit, symmetric)
    return y


@_product.impl("nki")
def _product_nki(a: Tensor, x: Tensor, m: int, ku: int, trans: bool, unit: bool, symmetric: bool) -> Tensor:
    return _by_windows(a, x, m, ku, "t" if trans else "n", unit, "symmetric" if symmetric else "general")


def _solve_fake(a: Tensor, x: Tensor, lower: bool, trans: bool, unit: bool) -> Tensor:
    return x.new_empty((*check.broadcast("tbsv", a=a.shape[:-2], x=x.shape[:-1]), x.shape[-1]))


def _solve_cost(a: Tensor, x: Tensor, lower: bool, trans: bool, unit: bool) -> int:
    return 2 * a.shape[-2] * _solve_fake(a, x, lower, trans, unit).numel()


_solve = Op("trnblas::band_solve", fake=_solve_fake, cost=_solve_cost)


@_solve.impl("pytorch")
def _solve_pytorch(a: Tensor, x: Tensor, lower: bool, trans: bool, unit: bool) -> Tensor:
    made = _substitution(a, x, lower, trans, unit)
    return _solve_nki(a, x, lower, trans, unit) if made is None else made


def _substitution(a: Tensor, x: Tensor, lower: bool, trans: bool, unit: bool) -> Tensor | None:
    """The solution by the compiled loop, or ``None`` where that cannot take it or meets a zero on the diagonal."""
    loop = host.band_loop("solve", a, x)
    if loop is None:
        return None
    a, row = host.band_rows(a)
    y = x.clone(memory_format=torch.contiguous_format)
    main = 0 if lower else a.shape[0] - 1
    solved = loop(a.shape[1], a.shape[0], main, a.data_ptr(), row, y.data_ptr(), trans, unit)
    return y if solved else None


@_solve.impl("nki")
def _solve_nki(a: Tensor, x: Tensor, lower: bool, trans: bool, unit: bool) -> Tensor:
    return _solved(a, x, lower, "t" if trans else "n", unit)


def _fake(weights: Tensor, x: Tensor, offset: int) -> Tensor:
    batch = check.broadcast("gbmv", a=weights.shape[:-2], x=x.shape[:-1])
    return x.new_empty((*batch, weights.shape[-1]))


def _cost(weights: Tensor, x: Tensor, offset: int) -> int:
    each = weights.shape[-1] * weights.shape[-2] * (8 if x.is_complex() else 2)
    return each * math.prod(_fake(weights, x, offset).shape[:-1])


_banded = Op("trnblas::banded", fake=_fake, cost=_cost)


def _windows(weights: Tensor, x: Tensor, offset: int) -> Tensor:
    """[..., D, P]: ``x[p + d - offset]`` beside every weight, as a view of the padded vector."""
    d, p = weights.shape[-2:]
    return pad(x, (offset, max(0, p + d - 1 - offset - x.shape[-1]))).unfold(-1, p, 1)[..., :d, :]


@_banded.impl("pytorch")
def _pytorch(weights: Tensor, x: Tensor, offset: int) -> Tensor:
    if weights.shape[-1] == 0:
        return _fake(weights, x, offset)
    return (weights * _windows(weights, x, offset)).sum(-2)


@_banded.vjp(saves=("weights", "x"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    weights, x, offset = saved.weights, saved.x, saved.offset
    found = {}
    if saved.needs("weights"):
        found["weights"] = (grad.unsqueeze(-2) * _windows(weights, x, offset).conj()).sum_to_size(weights.shape)
    if saved.needs("x"):
        d, n = weights.shape[-2], x.shape[-1]
        turned = [shifted(weights[..., r, :], offset - r, n) for r in range(d - 1, -1, -1)]
        found["x"] = _banded(torch.stack(turned, -2).conj(), grad, d - 1 - offset).sum_to_size(x.shape)
    return found


def _limits(weights: Tensor, x: Tensor, offset: int) -> str | None:
    return rounds(x)


@_banded.impl("nki", limits=_limits)
def _nki(weights: Tensor, x: Tensor, offset: int) -> Tensor:
    result = _fake(weights, x, offset)
    if result.numel() == 0:
        return result
    if x.is_complex():
        parts = torch.stack([weights.real, weights.imag, weights.real, weights.imag])
        lead = len(result.shape) - 1
        parts = parts.reshape(4, *[1] * (lead - weights.ndim + 2), *weights.shape)
        others = torch.stack([x.real, x.imag, x.imag, x.real]).reshape(4, *[1] * (lead - x.ndim + 1), *x.shape)
        rr, ii, ri, ir = _nki(parts, others, offset)
        return torch.complex(rr - ii, ri + ir)
    d, p = weights.shape[-2:]
    width = -(-p // P_MAX)
    operand = x.dtype if x.dtype in HALF else torch.float32
    shape = (*result.shape[:-1], d, p)
    tiles = [
        pad(t.expand(shape).to(operand), (0, width * P_MAX - p)).reshape(-1, d, P_MAX, width).contiguous()
        for t in (weights, _windows(weights, x, offset))
    ]  # [B, D, p, width]
    made: Tensor = launch(kernels.banded, *tiles)  # [B, p, width]
    return made.reshape(*result.shape[:-1], -1)[..., :p].to(result.dtype)
