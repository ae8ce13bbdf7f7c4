"""Solve a finite-element problem by sparse Cholesky factors, and again with other coefficients on the same mesh.

The counterpart of CUDA's cuSolverSp_LowlevelCholesky sample: linear triangles on a square, heat that is conducted and
lost. Both answers are compared with SciPy's direct solver in float64.

    python examples/cuda_samples/sparse_cholesky.py --grid 24
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
import torch

import trnsci
import trnsolver

# relative error asked for: the factors are float32, and solutions are corrected until it is proved
TARGET = 1e-9


def assembled(grid, loss):
    """Return stiffness plus ``loss`` times mass of linear triangles, and the load of a constant source."""
    node = np.arange(grid * grid).reshape(grid, grid)
    a, b, c, d = (part.reshape(-1) for part in (node[:-1, :-1], node[1:, :-1], node[:-1, 1:], node[1:, 1:]))
    corners = np.concatenate([np.stack([a, b, c], 1), np.stack([d, c, b], 1)])  # [triangles, 3]
    # both kinds of triangle have a right angle at their first corner
    stiff = np.array([[2.0, -1.0, -1.0], [-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]]) / 2
    area = 1 / (2 * (grid - 1) ** 2)
    mass = area / 12 * (np.ones((3, 3)) + np.eye(3))
    local = np.broadcast_to(stiff + loss * mass, (len(corners), 3, 3))
    rows, columns = np.repeat(corners, 3, 1), np.tile(corners, (1, 3))
    matrix = sp.coo_array((local.reshape(-1), (rows.reshape(-1), columns.reshape(-1))), shape=(grid * grid,) * 2)
    return sp.csr_array(matrix), np.bincount(corners.reshape(-1), minlength=grid * grid) * area / 3


def solved(factor, matrix, load):
    """Factor, or factor again on the same pattern, and solve to an error that is proved."""
    if factor is None:
        factor = trnsolver.factor_sparse(matrix, kind="cholesky", method="multifrontal")
    else:
        factor = factor.refactor(matrix)
    return factor, *trnsci.achieved(factor.solve, load, target_error=TARGET)


def main(argv=None):
    """Factor, solve, refactor, solve, compare, and return 0 when both errors are within their bounds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--grid", type=int, default=24, help="nodes along a side")
    args = parser.parse_args(argv)

    passed, factor = True, None
    for loss in (100.0, 400.0):
        matrix, load = assembled(args.grid, loss)
        single = matrix.astype(np.float32)
        single_load = torch.from_numpy(load).float()
        with trnsci.backend(args.backend):
            factor, found, bound = solved(factor, single, single_load)
        oracle = scipy.sparse.linalg.spsolve(sp.csc_array(single.astype(np.float64)), single_load.double().numpy())
        error = np.linalg.norm(found.numpy() - oracle) / np.linalg.norm(oracle)
        # SciPy's own rounding errors count as well, by the condition number of the matrix
        if loss == 100.0:
            print(f"{matrix.shape[0]} nodes, {matrix.nnz} entries, {factor.fill} in the factor")
        passed &= bool(error <= bound + 1e-12)
        print(f"  loss {loss:.0f}: relative error {error:.1e}, verified {bound:.1e}")
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
