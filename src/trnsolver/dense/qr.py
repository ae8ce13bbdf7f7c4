"""QR factorisation: reduced, complete, R alone, or with column pivoting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnblas import gemm
from trnblas.trsm import doubling_masks
from trnsci import UnsupportedError, array_function, check, op, run
from trnsci.analogs import Different, Given, given, named_result, plain_result, refuse_options, replaces
from trnsci.arrays import to_numpy
from trnsci.gradient import forbid_gradient, saves
from trnsci.host import is_transformed
from trnsci.nki import P_MAX, launch
from trnsci.planning import remark
from trnsci.predict import on_host
from trnsolver.arguments import by_columns, check_result, double_dtype, matrices, readable, roundoff, write_results
from trnsolver.array_operands import as_matrix
from trnsolver.batched.batched_qr import LEAST, batched_qr
from trnsolver.batched.batches import pays
from trnsolver.dense.identity import identity
from trnsolver.dense.mixed_precision import correctable, single
from trnsolver.dense.refine_factors import improved_qr
from trnsolver.dense.solve_triangular import triangular
from trnsolver.kernels import householder, qr as kernels
from trnsolver.scaling import near_one
from trnsolver.scipy_calls import in_memory

Mode = Literal["reduced", "complete", "r"]
Matrix = NDArray[Any]


class QR(NamedTuple):
    """``a = q @ r``."""

    q: Tensor
    r: Tensor

    @property
    def Q(self) -> Tensor:
        """Torch's name for ``q``."""
        return self.q

    @property
    def R(self) -> Tensor:
        """Torch's name for ``r``."""
        return self.r


class PivotedQR(NamedTuple):
    """``a[:, order] = q @ r``, the diagonal of ``r`` of descending magnitude."""

    q: Tensor
    r: Tensor
    order: Tensor


@array_function
def qr(a: Tensor, mode: Mode = "reduced", *, out: tuple[Tensor, Tensor] | None = None) -> QR:
    """Factor ``a = q @ r`` with orthonormal columns in ``q`` and ``r`` upper triangular.

    Args:
        a: [..., M, N].
        mode: ``reduced``: q [..., M, K], r [..., K, N] with K = min(M, N); ``complete``: q [..., M, M], r [..., M, N];
            ``r``: only ``r``, and an empty ``q``.
        out: where the results go, one tensor for each; they must fit and share no memory with an operand.

    Error bound:
        ``norm(q @ r - a) <= 20 M u norm(a)`` and ``norm(q.mH @ q - 1) <= 20 M u``, for any ``a``, singular ones too.

    Cost:
        ``2 N**2 (M - N / 3)`` FLOPs, twice that when ``q`` is wanted.

    Example:
        >>> q, r = qr(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
        >>> r.abs()
        tensor([[5.0000, 2.2000],
                [0.0000, 0.4000]])
    """
    matrices("qr", look=False, a=a)
    check.option("qr", "mode", mode, ("reduced", "complete", "r"))
    result = QR(*factor_checked(a, mode))
    check_result("qr", result.r, a=a)
    return write_results("qr", out, result, a=a)


@replaces("aten::linalg_qr", by=qr)
def _read_torch(a: Tensor, mode: Mode = "reduced") -> Given:
    if mode != "reduced" and a.requires_grad:
        raise Different(f"mode={mode!r} has no gradient here, and torch's own errors there")
    return given(qr, a, mode)


@replaces("numpy.linalg.qr", by=qr, result=named_result("QRResult"))
def _read_numpy(a: Any, mode: str) -> Given:
    # NumPy deprecates "full", which is "reduced" there, and "economic"
    return _read_mode(a, mode, {"reduced": "reduced", "complete": "complete"})


@replaces("scipy.linalg.qr", by=qr, result=plain_result, order="FC")
def _read_scipy(a: Any, mode: str, **options: Any) -> Given:
    refuse_options(**options)
    return _read_mode(a, mode, {"economic": "reduced", "full": "complete"})


