"""Chains of transforms and factors as one program: factors inside the passes that can take them, else as passes.

Rows of two folded factors are multiplied on chip, as they are loaded or stored. Beside other passes a factor is a pass
of its own, through HBM, within the same program.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from trnfft.device import passes, tables
from trnfft.device.pass_programs import Builder, half_read
from trnfft.device.passes import NONE, Factor, Pass, Table
from trnfft.kernels import fft as kernels
from trnsci.caches import kept
from trnsci.nki import WARM, launch
from trnsci.programs import size_of

# Dtypes that a program loads and converts by itself, beside its own; the host converts others.
CONVERTED = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.float16, torch.bfloat16)
# Points of complex rows up to which SBUF holds them twice, before and after a factor, beside their tables.
_LOADED = 2048
# Points that fit a program whatever their shape.
_FEW = 1 << 17


class Step(NamedTuple):
    """A factor, ``times``, or a transform, ``c2c`` to ``c2r``, with its sign, its number of points and its scale."""

    kind: str
    sign: int
    n: int
    scale: str


class Varies(NamedTuple):
    """The first axis along which a factor varies, and its parts: one where it is real."""

    first: int
    parts: int


class Slot(NamedTuple):
    """The shape to which a factor is expanded, and to which its axes are padded."""

    shape: tuple[int, ...]
    padded: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Passes with their tables, where the factors of a call belong, and the shape that is written."""

    steps: tuple[Any, ...]
    matrices: Tensor | None
    twiddles: Tensor | None
    slots: tuple[Slot, ...]
    shape: tuple[int, ...]


