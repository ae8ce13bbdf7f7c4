"""The report of `trnsci.fit`: what calls took here, would take on Trainium, and what to do about them."""

import html
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from trnsci import config
from trnsci.console import Table
from trnsci.fit_profiler import IMPORTS, Place
from trnsci.fit_scan import NOTHING, STATES, Scan
from trnsci.host import processor
from trnsci.html_page import Bar, Bars, page
from trnsci.links import describe_link
from trnsci.plans import quantity, seconds
from trnsci.substitutions import Substitutions

# rows a table shows; JSON has them all
ROWS = 20
# calls that decide
DECIDING = 5

# FLOP/s; a lone call that is slower spent its time on something else than its work
CRAWL = 1e8

# what is said of operators that need nothing of ours
WORTH = 1.1
PROGRAMS = "trnsci.program"
NEURON = "runs on the device through AWS's own PyTorch"

WAYS = ("call by call", "resident", "fused")
# seconds of processor time below which a run has no verdict
SHORTEST = 1e-3
# what the clock on the wall may say beyond the processor's before it is told: a factor, and seconds
WAITED = (1.5, 0.1)


def rounded(factor: float) -> str:
    """Return a factor with the digits that predictions resolve: ``1.6x``, ``about 60x``."""
    if factor < 9.95:
        return f"{factor:.1f}x"
    power = 10 ** (len(str(int(factor))) - 1)
    return f"about {max(round(factor / power * 2) / 2 * power, 10):,.0f}x"


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
        """Return predicted seconds of all calls.

        ``call by call`` moves operands and results every time; ``resident`` keeps them in device memory; ``fused`` is
        one program on resident operands, where starting that takes less than starting the calls.
        """
        if way == "call by call":
            return self.kernel + self.dispatch + self.transfer
        return self.kernel + (self.dispatch if way == "resident" else min(self.dispatch, self.graph))


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
    again: float = 0.0
    peer: str = ""
    pays_from: str = ""

    @property
    def comparable(self) -> bool:
        """Whether ``measured`` is the time of PyTorch here; on the simulator it is what simulating took."""
        return self.backend == "pytorch"

    @property
    def steady(self) -> float:
        """Seconds of all calls, were the first, which starts threads and fills caches, like the others.

        With a ``peer``, of which ``again`` is the time, they are those of calls made its way.
        """
        if self.peer:
            return min(self.measured, self.again * self.calls)
        if self.calls == 1:
            return min(self.measured, self.again or self.measured)
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
        left_out = f"; {self.pays_from}" if self.pays_from else ""
        if self.peer:
            left_out += f"; compared with {seconds(self.steady)} {self.peer}, which is free to have here"
        elif self.measured > 2 * self.steady:
            left_out += f"; the first call's {seconds(self.first)} left out"
        elif self.calls == 1 and not self.again:
            crawls = ", and a first call starts threads and fills caches" * (self.flops < CRAWL * self.measured)
            left_out += f"; measured once{crawls}"
        return self._compare_ways(there) + self._certainty(there) + left_out

    def _certainty(self, there: OnTarget) -> str:
        """Return words where the other end of the kernels' interval would bring another verdict."""
        gap = [self.steady - there.seconds(way) + there.kernel for way in WAYS]
        low, high = there.interval
        return "; within the prediction's interval" if any(low <= kernel <= high for kernel in gap) else ""

    def _compare_ways(self, there: OnTarget) -> str:
        gain = {way: self.steady / there.seconds(way) for way in WAYS}
        if gain["call by call"] > 1:
            return f"fits: {rounded(gain['call by call'])} by itself"
        if gain["resident"] > 1:
            words = f"fits when resident ({rounded(gain['resident'])})"
            return f"{words}; moving its operands costs {seconds(there.transfer)}"
        if gain["fused"] > 1:
            words = f"fits when fused ({rounded(gain['fused'])})"
            return f"{words}; {there.programs} dispatches cost {seconds(there.dispatch)}"
        if there.kernel >= self.steady:
            return f"fits badly: its kernels alone take {rounded(there.kernel / self.steady)} the time here"
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
    """Report of one run and of its cost on Trainium: device times are predicted, all others measured.

    Attributes:
        wall: seconds of the whole run on the wall.
        spent: of its thread on a processor, as all other times here are.
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
    spent: float = 0.0
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
        return max(0.0, self.spent - self.in_ops - self.in_torch)

    @property
    def run(self) -> float:
        """Seconds of the run without its imports."""
        return self.spent - dict(self.places).get(IMPORTS, 0.0)

    @property
    def compared(self) -> bool:
        """Whether times here are those of this machine; simulated ones are not."""
        return all(group.comparable for group in self.groups)

    def gain(self, way: str = "resident", end: int | None = None) -> float:
        """Return the predicted speed-up of the run without imports, with calls that would be slower there left here.

        Args:
            way: one of `WAYS`.
            end: 0 or 1 for the low or high end of the predictions' intervals.
        """
        saved = 0.0
        for group in self._known:
            there = group.targets[self.main_target]
            late = 0.0 if end is None else there.interval[end] - there.kernel
            saved += max(0.0, group.steady - there.seconds(way) - late)
        # what calls lose by being first, or by not being the peer's, is lost on neither side
        slow = sum(group.measured - group.steady for group in (*self.groups, *self.plain))
        run = max(self.run - slow, saved)
        return run / max(run - saved, 1e-3 * run, 1e-9)

    @property
    def _known(self) -> list[Group]:
        """Calls with a prediction."""
        return [group for group in (*self.groups, *self.plain) if self.main_target in group.targets]

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
        text = self._answer()
        waited = self.wall - self.spent
        if self.wall > WAITED[0] * self.spent and waited > WAITED[1]:
            text += f" The clock on the wall says {seconds(self.wall)}: for {seconds(waited)} the program waited, for"
            text += " input, for other threads, or for a processor that was busy."
        aws = sum(group.measured for group in self.plain if group.refusal == NEURON)
        if aws > 0.05 * self.run:
            text += f" {aws / self.run:.0%} of the run is operators that AWS's own PyTorch runs on the device."
        return f"{text} The program {self.error}: what ran before is counted." if self.error else text

    def _answer(self) -> str:
        """Yes, no, or from which size on, with the reason and what to change first."""
        place, rest = self._largest_place()
        if self.run < SHORTEST or not self._known:
            if self.run < SHORTEST or not (place or self.plain):
                return f"No verdict: the run did next to nothing ({seconds(self.run)} of processor time)."
            what = f", and {place} takes {seconds(rest)} of {seconds(self.run)}" if place else ""
            return f"No: nothing that it calls has a kernel for {self.main_target}{what}."
        likely, slow, fast = self.gain(), self.gain(end=1), self.gain(end=0)
        one, movable = self.gain("fused"), sum(group.steady for group in self._known)
        there = [group.targets[self.main_target] for group in self._known]
        kernels, dispatches = sum(t.kernel for t in there), sum(t.dispatch for t in there)
        share = movable / max(self.run, 1e-9)
        if likely >= WORTH:
            ends = (
                f" ({rounded(slow)} to {rounded(fast)})".replace("about ", "") if rounded(slow) != rounded(fast) else ""
            )
            text = f"Yes: {rounded(likely)}{ends} faster, predicted on one core of {self.main_target} with operands"
            text += " that stay on the device."
            if one > 1.5 * likely:
                text += f" As one program ({PROGRAMS}) {rounded(one)}: {seconds(dispatches)} are dispatches."
            elif place and share < 0.9:
                text += f" Most of the rest is {place}: {seconds(rest)}."
            return text
        ours = f"of its {seconds(self.run)}, {seconds(movable)} are calls that could move"
        if one >= WORTH:
            text = f"Only as one program ({PROGRAMS}): {rounded(one)}; call by call, {seconds(dispatches)} of"
            return f"{text} {seconds(kernels + dispatches)} on {self.main_target} would be dispatches."
        if kernels + dispatches < movable and place:
            text = f"No: {ours}; {place} takes {seconds(rest)}."
        elif dispatches > kernels:
            text = f"No, too small: {ours}, and {seconds(dispatches)} of {seconds(kernels + dispatches)} there would be"
            text += f" dispatches; as one program ({PROGRAMS}) {seconds(kernels + there[0].graph)}."
        else:
            double = any("float64" in group.operands or "complex128" in group.operands for group in self._known)
            text = f"No: {ours}, whose kernels take {seconds(kernels)} there."
            text += " float64 is split into products of float32; where single precision is enough, use it." * double
        pays = max(self._known, key=lambda group: group.steady)
        return f"{text} {pays.op} would pay {pays.pays_from}." if pays.pays_from else text

    def _largest_place(self) -> tuple[str, float]:
        """Return the line, beyond what is predicted, that takes most, and its seconds."""
        lines = {p.where + f" ({p.source or p.package})" * bool(p.source or p.package): t for p, t in self.places}
        lines |= {f"{g.op} at {g.where}": g.measured for g in self.plain if self.main_target not in g.targets}
        lines.pop(IMPORTS.where, None)
        return max(lines.items(), key=lambda item: item[1], default=("", 0.0))

    def tables(self) -> tuple[Table, ...]:
        """Return the report for a terminal: the verdict first, and no table that would be empty."""
        verdict = f"verdict for {self.main_target}"
        ours = [(g.op, *g.row(self.main_target)) for g in self.groups]
        named = [g for g in self.plain if g.analog or g.measured > 0.01 * self.spent]
        long = [g for g in named if g.measured > 0.001 * self.run]
        theirs = [(g.op, g.where, g.analog or "-", *g.row(self.main_target)) for g in long]
        less = f"{len(named) - len(long)} more took less than a thousandth of the run each."
        calls = [(c["called"], c["became"] or "-", str(c["calls"]), c["why_not"]) for c in self._list_substitutions()]
        each = (
            Table("Verdict", ("",), [(self.verdict,), *([(machine(),)] if self.wall and not self._only_read else [])]),
            _table("Ops of the suite", ("op", *_ROW, verdict), ours),
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

    def _rest(self) -> Table:
        rows = [(p.where, p.source, p.package, seconds(t), p.analog) for p, t in self.places]
        # a short run may end before the first sample, and its sentence is still to be told
        header = ("line", "source", "in", "sampled", "looks like") if rows else ("",)
        return _table("Elsewhere", header, rows, self.summary if self.wall else "")

    @property
    def summary(self) -> str:
        """Where the time went, and how much of it could go elsewhere, in a sentence or two."""
        parts = [(self.in_ops, "in ops"), (self.in_torch, "in calls beside them"), (self.elsewhere, "elsewhere")]
        shares = ", ".join(f"{seconds(t)} ({100 * t / max(self.spent, 1e-9):.0f}%) {where}" for t, where in parts)
        return f"The run took {seconds(self.spent)} of processor time, {seconds(self.wall)} on the wall: {shares}."

    def html(self) -> str:
        """Return the report as a page: the verdict, pictures of time now and predicted, then the tables."""
        title = "Is it a fit for Trainium?" if self.replaced is None else "Run through trnsci"
        timed = self.wall and not self._only_read
        told = f"{self.script}. {machine()} Times of Trainium are predicted, all others measured here."
        lead = f"{self.verdict}\n{told if timed else 'Nothing was timed: a program has to run for that.'}"
        shown: list[Table | Bars] = []
        if timed and self._known and self.compared:
            shown = [self._ways(), self._deciding()]
        return page(title, lead, [*shown, *self.tables()[1:]])

    def __repr__(self) -> str:
        return f"<FitReport {self.script}: {self.verdict.partition('. ')[0]}>"

    def _repr_html_(self) -> str:
        # a frame, because the page has styles of its own
        page = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" title="fit" style="width:100%;height:36rem;border:1px solid #8884"></iframe>'

    def _ways(self) -> Bars:
        """Return the run now, and predicted call by call, with resident operands and as one program, on a log scale."""
        now, bars = self.run, [Bar("now", self.run, seconds(self.run), True)]
        for way in WAYS:
            ends = now / self.gain(way, 0), now / self.gain(way, 1)
            time = now / self.gain(way)
            bars.append(Bar(f"{self.main_target}, {way}", time, seconds(time), interval=ends))
        note = (
            "The run without imports; what would be slower there stays here. Predicted, the line is the prediction's "
            "interval; the scale is logarithmic. Fused: one program per row of the tables. "
        )
        return Bars("Now and predicted", bars, note + describe_link(self.main_target), log=True)

    def _deciding(self) -> Table:
        """Return the five calls that decide: those that would save or lose most."""
        by_weight = sorted(self._known, key=lambda g: -abs(g.steady - g.targets[self.main_target].seconds("resident")))
        rows = []
        for group in by_weight[:DECIDING]:
            time = group.targets[self.main_target].seconds("resident")
            name = group.op + f" ({group.where})" * bool(group.where)
            here = seconds(group.steady)
            rows.append((name, str(group.calls), here, seconds(time), group.verdict(self.main_target)))
        header = ("call", "calls", "here", f"{self.main_target}, resident", "verdict")
        return Table("The calls that decide", header, rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the report for programs."""
        return {
            "script": self.script,
            "verdict": self.verdict,
            "machine": machine(),
            "wall_seconds": self.wall,
            "processor_seconds": self.spent,
            "seconds_in_ops": self.in_ops,
            "seconds_in_plain_torch": self.in_torch,
            "seconds_elsewhere": self.elsewhere,
            "faster": {way: self.gain(way) for way in WAYS} if self._known and self.compared else None,
            "beside": list(self.beside),
            "symbols": [symbol._asdict() for symbol in self.scan.symbols],
            "not_read": list(self.scan.skipped),
            "status": self.status,
            "error": self.error,
            "substituted": self._list_substitutions(),
            "ops": [_group_dict(group) for group in self.groups],
            "plain_torch": [_group_dict(group) for group in self.plain],
            "elsewhere": [
                {"line": p.where, "source": p.source, "in": p.package, "looks_like": p.analog, "seconds_sampled": t}
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
        "seconds_of_first_call_again": group.again or None,
        "pays": group.pays_from or None,
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
    """Return this machine in a sentence: the processor and the threads that were used."""
    name = processor("model name") or platform.processor() or platform.machine()
    threads = torch.get_num_threads()
    return f"Measured on {name} with {threads} thread{'s' * (threads > 1)}."


def shorten_operands(operands: str) -> str:
    """Return operands for a table: three of them and a count where there are many."""
    words = operands.split(" ")
    return operands if len(words) <= 4 else f"{' '.join(words[:3])} and {len(words) - 3} more"


def _join(words: Sequence[str]) -> str:
    """Return the first three of some words, and how many more there are."""
    return ", ".join(words[:3]) + f" and {len(words) - 3} more" * (len(words) > 3)


def _table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], note: str = "") -> Table:
    shown = list(rows[:ROWS])
    if len(rows) > ROWS:
        shown.append((f"and {len(rows) - ROWS} more", *[""] * (len(header) - 1)))
    return Table(title, header, shown, note)