def _read_mode(a: Any, mode: str, modes: dict[str, str]) -> Given:
    if mode not in modes:
        raise Different(f"mode={mode!r} returns something else")
    return given(qr, as_matrix(a), modes[mode])


@array_function
def qr_pivoted(a: Tensor, mode: Mode = "reduced") -> PivotedQR:
    """Factor ``a[..., order] = q @ r`` with column pivoting: at each step the longest remaining column goes first.

    Args:
        a: [..., M, N].
        mode: as for `qr`.

    Returns:
        `PivotedQR`; ``order`` [..., N] is int64. The magnitudes on r's diagonal descend and reveal the rank.

    Error bound:
        that of `qr`.

    Cost:
        that of `qr`, and as much again for the order: on the host, in float64, where kernels factor.

    Example:
        >>> qr_pivoted(torch.tensor([[0.0, 2.0], [1.0, 0.0]])).order
        tensor([1, 0])
    """
    matrices("qr_pivoted", look=False, a=a)
    check.option("qr_pivoted", "mode", mode, ("reduced", "complete", "r"))
    result = PivotedQR(*run(QrPivoted(a, mode)))
    check_result("qr_pivoted", result.r, a=a)
    return result


def factor_checked(a: Tensor, mode: Mode = "reduced") -> tuple[Tensor, Tensor]:
    """Factor a checked matrix, for the other functions of the library."""
    # NumPy cannot read a lazy conjugate
    return run(QrFactor(a.resolve_conj(), mode))


