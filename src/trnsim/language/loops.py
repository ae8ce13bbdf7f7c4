"""Loops and the launch grid. Static ranges unroll; dynamic loops run on the device with a register as counter."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trnsim.errors import WrongArgument
from trnsim.language.layout import as_index
from trnsim.memory import Scope
from trnsim.session import require_session


def _unrolled(name: str) -> Callable[..., range]:
    """Return an alias of ``range`` that warns of its name."""

    def static(start: int, stop: int | None = None, step: int = 1) -> range:
        """``range``, unrolled (deprecated name)."""
        warnings.warn(f"nl.{name} is an alias of range, which NKI prefers", DeprecationWarning, stacklevel=2)
        first, last = (0, start) if stop is None else (start, stop)
        by = as_index(step)
        if not by:
            raise WrongArgument(f"nl.{name}: step 0", rule="range", got=0, limit=1, hint="a range needs a step")
        return range(as_index(first), as_index(last), by)

    static.__name__ = static.__qualname__ = name
    return static


affine_range = _unrolled("affine_range")
sequential_range = _unrolled("sequential_range")
static_range = _unrolled("static_range")


def _dynamic(what: str, start: Any, stop: Any, step: Any) -> Iterator[Any]:
    from trnsim.isa.registers import VirtualRegister

    session = require_session(what)
    if hasattr(step, "__nki_register__") or as_index(step) < 1:
        raise WrongArgument(
            f"{what}: step {step!r}", "dynamic-step", repr(step), 1, "the step is a positive compile-time integer"
        )
    _on_device(session, what)
    outer = session.scope
    try:
        for i in range(as_index(start), as_index(stop), as_index(step)):
            _end(session.scope, outer, "in an earlier turn")
            session.scope = Scope(what)
            yield VirtualRegister(i, frozen=True)
    finally:
        session.scope = outer


def _on_device(session: Any, what: str) -> None:
    """Note that the kernel loops at run time, which ``nl.no_reorder`` excludes."""
    if session.state.get("no_reorder"):
        raise WrongArgument(f"{what} inside nl.no_reorder()", rule="no-reorder", hint="use a static loop there")
    session.state["dynamic loops"] = True


def _end(scope: Scope | None, outer: Scope | None, how: str) -> None:
    """Mark what a turn of a loop has declared as gone."""
    if scope is not None and scope is not outer:
        scope.ended = how


@contextmanager
def _turn(loop: str) -> Iterator[None]:
    """One call of a loop's body."""
    session = require_session(loop)
    outer, session.scope = session.scope, Scope(loop)
    try:
        yield
    finally:
        _end(session.scope, outer, "which has ended")
        session.scope = outer


def dynamic_range(start: Any, stop: Any = None, step: int = 1) -> Iterator[Any]:
    """Yield a loop that runs on the device; bounds may be registers, the counter is a frozen register."""
    if stop is None:
        start, stop = 0, start
    return _dynamic("nl.dynamic_range", start, stop, step)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any], Any], step: int = 1) -> None:
    """``body_fun(i)`` for ``i`` from ``lower`` to ``upper``, on the device; ``i`` is a register passed by value."""
    from trnsim.isa.registers import VirtualRegister

    for i in _dynamic("nl.fori_loop", lower, upper, step):
        with _turn("nl.fori_loop"):
            returned = body_fun(VirtualRegister(i.value))
            if returned is not None:
                raise WrongArgument(
                    f"nl.fori_loop: the body returned {type(returned).__name__}",
                    rule="loop-body",
                    got=type(returned).__name__,
                    hint="a body returns nothing: carry values from turn to turn in a tile made before the loop",
                )


def while_loop(init: Any, body_fun: Callable[[Any], Any]) -> None:
    """While the register is nonzero, ``body_fun`` gets its value and returns the register to test next."""
    from trnsim.isa.registers import VirtualRegister, as_register

    session = require_session("nl.while_loop")
    register = as_register(init, "nl.while_loop: init", "load the condition with nisa.register_load")
    _on_device(session, "nl.while_loop")
    while register.value != 0:
        with _turn("nl.while_loop"):
            returned = body_fun(VirtualRegister(register.value))
            register = as_register(returned, "nl.while_loop: what the body returns", "return the register to test next")


@contextmanager
def no_reorder() -> Iterator[None]:
    """``with nl.no_reorder():`` keeps program order; the simulator always does, the schedule model listens."""
    state = require_session("nl.no_reorder").state
    outer, state["no_reorder"] = state.get("no_reorder", False), True
    try:
        yield
    finally:
        state["no_reorder"] = outer


def program_id(axis: int = 0) -> int:
    """Index of this core along ``axis`` of the launch grid."""
    program = require_session("nl.program_id").program
    return _along(program, axis, "program_id") if program else 0


def _along(sizes: tuple[int, ...], axis: int, what: str) -> int:
    if not 0 <= as_index(axis) < len(sizes):
        raise WrongArgument(f"{what}: axis {axis} of a grid with {len(sizes)}", rule="grid", got=axis, limit=len(sizes))
    return sizes[axis]


def num_programs(axes: Any = None) -> int:
    """Cores along ``axes`` of the launch grid (all of them by default)."""
    grid = require_session("nl.num_programs").grid
    if not grid:
        return 1
    picked = range(len(grid)) if axes is None else (axes if isinstance(axes, (tuple, list)) else (axes,))
    return math.prod(_along(grid, axis, "num_programs") for axis in picked)


def program_ndim() -> int:
    """Dimensions of the launch grid; 0 without one."""
    return len(require_session("nl.program_ndim").grid)
