"""Which backend runs: ``auto``, ``nki``, ``simulator`` or ``pytorch``, per library and per block of code.

The innermost ``with trnsci.backend(...)`` wins, then ``set_backend`` of the library, then ``trnsci.set_backend``, then
the environment, then ``auto``. Blocks are kept in a context variable: they nest, end with their block whatever is
raised inside it, and are invisible to other threads and asyncio tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from trnsci import check, config
from trnsci.config import BACKENDS, BackendName
from trnsci.errors import ArgumentError

if TYPE_CHECKING:
    from trnsci.ledger import Ledger
    from trnsci.ops import Op


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend somebody asked for. Unless ``strict``, a call it refuses runs on PyTorch, and the plan says so."""

    name: BackendName
    strict: bool = True
    source: str = "default"


class Interceptor(Protocol):
    """Takes the place of dispatch inside a block: records a plan, or predicts, instead of running."""

    def call(self, op: Op[Any, Any], args: tuple[Any, ...]) -> Any:
        """Return the result of an op on meta tensors."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What the enclosing blocks have set. ``choices`` maps a library, or ``None`` for all of them, to a choice."""

    choices: Mapping[str | None, Choice] = field(default_factory=dict)
    ledgers: tuple[Ledger, ...] = ()
    interceptor: Interceptor | None = None


SCOPE: ContextVar[Scope | None] = ContextVar("trnsci.scope", default=None)


@contextmanager
def entered(scope: Scope | None) -> Iterator[None]:
    """Make ``scope`` the current one for a block, and restore the previous one after it."""
    token = SCOPE.set(scope)
    try:
        yield
    finally:
        SCOPE.reset(token)


class Library:
    """A library's own setting. ``direct`` caches "every call goes straight to PyTorch"; ``None`` is not known yet."""

    __slots__ = ("chosen", "direct", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.chosen: Choice | None = None
        self.direct: bool | None = None

    def choice(self) -> Choice:
        """Return the choice in force here and now."""
        scope = SCOPE.get()
        if scope is not None:
            scoped = scope.choices.get(self.name) or scope.choices.get(None)
            if scoped is not None:
                return scoped
        return self.outside_blocks()

    def outside_blocks(self) -> Choice:
        """Return the choice in force outside every ``with trnsci.backend(...)``."""
        return self.chosen or _suite.chosen or _from_environment(self.name)


_suite = Library("trnsci")
_libraries: dict[str, Library] = {}


def library(name: str) -> Library:
    """Return the setting of a library, created on first use."""
    return _libraries.setdefault(name, Library(name))


def _from_environment(name: str) -> Choice:
    if name == _suite.name:
        return _suite_from_environment()
    own = config.library_settings(name)
    forced = own.force_backend.get()
    if forced is not None:
        return Choice(forced, True, f"{own.force_backend.name}={forced}")
    if own.use_simulator.get():
        return Choice("simulator", True, f"{own.use_simulator.name}=1")
    if own.require_nki.get():
        return Choice("nki", True, f"{own.require_nki.name}=1")
    return _suite_from_environment()


def _suite_from_environment() -> Choice:
    suite = config.BACKEND.get()
    return Choice(suite, True, f"{config.BACKEND.name}={suite}" if config.BACKEND.is_set else "default")


@contextmanager
def backend(name: BackendName, *, strict: bool = True, library: str | None = None) -> Iterator[None]:
    """Use one backend inside a ``with`` block.

    Args:
        name: ``auto``, ``nki``, ``simulator`` or ``pytorch``.
        strict: raise `UnsupportedError` when the backend refuses a call. With ``False`` such a call runs on
            PyTorch instead, and its plan and ledger entry say why.
        library: limit the block's effect to one library.

    Example:
        >>> with trnsci.backend("simulator"):
        ...     c = trnblas.gemm(1.0, a, b)
    """
    choice = Choice(_known("backend", name), strict, f'trnsci.backend("{name}")')
    outer = SCOPE.get() or Scope()
    choices: dict[str | None, Choice] = {} if library is None else {**outer.choices}
    choices[library] = choice
    with entered(replace(outer, choices=choices)):
        yield


def set_backend(name: BackendName | None, library: str | None = None, *, strict: bool = True) -> None:
    """Set the backend of one library, or of all, for the whole process; the last call wins.

    Args:
        name: the backend, or ``None`` to go back to what the environment says.
        library: one library; without it the choice holds for all of them.
        strict: as for `backend`.
    """
    setting = _suite if library is None else _libraries.get(library)
    if setting is None:
        expected = "one of " + ", ".join(sorted(_libraries))
        raise ArgumentError(op="set_backend", argument="library", got=library, expected=expected)
    source = f'{setting.name}.set_backend("{name}")'
    setting.chosen = None if name is None else Choice(_known("set_backend", name), strict, source)
    if library is None:
        for each in _libraries.values():
            each.chosen = None
    forget_direct()


def settings() -> Hashable:
    """Return the choices in force here, of every library, as a key for caches."""
    return tuple((name, each.choice()) for name, each in sorted(_libraries.items()))


def forget_direct() -> None:
    """Make every library decide anew whether its calls can go straight to PyTorch."""
    for each in _libraries.values():
        each.direct = None


def get_backend(library: str | None = None) -> BackendName:
    """Return the name of the backend in force here: of one library, or of those without a choice of their own."""
    setting = _suite if library is None else _libraries.get(library, _suite)
    return setting.choice().name


def library_functions(name: str) -> tuple[Callable[..., None], Callable[[], BackendName]]:
    """Return ``set_backend`` and ``get_backend`` for a library's ``__init__``."""
    library(name)

    def set_library_backend(backend: BackendName | None, *, strict: bool = True) -> None:
        set_backend(backend, name, strict=strict)

    def get_library_backend() -> BackendName:
        return get_backend(name)

    set_library_backend.__name__ = set_library_backend.__qualname__ = "set_backend"
    get_library_backend.__name__ = get_library_backend.__qualname__ = "get_backend"
    set_library_backend.__doc__ = f"Set the backend of {name}: ``auto``, ``nki``, ``simulator`` or ``pytorch``."
    get_library_backend.__doc__ = f"Return the backend of {name} in force here."
    return set_library_backend, get_library_backend


def _known(op: str, name: BackendName) -> BackendName:
    return check.option(op, "backend", name, BACKENDS)
