"""Solve Poisson's equation on a periodic square in Fourier space: one plan, forward, divide, back.

The counterpart of CUDA's cuFFT Poisson solvers, whose division is a callback between two transforms. The answer is
compared with the solution the right-hand side was made from.

    python examples/cuda_samples/spectral_poisson.py --grid 64
"""

import argparse
import sys

import numpy as np
import torch

import trnfft
import trnsci


def solver(grid):
    """Return a plan from a right-hand side [grid, grid] to the solution of mean zero."""
    down = torch.from_numpy(np.fft.fftfreq(grid, 1 / grid)).float()[:, None]
    across = torch.from_numpy(np.fft.rfftfreq(grid, 1 / grid)).float()[None, :]
    waves = down**2 + across**2
    inverse = torch.where(waves > 0, -1 / waves, 0.0)
    forward = trnfft.plan((grid, grid), torch.float32, kind="rfft2")
    back = trnfft.plan((grid, grid // 2 + 1), torch.complex64, kind="irfft2")
    return trnfft.with_callbacks(forward, store=trnfft.Multiply(inverse)).then(back)


def main(argv=None):
    """Solve, compare, and return 0 when the error is within its bound."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--grid", type=int, default=64, help="points along a side, even")
    args = parser.parse_args(argv)

    x, y = np.meshgrid(*[2 * np.pi * np.arange(args.grid) / args.grid] * 2, indexing="ij")
    exact = np.sin(3 * x) * np.cos(2 * y) + 0.5 * np.cos(x + 4 * y)
    right = -13 * np.sin(3 * x) * np.cos(2 * y) - 8.5 * np.cos(x + 4 * y)
    with trnsci.backend(args.backend):
        plan = solver(args.grid)
        found = plan(torch.from_numpy(right).float())
    print(f"{args.grid}x{args.grid} points, {len(plan.plans)} transforms in one plan")

    error = np.linalg.norm(found.double().numpy() - exact)
    # two transforms and a division of norm at most 1, on data rounded to float32
    u = torch.finfo(torch.float32).eps / 2
    bound = 8 * np.log2(args.grid) * u * np.linalg.norm(right)
    passed = bool(error <= bound)
    print(f"error {error:.1e}, bound {bound:.1e}")
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
