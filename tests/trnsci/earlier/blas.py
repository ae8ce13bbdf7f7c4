"""A program of the earlier suite: products by the earlier names, against NumPy and torch."""

import pickle

import pytest
import torch
from trnblas.nki.dispatch import HAS_NKI, get_backend, set_backend

import trnblas
import trnsci
import trntensor
from trnblas.nki import nki_batched_pair_energy, nki_fused_gemm_energy, nki_gemm, nki_syrk, nki_trsm

close = torch.testing.assert_close
torch.manual_seed(0)
A = torch.randn(5, 5)
B = torch.randn(5, 5)
C = torch.randn(5, 5)
x = torch.randn(5)
y = torch.randn(5)
S = A @ A.T + 5 * torch.eye(5)
close(trnblas.axpy(2.0, x, y), 2 * x + y)
close(trnblas.gemm(2.0, A, B, beta=0.5, C=C, transA=True, transB=True), 2 * A.T @ B.T + 0.5 * C)
close(trnblas.gemm(1.0, A=A, B=B), A @ B)
close(trnblas.gemv(1.0, A, x, 1.0, y, True), A.T @ x + y)
close(trnblas.symv(1.0, S, x, uplo="lower"), S @ x)
close(trnblas.trmv(A, x, uplo="lower", diag="unit"), (A.tril(-1) + torch.eye(5)) @ x)
close(trnblas.ger(1.0, x, y, A), torch.outer(x, y) + A)
close(trnblas.syrk(1.0, A), A @ A.T)
close(trnblas.syrk(1.0, A, trans=True, uplo="lower", beta=1.0, C=C), A.T @ A + C)
close(trnblas.trsm(2.0, S, B, uplo="lower", trans=True), torch.linalg.solve(S.tril().T, 2 * B))
close(trnblas.trmm(1.0, S, B, side="right"), B @ S.triu())
close(trnblas.symm(1.0, S, B, side="right", uplo="lower"), B @ S)
close(trnblas.batched_gemm(1.0, A.expand(3, 5, 5), B.expand(3, 5, 5)), (A @ B).expand(3, 5, 5))
h = A.half()
assert trnblas.gemm(1.0, h, h).dtype == torch.float16
close(nki_gemm(A, B), A @ B, atol=1e-4, rtol=1e-4)
close(nki_syrk(A), A @ A.T, atol=1e-4, rtol=1e-4)
close(nki_trsm(S, B, uplo="lower"), torch.linalg.solve(S.tril(), B), atol=1e-3, rtol=1e-3)
Bf = torch.randn(3, 4, 6)
eo = torch.tensor([-2.0, -1.5, -1.0])
ev = torch.tensor([0.5, 0.7, 1.0, 1.5])
T = torch.einsum("iap,jbp->ijab", Bf, Bf)
D = eo[:, None, None, None] + eo[None, :, None, None] - ev[None, None, :, None] - ev[None, None, None, :]
E = (T * (2 * T - T.transpose(2, 3)) / D).sum((2, 3))
close(nki_batched_pair_energy(Bf, eo, ev), E, atol=1e-3, rtol=1e-3)
close(nki_fused_gemm_energy(Bf[0], Bf[1], eo[0], eo[1], ev), E[0, 1], atol=1e-3, rtol=1e-3)
close(trntensor.mp2_energy(Bf, eo, ev), E.sum(), atol=1e-3, rtol=1e-3)
for backend in ("auto", "pytorch"):
    trnblas.set_backend(backend)
    assert trnblas.get_backend() == backend

# a factor without an addend counts for nothing, and every library has a version and its backend under nki.dispatch
assert torch.equal(trnblas.gemm(1.0, torch.eye(2), torch.eye(2), beta=0.5), torch.eye(2))
assert isinstance(trnblas.__version__, str)
set_backend("pytorch")
assert trnblas.get_backend() == get_backend() == "pytorch"
set_backend("auto")
if not HAS_NKI:
    with pytest.raises(RuntimeError, match="nki is not installed"):
        set_backend("nki")

names: dict[str, object] = {}
exec("from trnblas import *; from trnblas.level3 import trsm", names)
assert names["batched_gemm"] is trnblas.batched_gemm
assert names["trsm"] is trnblas.trsm

# norms are those of all elements, and what torch refused is its RuntimeError too
close(trnblas.nrm2(A), torch.linalg.norm(A))
close(trnblas.asum(A), A.abs().sum())
assert trnblas.iamax(A) == A.abs().argmax()
for kind in (ValueError, RuntimeError):
    with pytest.raises(kind, match="a has K=5, b has K=4") as caught:
        trnblas.gemm(1.0, A, A[:4])
assert type(pickle.loads(pickle.dumps(caught.value))) is trnsci.ArgumentError
assert caught.value.got == {"a": 5, "b": 4}
with pytest.raises(TypeError, match="missing 1 required positional argument: 'B'"):
    trnblas.gemm(1.0, A)
