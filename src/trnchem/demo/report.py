"""Report of a demonstration: tables in a terminal; as a page a picture for each question, and what none tells."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from trnsci import config, html_page
from trnsci.console import Table
from trnsci.html_page import Bar, Bars, Picture
from trnsci.ledger import Entry, Ledger
from trnsci.links import link
from trnsci.plans import quantity, seconds
from trnsci.predict import cheaper, prediction

ENGINES = ("tensor", "vector", "scalar", "gpsimd", "dma")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A finished demonstration.

    Attributes:
        title, lead: of the page.
        tables: for the terminal.
        drawn: bars and pictures, for the page: each answers the question in its title.
        details: tables below them, of what no picture tells.
        facts: for programs.
        ok: whether every result is within its bound; ``verdict`` says so in words.
        following: what to try next.
    """

    title: str
    lead: str
    tables: Sequence[Table]
    drawn: Sequence[Bars | Picture]
    details: Sequence[Table]
    facts: dict[str, Any] = field(repr=False)
    ok: bool
    verdict: str
    following: str

    def html(self) -> str:
        """Return the page."""
        return html_page.page(self.title, f"{self.verdict}\n{self.lead}", [*self.drawn, *self.details])


def outermost(book: Ledger) -> list[Entry]:
    """Return the calls of a program itself, without those inside them."""
    return [entry for entry in book if entry.depth == 0]


def steps(book: Ledger, title: str) -> Table:
    """Return where every call ran and why, calls of one op with the same shapes together."""
    groups: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for entry in outermost(book):
        step = entry.step
        groups[(step.op.replace("::", "."), step.operands, step.backend, step.reason)].append(entry)
    rows = []
    target = config.TARGET.get()
    for (op, operands, backend, reason), entries in groups.items():
        step = entries[0].step
        flops = quantity(sum(entry.step.cost.flops for entry in entries), "FLOP")
        chosen, because = cheaper(step.call, step.cost, target)
        rows.append((op, operands, str(len(entries)), flops, f"{backend}: {reason}", f"{chosen}: {because}"))
    header = ("op", "operands", "calls", "arithmetic", "ran on", f"auto, with a {target}")
    places = {row[4] for row in rows}
    if len(places) > 1:
        return Table(title, header, rows)
    return Table(title, (*header[:4], header[5]), [(*r[:4], r[5]) for r in rows], f"All ran on {places.pop()}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """All calls of a program on one generation, predicted.

    Attributes:
        seconds: of the kernels, between the ends of ``interval``.
        starting: seconds the host takes to start them all.
        utilisation: share of the kernels' time in which each engine works.
    """

    target: str
    seconds: float
    interval: tuple[float, float]
    starting: float
    utilisation: dict[str, float]


def devices(calls: Iterable[Any]) -> list[Device]:
    """Predict calls without their data on every generation."""
    listed = list(calls)
    devices = []
    for target in config.TARGETS:
        known = [p for call in listed if (p := prediction(call, target)) is not None]
        active = sum(p.active for p in known) or 1.0
        busy = {name: sum(p.busy.get(name, 0.0) for p in known) / active for name in ENGINES}
        ends = (sum(p.low for p in known), sum(p.high for p in known))
        devices.append(
            Device(
                target=target,
                seconds=sum(p.seconds for p in known),
                interval=ends,
                starting=sum(p.programs for p in known) * link(target).dispatch,
                utilisation=busy,
            )
        )
    return devices


def device_table(devices: Mapping[str, Sequence[Device]], note: str = "") -> Table:
    """Return predicted times of named programs, with a bar per engine in characters."""
    rows = [
        (name, d.target, seconds(d.seconds), *(_share(d.utilisation[engine]) for engine in ENGINES))
        for name, each in devices.items()
        for d in each
    ]
    title = "Predicted time of the kernels on each generation, and how busy its engines are"
    return Table(title, ("", "target", "predicted", *ENGINES), rows, note)


def time_bars(title: str, here: float, devices: Sequence[Device], note: str) -> Bars:
    """Return seconds measured here beside those predicted, starting the programs included, with their intervals."""
    threads = torch.get_num_threads()
    bars = [Bar(f"this CPU, {threads} thread{'s' * (threads > 1)}, measured", here, seconds(here), other=True)]
    for d in devices:
        low, high = (d.starting + end for end in d.interval)
        whole = d.starting + d.seconds
        bars.append(Bar(f"{d.target}, predicted", whole, seconds(whole), interval=(low, high)))
    started = ", ".join(f"{d.target} {seconds(d.starting)}" for d in devices)
    note = f"{note} Starting the programs is included ({started}); the thin line is the kernels' interval."
    return Bars(title, bars, note)


def engine_bars(title: str, devices: Mapping[str, Sequence[Device]]) -> Bars:
    """Return shares of named programs' time in which each engine of the configured generation works."""
    target = config.TARGET.get()
    chosen = {name: next(d for d in each if d.target == target) for name, each in devices.items()}
    bars = [
        Bar(f"{engine}, {name}" if name else engine, d.utilisation[engine], f"{d.utilisation[engine]:.0%}", bool(index))
        for engine in ENGINES
        for index, (name, d) in enumerate(chosen.items())
    ]
    return Bars(title, bars, f"Share of the kernels' active time on {target} in which an engine works, predicted.", 1.0)


def _share(share: float, width: int = 5) -> str:
    full = round(min(share, 1.0) * width)
    return "█" * full + "░" * (width - full) + f" {share:4.0%}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Bytes one run moved, and how often something went either way."""

    way: str
    to_device: int
    from_device: int
    transfers: int

    @property
    def nbytes(self) -> int:
        """Both ways."""
        return self.to_device + self.from_device

    @property
    def seconds(self) -> float:
        """Estimated seconds of the bytes alone over the link to the device, one transfer after the other."""
        each = self.nbytes / max(1, self.transfers)
        return self.transfers * link(config.TARGET.get()).transfer(each)


def count_transfers(way: str, book: Ledger) -> Moved:
    """Count what the calls of a program itself moved, and what it moved explicitly."""
    calls = outermost(book)
    sizes = {side: [t.nbytes for t in book.transfers if t.direction == side] for side in ("to", "from")}
    sizes["to"] += [entry.bytes_to_device for entry in calls if entry.bytes_to_device]
    sizes["from"] += [entry.bytes_from_device for entry in calls if entry.bytes_from_device]
    return Moved(
        way=way,
        to_device=sum(sizes["to"]),
        from_device=sum(sizes["from"]),
        transfers=len(sizes["to"]) + len(sizes["from"]),
    )


def moved_table(title: str, runs: Sequence[Moved], note: str = "") -> Table:
    """Return transfers beside each other."""
    rows = [
        (m.way, quantity(m.to_device, "B"), quantity(m.from_device, "B"), str(m.transfers), seconds(m.seconds))
        for m in runs
    ]
    return Table(title, ("operands", "to device", "from device", "transfers", "estimated time"), rows, note)
