"""``trnsim calibrate FILE...``: fit the timing model to what ``trnsci validate`` measured on one machine.

Constants are chosen one by one, each time the one that explains most of what is left, as long as the data ask for it;
what no row depends on is said to be unidentified and stays as published. The fit is nonlinear and robust against
single rows. Errors are given before, after, and for ops that were left out. Published rows take no part unless asked.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import registry
from benchmarks.calibration import collectives
from benchmarks.calibration.refit import intervals, quality
from benchmarks.calibration.rows import ROWS, Row
from benchmarks.calibration.table import Result, predict
from trnsim import target_file
from trnsim.constants import CONSTANTS, UNCERTAINTY
from trnsim.errors import TrnError, WrongArgument
from trnsim.json_reader import MalformedJson, check_fields, is_finite, read_json
from trnsim.targets import TARGETS, Target

FORMAT = "trnsci validate 1"
# Seconds that a kernel can take.
_CREDIBLE = (1e-9, 1e6)
# programs beyond this take long to schedule again for every constant, and say little that shorter ones do not
INSTRUCTIONS = 4000
# how far a constant of one machine is from the published one, as a standard deviation of its logarithm (what a host's
# clock adds is anybody's guess), and the step of the differences
REACH, STEP = {"launch": 10.0}, 0.03
USUAL = 0.4
# an improvement below this is no reason to move a constant (a difference of Bayesian information criteria)
ASKED = 8.0
# what times of equal kernels may differ by at least
NOISE = 0.005
IDENTIFIED = 0.1


class Fit(NamedTuple):
    """What was found: moves are logarithms of fitted over present, errors logarithms of measured over predicted."""

    target: Target
    results: list[Result]
    moved: dict[str, tuple[float, float]]
    rivals: dict[str, list[str]]
    agree: list[str]
    unidentified: list[str]
    present: np.ndarray
    fitted: np.ndarray
    left_out: np.ndarray


def read(paths: Sequence[Path]) -> tuple[str, list[Row], dict[str, str], bool]:
    """Return the target, the rows, a digest of each file, and whether they are of a stand-in."""
    rows, digests, kinds = [], {}, set()
    for path in paths:
        try:
            said = read_json(path)
            text = path.read_bytes()
        except (OSError, ValueError) as error:
            raise _wrong(path, f"cannot be read: {error}") from None
        if not isinstance(said, dict) or said.get("format") != FORMAT:
            raise _wrong(path, f"is no result of trnsci validate: its format is not {FORMAT!r}")
        if type(said.get("stand_in")) is not bool or type(said.get("measured")) is not list:
            raise _wrong(path, "lacks stand_in, true or false, or measured, a list of rows")
        kinds.add(said["stand_in"])
        digests[path.name] = hashlib.sha256(text).hexdigest()
        rows += [_row(path, row) for row in said["measured"]]
    targets = sorted({row.target for row in rows})
    if len(targets) != 1:
        raise _wrong(paths[0], f"and the others measure {' and '.join(targets) or 'nothing'}: one generation is fitted")
    if len(kinds) > 1:
        raise _wrong(paths[0], "and the others mix a stand-in with a device")
    return targets[0], rows, digests, kinds.pop()


def _row(path: Path, said: dict[str, Any]) -> Row:
    """A measured row in the form of the published ones; kernels and sizes are those of the registry."""
    _check_fields(path, said, op=str, case=str)
    known = registry.load(said["op"]).kernels if said["op"] in registry.names() else ()
    kernel = next((k for k in known if k.name == said["case"]), None)
    if kernel is None:
        raise _wrong(path, f"measured {said['op']} {said['case']}, which this version of the suite does not have")
    _check_numbers(path, said)
    inputs = kernel.inputs()
    options = dict(kernel.options() if callable(kernel.options) else kernel.options)
    return Row(
        family=said["op"],
        name=f"{said['op']} {said['case']}",
        kernel=kernel.kernel,
        arguments=inputs,
        options=options | said.get("choices", {}),
        dtype="",
        target=said["target"],
        metric=said["metric"],
        measured_us=said["seconds"] * 1e6,
        seen=True,
        text="measured",
        heavy=False,
        source=f"measured: {path.name}",
    )


def _check_fields(path: Path, said: Any, **kinds: type) -> None:
    try:
        check_fields({name: said.get(name) for name in kinds} if type(said) is dict else said, **kinds)
    except MalformedJson as error:
        raise _wrong(path, f"has a row that is none: {error}") from None


def _check_numbers(path: Path, said: dict[str, Any]) -> None:
    choices = said.get("choices", {})
    _check_fields(path, said, target=str, metric=str, seconds=float)
    if type(choices) is not dict or any(type(value) not in (int, float, bool, str) for value in choices.values()):
        raise _wrong(path, f"has choices of {said['op']} that are neither numbers nor texts: {choices!r}")
    if said["target"] not in TARGETS or not is_finite(said["seconds"], *_CREDIBLE):
        least, most = _CREDIBLE
        got = f"{said['seconds']!r} s on {said['target']!r}"
        raise _wrong(path, f"measured {got}, and {least:g} to {most:g} s on {', '.join(TARGETS)} are expected")


def _wrong(path: Path, what: str) -> WrongArgument:
    return WrongArgument(
        f"{path} {what}", rule="calibrate", got=str(path), hint="give validate.json of trnsci validate"
    )


_shared: list[Result] = []


def _times(changes: dict[str, float]) -> np.ndarray:
    """Logarithms of the predicted microseconds of all rows, with constants changed."""
    base = TARGETS[_shared[0].row.target]
    target = dataclasses.replace(base, timing=dataclasses.replace(base.timing, **changes))
    return np.log([Result(r.row, r.report.recording.report(target)).predicted_us for r in _shared])


def _free(target: str) -> list[str]:
    known = ((name, c) for name, c in CONSTANTS[target].items() if not isinstance(c.value, int))
    return [name for name, c in known if c.value > 0 and UNCERTAINTY[c.source] > 0]


def _weights(errors: np.ndarray) -> tuple[np.ndarray, float]:
    """How much each row counts, less beyond 1.5 deviations, and the deviation."""
    noise = max(NOISE, 1.4826 * float(np.median(np.abs(errors))))
    return 1.5 / np.maximum(1.5, np.abs(errors) / noise), noise


def _reach(names: Sequence[str]) -> np.ndarray:
    return np.array([REACH.get(name, USUAL) for name in names])


def _solved(
    slopes: np.ndarray, errors: np.ndarray, start: np.ndarray, reach: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Moves from the present point, their deviations, and the misfit that stays; ``start`` is the point itself."""
    moves, misfit = np.zeros(slopes.shape[1]), 0.0
    covariance = np.eye(slopes.shape[1])
    for _ in range(20):
        weight, noise = _weights(errors - slopes @ moves)
        scaled = slopes * (weight / noise**2)[:, None]
        covariance = np.linalg.inv(slopes.T @ scaled + np.diag(reach**-2.0))
        moves = covariance @ (scaled.T @ errors - start / reach**2)
        left = errors - slopes @ moves
        misfit = float(np.sum(weight * left**2))
    return moves, np.sqrt(np.diag(covariance)), misfit


