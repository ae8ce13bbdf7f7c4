"""Eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

import functools
import warnings
from typing import Any, Literal, NamedTuple

import scipy.linalg
import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, NotConverged, array_function, check, host, op, run
from trnsci.accuracy import state_error
from trnsci.analogs import Given, given, named_result, plain_result, refuse_options, replaces
from trnsci.gradient import saves
from trnsci.nki import P_MAX
from trnsolver.arguments import by_columns, check_result, has_finite_norms, readable, roundoff, square, write_results
from trnsolver.array_operands import as_matrix
from trnsolver.batched.batched_eigh import LEAST, batched_eigh
from trnsolver.batched.batches import pays
from trnsolver.dense.mixed_precision import single
from trnsolver.eigen import divide, jacobi
from trnsolver.eigen.divide_blocks import divide_in_levels
from trnsolver.eigen.refine_vectors import improve_eigenvectors
from trnsolver.kernels import eigh as kernels
from trnsolver.scaling import near_one

Method = Literal["auto", "divide", "jacobi"]
# asked where LAPACK's first driver gives up; one triangle is read
_QR = functools.partial(scipy.linalg.eigh, driver="ev", check_finite=False)


class Eigh(NamedTuple):
    """``a @ vectors = vectors * values``; values ascend."""

    values: Tensor
    vectors: Tensor

    @property
    def eigenvalues(self) -> Tensor:
        """Torch's name for ``values``."""
        return self.values

    @property
    def eigenvectors(self) -> Tensor:
        """Torch's name for ``vectors``."""
        return self.vectors


@array_function
def eigh(
    a: Tensor,
    UPLO: str = "L",
    *,
    uplo: str | None = None,
    subset: tuple[int, int] | None = None,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    target_error: float | None = None,
    method: Method = "auto",
    out: tuple[Tensor, Tensor] | None = None,
) -> Eigh:
    """Return eigenvalues, ascending, and orthonormal eigenvectors of a Hermitian matrix.

    Args:
        a: [..., N, N]. Only the triangle ``UPLO`` names is read.
        UPLO: ``"L"`` or ``"U"``, torch's name.
        uplo: the same.
        subset: first and last index (included) of the eigenvalues to return; all by default.
        subset_by_index: the same, by SciPy's name.
        subset_by_value: the eigenvalues above the first number and up to the second, as in SciPy, for one matrix.
        target_error: error to reach, relative to ``norm(a)``. The start is single precision, refined in float64 by
            products alone, and so is the result. The error is verified; `trnsci.achieved` returns it.
        method: of the kernels: ``divide``, spectral divide and conquer; ``jacobi``; or ``auto``, what is predicted to
            be faster: one-sided rotations below 14 rows and for batches of up to 64, else ``divide``, and where that
            does not converge ``jacobi``, with a warning. PyTorch has but one method, and refuses the names of kernels.
        out: where the results go, one tensor for each; they must fit and share no memory with an operand.

    Raises:
        NotConverged: the kernel's programs, or the refinement, did not suffice; ``residual`` says what is left.
        UnsupportedError: ``method`` names a kernel, and the call would run on PyTorch.

    Error bound:
        ``norm(a - v @ diag(w) @ v.mH) <= 20 N u norm(a)`` and ``norm(v.mH @ v - 1) <= 20 N u``.

    Cost:
        about ``9 N**3`` FLOPs on PyTorch. Kernels: ``2 N**3`` for each of some 70 products of a split in two, most of
        them symmetric, which saves a third; halves cost a quarter of the whole. About ``6 N**3`` per Jacobi sweep.

    Example:
        >>> eigh(torch.tensor([[2.0, 1.0], [1.0, 2.0]])).values.round(decimals=4)
        tensor([1., 3.])
    """
    lower, small = _check_triangle("eigh", a, UPLO, uplo)
    check.option("eigh", "method", method, ("auto", "divide", "jacobi"))
    if target_error is not None:
        from trnsolver.dense.target_error import eigh_to

        chosen = subset if subset_by_index is None else subset_by_index
        for name, given in (("subset", chosen), ("subset_by_value", subset_by_value), ("out", out)):
            if given is not None:
                raise ArgumentError("eigh", name, given, "None with target_error")
        spectrum = eigh_to(lower, target_error, method)
        state_error(spectrum.bound)
        return Eigh(spectrum.values, spectrum.vectors)
    result = Eigh(*run(EighCall(lower, method)))
    if not small:
        check_result("eigh", result.values)
    kept = _subset("eigh", result.values, subset, subset_by_index, subset_by_value)
    if kept is not None:
        result = Eigh(result.values[..., kept], result.vectors[..., kept])
    return write_results("eigh", out, result, a=a)


