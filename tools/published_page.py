"""Write ``docs/concepts/published.md``: measured figures of the documents this project began with, and predictions.

``python -m tools.published_page`` computes the predictions again; a slow test compares the page.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import trnblas
import trnsci
import trnsim
from benchmarks.calibration import pairs
from trnsci.predict import offload_seconds

PAGE = Path(__file__).resolve().parents[1] / "docs" / "concepts" / "published.md"
# Products of float32, and milliseconds measured with transfers.
PRODUCTS = {
    "512³": ((512, 512), 1.452),
    "16 × 256³": ((16, 256, 256), 2.162),
    "1024³": ((1024, 1024), 4.022),
    "2048³": ((2048, 2048), 16.9),
    "32 × 1024³": ((32, 1024, 1024), 190.8),
}
# The first MP2 kernel, 64 occupied and 448 virtual orbitals in 16 equal launches: whole time in milliseconds.
LAUNCHES, WHOLE_MS = 16, 213.8
# Of one core of trn1, from AWS's documentation.
PEAK_FP32 = 23e12

TEXT = """# Published figures and predictions

The documents this project began with print times that their authors measured on a trn1.2xlarge. Predictions of the
same work stand beside them; `python -m tools.published_page` computes them again.

| work | measured | predicted | difference |
|---|---|---|---|
{rows}

Products include the transfers of both operands and the result, which are most of the time. Two rows differ by more
than 11 %.

**16 × 256³** moves {megabytes:.1f} MB in all, as many as 1024³, and computes a quarter of its FLOPs, {small:.3f} ms
instead of {large:.3f} ms on the engine. The two were measured {gap:.2f} ms apart. No cost by bytes and FLOPs can give
both: the link of these predictions meets 512³, 1024³, 2048³ and 32 × 1024³, and the batch was sent over it faster, or
not all of it was sent within the measured time. The row is left as it is.

**The 2048² kernel** was measured at 568 µs. A product of float32 takes four passes of the Tensor Engine: at the
documented {peak:.0f} TFLOPS of one core of trn1 it lasts {floor:.0f} µs at least, so four passes are not what ran.
With operands in bfloat16, to which Neuron's compiler casts them by default in graphs of its own (`--auto-cast`), the
product is predicted at {cast:.0f} µs; 568 µs lie between the two, and the document does not say what was multiplied.
Predictions keep float32, as results here do.

**The engines of the MP2 kernel.** The Tensor Engine was active 0.000002 % of the time, and the prediction says
{tensor:.2f} %: the kernel has no product, and on trn1 the Vector Engine transposes the exchanged blocks, not the
Tensor Engine. The Vector Engine was active 96.45 % of the time; the prediction says {vector:.1f} %, because it lets
loads wait for nothing else.

## The energy step of MP2

| 64 occupied, 448 virtual | time | |
|---|---|---|
| by PyTorch on the host | 8.03 s | measured |
| by their kernel, with all around it | 5.43 s | measured |
| of which the kernel | 213.8 ms | measured |
| the same kernel here | {kernel:.0f} ms | predicted |
| this suite's kernel, [pair symmetry and no division](../trnblas/mp2.md) | 11.7 ms | predicted |

For 96 occupied and 672 virtual orbitals they are 44.57 s and 30.27 s. More than nine tenths of the 5.43 s passed
outside the kernel, in products of the host and in transfers; a faster kernel alone would have saved 4 %. What saves
the rest is to keep factors on the device and to contract there: [mp2_energy](../trntensor/mp2_energy.md) is one
program.
"""


def _product(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> tuple[float, float]:
    """Return predicted milliseconds on trn1 with transfers, and of the kernel."""
    a = torch.empty(shape, dtype=dtype, device="meta")
    step = trnsci.plan(trnblas.gemm, 1.0, a, a).steps[0]
    kernel = step.predicted("trn1")
    assert kernel is not None
    return offload_seconds(step.call, step.cost, "trn1") * 1e3, kernel * 1e3


def page() -> str:
    """Return the text of the page."""
    predicted = {name: _product(shape) for name, (shape, _) in PRODUCTS.items()}
    rows = [(name, measured, predicted[name][0]) for name, (_, measured) in PRODUCTS.items()]
    shapes = ((1792, 28672), (112, 4), (112, 64), (112, 4), (112, 448))
    zeros = [np.zeros(shape, np.float32) for shape in shapes]
    _, report = trnsim.profile(pairs.divided, target="trn1", numerics=False)(*zeros)
    kernel = LAUNCHES * report.total_s * 1e3
    rows += [("2048² product, kernel alone", 0.568, predicted["2048³"][1]), ("first MP2 kernel", WHOLE_MS, kernel)]
    shares = {name: use.utilisation * 100 for name, use in report.engines.items()}
    return TEXT.format(
        rows="\n".join(f"| {name} | {was:.4g} ms | {now:.4g} ms | {now / was - 1:+.0%} |" for name, was, now in rows),
        megabytes=3 * 1024**2 * 4 / 1e6,
        small=predicted["16 × 256³"][1],
        large=predicted["1024³"][1],
        gap=PRODUCTS["1024³"][1] - PRODUCTS["16 × 256³"][1],
        peak=PEAK_FP32 / 1e12,
        floor=2 * 2048**3 / PEAK_FP32 * 1e6,
        cast=_product((2048, 2048), torch.bfloat16)[1] * 1e3,
        tensor=shares.get("tensor", 0.0),
        vector=shares["vector"],
        kernel=kernel,
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
