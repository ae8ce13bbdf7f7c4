"""The constants of the timing model: each has one home, here, and one source.

Sources: A is the Neuron architecture guides, API the NKI reference, F its older cost formulas, D the DMA guides, G the
performance guide's profile figures; P is read out of published trn2 profiles, Q fitted from published instruction
probes; C is fitted to the rows of ``benchmarks/calibration/rows.csv``; I is inferred, usually by keeping cycle counts
and changing the clock. ``python -m benchmarks.calibration --refit`` fits all of them again, each within the
`UNCERTAINTY` of its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

# how far a fit to kernel times may move a constant, as a standard deviation of its logarithm
UNCERTAINTY = {"A": 0.0, "API": 0.0, "F": 0.1, "D": 0.1, "G": 0.05, "P": 0.03, "Q": 0.03, "C": 0.15, "I": 0.25}


class Constant(NamedTuple):
    """A figure, where it comes from, and what that source says about it."""

    value: float
    source: str
    note: str = ""


def trn2(value: float, source: str, note: str = "") -> Any:
    """Declare a constant with what it is on trn2; the other generations say where they differ."""
    return field(default=value, metadata={"constant": Constant(value, source, note)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Times of one generation in nanoseconds, rates in bytes per nanosecond; ``timing/`` uses them.

    ``*_issue`` is what an instruction costs its engine beyond its elements, ``*_done`` what a dependent waits beyond.
    """

    # Tensor Engine
    pe_issue: float = trn2(3.0, "P")  # added by every matmul instruction
    pe_fp32_parts: int = trn2(2, "P")  # instructions of an fp32 matmul
    pe_depth: float = trn2(165.0, "P")  # last row in to last result in PSUM
    pe_depth_half: float = trn2(203.0, "P")  # the same at half clock
    # exposed when an fp32 matmul finds the engine idle
    pe_restart: float = trn2(103.0, "P", "16-bit matmuls restart at once")
    pe_restart_half: float = trn2(163.0, "P")
    # the same of an fp32 transpose, at either clock
    pe_restart_transpose: float = trn2(61.0, "P", "63 at full, 59 at half clock")
    pe_floor: int = trn2(64, "A")  # shortest matmul in cycles
    # of the activity monitor; 0 where there is none
    pe_window: float = trn2(4096 / 1.2, "P", "documented for trn2 and trn3")
    pe_promote: float = trn2(0.78, "P", "0.81 promoted, 0.75 did not")  # a window busier than this brings full clock
    pe_demote: float = trn2(0.41, "P", "0.44 kept, 0.38 demoted")  # one less busy half clock
    # Vector Engine
    vector_issue: float = trn2(70.0, "P", "65 to 75")
    vector_done: float = trn2(156.0, "P")
    # per-partition operand fetched from memory
    vector_pointer: float = trn2(57.0, "P", "129 against 70, 214 against 160")
    vector_modes: int = trn2(1, "A")  # 1 where there are 2x and 4x modes
    # transposing a block of 32x32 into other partitions
    vector_block: float = trn2(93.0, "Q", "93 steady, 234 when the partitions change")
    memset_issue: float = trn2(58.0, "Q")
    # Scalar Engine
    scalar_issue: float = trn2(62.0, "P", "62 ± 1")
    scalar_done: float = trn2(158.0, "P")
    scalar_far: float = trn2(32.0, "Q", "190 from SBUF, 158 from PSUM")  # more when the data comes from SBUF
    act_issue: float = trn2(185.0, "P", "with a bias pointer")
    act_done: float = trn2(287.0, "P")
    act_psum: float = trn2(35.0, "P", "42 of the interval, 28 of the latency")  # saved when the data comes from PSUM
    act_plain: float = trn2(85.0, "Q", "202 without, 293 with one")  # and by a copy without a bias or scale to fetch
    act_read: float = trn2(185.0, "Q")  # reading the accumulator back
    act_read_done: float = trn2(279.0, "Q")
    act_table: float = trn2(1283.0, "P")  # loading a function table
    # GpSimd
    gpsimd_issue: float = trn2(125.0, "F", "150 cycles")
    gpsimd_done: float = trn2(177.0, "Q", "affine_select")
    gpsimd_begin: float = trn2(1270.0, "P")  # its late start
    # registers
    register: float = trn2(70.0, "P", "MOVE")
    register_load: float = trn2(330.0, "P", "TENSOR_LOAD")
    register_alu: float = trn2(44.0, "P", "ALU_OP")
    # semaphores: completion to the start of who waits
    semaphore: float = trn2(36.0, "P", "33 to 39")
    semaphore_pe: float = trn2(53.0, "P", "51 to 54")
    semaphore_dma: float = trn2(360.0, "P", "295 to 480")
    # an engine to a DMA that GpSimd issues, and for each of its descriptors
    semaphore_swdge: float = trn2(1036.0, "P", "1197 with 512 rows, 1358 with 1024")
    semaphore_swdge_row: float = trn2(0.315, "P")
    # DMA: one packet on one engine is the smaller of packet + bytes / short_rate and base + bytes / rate
    dma_engines: int = trn2(16, "A")
    dma_packet: float = trn2(3.4, "P", "256 B 14.0, 512 B 24.6")
    dma_short_rate: float = trn2(24.2, "P")
    dma_base: float = trn2(8.0, "P", "2 KiB 83, 4 KiB 158")
    dma_rate: float = trn2(27.2, "D", "the theoretical rate, which long packets reach (P)")
    dma_least: float = trn2(9.0, "P", "4 B")  # no packet takes less
    # nor a write of less than 512 bytes to HBM
    dma_least_write: float = trn2(24.0, "P", "two read-modify-writes of 41 in flight")
    # a packet in the other direction than its neighbour
    dma_turnaround: float = trn2(0.0, "P", "-2 ± 3; mixed windows reach 390 to 421 GB/s")
    dma_packet_bytes: int = trn2(4096, "P")  # contiguous rows merge up to this
    dma_load: float = trn2(293.0, "Q")  # start of a load that later loads overlap
    dma_store: float = trn2(162.0, "Q")
    # a lone load is this much longer than its share of a queue
    dma_read_stretch: float = trn2(1.25, "P", "alone 271 GB/s, queued 353")
    dma_transpose: float = trn2(0.9, "D")  # share of the copy rate a transpose reaches from HBM, and on chip
    dma_transpose_chip: float = trn2(0.5, "D")
    static_issue: float = trn2(486.0, "C", "transfers of one row")
    static_start: float = trn2(760.0, "P")
    # on the engine that issues, and for every descriptor
    hwdge_issue: float = trn2(476.0, "P", "524 with 128 rows, 572 with 256")
    hwdge_row: float = trn2(0.375, "P")
    hwdge_sync: float = trn2(39.0, "P", "563 with 128 rows")  # more on Sync
    hwdge_again: float = trn2(87.0, "P", "648 to 651 from the second on")  # and right behind another one
    # trigger to first byte: a load on Sync, one on another queue, a store
    hwdge_start: float = trn2(1330.0, "P", "1310 to 1350")
    hwdge_start_other: float = trn2(1260.0, "P", "1240 to 1280")
    hwdge_start_store: float = trn2(1200.0, "P", "1190 to 1210")
    swdge_issue: float = trn2(562.0, "P", "576 to 609 with 128 rows")
    swdge_row: float = trn2(0.315, "P", "the wake-up grows as much: it is GpSimd writing descriptors")
    # more where two cores run together
    swdge_pair: float = trn2(1500.0, "C", "prefill kernels of nki-library, fed by GpSimd; decode hardly moves")
    swdge_start: float = trn2(752.0, "P", "752 to 768")
    swdge_start_store: float = trn2(630.0, "P", "625 to 636")
    # what the compiler fills of SBUF once tensors have to be spilled
    spill_fill: float = trn2(0.85, "C", "bytes moved by 64 spilling block sizes of one matmul; 0.8 to 0.9 fit alike")
    hbm_rate: float = trn2(716.0, "P")  # of the stack two cores share
    # between cores and ranks
    core_meeting: float = trn2(2000.0, "P")  # a barrier or an exchange of two cores
    hop_inside: float = trn2(1500.0, "D", "one to two microseconds")
    hop_between: float = trn2(15000.0, "D")
    # bytes a core passes on to its neighbour
    link_rate: float = trn2(184.0, "I", "half the DMA engines read, half write")
    # launch
    preamble: float = trn2(13440.0, "P", "13.2 to 14.0 us")
    postamble: float = trn2(2090.0, "P")
    # what a host-side benchmark adds to the active window
    launch: float = trn2(8600.0, "P", "6.3 to 11.3 us, median of eight kernels")