class _Links:
    """Collects the passes of a chain."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.slots: list[Slot] = []
        self.pending: tuple[Varies, int] | None = None
        self.logical = tuple(builder.shape)
        self.size = 0

    def times(self, factor: Varies) -> None:
        """Multiply: as rows are stored, where the pass before can, else before the next one."""
        self.flush()
        steps = self.builder.passes
        last = steps[-1].sizes if steps else None
        planes = 1 if self.builder.real_in else 2
        if isinstance(last, passes.Folded) and not last.stored and not last.after and self._by_rows(factor, last):
            stored = Factor(planes, factor.parts, self._table(factor, last.rows))
            steps[-1] = Pass(last._replace(stored=stored), steps[-1].size, planes == 1 and factor.parts == 1)
        else:
            self.pending = factor, planes
        self.builder.real_in = planes == 1 and factor.parts == 1

    def _by_rows(self, factor: Varies, sizes: passes.Folded) -> bool:
        """Return whether a factor has one row for all, or one for each."""
        last = len(self.builder.shape) - 1
        rows = math.prod(self.builder.shape[:last])
        return sizes.rows == rows and factor.first in (0, last)

    def _loads(self, factor: Varies, sizes: passes.Folded, planes: int) -> bool:
        """Return whether a pass multiplies what it loads."""
        fits = planes == 1 or sizes.n1 * sizes.n2 <= _LOADED
        return fits and sizes.inputs == self.builder.shape[-1] and self._by_rows(factor, sizes)

    def _table(self, factor: Varies, rows: int) -> Table:
        """Return room for a factor among those of the call: one row of what varies, or ``rows`` of them."""
        shape = tuple(self.builder.shape)
        padded = shape[factor.first :]
        self.slots.append(Slot(self.logical[factor.first :], padded))
        many = rows if factor.first == 0 else 1
        table = Table(self.size, many, math.prod(padded) // many)
        self.size += factor.parts * math.prod(padded)
        return table

    def flush(self) -> None:
        """Make what is pending a pass of its own."""
        if self.pending is not None:
            self._own_pass(len(self.builder.passes), *self.pending)
            self.pending = None

    def _own_pass(self, index: int, factor: Varies, planes: int) -> None:
        shape = tuple(self.builder.shape)
        each = math.prod(shape[factor.first :])
        sizes = passes.Times(math.prod(shape) // each, each, each, 1, factor.parts, self._table(factor, 1))
        self.builder.passes.insert(index, Pass(sizes, math.prod(shape), planes == 1 and factor.parts == 1))

    def transform(self, step: Step, dims: tuple[int, ...]) -> None:
        """Transform, with what is pending as rows are loaded, where that can be."""
        builder, at, last = self.builder, len(self.builder.passes), dims[-1]
        pending, self.pending = self.pending, None
        before = tuple(builder.shape)
        if step.kind == "c2r":
            self._half(step.n, last)
        builder.transform(step.kind, dims, step.n, step.sign, step.scale)
        after, builder.shape = builder.shape, list(before)
        if pending is not None:
            factor, planes = pending
            first = builder.passes[at].sizes
            if isinstance(first, passes.Folded) and self._loads(factor, first, planes):
                loaded = Factor(planes, factor.parts, self._table(factor, first.rows))
                builder.passes[at] = builder.passes[at]._replace(sizes=first._replace(loaded=loaded))
            else:
                self._own_pass(at, factor, planes)
        builder.shape = after
        points = list(self.logical)
        if step.kind != "c2c":
            points[last] = step.n if step.kind == "c2r" else step.n // 2 + 1
        self.logical, builder.real_in = tuple(points), step.kind == "c2r"

    def _half(self, n: int, last: int) -> None:
        """Cut or pad half a spectrum to what the next pass reads, weighted where it sums over half of it."""
        shape, size = self.builder.shape, n // 2 + 1
        a, c = math.prod(shape[:last]), math.prod(shape[last + 1 :])
        read, weighted = half_read(n, a, c)
        if weighted or read != shape[last]:
            weights = np.zeros(read, np.complex128)
            ones = torch.ones(size, dtype=torch.float32, device="cpu")
            weights[:size] = tables.weight_half(ones, 0, n, 2.0).numpy() if weighted else 1.0
            by = self.builder.twiddles.keep_parts(tables.both_parts(weights))
            sizes = passes.Multiply(a, shape[last], read, c, 1, by)
            self.builder.add(sizes, a * read * c, False)
            shape[last] = read


@kept
def chain(
    shape: tuple[int, ...],
    dims: tuple[int, ...],
    steps: tuple[Step, ...],
    factors: tuple[Varies, ...],
    real: bool,
    dtype: torch.dtype,
    converts: bool,
) -> Chain:
    """Return the program of steps over data of this shape, which is ``real`` or not."""
    builder = Builder(shape, dtype, real)
    links, left = _Links(builder), list(factors)
    for step in steps:
        if step.kind == "times":
            links.times(left.pop(0))
        else:
            links.transform(step, dims)
    links.flush()
    if converts and not isinstance(builder.passes[0].sizes, passes.Folded | passes.Times):
        count = math.prod(shape)
        builder.passes.insert(0, Pass(passes.Times(1, count, count, 1, 0, NONE), count, real))
    static = tuple(step.static() for step in builder.passes)
    flat = builder.matrices.flat(), builder.twiddles.flat()
    return Chain(static, *flat, tuple(links.slots), tuple(builder.shape))


def varies(factor: Tensor, ndim: int) -> Varies:
    """Return along which axes of data a factor that broadcasts varies."""
    first = next((d for d, size in enumerate(factor.shape) if size != 1), factor.ndim - 1)
    return Varies(min(ndim - 1, ndim - factor.ndim + first), 2 if factor.is_complex() else 1)


def _join_factors(chain: Chain, factors: list[Tensor]) -> Tensor | None:
    """Return factors in one flat tensor, each expanded to what varies and padded, part after part."""
    flat: list[Tensor] = []
    for factor, slot in zip(factors, chain.slots, strict=True):
        lead = max(0, factor.ndim - len(slot.shape))
        whole = factor.reshape(factor.shape[lead:]).expand(slot.shape)
        pad = [item for d in range(len(slot.shape) - 1, -1, -1) for item in (0, slot.padded[d] - slot.shape[d])]
        parts = (whole.real, whole.imag) if whole.is_complex() else (whole,)
        flat += [functional.pad(part.resolve_neg(), pad).reshape(-1) for part in parts]
    return torch.cat(flat).float() if flat else None


def fits(chain: Chain, shape: tuple[int, ...], real: bool) -> bool:
    """Return whether the program of a chain is within the suite's limit."""
    if math.prod(shape) * len(chain.steps) <= _FEW:
        return True
    plane = torch.empty(math.prod(shape), device="meta", dtype=torch.float32)
    size = sum(math.prod(slot.padded) * 2 for slot in chain.slots)
    given = torch.empty(size, device="meta", dtype=torch.float32) if size else None
    tensors = (plane, None if real else plane, chain.matrices, chain.twiddles, given)
    return size_of(kernels.fft, tensors, {"program": chain.steps, "warm": WARM[-1]}).fits


def run(chain: Chain, x: Tensor, factors: list[Tensor], result: torch.dtype) -> tuple[Tensor, ...]:
    """Return the planes that a chain writes, in the shape that its program writes."""
    assert chain.matrices is not None
    planes = [x.real, x.imag] if x.is_complex() else [x]
    if x.dtype not in CONVERTED:
        planes = [plane.to(chain.matrices.dtype) for plane in planes]
    flat = [plane.resolve_neg().contiguous().reshape(-1) for plane in planes]
    name = str(result).removeprefix("torch.") if result in CONVERTED else "float32"
    given = _join_factors(chain, factors)
    im = flat[1] if len(flat) > 1 else None
    outputs = launch(kernels.fft, flat[0], im, chain.matrices, chain.twiddles, given, program=chain.steps, result=name)
    return tuple(plane.reshape(chain.shape) for plane in (outputs if isinstance(outputs, tuple) else (outputs,)))
