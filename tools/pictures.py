"""Draw the pictures of the docs from real runs: ``python -m tools.pictures [NAME ...]``.

Times are predicted, so a picture is the same wherever it is drawn. Run it after a change of a kernel or of the time
model, and look at what changed.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import torch

import trnfft
import trnsci
import trnsim
from benchmarks.predictions import FOLDER as BASELINES, recorded
from benchmarks.registry import load
from benchmarks.report import GPU, page_path
from benchmarks.speedup import FILE as SPEEDUPS
from trnsci.links import link
from trnsim.constants import RESOURCES
from trnsim.targets import TARGETS
from trnsim.timing.report import Report
from trnsparse import causal, documents, sink, window

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "assets"
INK, GREY, RULE = "#1f2430", "#5b6270", "#d7dae0"
COLOURS = {
    "tensor": "#3366cc",
    "vector": "#e0842a",
    "scalar": "#2f9e6e",
    "gpsimd": "#8e5bb5",
    "loads": "#6b7f99",
    "stores": "#a9b4c4",
}
NAMES = {
    "tensor": "Tensor",
    "vector": "Vector",
    "scalar": "Scalar",
    "gpsimd": "GpSimd",
    "loads": "Loads",
    "stores": "Stores",
}


class Svg:
    """A picture under construction: a white card, because pages are light or dark."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="system-ui, sans-serif" font-size="13" role="img"><title>{escape(title)}</title>',
            f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>',
        ]

    def rect(self, x: float, y: float, w: float, h: float, fill: str) -> None:
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 0.3):.1f}" height="{h:.1f}" fill="{fill}"/>')

    def line(
        self, x1: float, y1: float, x2: float, y2: float, stroke: str = RULE, width: float = 1, dash: str = ""
    ) -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        self.parts.append(f'<line {ends} stroke="{stroke}" stroke-width="{width}"{dashed}/>')

    def path(self, points: list[tuple[float, float]], stroke: str, dash: str = "") -> None:
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{steps}" fill="none" stroke="{stroke}" stroke-width="1.2"{dashed}/>')

    def area(self, points: list[tuple[float, float]], fill: str) -> None:
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polygon points="{steps}" fill="{fill}" fill-opacity="0.16"/>')

    def dot(self, x: float, y: float, fill: str, radius: float = 4, ring: str = "none") -> None:
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" stroke="{ring}"/>')

    def text(self, x: float, y: float, words: str, *, fill: str = INK, anchor: str = "start", size: int = 13) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
        self.parts.append(f'<text {place} fill="{fill}">{escape(words)}</text>')

    def __str__(self) -> str:
        return "\n".join([*self.parts, "</svg>"]) + "\n"


PICTURES: dict[str, Callable[[], Svg]] = {}


def picture(draw: Callable[[], Svg]) -> Callable[[], Svg]:
    """Register a picture under its function's name."""
    PICTURES[draw.__name__.replace("_", "-")] = draw
    return draw


def _profile(kernel: Any, target: str, *shapes: tuple[int, ...], **options: Any) -> Report:
    arrays = [torch.empty(shape, device="meta") for shape in shapes]
    report: Report = trnsim.profile(kernel, target=target, numerics=False)(*arrays, **options)[1]
    return report


def _bars(report: Report, scale: float) -> Iterator[tuple[str, float, float]]:
    """Bars as (track, start, end) in pixels; neighbours closer than half a pixel are one."""
    ends: dict[str, tuple[float, float]] = {}
    for bar in sorted(report.timeline(), key=lambda bar: bar.start_s):
        if bar.track not in NAMES:
            continue
        start, end = bar.start_s * scale, bar.end_s * scale
        if bar.track in ends and start - ends[bar.track][1] < 0.5:
            ends[bar.track] = (ends[bar.track][0], max(end, ends[bar.track][1]))
        else:
            if bar.track in ends:
                yield bar.track, *ends[bar.track]
            ends[bar.track] = (start, end)
    for track, (start, end) in ends.items():
        yield track, start, end


