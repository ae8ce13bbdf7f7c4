"""A report as a page of text."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from trnsim.constants import LEVEL
from trnsim.tables import read_table
from trnsim.timing.asking import ENGINES
from trnsim.timing.dma import packet_time
from trnsim.timing.path import group_steps

if TYPE_CHECKING:
    from trnsim.timing.report import Report

_NAMES: dict[str, str] = read_table("names.toml")["engines"]


def seconds(t: float) -> str:
    """Return seconds in the unit people would say them in."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(t) >= scale:
            return f"{t / scale:.4g} {unit}"
    return f"{t / 1e-9:.4g} ns" if t else "0"


def amount(n: float, unit: str) -> str:
    """Return a count with a decimal prefix."""
    for prefix, scale in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(n) >= scale:
            return f"{n / scale:.4g} {prefix}{unit}"
    return f"{n:.4g} {unit}"


def file_and_line(line: str) -> str:
    """Return ``file:line`` without its folders."""
    return PurePath(line).name


def engine_name(name: str) -> str:
    """Return what people call an engine or queue."""
    return _NAMES.get(name, name)


def headline(report: Report) -> str:
    """One sentence on what binds, and what the kernel would save without it."""
    if not report.reliefs:
        return "The kernel issues no instructions."
    first = report.reliefs[0]
    names = " and ".join(map(resource_name, first.resource.split(" and ")))
    saved = f"{seconds(first.saved_s)} ({first.saved_s / report.total_s:.0%}) less"
    return f"Bound by {names}: if that took no time, the kernel would take {saved}."


def resource_name(name: str) -> str:
    """Return a resource as a sentence names it."""
    return f"the {engine_name(name)} Engine" if name in ENGINES else name


def other_reliefs(report: Report) -> str:
    """One sentence on what else would save a hundredth of the time; empty when nothing would."""
    rest = [
        f"{resource_name(relief.resource)} {seconds(relief.saved_s)} ({relief.saved_s / report.total_s:.0%})"
        for relief in report.reliefs[1:]
        if relief.saved_s >= 0.01 * report.total_s
    ]
    return f"Others, each alone: {', '.join(rest)}." if rest else ""


def advice(report: Report, binds: str = "") -> str:
    """One sentence on the time of what ``binds``, or of a resource, and what would shorten it; empty without answer."""
    binds = binds or report.binds.partition(" and ")[0]
    engines = report.engines
    use = engines.get(binds)
    issued = sum(u.instructions for name, u in engines.items() if name.startswith("dma."))
    if use is not None and use.instructions:
        each = seconds(use.busy_s / use.instructions)
        said = f"Its {use.instructions:,} instructions take {each} each on average"
        if binds == "tensor" and report.flops:
            least = report.flops / (report.peak_flops_per_s * report.cores)
            return f"{said}; at the peak rate the same products would take {seconds(least)}."
        return f"{said}; fewer and larger ones, or another engine's share of the work, would shorten it."
    if binds == "DMA issue" and issued:
        spent = sum(u.busy_s for name, u in engines.items() if name.startswith("dma.")) / issued
        return f"Issuing {issued:,} transfers costs {seconds(spent)} each, whatever their size: move more with each."
    if binds == "DMA bandwidth":
        moved = report.hbm_read_bytes + report.hbm_written_bytes
        time = report.target.timing
        rate = time.dma_engines * time.dma_packet_bytes / packet_time(time.dma_packet_bytes, report.target)
        return (
            f"In full packets {amount(moved, 'B')} would take {seconds(moved / rate * 1e-9 / report.cores)}:"
            " reuse what is on chip, and move rows of 4 KiB or more."
        )
    if binds == "latency":
        return "Instructions wait for one another's results more than they work: give the engines independent work."
    if binds == "memory":
        return "Instructions wait for memory to be free: smaller tiles, or fewer alive at once, would let them overlap."
    return ""


def page(report: Report) -> str:
    """Return the whole report."""
    cores = f" on {report.cores} cores" if report.cores > 1 else ""
    out = [
        f"{report.kernel}, {report.target}{cores}: predicted {seconds(report.total_s)}"
        f" ({seconds(report.active_s)} active, {seconds(report.benchmark_s)} as a benchmark sees it)",
        headline(report),
        *filter(None, [advice(report), other_reliefs(report)]),
        f"{LEVEL:.0%} interval {seconds(report.interval.low_s)} to {seconds(report.interval.high_s)},"
        " from errors of kernels left out of the fit.",
        *_unlike(report),
        *([] if report.target.source == "published" else [f"Constants of {report.target.source}."]),
        "",
        f"{'':<20}{'busy':>11}{'use':>8}  instructions",
    ]
    for name, use in report.engines.items():
        bar = "█" * round(20 * min(1.0, use.utilisation))
        out.append(
            f"{engine_name(name):<20}{seconds(use.busy_s):>11}{use.utilisation:>8.1%}  {use.instructions:>12,}  {bar}"
        )
    moved = report.hbm_read_bytes + report.hbm_written_bytes
    rate = moved / report.active_s if report.active_s else 0.0
    sbuf = report.target.sbuf_usable_bytes
    out += [
        "",
        f"HBM    {amount(report.hbm_read_bytes, 'B')} read, {amount(report.hbm_written_bytes, 'B')} written,"
        f" {amount(rate, 'B/s')}",
    ]
    if report.flops:
        out.append(
            f"Math   {amount(report.flops, 'FLOP')}, {amount(report.flops_per_s, 'FLOP/s')}:"
            f" {report.fraction_of_peak:.1%} of the {amount(report.peak_flops_per_s * report.cores, 'FLOP/s')} peak,"
            f" {report.intensity:.3g} FLOP per byte"
        )
    out.append(
        f"Memory {report.sbuf_bytes / 1024:.4g} of {sbuf / 1024:.4g} KiB of an SBUF partition,"
        f" {report.psum_banks} of {report.target.psum_banks} PSUM banks"
    )
    if report.spent_s:
        path = sum(report.spent_s.values())
        shares = ", ".join(
            f"{engine_name(name)} {t / path:.0%}" for name, t in report.spent_s.items() if t / path >= 0.005
        )
        out += ["", f"Critical path: {shares}"]
        for step, count, took in group_steps(report.critical_path)[:8]:
            times = f"{count:,} ×" if count > 1 else ""
            out.append(
                f"{seconds(took):>11}{took / path:>7.1%}  {engine_name(step.engine):<18}{times:>9}"
                f" {step.instruction:<20} {file_and_line(step.line)}"
            )
    out += _notes(report)
    return "\n".join(line.rstrip() for line in out)


def _unlike(report: Report) -> list[str]:
    kernel, differs, distance = report.nearest
    if not distance or report.target.source != "published":
        return []
    return [f"Unlike anything measured: {', '.join(differs)}, so the interval is wider. Nearest: {kernel}."]


def _notes(report: Report) -> list[str]:
    notes = []
    if report.throttled_s > 0.005 * report.active_s:
        notes.append(
            f"The Tensor Engine lost {seconds(report.throttled_s)} at half clock;"
            " it speeds up once it is kept busy for 3.4 µs."
        )
    if report.table_loads > 1:
        notes.append(
            f"{report.table_loads} activation-table loads of {seconds(report.target.timing.act_table * 1e-9)} each."
        )
    if report.assumed > 0.05:
        notes.append(f"{report.assumed:.0%} of the engine time rests on costs without a public measurement.")
    notes += report.warnings
    return ["", *notes] if notes else []
