"""What a walk found, as one JSON file and one page: the verdict first, then what to report, then every kernel."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.validation.refusals import translate
from trnsci import html_page
from trnsci.console import Table
from trnsci.html_page import Bar, Bars
from trnsci.plans import seconds

FORMAT = "trnsci validate 1"
OURS, AWS = "trnsci", "AWS Neuron"
ADDRESSES = "trnsci: an issue of this project with validate.json; AWS Neuron: an issue of aws-neuron/aws-neuron-sdk."
# bars of kernels that are furthest from their predictions
SHOWN = 24
STAND_IN = (
    "This is the report of an emulated device: kernels ran on the simulator, and no time was measured on a Trainium."
)
# in the order they are worth a report
SEVERITY = ("wrong", "crashed", "hung", "memory", "failed", "refused", "slower", "faster")


class Item(NamedTuple):
    """One thing to report, and to whom."""

    kind: str
    job: str
    to: str
    text: str


def document(about: dict[str, Any], jobs: int, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the whole as plain values; ``measured`` rows are what ``trnsim calibrate`` reads."""
    return {
        "format": FORMAT,
        "stand_in": about["device"] == "emulated",
        "about": about,
        "jobs": jobs,
        "results": results,
        "report": [item._asdict() for item in items(results)],
        "measured": measured(about, results),
    }


