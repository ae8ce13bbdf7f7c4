"""Arrays at the door: NumPy in, NumPy out; torch in, torch out; anything else with ``__dlpack__`` is taken as torch."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, ParamSpec, TypeAlias, TypeVar

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from trnsci import check
from trnsci.backends import inside
from trnsci.errors import ArgumentError, DtypeError, NumericalError
from trnsci.torch_internals import is_functorch_wrapped_tensor

# What stands for numbers: a tensor, an array, a number, lists of them.
Array: TypeAlias = np.ndarray[Any, Any]
Numbers: TypeAlias = "Tensor | Array | complex | Sequence[Numbers]"

P = ParamSpec("P")
R = TypeVar("R")

# Types that pass through untouched; a call made of these alone pays for the look-ups and nothing else.
_NATIVE: set[type] = {Tensor, torch.nn.Parameter, float, int, bool, str, complex, NoneType, torch.dtype}

# Dtypes that need no second look: of arrays in this machine's byte order, and of tensors that are never conjugate.
_SHARED = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128", "int32", "int64")))
_REAL = frozenset((torch.float32, torch.float64, torch.int32, torch.int64))


def pass_through(kind: type) -> None:
    """Let values of a type pass every `array_function` as they are: it holds tensors and never arrays."""
    _NATIVE.add(kind)


class HalfPrecision(DtypeError):
    """Operands of half precision where a function has none: `array_function` calls it again in float32."""


class Answer:
    """Base of dataclasses that hold results: their tensors become NumPy arrays where the operands were."""

    __slots__ = ()


def spelt_out(fn: Callable[..., Any]) -> frozenset[str] | None:
    """Let the signature of a function list its ``**options: Unpack[Options]`` one by one; return all its keywords."""
    if not fn.__code__.co_flags & inspect.CO_VARKEYWORDS:
        # most functions: a signature would cost every import
        return None
    signature = inspect.signature(fn)
    *own, last = signature.parameters.values()
    if not str(last.annotation).startswith("Unpack["):
        return None
    options = inspect.unwrap(fn).__globals__[str(last.annotation)[len("Unpack[") : -1]].__annotations__
    texts = {name: getattr(hint, "__forward_arg__", hint) for name, hint in options.items()}
    named = [inspect.Parameter(x, last.KEYWORD_ONLY, default=None, annotation=text) for x, text in texts.items()]
    fn.__signature__ = signature.replace(parameters=[*own, *named])  # type: ignore[attr-defined]
    return frozenset(x.name for x in (*own, *named) if x.kind is not x.VAR_POSITIONAL)


def array_function(fn: Callable[P, R]) -> Callable[P, R]:
    """Let a function written for tensors take NumPy arrays and DLPack objects, and answer in kind.

    The result is NumPy when arrays were NumPy and none was a tensor. An ``out=`` array is written in place. What other
    libraries do for the function follows the settings of its own; see `trnsci.backends.inside`. A library that calls no
    other says ``__standalone__ = True`` before the imports of its ``__init__``, and saves its functions the look.
    """
    library = fn.__module__.partition(".")[0]
    known = spelt_out(fn)
    if not getattr(sys.modules.get(library), "__standalone__", False):
        fn = inside(library)(fn)

    @functools.wraps(fn)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs and known is not None and not known.issuperset(kwargs):
            raise TypeError(f"{fn.__name__}() got an unexpected keyword argument {min(kwargs.keys() - known)!r}")
        try:
            for value in args:
                if type(value) not in _NATIVE:
                    return _call_with_tensors(fn, args, kwargs)
            if kwargs and not _NATIVE.issuperset(map(type, kwargs.values())):
                return _call_with_tensors(fn, args, kwargs)
            return fn(*args, **kwargs)
        except HalfPrecision as error:
            refused = error
        except TypeError:
            _require_arguments(fn, args, kwargs)
            raise
        return _call_in_float32(fn, args, kwargs, refused)

    return wrapper


_HALVES = (torch.float16, torch.bfloat16)


def _call_in_float32(
    fn: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any], refused: HalfPrecision
) -> Any:
    """Call a function whose operands are all of one half precision, and round its results to that once."""
    operands: list[Any] = []
    _map_tensors(operands.append, (args, kwargs))
    kinds = {x.dtype for x in map(_as_tensor, operands) if isinstance(x, Tensor) and x.is_floating_point()}
    if len(kinds) != 1 or not kinds <= {*_HALVES}:
        raise refused
    (half,), out = kinds, kwargs.pop("out", None)
    arrays = not any(isinstance(x, Tensor) for x in operands)

    def widen(x: Any) -> Any:
        x = _as_tensor(x)
        return x.float() if isinstance(x, Tensor) and x.dtype == half else x

    def narrow(x: Any) -> Any:
        if not isinstance(x, Tensor) or x.dtype != torch.float32:
            return x
        rounded = x.to(half)
        hidden = x.is_meta or torch.compiler.is_compiling() or is_functorch_wrapped_tensor(x)
        if not hidden and not bool((rounded.isfinite() | ~x.isfinite()).all()):
            raise NumericalError(op=fn.__name__, message=f"the result overflows {half}", hint="Convert to float32")
        return rounded

    result = _map_tensors(narrow, fn(*_map_tensors(widen, args), **_map_tensors(widen, kwargs)))
    if out is None:
        return _to_numpy_nested(result) if arrays else result
    targets, results = ([x] if isinstance(x, Tensor | np.ndarray) else list(x) for x in (out, result))
    for target, value in zip(map(_as_tensor, targets), results, strict=True):
        check.out(fn.__name__, target, shape=tuple(value.shape), dtype=value.dtype)
        target.copy_(value)
    return out


def _as_tensor(x: Any) -> Any:
    return from_numpy(x) if isinstance(x, np.ndarray) and x.dtype.kind in "fV" else x


def _require_arguments(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise with the signature, and with an example, where a call lacks an argument or has another."""
    signature = inspect.signature(fn)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        names = [f"{x.name}=..." if x.kind is x.KEYWORD_ONLY else x.name for x in signature.parameters.values()]
        _, _, example = (fn.__doc__ or "").partition("Example:")
        shown = next((line for line in example.splitlines() if line.strip().startswith(">>>")), "").strip("> ")
        spelled = f"{fn.__name__}({', '.join(names)})" + f", for example {shown}" * bool(shown)
        raise TypeError(f"{fn.__name__}() {error}. Call it as {spelled}") from None


