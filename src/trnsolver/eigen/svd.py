"""Singular values and vectors."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnblas import gemm
from trnsci import NotConverged, UnsupportedError, array_function, check, host, op, run
from trnsci.analogs import Different, Given, given, named_result, plain_result, refuse_options, replaces
from trnsci.gradient import forbid_gradient, saves
from trnsolver.arguments import by_columns, check_result, has_finite_norms, matrices, readable, roundoff, write_results
from trnsolver.array_operands import as_matrix, replaces_arrays
from trnsolver.batched.batched_svd import LEAST, batched_svd
from trnsolver.batched.batches import pays
from trnsolver.dense.mixed_precision import single
from trnsolver.dense.qr import factor_checked
from trnsolver.eigen.eigh import eigh, independent, off
from trnsolver.eigen.jacobi import orthogonalize_rows, sweeps
from trnsolver.eigen.polar_factor import polar_factor
from trnsolver.eigen.refine_vectors import improve_singular_vectors
from trnsolver.kernels import polar_factor as polar_kernels, svd as kernels
from trnsolver.scaling import near_one

Method = Literal["auto", "polar", "jacobi"]
# From here on the polar factors are predicted to be faster, on every generation.
N_MIN = 10


class SVD(NamedTuple):
    """``a = u * s @ vh``; the singular values ``s`` descend."""

    u: Tensor
    s: Tensor
    vh: Tensor

    @property
    def U(self) -> Tensor:
        """Torch's name for ``u``."""
        return self.u

    @property
    def S(self) -> Tensor:
        """Torch's name for ``s``."""
        return self.s

    @property
    def Vh(self) -> Tensor:
        """Torch's name for ``vh``."""
        return self.vh


@array_function
def svd(
    a: Tensor,
    full_matrices: bool = True,
    *,
    method: Method = "auto",
    out: tuple[Tensor, Tensor, Tensor] | None = None,
) -> SVD:
    """Return the singular value decomposition ``a = u @ diag(s) @ vh``.

    Args:
        a: [..., M, N].
        full_matrices: ``u`` [..., M, M] and ``vh`` [..., N, N]; otherwise K = min(M, N) columns and rows of them.
        method: of the kernels: ``polar``, the polar factors and `eigh` of the symmetric one; ``jacobi``, one-sided; or
            ``auto``, the one predicted to be faster, which is ``polar`` from 10 columns on, and where it does not
            converge ``jacobi``, with a warning. PyTorch has but one method, and refuses the names of kernels.
        out: where the results go, one tensor for each; they must fit and share no memory with an operand.

    Error bound:
        ``norm(u @ diag(s) @ vh - a) <= 20 max(M, N) u norm(a)``; orthonormality to ``20 max(M, N) u``.

    Raises:
        NotConverged: the kernel's steps did not suffice; ``residual`` says what is left.
        UnsupportedError: ``method`` names a kernel, and the call would run on PyTorch or needs double precision.

    Cost:
        about ``20 M N min(M, N)`` FLOPs on PyTorch. Kernels: ``2 N**3`` for each of about 90 products, and `eigh`; or
        about ``6 N**3`` for each sweep of a one-sided Jacobi method.

    Example:
        >>> svd(torch.tensor([[0.0, 3.0], [2.0, 0.0]])).s
        tensor([3., 2.])
    """
    check.flag("svd", full_matrices=full_matrices)
    matrices("svd", look=False, a=a)
    small = has_finite_norms("svd", a)
    check.option("svd", "method", method, ("auto", "polar", "jacobi"))
    result = SVD(*run(SvdCall(a, bool(full_matrices), method)))
    if not small:
        check_result("svd", result.s)
    return write_results("svd", out, result, a=a)