def measured(about: dict[str, Any], results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of kernels that ran in one program and were right: what took how long, by which clock."""
    rows = []
    for result in results:
        stages = result["stages"]
        if result["kind"] != "kernel" or result["status"] not in ("right", "uncompared") or "measure" not in stages:
            continue
        if stages["predict"]["launches"] != 1:
            continue
        row = {"op": result["name"], "case": result["case"], "target": about["target"]}
        # tables of choices change: what ran is what is predicted again
        row["choices"] = stages["predict"].get("choices", {})
        rows.append({**row, "metric": "benchmark", "seconds": stages["measure"]["seconds"]})
        by_device = device_seconds(stages)
        if by_device is not None:
            rows.append({**row, "metric": "total", "seconds": by_device})
    return rows


def items(results: list[dict[str, Any]]) -> list[Item]:
    """What to report, the gravest first."""
    unsound = any(r["kind"] == "probe" and r["status"] == "wrong" for r in results)
    found = [item for result in results for item in _item(result, unsound)]
    return sorted(found, key=lambda item: SEVERITY.index(item.kind))


def _item(result: dict[str, Any], unsound: bool) -> list[Item]:
    status, job, text, stages = result["status"], result["job"], result["text"], result["stages"]
    if status == "wrong":
        blamed = AWS if result["kind"] == "probe" else OURS
        also = " A probe of the arithmetic failed too: look there first." if unsound and blamed is OURS else ""
        return [Item(status, job, blamed, text + also)]
    if status in ("crashed", "hung"):
        return [Item(status, job, f"{OURS}, {AWS}", text)]
    if status in ("memory", "failed"):
        return [Item(status, job, OURS, text)]
    if status == "refused":
        said = translate(text, stages.get("predict", {}).get("lint", []))
        to = OURS if said.rule is None or not said.caught else "nobody"
        return [Item(status, job, to, f"{text} ({said.text})")]
    ratio = speed(result)
    if ratio is not None and ratio[1]:
        kind = "slower" if ratio[0] > 1 else "faster"
        text = f"measured {ratio[0]:.2f} times the prediction, outside its interval: trnsim calibrate uses it"
        return [Item(kind, job, OURS, text)]
    return []


def speed(result: dict[str, Any]) -> tuple[float, bool] | None:
    """Measured over predicted time, by a clock of the device where there is one, and whether it is outside."""
    stages = result["stages"]
    if "measure" not in stages or "predict" not in stages:
        return None
    predicted, by_device = stages["predict"], device_seconds(stages)
    if by_device is not None:
        ratio = by_device / predicted["total_s"]
    else:
        ratio = stages["measure"]["seconds"] / predicted["benchmark_s"]
    low, high = (predicted[end] / predicted["total_s"] for end in ("low_s", "high_s"))
    return ratio, not low <= ratio <= high


def device_seconds(stages: dict[str, Any]) -> float | None:
    """Return the time of a kernel by nrtpy's clock, else by the profiler; ``None`` without either."""
    clock, profile = stages.get("clock", {}), stages.get("profile")
    seconds: float | None = clock.get("mean_s", profile["total_s"] if profile else None)
    return seconds


def lead(about: dict[str, Any], jobs: int, results: list[dict[str, Any]]) -> str:
    """The verdict in a few sentences, the first of which is the answer."""
    counts = Counter(result["status"] for result in results)
    kernels = [result for result in results if result["kind"] == "kernel"]
    compiled = sum("compile" in result["stages"] for result in kernels)
    right = sum(result["status"] == "right" for result in kernels)
    ratios = [found[0] for result in kernels if (found := speed(result))]
    told = [f"{compiled} of {len(kernels)} kernels compiled, {right} were right, on {about['target']}."]
    if about["device"] == "emulated":
        told.append(STAND_IN)
    if ratios:
        told.append(
            f"Measured over predicted time: median {statistics.median(ratios):.2f}, "
            f"from {min(ratios):.2f} to {max(ratios):.2f}."
        )
    told.append(
        f"{len(results)} of {jobs} jobs: " + ", ".join(f"{n} {status}" for status, n in counts.most_common()) + "."
    )
    return "\n".join(told)


def html(about: dict[str, Any], jobs: int, results: list[dict[str, Any]]) -> str:
    """The page."""
    stand_in = " (emulated device)" if about["device"] == "emulated" else ""
    return html_page.page(
        f"trnsci on {about['instance'] or about['target']}{stand_in}",
        lead(about, jobs, results),
        [
            _tabulate_items(results),
            *_speeds(results),
            *_engines(results),
            _kernels(results),
            _others(results),
            _machine(about),
        ],
    )


def _tabulate_items(results: list[dict[str, Any]]) -> Table:
    rows = [(str(n), i.kind, i.job, i.to, i.text) for n, i in enumerate(items(results), 1)]
    note = ADDRESSES if rows else "Nothing: everything that ran was right and as fast as predicted."
    return Table("What to report, to whom", ("", "what", "job", "to", "text"), rows, note)


def _speeds(results: list[dict[str, Any]]) -> list[Bars]:
    found = [(result, ratio) for result in results if (ratio := speed(result))]
    bars = [
        Bar(f"{result['name']} {result['case']}", ratio, f"{ratio:.2f}", other=outside)
        for result, (ratio, outside) in sorted(found, key=lambda each: -abs(math.log(each[1][0])))[:SHOWN]
    ]
    note = "The furthest from 1.00, the prediction. The second colour is outside the prediction's interval."
    return [Bars("Measured over predicted time", bars, note)] if bars else []


def _engines(results: list[dict[str, Any]]) -> list[Table]:
    rows = []
    for result in results:
        profile = result["stages"].get("profile")
        if profile:
            predicted = result["stages"]["predict"]["engines"]
            shares = [
                f"{share:.0%} ({predicted[engine]:.0%})" if engine in predicted else f"{share:.0%}"
                for engine, share in profile["engines"].items()
            ]
            rows.append((f"{result['name']} {result['case']}", *shares, seconds(profile["total_s"])))
    head = ("kernel", "tensor", "vector", "scalar", "gpsimd", "dma", "in all")
    note = "Share of the time an engine was active by the profiler, and predicted."
    return [Table("By engine", head, rows, note)] if rows else []


def _kernels(results: list[dict[str, Any]]) -> Table:
    rows = []
    for result in results:
        if result["kind"] != "kernel":
            continue
        stages = result["stages"]
        predicted, measure, compiled = (stages.get(name) for name in ("predict", "measure", "compile"))
        size = compiled.get("neff_bytes") if compiled else None
        rows.append(
            (
                f"{result['name']} {result['case']}",
                result["status"],
                seconds(compiled["seconds"]) if compiled else "",
                f"{predicted['instructions']:,}" if predicted else "",
                f"{size / 1024:.0f} KiB" if size else "",
                seconds(measure["seconds"]) if measure else "",
                seconds(found) if (found := device_seconds(stages)) is not None else "",
                seconds(predicted["benchmark_s"]) if predicted else "",
                result["text"],
            )
        )
    head = (
        "kernel",
        "",
        "compiled in",
        "instructions",
        "program",
        "measured",
        "on the device",
        "predicted",
        "comparison",
    )
    return Table("Kernels, cheapest first", head, rows)


def _others(results: list[dict[str, Any]]) -> Table:
    rows = [(r["job"], r["status"], r["text"]) for r in results if r["kind"] != "kernel"]
    return Table("Probes of the arithmetic, and ops against their bounds", ("job", "", "text"), rows)


def _machine(about: dict[str, Any]) -> Table:
    rows = [
        ("device", str(about["device"] or about["why"])),
        ("instance", about["instance"] or "not an instance of EC2"),
    ]
    rows += [("cores of a logical core", str(about["logical_cores"])), ("profiler", about["profiler"] or "none found")]
    rows += [(name, text) for name, text in about["versions"].items() if text != "not installed"]
    rows += list(about["settings"].items())
    return Table("The machine", ("", ""), rows)


def write(folder: Path, about: dict[str, Any], jobs: int, results: list[dict[str, Any]]) -> tuple[Path, Path]:
    """Write both files, each whole or not at all."""
    texts = {
        "validate.json": json.dumps(document(about, jobs, results), indent=1) + "\n",
        "validate.html": html(about, jobs, results),
    }
    for name, text in texts.items():
        fresh = folder / f"{name}.new"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(folder / name)
    return folder / "validate.json", folder / "validate.html"
