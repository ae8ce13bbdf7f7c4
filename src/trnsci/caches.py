"""Caches that last between calls: plans and their tables, within one limit of bytes; kernels, within a count."""

import functools
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import torch

from trnsci.config import KERNEL_CACHE_COUNT, PLAN_CACHE_BYTES, PLAN_CACHE_COUNT, Setting
from trnsci.torch_internals import disable_modes, dispatch_modes

K = TypeVar("K")
F = TypeVar("F", bound=Callable[..., Any])

# what an entry costs that holds no arrays
_SMALL = 256


def held_bytes(value: Any) -> int:
    """Return the bytes of a plan, or of the arrays in something a plan needs."""
    nbytes = getattr(value, "nbytes", None)
    if nbytes is not None:
        return int(nbytes)
    if isinstance(value, list | tuple):
        return _SMALL + sum(held_bytes(item) for item in value if not isinstance(item, int | float | str))
    if is_dataclass(value):
        return _SMALL + sum(held_bytes(getattr(value, each.name)) for each in fields(value))
    return _SMALL if value is not None else 0


class PlanCache:
    """Least-recently-used plans and their tables, bounded by count and by bytes; safe to share between threads."""

    def __init__(
        self, max_count: int | Setting[int] = PLAN_CACHE_COUNT, max_bytes: int | Setting[int] = PLAN_CACHE_BYTES
    ) -> None:
        self._limits = (max_count, max_bytes)
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, build: Callable[[], K]) -> K:
        """Return what is kept under ``key``, or build and keep it."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept[0]
        # gradients may need later what a call in inference mode built; a tracer's tensors must not be kept
        with torch.inference_mode(False), disable_modes() if dispatch_modes() else nullcontext():
            built = build()
        with self._lock:
            if key not in self._kept:
                nbytes = held_bytes(built)
                self._kept[key] = built, nbytes
                self._bytes += nbytes
            self._trim()
        return built

    def _trim(self) -> None:
        max_count, max_bytes = (limit if isinstance(limit, int) else limit.get() for limit in self._limits)
        while self._kept and (len(self._kept) > max_count or self._bytes > max_bytes):
            _, (_, nbytes) = self._kept.popitem(last=False)
            self._bytes -= nbytes

    def discard(self, key: Hashable) -> None:
        """Forget one entry, if it is kept."""
        with self._lock:
            _, nbytes = self._kept.pop(key, (None, 0))
            self._bytes -= nbytes

    def list(self) -> tuple[Any, ...]:
        """Return what is kept, least recently used first."""
        with self._lock:
            return tuple(kept for kept, _ in self._kept.values())

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of everything kept."""
        return self._bytes


CACHE = PlanCache()
# prepared kernels, by kernel, shapes, dtypes and static arguments
KERNELS = PlanCache(KERNEL_CACHE_COUNT, sys.maxsize)
# programs of traced functions, with their constants
PROGRAMS = PlanCache()


def _leave_uncompiled(function: F) -> F:
    """Return a function that the compiler, where it was imported, leaves alone: tables are no part of a graph."""
    compiler = sys.modules.get("torch._dynamo")
    return function if compiler is None else compiler.disable(function)


def kept(function: F) -> F:
    """Keep what a function returns beside the plans, within their limits: tables that plans and calls share."""

    @functools.wraps(function)
    def keeping(*args: Any) -> Any:
        return _leave_uncompiled(CACHE.get)((function, args), lambda: function(*args))

    return keeping  # type: ignore[return-value]
