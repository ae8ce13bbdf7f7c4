"""The critical path: from the last byte back to the first trigger, and what its time was spent on."""

from typing import NamedTuple

from trnsim.timing.schedule import BUSY, MEMORY, QUEUES, REASONS, Schedule

# what time on the path is spent on, besides the engines themselves
ISSUE, BANDWIDTH, LATENCY, ROOM = "DMA issue", "DMA bandwidth", "latency", "memory"
TABLE = "table loads"


class Step(NamedTuple):
    """An instruction on the critical path, or ``times`` of one line in a row.

    ``reason`` is why it started when it did: its ``engine`` was taken by the step before, it waited for that step's
    ``data`` or ``memory``, or nothing held it (``start``). ``decisive_s`` is the time from its start to the next
    step's.
    """

    instruction: str
    engine: str
    line: str
    start_s: float
    end_s: float
    decisive_s: float
    reason: str
    core: int
    times: int


def critical_path(schedules: list[Schedule]) -> tuple[list[Step], dict[str, float]]:
    """Return steps in the order of time, and seconds of the path by what they were spent on."""
    spent: dict[str, float] = {}
    steps: list[Step] = []
    core = max(range(len(schedules)), key=lambda c: max(schedules[c].end, default=0.0), default=-1)
    if core < 0 or not schedules[core].end:
        return steps, spent
    s = schedules[core]
    stream = s.stream
    i = max(range(len(stream)), key=lambda k: s.end[k])
    until = s.end[i]
    after = -1
    while i >= 0:
        begin = s.start[i]
        s.decisive.add(i)
        kind = stream.kinds[stream.kind[i]]
        queue = QUEUES[s.queue[i]]
        step = Step(
            kind.call.name,
            queue if kind.transfer is None or queue.startswith("dma.") else f"dma.{queue}",
            stream.lines[stream.line[i]],
            begin * 1e-9,
            s.end[i] * 1e-9,
            max(0.0, until - begin) * 1e-9,
            REASONS[s.reason[i]],
            core,
            1,
        )
        if steps and step[:3] == (last := steps[-1])[:3] and step.reason == last.reason:
            steps[-1] = last._replace(
                start_s=step.start_s, decisive_s=last.decisive_s + step.decisive_s, times=last.times + 1
            )
        else:
            steps.append(step)
        _spend(spent, s, i, until - begin, after)
        after, until = i, begin
        if i in s.held:
            # another core came last: its way here is the one that counts
            s, i = s.held[i]
            core, stream, after = schedules.index(s), s.stream, -1
            continue
        p = s.cause[i]
        if p == i or (p >= 0 and s.start[p] > begin):
            break
        i = p
    if until > 0:
        spent[LATENCY] = spent.get(LATENCY, 0.0) + until
    steps.reverse()
    return steps, {name: t * 1e-9 for name, t in sorted(spent.items(), key=lambda each: -each[1])}


def _spend(spent: dict[str, float], s: Schedule, i: int, length: float, after: int) -> None:
    """Divide the time between the start of ``i`` and the step ``after`` it, by how that one waited."""
    if length <= 0:
        return
    kind = s.stream.kinds[s.stream.kind[i]]
    waited = s.reason[after] if after >= 0 else None
    parts: dict[str, float] = {}
    if kind.transfer is not None:
        if waited == BUSY:
            parts[ISSUE] = length
        else:
            # once its descriptors are there a transfer waits for its engines and uses them; the rest is latency
            queued = s.moving[i] - s.start[i] - s.issue(i)[1]
            work = max(w for _, w, _ in kind.transfer.work)
            parts[BANDWIDTH] = min(length, max(0.0, queued) + work)
            parts[LATENCY] = length - parts[BANDWIDTH]
    else:
        cost = kind.cost
        engine = QUEUES[s.queue[i]]
        own = length if waited == BUSY else min(length, cost.busy)
        if i in s.table_loads:
            parts[TABLE] = min(length, s.target.timing.act_table)
            own = min(own, length - parts[TABLE])
        parts[engine] = own
        length -= parts.get(TABLE, 0.0)
        parts[ROOM if waited == MEMORY else LATENCY] = length - own
    for name, t in parts.items():
        if t > 0:
            spent[name] = spent.get(name, 0.0) + t


def group_steps(steps: list[Step]) -> list[tuple[Step, int, float]]:
    """Group steps of one instruction and line: an example, how many, and their decisive seconds; longest first."""
    groups: dict[tuple[str, str, str], list[Step]] = {}
    for step in steps:
        groups.setdefault((step.instruction, step.line, step.engine), []).append(step)
    totals = [(e[0], sum(step.times for step in e), sum(step.decisive_s for step in e)) for e in groups.values()]
    return sorted(totals, key=lambda g: -g[2])
