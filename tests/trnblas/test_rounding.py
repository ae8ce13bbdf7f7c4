"""A result is rounded once, after alpha, beta and everything else: tried where the sum cancels, and near overflow.

The bound is ``u |result|`` for the one rounding to the operands' dtype, plus what the arithmetic before it may lose.
"""

import pytest
import torch

import trnblas
from tests.trnblas.oracles import C64, C128, F32, F64
from trnblas.accuracy import error_bound
from trnsci.testing import BACKENDS, assert_within, gaussian

BF16, F16 = torch.bfloat16, torch.float16
N, K = 5, 7
ROUNDOFF = {BF16: 2.0**-8, F16: 2.0**-11, F32: 2.0**-24, C64: 2.0**-24}


def wide(x):
    return x.to(C128 if x.is_complex() else F64)


def lower(x):
    return x.tril()


def whole(x, hermitian=False):
    strict = x.tril(-1)
    full = x.tril() + (strict.mH if hermitian else strict.mT)
    if hermitian and x.is_complex():
        full = full - 1j * torch.diag(torch.diagonal(full).imag)
    return full


def banded(a):
    """A [N, N] band of one diagonal on either side, as a matrix."""
    full = torch.zeros(N, N, dtype=a.dtype)
    for i in range(N):
        for j in range(max(0, i - 1), min(N, i + 2)):
            full[i, j] = a[1 + i - j, j]
    return full


def side_band(a):
    full = torch.zeros(N, N, dtype=a.dtype)
    for i in range(N):
        for j in range(max(0, i - 1), i + 1):
            full[i, j] = a[i - j, j]
    return full


def unpacked(ap):
    full = torch.zeros(N, N, dtype=ap.dtype)
    rows, columns = torch.triu_indices(N, N)
    full[columns, rows] = ap
    return full


B = trnblas

