"""How a kernel runs: on the simulator, on the device, or on the timing model alone."""

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from threading import Lock
from typing import Any, TypeVar

import torch
from torch import Tensor

import trnsim
from trnsci import config, neuron, programs
from trnsci.caches import KERNELS
from trnsci.config import TargetName
from trnsci.errors import BackendUnavailable, UnsupportedError
from trnsci.programs import MATMULS
from trnsci.specs import ResidentTensor, freeze, is_resident, map_tensors, tensors_in
from trnsim.threads import one_torch_thread, side_by_side


class Launcher:
    """How one dispatch runs kernels, and the bytes it moved."""

    backend: str
    # how independent launches follow each other
    each: Callable[..., Iterable[Any]] = staticmethod(map)
    # what surrounds a dispatch
    around: Callable[[], AbstractContextManager[None]] = staticmethod(nullcontext)

    def __init__(self, target: TargetName) -> None:
        self.target: TargetName = target
        self.bytes_to_device = 0
        self.bytes_from_device = 0
        self.cores = neuron.logical_cores(target)
        self._counting = Lock()

    def launch(self, kernel: Any, tensors: tuple[Any, ...], grid: int, static: dict[str, Any]) -> Any:
        """Run one kernel."""
        raise NotImplementedError

    def wait(self) -> None:
        """Return when everything launched has finished."""

    def _account(self, tensors: Any, results: Any, stays: bool) -> None:
        with self._counting:
            self.bytes_to_device += sum(t.nbytes for t in tensors_in(tensors) if not is_resident(t))
            if not stays:
                self.bytes_from_device += sum(t.nbytes for t in tensors_in(results))


class Simulator(Launcher):
    """The kernel on ``trnsim``. Transfers are counted as a device would make them."""

    backend = "simulator"
    each = staticmethod(side_by_side)
    around = staticmethod(one_torch_thread)

    def launch(self, kernel: Any, tensors: tuple[Any, ...], grid: int, static: dict[str, Any]) -> Any:
        """Simulate on the CPU; results go back to the operands' device."""
        home = next((t.device for t in tensors_in(tensors)), torch.device("cpu"))
        stays = any(is_resident(t) for t in tensors_in(tensors))
        key = ("simulator", kernel, grid, self.target)
        # what the suite launches is within all that the front ends accept
        run = KERNELS.get(key, lambda: trnsim.simulate(as_simulated(kernel)[grid], target=self.target, lint="strict"))
        results = run(*map_tensors(tensors, _plain), **static)
        self._account(tensors, results, stays)
        return map_tensors(results, lambda t: t.to(home).as_subclass(ResidentTensor) if stays else t.to(home))


class OnDevice(Launcher):
    """The kernel on Trainium, or on its stand-in."""

    backend = "nki"

    def __init__(self, device: neuron.Device) -> None:
        super().__init__(device.target)
        self.device = device

    def launch(self, kernel: Any, tensors: tuple[Any, ...], grid: int, static: dict[str, Any]) -> Any:
        """Move what is not resident, run, and move results back unless an operand was resident."""
        stays = any(is_resident(t) for t in tensors_in(tensors))
        moved = map_tensors(tensors, lambda t: t if is_resident(t) else self.device.put(t.contiguous()))
        key = ("nki", kernel, grid, freeze(moved), tuple(sorted(static.items())))
        run = KERNELS.get(key, lambda: _compilable(kernel, tensors, grid, static))
        results = self.device.run(run, *moved, **static)
        self._account(tensors, results, stays)
        return results if stays else map_tensors(results, self.device.fetch)

    def wait(self) -> None:
        """Wait for the device."""
        self.device.synchronize()


