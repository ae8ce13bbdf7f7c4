"""Fit many small least-squares problems with one batched QR factorisation.

The counterpart of CUDA's batched geqrf samples: a cubic through noisy points, for every series of a batch. The answers
are compared with NumPy's in float64, within a bound from those of qr and the condition of the points.

    python examples/cuda_samples/batched_qr.py --count 64
"""

import argparse
import sys

import numpy as np
import torch

import trnsci
import trnsolver


def fitted(a, b):
    """Return the coefficients of all fits: q and r of the whole batch, then one triangular solve."""
    q, r = trnsolver.qr(a)
    return trnsolver.solve_triangular(r, q.mT @ b, upper=True)


def main(argv=None):
    """Fit, compare, and return 0 when every error is within its bound."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--count", type=int, default=64, help="series")
    parser.add_argument("--points", type=int, default=24, help="points of a series")
    args = parser.parse_args(argv)

    rng = np.random.default_rng(2027)
    x = np.sort(rng.uniform(-1, 1, (args.count, args.points)), 1)
    powers = x[..., None] ** np.arange(4)  # [count, points, 4]
    noisy = powers @ rng.standard_normal((args.count, 4, 1)) + 0.01 * rng.standard_normal((args.count, args.points, 1))
    a, b = torch.from_numpy(powers).float(), torch.from_numpy(noisy).float()
    with trnsci.backend(args.backend), trnsci.ledger() as book:
        found = fitted(a, b).double().numpy()
    factorisations = sum(entry.depth == 0 and entry.step.op == "trnsolver::qr" for entry in book)
    print(f"{args.count} fits of {args.points} points: {factorisations} factorisation")

    largest = 0.0
    for one, left, right in zip(found, a.double().numpy(), b.double().numpy(), strict=True):
        oracle = np.linalg.lstsq(left, right)[0]
        # Higham, theorem 20.1: the condition number, and its square for what the fit leaves
        size, condition = np.linalg.norm(left, 2), np.linalg.cond(left)
        rest = np.linalg.norm(right - left @ oracle)
        u = torch.finfo(torch.float32).eps / 2
        scale = (
            2 * condition * np.linalg.norm(oracle)
            + condition**2 * rest / size
            + condition * np.linalg.norm(right) / size
        )
        largest = max(largest, np.linalg.norm(one - oracle) / (20 * args.points * u * scale))
    passed = largest <= 1
    print(f"largest error / bound {largest:.1e} (at most 1)")
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
