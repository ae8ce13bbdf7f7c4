"""A session: one core running one kernel. It owns memory, the instruction counter and the instruction stream.

Instructions are functions decorated with `instruction`; they get the session first, read operands with `Session.read`,
write results with `Session.write` and end with `Session.done`, which appends to the stream when there is one.
Two sessions share nothing but what the launch hands to both (shared HBM); an exception leaves nothing to reset.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from trnsim.access import Access, Nothing
from trnsim.allocation import Allocation
from trnsim.calls import is_mismatch, public_signature, wrong_call
from trnsim.errors import KernelError, lacking
from trnsim.memory import HBM, MATMUL, PSUM, SBUF, SHARED_HBM, UNWRITTEN, WRITTEN
from trnsim.poison import Poisoned, replay
from trnsim.records import NkiInstruction, Operand, Record, operand_of
from trnsim.refusals import refuse
from trnsim.source_lines import kernel_line, line_of, warn
from trnsim.state import SimParams
from trnsim.tensors.tensor import NkiTensor
from trnsim.versions import SINCE, check_version

_local = threading.local()


def current() -> Session | None:
    """Return the session this thread runs in, or ``None`` outside kernels."""
    return getattr(_local, "session", None)


def require_session(what: str) -> Session:
    """Return the running session; an error that says how to get one otherwise."""
    session = getattr(_local, "session", None)
    if session is None:
        raise refuse("no-session", what=what)
    return session


@contextmanager
def activate(session: Session) -> Iterator[Session]:
    """Make ``session`` this thread's and restore the previous one.

    Engines overflow and divide by zero without a word, so that NumPy does too.
    """
    outer = getattr(_local, "session", None)
    _local.session = session
    try:
        with np.errstate(all="ignore"):
            yield session
    finally:
        _local.session = outer


class EmptyView(RuntimeWarning):
    """An instruction writes a view without elements, and does nothing; hardware has no such instruction."""


class Session(Allocation, Access):
    """See the module text."""

    line = staticmethod(kernel_line)
    line_of = staticmethod(line_of)

    def done(
        self, engine: str, writes: tuple[Any, ...], reads: tuple[Any, ...], cost: Any = None, /, **more: Any
    ) -> NkiInstruction:
        """Finish an instruction: append it to the stream when there is one, and return its handle.

        What its cost depends on comes as a dict of its own, or by name.
        """
        index = self.clock
        record = None
        if self.trace is not None:
            cost = more if cost is None else cost
            if self.state.get("no_reorder"):
                cost["ordered"] = True
            if self.state.get("implicit"):
                cost["implicit"] = True
            read: list[Operand] = []
            written: list[Operand] = []
            record = Record(index, self.instr or "?", engine, read, written, self.line(), cost, self.core, self.rank)
            for tensors, operands in ((reads, read), (writes, written)):
                for t in tensors:
                    if type(t) is NkiTensor:
                        operands.append(operand_of(t))
                        if t.dynamic is not None:
                            record.addressed_by(t.dynamic.index)
                        for register in t.registers:
                            record.addressed_by(register)
            self.trace.append(record)
            if self.scope is not None:
                self.scope.engines.add(engine)
        return NkiInstruction(None, index, record)


def instruction(
    fn: Callable[..., Any] | None = None, *, since: int = 2, hint: str = "", named: bool = True
) -> Callable[..., Any]:
    """Make ``fn(session, …)`` an instruction: counted, located, with the session supplied.

    ``since`` is the first generation that has it (2 is trn1, 3 trn2, 4 trn3); on older targets it raises with ``hint``.
    One that is ``named`` takes a ``name=`` for traces and schedules after its own parameters.
    """
    if fn is None:
        return functools.partial(instruction, since=since, hint=hint, named=named)
    name = fn.__name__
    signature = public_signature(fn, named)
    versioned = name in SINCE

    @functools.wraps(fn)
    def issue(*args: Any, **kwargs: Any) -> Any:
        session = getattr(_local, "session", None)
        if session is None:
            session = require_session(f"nki.isa.{name}")
        outer = session.instr
        if outer is None:
            session.instr = name
        session.clock += 1
        try:
            if versioned:
                check_version(name, session.nki)
            if session.target.generation < since and session.checks:
                raise lacking(name, session.target, since, hint)
            if named and "name" in kwargs:
                said = kwargs.pop("name")
                if session.named is not None:
                    session.named.name = said
            elif named and len(args) == len(signature.parameters):
                args = args[:-1]
            try:
                try:
                    result = fn(session, *args, **kwargs)
                except Poisoned:
                    result = replay(session, fn, args, kwargs)
            except Nothing:
                result = _nothing(session, name, args, kwargs)
            if session.scope is not None and outer is None:
                session.scope.issue(name, args, kwargs)
            return result
        except KernelError as error:
            error.locate(session, session.instr, session.line())
            raise
        except TypeError as error:
            if is_mismatch(error):
                raise wrong_call(error, fn, name, signature, session) from None
            raise
        finally:
            session.instr = outer

    issue.__signature__ = signature  # type: ignore[attr-defined]
    issue.__nki_instruction__ = True  # type: ignore[attr-defined]
    issue.__nki_since__ = since  # type: ignore[attr-defined]
    return issue


def _nothing(session: Session, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NkiInstruction:
    """Run an instruction with an empty operand: nothing happens when that is ``dst``, else it is an error."""
    tensors = [t for t in (*args, *kwargs.values()) if type(t) is NkiTensor]
    dst = kwargs.get("dst", tensors[0])
    if type(dst) is NkiTensor and not dst.size:
        warn(f"{name} writes a view of {dst.name} of shape {dst.shape}: nothing happens", EmptyView)
        return NkiInstruction(None, session.clock, None)
    raise next(t.dynamic.index for t in tensors if t.dynamic is not None and t.dynamic.kind == "late")


__all__ = [
    "HBM",
    "MATMUL",
    "PSUM",
    "SBUF",
    "SHARED_HBM",
    "UNWRITTEN",
    "WRITTEN",
    "NkiInstruction",
    "Operand",
    "Record",
    "Session",
    "SimParams",
    "activate",
    "current",
    "instruction",
    "operand_of",
    "require_session",
]
