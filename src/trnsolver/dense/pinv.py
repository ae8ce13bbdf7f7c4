"""The pseudo-inverse, the rank, and bases of range and null space, from singular values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, array_function, check, op, run
from trnsci.analogs import Different, Given, given, refuse_options, replaces
from trnsci.gradient import saves
from trnsolver.arguments import check_result, finite, matrices, readable, roundoff, square, write_results
from trnsolver.array_operands import as_matrix
from trnsolver.eigen.eigh import eigh, eigvalsh
from trnsolver.eigen.svd import SvdCall, svd, svdvals
from trnsolver.scaling import near_one


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
    """Return the Moore-Penrose inverse [..., N, M] of ``a`` [..., M, N].

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
    check.flag("pinv", hermitian=hermitian)
    (square if hermitian else matrices)("pinv", look=False, a=a)
    least, share = _tolerances("pinv", a, atol, rcond, rtol)
    if _moderate(a):
        result = run(Pinv(a, least, share, hermitian))
        if share is None:
            # no inverse of a value that is kept overflows
            return write_results("pinv", out, result, a=a)
    else:
        read = a.detach().tril() if hermitian else a.detach()
        finite("pinv", a=read)
        # singular values may overflow where their inverses do not
        scale = near_one(read, (-2, -1), beyond=_FAR)
        result = run(Pinv(a * scale, None if least is None else least * scale[..., 0, 0], share, hermitian)) * scale
    check_result("pinv", result)
    return write_results("pinv", out, result, a=a)


@replaces("numpy.linalg.pinv", by=pinv)
def _read_numpy(a: Any, rcond: Any, hermitian: bool, rtol: Any) -> Given:
    if rcond is not None or rtol not in (None, np._NoValue):
        raise Different("it has a tolerance of its own")
    # NumPy's default, whatever the size of a matrix
    return given(pinv, as_matrix(a), rcond=1e-15 if rtol is not None else None, hermitian=hermitian)


@replaces("scipy.linalg.pinv", by=pinv, order="F")
@replaces("scipy.linalg.pinvh", by=pinv)
def _read_scipy(a: Any, return_rank: bool, lower: bool | None = None, **tolerances: Any) -> Given:
    refuse_options(return_rank=return_rank, upper=lower is False, **tolerances)
    return given(pinv, as_matrix(a), hermitian=lower is not None)


_FAR = 2.0**100


def _moderate(a: Tensor) -> bool:
    """Return whether the norm of every matrix is known to be neither far above 1 nor far below."""
    if not a.numel() or not readable(a):
        return False
    sizes = torch.linalg.vector_norm(a.detach(), dim=(-2, -1))
    least, most = (sizes, sizes) if sizes.ndim == 0 else torch.aminmax(sizes)
    return least.item() > 1.0 / _FAR and most.item() < _FAR


@op("trnsolver::pinv")
class Pinv(NamedTuple):
    """The pseudo-inverse of matrices neither far above 1 nor far below."""

    a: Tensor  # [..., M, N]
    atol: Tensor | None
    rtol: Tensor | None
    hermitian: bool

    def fake(self) -> Tensor:
        return torch.empty_like(self.a.mT, memory_format=torch.contiguous_format)

    def cost(self) -> int:
        return 22 * self.a.numel() * min(self.a.shape[-2:]) * (4 if self.a.is_complex() else 1)

    def pytorch(self) -> Tensor:
        a, atol, rtol, hermitian = self.a, self.atol, self.rtol, self.hermitian
        try:
            return torch.linalg.pinv(a, atol=atol, rtol=rtol, hermitian=hermitian)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            return self.nki()

    def nki(self) -> Tensor:
        if self.hermitian:
            signed, u = eigh(self.a)
            vh = u.mH
        else:
            u, signed, vh = run(SvdCall(self.a, full=False, method="auto"))
        s = signed.abs()
        inverse = torch.where(s > _threshold(self.a, s, self.atol, self.rtol), signed.reciprocal(), 0.0)
        return gemm(1.0, vh.mH * inverse.unsqueeze(-2).to(self.a.dtype), u, trans_b="c")

    @saves("a", pytorch=True)
    def vjp(self, grad: Tensor, needs: frozenset[str], result: Tensor) -> dict[str, Tensor]:
        """Return the gradient of matrices of constant rank, repeated singular values or not.

        ``dp = -p da p + p p.mH da.mH (1 - a p) + (1 - p a) da.mH p.mH p`` (Golub and Pereyra).
        """
        a, p = self.a, result
        if self.hermitian:
            # of ``a`` the lower triangle was read
            a = a.tril() + a.tril(-1).mH
        across = gemm(1.0, gemm(1.0, grad, p, trans_a="c"), p, trans_b="c")  # [M, N]
        back = gemm(1.0, p, gemm(1.0, p, grad, trans_b="c"), trans_a="c")  # [M, N]
        whole = gemm(-1.0, p, gemm(1.0, grad, p, trans_b="c"), trans_a="c")
        whole = whole + across - gemm(1.0, a, gemm(1.0, p, across))
        whole = whole + back - gemm(1.0, gemm(1.0, back, a, trans_b="c"), p, trans_b="c")
        return {"a": 0.5 * (whole + whole.mH) if self.hermitian else whole}


