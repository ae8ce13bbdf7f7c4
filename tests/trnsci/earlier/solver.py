"""A program of the earlier suite: solvers by the earlier names, against NumPy and torch."""

import pytest
import torch
import trnsolver.nki

import trnsolver

close = torch.testing.assert_close
torch.manual_seed(0)
A = torch.randn(5, 5)
B = torch.randn(5, 5)
x = torch.randn(5)
S = A @ A.T + 5 * torch.eye(5)
w_, V_ = trnsolver.eigh(S)
close(V_ @ torch.diag(w_) @ V_.T, S, atol=1e-4, rtol=1e-4)
U, s_, Vh = trnsolver.svd(torch.randn(6, 3))
assert U.shape == (6, 3)
xs, it, res = trnsolver.cg(S, x)
close(S @ xs, x, atol=1e-4, rtol=1e-4)
assert isinstance(it, int)
assert isinstance(res, float)
xs, it, res = trnsolver.cg(lambda q: S @ q, x, M=trnsolver.jacobi_preconditioner(S), maxiter=50, tol=1e-6)
close(S @ xs, x, atol=1e-4, rtol=1e-4)
xs, _, _ = trnsolver.cg(A=S, b=x, M=torch.diag(1 / S.diagonal()))
xs, _, _ = trnsolver.gmres(A + 6 * torch.eye(5), x)
close((A + 6 * torch.eye(5)) @ xs, x, atol=1e-4, rtol=1e-4)
close(
    trnsolver.inv_sqrt_spd_ns(S, max_iters=30) @ trnsolver.inv_sqrt_spd_ns(S), torch.linalg.inv(S), atol=1e-4, rtol=1e-4
)
close(trnsolver.solve_spd(S, B, iterative_refinement=True), torch.linalg.solve(S, B), atol=1e-5, rtol=1e-5)
P, L, Uu = trnsolver.lu(A)
close(P @ L @ Uu, A, atol=1e-5, rtol=1e-5)
assert trnsolver.cholesky(S.half()).dtype == torch.float16
trnsolver.block_jacobi_preconditioner(S, 2)
trnsolver.ssor_preconditioner(S, 1.2)
close(trnsolver.pinv(A) @ A, torch.eye(5), atol=1e-3, rtol=1e-3)

with pytest.raises(torch.linalg.LinAlgError, match="positive definite"):
    trnsolver.cholesky(-torch.eye(3))
block = trnsolver.block_jacobi_preconditioner(2 * torch.eye(3))  # smaller than a block of 16
assert torch.equal(block(torch.ones(3)), torch.full((3,), 0.5))
assert trnsolver.cg(torch.eye(3).bfloat16(), torch.ones(3).bfloat16())[0].dtype == torch.bfloat16
