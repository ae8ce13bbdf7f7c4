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

from trnblas.arguments import HALF, coefficient, flag, needed, rounds, transposition
from trnblas.gemm import gemm
from trnblas.kernels import banded as kernels
from trnblas.trsm import trsm
from trnsci import ArgumentError, Op, Singular, array_function, check
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
    _counts("gbmv", m=m, n=n, kl=kl, ku=ku)
    _band("gbmv", a, x, kl + ku + 1, n)
    kind = transposition("gbmv", trans)
    source, rows = (n, m) if kind == "n" else (m, n)
    check.equal("gbmv", "N" if kind == "n" else "M", A=source, x=x.shape[-1])
    if kind == "n":
        # Row i meets x from i - kl on: diagonals aligned by row instead of by column, the lowest first.
        weights = torch.stack([_shifted(a[..., kl + ku - d, :], d - kl, rows) for d in range(kl + ku + 1)], -2)
        offset = kl
    else:
        weights, offset = (a.conj() if kind == "c" else a), ku
    return _scaled("gbmv", alpha, _inside(weights, source, offset), x, offset, beta, y, out, a)


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
    diagonals, is_lower = _triangular("tbmv", k, a, x, lower, trans, diag)
    weights = _side(diagonals, is_lower)
    return _scaled("tbmv", 1.0, weights, x, k if is_lower else 0, 0.0, None, out, a)


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
    diagonals, is_lower = _triangular("tbsv", k, a, x, lower, trans, diag)
    if not x.is_meta:
        zero = diagonals.detach()[..., 0, :] == 0
        if bool(zero.any()):
            *batch, index = zero.nonzero()[0].tolist()
            raise Singular(op="tbsv", index=index, batch=tuple(batch))
    if is_lower:
        made = _substituted(diagonals, x)
    else:
        # Backwards, an upper triangle is a lower one; diagonal s is short by s at its end.
        n = x.shape[-1]
        turned = [_reverse(d, s, n) for s, d in enumerate(diagonals.unbind(-2))]
        made = _substituted(torch.stack(turned, -2), x.flip(-1)).flip(-1)
    if out is None:
        return made
    check.out("tbsv", out, shape=tuple(made.shape), dtype=made.dtype, a=a, x=x)
    return out.copy_(made)


def _reverse(diagonal: Tensor, s: int, n: int) -> Tensor:
    """Diagonal ``s`` of the matrix read backwards, filled up with zeros."""
    kept = max(n - s, 0)
    return pad(diagonal[..., :kept].flip(-1), (0, n - kept))


def _counts(op: str, **values: int) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ArgumentError(op=op, argument=name, got=value, expected="an integer, 0 or more")


def _band(op: str, a: Tensor, x: Tensor, rows: int, n: int | None) -> None:
    check.floating(op, a=a, x=x)
    check.ndim(op, 2, a=a)
    check.ndim(op, 1, x=x)
    check.same_device(op, a=a, x=x)
    check.broadcast(op, a=a.shape[:-2], x=x.shape[:-1])
    if a.shape[-2] != rows or (n is not None and a.shape[-1] != n):
        expected = f"[..., {rows}, {'N' if n is None else n}]"
        raise ArgumentError(op=op, argument="shape of a", got=tuple(a.shape), expected=expected)


def _symmetric(
    op: str, k: int, alpha: complex, a: Tensor, x: Tensor, beta: complex, y: Tensor | None,
    lower: bool | int | str, out: Tensor | None, *, hermitian: bool,
) -> Tensor:  # fmt: skip
    _counts(op, k=k)
    _band(op, a, x, k + 1, None)
    check.equal(op, "N", a=a.shape[-1], x=x.shape[-1])
    stored = flag(op, "lower", lower, "ul")
    diagonals = _diagonals(a, k, stored)
    main = diagonals[..., :1, :]
    if hermitian and a.is_complex():
        main = torch.complex(main.real, torch.zeros_like(main.real))
        above = diagonals[..., 1:, :].conj() if stored else diagonals[..., 1:, :]
        below = above.conj()
    else:
        above = below = diagonals[..., 1:, :]
    n = a.shape[-1]
    under = [_shifted(below[..., s - 1, :], -s, n) for s in range(k, 0, -1)]
    weights = torch.cat([torch.stack(under, -2) if under else main[..., :0, :], main, above], -2)
    return _scaled(op, alpha, weights, x, k, beta, y, out, a)


