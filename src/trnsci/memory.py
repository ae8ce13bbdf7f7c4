"""How much memory a computation holds, with data or on shapes alone."""

import contextlib
import os
import re
import resource
import sys
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trnsci.errors import CapacityError, TrnError
from trnsci.torch_internals import TorchDispatchMode, is_traceable_wrapper_subclass


class Live:
    """Counts the bytes of storages until they die; ``peak`` is the most that were alive."""

    def __init__(self) -> None:
        self.live = self.peak = 0
        self._known: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def note(self, tensor: Any, size: int | None = None) -> None:
        """Count a tensor until its memory is gone, by the size of its storage unless another is given."""
        storage = tensor.untyped_storage()
        if storage._cdata in self._known:
            return
        self._known[storage._cdata] = storage
        size = storage.nbytes() if size is None else size
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._release, size)

    def _release(self, size: int) -> None:
        self.live -= size


class MemoryMeter(Live, TorchDispatchMode):
    """Counts the bytes of storages made inside its block, until they die; ``peak`` is the most that were alive.

    Args:
        given: tensors that count from the start. Other tensors of the caller's do not count.
        device: count only what lies there (``meta`` is one); by default everything.
    """

    def __init__(self, given: Iterable[Tensor] = (), device: str | None = None) -> None:
        Live.__init__(self)
        TorchDispatchMode.__init__(self)
        self._device = device
        for tensor in given:
            self.note(tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in _tensors_of((args, kwargs)):
            storage = tensor.untyped_storage()
            self._known.setdefault(storage._cdata, storage)
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors_of(result):
            if self._device in (None, tensor.device.type):
                self.note(tensor)
        return result


def capacity_error(op: str, error: BaseException) -> CapacityError | None:
    """Return the refusal of memory that an error is, with what was asked for and what is free; else ``None``."""
    if isinstance(error, TrnError):
        return None
    text = str(error)
    asked = re.search(r"allocate ([\d.]+) ?(\w*)", text)
    if asked is None or (not isinstance(error, MemoryError | torch.OutOfMemoryError) and "CPUAllocator" not in text):
        return None
    required = int(float(asked[1]) * _UNITS.get(asked[2], 1))
    hint = f"{op} could not allocate what it needs. Use smaller operands or batches, or a wider machine"
    if isinstance(error, torch.OutOfMemoryError):
        return CapacityError("GPU", required, torch.cuda.mem_get_info()[0], hint)
    return CapacityError("host", required, free_bytes(), hint)


_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50, "EiB": 1 << 60}


def free_bytes() -> int:
    """Return bytes of host memory this process can still get: free or reclaimable, within its limits."""
    return max(0, min(_available(), _below_control_groups(), _below_resource_limit()))


def _available() -> int:
    try:
        kilobytes = re.search(r"^MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        kilobytes = None
    return int(kilobytes[1]) << 10 if kilobytes else os.sysconf("SC_AVPHYS_PAGES") * _PAGE


def _below_resource_limit() -> int:
    """Return what ``ulimit -v`` leaves of the address space."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return limit - int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE


def _below_control_groups() -> int:
    """Return what the limits of containers and schedulers leave: of this process's group, and of each above it."""
    left = sys.maxsize
    try:
        groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return left
    for _, kinds, name in groups:
        if kinds not in ("", "memory"):
            continue
        root = Path("/sys/fs/cgroup", kinds)
        files = ("memory.limit_in_bytes", "memory.usage_in_bytes") if kinds else ("memory.max", "memory.current")
        own = root / name.lstrip("/")
        # inside a container the group's name is the host's, and its files lie at the root
        for group in {root, own, *(above for above in own.parents if root in above.parents)}:
            with contextlib.suppress(OSError, ValueError):
                most, used = (int((group / file).read_text()) for file in files)
                left = min(left, most - used + _reclaimable(group))
    return left


def _reclaimable(group: Path) -> int:
    """Return bytes of files that a control group counts as used and gives up when memory is short."""
    line = re.search(r"^(?:total_)?inactive_file (\d+)", (group / "memory.stat").read_text(), re.MULTILINE)
    return int(line[1]) if line else 0


_PAGE = os.sysconf("SC_PAGE_SIZE")


def _tensors_of(values: Any) -> Iterable[Tensor]:
    """Return the tensors among values, without wrappers such as DTensors: what they wrap is seen on its own."""
    # written out: torch's walk over trees took half the time of a plan
    if type(values) is Tensor:
        yield values
    elif isinstance(values, Tensor):
        if not is_traceable_wrapper_subclass(values):
            yield values
    elif isinstance(values, dict | list | tuple):
        for value in values.values() if isinstance(values, dict) else values:
            yield from _tensors_of(value)
