"""Band matrices stored by diagonals, rearranged: by rows of the product, backwards, or in pieces of the whole."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from trnblas.arguments import Trans

Form = Literal["general", "symmetric", "hermitian"]


def reverse(diagonal: Tensor, s: int, n: int) -> Tensor:
    """Return diagonal ``s`` of the matrix read backwards, filled up with zeros."""
    kept = max(n - s, 0)
    return pad(diagonal[..., :kept].flip(-1), (0, n - kept))


def mirror_side(a: Tensor, lower: bool, hermitian: bool) -> Tensor:
    """Return weights by row of a symmetric matrix of which one side is stored."""
    n, k = a.shape[-1], a.shape[-2] - 1
    rows = diagonals(a, k, lower)
    main = rows[..., :1, :]
    above = below = rows[..., 1:, :]
    if hermitian:
        main = torch.complex(main.real, torch.zeros_like(main.real))
        above = above.conj_physical() if lower else above
        below = above.conj_physical()
    under = [shift_row(below[..., s - 1, :], -s, n) for s in range(k, 0, -1)]
    return torch.cat([torch.stack(under, -2) if under else main[..., :0, :], main, above], -2)


def diagonals(a: Tensor, k: int, lower: bool) -> Tensor:
    """Return [..., k + 1, N]: element j of row s is A[j + s, j], or A[j, j + s]; zeros past its end."""
    n = a.shape[-1]
    if lower:
        return inside(a, n, 0)
    return torch.stack([shift_row(a[..., k - s, :], s, n) for s in range(k + 1)], -2)


def shift_row(row: Tensor, by: int, size: int) -> Tensor:
    """Return ``out[p] = row[p + by]`` for ``size`` values of p, zero where there is no such element."""
    n = row.shape[-1]
    first, last = max(0, -by), min(size, n - by)
    if last <= first:
        return row.new_zeros((*row.shape[:-1], size))
    return pad(row[..., first + by : last + by], (first, size - last))


def inside(weights: Tensor, source: int, offset: int) -> Tensor:
    """Zero the weights that would meet an element outside the vector: storage there is undefined."""
    d, p = (torch.arange(size, device=weights.device) for size in weights.shape[-2:])
    column = p + d.unsqueeze(-1) - offset
    return torch.where((column >= 0) & (column < source), weights, 0.0)


def windows(x: Tensor, diagonals: int, size: int, offset: int) -> Tensor:
    """Return [..., D, P]: ``x[p + d - offset]``, or zero; a view of the padded vector."""
    if size == 0:
        return x.new_zeros((*x.shape[:-1], diagonals, 0))
    return pad(x, (offset, max(0, size + diagonals - 1 - offset - x.shape[-1]))).unfold(-1, size, 1)[..., :diagonals, :]


def slope_factors(trans: str, alpha: complex, grad: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return vectors whose outer product is the gradient of A in ``alpha * op(A) @ x``."""
    if trans == "n":
        return grad, alpha * x.conj()
    return (x.conj(), alpha * grad) if trans == "t" else (x, (alpha * grad).conj())


def outer_band(left: Tensor, right: Tensor, rows: int, ku: int, m: int) -> Tensor:
    """Return ``left[i] * right[j]`` as a band matrix [M, N] stores it: [..., rows, N], zeros outside."""
    n = right.shape[-1]
    return inside(windows(left, rows, n, ku) * right.unsqueeze(-2), m, ku)


def without_row(a: Tensor, row: int) -> Tensor:
    """Replace one diagonal by zeros."""
    return torch.cat([a[..., :row, :], torch.zeros_like(a[..., :1, :]), a[..., row + 1 :, :]], -2)


def dense(rows: Tensor, row: int, row_stop: int, column: int, column_stop: int) -> Tensor:
    """Return a piece of the lower triangle as a matrix."""
    k = rows.shape[-2] - 1
    i = torch.arange(row, row_stop, device=rows.device).unsqueeze(-1)
    j = torch.arange(column, column_stop, device=rows.device)
    s = i - j
    values = rows[..., s.clamp(0, k), j.expand_as(s)]
    return torch.where((s >= 0) & (s <= k), values, 0.0)


def weights_by_row(a: Tensor, m: int, ku: int, *, trans: Trans, unit: bool, form: Form) -> tuple[Tensor, int]:
    """Return diagonals aligned by rows of the result, the first to meet ``x`` at ``row - offset``."""
    n, kl = a.shape[-1], a.shape[-2] - 1 - ku
    if unit:
        a = torch.cat([a[..., :ku, :], torch.ones_like(a[..., :1, :]), a[..., ku + 1 :, :]], -2)
    if form != "general":
        return mirror_side(a, ku == 0, form == "hermitian"), a.shape[-2] - 1
    if trans != "n":
        return inside(a.conj_physical() if trans == "c" else a, m, ku), ku
    # Row i meets x from i - kl on: diagonals aligned by row instead of by column, the lowest first.
    weights = torch.stack([shift_row(a[..., kl + ku - d, :], d - kl, m) for d in range(kl + ku + 1)], -2)
    return inside(weights, n, kl), kl


def mirrored_slope(alpha: complex, grad: Tensor, x: Tensor, *, rows: int, ku: int, hermitian: bool) -> Tensor:
    """Return the gradient of one stored side: off the diagonal elements count twice, Hermitian ones on it are real."""
    n = x.shape[-1]
    straight = outer_band(*slope_factors("n", alpha, grad, x), rows, ku, n)
    across = outer_band(*slope_factors("c" if hermitian else "t", alpha, grad, x), rows, ku, n)
    main = straight[..., ku : ku + 1, :]
    if hermitian:
        main = torch.complex(main.real, torch.zeros_like(main.real))
    both = straight + across
    return torch.cat([both[..., :ku, :], main, both[..., ku + 1 :, :]], -2)
