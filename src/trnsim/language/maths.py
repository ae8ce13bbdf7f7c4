"""Element-wise functions of two operands, which are also operators: ``nl.add(x, y)`` and ``op=nl.add``.

Operands are tiles or one tile and a number; dimensions of size 1 broadcast, across partitions by products with ones,
which cost their time. The result is a new SBUF tile. Its dtype is ``dtype``, else the tile's (with two tiles of
different dtypes, the wider one's).
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import trnsim.isa as nisa
from trnsim.isa.operands import as_fp32
from trnsim.language.partitions import repeat_partition
from trnsim.language.results import Operator, dtype_or, export_functions, function, map_tile, promote, tile
from trnsim.refusals import refuse
from trnsim.session import NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import float32, same_dtype, to_f32
from trnsim.tensors.tensor import NkiTensor


class SimulationOnly(UserWarning):
    """A function that no engine has; a kernel that calls it does not compile for hardware."""


def _broadcast(x: NkiTensor, y: NkiTensor) -> tuple[NkiTensor, NkiTensor]:
    """Return views of ``x`` and ``y`` with one shape."""
    if x.ndim != y.ndim:
        # a column fits any rank
        if x.free_size == 1:
            x = x.reshape((x.shape[0],) + (1,) * (y.ndim - 1))
        elif y.free_size == 1:
            y = y.reshape((y.shape[0],) + (1,) * (x.ndim - 1))
    if x.ndim != y.ndim or any(m != n and 1 not in (m, n) for m, n in zip(x.shape, y.shape, strict=True)):
        raise refuse("broadcast:broadcast", got=x.shape, limit=y.shape)
    if x.shape[0] != y.shape[0]:
        if x.shape[0] == 1:
            x = repeat_partition(x, y.shape[0])
        else:
            y = repeat_partition(y, x.shape[0])
    for dim, (m, n) in enumerate(zip(x.shape, y.shape, strict=True)):
        if m < n:
            x = x.broadcast(dim, n)
        elif n < m:
            y = y.broadcast(dim, m)
    return x, y


_BITVEC = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"})


def _tiles(x: Any, y: Any) -> list[NkiTensor]:
    """Return those of two operands that are tiles, at least one."""
    tiles = [v for v in (x, y) if isinstance(v, NkiTensor)]
    if not tiles:
        raise refuse(
            "operand:tiles", got=(type(x).__name__, type(y).__name__), kind=type(x).__name__, y_kind=type(y).__name__
        )
    return tiles


def combine(op: str, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x op y`` into a new tile, with the instruction that fits the operands."""
    tiles = _tiles(x, y)
    if len(tiles) == 1:
        reverse = tiles[0] is y
        return map_tile(nisa.tensor_scalar, tiles[0], dtype, op, x if reverse else y, reverse0=reverse)
    common = dtype_or(dtype, promote(x.dtype, y.dtype))
    if x.free_size != y.free_size and x.shape[0] == y.shape[0]:
        for data, column, reverse in ((x, y, False), (y, x, True)):
            if column.free_size == 1 and (op in _BITVEC or same_dtype(column.dtype, float32)):
                dst = tile(data.shape, common)
                nisa.tensor_scalar(dst, data, op, column, reverse0=reverse)
                return dst
    if x.shape != y.shape:
        x, y = _broadcast(x, y)
    dst = tile(x.shape, common)
    nisa.tensor_tensor(dst, x, y, op)
    return dst


