"""The QR algorithm in float64: Hessenberg reduction, real Schur form by double shifts, complex by single ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[Any]
_EPS = float(np.finfo(np.float64).eps)


def reflector(x: Matrix) -> tuple[Matrix, float]:
    """A unit vector ``v`` with ``x - 2 v (v.H x)`` a multiple of the first axis, and the factor 2, or 0 for nothing."""
    size = float(np.linalg.norm(x))
    if size == 0.0 or float(np.linalg.norm(x[1:])) == 0.0:
        return np.zeros_like(x), 0.0
    v = x.copy()
    phase = x[0] / abs(x[0]) if x[0] != 0 else 1.0
    v[0] += phase * size
    return v / np.linalg.norm(v), 2.0


def reduce_to_hessenberg(a: Matrix) -> tuple[Matrix, Matrix]:
    """``a = q @ h @ q.H``, one reflection per column."""
    n = len(a)
    h = a.copy()
    q = np.eye(n, dtype=a.dtype)
    for k in range(n - 2):
        v, factor = reflector(h[k + 1 :, k])
        if factor == 0.0:
            continue
        h[k + 1 :, k:] -= factor * np.outer(v, v.conj() @ h[k + 1 :, k:])
        h[:, k + 1 :] -= factor * np.outer(h[:, k + 1 :] @ v, v.conj())
        q[:, k + 1 :] -= factor * np.outer(q[:, k + 1 :] @ v, v.conj())
        h[k + 2 :, k] = 0.0
    return h, q


def _split(h: Matrix, last: int, size: float) -> int:
    """First row of the unreduced block that ends at ``last``; negligible subdiagonals are set to zero."""
    for k in range(last, 0, -1):
        near = abs(h[k, k]) + abs(h[k - 1, k - 1])
        if abs(h[k, k - 1]) <= _EPS * (near if near > 0 else size):
            h[k, k - 1] = 0.0
            return k
    return 0


def complex_schur(a: Matrix) -> tuple[Matrix, Matrix]:
    """Upper triangular ``t`` and unitary ``z`` with ``a = z @ t @ z.H``: single shifts (Wilkinson's)."""
    h, z = reduce_to_hessenberg(a.astype(np.complex128))
    n, size = len(h), float(np.linalg.norm(h))
    last, tries = n - 1, 0
    while last > 0:
        first = _split(h, last, size)
        if first == last:
            last, tries = last - 1, 0
            continue
        tries += 1
        if tries > 30 * n:
            raise ArithmeticError(abs(h[last, last - 1]))
        shift = _wilkinson(h[last - 1 : last + 1, last - 1 : last + 1])
        if tries % 10 == 0:
            shift = h[last, last] + abs(h[last, last - 1])
        _single_sweep(h, z, first, last, shift)
    return np.triu(h), z


def _wilkinson(b: Matrix) -> complex:
    half = (b[0, 0] - b[1, 1]) / 2
    root = np.sqrt(half * half + b[0, 1] * b[1, 0] + 0j)
    up, down = half + root, half - root
    larger = up if abs(up) > abs(down) else down
    product = b[0, 1] * b[1, 0]
    return complex(b[1, 1] - product / larger) if larger != 0 else complex(b[1, 1])


def _single_sweep(h: Matrix, z: Matrix, first: int, last: int, shift: complex) -> None:
    x, y = h[first, first] - shift, h[first + 1, first]
    for k in range(first, last):
        size = np.hypot(abs(x), abs(y))
        if size == 0.0:
            c, s = 1.0 + 0j, 0j
        else:
            c, s = x / size, y / size
        g = np.array([[np.conj(c), np.conj(s)], [-s, c]])
        left = max(first, k - 1)
        h[k : k + 2, left:] = g @ h[k : k + 2, left:]
        below = min(k + 3, last + 1)
        h[:below, k : k + 2] = h[:below, k : k + 2] @ g.conj().T
        z[:, k : k + 2] = z[:, k : k + 2] @ g.conj().T
        if k + 2 <= last:
            x, y = h[k + 1, k], h[k + 2, k]


def real_schur(a: Matrix) -> tuple[Matrix, Matrix]:
    """Quasi-triangular ``t`` and orthogonal ``z``: implicit double shifts (Francis)."""
    h, z = reduce_to_hessenberg(a)
    n, size = len(h), float(np.linalg.norm(h))
    last, tries = n - 1, 0
    while last > 0:
        first = _split(h, last, size)
        if first == last:
            last, tries = last - 1, 0
            continue
        if first == last - 1:
            standardise(h, z, first)
            last, tries = last - 2, 0
            continue
        tries += 1
        if tries > 30 * n:
            raise ArithmeticError(abs(h[last, last - 1]))
        _double_sweep(h, z, first, last, tries)
    return h, z


def _double_sweep(h: Matrix, z: Matrix, first: int, last: int, tries: int) -> None:
    trace = h[last - 1, last - 1] + h[last, last]
    determinant = h[last - 1, last - 1] * h[last, last] - h[last - 1, last] * h[last, last - 1]
    if tries % 10 == 0:
        kick = abs(h[last, last - 1]) + abs(h[last - 1, last - 2])
        trace, determinant = 1.5 * kick, kick * kick
    x = np.array(
        [
            h[first, first] * (h[first, first] - trace) + h[first, first + 1] * h[first + 1, first] + determinant,
            h[first + 1, first] * (h[first, first] + h[first + 1, first + 1] - trace),
            h[first + 1, first] * h[first + 2, first + 1],
        ]
    )
    for k in range(first, last):
        width = min(3, last - k + 1)
        v, factor = reflector(x[:width])
        rows = slice(k, k + width)
        if factor:
            left = max(first, k - 1)
            h[rows, left:] -= factor * np.outer(v, v @ h[rows, left:])
            below = min(k + 4, last + 1)
            h[:below, rows] -= factor * np.outer(h[:below, rows] @ v, v)
            z[:, rows] -= factor * np.outer(z[:, rows] @ v, v)
        if k > first:
            h[k + 1 : k + width, k - 1] = 0.0
        x = h[k + 1 : min(k + 4, last + 1), k]


def standardise(h: Matrix, z: Matrix, k: int) -> None:
    """A block of two rows: triangular when its eigenvalues are real, equal diagonals when they are a pair."""
    a, b, c, d = h[k, k], h[k, k + 1], h[k + 1, k], h[k + 1, k + 1]
    half = (a - d) / 2
    inner = half * half + b * c
    if inner >= 0:
        root = half + np.copysign(np.sqrt(inner), half)
        # The eigenvector of the eigenvalue d + root.
        x, y = (root, c) if root != 0 else (b, 0.0)
        if root == 0 and b == 0:
            x, y = 0.0, 1.0
        angle = np.arctan2(y, x)
    else:
        angle = 0.5 * np.arctan2(-(a - d), b + c)
    cos, sin = np.cos(angle), np.sin(angle)
    g = np.array([[cos, sin], [-sin, cos]])
    h[k : k + 2, k:] = g @ h[k : k + 2, k:]
    h[: k + 2, k : k + 2] = h[: k + 2, k : k + 2] @ g.T
    z[:, k : k + 2] = z[:, k : k + 2] @ g.T
    if inner >= 0:
        h[k + 1, k] = 0.0


def real_to_complex(t: Matrix, z: Matrix) -> tuple[Matrix, Matrix]:
    """Triangularise the blocks of two rows of a real Schur form."""
    t, z = t.astype(np.complex128), z.astype(np.complex128)
    for k in range(len(t) - 1, 0, -1):
        if t[k, k - 1] == 0:
            continue
        pair = slice(k - 1, k + 1)
        shift = np.linalg.eigvals(t[pair, pair])[0] - t[k, k]
        size = np.hypot(abs(shift), abs(t[k, k - 1]))
        c, s = shift / size, t[k, k - 1] / size
        g = np.array([[np.conj(c), s], [-s, c]])
        t[pair, k - 1 :] = g @ t[pair, k - 1 :]
        t[: k + 1, pair] = t[: k + 1, pair] @ g.conj().T
        z[:, pair] = z[:, pair] @ g.conj().T
        t[k, k - 1] = 0.0
    return t, z
