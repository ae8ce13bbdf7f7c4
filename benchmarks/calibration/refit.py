"""Fit the constants to the rows, and say what a kernel of no known family may expect.

Every constant may move within the uncertainty of its source (`trnsim.constants`): the fit is a least-squares step in
logarithms with that prior, robust against single rows. Leaving a family out repeats the step without its rows, takes
away the constants that family alone chose (source O), and predicts its rows; the errors of those predictions are the
leave-one-family-out errors, and their spread by what binds a kernel is the interval a report carries.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import multiprocessing
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from scipy import stats

from benchmarks.calibration.rows import Row
from benchmarks.calibration.table import Result
from trnsim import constants
from trnsim.constants import CONSTANTS, LEVEL, UNCERTAINTY, WIDENING
from trnsim.errors import TrnError
from trnsim.targets import TARGETS, Target
from trnsim.timing.likeness import Traits

# what one row is trusted to, and the step of the differences
NOISE = 0.06
STEP = 0.05
# rows a family counts for at most: its rows err together
FAMILY = 10
# the source of constants that a table of kernel times gave; those read out of profiles, probes and guides stay
FITTED = "C"
# rows beyond this are predicted and judged, and take no part in the fit
INSTRUCTIONS = 8000


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
    return _with_values(target, {name: getattr(TARGETS[target].timing, name) * factor})


def _with_values(target: str, values: dict[str, float]) -> Target:
    found = TARGETS[target]
    return dataclasses.replace(found, timing=dataclasses.replace(found.timing, **values))


def _free(target: str) -> list[str]:
    """Constants a fit may move: those that were fitted to kernel times, and are no whole numbers."""
    return [name for name, c in CONSTANTS[target].items() if c.source == FITTED and not isinstance(c.value, int)]


def _chosen_by(family: str, target: str) -> dict[str, float]:
    """Return the constants a family of rows alone chose, with values at which they change nothing."""
    return {name: c.without for name, c in CONSTANTS[target].items() if c.source == "O" and c.family == family}


class Judged(Protocol):
    """A row and the traits of its kernel."""

    @property
    def row(self) -> Row: ...

    @property
    def traits(self) -> Traits: ...


class Outcome(NamedTuple):
    """A row with its prediction and what intervals are told apart by; no recording, so that many fit into memory.

    ``unchosen_us`` is predicted without the constants that the row's own family chose.
    """

    row: Row
    predicted_us: float
    unchosen_us: float
    traits: Traits
    slopes: dict[tuple[str, str], float]

    @property
    def error(self) -> float:
        return self.predicted_us / self.row.measured_us - 1.0


# rows of forked processes, which kernels do not travel to
_shared: list[Row] = []


def _play(number: int, differentiate: bool) -> tuple[float, float, Traits, dict[tuple[str, str], float]] | str:
    """Predict one row and differentiate it by every constant of its target; the reason where it does not run."""
    row = _shared[number]
    chosen = _chosen_by(row.family, row.target)
    try:
        recording = row.record()
        # spilling is decided when a kernel is recorded
        without = row.record(_with_values(row.target, chosen)) if chosen else recording
    except TrnError as error:
        return f"{row.group or row.family} {row.name}: {error}"
    report = recording.report(recording.target)
    result = Result(row, report)
    unchosen = Result(row, without.report(without.target)).predicted_us if chosen else result.predicted_us
    slopes = {}
    if differentiate and report.instruction_count <= INSTRUCTIONS:
        for name in _free(row.target):
            again = Result(row, recording.report(_changed(row.target, name)))
            slopes[row.target, name] = float(np.log(again.predicted_us / result.predicted_us) / np.log1p(STEP))
    return result.predicted_us, unchosen, report.traits, slopes


def play(rows: Sequence[Row], say: Callable[[str], None], *, differentiate: bool, processes: int = 1) -> list[Outcome]:
    """Predict every row in a process of its own."""
    _shared[:] = rows
    outcomes = []
    context, task = multiprocessing.get_context("fork"), functools.partial(_play, differentiate=differentiate)
    for start in range(0, len(rows), processes):
        batch = range(start, min(start + processes, len(rows)))
        # forked by this thread: a pool that replaces its processes forks in a thread of its own, which some libraries
        # that tests load do not survive
        with ProcessPoolExecutor(len(batch), context) as pool:
            for row, played in zip(rows[start:], pool.map(task, batch), strict=False):
                if isinstance(played, str):
                    say(played)
                    continue
                outcomes.append(Outcome(row, *played))
                say(f"{len(outcomes)} of {len(rows)}: {row.group or row.family} {row.name} {outcomes[-1].error:+.1%}")
    return outcomes


def refit(rows: Sequence[Row], say: Callable[[str], None], processes: int = 1) -> tuple[list[Outcome], Fit]:
    """Predict every row, differentiate by every constant of its target, and fit."""
    results = play(rows, say, differentiate=True, processes=processes)
    return results, fit_outcomes(results)


def fit_outcomes(results: Sequence[Outcome]) -> Fit:
    """Fit constants to all rows, and to all but those of each family."""
    names = [(target, name) for target in sorted({r.row.target for r in results}) for name in _free(target)]
    slopes = np.array([[r.slopes.get(name, 0.0) for name in names] for r in results])
    present = np.array([-np.log1p(r.error) for r in results])
    unchosen = np.array([np.log(r.row.measured_us / r.unchosen_us) for r in results])
    prior = np.array([UNCERTAINTY[CONSTANTS[target][name].source] for target, name in names])
    sizes = Counter(r.row.family for r in results)
    counts = np.array([min(1.0, FAMILY / sizes[r.row.family]) for r in results])
    moves = _step(slopes, present, prior, counts)
    held_out = np.zeros(len(results))
    for family in sizes:
        out = np.array([r.row.family == family for r in results])
        held_out[out] = (unchosen - slopes @ _step(slopes[~out], present[~out], prior, counts[~out]))[out]
    return Fit(names, moves, present, present - slopes @ moves, held_out)


def _step(slopes: np.ndarray, errors: np.ndarray, prior: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The most likely logarithmic moves; ``counts`` is how much each row counts, beyond 1.5 deviations less."""
    weight = counts
    moves = np.zeros(slopes.shape[1])
    for _ in range(20):
        scaled = slopes * (weight / NOISE**2)[:, None]
        moves = np.linalg.solve(slopes.T @ scaled + np.diag(prior**-2), scaled.T @ errors)
        left = np.abs(errors - slopes @ moves) / NOISE
        weight = counts * 1.5 / np.maximum(1.5, left)
    return moves


