"""trnsparse: sparse matrices for Trainium, whose unit is the tile.

| name | what it is |
|---|---|
| `COOMatrix`, `CSRMatrix`, `CSCMatrix`, `BSRMatrix`, `DIAMatrix`, `SELLMatrix` | formats |
| `ELL`, `HYB`, `BlockedELL` | formats of other libraries, to read and to write |
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

from trnsci import HAS_NKI as HAS_NKI, earlier, library_functions as _library_functions
from trnsim.lazy import export as _export
from trnsparse import masks as masks, vectors as vectors
from trnsparse.attention import attention as attention
from trnsparse.bound_mask import BoundMask as BoundMask
from trnsparse.bsr import BSRMatrix as BSRMatrix
from trnsparse.coloring import Coloring as Coloring, coloring as coloring
from trnsparse.coo import COOMatrix as COOMatrix
from trnsparse.csr import CSCMatrix as CSCMatrix, CSRMatrix as CSRMatrix
from trnsparse.dia import DIAMatrix as DIAMatrix
from trnsparse.ell import ELL as ELL, HYB as HYB, BlockedELL as BlockedELL
from trnsparse.files import load as load
from trnsparse.format_choice import Choice as Choice, choose as choose
from trnsparse.iterate import (
    Eigenpair as Eigenpair,
    Solution as Solution,
    cg as cg,
    chebyshev as chebyshev,
    power_iteration as power_iteration,
    richardson as richardson,
)
from trnsparse.mask_base import Mask as Mask
from trnsparse.masks import *  # noqa: F403  every public function there
from trnsparse.matrix import SparseMatrix as SparseMatrix
from trnsparse.products import (
    add as add,
    eye as eye,
    kron as kron,
    multiply as multiply,
    norm as norm,
    scale_columns as scale_columns,
    scale_rows as scale_rows,
    spgemm as spgemm,
    triangle as triangle,
)
from trnsparse.row_sharded import RowSharded as RowSharded, shard_rows as shard_rows
from trnsparse.screened_spmm import screened_spmm as screened_spmm
from trnsparse.screening import (
    Quartets as Quartets,
    density_screen as density_screen,
    schwarz_bounds as schwarz_bounds,
    screen_quartets as screen_quartets,
)
from trnsparse.sddmm import sddmm as sddmm
from trnsparse.sell import SELLMatrix as SELLMatrix
from trnsparse.semiring import spmm_op as spmm_op
from trnsparse.spmm import spmm as spmm, spmv as spmv
from trnsparse.triangular import (
    bandwidth as bandwidth,
    ic0 as ic0,
    ilu0 as ilu0,
    reverse_cuthill_mckee as reverse_cuthill_mckee,
    solve_triangular as solve_triangular,
)

set_backend, get_backend = _library_functions("trnsparse")
earlier.spell(__name__)
_export(__name__, "masks", "vectors")
