"""Programs in digits: the steps of transforms over several axes, their tables, and how large a result can become."""

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnfft.device import tables
from trnfft.device.tables import Array
from trnfft.kernels import exact as kernels
from trnsci.caches import kept
from trnsci.nki import P_MAX, WARM
from trnsci.programs import Size, size_of

# Real and imaginary parts share the partitions.
LARGEST = P_MAX // 2
# Bytes of the tables of one step.
MOST = 64 << 20

# The errors stated for results relative to them all, which decide how many digits a length needs.
BOUND = {"compensated": 1e-7, "fp64": 1e-14}


def digits(x: Tensor, count: int) -> Tensor:
    """Return [count, ...] bfloat16 whose sum is x, ``|x| <= 1``: multiples, up to 128, of ``2**(-7 - 8 i)``."""
    parts, rest = [], x
    for i in range(count):
        unit = 2.0 ** (-7 - 8 * i)
        digit = torch.round(rest / unit) * unit
        parts.append(digit.to(torch.bfloat16))
        rest = rest - digit
    return torch.stack(parts)


def count_for(precision: str, points: float) -> int:
    """Return how many digits meet the stated error: possible sums cost fixed point the root of the points."""
    return math.ceil((math.log2(6 / BOUND[precision]) + math.log2(points) / 2) / 8)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: ``length`` points in all, factors up to 64 of what is transformed, zeros after n points for a chirp."""

    n: int
    length: int
    factors: tuple[int, ...]

    @property
    def chirp(self) -> bool:
        """Whether it is transformed by a convolution with a chirp."""
        return self.length != self.n


@dataclass(frozen=True, slots=True)
class Scale:
    """Divisor of a step, as a power of two, and the terms it adds up.

    ``sums`` points before this division; ``row_norm`` is the largest row norm of the steps of a convolution so far, 0
    where sums of magnitudes are the bound.
    """

    shift: int
    sums: int
    row_norm: float = 0.0


@dataclass(frozen=True, slots=True)
class DigitProgram:
    """Steps over axes in order, with tables; the result has its axes in reverse."""

    axes: tuple[Axis, ...]
    count: int
    steps: tuple[Any, ...]
    tables: Tensor
    scales: tuple[tuple[Scale, ...], ...]

    @property
    def shift(self) -> int:
        """The power of two that all steps together divide by."""
        return sum(scale.shift for axis in self.scales for scale in axis)


class Product(NamedTuple):
    """A product with a factor r: what is left of the axis is (u, n), other axes are e, what is done (g, d)."""

    r: int
    u: int
    n: int
    e: int
    g: int
    d: int
    transposed: bool


class Multiplication(NamedTuple):
    """A spectrum times an axis that lies between g and c others, dealt to rows of ``each`` points."""

    g: int
    rows: int
    each: int
    c: int


class Growth:
    """Powers of two that products are divided by, so that random data stays as large as it was."""

    def __init__(self) -> None:
        self.grown, self.shifted = 0.0, 0

    def shift(self, r: int) -> int:
        """Return the bits for a product with r points, at least one: what data has grown by so far."""
        self.grown += math.log2(r) / 2
        bits = max(1, int(self.grown) - self.shifted)
        self.shifted += bits
        return bits


def _points(axes: tuple[Axis, ...]) -> float:
    """Return points of a transform with as large errors: a chirp goes back and forth, small factors waste bits."""
    growth = Growth()
    for axis in axes:
        for r in axis.factors * (2 if axis.chirp else 1):
            growth.shift(r)
    wasted = max(0.0, growth.shifted - growth.grown)
    return math.prod(axis.length * (4 if axis.chirp else 1) for axis in axes) * 4.0**wasted


@functools.lru_cache(maxsize=1024)
def axis_for(n: int) -> Axis:
    """Return factors of a length, or of a longer one for a chirp."""
    split = tables.factors(n, LARGEST)
    if split is not None:
        return Axis(n, n, split[::-1])
    best: tuple[float, Axis] | None = None
    for length in range(-(-(2 * n - 1) // P_MAX) * P_MAX, 4 * n + P_MAX, P_MAX):
        split = tables.factors(length, LARGEST)
        if split is not None:
            cost = length * len(split)
            if best is None or cost < best[0]:
                best = cost, Axis(n, length, split[::-1])
            if length > 1.2 * best[1].length:
                break
    assert best is not None
    return best[1]


def _table(w: Array, shift: int, count: int) -> Tensor:
    """Return [plane n1, n2, count, part k1] of w [n1, n2, k1], divided by ``2 ** shift``."""
    parts = tables.as_real(w) * 2.0 ** (1 - shift)  # [plane, part, n1, n2, k1]
    whole = parts.transpose(0, 2, 3, 1, 4).reshape(2 * w.shape[0], w.shape[1], 2 * w.shape[2])
    parts_of_table = digits(torch.from_numpy(np.ascontiguousarray(whole)), count)  # [count, plane n1, n2, part k1]
    # The kernel takes products of digits i and j as digit i + j + 1.
    return (parts_of_table * 0.5).permute(1, 2, 0, 3).contiguous()


def _nanoseconds(r: int, residues: int, columns: int, count: int) -> float:
    """Return about how long a product takes: the Tensor Engine, the Vector Engine, or loading its tables."""
    products, lanes = count * (count + 1) // 2 + count - 1, LARGEST // r
    tensor = residues * products * max(64, columns / lanes) / 2.4
    vector, tables = residues * columns / lanes * 2.1 * (count + 1), residues * 8 * r * r * count * lanes / 200
    # Digits cross HBM before a step.
    return 15e3 + max(tensor, vector, tables)


@functools.lru_cache(maxsize=4096)
def inner_residues(r: int, left: int, columns: int, count: int) -> tuple[int, float]:
    """Return residues j0 of ``left`` = j1 j0 whose twiddles are a product of their own, and nanoseconds; 1 for none."""
    times = [(_alone(r, left, columns, count), 1)]
    for inner in range(2, left + 1):
        if left % inner == 0:
            outer = left // inner
            first = _nanoseconds(r, outer, inner * columns, count)
            times.append((first + _nanoseconds(r, inner, outer * columns, count), inner))
    time, inner = min(times)
    return inner, time


def _alone(r: int, left: int, columns: int, count: int) -> float:
    """Return nanoseconds of a product with a table for every residue."""
    return math.inf if left * 8 * r * r * count > MOST else _nanoseconds(r, left, columns, count)


class _Builder:
    """Collects steps. Digits lie as [outer, what is left, other axes, done]; ``outer`` is done as well."""

    def __init__(self, count: int, columns: int, sign: int) -> None:
        self.count, self.columns, self.sign = count, columns, sign
        self.steps: list[Any] = []
        self.tables: list[Tensor] = []
        self.size = 0
        self.outer, self.done = 1, 1
        self.growth = Growth()

    def _step(self, kind: str, table: Tensor, sizes: tuple[Any, ...]) -> None:
        """Append a step as the kernel reads it: its kind, where its table begins, and sizes in order."""
        self.steps.append((kind, self.size, tuple(sizes)))
        self.tables.append(table.reshape(-1))
        self.size += table.numel()

    def _add(self, w: Array, shift: int, r: int, sizes: tuple[int, int, int], transposed: bool) -> None:
        """Append a product for (l, n, e), whose result is done where it is transposed."""
        self._step("product", _table(w, shift, self.count), Product(r, *sizes, self.outer, self.done, transposed))
        self.outer, self.done = 1, self.outer * self.done * (r if transposed else 1)

    def chain(self, factors: tuple[int, ...], others: int, sign: int, by: Array | None = None) -> list[Scale]:
        """Transform the leading axis, multiplied ``by`` numbers up to 1, beside ``others`` still to be transformed."""
        scales: list[Scale] = []
        rest = math.prod(factors)
        for index, r in enumerate(factors):
            left, shift = rest // r, self.growth.shift(r)
            k = np.arange(r)
            before = by if index == 0 else None
            columns = others * self.outer * self.done * self.columns
            inner = inner_residues(r, left, columns, self.count)[0] if before is None else 1
            j = np.arange(left // inner)[:, None] * inner
            w = tables.roots((k[:, None, None] * (rest // r) + j) * k, rest, sign)  # [n1, j1, k1]
            if before is not None:
                w = w * before.reshape(r, left, 1)
            if inner == 1:
                self._add(w, shift, r, (1, left, others), True)
                scales.append(Scale(shift, r))
            else:
                scales += self._twice(w, shift, (r, left // inner, inner, others), rest, sign)
            rest = left
        return scales

    def _twice(self, w: Array, shift: int, sizes: tuple[int, int, int, int], rest: int, sign: int) -> list[Scale]:
        """Split twiddles of j = j1 j0 between two products: of j1 with the factor, of j0 on a diagonal."""
        r, outer, inner, others = sizes
        self._add(w, max(1, shift - 1), r, (1, outer, inner * others), False)
        twiddles = tables.roots(np.arange(inner)[:, None] * np.arange(r), rest, sign)  # [j0, k]
        diagonal = np.eye(r)[:, None, :] * twiddles  # [k, j0, k]
        self._add(diagonal, 1, r, (outer, inner, others), True)
        return [Scale(max(1, shift - 1), r), Scale(1, 1)]

    def convolution(self, axis: Axis, others: int) -> list[Scale]:
        """Convolve the leading axis with a chirp."""
        scales = self.chain(axis.factors, others, -1)
        spectrum = tables.chirp_spectrum(axis.n, axis.n, axis.n, axis.length, self.sign)
        largest = float(np.abs(spectrum).max())
        exponent = math.frexp(largest)[1]
        small = spectrum * 2.0**-exponent
        beside = self.done // axis.length
        self.outer, self.done = others, beside
        folded = self._folds(axis, others * beside)
        if folded:
            back = self.chain(axis.factors, 1, 1, small)
            back[0] = Scale(back[0].shift + exponent, back[0].sums)
        else:
            scales.append(self._multiply(small, others, beside, exponent))
            back = self.chain(axis.factors, 1, 1)
        summed = 1
        for scale in back:
            summed *= scale.sums
            row_norm = 0.0 if summed == axis.length else largest * math.sqrt(axis.length * summed)
            scales.append(Scale(scale.shift, 1, row_norm))
        self.outer, self.done = (axis.length, beside) if others > 1 else (1, self.done)
        return scales

    def _folds(self, axis: Axis, beside: int) -> bool:
        """Return whether a spectrum is faster in the tables of the next product than on the Vector Engine."""
        r, columns = axis.factors[0], beside * self.columns
        left, products = axis.length // r, self.count * (self.count + 1) // 2 + self.count - 1
        apart = 4.2 * products * max(64.0, axis.length * columns / P_MAX)
        return _alone(r, left, columns, self.count) <= apart + inner_residues(r, left, columns, self.count)[1]

    def _multiply(self, by: Array, others: int, beside: int, exponent: int) -> Scale:
        """Multiply the leading axis, between others, by numbers up to 1, which were divided by ``2 ** exponent``."""
        parts = digits(torch.from_numpy(np.stack((by.real, by.imag))), self.count) * 0.5  # [count, part, k]
        rows = math.gcd(len(by), P_MAX)
        self._step("multiply", parts.permute(1, 2, 0), Multiplication(others, rows, len(by) // rows, beside))
        return Scale(exponent + 1, 1, float(np.abs(by).max()) * 2.0**exponent * math.sqrt(len(by)))


# Tables of 4096 points take 15 MB in the least steps.
@kept
def digit_program(lengths: tuple[int, ...], columns: int, sign: int, precision: str, points: int = 0) -> DigitProgram:
    """Return the program of axes before ``columns`` others, with digits for ``points`` if those are more."""
    axes = tuple(axis_for(n) for n in lengths)
    count = count_for(precision, max(_points(axes), points))
    builder = _Builder(count, columns, sign)
    scales = []
    for index, axis in enumerate(axes):
        others = math.prod(later.length for later in axes[index + 1 :])
        if axis.chirp:
            scales.append(tuple(builder.convolution(axis, others)))
        else:
            scales.append(tuple(builder.chain(axis.factors, others, sign)))
    return DigitProgram(axes, count, tuple(builder.steps), torch.cat(builder.tables), tuple(scales))


# Numbers that fit in one program whatever their shape.
_FEW = 1 << 18


@functools.lru_cache(maxsize=256)
def _size(lengths: tuple[int, ...], columns: int, precision: str, points: int) -> Size:
    """Return instructions and matmuls of a program."""
    transform = digit_program(lengths, columns, -1, precision, points)
    whole = math.prod(axis.length for axis in transform.axes)
    x = torch.empty(2, whole, transform.count, columns, dtype=torch.bfloat16, device="meta")
    return size_of(kernels.exact, (x, transform.tables), {"program": transform.steps, "warm": WARM[-1]})


def fits(lengths: tuple[int, ...], columns: int, precision: str, points: int = 0) -> bool:
    """Return whether a program of ``columns`` columns is short enough to be compiled."""
    return math.prod(lengths) * columns <= _FEW or _size(lengths, columns, precision, points).fits


def columns_at_once(lengths: tuple[int, ...], columns: int, precision: str, points: int = 0) -> int:
    """Return how many columns one program may have; one too long for a single column is not cut."""
    width = columns
    while width > 1 and not fits(lengths, width, precision, points):
        width = -(-width // 2)
    # Equal pieces are one compiled program.
    return max(1, -(-columns // -(-columns // max(1, width))))


def halves(n: int) -> tuple[int, int]:
    """Return two factors of a length, as equal as can be."""
    first = next(d for d in range(math.isqrt(n), 0, -1) if n % d == 0)
    return first, n // first


def room(transform: DigitProgram, sizes: Tensor) -> Tensor:
    """Return [F]: a power of two to divide data by, so that no sum exceeds 1; ``sizes`` [n.., F] are magnitudes."""
    columns = sizes.shape[-1]
    bits = torch.zeros(columns, dtype=sizes.dtype, device=sizes.device)
    done = 0
    for axis, scales in zip(transform.axes, transform.scales, strict=True):
        sizes = sizes.reshape(axis.length, -1, columns)
        norm = sizes.square().sum(0).sqrt().amax(0) if axis.chirp else bits
        summed = 1
        for scale in scales:
            done += scale.shift
            summed *= scale.sums
            if scale.row_norm:
                bound = norm * scale.row_norm
            else:
                bound = sizes.reshape(summed, -1, columns).sum(0).amax(0)
            bits = torch.maximum(bits, torch.frexp(bound * 2.0**-done)[1].to(bits.dtype))
        sizes = sizes.sum(0)
    return bits
