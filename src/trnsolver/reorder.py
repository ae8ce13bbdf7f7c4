"""Schur forms with chosen eigenvalues first: exchanges of neighbouring diagonal blocks (Bai and Demmel)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trnsolver.francis import standardise

Matrix = NDArray[Any]
Select = Callable[[complex], bool]


def blocks(t: Matrix) -> list[tuple[int, int]]:
    """First rows and sizes of the diagonal blocks of a triangular or quasi-triangular matrix."""
    found, at = [], 0
    while at < len(t):
        size = 2 if at + 1 < len(t) and t[at + 1, at] != 0 else 1
        found.append((at, size))
        at += size
    return found


def chosen(t: Matrix, select: Select) -> list[bool]:
    """For each row, whether its eigenvalue is selected; of a pair both are where one is."""
    found: list[bool] = []
    for at, size in blocks(t):
        value = complex(t[at, at])
        if size == 1:
            found.append(bool(select(value)))
            continue
        inner = (t[at, at] - t[at + 1, at + 1]) / 2
        middle, width = (t[at, at] + t[at + 1, at + 1]) / 2, -t[at, at + 1] * t[at + 1, at] - inner * inner
        value = complex(middle, np.sqrt(max(float(width), 0.0)))
        found += [bool(select(value)) or bool(select(value.conjugate()))] * 2
    return found


def reordered(t: Matrix, z: Matrix, wanted: list[bool]) -> tuple[Matrix, Matrix]:
    """The same matrix ``z @ t @ z.H`` with the wanted rows' eigenvalues first, in their order."""
    t, z = t.copy(), z.copy()
    rows = blocks(t)
    keep = [wanted[at] for at, _ in rows]
    sizes = [size for _, size in rows]
    for number in range(len(sizes)):
        if not keep[number]:
            continue
        place = number
        while place > 0 and not keep[place - 1]:
            _exchange(t, z, sum(sizes[: place - 1]), sizes[place - 1], sizes[place])
            sizes[place - 1], sizes[place] = sizes[place], sizes[place - 1]
            keep[place - 1], keep[place] = True, False
            place -= 1
    return t, z


def _exchange(t: Matrix, z: Matrix, at: int, p: int, q: int) -> None:
    """Exchange blocks of p and q rows by the reflections that bring the second one's invariant subspace first."""
    first, last = slice(at, at + p), slice(at + p, at + p + q)
    both = slice(at, at + p + q)
    x = _sylvester(t[first, first], t[last, last], t[first, last])
    # the columns of [x; 1] span what belongs to the second block
    basis = np.vstack([x, np.eye(q, dtype=t.dtype)])
    turn, _ = np.linalg.qr(basis, mode="complete")
    size, before = float(np.linalg.norm(t[both, both])), t[both, both].copy()
    t[both, at:] = turn.conj().T @ t[both, at:]
    t[: at + p + q, both] = t[: at + p + q, both] @ turn
    z[:, both] = z[:, both] @ turn
    left = t[at + q : at + p + q, at : at + q]
    if float(np.linalg.norm(left)) > 1e3 * np.finfo(t.dtype).eps * max(size, float(np.linalg.norm(before))):
        raise ArithmeticError(float(np.linalg.norm(left)))
    left[...] = 0.0
    for start, rows in ((at, q), (at + q, p)):
        if rows == 2:
            standardise(t, z, start)


def _sylvester(a: Matrix, b: Matrix, c: Matrix) -> Matrix:
    """``x`` with ``a @ x - x @ b = -c``, for blocks of one or two rows."""
    p, q = len(a), len(b)
    whole = np.kron(a, np.eye(q)) - np.kron(np.eye(p), b.T)
    try:
        return np.linalg.solve(whole, -c.reshape(-1)).reshape(p, q)
    except np.linalg.LinAlgError:
        raise ArithmeticError(0.0) from None
