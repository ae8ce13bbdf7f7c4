"""The device: finding it, moving tensors to it and back, and keeping compiled kernels.

Neuron exposes Trainium to PyTorch in two ways: as an XLA device (``torch_xla``), and as a native device named
``neuron`` (``torch_neuronx``). Both are supported behind `Device`. On a machine with neither, `to_device` marks tensors
as resident and counts the transfer, so that a program written with residency runs anywhere and its ledger tells the
same story.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trnsci import check, config
from trnsci.config import TargetName
from trnsci.errors import DtypeError
from trnsci.ledger import Transfer, record
from trnsci.specs import ResidentTensor, is_resident, map_tensors


class Device:
    """A place kernels run on; by default one that torch moves tensors to."""

    kind: str
    target: TargetName
    _device: Any

    def clock(self) -> float:
        """Return seconds since some moment, by which launches are measured."""
        return time.perf_counter()

    def put(self, tensor: Tensor) -> Tensor:
        """Copy a host tensor to the device."""
        return tensor.to(self._device)

    def fetch(self, tensor: Tensor) -> Tensor:
        """Copy a device tensor to the host, waiting for it; XLA runs what is pending first."""
        return tensor.cpu()

    def run(self, kernel: Callable[..., Any], *args: Any, **static: Any) -> Any:
        """Call a kernel with tensors on the device; results are on the device.

        The kernel's own decorator compiles it for these operands and keeps the program.
        """
        return kernel(*args, **static)

    def synchronize(self) -> None:
        """Wait until everything launched has finished."""
        torch.accelerator.synchronize()


class XlaDevice(Device):
    """Trainium as an XLA device of ``torch_xla``."""

    kind = "xla"

    def __init__(self, target: TargetName) -> None:
        self.target = target
        self._xla = importlib.import_module("torch_xla")
        self._xm = importlib.import_module("torch_xla.core.xla_model")
        self._device = _xla_device(self._xla, self._xm)

    def run(self, kernel: Callable[..., Any], *args: Any, **static: Any) -> Any:
        """Call the kernel, and end the graph: else kernels on resident tensors would be fused into ever new ones."""
        results = super().run(kernel, *args, **static)
        self._barrier()
        return results

    def synchronize(self) -> None:
        """Run the pending graph and wait for it."""
        self._barrier()
        self._xm.wait_device_ops()

    def _barrier(self) -> None:
        """End the pending graph, by today's name or the older one."""
        end = getattr(self._xla, "sync", None) or self._xm.mark_step
        end()


class NativeDevice(Device):
    """Trainium as torch's own device type ``neuron``, registered by ``torch_neuronx``."""

    kind = "neuron"

    def __init__(self, target: TargetName) -> None:
        self.target = target
        self._device = torch.device("neuron")


class StandIn(Device):
    """Device memory imitated in host memory: the marks and the accounting without the hardware."""

    kind = "stand-in"

    def __init__(self, target: TargetName | None = None) -> None:
        self.target = target or config.TARGET.get()

    def put(self, tensor: Tensor) -> Tensor:
        """Mark a copy as resident."""
        return tensor.clone().as_subclass(ResidentTensor)

    def fetch(self, tensor: Tensor) -> Tensor:
        """Return a copy without the mark."""
        return tensor.as_subclass(Tensor).clone()

    def run(self, kernel: Callable[..., Any], *args: Any, **static: Any) -> Any:
        """Call the kernel on the memory behind the marks, and mark its results."""
        results = kernel(*map_tensors(args, lambda t: t.detach().as_subclass(Tensor)), **static)
        return map_tensors(results, lambda t: t.as_subclass(ResidentTensor))

    def synchronize(self) -> None:
        """Nothing runs asynchronously here."""


_detected: tuple[Device | None, str] | None = None


def device() -> Device | None:
    """Return the Neuron device of this machine, if there is one. Looked for once."""
    return detected()[0]


def why_no_device() -> str:
    """Return why `device` is ``None``; empty when there is a device."""
    return detected()[1]


def detected() -> tuple[Device | None, str]:
    """Return the Neuron device, and why there is none."""
    global _detected
    if _detected is None:
        _detected = _detect()
    return _detected


