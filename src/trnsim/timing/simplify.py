"""Instructions that the compiler leaves out, as published profiles show it.

Two rules. A broadcast that `nl.broadcast_to` makes in PSUM is not copied to SBUF when every reader can read
PSUM, where it stays. An instruction that repeats one of the same source line on the same unchanged tensors, into a
tensor of its own, runs once: that is a loop's invariant. Transfers, and copies in the source, stay as written.

Profiles of the fused Mamba tutorial (trn1) show both. The source has five Vector Engine instructions per state. With
rows of 8192 four are drawn, each as long as operands in SBUF make it; with rows of 512 the engine is active for 3.07 us
per state, which is four of them, two with an operand in PSUM.
"""

import numpy as np

from trnsim.memory import PSUM, SBUF
from trnsim.records import Operand
from trnsim.timing.stream import Kind, Region, Stream

# instructions whose operands say everything they compute: no constants
_PURE = frozenset({"tensor_tensor"})

# instructions of the Vector and Scalar Engines that take a whole tile from PSUM
_READ_PSUM = frozenset(
    {"tensor_tensor", "tensor_scalar", "tensor_copy", "tensor_reduce", "activation", "activation_reduce"}
    | {"scalar_tensor_tensor", "tensor_tensor_scan", "bn_stats", "reciprocal"}
)


def simplify_stream(stream: Stream) -> tuple[Stream, int]:
    """Return the stream without what the compiler leaves out, and how many instructions that is."""
    if not any(_repeats(kind) or _forwards(kind) for kind in stream.kinds):
        return stream, 0
    work = _Simplifier(stream)
    work.mark()
    return (work.rebuild(), len(work.dropped)) if work.dropped else (stream, 0)


def _repeats(kind: Kind) -> bool:
    call = kind.call
    pure = call.name in _PURE or (call.name == "memset" and call.info.get("implicit"))
    return bool(pure) and call.writes[0].buffer == SBUF and not kind.ordered


def _forwards(kind: Kind) -> bool:
    call = kind.call
    copies = call.name == "tensor_copy" and call.info.get("implicit") and not call.info.get("cast")
    return bool(copies) and call.reads[0].buffer == PSUM and call.writes[0].buffer == SBUF and not kind.ordered


