"""Record of an emulated device: dispatches, transfers, fallbacks, and the time they would take."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from trnsci.calling_lines import calling_line
from trnsci.config import TargetName
from trnsci.console import Table
from trnsci.links import LINKS, Link
from trnsci.plans import quantity, seconds
from trnsim.targets import TARGETS


@dataclass(slots=True)
class Record:
    """Counts that grow while a program runs on an emulated device.

    Attributes:
        operators, unknown: dispatches by operator that the device runs; those of unknown place.
        kernels, graphs: launches of the suite's kernels, and of compiled graphs.
        compilations: programs the compiler made: one for each kernel or graph, shapes, dtypes and constants.
        fallbacks, refused, casts: by operator: run on the host, raised, computed in 32 bits for 64.
        collectives: by name; what crosses to other ranks, in pieces of half a gigabyte at most.
        transfers: (direction, the program's line) with count and bytes.
        kernel_s, operator_s: predicted seconds of kernels, and of operators by the memory they move.
    """

    target: TargetName
    operators: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    kernels: Counter[str] = field(default_factory=Counter)
    graphs: int = 0
    compilations: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    casts: Counter[str] = field(default_factory=Counter)
    collectives: Counter[str] = field(default_factory=Counter)
    exchanged: int = 0
    transfers: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)
    kernel_s: float = 0.0
    operator_s: float = 0.0
    # inside a compiled graph nothing is started by itself
    inside: int = 0
    starts: int = 0

    @property
    def link(self) -> Link:
        """Costs of starting work and moving data, on torch's own device or on XLA."""
        return LINKS["xla" if self.target == "trn1" else "native"]

    @property
    def dispatches(self) -> int:
        """Operators started one by one."""
        return self.operators.total() + self.unknown.total()

    def dispatch(self, packet: str, known: bool, nbytes: int) -> None:
        """Count an operator that the device runs."""
        if not self.inside:
            (self.operators if known else self.unknown)[packet] += 1
        self.operator_s += nbytes / (TARGETS[self.target].timing.hbm_rate * 1e9)

    def start_kernel(self, name: str) -> None:
        """Count a launch of a kernel of the suite."""
        self.kernels[name] += 1
        self.starts += not self.inside

    def collective(self, name: str, pieces: int, nbytes: int) -> None:
        """Count a collective of a process group. Its time on the links is not predicted here."""
        self.collectives[name] += pieces
        self.exchanged += nbytes

    def transfer(self, direction: str, nbytes: int) -> None:
        """Count bytes that cross between host and device, by the program's line."""
        entry = self.transfers.setdefault((direction, _calling_line()), [0, 0])
        entry[0] += 1
        entry[1] += nbytes

    def fall_back(self, packet: str, nbytes: int) -> None:
        """Count an operator that runs on the host, with what it moves."""
        self.fallbacks[packet] += 1
        self.lines.setdefault(packet, _calling_line())
        self.transfer("from", nbytes)
        self.transfer("to", nbytes)

    def count_transfers(self, direction: str) -> tuple[int, int]:
        """Return how many transfers went in a direction, and their bytes."""
        chosen = [entry for (way, _), entry in self.transfers.items() if way == direction]
        return sum(count for count, _ in chosen), sum(nbytes for _, nbytes in chosen)

    @property
    def parts(self) -> dict[str, float]:
        """Predicted seconds: of starting work, of kernels, of other operators, of transfers."""
        link = self.link
        starts = link.dispatch * (self.dispatches + self.starts + self.collectives.total()) + link.graph * self.graphs
        crossing = sum(count * link.transfer(nbytes / max(1, count)) for count, nbytes in self.transfers.values())
        return {
            "starting work": starts,
            "kernels of the suite": self.kernel_s,
            "other operators": self.operator_s,
            "transfers": crossing,
        }

    @property
    def predicted(self) -> float:
        """Predicted seconds of everything, one after the other."""
        return sum(self.parts.values())

    def to_dict(self) -> dict[str, object]:
        """Return the counts and predicted seconds as plain values."""
        counters = ("operators", "unknown", "kernels", "collectives", "fallbacks", "refused", "casts")
        moved = [
            {"direction": way, "line": line, "count": count, "bytes": nbytes}
            for (way, line), (count, nbytes) in self.transfers.items()
        ]
        return {
            "target": self.target,
            **{name: dict(getattr(self, name)) for name in counters},
            "graphs": self.graphs,
            "compilations": self.compilations,
            "transfers": moved,
            "predicted_s": {**self.parts, "in all": self.predicted},
        }

    def tables(self, memory: str) -> list[Table]:
        """Return the report as tables."""
        counts = [
            ("operators started", str(self.dispatches)),
            ("kernels of the suite started", str(self.kernels.total())),
            ("compiled graphs started", str(self.graphs)),
            ("programs compiled", str(self.compilations)),
            ("collectives", f"{self.collectives.total()}, {quantity(self.exchanged, 'B')}"),
            *(
                (f"transfers {way} the device", f"{count}, {quantity(nbytes, 'B')}")
                for way in ("to", "from")
                for count, nbytes in [self.count_transfers(way)]
            ),
            ("fallbacks to the host", str(self.fallbacks.total())),
            ("most memory in use", memory),
            *((f"predicted: {name}", seconds(value)) for name, value in self.parts.items()),
            ("predicted: in all", seconds(self.predicted)),
        ]
        left = [(f"torch.{n}", str(c), "runs on the host", self.lines.get(n, "")) for n, c in self.fallbacks.items()]
        left += [(f"torch.{n}", str(c), "refused", self.lines.get(n, "")) for n, c in self.refused.items()]
        left += [(f"torch.{n}", str(c), "computed in 32 bits for 64", "") for n, c in self.casts.items()]
        left += [(f"torch.{n}", str(c), "not known to run on the device", "") for n, c in self.unknown.items()]
        left += [
            (f"{quantity(nbytes, 'B')} {way} the device", str(count), "transfer", line)
            for (way, line), (count, nbytes) in sorted(self.transfers.items(), key=lambda item: -item[1][1])
        ]
        title = f"On an emulated {self.target}: counted and predicted, not measured"
        return [
            Table(title, ("", ""), counts),
            Table("What did not stay on the device", ("what", "times", "why", "first at"), left[:30]),
        ]


def _calling_line() -> str:
    """Return the program's line without its folder."""
    return Path(calling_line() or "?").name
