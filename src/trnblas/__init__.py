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

from trnblas import nki as nki
from trnblas.accuracy import error_bound as error_bound
from trnblas.axpy import axpy as axpy, copy as copy, scal as scal, swap as swap
from trnblas.banded import gbmv as gbmv, hbmv as hbmv, sbmv as sbmv, tbmv as tbmv, tbsv as tbsv
from trnblas.dgmm import dgmm as dgmm, geam as geam
from trnblas.dot import asum as asum, dot as dot, dotc as dotc, dotu as dotu, nrm2 as nrm2
from trnblas.epilogue import Epilogue as Epilogue
from trnblas.gemm import gemm as gemm
from trnblas.gemv import gemv as gemv, ger as ger, gerc as gerc, geru as geru
from trnblas.grouped import grouped_gemm as grouped_gemm
from trnblas.iamax import iamax as iamax, iamin as iamin
from trnblas.integer import gemm_int as gemm_int
from trnblas.matmul import matmul as matmul
from trnblas.mp2 import mp2_energy as mp2_energy, mp2_pairs as mp2_pairs
from trnblas.packed import (
    hpmv as hpmv,
    hpr as hpr,
    hpr2 as hpr2,
    spmv as spmv,
    spr as spr,
    spr2 as spr2,
    tpmv as tpmv,
    tpsv as tpsv,
)
from trnblas.rot import rot as rot, rotg as rotg, rotm as rotm, rotmg as rotmg
from trnblas.scaled import gemm_scaled as gemm_scaled
from trnblas.split import probe as probe
from trnblas.symm import hemm as hemm, hemv as hemv, symm as symm, symv as symv
from trnblas.syr import her as her, her2 as her2, syr as syr, syr2 as syr2
from trnblas.syrk import her2k as her2k, herk as herk, syr2k as syr2k, syrk as syrk, syrkx as syrkx
from trnblas.trmm import trmm as trmm, trmv as trmv
from trnblas.trsm import trsm as trsm, trsv as trsv
from trnsci import HAS_NKI as HAS_NKI, Achieved as Achieved, earlier, library_functions as _library_functions
from trnsim.lazy import export as _export

set_backend, get_backend = _library_functions("trnblas")
earlier.spell(__name__)
_export(__name__, "nki")
