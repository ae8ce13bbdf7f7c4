"""Programs of passes: which serve a call, and their tables."""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnfft.arguments import factor
from trnfft.device import factor_tables, passes, tables
from trnfft.device.factor_tables import HALF_IN, HALF_OUT, WHOLE, Fold
from trnfft.device.passes import NONE, Pass, Table, Tables
from trnfft.device.tables import Array
from trnsci.caches import kept
from trnsci.nki import P_MAX

# From this many rows on, loading them as they lie and transposing them on chip is faster.
TRANSPOSED = 32
# Rows of a tile of 128 from which on folded twiddles pay: its products take as long for few rows as for many.
FOLDED = {WHOLE: 96, HALF_IN: 64, HALF_OUT: 64}

# Factors from which on two folded passes through HBM are faster than one pass for each.
LONG = {WHOLE: 3, HALF_IN: 3, HALF_OUT: 3}

# Rows from which on folded twiddles pay in a chirp, whose multiplications they take in as well.
CHIRPED = 16


@dataclass(frozen=True, slots=True)
class Stage:
    """How one axis is transformed on Trainium."""

    axis: int
    length: int
    algorithm: str
    factors: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.length} points, {self.algorithm} {' x '.join(map(str, self.factors))}"


@dataclass(frozen=True, slots=True)
class PassProgram:
    """Passes with their tables, and the lengths of the last axis it reads and writes, padding included.

    ``weighted`` programs sum over half a spectrum, so that terms that occur twice have to be doubled before.
    """

    passes: tuple[Pass, ...]
    matrices: Tensor | None
    twiddles: Tensor | None
    stages: tuple[Stage, ...]
    read: int
    written: int
    weighted: bool
    given: Tensor | None = None

    @property
    def tables(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The kernel's tensors beside its operands."""
        return self.matrices, self.twiddles, self.given

    @property
    def steps(self) -> tuple[Any, ...]:
        """The passes as the kernel takes them."""
        return tuple(step.static() for step in self.passes)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of [a, n, c]: ``inputs`` terms are given and ``outputs`` wanted, which are ``real`` or not."""

    a: int
    n: int
    c: int
    inputs: int
    outputs: int
    sign: int
    scale: float
    real: bool

    def half(self, real_in: bool) -> int:
        """Return which half of a spectrum is read or written, if any."""
        if self.real:
            return HALF_IN
        return HALF_OUT if real_in and self.outputs < self.n else WHOLE


class Builder:
    """Collects passes over an array whose shape changes along the way."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, real_in: bool) -> None:
        self.shape = list(shape)
        self.dtype = dtype
        self.real_in = real_in
        self.passes: list[Pass] = []
        self.matrices, self.twiddles = Tables(dtype), Tables(torch.float32)
        self.stages: list[Stage] = []

    def add(self, sizes: passes.Sizes, size: int, real: bool) -> None:
        """Append a pass that writes ``size`` elements, of one plane if they are ``real``."""
        self.passes.append(Pass(sizes, size, real))
        self.real_in = False

    def transform(self, kind: str, dims: tuple[int, ...], n: int, sign: int, scale: str) -> None:
        """Transform axes; ``n`` is the length of the last one where only half of it is read or written."""
        last = dims[-1]
        for at in reversed(dims) if kind == "r2c" else dims:
            length = self.shape[at]
            if at != last or kind == "c2c":
                self.axis(at, length, length, length, sign, factor(scale, length), False)
            elif kind == "r2c":
                self.axis(at, n, n, n // 2 + 1, sign, factor(scale, n), False)
            else:
                self.axis(at, n, length, n, sign, factor(scale, n), True)

    def axis(self, at: int, n: int, inputs: int, outputs: int, sign: int, scale: float, real: bool) -> None:
        """Transform one axis of length n, given ``inputs`` terms, and write at least ``outputs``."""
        a, c = math.prod(self.shape[:at]), math.prod(self.shape[at + 1 :])
        axis = Axis(a, n, c, inputs, outputs, sign, scale, real)
        algorithm, split = algorithm_for(n, a, c)
        if algorithm == "chirp":
            self.stages.append(Stage(at, n, algorithm, split))
            self.shape[at] = self._chirp(axis, split)
        else:
            split, self.shape[at] = self._passes(axis, split)
            self.stages.append(Stage(at, n, algorithm, split))

    def _passes(self, axis: Axis, split: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """Append the passes of an axis; return the factors used, and the length written."""
        factors = fold_for(axis, self.real_in) if len(split) > 1 else None
        if factors is not None:
            self.add_folded(axis, factors)
            return (factors.n1, factors.n2), axis.outputs
        four = self._long(axis, split)
        if four is not None:
            return four, axis.outputs
        split = for_rows(axis.a, axis.n, axis.c, split)
        read = -(-axis.inputs // (axis.n // split[0]))
        write = -(-axis.outputs // (axis.n // split[-1]))
        if axis.c == 1 and len(split) == 1:
            self._rows(axis)
        elif axis.c == 1 and len(split) == 2:
            self._add_fused(axis, split, read, write)
        else:
            self._stockham(axis, split, read, write)
        return split, write * (axis.n // split[-1])

    def _long(self, x: Axis, split: tuple[int, ...]) -> tuple[int, ...] | None:
        """Transform rows of two folded factors: along columns, then along rows, which leaves the result transposed."""
        half = x.half(self.real_in)
        if x.c > 1 or len(split) < LONG[half]:
            return None
        two = factor_tables.two_folds(x.n, half, 1 if self.real_in else 2)
        if two is None:
            return None
        outer, inner = two
        if half == HALF_IN:
            self._long_back(x, outer, inner)
        else:
            self._long_forth(x, outer, inner, half)
        return outer.n1, outer.n2, inner.n1, inner.n2

    def _long_forth(self, x: Axis, outer: Fold, inner: Fold, half: int) -> None:
        """Transform forward: of real rows, half of those of the first pass stand for the others."""
        r, m = outer.n1 * outer.n2, inner.n1 * inner.n2
        kept = outer.n1 // 2 + 1 if half == HALF_OUT else outer.n1
        self.add_folded(Axis(x.a, r, m, r, r, x.sign, 1.0, False), outer, kept=kept)
        rows = (np.arange(outer.n2)[:, None] * outer.n1 + np.arange(kept)).reshape(-1)
        twiddles = tables.roots(np.outer(rows, np.arange(m)), x.n, x.sign)
        if half == WHOLE:
            self._folded_rows(x, len(rows), inner, WHOLE, twiddles)
        else:
            # Rows of the whole batch become columns beside each other.
            self._folded_rows(replace(x, a=1), x.a * len(rows), inner, WHOLE, twiddles)
            flip = self.matrices.keep(factor_tables.flip(self.dtype))
            self.add(passes.Unfolded(x.a, m, outer.n1, outer.n2, flip), x.a * x.outputs, False)

    def _long_back(self, x: Axis, outer: Fold, inner: Fold) -> None:
        """Transform back: complete half of a spectrum's columns, which are half a spectrum of the second pass."""
        r, m = outer.n1 * outer.n2, inner.n1 * inner.n2
        width = m // 2 + 1
        flip = self.matrices.keep(factor_tables.flip(self.dtype))
        self.add(passes.Completed(x.a, r, m, flip), x.a * r * width, False)
        self.add_folded(Axis(1, r, x.a * width, r, r, x.sign, 1.0, False), outer)
        twiddles = tables.roots(np.outer(np.arange(r), np.arange(width)), x.n, x.sign)
        self._folded_rows(x, r, inner, HALF_IN, twiddles)

    def _folded_rows(self, x: Axis, rows: int, factors: Fold, half: int, twiddles: Array) -> None:
        """Transform rows, times what differs from row to row, into columns."""
        first = self.matrices.keep(factor_tables.first(factors, half, 2, x.sign, self.dtype))
        second = self.matrices.keep(factor_tables.second(factors, half, x.sign, x.scale, self.dtype))
        by = self.twiddles.keep_parts(tables.both_parts(twiddles))
        sizes = passes.FoldedTransposed(x.a, rows, factors.n1, factors.n2, half, factors.group, first, second, by)
        self.add(sizes, x.a * rows * factors.n1 * factors.n2, half == HALF_IN)

    def _matrix(self, *sizes: Any, real_in: bool | None = None, **options: Any) -> Table:
        """Keep a DFT matrix; arguments as for `tables.matrix`."""
        real = self.real_in if real_in is None else real_in
        return self.matrices.keep(tables.matrix(*sizes, real_in=real, dtype=self.dtype, **options))

    def _rows(self, x: Axis) -> None:
        """Append one product with the whole matrix."""
        t = self._matrix(x.n, x.inputs, x.outputs, x.sign, x.scale, real_out=x.real)
        self.add(passes.Rows(x.a, x.inputs, x.outputs, t), x.a * x.outputs, x.real)

    def add_folded(
        self, x: Axis, fold: Fold, diagonal: Array | None = None, after: Array | None = None, kept: int | None = None
    ) -> None:
        """Append two factors on chip, with twiddles and ``diagonal`` in the first tables; ``after`` follows.

        Along columns the first ``kept`` values of k1 are wanted.
        """
        half, planes = WHOLE if after is not None else x.half(self.real_in), 1 if self.real_in else 2
        first = self.matrices.keep(factor_tables.first(fold, half, planes, x.sign, self.dtype, diagonal, kept))
        second = self.matrices.keep(factor_tables.second(fold, half, x.sign, x.scale, self.dtype))
        if x.c > 1:
            kept = fold.n1 if kept is None else kept
            columns = passes.FoldedColumns(x.a, x.c, fold.n1, fold.n2, kept, fold.group, first, second)
            self.add(columns, x.a * fold.n2 * kept * x.c, False)
            return
        unpaired: passes.MaybeTable = NONE
        by: passes.MaybeTable = NONE
        if half == HALF_OUT:
            unpaired = self.matrices.keep(factor_tables.unpaired_table(fold, x.sign, x.scale, self.dtype))
        elif after is not None:
            by = self.twiddles.keep_parts(tables.both_parts(after))
        factors = (fold.n1, fold.n2, half, fold.group)
        self.add(
            passes.Folded(x.a, x.inputs, x.outputs, *factors, first, second, unpaired, by), x.a * x.outputs, x.real
        )

    def _add_fused(self, x: Axis, split: tuple[int, ...], read: int, write: int) -> None:
        """Append two factors on chip, twiddles between them."""
        first, last = split
        planes = 1 if self.real_in else 2
        packed = max(1, min(x.a, P_MAX // last))
        transposed = is_transposed(x.a, x.n)
        lanes = 1 if transposed else max(1, min(x.a // packed, P_MAX // (planes * read)))
        t1 = self._matrix(first, read, first, x.sign, 1.0, lanes=lanes)
        tw = self.twiddles.keep_parts(tables.twiddles(x.n, last, first, packed, x.sign))
        options: dict[str, Any] = {"lanes": packed, "layout": "split", "real_in": False, "real_out": x.real}
        t2 = self._matrix(last, last, write, x.sign, x.scale, **options)
        sizes = passes.Fused(x.a, first, last, read, write, packed, lanes, transposed, t1, tw, t2)
        self.add(sizes, x.a * write * first, x.real)

    def _stockham(self, x: Axis, split: tuple[int, ...], read: int, write: int) -> None:
        """Append one pass per factor; each leaves what it has done in order beside what is left."""
        rest, done = x.n, x.c
        for index, r in enumerate(split):
            m, final = rest // r, index == len(split) - 1
            j, k = read if index == 0 else r, write if final else r
            planes = 1 if self.real_in else 2
            transposed = index == 0 and x.c == 1
            lanes = 1 if transposed else max(1, min(P_MAX // (planes * j), P_MAX // k))
            scale = x.scale if final else 1.0
            t = self._matrix(r, j, k, x.sign, scale, lanes=lanes, layout="stationary", real_out=final and x.real)
            if transposed:
                tw = self.twiddles.keep_parts(tables.twiddles(rest, m, k, 1, x.sign))
                self.add(passes.Turn(x.a, j, m, k, t, tw), x.a * m * k, False)
            else:
                by: passes.MaybeTable = NONE
                if not final:
                    by = self.twiddles.keep_parts(tables.twiddles(rest, k, m, lanes, x.sign))
                sizes = passes.Columns(x.a, j, m, done, k, lanes, t, by)
                self.add(sizes, x.a * m * k * done, final and x.real)
            rest, done = m, done * r

    def _chirp(self, x: Axis, split: tuple[int, ...]) -> int:
        """Append a convolution with a chirp, of a length with small factors; return the length written."""
        length = math.prod(split)
        inside = Axis(x.a, length, x.c, length, length, -1, 1.0, False)
        before = tables.chirp(x.n, x.inputs, x.sign)
        between = tables.chirp_spectrum(x.n, x.inputs, x.outputs, length, x.sign)
        after = tables.chirp(x.n, x.outputs, x.sign, x.scale)
        fold, back = (factor_tables.fold(length, WHOLE, planes) for planes in (1 if self.real_in else 2, 2))
        if x.c == 1 and x.a >= CHIRPED and fold is not None and back is not None:
            padded = np.concatenate((before, np.zeros(length - x.inputs)))
            self.add_folded(replace(inside, inputs=x.inputs), fold, diagonal=padded)
            inverse = replace(inside, sign=1, outputs=x.outputs, real=x.real)
            self.add_folded(inverse, back, diagonal=between, after=after)
            return x.outputs
        self._multiply(x.a, x.inputs, length, x.c, before, False)
        self._passes(inside, split)
        self._multiply(x.a, length, length, x.c, between, False)
        self._passes(replace(inside, sign=1), split)
        self._multiply(x.a, length, x.outputs, x.c, after, x.real)
        return x.outputs

    def _multiply(self, a: int, inputs: int, outputs: int, c: int, by: Array, real: bool) -> None:
        t = self.twiddles.keep_parts(tables.both_parts(by))
        self.add(passes.Multiply(a, inputs, outputs, c, 2, t), a * outputs * c, real)


@functools.lru_cache(maxsize=4096)
def algorithm_for(n: int, rows: int, inner: int) -> tuple[str, tuple[int, ...]]:
    """Return how a length is transformed beside ``rows`` and ``inner`` others: its name, and its factors."""
    split = tables.factors(n, P_MAX)
    if split is not None:
        return ("matrix" if len(split) == 1 else "factors"), split
    if inner == 1 and _direct(n, rows):
        return "matrix", (n,)
    return "chirp", _padded_factors(2 * n - 1)


def _direct(n: int, rows: int) -> bool:
    """Return whether one product with the whole matrix is faster than a convolution with a chirp.

    Both sides are microseconds, fitted to the predictions for trn2: a matrix grows with its area and is gone through
    once for every tile of rows; a chirp grows with the rows while they are few, and with the length after that.
    """
    count = -(-rows // P_MAX)
    return 20 + 6e-5 * n * n * count <= 45 + min(7 * rows, 0.052 * n * count)


def fold_for(x: Axis, real_in: bool) -> Fold | None:
    """Return factors with folded twiddles, where they fit and pay."""
    half = x.half(real_in)
    if x.c == 1:
        # Rows of the last tile, or of all of them on average.
        pays = x.a / -(-x.a // P_MAX) >= FOLDED[half]
    else:
        pays = half == WHOLE
    return factor_tables.fold(x.n, half, 1 if real_in else 2) if pays else None


@kept
def folded_rows(rows: int, fold: Fold, outputs: int, scale: str, dtype: torch.dtype) -> PassProgram:
    """Return the program of real rows of two factors, however few they are."""
    n = fold.n1 * fold.n2
    builder = Builder((rows, n), dtype, True)
    builder.add_folded(Axis(rows, n, 1, n, outputs, -1, factor(scale, n), False), fold)
    return PassProgram(tuple(builder.passes), builder.matrices.flat(), None, (), n, outputs, False)


def is_transposed(rows: int, n: int) -> bool:
    """Return whether rows are loaded as they lie and transposed on chip: many of them, and they fit."""
    return rows >= TRANSPOSED and n <= 8192


def for_rows(rows: int, n: int, inner: int, split: tuple[int, ...]) -> tuple[int, ...]:
    """Return two factors for rows, the first as large as can be where rows are transposed on chip: long runs in HBM."""
    if inner != 1 or len(split) != 2 or not is_transposed(rows, n):
        return split
    first = max(d for d in range(1, P_MAX + 1) if n % d == 0 and n // d <= P_MAX)
    return first, n // first


def _padded_factors(least: int) -> tuple[int, ...]:
    """Return factors of the cheapest length from ``least`` on: few factors, then few points."""
    best: tuple[float, tuple[int, ...]] | None = None
    for length in range(least, least + max(64, least // 8)):
        split = tables.factors(length, P_MAX) if length % 16 == 0 or length < P_MAX else None
        if split is not None:
            # Two factors stay on chip; more cross HBM between passes.
            cost = length * (1 + sum(split) / (2 * P_MAX)) * (1.0 if len(split) < 3 else 2.5)
            if best is None or cost < best[0]:
                best = (cost, split)
    assert best is not None
    return best[1]


def half_read(n: int, rows: int, inner: int) -> tuple[int, bool]:
    """Return terms of half a spectrum that a program reads, padding included, and whether it wants them weighted."""
    half = n // 2 + 1
    algorithm, split = algorithm_for(n, rows, inner)
    if algorithm == "chirp" or len(split) == 1:
        return half, True
    if fold_for(Axis(rows, n, inner, half, n, 1, 1.0, True), False) is not None:
        return half, False
    if inner == 1 and len(split) >= LONG[HALF_IN] and factor_tables.two_folds(n, HALF_IN, 2) is not None:
        return half, False
    beside = n // for_rows(rows, n, inner, split)[0]
    return -(-half // beside) * beside, True


# Programs hold tables of up to some tens of megabytes.
@kept
def pass_program(
    kind: str,
    shape: tuple[int, ...],
    dims: tuple[int, ...],
    n: int,
    sign: int,
    scale: str,
    dtype: torch.dtype,
    real_in: bool = False,
) -> PassProgram:
    """Return the passes of a call. ``n`` is the length of the last axis where only half of it is read or written."""
    last = dims[-1]
    builder = Builder(shape, dtype, real_in or kind == "r2c")
    read, weighted = shape[last], False
    if kind == "c2r":
        read, weighted = half_read(n, math.prod(shape[:last]), math.prod(shape[last + 1 :]))
        builder.shape[last] = read
    builder.transform(kind, dims, n, sign, scale)
    tensors = builder.matrices.flat(), builder.twiddles.flat()
    return PassProgram(tuple(builder.passes), *tensors, tuple(builder.stages), read, builder.shape[last], weighted)
