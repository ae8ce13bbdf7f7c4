"""Benchmark results as values, as terminal text, as JSON and as docs/benchmarks.md."""

from __future__ import annotations

import datetime
import json
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from benchmarks.predictions import FOLDER, Predicted, before, recorded
from benchmarks.registry import ROOT, load, names
from trnsci.host import processor
from trnsim.targets import TARGETS

STEADY = 0.25
GPU = "## On an NVIDIA GPU"
# From these seconds on a call says why it is slower than its peer on a GPU, or than the library it calls on the host,
# where it takes more than so many times as long.
NOTICED, SLOWER, ABOVE = 1e-4, 1.2, 1.1
# what the page begins with; `tools.pictures` draws them
PICTURES = {
    "ratios": "Our time over each peer's, by op, measured on the host: most are at 1 or left of it",
    "sizes": "Every function over its counterpart at 8, 64 and 256 rows: the fixed cost of a call fades with the size",
    "targets": "Predicted time of every kernel on trn1 and trn3 over that on trn2",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """One peer in one row: its time, our time over its, our time minus its; or why it is absent.

    ``called`` says that ours made this very call to a library: the ratio is what checks and dispatch cost.
    """

    name: str
    called: bool = False
    seconds: float | None = None
    ratio: float | None = None
    difference: float | None = None
    absent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRow:
    """One case on the machine at hand: measured."""

    case: str
    overhead: bool
    flops: int
    bytes: int
    seconds: float
    spread: float
    against: tuple[Against, ...]
    # of a call on a GPU that is slower than its fastest peer's: how long the GPU computes
    busy: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpReport:
    """Everything found out about one op. A red op has no rows."""

    op: str
    tests: str
    green: bool
    notes: str
    timed: tuple[TimedRow, ...]
    predicted: tuple[Predicted, ...]
    slower: str = ""


def duration(seconds: float) -> str:
    """Return seconds in the unit that suits them."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _bytes(count: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"


def _cell(against: Against, overhead: bool) -> str:
    if against.seconds is None or against.ratio is None or against.difference is None:
        return against.absent or ""
    figure = f"{against.difference * 1e6:+.1f} µs" if overhead else f"{against.ratio:.2f}"
    return f"{figure} †" if against.called else figure


def _timed_table(report: OpReport) -> list[list[str]]:
    peers = [a.name for a in report.timed[0].against]
    rows = [["case", "ours", "spread", "GFLOP/s", "GB/s", *(f"ours / {name}" for name in peers)]]
    for row in report.timed:
        rate, traffic = row.flops / row.seconds / 1e9, row.bytes / row.seconds / 1e9
        cells = [_cell(a, row.overhead) for a in row.against]
        rows.append([row.case, duration(row.seconds), f"{row.spread:.0%}", f"{rate:.3g}", f"{traffic:.3g}", *cells])
    return rows


def _predicted_table(report: OpReport) -> list[list[str]]:
    rows = [["kernel", "target", "cycles", "before", "change", "time", "busiest", "busy", "HBM traffic"]]
    for p in report.predicted:
        older = before(report.op, p)
        change = ["", ""] if older is None else [f"{older:,}", f"{p.cycles / older - 1:+.1%}"]
        figures = [f"{p.cycles:,}", *change, duration(p.seconds), p.binding, f"{p.busy:.0%}", _bytes(p.hbm_bytes)]
        rows.append([p.kernel, p.target, *figures])
    return rows


def recorded_table(op: str) -> list[list[str]]:
    """The predictions of an op as its baseline has them: what the page shows, and a test holds it to."""
    rows = [["kernel", "target", "cycles", "before", "change", "time", "busiest", "HBM traffic"]]
    for (kernel, target), facts in recorded(op).items():
        cycles, older = facts["cycles"], facts.get("before")
        change = ["", ""] if older is None else [f"{older:,}", f"{cycles / older - 1:+.1%}"]
        seconds = cycles / (TARGETS[target].clock_ghz["tensor"] * 1e9)
        figures = [f"{cycles:,}", *change, duration(seconds), facts["binding"], _bytes(facts["hbm_bytes"])]
        rows.append([kernel, target, *figures])
    return rows


def refreshed(page: str) -> str:
    """Return the page with predictions as recorded and notes as declared; measured tables stay.

    Ops without a part get one.
    """
    host, heading, gpu = page.partition(f"\n{GPU}")
    head, *parts = re.split(r"^## ", host, flags=re.M)
    kept = {part.partition("\n")[0]: part for part in parts}
    for path in sorted(FOLDER.glob("*.json")):
        op = path.stem
        table = f"Predicted:\n\n{_markdown(recorded_table(op))}"
        part = kept.get(op, f"{op}\n\n{table}\n\n")
        kept[op] = re.sub(r"^Predicted:\n\n(?:\|.*(?:\n|\Z))+", lambda _, t=table: f"{t}\n", part, flags=re.M)
    for op in set(kept) & set(names()):
        kept[op] = _noted(kept[op], load(op).notes)
    return head + "".join(f"## {kept[op].strip()}\n\n" for op in sorted(kept)).rstrip() + "\n" + heading + gpu


def _noted(part: str, notes: str) -> str:
    """A part of the page with these notes at its end, after its tables."""
    op, *blocks = part.strip().split("\n\n")
    tables = [block for block in blocks if block.startswith(("|", "Measured:", "Predicted:", "No speed"))]
    return "\n\n".join([op, *tables, *([notes] if notes else [])])


def _plain(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    # two stars would begin bold type
    return "\n".join("| " + " | ".join(line).replace("**", r"\*\*") + " |" for line in lines)


def _unsteady(reports: Sequence[OpReport]) -> list[str]:
    """A sentence for figures that somebody else's work disturbed, or nothing."""
    rows = [row for report in reports for row in report.timed]
    wild = sum(row.spread > STEADY for row in rows)
    if not wild:
        return []
    return [
        f"{wild} of {len(rows)} rows vary by more than {STEADY:.0%}: the machine was busy, run it again when it is not."
    ]


def _beside_libraries(reports: Sequence[OpReport]) -> list[str]:
    """How the calls that take long compare with the libraries they call, and a table of those that are above."""
    rows = [
        (report, row, against)
        for report in reports
        for row in report.timed
        for against in row.against
        if against.called and against.ratio and row.seconds > NOTICED
    ]
    above = [[r.op, row.case, duration(row.seconds), f"{a.ratio:.2f}", a.name] for r, row, a in rows if a.ratio > ABOVE]
    if not rows:
        return []
    sentence = (
        f"† marks the library that ours calls. Of {len(rows)} rows of more than {duration(NOTICED)} with one,"
        f" {len(above)} take{'s' * (len(above) == 1)} more than {ABOVE} times as long as that library"
    )
    if not above:
        return [f"{sentence}."]
    return [f"{sentence}:", _markdown([["op", "case", "ours", "ours / library", "library"], *above])]


def text(reports: Sequence[OpReport]) -> str:
    """The tables for a terminal."""
    parts = ["Ratios are our time over the peer's: below 1 we are faster. Overhead rows show the difference instead."]
    for report in reports:
        parts.append(f"{report.op}: {report.tests}")
        if not report.green:
            parts.append("  no speed is reported")
            continue
        if report.timed:
            parts.append("measured\n" + _plain(_timed_table(report)))
        if report.predicted:
            parts.append("predicted\n" + _plain(_predicted_table(report)))
        if report.notes:
            parts.append(report.notes)
    return "\n\n".join(parts + _unsteady(reports))


def machine(device: str) -> dict[str, str]:
    """What the figures depend on."""
    count, name = torch.get_num_threads(), processor("model name") or platform.processor() or platform.machine()
    facts = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": f"{name}, {count} thread{'s' * (count > 1)}",
        "Python": platform.python_version(),
    }
    if device == "cuda":
        facts["GPU"] = torch.cuda.get_device_name()
        facts["CUDA"] = str(torch.version.cuda)
        facts["triton"] = version("triton")
    facts["torch"] = torch.__version__
    for name in ("trnsci", "numpy", "scipy", "pyscf", "opt_einsum"):
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            facts[name] = "not installed"
    return facts


