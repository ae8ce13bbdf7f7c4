"""Registers: 32-bit scalars of an engine's sequencer, for loop bounds, conditions and run-time addresses."""

from typing import Any

import numpy as np

from trnsim.refusals import forbid, refuse
from trnsim.session import HBM, PSUM, SBUF, SHARED_HBM, NkiInstruction, Session, instruction, require_session
from trnsim.source_lines import warn
from trnsim.tensors.objects import NKIObject, without_operators
from trnsim.versions import TRACED

_MEMORIES = (SBUF, PSUM, HBM, SHARED_HBM)
_DEVICE_VALUE = "a register's value exists on the device only"
_COMPUTE = "store it with register_store, compute with nisa and load it back; or use it as an index or scalar_offset"


@without_operators("register-expression", _DEVICE_VALUE, _COMPUTE)
class VirtualRegister(NKIObject):
    """A scalar that exists at run time. The simulator knows its ``value``; a frozen one is a loop counter.

    ``loaded`` is the instruction that brought its value from memory, ``None`` where none did.
    """

    __nki_register__ = True

    def __init__(self, state: Any = None, frozen: bool = False, loaded: int | None = None) -> None:
        self._value: int | float | None = state
        self.frozen = frozen
        self.loaded = loaded

    @property
    def value(self) -> Any:
        """Its value; nothing until it was written."""
        if self._value is None:
            raise refuse("uninitialized:value")
        return self._value

    @value.setter
    def value(self, value: int | float) -> None:
        self._value = value

    def __bool__(self) -> bool:
        s = self._parsing_session("a condition")
        if s.nki >= (0, 6):
            text = "a register as condition is deprecated since NKI 0.6: use nl.while_loop(register, body)"
            warn(text, DeprecationWarning)
        return bool(self.value != 0)

    def __int__(self) -> int:
        self._parsing_session("an int")
        return int(self.value)

    __index__ = __int__

    def _parsing_session(self, what: str) -> Session:
        """Return the session if its NKI parses kernels, and so knows registers; a traced kernel has no values."""
        s = require_session("a register")
        if s.nki >= TRACED:
            raise refuse("register-value", got=repr(self), limit=what, _DEVICE_VALUE=_DEVICE_VALUE)
        return s

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float, np.number, VirtualRegister)) and other is not self:
            raise refuse("register-expression", got=repr(self), hint=_COMPUTE, _DEVICE_VALUE=_DEVICE_VALUE, other=other)
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"VirtualRegister({self._value}{', frozen' if self.frozen else ''})"


def as_register(x: Any, role: str, hint: str = "make one with nisa.register_alloc()") -> VirtualRegister:
    """Return ``x``, which must be a register."""
    if not isinstance(x, VirtualRegister):
        raise refuse("register:as_register", got=type(x).__name__, hint=hint, role=role, value=x)
    return x


def _writable(x: Any) -> VirtualRegister:
    forbid(as_register(x, "dst").frozen, "frozen-register")
    return x


def _wrap32(value: Any) -> Any:
    if isinstance(value, float):
        return float(np.float32(value))
    return ((int(value) + 2**31) % 2**32) - 2**31 if not 0 <= int(value) < 2**32 else int(value)


@instruction(named=False)
def register_alloc(s: Session, x: Any = None) -> VirtualRegister:
    """Return a new register holding ``x``, nothing by default (a 1x1 tensor loads it)."""
    if x is not None and not isinstance(x, (int, float, np.integer, VirtualRegister)):
        register = VirtualRegister()
        _load(s, register, x)
        return register
    s.done("sync", (), (), op="register_alloc")
    if x is None:
        return VirtualRegister()
    if isinstance(x, VirtualRegister):
        return VirtualRegister(_wrap32(x.value), loaded=x.loaded)
    return VirtualRegister(_wrap32(x))


@instruction(named=False)
def register_move(s: Session, dst: Any, src: Any = None, imm: Any = None) -> NkiInstruction:
    """``dst = src``: a 32-bit constant, or another register. ``imm`` is the name ``src`` had before NKI 0.3."""
    forbid((src is None) == (imm is None), "signature:register_move", got=(src, imm))
    value = imm if src is None else src
    if not isinstance(value, (int, float, np.integer, np.floating, VirtualRegister)):
        raise refuse(
            "register:register_move", got=type(value).__name__, limit=("number", "VirtualRegister"), value=value
        )
    register = _writable(dst)
    if isinstance(value, VirtualRegister):
        register.value, register.loaded = value.value, value.loaded
    else:
        register.value, register.loaded = _wrap32(value), None
    return s.done("sync", (), (), op="register_move")


def _load(s: Session, dst: VirtualRegister, src: Any) -> NkiInstruction:
    values = s.read(src, "src", _MEMORIES, compute=False, exact=True)
    forbid(src.size != 1, "register:load", got=src.shape, limit=(1, 1))
    if s.numerics:
        dst.value = values.reshape(-1)[0].item() if values.dtype.kind in "iub" else float(values.reshape(-1)[0])
    else:
        dst.value = s.state.get("register_value", 0)
    load = s.done("sync", (), (src,), op="register_load")
    dst.loaded = load.index
    return load


@instruction(named=False)
def register_load(s: Session, dst: Any, src: Any) -> NkiInstruction:
    """``dst = src``, a tensor of one element on chip or in HBM."""
    return _load(s, _writable(dst), src)


@instruction(named=False)
def loop_turn(s: Session, engine: str) -> NkiInstruction:
    """Count, compare and branch: what a turn of a loop costs the sequencer of each engine that takes part."""
    return s.done(engine, (), (), op="loop_turn")


@instruction(named=False)
def register_store(s: Session, dst: Any, src: Any) -> NkiInstruction:
    """``dst = src``: a register into a tensor of one element on chip or in HBM."""
    register = as_register(src, "src")
    if s.operand(dst, "dst", _MEMORIES, compute=False).size != 1:
        raise refuse("register:register_store", got=dst.shape, limit=(1, 1))
    s.write(dst, np.array([[register.value]]), "dst", _MEMORIES, compute=False)
    stored = s.done("sync", (dst,), (), op="register_store")
    if stored.record is not None:
        stored.record.addressed_by(register)
    return stored
