"""Accuracy by contract: solutions and eigenpairs with an error that was asked for, and verified."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from trnblas.split import exact_matmul
from trnsci import ArgumentError, NotConverged, check
from trnsolver.arguments import double_dtype, matrices, no_gradient, right_hand_side, square
from trnsolver.dense import proved_errors
from trnsolver.dense.condition import condition_from_factors
from trnsolver.dense.lu import LU, lu_factor, lu_solve
from trnsolver.dense.qr import qr
from trnsolver.eigen.refine_vectors import improve_eigenvectors
from trnsolver.krylov.gmres import gmres

if TYPE_CHECKING:
    from trnsolver.eigen.eigh import Method

_STEPS = 40
# The condition number of factors up to which GMRES takes them for a preconditioner.
_TRUSTED = 2.0**50


class Solution(NamedTuple):
    """A solution in float64 or complex128, and what is known of it."""

    x: Tensor
    # verified relative forward error, the largest over the columns
    bound: float
    # estimates of it after every correction
    trajectory: tuple[float, ...]
    # condition number in the 1-norm: the matrix' own, or an estimate for the equilibrated one
    condition: float
    # elimination, refinement or gmres, and the precision of the factors
    method: str


class Spectrum(NamedTuple):
    """Eigenpairs in float64 or complex128, and what is known of them."""

    values: Tensor
    vectors: Tensor
    # norm(a @ v - v * w) / norm(a) plus the loss of orthogonality, verified
    bound: float
    # what was off the diagonal in every round
    trajectory: tuple[float, ...]


def target(op: str, value: float, **operands: Tensor) -> float:
    """Check that a target error is a positive number, and that no gradient flows through the refinement."""
    check.data(op, wrapped=False, **operands)
    for operand in operands.values():
        no_gradient(f"{op} with target_error", operand)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ArgumentError(op, "target_error", value, "a positive number")
    return float(value)


def solve_to(a: Tensor, b: Tensor, target_error: float) -> Solution:
    """Solve one system to a forward error, from float32 factors where they suffice.

    In host memory elimination in float64 comes first, with an error bounded in float64. Where that proves too little,
    and on devices, residuals are computed as if in twice float64. While corrections shrink, plain refinement goes on;
    where they do not, GMRES on the system preconditioned by the factors takes over, then factors of float64.
    """
    square("solve", a=a)
    vector = right_hand_side("solve", a, b)
    goal = target("solve", target_error, a=a, b=b)
    _one_matrix("solve", a, b)
    wide = double_dtype(a.dtype)
    matrix, right = a.detach().to(wide), b.detach().to(wide)
    right = right.unsqueeze(-1) if vector else right
    if (proved := proved_errors.solve_system(matrix, right, goal)) is not None:
        return _answer(*proved, vector)
    return _solve_to_goal("solve", matrix, right, goal, wanted=a.shape[-1], vector=vector)


def _answer(x: Tensor, bound: float, condition: float, vector: bool) -> Solution:
    return Solution(x.squeeze(-1) if vector else x, bound, (), condition, "elimination in float64")


def lstsq_to(a: Tensor, b: Tensor, target_error: float) -> Solution:
    """Least squares to a forward error: the residual ``r`` and ``x`` solve one system, to which `solve_to` applies.

    With ``s`` near the smallest singular value, ``[[s, a], [a.mH, 0]] @ [r / s, x] = [b, 0]`` is about as
    well-conditioned as ``a`` (Björck).
    """
    matrices("lstsq", a=a)
    vector = right_hand_side("lstsq", a, b)
    goal = target("lstsq", target_error, a=a, b=b)
    _one_matrix("lstsq", a, b)
    m, n = a.shape
    check.refuse(m < n, "lstsq", "shape of a", tuple(a.shape), "as many rows as columns with target_error")
    wide = double_dtype(a.dtype)
    matrix, right = a.detach().to(wide), b.detach().to(wide)
    right = right.unsqueeze(-1) if vector else right
    if n == 0:
        return _solve_to_goal("lstsq", matrix[:0], right[:0], goal, wanted=0, vector=vector)
    if (proved := proved_errors.solve_least_squares(matrix, right, goal)) is not None:
        return _answer(*proved, vector)
    power = exponents(matrix, (-2, -1))
    matrix = scale_exactly("lstsq", matrix, -power)
    narrow = torch.complex64 if a.is_complex() else torch.float32
    least = float(qr(matrix.to(narrow), mode="r").r.diagonal().abs().min())
    least = least if least > 0 else 1.0
    eye = least * torch.eye(m, dtype=wide, device=a.device)
    corner = matrix.new_zeros((n, n))
    whole = torch.cat([torch.cat([eye, matrix], -1), torch.cat([matrix.mH, corner], -1)], -2)
    below = torch.cat([right, right.new_zeros((n, right.shape[-1]))], -2)
    result = _solve_to_goal("lstsq", whole, below, goal, wanted=n, vector=vector)
    return result._replace(x=scale_exactly("lstsq", result.x, -power[0, 0]))


def _one_matrix(op: str, a: Tensor, b: Tensor) -> None:
    if a.ndim > 2 or b.ndim > 2:
        raise ArgumentError(
            op=op,
            argument="target_error",
            got=f"a batch, a has shape {tuple(a.shape)}",
            expected="one matrix: each decides its own method",
            hint=f"Call {op} for each matrix of the batch",
        )


def _solve_to_goal(op: str, matrix: Tensor, right: Tensor, goal: float, *, wanted: int, vector: bool) -> Solution:
    """Solve until the last ``wanted`` rows, which are the answer, meet the goal."""
    if right.numel() == 0:
        empty = right.new_zeros((wanted, right.shape[-1]))
        return Solution(
            x=empty.squeeze(-1) if vector else empty, bound=0.0, trajectory=(), condition=0.0, method="none"
        )
    matrix, power = scale_exactly(op, matrix, -(rows := exponents(matrix, -1))), exponents(right, -2)
    right = scale_exactly(op, scale_exactly(op, right, -power), -rows)
    # rows of graded matrices ask for very different sizes of b
    right = scale_exactly(op, right, -(more := exponents(right, -2)))
    columns = torch.exp2(-exponents(matrix, -2).double()).to(matrix.dtype)
    system = _System(matrix * columns, right, columns, goal, wanted)
    result = system.run(torch.complex64 if matrix.is_complex() else torch.float32)
    if result is None:
        result = system.run(matrix.dtype)
    if result is None:
        # what was verified, or else the best estimate
        error = min([system.best, *system.trajectory]) if system.best == float("inf") else system.best
        raise NotConverged(
            op=op,
            iterations=len(system.trajectory),
            residual=error,
            message=f"the target error {goal:.3g} was not verified: {error:.3g} after {len(system.trajectory)} "
            f"corrections; the condition number is about {system.condition:.3g}",
            hint="Ask for less, or regularise the matrix",
        )
    x, method = scale_exactly(op, result[0][-wanted:], power + more), result[1]
    return Solution(
        x=x.squeeze(-1) if vector else x,
        bound=system.best,
        trajectory=tuple(system.trajectory),
        condition=system.condition,
        method=method,
    )


def exponents(x: Tensor, axis: int | tuple[int, ...]) -> Tensor:
    """Return powers of two at the size of the largest entry along an axis."""
    sizes = torch.view_as_real(x.resolve_conj()).abs().amax(-1) if x.is_complex() else x.abs()
    return torch.frexp(sizes.amax(axis, keepdim=True)).exponent


def times(x: Tensor, power: Tensor) -> Tensor:
    """``x * 2**power``, in two steps because a power alone may leave the range."""
    half = power // 2
    return x * torch.exp2(half.double()) * torch.exp2((power - half).double())


def scale_exactly(op: str, x: Tensor, power: Tensor) -> Tensor:
    """Return ``x * 2**power``; raise where digits leave the range of float64.

    Raises:
        NotConverged: one does; nothing is then known of its error.
    """
    result = times(x, power)
    if not torch.equal(times(result, -power), x):
        raise NotConverged(
            op=op,
            iterations=0,
            residual=float("inf"),
            message="the target error was not verified: numbers leave the range of float64 when scaled",
            hint="Scale the system, so that its numbers and those of the solution are near 1",
        )
    return result


def residual(a: Tensor, x: Tensor, b: Tensor) -> Tensor:
    """Return ``b - a @ x`` as if computed in twice the precision of float64 and rounded once."""
    eye = torch.eye(b.shape[-1], dtype=b.dtype, device=b.device)
    return exact_matmul(torch.cat([a, b], -1), torch.cat([-x, eye], -2))


class _System:
    """``a @ (columns * x)``: an equilibrated system on the way to its target."""

    def __init__(self, a: Tensor, b: Tensor, columns: Tensor, goal: float, wanted: int) -> None:
        self.a, self.b, self.columns, self.goal, self.wanted = a, b, columns.mT, goal, wanted
        self.trajectory: list[float] = []
        self.best = float("inf")
        self.condition = float("inf")

    def run(self, dtype: torch.dtype) -> tuple[Tensor, str] | None:
        """Refine with factors of this precision; ``None`` when the target stays out of reach."""
        factors = lu_factor(self.a.to(dtype))
        diagonal = factors.factors.diagonal()
        if bool((diagonal == 0).any()):
            return None
        self.condition = condition_from_factors(self.a, factors)
        digits = "float32" if dtype in (torch.float32, torch.complex64) else "float64"
        x = self._refine(factors)
        if x is not None and self._is_verified(x):
            return x * self.columns, f"refinement from {digits} factors"
        if self.condition > _TRUSTED:
            # float64 arithmetic with such factors is no longer one linear map, and GMRES would believe its noise
            return None
        x = self._gmres(factors)
        if x is None or not self._is_verified(x):
            return None
        return x * self.columns, f"gmres from {digits} factors"

    def _is_verified(self, x: Tensor) -> bool:
        """Return whether the error is proved to be within the goal.

        With ``y`` near the inverse and ``e = 1 - y @ a``, the error of ``x`` is ``y @ r`` plus ``e`` times itself, so
        that a bound of its entries makes a better one. Everything is bounded with the rounding errors of computing it.
        """
        answer = x * self.columns
        size = torch.linalg.vector_norm(answer[-self.wanted :], dim=-2)
        y, _ = torch.linalg.inv_ex(self.a)
        if not bool(torch.isfinite(y).all()):
            return False
        inverse, rows, n = y.abs(), self.a.abs(), len(x)
        left = self._residual(x)
        unsure = 2.0**-52 * left.abs() + 2.0**-88 * (rows @ x.abs() + self.b.abs())
        first = (y @ left).abs() + inverse @ (unsure + (n + 1) * 2.0**-51 * left.abs())
        eye = torch.eye(n, dtype=y.dtype, device=y.device)
        # in float64 where that suffices, for it costs least
        for defect, rounding in (
            (lambda: eye - y @ self.a, (n + 2) * 2.0**-51),
            (lambda: residual(y, self.a, eye), 2.0**-88),
        ):
            off = (1.0 + 2.0**-51) * defect().abs() + rounding * (inverse @ rows + eye.real)
            share = float(off.sum(-1).max())
            if share < 1.0:
                break
        else:
            return False
        bound = (first.amax(-2) / (1.0 - share)).expand(first.shape)
        for _ in range(3):
            bound = torch.minimum(bound, first + off @ bound)
        worst = torch.linalg.vector_norm((bound * self.columns.abs())[-self.wanted :], dim=-2)
        self.best = float(torch.where(worst > 0, worst / torch.where(size > 0, size, 0.0), 0.0).max())
        return self.best <= self.goal

    def _solve(self, factors: LU, r: Tensor) -> Tensor:
        size = r.abs().amax(-2, keepdim=True)
        size = torch.where(size > 0, size, 1.0)
        return lu_solve(*factors, (r / size).to(factors.factors.dtype)).to(r.dtype) * size

    def _residual(self, x: Tensor) -> Tensor:
        return residual(self.a, x, self.b)

    def _record(self, step: Tensor, x: Tensor) -> float:
        answer, change = ((part * self.columns)[-self.wanted :] for part in (x, step))
        size = torch.linalg.vector_norm(answer, dim=-2)
        ratio = float((torch.linalg.vector_norm(change, dim=-2) / torch.where(size > 0, size, 1.0)).max())
        # Corrections at least halve, so those to come add up to no more than the last; and x itself is rounded.
        self.trajectory.append(ratio + 2.0**-52)
        return ratio

    def _refine(self, factors: LU) -> Tensor | None:
        return self._add_corrections(self._solve(factors, self.b), lambda r: self._solve(factors, r))

    def _gmres(self, factors: LU) -> Tensor | None:
        """Refinement whose corrections come from GMRES, the factors its preconditioner."""
        # A preconditioner must be one linear map; applied in the factors' precision it would be another each time.
        wide = LU(factors.factors.to(self.a.dtype), factors.pivots)

        def apply(v: Tensor) -> Tensor:
            return self._solve(wide, exact_matmul(self.a, v))

        def step(r: Tensor) -> Tensor:
            return gmres(apply, self._solve(wide, r), tol=1e-6, restart=60, maxiter=60).x

        try:
            return self._add_corrections(torch.zeros_like(self.b), step)
        except NotConverged:
            return None

    def _add_corrections(self, x: Tensor, correction: Callable[[Tensor], Tensor]) -> Tensor | None:
        """Add corrections while each at most halves the one before; ``None`` where they stop short of the goal."""
        before = float("inf")
        for _ in range(_STEPS):
            step = correction(self._residual(x))
            x = x + step
            ratio = self._record(step, x)
            if not ratio < float("inf") or (before < float("inf") and ratio > 0.5 * before and ratio > 2.0**-50):
                return None
            if self.trajectory[-1] <= self.goal and (before < float("inf") or ratio <= 2.0**-52):
                return x
            if ratio <= 2.0**-52:
                return None
            before = ratio
        return None


def eigh_to(a: Tensor, target_error: float, method: Method = "auto") -> Spectrum:
    """Return eigenpairs of Hermitian matrices in float64 where the host has it, or from single precision, refined."""
    from trnsolver.eigen.eigh import eigh

    goal = target("eigh", target_error, a=a)
    single = torch.complex64 if a.is_complex() else torch.float32
    matrix, n = a.detach().to(double_dtype(a.dtype)), a.shape[-1]
    matrix = matrix.tril() + matrix.tril(-1).mH
    if matrix.numel() == 0:
        empty = eigh(matrix, method=method)
        return Spectrum(empty.values, empty.vectors, 0.0, ())
    if method == "auto" and proved_errors.apply_to(matrix):
        pairs = eigh(matrix)
        if (bound := proved_errors.defect(matrix, pairs.vectors, pairs.values)) <= goal:
            return Spectrum(pairs.values, pairs.vectors, bound, ())
    size = matrix.abs().amax((-2, -1), keepdim=True)
    size = torch.where(size > 0, size, 1.0)
    start = eigh((matrix / size).to(single), method=method).vectors.to(matrix.dtype)
    trajectory: list[float] = []
    values, vectors, _ = improve_eigenvectors(matrix, start, trajectory)
    each = matrix.reshape(-1, n, n), vectors.reshape(-1, n, n), values.reshape(-1, n)
    bound = max(_defect(*parts) for parts in zip(*each, strict=True))
    if bound > goal:
        raise NotConverged(
            op="eigh",
            iterations=len(trajectory),
            residual=bound,
            hint=f"The target was {goal:.3g}; float64 arithmetic on {n} rows ends near {bound:.1g}",
        )
    return Spectrum(values, vectors, bound, tuple(trajectory))


def _defect(a: Tensor, v: Tensor, w: Tensor) -> float:
    """Return the residual of eigenpairs over the norm of the matrix, and the loss of orthogonality, with roundings."""
    n, size = len(w), float(torch.linalg.matrix_norm(a))
    image = v * w
    left = float(torch.linalg.matrix_norm(residual(a, v, image))) + 2.0**-52 * float(torch.linalg.matrix_norm(image))
    eye = torch.eye(n, dtype=v.dtype, device=v.device)
    lost = float(torch.linalg.matrix_norm(residual(v.mH.resolve_conj(), v, eye)))
    return (1.0 + 2.0**-40) * (left / (size if size > 0 else 1.0) + lost)
