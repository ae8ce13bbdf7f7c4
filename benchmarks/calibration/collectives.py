"""Published times of collectives compared with `trnsim.fabric`: ``python -m benchmarks.calibration.collectives``.

Errors are of rows left out: the constants are fitted again without a row, then predict it. A source whose host adds a
constant time has a floor of its own, the only figure that is fitted to that source alone.
``trnsim calibrate --nccom MACHINE FILE`` fits the same constants to the output of ``nccom-test``.
"""

from __future__ import annotations

import csv
import dataclasses
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

from trnsim import target_file
from trnsim.constants import CONSTANTS
from trnsim.errors import WrongArgument
from trnsim.fabric import MACHINES, Group, predict
from trnsim.targets import TARGETS, Target

TABLE = Path(__file__).with_name("collectives.csv")
# Constants of the fabric, and how far a fit may move one, as a standard deviation of its logarithm.
FITTED = (
    *("collective_start", "hop", "doubling_step", "efa_step"),
    *("chip_share", "mesh_share", "doubling_share", "ring_share", "efa_share"),
)
REACH = 0.5
# A constant that moves by less is left as published.
IDENTIFIED = 0.01
# What nccom-test calls them.
_KINDS = {"allr": "all_reduce", "allg": "all_gather", "redsct": "reduce_scatter", "alltoall": "all_to_all"}
_KINDS |= {"all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter"}
_KINDS |= {"permute": "permute", "alltoallv": "all_to_all", "sendrecv": "permute"}


class Row(NamedTuple):
    """One measured collective; ``floor`` names the source whose host adds a constant time, if one does."""

    source: str
    machine: str
    kind: str
    ranks: int
    nbytes: float
    microseconds: float
    floor: str
    counts: bool


def rows() -> list[Row]:
    """Return the published rows."""
    with TABLE.open(encoding="utf-8") as lines:
        return [
            Row(
                row["source"],
                row["machine"],
                row["kind"],
                int(row["ranks"]),
                float(row["bytes"]),
                float(row["us"]),
                row["floor"],
                row["counts"] == "yes",
            )
            for row in csv.DictReader(line for line in lines if not line.startswith("#"))
        ]


def _log_error(row: Row, target: Target, floor: float) -> float:
    seconds = predict(MACHINES[row.machine], row.kind, Group(row.ranks, alone=True), row.nbytes, target).seconds
    return float(np.log((1e6 * seconds + floor) / row.microseconds))


def _with_constants(values: dict[str, float], name: str) -> Target:
    base = TARGETS[name]
    return dataclasses.replace(base, timing=dataclasses.replace(base.timing, **values))


def fit(given: Sequence[Row]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the constants, and the microseconds of every floor, that explain the rows best."""
    floors = sorted({row.floor for row in given if row.floor})
    start = [getattr(TARGETS["trn1"].timing, name) for name in FITTED]
    least = {name: min(row.microseconds for row in given if row.floor == name) for name in floors}
    guess = np.log([*start, *(least[name] for name in floors)])

    def unpack(x: np.ndarray) -> tuple[dict[str, float], dict[str, float]]:
        values = [float(v) for v in np.exp(x)]
        return dict(zip(FITTED, values, strict=False)), dict(zip(floors, values[len(FITTED) :], strict=True))

    def residuals(x: np.ndarray) -> np.ndarray:
        constants, known = unpack(x)
        targets = {name: _with_constants(constants, name) for name in TARGETS}
        errors = [_log_error(r, targets[MACHINES[r.machine].target], known.get(r.floor, 0.0)) for r in given]
        # a constant that no row depends on stays where it is
        return np.array([*errors, *(0.02 / REACH * (x - guess)[: len(FITTED)])])

    return unpack(least_squares(residuals, guess, loss="soft_l1", f_scale=0.1).x)


def left_out(every: Sequence[Row]) -> list[float]:
    """Return, for each row, the logarithm of predicted over measured by constants fitted without it."""
    errors = []
    for at, row in enumerate(every):
        constants, floors = fit([*every[:at], *every[at + 1 :]])
        target = _with_constants(constants, MACHINES[row.machine].target)
        errors.append(_log_error(row, target, floors.get(row.floor, 0.0)))
    return errors


def read_nccom(path: Path, machine: str) -> list[Row]:
    """Return the rows of a file with runs of ``nccom-test``, each with its command line and its table."""
    found, kind, ranks = [], "", 0
    for line in path.read_text(encoding="utf-8").splitlines():
        if command := re.search(r"nccom-test\b(.*)", line):
            words = command[1].split()
            kind = next((_KINDS[word] for word in words if word in _KINDS), "")
            ranks = next((int(words[i + 1]) for i, word in enumerate(words[:-1]) if word in ("-r", "--nworkers")), 0)
        fields = line.split()
        if len(fields) >= 5 and fields[0].isdigit() and fields[1].isdigit():
            if not kind or ranks < 2:
                hint = "keep the command line, `nccom-test -r RANKS OPERATION`, above its table"
                raise WrongArgument(f"{path} has a table without one", "nccom-test", line.strip(), hint=hint)
            found.append(Row(path.name, machine, kind, ranks, float(fields[0]), float(fields[3]), "", True))
    if not found:
        hint = "give the output of nccom-test"
        raise WrongArgument(f"{path} has no table of nccom-test", "nccom-test", path.name, hint=hint)
    return found


def calibrate(paths: Sequence[Path], machine: str, output: Path) -> None:
    """Fit the fabric to runs of ``nccom-test`` on one machine, print the errors and write a target file."""
    if machine not in MACHINES:
        raise WrongArgument(f"machine {machine!r}", "machine", machine, sorted(MACHINES), "name one of these")
    name = MACHINES[machine].target
    given = [row for path in paths for row in read_nccom(path, machine)]
    constants, _ = fit(given)
    for label, target in (("published", TARGETS[name]), ("fitted", _with_constants(constants, name))):
        errors = [_log_error(row, target, 0.0) for row in given]
        print(f"{label}: median {summary(errors)[0]:.1%}, p90 {summary(errors)[1]:.1%} of {len(given)} rows")
    source = f"fitted to {len(given)} rows of nccom-test, {', '.join(path.name for path in paths)}"
    moved = {
        key: {"value": value, "was": CONSTANTS[name][key].value, "provenance": source}
        for key, value in constants.items()
        if abs(np.log(value / CONSTANTS[name][key].value)) > IDENTIFIED
    }
    target_file.write(output, name, moved, TARGETS[name].intervals)


def summary(errors: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 90th percentile of relative errors, from logarithms."""
    sizes = np.expm1(np.abs(errors))
    return float(np.median(sizes)), float(np.quantile(sizes, 0.9))


def main() -> int:
    """Print the constants, every row with its error when left out, and the summary."""
    every = [row for row in rows() if row.counts]
    constants, floors = fit(every)
    for name, value in {**constants, **{f"floor {k}": v for k, v in floors.items()}}.items():
        print(f"{name:<32} {value:.4g}")
    errors = left_out(every)
    for row, error in zip(every, errors, strict=True):
        size = f"{row.nbytes:>12.0f} B {row.microseconds:>9.1f} us {np.expm1(error):>+7.1%}"
        print(f"{row.source:<18} {row.machine:<6} {row.kind:<12} {row.ranks:>3} {size}")
    print("left out: median {:.1%}, p90 {:.1%}".format(*summary(errors)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
