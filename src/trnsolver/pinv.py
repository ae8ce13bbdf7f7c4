"""The pseudo-inverse, the rank, and bases of range and null space, from singular values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, array_function, check, run
from trnsolver.arguments import matrices, readable, roundoff, settled, square, triangle, written
from trnsolver.eigh import eigh, eigvalsh
from trnsolver.svd import SvdCall, svd, svdvals
from trnsolver.tiles import near_one


@array_function
def pinv(
    a: Tensor,
    rcond: float | None = None,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    hermitian: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Moore-Penrose inverse [..., N, M] of ``a`` [..., M, N].

    Args:
        a: [..., M, N].
        rcond: NumPy's name for ``rtol``.
        atol: singular values up to this count as zero; a number, or one for each matrix.
        rtol: those up to this share of the largest do, too; ``max(M, N)`` times epsilon unless ``atol`` is given.
        hermitian: ``a`` is Hermitian, of which the lower triangle is read: by `eigh` rather than by `svd`.
        out: where the result goes; it must fit and share no memory with an operand.

    Example:
        >>> pinv(torch.tensor([[2.0], [0.0]]))
        tensor([[0.5000, 0.0000]])
    """
    _matrix("pinv", a, hermitian)
    share = _share("pinv", rcond, rtol)
    _real("pinv", rtol=share, atol=atol)
    if torch.is_grad_enabled() and a.requires_grad:
        result: Tensor = _Differentiable.apply(a, atol, share, hermitian)  # type: ignore[no-untyped-call]
    else:
        result = _inverted(a, atol, share, hermitian)
    settled("pinv", result)
    return written("pinv", out, result, a=a)


def _inverted(a: Tensor, atol: float | Tensor | None, rtol: float | Tensor | None, hermitian: bool) -> Tensor:
    a = a.tril() if hermitian else a
    scale: Tensor | None = None
    if not hermitian:
        u, signed, vh = run(SvdCall(a, False, "auto"))
    if hermitian or not _moderate(signed):
        # singular values may overflow where their inverses do not
        scale = near_one(a, (-2, -1), beyond=_FAR)
        atol = None if atol is None else atol * scale[..., 0, 0]
        if hermitian:
            signed, u = eigh(a * scale)
            vh = u.mH
        else:
            u, signed, vh = run(SvdCall(a * scale, False, "auto"))
    s = signed.abs() if hermitian else signed
    kept = s > _threshold(a, s, rtol, atol)
    inverse = torch.where(kept, signed.reciprocal(), 0.0)
    x = gemm(1.0, vh.mH * inverse.unsqueeze(-2).to(a.dtype), u, trans_b="c")
    return x if scale is None else x * scale


_FAR = 2.0**100


def _moderate(s: Tensor) -> bool:
    """Whether descending values are known to begin neither far above 1 nor far below, those of all matrices."""
    if not s.numel() or not readable(s):
        return False
    least, most = (s[0], s[0]) if s.ndim == 1 else torch.aminmax(s[..., 0])
    return least.item() > 1.0 / _FAR and most.item() < _FAR


