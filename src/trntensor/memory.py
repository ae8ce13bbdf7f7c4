"""How much memory a computation allocates, found by running it on shapes alone."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from trnsci.backends import backend


class _Tracker(TorchDispatchMode):
    """Adds up the storages torch makes, and takes them off when they die."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = 0
        self.peak = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        # Storages among the arguments are the caller's, or counted already.
        for value in (*args, *(kwargs or {}).values()):
            for item in value if isinstance(value, list | tuple) else (value,):
                if isinstance(item, Tensor):
                    self._seen.add(item.untyped_storage()._cdata)
        made = func(*args, **(kwargs or {}))
        for item in made if isinstance(made, list | tuple) else (made,):
            if isinstance(item, Tensor):
                self._count(item)
        return made

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._seen:
            return
        self._seen.add(key)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._release, key, size)

    def _release(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.live -= size


def peak_allocation(work: Callable[[], Any]) -> int:
    """Bytes alive at the worst moment of ``work`` among those it allocates itself; its result counts."""
    tracker = _Tracker()
    with torch.no_grad(), backend("pytorch"), tracker:
        kept = work()
    del kept
    return tracker.peak
