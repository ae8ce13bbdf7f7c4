"""How much memory a computation holds, with data or on shapes alone."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from trnsci.errors import CapacityError, TrnError


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
        for tensor in _held((args, kwargs)):
            storage = tensor.untyped_storage()
            self._known.setdefault(storage._cdata, storage)
        result = func(*args, **(kwargs or {}))
        for tensor in _held(result):
            if self._device in (None, tensor.device.type):
                self.note(tensor)
        return result


def exhausted(op: str, error: BaseException) -> CapacityError | None:
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
    """Return bytes of host memory nobody uses."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _held(values: Any) -> Iterable[Tensor]:
    """Return the tensors among values, without wrappers such as DTensors: what they wrap is seen on its own."""
    return (x for x in tree_leaves(values) if isinstance(x, Tensor) and not is_traceable_wrapper_subclass(x))
