"""The machines: every number with its source.

Sources: A2, A3, A4 are the Neuron architecture guides for Trainium/Inferentia2, Trainium2 and Trainium3; API is the NKI
reference, F its older cost formulas; D is the DMA bandwidth guide, G the performance guide's profile figures; P is read
out of published trn2 profiles, Q fitted from published trn2 instruction probes; C is calibrated on published kernel
times; I is inferred, usually by keeping cycle counts and changing the clock.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

KiB = 1024
GiB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Times of one generation in nanoseconds, rates in bytes per nanosecond; ``timing/costs.py`` uses them.

    ``*_issue`` is what an instruction costs its engine beyond its elements, ``*_done`` what a dependent waits beyond.
    """

    # Tensor Engine
    pe_issue: float  # added by every matmul instruction
    pe_fp32_parts: int  # instructions of an fp32 matmul
    pe_depth: float  # last row in to last result in PSUM
    pe_stall: float  # stationary load exposed when the engine was idle
    pe_floor: int = 64  # A2: shortest matmul in cycles
    pe_throttle: bool  # the activity monitor of P; documented for trn2 and trn3 only
    pe_window: float = 4096 / 1.2  # P: its window
    pe_promote: float = 0.78  # P: 0.81 promoted, 0.75 did not
    pe_demote: float = 0.41  # P: 0.44 kept, 0.38 demoted
    # Vector Engine
    vector_issue: float
    vector_done: float
    vector_pointer: float  # per-partition operand fetched from memory
    vector_fast: bool  # A3: 2x and 4x modes
    # Scalar Engine
    scalar_issue: float
    scalar_done: float
    act_issue: float
    act_done: float
    act_psum: float  # saved when the data comes from PSUM
    act_pointer: float
    act_read: float  # reading the accumulator back
    act_table: float  # loading a function table
    # GpSimd
    gpsimd_issue: float
    gpsimd_done: float
    # registers and barriers
    register: float = 70.0  # P: MOVE
    register_load: float = 330.0  # P: TENSOR_LOAD
    # semaphores
    semaphore: float
    semaphore_pe: float
    semaphore_dma: float
    semaphore_swdge: float  # an engine to a DMA that GpSimd issues
    gpsimd_begin: float  # GpSimd's late start
    # DMA
    dma_engines: int = 16  # A2
    # one packet on one engine: the smaller of packet + bytes / short_rate and base + bytes / rate
    dma_packet: float
    dma_short_rate: float
    dma_base: float
    dma_rate: float
    dma_turnaround: float  # a packet in the other direction than its neighbour
    dma_packet_bytes: int = 4096  # P: contiguous rows merge up to this
    dma_load: float  # start of a load that later loads overlap
    dma_store: float
    dma_read_stretch: float  # a lone load is this much longer than its share of a queue
    static_issue: float
    static_start: float
    hwdge_issue: float
    hwdge_start: float
    swdge_issue: float
    swdge_row: float  # and for every descriptor
    swdge_start: float
    hbm_rate: float  # of the stack two cores share
    # between cores and ranks
    core_meeting: float = 2000.0  # P: a barrier or an exchange of two cores
    hop_inside: float = 1500.0  # D: one to two microseconds
    hop_between: float = 15000.0  # D
    link_rate: float  # bytes a core passes on to its neighbour
    # launch
    preamble: float
    postamble: float
    launch: float  # what a host-side benchmark adds to the active window


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One NeuronCore generation as kernels see it."""

    name: str
    generation: int
    partitions: int = 128  # A2: SBUF and PSUM have 128 partitions on every generation
    sbuf_partition_bytes: int
    psum_partition_bytes: int = 16 * KiB  # A2: 2 MiB of PSUM
    psum_banks: int = 8  # A2: 8 banks a partition
    psum_bank_bytes: int = 2 * KiB  # A2: 512 fp32 a bank
    stationary_max: int = 128  # API: nl.tile_size.gemm_stationary_fmax
    moving_max: int = 512  # API: nl.tile_size.gemm_moving_fmax
    bn_stats_max: int = 512  # API: nl.tile_size.bn_stats_fmax
    sbuf_align: int = 1
    psum_align: int = 4
    cores: int  # NeuronCores of a device
    hbm_bytes: int
    clock_ghz: dict[str, float] = field(default_factory=dict)
    timing: Timing

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)


_TRN2_TIMING = Timing(
    pe_issue=3.0,  # P
    pe_fp32_parts=2,  # P
    pe_depth=165.0,  # P
    pe_stall=62.0,  # P
    pe_throttle=True,  # P
    vector_issue=70.0,  # P: 65 to 75
    vector_done=156.0,  # P, Q
    vector_pointer=57.0,  # P: 129 against 70, 214 against 160
    vector_fast=True,  # A3
    scalar_issue=50.0,  # P
    scalar_done=158.0,  # P: PSUM to SBUF; 190 from SBUF
    act_issue=185.0,  # P
    act_done=287.0,  # P, Q
    act_psum=35.0,  # P: 42 of the interval, 28 of the latency
    act_pointer=0.0,  # P: the figures above carry a bias pointer
    act_read=185.0,  # Q; 279 latency
    act_table=1283.0,  # P
    gpsimd_issue=125.0,  # F: 150 cycles
    gpsimd_done=177.0,  # Q: affine_select
    semaphore=36.0,  # P: 33 to 39
    semaphore_pe=53.0,  # P
    semaphore_dma=360.0,  # P, Q: 295 to 480
    semaphore_swdge=950.0,  # P: 880 to 1195
    gpsimd_begin=1270.0,  # P
    dma_packet=8.0,  # P
    dma_short_rate=24.3,  # C: 27.2 inside a packet (P), 23 practical (D)
    dma_base=8.0,
    dma_rate=24.3,
    dma_turnaround=50.0,  # P: loads and stores together 280 to 300 GB/s, either alone 366
    dma_load=293.0,  # Q
    dma_store=162.0,  # Q
    dma_read_stretch=1.25,  # P, Q: alone 271 GB/s, queued 353
    static_issue=486.0,  # C: transfers of one row
    static_start=760.0,  # P
    hwdge_issue=540.0,  # P: 517 to 542
    hwdge_start=1300.0,  # P: 1.19 to 1.35 us
    swdge_issue=478.0,  # C: 486 with one row, 604 with 128
    swdge_row=0.97,  # C
    swdge_start=752.0,  # P: 752 to 768
    hbm_rate=716.0,  # P
    link_rate=184.0,  # I: half the DMA engines read, half write
    preamble=13400.0,  # P: 13.2 to 14.0 us
    postamble=2100.0,  # P
    launch=8600.0,  # P: 6.3 to 11.3 us, median of eight kernels
)

TRN1 = Target(
    name="trn1",
    generation=2,
    sbuf_partition_bytes=192 * KiB,  # A2: 24 MiB
    cores=2,  # A2
    hbm_bytes=32 * GiB,  # A2
    clock_ghz={"tensor": 2.8, "vector": 1.12, "scalar": 1.4, "gpsimd": 1.4},  # A2
    timing=Timing(
        pe_issue=33.0,  # C: 30 bf16, 35 to 40 a pass of fp32
        pe_fp32_parts=4,  # C
        pe_depth=142.0,  # G: 128 columns take 188 ns
        pe_stall=53.0,  # I
        pe_throttle=False,  # P
        vector_issue=60.0,  # F: 64 cycles, added
        vector_done=130.0,  # I: as trn2 in cycles
        vector_pointer=50.0,  # I
        vector_fast=False,  # A3: new in trn2
        scalar_issue=46.0,  # F: 64 cycles, added
        scalar_done=159.0,  # G
        act_issue=46.0,  # F
        act_done=159.0,  # G
        act_psum=0.0,  # I
        act_pointer=0.0,  # A2: bias and scale cost nothing
        act_read=46.0,  # F: 64 cycles
        act_table=1283.0,  # I: as trn2
        gpsimd_issue=107.0,  # F: 150 cycles
        gpsimd_done=150.0,  # I
        semaphore=30.0,  # G: dependent ACTIVATEs 189 ns apart, 159 ns long
        semaphore_pe=45.0,  # I
        semaphore_dma=370.0,  # I: as trn2
        semaphore_swdge=900.0,  # I: as trn2
        gpsimd_begin=0.0,
        dma_packet=2.0,  # C: 256 B rows 36 ns, 1 KiB rows 161 ns
        dma_short_rate=6.75,  # C
        dma_base=131.0,  # C: 4 KiB rows 249 ns
        dma_rate=34.7,  # C; G: 18.1 over 32 KiB
        dma_turnaround=115.0,  # C: half reads, half writes take 370 ns a 4 KiB row
        dma_load=300.0,  # I
        dma_store=162.0,  # I
        dma_read_stretch=1.0,
        static_issue=330.0,  # C: 310 to 360
        static_start=760.0,  # P on trn2
        hwdge_issue=540.0,
        hwdge_start=1330.0,
        swdge_issue=478.0,
        swdge_row=0.97,
        swdge_start=760.0,
        hbm_rate=410.0,  # A2: 820 GB/s for both cores
        link_rate=136.0,  # I: half the DMA engines read, half write
        preamble=12000.0,  # P
        postamble=5000.0,  # P
        launch=8600.0,
    ),
)
TRN2 = Target(
    name="trn2",
    generation=3,
    sbuf_partition_bytes=224 * KiB,  # A3: 28 MiB
    cores=8,  # A3
    hbm_bytes=96 * GiB,  # A3
    clock_ghz={"tensor": 2.4, "vector": 0.96, "scalar": 1.2, "gpsimd": 1.2},  # A3, P
    timing=_TRN2_TIMING,
)
TRN3 = Target(
    name="trn3",
    generation=4,
    sbuf_partition_bytes=256 * KiB,  # A4: 32 MiB
    cores=8,  # A4
    hbm_bytes=144 * GiB,  # A4
    clock_ghz={"tensor": 2.4, "vector": 1.2, "scalar": 1.2, "gpsimd": 1.2},  # A4
    timing=replace(
        _TRN2_TIMING,
        vector_issue=56.0,  # I: as trn2 in cycles
        vector_done=125.0,  # I
        vector_pointer=48.0,  # I
        dma_short_rate=34.5,  # D: 33 practical
        dma_rate=34.5,
        hbm_rate=1200.0,  # I: from a profile's utilisation figure
        link_rate=264.0,  # I
    ),
)

TARGETS = {t.name: t for t in (TRN1, TRN2, TRN3)}
_ALIASES = {
    "trn1": TRN1,
    "inf2": TRN1,
    "gen2": TRN1,
    "trn2": TRN2,
    "gen3": TRN2,
    "trn3": TRN3,
    # the name the compiler gave it before it was launched
    "trn3pre": TRN3,
    "gen4": TRN3,
}


def target_named(name: Any = None) -> Target:
    """The target called ``name``; ``None`` asks ``NEURON_PLATFORM_TARGET_OVERRIDE``, then takes trn2."""
    if isinstance(name, Target):
        return name
    source = "target"
    if name is None:
        source = "NEURON_PLATFORM_TARGET_OVERRIDE"
        name = os.environ.get(source) or "trn2"
    found = _ALIASES.get(str(name).lower())
    if found is None:
        from trnsim.errors import WrongArgument

        raise WrongArgument(
            f"{source} is {name!r}, which is no Trainium generation",
            rule="target",
            got=name,
            limit=sorted(_ALIASES),
            hint=f"use one of {', '.join(_ALIASES)}",
        )
    return found
