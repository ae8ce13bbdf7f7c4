"""Predicted cycles of every registered kernel, and the record they are compared with, exactly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trnsci
import trnsim
from benchmarks.registry import Bench, Kernel
from trnsci import tuned
from trnsim.targets import TARGETS

FOLDER = Path(__file__).parent / "baselines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """One kernel on one target. ``cycles`` are of the Tensor Engine's clock; ``busy`` is the busiest engine's share."""

    kernel: str
    target: str
    cycles: int
    seconds: float
    binding: str
    busy: float
    hbm_bytes: int


def predict(bench: Bench) -> Iterator[Predicted]:
    """Follow every kernel of a benchmark through the time model, without its arithmetic; then its whole calls."""
    for kernel in bench.kernels:
        for target in kernel.targets:
            run = trnsim.profile(kernel.kernel, target=target, numerics=False, ranks=kernel.ranks)
            inputs, options = kernel.inputs(), dict(kernel.options() if callable(kernel.options) else kernel.options)
            _, report = run(*inputs, **options, **tuned.chosen(kernel.kernel, target, inputs, options))
            binding = max(report.engines, key=lambda queue: report.engines[queue].busy_s)
            yield Predicted(
                kernel=kernel.name,
                target=target,
                cycles=round(report.total_s * TARGETS[target].clock_ghz["tensor"] * 1e9),
                seconds=report.total_s,
                binding=binding,
                busy=report.engines[binding].busy_s / (kernel.ranks or 1) / report.total_s,
                hbm_bytes=report.hbm_read_bytes + report.hbm_written_bytes,
            )
    yield from whole(bench)


def whole(bench: Bench) -> Iterator[Predicted]:
    """Predict the calls of a benchmark that are several programs, as their plans do."""
    for each in bench.wholes:
        with trnsci.backend("simulator"):
            plan = trnsci.plan(bench.run, *each.inputs())
        for target in each.targets:
            found = [programs for step in plan.steps if (programs := step.programs(target)) is not None]
            busy = {name: sum(p.busy.get(name, 0.0) for p in found) for p in found for name in p.busy}
            seconds = plan.predicted[target]
            binding = max(busy, key=lambda name, busy=busy: busy[name])
            yield Predicted(
                kernel=each.name,
                target=target,
                cycles=round(seconds * TARGETS[target].clock_ghz["tensor"] * 1e9),
                seconds=seconds,
                binding=binding,
                busy=busy[binding] / seconds,
                hbm_bytes=plan.bytes_read + plan.bytes_written,
            )


def path(op: str) -> Path:
    """Where the baseline of an op is kept."""
    return FOLDER / f"{op}.json"


def recorded(op: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The baseline of an op by kernel and target; empty when there is none."""
    if not path(op).exists():
        return {}
    return {
        (kernel, target): facts
        for kernel, targets in json.loads(path(op).read_text()).items()
        for target, facts in targets.items()
    }


def before(op: str, predicted: Predicted) -> int | None:
    """The last cycles on record that differ from these; None when there never were others."""
    facts = recorded(op).get((predicted.kernel, predicted.target))
    if facts is None:
        return None
    return facts["cycles"] if facts["cycles"] != predicted.cycles else facts.get("before")


def record(op: str, predicted: Iterable[Predicted]) -> Path:
    """Accept these predictions as the baseline, each beside the one it replaces."""
    kept: dict[str, dict[str, dict[str, object]]] = {}
    for each in predicted:
        facts: dict[str, object] = {"cycles": each.cycles, "binding": each.binding, "hbm_bytes": each.hbm_bytes}
        older = before(op, each)
        if older is not None:
            facts["before"] = older
        kept.setdefault(each.kernel, {})[each.target] = facts
    path(op).write_text(json.dumps(kept, indent=1) + "\n")
    return path(op)


def compare(op: str, predicted: Iterable[Predicted], registered: Iterable[Kernel] = ()) -> list[str]:
    """Every way the predictions differ from the baseline, as sentences; empty when they agree.

    Args:
        op: what was predicted.
        predicted: of all its kernels, or of some.
        registered: kernels that were left out, and may be on record.
    """
    now = {(each.kernel, each.target): each for each in predicted}
    if not now:
        return []
    if not path(op).exists():
        return [f"{op} has no baseline yet"]
    kept = recorded(op)
    left_out = {(kernel.name, target) for kernel in registered for target in kernel.targets}
    gone = sorted(kept.keys() - now.keys() - left_out)
    lines = [f"{op} {' '.join(key)}: recorded, but no longer registered" for key in gone]
    for key, each in now.items():
        facts = kept.get(key)
        if facts is None:
            lines.append(f"{op} {' '.join(key)}: registered, but not recorded")
        elif facts["cycles"] != each.cycles:
            change = each.cycles / facts["cycles"] - 1
            lines.append(f"{op} {' '.join(key)}: {facts['cycles']} cycles recorded, {each.cycles} now ({change:+.2%})")
    return lines
