"""Price a European call by Monte Carlo, with random and with quasi-random numbers.

The counterpart of CUDA's MonteCarlo and quasirandomGenerator samples: points of a Sobol sequence through the inverse
normal distribution. Black and Scholes know the price.

    python examples/cuda_samples/quasirandom_option.py --paths 16384
"""

import argparse
import sys

import numpy as np
import scipy.stats
import torch

import trnrand
import trnsci

SPOT, STRIKE, RATE, VOLATILITY, YEARS = 100.0, 105.0, 0.03, 0.25, 1.0


def prices(normal):
    """Return the discounted payoff of every path."""
    growth = (RATE - VOLATILITY**2 / 2) * YEARS + VOLATILITY * YEARS**0.5 * normal
    return np.exp(-RATE * YEARS) * torch.clamp(SPOT * torch.exp(growth) - STRIKE, min=0.0)


def quasi(paths):
    """Return normal numbers from a scrambled Sobol sequence."""
    points = trnrand.Sobol(1, scramble="lms", generator=trnrand.Generator(7)).random(paths)[:, 0]
    return torch.special.ndtri(points.double().clamp(1e-12, 1 - 1e-12))


def main(argv=None):
    """Price, compare, and return 0 when both errors are within their bounds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--paths", type=int, default=16384, help="paths")
    args = parser.parse_args(argv)

    d = (np.log(SPOT / STRIKE) + (RATE + VOLATILITY**2 / 2) * YEARS) / (VOLATILITY * YEARS**0.5)
    phi = scipy.stats.norm.cdf
    exact = SPOT * phi(d) - STRIKE * np.exp(-RATE * YEARS) * phi(d - VOLATILITY * YEARS**0.5)
    print(f"Black-Scholes {exact:.4f}, {args.paths} paths")
    with trnsci.backend(args.backend):
        drawn = trnrand.Generator(2027).normal(args.paths).double()
        even = quasi(args.paths)
    payoff = prices(drawn)
    error = abs(float(payoff.mean()) - exact)
    bound = 4 * float(payoff.std()) / args.paths**0.5
    print(f"  random       error {error:.1e}, four standard errors {bound:.1e}")
    passed = error <= bound
    error = abs(float(prices(even).mean()) - exact)
    # ten times better than random numbers promise, which is what even points are for
    print(f"  quasi-random error {error:.1e}, a tenth of that {bound / 10:.1e}")
    passed &= error <= bound / 10
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
