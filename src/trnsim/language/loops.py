"""Loops and the launch grid. Static ranges unroll; dynamic loops run on the device with a register as counter."""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trnsim.isa.registers import VirtualRegister, as_register
from trnsim.isa.scalars import NkiScalar
from trnsim.language.results import function
from trnsim.loop_body import Body
from trnsim.refusals import forbid, refuse
from trnsim.session import Session, require_session
from trnsim.source_lines import warn
from trnsim.tensors.dtypes import int64
from trnsim.tensors.layout import as_index, is_register, static_index
from trnsim.versions import TRACED


def _unrolling_range(name: str) -> Callable[..., range]:
    """Return an alias of ``range`` that warns of its name."""

    def static(start: int, stop: int | None = None, step: int = 1) -> range:
        """``range``, unrolled (deprecated name)."""
        warnings.warn(f"nl.{name} is an alias of range, which NKI prefers", DeprecationWarning, stacklevel=2)
        first, last = (0, start) if stop is None else (start, stop)
        by = static_index(step, "step")
        forbid(not by, "range", got=0, name=name)
        return range(static_index(first, "range bound"), static_index(last, "range bound"), by)

    static.__name__ = static.__qualname__ = name
    return static


affine_range = _unrolling_range("affine_range")
sequential_range = _unrolling_range("sequential_range")
static_range = _unrolling_range("static_range")


def _turns(loop: str, start: Any, stop: Any, step: Any) -> Iterator[int]:
    """Yield the counter of a loop that runs on the device, each turn with a scope of its own."""
    session = require_session(loop)
    if is_register(step) or as_index(step) < 1:
        raise refuse("dynamic-step", got=repr(step), step=step)
    first, end = _bound(loop, start), _bound(loop, stop)
    with _body(session, Body(loop, session.line(), start, stop)) as body:
        for i in range(first, end, as_index(step)):
            with body.turn(session):
                yield i


def _bound(loop: str, bound: Any) -> int:
    """Return the value of a loop's bound, which has 32 bits."""
    forbid(getattr(bound, "dtype", None) == int64, "scalar-int64:bound", got="int64", loop=loop)
    return as_index(bound)


@contextmanager
def _body(session: Session, body: Body) -> Iterator[Body]:
    """Enter a loop of the device, which ``nl.no_reorder`` excludes and whose body is compiled once."""
    forbid(session.state.get("no_reorder"), "no-reorder", body=body)
    session.state["dynamic loops"] = True
    yield body
    body.leave(session)


@function
def dynamic_range(start: Any, stop: Any = None, step: int = 1) -> Iterator[Any]:
    """Yield a loop that runs on the device; bounds may be registers, the counter is a frozen register."""
    if require_session("nl.dynamic_range").nki >= (0, 6):
        warn("nl.dynamic_range is deprecated since NKI 0.6: use nl.fori_loop(lower, upper, body)", DeprecationWarning)
    if stop is None:
        start, stop = 0, start
    return (VirtualRegister(i, frozen=True) for i in _turns("nl.dynamic_range", start, stop, step))


@function
def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any], Any], step: int = 1) -> None:
    """``body_fun(i)`` for ``i`` from ``lower`` to ``upper``, on the device; ``i`` is a scalar passed by value.

    Before NKI 0.7, and where a bound is a register, it is a register.
    """
    session = require_session("nl.fori_loop")
    registers = session.nki < TRACED or any(isinstance(bound, VirtualRegister) for bound in (lower, upper))
    for i in _turns("nl.fori_loop", lower, upper, step):
        returned = body_fun(VirtualRegister(i) if registers else NkiScalar(i))
        forbid(returned is not None, "loop-body", got=type(returned).__name__)


@function
def while_loop(init: Any, body_fun: Callable[[Any], Any]) -> None:
    """While the register is nonzero, ``body_fun`` gets its value and returns the register to test next."""
    session = require_session("nl.while_loop")
    register = as_register(init, "init", "load the condition with nisa.register_load")
    with _body(session, Body("nl.while_loop", session.line())) as body:
        while register.value != 0:
            with body.turn(session):
                returned = body_fun(VirtualRegister(register.value))
                register = as_register(returned, "what the body returns", "return the register to test next")


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
    """Return the index of this core along ``axis`` of the launch grid."""
    program = require_session("nl.program_id").program
    return _along(program, axis, "program_id") if program else 0


def _along(sizes: tuple[int, ...], axis: int, what: str) -> int:
    forbid(not 0 <= as_index(axis) < len(sizes), "grid:along", got=axis, limit=len(sizes), what=what)
    return sizes[axis]


def num_programs(axes: Any = None) -> int:
    """Return cores along ``axes`` of the launch grid (all of them by default)."""
    grid = require_session("nl.num_programs").grid
    if not grid:
        return 1
    picked = range(len(grid)) if axes is None else (axes if isinstance(axes, (tuple, list)) else (axes,))
    return math.prod(_along(grid, axis, "num_programs") for axis in picked)


def program_ndim() -> int:
    """Return dimensions of the launch grid; 0 without one."""
    return len(require_session("nl.program_ndim").grid)