def _page(reports: Sequence[OpReport], facts: dict[str, str]) -> str:
    parts = [
        "# Benchmarks",
        "Ratios are our time over the peer's: below 1 ours is faster. Times on the host are *measured*; those on"
        " Trainium are *predicted* by the simulator's time model.",
        *(f"![{told}](assets/benchmark-{name}.svg)" for name, told in PICTURES.items()),
        "The pictures are drawn by `python -m tools.pictures` from the tables below and from"
        " [every function](every-function.md). Measured times are medians of interleaved runs on one machine, ours and"
        " every peer in the same process, and are never a gate; rows of small operands show the difference instead of"
        " the ratio. Predictions are deterministic and compared exactly with the recorded baselines in CI; *before* is"
        " what was recorded until the model or the kernel last changed. Spread is the distance between the quartiles"
        " over the median. An op whose tests fail has no figures, and one without measured figures was not timed.",
        *_beside_libraries(reports),
        _markdown([["machine", ""], *([key, value] for key, value in facts.items())]),
        *_unsteady(reports),
    ]
    for report in reports:
        parts.append(f"## {report.op}")
        if not report.green:
            parts.append(f"No speed is reported: {report.tests}.")
            continue
        if report.timed:
            parts += ["Measured:", _markdown(_timed_table(report))]
        if report.predicted:
            parts += ["Predicted:", _markdown(recorded_table(report.op))]
        if report.notes:
            parts.append(report.notes)
    return "\n\n".join(parts) + "\n"


