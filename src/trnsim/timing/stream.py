"""The instruction stream of one core in a compact form: costs and operands interned, little kept per instruction."""

from typing import Any

from trnsim.memory import PSUM, SBUF
from trnsim.records import Operand, Record
from trnsim.targets import Target
from trnsim.timing.costs import Call, Cost, Layout, cost_of
from trnsim.timing.dma import DMA_NAMES, Transfer, transfer_of


class Kind:
    """All instructions that cost the same: instruction, engine, operand layouts, options."""

    __slots__ = ("call", "cost", "count", "first_partition", "index", "ordered", "transfer")

    def __init__(self, index: int, call: Call, target: Target, first_partition: int = 0) -> None:
        self.index = index
        self.call = call
        self.first_partition = first_partition
        self.charge(target)
        self.ordered = bool(call.info.get("ordered"))
        self.count = 0

    def charge(self, target: Target) -> None:
        """Take the costs of ``target``."""
        self.transfer: Transfer | None = None
        self.cost = Cost("dma", 0.0, 0.0)
        if self.call.engine == "dma" and self.call.name in DMA_NAMES and self.call.writes:
            self.transfer = transfer_of(self.call, self.first_partition, target)
        else:
            self.cost = cost_of(self.call, target)


class Region:
    """Bytes an operand touches, as dependencies see them."""

    __slots__ = ("key", "layout", "index", "operand", "read", "uid", "written")

    def __init__(self, index: int, operand: Operand, layout: int) -> None:
        self.index = index
        self.operand = operand
        self.key = operand.key
        self.uid = operand.uid
        self.layout = layout
        self.read = self.written = False


class Stream:
    """Listens to a session (``trace=``) and keeps what the schedule needs.

    Instruction ``i`` is of kind ``kinds[kind[i]]``, reads and writes the regions ``reads[i]`` and ``writes[i]`` (tiles
    of run-time offsets are read too, after its operands), and stands on source line ``lines[line[i]]``. ``last[uid]``
    is the last instruction that touches a tensor, and ``sync[i]`` names where ``i`` meets other cores.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.kinds: list[Kind] = []
        self.regions: list[Region] = []
        self.lines: list[str] = []
        self.kind: list[int] = []
        self.line: list[int] = []
        self.reads: list[tuple[int, ...]] = []
        self.writes: list[tuple[int, ...]] = []
        self.index: list[int] = []
        self.after: list[list[int]] = []
        self.last: dict[int, int] = {}
        self.sync: dict[int, Any] = {}
        self._layouts: dict[Layout, int] = {}
        self._regions: dict[int, int] = {}
        self._kinds: dict[Any, Kind] = {}
        self._lines: dict[str, int] = {}
        self._positions: dict[int, int] = {}
        self._tuples: dict[tuple[int, ...], tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self.kind)

    def append(self, record: Record) -> None:
        """Take one instruction."""
        i = len(self.kind)
        known, regions, last = self._regions, self.regions, self.last
        cost = record.cost
        if "sync" in cost:
            self.sync[i] = cost.pop("sync")
        # a barrier names a tensor without touching it
        touches = record.name != "core_barrier"
        indices = []
        for operand in (*record.writes, *record.reads, *record.indices):
            index = known.get(id(operand))
            if index is None:
                index = self._region(operand)
            last[regions[index].uid] = i
            indices.append(index)
        w, r = tuple(indices[: len(record.writes)]), tuple(indices[len(record.writes) :])
        if touches:
            for index in w:
                regions[index].written = True
            for index in r:
                regions[index].read = True
        key: list[Any] = [record.name, record.engine, *(regions[index].layout for index in w), None]
        key += [regions[index].layout for index in r[: len(record.reads)]]
        if record.engine == "dma":
            key.append(_first_partition(record))
        key.extend(cost.values())
        try:
            kind = self._kinds.get(tuple(key))
        except TypeError:
            key = [repr(part) for part in key]
            kind = self._kinds.get(tuple(key))
        if kind is None:
            kind = self._kinds[tuple(key)] = self._new_kind(record)
        kind.count += 1
        line = self._lines.get(record.line)
        if line is None:
            line = self._lines[record.line] = len(self.lines)
            self.lines.append(record.line)
        pool = self._tuples
        # handles may still grow `after`: depends_on, with_schedule
        self.add(kind.index, line, pool.setdefault(r, r), pool.setdefault(w, w), record.index, record.after)

    def add(
        self, kind: int, line: int, reads: tuple[int, ...], writes: tuple[int, ...], index: int, after: list[int]
    ) -> None:
        """Add an instruction whose kind, line and regions are known."""
        self.kind.append(kind)
        self.line.append(line)
        self.reads.append(reads)
        self.writes.append(writes)
        self.index.append(index)
        self.after.append(after)

    def charge(self, target: Target) -> None:
        """Cost every instruction anew, on a target of other constants than the one it was recorded for."""
        self.target = target
        for kind in self.kinds:
            kind.charge(target)

    def position(self, index: int) -> int:
        """Return where the instruction a record calls ``index`` stands in the stream."""
        if len(self._positions) != len(self.index):
            self._positions = {known: i for i, known in enumerate(self.index)}
        return self._positions[index]

    def _region(self, operand: Operand) -> int:
        layout = layout_of(operand)
        # the region keeps the operand, so that its id stays its own
        index = self._regions[id(operand)] = len(self.regions)
        self.regions.append(Region(index, operand, self._layouts.setdefault(layout, len(self._layouts))))
        return index

    def _new_kind(self, record: Record) -> Kind:
        writes, reads = tuple(map(layout_of, record.writes)), tuple(map(layout_of, record.reads))
        call = Call(record.name, record.engine, writes, reads, dict(record.cost))
        kind = Kind(len(self.kinds), call, self.target, _first_partition(record))
        self.kinds.append(kind)
        return kind


def layout_of(operand: Operand) -> Layout:
    """Return an operand without its address."""
    return Layout(operand.buffer, operand.dtype, operand.shape, operand.strides)


def _first_partition(record: Record) -> int:
    for operand in (*record.writes, *record.reads):
        if operand.buffer in (SBUF, PSUM):
            return operand.first_partition
    return 0