@replaces_arrays("scipy.linalg.svdvals")
@array_function
def svdvals(a: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return singular values [..., min(M, N)] of ``a`` [..., M, N], descending.

    Example:
        >>> svdvals(torch.tensor([[0.0, 3.0], [2.0, 0.0]]))
        tensor([3., 2.])
    """
    matrices("svdvals", look=False, a=a)
    small = has_finite_norms("svdvals", a)
    s = run(SvdValues(a))
    if not small:
        check_result("svdvals", s)
    return write_results("svdvals", out, s, a=a)


def _with_vectors(value: Any, a: Tensor, full: bool = False, compute_uv: bool = True, **_: Any) -> Any:
    return value if compute_uv else (a.new_empty(0), value, a.new_empty(0))


@replaces("aten::_linalg_svd", by=svd, result=_with_vectors)
def _read_torch(a: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None) -> Given:
    if driver is not None:
        raise Different(f"driver={driver!r} is cuSOLVER's")
    return given(svd, a, full_matrices) if compute_uv else given(svdvals, a)


@replaces("numpy.linalg.svd", by=svd, result=named_result("SVDResult"))
@replaces("scipy.linalg.svd", by=svd, result=plain_result, order="F")
def _read_arrays(a: Any, full_matrices: bool, compute_uv: bool, lapack_driver: str = "gesdd", **options: Any) -> Given:
    refuse_options(**options)
    if lapack_driver != "gesdd":
        raise Different(f"lapack_driver={lapack_driver!r} is another method")
    if full_matrices and compute_uv and max(np.shape(a)[-2:], default=0) ** 2 >= 2**31:
        raise Different("its vectors have more elements than LAPACK counts, which SciPy refuses")
    return given(svd, as_matrix(a), full_matrices) if compute_uv else given(svdvals, as_matrix(a))


@op("trnsolver::svd")
class SvdCall(NamedTuple):
    """``u``, ``s`` and ``vh``."""

    a: Tensor  # [..., M, N]
    full: bool
    method: Method

    def fake(self) -> tuple[Tensor, Tensor, Tensor]:
        a, (m, n) = self.a, self.a.shape[-2:]
        k = min(m, n)
        left, right = (m, n) if self.full else (k, k)
        u = by_columns(a, (*a.shape[:-1], left))
        s = a.new_empty((*a.shape[:-2], k), dtype=a.dtype.to_real())
        return u, s, by_columns(a, (*a.shape[:-2], right, n))

    def cost(self) -> int:
        return 20 * self.a.numel() * min(self.a.shape[-2:]) * (4 if self.a.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        a, method = self.a, self.method
        if implementation == "pytorch":
            return None if method == "auto" else f"method={method!r} names a kernel; PyTorch has one method, LAPACK's"
        rows = min(a.shape[-2:]) * (2 if a.is_complex() else 1)
        if rows > kernels.N_MAX:
            return f"the kernel keeps the matrix on chip: at most {kernels.N_MAX} rows, and this one needs {rows}"
        if roundoff(a.dtype) < 2.0**-30 and method != "auto":
            return f"method={method!r} is of single precision; {a.dtype} refines what method='auto' finds"
        return None

    def pytorch(self) -> tuple[Tensor, Tensor, Tensor]:
        u, s, vh = host.svd("svd", self.a, full=self.full)
        if self.full and self.a.shape[-2] != self.a.shape[-1]:
            forbid_gradient(_refuse, u, lambda grad: grad[..., s.shape[-1] :])
            forbid_gradient(_refuse, vh, lambda grad: grad[..., s.shape[-1] :, :])
        return u, s, vh

    def nki(self) -> tuple[Tensor, Tensor, Tensor]:
        if self.a.numel() == 0:
            return self.pytorch()
        scale = near_one(self.a, (-2, -1))
        u, s, vh = _solve_square(self.a * scale, self.full, self.method)
        return u, s / scale.squeeze(-1), vh

    @saves()
    def vjp(
        self, grad: tuple[Tensor, Tensor, Tensor], needs: frozenset[str], result: tuple[Tensor, Tensor, Tensor]
    ) -> dict[str, Tensor]:
        u, _, vh = result
        if self.full and u.shape[-2] != vh.shape[-1]:
            _refuse()
        return {"a": _gradient(*result, *grad)}


@op("trnsolver::svdvals")
class SvdValues(NamedTuple):
    """The singular values alone."""

    a: Tensor  # [..., M, N]

    @property
    def whole(self) -> SvdCall:
        """The decomposition they are part of."""
        return SvdCall(self.a, False, "auto")

    def fake(self) -> Tensor:
        return self.whole.fake()[1]

    def cost(self) -> int:
        return self.whole.cost()

    def limits(self, implementation: str) -> str | None:
        return self.whole.limits(implementation)

    def pytorch(self) -> Tensor:
        return host.lapack("svdvals", self.a, lambda a: (torch.linalg.svdvals(a),), lambda a: host.gesvd(a)[1:2])[0]

    def nki(self) -> Tensor:
        return run(self.whole)[1]

    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        u, _, vh = svd(self.a, full_matrices=False)
        return {"a": gemm(1.0, u * grad.unsqueeze(-2).to(u.dtype), vh)}


def _refuse() -> None:
    reason = "full_matrices=True has no gradient: columns beyond min(M, N) are arbitrary"
    raise UnsupportedError("svd", [("any", reason)], hint="Use full_matrices=False")


def _solve_square(a: Tensor, full: bool, method: Method) -> tuple[Tensor, Tensor, Tensor]:
    """Solve as square matrices, by the QR of tall ones, with the largest entry near 1."""
    m, n = a.shape[-2:]
    if m < n:
        u, s, vh = _solve_square(a.mH, full, method)
        return vh.mH, s, u.mH
    if m > n:
        q, r = factor_checked(a, "complete" if full else "reduced")
        u, s, vh = _solve_square(r[..., :n, :], False, method)
        return torch.cat([gemm(1.0, q[..., :n], u), q[..., n:]], -1), s, vh
    if roundoff(a.dtype) < 2.0**-30:
        return _solve_double(a)
    return _complex(a, method) if a.is_complex() else _real(a, method)


def _real(a: Tensor, method: Method) -> tuple[Tensor, Tensor, Tensor]:
    """Square matrices of single precision."""
    n = a.shape[-1]
    flat = a.reshape(-1, n, n).contiguous()
    if method == "jacobi" or (method == "auto" and (n < N_MIN or pays(LEAST, a))):
        u, s, vh = _jacobi(flat)
    else:
        u, s, vh, residual = _polar(flat)
        limit = 10 * n * roundoff(torch.float32)
        if method == "polar":
            if readable(residual) and not float(residual.max()) <= limit:
                raise NotConverged(op="svd", iterations=polar_kernels.LIFTS, residual=float(residual.max()))
        elif (failed := off("svd: polar factors", residual, limit, "Jacobi solves them")) is not None:
            u[failed], s[failed], vh[failed] = _jacobi(flat[failed])
    return u.reshape(a.shape).contiguous(), s.reshape(a.shape[:-1]), vh.reshape(a.shape).contiguous()


def _polar(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """With ``a = p h``, the eigenvectors of ``h`` are the right singular vectors; also the error left."""
    p, h, skew, lost = polar_factor(a)
    w, v = eigh(h)
    u, s, vh = _sort_positive(gemm(1.0, p, v), w, v.mT)
    largest = s[..., 0]
    return u, s, vh.contiguous(), torch.maximum(skew / torch.where(largest > 0, largest, 1.0), lost)


def _jacobi(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Make rows orthogonal by the kernel; a QR of them, longest first, gives lengths and directions."""
    n = a.shape[-1]
    # Rows of a triangular factor are nearer to orthogonal than those of the matrix: sweeps are saved.
    q, x = factor_checked(a)
    w = None
    for again in range(_LAUNCHES):
        x, further = batched_svd(x) if pays(LEAST, x) else orthogonalize_rows(x)
        w = further if w is None else gemm(1.0, further, w)
        order = torch.linalg.vector_norm(x, dim=-1).argsort(-1, descending=True).unsqueeze(-1).expand(x.shape)
        v, t = factor_checked(x.gather(-2, order).mT)
        if _has_converged(n, t, last=again == _LAUNCHES - 1):
            break
    assert w is not None
    u, s, vh = _sort_positive(w.gather(-2, order).mT, t.diagonal(dim1=-2, dim2=-1), v.mT)
    return gemm(1.0, q, u), s, vh


_LAUNCHES = 4


def _has_converged(n: int, t: Tensor, *, last: bool) -> bool:
    """Return whether the fixed sweeps sufficed, by the part of R above the diagonal; else the program runs again."""
    if not readable(t):
        return True
    size = t[..., 0, 0].abs().clamp_min(torch.finfo(torch.float32).tiny)
    worst = float((torch.linalg.matrix_norm(t.triu(1)) / size).max())
    if last and not worst <= 10 * n * roundoff(t.dtype):
        raise NotConverged(op="svd", iterations=_LAUNCHES * sweeps(n), residual=worst)
    return worst <= 10 * n * roundoff(t.dtype)


def _sort_positive(u: Tensor, core: Tensor, vh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Make values of ``a = u * core @ vh`` positive and descending."""
    s = core.abs()
    # by its angle: a complex quotient of numbers near underflow is NaN
    ones = torch.ones_like(s)
    phase = torch.polar(ones, core.angle()) if core.is_complex() else torch.where(core < 0, -ones, ones)
    order = s.argsort(-1, descending=True)
    u = (u * phase.unsqueeze(-2)).gather(-1, order.unsqueeze(-2).expand(u.shape))
    return u, s.gather(-1, order), vh.gather(-2, order.unsqueeze(-1).expand(vh.shape))


def _complex(a: Tensor, method: Method) -> tuple[Tensor, Tensor, Tensor]:
    """As a real matrix of twice the size, whose singular values come in pairs; one vector is taken of each pair."""
    n = a.shape[-1]
    double = torch.cat([torch.cat([a.real, -a.imag], -1), torch.cat([a.imag, a.real], -1)], -2)
    x = _real(double, method)[2].mT
    v = independent(torch.complex(x[..., :n, :].contiguous(), x[..., n:, :].contiguous()))
    u, t = factor_checked(gemm(1.0, a, v))
    return _sort_positive(u, t.diagonal(dim1=-2, dim2=-1), v.mH)


def _solve_on_host(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return run(SvdCall(a, True, "auto"))


def _solve_double(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Improve results of single precision by products; LAPACK solves, with a warning, where they do not suffice."""
    u, _, vh = _solve_on_host(single(a))
    u, values, v, residual = improve_singular_vectors(a, u.to(a.dtype), vh.mH.to(a.dtype), _solve_on_host)
    u, s, vh = _sort_positive(u, values, v.mH)
    limit = 20 * a.shape[-1] ** 0.5 * roundoff(a.dtype)
    failed = off("svd: refinement", residual, limit, "LAPACK solves them on the host")
    if failed is not None:
        u[failed], s[failed], vh[failed] = SvdCall(a[failed], True, "auto").pytorch()
    return u, s, vh


def _gradient(u: Tensor, s: Tensor, vh: Tensor, grad_u: Tensor, grad_s: Tensor, grad_vh: Tensor) -> Tensor:
    """Return the gradient of the decomposed matrix from those of the parts."""
    gaps = s.unsqueeze(-2).square() - s.unsqueeze(-1).square()
    inverse = torch.where(gaps == 0, 0.0, 1.0 / torch.where(gaps == 0, 1.0, gaps))
    left, right = gemm(1.0, u, grad_u, trans_a="c"), gemm(1.0, vh, grad_vh, trans_b="c")
    left, right = left - left.mH, right - right.mH
    middle = (left * inverse) * s.unsqueeze(-2) + s.unsqueeze(-1) * (right * inverse)
    small = torch.diag_embed(grad_s.to(u.dtype) + left.diagonal(dim1=-2, dim2=-1) / (2 * s))
    whole = gemm(1.0, u, gemm(1.0, middle + small, vh))
    # What leaves the spans of u and v, when they are not everything.
    if u.shape[-2] > u.shape[-1]:
        off = grad_u - gemm(1.0, u, gemm(1.0, u, grad_u, trans_a="c"))
        whole = whole + gemm(1.0, off / s.unsqueeze(-2), vh)
    if vh.shape[-1] > vh.shape[-2]:
        off = grad_vh - gemm(1.0, gemm(1.0, grad_vh, vh, trans_b="c"), vh)
        whole = whole + gemm(1.0, u / s.unsqueeze(-2), off)
    return whole
