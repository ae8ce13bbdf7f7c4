"""Types of trnblas: written by ``python -m tools.stubs`` from the signatures in the source."""

from collections.abc import Sequence
from typing import overload

import torch
from torch import Tensor

from trnblas import nki as nki
from trnblas.accuracy import error_bound as error_bound
from trnblas.epilogue import Epilogue as Epilogue
from trnblas.rot import rotmg as rotmg
from trnblas.split import probe as probe
from trnsci.accuracy import Achieved as Achieved
from trnsci.arrays import Array
from trnsci.config import BackendName
from trnsci.nki import HAS_NKI as HAS_NKI
from trnsci.precision import Precision

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

@overload
def asum(
    x: Tensor, *, precision: Precision | None = None, target_error: float | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def asum(
    x: Array, *, precision: Precision | None = None, target_error: float | None = None, out: Array | None = None
) -> Array: ...
@overload
def asum(
    x: Tensor | Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def axpy(x: Tensor, y: Tensor, a: complex = 1.0, *, out: Tensor | None = None) -> Tensor: ...
@overload
def axpy(x: Array, y: Array, a: complex = 1.0, *, out: Array | None = None) -> Array: ...
@overload
def axpy(x: Tensor | Array, y: Tensor | Array, a: complex = 1.0, *, out: Tensor | Array | None = None) -> Tensor: ...
@overload
def copy(x: Tensor, y: Tensor | None = None) -> Tensor: ...
@overload
def copy(x: Array, y: Array | None = None) -> Array: ...
@overload
def copy(x: Tensor | Array, y: Tensor | Array | None = None) -> Tensor: ...
@overload
def dgmm(a: Tensor, x: Tensor, side: bool | int | str = True, *, out: Tensor | None = None) -> Tensor: ...
@overload
def dgmm(a: Array, x: Array, side: bool | int | str = True, *, out: Array | None = None) -> Array: ...
@overload
def dgmm(
    a: Tensor | Array, x: Tensor | Array, side: bool | int | str = True, *, out: Tensor | Array | None = None
) -> Tensor: ...
@overload
def dot(
    x: Tensor,
    y: Tensor,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def dot(
    x: Array,
    y: Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def dot(
    x: Tensor | Array,
    y: Tensor | Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def dotc(
    x: Tensor,
    y: Tensor,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def dotc(
    x: Array,
    y: Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def dotc(
    x: Tensor | Array,
    y: Tensor | Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def dotu(
    x: Tensor,
    y: Tensor,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def dotu(
    x: Array,
    y: Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def dotu(
    x: Tensor | Array,
    y: Tensor | Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def gbmv(
    m: int,
    n: int,
    kl: int,
    ku: int,
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    trans: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def gbmv(
    m: int,
    n: int,
    kl: int,
    ku: int,
    alpha: complex,
    a: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    trans: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array: ...
@overload
def gbmv(
    m: int,
    n: int,
    kl: int,
    ku: int,
    alpha: complex,
    a: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    trans: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def geam(
    alpha: complex,
    a: Tensor,
    beta: complex,
    b: Tensor,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def geam(
    alpha: complex,
    a: Array,
    beta: complex,
    b: Array,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array: ...
@overload
def geam(
    alpha: complex,
    a: Tensor | Array,
    beta: complex,
    b: Tensor | Array,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def gemm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    epilogue: Epilogue | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def gemm(
    alpha: complex,
    a: Array,
    b: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    epilogue: Epilogue | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def gemm(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    epilogue: Epilogue | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def gemm_int(
    a: Tensor,
    b: Tensor,
    *,
    zero_a: int = 0,
    zero_b: int = 0,
    bias: Tensor | None = None,
    c: Tensor | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def gemm_int(
    a: Array,
    b: Array,
    *,
    zero_a: int = 0,
    zero_b: int = 0,
    bias: Array | None = None,
    c: Array | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    out: Array | None = None,
) -> Array: ...
@overload
def gemm_int(
    a: Tensor | Array,
    b: Tensor | Array,
    *,
    zero_a: int = 0,
    zero_b: int = 0,
    bias: Tensor | Array | None = None,
    c: Tensor | Array | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def gemm_scaled(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor | float = 1.0,
    scale_b: Tensor | float = 1.0,
    *,
    bias: Tensor | None = None,
    dtype: torch.dtype = ...,
) -> Tensor: ...
@overload
def gemm_scaled(
    a: Array,
    b: Array,
    scale_a: Array | float = 1.0,
    scale_b: Array | float = 1.0,
    *,
    bias: Array | None = None,
    dtype: torch.dtype = ...,
) -> Array: ...
@overload
def gemm_scaled(
    a: Tensor | Array,
    b: Tensor | Array,
    scale_a: Tensor | Array | float = 1.0,
    scale_b: Tensor | Array | float = 1.0,
    *,
    bias: Tensor | Array | None = None,
    dtype: torch.dtype = ...,
) -> Tensor: ...
@overload
def gemv(
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    trans: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def gemv(
    alpha: complex,
    a: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    trans: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def gemv(
    alpha: complex,
    a: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    trans: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def ger(alpha: complex, x: Tensor, y: Tensor, a: Tensor | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def ger(alpha: complex, x: Array, y: Array, a: Array | None = None, *, out: Array | None = None) -> Array: ...
@overload
def ger(
    alpha: complex,
    x: Tensor | Array,
    y: Tensor | Array,
    a: Tensor | Array | None = None,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def gerc(alpha: complex, x: Tensor, y: Tensor, a: Tensor | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def gerc(alpha: complex, x: Array, y: Array, a: Array | None = None, *, out: Array | None = None) -> Array: ...
@overload
def gerc(
    alpha: complex,
    x: Tensor | Array,
    y: Tensor | Array,
    a: Tensor | Array | None = None,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def geru(alpha: complex, x: Tensor, y: Tensor, a: Tensor | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def geru(alpha: complex, x: Array, y: Array, a: Array | None = None, *, out: Array | None = None) -> Array: ...
@overload
def geru(
    alpha: complex,
    x: Tensor | Array,
    y: Tensor | Array,
    a: Tensor | Array | None = None,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
def get_backend() -> BackendName: ...
@overload
def grouped_gemm(
    alpha: complex,
    a: Sequence[Tensor],
    b: Sequence[Tensor],
    beta: complex = 0.0,
    c: Sequence[Tensor] | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
) -> list[Tensor]: ...
@overload
def grouped_gemm(
    alpha: complex,
    a: Sequence[Array],
    b: Sequence[Array],
    beta: complex = 0.0,
    c: Sequence[Array] | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
) -> list[Array]: ...
@overload
def grouped_gemm(
    alpha: complex,
    a: Sequence[Tensor | Array],
    b: Sequence[Tensor | Array],
    beta: complex = 0.0,
    c: Sequence[Tensor | Array] | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
) -> list[Tensor]: ...
@overload
def hbmv(
    k: int,
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def hbmv(
    k: int,
    alpha: complex,
    a: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array: ...
@overload
def hbmv(
    k: int,
    alpha: complex,
    a: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def hemm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def hemm(
    alpha: complex,
    a: Array,
    b: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def hemm(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def hemv(
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def hemv(
    alpha: complex,
    a: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def hemv(
    alpha: complex,
    a: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def her(
    alpha: complex, x: Tensor, lower: bool | int | str = False, a: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def her(
    alpha: complex, x: Array, lower: bool | int | str = False, a: Array | None = None, *, out: Array | None = None
) -> Array: ...
@overload
def her(
    alpha: complex,
    x: Tensor | Array,
    lower: bool | int | str = False,
    a: Tensor | Array | None = None,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def her2(
    alpha: complex,
    x: Tensor,
    y: Tensor,
    lower: bool | int | str = False,
    a: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def her2(
    alpha: complex,
    x: Array,
    y: Array,
    lower: bool | int | str = False,
    a: Array | None = None,
    *,
    out: Array | None = None,
) -> Array: ...
@overload
def her2(
    alpha: complex,
    x: Tensor | Array,
    y: Tensor | Array,
    lower: bool | int | str = False,
    a: Tensor | Array | None = None,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def her2k(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def her2k(
    alpha: complex,
    a: Array,
    b: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def her2k(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def herk(
    alpha: complex,
    a: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def herk(
    alpha: complex,
    a: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def herk(
    alpha: complex,
    a: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def hpmv(
    n: int,
    alpha: complex,
    ap: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def hpmv(
    n: int,
    alpha: complex,
    ap: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array: ...
@overload
def hpmv(
    n: int,
    alpha: complex,
    ap: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def hpr(
    n: int, alpha: complex, x: Tensor, ap: Tensor, lower: bool | int | str = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def hpr(
    n: int, alpha: complex, x: Array, ap: Array, lower: bool | int | str = False, *, out: Array | None = None
) -> Array: ...
@overload
def hpr(
    n: int,
    alpha: complex,
    x: Tensor | Array,
    ap: Tensor | Array,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def hpr2(
    n: int,
    alpha: complex,
    x: Tensor,
    y: Tensor,
    ap: Tensor,
    lower: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def hpr2(
    n: int, alpha: complex, x: Array, y: Array, ap: Array, lower: bool | int | str = False, *, out: Array | None = None
) -> Array: ...
@overload
def hpr2(
    n: int,
    alpha: complex,
    x: Tensor | Array,
    y: Tensor | Array,
    ap: Tensor | Array,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def iamax(x: Tensor) -> Tensor: ...
@overload
def iamax(x: Array) -> Array: ...
@overload
def iamin(x: Tensor) -> Tensor: ...
@overload
def iamin(x: Array) -> Array: ...
@overload
def matmul(a: Tensor, b: Tensor, *, precision: Precision | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def matmul(a: Array, b: Array, *, precision: Precision | None = None, out: Array | None = None) -> Array: ...
@overload
def matmul(
    a: Tensor | Array, b: Tensor | Array, *, precision: Precision | None = None, out: Tensor | Array | None = None
) -> Tensor: ...
@overload
def mp2_energy(
    t_flat: Tensor,
    eps_occ_chunk: Tensor,
    eps_occ_full: Tensor,
    eps_vir: Tensor,
    *,
    symmetric: bool = False,
    first: int = 0,
    target_error: float = 1e-07,
) -> Tensor: ...
@overload
def mp2_energy(
    t_flat: Array,
    eps_occ_chunk: Array,
    eps_occ_full: Array,
    eps_vir: Array,
    *,
    symmetric: bool = False,
    first: int = 0,
    target_error: float = 1e-07,
) -> Array: ...
@overload
def mp2_energy(
    t_flat: Tensor | Array,
    eps_occ_chunk: Tensor | Array,
    eps_occ_full: Tensor | Array,
    eps_vir: Tensor | Array,
    *,
    symmetric: bool = False,
    first: int = 0,
    target_error: float = 1e-07,
) -> Tensor: ...
@overload
def mp2_pairs(
    t_flat: Tensor,
    eps_occ_chunk: Tensor,
    eps_occ_full: Tensor,
    eps_vir: Tensor,
    *,
    symmetric: bool = False,
    first: int = 0,
    target_error: float = 1e-07,
) -> Tensor: ...
@overload
def mp2_pairs(
    t_flat: Array,
    eps_occ_chunk: Array,
    eps_occ_full: Array,
    eps_vir: Array,
    *,
    symmetric: bool = False,
    first: int = 0,
    target_error: float = 1e-07,
) -> Array: ...
@overload
def mp2_pairs(
    t_flat: Tensor | Array,
    eps_occ_chunk: Tensor | Array,
    eps_occ_full: Tensor | Array,
    eps_vir: Tensor | Array,
    *,
    symmetric: bool = False,
    first: int = 0,
    target_error: float = 1e-07,
) -> Tensor: ...
@overload
def nrm2(
    x: Tensor, *, precision: Precision | None = None, target_error: float | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def nrm2(
    x: Array, *, precision: Precision | None = None, target_error: float | None = None, out: Array | None = None
) -> Array: ...
@overload
def nrm2(
    x: Tensor | Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def rot(x: Tensor, y: Tensor, c: float, s: complex) -> tuple[Tensor, Tensor]: ...
@overload
def rot(x: Array, y: Array, c: float, s: complex) -> tuple[Array, Array]: ...
@overload
def rot(x: Tensor | Array, y: Tensor | Array, c: float, s: complex) -> tuple[Tensor, Tensor]: ...
@overload
def rotg(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]: ...
@overload
def rotg(a: Array, b: Array) -> tuple[Array, Array]: ...
@overload
def rotg(a: Tensor | Array, b: Tensor | Array) -> tuple[Tensor, Tensor]: ...
@overload
def rotm(x: Tensor, y: Tensor, param: Tensor) -> tuple[Tensor, Tensor]: ...
@overload
def rotm(x: Array, y: Array, param: Array) -> tuple[Array, Array]: ...
@overload
def rotm(x: Tensor | Array, y: Tensor | Array, param: Tensor | Array) -> tuple[Tensor, Tensor]: ...
@overload
def sbmv(
    k: int,
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def sbmv(
    k: int,
    alpha: complex,
    a: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array: ...
@overload
def sbmv(
    k: int,
    alpha: complex,
    a: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def scal(a: complex, x: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def scal(a: complex, x: Array, *, out: Array | None = None) -> Array: ...
@overload
def scal(a: complex, x: Tensor | Array, *, out: Tensor | Array | None = None) -> Tensor: ...
def set_backend(backend: BackendName | None, *, strict: bool = True) -> None: ...
@overload
def spmv(
    n: int,
    alpha: complex,
    ap: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def spmv(
    n: int,
    alpha: complex,
    ap: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array: ...
@overload
def spmv(
    n: int,
    alpha: complex,
    ap: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def spr(
    n: int, alpha: complex, x: Tensor, ap: Tensor, lower: bool | int | str = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def spr(
    n: int, alpha: complex, x: Array, ap: Array, lower: bool | int | str = False, *, out: Array | None = None
) -> Array: ...
@overload
def spr(
    n: int,
    alpha: complex,
    x: Tensor | Array,
    ap: Tensor | Array,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def spr2(
    n: int,
    alpha: complex,
    x: Tensor,
    y: Tensor,
    ap: Tensor,
    lower: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def spr2(
    n: int, alpha: complex, x: Array, y: Array, ap: Array, lower: bool | int | str = False, *, out: Array | None = None
) -> Array: ...
@overload
def spr2(
    n: int,
    alpha: complex,
    x: Tensor | Array,
    y: Tensor | Array,
    ap: Tensor | Array,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def swap(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]: ...
@overload
def swap(x: Array, y: Array) -> tuple[Array, Array]: ...
@overload
def swap(x: Tensor | Array, y: Tensor | Array) -> tuple[Tensor, Tensor]: ...
@overload
def symm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def symm(
    alpha: complex,
    a: Array,
    b: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def symm(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def symv(
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def symv(
    alpha: complex,
    a: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def symv(
    alpha: complex,
    a: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def syr(
    alpha: complex, x: Tensor, lower: bool | int | str = False, a: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def syr(
    alpha: complex, x: Array, lower: bool | int | str = False, a: Array | None = None, *, out: Array | None = None
) -> Array: ...
@overload
def syr(
    alpha: complex,
    x: Tensor | Array,
    lower: bool | int | str = False,
    a: Tensor | Array | None = None,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def syr2(
    alpha: complex,
    x: Tensor,
    y: Tensor,
    lower: bool | int | str = False,
    a: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def syr2(
    alpha: complex,
    x: Array,
    y: Array,
    lower: bool | int | str = False,
    a: Array | None = None,
    *,
    out: Array | None = None,
) -> Array: ...
@overload
def syr2(
    alpha: complex,
    x: Tensor | Array,
    y: Tensor | Array,
    lower: bool | int | str = False,
    a: Tensor | Array | None = None,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def syr2k(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def syr2k(
    alpha: complex,
    a: Array,
    b: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def syr2k(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def syrk(
    alpha: complex,
    a: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def syrk(
    alpha: complex,
    a: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def syrk(
    alpha: complex,
    a: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def syrkx(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def syrkx(
    alpha: complex,
    a: Array,
    b: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def syrkx(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def tbmv(
    k: int,
    a: Tensor,
    x: Tensor,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def tbmv(
    k: int,
    a: Array,
    x: Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array: ...
@overload
def tbmv(
    k: int,
    a: Tensor | Array,
    x: Tensor | Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def tbsv(
    k: int,
    a: Tensor,
    x: Tensor,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def tbsv(
    k: int,
    a: Array,
    x: Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array: ...
@overload
def tbsv(
    k: int,
    a: Tensor | Array,
    x: Tensor | Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def tpmv(
    n: int,
    ap: Tensor,
    x: Tensor,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def tpmv(
    n: int,
    ap: Array,
    x: Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array: ...
@overload
def tpmv(
    n: int,
    ap: Tensor | Array,
    x: Tensor | Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def tpsv(
    n: int,
    ap: Tensor,
    x: Tensor,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def tpsv(
    n: int,
    ap: Array,
    x: Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array: ...
@overload
def tpsv(
    n: int,
    ap: Tensor | Array,
    x: Tensor | Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def trmm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans_a: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def trmm(
    alpha: complex,
    a: Array,
    b: Array,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans_a: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def trmm(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans_a: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def trmv(
    a: Tensor,
    x: Tensor,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def trmv(
    a: Array,
    x: Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def trmv(
    a: Tensor | Array,
    x: Tensor | Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def trsm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans_a: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def trsm(
    alpha: complex,
    a: Array,
    b: Array,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans_a: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def trsm(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans_a: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def trsv(
    a: Tensor,
    x: Tensor,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def trsv(
    a: Array,
    x: Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def trsv(
    a: Tensor | Array,
    x: Tensor | Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
