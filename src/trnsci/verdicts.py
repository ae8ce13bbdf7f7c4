"""The report of `trnsci.fit`: what calls took here, would take on Trainium, and what to do about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trnsci import config
from trnsci.analogs import looks_like
from trnsci.pages import Bar, Bars, page
from trnsci.plans import quantity, seconds
from trnsci.show import Table
from trnsci.watch import IMPORTS, Place

# rows a table shows; JSON has them all
ROWS = 20

# what is left of a run is sampled, and nothing more can be said of it than that it is little
MOST = 100.0

WAYS = ("call by call", "resident", "fused")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTarget:
    """One group of calls on one generation, in seconds: kernels, dispatches, and moving operands and results.

    ``interval`` is what the kernels are expected to take between.
    """

    kernel: float
    interval: tuple[float, float]
    dispatch: float
    transfer: float
    programs: int

    def seconds(self, way: str) -> float:
        """Predicted seconds of all calls.

        ``call by call`` moves operands and results every time; ``resident`` keeps them in device memory; ``fused`` is
        one program on resident operands.
        """
        if way == "call by call":
            return self.kernel + self.dispatch + self.transfer
        return self.kernel + (self.dispatch if way == "resident" else self.dispatch / self.programs)


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
        """What to do with these calls, and why."""
        if target not in self.targets:
            return f"stays here: {self.refusal or f'no kernel of {target} takes it'}"
        there = self.targets[target]
        if not self.comparable:
            return f"not compared: it ran on {self.backend}; run it on PyTorch to learn its time here"
        slow_start = self.measured > 2 * self.steady
        left_out = f"; the first call's {seconds(self.first)} left out" if slow_start else ""
        return self._compared(there) + self._certainty(there) + left_out

    def _certainty(self, there: OnTarget) -> str:
        """Words where the other end of the kernels' interval would bring another verdict."""
        gap = [self.steady - there.seconds(way) + there.kernel for way in WAYS]
        low, high = there.interval
        return "; within the prediction's interval" if any(low <= kernel <= high for kernel in gap) else ""

    def _compared(self, there: OnTarget) -> str:
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
        """A line of the report's tables, after the name."""
        predicted = [seconds(self.targets[t].kernel) if t in self.targets else "-" for t in config.TARGETS]
        here = seconds(self.measured) if self.comparable else "-"
        head = (shortened(self.operands), str(self.calls), here)
        moved = quantity(self.nbytes, "B") if self.targets else "-"
        return (*head, *predicted, moved, self.verdict(main_target))


