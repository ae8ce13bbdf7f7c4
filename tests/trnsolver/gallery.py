"""Test matrices of Higham's gallery and SciPy's, by their definitions, each [n, n] with a largest entry of 1."""

import numpy as np
import scipy.linalg as la

Array = np.ndarray


def _index(n: int) -> tuple[Array, Array]:
    return np.arange(1.0, n + 1)[:, None], np.arange(1.0, n + 1)[None, :]


def _bands(n: int, **diagonals: float) -> Array:
    """Return constants along diagonals: ``l1`` the first below the main one, ``d`` it, ``u2`` the second above."""
    offsets = {name: 0 if name == "d" else int(name[1:]) * (-1 if name[0] == "l" else 1) for name in diagonals}
    return sum(value * np.eye(n, k=offsets[name]) for name, value in diagonals.items())


def _random(n: int) -> np.random.Generator:
    return np.random.default_rng(n)


def _orthogonal(n: int) -> Array:
    return np.linalg.qr(_random(n).standard_normal((n, n)))[0]


def _kahan(n: int, theta: float = 1.2) -> Array:
    return np.sin(theta) ** np.arange(n)[:, None] * (np.eye(n) - np.cos(theta) * np.triu(np.ones((n, n)), 1))


def _clement(n: int, *, symmetric: bool) -> Array:
    i = np.arange(1.0, n)
    if symmetric:
        return np.diag(np.sqrt(i * (n - i)), 1) + np.diag(np.sqrt(i * (n - i)), -1)
    return np.diag(n - i, 1) + np.diag(i, -1)


def _moler(n: int) -> Array:
    i, j = _index(n)
    return np.where(i == j, i, np.minimum(i, j) - 2)


def _frank(n: int) -> Array:
    i, j = _index(n)
    return np.where(j >= i - 1, n + 1 - np.maximum(i, j), 0.0)


def _redheffer(n: int) -> Array:
    i, j = _index(n)
    return ((j == 1) | (j % i == 0)).astype(float)


def _riemann(n: int) -> Array:
    i, j = (k + 1 for k in _index(n))
    return np.where(j % i == 0, i - 1, -1.0)


def _invol(n: int) -> Array:
    d, a = -float(n), la.hilbert(n)
    a[:, 0] *= d
    for i in range(1, n):
        d *= -(n - i) * (n + i) / i**2
        a[i] *= d
    return a


def _rosser() -> Array:
    rows = """611 196 -192 407 -8 -52 -49 29; 196 899 113 -192 -71 -43 -8 -44; -192 113 899 196 61 49 8 52;
        407 -192 196 611 8 44 59 -23; -8 -71 61 8 411 -599 208 208; -52 -43 49 44 -599 411 208 208;
        -49 -8 8 59 208 208 99 -911; 29 -44 52 -23 208 208 -911 99"""
    return np.array([[float(x) for x in row.split()] for row in rows.split(";")])


def _wilkinson(n: int) -> Array:
    return _bands(n, l1=1.0, u1=1.0) + np.diag(np.abs(np.arange(n) - (n - 1) / 2))


def _poisson(n: int) -> Array:
    side = max(2, int(n**0.5))
    line = _bands(side, l1=-1.0, d=2.0, u1=-1.0)
    return np.kron(line, np.eye(side)) + np.kron(np.eye(side), line)


def _prolate(n: int, w: float = 0.25) -> Array:
    k = np.arange(1, n)
    return la.toeplitz(np.r_[2 * w, np.sin(2 * np.pi * w * k) / (np.pi * k)])


def _smoke(n: int) -> Array:
    a = np.diag(np.exp(2j * np.pi * np.arange(1, n + 1) / n)) + np.eye(n, k=1)
    a[-1, 0] = 1
    return a


def _chebspec(n: int) -> Array:
    """Return Chebyshev's differentiation matrix, whose powers vanish, without its first row and column."""
    x = np.cos(np.pi * np.arange(n + 1) / n)
    c = np.r_[2.0, np.ones(n - 1), 2.0] * (-1.0) ** np.arange(n + 1)
    d = np.outer(c, 1 / c) / (x[:, None] - x + np.eye(n + 1))
    return (d - np.diag(d.sum(1)))[1:, 1:]


def _randsvd(n: int, kind: type) -> Array:
    """Return singular values from 1 to 1e-8, in geometric progression."""
    x = _random(n + 1).standard_normal((n, n, 2))
    left = np.linalg.qr(x[..., 0] + (1j * x[..., 1] if kind is complex else 0))[0]
    return (left * np.logspace(0, -8, n)) @ _orthogonal(n)


def _randcorr(n: int) -> Array:
    factor = _random(n).standard_normal((n, n))
    factor /= np.linalg.norm(factor, axis=1, keepdims=True)
    return factor @ factor.T