class Predictor(Launcher):
    """The kernel on the timing model: shapes in, shapes out, launches and seconds added up, in all and by engine."""

    backend = "predictor"

    def __init__(self, target: TargetName) -> None:
        super().__init__(target)
        self.launches = 0
        self.instructions = 0
        # the longest program, in instructions and in matmuls
        self.longest = (0, 0)
        # most bytes of an SBUF partition, and most PSUM banks, that one program holds
        self.on_chip = (0, 0)
        self._reports: dict[Any, tuple[Any, Any]] = {}
        self.seconds = 0.0
        self.low = 0.0
        self.high = 0.0
        self.active = 0.0
        self.busy: dict[str, float] = {}
        # blocks that the host computes in between, and how long the device waits for them
        self.hosted = 0
        self.waited = 0.0

    def launch(self, kernel: Any, tensors: tuple[Any, ...], grid: int, static: dict[str, Any]) -> Any:
        """Cost one kernel without its arithmetic."""
        key = kernel, grid, freeze(tensors), tuple(sorted(static.items()))
        if key not in self._reports:
            costed = trnsim.profile(as_simulated(kernel)[grid], target=self.target, numerics=False, lint="off")
            self._reports[key] = costed(*tensors, **static)
        results, report = self._reports[key]
        self.launches += 1
        self.instructions += report.instruction_count
        matmuls = sum(count for name, count in report.instructions.items() if name in MATMULS)
        self.longest = max(self.longest[0], report.instruction_count), max(self.longest[1], matmuls)
        self.on_chip = max(self.on_chip[0], report.sbuf_bytes), max(self.on_chip[1], report.psum_banks)
        self.seconds += report.total_s
        # errors of one model's kernels add up: they are not independent
        self.low += report.interval.low_s
        self.high += report.interval.high_s
        self.active += report.active_s
        for engine, use in report.engines.items():
            self.busy[engine] = self.busy.get(engine, 0.0) + use.utilisation * report.active_s
        return results

    def wait_for_host(self, seconds: float) -> None:
        """Count work that the host does between launches."""
        self.hosted += 1
        self.waited += seconds
        self.seconds, self.low, self.high = self.seconds + seconds, self.low + seconds, self.high + seconds

    @property
    def compilations(self) -> int:
        """How many different programs were launched."""
        return len(self._reports)


def _compilable(kernel: Any, tensors: tuple[Any, ...], grid: int, static: dict[str, Any]) -> Any:
    """Return the kernel for a launch on the device, unless its program is too long to be compiled."""
    size = programs.size_of(kernel, tensors, static)
    if not size.fits:
        raise UnsupportedError(f"kernel {_name(kernel)}", [("nki", size.excess)], hint="Call it with smaller operands")
    return kernel[grid] if neuron.needs_bracket(grid) else kernel


def _name(kernel: Any) -> str:
    return str(getattr(kernel, "__name__", kernel))


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().as_subclass(Tensor).cpu() if not tensor.is_meta else tensor


L = TypeVar("L", bound=Launcher)

_CURRENT: ContextVar[Launcher | None] = ContextVar("trnsci.kernel_launcher", default=None)


def current() -> Launcher:
    """Return the launcher of the current dispatch; outside one, the device if there is one, else the simulator."""
    return _CURRENT.get() or launcher("nki" if neuron.device() else "simulator")


@contextmanager
def using(launcher: L) -> Iterator[L]:
    """Let kernels started inside the block run through ``launcher``."""
    token = _CURRENT.set(launcher)
    try:
        with launcher.around():
            yield launcher
    finally:
        _CURRENT.reset(token)


def launcher(backend: str) -> Launcher:
    """Return a launcher for ``simulator`` or ``nki``; raise when this machine has no such backend."""
    if backend == "simulator":
        return Simulator(config.TARGET.get())
    device = neuron.device()
    if device is None:
        how = 'Run the same kernels here with backend "simulator", or use a Trainium instance with the Neuron SDK'
        raise BackendUnavailable(backend="nki", reason=neuron.why_no_device(), how=how)
    return OnDevice(device)


@functools.cache
def as_simulated(kernel: Any) -> Any:
    """Return the kernel as the simulator runs it: names of AWS's ``nki``, where that is installed, are trnsim's."""
    from trnsim.kernel import as_kernel

    return as_kernel(kernel)