@op("trnsolver::qr", calls="numpy.linalg.qr")
class QrFactor(NamedTuple):
    """``q`` and ``r``."""

    a: Tensor  # [..., M, N]
    mode: Mode

    def fake(self) -> tuple[Tensor, Tensor]:
        a, (m, n) = self.a, self.a.shape[-2:]
        k = m if self.mode == "complete" else min(m, n)
        q = a.new_empty((0,)) if self.mode == "r" else by_columns(a, (*a.shape[:-1], k))
        return q, by_columns(a, (*a.shape[:-2], k, n))

    def cost(self) -> int:
        m, n = self.a.shape[-2:]
        k = min(m, n)
        each = 2 * k * k * max(m, n) - 2 * k**3 // 3
        batch = self.a.numel() // max(1, m * n)
        return batch * each * (1 if self.mode == "r" else 2) * (4 if self.a.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        return "real matrices go to torch" if implementation == "host" and not self.a.is_complex() else None

    def host(self) -> tuple[Tensor, Tensor]:
        """MKL's reflections of complex columns near underflow, as rank deficiency leaves them, are NaN."""
        if self.mode == "r":
            return self.a.new_empty((0,)), torch.from_numpy(np.linalg.qr(self.a.numpy(), "r"))
        q, r = np.linalg.qr(self.a.numpy(), self.mode)
        return torch.from_numpy(q), torch.from_numpy(r)

    def pytorch(self) -> tuple[Tensor, Tensor]:
        q, r = torch.linalg.qr(self.a, self.mode)
        if self.mode != "reduced":
            for part in (q, r):
                forbid_gradient(lambda: _check_differentiable(self.a.shape, self.mode), part)
        return q, r

    def nki(self) -> tuple[Tensor, Tensor]:
        a, mode = self.a, self.mode
        m, n = a.shape[-2:]
        if a.numel() == 0:
            return self.pytorch()
        if mode == "complete" and m > n:
            return _complete_basis(a)
        if n > m:
            # The reflections come from the leading square; the other columns follow.
            q, r = factor_checked(a[..., :m])
            r = torch.cat([r, gemm(1.0, q, a[..., m:], trans_a="c")], -1)
        elif pays(LEAST, a):
            q, r = _factor_scaled(a, batched_qr)
        elif correctable(a):
            q, r = _factor_double(a)
        elif a.dtype != torch.float32 or not _fits(m, n):
            q, r = _factor_by_halves(a, mode)
        else:
            q, r = _factor_scaled(a, _factor_panels)
        return (a.new_empty((0,)), r) if mode == "r" else (q, r)

    @saves()
    def vjp(
        self, grad: tuple[Tensor, Tensor], needs: frozenset[str], result: tuple[Tensor, Tensor]
    ) -> dict[str, Tensor]:
        return {"a": _pull(*result, *grad, shape=tuple(self.a.shape[-2:]), mode=self.mode)}


def _fits(m: int, n: int) -> bool:
    """Return whether the kernel holds such a matrix."""
    return n <= kernels.N_MAX and m * -(-n // P_MAX) * P_MAX <= kernels.MN_MAX


def _factor_panels(a: Tensor) -> tuple[Tensor, Tensor]:
    """Factor matrices [B, M, N] by Cholesky factors of panels, once more those far from orthogonal, else reflect."""
    q, r, squares = launch(kernels.qr, a.contiguous(), identity(a.device))
    if not readable(squares):
        remark("counted once: matrices of a condition number beyond about 3e4 are factored twice, beyond 1e6 reflected")
        return q, r
    bad = _defective(squares, a.shape[-2])
    again = bad & torch.isfinite(q).all(-1).all(-1)
    if bool(again.any()):
        # What is nearly orthogonal is well conditioned: a second time it succeeds.
        q2, _, squares = launch(kernels.qr, q[again], identity(a.device))
        q[again], r[again] = q2, gemm(1.0, q2, a[again], trans_a="c")
        bad[again] = _defective(squares, a.shape[-2])
    if bool(bad.any()):
        q[bad], r[bad] = _factor_by_reflections(a[bad])
    return q, r


def _defective(squares: Tensor, m: int) -> Tensor:
    """Whether the last sweep began too far from orthogonal: it leaves at most 3 times these squares of the overlap."""
    return ~(3.0 * squares.sum((-2, -1)) <= m * torch.finfo(torch.float32).eps)


def _factor_by_reflections(a: Tensor) -> tuple[Tensor, Tensor]:
    """Factor matrices [B, M, N] by reflections, which are orthogonal whatever the columns are."""
    m, n = a.shape[-2:]
    if m <= householder.M_MAX and n <= householder.N_MAX:
        q, r = launch(householder.householder, a.contiguous(), doubling_masks(a.device))
        return q, r
    if n <= householder.M_MAX // 2:
        return _tall(a)
    return _column_halves(a)


def _factor_scaled(a: Tensor, factor: Callable[[Tensor], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Factor with columns scaled by powers of two: the same q, and squares that neither overflow nor vanish."""
    scale = near_one(a, -2)
    q, r = factor((a * scale).reshape(-1, *a.shape[-2:]))
    return q.reshape(a.shape), r.reshape(*a.shape[:-2], *r.shape[-2:]).triu() / scale


def _complete_basis(a: Tensor) -> tuple[Tensor, Tensor]:
    """Factor with unit columns appended: reflections complete the basis whatever the columns are."""
    m, n = a.shape[-2:]
    eye = torch.eye(m, dtype=a.dtype, device=a.device).expand(*a.shape[:-2], m, m)
    # A basis of everything is among the columns of [a, 1]; its first n reflections are those of a.
    q, r = factor_checked(torch.cat([a, eye[..., : m - n]], -1))
    rest = r[..., :, :n].clone()
    rest[..., n:, :] = 0.0
    return q, rest


def _factor_double(a: Tensor) -> tuple[Tensor, Tensor]:
    """Correct factors of single precision, or factor by halves where they do not suffice."""
    scale = near_one(a, -2)
    scale = scale * near_one(torch.linalg.vector_norm(a * scale, dim=-2, keepdim=True), -2)
    near = a * scale
    q, r, good = improved_qr(near, *factor_checked(single(near)))
    r = r / scale
    if not a.is_meta and not bool(good.all()):
        other, further = _factor_by_halves(a)
        q, r = (torch.where(good[..., None, None], *pair) for pair in ((q, other), (r, further)))
    return q, r


def _factor_by_halves(a: Tensor, mode: Mode = "reduced") -> tuple[Tensor, Tensor]:
    """Factor by halves, down to a size that a kernel or the host factors; for mode ``r``, ``q`` may be empty."""
    m, n = a.shape[-2:]
    if a.dtype == torch.float32 and _fits(m, n):
        return factor_checked(a, mode)
    if n > _LEAF:
        return _column_halves(a)
    return _tall(a, mode) if a.dtype == torch.float32 else _by_lapack(a, mode)


def _column_halves(a: Tensor) -> tuple[Tensor, Tensor]:
    """Factor column halves, each orthogonalised twice against the first; products run on the device."""
    h = a.shape[-1] // 2
    q1, r11 = _factor_by_halves(a[..., :h])
    r12 = gemm(1.0, q1, a[..., h:], trans_a="c")
    rest = gemm(-1.0, q1, r12, 1.0, a[..., h:])
    again = gemm(1.0, q1, rest, trans_a="c")
    rest = _flush_below(gemm(-1.0, q1, again, 1.0, rest), a[..., h:])
    q2, r22 = _factor_by_halves(rest)
    r22 = _flush_below(r22, a[..., h:])
    # What is left of a nearly dependent half is noise, and points back into the first.
    back = gemm(1.0, q1, q2, trans_a="c")
    q2, fix = _factor_by_halves(gemm(-1.0, q1, back, 1.0, q2))
    r12 = r12 + again + gemm(1.0, back, r22)
    r22 = gemm(1.0, fix, r22)
    r = torch.cat([torch.cat([r11, r12], -1), torch.cat([torch.zeros_like(r12.mT), r22], -1)], -2)
    q = torch.cat([q1, q2], -1)
    overlap = gemm(1.0, q1, q2, trans_a="c")
    if readable(overlap):
        # Where a half depends on the other exactly, its directions are anybody's choice, and may lie in the first.
        good = (torch.linalg.matrix_norm(overlap) <= 4 * a.shape[-2] * roundoff(a.dtype))[..., None, None]
        if not bool(good.all()):
            q, r = (torch.where(good, *pair) for pair in zip((q, r), _by_lapack(a), strict=True))
    return q, r


def _by_lapack(a: Tensor, mode: Mode = "reduced") -> tuple[Tensor, Tensor]:
    leaf = QrFactor(a.resolve_conj(), mode)
    q, r = on_host(leaf, "host" if a.is_complex() and a.is_cpu else "pytorch")
    return _flush_below(q, torch.ones_like(q)), _flush_below(r, a)


def _flush_below(x: Tensor, of: Tensor) -> Tensor:
    """Zero entries too small to change the norm of their column of ``of``: sums on the device lose such terms."""
    return torch.where(x.abs() < of.abs().amax(-2, keepdim=True) * 2.0**-200, 0.0, x) if x.numel() else x


def _tall(a: Tensor, mode: Mode = "reduced") -> tuple[Tensor, Tensor]:
    """Factor the halves of the rows, then their triangles."""
    h = a.shape[-2] // 2
    q1, r1 = factor_checked(a[..., :h, :])
    q2, r2 = factor_checked(a[..., h:, :])
    q, r = factor_checked(torch.cat([r1, r2], -2))
    if mode == "r":
        return a.new_empty((0,)), r
    k = r1.shape[-2]
    return torch.cat([gemm(1.0, q1, q[..., :k, :]), gemm(1.0, q2, q[..., k:, :])], -2), r


_LEAF = 64


@op("trnsolver::qr_pivoted", composed=True, calls="scipy.linalg.qr")
class QrPivoted(NamedTuple):
    """``q``, ``r`` and the order of columns."""

    a: Tensor  # [..., M, N]
    mode: Mode

    def fake(self) -> tuple[Tensor, Tensor, Tensor]:
        q, r = QrFactor(self.a, self.mode).fake()
        return q, r, self.a.new_empty((*self.a.shape[:-2], self.a.shape[-1]), dtype=torch.int64)

    def cost(self) -> int:
        return QrFactor(self.a, self.mode).cost()

    def limits(self, implementation: str) -> str | None:
        if implementation == "host" and self.a.numel() == 0:
            return "there is nothing to factor"
        return "torch.func cannot follow exchanges of columns" if is_transformed() else None

    def host(self) -> tuple[Tensor, Tensor, Tensor]:
        a, batch = self.a, self.a.shape[:-2]
        factors = [_geqp3(one, self.mode) for one in to_numpy(a).reshape(-1, *a.shape[-2:])]
        q, r, order = (torch.from_numpy(np.stack(each)) for each in zip(*factors, strict=True))
        q = a.new_empty((0,)) if self.mode == "r" else q.reshape(*batch, *q.shape[1:])
        return q, r.reshape(*batch, *r.shape[1:]), order.long().reshape(*batch, -1)

    def pytorch(self) -> tuple[Tensor, Tensor, Tensor]:
        """Pivoting decides the order; the factorisation itself is the plain one of the reordered columns."""
        order = _pivot_order(self.a.detach())
        return *factor_checked(self.a.gather(-1, order.unsqueeze(-2).expand(self.a.shape)), self.mode), order

    @saves()
    def vjp(
        self,
        grad: tuple[Tensor, Tensor, Tensor | None],
        needs: frozenset[str],
        result: tuple[Tensor, Tensor, Tensor],
    ) -> dict[str, Tensor]:
        q, r, order = result
        whole = _pull(q, r, grad[0], grad[1], shape=tuple(self.a.shape[-2:]), mode=self.mode)
        return {"a": torch.zeros_like(whole).scatter(-1, order.unsqueeze(-2).expand(whole.shape), whole)}


def _pivot_order(a: Tensor) -> Tensor:
    """Return the column order of Businger and Golub, by LAPACK in float64."""
    if not a.numel() or not readable(a):
        return torch.arange(a.shape[-1], device=a.device).expand(*a.shape[:-2], -1).clone()
    wide = in_memory(a).to(double_dtype(a.dtype)).reshape(-1, *a.shape[-2:]).numpy()
    orders = np.stack([_geqp3(one, "r")[2] for one in wide])
    return torch.from_numpy(orders).long().reshape(*a.shape[:-2], -1).to(a.device)


def _geqp3(a: Matrix, mode: str) -> tuple[Matrix, Matrix, Matrix]:
    """``q``, ``r`` and the column order; ``q`` is empty for mode ``r``."""
    import scipy.linalg

    kinds = {"reduced": "economic", "complete": "full", "r": "r"}
    *q, r, order = scipy.linalg.qr(a, mode=kinds[mode], pivoting=True, check_finite=False)
    return (q[0], r, order) if q else (np.empty((0,), a.dtype), r[: min(a.shape)], order)


def _check_differentiable(shape: tuple[int, ...], mode: str) -> None:
    """Raise unless there is a gradient."""
    if mode == "r" or (mode == "complete" and shape[-2] > shape[-1]):
        reason = f"mode={mode!r} has no gradient: columns of q beyond those of a are arbitrary, or not there"
        raise UnsupportedError("qr", [("any", reason)], hint="Use mode='reduced'")


def _pull(q: Tensor, r: Tensor, grad_q: Tensor, grad_r: Tensor, *, shape: tuple[int, ...], mode: str) -> Tensor:
    """Return the gradient of the factored matrix from those of its factors."""
    _check_differentiable(shape, mode)
    m, n = shape
    k = min(m, n)
    rest, grad_rest = r[..., k:], grad_r[..., k:]
    if n > m:
        # The columns beyond the square are q.mH @ a, and pull on q.
        grad_q = grad_q + gemm(1.0, q, gemm(1.0, rest, grad_rest, trans_b="c"))
    inner = gemm(1.0, grad_r[..., :k], r[..., :k], trans_b="c") - gemm(1.0, q, grad_q, trans_a="c")
    upper = inner.triu(1)
    middle = upper + upper.mH + torch.diag_embed(inner.diagonal(dim1=-2, dim2=-1).real.to(q.dtype))
    whole = triangular(r[..., :k], gemm(1.0, q, middle, 1.0, grad_q).mH, lower=False).mH
    return torch.cat([whole, gemm(1.0, q, grad_rest)], -1) if n > m else whole
