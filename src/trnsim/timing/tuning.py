"""Search of the compile-time arguments a kernel leaves free, on the time model.

Candidates that a lower bound of their time rules out are not scheduled.
"""

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trnsim.choices import find_choices
from trnsim.errors import TrnError
from trnsim.refusals import refuse
from trnsim.timing.profile import record
from trnsim.timing.text import seconds

# beyond this many candidates one choice is searched after the other
MANY = 80
# times of two versions of a kernel that differ by less are not told apart: the error they share cancels, the rest stays
TIE = 0.02


def candidates(free: Mapping[str, tuple[Any, ...]], best: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield all combinations where they are few, else each choice in turn around the best so far, twice."""
    if math.prod(len(values) for values in free.values()) <= MANY:
        for values in itertools.product(*free.values()):
            yield dict(zip(free, values, strict=True))
        return
    for _ in range(2):
        for name, values in free.items():
            for value in values:
                yield best | {name: value}


class Trial(NamedTuple):
    """A candidate and its predicted seconds, with the ends of their interval."""

    choices: dict[str, Any]
    total_s: float
    low_s: float
    high_s: float


class Tuning(NamedTuple):
    """Trials in the order of their time; candidates that were refused and why; how many could not win."""

    kernel: str
    target: str
    defaults: dict[str, Any]
    trials: list[Trial]
    refused: list[tuple[dict[str, Any], str]]
    pruned: int

    def ties(self) -> list[Trial]:
        """Return the trials that the model does not tell from the best."""
        return [trial for trial in self.trials if trial.total_s <= (1 + TIE) * self.trials[0].total_s]

    def __str__(self) -> str:
        trials, ties = self.trials, self.ties()
        shown = trials[: max(10, min(len(ties), 20))]
        rows = [("", "predicted", "80% interval", "choices")]
        for trial in shown:
            notes = [
                "tie" if len(ties) > 1 and trial in ties else "",
                "default" if trial.choices == self.defaults else "",
            ]
            said = ", ".join(f"{name}={value}" for name, value in trial.choices.items())
            ends = f"{seconds(trial.low_s)} to {seconds(trial.high_s)}"
            rows.append((", ".join(filter(None, notes)), seconds(trial.total_s), ends, said))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [
            f"{self.kernel}, {self.target}: {len(trials)} candidates predicted, {len(self.refused)} refused,"
            f" {self.pruned} could not win",
            *("  ".join((*(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=False)), row[3])) for row in rows),
        ]
        if len(trials) > len(shown):
            lines.append(f"and {len(trials) - len(shown)} slower ones")
        if len(ties) > 1:
            lines.append(f"{len(ties)} are within {TIE:.0%} of the best, which the model does not tell apart.")
        if self.refused:
            candidate, reason = self.refused[0]
            lines.append(f"Refused, for instance {', '.join(f'{n}={v}' for n, v in candidate.items())}: {reason}")
        return "\n".join(lines)


def tune(
    kernel: Any,
    arguments: Sequence[Any],
    *,
    free: Mapping[str, Sequence[Any]] | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    **how: Any,
) -> Tuning:
    """Predict a kernel with every candidate of its free arguments; ``how`` as for `trnsim.profile`."""
    known = {name: tuple(values) for name, values in (free or find_choices(kernel)).items()}
    function = getattr(kernel, "function", kernel)
    parameters = inspect.signature(function).parameters
    wrong = [name for name, values in known.items() if name not in parameters or not values]
    if wrong or not known:
        what = f"no argument {wrong[0]}" if wrong else "nothing"
        raise refuse("tune:free", got=wrong[0] if wrong else None, function=function.__name__, what=what)
    defaults = {name: parameters[name].default for name in known}
    trials: list[Trial] = []
    refused: list[tuple[dict[str, Any], str]] = []
    seen: list[dict[str, Any]] = []
    pruned, best, target = 0, dict(defaults), ""
    for candidate in itertools.chain([defaults], candidates(known, best)):
        if candidate in seen or inspect.Parameter.empty in candidate.values():
            continue
        seen.append(candidate)
        if progress is not None:
            progress("candidates", len(seen), max(len(seen), min(MANY, math.prod(map(len, known.values())))))
        try:
            _, recording = record(kernel, numerics=False, **how)(*arguments, **{**(options or {}), **candidate})
        except (TrnError, AssertionError) as error:
            refused.append((candidate, str(error)))
            continue
        target = recording.target.name
        if trials and recording.least_s() > 2 * min(trial.total_s for trial in trials):
            pruned += 1
            continue
        report = recording.report(recording.target)
        trials.append(Trial(candidate, report.total_s, report.interval.low_s, report.interval.high_s))
        if report.total_s <= min(trial.total_s for trial in trials):
            best.update(candidate)
    if not trials:
        candidate, reason = refused[0]
        raise refuse("tune:none", got=candidate, function=function.__name__, count=len(refused), reason=reason)
    trials.sort(key=lambda trial: trial.total_s)
    return Tuning(function.__name__, target, defaults, trials, refused, pruned)
