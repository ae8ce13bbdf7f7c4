"""Scalars: one integer each, computed on the device, for offsets, loop bounds and arithmetic that Python records.

``i * 4 + 1`` computes nothing while a kernel is traced; it records two operations and gives a new scalar. A scalar
keeps the width of the tile it came from, and what outgrows it wraps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.errors import DeviceValue, WrongArgument, WrongDtype, wrong_shape, wrong_type
from trnsim.session import HBM, SBUF, SHARED_HBM, NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import DType, int32, int64
from trnsim.tensors.objects import NKIObject, without_operators
from trnsim.tensors.tensor import NkiTensor

_MEMORIES = (SBUF, HBM, SHARED_HBM)
_WHAT = "a scalar's value exists on the device only"
_COMPUTE = "add, subtract and multiply it; other arithmetic is done on tiles"
_USE = "use it as scalar_offset or as a bound of nl.fori_loop, or decide with nl.while_loop"


@without_operators("scalar-expression", _WHAT, _COMPUTE)
class NkiScalar(NKIObject):
    """An integer of the device, int32 or int64. The simulator knows its ``value``; a kernel gets ``dtype``.

    Sums, differences and products with an ``int`` or a scalar of the same dtype give a new scalar, which wraps. The
    result of a comparison, which int64 does not have, can be recorded and not used.
    """

    __nki_register__ = True
    # a NumPy integer on the left leaves the operation to the scalar
    __array_ufunc__ = None

    def __init__(
        self, state: int, dtype: DType | None = None, is_comparison: bool = False, loaded: int | None = None
    ) -> None:
        self._state = state
        self.dtype = int32 if dtype is None else dtype
        self.is_comparison = is_comparison
        # the instruction its value comes from
        self.loaded = loaded

    @property
    def value(self) -> int:
        """Return the integer, which what is no comparison has."""
        if self.is_comparison:
            hint = "decide with nl.while_loop on a register, or select with tiles"
            raise WrongArgument("the result of a comparison of scalars cannot be used", "scalar-comparison", hint=hint)
        return self._state

    def __add__(self, other: Any) -> NkiScalar:
        return scalar_alu(self, other, "add")

    def __sub__(self, other: Any) -> NkiScalar:
        return scalar_alu(self, other, "subtract")

    def __mul__(self, other: Any) -> NkiScalar:
        return scalar_alu(self, other, "multiply")

    def __rsub__(self, other: Any) -> NkiScalar:
        return scalar_alu(self, other, "subtract", reverse=True)

    def __neg__(self) -> NkiScalar:
        return scalar_alu(self, 0, "subtract", reverse=True)

    __radd__, __rmul__ = __add__, __mul__

    def __bool__(self) -> bool:
        raise self._hidden("a condition")

    def __int__(self) -> int:
        raise self._hidden("an int")

    __index__ = __int__

    def _hidden(self, what: str) -> DeviceValue:
        return DeviceValue(f"{_WHAT}, so it cannot be {what}", "scalar-value", repr(self), "int", _USE)

    def __eq__(self, other: object) -> Any:
        return other is not None and _compared(self, other)

    def __ne__(self, other: object) -> Any:
        return other is None or _compared(self, other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"NkiScalar({self._state}, {self.dtype}{', comparison' if self.is_comparison else ''})"


def _compared(self: NkiScalar, other: Any) -> NkiScalar:
    if self.dtype == int64:
        raise WrongDtype(
            "comparison of an int64 scalar", "scalar-int64", "int64", "int32", "load it from an int32 tile"
        )
    return scalar_alu(self, other, "compare")


for _name in ("lt", "le", "gt", "ge"):
    setattr(NkiScalar, f"__{_name}__", _compared)


@instruction(named=False)
def scalar_alu(s: Session, a: NkiScalar, other: Any, op: str, reverse: bool = False) -> NkiScalar:
    """Record one operation of the sequencer: ``a op other``, wrapped to the width of ``a``."""
    if isinstance(other, NkiScalar):
        if other.dtype != a.dtype:
            hint = "both scalars of an operation have one dtype: load them from tiles of the same"
            raise WrongDtype(
                f"{op} of scalars of {a.dtype} and {other.dtype}", "scalar-dtype", str(other.dtype), str(a.dtype), hint
            )
        right = other.value
    elif isinstance(other, (int, np.integer)) and not isinstance(other, bool):
        info = np.iinfo(a.dtype)
        right = int(other)
        if not info.min <= right <= info.max:
            raise WrongArgument(
                f"{op} of a scalar of {a.dtype} with {right}", "scalar-range", right, (int(info.min), int(info.max))
            )
    else:
        hint = "the other operand is an int, or a scalar from nisa.scalar_load"
        raise wrong_type("scalar-operand", f"operand of {op}", other, ("int", "NkiScalar"), hint, DeviceValue)
    left, right = (right, a.value) if reverse else (a.value, right)
    value = {"add": left + right, "subtract": left - right, "multiply": left * right, "compare": 0}[op]
    done = s.done("sync", (), (), op=op)
    _wait(done, a, other)
    return NkiScalar(wrapped(value, a.dtype), a.dtype, op == "compare", done.index)


def wrapped(value: int, dtype: DType) -> int:
    """Return ``value`` in two's complement of the width of ``dtype``."""
    bits = 8 * int(dtype.itemsize)
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def _checked(s: Session, t: Any, role: str) -> NkiTensor:
    """Return ``t``, which must hold one signed integer of 32 or 64 bits in SBUF or HBM."""
    tile = s.operand(t, role, _MEMORIES, compute=False)
    if tile.size != 1:
        raise wrong_shape("scalar-tile", role, tile.shape, (1, 1), "a scalar is one element")
    if tile.dtype not in (int32, int64):
        hint = "a scalar is signed: use int32 or int64"
        raise WrongDtype(
            f"{role} ({tile.name}) is {tile.dtype}", "scalar-dtype", str(tile.dtype), ("int32", "int64"), hint
        )
    return tile


