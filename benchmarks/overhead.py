"""What a public function costs over the library function it calls, at a size where the work is nothing.

``python -m benchmarks.overhead [NAME ...]`` prints microseconds per call, the least of many rounds in which ours and
theirs take turns; ``--write`` keeps the table in docs/how-to/overhead.md. Theirs is given what it wants: tensors for
torch, arrays for SciPy, in the order of axes it works in, so that converting operands counts as ours.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
import timeit
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.signal
import scipy.sparse
import torch
from scipy.linalg import blas

import trnblas
import trnfft
import trnsolver
import trnsparse
import trntensor
from trnsci.testing import gaussian

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "overhead.md"
BEGIN, END = "<!-- overhead:begin -->", "<!-- overhead:end -->"
ROUNDS, CALLS = 60, 50

Work = Callable[[], object]
N = 8


def _double(*shape: int, seed: int = 1) -> torch.Tensor:
    return gaussian(shape, seed, torch.float64)


def _fortran(x: torch.Tensor) -> np.ndarray:
    return np.asfortranarray(x.numpy())


def _blas() -> dict[str, tuple[Work, str, Work]]:
    a, b, c = gaussian((N, N), 1), gaussian((N, N), 2), gaussian((N, N), 3)
    x, y = gaussian((N,), 4), gaussian((N,), 5)
    d, w, z = _double(N, N), _double(N, seed=2), _double(N, seed=3)
    packed, band = _double(N * (N + 1) // 2), _double(3, N)
    column, vector, other = _fortran(d), w.numpy(), z.numpy()
    rows = _fortran(band)
    f = functools.partial
    return {
        "gemm": (f(trnblas.gemm, 1.0, a, b), "torch.matmul", f(torch.matmul, a, b)),
        "gemm alpha, c": (f(trnblas.gemm, 2.0, a, b, 1.0, c), "torch.addmm", f(torch.addmm, c, a, b, alpha=2.0)),
        "gemv": (f(trnblas.gemv, 1.0, a, x), "torch.mv", f(torch.mv, a, x)),
        "dot": (f(trnblas.dot, x, y), "torch.dot", f(torch.dot, x, y)),
        "nrm2": (f(trnblas.nrm2, x), "torch.linalg.vector_norm", f(torch.linalg.vector_norm, x)),
        "axpy": (f(trnblas.axpy, x, y, 2.0), "torch.add", f(torch.add, y, x, alpha=2.0)),
        "scal": (f(trnblas.scal, 2.0, x), "torch.mul", f(torch.mul, x, 2.0)),
        "ger": (f(trnblas.ger, 1.0, x, y), "torch.outer", f(torch.outer, x, y)),
        "iamax": (f(trnblas.iamax, x), "torch.argmax", lambda: torch.argmax(x.abs())),
        "trsm": (
            f(trnblas.trsm, 1.0, d, d),
            "torch.linalg.solve_triangular",
            f(torch.linalg.solve_triangular, d, d, upper=True),
        ),
        "symv": (f(trnblas.symv, 1.0, d, w), "blas.dsymv", f(blas.dsymv, 1.0, column, vector)),
        "symm": (f(trnblas.symm, 1.0, d, d), "blas.dsymm", f(blas.dsymm, 1.0, column, column)),
        "syrk": (f(trnblas.syrk, 1.0, d), "blas.dsyrk", f(blas.dsyrk, 1.0, column)),
        "trmm": (f(trnblas.trmm, 1.0, d, d), "blas.dtrmm", f(blas.dtrmm, 1.0, column, column)),
        "trmv": (f(trnblas.trmv, d, w), "blas.dtrmv", f(blas.dtrmv, column, vector)),
        "trsv": (f(trnblas.trsv, d, w), "blas.dtrsv", f(blas.dtrsv, column, vector)),
        "syr": (f(trnblas.syr, 1.0, w), "blas.dsyr", f(blas.dsyr, 1.0, vector)),
        "syr2": (f(trnblas.syr2, 1.0, w, z), "blas.dsyr2", f(blas.dsyr2, 1.0, vector, other)),
        "spmv": (f(trnblas.spmv, N, 1.0, packed, w), "blas.dspmv", f(blas.dspmv, N, 1.0, packed.numpy(), vector)),
        "gbmv": (
            f(trnblas.gbmv, N, N, 1, 1, 1.0, band, w),
            "blas.dgbmv",
            f(blas.dgbmv, N, N, 1, 1, 1.0, rows, vector),
        ),
    }


def _fft() -> dict[str, tuple[Work, str, Work]]:
    z, x = gaussian((N,), 1, torch.complex64), gaussian((N,), 2)
    half = torch.fft.rfft(x)
    image = gaussian((N, N), 3, torch.complex64)
    signal, window = gaussian((64,), 4), torch.hann_window(16)
    array = x.numpy()
    f = functools.partial
    return {
        "fft": (f(trnfft.fft, z), "torch.fft.fft", f(torch.fft.fft, z)),
        "ifft": (f(trnfft.ifft, z), "torch.fft.ifft", f(torch.fft.ifft, z)),
        "rfft": (f(trnfft.rfft, x), "torch.fft.rfft", f(torch.fft.rfft, x)),
        "irfft": (f(trnfft.irfft, half), "torch.fft.irfft", f(torch.fft.irfft, half)),
        "fft2": (f(trnfft.fft2, image), "torch.fft.fft2", f(torch.fft.fft2, image)),
        "fftn": (f(trnfft.fftn, image), "torch.fft.fftn", f(torch.fft.fftn, image)),
        "dct": (f(trnfft.dct, x), "scipy.fft.dct", f(scipy.fft.dct, array)),
        "idct": (f(trnfft.idct, x), "scipy.fft.idct", f(scipy.fft.idct, array)),
        "dst": (f(trnfft.dst, x), "scipy.fft.dst", f(scipy.fft.dst, array)),
        "stft": (
            f(trnfft.stft, signal, 16, window=window),
            "torch.stft",
            f(torch.stft, signal, 16, window=window, return_complex=True),
        ),
        "fftconvolve": (f(trnfft.fftconvolve, x, x), "scipy.signal", f(scipy.signal.fftconvolve, array, array)),
    }


def _sparse() -> dict[str, tuple[Work, str, Work]]:
    dense = torch.where(torch.rand(N, N, generator=torch.Generator().manual_seed(1)) < 0.4, _double(N, N), 0.0)
    own, theirs = trnsparse.CSRMatrix.from_dense(dense), scipy.sparse.csr_array(dense.numpy())
    x, b = _double(N), _double(N, 4)
    vector, columns = x.numpy(), b.numpy()
    f = functools.partial
    return {
        "spmv": (f(trnsparse.spmv, own, x), "scipy.sparse", lambda: theirs @ vector),
        "spmm": (f(trnsparse.spmm, own, b), "scipy.sparse", lambda: theirs @ columns),
        "spgemm": (f(trnsparse.spgemm, own, own), "scipy.sparse", lambda: theirs @ theirs),
        "add": (f(trnsparse.add, own, own), "scipy.sparse", lambda: theirs + theirs),
    }


def _solver() -> dict[str, tuple[Work, str, Work]]:
    a, b, tall = _double(N, N) + 4 * torch.eye(N, dtype=torch.float64), _double(N, 2), _double(2 * N, N)
    spd = a @ a.mT
    right = _double(2 * N, 2)
    factors = torch.linalg.lu_factor(a)
    lower = torch.linalg.cholesky(spd)
    linalg, f = torch.linalg, functools.partial
    array, rows = a.numpy(), b.numpy()
    bands = a[:3].contiguous()
    return {
        "cholesky": (f(trnsolver.cholesky, spd), "torch.linalg", f(linalg.cholesky, spd)),
        "cholesky_solve": (
            f(trnsolver.cholesky_solve, b, lower),
            "torch.cholesky_solve",
            f(torch.cholesky_solve, b, lower),
        ),
        "lu": (f(trnsolver.lu, a), "torch.linalg", f(linalg.lu, a)),
        "lu_factor": (f(trnsolver.lu_factor, a), "torch.linalg", f(linalg.lu_factor, a)),
        "lu_solve": (f(trnsolver.lu_solve, *factors, b), "torch.linalg", f(linalg.lu_solve, *factors, b)),
        "qr": (f(trnsolver.qr, a), "torch.linalg", f(linalg.qr, a)),
        "geqrf": (f(trnsolver.geqrf, a), "torch.geqrf", f(torch.geqrf, a)),
        "svd": (f(trnsolver.svd, a), "torch.linalg", f(linalg.svd, a)),
        "svdvals": (f(trnsolver.svdvals, a), "torch.linalg", f(linalg.svdvals, a)),
        "eigh": (f(trnsolver.eigh, spd), "torch.linalg", f(linalg.eigh, spd)),
        "eigvalsh": (f(trnsolver.eigvalsh, spd), "torch.linalg", f(linalg.eigvalsh, spd)),
        "eig": (f(trnsolver.eig, a), "torch.linalg", f(linalg.eig, a)),
        "solve": (f(trnsolver.solve, a, b), "torch.linalg", f(linalg.solve, a, b)),
        "solve_spd": (
            f(trnsolver.solve_spd, spd, b),
            "torch, two calls",
            lambda: torch.cholesky_solve(b, linalg.cholesky(spd)),
        ),
        "solve_triangular": (
            f(trnsolver.solve_triangular, a, b, upper=True),
            "torch.linalg",
            f(linalg.solve_triangular, a, b, upper=True),
        ),
        "inv": (f(trnsolver.inv, a), "torch.linalg", f(linalg.inv, a)),
        "det": (f(trnsolver.det, a), "torch.linalg", f(linalg.det, a)),
        "slogdet": (f(trnsolver.slogdet, a), "torch.linalg", f(linalg.slogdet, a)),
        "lstsq": (f(trnsolver.lstsq, tall, right), "torch.linalg", f(linalg.lstsq, tall, right)),
        "pinv": (f(trnsolver.pinv, tall), "torch.linalg", f(linalg.pinv, tall)),
        "matrix_rank": (f(trnsolver.matrix_rank, tall), "torch.linalg", f(linalg.matrix_rank, tall)),
        "expm": (f(trnsolver.expm, a), "torch.linalg", f(linalg.matrix_exp, a)),
        "schur": (f(trnsolver.schur, a), "scipy.linalg", f(scipy.linalg.schur, array)),
        "hessenberg": (f(trnsolver.hessenberg, a), "scipy.linalg", f(scipy.linalg.hessenberg, array, calc_q=True)),
        "qr_pivoted": (f(trnsolver.qr_pivoted, a), "scipy.linalg", f(scipy.linalg.qr, array, pivoting=True)),
        "solve_banded": (
            f(trnsolver.solve_banded, (1, 1), bands, b),
            "scipy.linalg",
            f(scipy.linalg.solve_banded, (1, 1), bands.numpy(), rows),
        ),
    }


def _tensor() -> dict[str, tuple[Work, str, Work]]:
    a, b = gaussian((N, N), 1), gaussian((N, N), 2)
    f = functools.partial
    return {
        "einsum": (f(trntensor.einsum, "ij,jk->ik", a, b), "torch.einsum", f(torch.einsum, "ij,jk->ik", a, b)),
        "tensordot": (f(trntensor.tensordot, a, b, 1), "torch.tensordot", f(torch.tensordot, a, b, 1)),
        "transpose": (f(trntensor.transpose, a, (1, 0)), "torch, a copy", lambda: a.permute(1, 0).contiguous()),
    }


LIBRARIES = {"trnblas": _blas, "trnfft": _fft, "trnsparse": _sparse, "trnsolver": _solver, "trntensor": _tensor}


def _least(ours: Work, theirs: Work) -> tuple[float, float]:
    """Microseconds per call of two contenders that take turns, the least of many rounds."""
    works = (ours, theirs)
    first = [min(_timed(work, 5) for _ in range(10)) for work in works]
    # Rounds of about a millisecond: the shorter, the likelier that one of them is undisturbed.
    calls = [max(1, min(CALLS, round(1000 / max(one, 1.0)))) for one in first]
    rounds = [[_timed(*each) for each in zip(works, calls, strict=True)] for _ in range(ROUNDS)]
    return min(pair[0] for pair in rounds), min(pair[1] for pair in rounds)


def _timed(work: Work, calls: int) -> float:
    """Microseconds of this thread's processor time per call: what others do in the meantime does not count."""
    return timeit.timeit(work, number=calls, timer=time.thread_time) / calls * 1e6


def table(names: list[str]) -> str:
    """Measure and return the rows of the table."""
    lines = ["| function | calls | ours | theirs | difference |", "|---|---|---|---|---|"]
    for library, cases in LIBRARIES.items():
        for name, (ours, called, theirs) in cases().items():
            full = f"{library}.{name}"
            if not names or full in names or library in names:
                mine, other = _least(ours, theirs)
                lines.append(f"| `{full}` | {called} | {mine:.1f} µs | {other:.1f} µs | {mine - other:.1f} µs |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="e.g. trnblas.gemm or trnblas; all when left out")
    parser.add_argument("--write", action="store_true", help="write the table into docs/how-to/overhead.md")
    args = parser.parse_args(argv)
    if args.write and args.names:
        parser.error("--write keeps the whole table, so it cannot be given with a choice of functions")
    torch.set_num_threads(1)
    rows = table(args.names)
    print(rows)
    if args.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{rows}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
