"""Solve a sparse symmetric positive definite system by conjugate gradients.

The counterpart of CUDA's conjugateGradient sample: a tridiagonal matrix in compressed rows. The answer is compared with
SciPy's direct banded solver in float64.

    python examples/cuda_samples/conjugate_gradient.py --size 2000
"""

import argparse
import sys

import numpy as np
import scipy.linalg
import torch

import trnsci
import trnsolver
import trnsparse


def tridiagonal(size, seed):
    """Return the diagonal [size] and the neighbours [size - 1] of a diagonally dominant matrix."""
    rng = np.random.default_rng(seed)
    return 2.5 + rng.random(size), -rng.random(size - 1)


def compressed(diagonal, neighbours):
    """Store it by rows: the columns and values of each row, one row after the other."""
    size = len(diagonal)
    values = np.stack([np.append(0.0, neighbours), diagonal, np.append(neighbours, 0.0)], axis=1)  # [size, 3]
    columns = np.arange(size)[:, None] + np.array([-1, 0, 1])  # [size, 3]
    kept = (columns >= 0) & (columns < size)
    pointers = np.append(0, kept.sum(1).cumsum())  # [size + 1]
    return trnsparse.CSRMatrix(pointers, columns[kept], torch.from_numpy(values[kept]).float(), (size, size))


def main(argv=None):
    """Solve, compare, and return 0 when the error is within its bound."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--size", type=int, default=2000, help="unknowns")
    parser.add_argument("--tol", type=float, default=1e-5, help="residual to reach, relative to the right-hand side")
    args = parser.parse_args(argv)

    diagonal, neighbours = tridiagonal(args.size, seed=2027)
    a = compressed(diagonal, neighbours)
    b = torch.ones(args.size)
    with trnsci.backend(args.backend):
        found = trnsolver.cg(a, b, tol=args.tol)
    print(f"{args.size} unknowns, {a.nnz} entries: {found.iterations} steps")

    banded = np.stack([np.append(0.0, neighbours), diagonal, np.append(neighbours, 0.0)])
    oracle = scipy.linalg.solve_banded((1, 1), banded, b.double().numpy())
    error = np.linalg.norm(found.require().double().numpy() - oracle)
    # Gershgorin: eigenvalues lie between the least and the largest of a row's diagonal minus and plus its neighbours.
    # Residuals drift by a rounding of a @ x a step; the entries of the matrix were rounded as well.
    radius = np.append(0.0, -neighbours) + np.append(-neighbours, 0.0)
    least, most = (diagonal - radius).min(), (diagonal + radius).max()
    drift = (found.iterations + 2) * torch.finfo(torch.float32).eps * most * np.linalg.norm(oracle)
    bound = (args.tol * np.linalg.norm(b) + drift) / least
    passed = bool(error <= bound)
    print(f"error {error:.1e}, bound {bound:.1e}")
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