def _triangular(
    op: str, k: int, a: Tensor, x: Tensor, lower: bool | int | str, trans: bool | int | str, diag: bool | int | str
) -> tuple[Tensor, bool]:
    """The diagonals of ``op(A)`` and whether it is lower: transposing moves no diagonal, it renames the side."""
    _counts(op, k=k)
    _band(op, a, x, k + 1, None)
    check.equal(op, "N", a=a.shape[-1], x=x.shape[-1])
    stored, kind, unit = flag(op, "lower", lower, "ul"), transposition(op, trans), flag(op, "diag", diag, "nu")
    diagonals = _diagonals(a, k, stored)
    if unit:
        diagonals = torch.cat([torch.ones_like(diagonals[..., :1, :]), diagonals[..., 1:, :]], -2)
    diagonals = diagonals.conj() if kind == "c" else diagonals
    return diagonals, stored if kind == "n" else not stored


def _diagonals(a: Tensor, k: int, lower: bool) -> Tensor:
    """[..., k + 1, N]: element j of row s is A[j + s, j], or A[j, j + s]; zeros behind the end of a diagonal."""
    n = a.shape[-1]
    if lower:
        return _inside(a, n, 0)
    return torch.stack([_shifted(a[..., k - s, :], s, n) for s in range(k + 1)], -2)


def _side(diagonals: Tensor, lower: bool) -> Tensor:
    """Weights of one triangle by row: below the main diagonal, or above."""
    if not lower:
        return diagonals
    n, k = diagonals.shape[-1], diagonals.shape[-2] - 1
    return torch.stack([_shifted(diagonals[..., s, :], -s, n) for s in range(k, -1, -1)], -2)


def _shifted(row: Tensor, by: int, size: int) -> Tensor:
    """``out[p] = row[p + by]`` for ``size`` values of p, zero where there is no such element."""
    n = row.shape[-1]
    first, last = max(0, -by), min(size, n - by)
    if last <= first:
        return row.new_zeros((*row.shape[:-1], size))
    return pad(row[..., first + by : last + by], (first, size - last))


def _inside(weights: Tensor, source: int, offset: int) -> Tensor:
    """Zeros where a weight would meet an element outside the vector: there the storage holds anything."""
    d, p = (torch.arange(size, device=weights.device) for size in weights.shape[-2:])
    place = p + d.unsqueeze(-1) - offset
    return torch.where((place >= 0) & (place < source), weights, 0.0)


def _scaled(
    op: str, alpha: complex, weights: Tensor, x: Tensor, offset: int, beta: complex, y: Tensor | None,
    out: Tensor | None, a: Tensor,
) -> Tensor:  # fmt: skip
    dtype = a.dtype
    alpha, beta = coefficient(op, "alpha", alpha, dtype), coefficient(op, "beta", beta, dtype)
    needed(op, "y", y, "beta", beta, "[..., M]")
    made = _banded(weights, x, offset)
    if y is not None:
        check.floating(op, a=a, y=y)
        check.equal(op, "M", A=weights.shape[-1], y=y.shape[-1] if y.ndim else 0)
    if alpha == 0:
        made = torch.zeros_like(made)
    elif alpha != 1:
        made = alpha * made
    made = made if y is None or beta == 0 else made + beta * y
    if out is None:
        return made
    check.out(op, out, shape=tuple(made.shape), dtype=dtype, a=a, x=x, y=y)
    return out.copy_(made)


def _substituted(diagonals: Tensor, x: Tensor) -> Tensor:
    """Solve a lower band system block by block; a block meets only the one before it."""
    n, k = x.shape[-1], diagonals.shape[-2] - 1
    if n == 0:
        return x.clone()
    block = max(k, _BLOCK)
    found: list[Tensor] = []
    for start in range(0, n, block):
        stop = min(n, start + block)
        right = x[..., start:stop].unsqueeze(-1)
        if found and k:
            before = _dense(diagonals, start, stop, start - block, start)
            right = gemm(-1.0, before, found[-1], 1.0, right)
        found.append(trsm(1.0, _dense(diagonals, start, stop, start, stop), right, lower=True))
    return torch.cat(found, -2).squeeze(-1)


def _dense(diagonals: Tensor, row: int, row_stop: int, column: int, column_stop: int) -> Tensor:
    """A piece of the lower triangle as a matrix."""
    k = diagonals.shape[-2] - 1
    i = torch.arange(row, row_stop, device=diagonals.device).unsqueeze(-1)
    j = torch.arange(column, column_stop, device=diagonals.device)
    s = i - j
    values = diagonals[..., s.clamp(0, k), j.expand_as(s)]
    return torch.where((s >= 0) & (s <= k), values, 0.0)


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
        turned = [_shifted(weights[..., r, :], offset - r, n) for r in range(d - 1, -1, -1)]
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
