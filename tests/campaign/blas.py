"""trnblas: products in extended precision as oracles, within the bounds the docstrings state."""

import numpy as np
import torch

import trnblas
from tests.campaign.draw import COMPLEX, HALF, REAL, Draw
from tests.campaign.trial import EXEMPT, Trial, public, spec
from trnsci.testing import unit_roundoff

EXEMPT.update(
    {
        "trnblas.error_bound": "a formula, compared with itself by every bound here",
        "trnblas.get_backend": "a setting",
        "trnblas.set_backend": "a setting",
        "trnblas.probe": "runs on a device only",
    }
)
DTYPES = (*REAL, *REAL, *COMPLEX, *HALF)
WORK = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
_TRANSPOSED = {"n": lambda x: x, "t": lambda x: np.swapaxes(x, -1, -2), "c": lambda x: np.conj(np.swapaxes(x, -1, -2))}


def wide(x: torch.Tensor) -> np.ndarray:
    """Values in extended precision."""
    plain = x.detach().resolve_conj()
    if plain.is_complex():
        return plain.to(torch.complex128).numpy().astype(np.clongdouble)
    return plain.double().numpy().astype(np.longdouble)


def narrow(x: np.ndarray) -> np.ndarray:
    """What `assert_within` compares: double precision."""
    return np.asarray(x).astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def summed(terms: int, size: np.ndarray, result: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """A sum of ``terms`` products in the arithmetic of a dtype, rounded once; complex numbers count twice.

    ``size`` is the sum of absolute values. Half precision is summed in float32.
    """
    work = unit_roundoff(WORK.get(dtype, dtype))
    count, factor = (2 * terms + 3, 2**0.5) if dtype.is_complex else (terms + 4, 1.0)
    stored = unit_roundoff(dtype) if dtype in HALF else 0.0
    tiny = torch.finfo(dtype).smallest_normal * (1 + 0 * np.abs(size))
    return narrow(factor * count * work / (1 - count * work) * size + stored * np.abs(result) + tiny).real


def fits(*arrays: np.ndarray, dtype: torch.dtype) -> bool:
    """Whether the largest intermediate stays inside the dtype's range."""
    largest = max((float(np.max(np.abs(x), initial=0.0)) for x in arrays), default=0.0)
    return largest < torch.finfo(dtype).max / 4


def product(draw: Draw, name: str, a, b, c, alpha, beta, *, kwargs, terms, dtype, function=None, args=None) -> Trial:
    """``alpha * a @ b + beta * c`` with everything already in the layout the mathematics has."""
    size = abs(alpha) * (np.abs(a) @ np.abs(b)) + (0 if c is None or beta == 0 else abs(beta) * np.abs(c))
    exact = alpha * (a @ b) + (0 if c is None or beta == 0 else beta * c)
    if not fits(size, dtype=dtype):
        return nothing(draw)
    return Trial(
        function or public(name), args, kwargs, lambda: narrow(exact), lambda _: summed(terms, size, exact, dtype)
    )


def nothing(draw: Draw) -> Trial:
    """A call that cannot fail, where what was drawn leaves the range of its dtype."""
    x = draw.tensor((2,), torch.float64, kind="gaussian")
    return Trial(trnblas.copy, (x,), {}, lambda: narrow(wide(x)), lambda expected: np.zeros(expected.shape))


@spec("trnblas.gemm")
def gemm(draw: Draw) -> Trial:
    dtype = draw.dtype(*DTYPES)
    m, n, k, batch = draw.size(), draw.size(), draw.size(0, 257), draw.batch()
    ta, tb = draw.among("n", "n", "t", "c"), draw.among("n", "n", "t", "c")
    a_shape = (*draw.broadcastable(batch), *((m, k) if ta == "n" else (k, m)))
    b_shape = (*batch, *((k, n) if tb == "n" else (n, k)))
    a, b = draw.tensor(a_shape, dtype), draw.tensor(b_shape, dtype)
    alpha, beta = draw.number(dtype), draw.number(dtype)
    c = draw.tensor((*batch, m, n), dtype) if beta != 0 or draw.chance(0.1) else None
    left, right = _TRANSPOSED[ta](wide(a)), _TRANSPOSED[tb](wide(b))
    return product(
        *(draw, "trnblas.gemm", left, right, None if c is None else wide(c), alpha, beta),
        args=(alpha, a, b, beta, c),
        kwargs={"trans_a": ta, "trans_b": tb},
        terms=k,
        dtype=dtype,
    )


@spec("trnblas.gemv")
def gemv(draw: Draw) -> Trial:
    dtype, m, n = draw.dtype(*DTYPES), draw.size(), draw.size(0, 513)
    trans = draw.among("n", "t", "c")
    a = draw.tensor((m, n), dtype)
    x = draw.tensor((n if trans == "n" else m,), dtype)
    alpha, beta = draw.number(dtype), draw.number(dtype)
    y = draw.tensor((m if trans == "n" else n,), dtype) if beta != 0 else None
    return product(
        *(draw, "trnblas.gemv", _TRANSPOSED[trans](wide(a)), wide(x), None if y is None else wide(y), alpha, beta),
        args=(alpha, a, x, beta, y),
        kwargs={"trans": trans},
        terms=x.shape[0],
        dtype=dtype,
    )


@spec("trnblas.dot", "trnblas.dotu", "trnblas.dotc")
def dot(draw: Draw, name: str) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(0, 513)
    x, y = draw.tensor((n,), dtype), draw.tensor((n,), dtype)
    left = np.conj(wide(x)) if name == "trnblas.dotc" else wide(x)
    return product(draw, name, left, wide(y), None, 1.0, 0.0, args=(x, y), kwargs={}, terms=max(n, 1), dtype=dtype)


@spec("trnblas.nrm2", "trnblas.asum")
def norms(draw: Draw, name: str) -> Trial:
    dtype, n = draw.dtype(*REAL, *COMPLEX), draw.size(0, 513)
    x = draw.tensor((n,), dtype)
    values = wide(x)
    parts = np.concatenate([values.real, values.imag]) if dtype.is_complex else values
    exact = np.sqrt(np.sum(np.abs(values) ** 2)) if name.endswith("nrm2") else np.sum(np.abs(parts))
    bound = summed(2 * n, np.abs(exact), exact, dtype)
    return Trial(public(name), (x,), {}, lambda: narrow(exact), lambda _: bound, kernels="maybe")


@spec("trnblas.axpy")
def axpy(draw: Draw) -> Trial:
    dtype, n = draw.dtype(*DTYPES), draw.size(0, 513)
    alpha, x, y = draw.number(dtype), draw.tensor((n,), dtype), draw.tensor((n,), dtype)
    exact, size = alpha * wide(x) + wide(y), abs(alpha) * np.abs(wide(x)) + np.abs(wide(y))
    return Trial(
        trnblas.axpy,
        (x, y, alpha),
        {},
        lambda: narrow(exact),
        lambda _: summed(2, size, exact, dtype),
        kernels="maybe",
    )