def _detect() -> tuple[Device | None, str]:
    described = config.STAND_IN.get()
    if described is not None:
        return importlib.import_module("trnsci.stand_in").Machine(described), ""
    if not _device_nodes():
        return None, "no Neuron device"
    target = _target()
    reasons = []
    for package, open_device in (("torch_neuronx", _open_native), ("torch_xla", _open_xla)):
        try:
            opened = open_device(target)
        except ImportError as error:
            reasons.append(f"{package} does not import ({error})")
            continue
        if opened is not None:
            return opened, ""
        reasons.append(f"{package} reports no Neuron device")
    return None, "the machine has a Neuron device, but " + " and ".join(reasons)


def logical_cores(target: TargetName) -> int:
    """Return the cores of a logical core: as the environment says, and two on a Neuron host where nobody said it.

    Importing `trnsci` says 1 there; it came too late if the device library was imported before.
    """
    said = config.LOGICAL_CORES
    paired = said.get() == 2 if said.is_set else bool(_device_nodes())
    return 2 if paired and target != "trn1" else 1


def single(kernel: str) -> str:
    """Return why a kernel of one core cannot be launched where a logical core has two."""
    return (
        f"kernel {kernel} runs on one core, and a launch must have as many as a logical core, which has two here. "
        "Start the program with NEURON_LOGICAL_NC_CONFIG=1, or leave it unset and import trnsci before torch_xla"
    )


def use_single_cores() -> None:
    """Make logical cores of one core, where there is a device, nobody chose, and its library is not imported yet."""
    early = any(sys.modules.get(name) is not None for name in ("torch_neuronx", "torch_xla"))
    if not early and _device_nodes():
        config.use_single_cores()


def _device_nodes() -> list[Path]:
    """Return the Neuron driver's nodes in ``/dev``. Machines without any need not import its libraries."""
    return sorted(Path("/dev").glob("neuron[0-9]*"))


def _open_native(target: TargetName) -> Device | None:
    importlib.import_module("torch_neuronx")
    accelerator = torch.accelerator.current_accelerator()
    return NativeDevice(target) if accelerator is not None and accelerator.type == "neuron" else None


def _open_xla(target: TargetName) -> Device | None:
    xla = importlib.import_module("torch_xla")
    xm = importlib.import_module("torch_xla.core.xla_model")
    return XlaDevice(target) if xm.xla_device_hw(_xla_device(xla, xm)) == "NEURON" else None


def _xla_device(xla: Any, xm: Any) -> Any:
    """Return the XLA device, by today's name or the older one."""
    return xla.device() if hasattr(xla, "device") else xm.xla_device()


PRODUCT = Path("/sys/devices/virtual/dmi/id/product_name")


def instance(product: Path = PRODUCT) -> str:
    """Return the instance type EC2 writes into the machine's DMI table, ``trn2.3xlarge``; empty elsewhere."""
    name = product.read_text().strip() if product.exists() else ""
    return name if name.startswith((*config.TARGETS, "inf2")) else ""


def _target(product: Path = PRODUCT) -> TargetName:
    """Return the generation of the instance, else the configured one."""
    return next((target for target in config.TARGETS if instance(product).startswith(target)), config.TARGET.get())


@contextmanager
def stand_in(device: Device | None = None) -> Iterator[Device]:
    """Pretend, inside the block, that this machine has a Trainium: the device path runs, on the simulator."""
    global _detected
    before, pretended = _detected, device or StandIn()
    _detected = (pretended, "")
    try:
        yield pretended
    finally:
        _detected = before


def to_device(tensor: Tensor) -> Tensor:
    """Copy a tensor to device memory. Ops on resident operands skip the transfer, and their results are resident.

    Gradients flow back through the copy. Without a Trainium the tensor is marked and the transfer counted.
    """
    check.dense("to_device", tensor=tensor)
    if is_resident(tensor):
        return tensor
    if tensor.is_complex():
        expected = "a real dtype, because the device has no complex one"
        hint = "Keep the planes of trnsci.split_complex on the device instead"
        raise DtypeError("to_device", "dtype of tensor", tensor.dtype, expected, hint=hint)
    record(Transfer("to", tensor.nbytes))
    return (device() or StandIn()).put(tensor)


def from_device(tensor: Tensor) -> Tensor:
    """Copy a resident tensor to the host; a host tensor is returned as it is."""
    check.tensor("from_device", tensor=tensor)
    if not is_resident(tensor):
        return tensor
    record(Transfer("from", tensor.nbytes))
    holder = StandIn() if isinstance(tensor, ResidentTensor) else device() or StandIn()
    return holder.fetch(tensor)


to_xla = to_device
from_xla = from_device


use_single_cores()
