"""trnblas beside torch, and beside SciPy's BLAS where torch has no such function."""

from __future__ import annotations

from functools import partial as f

import torch
from scipy.linalg import blas

import trnblas
from benchmarks.counterparts import Cases, double, fortran
from trnsci.testing import gaussian

ALONE = {
    "error_bound": "a formula",
    "get_backend": "a setting",
    "set_backend": "a setting",
    "probe": "runs on a device only",
}


def cases(n: int) -> Cases:
    """Calls of matrices with n rows, and of vectors with n elements."""
    return {**_single(n), **_double(n), **_packed(n), **_complex(n), **_mp2(n)}


def _single(n: int) -> Cases:
    a, b, c = (gaussian((n, n), seed) for seed in (1, 2, 3))
    x, y = gaussian((n,), 4), gaussian((n,), 5)
    d, w, z = double(n, n), double(n, seed=2), double(n, seed=3)
    ints = torch.randint(-100, 100, (2, n, n), dtype=torch.int8, generator=torch.Generator().manual_seed(1))
    eight = a.to(torch.float8_e4m3fn)
    several = [a] * 4
    return {
        "gemm": (f(trnblas.gemm, 1.0, a, b), "torch.matmul", f(torch.matmul, a, b)),
        "gemm alpha, c": (f(trnblas.gemm, 2.0, a, b, 1.0, c), "torch.addmm", f(torch.addmm, c, a, b, alpha=2.0)),
        "gemm compensated": (
            f(trnblas.gemm, 1.0, d, d, precision="compensated"),
            "torch.matmul, float64",
            f(torch.matmul, d, d),
        ),
        "dot compensated": (f(trnblas.dot, w, z, precision="compensated"), "torch.dot, float64", f(torch.dot, w, z)),
        "gemm target_error": (f(trnblas.gemm, 1.0, a, b, target_error=1e-3), "torch.matmul", f(torch.matmul, a, b)),
        "matmul": (f(trnblas.matmul, a, b), "torch.matmul", f(torch.matmul, a, b)),
        "gemm_int": (
            f(trnblas.gemm_int, *ints),
            "torch.matmul, int32",
            lambda: torch.matmul(ints[0].int(), ints[1].int()),
        ),
        "gemm_scaled": (
            f(trnblas.gemm_scaled, eight, eight),
            "torch.matmul, float32",
            lambda: torch.matmul(eight.float(), eight.float()),
        ),
        "grouped_gemm": (
            f(trnblas.grouped_gemm, 1.0, several, several),
            "torch.matmul, each",
            lambda: [torch.matmul(one, one) for one in several],
        ),
        "gemv": (f(trnblas.gemv, 1.0, a, x), "torch.mv", f(torch.mv, a, x)),
        "dot": (f(trnblas.dot, x, y), "torch.dot", f(torch.dot, x, y)),
        "nrm2": (f(trnblas.nrm2, x), "torch.linalg.vector_norm", f(torch.linalg.vector_norm, x)),
        "asum": (f(trnblas.asum, x), "torch.sum", lambda: x.abs().sum()),
        "axpy": (f(trnblas.axpy, x, y, 2.0), "torch.add", f(torch.add, y, x, alpha=2.0)),
        "scal": (f(trnblas.scal, 2.0, x), "torch.mul", f(torch.mul, x, 2.0)),
        "copy": (f(trnblas.copy, x), "torch.clone", x.clone),
        "swap": (f(trnblas.swap, x, y), "torch.clone, twice", lambda: (x.clone(), y.clone())),
        "iamax": (f(trnblas.iamax, x), "torch.argmax", lambda: torch.argmax(x.abs())),
        "iamin": (f(trnblas.iamin, x), "torch.argmin", lambda: torch.argmin(x.abs())),
        "ger": (f(trnblas.ger, 1.0, x, y), "torch.outer", f(torch.outer, x, y)),
        "rot": (f(trnblas.rot, x, y, 0.6, 0.8), "torch, two sums", lambda: (0.6 * x + 0.8 * y, 0.6 * y - 0.8 * x)),
        "dgmm": (f(trnblas.dgmm, a, x), "torch.mul", lambda: a * x),
        "geam": (f(trnblas.geam, 2.0, a, 3.0, b), "torch.add", lambda: 2.0 * a + 3.0 * b),
    }


