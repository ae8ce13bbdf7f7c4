"""Cost of a DMA: descriptors, packets and the sixteen engines that move them.

A transfer is cut into descriptors of contiguous bytes on both sides. Engine ``e`` of a core serves SBUF partitions
``8e`` to ``8e + 7``; transfers within HBM are dealt to all engines. A packet costs ``dma_packet + bytes / dma_rate`` on
its engine. Who writes the descriptors decides what issuing costs and when data starts to move:

* ``static``: prepared before launch; trn1's only way for addresses known at compile time.
* ``swdge``: written by GpSimd while the kernel runs; what trn2's compiler does for kernel arguments and results.
* ``hwdge``: written by a hardware block that Sync or Scalar commands; constants and HBM scratch on trn2.
"""

import math
from typing import NamedTuple

from trnsim.memory import PSUM, SBUF
from trnsim.targets import Target
from trnsim.timing.costs import Call, Layout, itemsize

DMA_NAMES = frozenset(("dma_copy", "dma_transpose", "dma_compute", "spill", "reload"))


class Transfer(NamedTuple):
    """One DMA: bytes, descriptors, (engine, nanoseconds, packets) of each engine, how the kernel wants it issued.

    ``rate`` is what one engine takes of its HBM stack, in bytes per nanosecond; short packets take more than they move.
    """

    nbytes: int
    read: int
    written: int
    descriptors: int
    work: tuple[tuple[int, float, float], ...]
    load: bool
    mode: str
    trigger: str
    rate: float


def run_bytes(operand: Layout) -> int:
    """Return bytes that lie together: within a partition on chip, anywhere in HBM."""
    expected = 1
    low = 1 if operand.buffer in (SBUF, PSUM) else 0
    for extent, stride in zip(reversed(operand.shape[low:]), reversed(operand.strides[low:]), strict=True):
        if extent == 1:
            continue
        if stride != expected:
            break
        expected *= extent
    return expected * itemsize(operand.dtype)


def transfer_of(call: Call, first_partition: int, target: Target) -> Transfer:
    """Return the work a DMA instruction asks for. ``first_partition`` is that of its on-chip side."""
    time = target.timing
    dst = call.writes[0]
    size = math.prod(dst.shape)
    srcs = [o for o in call.reads if math.prod(o.shape) >= size] or list(call.reads[:1]) or [dst]
    src = srcs[0]
    nbytes = max(dst.nbytes, src.nbytes)
    chip = dst if dst.buffer in (SBUF, PSUM) else src if src.buffer in (SBUF, PSUM) else None
    to_chip = dst.buffer in (SBUF, PSUM)
    from_chip = src.buffer in (SBUF, PSUM)
    gathered = bool(call.info.get("indirect"))

    # elements together on both sides; a transfer that converts is timed by its wider one
    wide = max(itemsize(src.dtype), itemsize(dst.dtype))
    casts = itemsize(src.dtype) != itemsize(dst.dtype)
    together = [run_bytes(o) // itemsize(o.dtype) for o in (src, dst)]
    if chip is not None:
        together.append(chip.n)
    run = max(1, min(together)) * wide
    if call.name == "dma_transpose":
        run = max(1, _transpose_run(src, dst))
    descriptors = max(1, -(-nbytes // run))
    # rows that lie together in HBM travel together up to 4 KiB, longer ones are cut
    length = run
    if not gathered and not casts and chip is not None:
        length = max(run, min(time.dma_packet_bytes, run_bytes(dst if from_chip else src)))
    length = min(length, time.dma_packet_bytes)
    packet = packet_time(length, target)
    if not to_chip and run < 512 and run_bytes(dst) <= run:
        packet = max(packet, time.dma_least_write)
    packets = descriptors * run / length
    total = packets * packet
    if call.name == "dma_transpose":
        total /= time.dma_transpose_chip if from_chip and to_chip else time.dma_transpose
    if call.name == "dma_compute":
        total *= max(2, len(srcs)) / (2 if target.generation >= 4 else 1)
    work = _deal(total, packets, chip, first_partition, time.dma_engines)
    read = 0 if from_chip else sum(o.nbytes for o in srcs)
    written = 0 if to_chip else dst.nbytes
    mode = "swdge" if gathered else str(call.info.get("dge", "unknown"))
    if call.name == "dma_transpose" and mode == "unknown":
        # API: software descriptors transpose gathered rows only, hardware ones 2-byte words
        mode = "hwdge" if itemsize(dst.dtype) == 2 and target.generation > 2 else "none"
    trigger = str(call.info.get("engine", "unknown"))
    moved = read + written
    rate = max(moved, packets * time.hbm_least) / max(total, 1e-9) if moved else 0.0
    return Transfer(nbytes, read, written, descriptors, work, not from_chip, mode, trigger, rate)


def _transpose_run(src: Layout, dst: Layout) -> int:
    """A3: transposes move [128, 16] tiles whose 16 elements are contiguous."""
    return min(run_bytes(src), 16 * itemsize(dst.dtype) * 16)


def packet_time(nbytes: int, target: Target) -> float:
    """Return nanoseconds one packet takes its engine."""
    time = target.timing
    short, long = time.dma_packet + nbytes / time.dma_short_rate, time.dma_base + nbytes / time.dma_rate
    return max(time.dma_least, min(short, long))


def _deal(
    total: float, packets: float, chip: Layout | None, first: int, engines: int
) -> tuple[tuple[int, float, float], ...]:
    """Deal work to the engines that serve the partitions touched."""
    if chip is None:
        return tuple((e, total / engines, packets / engines) for e in range(engines))
    rows = chip.shape[0]
    each = 128 // engines
    last = min(first + rows, 128)
    work = []
    for e in range(first // each, (max(last, first + 1) - 1) // each + 1):
        share = max(1, min(last, (e + 1) * each) - max(first, e * each)) / rows
        work.append((e % engines, total * share, packets * share))
    return tuple(work)
