"""Pointwise ATen operators as instructions of the kernel `trnsci.graph.kernels.pointwise`."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

_aten = torch.ops.aten
_LARGEST = torch.finfo(torch.float32).max


@dataclass(frozen=True, eq=False)
class Value:
    """A value of an expression: a slot that an instruction writes, or that an operand is loaded into."""

    index: int


Operand = tuple[Literal["slot", "number"], Any]


@dataclass
class Code:
    """Instructions under construction on values that are each written once: (op, value, operands)."""

    values: int = 0
    instructions: list[tuple[str, int, tuple[Operand, ...]]] = field(default_factory=list)
    dtypes: dict[int, torch.dtype] = field(default_factory=dict)

    def new(self, dtype: torch.dtype = torch.float32) -> Value:
        """Return a value nothing has written yet."""
        self.values += 1
        self.dtypes[self.values - 1] = dtype
        return Value(self.values - 1)

    def emit(self, op: str, *given: Any) -> Value:
        """Apply an operator to values and numbers; of two, one is a value."""
        result = self.new()
        operands = tuple(("slot", x.index) if isinstance(x, Value) else ("number", float(x)) for x in given)
        self.instructions.append((op, result.index, operands))  # type: ignore[arg-type]
        return result

    def allocate_slots(self, loaded: int, stored: list[int]) -> tuple[list[Any], tuple[Any, ...], tuple[int, ...]]:
        """Give values SBUF slots, reused after their last use; return slots' dtypes, instructions and stored slots."""
        reads = [[x for kind, x in operands if kind == "slot"] for _, _, operands in self.instructions]
        last = {value: at for at, values in enumerate(reads) for value in values}
        slot_of, dtypes = {value: value for value in range(loaded)}, [self.dtypes[v] for v in range(loaded)]
        free: list[int] = []
        instructions = []
        for at, (op, result, operands) in enumerate(self.instructions):
            dtype = self.dtypes[result]
            slot = next((slot for slot in free if dtypes[slot] == dtype), len(dtypes))
            if slot in free:
                free.remove(slot)
            else:
                dtypes.append(dtype)
            named = tuple((kind, slot_of[x] if kind == "slot" else x) for kind, x in operands)
            instructions.append((op, slot, named))
            slot_of[result] = slot
            ended = {value for value in reads[at] if last[value] == at and value >= loaded}
            free += [slot_of[value] for value in ended.difference(stored)]
        return dtypes, tuple(instructions), tuple(slot_of[value] for value in stored)


def _add(c: Code, x: Any, y: Any, alpha: float = 1, sign: float = 1.0) -> Any:
    factor = sign * alpha
    if factor == 1:
        return c.emit("add", x, y)
    if factor == -1:
        return c.emit("subtract", x, y)
    scaled = c.emit("multiply", y, factor) if isinstance(y, Value) else y * factor
    return c.emit("add", x, scaled)


def _multiply(c: Code, x: Any, y: Any) -> Any:
    if not isinstance(y, Value) and y == 1:
        return x
    return c.emit("multiply", x, y)


def _divide(c: Code, x: Any, y: Any) -> Any:
    if not isinstance(y, Value):
        inverse = 1.0 / y if y else math.copysign(math.inf, y)
        if math.isfinite(inverse) and abs(inverse) > _LARGEST:
            return c.emit("multiply", c.emit("multiply", x, 2.0**64), inverse * 2.0**-64)
        return c.emit("multiply", x, inverse)
    inverse = c.emit("reciprocal", y)
    return inverse if not isinstance(x, Value) and x == 1 else c.emit("multiply", x, inverse)


def _power(c: Code, x: Any, power: Any) -> Any:
    if isinstance(power, Value) or not isinstance(x, Value):
        return c.emit("power", x, power)
    if power in (1, 2, 3, 4):
        square = c.emit("multiply", x, x) if power > 1 else c.emit("copy", x)
        return square if power <= 2 else c.emit("multiply", square, x if power == 3 else square)
    return c.emit("reciprocal", x) if power == -1 else c.emit("power", x, power)


def _clamp(c: Code, x: Any, low: Any = None, high: Any = None) -> Any:
    x = x if low is None else c.emit("maximum", x, low)
    return x if high is None else c.emit("minimum", x, high)


def _hypot(c: Code, x: Any, y: Any) -> Any:
    one, two = c.emit("abs", x), c.emit("abs", y)
    large, small = c.emit("maximum", one, two), c.emit("minimum", one, two)
    ratio = c.emit("multiply", small, c.emit("reciprocal", c.emit("maximum", large, 1e-37)))
    squares = c.emit("add", c.emit("multiply", ratio, ratio), 1.0)
    return c.emit("multiply", large, c.emit("power", squares, 0.5))


def _gelu(c: Code, x: Any, approximate: str = "none") -> Any:
    half = c.emit("multiply", x, 0.5)
    if approximate == "tanh":
        cube = _power(c, x, 3)
        inner = c.emit("multiply", c.emit("add", c.emit("multiply", cube, 0.044715), x), math.sqrt(2 / math.pi))
        return c.emit("multiply", half, c.emit("add", c.emit("tanh", inner), 1.0))
    inner = c.emit("erf", c.emit("multiply", x, math.sqrt(0.5)))
    return c.emit("multiply", half, c.emit("add", inner, 1.0))


def _round(c: Code, x: Any) -> Any:
    # beyond 2**23 numbers are whole, and 32-bit integers end
    return c.emit("select", c.emit("less", c.emit("abs", x), 2.0**23), c.emit("round", x), x)


def _sign(c: Code, x: Any) -> Any:
    return c.emit("subtract", c.emit("greater", x, 0.0), c.emit("less", x, 0.0))