class _Differentiable(torch.autograd.Function):
    """The pseudo-inverse ``p`` with the gradient of matrices of constant rank, repeated singular values or not.

    ``dp = -p da p + p p.mH da.mH (1 - a p) + (1 - p a) da.mH p.mH p`` (Golub and Pereyra).
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
        return _inverted(a, atol, rtol, hermitian)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.hermitian = inputs[-1]
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, p = ctx.saved_tensors
        if ctx.hermitian:
            # of ``a`` the lower triangle was read
            a = a.tril() + a.tril(-1).mH
        across = gemm(1.0, gemm(1.0, grad, p, trans_a="c"), p, trans_b="c")  # [M, N]
        back = gemm(1.0, p, gemm(1.0, p, grad, trans_b="c"), trans_a="c")  # [M, N]
        whole = gemm(-1.0, p, gemm(1.0, grad, p, trans_b="c"), trans_a="c")
        whole = whole + across - gemm(1.0, a, gemm(1.0, p, across))
        whole = whole + back - gemm(1.0, gemm(1.0, back, a, trans_b="c"), p, trans_b="c")
        if ctx.hermitian:
            whole = 0.5 * (whole + whole.mH)
        return whole, None, None, None


def _matrix(op: str, a: Tensor, hermitian: bool) -> None:
    """Check that what is read of ``a`` is finite."""
    check.flag(op, hermitian=hermitian)
    (square if hermitian else matrices)(op, look=not hermitian, a=a)
    if hermitian:
        triangle(op, True, a=a)


def _share(op: str, rcond: float | None, rtol: float | Tensor | None) -> float | Tensor | None:
    """The one of two names for the same that is given."""
    if rcond is not None and rtol is not None:
        raise ArgumentError(op, "rcond", rcond, f"None with rtol={rtol}: they are the same")
    return rcond if rtol is None else rtol


def _real(op: str, **given: Any) -> None:
    for name, value in given.items():
        if isinstance(value, Tensor) and value.is_floating_point() and value.layout is torch.strided:
            continue
        if value is not None:
            check.real(op, name, value)


def _threshold(a: Tensor, s: Tensor, share: float | Tensor | None, atol: float | Tensor | None = None) -> Tensor:
    """What singular values have to exceed, [..., 1]."""
    if share is None:
        share = max(a.shape[-2:]) * 2 * roundoff(a.dtype) if atol is None else 0.0
    largest = s.detach().amax(-1, keepdim=True) if s.shape[-1] else s.detach()
    if isinstance(share, Tensor):
        share = share.unsqueeze(-1)
    if atol is None:
        return share * largest
    least = atol.unsqueeze(-1) if isinstance(atol, Tensor) else torch.full_like(largest, atol)
    return torch.maximum(share * largest, least.to(largest.dtype))


@array_function
def matrix_rank(
    a: Tensor,
    *,
    rcond: float | None = None,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    hermitian: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Number of singular values of ``a`` [..., M, N] that do not count as zero; arguments as for `pinv`.

    Example:
        >>> matrix_rank(torch.ones(3, 3))
        tensor(1)
    """
    _matrix("matrix_rank", a, hermitian)
    _real("matrix_rank", rtol=rtol, rcond=rcond, atol=atol)
    s = eigvalsh(a).abs() if hermitian else svdvals(a)
    return written("matrix_rank", out, (s > _threshold(a, s, _share("matrix_rank", rcond, rtol), atol)).sum(-1), a=a)


@array_function
def null_space(a: Tensor, rcond: float | None = None) -> Tensor:
    """Orthonormal basis [N, N - rank] of the vectors ``a`` [M, N] maps to zero.

    Example:
        >>> null_space(torch.tensor([[1.0, 0.0]])).abs()
        tensor([[0.],
                [1.]])
    """
    matrices("null_space", a=a)
    _real("null_space", rcond=rcond)
    check.equal("null_space", "dimensions", a=a.ndim, matrix=2)
    check.data("null_space", a=a)
    _, s, vh = svd(a)
    rank = int((s > _threshold(a, s, rcond)).sum())
    return vh[rank:].mH.contiguous()


@array_function
def orth(a: Tensor, rcond: float | None = None) -> Tensor:
    """Orthonormal basis [M, rank] of the range of ``a`` [M, N].

    Example:
        >>> orth(torch.tensor([[0.0], [2.0]])).abs()
        tensor([[0.],
                [1.]])
    """
    matrices("orth", a=a)
    _real("orth", rcond=rcond)
    check.equal("orth", "dimensions", a=a.ndim, matrix=2)
    check.data("orth", a=a)
    u, s, _ = svd(a, full_matrices=False)
    return u[:, : int((s > _threshold(a, s, rcond)).sum())].contiguous()
