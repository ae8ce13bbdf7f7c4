"""The operators instructions take as ``op=``: what each computes, on which engine, since which generation.

*Arithmetic* operators work on fp32, whatever the operands' dtypes. *Bitvec* operators work on integer bit patterns and
never round. GpSimd has native 32-bit integers, which wrap like any two's-complement machine.

`binary` and `reduction` turn what a kernel passes (``nl.add``, ``np.add``, ``"add"``) into an `Alu`; `bitvec` and
`integer` compute the exact ones, `reduce` folds an axis with one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trnsim.errors import KernelError, WrongArgument, lacking
from trnsim.isa.words import bits, resize, shift_ok
from trnsim.refusals import refuse
from trnsim.tables import read_table
from trnsim.tensors.dtypes import INTEGERS, PACKED, DType, int32, to_f32, uint32

# arithmetic on arrays is Any to a type checker
Fn = Callable[..., Any]
F32 = np.float32


@dataclass(slots=True, eq=False, repr=False)
class Alu:
    """One operator.

    Attributes:
        name: as ``nki.language`` spells it.
        kind: ``"arithmetic"`` (fp32) or ``"bitvec"`` (integer bit patterns).
        arity: 2, or 1 for operators that ignore their scalar operand.
        fn: the meaning, on fp32 arrays (arithmetic) or unsigned integer arrays (bitvec).
        ufunc: NumPy's ufunc when the operator may reduce, else ``None``.
        identity: value the accumulator starts from, when the operator may accumulate.
        since: first generation that has it (2 is trn1, 3 trn2, 4 trn3).
        integer: exact meaning on 64-bit integers for GpSimd's native arithmetic, or ``None``.
    """

    name: str
    fn: Fn
    kind: str = "arithmetic"
    arity: int = 2
    ufunc: np.ufunc | None = None
    identity: float | None = None
    since: int = 2
    integer: Fn | None = None
    bitvec: bool = field(init=False)

    def __post_init__(self) -> None:
        self.bitvec = self.kind == "bitvec"

    def __repr__(self) -> str:
        return f"nl.{self.name}"


def _truth(ufunc: np.ufunc, *, reduces: bool = False) -> Alu:
    """Return a comparison, or an operator of truth values, which gives 0.0 and 1.0."""
    return Alu(ufunc.__name__, lambda x, y: ufunc(x, y).astype(F32), ufunc=ufunc if reduces else None, integer=ufunc)


def _abs_max(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) > np.abs(y), x, y)


def _abs_min(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < np.abs(y), x, y)


_INF = float("inf")
OPERATORS: dict[str, Alu] = {
    alu.name: alu
    for alu in (
        Alu("invert", np.invert, kind="bitvec", arity=1),
        Alu("bitwise_and", np.bitwise_and, kind="bitvec", ufunc=np.bitwise_and),
        Alu("bitwise_or", np.bitwise_or, kind="bitvec", ufunc=np.bitwise_or),
        Alu("bitwise_xor", np.bitwise_xor, kind="bitvec", ufunc=np.bitwise_xor),
        Alu("left_shift", np.left_shift, kind="bitvec"),
        Alu("right_shift", np.right_shift, kind="bitvec"),
        Alu("add", np.add, ufunc=np.add, identity=0.0, integer=np.add),
        Alu("subtract", np.subtract, ufunc=np.subtract, identity=0.0, integer=np.subtract),
        Alu("multiply", np.multiply, ufunc=np.multiply, identity=1.0, integer=np.multiply),
        Alu("maximum", np.maximum, ufunc=np.maximum, identity=-_INF, integer=np.maximum),
        Alu("minimum", np.minimum, ufunc=np.minimum, identity=_INF, integer=np.minimum),
        *(
            _truth(getattr(np, name))
            for name in ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less")
        ),
        *(_truth(getattr(np, name), reduces=True) for name in ("logical_and", "logical_or", "logical_xor")),
        Alu("power", np.power),
        Alu("abs_max", _abs_max, since=4),
        Alu("abs_min", _abs_min, since=4),
        Alu("abs", np.abs, arity=1),
        Alu("square", np.square, arity=1, since=4),
        Alu("relu", lambda x: np.maximum(x, F32(0)), arity=1, since=4),
        Alu("rsqrt", lambda x: (1.0 / np.sqrt(x.astype(np.float64))).astype(F32), arity=1),
        Alu("reciprocal", lambda x: np.divide(F32(1), x), arity=1),
    )
}

_NAMES = read_table("names.toml")
# spellings of NumPy, Python's operator module and older NKI
ALIASES = {alias: name for name, aliases in _NAMES["operators"].items() for alias in aliases.split()}
_HINTS: dict[str, str] = _NAMES["operator_hints"]
_seen: dict[Any, Alu] = {}


def name_of(op: Any) -> str:
    """Return the bare name of whatever a kernel passes as an operator."""
    text = op if isinstance(op, str) else getattr(op, "__name__", None) or getattr(op, "name", None) or repr(op)
    return str(text).rpartition(".")[2]


def operator(op: Any, role: str = "op") -> Alu:
    """Return the `Alu` meant by ``op``: one of ours, a function of ``nki.language`` or NumPy, or a name."""
    try:
        alu = _seen.get(op)
    except TypeError:
        alu = None
    if alu is not None:
        return alu
    if isinstance(op, Alu):
        return op
    name = name_of(op)
    alu = OPERATORS.get(ALIASES.get(name, name))
    if alu is None:
        hint, shown = _HINTS.get(name, _one_of(OPERATORS)), "None" if op is None else name
        raise refuse("operator", got=name, limit=sorted(OPERATORS), hint=hint, role=role, shown=shown)
    if isinstance(op, str) or callable(op):
        _seen[op] = alu
    return alu


def _one_of(names: Iterable[str]) -> str:
    return f"use one of {', '.join('nl.' + n for n in names)}"


def _refuse_operator(alu: Alu, role: str, why: str, limit: Any, hint: str = "", *, rule: str) -> WrongArgument:
    return WrongArgument(f"{role} is {alu!r}, {why}", rule, alu.name, limit, hint or _one_of(limit))


def as_operator(op: Any, role: str, allowed: tuple[str, ...], *, rule: str) -> Alu:
    """``op`` as one of the ``allowed`` operators."""
    alu = operator(op, role)
    if alu.name not in allowed:
        raise _refuse_operator(alu, role, "which this instruction does not know", list(allowed), rule=rule)
    return alu


def binary(op: Any, role: str = "op") -> Alu:
    """``op`` as an operator of two operands."""
    alu = operator(op, role)
    if alu.arity != 2:
        two = [n for n, a in OPERATORS.items() if a.arity == 2]
        why, hint = (
            "which takes one operand; this instruction combines two",
            "apply it with tensor_scalar(op0=…, operand0=None)",
        )
        raise _refuse_operator(alu, role, why, two, hint, rule="operator-arity")
    return alu


def reduction(op: Any, role: str = "op", allowed: tuple[str, ...] | None = None) -> Alu:
    """``op`` as a legal reduction (one of ``allowed``, when an instruction knows fewer)."""
    alu = operator(op, role)
    if alu.ufunc is None or (allowed is not None and alu.name not in allowed):
        legal = list(allowed) if allowed is not None else [n for n, a in OPERATORS.items() if a.ufunc is not None]
        why = "which cannot reduce" if alu.ufunc is None else "which does not reduce here"
        raise _refuse_operator(alu, role, why, legal, rule="reduction-operator")
    return alu


def arithmetic(alu: Alu, role: str) -> Alu:
    """Refuse bitvec operators where an instruction is fp32 only."""
    if alu.bitvec:
        hint = "use tensor_tensor, tensor_scalar or tensor_reduce for bit patterns"
        why = "a bitvec operator; this instruction computes in fp32"
        raise _refuse_operator(alu, role, why, "arithmetic", hint, rule="operator-kind")
    return alu


def generation(alu: Alu, target: Any, role: str) -> Alu:
    """Refuse an operator the target is too old for."""
    if target.generation < alu.since:
        hints = {
            "square": "multiply the tile by itself with tensor_tensor, or use activation(op=nl.square)",
            "relu": "use nl.maximum with 0.0, or activation(op=nl.relu)",
        }
        hint = hints.get(alu.name, "compare absolute values (nl.abs) and select")
        raise lacking(f"{role} is {alu!r}", target, alu.since, hint)
    return alu


def dtypes(alu: Alu, *tensors: tuple[Any, str]) -> None:
    """Check operand dtypes: bitvec operators take integers, arithmetic ones anything but packed types."""
    for t, role in tensors:
        dtype = t.dtype
        if alu.bitvec:
            if dtype not in INTEGERS:
                integers = sorted(str(d) for d in INTEGERS)
                bits = 8 * int(dtype.itemsize)
                raise refuse("bitvec-dtype:dtypes", got=str(dtype), limit=integers, role=role, t=t, alu=alu, bits=bits)
        elif dtype in PACKED:
            raise refuse_packed(t, role)


def refuse_packed(t: Any, role: str) -> KernelError:
    """Return the error for arithmetic on an x4 type."""
    return refuse("packed-dtype", got=str(t.dtype), role=role, t=t)


_WORDS = frozenset({int32, uint32})


def native(alu: Alu, *all_dtypes: DType) -> bool:
    """Return whether GpSimd computes ``alu`` in 32-bit integers: every input and output is int32 or uint32."""
    if alu.integer is None:
        return False
    return all(d in _WORDS for d in all_dtypes)


def bitvec(alu: Alu, x: np.ndarray, y: np.ndarray | None, dtype: Any, role: str = "operand") -> np.ndarray:
    """Apply a bitvec operator to integer arrays, as bits of ``dtype``. Shifts keep the width of ``x``."""
    if y is None:
        return resize(alu.fn(bits(x)), x.dtype, dtype)
    width = x.dtype.itemsize
    if alu.name.endswith("_shift"):
        shift_ok(y if y.dtype.kind == "u" else bits(y), width, role)
    else:
        width = max(width, y.dtype.itemsize)
    return resize(alu.fn(bits(x, width), bits(y, width)), x.dtype, dtype)


def integer(alu: Alu, x: np.ndarray, y: np.ndarray, dtype: Any) -> np.ndarray:
    """GpSimd's native arithmetic on 32-bit integers: exact, modulo 2^32."""
    assert alu.integer is not None
    if x.dtype == y.dtype:
        result = alu.integer(x, y)
        return result.astype(dtype) if result.dtype.kind == "b" else result.view(dtype)
    # mixed signedness: low words agree for + - *, comparisons need the true values
    result = alu.integer(x.astype(np.int64), y.astype(np.int64))
    return result.astype(dtype) if result.dtype.kind == "b" else result.astype(np.uint32).view(dtype)


def reduce(alu: Alu, x: np.ndarray, axis: int | tuple[int, ...] = -1) -> np.ndarray:
    """Fold ``axis`` of ``x`` in order: fp32 for arithmetic, bit patterns (unsigned words) for bitvec."""
    ufunc = alu.ufunc
    assert ufunc is not None
    folded: np.ndarray
    if alu.bitvec:
        folded = ufunc.reduce(bits(x), axis=axis)
        return folded
    folded = ufunc.reduce(to_f32(x), axis=axis)
    return folded if folded.dtype == F32 else folded.astype(F32)
