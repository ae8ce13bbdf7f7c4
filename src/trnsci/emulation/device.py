"""torch's device ``neuron`` on any machine: its module ``torch.neuron``, streams, events, memory statistics."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import trnsim
from trnsci import neuron, neuron_host
from trnsci.config import LOGICAL_CORES, TargetName
from trnsci.emulation.autocast import register_autocast
from trnsci.emulation.compiling import register_compiler
from trnsci.emulation.memory import Memory
from trnsci.emulation.operators import Operators, quietly
from trnsci.emulation.process_group import register_group
from trnsci.emulation.record import Record
from trnsci.emulation.rules import Rules
from trnsci.kernel_launcher import as_simulated
from trnsci.ledger import FALLBACKS
from trnsci.specs import freeze, map_tensors
from trnsci.torch_internals import setup_python_backend
from trnsim.targets import TARGETS


class Machine:
    """One emulated logical core: its memory, its operators, and what was counted."""

    def __init__(self, target: TargetName, limits: Rules, cores: int | None = None) -> None:
        self.target: TargetName = target
        said = LOGICAL_CORES.get() if LOGICAL_CORES.is_set and target != "trn1" else None
        self.cores = cores or said or neuron_host.default_cores(target)
        hardware = TARGETS[target]
        self.memory = Memory(hardware.hbm_bytes // hardware.cores * self.cores)
        self.record = Record(target)
        self.limits = limits
        # seconds of launches alone, as a benchmark has them
        self.elapsed = 0.0
        self.operators = Operators(self.memory, self.record, limits)
        self._is_joined = False

    def install(self) -> None:
        """Make it torch's device ``neuron``; a process has one for good."""
        module = Module(self)
        setup_python_backend("neuron", backend_module=module)
        # torch has no way to give a device of Python's own this function
        torch.accelerator.synchronize = module.synchronize
        quietly(self.operators.register)
        self._libraries = register_autocast()
        register_compiler(self.record)
        register_group(self)
        os.register_at_fork(after_in_child=self._forget)

    def join(self) -> None:
        """Become a rank's logical core, before anything has used the device."""
        if not self._is_joined and self.memory.peak:
            raise RuntimeError("the Neuron runtime runs already: call init_process_group before the device is used")
        self._is_joined = True

    def _forget(self) -> None:
        """Refuse to work in a fork of a process that has used the device."""
        self.operators.is_lost = self.memory.peak > 0

    def run(self, kernel: Any, args: tuple[Any, ...], static: dict[str, Any]) -> Any:
        """Run a kernel on the simulator with the numbers of tensors on the device; count it and its predicted time."""
        plain = map_tensors(args, lambda t: self.memory.numbers(t.detach()).as_subclass(Tensor))
        results, report = trnsim.profile(kernel, target=self.target)(*plain, **static)
        self.record.kernel_s += report.total_s
        self.elapsed += report.benchmark_s
        self.record.start_kernel(str(getattr(kernel, "__name__", kernel)))
        return map_tensors(results, self.memory.shell)


class Module:
    """``torch.neuron``, as a program finds it."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def is_available(self) -> bool:
        """Return whether there is a device."""
        return True

    def is_initialized(self) -> bool:
        """Return whether it can be used."""
        return True

    def device_count(self) -> int:
        """Return the logical cores of this process."""
        return 1

    def current_device(self) -> int:
        """Return the index of the one in use."""
        return 0

    def set_device(self, device: Any) -> None:
        """Accept the one device there is."""
        index = torch.device(device).index if isinstance(device, str | torch.device) else device
        if index not in (None, 0):
            raise RuntimeError(f"invalid Neuron device {device}: this process has one logical core")

    def synchronize(self, device: Any = None) -> None:
        """Wait for the device: everything is done when it is asked for."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """Return what autocast may compute in."""
        return [torch.bfloat16, torch.float16]

    def manual_seed_all(self, seed: int) -> None:
        """Draws fall back to the host, whose generator torch seeds itself."""

    def _is_in_bad_fork(self) -> bool:
        return self._machine.operators.is_lost

    def memory_allocated(self, device: Any = None) -> int:
        """Return bytes of live tensors."""
        return self._machine.memory.allocated

    def max_memory_allocated(self, device: Any = None) -> int:
        """Return the most bytes that were live at once."""
        return self._machine.memory.peak

    def memory_reserved(self, device: Any = None) -> int:
        """Return bytes held by the allocator, which keeps none back here."""
        return self._machine.memory.allocated

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Count the most bytes from here on."""
        self._machine.memory.peak = self._machine.memory.allocated

    def memory_stats(self, device: Any = None) -> dict[str, int]:
        """Return the figures of the functions beside this one."""
        memory = self._machine.memory
        return {"allocated_bytes.all.current": memory.allocated, "allocated_bytes.all.peak": memory.peak}

    def empty_cache(self) -> None:
        """Free what the allocator keeps, which is nothing."""

    def Stream(self, *args: Any, **kwargs: Any) -> Stream:
        """Return a stream: work is done in order, so one is as good as another."""
        return Stream()

    def Event(self, enable_timing: bool = False, **kwargs: Any) -> Event:
        """Return an event of the predicted clock."""
        return Event(self._machine.record)


class Stream:
    """A queue of work; everything here is done at once."""

    def synchronize(self) -> None:
        """Return at once."""

    def wait_event(self, event: Event) -> None:
        """Return at once."""

    def wait_stream(self, stream: Stream) -> None:
        """Return at once."""


class Event:
    """A moment of the device's predicted time."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._at = record.predicted

    def record(self, stream: Stream | None = None) -> None:
        """Take the present moment."""
        self._at = self._record.predicted

    def synchronize(self) -> None:
        """Return at once."""

    def query(self) -> bool:
        """Return that it has happened."""
        return True

    def elapsed_time(self, end: Event) -> float:
        """Return predicted milliseconds between two events."""
        return (end._at - self._at) * 1e3


class EmulatedDevice(neuron.Device):
    """The suite's view of it: kernels run on the simulator, and its clock by their predicted time."""

    kind = "neuron"
    is_emulated = True

    def __init__(self, machine: Machine) -> None:
        self.target = machine.target
        self.machine = machine
        self._device = torch.device("neuron")
        self._compiled: set[Any] = set()
        FALLBACKS[:] = [lambda: dict(machine.record.fallbacks)]

    @property
    def cores(self) -> int:
        """Cores of a logical core."""
        return self.machine.cores

    def clock(self) -> float:
        """Return predicted seconds that kernels have taken."""
        return self.machine.elapsed

    def run(self, kernel: Callable[..., Any], *args: Any, **static: Any) -> Any:
        """Run a kernel on the simulator; the first time for shapes and constants counts as a compilation."""
        key = kernel, freeze(args), tuple(sorted(static.items(), key=str))
        if key not in self._compiled:
            self._compiled.add(key)
            self.machine.record.compilations += 1
        return self.machine.run(as_simulated(kernel), args, static)

    def synchronize(self) -> None:
        """Nothing runs asynchronously here."""
