"""A program of somebody who knows NumPy, SciPy and torch: type checkers find nothing in it."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import trnblas
import trnchem
import trnfft
import trnrand
import trnsci
import trnsolver
import trnsparse
import trntensor

Array = np.ndarray[Any, Any]

a: npt.NDArray[np.float64] = np.eye(4) + 0.1
b = np.ones(4)
t, u = torch.eye(4), torch.ones(4)

# products
assert_type(trnblas.gemm(1.0, a, a), Array)
assert_type(trnblas.gemm(1.0, t, t, precision="fp32"), Tensor)
assert_type(trnblas.gemm(2, t, a), Tensor)
assert_type(trnblas.gemv(1.0, a, b), Array)
assert_type(trnblas.dot(b, b), Array)
assert_type(trnblas.matmul(a, b), Array)
assert_type(trntensor.einsum("ij,jk->ik", a, a), Array)
assert_type(trntensor.einsum("ij,jk->ik", t, t), Tensor)

# transforms
assert_type(trnfft.rfft(t), Tensor)
assert_type(trnfft.rfft(a, axis=0), Array)
assert_type(trnfft.fftn(a, axes=(0, 1), norm="ortho"), Array)
assert_type(trnfft.fft(trnfft.ComplexTensor(t, t)), trnfft.ComplexTensor)
assert_type(trnfft.irfft(trnfft.ComplexTensor(t, t)), Tensor)
assert_type(trnfft.fftfreq(9, 0.1), Tensor)
assert_type(trnfft.fftfreq(9, 0.1, dtype=np.float64), Array)
assert_type(trnfft.fftshift(a), Array)
assert_type(trnfft.fftconvolve(b, b, mode="same"), Array)
power: float = float((abs(trnfft.fft(a)) ** 2).sum())

# random numbers
assert_type(trnrand.uniform(3, 4), Tensor)
assert_type(trnrand.normal(size=(3, 4)), Tensor)
assert_type(trnrand.normal(3, 4, loc=1.0, generator=trnrand.Generator(7)), Tensor)
assert_type(trnrand.Generator(7).normal(3, 4), Tensor)
assert_type(trnrand.poisson(rate=a), Array)
assert_type(trnrand.Sobol(3, seed=1).random(8), Tensor)
noise: Array = trnrand.default_rng(7).normal(0.0, 1.0, size=(3, 4))

# equations and eigenvalues
assert_type(trnsolver.solve(a, b), Array)
assert_type(trnsolver.cholesky(t), Tensor)
assert_type(trnsolver.inv(a), Array)
w, v = trnsolver.eigh(a)
assert_type(w, Array)
assert_type(trnsolver.eigh(t).vectors, Tensor)
left, s, right = trnsolver.svd(t, full_matrices=False)
assert_type(s, Tensor)
assert_type(trnsolver.lstsq(a, b).singular_values, Array)
lu, pivots = trnsolver.lu_factor(a)
assert_type(trnsolver.lu_solve(lu, pivots, b), Array)


def decompose(matrix: Array) -> trnsolver.Eigh[Array]:
    return trnsolver.eigh(matrix)


def multiply(x: Array) -> Array:
    return a @ x


# sparse matrices and iterations
csr = trnsparse.CSRMatrix.from_dense(a)
assert_type(csr @ b, Array)
assert_type(csr @ t, Tensor)
assert_type(csr @ csr, trnsparse.SparseMatrix)
assert_type(trnsparse.spmv(csr, b), Array)
assert_type(trnsolver.cg(csr, b).require(), Array)
assert_type(trnsolver.cg(csr, u, tol=1e-6).x, Tensor)
trnsolver.cg(lambda x: a @ x, b, rtol=1e-8).require()
assert_type(trnsolver.gmres(lambda x: t @ x, u).x, Tensor)
assert_type(trnsolver.cg(a, b, M=trnsolver.jacobi_preconditioner(a)).x, Array)
assert_type(trnsolver.cg(multiply, b, rtol=1e-8).x, Array)
x, iterations, residual = trnsolver.cg(a, b)
assert_type(trnsolver.factor_sparse(csr).solve(b), Array)
assert_type(trnsolver.solve_sparse(csr, u), Tensor)
assert_type(trnsolver.eigsh(csr, 2).values, Tensor)
q = torch.ones(1, 2, 8, 4)
assert_type(trnsparse.attention(q, q, q, trnsparse.causal() & trnsparse.window(4)), Tensor)

# the runtime and chemistry
with trnsci.backend("simulator"), trnsci.ledger():
    trnblas.gemm(1.0, t, t)
print(trnsci.plan(trnblas.gemm, 1.0, t, t).predicted["trn2"])
energy: float = trnchem.dfmp2("water", options=trnchem.MP2Options(basis="sto-3g")).e_corr