_ROW = ("operands", "calls", "measured here", *(f"{target} predicted" for target in config.TARGETS), "moved")


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """What one run did, and what it would cost on Trainium: device times are predicted, all others measured.

    Attributes:
        wall: seconds of the whole run.
        groups: ops of the suite.
        plain: torch operators called beside them.
        places: where the rest of the time went, sampled: seconds by line of the program.
    """

    script: str
    wall: float
    groups: tuple[Group, ...]
    plain: tuple[Group, ...]
    places: tuple[tuple[Place, float], ...]
    main_target: str
    status: int = 0
    error: str = field(default="")

    @property
    def in_ops(self) -> float:
        """Seconds in ops of the suite."""
        return sum(group.measured for group in self.groups)

    @property
    def in_torch(self) -> float:
        """Seconds in plain torch operators."""
        return sum(group.measured for group in self.plain)

    @property
    def elsewhere(self) -> float:
        """Seconds in neither: NumPy, Python, imports, files, and making this report."""
        return max(0.0, self.wall - self.in_ops - self.in_torch)

    @property
    def most(self) -> float | None:
        """How many times faster the run, imports aside, would be if ops and analogs took no time, at most `MOST`.

        ``None`` where ops were simulated: their time here is the simulator's.
        """
        if not all(group.comparable for group in self.groups):
            return None
        movable = self.in_ops + sum(group.measured for group in self.plain if group.analog)
        run = self.wall - dict(self.places).get(IMPORTS, 0.0)
        return min(MOST, run / max(run - movable, 1e-9))

    def total(self, target: str, way: str) -> float:
        """Predicted seconds of all ops on a generation; calls without a kernel stay here."""
        return sum(g.targets[target].seconds(way) if target in g.targets else g.measured for g in self.groups)

    def tables(self) -> tuple[Table, ...]:
        """The report for a terminal."""
        verdict = f"verdict for {self.main_target}"
        ours = [(g.op, *g.row(self.main_target)) for g in self.groups]
        named = [g for g in self.plain if g.analog or g.measured > 0.01 * self.wall]
        theirs = [(g.op, g.where, g.analog or "-", *g.row(self.main_target)) for g in named]
        return (
            _table("Ops of the suite", ("op", *_ROW, verdict), ours),
            self._together(),
            _table("Plain torch calls beside them", ("operator", "called from", "analog", *_ROW, verdict), theirs),
            self._rest(),
        )

    def _together(self) -> Table:
        compared = all(g.comparable for g in self.groups)
        here = (seconds(self.in_ops), seconds(sum(g.steady for g in self.groups))) if compared else ("-", "-")
        sums = [(t, *(seconds(self.total(t, way)) for way in WAYS), *here) for t in config.TARGETS]
        note = (
            "Predicted. Resident: operands stay in device memory (trnsci.to_device). Fused: one program per row above."
        )
        if not compared:
            note += f" Ops took {seconds(self.in_ops)} here, most of it to simulate them."
        return Table("All ops together", ("target", *WAYS, "measured here", "without slow first calls"), sums, note)

    def _rest(self) -> Table:
        rows = [(p.where, p.source, p.package, seconds(t), looks_like(p.source)) for p, t in self.places]
        return _table("Elsewhere", ("line", "source", "package", "sampled", "looks like"), rows, self.summary)

    @property
    def summary(self) -> str:
        """Where the time went, and how much of it could go elsewhere, in a sentence or two."""
        parts = [(self.in_ops, "in ops"), (self.in_torch, "in plain torch"), (self.elsewhere, "elsewhere")]
        shares = ", ".join(f"{seconds(t)} ({100 * t / self.wall:.0f}%) {where}" for t, where in parts)
        text = f"The whole run took {seconds(self.wall)}: {shares}."
        if self.most is not None:
            times = f"more than {MOST:.0f}" if self.most == MOST else f"{self.most:.2f}"
            text += f" Were ops and analogs free, the run without its imports would be {times}x faster."
        return text

    def html(self) -> str:
        """The report as a page."""
        movable = sum(group.measured for group in self.plain if group.analog)
        imports = dict(self.places).get(IMPORTS, 0.0)
        went = [
            Bar("ops of the suite", self.in_ops, seconds(self.in_ops)),
            Bar("torch with an analog", movable, seconds(movable)),
            Bar("other torch", self.in_torch - movable, seconds(self.in_torch - movable), True),
            Bar("imports", imports, seconds(imports), True),
            Bar("elsewhere", self.elsewhere - imports, seconds(self.elsewhere - imports), True),
        ]
        compared = all(group.comparable for group in self.groups)
        bars = [Bar("here, measured" if compared else "here, simulating", self.in_ops, seconds(self.in_ops), True)]
        for target in config.TARGETS:
            totals = [(way, self.total(target, way)) for way in WAYS]
            bars.extend(Bar(f"{target} {way}", total, seconds(total)) for way, total in totals)
        lead = f"{self.script}. {self.summary} Times of Trainium are predicted, all others measured here."
        note = "Calls without a kernel count with their time here."
        charts = Bars("Where the time went", went), Bars("Time in ops", bars, note)
        return page("Is it a fit for Trainium?", lead, [*charts, *self.tables()])

    def to_dict(self) -> dict[str, Any]:
        """The report for programs."""
        return {
            "script": self.script,
            "wall_seconds": self.wall,
            "seconds_in_ops": self.in_ops,
            "seconds_in_plain_torch": self.in_torch,
            "seconds_elsewhere": self.elsewhere,
            "faster_at_most": self.most,
            "status": self.status,
            "error": self.error,
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


def shortened(operands: str) -> str:
    """Operands for a table: three of them and a count where there are many."""
    words = operands.split(" ")
    return operands if len(words) <= 4 else f"{' '.join(words[:3])} and {len(words) - 3} more"


def _table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], note: str = "") -> Table:
    shown = list(rows[:ROWS]) or [("none", *[""] * (len(header) - 1))]
    if len(rows) > ROWS:
        shown.append((f"and {len(rows) - ROWS} more", *[""] * (len(header) - 1)))
    return Table(title, header, shown, note)
