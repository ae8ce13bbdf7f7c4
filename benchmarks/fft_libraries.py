"""torch's transforms of a few rows beside SciPy's on this machine, in processor time of one thread.

``python -m benchmarks.fft_libraries`` prints the ratios from which `trnfft.ops.fft.FEW_ROWS` is written, for one row of
the table and each kind of data. A call of SciPy costs some 5 µs more, because its result is copied.
"""

from __future__ import annotations

import os
import sys

import torch

from benchmarks.every_function import ONE_THREAD, measure
from trnfft.ops.fft import FEW_ROWS
from trnsci.host import processor

LENGTHS = (256, 1024, 4096, 8192, 16384, 65536, 262144)
ROWS = (1, 2, 4, 8)
KINDS = {
    "rfft": (torch.float32, torch.float64),
    "irfft": (torch.complex64, torch.complex128),
    "fft": (torch.complex64, torch.complex128),
}


def compare(name: str, dtype: torch.dtype, rows: int, n: int) -> tuple[float, float]:
    """Return microseconds of torch's function and of SciPy's."""
    import scipy.fft

    x = torch.randn(rows, n // 2 + 1 if name == "irfft" else n, dtype=dtype)
    data, theirs, ours = x.numpy(), getattr(scipy.fft, name), getattr(torch.fft, name)
    return measure(lambda: ours(x, n), lambda: theirs(data, n))


def main() -> int:
    """Print the table."""
    vendor = processor("vendor_id")
    print(f"{processor('model name') or 'unknown processor'}: torch's time over SciPy's")
    print(f"rows chosen for SciPy ({vendor}): {FEW_ROWS.get(vendor, 'none')}\n")
    print("| function | dtype | rows | " + " | ".join(f"{n:,}" for n in LENGTHS) + " |")
    print("|---" * (3 + len(LENGTHS)) + "|")
    for name, dtypes in KINDS.items():
        for dtype in dtypes:
            for rows in ROWS:
                pairs = [compare(name, dtype, rows, n) for n in LENGTHS]
                cells = " | ".join(f"{ours / theirs:.2f}" for ours, theirs in pairs)
                print(f"| {name} | {str(dtype).removeprefix('torch.')} | {rows} | {cells} |", flush=True)
    return 0


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.fft_libraries"], {**os.environ, **ONE_THREAD})
    torch.set_num_threads(1)
    sys.exit(main())
