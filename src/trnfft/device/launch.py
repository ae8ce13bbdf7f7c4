"""Transforms on Trainium: the launch of a call's program, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trnfft import exact
from trnfft.arguments import factor
from trnfft.device import digit_programs, passes, pieces
from trnfft.device.factor_tables import HALF_OUT, WHOLE, fold
from trnfft.device.pass_programs import PassProgram, Stage, fold_tables, pass_program
from trnfft.device.pieces import Rows
from trnfft.device.tables import weighted
from trnfft.framing import frames_beyond, padded, padded_ends
from trnfft.kernels import fft as kernels
from trnsci.nki import launch

# Longer transforms would need tables of more than 100 MB.
LONGEST = 1 << 22


def _run(program: PassProgram, re: Tensor, im: Tensor | None) -> Any:
    return launch(
        kernels.fft,
        re.contiguous().reshape(-1),
        None if im is None else im.contiguous().reshape(-1),
        *program.tables,
        program=program.steps,
    )


def _operand(precision: str) -> torch.dtype:
    return torch.bfloat16 if precision == "fast" else torch.float32


def _plane(x: Tensor, precision: str) -> Tensor:
    # The imaginary plane of a conjugate is a view that only says it is negative.
    return x.to(_operand(precision)).resolve_neg()


def _exactly(re: Tensor, im: Tensor | None, dims: list[int], sign: int, scale: str, precision: str, n: int) -> Tensor:
    """Transform in digits; ``n`` points of the last transformed axis, zeros included."""
    wide = re.double()
    x = torch.complex(wide, torch.zeros_like(wide) if im is None else im.double())
    pad = [0, 0] * (x.ndim - dims[-1])
    pad[-1] = n - x.shape[dims[-1]]
    points = math.prod(x.shape[d] for d in dims[:-1]) * n
    return exact.c2c(torch.nn.functional.pad(x, pad), dims, sign, factor(scale, points), precision)


def c2c(
    re: Tensor, im: Tensor | None, dims: list[int], inverse: bool, scale: str, precision: str
) -> tuple[Tensor, Tensor]:
    """Return both planes of a complex transform."""
    shape = tuple(re.shape)
    if precision in exact.PRECISIONS:
        y = _exactly(re, im, dims, 1 if inverse else -1, scale, precision, shape[dims[-1]])
        return y.real.to(re.dtype), y.imag.to(re.dtype)
    if not pieces.fit([Rows("c2c", re.numel() // shape[dim], shape[dim], im is None) for dim in dims]):
        for dim in dims:
            re, im = _along("c2c", re, im, dim, shape[dim], inverse, scale, precision)
        assert im is not None
        return re, im
    return _c2c(re, im, dims, inverse, scale, precision)


def _along(
    kind: str, re: Tensor, im: Tensor | None, dim: int, n: int, inverse: bool, scale: str, precision: str
) -> tuple[Tensor, Tensor | None]:
    """Transform one axis in several launches of pieces of rows, as equal as can be."""
    planes = [None if plane is None else plane.movedim(dim, -1) for plane in (re, im)]
    lead = re.movedim(dim, -1).shape[:-1]
    rows = [None if plane is None else plane.reshape(-1, plane.shape[-1]) for plane in planes]
    first, second = rows
    assert first is not None
    width = Rows(kind, first.shape[0], n, im is None).at_once()
    parts: list[tuple[Tensor, ...]] = []
    for start in range(0, first.shape[0], width):
        one = first[start : start + width]
        two = None if second is None else second[start : start + width]
        if kind == "c2c":
            parts.append(_c2c(one, two, [1], inverse, scale, precision))
        elif kind == "r2c":
            parts.append(_r2c(one, [1], scale, precision))
        else:
            assert two is not None
            parts.append((_c2r(one, two, [1], n, scale, precision),))
    joined = [torch.cat(part).reshape(*lead, -1).movedim(-1, dim) for part in zip(*parts, strict=True)]
    return joined[0], joined[1] if len(joined) > 1 else None


def _c2c(
    re: Tensor, im: Tensor | None, dims: list[int], inverse: bool, scale: str, precision: str
) -> tuple[Tensor, Tensor]:
    """Run `c2c` as one program."""
    shape = tuple(re.shape)
    planned = pass_program("c2c", shape, tuple(dims), 0, 1 if inverse else -1, scale, _operand(precision), im is None)
    planes = _run(planned, _plane(re, precision), None if im is None else _plane(im, precision))
    out_re, out_im = (plane.reshape(shape).to(re.dtype) for plane in planes)
    return out_re, out_im


def r2c(x: Tensor, dims: list[int], scale: str, precision: str) -> tuple[Tensor, Tensor]:
    """Return both planes of half a spectrum."""
    n = x.shape[dims[-1]]
    if precision in exact.PRECISIONS:
        y = _exactly(x, None, dims, -1, scale, precision, n).narrow(dims[-1], 0, n // 2 + 1)
        return y.real.to(x.dtype), y.imag.to(x.dtype)
    axes = [Rows("r2c", x.numel() // n, n, True)]
    half = x.numel() // n * (n // 2 + 1)
    axes += [Rows("c2c", half // x.shape[dim], x.shape[dim]) for dim in dims[:-1]]
    if pieces.fit(axes):
        return _r2c(x, dims, scale, precision)
    re, im = _along("r2c", x, None, dims[-1], n, False, scale, precision)
    assert im is not None
    return c2c(re, im, dims[:-1], False, scale, precision) if len(dims) > 1 else (re, im)


def _r2c(x: Tensor, dims: list[int], scale: str, precision: str) -> tuple[Tensor, Tensor]:
    """Run `r2c` as one program."""
    n = x.shape[dims[-1]]
    planned = pass_program("r2c", tuple(x.shape), tuple(dims), n, -1, scale, _operand(precision))
    shape = list(x.shape)
    shape[dims[-1]] = planned.written
    planes = _run(planned, _plane(x, precision), None)
    out_re, out_im = (plane.reshape(shape).narrow(dims[-1], 0, n // 2 + 1).to(x.dtype) for plane in planes)
    return out_re, out_im


def c2r(re: Tensor, im: Tensor, dims: list[int], n: int, scale: str, precision: str) -> Tensor:
    """Return real data from half a spectrum, padded to whole rows of a matrix where its program needs it."""
    last, dtype = dims[-1], re.dtype
    if precision in exact.PRECISIONS:
        re, im = weighted(re.double(), last, n, 2.0), weighted(im.double(), last, n, 2.0)
        return _exactly(re, im, dims, 1, scale, precision, n).real.to(dtype)
    axes = [Rows("c2c", re.numel() // re.shape[dim], re.shape[dim]) for dim in dims[:-1]]
    axes.append(Rows("c2r", re.numel() // re.shape[last], n))
    if pieces.fit(axes):
        return _c2r(re, im, dims, n, scale, precision)
    if len(dims) > 1:
        re, im = c2c(re, im, dims[:-1], True, scale, precision)
    return _along("c2r", re, im, last, n, True, scale, precision)[0]


def _c2r(re: Tensor, im: Tensor, dims: list[int], n: int, scale: str, precision: str) -> Tensor:
    """Run `c2r` as one program."""
    last, dtype = dims[-1], re.dtype
    planned = pass_program("c2r", tuple(re.shape), tuple(dims), n, 1, scale, _operand(precision))
    pad = [0, 0] * (re.ndim - last)
    pad[-1] = planned.read - re.shape[last]
    if planned.weighted:
        re, im = weighted(re, last, n, 2.0), weighted(im, last, n, 2.0)
    planes = [torch.nn.functional.pad(_plane(plane, precision), pad) for plane in (re, im)]
    real = _run(planned, planes[0], planes[1])
    shape = list(re.shape)
    shape[last] = planned.written
    result: Tensor = real.reshape(shape).narrow(last, 0, n).to(dtype)
    return result


def framed(
    x: Tensor, window: Tensor | None, n: int, hop: int, by: int, mode: str, onesided: bool, scale: str, precision: str
) -> PassProgram | None:
    """Return the program that cuts, windows and transforms frames of [..., l]; ``None`` if frames are cut before."""
    half = HALF_OUT if onesided else WHOLE
    factors, at = fold(n, half, 1), frames_beyond(x.shape[-1], n, hop, by)
    if factors is None or at is None or precision in exact.PRECISIONS:
        return None
    count, signals = (x.shape[-1] + 2 * by - n) // hop + 1, math.prod(x.shape[:-1])
    if not pieces.fit([Rows("r2c", signals * count, n, True)]):
        return None
    written = n // 2 + 1 if onesided else n
    dtype = _operand(precision)
    tables = fold_tables(factors, half, -1, scale, dtype)
    left, right = padded_ends(x, n, hop, by, mode, at)
    kept = [left, right] if window is None else [left, right, window]
    signal_pieces = (
        passes.Piece(True, left.shape[-1], 0, at.before, 0),
        passes.Piece(False, x.shape[-1], at.before, count - at.before - at.after, at.before * hop - by),
        passes.Piece(True, right.shape[-1], count - at.after, at.after, left.numel()),
    )
    cut = tuple(piece for piece in signal_pieces if piece.frames)
    weights = passes.NONE if window is None else passes.Table(left.numel() + right.numel(), 1, n)
    split = factors.n1, factors.n2, half, factors.group
    sizes = passes.Frames(signals, count, hop, written, *split, *tables[1:], weights, cut)
    step = passes.Pass(sizes, signals * count * written, False)
    ends = torch.cat([tensor.to(dtype).reshape(-1) for tensor in kept])
    return PassProgram((step,), tables.matrices, None, (), n, written, False, ends if ends.numel() else None)


def stft(
    x: Tensor, window: Tensor | None, n: int, hop: int, by: int, mode: str, onesided: bool, scale: str, precision: str
) -> tuple[Tensor, Tensor]:
    """Return both planes of the spectra of frames [..., t, k], of signals padded by ``by`` samples at either end."""
    transform = framed(x, window, n, hop, by, mode, onesided, scale, precision)
    if transform is None:
        cut = padded(x, by, mode).unfold(-1, n, hop) if by else x.unfold(-1, n, hop)
        cut = cut if window is None else cut * window
        last = [cut.ndim - 1]
        return r2c(cut, last, scale, precision) if onesided else c2c(cut, None, last, False, scale, precision)
    planes = _run(transform, _plane(x, precision), None)
    shape = (*x.shape[:-1], -1, transform.written)
    out_re, out_im = (plane.reshape(shape).to(x.dtype) for plane in planes)
    return out_re, out_im


def limits(shape: Sequence[int], dims: Sequence[int]) -> str | None:
    """Return why the kernel refuses to transform these axes of data of this shape, or ``None``."""
    longest = max((shape[dim] for dim in dims), default=0)
    if longest > LONGEST:
        return f"an axis of {longest} points is longer than {LONGEST}, which its tables cover"
    return None


def stages(
    kind: str, shape: tuple[int, ...], dims: tuple[int, ...], n: int, sign: int, scale: str, precision: str, real: bool
) -> tuple[tuple[Stage, ...], tuple[Tensor, ...]]:
    """Return stages and tables of the program of a ``c2c``, ``r2c`` or ``c2r``; arguments as for `pass_program`."""
    if precision in exact.PRECISIONS:
        whole = list(shape)
        whole[dims[-1]] = n or whole[dims[-1]]
        exactly = exact.programs(tuple(whole), dims, sign, precision)
        axes = [digit_programs.axis_for(whole[dim]) for dim in dims]
        of_axes = [
            Stage(dim, axis.n, "chirp in digits" if axis.chirp else "digits", axis.factors)
            for dim, axis in zip(dims, axes, strict=True)
        ]
        return tuple(of_axes), tuple(planned.tables for planned in exactly)
    planned = pass_program(kind, shape, dims, n, sign, scale, _operand(precision), real)
    return planned.stages, tuple(table for table in planned.tables if table is not None)