def _criterion(misfit: float, rows: int, constants: int) -> float:
    return rows * float(np.log(max(misfit / rows, NOISE**2))) + constants * float(np.log(rows))


def fit(rows: Sequence[Row], say: Callable[[str], None]) -> Fit:
    """Predict every row, choose the constants the data ask for, and fit them."""
    target = rows[0].target
    results = _shared[:] = [r for r in map(predict, rows) if r.report.instruction_count <= INSTRUCTIONS]
    if len(results) < 5:
        raise WrongArgument(
            f"{len(results)} rows are left to fit",
            rule="calibrate",
            got=len(results),
            limit=5,
            hint="measure more kernels: trnsci validate without --only",
        )
    say(f"{len(results)} of {len(rows)} rows have at most {INSTRUCTIONS:,} instructions and take part")
    measured = np.log([r.row.measured_us for r in results])
    names = _free(target)
    values = {name: getattr(TARGETS[target].timing, name) for name in names}
    present = measured - _times({})
    point = _launch(results, values["launch"]) if "launch" in values else {}
    with multiprocessing.get_context("fork").Pool() as pool:
        slopes = _slopes(pool, values, names, point, say)
        active, rivals = _chosen(slopes, measured - _times(_changed(values, point)), names, point)
        while True:
            point, spread, local = _descended(pool, measured, values, active, point)
            idle = _idle(local, measured - _times(_changed(values, point)), point)
            if idle is None:
                break
            # chosen where the model is not linear, and not needed where the fit has led
            point.pop(active.pop(idle))
    fitted = measured - _times(_changed(values, point))
    moved = {name: (point[name], float(s)) for name, s in zip(active, spread, strict=True)}
    alone = {name: _alone(slopes[:, i], fitted) for i, name in enumerate(names) if name not in moved}
    return Fit(
        target=dataclasses.replace(
            TARGETS[target], timing=dataclasses.replace(TARGETS[target].timing, **_changed(values, point))
        ),
        results=results,
        moved=moved,
        rivals={name: rivals[name] for name in moved},
        agree=[name for name, s in alone.items() if s <= IDENTIFIED],
        unidentified=[name for name, s in alone.items() if s > IDENTIFIED],
        present=present,
        fitted=fitted,
        left_out=_left_out(results, local, fitted, moved),
    )


