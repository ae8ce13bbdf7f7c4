"""Which backend runs: ``auto``, ``nki``, ``simulator`` or ``pytorch``, per library and per block of code.

The innermost ``with trnsci.backend(...)`` wins, then ``set_backend``, then the environment, then ``auto``. At each of
these levels a library's own setting beats the suite's, and a library that works for another, as trnblas does for
trntensor, follows the setting of the one that called it unless it has its own. Blocks are kept in a context variable:
they nest, end with their block whatever is raised inside it, and are invisible to other threads and asyncio tasks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from torch.compiler import is_dynamo_compiling

from trnsci import check, config
from trnsci.config import BACKENDS, BackendName
from trnsci.errors import ArgumentError, UnsupportedError
from trnsci.isolation import is_disturbed, isolating

if TYPE_CHECKING:
    from trnsci.ledger import Ledger

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend that was asked for. Unless ``strict``, a call it refuses runs on PyTorch, and the plan says so.

    ``required`` admits no step on the host, not even one that belongs there.
    """

    name: BackendName
    strict: bool = True
    source: str = "default"
    required: bool = False


class Interceptor(Protocol):
    """Takes the place of dispatch inside a block: records a plan, or predicts, instead of running."""

    def call(self, call: Any, out: Any = None) -> Any:
        """Return the result of a call whose tensors are on the ``meta`` device; ``out`` itself where it is given."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Settings of the enclosing blocks and public functions.

    Attributes:
        choices: a library, or ``None`` for all of them, with the choice of the innermost block.
        ledgers: who listens.
        interceptor: what takes the place of dispatch.
        libraries: whose public functions are running, outermost first.
    """

    choices: Mapping[str | None, Choice] = field(default_factory=dict)
    ledgers: tuple[Ledger, ...] = ()
    interceptor: Interceptor | None = None
    libraries: tuple[str, ...] = ()


SCOPE: ContextVar[Scope | None] = ContextVar("trnsci.scope", default=None)


@contextmanager
def entering(scope: Scope | None) -> Iterator[None]:
    """Make ``scope`` the current one for a block, and restore the previous one after it."""
    token = SCOPE.set(scope)
    try:
        yield
    finally:
        SCOPE.reset(token)


class Library:
    """A library and the backend it was given by ``set_backend``, if any."""

    __slots__ = ("alone", "chosen", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alone: tuple[str, ...] = (name,)
        self.chosen: Choice | None = None

    def choice(self) -> Choice:
        """Return the choice in force here and now."""
        scope, libraries = SCOPE.get(), self.alone
        if scope is not None:
            libraries = scope.libraries
            if not libraries or libraries[-1] != self.name:
                libraries = (*libraries, self.name)
            if scope.choices:
                for name in (*reversed(libraries), None):
                    if name in scope.choices:
                        return scope.choices[name]
        return _outside(libraries, config.backend_variables(libraries))


_suite = Library("trnsci")
_libraries: dict[str, Library] = {}


def library(name: str) -> Library:
    """Return the setting of a library, created on first use."""
    return _libraries.setdefault(name, Library(name))


@functools.lru_cache(maxsize=256)
def _outside(libraries: tuple[str, ...], variables: tuple[Any, ...]) -> Choice:
    """Return the choice in force outside every block for a library that others called, outermost first."""
    for name in reversed(libraries):
        chosen = library(name).chosen if name != _suite.name else None
        if chosen is not None:
            return chosen
    if _suite.chosen is not None:
        return _suite.chosen
    for name in reversed(libraries):
        forced = _from_environment(name)
        if forced is not None:
            return forced
    suite = config.BACKEND.get()
    return Choice(suite, True, f"{config.BACKEND.name}={suite}" if config.BACKEND.is_set else "default")


def _from_environment(name: str) -> Choice | None:
    own = config.library_settings(name)
    forced = own.force_backend.get()
    if forced is not None:
        return Choice(forced, True, f"{own.force_backend.name}={forced}")
    if own.use_simulator.get():
        return Choice("simulator", True, f"{own.use_simulator.name}=1")
    if own.require_nki.get():
        return Choice("nki", True, f"{own.require_nki.name}=1", required=True)
    return None


def on_host(function: str) -> None:
    """Refuse a function without a kernel, ``trnsparse.add``, where its library's settings admit nothing but kernels."""
    choice = library(function.partition(".")[0]).choice()
    if choice.required:
        reasons = [("nki", "has no NKI kernel"), ("pytorch", f"{choice.source} admits kernels only")]
        raise UnsupportedError(function, reasons)


def inside(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a public function: what other libraries do for it follows the settings of library ``name``."""

    def decorate(fn: Callable[P, R]) -> Callable[P, R]:
        alone = Scope(libraries=(name,))

        @functools.wraps(fn)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            # Traced code is dispatched when the compiled program runs.
            if is_dynamo_compiling():
                return fn(*args, **kwargs)
            if is_disturbed():
                with isolating():
                    return wrapper(*args, **kwargs)
            scope = SCOPE.get()
            if scope is None:
                scope = alone
            elif scope.libraries and scope.libraries[-1] == name:
                return fn(*args, **kwargs)
            else:
                scope = replace(scope, libraries=(*scope.libraries, name))
            token = SCOPE.set(scope)
            try:
                return fn(*args, **kwargs)
            finally:
                SCOPE.reset(token)

        return wrapper

    return decorate


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
    choice = Choice(_check_backend("backend", name), strict, f'trnsci.backend("{name}")')
    outer = SCOPE.get() or Scope()
    choices: dict[str | None, Choice] = {} if library is None else {**outer.choices}
    choices[library] = choice
    with entering(replace(outer, choices=choices)):
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
        raise ArgumentError("set_backend", "library", library, "one of " + ", ".join(sorted(_libraries)))
    source = f'{setting.name}.set_backend("{name}")'
    setting.chosen = None if name is None else Choice(_check_backend("set_backend", name), strict, source)
    if library is None:
        for each in _libraries.values():
            each.chosen = None
    _outside.cache_clear()


def settings() -> Hashable:
    """Return the choices in force here, of every library, as a key for caches."""
    return tuple((name, each.choice()) for name, each in sorted(_libraries.items()))


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


def _check_backend(op: str, name: BackendName) -> BackendName:
    return check.option(op, "backend", name, BACKENDS)
