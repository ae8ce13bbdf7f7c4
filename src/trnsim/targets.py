"""The machines as kernels see them: ``targets.toml``, every number with its source. Times are in `trnsim.constants`.

Sources: A2, A3, A4 are the Neuron architecture guides for Trainium/Inferentia2, Trainium2 and Trainium3; API is the NKI
reference; P is read out of published trn2 profiles.
"""

import os
from dataclasses import dataclass, field
from typing import Any

from trnsim import target_file
from trnsim.constants import INTERVALS, Timing, timing
from trnsim.refusals import refuse
from trnsim.tables import read_table

KiB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One NeuronCore generation as kernels see it."""

    name: str
    generation: int
    partitions: int = 128  # A2: SBUF and PSUM have 128 partitions on every generation
    sbuf_partition_bytes: int
    # what the compiler and the run time keep of a partition: production kernels budget 224 KiB less 16,648 bytes on
    # trn2; no other figure is published, so it is taken for the other generations too
    sbuf_reserved_bytes: int = 16_648
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
    # where the timing comes from: published sources, or the target file of a machine
    source: str = "published"
    intervals: dict[str, tuple[float, float]] = field(default_factory=lambda: INTERVALS)

    @property
    def sbuf_usable_bytes(self) -> int:
        """Bytes of an SBUF partition that a kernel's tensors may take."""
        return self.sbuf_partition_bytes - self.sbuf_reserved_bytes

    @property
    def sbuf_filled_bytes(self) -> int:
        """Bytes of an SBUF partition the compiler fills before it spills.

        A published trn1 kernel (lora, 30.2 ms) needs all of them: with less it would be a quarter slower by spilling.
        """
        return self.sbuf_partition_bytes if self.generation == 2 else self.sbuf_usable_bytes

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)


_TABLE = read_table("targets.toml")
_ALIASES = {alias: name for name, aliases in _TABLE["names"].items() for alias in aliases.split()}
TARGETS = {name: Target(name=name, timing=timing(name), **fields) for name, fields in _TABLE["generations"].items()}
# one machine's own constants, in the stead of the published ones of its generation
if os.environ.get(target_file.VARIABLE):
    _own = target_file.read(os.environ[target_file.VARIABLE], TARGETS)
    TARGETS[_own.name] = _own


def target_named(name: Any = None) -> Target:
    """Return the target called ``name``; ``None`` asks ``NEURON_PLATFORM_TARGET_OVERRIDE``, then takes trn2."""
    if isinstance(name, Target):
        return name
    source = "target"
    if name is None:
        source = "NEURON_PLATFORM_TARGET_OVERRIDE"
        name = os.environ.get(source) or "trn2"
    target = TARGETS.get(_ALIASES.get(str(name).lower(), ""))
    if target is None:
        raise refuse("target", got=name, limit=sorted(_ALIASES), source=source, names=", ".join(_ALIASES))
    return target
