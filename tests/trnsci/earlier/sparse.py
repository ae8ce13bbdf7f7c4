"""A program of the earlier suite: sparse matrices by the earlier names, against NumPy and torch."""

import inspect
import pickle

import pytest
import scipy.sparse as sp
import torch
import trnsparse.nki
from trnsparse.formats import CSRMatrix

import trnsparse
from trnsparse.screening import screen_quartets

close = torch.testing.assert_close
torch.manual_seed(0)
dense = torch.where(torch.rand(6, 6) > 0.5, torch.randn(6, 6), torch.zeros(()))
K = trnsparse.from_dense(dense)
assert isinstance(K, trnsparse.CSRMatrix)
close(K.to_dense(), dense)
assert K.row_ptrs.shape == (7,)
assert len(K.col_indices) == K.nnz
K2 = trnsparse.CSRMatrix(K.values, K.col_indices, K.row_ptrs, (6, 6))
close(K2.to_dense(), dense)
coo = K.to_coo()
close(trnsparse.COOMatrix(coo.values, coo.row_indices, coo.col_indices, (6, 6)).to_csr().to_dense(), dense)
bs = trnsparse.BSRMatrix.from_dense(dense, block_size=2)
assert bs.block_size == 2
assert bs.n_blocks == bs.blocks.shape[0]
close(trnsparse.BSRMatrix(bs.blocks, bs.block_col_indices, bs.block_row_ptrs, (6, 6), 2).to_dense(), dense)
close(trnsparse.bsr_spmm(bs, torch.eye(6)), dense)
big = trnsparse.BSRMatrix.from_csr(K, 2, threshold=1.0)
assert big.n_blocks <= bs.n_blocks
q = torch.randn(6)
close(trnsparse.spmv(K, q, 2.0, q, 1.0), 2 * dense @ q + q)
close(trnsparse.spmm(K, torch.eye(6), 2.0), 2 * dense)
sym = dense + dense.T
close(trnsparse.spmv_symmetric(trnsparse.from_dense(sym.triu()), q), sym @ q)
close(trnsparse.spmv_symmetric(trnsparse.from_dense(sym), q, uplo="lower"), sym @ q)
close(trnsparse.sparse_add(K, K, 1.0, 2.0).to_dense(), 3 * dense)
close(trnsparse.sparse_scale(K, 2.0).to_dense(), 2 * dense)
close(trnsparse.sparse_transpose(K).to_dense(), dense.T)
assert trnsparse.nnz_per_row(K).tolist() == (dense != 0).sum(1).tolist()
close(trnsparse.eye_sparse(3).to_dense(), torch.eye(3))
close(trnsparse.from_scipy(sp.csr_matrix(dense.numpy())).to_dense(), dense)
spd = torch.eye(6) * 4 + 0.1 * (sym)
bb = trnsparse.BSRMatrix.from_dense(spd, 2)
xx, _, _ = trnsparse.cg_bsr(bb, q)
close(spd @ xx, q, atol=1e-4, rtol=1e-4)
xx, _, _ = trnsparse.cg_bsr(bb, q, M=trnsparse.jacobi_preconditioner_bsr(bb))
close(spd @ xx, q, atol=1e-4, rtol=1e-4)
ev_ = torch.linalg.eigvalsh(spd)
close(trnsparse.chebyshev_bsr(bb, q, float(ev_[0]), float(ev_[-1])), torch.linalg.solve(spd, q), atol=1e-4, rtol=1e-4)
close(trnsparse.richardson_bsr(bb, q, 0.2), torch.linalg.solve(spd, q), atol=1e-4, rtol=1e-4)
lam, vv, _ = trnsparse.power_iteration_bsr(bb, max_iter=3000)
assert abs(lam - float(ev_[-1])) < 1e-2
close(trnsparse.bsr_diagonal(bb), spd.diagonal())
Q_ = trnsparse.schwarz_bounds(torch.rand(4, 4))
assert torch.equal(trnsparse.screen_quartets(Q_, 0.5), torch.einsum("ij,kl->ijkl", Q_, Q_) > 0.5)
assert trnsparse.screen_quartets(Q_[0]).shape == (4, 4)
assert trnsparse.density_screen(Q_, torch.ones(4, 4), 2.0).dtype == torch.bool
assert trnsparse.sparsity_stats(Q_)["n_quartets"] == 4**4
mk = trnsparse.BSRMatrix.from_dense(torch.block_diag(torch.ones(2, 2), torch.ones(2, 2)), 2)
qq = torch.randn(4, 8)
at = trnsparse.block_sparse_attention_tiled(qq, qq, qq, mk)
sc = (qq @ qq.T / 8**0.5).masked_fill(mk.to_dense() == 0, -torch.inf).softmax(-1) @ qq
close(at, sc, atol=1e-5, rtol=1e-5)
close(trnsparse.screened_spmm(K, torch.ones(6), torch.eye(6), 0.5), dense)
close(pickle.loads(pickle.dumps(K)).to_dense(), dense)

# several right-hand sides, and a factor without an addend
both, _, _ = trnsparse.cg_bsr(bb, torch.stack((q, 2 * q), 1))
close(spd @ both, torch.stack((q, 2 * q), 1), atol=1e-4, rtol=1e-4)
close(trnsparse.spmv(K, q, 1.0, None, 2.0), dense @ q)
close(trnsparse.spmm(K, torch.eye(6), beta=0.5), dense)
# a matrix that is multiplied as a dense one
close(trnsparse.spmm(trnsparse.from_dense(dense.double() + 1), torch.eye(6).double()), dense.double() + 1)
assert next(iter(inspect.signature(trnsparse.BSRMatrix).parameters)) == "blocks"
assert CSRMatrix is trnsparse.CSRMatrix
assert screen_quartets is trnsparse.screen_quartets
# a solver that is stopped returns as far as it came
_, steps, _ = trnsparse.cg_bsr(bb, q, max_iter=1, tol=1e-12)
assert steps == 1
steps = trnsparse.chebyshev_coeffs(1.0, 3.0, 3)
close(torch.tensor(steps), torch.tensor([[0.5, 0.0], [4 / 7, 0.125], [7 / 13, 4 / 49]]))
with pytest.raises(ValueError, match=r"shape of blocks is \(1, 4, 3\), expected 4 x 4 blocks"):
    trnsparse.BSRMatrix(torch.ones(1, 4, 3), torch.tensor([0]), torch.tensor([0, 1]), (4, 4), 4)
with pytest.raises(torch.linalg.LinAlgError, match="diagonal entry 0 is zero"):
    trnsparse.jacobi_preconditioner_bsr(trnsparse.BSRMatrix.from_dense(torch.zeros(4, 4), 2))