def _descended(
    pool: Any, measured: np.ndarray, values: dict[str, float], active: list[str], point: dict[str, float]
) -> tuple[dict[str, float], np.ndarray, np.ndarray]:
    """Steps until they are small: the point reached, the deviations of its constants, and the slopes there."""
    point = {name: point.get(name, 0.0) for name in active}
    for _ in range(6):
        errors = measured - _times(_changed(values, point))
        local = _slopes(pool, values, active, point, lambda _: None)
        at = np.array([point[name] for name in active])
        moves, spread, _ = _solved(local, errors, at, _reach(active))
        point = {name: float(a + m) for name, a, m in zip(active, at, moves, strict=True)}
        if not active or np.abs(moves).max() < 0.003:
            break
    return point, spread, local


def _idle(slopes: np.ndarray, fitted: np.ndarray, point: dict[str, float]) -> int | None:
    """Which constant might as well stay as published; ``None`` where all are needed."""
    names, moves = list(point), np.array(list(point.values()))
    errors = fitted + slopes @ moves
    every = list(range(len(names)))
    whole = _best(slopes, errors, every, names)
    costs = [_best(slopes, errors, [j for j in every if j != i], names) - whole for i in every]
    return int(np.argmin(costs)) if costs and min(costs) < ASKED else None