def _timeline(
    svg: Svg, report: Report, top: float, span_s: float, heading: str, *, left: int = 70, right: int = 30
) -> None:
    """Engines of one kernel from ``top`` down, ``span_s`` seconds wide."""
    width = 760 - left - right
    shown = [track for track in NAMES if track in {bar.track for bar in report.timeline()}]
    svg.text(left, top, heading)
    begin = min(bar.start_s for bar in report.timeline())
    for row, track in enumerate(shown):
        y = top + 12 + 20 * row
        svg.text(left - 8, y + 12, NAMES[track], fill=GREY, anchor="end", size=12)
        svg.rect(left, y, width, 15, "#f3f4f7")
    scale = width / span_s
    for track, start, end in _bars(report, scale):
        x = left + start - begin * scale
        if x < left + width:
            svg.rect(x, top + 12 + 20 * shown.index(track), min(end - start, left + width - x), 15, COLOURS[track])
    foot = top + 12 + 20 * len(shown) + 4
    step = _step(span_s * 1e6)
    for tick in range(int(span_s * 1e6 / step) + 1):
        x = left + tick * step * 1e-6 * scale
        svg.line(x, foot - 4, x, foot)
        svg.text(x, foot + 13, f"{tick * step:g} µs", fill=GREY, anchor="middle", size=11)


def _step(span: float) -> float:
    """A round distance between ticks, at most eight of them."""
    rough = span / 8
    power = 10 ** math.floor(math.log10(rough))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= rough)


@picture
def timeline_gemm() -> Svg:
    """Engines of a matrix product."""
    from trnblas.kernels.gemm import gemm

    report = _profile(gemm, "trn2", (1, 1024, 512), (1, 1024, 1024))
    svg = Svg(760, 185, "Engines of a matrix product over time, predicted for trn2")
    heading = f"512 × 1024 × 1024 fp32 on trn2: predicted {report.active_s * 1e6:.0f} µs without launch"
    _timeline(svg, report, 24, report.active_s, heading)
    return svg


@picture
def timeline_program() -> Svg:
    """One program, and the launches of the same calls one by one, on one scale."""
    from benchmarks.programs import solitons

    x = torch.randn(4096, dtype=torch.complex64)
    plan = trnsci.program(solitons).plan(x, x, x, steps=1)
    segment = plan.compiled.segments[0]
    costed = trnsim.profile(segment.kernel, target="trn2", numerics=False)
    _, report = costed(*segment.shapes(), **segment.static)
    each, starts = plan.predict_calls("trn2"), link("trn2")
    span, left, width = each.total, 70, 660
    svg = Svg(760, 300, "Engines of one program over time, and the same calls one by one, predicted for trn2")
    svg.text(left, 20, f"A Runge-Kutta step of 4,096 points on trn2, call by call: {each.total * 1e3:.2g} ms")
    count = each.launches + each.hosted
    for index in range(count):
        at = left + width * index / count
        svg.rect(at, 30, width / count * starts.dispatch * count / span - 0.5, 15, INK)
    svg.text(left, 62, f"black: {count} starts of {starts.dispatch * 1e6:.0f} us; white: kernels", fill=GREY, size=12)
    total = plan.predict("trn2").total
    svg.text(left, 92, f"As one program: {total * 1e3:.2g} ms, of which one start of {starts.graph * 1e6:.0f} us")
    svg.rect(left, 102, width * starts.graph / span, 15, INK)
    svg.rect(left + width * starts.graph / span, 102, width * (total - starts.graph) / span, 15, COLOURS["tensor"])
    _timeline(svg, report, 142, report.active_s, f"Inside it: {report.active_s * 1e6:.0f} µs")
    return svg


