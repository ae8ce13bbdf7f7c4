"""Mistakes that type checkers find: each line that ends in ``# wrong`` has one, and no other line has."""

from __future__ import annotations

import numpy as np
import torch

import trnblas
import trnchem
import trnfft
import trnrand
import trnsci
import trnsolver
import trnsparse
import trntensor

a, b = np.eye(4), np.ones(4)
t = torch.eye(4)
csr = trnsparse.CSRMatrix.from_dense(a)

trnblas.gemm(1.0, a, a).relu()  # wrong
trnblas.gemm(1.0, t, t).astype(float)  # wrong
trnblas.gemm(a, a)  # wrong
trnblas.gemm(1.0, "a", a)  # wrong
trnblas.gemm(1.0, a, a, precision="fp31")  # wrong
trnfft.rfft(a).numpy()  # wrong
trnfft.rfft(t).view("float32").ravel_all()  # wrong
trnfft.fft(a, axs=0)  # wrong
trnfft.fftfreq("9")  # wrong
trnrand.normal(3, 4).tobytes()  # wrong
trnrand.uniform(3, lo=0.0)  # wrong
print(trnsolver.eigh(a).value)  # wrong
trnsolver.eigh(a).values.cpu()  # wrong
trnsolver.solve(a, b).mT.sum(dim=0)  # wrong
print(trnsolver.cg(csr, b).solution)  # wrong
trnsolver.cg(csr, b).x.cpu()  # wrong
trnsolver.cg(csr, b, tolerance=1e-3)  # wrong
trnsolver.svd(t).s.astype(float)  # wrong
(csr @ b).cpu()  # wrong
(csr @ csr).numpy()  # wrong
trnsparse.spmv(csr, b).cpu()  # wrong
trntensor.einsum("ij->ji", a).cpu()  # wrong
trnsci.backend("gpu")  # wrong
trnchem.dfmp2("water", options=trnchem.MP2Options(baisis="sto-3g"))  # wrong
print(trnchem.dfmp2("water").energy)  # wrong
