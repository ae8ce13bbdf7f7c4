"""Backends as reusable ``with`` blocks: ``@pytest.mark.parametrize("backend", BACKENDS, ids=str)``."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from trnsci import neuron
from trnsci.backends import backend as choose
from trnsci.config import BackendName


class Backend:
    """A backend by name. Entering it forces it, strictly; it can be entered again, also inside itself."""

    def __init__(self, name: BackendName) -> None:
        self.name: BackendName = name
        self._open: list[AbstractContextManager[object]] = []

    def __enter__(self) -> Backend:
        self._open.append(choose(self.name))
        self._open[-1].__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.pop().__exit__(*error)

    @property
    def runs_kernels(self) -> bool:
        """Whether calls run NKI kernels."""
        return self.name != "pytorch"

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Backend({self.name!r})"


BACKENDS = [Backend("pytorch"), Backend("simulator")]
if neuron.device() is not None:
    BACKENDS.append(Backend("nki"))