def _sine(op: str) -> Callable[..., Any]:
    """Return a rule: 2**16 turns are what multiples of a turn in three parts are exact for; beyond it there is NaN."""
    return lambda c, x: c.emit("select", c.emit("less", c.emit("abs", x), 4.0e5), c.emit(op, x), math.nan)


def _unary(op: str) -> Callable[..., Any]:
    return lambda c, x: c.emit(op, x)


def _binary(op: str) -> Callable[..., Any]:
    return lambda c, x, y: c.emit(op, x, y)


def _truncate(c: Code, x: Any, nearest: Any) -> Any:
    """Return a whole number near x, moved towards zero where it lies beyond."""
    beyond = c.emit("greater", c.emit("abs", nearest), c.emit("abs", x))
    return c.emit("subtract", nearest, c.emit("multiply", _sign(c, x), beyond))


def _step_back(c: Code, x: Any, beyond: str, step: str) -> Any:
    """Return the whole number on one side of x: the nearest, or its neighbour."""
    nearest = _round(c, x)
    return c.emit(step, nearest, c.emit(beyond, nearest, x))


def _cast(c: Code, x: Any, dtype: torch.dtype = torch.float32, **_: Any) -> Any:
    if dtype is torch.bool:
        return c.emit("not_equal", x, 0.0)
    # the engines round to the nearest integer, torch towards zero
    return c.emit("copy", x) if dtype not in _INTEGERS else _truncate(c, x, c.emit("round", x))


_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "lt": "less",
    "le": "less_equal",
}
# operators of each kind by name; overloads with tensors and with numbers mean the same
_OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: _unary(name) for name in ("exp", "log", "tanh", "sigmoid", "relu", "abs", "erf")},
    "sin": _sine("sin"),
    "cos": _sine("cos"),
    "sign": _sign,
    "round": _round,
    "trunc": lambda c, x: _truncate(c, x, _round(c, x)),
    "floor": lambda c, x: _step_back(c, x, "greater", "subtract"),
    "ceil": lambda c, x: _step_back(c, x, "less", "add"),
    **{name: _binary(op) for name, op in _COMPARISONS.items()},
    **{name: _binary(name) for name in ("maximum", "minimum", "logical_and", "logical_or", "logical_xor")},
    "bitwise_and": _binary("logical_and"),
    "bitwise_or": _binary("logical_or"),
    "bitwise_xor": _binary("logical_xor"),
    **dict.fromkeys(("bitwise_not", "logical_not"), lambda c, x: c.emit("equal", x, 0.0)),
    "add": _add,
    "sub": lambda c, x, y, alpha=1: _add(c, x, y, alpha, -1.0),
    "rsub": lambda c, x, y, alpha=1: _add(c, y, x, alpha, -1.0),
    "mul": _multiply,
    "div": _divide,
    "neg": lambda c, x: c.emit("multiply", x, -1.0),
    "reciprocal": _unary("reciprocal"),
    "square": lambda c, x: c.emit("multiply", x, x),
    "sqrt": lambda c, x: c.emit("power", x, 0.5),
    "rsqrt": lambda c, x: c.emit("power", x, -0.5),
    "pow": _power,
    "exp2": lambda c, x: c.emit("exp", c.emit("multiply", x, math.log(2.0))),
    "log2": lambda c, x: c.emit("multiply", c.emit("log", x), 1.0 / math.log(2.0)),
    "log10": lambda c, x: c.emit("multiply", c.emit("log", x), 1.0 / math.log(10.0)),
    "clamp": _clamp,
    "clamp_min": lambda c, x, low: _clamp(c, x, low),
    "clamp_max": lambda c, x, high: _clamp(c, x, None, high),
    "where": lambda c, condition, x, y: c.emit("select", condition, x, y),
    "gelu": _gelu,
    "hypot": _hypot,
    "silu": lambda c, x: c.emit("multiply", x, c.emit("sigmoid", x)),
    "isnan": lambda c, x: c.emit("not_equal", x, x),
    "_to_copy": _cast,
    "copy": lambda c, x, y: c.emit("copy", y),
}
_FLOATING = (torch.float32, torch.bfloat16, torch.float16)
_INTEGERS = (torch.int32, torch.int64)
# of integers only truth values are computed with; others are converted
_KNOWN = (*_FLOATING, torch.bool)


def pointwise_rule(node: torch.fx.Node) -> Callable[..., Any] | None:
    """Return how a node is written as instructions, or ``None`` where it is not pointwise."""
    target: Any = node.target
    packet = getattr(target, "overloadpacket", None)
    if packet is None or getattr(target, "namespace", "") != "aten":
        return None
    if target._overloadname not in (
        "default",
        "Tensor",
        "Scalar",
        "self",
        "Tensor_Scalar",
        "Tensor_Tensor",
        "ScalarSelf",
        "ScalarOther",
        "Scalar_out",
    ):
        return None
    is_sum_of_truths = packet is _aten.add and node.meta["val"].dtype is torch.bool
    return _OPERATORS.get("logical_or" if is_sum_of_truths else packet.__name__)


def why_not_pointwise(node: torch.fx.Node) -> str:
    """Return why the device cannot compute a pointwise node; empty where it can."""
    dtypes = {value.dtype for x in (node, *node.all_input_nodes) if isinstance(value := x.meta["val"], torch.Tensor)}
    known = (*_KNOWN, *_INTEGERS) if node.target is _aten._to_copy.default else _KNOWN
    unknown = sorted(str(dtype) for dtype in dtypes if dtype not in known)
    if unknown:
        return f"{unknown[0]} has no arithmetic on the device"
    wanted: Any = {"dtype", "layout", "device", "pin_memory", "non_blocking", "memory_format", "alpha", "approximate"}
    others = sorted(set(node.kwargs) - wanted)
    return f"its option {others[0]} is unknown" if others else ""
