"""Arguments of transforms: lengths, axes, norms and dtypes, read once and checked before any work."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, SupportsIndex, TypeVar

import numpy as np
import torch
from torch import Tensor

from trnsci import ArgumentError, DtypeError, check
from trnsci.analogs import Different, Given, given, refuse_options, replaces

F = TypeVar("F", bound=Callable[..., Any])

Norm = Literal["backward", "ortho", "forward"]
Scale = Literal["none", "root", "full"]

_FORWARD: dict[str | None, Scale] = {None: "none", "backward": "none", "ortho": "root", "forward": "full"}
_INVERSE: dict[str | None, Scale] = {None: "full", "backward": "full", "ortho": "root", "forward": "none"}

REAL = (torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
HALF = (torch.float16, torch.bfloat16)
_COMPUTED = frozenset((*REAL, *COMPLEX))
_WHOLE = frozenset((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))

# options of NumPy's and SciPy's transforms that this library has under the same name
_OPTIONS = ("type", "n", "s", "axis", "axes", "norm", "orthogonalize")

# No memory holds more points.
_LONGEST = 1 << 48

COMPLEX_OF = {torch.float32: torch.complex64, torch.float64: torch.complex128}
REAL_OF = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def replaces_transforms(*modules: str) -> Callable[[F], F]:
    """Declare that a function replaces those of its name in modules of NumPy and SciPy."""

    def declare(function: F) -> F:
        def read_arrays(x: Any, **options: Any) -> Given:
            workers = options.pop("workers", None)
            if workers is not None and workers < 1:
                raise Different(f"workers={workers} is counted by theirs")
            refuse_options(**{name: value for name, value in options.items() if name not in _OPTIONS})
            kept = {name: value for name, value in options.items() if name in _OPTIONS}
            if "type" in options and np.iscomplexobj(x):
                raise Different("of complex numbers theirs transforms the two parts, each with other options")
            if options.get("s") is not None and (options.get("axes") is None or None in options["s"]):
                raise Different("lengths without axes are deprecated")
            return given(function, np.asarray(x), **kept)

        for module in modules:
            order = "K" if module == "numpy.fft" else "C"
            replaces(f"{module}.{function.__name__}", by=function, order=order)(read_arrays)
        return function

    return declare


def check_plan(op: str, plan: Any) -> Any:
    """Check that ``plan`` comes from `trnfft.plan`, and return it."""
    if not hasattr(plan, "serve"):
        got = plan if isinstance(plan, str | int | float) else type(plan).__name__
        raise DtypeError(op, "plan", got, "a plan from trnfft.plan")
    return plan


def scale_of(op: str, norm: str | None, inverse: bool) -> Scale:
    """Return what a ``norm`` divides by in one direction: nothing, the root of the length, or the length."""
    known = norm is None or isinstance(norm, str)
    scale = (_INVERSE if inverse else _FORWARD).get(norm) if known else None
    if scale is None:
        check.option(op, "norm", norm, ("backward", "ortho", "forward"))
        raise AssertionError("every accepted norm is in the table")
    return scale


def factor(scale: str, n: int) -> float:
    """Return the number a scale stands for."""
    return 1.0 if scale == "none" else 1 / n if scale == "full" else 1 / math.sqrt(n)


def check_strided(op: str, x: Any) -> Tensor:
    """Check that a tensor's elements lie in memory at strides: neither sparse, nor nested, nor quantized."""
    if not isinstance(x, Tensor):
        check.tensor(op, x=x)
    if x.is_nested or x.is_quantized or x.layout is not torch.strided:
        got = "a nested tensor" if x.is_nested else "a quantized tensor" if x.is_quantized else x.layout
        raise DtypeError(op, "layout of x", got, "torch.strided", hint="Make it dense first")
    return x


def numeric(op: str, x: Any) -> Tensor:
    """Return a tensor transforms accept: halves become float32 and integers float64, which keeps every value."""
    if type(x) is Tensor and x.dtype in _COMPUTED and x.layout is torch.strided and not x.is_nested:
        # most calls, which need no other question
        return x
    x = check_strided(op, x)
    dtype = x.dtype
    if dtype in _COMPUTED:
        return x
    if dtype in HALF:
        return x.float()
    if dtype is torch.complex32:
        return x.to(torch.complex64)
    if dtype.is_floating_point or dtype.is_complex:
        raise DtypeError(op, "dtype of x", dtype, "float16, bfloat16, float32 or float64")
    return x.double()


def real(op: str, x: Any) -> Tensor:
    """Return a tensor a real transform accepts."""
    x = numeric(op, x)
    if x.is_complex():
        raise DtypeError(op, "dtype of x", x.dtype, "a real dtype", hint="Use fft, or pass x.real")
    return x


