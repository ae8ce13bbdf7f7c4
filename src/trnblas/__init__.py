"""trnblas: BLAS for Trainium.

| name | what it computes |
|---|---|
| `gemm` | ``alpha * op(a) @ op(b) + beta * c`` |
"""

from trnblas.gemm import gemm
from trnsci import HAS_NKI, library_functions

set_backend, get_backend = library_functions("trnblas")

__all__ = ["HAS_NKI", "gemm", "get_backend", "set_backend"]
