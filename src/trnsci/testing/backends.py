"""Backends as reusable ``with`` blocks: ``@pytest.mark.parametrize("backend", BACKENDS, ids=str)``."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType

from trnsci import neuron
from trnsci.backends import backend as choose
from trnsci.config import BackendName


class Backend:
    """A backend by name. Entering it forces it, strictly; it can be entered again, also inside itself."""

    def __init__(self, name: BackendName) -> None:
        self.name: BackendName = name
        self._open: list[ExitStack] = []

    def __enter__(self) -> Backend:
        stack = ExitStack()
        stack.enter_context(choose(self.name))
        self._open.append(stack)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.pop().close()

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
