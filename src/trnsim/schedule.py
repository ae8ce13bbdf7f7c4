"""``kernel.with_schedule``: dependencies between named instructions, added to those the data makes."""

from typing import Any

from trnsim.refusals import refuse
from trnsim.session import Record

Edges = tuple[tuple[str, tuple[str, ...]], ...]


def as_edges(edges: Any) -> Edges:
    """``[(name, name or names), …]`` in one form."""
    pairs = []
    for edge in edges:
        if not (isinstance(edge, (tuple, list)) and len(edge) == 2 and isinstance(edge[0], str)):
            raise refuse("schedule", got=edge)
        later, earlier = edge
        pairs.append((later, (earlier,) if isinstance(earlier, str) else tuple(earlier)))
    return tuple(pairs)


class Named:
    """The stream of a scheduled kernel: finds instructions by their ``name=``, and adds the dependencies.

    Takes the place of the trace; ``name`` is what the instruction about to be recorded is called.
    """

    def __init__(self, edges: Edges, trace: Any = None) -> None:
        self.edges = edges
        self.trace = trace
        self.name: Any = None
        self.records: list[Record] = []
        self.by_name: dict[tuple[str, int], list[Record]] = {}

    def append(self, record: Record) -> None:
        """Take one instruction, with what it must follow."""
        if self.name is not None:
            name, self.name = str(self.name), None
            self.by_name.setdefault((name, record.core), []).append(record)
            for later, earliers in self.edges:
                if later == name:
                    known = (self.by_name.get((e, record.core), ()) for e in earliers)
                    record.after += [r.index for records in known for r in records[:1] if r is not record]
        self.records.append(record)
        if self.trace is not None:
            self.trace.append(record)

    def check(self) -> None:
        """Refuse names that are unknown or not unique, and cycles."""
        for core in sorted({r.core for r in self.records}):
            own = [r for r in self.records if r.core == core]
            for later, earliers in self.edges:
                for earlier in earliers:
                    self._add(self._one(later, core), self._one(earlier, core), own)

    def _one(self, name: str, core: int) -> Record:
        records = self.by_name.get((name, core), [])
        if len(records) != 1:
            names = sorted({n for n, _ in self.by_name})
            hint = f"number the names: {name}0, {name}1, …" if records else f"give one instruction name={name!r}"
            raise refuse("schedule-name", got=name, limit=names, hint=hint, count=len(records) or "no")
        return records[0]

    def _add(self, later: Record, earlier: Record, own: list[Record]) -> None:
        if later is earlier or (later.index < earlier.index and _needs(earlier, later, own)):
            raise refuse("schedule-cycle", got=(later.index, earlier.index), earlier=earlier, later=later)
        if earlier.index not in later.after:
            later.after.append(earlier.index)


def _needs(last: Record, first: Record, stream: list[Record]) -> bool:
    """Return whether data or an added dependency leads from ``first`` to ``last``."""
    reached = [first]
    for record in stream:
        if not first.index < record.index <= last.index:
            continue
        if any(_conflict(earlier, record) for earlier in reached) or any(
            i in record.after for i in (r.index for r in reached)
        ):
            if record is last:
                return True
            reached.append(record)
    return False


def _conflict(a: Record, b: Record) -> bool:
    pairs = [(w, x) for w in a.writes for x in (*b.reads, *b.writes)] + [(r, w) for r in a.reads for w in b.writes]
    return any(x.key == y.key and x.meets(y) for x, y in pairs)
