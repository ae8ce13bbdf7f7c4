"""Solutions of sparse systems to an error that was asked for: iterative refinement, and what proves the error."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnblas.split import two_sum
from trnsci.arrays import to_numpy
from trnsolver.sparse_direct.compressed_rows import Compressed
from trnsolver.sparse_direct.orderings import order_of
from trnsolver.sparse_direct.superlu import hermitian, symmetric_factors

_STEPS = 30
# Rows of an approximate inverse that are looked at together.
_ROWS = 256
# Slices of a number that residuals are computed with.
_SLICES = 4
# Twice the unit roundoff: room for complex arithmetic.
_UNIT = 2.0**-52

Solve = Callable[[Tensor, str], Tensor]


class Refined(NamedTuple):
    """A solution, its relative error in the 2-norm, which is verified, and the corrections."""

    x: Tensor
    error: float
    steps: int


def refine_solution(
    a: Compressed, values: Tensor, b: Tensor, letter: str, solve: Solve, goal: float, *, definite: bool
) -> Refined:
    """Correct a solution with residuals of twice float64's precision until the goal is met, or nothing improves.

    Estimates decide when to stop, and the error of what is returned is then proved.

    Args:
        a: the pattern of one square matrix.
        values: its entries, float64 or complex128, the largest about 1.
        b: [N, K], the largest of every column about 1.
        letter: ``n``, ``t`` or ``c``.
        solve: an approximate solve, given a right-hand side and a letter.
        goal: relative error to reach.
        definite: whether ``a`` is Hermitian positive definite, its lower triangle stored: a proof is then cheap.
    """
    matrix = sp.csr_array(hermitian(a, values) if definite else a.scipy(to_numpy(values.resolve_conj())))
    if letter != "n":
        matrix = sp.csr_array(matrix.T if letter == "t" else matrix.conj().T)
    if b.numel() == 0:
        return Refined(torch.zeros_like(b), 0.0, 0)
    least = _definite_bound(matrix) if definite else None

    def size_of_error(x: Tensor, left: Tensor, unsure: Tensor) -> float:
        if least is None:
            return _estimate_error(left, unsure, x, lambda r: solve(r, letter))
        return _bound_by_least(least, left, unsure, x)

    x, best, step = solve(b, letter), float("inf"), 0
    result, residual = x, (b, b)
    for step in range(1, _STEPS + 1):
        left, unsure = accurate_residual(matrix, x, b)
        error = size_of_error(x, left, unsure)
        halved = error < 0.5 * best
        if error < best:
            best, result, residual = error, x, (left, unsure)
        if best <= goal or (step > 2 and not halved):
            break
        x = x + solve(left, letter)
    if least is None and best < float("inf"):
        best = _bound_by_inverse(matrix, *residual, result, letter=letter, solve=solve)
    return Refined(result, best, step)


def accurate_residual(a: Any, x: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """``b - a @ x`` as if in twice float64, and a bound of its error elementwise.

    Entries and columns are cut into slices whose products add up exactly in float64 (Ozaki), as in the dense residual.
    """
    if np.iscomplexobj(a.data):
        real, imag = sp.csr_array(a.real), sp.csr_array(a.imag)
        whole = sp.csr_array(sp.block_array([[real, -imag], [imag, real]]))
        left, unsure = accurate_residual(whole, torch.cat([x.real, x.imag]), torch.cat([b.real, b.imag]))
        return torch.complex(*left.chunk(2)), sum(unsure.chunk(2))  # type: ignore[return-value]
    longest = int(np.diff(a.indptr).max()) if a.shape[0] else 1
    bits = (53 - int(np.ceil(np.log2(max(2, longest))))) // 2
    rows = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
    columns = x.numpy()
    high, low = b.clone(), torch.zeros_like(b)
    most = np.abs(columns).max(0, keepdims=True)
    right = _slices(columns, most, bits)
    largest = np.zeros(a.shape[0])
    np.maximum.at(largest, rows, np.abs(a.data))
    for part in _slices(a.data, largest[rows], bits):
        sliced = sp.csr_array((part, a.indices, a.indptr), shape=a.shape)
        for other in right:
            high, lost = two_sum(high, -torch.from_numpy(sliced @ other))
            low = low + lost
    # what the slices leave, relative to the largest of a row and of a column
    dropped = torch.from_numpy(longest * largest[:, None] * most)
    left = high + low
    # products below the range are lost whole
    lost_whole = _SLICES**2 * longest * 2.0**-1074 * torch.from_numpy(most > 0)
    unsure = 2.0**-52 * left.abs() + 2.0 ** (4 - _SLICES * bits) * dropped + 2.0**-100 * b.abs()
    return left, unsure + lost_whole


def _slices(x: NDArray[Any], largest: NDArray[Any], bits: int) -> list[NDArray[Any]]:
    """Leading bits relative to the largest, then the next ones; what is left in the end is below the error stated."""
    parts, rest = [], x
    scale = np.where(largest > 0, largest, 1.0)
    for k in range(1, _SLICES + 1):
        shift = np.ldexp(1.0, np.frexp(scale)[1] + 53 - k * bits)
        part = (rest + shift) - shift
        parts.append(part)
        rest = rest - part
    return parts


def _definite_bound(a: Any) -> float:
    """Bound the least eigenvalue from below, by factors of ``a - s`` and their residual; 0 where nothing is proved."""
    order = order_of(Compressed.of_scipy(a), "amd")
    matrix = sp.csc_array(a[order][:, order])
    whole = symmetric_factors(matrix)
    if whole is None:
        return 0.0
    rng = np.random.default_rng(0)
    v = rng.standard_normal(a.shape[0]).astype(a.dtype)
    for _ in range(20):
        v /= np.linalg.norm(v)
        v = whole.solve(v)
    least = 1.0 / float(np.linalg.norm(v))
    for share in (0.9, 0.5, 0.1):
        inertia = prove_inertia(matrix, share * least)
        if inertia is not None and inertia[0] == 0:
            return max(0.0, share * least - inertia[1])
    return 0.0


def prove_inertia(a: Any, shift: float) -> tuple[int, float] | None:
    """Return how many eigenvalues of a matrix near ``a`` are below a shift, and how near that matrix is in the 2-norm.

    Factors without exchanges, L and D, are exactly those of ``a - shift + e``, and the signs of D count (Sylvester).
    ``e`` is computed, and what its computation rounds is added. ``None`` where a pivot is zero.
    """
    n = a.shape[0]
    moved = sp.csc_array(a - shift * sp.eye_array(n, format="csc"))
    factors = symmetric_factors(moved)
    if factors is None:
        return None
    lower, pivots = sp.csr_array(factors.L), factors.U.diagonal().real
    scaled = sp.csr_array(lower * pivots[None, :])
    error = sp.csr_array(scaled @ sp.csr_array(lower.conj().T) - moved)
    longest = int(np.diff(lower.indptr).max())
    # |l| |d| |l.mH| in the infinity norm, and the rounding of the shift itself
    rounding = abs(scaled) @ (abs(lower).T @ np.ones(n)) * (longest + 4) * 2.0**-52 + 2.0**-52 * abs(moved).sum(1)
    near = float((np.asarray(abs(error).sum(1)).reshape(-1) + rounding).max()) * (1.0 + 2.0**-40)
    return int((pivots < 0).sum()), near


def _bound_by_least(least: float, left: Tensor, unsure: Tensor, x: Tensor) -> float:
    """Return ``norm(r) / least``, relative to the exact solution."""
    if least <= 0:
        return float("inf")
    error = (torch.linalg.vector_norm(left, dim=0) + torch.linalg.vector_norm(unsure, dim=0)) / least
    return _relative(error, x)


def _bound_by_inverse(a: Any, left: Tensor, unsure: Tensor, x: Tensor, *, letter: str, solve: Solve) -> float:
    """Bound the error of x by an approximate inverse y, row by row: it is ``y r + e`` times itself, ``e = 1 - y a``.

    Infinite where the rows of ``e`` do not add up to less than 1.
    """
    n, longest = a.shape[0], int(np.diff(sp.csc_array(a).indptr).max())
    sizes, terms, sums = abs(a), torch.empty_like(unsure), torch.empty(n, dtype=torch.float64, device="cpu")
    for start in range(0, n, _ROWS):
        here = slice(start, min(n, start + _ROWS))
        y = _rows_of_inverse(n, here, x.dtype, letter, solve)
        e, size = y.numpy() @ a, y.abs()
        e[np.arange(len(e)), np.arange(here.start, here.stop)] -= 1.0
        rounding = (longest + 8) * _UNIT * (size.numpy() @ sizes)
        sums[here] = torch.from_numpy((abs(e) + rounding).sum(1))
        terms[here] = (y @ left).abs() + size @ ((n + 8) * _UNIT * left.abs() + unsure)
    most = float(sums.max()) * (1.0 + n * _UNIT)
    if not most < 1.0:
        return float("inf")
    largest = terms.amax(0) / (1.0 - most)
    error = torch.linalg.vector_norm(terms + sums.unsqueeze(1) * largest, dim=0) * (1.0 + (n + 8) * _UNIT)
    return _relative(error, x)


def _rows_of_inverse(n: int, here: slice, dtype: torch.dtype, letter: str, solve: Solve) -> Tensor:
    """Return rows of an approximate inverse of ``op(a)``: columns of that of its transpose."""
    eye = torch.zeros((n, here.stop - here.start), dtype=dtype, device="cpu")
    eye[here] = torch.eye(here.stop - here.start, dtype=dtype, device="cpu")
    columns = solve(eye, "t" if letter == "n" else "n")
    return (columns.conj() if letter == "c" else columns).mT.contiguous().resolve_conj()


def _relative(error: Tensor, x: Tensor) -> float:
    """Return an error relative to the exact solution, whose norm is at least that of ``x`` less the error."""
    size = torch.linalg.vector_norm(x, dim=0) - error
    ratio = torch.where(error == 0, 0.0, torch.where(size > 0, error / size, float("inf")))
    return float(ratio.max()) * (1.0 + 2.0**-40)


def _estimate_error(left: Tensor, unsure: Tensor, x: Tensor, correct: Callable[[Tensor], Tensor]) -> float:
    """Return three times the size of the correction for the residual and its own error bound."""
    change = torch.linalg.vector_norm(correct(left), dim=0)
    doubt = torch.linalg.vector_norm(correct(unsure.to(left.dtype)), dim=0)
    size = torch.linalg.vector_norm(x, dim=0)
    ratio = torch.where(change + doubt == 0, 0.0, (change + doubt) / torch.where(size > 0, size, 0.0))
    return 3.0 * float(ratio.max()) + 2.0**-52
