"""Constants of one machine as a file: what ``trnsim calibrate`` writes and ``TRNSIM_TARGET_FILE`` loads.

The file names the generation it refines and holds the constants that were fitted, each with the value it replaces and
where the new one comes from. What it does not name stays as `trnsim.constants` has it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trnsim.constants import CONSTANTS, INTERVALS
from trnsim.errors import KernelError
from trnsim.json_reader import is_finite, read_json
from trnsim.refusals import refuse

if TYPE_CHECKING:
    from trnsim.targets import Target

FORMAT = "trnsim target 1"
VARIABLE = "TRNSIM_TARGET_FILE"
# How many times a constant of one machine may be the published one, or the other way round.
FARTHEST = 1e6


def read(path: str | Path, targets: Mapping[str, Target]) -> Target:
    """Return the target a file describes: one of ``targets`` with the file's constants and intervals."""
    path = Path(path)
    try:
        said = read_json(path)
    except (OSError, ValueError) as error:
        raise _wrong(path, f"cannot be read: {error}") from None
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise _wrong(path, f"is no target file: its format is not {FORMAT!r}")
    name = said.get("target")
    if not isinstance(name, str) or name not in targets:
        raise _wrong(path, f"is of the target {name!r}, and {', '.join(targets)} are known")
    base = targets[name]
    values = _values(path, name, said.get("constants"))
    intervals = _intervals(path, said.get("intervals"))
    timing = dataclasses.replace(base.timing, **values)
    return dataclasses.replace(base, timing=timing, source=str(path), intervals=intervals or base.intervals)


def write(
    path: Path,
    target: str,
    constants: Mapping[str, Mapping[str, Any]],
    intervals: Mapping[str, tuple[float, float]],
    **facts: Any,
) -> None:
    """Write a target file; ``constants`` have a ``value``, what it ``was`` and its ``provenance`` each."""
    whole = {"format": FORMAT, "target": target, **facts, "constants": constants, "intervals": intervals}
    path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def _values(path: Path, target: str, said: Any) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise _wrong(path, "has no constants")
    values: dict[str, Any] = {}
    for name, about in said.items():
        value: Any = about.get("value") if isinstance(about, dict) else about
        if name not in CONSTANTS[target]:
            raise _wrong(path, f"names the constant {name!r}, which the timing model does not have")
        published = CONSTANTS[target][name].value
        least, most = (published / FARTHEST, published * FARTHEST) if published else (0.0, FARTHEST)
        if not is_finite(value, least, most):
            raise _wrong(path, f"gives {name} the value {value!r}, and a number from {least:g} to {most:g} is expected")
        whole = isinstance(published, int)
        if whole and int(value) != value:
            raise _wrong(path, f"gives {name} the value {value!r}, and an integer is expected")
        values[name] = int(value) if whole else float(value)
    return values


def _intervals(path: Path, said: Any) -> dict[str, tuple[float, float]]:
    if said is None:
        return {}
    if type(said) is not dict:
        raise _wrong(path, "has intervals that are not pairs of numbers by resource")
    for name, pair in said.items():
        if name not in INTERVALS:
            raise _wrong(path, f"has an interval of {name!r}, and {', '.join(INTERVALS)} are known")
        if type(pair) is not list or len(pair) != 2 or not all(is_finite(end, 0.0, FARTHEST) for end in pair):
            raise _wrong(path, f"has intervals that are not pairs of numbers by resource: {name} has {pair!r}")
        if not pair[0] <= 1.0 <= pair[1]:
            raise _wrong(path, f"has the interval {pair!r} of {name}, and factors below and above 1 are expected")
    return INTERVALS | {name: (float(low), float(high)) for name, (low, high) in said.items()}


def _wrong(path: Path, what: str) -> KernelError:
    return refuse("target-file", got=str(path), path=path, what=what, VARIABLE=VARIABLE)
