"""Transforms on Trainium: which program of passes serves a call, its tables, and its launch."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trnfft import exact, tables
from trnfft.kernels import transform as kernels
from trnfft.lengths import next_fast_len
from trnsci.nki import P_MAX, launch

# Prime lengths of rows up to here are one product with the whole matrix; longer ones are convolutions with a chirp.
DIRECT = 1100
# From this many rows on, loading them as they lie and transposing them on chip is faster.
TURNED = 32
# Longer transforms would need tables of more than 100 MB.
LONGEST = 1 << 22

Step = tuple[Any, ...]


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
class Program:
    """Passes with their tables, and the lengths of the last axis it reads and writes, padding included."""

    steps: tuple[Step, ...]
    tables: tuple[Tensor, ...]
    stages: tuple[Stage, ...]
    read: int
    written: int


class _Builder:
    """Collects passes over an array whose shape changes along the way."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, real_in: bool) -> None:
        self.shape = list(shape)
        self.dtype = dtype
        self.real_in = real_in
        self.steps: list[Step] = []
        self.tables: list[Tensor] = []
        self.stages: list[Stage] = []

    def keep(self, table: Tensor) -> int:
        self.tables.append(table)
        return len(self.tables) - 1

    def add(self, kind: str, size: int, real: bool, *sizes: int) -> None:
        """A pass that writes ``size`` elements, of one plane if they are ``real``."""
        self.steps.append((kind, size, real, *sizes))
        self.real_in = False

    def axis(self, axis: int, n: int, inputs: int, outputs: int, sign: int, scale: float, real: bool) -> int:
        """Transform one axis of length n, given ``inputs`` terms; returns the length written, at least ``outputs``."""
        a, c = math.prod(self.shape[:axis]), math.prod(self.shape[axis + 1 :])
        algorithm, split = algorithm_for(n, c)
        if algorithm == "factors":
            split = for_rows(a, n, c, split)
        self.stages.append(Stage(axis, n, algorithm, split))
        if algorithm == "chirp":
            written = self._chirp(a, n, c, split, inputs, outputs, sign, scale, real)
        else:
            written = self._passes(a, n, c, split, inputs, outputs, sign, scale, real)
        self.shape[axis] = written
        return written

    def _passes(
        self,
        a: int,
        n: int,
        c: int,
        split: tuple[int, ...],
        inputs: int,
        outputs: int,
        sign: int,
        scale: float,
        real: bool,
    ) -> int:
        first, last = split[0], split[-1]
        read = -(-inputs // (n // first))
        write = -(-outputs // (n // last))
        planes = 1 if self.real_in else 2
        dtype = self.dtype
        if c == 1 and len(split) == 1:
            t = self.keep(
                tables.matrix(n, inputs, outputs, sign, scale, real_in=planes == 1, real_out=real, dtype=dtype)
            )
            self.add("rows", a * outputs, real, a, inputs, outputs, t)
        elif c == 1 and len(split) == 2:
            packed = max(1, min(a, P_MAX // last))
            turned = is_turned(a, n)
            lanes = 1 if turned else max(1, min(a // packed, P_MAX // (planes * read)))
            real_in = planes == 1
            t1 = self.keep(tables.matrix(first, read, first, sign, 1.0, lanes=lanes, real_in=real_in, dtype=dtype))
            tw = self.keep(tables.twiddles(n, last, first, packed, sign))
            t2 = self.keep(
                tables.matrix(last, last, write, sign, scale, lanes=packed, layout="split", real_out=real, dtype=dtype)
            )
            self.add(
                "fused", a * write * first, real, a, first, last, read, write, packed, lanes, int(turned), t1, tw, t2
            )
        else:
            self._stockham(a, n, c, split, read, write, sign, scale, real)
        return write * (n // last)

    def _stockham(
        self, a: int, n: int, c: int, split: tuple[int, ...], read: int, write: int, sign: int, scale: float, real: bool
    ) -> None:
        """One pass per factor; each leaves what it has done in order beside what is left."""
        rest, done = n, c
        for index, r in enumerate(split):
            m, final = rest // r, index == len(split) - 1
            j, k = read if index == 0 else r, write if final else r
            planes = 1 if self.real_in else 2
            turned = index == 0 and c == 1
            lanes = 1 if turned else max(1, min(P_MAX // (planes * j), P_MAX // k))
            t = self.keep(
                tables.matrix(
                    r,
                    j,
                    k,
                    sign,
                    scale if final else 1.0,
                    lanes=lanes,
                    layout="stationary",
                    real_in=planes == 1,
                    real_out=final and real,
                    dtype=self.dtype,
                )
            )
            if turned:
                tw = self.keep(tables.twiddles(rest, m, k, 1, sign))
                self.add("turn", a * m * k, False, a, j, m, k, t, tw)
            else:
                tw = -1 if final else self.keep(tables.twiddles(rest, k, m, lanes, sign))
                self.add("columns", a * m * k * done, final and real, a, j, m, done, k, lanes, t, tw)
            rest, done = m, done * r

    def _chirp(
        self,
        a: int,
        n: int,
        c: int,
        split: tuple[int, ...],
        inputs: int,
        outputs: int,
        sign: int,
        scale: float,
        real: bool,
    ) -> int:
        length = math.prod(split)
        before = self.keep(tables.chirp(n, inputs, sign, 1.0))
        self.add("multiply", a * length * c, False, a, inputs, length, c, before)
        split = for_rows(a, length, c, split)
        self._passes(a, length, c, split, length, length, -1, 1.0, False)
        between = self.keep(tables.chirp_spectrum(n, inputs, outputs, length, sign))
        self.add("multiply", a * length * c, False, a, length, length, c, between)
        self._passes(a, length, c, split, length, length, 1, 1.0, False)
        after = self.keep(tables.chirp(n, outputs, sign, scale))
        self.add("multiply", a * outputs * c, real, a, length, outputs, c, after)
        return outputs


@functools.lru_cache(maxsize=4096)
def algorithm_for(n: int, inner: int) -> tuple[str, tuple[int, ...]]:
    """How a length is transformed beside ``inner`` neighbours: its name, and the factors of its matrices."""
    split = tables.factors(n, P_MAX)
    if split is not None:
        return ("matrix" if len(split) == 1 else "factors"), split
    if inner == 1 and n <= DIRECT:
        return "matrix", (n,)
    return "chirp", _padded_factors(2 * n - 1)


def is_turned(rows: int, n: int) -> bool:
    """Whether rows are loaded as they lie and transposed on chip: where there are many, and they fit."""
    return rows >= TURNED and n <= 8192


def for_rows(rows: int, n: int, inner: int, split: tuple[int, ...]) -> tuple[int, ...]:
    """Two factors for rows: the first as large as can be where rows are transposed on chip, for long runs in HBM."""
    if inner != 1 or len(split) != 2 or not is_turned(rows, n):
        return split
    first = max(d for d in range(1, P_MAX + 1) if n % d == 0 and n // d <= P_MAX)
    return first, n // first


def _padded_factors(least: int) -> tuple[int, ...]:
    """Factors of the length from ``least`` on that is cheapest: few factors, then few points."""
    best: tuple[float, tuple[int, ...]] | None = None
    for length in range(least, least + max(64, least // 8)):
        split = tables.factors(length, P_MAX) if length % 16 == 0 or length < P_MAX else None
        if split is not None:
            cost = length * sum(split) ** 0.5 * len(split)
            if best is None or cost < best[0]:
                best = (cost, split)
    assert best is not None
    return best[1]


def _scale(scale: str, n: int) -> float:
    return {"none": 1.0, "root": 1 / math.sqrt(n), "full": 1 / n}[scale]


# Programs hold tables of up to some tens of megabytes; plans, which are bounded by bytes, keep theirs alive.
@functools.lru_cache(maxsize=32)
def program(
    kind: str,
    shape: tuple[int, ...],
    dims: tuple[int, ...],
    n: int,
    sign: int,
    scale: str,
    dtype: torch.dtype,
    real_in: bool = False,
) -> Program:
    """The passes of a call. ``n`` is the length of the last axis where only half of it is read or written."""
    order = list(dims)
    last = order[-1]
    if kind == "r2c":
        order.reverse()
    builder = _Builder(shape, dtype, real_in or kind == "r2c")
    read = shape[last]
    half = n // 2 + 1
    if kind == "c2r":
        algorithm, split = algorithm_for(n, math.prod(shape[last + 1 :]))
        rows = math.prod(shape[:last])
        if algorithm != "chirp" and len(split) > 1:
            split = for_rows(rows, n, math.prod(shape[last + 1 :]), split)
            beside = n // split[0]
            read = -(-half // beside) * beside
        builder.shape[last] = read
    for axis in order:
        length = shape[axis]
        if axis != last or kind == "c2c":
            builder.axis(axis, length, length, length, sign, _scale(scale, length), False)
        elif kind == "r2c":
            builder.axis(axis, n, n, half, sign, _scale(scale, n), False)
        else:
            builder.axis(axis, n, read, n, sign, _scale(scale, n), True)
    return Program(tuple(builder.steps), tuple(builder.tables), tuple(builder.stages), read, builder.shape[last])


def _run(made: Program, re: Tensor, im: Tensor | None) -> Any:
    return launch(
        kernels.transform,
        re.contiguous().reshape(-1),
        None if im is None else im.contiguous().reshape(-1),
        made.tables,
        program=made.steps,
    )


def _operand(precision: str) -> torch.dtype:
    return torch.bfloat16 if precision == "fast" else torch.float32


def _plane(x: Tensor, precision: str) -> Tensor:
    return x.to(_operand(precision))


def _exactly(re: Tensor, im: Tensor | None, dims: list[int], sign: int, scale: str, precision: str, n: int) -> Tensor:
    """A transform in digits; ``n`` points of the last transformed axis, zeros included."""
    wide = re.double()
    x = torch.complex(wide, torch.zeros_like(wide) if im is None else im.double())
    pad = [0, 0] * (x.ndim - dims[-1])
    pad[-1] = n - x.shape[dims[-1]]
    points = math.prod(x.shape[d] for d in dims[:-1]) * n
    return exact.c2c(torch.nn.functional.pad(x, pad), dims, sign, _scale(scale, points), precision)


def c2c(
    re: Tensor, im: Tensor | None, dims: list[int], inverse: bool, scale: str, precision: str
) -> tuple[Tensor, Tensor]:
    """Both planes of a complex transform."""
    shape = tuple(re.shape)
    if precision in exact.DIGITS:
        y = _exactly(re, im, dims, 1 if inverse else -1, scale, precision, shape[dims[-1]])
        return y.real.to(re.dtype), y.imag.to(re.dtype)
    made = program("c2c", shape, tuple(dims), 0, 1 if inverse else -1, scale, _operand(precision), im is None)
    found = _run(made, _plane(re, precision), None if im is None else _plane(im, precision))
    out_re, out_im = (plane.reshape(shape).to(re.dtype) for plane in found)
    return out_re, out_im


def r2c(x: Tensor, dims: list[int], scale: str, precision: str) -> tuple[Tensor, Tensor]:
    """Both planes of half a spectrum."""
    n = x.shape[dims[-1]]
    if precision in exact.DIGITS:
        y = _exactly(x, None, dims, -1, scale, precision, n).narrow(dims[-1], 0, n // 2 + 1)
        return y.real.to(x.dtype), y.imag.to(x.dtype)
    made = program("r2c", tuple(x.shape), tuple(dims), n, -1, scale, _operand(precision))
    shape = list(x.shape)
    shape[dims[-1]] = made.written
    found = _run(made, _plane(x, precision), None)
    out_re, out_im = (plane.reshape(shape).narrow(dims[-1], 0, n // 2 + 1).to(x.dtype) for plane in found)
    return out_re, out_im


def c2r(re: Tensor, im: Tensor, dims: list[int], n: int, scale: str, precision: str) -> Tensor:
    """Real data from half a spectrum, whose inner terms count twice and which is padded to whole rows of a matrix."""
    last = dims[-1]
    weights = torch.from_numpy(tables.half_weights(n, re.shape[last])).to(re.dtype)
    weights = weights.to(re.device).reshape(-1, *[1] * (re.ndim - last - 1))
    if precision in exact.DIGITS:
        return _exactly(re.double() * weights, im.double() * weights, dims, 1, scale, precision, n).real.to(re.dtype)
    made = program("c2r", tuple(re.shape), tuple(dims), n, 1, scale, _operand(precision))
    pad = [0, 0] * (re.ndim - last)
    pad[-1] = made.read - re.shape[last]
    planes = [torch.nn.functional.pad(_plane(plane * weights, precision), pad) for plane in (re, im)]
    found = _run(made, planes[0], planes[1])
    shape = list(re.shape)
    shape[last] = made.written
    result: Tensor = found.reshape(shape).narrow(last, 0, n).to(re.dtype)
    return result


def _limits(lengths: list[int]) -> str | None:
    longest = max(lengths, default=0)
    if longest > LONGEST:
        return f"an axis of {longest} points is longer than {LONGEST}, which its tables are made for"
    return None


def c2c_limits(x: Tensor, dims: list[int], inverse: bool, scale: str, precision: str) -> str | None:
    """Why the kernel refuses a call, or ``None``."""
    return _limits([x.shape[d] for d in dims])


def c2c_planes_limits(re: Tensor, im: Tensor, dims: list[int], inverse: bool, scale: str, precision: str) -> str | None:
    """Why the kernel refuses a call, or ``None``."""
    return c2c_limits(re, dims, inverse, scale, precision)


def r2c_limits(x: Tensor, dims: list[int], scale: str, precision: str) -> str | None:
    """Why the kernel refuses a call, or ``None``."""
    return _limits([x.shape[d] for d in dims])


def c2r_limits(x: Tensor, dims: list[int], n: int, scale: str, precision: str) -> str | None:
    """Why the kernel refuses a call, or ``None``."""
    return _limits([*(x.shape[d] for d in dims[:-1]), n])


def c2r_planes_limits(re: Tensor, im: Tensor, dims: list[int], n: int, scale: str, precision: str) -> str | None:
    """Why the kernel refuses a call, or ``None``."""
    return c2r_limits(re, dims, n, scale, precision)


def _exact_stage(axis: int, n: int) -> Stage:
    split = tables.factors(n, exact.LARGEST)
    if split is None:
        return Stage(axis, n, "chirp in digits", tables.factors(next_fast_len(2 * n - 1), exact.LARGEST) or ())
    return Stage(axis, n, "digits", split)


def stages(steps: tuple[Any, ...]) -> tuple[tuple[Stage, ...], tuple[Tensor, ...]]:
    """Stages and tables of the programs that planned calls would run on Trainium."""
    found: list[Stage] = []
    kept: list[Tensor] = []
    for step in steps:
        kind = step.op.removeprefix("trnfft::").removesuffix("_planes")
        tensors = 2 if step.op.endswith("_planes") and kind != "r2c" else 1
        spec, dims, options = step.args[0], tuple(step.args[tensors]), list(step.args[tensors + 1 :])
        scale, precision = options[-2:]
        if 0 in spec.shape:
            continue
        if precision in exact.DIGITS:
            found += [_exact_stage(axis, spec.shape[axis]) for axis in dims]
            continue
        n = {"c2c": 0, "r2c": spec.shape[dims[-1]], "c2r": options[0]}[kind]
        sign = 1 if kind == "c2r" or (kind == "c2c" and options[0]) else -1
        real_in = tensors == 1 and not spec.dtype.is_complex
        made = program(kind, spec.shape, dims, n, sign, scale, _operand(precision), real_in)
        found += made.stages
        kept += made.tables
    return tuple(found), tuple(kept)
