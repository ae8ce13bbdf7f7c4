"""Consequences of the order of a stream alone: which HBM tensors are results, and where each load is needed."""

from trnsim.memory import HBM, SHARED_HBM
from trnsim.timing.stream import Stream


def results(stream: Stream) -> frozenset[int]:
    """HBM tensors a kernel writes without reading: what it returns."""
    far = [region for region in stream.regions if region.operand.buffer in (HBM, SHARED_HBM)]
    return frozenset({r.uid for r in far if r.written} - {r.uid for r in far if r.read})


def issue_positions(stream: Stream) -> list[int]:
    """Return each instruction's position in the order of issue. A load takes that of the first reader of its data."""
    n = len(stream)
    position = list(range(n))
    waiting: dict[int, list[tuple[int, int]]] = {}
    loads = [kind.transfer is not None and kind.transfer.load for kind in stream.kinds]
    regions = stream.regions
    for i in range(n):
        if waiting:
            for index in stream.reads[i]:
                region = regions[index]
                pending = waiting.get(region.uid)
                if not pending:
                    continue
                box = region.operand
                left = []
                for load, other in pending:
                    written = regions[other].operand
                    if written.first_byte < box.end_byte and box.first_byte < written.end_byte:
                        position[load] = i
                    else:
                        left.append((load, other))
                if left:
                    waiting[region.uid] = left
                else:
                    del waiting[region.uid]
        if loads[stream.kind[i]]:
            for index in stream.writes[i]:
                waiting.setdefault(regions[index].uid, []).append((i, index))
    return position
