"""Eigenvalues and eigenvectors of a symmetric matrix.

The counterpart of the cuSOLVER syevd samples. A small matrix whose eigenvalues are 2, 3 and 4 is printed; a larger one
is compared with SciPy's LAPACK in float64, within the bounds eigh states.

    python examples/cuda_samples/cusolver_syevd.py --size 64
"""

import argparse
import sys

import numpy as np
import scipy.linalg
import torch

import trnsci
import trnsolver


def judged(a):
    """Decompose ``a``; return the worst of the three errors as a multiple of what eigh states for it."""
    values, vectors = trnsolver.eigh(a)
    w, v, exact = values.double().numpy(), vectors.double().numpy(), a.double().numpy()
    oracle = scipy.linalg.eigh(exact, eigvals_only=True)
    size = len(exact)
    bound = 20 * size * torch.finfo(a.dtype).eps / 2
    norm = np.linalg.norm(exact, 2)
    residual = np.linalg.norm(exact - (v * w) @ v.T, 2) / norm
    loss = np.linalg.norm(v.T @ v - np.eye(size), 2)
    # eigenvalues move no further than the matrix does (Weyl); vectors not quite orthogonal add as much again
    shift = np.abs(w - oracle).max() / norm
    return values, max(residual / bound, loss / bound, shift / (2 * bound))


def main(argv=None):
    """Decompose, compare, and return 0 when every error is within its bound."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--size", type=int, default=64)
    args = parser.parse_args(argv)

    small = torch.tensor([[3.5, 0.5, 0.0], [0.5, 3.5, 0.0], [0.0, 0.0, 2.0]])
    half = torch.from_numpy(np.random.default_rng(2027).standard_normal((args.size, args.size)))
    passed = True
    with trnsci.backend(args.backend):
        for name, a in (("3x3", small), (f"{args.size}x{args.size}", (half + half.T) / 2)):
            for dtype in (torch.float32, torch.float64):
                values, ratio = judged(a.to(dtype))
                passed &= bool(ratio <= 1)
                ends = f"{values[0]:.3f} to {values[-1]:.3f}"
                kind = str(dtype).removeprefix("torch.")
                print(f"{name} {kind}: eigenvalues {ends}, largest error / bound {ratio:.1e} (at most 1)")
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