@picture
def timeline_mp2() -> Svg:
    """Two formulations of one energy, on one scale."""
    bench = load("trnblas.mp2")
    before = next(k for k in bench.kernels if "before" in k.name).kernel
    after = next(k for k in bench.kernels if "all pairs" in k.name).kernel
    v, p, q = 448, 112, 45
    divided = _profile(before, "trn1", (v, 2 * v), (p, 1), (p, 2), (p, v // p), (p, v))
    summed = _profile(after, "trn1", (v, 2 * v), (v, q), (q, v), (q, 1), (q, 2), symmetric=False, first=0)
    svg = Svg(760, 355, "Engines of two MP2 kernels over time, predicted for trn1")
    span = max(divided.active_s, summed.active_s)
    for top, report, how in ((24, divided, "every element divided"), (198, summed, "exponentials, a matrix product")):
        _timeline(svg, report, top, span, f"Two pairs, {how}: predicted {report.active_s * 1e6:.0f} µs on trn1")
    return svg


ROOFED = (
    ("trnblas.gemm", "2048x2048x2048", "gemm 2048³, bf16"),
    ("trnsparse.attention", "everything", "attention, 4096 positions, bf16"),
    ("trnblas.gemm", "4096x8192", "gemm 4096 × 8192 × 8192"),
    ("trnsparse.bsr_spmm", "25% x 512 float32", "BSR, 25 % of blocks, × 512"),
    ("trnfft.fft", "c2c 1024, batch 1024", "fft, 1024 rows of 1024"),
    ("trntensor.ao_to_mo_transform", "512 basis", "AO to MO, 512 basis functions"),
    ("trnfft.fft", "c2c 2**20", "fft, one row of 2²⁰"),
    ("trnsolver.cholesky", "1x1024", "Cholesky, 1024 rows"),
    ("trnblas.gemm", "200x300x77", "gemm 200 × 300 × 77"),
)


@picture
def roofline() -> Svg:
    """Kernels of the suite under the roofs of one trn2 core."""
    target = TARGETS["trn2"]
    bandwidth = target.timing.dma_rate * target.timing.dma_engines * 1e9
    peak = target.clock_ghz["tensor"] * 1e9 * 2 * 128 * 128
    svg = Svg(760, 500, "Arithmetic of the Tensor Engine over intensity, predicted for one trn2 core")
    left, right, top, foot = 30, 730, 24, 330

    def x_of(intensity: float) -> float:
        return left + (math.log10(intensity) - 0.5) / 3.5 * (right - left)

    def y_of(rate: float) -> float:
        return foot - (math.log10(rate) - 11.5) / 2.7 * (foot - top)

    for decade in (1, 2, 3, 4):
        svg.line(x_of(10.0**decade), top, x_of(10.0**decade), foot)
        svg.text(x_of(10.0**decade), foot + 16, f"{10**decade}", fill=GREY, anchor="middle", size=11)
    for decade, name in ((12, "1 TFLOPS"), (13, "10 TFLOPS"), (14, "100 TFLOPS")):
        svg.line(left, y_of(10.0**decade), right, y_of(10.0**decade))
        svg.text(left + 4, y_of(10.0**decade) - 4, name, fill=GREY, size=11)
    svg.text((left + right) / 2, foot + 36, "operations per byte of HBM traffic", fill=GREY, anchor="middle")
    svg.line(x_of(10**0.5), y_of(10**0.5 * bandwidth), x_of(peak / bandwidth), y_of(peak), INK, 1.5)
    for name, height in (("bf16 peak", peak), ("fp32 peak", peak / 4)):
        svg.line(x_of(height / bandwidth), y_of(height), right, y_of(height), INK, 1.5)
        svg.text(right - 4, y_of(height) - 5, name, anchor="end", size=12)
    for number, (op, part, label) in enumerate(ROOFED):
        kernel = next(k for k in load(op).kernels if part in k.name)
        report = trnsim.profile(kernel.kernel, target="trn2", numerics=False)(*kernel.inputs(), **kernel.options)[1]
        row = (left + 250 * (number // 3), foot + 72 + 22 * (number % 3))
        for x, y in ((x_of(report.intensity), y_of(report.flops_per_s)), (row[0] + 8, row[1] - 4)):
            svg.dot(x, y, COLOURS["tensor"], 8)
            svg.text(x, y + 4, str(number + 1), fill="#ffffff", anchor="middle", size=11)
        svg.text(row[0] + 22, row[1], label, size=12)
    svg.text(
        left,
        488,
        "Predicted, launch not included; fp32 unless said. Bandwidth is that of the DMA engines.",
        fill=GREY,
        size=11,
    )
    return svg


@picture
def calibration() -> Svg:
    """Errors of the time model by size and by what binds, as the table in concepts/timing.md has them."""
    rows = re.findall(
        r"^\| trn\d \| .*? \| \S+ \| ([\d.]+) (µs|ms) .*? \| .*? \| ([+-][\d.]+)% \| (.*?) \| (yes|no) \|",
        (ROOT / "docs/concepts/timing.md").read_text(),
        re.M,
    )
    svg = Svg(760, 300, "Error of predicted against measured times, by size and by what binds")
    left, right, middle, step = 60, 730, 130, 3.6
    for level in (-30, -20, -10, 0, 10, 20, 30):
        svg.line(left, middle - level * step, right, middle - level * step, GREY if level == 0 else RULE)
        svg.text(
            left - 8, middle - level * step + 4, f"{level:+d} %" if level else "0", fill=GREY, anchor="end", size=11
        )
    x_of = lambda us: left + math.log10(us) / 5 * (right - left)  # noqa: E731
    for decade, name in enumerate(("1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms")):
        svg.text(x_of(10.0**decade), 258, name, fill=GREY, anchor="middle", size=11)
    colours = {
        "tensor": ("Tensor Engine", COLOURS["tensor"]),
        "vector": ("Vector, Scalar", COLOURS["vector"]),
        "transfers": ("transfers", COLOURS["loads"]),
        "latency": ("latency", COLOURS["scalar"]),
    }
    for value, unit, error, binds, seen in rows:
        x = x_of(float(value) * (1000 if unit == "ms" else 1))
        y = middle - float(error) * step
        colour = colours[RESOURCES.get(binds, "latency")][1]
        svg.dot(x, y, colour, 4.5)
        if seen == "yes":
            svg.dot(x, y, "#ffffff", 2.5)
    for k, (name, colour) in enumerate(colours.values()):
        svg.dot(left + 6 + 125 * k, 280, colour, 4.5)
        svg.text(left + 16 + 125 * k, 284, name, size=12)
    svg.text(right, 284, f"{len(rows)} kernels; hollow: seen while fitting", fill=GREY, anchor="end", size=12)
    return svg


@picture
def masks() -> Svg:
    """Blocks of 128 × 128 that masks of 2048 positions keep."""
    ids = torch.repeat_interleave(torch.arange(4), torch.tensor([300, 700, 650, 398]))
    shown = [
        ("causal()", causal()),
        ("window(256)", window(256)),
        ("causal() & window(256) | sink(4)", causal() & window(256) | sink(4)),
        ("documents(ids) & causal()", documents(ids) & causal()),
    ]
    svg = Svg(760, 245, "Blocks that four attention masks keep")
    for k, (name, mask) in enumerate(shown):
        bound = mask.bind(2048)
        (pattern,) = bound.patterns
        left, top, cell = 18 + k * 185, 34, 10
        svg.rect(left, top, 16 * cell, 16 * cell, "#f3f4f7")
        rows = torch.repeat_interleave(torch.arange(16), pattern.indptr.diff())
        for row, column, slot in zip(rows.tolist(), pattern.indices.tolist(), pattern.slots.tolist(), strict=True):
            colour = "#a9c0ea" if slot >= 0 else COLOURS["tensor"]
            svg.rect(left + column * cell + 0.5, top + row * cell + 0.5, cell - 1, cell - 1, colour)
        svg.text(left, top - 12, name, size=11)
        svg.text(left, top + 178, f"{pattern.indices.numel()} of 256 blocks", fill=GREY, size=12)
    svg.rect(18, 226, 11, 11, COLOURS["tensor"])
    svg.text(34, 236, "full: no mask is applied", size=11)
    svg.rect(203, 226, 11, 11, "#a9c0ea")
    svg.text(219, 236, "partial: its inside is added to the scores", size=11)
    return svg


@picture
def spectra() -> Svg:
    """Two tones, one 10⁹ times weaker, at four precisions."""
    n = 1024
    t = torch.arange(n, dtype=torch.float64)
    shape = torch.signal.windows.blackman(n, sym=False, dtype=torch.float64) ** 2
    signal = shape * (torch.cos(2 * torch.pi * 100.3 * t / n) + 1e-9 * torch.cos(2 * torch.pi * 300.6 * t / n))
    svg = Svg(760, 300, "Spectrum of two tones at three precisions")
    left, right, top, foot = 60, 730, 20, 250
    y_of = lambda level: top - level / 320 * (foot - top)  # noqa: E731
    for level in (0, -80, -160, -240, -320):
        svg.line(left, y_of(level), right, y_of(level))
        svg.text(left - 8, y_of(level) + 4, f"{level} dB", fill=GREY, anchor="end", size=11)
    for k, (precision, colour) in enumerate(
        (("fast", COLOURS["vector"]), ("fp32", COLOURS["scalar"]), ("fp64", COLOURS["tensor"]))
    ):
        found = trnfft.rfft(signal, precision=precision).abs()
        decibels = 20 * torch.log10(found / found.max() + 1e-16).numpy()
        points = [(left + i / 512 * (right - left), y_of(float(decibels[i]))) for i in range(513)]
        svg.path(points, colour)
        svg.rect(left + 210 * k, 272, 12, 12, colour)
        svg.text(left + 18 + 210 * k, 283, f'precision="{precision}"', size=12)
    return svg


SERIES_COLOURS = ("#3366cc", "#8e5bb5", "#2f9e6e", "#e0842a", "#b0413e", "#6b7f99", "#1f2430", "#0f8b8d", "#c2528b")


def _two(value: float) -> str:
    """Two significant digits, without an exponent."""
    return f"{float(f'{value:.2g}'):g}"


@picture
def speedup() -> Svg:
    """Time on a CPU over predicted time on Trainium, by size; `benchmarks.speedup` has measured and predicted."""
    data = json.loads(SPEEDUPS.read_text())
    series: dict[str, list[dict[str, float]]] = {}
    for row in data["rows"]:
        series.setdefault(row["series"], []).append(row)
    svg = Svg(800, 470, "Speed-up of one Trainium core, predicted, over one CPU thread, measured, against size")
    left, right, top, foot = 52, 502, 62, 402

    def x_of(size: float) -> float:
        return left + (math.log2(size) - 5) / 15 * (right - left)

    def y_of(ratio: float) -> float:
        return foot - (math.log10(ratio) + 2.7) / 5.1 * (foot - top)

    svg.text(16, 22, "Time of one CPU thread, measured, over the predicted time of one trn2 core", size=14)
    starts = link(data["target"])
    start = f"starting each op, {starts.dispatch * 1e6:.0f} µs, or a program, {starts.graph * 1e6:.0f} µs"
    svg.text(16, 40, f"Solid: with {start}. Dashed: kernels alone.", fill=GREY, size=12)
    svg.text(16, 55, "Above 1 Trainium wins, below it loses. Bands are the model's intervals.", fill=GREY, size=12)
    svg.rect(left, y_of(1), right - left, foot - y_of(1), "#fbeceb")
    for ratio, name in ((0.01, "1/100"), (0.1, "1/10"), (1, "1"), (10, "10"), (100, "100")):
        svg.line(left, y_of(ratio), right, y_of(ratio), INK if ratio == 1 else RULE)
        svg.text(left - 8, y_of(ratio) + 4, name, fill=GREY, anchor="end", size=11)
    svg.line(left, y_of(16), right, y_of(16), GREY, 1, "3 4")
    svg.text(left + 4, y_of(16) - 5, "16 threads, scaling perfectly", fill=GREY, size=11)
    for power in range(5, 21, 3):
        svg.line(x_of(2**power), foot, x_of(2**power), foot + 4, GREY)
        svg.text(x_of(2**power), foot + 18, f"{2**power:,}", fill=GREY, anchor="middle", size=11)
    svg.text((left + right) / 2, foot + 36, "n", fill=GREY, anchor="middle", size=12)
    ends = []
    for (name, rows), colour in zip(series.items(), SERIES_COLOURS, strict=True):
        upper = [(x_of(r["size"]), y_of(r["cpu_s"] / r["low_s"])) for r in rows]
        lower = [(x_of(r["size"]), y_of(r["cpu_s"] / r["high_s"])) for r in rows]
        svg.area([*upper, *reversed(lower)], colour)
        points = [(x_of(r["size"]), y_of(r["cpu_s"] / r["predicted_s"])) for r in rows]
        svg.path(points, colour)
        svg.path([(x_of(r["size"]), y_of(r["cpu_s"] / r["kernels_s"])) for r in rows], colour, "2 3")
        for x, y in points:
            svg.dot(x, y, colour, 2.6)
        ends.append((points[-1][1], f"{name}: {_two(rows[-1]['cpu_s'] / rows[-1]['predicted_s'])}", colour, points[-1]))
    below = 0.0
    for y, label, colour, (x_end, y_end) in sorted(ends):
        below = max(y, below + 17)
        svg.line(x_end + 4, y_end, right + 14, below, colour, 0.6)
        svg.text(right + 18, below + 4, label, fill=colour, size=12)
    told = "float32, attention causal; operands on the device; gathers on chip at an assumed cost."
    svg.text(16, 460, f"{told} {data['machine']['processor']}.", fill=GREY, size=11)
    return svg


# What limits a call on many cores.
LIMITS = {"Tensor Engine": "#3366cc", "chip": "#2f9e6e", "links": "#e0842a", "EFA": "#8e5bb5", "latency": "#6b7f99"}
STRONG = {"gemm": "gemm 64k", "fftn": "fftn 2048³", "qr": "qr 10⁸ x 128", "mp2": "mp2_energy"}
WEAK = {"gemm weak": "gemm", "qr weak": "qr", "spmv weak": "spmv", "cg weak": "cg"}
# Published: GPUs and milliseconds of a transform of 2048³ by cuFFTMp on A100.
CUFFTMP = ((8, 78.0), (2048, 4.0))


def _curves(svg: Svg, curves: dict[str, list[tuple[float, float, str]]], edge: float) -> None:
    """Draw lines of points, each in the colour of its limit, and their names at the right edge, one below the other."""
    below = 0.0
    for name, points in sorted(curves.items(), key=lambda item: item[1][-1][1]):
        svg.path([(x, y) for x, y, _ in points], GREY)
        for x, y, limit in points:
            svg.dot(x, y, LIMITS[limit], 3.5)
        below = max(points[-1][1] + 4, below + 15)
        svg.line(points[-1][0] + 4, points[-1][1], edge + 10, below - 4, RULE)
        svg.text(edge + 14, below, name, size=11)


@picture
def scaling() -> Svg:
    """Predicted times and efficiencies on many cores, from the record of `many_chips_page`."""
    record = json.loads((ROOT / "tools" / "many_chips.json").read_text())
    svg = Svg(800, 400, "Strong and weak scaling on trn2, predicted, and what limits")
    top, foot, left, right = 70, 340, 60, 330

    def x_of(cores: float) -> float:
        return left + math.log2(cores / 8) / 9 * (right - left)

    def y_of(ms: float) -> float:
        return foot - math.log10(ms / 2) / 2.4 * (foot - top)

    svg.text(16, 22, "trn2, predicted: the same problem on more cores, and problems that grow with them", size=14)
    for k, (limit, colour) in enumerate(LIMITS.items()):
        svg.dot(24 + 130 * k, 40, colour)
        svg.text(34 + 130 * k, 44, limit, fill=GREY, size=12)
    for ms in (2, 10, 100, 500):
        svg.line(left, y_of(ms), right, y_of(ms))
        svg.text(left - 6, y_of(ms) + 4, f"{ms} ms", fill=GREY, anchor="end", size=11)
    curves = {}
    for name, label in STRONG.items():
        # the largest product is another problem
        figures = [(int(c), f) for c, f in record.get(name, {}).items() if name != "gemm" or int(c) < 4096]
        if figures:
            curves[label] = [(x_of(cores), y_of(1e3 * f[0]), f[3]) for cores, f in figures]
    _curves(svg, curves, right)
    svg.path([(x_of(gpus), y_of(ms)) for gpus, ms in CUFFTMP], INK, "4 3")
    svg.text(x_of(8) + 4, y_of(78) - 8, "cuFFTMp 2048³, A100", fill=INK, size=11)
    for gpus, ms in CUFFTMP:
        svg.dot(x_of(gpus), y_of(ms), "#ffffff", 3.5, INK)
    for cores in (8, 64, 512, 4096):
        svg.text(x_of(cores), foot + 18, f"{cores:,}", fill=GREY, anchor="middle", size=11)
    svg.text((left + right) / 2, foot + 38, "cores (GPUs), strong", fill=GREY, anchor="middle", size=12)
    begin, end = 500, 720

    def at(cores: float, share: float) -> tuple[float, float]:
        return begin + math.log2(cores / 64) / 6 * (end - begin), foot - share * (foot - top)

    for share in (0, 0.25, 0.5, 0.75, 1):
        svg.line(begin, at(64, share)[1], end, at(64, share)[1])
        svg.text(begin - 6, at(64, share)[1] + 4, f"{share:.0%}", fill=GREY, anchor="end", size=11)
    curves = {}
    for name, label in WEAK.items():
        if name in record:
            curves[label] = [(*at(int(c), f[1] / f[0]), f[3]) for c, f in record[name].items()]
    _curves(svg, curves, end)
    for cores in (64, 512, 4096):
        svg.text(at(cores, 0)[0], foot + 18, f"{cores:,}", fill=GREY, anchor="middle", size=11)
    svg.text((begin + end) / 2, foot + 38, "cores, weak: kernels by total", fill=GREY, anchor="middle", size=12)
    return svg


LIBRARIES = ("trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor")


def _measured(page: str) -> dict[str, list[tuple[float, bool]]]:
    """Return the ratios of each op on the page of benchmarks, and whether the peer is the library that ours calls."""
    found: dict[str, list[tuple[float, bool]]] = {}
    host = page.partition(f"\n{GPU}")[0]
    for part in re.split(r"^## ", host, flags=re.M)[1:]:
        op, _, text = part.partition("\n")
        for row in re.findall(r"^\|(.*)\|$", text.partition("Measured:")[2].partition("Predicted:")[0], re.M)[2:]:
            cells = [cell.strip() for cell in row.split("|")[5:]]
            ratios = [(float(cell.split()[0]), "†" in cell) for cell in cells if re.fullmatch(r"[\d.]+( †)?", cell)]
            found.setdefault(op, []).extend(ratios)
    return {op: ratios for op, ratios in found.items() if ratios}


def _log_axis(svg: Svg, marks: dict[float, str], x_of: Callable[[float], float], top: float, foot: float) -> None:
    """Draw vertical lines at ratios, the one at 1 in ink."""
    for ratio, name in marks.items():
        svg.line(x_of(ratio), top, x_of(ratio), foot, INK if ratio == 1 else RULE)
        svg.text(x_of(ratio), foot + 16, name, fill=GREY, anchor="middle", size=11)


RATIOS = {1 / 64: "1/64", 1 / 16: "1/16", 1 / 4: "1/4", 1: "1", 4: "4", 16: "16", 64: "64"}


@picture
def benchmark_ratios() -> Svg:
    """Our time over each peer's, by op, as the page of benchmarks has them."""
    found = _measured(page_path().read_text())
    top, left, right, step = 62, 196, 770, 13
    foot = top + step * len(found) + 6
    svg = Svg(800, round(foot) + 34, "Our time over each peer's, by op, measured on the host")
    svg.text(16, 22, "Our time over each peer's, measured on the host: left of 1 ours is faster", size=14)
    svg.text(
        16,
        42,
        "Full dots: libraries that ours calls itself. Open dots: others. One dot a row of the tables.",
        fill=GREY,
    )

    def x_of(ratio: float) -> float:
        return left + (math.log2(min(max(ratio, 1 / 90), 90)) + 6.5) / 13 * (right - left)

    _log_axis(svg, RATIOS, x_of, top - 6, foot)
    colours = dict(zip(LIBRARIES, SERIES_COLOURS, strict=False))
    for i, (op, ratios) in enumerate(found.items()):
        y, colour = top + step * i + 4, colours.get(op.partition(".")[0], INK)
        svg.text(left - 10, y + 4, op, anchor="end", size=11, fill=colour)
        svg.line(left, y, right, y, "#f0f1f4")
        for ratio, called in ratios:
            svg.dot(x_of(ratio), y, colour if called else "#ffffff", 3, colour)
    return svg


@picture
def benchmark_sizes() -> Svg:
    """Our time over a counterpart's at three sizes: the spread of all functions of a library."""
    text = (ROOT / "docs" / "every-function.md").read_text().partition("every-function:begin")[2]
    rows = [[cell.strip() for cell in row.split("|")] for row in re.findall(r"^\| `(trn.*)\|$", text, re.M)]
    top, left, right, step = 66, 196, 770, 17
    svg = Svg(800, top + step * 24 + 40, "Our time over a counterpart's, by library and size")
    svg.text(
        16, 22, "Every function over its counterpart in NumPy, SciPy or torch, by size, measured on the host", size=14
    )
    told = "Bars hold half of the functions, lines nine of ten; the mark is the median. Sizes: 8, 64 and 256 rows."
    svg.text(16, 42, told, fill=GREY)

    def x_of(ratio: float) -> float:
        return left + (math.log2(min(max(ratio, 1 / 90), 90)) + 6.5) / 13 * (right - left)

    foot = top + step * 24
    _log_axis(svg, RATIOS, x_of, top - 6, foot)
    for i, (library, colour) in enumerate(zip(LIBRARIES, SERIES_COLOURS, strict=False)):
        for j, (size, column) in enumerate((("tiny", 5), ("small", 6), ("middle", 7))):
            cells = [row[column] for row in rows if row[0].startswith(library)]
            ratios = sorted(float(cell) for cell in cells if re.fullmatch(r"[\d.]+", cell))
            low, first, middle, third, high = (
                x_of(ratios[round(share * (len(ratios) - 1))]) for share in (0.05, 0.25, 0.5, 0.75, 0.95)
            )
            y = top + step * (4 * i + j) + 8
            svg.text(left - 10, y + 4, f"{library}, {size}" if j == 0 else size, anchor="end", size=11, fill=colour)
            svg.line(low, y, high, y, colour)
            svg.rect(first, y - 5, third - first, 10, colour)
            svg.rect(middle - 1, y - 7, 2, 14, INK)
    return svg


@picture
def benchmark_targets() -> Svg:
    """Predicted time of every kernel on trn1 and trn3 over that on trn2."""
    found: dict[str, dict[str, list[float]]] = {name: {"trn1": [], "trn3": []} for name in LIBRARIES}
    for path in sorted(BASELINES.glob("trn*.json")):
        rows, library = recorded(path.stem), path.stem.partition(".")[0]
        for (kernel, target), facts in rows.items():
            base = rows.get((kernel, "trn2"))
            if library in found and target != "trn2" and base:
                seconds = {
                    t: f["cycles"] / TARGETS[t].clock_ghz["tensor"] for t, f in ((target, facts), ("trn2", base))
                }
                found[library][target].append(seconds[target] / seconds["trn2"])
    top, left, right, step = 66, 196, 770, 26
    foot = top + step * 12 + 6
    svg = Svg(800, foot + 40, "Predicted time of every kernel on trn1 and trn3 over that on trn2")
    svg.text(16, 22, "Predicted time of every kernel on trn1 and trn3, over that on trn2", size=14)
    svg.text(16, 42, "One dot a kernel and size of the tables; left of 1 it is faster than on trn2.", fill=GREY)

    def x_of(ratio: float) -> float:
        return left + (math.log2(min(max(ratio, 0.23), 8.5)) + 2.2) / 5.4 * (right - left)

    _log_axis(svg, {0.25: "1/4", 0.5: "1/2", 1: "1", 2: "2", 4: "4", 8: "8"}, x_of, top - 6, foot)
    for i, (library, colour) in enumerate(zip(LIBRARIES, SERIES_COLOURS, strict=False)):
        for j, (target, ratios) in enumerate(found[library].items()):
            y = top + step * (2 * i + j) + 10
            svg.text(left - 10, y + 4, f"{library} on {target}", anchor="end", size=11, fill=colour)
            for k, ratio in enumerate(sorted(ratios)):
                svg.dot(x_of(ratio), y + (k % 5 - 2) * 3, colour if target == "trn1" else "#ffffff", 2.6, colour)
    return svg


def main() -> None:
    """Draw the pictures named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help=", ".join(PICTURES))
    FOLDER.mkdir(exist_ok=True)
    for name in parser.parse_args().name or PICTURES:
        path = FOLDER / f"{name}.svg"
        path.write_text(str(PICTURES[name]()))
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
