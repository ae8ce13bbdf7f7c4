"""The device without the device: torch's ``neuron`` on any machine, for programs written for a Trainium.

The suite's operators run on the simulator. Others run on the host behind the device's rules: what it lacks falls back
or is refused, 64-bit numbers are computed in 32 bits, complex tensors do not exist, its memory ends. Everything is
counted, and what it would take is predicted.
"""

from __future__ import annotations

import torch

from trnsci import check, config, neuron
from trnsci.config import TargetName
from trnsci.console import Table, plain
from trnsci.device_operators import register_operators
from trnsci.emulation.device import EmulatedDevice, Machine
from trnsci.emulation.record import Record
from trnsci.emulation.rules import Rules
from trnsci.errors import BackendUnavailable
from trnsci.plans import quantity

__all__ = ["Emulation", "Record", "Rules", "emulate"]

_current: list[Emulation] = []


class Emulation:
    """An emulated device, and the record of what a program did with it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.device = EmulatedDevice(machine)

    @property
    def record(self) -> Record:
        """Counts and predicted times so far."""
        return self.machine.record

    def tables(self) -> list[Table]:
        """Return the report."""
        memory = self.machine.memory
        return self.record.tables(f"{quantity(memory.peak, 'B')} of {quantity(memory.capacity, 'B')}")

    def __str__(self) -> str:
        return "\n\n".join(map(plain, self.tables()))

    def __repr__(self) -> str:
        record = self.record
        return f"<Emulation of {record.target}: {record.dispatches} operators, {record.fallbacks.total()} fallbacks>"


def emulate(
    target: TargetName = "trn2",
    *,
    has_complex: bool = False,
    casts: bool = True,
    fallback: bool = True,
    has_send: bool = False,
) -> Emulation:
    """Give torch the device ``neuron`` on this machine, and return the record of what runs there.

    It lasts as long as the process, which can have one such device. Times are predicted, never measured.

    Args:
        target: ``trn1``, ``trn2`` or ``trn3``.
        has_complex: let complex tensors exist on the device. AWS's framework decomposes their operators, its compiler
            refuses them, and which of it holds for an operator is not known.
        casts: compute 64-bit numbers in 32 bits.
        fallback: run on the host what the device lacks; otherwise raise.
        has_send: let process groups ``send`` and ``recv``, which betas of torch-neuronx did not.

    Raises:
        BackendUnavailable: another package has given torch a device, or this process emulates another target.

    Example:
        >>> device = trnsci.emulate("trn2")
        >>> y = torch.ones(3, 4, device="neuron") @ torch.ones(4, 5).to("neuron")
        >>> print(device)
    """
    check.option("emulate", "target", target, config.TARGETS)
    limits = Rules(has_complex=has_complex, casts=casts, fallback=fallback, has_send=has_send)
    for known in _current:
        if (known.record.target, known.machine.limits) != (target, limits):
            raise _refuse_emulation(f"this process emulates {known.record.target} with {known.machine.limits}")
        return known
    # torch has room for one device of others, beside a GPU
    other = torch.device("privateuseone").type
    if other != "privateuseone":
        raise _refuse_emulation(f"torch has the device {other}")
    machine = Machine(target, limits)
    machine.install()
    emulation = Emulation(machine)
    _current.append(emulation)
    neuron.use(emulation.device)
    register_operators()
    return emulation


def _refuse_emulation(reason: str) -> BackendUnavailable:
    return BackendUnavailable(backend="nki", reason=reason, how="Emulate in a process of its own")