C = Constant
_TRN2: dict[str, Constant] = {field.name: field.metadata["constant"] for field in fields(Timing)}

_TRN1 = _TRN2 | {
    "pe_issue": C(33.0, "C", "30 bf16, 35 to 40 a pass of fp32"),
    "pe_fp32_parts": C(4, "C"),
    "pe_depth": C(142.0, "G", "128 columns take 188"),
    "pe_depth_half": C(142.0, "I", "no activity monitor"),
    "pe_restart": C(53.0, "I"),
    "pe_restart_half": C(53.0, "I"),
    "pe_restart_transpose": C(53.0, "I"),
    "pe_window": C(0.0, "I", "no activity monitor is documented"),
    "vector_issue": C(60.0, "F", "64 cycles, added"),
    "vector_done": C(130.0, "I", "as trn2 in cycles"),
    "vector_pointer": C(50.0, "I"),
    "vector_modes": C(0, "A", "new in trn2"),
    "vector_block": C(117.0, "C", "the transposed loads of the fused MP2 energy"),
    "memset_issue": C(58.0, "I"),
    "scalar_issue": C(46.0, "F", "64 cycles, added"),
    "scalar_done": C(159.0, "G"),
    "scalar_far": C(0.0, "I"),
    "act_issue": C(46.0, "F"),
    "act_done": C(159.0, "G"),
    "act_psum": C(0.0, "I"),
    "act_plain": C(0.0, "I"),
    "act_read": C(46.0, "F", "64 cycles"),
    "act_read_done": C(69.0, "I"),
    "act_table": C(1283.0, "I", "as trn2"),
    "gpsimd_issue": C(107.0, "F", "150 cycles"),
    "gpsimd_done": C(150.0, "I"),
    "gpsimd_begin": C(0.0, "I"),
    "semaphore": C(30.0, "G", "dependent ACTIVATEs 189 apart, 159 long"),
    "semaphore_pe": C(45.0, "I"),
    "semaphore_dma": C(370.0, "I", "as trn2"),
    "semaphore_swdge": C(1036.0, "I", "as trn2"),
    "dma_packet": C(2.0, "C", "256 B rows 36, 1 KiB rows 161"),
    "dma_short_rate": C(6.75, "C"),
    "dma_base": C(131.0, "C", "4 KiB rows 249"),
    "dma_rate": C(34.7, "C"),
    "dma_least": C(2.0, "I"),
    "dma_least_write": C(41.0, "I", "the latency of trn2"),
    "dma_turnaround": C(115.0, "C", "half reads, half writes take 370 a 4 KiB row"),
    "dma_load": C(300.0, "I"),
    "dma_store": C(162.0, "I"),
    "dma_read_stretch": C(1.0, "I"),
    "static_issue": C(330.0, "C", "310 to 360"),
    "static_start": C(760.0, "I", "as trn2"),
    "swdge_issue": C(562.0, "I", "as trn2"),
    "swdge_row": C(0.315, "I", "as trn2"),
    "swdge_start": C(760.0, "I", "as trn2"),
    "swdge_start_store": C(630.0, "I", "as trn2"),
    "hbm_rate": C(410.0, "A", "820 GB/s for both cores"),
    "link_rate": C(136.0, "I", "half the DMA engines read, half write"),
    "preamble": C(12000.0, "P"),
    "postamble": C(5000.0, "P"),
}

