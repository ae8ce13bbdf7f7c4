"""The machine below torch: its Neuron driver, its instance type, and the cores of its logical cores.

What AWS's libraries read from the environment they read once, when torch loads them. Commands of the suite that start
programs settle it before; nothing here imports torch.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from trnsci import cache, config
from trnsci.config import TargetName

PRODUCT = Path("/sys/devices/virtual/dmi/id/product_name")


def device_nodes() -> list[Path]:
    """Return the Neuron driver's nodes in ``/dev``. Machines without any need not import its libraries."""
    return sorted(Path("/dev").glob("neuron[0-9]*"))


def instance(product: Path = PRODUCT) -> str:
    """Return the instance type EC2 writes into the machine's DMI table, ``trn2.3xlarge``; empty elsewhere."""
    name = product.read_text().strip() if product.exists() else ""
    return name if name.startswith((*config.TARGETS, "inf2")) else ""


def target(product: Path = PRODUCT) -> TargetName:
    """Return the generation of the instance, else the configured one."""
    return next((name for name in config.TARGETS if instance(product).startswith(name)), config.TARGET.get())


def settle() -> None:
    """Set the variables that AWS's libraries read once, where there is a device and they are not set.

    The cores of a logical core: without the variable a kernel is for one, and AWS's compiler takes two on trn2 and
    trn3, which it refuses (NCC_EVRF066). Folders for compiled programs: the defaults are writable by every user, and
    entries of another version look like errors of kernels (NCC_EVRF059, NCC_EVRF065). Call it before importing torch.
    """
    if not device_nodes():
        return
    if not config.LOGICAL_CORES.is_set:
        config.set_logical_cores(default_cores(target()))
    config.set_compile_caches(cache.folder() / "neuron" / compiler_versions())


def compiler_versions() -> str:
    """Return the versions of AWS's packages that decide what a compiled program is, as the name of a folder."""
    known = {each.name.lower().replace("_", "-"): each.version for each in metadata.distributions()}
    return "_".join(f"{name}-{known[name]}" for name in ("nki", "neuronx-cc", "torch-neuronx") if name in known)


def default_cores(name: TargetName) -> int:
    """Return the cores AWS gives a logical core of a generation."""
    return 1 if name == "trn1" else 2
