"""Filter an image in the frequency domain with real-to-complex transforms, half the work of complex ones.

The counterpart of CUDA's simpleCUFFT samples, two-dimensional and R2C. The answer is compared with SciPy's
convolution in float64, which uses no transform.

    python examples/cuda_samples/simple_cufft_2d_r2c.py --rows 96 --columns 80 --taps 7
"""

import argparse
import sys

import numpy as np
import scipy.ndimage
import torch

import trnfft
import trnsci


def filtered(image, kernel):
    """Convolve periodically: transform both, multiply half spectra, transform back."""
    size = image.shape
    spectrum = trnfft.rfft2(image) * trnfft.rfft2(kernel, s=size)  # [rows, columns // 2 + 1]
    return trnfft.irfft2(spectrum, s=size)  # [rows, columns]


def gaussian(taps):
    """Return a normalised [taps, taps] blur."""
    x = torch.arange(taps, dtype=torch.float64) - taps // 2
    weights = torch.exp(-0.5 * (x / (taps / 4)) ** 2)
    return torch.outer(weights, weights) / weights.sum() ** 2


def main(argv=None):
    """Filter, compare, and return 0 when the error is within its bound."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--rows", type=int, default=96)
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--taps", type=int, default=7, help="rows and columns of the blur")
    args = parser.parse_args(argv)

    image = torch.from_numpy(np.random.default_rng(2027).standard_normal((args.rows, args.columns)))
    kernel = gaussian(args.taps)
    # SciPy centres the kernel, a product of spectra starts it at (0, 0)
    oracle = scipy.ndimage.convolve(image.numpy(), kernel.numpy(), mode="wrap")
    oracle = np.roll(oracle, (args.taps // 2, args.taps // 2), axis=(0, 1))

    print(f"{args.rows}x{args.columns} image, {args.taps}x{args.taps} blur")
    peak = np.abs(np.fft.rfft2(image)).max()
    passed = True
    for dtype, transform_error in ((torch.float32, 5e-7), (torch.float64, 1e-14)):
        with trnsci.backend(args.backend):
            result = filtered(image.to(dtype), kernel.to(dtype))
        error = np.linalg.norm(result.double().numpy() - oracle)
        # Each transform has the relative error trnfft states; operands were rounded to dtype, and their product is.
        # The error of one factor enters times the other's largest value: 1 for the blur, whose weights sum to 1.
        each = transform_error + torch.finfo(dtype).eps
        bound = each * (2 * np.linalg.norm(image) + peak * np.linalg.norm(kernel))
        passed &= bool(error <= bound)
        print(f"  {str(dtype).removeprefix('torch.')}  error {error:.1e}, bound {bound:.1e}")
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
