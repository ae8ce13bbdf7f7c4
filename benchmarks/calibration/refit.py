"""Fit the constants to the rows, and say what a kernel of no known family may expect.

Every constant may move within the uncertainty of its source (`trnsim.constants`): the fit is a least-squares step in
logarithms with that prior, robust against single rows. Leaving a family out repeats the step without its rows and
predicts them; the errors of those predictions are the leave-one-family-out errors, and their spread by what binds a
kernel is the interval a report carries.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from benchmarks.calibration.rows import Row
from benchmarks.calibration.table import Result, predict
from trnsim import constants
from trnsim.constants import CONSTANTS, LEVEL, RESOURCES, UNCERTAINTY, Timing
from trnsim.targets import TARGETS, Target

# what one row is trusted to, and the step of the differences
NOISE = 0.06
STEP = 0.05


class Fit(NamedTuple):
    """``moves`` are logarithms of fitted over present constants, ``held_out`` errors of rows whose family was left out.

    Errors are logarithms of measured over predicted: of the constants as they are, and after the fit.
    """

    names: list[tuple[str, str]]
    moves: np.ndarray
    present: np.ndarray
    fitted: np.ndarray
    held_out: np.ndarray


def _changed(target: str, name: str, factor: float = 1 + STEP) -> Target:
    found = TARGETS[target]
    value = getattr(found.timing, name) * factor
    return dataclasses.replace(found, timing=dataclasses.replace(found.timing, **{name: value}))


def _free(target: str) -> list[str]:
    """Constants a fit may move: those with a spread, a value, and no whole number."""
    known = CONSTANTS[target].items()
    counts = {key for key, kind in Timing.__annotations__.items() if kind == "int"}
    return [name for name, c in known if UNCERTAINTY[c.source] > 0 and c.value > 0 and name not in counts]


_shared: list[Result] = []


def _slopes(constant: tuple[str, str]) -> list[float]:
    """The logarithmic derivative of every prediction by one constant."""
    target, name = constant
    changed = _changed(target, name)
    slopes = [0.0] * len(_shared)
    for i, result in enumerate(_shared):
        if result.row.target == target:
            again = Result(result.row, result.report.recording.report(changed))
            slopes[i] = float(np.log(again.predicted_us / result.predicted_us) / np.log1p(STEP))
    return slopes


def refit(rows: Sequence[Row], say: Callable[[str], None]) -> tuple[list[Result], Fit]:
    """Predict every row, differentiate by every constant of its target, and fit."""
    results = _shared[:] = [predict(row) for row in rows]
    names = [(target, name) for target in sorted({row.target for row in rows}) for name in _free(target)]
    slopes = np.zeros((len(rows), len(names)))
    # forked processes have the recordings already
    with multiprocessing.get_context("fork").Pool() as pool:
        for column, slope in enumerate(pool.imap(_slopes, names)):
            say(f"{column + 1} of {len(names)}: {' '.join(names[column])}")
            slopes[:, column] = slope
    present = np.array([-np.log1p(r.error) for r in results])
    prior = np.array([UNCERTAINTY[CONSTANTS[target][name].source] for target, name in names])
    moves = _step(slopes, present, prior)
    held_out = np.zeros(len(rows))
    for family in {row.family for row in rows}:
        out = np.array([row.family == family for row in rows])
        held_out[out] = (present - slopes @ _step(slopes[~out], present[~out], prior))[out]
    return results, Fit(names, moves, present, present - slopes @ moves, held_out)


def _step(slopes: np.ndarray, errors: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """The most likely logarithmic moves; rows beyond 1.5 deviations count less."""
    weight = np.ones(len(errors))
    moves = np.zeros(slopes.shape[1])
    for _ in range(20):
        scaled = slopes * (weight / NOISE**2)[:, None]
        moves = np.linalg.solve(slopes.T @ scaled + np.diag(prior**-2), scaled.T @ errors)
        left = np.abs(errors - slopes @ moves) / NOISE
        weight = 1.5 / np.maximum(1.5, left)
    return moves


def intervals(results: Sequence[Result], errors: np.ndarray) -> dict[str, tuple[float, float]]:
    """Factors on a prediction that hold `LEVEL` of new families, by what binds: t quantiles over families.

    A family counts as one observation: its rows err together. The spread within families is added; a resource that
    fewer than three families have met takes the spread of all, and none has a narrower one.
    """
    everything = _interval(results, errors)
    found = {"all": everything}
    for resource in sorted(set(RESOURCES.values())):
        mine = [i for i, r in enumerate(results) if RESOURCES.get(r.binds) == resource]
        few = len({results[i].row.family for i in mine}) < 3
        low, high = everything if few else _interval([results[i] for i in mine], errors[mine])
        found[resource] = min(low, everything[0]), max(high, everything[1])
    return found


def coverage(results: Sequence[Result], errors: np.ndarray) -> float:
    """Share of rows inside the interval that the other families alone would have given them."""
    inside = 0
    for family in {r.row.family for r in results}:
        others = [i for i, r in enumerate(results) if r.row.family != family]
        known = intervals([results[i] for i in others], errors[others])
        for r, error in zip(results, errors, strict=True):
            low, high = known.get(RESOURCES.get(r.binds, ""), known["all"])
            inside += r.row.family == family and low <= np.exp(error) <= high
    return inside / len(results)


def _interval(results: Sequence[Result], errors: np.ndarray) -> tuple[float, float]:
    families: dict[str, list[float]] = {}
    for r, e in zip(results, errors, strict=True):
        families.setdefault(r.row.family, []).append(float(e))
    n = len(families)
    # around the prediction itself, not around its mean error: what is known to be biased is corrected, not reported
    between = sum(statistics.fmean(f) ** 2 for f in families.values()) / (n - 1)
    within = [statistics.variance(f) for f in families.values() if len(f) > 1]
    spread = between * (1 + 1 / n) + (statistics.fmean(within) if within else 0.0)
    reach = float(stats.t.ppf(0.5 + LEVEL / 2, n - 1)) * spread**0.5
    return round(float(np.exp(-reach)), 2), round(float(np.exp(reach)), 2)


def text(results: Sequence[Result], fit: Fit) -> str:
    """What the fit found: constants that would move, errors before, after and for families left out, intervals."""
    lines = ["constant, source, value now, fitted:"]
    for (target, name), move in zip(fit.names, fit.moves, strict=True):
        constant = CONSTANTS[target][name]
        if abs(move) > 0.02:
            fitted = constant.value * np.exp(move)
            lines.append(f"  {target} {name} ({constant.source}) {constant.value:.4g} -> {fitted:.4g}")
    lines.append("")
    for label, errors in (("as they are", fit.present), ("fitted", fit.fitted), ("family left out", fit.held_out)):
        lines.append(f"{label + ':':17}{quality(errors)}")
    lines.append(f"INTERVALS = {intervals(results, fit.held_out)}")
    return "\n".join(lines)


def page(results: Sequence[Result], fit: Fit) -> str:
    """The same for the docs."""
    held = intervals(results, fit.held_out)
    families = sorted({r.row.family for r in results})
    lines = [
        f"{len(results)} rows of {len(families)} families. Constants as they are: {quality(fit.present)}."
        f" Fitted to all rows: {quality(fit.fitted)}. Each family"
        f" predicted by constants fitted to the others: {quality(fit.held_out)}.",
        "",
        "| family left out | rows | median error | rank correlation |",
        "|---|--:|--:|--:|",
    ]
    for family in families:
        mine = [i for i, r in enumerate(results) if r.row.family == family]
        error = np.median(np.abs(np.exp(-fit.held_out[mine]) - 1))
        lines.append(f"| {family} | {len(mine)} | {error:.1%} | {ranks([results[i] for i in mine])} |")
    lines += ["", f"Intervals from the other families hold {coverage(results, fit.held_out):.0%} of a family's rows."]
    lines += ["", f"| bound by | {LEVEL:.0%} interval, in parts of the prediction |", "|---|---|"]
    lines += [f"| {resource} | {low:.2f} to {high:.2f} |" for resource, (low, high) in held.items()]
    return "\n".join(lines)


def ranks(results: Sequence[Result]) -> str:
    """Spearman's correlation of predicted and measured times; nothing for fewer than three rows."""
    if len(results) < 3:
        return ""
    found = stats.spearmanr([r.predicted_us for r in results], [r.row.measured_us for r in results])
    return f"{float(found.statistic):.2f}"


def quality(errors: np.ndarray) -> str:
    """Median and 90th percentile of the error of predictions."""
    relative = np.abs(np.exp(-errors) - 1)
    return f"median error {np.median(relative):.1%}, 90th percentile {np.quantile(relative, 0.9):.1%}"


def keep(results: Sequence[Result], fit: Fit) -> None:
    """Write the intervals where reports look for them."""
    path = Path(constants.__file__)
    lines = [
        f'    "{resource}": ({low}, {high}),' for resource, (low, high) in intervals(results, fit.held_out).items()
    ]
    block = "\n".join(["INTERVALS = {", *lines, "}"])
    path.write_text(re.sub(r"(?ms)^INTERVALS = \{.*?^\}", block, path.read_text()))
