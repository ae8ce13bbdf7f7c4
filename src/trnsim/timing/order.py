"""What the order of a stream says by itself: which HBM tensors are results, and where each load is needed."""

from __future__ import annotations

from trnsim.memory import HBM, SHARED_HBM
from trnsim.timing.stream import Stream


def results(stream: Stream) -> frozenset[int]:
    """HBM tensors a kernel writes without reading: what it returns."""
    far = [region for region in stream.regions if region.operand.buffer in (HBM, SHARED_HBM)]
    return frozenset({r.uid for r in far if r.written} - {r.uid for r in far if r.read})


def places(stream: Stream) -> list[int]:
    """Where each instruction stands in the order of issue: loads stand before the first reader of their data."""
    n = len(stream)
    place = list(range(n))
    waiting: dict[int, list[tuple[int, int]]] = {}
    loads = [kind.transfer is not None and kind.transfer.load for kind in stream.kinds]
    regions = stream.regions
    for i in range(n):
        if waiting:
            for number in stream.reads[i]:
                region = regions[number]
                pending = waiting.get(region.uid)
                if not pending:
                    continue
                box = region.operand
                left = []
                for load, other in pending:
                    made = regions[other].operand
                    if made.first_byte < box.end_byte and box.first_byte < made.end_byte:
                        place[load] = i
                    else:
                        left.append((load, other))
                if left:
                    waiting[region.uid] = left
                else:
                    del waiting[region.uid]
        if loads[stream.kind[i]]:
            for number in stream.writes[i]:
                waiting.setdefault(regions[number].uid, []).append((i, number))
    return place