@array_function
def eigvalsh(
    a: Tensor,
    UPLO: str = "L",
    *,
    uplo: str | None = None,
    subset: tuple[int, int] | None = None,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return eigenvalues of a Hermitian matrix [..., N, N], ascending; arguments as for `eigh`.

    Example:
        >>> eigvalsh(torch.tensor([[2.0, 1.0], [1.0, 2.0]])).round(decimals=4)
        tensor([1., 3.])
    """
    lower, small = _check_triangle("eigvalsh", a, UPLO, uplo)
    values = run(EighValues(lower))
    if not small:
        check_result("eigvalsh", values)
    kept = _subset("eigvalsh", values, subset, subset_by_index, subset_by_value)
    return write_results("eigvalsh", out, values if kept is None else values[..., kept], a=a)


replaces(
    "aten::_linalg_eigh",
    by=eigh,
    result=lambda value, a, uplo="L", compute_v=True: value if compute_v else (value, a.new_empty(0)),
)(lambda a, uplo="L", compute_v=True: given(eigh if compute_v else eigvalsh, a, uplo))
replaces("numpy.linalg.eigvalsh", by=eigvalsh)(lambda a, UPLO: given(eigvalsh, as_matrix(a), UPLO))
replaces("numpy.linalg.eigh", by=eigh, result=named_result("EighResult"))(
    lambda a, UPLO: given(eigh, as_matrix(a), UPLO)
)


@replaces("scipy.linalg.eigh", by=eigh, result=plain_result, order="F")
def _read_scipy(a: Any, lower: bool, type: int, eigvals_only: bool, **options: Any) -> Given:  # noqa: A002
    refuse_options(type=type - 1, **options)
    return given(eigvalsh if eigvals_only else eigh, as_matrix(a), "L" if lower else "U")


def _check_triangle(op: str, a: Tensor, UPLO: str, uplo: str | None) -> tuple[Tensor, bool]:
    """Check the triangle read, by either name; return it as the lower one, and whether eigenvalues are in range."""
    which = UPLO if uplo is None else uplo
    square(op, look=False, a=a)
    check.option(op, "uplo", which, ("L", "U", "l", "u"))
    lower = which in ("L", "l")
    small = has_finite_norms(op, a, a.tril if lower else a.triu)
    return a if lower else a.mH, small


def _subset(
    op: str,
    values: Tensor,
    subset: tuple[int, int] | None,
    by_index: tuple[int, int] | None,
    by_value: tuple[float, float] | None,
) -> slice | None:
    """Return the indices wanted, ``None`` for all."""
    if subset is by_index is by_value is None:
        return None
    given = {"subset": subset, "subset_by_index": by_index, "subset_by_value": by_value}
    names = [name for name, value in given.items() if value is not None]
    n = values.shape[-1]
    if len(names) > 1:
        raise ArgumentError(op, " and ".join(names), "both", "one of them")
    if by_value is not None:
        return slice(*_by_value(op, values, by_value))
    first, last = _pair(op, names[0], subset if subset is not None else by_index)
    if not 0 <= check.integer(op, names[0], first) <= check.integer(op, names[0], last) < n:
        raise ArgumentError(op, names[0], (first, last), f"0 <= first <= last < {n}")
    return slice(first, last + 1)


def _pair(op: str, argument: str, given: Any) -> tuple[Any, Any]:
    ends = check.sequence(op, argument, given)
    check.refuse(len(ends) != 2, op, argument, given, "the first and the last")
    return ends[0], ends[1]


def _by_value(op: str, values: Tensor, ends: tuple[float, float]) -> tuple[int, int]:
    low, high = _pair(op, "subset_by_value", ends)
    if not check.real(op, "subset_by_value", low) < check.real(op, "subset_by_value", high):
        raise ArgumentError(op, "subset_by_value", ends, "low < high")
    if values.ndim > 1:
        expected = "one matrix: the rows of a batch would have different lengths"
        raise ArgumentError(op, "subset_by_value", f"a batch {tuple(values.shape[:-1])}", expected)
    check.data(op, values=values)
    first, last = ((values.detach() <= end).sum().item() for end in ends)
    return int(first), int(last)


def _check_convergence(a: Tensor, residual: Tensor, method: str) -> None:
    """Raise unless the fixed levels and sweeps of the kernels sufficed, by the residual off the diagonal."""
    if not readable(residual):
        return
    worst = float(residual.detach().max())
    if not worst <= 20 * a.shape[-1] * roundoff(a.dtype):
        n = a.shape[-1] * (2 if a.is_complex() else 1)
        steps = divide.PROGRAMS * divide.levels(n) if method == "divide" else jacobi.PROGRAMS * jacobi.sweeps(n)
        raise NotConverged(op="eigh", iterations=steps, residual=worst)


@op("trnsolver::eigh")
class EighCall(NamedTuple):
    """Values and vectors."""

    a: Tensor  # [..., N, N], of which the lower triangle is read
    method: Method

    def fake(self) -> tuple[Tensor, Tensor]:
        return self.a.new_empty(self.a.shape[:-1], dtype=self.a.dtype.to_real()), by_columns(self.a)

    def cost(self) -> int:
        return 9 * self.a.numel() * self.a.shape[-1] * (4 if self.a.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        if implementation == "pytorch":
            named = f"method={self.method!r} names a kernel; PyTorch has one method, LAPACK's"
            return None if self.method == "auto" else named
        n = self.a.shape[-1] * (2 if self.a.is_complex() else 1)
        if n > kernels.N_MAX and self.method == "jacobi":
            return f"the kernel keeps the matrix on chip: at most {kernels.N_MAX} rows, and this one needs {n}"
        return None

    def pytorch(self) -> tuple[Tensor, Tensor]:
        values, vectors = host.lapack("eigh", self.a, torch.linalg.eigh, _QR, read=torch.tril)
        return values, vectors

    def nki(self) -> tuple[Tensor, Tensor]:
        if self.a.numel() == 0:
            return self.pytorch()
        values, vectors, residual = self.by_kernels()
        _check_convergence(self.a, residual, self.method)
        return values, vectors

    def by_kernels(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return values, vectors, and what is left off the diagonal, relative to the largest value."""
        a, method, n = self.a, self.method, self.a.shape[-1]
        if a.is_complex():
            return _complex(a, method)
        if a.dtype == torch.float64:
            return _solve_double(a, method)
        whole = a.tril() + a.tril(-1).mT
        scale = near_one(whole, (-2, -1))
        flat = (whole * scale).reshape(-1, n, n).contiguous()
        if method == "auto" and pays(LEAST, a):
            values, rows, residual = batched_eigh(flat)
        elif method == "jacobi":
            values, rows, residual = jacobi.jacobi(flat)
        else:
            values, rows, residual = _divide(flat)
            if method == "auto":
                _rescue(flat, values, rows, residual)
        order = values.argsort(-1)
        values = values.gather(-1, order).reshape(a.shape[:-1]) / scale.squeeze(-1)
        rows = rows.gather(-2, order.unsqueeze(-1).expand(rows.shape))
        return values, rows.mT.reshape(a.shape).contiguous(), residual.reshape(a.shape[:-2])

    @saves()
    def vjp(
        self, grad: tuple[Tensor, Tensor], needs: frozenset[str], result: tuple[Tensor, Tensor]
    ) -> dict[str, Tensor]:
        (values, v), (grad_values, grad_vectors) = result, grad
        gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
        inverse = torch.where(gaps == 0, 0.0, 1.0 / gaps)
        inner = gemm(1.0, v, grad_vectors, trans_a="c") * inverse + torch.diag_embed(grad_values).to(v.dtype)
        whole = gemm(1.0, v, gemm(1.0, inner, v, trans_b="c"))
        return {"a": 0.5 * (whole + whole.mH)}


@op("trnsolver::eigvalsh")
class EighValues(NamedTuple):
    """The eigenvalues alone."""

    a: Tensor  # [..., N, N]

    def fake(self) -> Tensor:
        return EighCall(self.a, "auto").fake()[0]

    def cost(self) -> int:
        return EighCall(self.a, "auto").cost()

    def pytorch(self) -> Tensor:
        first, second = (lambda a: (torch.linalg.eigvalsh(a),)), (lambda a: _QR(a)[:1])
        return host.lapack("eigvalsh", self.a, first, second, read=torch.tril)[0]

    def nki(self) -> Tensor:
        return run(EighCall(self.a, "auto"))[0]

    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        v = eigh(self.a).vectors
        return {"a": gemm(1.0, v * grad.unsqueeze(-2).to(v.dtype), v, trans_b="c")}


def _solve_double(a: Tensor, method: Method) -> tuple[Tensor, Tensor, Tensor]:
    """Improve results of single precision by products; LAPACK solves, with a warning, where they do not suffice."""
    whole = a.tril() + a.tril(-1).mT
    scale = near_one(whole, (-2, -1))
    _, start, _ = EighCall(single(whole * scale), method).by_kernels()
    values, vectors, residual = improve_eigenvectors(whole * scale, start.to(a.dtype))
    values = values / scale.squeeze(-1)
    # relative to the norm of the matrix, of which the largest value is at least a share
    residual = residual * a.shape[-1] ** 0.5
    limit = 20 * a.shape[-1] * roundoff(a.dtype)
    failed = off("eigh: refinement", residual, limit, "LAPACK solves them on the host") if method == "auto" else None
    if failed is not None:
        values[failed], vectors[failed] = EighCall(a[failed], method).pytorch()
        residual[failed] = 0.0
    return values, vectors, residual


def off(what: str, residual: Tensor, limit: float, then: str, after: str = "") -> Tensor | None:
    """Which matrices were left off by more than is allowed, after a warning that says so; ``None`` if none was."""
    if not readable(residual) or bool((residual <= limit).all()):
        return None
    failed = ~(residual <= limit)
    left = f"{float(residual[failed].max()):.3g} on {int(failed.sum())} of {failed.numel()} matrices{after}"
    warnings.warn(f"{what} left {left}, where {limit:.3g} is allowed; {then}", RuntimeWarning, stacklevel=3)
    return failed


def _divide(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Divide matrices of more than a tile into blocks, where that succeeds; else solve them whole."""
    if a.shape[-1] <= P_MAX:
        return divide.divide(a)
    limit = 10 * a.shape[-1] * roundoff(a.dtype)
    solved = []
    for matrix in a:
        parts = divide_in_levels(matrix)
        if parts is None and a.shape[-1] > kernels.N_MAX:
            eye = torch.eye(len(matrix), device=a.device, dtype=torch.float32)
            parts = matrix.diagonal(), eye, eye.new_tensor(torch.inf)
        elif parts is None or (readable(a) and not float(parts[2]) <= limit and a.shape[-1] <= kernels.N_MAX):
            values, rows, residual = divide.divide(matrix.unsqueeze(0))
            parts = values[0], rows[0], residual[0]
        solved.append(parts)
    values, rows, residual = (torch.stack(same) for same in zip(*solved, strict=True))
    return values, rows, residual


def _rescue(a: Tensor, values: Tensor, rows: Tensor, residual: Tensor) -> None:
    """Let Jacobi solve, and say so, what divide and conquer could not."""
    limit = 20 * a.shape[-1] * roundoff(a.dtype)
    if a.shape[-1] > kernels.N_MAX:
        return
    after = f" after {divide.PROGRAMS} programs"
    failed = off("eigh: divide and conquer", residual, limit, "Jacobi solves them", after)
    if failed is not None:
        values[failed], rows[failed], residual[failed] = jacobi.jacobi(a[failed].contiguous())


def _complex(a: Tensor, method: Method) -> tuple[Tensor, Tensor, Tensor]:
    """As a real matrix of twice the size, whose eigenvalues come in pairs; one complex vector is taken of each pair."""
    n = a.shape[-1]
    re, im = a.real.tril(), a.imag.tril(-1)
    re, im = re + re.tril(-1).mT, im - im.mT
    double = torch.cat([torch.cat([re, -im], -1), torch.cat([im, re], -1)], -2)
    _, x, residual = EighCall(double, method).by_kernels()
    z = torch.complex(x[..., :n, :].contiguous(), x[..., n:, :].contiguous())  # [..., n, 2n]
    vectors = independent(z)
    rotated = gemm(1.0, vectors, gemm(1.0, re.to(a.dtype) + 1j * im, vectors), trans_a="c")
    values = rotated.diagonal(dim1=-2, dim2=-1).real
    order = values.argsort(-1)
    return values.gather(-1, order), vectors.gather(-1, order.unsqueeze(-2).expand(vectors.shape)), residual


def independent(z: Tensor) -> Tensor:
    """Of 2n complex vectors that span every eigenspace twice, n orthonormal ones, by Gram-Schmidt."""
    n = z.shape[-2]
    if z.is_meta:
        return z.new_empty((*z.shape[:-2], n, n))
    rest, chosen = z.to(torch.complex128, copy=True), []
    for _ in range(n):
        # The first that is clearly outside the span so far: in order, so that each keeps its eigenvalue.
        lengths = torch.linalg.vector_norm(rest, dim=-2)
        clear = lengths > 0.5
        first = torch.where(clear.any(-1), clear.int().argmax(-1), lengths.argmax(-1))[..., None, None]
        unit = rest.gather(-1, first.expand(*rest.shape[:-1], 1))
        unit = unit / lengths.gather(-1, first[..., 0]).unsqueeze(-2)
        chosen.append(unit)
        rest -= unit @ (unit.mH @ rest)
        rest.scatter_(-1, first.expand(*rest.shape[:-1], 1), 0.0)
    return torch.cat(chosen, -1).to(z.dtype)
