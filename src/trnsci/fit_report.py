"""The report of `trnsci.fit`: what calls took here, would take on Trainium, and what to do about them."""

from __future__ import annotations

import contextlib
import html
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from trnsci import config
from trnsci.analogs.lines import looks_like
from trnsci.console import Table
from trnsci.fit_profiler import IMPORTS, Place
from trnsci.fit_scan import NOTHING, STATES, Scan
from trnsci.html_page import Bar, Bars, page
from trnsci.links import describe_link
from trnsci.plans import quantity, seconds
from trnsci.substitutions import Substitutions

# rows a table shows; JSON has them all
ROWS = 20
# rows a picture shows
CHARTED = 8

# what is left of a run is sampled, and nothing more can be said of it than that it is little
MOST = 100.0

# FLOP/s; a lone call that is slower spent its time on something else than its work
CRAWL = 1e8

# what is said of operators that need nothing of ours
NEURON = "runs on the device through AWS's own PyTorch"

WAYS = ("call by call", "resident", "fused")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTarget:
    """One group of calls on one generation, in seconds: kernels, dispatches, and moving operands and results.

    ``interval`` is what the kernels are expected to take between; ``graph`` is the start of one program of them all.
    """

    kernel: float
    interval: tuple[float, float]
    dispatch: float
    graph: float
    transfer: float
    programs: int

    def seconds(self, way: str) -> float:
        """Predicted seconds of all calls.

        ``call by call`` moves operands and results every time; ``resident`` keeps them in device memory; ``fused`` is
        one program on resident operands.
        """
        if way == "call by call":
            return self.kernel + self.dispatch + self.transfer
        return self.kernel + (self.dispatch if way == "resident" else self.graph)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Calls with the same shapes and options: of an op of ours, or of a torch operator with its analog and place."""

    op: str
    operands: str
    calls: int
    measured: float
    nbytes: int
    flops: int
    targets: dict[str, OnTarget]
    refusal: str | None
    first: float = 0.0
    backend: str = "pytorch"
    analog: str = ""
    where: str = ""

    @property
    def comparable(self) -> bool:
        """Whether ``measured`` is the time of PyTorch here; on the simulator it is what simulating took."""
        return self.backend == "pytorch"

    @property
    def steady(self) -> float:
        """Seconds of all calls, were the first, which starts threads and fills caches, like the others."""
        if self.calls == 1:
            return self.measured
        return min(self.measured, (self.measured - self.first) / (self.calls - 1) * self.calls)

    def verdict(self, target: str) -> str:
        """Return what to do with these calls, and why."""
        if target not in self.targets and self.refusal == NEURON:
            return NEURON
        if target not in self.targets:
            return f"stays here: {self.refusal or f'no kernel of {target} takes it'}"
        there = self.targets[target]
        if not self.comparable:
            return f"not compared: it ran on {self.backend}; run it on PyTorch to learn its time here"
        left_out = ""
        if self.measured > 2 * self.steady:
            left_out = f"; the first call's {seconds(self.first)} left out"
        elif self.calls == 1 and self.flops < CRAWL * self.measured:
            left_out = "; measured once, and a first call starts threads and fills caches"
        return self._compare_ways(there) + self._certainty(there) + left_out

    def _certainty(self, there: OnTarget) -> str:
        """Words where the other end of the kernels' interval would bring another verdict."""
        gap = [self.steady - there.seconds(way) + there.kernel for way in WAYS]
        low, high = there.interval
        return "; within the prediction's interval" if any(low <= kernel <= high for kernel in gap) else ""

    def _compare_ways(self, there: OnTarget) -> str:
        gain = {way: self.steady / there.seconds(way) for way in WAYS}
        if gain["call by call"] > 1:
            return f"fits: {gain['call by call']:.1f}x by itself"
        if gain["resident"] > 1:
            return f"fits when resident ({gain['resident']:.1f}x); moving its operands costs {seconds(there.transfer)}"
        if gain["fused"] > 1:
            return f"fits when fused ({gain['fused']:.1f}x); {there.programs} dispatches cost {seconds(there.dispatch)}"
        if there.kernel >= self.steady:
            return f"fits badly: its kernels alone take {there.kernel / self.steady:.1f}x the time here"
        work = quantity(self.flops / self.calls, "FLOP")
        return f"fits badly: {work} a call do not pay for a dispatch of {seconds(there.dispatch / there.programs)}"

    def row(self, main_target: str) -> tuple[str, ...]:
        """Return a line of the report's tables, after the name."""
        predicted = [seconds(self.targets[t].kernel) if t in self.targets else "-" for t in config.TARGETS]
        here = seconds(self.measured) if self.comparable else "-"
        head = (shorten_operands(self.operands), str(self.calls), here)
        moved = quantity(self.nbytes, "B") if self.targets else "-"
        return (*head, *predicted, moved, self.verdict(main_target))


