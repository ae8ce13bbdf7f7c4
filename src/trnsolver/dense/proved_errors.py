"""Solutions and eigenpairs of float64 in host memory, with errors that are proved in plain float64.

Every rounding error is bounded with what it was made in: ``unit`` times the product of magnitudes for a product of so
many terms, complex ones included, and ``tiny`` where numbers underflow. Numbers that overflow prove nothing.
"""

from typing import Any

import numpy as np
from torch import Tensor

from trnsci import NumericalError, host, neuron
from trnsci.backends import library
from trnsolver.dense.lu import lu_factor, lu_solve
from trnsolver.dense.qr import qr

Array = np.ndarray[Any, Any]
# x, its relative forward error, the condition number of the matrix in the 1-norm
Proved = tuple[Tensor, float, float]
# Bounds are sums of positive numbers, whose own roundings are of the order of n units.
_MORE = 1.0 + 2.0**-20


def apply_to(*operands: Tensor) -> bool:
    """Return whether float64 is computed in host memory here, where it costs less than float32 and its corrections."""
    backend = library("trnsolver").choice().name
    return (backend == "pytorch" or (backend == "auto" and neuron.device() is None)) and host.refusal(operands) is None


def _unit(terms: int) -> float:
    return (terms + 4) * 2.0**-51


def _relative(errors: Array, x: Array) -> float:
    """Return the largest error of a column relative to it; NaN or infinite where there is none to refer to."""
    # squares stay inside the range
    largest = np.abs(x).max(0)
    return float((_MORE * np.linalg.norm(errors / largest, axis=0) / np.linalg.norm(x / largest, axis=0)).max())


def solve_system(a: Tensor, b: Tensor, goal: float) -> Proved | None:
    """Solve ``a @ x = b`` by elimination; ``None`` where the goal is not proved.

    With ``y`` near the inverse and ``off`` no less than ``|1 - y @ a|``, the error is at most ``|y @ r|`` plus ``off``
    times itself.
    """
    if b.numel() == 0 or not apply_to(a, b):
        return None
    factors = lu_factor(a)
    if bool((factors.factors.diagonal() == 0).any()):
        return None
    try:
        solution = lu_solve(*factors, b)
        y = np.linalg.inv(a.numpy())
    except (NumericalError, np.linalg.LinAlgError):
        return None
    matrix, right, x = a.numpy(), b.numpy(), solution.numpy()
    n = len(matrix)
    with np.errstate(all="ignore"):
        inverse, rows, eye, unit, tiny = np.abs(y), np.abs(matrix), np.eye(n), _unit(n), n * 2.0**-1070
        off = np.abs(eye - y @ matrix) + unit * (inverse @ rows + eye)
        share = off.sum(-1).max()
        left = right - matrix @ x
        unsure = unit * (rows @ np.abs(x) + np.abs(right) + np.abs(left)) + tiny
        first = np.abs(y @ left) + inverse @ unsure + tiny
        errors = first + off.sum(-1, keepdims=True) * (first.max(0) / (1.0 - share))
        bound = _relative(errors, x)
        if not (share < 0.5 and bound <= goal):
            return None
        return solution, bound, float(rows.sum(0).max() * inverse.sum(0).max())


def solve_least_squares(a: Tensor, b: Tensor, goal: float) -> Proved | None:
    """Minimise ``norm(b - a @ x)`` by QR; ``None`` where the goal is not proved.

    With ``s`` near the inverse of R and ``c = a @ s``, whose columns are orthonormal but for ``f``, the error is
    ``s @ inv(1 + f) @ c.mH @ r``.
    """
    if b.numel() == 0 or not apply_to(a, b):
        return None
    try:
        s = np.linalg.inv(qr(a, mode="r").r.numpy())
    except (NumericalError, np.linalg.LinAlgError):
        return None
    matrix, right = a.numpy(), b.numpy()
    m, n = matrix.shape
    with np.errstate(all="ignore"):
        rows, inverse, tiny = np.abs(matrix), np.abs(s), m * 2.0**-1070
        c = matrix @ s
        lost = _unit(n) * (rows @ inverse) + tiny
        across, columns = c.conj().T, np.abs(c)
        x = s @ (across @ right)
        x = x + s @ (across @ (right - matrix @ x))
        left = right - matrix @ x
        unsure = _unit(n) * (rows @ np.abs(x) + np.abs(right)) + tiny
        step, size = across @ left, np.abs(left)
        doubt = columns.T @ (_unit(m) * size + unsure) + lost.T @ (size + unsure) + tiny
        mixed = lost.T @ columns
        off = np.abs(across @ c - np.eye(n)) + _unit(m) * (columns.T @ columns) + mixed + mixed.T + lost.T @ lost
        share = np.linalg.norm(off)
        errors = np.abs(s @ step) + inverse @ (doubt + _unit(n) * np.abs(step)) + tiny
        # sums of magnitudes for norms, whose squares may leave the range
        errors += inverse.sum(-1, keepdims=True) * (share / (1.0 - share) * (np.abs(step) + doubt).sum(0))
        bound = _relative(errors, x)
        if not (share < 0.5 and bound <= goal):
            return None
        condition = float(np.linalg.norm(matrix, 1) * np.linalg.norm(s @ across, 1))
    return a.new_tensor(x), bound, condition


def defect(a: Tensor, v: Tensor, w: Tensor) -> float:
    """Bound ``norm(a @ v - v * w) / norm(a)`` plus the loss of orthogonality, the largest of a batch; or return NaN."""
    matrix, vectors, values = a.numpy(), v.numpy(), w.numpy()
    n, axes = values.shape[-1], (-2, -1)
    with np.errstate(all="ignore"):
        image, across = vectors * values[..., None, :], vectors.conj().swapaxes(-1, -2)
        size, columns = np.linalg.norm(matrix, axis=axes), np.linalg.norm(vectors, axis=axes)
        left = np.linalg.norm(matrix @ vectors - image, axis=axes) / size
        left += _unit(n) * (columns + np.linalg.norm(image, axis=axes) / size)
        lost = np.linalg.norm(across @ vectors - np.eye(n), axis=axes) + _unit(n) * columns**2
        # numbers whose squares leave the range prove nothing
        safe = (size > 2.0**-400) & (size < 2.0**400)
        return float(np.where(safe, _MORE * (left + lost), np.nan).max())
