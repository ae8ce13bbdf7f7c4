"""Calls of the compiled loops: the jobs along all axes of a tensor, made ready once and run with addresses."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

from trnfft.arguments import factor
from trnfft.jobs import SOURCE, Ends, Job, job, suffix
from trnsci import native

_I, _P, _D = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double
# Bytes of planes that go through all axes together: half of the cache a core has for itself.
_TOGETHER = 1 << 19
_TYPES = ("", "type1", "type2", "type3", "type4")

# Points of a row from which the loops pay; shorter rows need company.
LEAST = 256
# Points of a call from which they pay.
POINTS = 1024


class _Step(ctypes.Structure):
    _fields_ = (("job", _P), *((name, _I) for name in ("outer", "inner", "columns")), ("scale", _D))


class _Call(ctypes.Structure):
    _fields_ = (*((name, _I) for name in ("count", "planes", "group", "take", "give", "aside")), ("steps", _P))


@functools.cache
def declared(name: str, argtypes: tuple[Any, ...]) -> Any:
    """A function of the loops that returns an int; declared once, because others may be calling it."""
    library = native.load(SOURCE)
    assert library is not None
    function = getattr(library, name)
    function.argtypes, function.restype = argtypes, ctypes.c_int
    return function


class Call:
    """A transform of a contiguous tensor: ``call.run(call.address, x, im, y, threads)``, all but the last addresses.

    ``im`` is that of the second plane of a complex operand in two, else ``None``. ``shape`` is that of the result. What
    comes back is not 0 where memory did not suffice.
    """

    __slots__ = ("_keep", "address", "run", "shape")

    def __init__(self, made: _Call, shape: tuple[int, ...], dtype: torch.dtype, keep: Sequence[Any]) -> None:
        self.shape = shape
        self._keep = (made, keep)
        self.address = ctypes.addressof(made)
        self.run = declared(f"run_{suffix(dtype)}", (_P, _P, _P, _P, _I))


Axis = tuple[int, Job, float]


def _made(shape: Sequence[int], axes: list[Axis], dtype: torch.dtype, *, halves: bool = False) -> Call:
    """Jobs along axes in turn, each with a factor; ``halves`` says that the last one takes rows of another length."""
    # what comes before all transformed axes are planes; one axis alone is divided more finely than that
    first = min(axis for axis, _, _ in axes) if len(axes) > 1 else 0
    planes, sizes = math.prod(shape[:first]), list(shape)
    given = list(shape)
    for axis, work, _ in axes:
        given[axis] = work.give
    ends = [math.prod(shape[first:]) * axes[0][1].take_unit, math.prod(given[first:]) * axes[-1][1].give_unit]
    steps = (_Step * len(axes))()
    for step, (axis, work, scale) in zip(steps, axes, strict=True):
        step.job, step.scale = work.address, scale
        step.outer, step.inner = math.prod(sizes[first:axis]), math.prod(sizes[axis + 1 :])
        step.columns = work.columns(step.outer * planes, step.inner)
        sizes[axis] = work.give
    aside = 2 * math.prod(shape[first:]) if halves and len(axes) > 1 else 0
    group = max(1, _TOGETHER // (max(*ends, 1) * dtype.itemsize))
    made = _Call(len(axes), planes, group, *ends, aside, ctypes.addressof(steps))
    return Call(made, tuple(sizes), dtype, (steps, [work for _, work, _ in axes]))


def pays(count: int, lengths: Sequence[int]) -> bool:
    """Whether the loops transform axes of these lengths of so many points faster than torch."""
    return all(n >= LEAST or (n > 1 and count >= max(POINTS, 8 * n)) for n in lengths)


@functools.lru_cache(maxsize=128)
def c2c(
    kind: str, shape: tuple[int, ...], dims: tuple[int, ...], dtype: torch.dtype, inverse: bool, scale: str
) -> Call | None:
    """Complex results of complex (``c2c``), split (``p2c``) or real (``r2cc``) operands, the last axis first.

    ``None`` where torch is faster.
    """
    lengths = [shape[dim] for dim in dims]
    if not pays(math.prod(shape), lengths):
        return None
    by = factor(scale, math.prod(lengths))
    axes: list[Axis] = []
    for dim in reversed(dims):
        axes.append((dim, job(kind, shape[dim], dtype, inverse=inverse), by))
        kind, by = "c2c", 1.0
    return _made(shape, axes, dtype)


@functools.lru_cache(maxsize=128)
def r2c(shape: tuple[int, ...], dims: tuple[int, ...], dtype: torch.dtype, scale: str, conjugate: bool) -> Call | None:
    """Half spectra along the last of the axes, or their conjugates; ``None`` where torch is faster."""
    lengths = [shape[dim] for dim in dims]
    if not pays(math.prod(shape), lengths):
        return None
    halved = job("r2c", lengths[-1], dtype, inverse=conjugate)
    axes: list[Axis] = [(dims[-1], halved, factor(scale, math.prod(lengths)))]
    axes += [(dim, job("c2c", shape[dim], dtype, inverse=conjugate), 1.0) for dim in dims[:-1]]
    return _made(shape, axes, dtype)


@functools.lru_cache(maxsize=128)
def c2r(
    kind: str,
    shape: tuple[int, ...],
    dims: tuple[int, ...],
    n: int,
    dtype: torch.dtype,
    conjugate: bool,
    scale: str,
) -> Call | None:
    """Real data, n points along the last of the axes, of half spectra (``c2r``) or their planes (``p2r``).

    Of a conjugated operand the other axes are transformed forward, and what comes of it is conjugated at the end.
    ``None`` where torch is faster.
    """
    lengths = [*(shape[dim] for dim in dims[:-1]), n]
    if not pays(math.prod(shape), lengths):
        return None
    first = "p2c" if kind == "p2r" else "c2c"
    axes: list[Axis] = []
    for dim in dims[:-1]:
        axes.append((dim, job(first, shape[dim], dtype, inverse=not conjugate), 1.0))
        first, kind = "c2c", "c2r"
    axes.append((dims[-1], job(kind, n, dtype, conjugate=conjugate), factor(scale, math.prod(lengths))))
    return _made(shape, axes, dtype, halves=True)


@functools.lru_cache(maxsize=128)
def trigonometric(
    number: int,
    shape: tuple[int, ...],
    dims: tuple[int, ...],
    scales: tuple[float, ...],
    dtype: torch.dtype,
    sine: bool,
    ends: Ends,
) -> Call | None:
    """Cosine or sine transforms, which torch does not have; ``None`` where an axis has one point."""
    if any(shape[dim] == 1 for dim in dims):
        return None
    axes: list[Axis] = [
        (dim, job(_TYPES[number], shape[dim], dtype, sine=sine, ends=ends), scale)
        for dim, scale in zip(dims, scales, strict=True)
    ]
    return _made(shape, axes, dtype)
