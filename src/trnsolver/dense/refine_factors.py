"""Cholesky, LU and QR factors of double precision from those of single precision."""

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import run
from trnsolver.arguments import roundoff
from trnsolver.dense.inv_triangular import InvTriangular
from trnsolver.dense.mixed_precision import Parts, improve_factors, product


def improved_cholesky(a: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Correct the lower factor of ``a`` [..., N, N], with a diagonal near 1, in single precision; say which are good.

    With ``r`` what the factor ``l`` leaves and ``e = inv(l) r inv(l).mH``, the factor of ``1 + e`` corrects it.
    """
    x, n = _inverse(start), a.shape[-1]

    def find_residuals(parts: Parts) -> Parts:
        return (gemm(-1.0, parts[0], parts[0], 1.0, a, trans_b="c"),)

    def correct(parts: Parts, rest: Parts) -> Parts:
        e = product(product(x, rest[0]), x.mH)
        return (parts[0] + product(parts[0], e.tril() - 0.5 * torch.diag_embed(e.diagonal(dim1=-2, dim2=-1))).tril(),)

    (factor,), good = improve_factors((start.to(a.dtype),), find_residuals, correct, (8.0 * n * roundoff(a.dtype),))
    return factor, good


def improved_lu(a: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Packed factors of ``a`` [..., M, N], whose rows are in order, from those of single precision; and which are good.

    With ``r`` what the factors leave and ``f = inv(l) r inv(u)``, the triangles of ``f`` correct them.
    """
    m, n = a.shape[-2:]
    k = min(m, n)
    x, y = _inverse(start[..., :k, :k], unit=True), _inverse(start[..., :k, :k].mT).mT
    eye = torch.eye(m, k, dtype=a.dtype, device=a.device)

    def find_residuals(parts: Parts) -> Parts:
        return (gemm(-1.0, parts[0], parts[1], 1.0, a),)

    def correct(parts: Parts, rest: Parts) -> Parts:
        (lower, upper), (r,) = parts, rest
        f = product(product(x, r[..., :k, :k]), y)
        below, above = f.tril(-1), f.triu()
        more, further = product(lower[..., :k, :], below), product(above, upper[..., :k])
        if m > k:
            more = torch.cat([more, product(r[..., k:, :], y) - product(lower[..., k:, :], above)], -2)
        if n > k:
            further = torch.cat([further, product(x, r[..., k:]) - product(below, upper[..., k:])], -1)
        return lower + more.tril(-1), upper + further.triu()

    wide = start.to(a.dtype)
    lower, upper = wide[..., :k].tril(-1) + eye, wide[..., :k, :].triu()
    growth = (_largest(upper) / _largest(a)).clamp_min(1.0)
    allowed = 10.0 * k**0.5 * roundoff(a.dtype) * torch.linalg.matrix_norm(a)
    (lower, upper), good = improve_factors((lower, upper), find_residuals, correct, (allowed,), growth)
    whole = torch.zeros_like(a)
    whole[..., :k] = lower.tril(-1)
    whole[..., :k, :] += upper
    return whole, good


def improved_qr(a: Tensor, q: Tensor, r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``q`` and ``r`` of ``a`` [..., M, N] with columns of norms near 1, from single precision; and which are good.

    With ``d`` what they leave and ``g = d inv(r)``, ``a = (q + g) r``. What of ``g`` is along ``q`` goes into ``r``,
    but for a rotation that keeps it triangular. Half the loss of orthogonality is taken off ``q`` on both sides.
    """
    m, n = a.shape[-2:]
    y = _inverse(r.mT).mT
    eye = torch.eye(n, dtype=a.dtype, device=a.device).expand(*a.shape[:-2], n, n)

    def find_residuals(parts: Parts) -> Parts:
        return gemm(-1.0, parts[0], parts[1], 1.0, a), gemm(-1.0, parts[0], parts[0], 1.0, eye, trans_a="c")

    def correct(parts: Parts, rest: Parts) -> Parts:
        (q, r), (d, lost) = parts, rest
        g = product(d, y)
        along = product(q.mH, g)
        # the diagonal of r stays real
        rotated = along.tril(-1) - along.tril(-1).mH
        if a.is_complex():
            rotated = rotated + torch.diag_embed(1j * along.diagonal(dim1=-2, dim2=-1).imag)
        kept = (along - rotated).triu()
        return q + g + product(q, 0.5 * lost - kept), r + product(kept, r).triu()

    u = roundoff(a.dtype)
    start = q.to(a.dtype), r.to(a.dtype).triu()
    (q, r), good = improve_factors(start, find_residuals, correct, (7.0 * n * u, 10.0 * m * u))
    return q, r, good


def _inverse(lower: Tensor, unit: bool = False) -> Tensor:
    return run(InvTriangular(lower, unit))


def _largest(x: Tensor) -> Tensor:
    largest = x.abs().amax((-2, -1))
    return torch.where(largest > 0, largest, 1.0)
