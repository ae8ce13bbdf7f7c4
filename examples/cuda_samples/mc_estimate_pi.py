"""Estimate pi: throw points into the unit square and count those within the quarter circle.

The counterpart of CUDA's MC_EstimatePi samples. The stream is counter based: the points, and therefore the count, are
the same bits on every backend, for every way of splitting the draw. The estimate is compared with pi.

    python examples/cuda_samples/mc_estimate_pi.py --points 200000
"""

import argparse
import math
import sys

import trnrand
import trnsci


def hits(points, batch, seed):
    """Count the points within the quarter circle, at most ``batch`` of them in memory."""
    generator = trnrand.Generator(seed)
    inside = 0
    while points > 0:
        xy = generator.uniform(min(batch, points), 2)  # [points, 2]
        inside += int((xy.double().square().sum(1) <= 1).sum())
        points -= batch
    return inside


def main(argv=None):
    """Estimate, compare, and return 0 when the error is within four standard errors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=65_536, help="points drawn at a time; the count does not change")
    parser.add_argument("--seed", type=int, default=1234)
    args = parser.parse_args(argv)

    with trnsci.backend(args.backend):
        inside = hits(args.points, args.batch, args.seed)
        again = hits(args.points, args.batch // 3 + 1, args.seed)
    estimate = 4 * inside / args.points
    # the count is binomial with probability pi / 4
    deviation = 4 * math.sqrt(math.pi / 4 * (1 - math.pi / 4) / args.points)
    error = abs(estimate - math.pi)
    passed = error <= 4 * deviation and inside == again
    print(f"{inside} of {args.points} points inside, {again} when drawn in other batches")
    print(f"pi is about {estimate:.6f}: error {error:.6f}, four standard errors {4 * deviation:.6f}")
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