def _double(n: int) -> Cases:
    d, e, w, z = double(n, n) + 4 * torch.eye(n).double(), double(n, n, seed=5), double(n, seed=2), double(n, seed=3)
    column, other, vector, second = fortran(d), fortran(e), w.numpy(), z.numpy()
    band, rows = double(3, n), fortran(double(3, n))
    band[-1] += 4
    linalg = torch.linalg
    parameters = torch.tensor([-1.0, 0.6, -0.8, 0.8, 0.6], dtype=torch.float64)
    pair = torch.tensor(3.0, dtype=torch.float64), torch.tensor(4.0, dtype=torch.float64)
    return {
        "trsm": (
            f(trnblas.trsm, 1.0, d, e),
            "torch.linalg.solve_triangular",
            f(linalg.solve_triangular, d, e, upper=True),
        ),
        "symv": (f(trnblas.symv, 1.0, d, w), "blas.dsymv", f(blas.dsymv, 1.0, column, vector)),
        "symm": (f(trnblas.symm, 1.0, d, e), "blas.dsymm", f(blas.dsymm, 1.0, column, other)),
        "syrk": (f(trnblas.syrk, 1.0, d), "blas.dsyrk", f(blas.dsyrk, 1.0, column)),
        "syrkx": (f(trnblas.syrkx, 1.0, d, e), "blas.dgemm", f(blas.dgemm, 1.0, column, other, trans_b=1)),
        "syr2k": (f(trnblas.syr2k, 1.0, d, e), "blas.dsyr2k", f(blas.dsyr2k, 1.0, column, other)),
        "trmm": (f(trnblas.trmm, 1.0, d, e), "blas.dtrmm", f(blas.dtrmm, 1.0, column, other)),
        "trmv": (f(trnblas.trmv, d, w), "blas.dtrmv", f(blas.dtrmv, column, vector)),
        "trsv": (f(trnblas.trsv, d, w), "blas.dtrsv", f(blas.dtrsv, column, vector)),
        "syr": (f(trnblas.syr, 1.0, w), "blas.dsyr", f(blas.dsyr, 1.0, vector)),
        "syr2": (f(trnblas.syr2, 1.0, w, z), "blas.dsyr2", f(blas.dsyr2, 1.0, vector, second)),
        "gbmv": (f(trnblas.gbmv, n, n, 1, 1, 1.0, band, w), "blas.dgbmv", f(blas.dgbmv, n, n, 1, 1, 1.0, rows, vector)),
        "sbmv": (f(trnblas.sbmv, 2, 1.0, band, w), "blas.dsbmv", f(blas.dsbmv, 2, 1.0, rows, vector)),
        "tbmv": (f(trnblas.tbmv, 2, band, w), "blas.dtbmv", f(blas.dtbmv, 2, rows, vector)),
        "tbsv": (f(trnblas.tbsv, 2, band, w), "blas.dtbsv", f(blas.dtbsv, 2, fortran(band), vector)),
        "rotg": (f(trnblas.rotg, *pair), "blas.drotg", f(blas.drotg, 3.0, 4.0)),
        "rotm": (
            f(trnblas.rotm, w, z, parameters),
            "blas.drotm",
            f(blas.drotm, vector, second, parameters.numpy()),
        ),
        "rotmg": (f(trnblas.rotmg, 1.0, 2.0, 3.0, 4.0), "blas.drotmg", f(blas.drotmg, 1.0, 2.0, 3.0, 4.0)),
    }


