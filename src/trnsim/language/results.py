"""Results of the functions of ``nki.language``: new tiles, result dtypes, and errors that say where they happened."""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from trnsim.calls import is_mismatch, no_tensor, wrong_call
from trnsim.errors import KernelError
from trnsim.refusals import refuse
from trnsim.session import current, require_session
from trnsim.tensors.dtypes import (
    FP8,
    DType,
    ExtraDtype,
    as_dtype,
    bfloat16,
    bool_,
    float16,
    float32,
    same_dtype,
    tfloat32,
    uint8,
)
from trnsim.tensors.objects import MemoryRegion
from trnsim.tensors.tensor import NkiTensor
from trnsim.versions import GONE, SINCE, check_version

F = TypeVar("F", bound=Callable[..., Any])
# module of nki.language: its functions
_NAMES: dict[str, list[str]] = {}


def function(fn: F, name: str = "", text: str = "") -> F:
    """Make ``fn`` a function of ``nki.language``: its errors say which kernel, line and function they come from.

    ``name`` and ``text`` are its name and docstring, where it has none of its own.
    """
    if name:
        fn.__name__ = fn.__qualname__ = name
        fn.__doc__ = text
    plain = fn.__name__
    label = f"nl.{plain}"
    versioned = plain in SINCE or plain in GONE
    _NAMES.setdefault(fn.__module__, []).append(plain)

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if versioned:
                check_version(plain, require_session(label).nki)
            return fn(*args, **kwargs)
        except KernelError as error:
            s = current()
            if s is not None:
                error.locate(s, label, s.line())
            raise
        except TypeError as error:
            s = current()
            if s is not None and is_mismatch(error):
                raise wrong_call(error, fn, label, inspect.signature(fn), s) from None
            raise

    return call  # type: ignore[return-value]


def export_functions(module: str, *operators: str) -> None:
    """Let a star import of a module of ``nki.language`` give its functions and operator constants, and nothing else."""
    sys.modules[module].__dict__["__all__"] = [*_NAMES[module], *operators]


def tile(shape: tuple[int, ...], dtype: Any, buffer: MemoryRegion = MemoryRegion.sbuf) -> NkiTensor:
    """Return a fresh on-chip tile."""
    return require_session("nki.language").allocate(shape, dtype, buffer)


def as_tile(x: Any, role: str) -> NkiTensor:
    """Return ``x``, which must be a tensor."""
    if not isinstance(x, NkiTensor):
        require_session("nki.language")
        raise no_tensor(x, role, "tile", "load the data with nl.load first")
    return x


def map_tile(instruction: Any, x: Any, dtype: Any, *options: Any, **more: Any) -> NkiTensor:
    """Return a new tile of ``x``'s shape, of ``dtype`` or its own, that ``instruction`` computes from ``x``."""
    x = as_tile(x, "x")
    dst = tile(x.shape, dtype_or(dtype, x.dtype))
    instruction(dst, x, *options, **more)
    return dst


def dtype_or(dtype: Any, default: DType) -> DType:
    """Return the dtype asked for, else ``default``."""
    return default if dtype is None else as_dtype(dtype)


def promote(a: DType, b: DType) -> DType:
    """Return the common dtype of ``a`` and ``b``: floats before integers, then the wider one."""
    if same_dtype(a, b):
        return a
    float_a, float_b = _is_float(a), _is_float(b)
    if float_a != float_b:
        return a if float_a else b
    if float_a:
        return _wider_float(a, b)
    whole: list[Any] = [uint8 if d == bool_ else d for d in (a, b)]
    common = np.result_type(*whole)
    # int32 with uint32 would need 64 bits, which hardware lacks
    return common if common.itemsize <= 4 else float32


def _is_float(d: DType) -> bool:
    return isinstance(d, ExtraDtype) or d in FP8 or d in (float16, bfloat16, float32) or d.kind not in "iub"


def _wider_float(a: DType, b: DType) -> DType:
    for wide in (float32, tfloat32):
        if same_dtype(a, wide) or same_dtype(b, wide):
            return wide
    halves = {d for d in (a, b) if d in (float16, bfloat16)}
    if len(halves) == 2:
        return float32
    return halves.pop() if halves else bfloat16


class Operator:
    """An operator constant that has no function of its own: ``nl.average``, ``nl.prelu``, ``nl.bypass``."""

    __slots__ = ("__name__", "hint")

    def __init__(self, name: str, hint: str) -> None:
        self.__name__ = name
        self.hint = hint

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise refuse("operator-constant", got=self.__name__, hint=self.hint)

    def __repr__(self) -> str:
        return f"nl.{self.__name__}"
