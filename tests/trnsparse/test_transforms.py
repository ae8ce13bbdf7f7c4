"""Every function under torch.func.vmap and on the meta device: it works, or says why not."""

import pytest
import torch

import trnsparse as ts
from tests.together import together
from trnsci.errors import TrnError
from trnsci.testing import assert_within, gamma, gaussian

A = ts.CSRMatrix.from_dense(3 * torch.eye(6))
BLOCKS, COLUMNS, ENTRIES = A.to_bsr(2), A.to_csc(), A.to_coo()
ONES, SQUARE = torch.ones(6), gaussian((4, 6, 6), 5).abs() + 1
MATRIX, VECTOR = gaussian((4, 6, 3), 1), gaussian((4, 6), 2).abs() + 1

CALLS = {
    "spmm": (lambda b: ts.spmm(A, b), MATRIX),
    "spmm transposed": (lambda b: ts.spmm(A, b, trans=True), MATRIX),
    "spmm of columns": (lambda b: COLUMNS @ b, MATRIX),
    "spmm of entries": (lambda b: ENTRIES @ b, MATRIX),
    "spmm of blocks": (lambda b: BLOCKS @ b, MATRIX),
    "spmv": (lambda x: ts.spmv(A, x, alpha=2.0), VECTOR),
    "values": (lambda v: A.with_values(v) @ torch.ones(6, 2), VECTOR),
    "values of columns": (lambda v: ENTRIES.with_values(v).to_csc() @ ONES, VECTOR),
    "CSRMatrix": (lambda v: ts.CSRMatrix(A.indptr, A.indices, v, (6, 6)) @ ONES, VECTOR),
    "spmm_op": (lambda b: ts.spmm_op(A, b), MATRIX),
    "sddmm": (lambda b: ts.sddmm(A, b, b.mT).values, MATRIX),
    "sddmm on blocks": (lambda b: ts.sddmm(BLOCKS, b, b.mT).values, MATRIX),
    "screened_spmm": (lambda b: ts.screened_spmm(BLOCKS, ONES, ONES, b, 0.5), MATRIX),
    "screened_spmm of bounds": (lambda u: ts.screened_spmm(BLOCKS, u, ONES, torch.ones(6, 1), 0.5), VECTOR),
    "attention": (lambda q: ts.attention(q, q, q, ts.causal()), MATRIX),
    "solve_triangular": (lambda b: ts.solve_triangular(A, b), MATRIX),
    "solve_triangular of values": (lambda v: ts.solve_triangular(A.with_values(v), ONES), VECTOR),
    "cg": (lambda x: ts.cg(A, x).x, VECTOR),
    "chebyshev": (lambda x: ts.chebyshev(A, x, smallest=1.0, largest=4.0).x, VECTOR),
    "richardson": (lambda x: ts.richardson(A, x, omega=0.3).x, VECTOR),
    "power_iteration": (lambda x: ts.power_iteration(A, x0=x).vector, VECTOR),
    "scale_rows": (lambda d: ts.scale_rows(A, d).values, VECTOR),
    "add": (lambda v: (A.with_values(v) + A).values, VECTOR),
    "multiply": (lambda v: (A.with_values(v) * A).values, VECTOR),
    "spgemm": (lambda v: (A.with_values(v) @ A).values, VECTOR),
    "kron": (lambda v: ts.kron(A.with_values(v), A).values, VECTOR),
    "norm": (lambda v: ts.norm(A.with_values(v)), VECTOR),
    "spectral norm": (lambda v: ts.norm(A.with_values(v), 2), VECTOR),
    "to_dense": (lambda v: A.with_values(v).to_dense(), VECTOR),
    "to_bsr": (lambda v: A.with_values(v).to_bsr(2).values, VECTOR),
    "from_dense": (lambda d: ts.CSRMatrix.from_dense(d).values, SQUARE),
    "ilu0": (lambda v: ts.ilu0(A.with_values(v))[1].values, VECTOR),
    "ic0": (lambda v: ts.ic0(A.with_values(v)).values, VECTOR),
    "schwarz_bounds": (ts.schwarz_bounds, SQUARE),
    "screen_quartets": (lambda q: ts.screen_quartets(q, 0.1).counts, SQUARE),
    "density_screen": (lambda q: ts.density_screen(q, q, 0.1).values, SQUARE),
    "gather": (lambda x: ts.vectors.gather(x, [0, 2]), VECTOR),
    "scatter": (lambda x: ts.vectors.scatter(torch.ones(2), [0, 2], x), VECTOR),
    "axpby": (lambda x: ts.vectors.axpby(2.0, torch.ones(2), [0, 2], 1.0, x), VECTOR),
    "rot": (lambda x: ts.vectors.rot(torch.ones(2), [0, 2], x, 0.6, 0.8)[1], VECTOR),
    "dot": (lambda x: ts.vectors.dot(torch.ones(2), [0, 2], x), VECTOR),
    "slice": (lambda v: A.with_values(v)[1:3].values, VECTOR),
    "element": (lambda v: A.with_values(v)[1, 1], VECTOR),
    "diagonal": (lambda v: A.with_values(v).diagonal(), VECTOR),
    "sum": (lambda v: A.with_values(v).sum(0), VECTOR),
}
# What these do depends on the data they are given.
DATA = {
    "screened_spmm of bounds",
    "solve_triangular",
    "solve_triangular of values",
    "cg",
    "chebyshev",
    "richardson",
    "power_iteration",
    "spectral norm",
    "from_dense",
    "ilu0",
    "ic0",
    "screen_quartets",
    "density_screen",
}

# These have an operand with data beside the one without, or would have to look for entries.
MIXED = {
    "spmm_op",
    "screened_spmm",
    "values of columns",
    "scale_rows",
    "add",
    "multiply",
    "spgemm",
    "kron",
    "to_bsr",
    "scatter",
}
MIXED |= {"axpby", "rot", "dot", "slice", "element", "diagonal"}


@together("name", CALLS)
def test_vmap_is_a_loop_or_an_error(name):
    call, batch = CALLS[name]
    each = torch.stack([call(member) for member in batch]).double()
    if name in DATA:
        with pytest.raises(TrnError, match=r"depend on the data of"):
            torch.func.vmap(call)(batch)
    else:
        # two orders of sums of at most 6 terms, of numbers whose products stay below the square of the largest
        limit = 2 * gamma(6 + 2, torch.float32) * 6 * float(batch.abs().max() + 3) ** 2
        assert_within(torch.func.vmap(call)(batch).double(), each, limit)


@together("name", CALLS)
def test_without_data_there_is_a_shape_or_an_error(name):
    call, batch = CALLS[name]
    if name in DATA | MIXED:
        with pytest.raises(TrnError, match=r"meta|depend on the data of"):
            call(batch[0].to("meta"))
    else:
        result = call(batch[0].to("meta"))
        assert result.is_meta
        assert result.shape == call(batch[0]).shape
