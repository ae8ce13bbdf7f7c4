"""The device: finding it, moving tensors to it and back, and keeping compiled kernels.

Neuron exposes Trainium to PyTorch in two ways: as an XLA device (``torch_xla``), and as a native device named
``neuron`` (``torch_neuronx``). Both are supported behind `Device`. On a machine with neither, `to_device` marks tensors
as resident and counts the transfer, so that a program written with residency runs anywhere and its ledger tells the
same story.
"""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from trnsci import check, config, neuron_host, nki
from trnsci.config import TargetName
from trnsci.errors import DtypeError
from trnsci.ledger import FALLBACKS, REMARKS, Transfer, record
from trnsci.specs import ResidentTensor, is_resident, map_tensors
from trnsci.torch_internals import mark_constant


class Device:
    """A place kernels run on; by default one that torch moves tensors to."""

    kind: str
    target: TargetName
    # whether kernels run on the simulator and times are predicted
    is_emulated = False
    _device: Any

    @property
    def cores(self) -> int:
        """Cores of a logical core: as the environment said when torch was imported, else AWS's default."""
        return config.logical_cores_at_import() or neuron_host.default_cores(self.target)

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
        raise NotImplementedError


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
        FALLBACKS[:] = [self.fallbacks]

    def synchronize(self) -> None:
        """Wait until everything launched has finished."""
        torch.get_device_module("neuron").synchronize()

    def fallbacks(self) -> Mapping[str, int | None] | None:
        """Return how often AWS's library ran each operator on the host; ``None`` where it does not say.

        A count is ``None`` where it gives names alone, of all that fell back since the process began.
        """
        read = getattr(importlib.import_module("torch_neuronx"), "get_fallback_ops", None)
        if read is None:
            return None
        said = read()
        return dict(said) if isinstance(said, Mapping) else dict.fromkeys(map(str, said))


def operator_decorator() -> Any:
    """Return torch-neuronx's ``nki_op``, or ``None`` where the device is not its own or it has none."""
    if not isinstance(device(), NativeDevice):
        return None
    return getattr(importlib.import_module("torch_neuronx"), "nki_op", None)


class StandIn(Device):
    """Device memory imitated in host memory: the marks and the accounting without the hardware."""

    kind = "stand-in"
    is_emulated = True

    def __init__(self, target: TargetName | None = None) -> None:
        self.target = target or config.TARGET.get()

    @property
    def cores(self) -> int:
        """Cores of a logical core, as the environment says."""
        return config.LOGICAL_CORES.get()

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
    return find_device()[0]


def why_no_device() -> str:
    """Return why `device` is ``None``; empty when there is a device."""
    return find_device()[1]


def find_device() -> tuple[Device | None, str]:
    """Return the Neuron device, and why there is none."""
    global _detected
    if _detected is None:
        _detected = _detect()
    return _detected


def _detect() -> tuple[Device | None, str]:
    emulated = config.EMULATE.get()
    if emulated is not None:
        return importlib.import_module("trnsci.emulation").emulate(emulated).device, ""
    opened, why = _open()
    if opened is not None and nki.AWS is None:
        return None, f"the machine has a Neuron device, but {nki.WHY_NOT}: no kernel can be compiled for it"
    return opened, why


def _open() -> tuple[Device | None, str]:
    """Return the device as torch or XLA has it, and why neither has one."""
    target = neuron_host.target()
    if _is_native():
        return NativeDevice(target), ""
    if not neuron_host.device_nodes():
        return None, "no Neuron device"
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


def _is_native() -> bool:
    """Return whether torch has the device ``neuron``: it loads Neuron's package when it is imported."""
    accelerator = torch.accelerator.current_accelerator()
    return accelerator is not None and accelerator.type == "neuron"


def logical_cores(target: TargetName) -> int:
    """Return the cores of a logical core: those of this machine's device, else as the environment says."""
    if target == "trn1":
        return 1
    here = device()
    return config.LOGICAL_CORES.get() if here is None else here.cores


def needs_bracket(grid: int) -> bool:
    """Return whether a launch must be written ``kernel[grid]``.

    From NKI 0.7 on the variable decides, for kernels and compiler alike. Where it was not set in time, the compiler
    takes the cores of the generation and a kernel without a bracket one.
    """
    return grid > 1 and (config.logical_cores_at_import() is None or not nki.TRACES)


def _open_native(target: TargetName) -> Device | None:
    importlib.import_module("torch_neuronx")
    return NativeDevice(target) if _is_native() else None


def _open_xla(target: TargetName) -> Device | None:
    xla = importlib.import_module("torch_xla")
    xm = importlib.import_module("torch_xla.core.xla_model")
    return XlaDevice(target) if xm.xla_device_hw(_xla_device(xla, xm)) == "NEURON" else None


def _xla_device(xla: Any, xm: Any) -> Any:
    """Return the XLA device, by today's name or the older one."""
    return xla.device() if hasattr(xla, "device") else xm.xla_device()


def use(device: Device) -> None:
    """Make a device the one of this machine."""
    global _detected
    _detected = (device, "")
    if device.is_emulated:
        REMARKS.append("the device is emulated: kernels ran on the simulator, and no time of a Trainium was measured")


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


def give_planes(*tensors: Tensor) -> bool:
    """Let torch's device keep complex numbers as planes, if it has none and holds a tensor; return whether it does."""
    return any(x.device.type == "neuron" for x in tensors) and _register_planes()


@mark_constant
@functools.cache
def _register_planes() -> bool:
    try:
        torch.full((1,), 1j, device="cpu").to("neuron")
    except (RuntimeError, NotImplementedError, TypeError):
        importlib.import_module("trnsci.device_operators").register_operators()
        return True
    return False


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
