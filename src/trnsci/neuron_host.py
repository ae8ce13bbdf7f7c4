"""The machine below torch: its Neuron driver, its instance type, and the cores of its logical cores.

What AWS's libraries read from the environment they read once, when torch loads them. Commands of the suite that start
programs settle it before; nothing here imports torch.
"""

from __future__ import annotations

from pathlib import Path

from trnsci import config
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


def settle_cores() -> None:
    """Say in the environment what a logical core of this machine is, where there is a device and it is not set.

    Kernels and AWS's compiler read one variable. Without it a kernel is for one core and the compiler takes two on trn2
    and trn3, which it refuses (NCC_EVRF066). It must be called before torch is imported.
    """
    if device_nodes() and not config.LOGICAL_CORES.is_set:
        config.set_logical_cores(default_cores(target()))


def default_cores(name: TargetName) -> int:
    """Return the cores AWS gives a logical core of a generation."""
    return 1 if name == "trn1" else 2