_TRN3 = _TRN2 | {
    "vector_issue": C(56.0, "I", "as trn2 in cycles"),
    "vector_done": C(125.0, "I", "as trn2 in cycles"),
    "vector_pointer": C(48.0, "I", "as trn2 in cycles"),
    "dma_short_rate": C(34.2, "I", "as trn2, in the ratio of the theoretical rates"),
    "dma_rate": C(38.4, "D", "the theoretical rate"),
    "hbm_rate": C(1200.0, "I", "from a profile's utilisation figure"),
    "link_rate": C(264.0, "I", "half the DMA engines read, half write"),
}

CONSTANTS: Mapping[str, Mapping[str, Constant]] = {"trn1": _TRN1, "trn2": _TRN2, "trn3": _TRN3}


def timing(name: str) -> Timing:
    """Return the constants of one generation as the model reads them."""
    return Timing(**{key: constant.value for key, constant in CONSTANTS[name].items()})  # type: ignore[arg-type]


# what a report says binds a kernel, in classes wide enough to have been measured
RESOURCES = {
    "tensor": "tensor",
    "vector": "vector",
    "scalar": "vector",
    "gpsimd": "vector",
    "DMA bandwidth": "transfers",
    "DMA issue": "transfers",
    "latency": "latency",
    "memory": "latency",
    "table loads": "latency",
}

# seconds: the smallest kernels published elsewhere take 17 to 18 us in all, which leaves 4 us less around them than the
# ten profiles the preamble was read out of
LAUNCH_UNCERTAINTY = 4e-6

# share of kernels of unknown families whose time an interval is meant to hold, and its factors on a prediction
LEVEL = 0.8
INTERVALS = {
    "all": (0.84, 1.19),
    "latency": (0.84, 1.19),
    "tensor": (0.84, 1.19),
    "transfers": (0.84, 1.19),
    "vector": (0.82, 1.22),
}