# name: shapes of the factors, shape of the addend, the call, the product as a function of wide factors, terms
TABLE = {
    "gemm": ([(N, K), (K, 3)], (N, 3), lambda p, f, q, c, **o: B.gemm(p, *f, q, c, **o), lambda a, b: a @ b, K),
    "gemv": ([(N, K), (K,)], (N,), lambda p, f, q, c, **o: B.gemv(p, *f, q, c, **o), lambda a, x: a @ x, K),
    "symm": (
        [(N, N), (N, 3)], (N, 3),
        lambda p, f, q, c, **o: B.symm(p, *f, q, c, lower=1, **o), lambda a, b: whole(a) @ b, N,
    ),
    "symm right": (
        [(3, 3), (N, 3)], (N, 3),
        lambda p, f, q, c, **o: B.symm(p, *f, q, c, 1, 1, **o), lambda a, b: b @ whole(a), N,
    ),
    "hemm": (
        [(N, N), (N, 3)], (N, 3),
        lambda p, f, q, c, **o: B.hemm(p, *f, q, c, lower=1, **o), lambda a, b: whole(a, True) @ b, N,
    ),
    "symv": (
        [(N, N), (N,)], (N,), lambda p, f, q, c, **o: B.symv(p, *f, q, c, 1, **o), lambda a, x: whole(a) @ x, N
    ),
    "hemv": (
        [(N, N), (N,)], (N,), lambda p, f, q, c, **o: B.hemv(p, *f, q, c, 1, **o), lambda a, x: whole(a, True) @ x, N
    ),
    "syrk": (
        [(N, K)], (N, N), lambda p, f, q, c, **o: B.syrk(p, *f, q, c, 0, 1, **o), lambda a: lower(a @ a.mT), K
    ),
    "syr2k": (
        [(N, K), (N, K)], (N, N),
        lambda p, f, q, c, **o: B.syr2k(p, *f, q, c, 0, 1, **o), lambda a, b: lower(a @ b.mT + b @ a.mT), 2 * K,
    ),
    "syrkx": (
        [(N, K), (N, K)], (N, N),
        lambda p, f, q, c, **o: B.syrkx(p, *f, q, c, 0, 1, **o), lambda a, b: lower(a @ b.mT), K,
    ),
    "grouped_gemm": (
        [(N, K), (K, 3)], (N, 3),
        lambda p, f, q, c, **o: B.grouped_gemm(p, [f[0]], [f[1]], q, [c], **o)[0], lambda a, b: a @ b, K,
    ),
    "trmm": (
        [(N, N), (N, 3)], None, lambda p, f, q, c, **o: B.trmm(p, *f, lower=1, **o), lambda a, b: lower(a) @ b, N
    ),
    "trmm right": (
        [(3, 3), (N, 3)], None, lambda p, f, q, c, **o: B.trmm(p, *f, 1, 1, **o), lambda a, b: b @ lower(a), N
    ),
}  # fmt: skip
# Functions without precision=.
PLAIN = {
    "ger": ([(N,), (3,)], (N, 3), lambda p, f, q, c: B.ger(p, *f, c), lambda x, y: torch.outer(x, y), 1),
    "syr": ([(N,)], (N, N), lambda p, f, q, c: B.syr(p, *f, 1, c), lambda x: lower(torch.outer(x, x)), 1),
    "syr2": (
        [(N,), (N,)], (N, N), lambda p, f, q, c: B.syr2(p, *f, 1, c),
        lambda x, y: lower(torch.outer(x, y) + torch.outer(y, x)), 2,
    ),
    "gbmv": ([(3, N), (N,)], (N,), lambda p, f, q, c: B.gbmv(N, N, 1, 1, p, *f, q, c), lambda a, x: banded(a) @ x, 3),
    "sbmv": (
        [(2, N), (N,)], (N,), lambda p, f, q, c: B.sbmv(1, p, *f, q, c, 1), lambda a, x: whole(side_band(a)) @ x, 3
    ),
    "spmv": (
        [(N * (N + 1) // 2,), (N,)], (N,), lambda p, f, q, c: B.spmv(N, p, *f, q, c, 1),
        lambda a, x: whole(unpacked(a)) @ x, N,
    ),
    "geam": ([(N, 3)], (N, 3), lambda p, f, q, c: B.geam(p, f[0], q, c), lambda a: a, 1),
    "axpy": ([(N,)], (N,), lambda p, f, q, c: B.axpy(f[0], c, p), lambda x: x, 1),
}  # fmt: skip
UNIT_BETA = ("ger", "syr", "syr2", "axpy")


def _tried(entry, name, dtype, policy, backend, scale=1.0, **options):
    shapes, addend, call, product, terms = entry
    factors = [(gaussian(s, i, F32 if not dtype.is_complex else C64) * scale).to(dtype) for i, s in enumerate(shapes)]
    alpha, beta = (0.37 - 0.21j, -0.81 + 0.4j) if dtype.is_complex else (0.37, -0.81)
    beta = 1.0 if name in UNIT_BETA else beta
    alpha = alpha / scale ** len(factors)
    exact = product(*map(wide, factors))
    size = product(*(wide(x).abs() for x in factors)) * abs(alpha)
    c = None
    if addend is not None:
        # The addend cancels the product up to its own rounding.
        c = (-alpha * exact / beta).to(dtype)
        exact, size = alpha * exact + beta * wide(c), size + abs(beta) * wide(c).abs()
    else:
        exact = alpha * exact
    with backend:
        got = call(alpha, factors, beta, c, **options)
    assert got.dtype == dtype
    stored = ROUNDOFF[dtype] if policy in ("compensated", "fp64") or dtype in (BF16, F16) else 0.0
    before = error_bound(terms, dtype, policy) - (0.0 if policy == "fp32" and dtype in (F32, C64) else stored)
    limit = stored * exact.abs() + max(before, 2.0**-50) * size.abs() + torch.finfo(dtype).smallest_normal
    assert_within(wide(got), exact, limit)


CASES = [(name, BF16, None) for name in TABLE if name[0] != "h"] + [(name, F16, "fp32") for name in ("symm", "trmm")]
CASES += [(name, F32, policy) for name in TABLE for policy in ("fp64", "compensated")]
CASES += [(name, C64, policy) for name in TABLE for policy in ("fp32", "compensated")]


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize(("name", "dtype", "precision"), CASES)
def test_results_are_rounded_once(backend, name, dtype, precision):
    policy = precision or "fast"
    _tried(TABLE[name], name, dtype, policy, backend, precision=precision)


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
def test_functions_without_a_policy_round_once(backend, name, dtype):
    _tried(PLAIN[name], name, dtype, "fast" if dtype is BF16 else "fp32", backend)


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("name", [name for name in (*TABLE, *PLAIN) if name[0] != "h" and name not in ("geam", "axpy")])
def test_what_overflows_before_scaling_is_finite_after_it(backend, name):
    entry = {**TABLE, **PLAIN}[name]
    _tried(entry, name, F16, "fast", backend, scale=250.0)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("differentiated", [False, True])
def test_an_epilogue_is_before_the_rounding(backend, differentiated):
    a, b = gaussian((N, K), 1).to(BF16), gaussian((K, 3), 2).to(BF16)
    product = wide(a) @ wide(b)
    bias = (-2 * product[0]).to(BF16)
    expected = 2 * product + wide(bias)
    size = 2 * (wide(a).abs() @ wide(b).abs()) + wide(bias).abs()
    with backend:
        got = B.gemm(1.0, a.requires_grad_(differentiated), b, epilogue=B.Epilogue(bias=bias, scale=2.0))
    assert_within(wide(got.detach()), expected, 2.0**-8 * expected.abs() + (K + 4) * 2.0**-24 * size)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("precision", ["fast", "fp64", "compensated"])
def test_solutions_are_rounded_once(backend, precision):
    a = (gaussian((N, N), 1) / 8 + 2 * torch.eye(N)).to(F16)
    b = (gaussian((N, 3), 2) * 1e4).to(F16)
    exact = 1e-3 * torch.linalg.solve_triangular(wide(a), wide(b), upper=True)
    with backend:
        got = B.trsm(1e-3, a, b, precision=precision)
    inverse = torch.linalg.inv(wide(a).triu()).abs()
    size = 1e-3 * inverse @ wide(a).triu().abs() @ inverse @ wide(b).abs()
    unit = 2.0**-24 if precision != "fp64" else 2.0**-52
    assert_within(wide(got), exact, 2.0**-11 * exact.abs() + 300 * unit * size)


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("name", ["gemm", "gemv", "symm", "syrk", "syrkx", "grouped_gemm"])
@pytest.mark.parametrize("empty", [True, False])
def test_an_addend_alone_is_rounded_once(backend, name, empty):
    # Neither a sum without terms nor a product times zero makes beta * c one of half precision.
    shapes, addend, call, _, _ = TABLE[name]
    if empty and name != "symm":
        shapes = [tuple(0 if size == K else size for size in shape) for shape in shapes]
    factors, c = [gaussian(shape, 1).to(BF16) for shape in shapes], gaussian(addend, 2).to(BF16)
    with backend:
        got = call(0.37 if empty and name != "symm" else 0.0, factors, 0.5803, c)
    expected = wide(c) * 0.5803
    if name in ("syrk", "syrkx"):
        expected = lower(expected) + wide(c).triu(1)
    assert_within(wide(got), expected, 2.0**-8 * expected.abs())