def fastest(against: Sequence[Against]) -> Against | None:
    """The fastest of the peers that were timed."""
    there = [a for a in against if a.seconds is not None]
    return min(there, key=lambda a: a.seconds or 0.0) if there else None


def _why(report: OpReport, row: TimedRow) -> str:
    """Why a call on a GPU is slower than its peer, where it is."""
    if row.busy is None:
        return ""
    where = f"{duration(row.busy)} on the GPU"
    return f"{where}; {report.slower}" if report.slower else where


def _gpu_part(reports: Sequence[OpReport], facts: dict[str, str]) -> str:
    """One table of everything that was timed on a GPU, each row beside its fastest peer there."""
    rows = [["op", "case", "ours", "spread", "ours / peer", "peer", "why slower"]]
    for report in reports:
        for row in report.timed:
            best = fastest(row.against)
            beside = [_cell(best, row.overhead), best.name] if best else ["", "none on a GPU"]
            rows.append([report.op, row.case, duration(row.seconds), f"{row.spread:.0%}", *beside, _why(report, row)])
    red = [f"`{report.op}` has no figures: {report.tests}." for report in reports if not report.green]
    parts = [
        GPU,
        "Written by `python -m benchmarks.run --device cuda --write`, after every test that needs a GPU passed. Ratios"
        " are our time over that of the fastest peer on the same GPU in the same process.",
        f"A call of more than {duration(NOTICED)} that takes more than {SLOWER} times as long as its peer says why: how"
        " long the GPU computes in it, and what it does that the peer does not. What the GPU does not take is time on"
        " the host: checks, launches, and waiting where a check reads a result.",
        _markdown([["machine", ""], *([key, value] for key, value in facts.items())]),
        *_unsteady(reports),
        _markdown(rows),
        *red,
    ]
    return "\n\n".join(parts) + "\n"


def page_path() -> Path:
    """Where the page is kept."""
    return ROOT / "docs" / "benchmarks.md"


def write(reports: Sequence[OpReport], *, device: str) -> list[Path]:
    """Keep the results: JSON for programs, and the device's part of the page for people."""
    facts = machine(device)
    results = ROOT / "benchmarks" / "results"
    results.mkdir(exist_ok=True)
    data = {"machine": facts, "ops": [asdict(report) for report in reports]}
    written = [results / f"{device}.json"]
    written[0].write_text(json.dumps(data, indent=1) + "\n")
    page = page_path()
    host, heading, gpu = page.read_text().partition(GPU) if page.exists() else ("", "", "")
    if device == "cpu":
        page.write_text(_page(reports, facts) + (f"\n{heading}{gpu}" if heading else ""))
    else:
        page.write_text(f"{host.rstrip()}\n\n{_gpu_part(reports, facts)}")
    written.append(page)
    return [path.relative_to(ROOT) for path in written]