_ROW = ("operands", "calls", "measured here", *(f"{target} predicted" for target in config.TARGETS), "moved")


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """What one run did, and what it would cost on Trainium: device times are predicted, all others measured.

    Attributes:
        wall: seconds of the whole run.
        groups: ops of the suite.
        plain: operators of torch, and functions of NumPy and SciPy that have an analog, called beside them.
        places: where the rest of the time went, sampled: seconds by line of the program.
        beside: other threads and processes, which were not watched.
        scan: what a program for CUDA that could not run here calls.
        replaced: in a run with substitution, what became ours and what was left alone.
    """

    script: str
    main_target: str
    wall: float = 0.0
    groups: tuple[Group, ...] = ()
    plain: tuple[Group, ...] = ()
    places: tuple[tuple[Place, float], ...] = ()
    beside: tuple[str, ...] = ()
    scan: Scan = NOTHING
    replaced: Substitutions | None = None
    status: int = 0
    error: str = field(default="")

    @property
    def in_ops(self) -> float:
        """Seconds in ops of the suite."""
        return sum(group.measured for group in self.groups)

    @property
    def in_torch(self) -> float:
        """Seconds in calls of torch, NumPy and SciPy that were timed."""
        return sum(group.measured for group in self.plain)

    @property
    def elsewhere(self) -> float:
        """Seconds in neither: Python, imports, files, and making this report."""
        return max(0.0, self.wall - self.in_ops - self.in_torch)

    @property
    def run(self) -> float:
        """Seconds of the run without its imports."""
        return self.wall - dict(self.places).get(IMPORTS, 0.0)

    @property
    def guessed(self) -> float:
        """Seconds in lines that look like calls of ours, where nothing but the line is known."""
        return sum(t for place, t in self.places if looks_like(place.source))

    @property
    def compared(self) -> bool:
        """Whether times here are those of this machine; simulated ones are not."""
        return all(group.comparable for group in self.groups)

    @property
    def most(self) -> float | None:
        """How many times faster the run, imports aside, would be if ops and analogs took no time, at most `MOST`.

        ``None`` where ops were simulated: their time here is the simulator's.
        """
        if not self.compared:
            return None
        movable = self.in_ops + sum(group.measured for group in self.plain if group.analog)
        return min(MOST, self.run / max(self.run - movable, 1e-9))

    def gain(self, guesses: bool = False, end: int | None = None) -> float:
        """Return the predicted speed-up of the run without imports, with resident operands and losing calls left here.

        Args:
            guesses: count lines that look like calls of ours as taking no time.
            end: 0 or 1 for the low or high end of the predictions' intervals.
        """
        saved = self.guessed if guesses else 0.0
        for group in (*self.groups, *self.plain):
            there = group.targets.get(self.main_target)
            if there is not None:
                late = 0.0 if end is None else there.interval[end] - there.kernel
                saved += max(0.0, group.steady - there.seconds("resident") - late)
        return min(MOST, self.run / max(self.run - saved, 1e-9))

    @property
    def _only_read(self) -> bool:
        """Whether the program failed before it called anything that could be timed, and its source says more."""
        return bool(self.error and self.scan.symbols) and not (self.groups or self.plain)

    @property
    def verdict(self) -> str:
        """The answer in a sentence: what is certain, and what more there might be."""
        if not self.wall:
            return f"{self.script} was read, not run: {self.scan.verdict}"
        if self._only_read:
            return f"{self.script} {self.error}. It was read instead: {self.scan.verdict}"
        if not self.compared:
            return "Ops were simulated, so there is no time of this machine to compare with."
        likely, slow, fast = self.gain(), self.gain(end=1), self.gain(end=0)
        text = f"Predicted on one core of {self.main_target}, operands resident: {likely:.1f}x"
        text += f" ({slow:.1f}x to {fast:.1f}x)" if round(slow, 1) != round(fast, 1) else ""
        if round(best := self.gain(guesses=True, end=0), 1) > round(fast, 1):
            text += f"; up to {best:.1f}x if the lines that look like calls of ours became calls"
        text += ". Imports are not counted, and work that would be slower there stays here."
        aws = sum(group.measured for group in self.plain if group.refusal == NEURON)
        if aws > 0.05 * self.run:
            text += f" {aws / self.run:.0%} of the run is operators that AWS's own PyTorch runs on the device."
        return f"{text} The program {self.error}: what ran before is counted." if self.error else text

    def total(self, target: str, way: str) -> float:
        """Predicted seconds of all ops on a generation; calls without a kernel stay here."""
        return sum(g.targets[target].seconds(way) if target in g.targets else g.measured for g in self.groups)

    def tables(self) -> tuple[Table, ...]:
        """Return the report for a terminal: the verdict first, and no table that would be empty."""
        verdict = f"verdict for {self.main_target}"
        ours = [(g.op, *g.row(self.main_target)) for g in self.groups]
        named = [g for g in self.plain if g.analog or g.measured > 0.01 * self.wall]
        long = [g for g in named if g.measured > 0.001 * self.run]
        theirs = [(g.op, g.where, g.analog or "-", *g.row(self.main_target)) for g in long]
        less = f"{len(named) - len(long)} more took less than a thousandth of the run each."
        calls = [(c["called"], c["became"] or "-", str(c["calls"]), c["why_not"]) for c in self._list_substitutions()]
        each = (
            Table("Verdict", ("",), [(self.verdict,), *([(machine(),)] if self.wall and not self._only_read else [])]),
            _table("Ops of the suite", ("op", *_ROW, verdict), ours),
            self._together(),
            _table("Substituted and left alone", ("called", "became", "calls", "why not"), calls),
            _table("Calls beside them", ("called", "from", "analog", *_ROW, verdict), theirs, less * (long != named)),
            Table("", ("",), []) if self._only_read else self._rest(),
            _table("Not watched", ("what ran beside the watched thread",), [(words,) for words in self.beside]),
            *self._source_tables(),
        )
        return tuple(table for table in each if table.rows or table.note)

    def _source_tables(self) -> Iterator[Table]:
        """Yield the symbols of a source that was read, those without an answer first, and a line a library."""
        symbols = self.scan.symbols
        rows = [
            (s.name, s.library, str(s.times), s.here, _join(s.options), s.predicted, _join(s.where)) for s in symbols
        ]
        skipped = "Not read: " + "; ".join(self.scan.skipped) + "." if self.scan.skipped else ""
        yield _table(
            "Called in the source", ("symbol", "library", "calls", "here", "as", "time", "where"), rows, skipped
        )
        states = {lib: Counter[str]() for lib in sorted({s.library for s in symbols})}
        for symbol in symbols:
            states[symbol.library][symbol.state] += symbol.times
        sums = [(lib, str(sum(n.values())), *(str(n[state] or "-") for state in STATES)) for lib, n in states.items()]
        yield _table("By library", ("library", "calls", *STATES), sums)

    def _list_substitutions(self) -> list[dict[str, Any]]:
        if self.replaced is None:
            return []
        ours = [(theirs, name, "", n) for (theirs, name), n in self.replaced.substituted.items()]
        left = [(theirs, "", why, n) for (theirs, why), n in self.replaced.left_alone.items()]
        return [{"called": t, "became": o or None, "why_not": w, "calls": n} for t, o, w, n in (*ours, *left)]

    def _together(self) -> Table:
        if not self.groups:
            return Table("All ops together", ("",), [])
        compared = self.compared
        here = (seconds(self.in_ops), seconds(sum(g.steady for g in self.groups))) if compared else ("-", "-")
        sums = [(t, *(seconds(self.total(t, way)) for way in WAYS), *here) for t in config.TARGETS]
        note = (
            "Predicted. Resident: operands stay in device memory (trnsci.to_device). Fused: one program per row above. "
            + describe_link(self.main_target)
        )
        if not compared:
            note += f" Ops took {seconds(self.in_ops)} here, most of it to simulate them."
        return Table("All ops together", ("target", *WAYS, "measured here", "without slow first calls"), sums, note)

    def _rest(self) -> Table:
        rows = [(p.where, p.source, p.package, seconds(t), looks_like(p.source)) for p, t in self.places]
        # a short run may end before the first sample, and its sentence is still to be told
        header = ("line", "source", "package", "sampled", "looks like") if rows else ("",)
        return _table("Elsewhere", header, rows, self.summary if self.wall else "")

    @property
    def summary(self) -> str:
        """Where the time went, and how much of it could go elsewhere, in a sentence or two."""
        parts = [(self.in_ops, "in ops"), (self.in_torch, "in calls beside them"), (self.elsewhere, "elsewhere")]
        shares = ", ".join(f"{seconds(t)} ({100 * t / self.wall:.0f}%) {where}" for t, where in parts)
        text = f"The whole run took {seconds(self.wall)}: {shares}."
        if self.most is not None:
            times = f"more than {MOST:.0f}" if self.most == MOST else f"{self.most:.2f}"
            text += f" Were ops and analogs free, the run without its imports would be {times}x faster."
        return text

    def html(self) -> str:
        """Return the report as a page: the verdict, pictures of time now and predicted, then the tables."""
        title = "Is it a fit for Trainium?" if self.replaced is None else "Run through trnsci"
        timed = self.wall and not self._only_read
        told = f"{self.script}. {machine()} Times of Trainium are predicted, all others measured here."
        lead = f"{self.verdict}\n{told if timed else 'Nothing was timed: a program has to run for that.'}"
        charts = [chart for chart in (self._went(), self._rows()) if timed and chart.bars]
        return page(title, lead, [*charts, *self.tables()[1:]])

    def __repr__(self) -> str:
        return f"<FitReport {self.script}: {self.verdict}>"

    def _repr_html_(self) -> str:
        # a frame, because the page has styles of its own
        page = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" title="fit" style="width:100%;height:36rem;border:1px solid #8884"></iframe>'

    def _went(self) -> Bars:
        movable = sum(group.measured for group in self.plain if group.analog)
        imports = dict(self.places).get(IMPORTS, 0.0)
        rest = self.elsewhere - imports - self.guessed
        went = [
            Bar("ops of the suite", self.in_ops, seconds(self.in_ops)),
            Bar("calls with an analog", movable, seconds(movable)),
            Bar("looks like one of ours", self.guessed, seconds(self.guessed)),
            Bar("other operators", self.in_torch - movable, seconds(self.in_torch - movable), True),
            Bar("imports", imports, seconds(imports), True),
            Bar("elsewhere", rest, seconds(rest), True),
        ]
        return Bars("Where the time went", [bar for bar in went if bar.value > 0])

    def _rows(self) -> Bars:
        """Time now and predicted, row by row, with the predictions' intervals."""
        bars = []
        rows = sorted((*self.groups, *self.plain), key=lambda group: -group.measured)
        worth = [g for g in rows if self.main_target in g.targets and g.measured > 0.005 * self.wall]
        for group in worth[:CHARTED]:
            there = group.targets[self.main_target]
            name = group.op if not group.where else f"{group.op} ({group.where})"
            time = there.seconds("resident")
            ends = tuple(time - there.kernel + end for end in there.interval)
            here = "here" if group.comparable else "simulated"
            bars += [
                Bar(f"{name} {here}", group.measured, seconds(group.measured), True),
                Bar(f"{self.main_target} predicted", time, seconds(time), interval=(ends[0], ends[1])),
            ]
        note = (
            "Predicted with operands in device memory, dispatches included; the line is the prediction's interval. "
            + describe_link(self.main_target)
        )
        return Bars("Now and predicted", bars, note)

    def to_dict(self) -> dict[str, Any]:
        """Return the report for programs."""
        return {
            "script": self.script,
            "verdict": self.verdict,
            "machine": machine(),
            "wall_seconds": self.wall,
            "seconds_in_ops": self.in_ops,
            "seconds_in_plain_torch": self.in_torch,
            "seconds_elsewhere": self.elsewhere,
            "faster_at_most": self.most,
            "seconds_guessed": self.guessed,
            "beside": list(self.beside),
            "symbols": [symbol._asdict() for symbol in self.scan.symbols],
            "not_read": list(self.scan.skipped),
            "status": self.status,
            "error": self.error,
            "substituted": self._list_substitutions(),
            "ops": [_group_dict(group) for group in self.groups],
            "plain_torch": [_group_dict(group) for group in self.plain],
            "elsewhere": [
                {"line": p.where, "source": p.source, "package": p.package, "seconds_sampled": t}
                for p, t in self.places
            ],
        }


