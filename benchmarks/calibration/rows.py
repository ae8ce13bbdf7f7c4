"""Published measurements and the kernels that restate what was measured.

``metric`` says which figure of a report a measurement is compared with: ``total`` (a hardware profile's total_time),
``benchmark`` (a host-side benchmark, ``nki.benchmark`` or P50/P99 latency) or ``active`` (first trigger to last data).
``fitted`` rows were looked at while the constants of `trnsim.targets` were chosen; the others only check them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.calibration import attention, elementwise, matmul, norms, products, scan, searched, streams

_DTYPES = {"fp32": np.float32, "bf16": ml_dtypes.bfloat16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement: what ran where, and what its source says it took."""

    name: str
    kernel: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    target: str
    metric: str
    measured_us: float
    source: str
    extra: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    fitted: bool = True
    heavy: bool = False

    def arguments(self) -> tuple[Any, ...]:
        """Arrays with shapes and no memory."""
        dtype = np.dtype(_DTYPES[self.dtype])
        return (*(np.broadcast_to(np.zeros((), dtype), shape) for shape in self.shapes), *self.extra)


_TUTORIAL = "NKI tutorial, kernel optimization"
_TUTORIAL_TRN1 = "NKI tutorial, matrix multiplication (SDK 2.26)"
_DMA = "NKI guide, DMA overview"
_SEARCH = "awslabs/nki-autotune"
_CS149 = "stanford-cs149/asst4-trainium2"
_FUSION = "allenkchau/trainium-kernel-fusion"
_AUTOCOMP = "ucb-bar/autocomp, zhang677/AccelOpt"
_NKIBENCH = "zhang677/AccelOpt, NKIBench"
_MAMBA = "NKI tutorial, fused mamba"

_BIG = ((8192, 4096), (8192, 8192))
_SQUARE = ((2048, 2048), (2048, 2048))
_NORM = ((4096, 2048), (2048, 2048), (4096, 2048), (1, 2048))


def _attention(name: str, kernel: Any, seqlen: int, dtype: str, measured: float, *, fitted: bool, **options: Any) -> Row:
    return Row(
        name=f"attention {name}, S={seqlen}",
        kernel=kernel,
        shapes=((128, seqlen),) * 3,
        dtype=dtype,
        target="trn2",
        metric="benchmark",
        measured_us=measured,
        source=_FUSION,
        options=options,
        fitted=fitted,
        heavy=seqlen > 2048,
    )