def intervals(results: Sequence[Judged], errors: np.ndarray) -> dict[str, tuple[float, float]]:
    """Factors on a prediction that hold `LEVEL` of rows, by trait.

    A family counts once, however many rows it has: they err together. ``errors`` are of rows whose family was left out.
    """
    known = {"all": _interval(results, errors)}
    for trait in sorted({trait for r in results for trait in r.traits[1:]}):
        mine = [i for i, r in enumerate(results) if trait in r.traits]
        known[trait] = _interval([results[i] for i in mine], errors[mine])
    return known


def _interval(results: Sequence[Judged], errors: np.ndarray) -> tuple[float, float]:
    """Return the quantile of absolute errors, rows of a family weighing as much as one row."""
    sizes = Counter(r.row.family for r in results)
    order = np.argsort(np.abs(errors))
    weights = np.cumsum([1 / sizes[results[i].row.family] for i in order])
    reach = float(np.abs(errors)[order][np.searchsorted(weights, LEVEL * weights[-1])])
    return round(float(np.exp(-reach)), 2), round(float(np.exp(reach)), 2)


def inside(results: Sequence[Outcome], errors: np.ndarray) -> np.ndarray:
    """True for rows inside the interval that the other families alone would have given them."""
    held = np.zeros(len(results), bool)
    for family in {r.row.family for r in results}:
        others = [i for i, r in enumerate(results) if r.row.family != family]
        known = intervals([results[i] for i in others], errors[others])
        traits = {results[i].traits for i in others}
        for i, r in enumerate(results):
            if r.row.family == family:
                reach = max(np.log(known[trait][1]) for trait in ("all", *r.traits) if trait in known)
                distance = min(sum(a != b for a, b in zip(r.traits, other, strict=True)) for other in traits)
                held[i] = abs(errors[i]) <= reach * (1 + WIDENING * distance)
    return held