def _launch(results: Sequence[Result], published: float) -> dict[str, float]:
    """Where to begin with what a host-side clock adds, which may be a hundred times what a benchmark tool adds."""
    seen = [(r.report.active_s, r.row.measured_us * 1e-6) for r in results if r.row.metric == "benchmark"]
    over = sorted(took - active for active, took in sorted(seen)[: max(3, len(seen) // 3)])
    guess = over[len(over) // 2] * 1e9 if over else 0.0
    return {"launch": float(np.log(guess / published))} if guess > 2 * published else {}


def _changed(values: dict[str, float], point: dict[str, float]) -> dict[str, float]:
    return {name: values[name] * float(np.exp(move)) for name, move in point.items()}


def _slopes(
    pool: Any, values: dict[str, float], names: Sequence[str], point: dict[str, float], say: Callable[[str], None]
) -> np.ndarray:
    """Logarithmic derivatives of all rows by constants, at a point."""
    here = _changed(values, point)
    asked = [here | {name: here.get(name, values[name]) * (1 + STEP)} for name in names]
    base = _times(here)
    columns = []
    for name, times in zip(names, pool.imap(_times, asked), strict=True):
        columns.append((times - base) / np.log1p(STEP))
        say(f"{len(columns)} of {len(names)}: {name}")
    return np.stack(columns, 1) if columns else np.zeros((len(base), 0))


def _chosen(
    slopes: np.ndarray, errors: np.ndarray, names: Sequence[str], point: dict[str, float]
) -> tuple[list[str], dict[str, list[str]]]:
    """The constants the errors ask for, in the order of what they explain, each with others that explain as much."""
    active = [names.index(name) for name in point]
    rivals: dict[str, list[str]] = {name: [] for name in point}
    best = _best(slopes, errors, active, names)
    while len(active) < min(len(names), len(errors) // 3):
        scores = {
            i: _best(slopes, errors, [*active, i], names)
            for i in range(len(names))
            if i not in active and np.abs(slopes[:, i]).max() > 1e-4
        }
        if not scores:
            break
        winner = min(scores, key=lambda i: scores[i])
        if best - scores[winner] < ASKED:
            break
        rivals[names[winner]] = [names[i] for i, s in scores.items() if i != winner and s - scores[winner] < ASKED / 2]
        best = scores[winner]
        active.append(winner)
    return [names[i] for i in active], rivals


def _best(slopes: np.ndarray, errors: np.ndarray, active: list[int], names: Sequence[str]) -> float:
    """The criterion of a choice: what stays unexplained, how many constants move, and how far they have to."""
    if not active:
        return _criterion(float(np.sum(_weights(errors)[0] * errors**2)), len(errors), 0)
    reach = _reach([names[i] for i in active])
    moves, _, misfit = _solved(slopes[:, active], errors, np.zeros(len(active)), reach)
    return _criterion(misfit, len(errors), len(active)) + float(np.sum((moves / reach) ** 2))


def _alone(slopes: np.ndarray, errors: np.ndarray) -> float:
    """How well the rows would know one constant, were it the only one."""
    weight, noise = _weights(errors)
    return float((np.sum(weight * slopes**2) / noise**2 + USUAL**-2) ** -0.5)


def _left_out(
    results: Sequence[Result], slopes: np.ndarray, fitted: np.ndarray, moved: dict[str, tuple[float, float]]
) -> np.ndarray:
    """Errors of each op predicted by constants fitted to the others: one step from the whole fit."""
    errors = fitted.copy()
    start = np.array([move for move, _ in moved.values()])
    for family in {r.row.family for r in results}:
        out = np.array([r.row.family == family for r in results])
        if moved and not out.all():
            moves, _, _ = _solved(slopes[~out], fitted[~out], start, _reach(list(moved)))
            errors[out] = (fitted - slopes @ moves)[out]
    return errors


def text(found: Fit, stand_in: bool) -> str:
    """What the fit found, for people."""
    target = found.target.name
    lines = ["These rows are of a stand-in device, not of a Trainium."] if stand_in else []
    lines += [f"{'constant':22}{'published':>12}{'fitted':>12}  source, and what would explain it as well"]
    for name, (move, spread) in found.moved.items():
        constant = CONSTANTS[target][name]
        value = getattr(found.target.timing, name)
        others = f"; or {', '.join(found.rivals[name])}" if found.rivals[name] else ""
        change = f"{np.exp(move) - 1:+.0%} ± {spread:.0%}"
        lines.append(f"{name:22}{constant.value:>12.4g}{value:>12.4g}  {constant.source}, {change}{others}")
    if not found.moved:
        lines.append("none: the rows agree with the published constants")
    lines += ["", f"identified, and as published: {', '.join(found.agree) or 'none'}"]
    lines += [f"not identified by these rows, and left as published: {', '.join(found.unidentified) or 'none'}", ""]
    for label, errors in (("published", found.present), ("fitted", found.fitted), ("op left out", found.left_out)):
        lines.append(f"{label + ':':13}{quality(errors)}")
    return "\n".join(lines)


def keep(found: Fit, path: Path, digests: dict[str, str], stand_in: bool) -> None:
    """Write the target file, with where every constant and every row comes from."""
    target, families = found.target.name, {r.row.family for r in found.results}
    files = ", ".join(digests)
    constants = {
        name: {
            "value": getattr(found.target.timing, name),
            "was": CONSTANTS[target][name].value,
            "deviation": spread,
            "provenance": f"fitted to {len(found.results)} rows of {files}",
        }
        for name, (_, spread) in found.moved.items()
    }
    rows = [
        {"row": r.row.name, "metric": r.row.metric, "source": r.row.source, "measured_us": r.row.measured_us}
        | {"error_before": float(np.expm1(-b)), "error_after": float(np.expm1(-a))}
        for r, b, a in zip(found.results, found.present, found.fitted, strict=True)
    ]
    known = intervals(found.results, found.left_out) if len(families) >= 3 else TARGETS[target].intervals
    facts = {"stand_in": stand_in, "files": digests, "unidentified": found.unidentified, "rows": rows}
    target_file.write(path, target, constants, known, **facts)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="trnsim calibrate", description="Fit the timing model to one machine.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="validate.json of trnsci validate")
    parser.add_argument("--output", type=Path, metavar="FILE", default=Path("target.json"), help="default: target.json")
    parser.add_argument("--with-published", action="store_true", help="let the published rows take part, and say so")
    parser.add_argument("--nccom", metavar="MACHINE", help="the files are outputs of nccom-test on this machine")
    args = parser.parse_args(argv)
    try:
        if args.nccom:
            collectives.calibrate(args.files, args.nccom, args.output)
            print(f"wrote {args.output}: TRNSIM_TARGET_FILE={args.output} predicts this machine")
            return 0
        target, rows, digests, stand_in = read(args.files)
        if args.with_published:
            published = [row for row in ROWS if row.target == target and not row.heavy]
            print(f"{len(published)} published rows take part beside {len(rows)} measured ones")
            rows, digests = rows + published, digests | {"published rows": ""}
        found = fit(rows, lambda line: print(line, file=sys.stderr, flush=True) if sys.stderr.isatty() else None)
        print(text(found, stand_in))
        keep(found, args.output, digests, stand_in)
    except (TrnError, OSError) as error:
        print(f"trnsim calibrate: {error}", file=sys.stderr)
        return 1
    print(f"\nwrote {args.output}: TRNSIM_TARGET_FILE={args.output} predicts this machine")
    return 0
