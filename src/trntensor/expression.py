"""Elementwise expressions: a Python function of tensors, written down as instructions a kernel can follow."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnsci import ArgumentError

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
}
UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "square": torch.square,
    "abs": torch.abs,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
}
_SPELLINGS: dict[Any, str] = {function: name for name, function in (BINARY | UNARY).items()} | {
    torch.subtract: "subtract",
    torch.multiply: "multiply",
    torch.divide: "divide",
    torch.true_divide: "divide",
    torch.absolute: "abs",
    torch.nn.functional.relu: "relu",
}


class Instruction(NamedTuple):
    """``value = op(left, right)``; operands are numbers of earlier values, or constants where ``constant`` says so."""

    op: str
    left: float
    right: float
    constant: str


class Symbol:
    """Stands for a tensor while a function is written down."""

    def __init__(self, code: list[Instruction], index: int) -> None:
        self.code = code
        self.index = index

    def _emit(self, op: str, left: Any, right: Any = 0) -> Symbol:
        constant = ""
        values: list[float] = []
        for side, value in (("left", left), ("right", right)):
            if isinstance(value, Symbol):
                values.append(value.index)
            elif isinstance(value, int | float):
                values.append(float(value))
                constant = side if op in BINARY else constant
            else:
                raise _unknown_error(f"{op} with {type(value).__name__}")
        self.code.append(Instruction(op, values[0], values[1], constant))
        return Symbol(self.code, len(self.code) - 1)

    def _combine(self, op: str, other: Any, reflected: bool = False) -> Symbol:
        return self._emit(op, other, self) if reflected else self._emit(op, self, other)

    def __neg__(self) -> Symbol:
        return self._emit("multiply", self, -1.0)

    def __pow__(self, power: Any) -> Symbol:
        if power != 2:
            raise _unknown_error(f"power {power}")
        return self._emit("square", self)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        op = _SPELLINGS.get(func)
        if op is None or kwargs:
            raise _unknown_error(getattr(func, "__name__", str(func)))
        symbol = next(x for x in args if isinstance(x, Symbol))
        return symbol._emit(op, *args)


for _word, _op in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide")):
    setattr(Symbol, f"__{_word}__", functools.partialmethod(Symbol._combine, _op))
    setattr(Symbol, f"__r{_word}__", functools.partialmethod(Symbol._combine, _op, reflected=True))


def _unknown_error(what: str) -> ArgumentError:
    return ArgumentError(
        op="fuse",
        argument="epilogue",
        got=what,
        expected="arithmetic, and " + ", ".join((*list(BINARY)[4:], *UNARY)) + " of torch",
        hint="Write the epilogue with these, or contract first and apply it to the result",
    )


def written_down(function: Callable[..., Any], count: int) -> tuple[Instruction, ...]:
    """Return the instructions of ``function`` called with ``count`` tensors, values 0 to ``count - 1``."""
    try:
        # Functions built into torch do not tell their arguments: ValueError.
        with contextlib.suppress(ValueError):
            inspect.signature(function).bind(*range(count))
    except TypeError as error:
        raise ArgumentError(
            "fuse", "epilogue", str(error), f"a function of {count} values: the contraction and one per extra operand"
        ) from None
    code = [Instruction("argument", index, 0, "") for index in range(count)]
    result = function(*(Symbol(code, index) for index in range(count)))
    if not isinstance(result, Symbol):
        raise _unknown_error(f"a result of type {type(result).__name__}")
    if result.index != len(code) - 1:
        code.append(Instruction("add", result.index, 0.0, "right"))
    return tuple(code)


def evaluate(code: Sequence[Instruction], arguments: Sequence[Tensor]) -> Tensor:
    """Follow the instructions with torch."""
    values: list[Any] = list(arguments)
    for op, left, right, constant in code[len(values) :]:
        x: Any = left if constant == "left" else values[int(left)]
        if op in UNARY:
            values.append(UNARY[op](x))
            continue
        y: Any = right if constant == "right" else values[int(right)]
        if op in ("maximum", "minimum"):
            x, y = (v if isinstance(v, Tensor) else arguments[0].new_tensor(v) for v in (x, y))
        values.append(BINARY[op](x, y) if isinstance(x, Tensor) else _reflect_operation(op, x, y))
    result: Tensor = values[-1]
    return result


def _reflect_operation(op: str, x: float, y: Tensor) -> Tensor:
    if op == "subtract":
        return x - y
    return x / y if op == "divide" else BINARY[op](y, x)
