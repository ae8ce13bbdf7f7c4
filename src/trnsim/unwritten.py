"""Reads of memory that nothing has written: refused at once where an exact value is needed, else poison."""

from typing import Any

import numpy as np

from trnsim.errors import ReadUninitialized
from trnsim.poison import Poisoned, new_origin, origins
from trnsim.source_lines import kernel_line
from trnsim.state import State
from trnsim.tensors.tensor import NkiTensor


class Unwritten(State):
    """The part of a session that meets unwritten elements; `trnsim.poison` says what becomes of them."""

    read: Any

    def poison(
        self, t: NkiTensor, role: str, values: np.ndarray, missing: np.ndarray | None, *, exact: bool = False
    ) -> np.ndarray:
        """``values`` with garbage where ``missing`` (everywhere when ``None``); ``t`` is the static view they are of.

        The first such read of an instruction raises `Poisoned`, upon which the instruction is run with garbage.
        """
        ids = origins(t)
        earliest = 0 if ids is None or not ids.any() else int(ids[ids > 0].min())
        if exact or self.params.strict or self.instr is None:
            if earliest:
                raise self.origins[earliest - 1].error(f"{role} of {self.instr} ({kernel_line()})")
            raise ReadUninitialized(rule="uninitialized", limit=None, **self._unwritten(t, role, missing))
        if self.garbage is None:
            raise Poisoned
        if not earliest:
            key = (t.storage.uid, role, kernel_line())
            earliest = new_origin(self, key, lambda: self._unwritten(t, role, missing))
        return self.garbage.fill_missing(values, missing, earliest)

    def take_elements(self, t: NkiTensor, role: str, where: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the elements of ``t`` as they are, and what the poison among them depends on; ``None`` without any."""
        try:
            return self.read(t, role, where, compute=False), None
        except Poisoned:
            missing, ids = t.unwritten(), origins(t)
            fresh = new_origin(self, (t.storage.uid, role, kernel_line()), lambda: self._unwritten(t, role, missing))
            known = np.zeros(t.shape, np.int64) if ids is None else ids
            return t.array, np.where(missing & (known == 0), fresh, known)

    def lanes(self, values: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """Return the accumulators of an engine, with garbage where they depend on unwritten memory."""
        if not origin.any():
            return values
        if self.garbage is None:
            raise Poisoned
        return self.garbage.fill_missing(values, origin > 0, int(origin[origin > 0].min()))

    def _unwritten(self, t: NkiTensor, role: str, missing: np.ndarray | None) -> dict[str, Any]:
        at = tuple(0 for _ in t.shape) if missing is None else tuple(int(i) for i in np.argwhere(missing)[0])
        count = t.size if missing is None else int(missing.sum())
        storage = t.storage
        origin = f", allocated at {storage.line}" if storage.line else ""
        return {
            "message": f"{role} reads {t.name}{list(storage.shape)} ({storage.buffer}{origin}), of which {count} of"
            f" {t.size} elements were never written; the first is {at}",
            "got": at,
            "tensor": t.name,
            "hint": f"if the other core writes it, call nisa.core_barrier(data={t.name}, cores=(0, 1)) on both cores "
            "between the two"
            if storage.shared
            else "write it first (dma_copy, memset, or a compute instruction)",
        }
