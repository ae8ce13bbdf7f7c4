"""trnsparse."""

from trnsci import HAS_NKI, library_functions
from trnsparse.attention import attention
from trnsparse.bound import BoundMask
from trnsparse.bsr import BSRMatrix
from trnsparse.coo import COOMatrix
from trnsparse.csr import CSCMatrix, CSRMatrix
from trnsparse.masks import Mask, blocks, causal, documents, from_bsr, from_dense, full, function, sink, window
from trnsparse.matrix import SparseMatrix, load
from trnsparse.products import add, eye, kron, multiply, norm, scale_columns, scale_rows, spgemm, triangle
from trnsparse.sddmm import sddmm
from trnsparse.spmm import spmm, spmv
from trnsparse.triangular import bandwidth, ic0, ilu0, reverse_cuthill_mckee, solve_triangular

set_backend, get_backend = library_functions("trnsparse")