def _operator(name: str, text: str) -> Callable[..., NkiTensor]:
    """Return the function of two operands called ``name``, documented by ``text``."""

    def apply(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        return combine(name, x, y, dtype)

    return function(apply, name, text)


add = _operator("add", "``x + y``.")
subtract = _operator("subtract", "``x - y``.")
multiply = _operator("multiply", "``x * y``.")
maximum = _operator("maximum", "Return the larger of ``x`` and ``y``.")
minimum = _operator("minimum", "Return the smaller of ``x`` and ``y``.")
abs_max = _operator("abs_max", "``x`` where ``|x| > |y|``, else ``y``, with its sign; trn3.")
abs_min = _operator("abs_min", "``x`` where ``|x| < |y|``, else ``y``, with its sign; trn3.")


abs_max.__nki_since__ = abs_min.__nki_since__ = 4  # type: ignore[attr-defined]


power = _operator("power", "``x`` to the power ``y``.")
equal = _operator("equal", "1 where ``x == y``, else 0.")
not_equal = _operator("not_equal", "1 where ``x != y``, else 0.")
less = _operator("less", "1 where ``x < y``, else 0.")
less_equal = _operator("less_equal", "1 where ``x <= y``, else 0.")
greater = _operator("greater", "1 where ``x > y``, else 0.")
greater_equal = _operator("greater_equal", "1 where ``x >= y``, else 0.")
logical_and = _operator("logical_and", "1 where both are nonzero, else 0.")
logical_or = _operator("logical_or", "1 where at least one is nonzero, else 0.")
logical_xor = _operator("logical_xor", "1 where exactly one is nonzero, else 0.")


@function
def logical_not(x: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x`` xor 1: the negation of values that are 0 or 1."""
    return combine("logical_xor", x, 1.0, dtype)


bitwise_and = _operator("bitwise_and", "Bits set in both integers.")
bitwise_or = _operator("bitwise_or", "Bits set in at least one integer.")
bitwise_xor = _operator("bitwise_xor", "Bits set in exactly one integer.")
left_shift = _operator("left_shift", "Bits of ``x`` moved up by ``y`` bits.")
right_shift = _operator("right_shift", "Bits of ``x`` moved down by ``y`` bits; zeros come in.")


@function
def invert(x: Any, dtype: Any = None) -> NkiTensor:
    """Return all bits of an integer flipped."""
    return map_tile(nisa.tensor_scalar, x, dtype, "invert", None)


def _quotient(name: str, x: np.ndarray, y: np.ndarray) -> Any:
    whole = all(v.dtype.kind in "iub" for v in (x, y))
    if name != "divide" and whole:
        return getattr(np, name)(x.astype(np.int64), y.astype(np.int64))
    return getattr(np, name)(to_f32(x), to_f32(y))


def _rows(s: Session, value: Any, role: str) -> np.ndarray:
    if not isinstance(value, NkiTensor):
        as_fp32(value, role)
        return np.asarray(value)
    read = s.read(value, role)
    return read.reshape(read.shape[0], -1)


def _no_hardware(name: str) -> Any:
    """Return an instruction hardware lacks, recorded as the ``tensor_tensor`` it resembles."""

    def emulate(s: Session, dst: NkiTensor, x: Any, y: Any) -> NkiInstruction:
        left, right = _rows(s, x, "x"), _rows(s, y, "y")
        values = _quotient(name, left, right) if s.numerics else left
        s.write(dst, values, "dst")
        return s.done("vector", (dst,), (x, y), op=name)

    emulate.__name__ = "tensor_tensor"
    return instruction(emulate)


_EMULATED = {name: _no_hardware(name) for name in ("divide", "fmod", "mod")}


def _emulate(name: str, x: Any, y: Any, dtype: Any, instead: str) -> NkiTensor:
    tiles = _tiles(x, y)
    warnings.warn(f"nl.{name} works in simulation only: no engine has it. {instead}", SimulationOnly, stacklevel=4)
    common = tiles[0].dtype if len(tiles) == 1 else promote(x.dtype, y.dtype)
    if len(tiles) == 2 and x.shape != y.shape:
        x, y = _broadcast(x, y)
    dst = tile((x if len(tiles) == 2 else tiles[0]).shape, dtype_or(dtype, common))
    _EMULATED[name](dst, x, y)
    return dst


@function
def divide(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x / y``; simulation only, hardware has no division."""
    return _emulate("divide", x, y, dtype, "Multiply by nl.reciprocal(y)")


@function
def fmod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return the remainder of ``x / y`` with ``x``'s sign; simulation only, hardware has no remainder."""
    return _emulate("fmod", x, y, dtype, "Build it from reciprocal, trunc, multiply and subtract")


@function
def mod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return the remainder of ``x / y`` with ``y``'s sign; simulation only, hardware has no remainder."""
    return _emulate("mod", x, y, dtype, "Build it from reciprocal, floor, multiply and subtract")


average = Operator("average", "pass it as op= to nisa.tensor_partition_reduce; nl.mean averages free dimensions")
prelu = Operator("prelu", "pass it as op= to nisa.activate2, with relu_param= for the slope")
bypass = Operator("bypass", "pass it as op0= or op1= to nisa.activate2 to skip a stage")


export_functions(__name__, "average", "prelu", "bypass")
