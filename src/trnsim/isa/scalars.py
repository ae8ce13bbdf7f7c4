"""Scalars: one integer each, computed on the device, for offsets, loop bounds and arithmetic that Python records.

``i * 4 + 1`` computes nothing while a kernel is traced; it records two operations and gives a new scalar. A scalar
keeps the width of the tile it came from, and what outgrows it wraps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.errors import KernelError
from trnsim.refusals import forbid, refuse
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
        forbid(self.is_comparison, "scalar-comparison")
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
        raise self._refuse_value("a condition")

    def __int__(self) -> int:
        raise self._refuse_value("an int")

    __index__ = __int__

    def _refuse_value(self, what: str) -> KernelError:
        return refuse("scalar-value", got=repr(self), hint=_USE, _WHAT=_WHAT, what=what)

    def __eq__(self, other: object) -> Any:
        return other is not None and _compare(self, other)

    def __ne__(self, other: object) -> Any:
        return other is None or _compare(self, other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"NkiScalar({self._state}, {self.dtype}{', comparison' if self.is_comparison else ''})"


def _compare(self: NkiScalar, other: Any) -> NkiScalar:
    forbid(self.dtype == int64, "scalar-int64:compared", got="int64")
    return scalar_alu(self, other, "compare")


for _name in ("lt", "le", "gt", "ge"):
    setattr(NkiScalar, f"__{_name}__", _compare)


@instruction(named=False)
def scalar_alu(s: Session, a: NkiScalar, other: Any, op: str, reverse: bool = False) -> NkiScalar:
    """Record one operation of the sequencer: ``a op other``, wrapped to the width of ``a``."""
    if isinstance(other, NkiScalar):
        if other.dtype != a.dtype:
            raise refuse("scalar-dtype:scalar_alu", got=str(other.dtype), limit=str(a.dtype), op=op, a=a, other=other)
        right = other.value
    elif isinstance(other, (int, np.integer)) and not isinstance(other, bool):
        info = np.iinfo(a.dtype)
        right = int(other)
        if not info.min <= right <= info.max:
            raise refuse("scalar-range", got=right, limit=(int(info.min), int(info.max)), op=op, a=a)
    else:
        raise refuse(
            "scalar-operand:scalar_alu", got=type(other).__name__, limit=("int", "NkiScalar"), op=op, value=other
        )
    left, right = (right, a.value) if reverse else (a.value, right)
    value = {"add": left + right, "subtract": left - right, "multiply": left * right, "compare": 0}[op]
    done = s.done("sync", (), (), op=op)
    _wait(done, a, other)
    return NkiScalar(wrap_integer(value, a.dtype), a.dtype, op == "compare", done.index)


def wrap_integer(value: int, dtype: DType) -> int:
    """Return ``value`` in two's complement of the width of ``dtype``."""
    bits = 8 * int(dtype.itemsize)
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def _check_tile(s: Session, t: Any, role: str) -> NkiTensor:
    """Return ``t``, which must hold one signed integer of 32 or 64 bits in SBUF or HBM."""
    tile = s.operand(t, role, _MEMORIES, compute=False)
    forbid(tile.size != 1, "scalar-tile", got=tile.shape, limit=(1, 1), role=role)
    if tile.dtype not in (int32, int64):
        raise refuse("scalar-dtype:checked", got=str(tile.dtype), limit=("int32", "int64"), role=role, tile=tile)
    return tile


@instruction(named=False)
def scalar_load(s: Session, src: Any) -> NkiScalar:
    """Return the integer of a 1x1 tensor in SBUF or HBM, int32 or int64, as a scalar of that dtype."""
    tile = _check_tile(s, src, "src")
    values = s.read(tile, "src", _MEMORIES, compute=False, exact=True)
    value = int(values.reshape(-1)[0]) if s.numerics else s.state.get("register_value", 0)
    return NkiScalar(value, tile.dtype, loaded=s.done("sync", (), (tile,), op="load").index)


@instruction(named=False)
def scalar_store(s: Session, dst: Any, value: Any) -> NkiInstruction:
    """Write a scalar to a 1x1 tensor of its dtype in SBUF or HBM."""
    forbid(not isinstance(value, NkiScalar), "scalar-store", got=type(value).__name__, value=value)
    tile = _check_tile(s, dst, "dst")
    if tile.dtype != value.dtype:
        raise refuse("scalar-dtype:scalar_store", got=str(tile.dtype), limit=str(value.dtype), tile=tile, value=value)
    s.write(tile, np.array([[value.value]], np.int64).astype(tile.dtype), "dst", _MEMORIES, compute=False)
    stored = s.done("sync", (tile,), (), op="store")
    _wait(stored, value)
    return stored


def _wait(done: NkiInstruction, *operands: Any) -> None:
    """Let an instruction wait for those its scalars come from."""
    for operand in operands:
        if done.record is not None and isinstance(operand, NkiScalar):
            done.record.addressed_by(operand)
