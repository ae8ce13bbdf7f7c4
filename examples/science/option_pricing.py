"""Price a basket option by Monte Carlo: correlated paths from trnrand, trnsolver and trnblas.

The payoff is that of a call on the geometric mean of the assets, which is itself lognormal, so that Black and Scholes
give the exact price to compare with.

    python examples/science/option_pricing.py --assets 8 --paths 100000
"""

import argparse
import math
import sys

import torch

import trnblas
import trnrand
import trnsci
import trnsolver

SPOT, STRIKE, RATE, YEARS = 100.0, 100.0, 0.05, 1.0


def payoffs(correlation, volatility, paths, seed):
    """Return the discounted payoff of every path: [paths]."""
    drift = (RATE - 0.5 * volatility**2) * YEARS  # [assets]
    z = trnrand.Generator(seed).normal(paths, len(volatility))  # [paths, assets], independent
    factor = trnsolver.cholesky(correlation)  # [assets, assets]
    steps = trnblas.gemm(math.sqrt(YEARS), z, factor, trans_b=True) * volatility  # [paths, assets], correlated
    basket = SPOT * torch.exp((drift + steps).mean(1))  # [paths]
    return math.exp(-RATE * YEARS) * torch.clamp(basket - STRIKE, min=0)


def black_scholes(correlation, volatility):
    """Return the exact price: the logarithm of the basket is normal, with this mean and deviation."""
    assets = len(volatility)
    covariance = correlation * volatility[:, None] * volatility
    deviation = math.sqrt(YEARS * float(covariance.sum())) / assets
    forward = SPOT * math.exp(RATE * YEARS - 0.5 * YEARS * float((volatility**2).mean()) + 0.5 * deviation**2)
    d1 = (math.log(forward / STRIKE) + 0.5 * deviation**2) / deviation
    below = [0.5 * math.erfc(-d / math.sqrt(2)) for d in (d1, d1 - deviation)]
    return math.exp(-RATE * YEARS) * (forward * below[0] - STRIKE * below[1])


def main(argv=None):
    """Price, compare, and return 0 when the error is within four standard errors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--assets", type=int, default=8)
    parser.add_argument("--paths", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1973)
    args = parser.parse_args(argv)

    volatility = torch.linspace(0.15, 0.45, args.assets)
    correlation = torch.full((args.assets, args.assets), 0.4).fill_diagonal_(1.0)
    with trnsci.backend(args.backend):
        paid = payoffs(correlation, volatility, args.paths, args.seed).double()
    price, exact = float(paid.mean()), black_scholes(correlation.double(), volatility.double())
    error, bound = abs(price - exact), 4 * float(paid.std()) / math.sqrt(args.paths)
    passed = error <= bound
    print(f"call on {args.assets} correlated assets, {args.paths} paths")
    print(f"Monte Carlo {price:.3f}, Black-Scholes {exact:.3f}: error {error:.3f}, four standard errors {bound:.3f}")
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