def _packed(n: int) -> Cases:
    packed, w, z = double(n * (n + 1) // 2) + 4, double(n, seed=2), double(n, seed=3)
    array, vector, second = packed.numpy(), w.numpy(), z.numpy()
    c, u, v = (gaussian((size,), seed, torch.complex128) for size, seed in ((len(packed), 1), (n, 2), (n, 3)))
    ap, one, two = c.numpy(), u.numpy(), v.numpy()
    return {
        "spmv": (f(trnblas.spmv, n, 1.0, packed, w), "blas.dspmv", f(blas.dspmv, n, 1.0, array, vector)),
        "spr": (f(trnblas.spr, n, 1.0, w, packed), "blas.dspr", f(blas.dspr, n, 1.0, vector, array)),
        "spr2": (f(trnblas.spr2, n, 1.0, w, z, packed), "blas.dspr2", f(blas.dspr2, n, 1.0, vector, second, array)),
        "tpmv": (f(trnblas.tpmv, n, packed, w), "blas.dtpmv", f(blas.dtpmv, n, array, vector)),
        "tpsv": (f(trnblas.tpsv, n, packed, w), "blas.dtpsv", f(blas.dtpsv, n, array, vector)),
        "hpmv": (f(trnblas.hpmv, n, 1.0, c, u), "blas.zhpmv", f(blas.zhpmv, n, 1.0, ap, one)),
        "hpr": (f(trnblas.hpr, n, 1.0, u, c), "blas.zhpr", f(blas.zhpr, n, 1.0, one, ap)),
        "hpr2": (
            f(trnblas.hpr2, n, 1.0, u, v, c),
            "blas.zhpr2",
            f(blas.zhpr2, n, 1.0, one, two, ap),
        ),
    }


def _complex(n: int) -> Cases:
    a, b = (gaussian((n, n), seed, torch.complex128) for seed in (1, 2))
    x, y = (gaussian((n,), seed, torch.complex128) for seed in (3, 4))
    column, other, vector, second = fortran(a), fortran(b), x.numpy(), y.numpy()
    band = gaussian((3, n), 5, torch.complex128)
    return {
        "dotu": (f(trnblas.dotu, x, y), "torch.dot", f(torch.dot, x, y)),
        "dotc": (f(trnblas.dotc, x, y), "torch.vdot", f(torch.vdot, x, y)),
        "geru": (f(trnblas.geru, 1.0, x, y), "torch.outer", f(torch.outer, x, y)),
        "gerc": (f(trnblas.gerc, 1.0, x, y), "torch.outer", lambda: torch.outer(x, y.conj())),
        "hemv": (f(trnblas.hemv, 1.0, a, x), "blas.zhemv", f(blas.zhemv, 1.0, column, vector)),
        "hbmv": (f(trnblas.hbmv, 2, 1.0, band, x), "blas.zhbmv", f(blas.zhbmv, 2, 1.0, fortran(band), vector)),
        "her": (f(trnblas.her, 1.0, x), "blas.zher", f(blas.zher, 1.0, vector)),
        "her2": (f(trnblas.her2, 1.0, x, y), "blas.zher2", f(blas.zher2, 1.0, vector, second)),
        "hemm": (f(trnblas.hemm, 1.0, a, b), "blas.zhemm", f(blas.zhemm, 1.0, column, other)),
        "herk": (f(trnblas.herk, 1.0, a), "blas.zherk", f(blas.zherk, 1.0, column)),
        "her2k": (f(trnblas.her2k, 1.0, a, b), "blas.zher2k", f(blas.zher2k, 1.0, column, other)),
    }


def _mp2(n: int) -> Cases:
    occupied, virtual = 4, max(2, n // 8)
    t = double(occupied * virtual, occupied * virtual)
    low, high = -1.0 - double(occupied).abs(), 1.0 + double(virtual, seed=2).abs()

    def pairs() -> torch.Tensor:
        whole = t.view(occupied, virtual, occupied, virtual).transpose(1, 2)
        below = low[:, None, None, None] + low[:, None, None] - high[:, None] - high
        return (whole * (2 * whole - whole.mT) / below).sum((-2, -1))

    return {
        "mp2_pairs": (f(trnblas.mp2_pairs, t, low, low, high), "torch, written out", pairs),
        "mp2_energy": (f(trnblas.mp2_energy, t, low, low, high), "torch, written out", lambda: pairs().sum()),
    }