@instruction(named=False)
def scalar_load(s: Session, src: Any) -> NkiScalar:
    """Return the integer of a 1x1 tensor in SBUF or HBM, int32 or int64, as a scalar of that dtype."""
    tile = _checked(s, src, "src")
    values = s.read(tile, "src", _MEMORIES, compute=False, exact=True)
    value = int(values.reshape(-1)[0]) if s.numerics else s.state.get("register_value", 0)
    return NkiScalar(value, tile.dtype, loaded=s.done("sync", (), (tile,), op="load").index)


@instruction(named=False)
def scalar_store(s: Session, dst: Any, value: Any) -> NkiInstruction:
    """Write a scalar to a 1x1 tensor of its dtype in SBUF or HBM."""
    if not isinstance(value, NkiScalar):
        hint = "a constant is written with nisa.memset"
        raise wrong_type("scalar-store", "value", value, "NkiScalar", hint, DeviceValue)
    tile = _checked(s, dst, "dst")
    if tile.dtype != value.dtype:
        raise WrongDtype(
            f"dst ({tile.name}) is {tile.dtype} and the scalar {value.dtype}",
            rule="scalar-dtype",
            got=str(tile.dtype),
            limit=str(value.dtype),
            hint="a scalar is stored in its own width",
        )
    s.write(tile, np.array([[value.value]], np.int64).astype(tile.dtype), "dst", _MEMORIES, compute=False)
    stored = s.done("sync", (tile,), (), op="store")
    _wait(stored, value)
    return stored


def _wait(done: NkiInstruction, *operands: Any) -> None:
    """Let an instruction wait for those its scalars come from."""
    for operand in operands:
        if done.record is not None and isinstance(operand, NkiScalar):
            done.record.addressed_by(operand)