def as_complex(x: Tensor) -> Tensor:
    """Add a zero imaginary part where there is none."""
    return x if x.is_complex() else x.to(COMPLEX_OF[x.dtype])


def axis_of(op: str, dim: Any, axis: Any, ndim: int) -> int:
    """Return one axis as a position from 0; ``axis`` is NumPy's name for ``dim`` and overrides its default."""
    if axis is not None:
        check.refuse(dim != -1, op, "dim and axis", (dim, axis), "one of them, not both")
        dim = axis
    if type(dim) is not int:
        dim = integer(op, "dim", dim)
    if not -ndim <= dim < ndim:
        hint = "A 0-d tensor has no axis to transform" if ndim == 0 else ""
        raise ArgumentError(op, "dim", dim, f"an axis of a tensor with {ndim} dimensions", hint=hint)
    return dim % ndim


def integer(op: str, argument: str, value: Any) -> int:
    """Return an integer, or something that counts as one: NumPy's, or an element of an integer tensor."""
    whole = not (isinstance(value, Tensor) and (value.ndim or value.dtype not in _WHOLE))
    if type(value) is int or (whole and isinstance(value, SupportsIndex) and not isinstance(value, bool | np.ndarray)):
        result: int = value if type(value) is int else value.__index__()
        check.refuse(abs(result) > _LONGEST, op, argument, result, "at most 2**48")
        return result
    raise DtypeError(op, argument, type(value), "an integer")


def integers(op: str, argument: str, values: Any) -> list[Any]:
    """Return one integer or several as a list; each is checked where it is read."""
    if isinstance(values, int):
        return [values]
    if not isinstance(values, Iterable) or isinstance(values, str) or getattr(values, "ndim", 1) == 0:
        raise DtypeError(op, argument, type(values), "an integer or a sequence of them")
    return list(values)


def dims_of(op: str, dim: Any, axes: Any, ndim: int) -> list[int]:
    """Return axes as positions from 0, by default all of them; ``axes`` is NumPy's name for ``dim``."""
    if dim is not None and axes is not None:
        raise ArgumentError(op, "dim and axes", (dim, axes), "one of them, not both")
    wanted = axes if dim is None else dim
    return list(range(ndim)) if wanted is None else [axis_of(op, d, None, ndim) for d in integers(op, "dim", wanted)]


def length_of(op: str, n: Any, default: int, argument: str = "n") -> int:
    """Return a transform's length: at least 1."""
    length = default if n is None else integer(op, argument, n)
    if length < 1:
        hint = "Pass n= to pad" if n is None else ""
        raise ArgumentError(op, argument, length, "at least 1 point", hint=hint)
    return length


def axes_of(op: str, s: Any, dim: Any, axes: Any, shape: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return axes and lengths of an n-D transform.

    Args:
        op: for errors.
        s: lengths, or ``None``; -1 keeps the length an axis has.
        dim: axes, or ``None`` for all of them (the last ``len(s)`` when ``s`` is given).
        axes: NumPy's name for ``dim``.
        shape: of the operand.
    """
    ndim = len(shape)
    if s is None and axes is None and (dim is None or dim == (-2, -1)) and ndim > 1 and 0 not in shape:
        # the calls people make most, without the questions below
        dims = list(range(ndim)) if dim is None else [ndim - 2, ndim - 1]
        return dims, [shape[axis] for axis in dims]
    dims = dims_of(op, dim, axes, ndim)
    sizes = None if s is None else integers(op, "s", s)
    if dim is None and axes is None and sizes is not None:
        expected = f"at most {ndim} lengths for a tensor of shape {tuple(shape)}"
        check.refuse(len(sizes) > ndim, op, "s", tuple(sizes), expected)
        dims = dims[ndim - len(sizes) :]
    check.refuse(len(set(dims)) != len(dims), op, "dim", tuple(dims), "axes that differ")
    if sizes is None:
        sizes = [-1] * len(dims)
    check.refuse(len(sizes) != len(dims), op, "number of axes", {"s": len(sizes), "dim": len(dims)})
    lengths = []
    for size, axis in zip(sizes, dims, strict=True):
        given = None if isinstance(size, int) and size == -1 else size
        lengths.append(length_of(op, given, shape[axis], "s" if given is not None else f"length of axis {axis}"))
    return dims, lengths


def resize_axes(x: Tensor, dims: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """Cut axes to these lengths, or pad them with zeros at their ends."""
    if len(dims) == 1 and x.shape[dims[0]] == lengths[0]:
        return x
    pad = [0, 0] * x.ndim
    for dim, length in zip(dims, lengths, strict=True):
        x = x.narrow(dim, 0, length) if x.shape[dim] > length else x
        pad[-1 - 2 * dim] = length - x.shape[dim]
    return torch.constant_pad_nd(x, pad) if any(pad) else x