def _hermitian(n: int) -> Array:
    x = _random(n).standard_normal((n, n, 2)) @ [1, 1j]
    return x + x.conj().T


GENERAL = {
    "chebspec": _chebspec,
    "chow": lambda n: np.tril(np.ones((n, n)), 1),
    "circulant": lambda n: la.circulant(np.arange(1.0, n + 1)),
    "clement": lambda n: _clement(n, symmetric=False),
    "companion": lambda n: la.companion(np.r_[1.0, _random(n).standard_normal(n)]),
    "cycol": lambda n: np.tile(_random(n).standard_normal((n, max(1, n // 4))), n)[:, :n],
    "dft": lambda n: la.dft(n, scale="sqrtn"),
    "dorr": lambda n: _bands(n, l1=-1.0, d=2.01, u1=-1.01),
    "dramadah": lambda n: la.toeplitz(np.r_[1, 1, np.zeros(n - 2)], np.r_[1, 0, 1, np.arange(n - 3) % 2 * 1.0]),
    "forsythe": lambda n: np.eye(n, k=1) + 1e-8 * np.eye(n, k=1 - n),
    "frank": _frank,
    "gear": lambda n: _bands(n, l1=1.0, u1=1.0) + np.eye(n, k=n - 1) - np.eye(n, k=1 - n),
    "grcar": lambda n: _bands(n, l1=-1.0, d=1.0, u1=1.0, u2=1.0, u3=1.0),
    "helmert": lambda n: la.helmert(n, full=True),
    "invol": lambda n: _invol(min(n, 10)),
    "jordan": lambda n: _bands(n, d=1.0, u1=1.0),
    "kahan": _kahan,
    "lesp": lambda n: (
        np.diag(-(2.0 * np.arange(2, n + 2) + 1))
        + np.diag(np.arange(2.0, n + 1), 1)
        + np.diag(1 / np.arange(2.0, n + 1), -1)
    ),
    "leslie": lambda n: la.leslie(1 / np.arange(1.0, n + 1), np.full(n - 1, 0.5)),
    "lotkin": lambda n: np.r_[np.ones((1, n)), la.hilbert(n)[1:]],
    "parter": lambda n: 1 / (np.subtract(*_index(n)) + 0.5),
    "randsvd": lambda n: _randsvd(n, float),
    "randsvd, complex": lambda n: _randsvd(n, complex),
    "redheffer": _redheffer,
    "riemann": _riemann,
    "smoke": _smoke,
    "triw": lambda n: np.eye(n) - np.triu(np.ones((n, n)), 1),
    "vandermonde": lambda n: np.vander(np.linspace(-1, 1, n)),
}
SYMMETRIC = {
    "bipartite": lambda n: np.kron([[0.0, 1.0], [1.0, 0.0]], np.ones((n // 2, n // 2))),
    "clement, symmetric": lambda n: _clement(n, symmetric=True),
    "fiedler": lambda n: la.fiedler(np.arange(1.0, n + 1)),
    "hadamard": lambda n: la.hadamard(1 << (n.bit_length() - 1)).astype(float),
    "gcd": lambda n: np.gcd.outer(i := np.arange(1, n + 1), i).astype(float),
    "hankel": lambda n: la.hankel(np.arange(1.0, n + 1)),
    "Hermitian": _hermitian,
    "ones": lambda n: np.ones((n, n)),
    "orthogonal": lambda n: np.sqrt(2 / (n + 1)) * np.sin(np.multiply(*_index(n)) * np.pi / (n + 1)),
    "ris": lambda n: 0.5 / (n - np.add(*_index(n)) + 1.5),
    "rosser": lambda n: _rosser(),
    "wilkinson": _wilkinson,
    "zero": lambda n: np.zeros((n, n)),
}
# positive definite, and not so ill-conditioned that rounding decides
DEFINITE = {
    "identity": np.eye,
    "kms": lambda n: 0.5 ** np.abs(np.subtract(*_index(n))),
    "lehmer": lambda n: np.minimum(*_index(n)) / np.maximum(*_index(n)),
    "minij": lambda n: np.minimum(*_index(n)),
    "pei": lambda n: np.ones((n, n)) + np.eye(n),
    "poisson": _poisson,
    "second difference": lambda n: _bands(n, l1=-1.0, d=2.0, u1=-1.0),
}
# definite by construction, and after rounding not any more
NEARLY = {
    "hilbert": la.hilbert,
    "moler": _moler,
    "pascal": lambda n: la.pascal(min(n, 20)).astype(float),
    "prolate": _prolate,
    "randcorr": _randcorr,
}
SYMMETRIC |= DEFINITE | NEARLY
GALLERY = GENERAL | SYMMETRIC


def matrix(name: str, n: int) -> Array:
    """Return a matrix of about n rows by its name, divided by its largest entry."""
    a = np.asarray(GALLERY[name](n))
    return a / (np.abs(a).max() or 1.0)
