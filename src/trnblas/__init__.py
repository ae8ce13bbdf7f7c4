"""trnblas: BLAS for Trainium.

| names | what they compute |
|---|---|
| `axpy` `scal` `copy` `swap` `rot` `rotg` `rotm` `rotmg` | combinations of vectors |
| `dot` `dotu` `dotc` `nrm2` `asum` `iamax` `iamin` | reductions of vectors |
| `gemv` `ger` `geru` `gerc` `symv` `hemv` `trmv` `trsv` `syr` `her` `syr2` `her2` | matrices and vectors |
| `gbmv` `sbmv` `hbmv` `tbmv` `tbsv` | band matrices and vectors |
| `spmv` `hpmv` `spr` `hpr` `spr2` `hpr2` `tpmv` `tpsv` | packed triangles and vectors |
| `gemm` `matmul` `grouped_gemm` `symm` `hemm` `syrk` `herk` `syr2k` `her2k` `syrkx` `trmm` `trsm` | matrices |
| `gemm_int` `gemm_scaled` | 8-bit integers, exactly; FP8 with scales |
| `geam` `dgmm` | CUDA's extensions: sums of matrices, diagonal factors |
| `mp2_energy` `mp2_pairs` | the fused MP2 correlation energy |
| `nki` | kernels by name: `nki.nki_gemm`, `nki.nki_batched_gemm`, `nki.nki_mp2_energy` |
| `Epilogue` | what follows a product in its kernel |
| `error_bound`, `Achieved` | what a precision guarantees; a result with what was achieved |
"""

__standalone__ = True

from typing import TYPE_CHECKING

from trnblas import nki
from trnblas.accuracy import error_bound
from trnblas.axpy import axpy, copy, scal, swap
from trnblas.banded import gbmv, hbmv, sbmv, tbmv, tbsv
from trnblas.dgmm import dgmm, geam
from trnblas.dot import asum, dot, dotc, dotu, nrm2
from trnblas.epilogue import Epilogue
from trnblas.gemm import gemm
from trnblas.gemv import gemv, ger, gerc, geru
from trnblas.grouped import grouped_gemm
from trnblas.iamax import iamax, iamin
from trnblas.integer import gemm_int
from trnblas.matmul import matmul
from trnblas.mp2 import mp2_energy, mp2_pairs
from trnblas.packed import hpmv, hpr, hpr2, spmv, spr, spr2, tpmv, tpsv
from trnblas.rot import rot, rotg, rotm, rotmg
from trnblas.scaled import gemm_scaled
from trnblas.split import probe
from trnblas.symm import hemm, hemv, symm, symv
from trnblas.syr import her, her2, syr, syr2
from trnblas.syrk import her2k, herk, syr2k, syrk, syrkx
from trnblas.trmm import trmm, trmv
from trnblas.trsm import trsm, trsv
from trnsci import HAS_NKI, Achieved, earlier, library_functions

set_backend, get_backend = library_functions("trnblas")

if not TYPE_CHECKING:
    __getattr__ = earlier.names(__name__)

__all__ = [
    "HAS_NKI",
    "Achieved",
    "Epilogue",
    "asum",
    "axpy",
    "copy",
    "dgmm",
    "dot",
    "dotc",
    "dotu",
    "error_bound",
    "gbmv",
    "geam",
    "gemm",
    "gemm_int",
    "gemm_scaled",
    "gemv",
    "ger",
    "gerc",
    "geru",
    "get_backend",
    "grouped_gemm",
    "hbmv",
    "hemm",
    "hemv",
    "her",
    "her2",
    "her2k",
    "herk",
    "hpmv",
    "hpr",
    "hpr2",
    "iamax",
    "iamin",
    "matmul",
    "mp2_energy",
    "mp2_pairs",
    "nki",
    "nrm2",
    "probe",
    "rot",
    "rotg",
    "rotm",
    "rotmg",
    "sbmv",
    "scal",
    "set_backend",
    "spmv",
    "spr",
    "spr2",
    "swap",
    "symm",
    "symv",
    "syr",
    "syr2",
    "syr2k",
    "syrk",
    "syrkx",
    "tbmv",
    "tbsv",
    "tpmv",
    "tpsv",
    "trmm",
    "trmv",
    "trsm",
    "trsv",
]