class _Simplifier:
    """``dropped`` instructions, and for every tensor they made the region that stands for it."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.dropped: set[int] = set()
        self.stands: dict[int, Region] = {}
        self.readers: dict[int, list[int]] = {}
        self.writes: dict[int, int] = {}
        self._named = {index for indices in stream.after for index in indices}
        self._banks: np.ndarray | None = None
        self._regions: dict[int, int] = {}
        self._views: dict[Operand, int] = {}
        self._kinds: dict[tuple[int, tuple[str, ...]], Kind] = {}

    def mark(self) -> None:
        """Decide what goes, in program order."""
        stream, regions = self.stream, self.stream.regions
        repeats = [_repeats(kind) for kind in stream.kinds]
        forwards = [_forwards(kind) for kind in stream.kinds]
        self._count(forwards)
        version: dict[int, int] = {}
        first: dict[tuple[object, ...], Region] = {}
        for i, index in enumerate(stream.kind):
            if repeats[index] and self._alone(i):
                copy = regions[stream.writes[i][0]]
                known = first.setdefault(self._key(i, version), copy)
                if known is not copy and known.operand == copy.operand._replace(key=known.key, uid=known.uid):
                    self._drop(i, copy.uid, known)
            elif forwards[index] and self._alone(i) and self._stays(i, version):
                self._drop(i, regions[stream.writes[i][0]].uid, regions[stream.reads[i][0]])
            for written in stream.writes[i]:
                uid = regions[written].uid
                version[uid] = version.get(uid, 0) + 1

    def _count(self, forwards: list[bool]) -> None:
        """How often every tensor is written, and who reads those that copies make."""
        stream, regions, count = self.stream, self.stream.regions, self.writes
        wanted = set()
        for i, index in enumerate(stream.kind):
            for written in stream.writes[i]:
                uid = regions[written].uid
                count[uid] = count.get(uid, 0) + 1
            if forwards[index]:
                wanted.add(regions[stream.writes[i][0]].uid)
            if wanted:
                for read in stream.reads[i]:
                    if regions[read].uid in wanted:
                        self.readers.setdefault(regions[read].uid, []).append(i)

    def _alone(self, i: int) -> bool:
        """Return whether ``i`` alone writes an SBUF tensor that the compiler places, and nothing asks for ``i``."""
        stream = self.stream
        mine = [stream.regions[index] for index in (*stream.writes[i], *stream.reads[i])]
        free = all(region.key == region.uid and not region.operand.dynamic for region in mine)
        asked = stream.after[i] or i in stream.sync or stream.index[i] in self._named
        return free and not asked and len(stream.writes[i]) == 1 and self.writes[mine[0].uid] == 1

    def _key(self, i: int, version: dict[int, int]) -> tuple[object, ...]:
        """Return what ``i`` computes: where it stands, what it reads, and how often that had been written."""
        stream = self.stream
        reads = tuple(self._region(index) for index in stream.reads[i])
        versions = tuple(version.get(stream.regions[index].uid, 0) for index in reads)
        return stream.kind[i], stream.line[i], reads, versions

    def _stays(self, i: int, version: dict[int, int]) -> bool:
        """Return whether all readers of copy ``i`` can read its source: it is whole, unchanged, and has room."""
        stream = self.stream
        source = stream.regions[stream.reads[i][0]].operand
        copy = stream.regions[stream.writes[i][0]].operand
        like = copy._replace(key=source.key, uid=source.uid, buffer=PSUM)
        if like != source or version.get(source.uid, 0) != self.writes[source.uid]:
            return False
        users = self.readers.get(copy.uid, [])
        if not users or not all(self._reads_psum(user, copy.uid) for user in users):
            return False
        banks = self._count_banks()
        need = -(-source.room // stream.target.psum_bank_bytes)
        span = slice(stream.last[source.uid] + 1, users[-1] + 1)
        if banks[span].max(initial=0) + need > stream.target.psum_partition_bytes // stream.target.psum_bank_bytes:
            return False
        banks[span] += need
        return True

    def _reads_psum(self, i: int, uid: int) -> bool:
        """Return whether ``i`` could read ``uid`` from PSUM, which lends one operand to an instruction."""
        stream = self.stream
        call = stream.kinds[stream.kind[i]].call
        if call.name not in _READ_PSUM or call.engine not in ("vector", "scalar"):
            return False
        read = [stream.regions[self._region(index)] for index in stream.reads[i]]
        mine = [region for region in read if region.uid == uid]
        others = [region for region in read if region.uid != uid]
        return len(mine) == 1 and all(region.operand.buffer != PSUM for region in others)

    def _count_banks(self) -> np.ndarray:
        """Return banks of PSUM alive at every instruction, in program order."""
        if self._banks is None:
            stream = self.stream
            change = np.zeros(len(stream) + 1, np.int64)
            seen = set()
            for i in range(len(stream)):
                for index in (*stream.writes[i], *stream.reads[i]):
                    region = stream.regions[index]
                    if region.operand.buffer == PSUM and region.uid not in seen:
                        seen.add(region.uid)
                        room = -(-region.operand.room // stream.target.psum_bank_bytes)
                        change[i] += room
                        change[stream.last[region.uid] + 1] -= room
            self._banks = np.cumsum(change)
        return self._banks

    def _drop(self, i: int, uid: int, stands: Region) -> None:
        self.dropped.add(i)
        self.stands[uid] = stands
        self._views[stands.operand] = stands.index

    def _region(self, index: int) -> int:
        """Return the region that stands for one: the same view of another tensor where its own is not made."""
        region = self.stream.regions[index]
        stands = self.stands.get(region.uid)
        if stands is None:
            return index
        replacement = self._regions.get(index)
        if replacement is None:
            operand = region.operand._replace(key=stands.key, uid=stands.uid, buffer=stands.operand.buffer)
            replacement = self._views.setdefault(operand, len(self.stream.regions))
            if replacement == len(self.stream.regions):
                self.stream.regions.append(Region(replacement, operand, -1))
            self.stream.regions[replacement].read = True
            self._regions[index] = replacement
        return replacement

    def rebuild(self) -> Stream:
        """Return the stream without what was dropped; readers read what stands for it."""
        old, new = self.stream, Stream(self.stream.target)
        new.kinds, new.regions, new.lines = old.kinds, old.regions, old.lines
        for i in range(len(old)):
            kind = old.kinds[old.kind[i]]
            if i in self.dropped:
                kind.count -= 1
                continue
            reads = tuple(self._region(index) for index in old.reads[i])
            if reads != old.reads[i]:
                kind = self._kind(kind, reads)
            if i in old.sync:
                new.sync[len(new)] = old.sync[i]
            for index in (*reads, *old.writes[i]):
                new.last[old.regions[index].uid] = len(new)
            new.add(kind.index, old.line[i], reads, old.writes[i], old.index[i], old.after[i])
        return new

    def _kind(self, kind: Kind, reads: tuple[int, ...]) -> Kind:
        """``kind`` with its operands where they are read now."""
        buffers = tuple(self.stream.regions[index].operand.buffer for index in reads)
        moved = self._kinds.get((kind.index, buffers))
        if moved is None:
            # tiles of run-time offsets come after the operands
            layouts = zip(kind.call.reads, buffers, strict=False)
            call = kind.call._replace(reads=tuple(layout._replace(buffer=buffer) for layout, buffer in layouts))
            moved = kind
            if call.reads != kind.call.reads:
                moved = Kind(len(self.stream.kinds), call, self.stream.target, kind.first_partition)
                self.stream.kinds.append(moved)
            self._kinds[kind.index, buffers] = moved
        if moved is not kind:
            kind.count -= 1
            moved.count += 1
        return moved