def _tolerances(op: str, a: Tensor, atol: Any, rcond: Any, rtol: Any) -> tuple[Tensor | None, Tensor | None]:
    """``atol``, and the one of two names for the same that is given; zero beside ``atol``."""
    if atol is rcond is rtol is None:
        return None, None
    if rcond is not None and rtol is not None:
        raise ArgumentError(op, "rcond", rcond, f"None with rtol={rtol}: they are the same")
    given = {"atol": atol, "rtol": rtol, "rcond": rcond}
    for name, value in given.items():
        plain = isinstance(value, Tensor) and value.is_floating_point() and value.layout is torch.strided
        if value is not None and not plain:
            given[name] = torch.tensor(check.real(op, name, value), dtype=a.real.dtype, device=a.device)
    share = given["rcond"] if rtol is None else given["rtol"]
    return given["atol"], a.new_zeros((), dtype=a.real.dtype) if share is None else share


def _threshold(a: Tensor, s: Tensor, atol: Tensor | None, share: Tensor | None) -> Tensor:
    """Return the threshold of singular values, [..., 1]."""
    largest = s.detach().amax(-1, keepdim=True) if s.shape[-1] else s.detach()
    least = largest * (max(a.shape[-2:]) * 2 * roundoff(a.dtype) if share is None else share.unsqueeze(-1))
    return least if atol is None else torch.maximum(least, atol.unsqueeze(-1).to(least.dtype))


@array_function
@check.hands_on("eigvalsh", "svdvals")
def matrix_rank(
    a: Tensor,
    *,
    rcond: float | None = None,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    hermitian: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return the number of singular values of ``a`` [..., M, N] that do not count as zero; arguments as for `pinv`.

    Example:
        >>> matrix_rank(torch.ones(3, 3))
        tensor(1)
    """
    check.flag("matrix_rank", hermitian=hermitian)
    s = eigvalsh(a).abs() if hermitian else svdvals(a)
    least = _threshold(a, s, *_tolerances("matrix_rank", a, atol, rcond, rtol))
    return write_results("matrix_rank", out, (s > least).sum(-1), a=a)


@array_function
def null_space(a: Tensor, rcond: float | None = None) -> Tensor:
    """Return an orthonormal basis [N, N - rank] of the vectors ``a`` [M, N] maps to zero.

    Example:
        >>> null_space(torch.tensor([[1.0, 0.0]])).abs()
        tensor([[0.],
                [1.]])
    """
    matrices("null_space", a=a)
    least = _tolerances("null_space", a, None, rcond, None)
    check.equal("null_space", "dimensions", a=a.ndim, matrix=2)
    check.data("null_space", a=a)
    _, s, vh = svd(a)
    rank = int((s > _threshold(a, s, *least)).sum())
    return vh[rank:].mH.contiguous()


@array_function
def orth(a: Tensor, rcond: float | None = None) -> Tensor:
    """Return an orthonormal basis [M, rank] of the range of ``a`` [M, N].

    Example:
        >>> orth(torch.tensor([[0.0], [2.0]])).abs()
        tensor([[0.],
                [1.]])
    """
    matrices("orth", a=a)
    least = _tolerances("orth", a, None, rcond, None)
    check.equal("orth", "dimensions", a=a.ndim, matrix=2)
    check.data("orth", a=a)
    u, s, _ = svd(a, full_matrices=False)
    return u[:, : int((s > _threshold(a, s, *least)).sum())].contiguous()