def like(model: Callable[P, object], run: Callable[..., R]) -> Callable[[Callable[..., Any]], Callable[P, R]]:
    """Decorate the name and docstring of a function: it has the arguments of ``model`` and passes them to ``run``."""
    code = inspect.unwrap(model).__code__
    known = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

    def attach(described: Callable[..., Any]) -> Callable[P, R]:
        def function(*args: P.args, **kwargs: P.kwargs) -> R:
            # what ``run`` takes beyond them is not for callers
            if kwargs and not known.issuperset(kwargs):
                name = min(kwargs.keys() - known)
                raise TypeError(f"{described.__name__}() got an unexpected keyword argument {name!r}")
            return run(*args, **kwargs)

        functools.update_wrapper(function, described).__wrapped__ = model
        return array_function(function)

    return attach


def _call_with_tensors(fn: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
    if any_sharded([*args, *kwargs.values()]):
        from trnsci.distributed.calls import dispatch

        sharded: R = dispatch(fn, args, kwargs)
        return sharded
    seen: set[type] = set()
    out = kwargs.get("out")
    outs = out if isinstance(out, list | tuple) else [out]
    if any(isinstance(x, np.ndarray) and not x.flags.writeable for x in outs):
        raise ArgumentError(fn.__name__, "out", "a read-only array", "one that can be written")
    try:
        converted = [_to_torch(value, seen) for value in args]
        named = {name: _to_torch(value, seen) for name, value in kwargs.items()}
    except DtypeError as error:
        raise DtypeError(fn.__name__, "dtype", error.got, error.expected) from None
    result = fn(*converted, **named)
    for array, tensor in zip(outs, named["out"] if outs is out else [named.get("out")], strict=True):
        # Where the array's memory could not be shared with torch, a copy was written.
        if isinstance(array, np.ndarray) and not np.may_share_memory(array, to_numpy(tensor)):
            array[...] = to_numpy(tensor)
    if np.ndarray not in seen or Tensor in seen:
        return result
    if isinstance(out, np.ndarray):
        return out  # type: ignore[return-value]
    return type(result)(*outs) if outs is out else _to_numpy_nested(result)


def any_sharded(values: list[Any], *, layouts: bool = False) -> bool:
    """Return whether ``values``, or lists in them, contain a sharded array; with ``layouts``, or a layout of one."""
    # these types exist only in programs that have imported them
    tensors, parts = (sys.modules.get(name) for name in ("torch.distributed.tensor", "trnsci.distributed.parts"))
    return (tensors is not None and _contains(tensors.DTensor, values)) or (
        layouts and parts is not None and _contains(parts.Layout, values)
    )


def _contains(kind: type, value: Any) -> bool:
    return isinstance(value, kind) or (isinstance(value, list | tuple) and any(_contains(kind, x) for x in value))


def _to_torch(value: Any, seen: set[type]) -> Any:
    if isinstance(value, Tensor):
        seen.add(Tensor)
        return value
    if type(value) in _NATIVE:
        return value
    if isinstance(value, np.ndarray):
        seen.add(np.ndarray)
        return from_numpy(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list):
        return [_to_torch(item, seen) for item in value]
    if type(value) is tuple or hasattr(value, "_fields"):
        items = [_to_torch(item, seen) for item in value]
        return tuple(items) if type(value) is tuple else type(value)(*items)
    if type(value).__module__.startswith("scipy.sparse"):
        # converted where a function takes sparse matrices; dense results are NumPy's, as SciPy's are
        seen.add(np.ndarray)
        return value
    if hasattr(value, "__dlpack__"):
        seen.add(Tensor)
        return torch.utils.dlpack.from_dlpack(value)
    return value


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor on the memory of an array; read-only or misaligned ones and negative strides are copied."""
    # An axis of one element may have any stride.
    if array.dtype in _SHARED and array.flags.carray and min(array.shape, default=0) > 1:
        return torch.from_numpy(array)
    if array.dtype == ml_dtypes.bfloat16:
        return from_numpy(array.view(np.int16)).view(torch.bfloat16)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.behaved or any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = array.copy()
    try:
        return torch.from_numpy(array)
    except TypeError:
        raise DtypeError("from_numpy", "dtype", array.dtype, "a dtype PyTorch has") from None


def to_numpy(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return the tensor's data as NumPy; bfloat16 becomes ``ml_dtypes.bfloat16``."""
    if tensor.dtype in _REAL and tensor.is_cpu and not tensor.requires_grad and not tensor.is_neg():
        return tensor.numpy()
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def _to_numpy_nested(value: Any) -> Any:
    return _map_tensors(lambda x: to_numpy(x) if isinstance(x, Tensor) else x, value)


def _map_tensors(change: Callable[[Any], Any], value: Any) -> Any:
    """Change the values inside tuples, lists, dictionaries and answers."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map_tensors(change, x) for x in value))
    if isinstance(value, list | tuple):
        return type(value)(_map_tensors(change, x) for x in value)
    if isinstance(value, dict):
        return {name: _map_tensors(change, x) for name, x in value.items()}
    if isinstance(value, Answer):
        fields = dataclasses.fields(value)  # type: ignore[arg-type]
        converted = {field.name: _map_tensors(change, getattr(value, field.name)) for field in fields}
        return dataclasses.replace(value, **converted)  # type: ignore[type-var]
    return change(value)


def split_complex(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Return the real and imaginary planes, contiguous: how complex numbers travel to a device that has none."""
    return tensor.real.contiguous(), tensor.imag.contiguous()


def merge_complex(real: Tensor, imag: Tensor) -> Tensor:
    """Return the complex tensor with these planes."""
    return torch.complex(real, imag)