def summary(results: Sequence[Outcome], fit: Fit) -> str:
    """Errors of rows whose family was left out, by group: what ``rows.py`` of the open rows prints of a prediction."""
    held = inside(results, fit.held_out)
    groups: dict[str, list[int]] = {}
    for i, r in enumerate(results):
        groups.setdefault(r.row.group or r.row.family, []).append(i)
        if r.row.group:
            groups.setdefault(f"**{r.row.family}**", []).append(i)
    whole = list(range(len(results)))
    groups["**all**"] = whole
    for trait in sorted({trait for r in results for trait in r.traits[1:]}):
        groups[f"of these, {trait}"] = [i for i in whole if trait in results[i].traits]
    lines = [
        "| left out | rows | median | p90 | bias | rank | inside the interval | best predicted / best measured |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, mine in groups.items():
        measured = np.array([results[i].row.measured_us for i in mine])
        predicted = measured * np.exp(-fit.held_out[mine])
        error = predicted / measured - 1
        alike = not name.startswith(("**all", "of these")) and len(mine) > 2
        rank = f"{float(stats.spearmanr(measured, predicted).statistic):.2f}" if alike else ""
        regret = f"{measured[np.argmin(predicted)] / measured.min():.2f}" if name.startswith("matmul K") else ""
        lines.append(
            f"| {name} | {len(mine)} | {np.median(np.abs(error)):.1%} | {np.quantile(np.abs(error), 0.9):.1%} "
            f"| {np.median(error):+.1%} | {rank} | {held[mine].mean():.0%} | {regret} |"
        )
    return "\n".join(lines)


def text(results: Sequence[Outcome], fit: Fit) -> str:
    """What the fit found: constants that would move, errors before, after and for families left out."""
    lines = ["constant, source, value now, fitted:"]
    for (target, name), move in zip(fit.names, fit.moves, strict=True):
        constant = CONSTANTS[target][name]
        if abs(move) > 0.02:
            fitted = constant.value * np.exp(move)
            lines.append(f"  {target} {name} ({constant.source}) {constant.value:.4g} -> {fitted:.4g}")
    lines.append("")
    for label, errors in (("as they are", fit.present), ("fitted", fit.fitted), ("family left out", fit.held_out)):
        lines.append(f"{label + ':':17}{quality(errors)}")
    lines += ["", summary(results, fit)]
    return "\n".join(lines)


def page(results: Sequence[Outcome], fit: Fit) -> str:
    """The same for the docs."""
    families = {r.row.family for r in results}
    lines = [
        f"{len(results)} rows of {len(families)} families. Constants as they are: {quality(fit.present)}."
        f" Fitted to all rows: {quality(fit.fitted)}. Each family"
        f" predicted by constants fitted to the others: {quality(fit.held_out)};"
        f" intervals from the others hold {inside(results, fit.held_out).mean():.0%}.",
        "",
        summary(results, fit),
        "",
        f"| trait | {LEVEL:.0%} interval, in parts of the prediction |",
        "|---|---|",
    ]
    lines += [f"| {name} | {low:.2f} to {high:.2f} |" for name, (low, high) in intervals(results, fit.held_out).items()]
    return "\n".join(lines)


def quality(errors: np.ndarray) -> str:
    """Median and 90th percentile of the error of predictions."""
    relative = np.abs(np.exp(-errors) - 1)
    return f"median error {np.median(relative):.1%}, 90th percentile {np.quantile(relative, 0.9):.1%}"


def keep(results: Sequence[Outcome], fit: Fit) -> None:
    """Write the intervals, and the traits of measured kernels, where reports look for them."""
    path = Path(constants.__file__).with_suffix(".toml")
    head, opening, _ = path.read_text().partition("[intervals]\n")
    known = {", ".join(r.traits): f"{r.row.group or r.row.family}, {r.row.target}" for r in reversed(results)}
    pairs = intervals(results, fit.held_out).items()
    lines = [f"{json.dumps(name)} = [{low}, {high}]" for name, (low, high) in pairs]
    lines += ["", "# traits of kernels that were measured (`trnsim.timing.likeness`), and one of them", "[measured]"]
    lines += [f"{json.dumps(traits)} = {json.dumps(one)}" for traits, one in sorted(known.items())]
    path.write_text(head + opening + "\n".join(lines) + "\n")
