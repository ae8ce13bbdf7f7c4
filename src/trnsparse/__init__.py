"""trnsparse: sparse matrices for Trainium, whose unit is the tile.

| name | what it is |
|---|---|
| `COOMatrix`, `CSRMatrix`, `CSCMatrix`, `BSRMatrix`, `DIAMatrix` | formats: ``from_dense``, ``to_scipy`` … |
| `ELL`, `HYB`, `BlockedELL`, `SlicedELL` | formats of other libraries, to read and to write |
| `load` | a matrix from a file |
| `spmv`, `spmm`, `spgemm`, `sddmm`, `spmm_op` | products, the last over any semiring |
| `add`, `multiply`, `kron`, `scale_rows`, `scale_columns`, `triangle`, `eye`, `norm` | arithmetic |
| `solve_triangular`, `ilu0`, `ic0` | triangular solves, incomplete factors |
| `reverse_cuthill_mckee`, `bandwidth`, `coloring` | orders of rows |
| `cg`, `chebyshev`, `richardson`, `power_iteration` | iterations with vectors on chip |
| `choose` | which format is predicted fastest, and why |
| `attention` | block-sparse attention |
| `full`, `causal`, `window`, `sink`, `documents`, `blocks`, `function` | masks, combined with ``&``, ``|`` and ``~`` |
| `schwarz_bounds`, `screen_quartets`, `density_screen`, `screened_spmm` | integral screening |
| `shard_rows` | a matrix cut along its rows between ranks |
| `vectors` | sparse vectors: gather, scatter, axpby, rot, dot |
"""

from typing import TYPE_CHECKING

from trnsci import HAS_NKI, earlier, library_functions
from trnsparse import masks, vectors
from trnsparse.attention import attention
from trnsparse.bound_mask import BoundMask
from trnsparse.bsr import BSRMatrix
from trnsparse.coloring import Coloring, coloring
from trnsparse.coo import COOMatrix
from trnsparse.csr import CSCMatrix, CSRMatrix
from trnsparse.dia import DIAMatrix
from trnsparse.ell import ELL, HYB, BlockedELL, SlicedELL
from trnsparse.files import load
from trnsparse.format_choice import Choice, choose
from trnsparse.iterate import Eigenpair, Solution, cg, chebyshev, power_iteration, richardson
from trnsparse.mask_base import Mask
from trnsparse.masks import blocks, causal, documents, full, function, sink, window
from trnsparse.matrix import SparseMatrix
from trnsparse.products import add, eye, kron, multiply, norm, scale_columns, scale_rows, spgemm, triangle
from trnsparse.row_sharded import RowSharded, shard_rows
from trnsparse.screened_spmm import screened_spmm
from trnsparse.screening import Quartets, density_screen, schwarz_bounds, screen_quartets
from trnsparse.sddmm import sddmm
from trnsparse.semiring import spmm_op
from trnsparse.spmm import spmm, spmv
from trnsparse.triangular import bandwidth, ic0, ilu0, reverse_cuthill_mckee, solve_triangular

set_backend, get_backend = library_functions("trnsparse")

if not TYPE_CHECKING:
    __getattr__ = earlier.names(__name__)

__all__ = [
    "ELL",
    "HAS_NKI",
    "HYB",
    "BSRMatrix",
    "BlockedELL",
    "BoundMask",
    "COOMatrix",
    "CSCMatrix",
    "CSRMatrix",
    "Choice",
    "Coloring",
    "DIAMatrix",
    "Eigenpair",
    "Mask",
    "Quartets",
    "RowSharded",
    "SlicedELL",
    "Solution",
    "SparseMatrix",
    "add",
    "attention",
    "bandwidth",
    "blocks",
    "causal",
    "cg",
    "chebyshev",
    "choose",
    "coloring",
    "density_screen",
    "documents",
    "eye",
    "full",
    "function",
    "get_backend",
    "ic0",
    "ilu0",
    "kron",
    "load",
    "masks",
    "multiply",
    "norm",
    "power_iteration",
    "reverse_cuthill_mckee",
    "richardson",
    "scale_columns",
    "scale_rows",
    "schwarz_bounds",
    "screen_quartets",
    "screened_spmm",
    "sddmm",
    "set_backend",
    "shard_rows",
    "sink",
    "solve_triangular",
    "spgemm",
    "spmm",
    "spmm_op",
    "spmv",
    "triangle",
    "vectors",
    "window",
]
