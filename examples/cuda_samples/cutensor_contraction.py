"""Contract two tensors of four modes: D[m,u,n,v] = alpha * A[m,h,k,n] * B[u,k,v,h] + beta * C[m,u,n,v].

The counterpart of the cuTENSOR contraction sample, with its modes and alpha. The planner is asked first what the call
will do; the answer is compared with NumPy's tensordot in float64, within the bound the plan states.

    python examples/cuda_samples/cutensor_contraction.py --m 24 --u 24 --n 24 --v 16 --h 16 --k 16
"""

import argparse
import sys

import numpy as np
import torch

import trnsci
import trntensor

ALPHA, BETA = 1.1, 0.3
SIZES = {"m": 24, "u": 24, "n": 24, "v": 16, "h": 16, "k": 16}


def contracted(a, b, c):
    """Write the modes down as they are; the planner finds the matrix product in them."""
    return trntensor.einsum("mhkn,ukvh->munv", a, b, alpha=ALPHA, beta=BETA, c=c)


def oracle(a, b, c):
    """Return the same by NumPy, whose tensordot leaves the modes in the order m, n, u, v."""
    product = np.tensordot(a, b, axes=((1, 2), (3, 1))).transpose(0, 2, 1, 3)
    return ALPHA * product + BETA * c


def main(argv=None):
    """Contract, compare, and return 0 when every error is within its bound."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    for mode, size in SIZES.items():
        parser.add_argument(f"--{mode}", type=int, default=size, help=f"extent of mode {mode}")
    args = parser.parse_args(argv)

    rng = np.random.default_rng(2027)
    a, b, c = (rng.random([getattr(args, mode) for mode in modes]) - 0.5 for modes in ("mhkn", "ukvh", "munv"))
    passed = True
    for dtype in (torch.float32, torch.float64):
        tensors = [torch.from_numpy(x).to(dtype) for x in (a, b, c)]
        with trnsci.backend(args.backend):
            plan = trntensor.plan("mhkn,ukvh->munv", *tensors[:2])
            result = contracted(*tensors)
        x, y, z = (each.double().numpy() for each in tensors)
        error = np.abs(result.double().numpy() - oracle(x, y, z))
        # beyond the plan's own bound, two roundings each for alpha, beta and the sum
        factor = plan.error_bound + 4 * torch.finfo(dtype).eps
        bound = factor * oracle(np.abs(x), np.abs(y), np.abs(z))
        ratio = float((error / bound).max())
        passed &= ratio <= 1
        print(f"{str(dtype).removeprefix('torch.')}: {plan.flops} FLOP in {len(plan.steps)} step")
        print(f"  largest error / bound {ratio:.1e} (at most 1)")
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