def _group_dict(group: Group) -> dict[str, Any]:
    return {
        "op": group.op,
        "analog": group.analog or None,
        "called_from": group.where or None,
        "operands": group.operands,
        "calls": group.calls,
        "backend": group.backend,
        "seconds_measured" if group.comparable else "simulating_seconds_measured": group.measured,
        "seconds_of_first_call": group.first,
        "bytes_moved": group.nbytes,
        "flops": group.flops,
        "refusal": group.refusal,
        "predicted_seconds": {
            target: {
                "kernel": there.kernel,
                "kernel_interval": list(there.interval),
                **{way: there.seconds(way) for way in WAYS},
            }
            for target, there in group.targets.items()
        },
        "verdict": {target: group.verdict(target) for target in config.TARGETS},
    }


def machine() -> str:
    """This machine in a sentence: the processor and the threads that were used."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    threads = torch.get_num_threads()
    return f"Measured on {name} with {threads} thread{'s' * (threads > 1)}."


def shorten_operands(operands: str) -> str:
    """Operands for a table: three of them and a count where there are many."""
    words = operands.split(" ")
    return operands if len(words) <= 4 else f"{' '.join(words[:3])} and {len(words) - 3} more"


def _join(words: Sequence[str]) -> str:
    """The first three of some words, and how many more there are."""
    return ", ".join(words[:3]) + f" and {len(words) - 3} more" * (len(words) > 3)


def _table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], note: str = "") -> Table:
    shown = list(rows[:ROWS])
    if len(rows) > ROWS:
        shown.append((f"and {len(rows) - ROWS} more", *[""] * (len(header) - 1)))
    return Table(title, header, shown, note)