ROWS = (
    Row(name="matmul tiled", kernel=matmul.tiled, shapes=_BIG, dtype="fp32", target="trn2", metric="total", measured_us=39895, source=_TUTORIAL, heavy=True),
    Row(name="matmul hoisted", kernel=matmul.hoisted, shapes=_BIG, dtype="fp32", target="trn2", metric="total", measured_us=28198, source=_TUTORIAL, fitted=False, heavy=True),
    Row(name="matmul blocked", kernel=matmul.blocked, shapes=_BIG, dtype="fp32", target="trn2", metric="total", measured_us=28414, source=_TUTORIAL, fitted=False, heavy=True),
    Row(name="matmul fully blocked", kernel=matmul.fully_blocked, shapes=_BIG, dtype="fp32", target="trn2", metric="total", measured_us=28302, source=_TUTORIAL, heavy=True),
    Row(name="exp of [4, 4096]", kernel=streams.exp, shapes=((4, 4096),), dtype="bf16", target="trn2", metric="active", measured_us=10.3, source=_DMA),
    Row(name="exp of [128, 128]", kernel=streams.exp, shapes=((128, 128),), dtype="bf16", target="trn2", metric="active", measured_us=5.385, source=_DMA),
    Row(name="matmul tiled", kernel=matmul.tiled, shapes=_BIG, dtype="bf16", target="trn1", metric="benchmark", measured_us=51800, source=_TUTORIAL_TRN1, heavy=True),
    Row(name="matmul hoisted", kernel=matmul.hoisted, shapes=_BIG, dtype="bf16", target="trn1", metric="benchmark", measured_us=42960, source=_TUTORIAL_TRN1, fitted=False, heavy=True),
    Row(name="matmul blocked", kernel=matmul.blocked, shapes=_BIG, dtype="bf16", target="trn1", metric="benchmark", measured_us=22070, source=_TUTORIAL_TRN1, fitted=False, heavy=True),
    Row(name="matmul fully blocked", kernel=matmul.fully_blocked, shapes=_BIG, dtype="bf16", target="trn1", metric="benchmark", measured_us=6970, source=_TUTORIAL_TRN1, heavy=True),
    Row(name="mamba, C=256, S=512, 16 states", kernel=scan.mamba, shapes=((256, 512), (256, 512), (256, 16), (16, 512), (16, 512)), dtype="fp32", target="trn1", metric="total", measured_us=172.93, source=_MAMBA, fitted=False),
    Row(name="matmul by hand", kernel=searched.blocked_by_hand, shapes=_SQUARE, dtype="bf16", target="trn2", metric="total", measured_us=240.3, source=_SEARCH, fitted=False),
    Row(name="matmul, one accumulator", kernel=searched.resident, shapes=_SQUARE, dtype="bf16", target="trn2", metric="total", measured_us=366, source=_SEARCH, fitted=False),
    Row(name="matmul, two accumulators", kernel=searched.resident, shapes=_SQUARE, dtype="bf16", target="trn2", metric="total", measured_us=262, source=_SEARCH, options={"banks": 2}, fitted=False),
    Row(name="matmul, b transposed by DMA", kernel=searched.transposed, shapes=_SQUARE, dtype="bf16", target="trn2", metric="total", measured_us=360.7, source=_SEARCH),
    Row(name="vector add, 1 row", kernel=streams.add_rows, shapes=((25600, 1),) * 2, dtype="fp32", target="trn2", metric="benchmark", measured_us=37318, source=_CS149, options={"rows": 1}, heavy=True),
    Row(name="vector add, 128 rows", kernel=streams.add_rows, shapes=((25600, 1),) * 2, dtype="fp32", target="trn2", metric="benchmark", measured_us=378, source=_CS149, options={"rows": 128}),
    _attention("through HBM", attention.through_hbm, 512, "fp32", 52, fitted=True, tiles_per_dma=2),
    _attention("fused", attention.fused, 512, "fp32", 31, fitted=True),
    _attention("through HBM", attention.through_hbm, 512, "bf16", 48, fitted=True, tiles_per_dma=2),
    _attention("fused", attention.fused, 512, "bf16", 28, fitted=True),
    _attention("through HBM", attention.through_hbm, 1024, "fp32", 107, fitted=False),
    _attention("fused", attention.fused, 1024, "fp32", 69, fitted=False),
    _attention("through HBM", attention.through_hbm, 1024, "bf16", 96, fitted=False),
    _attention("fused", attention.fused, 1024, "bf16", 60, fitted=False),
    _attention("through HBM", attention.through_hbm, 2048, "fp32", 274, fitted=False),
    _attention("fused", attention.fused, 2048, "fp32", 215, fitted=False),
    _attention("through HBM", attention.through_hbm, 2048, "bf16", 260, fitted=False),
    _attention("fused", attention.fused, 2048, "bf16", 188, fitted=False),
    Row(name="layernorm 4096x8192", kernel=norms.layernorm, shapes=((4096, 8192), (1, 8192), (1, 8192)), dtype="fp32", target="trn2", metric="benchmark", measured_us=1728, source=_AUTOCOMP, extra=(1e-6,), fitted=False),
    Row(name="matmul + add + rmsnorm", kernel=norms.matmul_add_rmsnorm, shapes=_NORM, dtype="fp32", target="trn2", metric="benchmark", measured_us=8466, source=_AUTOCOMP, extra=(1e-6,), fitted=False),
    Row(name="matmul + add + rmsnorm", kernel=norms.matmul_add_rmsnorm, shapes=_NORM, dtype="fp32", target="trn1", metric="total", measured_us=2666.6, source=_NKIBENCH, extra=(1e-6,), options={"resident": True}, fitted=False),
    Row(name="rope [128, 262144]", kernel=elementwise.rope, shapes=((128, 262144), (64, 262144), (64, 262144)), dtype="fp32", target="trn1", metric="total", measured_us=4333, source=_NKIBENCH),
    Row(name="bmm 16x4096x64x4096", kernel=products.bmm, shapes=((16, 4096, 64), (16, 64, 4096)), dtype="fp32", target="trn1", metric="total", measured_us=4610.9, source=_NKIBENCH),
    Row(name="lora 4096x5120x12288, R=128", kernel=products.lora, shapes=((4096, 5120), (5120, 12288), (5120, 128), (128, 12288)), dtype="fp32", target="trn1", metric="total", measured_us=30166.4, source=_NKIBENCH, heavy=True),
    Row(name="adamw 10944x2048", kernel=elementwise.adamw, shapes=((10944, 2048),) * 4, dtype="fp32", target="trn1", metric="total", measured_us=1999.8, source=_NKIBENCH),
    Row(name="silu 4096x7168", kernel=elementwise.silu, shapes=((128, 32, 7168),), dtype="fp32", target="trn1", metric="total", measured_us=1333.2, source=_NKIBENCH),
)  # fmt: skip
