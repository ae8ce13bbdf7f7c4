"""Types of trnsparse: written by ``python -m tools.stubs`` from the signatures in the source."""

from trnsci.nki import HAS_NKI as HAS_NKI
from trnsparse import masks as masks, vectors as vectors
from trnsparse._types import (
    Eigenpair as Eigenpair,
    Solution as Solution,
    add as add,
    attention as attention,
    bandwidth as bandwidth,
    blocks as blocks,
    causal as causal,
    cg as cg,
    chebyshev as chebyshev,
    choose as choose,
    coloring as coloring,
    density_screen as density_screen,
    documents as documents,
    full as full,
    function as function,
    get_backend as get_backend,
    ic0 as ic0,
    ilu0 as ilu0,
    kron as kron,
    multiply as multiply,
    norm as norm,
    power_iteration as power_iteration,
    reverse_cuthill_mckee as reverse_cuthill_mckee,
    richardson as richardson,
    scale_columns as scale_columns,
    scale_rows as scale_rows,
    schwarz_bounds as schwarz_bounds,
    screen_quartets as screen_quartets,
    screened_spmm as screened_spmm,
    sddmm as sddmm,
    set_backend as set_backend,
    shard_rows as shard_rows,
    sink as sink,
    solve_triangular as solve_triangular,
    spgemm as spgemm,
    spmm as spmm,
    spmm_op as spmm_op,
    spmv as spmv,
    triangle as triangle,
    window as window,
)
from trnsparse.bound_mask import BoundMask as BoundMask
from trnsparse.bsr import BSRMatrix as BSRMatrix
from trnsparse.coloring import Coloring as Coloring
from trnsparse.coo import COOMatrix as COOMatrix
from trnsparse.csr import CSCMatrix as CSCMatrix, CSRMatrix as CSRMatrix
from trnsparse.dia import DIAMatrix as DIAMatrix
from trnsparse.ell import ELL as ELL, HYB as HYB, BlockedELL as BlockedELL
from trnsparse.files import load as load
from trnsparse.format_choice import Choice as Choice
from trnsparse.mask_base import Mask as Mask
from trnsparse.matrix import SparseMatrix as SparseMatrix
from trnsparse.products import eye as eye
from trnsparse.row_sharded import RowSharded as RowSharded
from trnsparse.screening import Quartets as Quartets
from trnsparse.sell import SELLMatrix as SELLMatrix
