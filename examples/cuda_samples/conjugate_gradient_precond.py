"""Solve a sparse system by conjugate gradients, without and with an incomplete Cholesky preconditioner.

The counterpart of CUDA's conjugateGradientPrecond sample: the five-point Laplacian of a square in compressed rows.
The answer is compared with SciPy's direct sparse solver in float64.

    python examples/cuda_samples/conjugate_gradient_precond.py --grid 24
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
import torch

import trnsci
import trnsolver
import trnsparse


def laplacian(grid):
    """Return the five-point Laplacian of a square of grid x grid points, as SciPy has it."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(grid, grid))
    eye = sp.eye_array(grid)
    return sp.csr_array(sp.kron(line, eye) + sp.kron(eye, line))


def incomplete(a):
    """Return a function close to the inverse: two triangular solves with the incomplete factor."""
    factor = trnsparse.ic0(a)
    return lambda r: trnsparse.solve_triangular(factor, trnsparse.solve_triangular(factor, r), trans="c")


def main(argv=None):
    """Solve twice, compare, and return 0 when both errors are within their bounds and preconditioning saved steps."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--grid", type=int, default=24, help="points along a side")
    parser.add_argument("--tol", type=float, default=1e-5, help="residual to reach, relative to the right-hand side")
    args = parser.parse_args(argv)

    matrix = laplacian(args.grid)
    a = trnsparse.CSRMatrix.from_scipy(matrix.astype(np.float32))
    b = torch.ones(a.shape[0])
    oracle = scipy.sparse.linalg.spsolve(sp.csc_array(matrix), b.double().numpy())
    # the least and the largest eigenvalue of the Laplacian are known
    least = 8 * np.sin(np.pi / (2 * args.grid + 2)) ** 2
    print(f"{a.shape[0]} unknowns, {a.nnz} entries")
    steps, passed = [], True
    for name, preconditioner in (("plain", None), ("incomplete Cholesky", incomplete(a))):
        with trnsci.backend(args.backend):
            found = trnsolver.cg(a, b, tol=args.tol, preconditioner=preconditioner)
        error = np.linalg.norm(found.require().double().numpy() - oracle)
        # residuals drift by a rounding of a @ x a step
        drift = (found.iterations + 2) * torch.finfo(torch.float32).eps * 8 * np.linalg.norm(oracle)
        bound = (args.tol * np.linalg.norm(b) + drift) / least
        steps.append(found.iterations)
        passed &= bool(error <= bound)
        print(f"  {name}: error {error:.1e}, bound {bound:.1e}")
    fewer = steps[1] <= 0.6 * steps[0]
    print(f"steps: {'at most' if fewer else 'more than'} 0.6 of those without a preconditioner")
    passed &= fewer
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
