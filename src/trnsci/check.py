"""Argument checks: each raises a typed error with both values, or returns quietly. Public functions start with them."""

import functools
import sys
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from trnsci.errors import ArgumentError, DtypeError, TrnError, UnsupportedError
from trnsci.torch_internals import FakeTensor, is_batchedtensor, is_functorch_wrapped_tensor

P = ParamSpec("P")
T = TypeVar("T")
# Devices that were asked for, and are there.
_THERE: dict[str | torch.device, torch.device] = {}

FLOATING = frozenset((torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128))


def hands_on(*others: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function that hands its arguments on: errors of the functions named bear its own name."""

    def decorate(fn: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(fn)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return fn(*args, **kwargs)
            except TrnError as error:
                if getattr(error, "op", None) in others:
                    error.op = fn.__name__  # type: ignore[attr-defined]
                raise

        return wrapper

    return decorate


def tensor(op: str, **values: Any) -> None:
    """Refuse what is no tensor, and sharded tensors: functions with a sharded algorithm never pass one here."""
    for name, value in values.items():
        if not isinstance(value, Tensor):
            expected, hint = "a tensor or an array", "Wrap lists and scalars with torch.as_tensor or numpy.asarray"
            if hasattr(value, "__array__"):  # who takes arrays has converted them by now
                expected, hint = "a tensor", "Convert it with torch.from_numpy"
            raise DtypeError(op, name, type(value), expected, hint=hint)
        whole(op, **{name: value})


def pattern(op: str, indptr: Any, indices: Any, shape: tuple[int, ...]) -> None:
    """Refuse compressed rows that leave their arrays: their owner may have written to them, and loops trust them."""
    low, high = int(indices.min(initial=0)), int(indices.max(initial=-1))
    rising = len(indptr) == shape[0] + 1 and indptr[0] == 0 and bool((indptr[1:] >= indptr[:-1]).all())
    if low < 0 or high >= shape[1] or not rising or indptr[-1] > len(indices):
        got = f"indices from {low} to {high} and pointers up to {indptr.max(initial=0)}"
        expected = f"indices from 0 to {shape[1] - 1}, and {shape[0] + 1} pointers that rise from 0 to {len(indices)}"
        raise ArgumentError(op, "pattern", got, expected)


def dense(op: str, **values: Any) -> None:
    """Refuse what is no tensor that stores all its elements: sparse and nested ones too."""
    for name, value in values.items():
        tensor(op, **{name: value})
        if value.layout is torch.strided and not value.is_nested:
            continue
        kind, hint = f"a tensor of layout {value.layout}", "Call a function for sparse matrices, or .to_dense()"
        if value.is_nested:
            kind, hint = "a nested tensor", "It has no one shape; pass its components"
        raise DtypeError(op, name, kind, "a dense tensor", hint=hint)


def data(op: str, *, wrapped: bool = False, **values: Any) -> None:
    """Operands have data to look at, for a function whose steps depend on it: not on meta, nor fake, nor under vmap.

    ``wrapped`` says that the function can look through what ``torch.func.grad`` wraps around a tensor.
    """
    hidden = is_batchedtensor if wrapped else is_functorch_wrapped_tensor
    for name, value in values.items():
        if isinstance(value, Tensor) and (value.is_meta or isinstance(value, FakeTensor) or hidden(value)):
            reason = f"its steps depend on the data of {name}, which has none to look at"
            hint = "Call it on tensors with data: plans, vmap and torch.compile show it shapes only"
            raise UnsupportedError(op, [("any", reason)], hint=hint)


def whole(op: str, **values: Any) -> None:
    """Refuse sharded tensors. Functions with a sharded algorithm never pass one here."""
    sharding = sys.modules.get("torch.distributed.tensor")
    for name, value in values.items():
        if sharding is not None and isinstance(value, sharding.DTensor):
            reasons = [("distributed", f"it has no sharded algorithm, and {name} is sharded over ranks")]
            hint = "Bring it together with trnsci.distributed.gather, or work on parts with .to_local()"
            raise UnsupportedError(op, reasons, hint=hint)


def floating(op: str, **values: Any) -> torch.dtype:
    """Refuse values that are not real or complex floating-point tensors of one dtype. Return that dtype."""
    first: torch.dtype | None = None
    for name, value in values.items():
        if type(value) is not Tensor or value.layout is not torch.strided or value.is_nested:
            dense(op, **{name: value})
        dtype = value.dtype
        if dtype is first:
            continue
        if dtype not in FLOATING:
            short = dtype.is_floating_point or dtype.is_complex
            raise DtypeError(
                op=op,
                argument=f"dtype of {name}",
                got=dtype,
                expected="float16, bfloat16, float32, float64, complex64 or complex128"
                if short
                else "a real or complex floating-point dtype",
                hint=f"Convert {name} to bfloat16"
                if short
                else f"Convert {name} to float64, which keeps integers up to 2**53 exact",
            )
        if first is not None:
            hint = "Convert one side; nothing is promoted silently"
            raise DtypeError(op, "dtype", {n: v.dtype for n, v in values.items()}, hint=hint)
        first = dtype
    assert first is not None
    return first


def refuse(wrong: object, op: str, argument: str, got: object, expected: str = "", *, hint: str = "") -> None:
    """Refuse an argument with which something is ``wrong``; what is got and expected is computed in any case."""
    if wrong:
        raise ArgumentError(op, argument, got, expected, hint=hint)


def same_device(op: str, **values: Tensor) -> None:
    """Refuse tensors on different devices."""
    first: torch.device | None = None
    for value in values.values():
        device = value.device
        if first is None:
            first = device
        elif device != first:
            devices = {name: value.device for name, value in values.items()}
            raise ArgumentError(op, "device", devices, hint="Move one side with .to(device)")


def equal(op: str, dimension: str, hint: str = "", **sizes: Any) -> None:
    """Refuse sizes that differ: ``check.equal("gemm", "K", a=3, b=4)`` says that K differs and shows both."""
    first, *rest = sizes.values()
    # Symbolic sizes of traced calls compare but do not hash.
    for size in rest:
        if size != first:
            raise ArgumentError(op, dimension, sizes, hint=hint)


def ndim(op: str, at_least: int, **values: Tensor) -> None:
    """Refuse tensors of fewer dimensions."""
    for name, value in values.items():
        if value.ndim < at_least:
            raise ArgumentError(op, f"shape of {name}", tuple(value.shape), f"at least {at_least} dimensions")


def option(op: str, argument: str, value: T, accepted: Iterable[T]) -> T:
    """Return ``value``, which must be one of those accepted."""
    choices = tuple(accepted)
    if (type(value) is not int and hasattr(value, "ndim")) or value not in choices:
        raise ArgumentError(op, argument, value, "one of " + ", ".join(map(repr, choices)))
    return value


def kind(op: str, argument: str, value: Any, accepted: Any, expected: str) -> None:
    """Refuse a value that is no instance of those types."""
    if not isinstance(value, accepted):
        raise DtypeError(op, argument, type(value), expected)


def sequence(op: str, argument: str, value: Any) -> list[Any]:
    """Return the items of a list, a tuple or another iterable that is no text."""
    if not isinstance(value, Iterable) or isinstance(value, str | dict) or getattr(value, "ndim", 1) == 0:
        raise DtypeError(op, argument, type(value), "a sequence")
    return list(value)


def device(op: str, value: Any) -> torch.device:
    """Return a device by its name, after a check that it has memory here."""
    named = type(value) in (str, torch.device)
    if named and value in _THERE:
        return _THERE[value]
    try:
        named_device = torch.device(value)
        if named_device.type not in ("cpu", "meta"):
            torch.empty(0, device=named_device, dtype=torch.float32)
    except (RuntimeError, TypeError, ValueError, OverflowError, AssertionError) as error:
        said = str(error).partition("\n")[0]
        expected = "a device torch knows and this machine has, as 'cpu' or 'cuda:0'"
        raise DtypeError(op, "device", value, expected, hint=f"torch says: {said}") from None
    if named:
        _THERE[value] = named_device
    return named_device


def flag(op: str, **values: Any) -> None:
    """Refuse what is neither true nor false: a text, or an array, which has no one truth."""
    for name, value in values.items():
        if type(value) is not bool and not (type(value).__module__ == "numpy" and type(value).__name__ == "bool"):
            raise DtypeError(op, name, type(value), "True or False")


def integer(op: str, argument: str, value: Any, at_least: int | None = None, at_most: int | None = None) -> int:
    """Check that a value is an integer, NumPy's included, within limits that belong to it, and return it."""
    if isinstance(value, bool) or not isinstance(value, int | Integral):
        raise DtypeError(op, argument, type(value), "an integer")
    result = int(value)
    if (at_least is not None and result < at_least) or (at_most is not None and result > at_most):
        expected = f"at least {at_least}" if at_most is None else f"{at_least} to {_show_limit(at_most)}"
        raise ArgumentError(op, argument, value, expected)
    return result


def _show_limit(limit: int) -> str:
    """Return a limit as people write it: ``2**64 - 1``."""
    power = limit.bit_length()
    exact = {1 << power - 1: f"2**{power - 1}", (1 << power) - 1: f"2**{power} - 1"} if power > 16 else {}
    return exact.get(limit, str(limit))


def number(op: str, argument: str, value: Any) -> int | float | complex:
    """Return a Python number, or a 0-d tensor without gradient, as a Python number."""
    if isinstance(value, int | float | complex):
        # beyond 64 bits torch takes no integer
        return value if not isinstance(value, int) or -(2**63) <= value < 2**63 else _round_integer(op, argument, value)
    if isinstance(value, Tensor) and value.ndim == 0 and value.layout == torch.strided:
        if value.requires_grad:
            got = "a tensor that requires grad"
            hint = "Multiply the result by the tensor to differentiate with respect to it"
            raise ArgumentError(op, argument, got, "a number", hint=hint)
        scalar: int | float | complex = value.item()
        return scalar
    raise DtypeError(op, argument, type(value), "a number")


def _round_integer(op: str, argument: str, value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        got = f"an integer of {value.bit_length()} bits"
        raise ArgumentError(op, argument, got, "a number float64 holds") from None


def real(op: str, argument: str, value: Any) -> float:
    """Read a real number that is not NaN: tolerances, shifts, ends of intervals."""
    scalar = value if type(value) is float else number(op, argument, value)
    if isinstance(scalar, complex) or scalar != scalar:
        raise DtypeError(op, argument, scalar, "a real number")
    return scalar


def coefficient(op: str, argument: str, value: Any, dtype: torch.dtype) -> complex:
    """Read alpha, beta and the like: a number, real unless the operands are complex, whole where they are integers."""
    if type(value) is float and dtype.is_floating_point:
        return value
    scalar = number(op, argument, value)
    if dtype.is_complex or not isinstance(scalar, complex if dtype.is_floating_point else complex | float):
        return scalar
    if isinstance(scalar, float) and (dtype.is_floating_point or scalar.is_integer()):
        return scalar if dtype.is_floating_point else int(scalar)
    kind = "real" if dtype.is_floating_point else "whole"
    expected = f"a {kind} number, because the operands are {str(dtype).removeprefix('torch.')}"
    raise DtypeError(op, argument, scalar, expected)


def broadcast(op: str, **shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape of leading (batch) dimensions under NumPy's rules."""
    common = broadcast_shape(*shapes.values())
    if common is None:
        got = {name: tuple(shape) for name, shape in shapes.items()}
        raise ArgumentError(op, "batch shape", got, "shapes that broadcast against each other")
    return common


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return what shapes broadcast to under NumPy's rules, or ``None`` where they do not."""
    if all(shape == shapes[0] for shape in shapes):
        return tuple(shapes[0]) if shapes else ()
    common = [1] * max([0, *[len(shape) for shape in shapes]])
    for shape in shapes:
        for axis in range(-len(shape), 0):
            size = shape[axis]
            if size != 1 and size != common[axis]:
                if common[axis] != 1:
                    return None
                common[axis] = size
    return tuple(common)


def out(op: str, target: Any, *, shape: tuple[int, ...], dtype: torch.dtype, **inputs: Tensor | None) -> None:
    """Refuse a ``target`` that is no tensor of that shape and dtype, or shares memory with an input."""
    dense(op, out=target)
    if tuple(target.shape) != shape:
        raise ArgumentError(op, "shape of out", tuple(target.shape), str(shape))
    if target.dtype != dtype:
        raise DtypeError(op, "dtype of out", target.dtype, str(dtype).removeprefix("torch."))
    for name, value in inputs.items():
        if value is None:
            continue
        if value.device != target.device:
            raise ArgumentError(op, "device", {name: value.device, "out": target.device})
        if overlap(target, value):
            got = f"memory shared with {name}"
            raise ArgumentError(op, "out", got, "memory of its own", hint=f"Omit out=, or pass a copy of {name}")
        if torch.is_grad_enabled() and (value.requires_grad or target.requires_grad):
            got = f"a tensor while {name if value.requires_grad else 'out'} requires grad"
            hint = "Writing into out= cannot be differentiated; omit it or use torch.no_grad()"
            raise ArgumentError(op, "out", got, "None", hint=hint)
    if target.is_contiguous():
        return
    reach = 0
    for stride, size in sorted(zip(target.stride(), target.shape, strict=True)) if target.numel() else ():
        if size > 1 and stride <= reach:
            got = "a tensor whose elements share memory, such as an expanded one"
            raise ArgumentError(op, "out", got, "distinct memory for every element")
        reach += stride * (size - 1)


def overlap(x: Tensor, y: Tensor) -> bool:
    """Return whether the address ranges of two tensors meet. Interleaved views count as overlapping."""
    if is_dynamo_compiling() or (x.device.type == "neuron" and x.data_ptr() == 0):
        # These tensors have no addresses, and results are copied into ``out`` when all of them are computed.
        return x is y
    if x.device != y.device or x.numel() == 0 or y.numel() == 0 or x.is_meta:
        return False
    (x_lo, x_hi), (y_lo, y_hi) = _extent(x), _extent(y)
    return x_lo < y_hi and y_lo < x_hi


def _extent(x: Tensor) -> tuple[int, int]:
    last = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    start = x.data_ptr()
    return start, start + (last + 1) * x.element_size()
