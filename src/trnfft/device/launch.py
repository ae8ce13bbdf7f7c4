"""Transforms on Trainium: the launch of a call's program, and what it refuses."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from trnfft import exact
from trnfft.arguments import factor, resize_axes
from trnfft.device import digit_programs, passes, pieces
from trnfft.device.factor_tables import HALF_OUT, WHOLE, fold
from trnfft.device.pass_programs import PassProgram, Stage, folded_rows, pass_program
from trnfft.device.pieces import Rows
from trnfft.device.tables import weight_half
from trnfft.framing import cut_frames, frames_beyond, padded_ends
from trnfft.kernels import fft as kernels
from trnsci.nki import launch

# Longer transforms would need tables of more than 100 MB.
LONGEST = 1 << 22


# One plane of real data, or real and imaginary part.
Planes = tuple[Tensor, ...]


def _run(program: PassProgram, planes: Sequence[Tensor]) -> Planes:
    re, *rest = (plane.contiguous().reshape(-1) for plane in planes)
    written = launch(kernels.fft, re, rest[0] if rest else None, *program.tables, program=program.steps)
    return written if isinstance(written, tuple) else (written,)


def _operand(precision: str) -> torch.dtype:
    return torch.bfloat16 if precision == "fast" else torch.float32


def _plane(x: Tensor, precision: str) -> Tensor:
    # The imaginary plane of a conjugate is a view that only says it is negative.
    return x.to(_operand(precision)).resolve_neg()


def _exactly(planes: Planes, dims: list[int], sign: int, scale: str, precision: str, n: int) -> Tensor:
    """Transform in digits; ``n`` points of the last transformed axis, zeros included."""
    wide = [plane.double() for plane in planes]
    x = torch.complex(wide[0], wide[1] if len(wide) > 1 else torch.zeros_like(wide[0]))
    points = math.prod(x.shape[d] for d in dims[:-1]) * n
    return exact.c2c(resize_axes(x, dims[-1:], [n]), dims, sign, factor(scale, points), precision)


def _once(
    kind: str, planes: Planes, dims: list[int], n: int, inverse: bool, scale: str, precision: str
) -> tuple[Tensor, ...]:
    """Return the planes of a transform as one program; half a spectrum is padded to the rows that its program reads."""
    last, shape, like = dims[-1], list(planes[0].shape), planes[0].dtype
    real, of_half = kind == "c2c" and len(planes) == 1, 0 if kind == "c2c" else n
    sign, dtype = 1 if inverse else -1, _operand(precision)
    planned = pass_program(kind, tuple(shape), tuple(dims), of_half, sign, scale, dtype, real)
    if planned.weighted:
        planes = tuple(weight_half(plane, last, n, 2.0) for plane in planes)
    shape[last] = planned.written
    written = _run(planned, [resize_axes(_plane(plane, precision), [last], [planned.read]) for plane in planes])
    wanted = n // 2 + 1 if kind == "r2c" else n
    return tuple(plane.reshape(shape).narrow(last, 0, wanted).to(like) for plane in written)


def _along(kind: str, planes: Planes, dim: int, n: int, inverse: bool, scale: str, precision: str) -> Planes:
    """Transform one axis in several launches of pieces of rows, as equal as can be."""
    moved = [plane.movedim(dim, -1) for plane in planes]
    rows = [plane.reshape(-1, plane.shape[-1]) for plane in moved]
    width = Rows(kind, len(rows[0]), n, len(planes) == 1).at_once()
    batches = zip(*(plane.split(width) for plane in rows), strict=True)
    parts = [_once(kind, batch, [1], n, inverse, scale, precision) for batch in batches]
    lead = moved[0].shape[:-1]
    return tuple(torch.cat(part).reshape(*lead, -1).movedim(-1, dim) for part in zip(*parts, strict=True))


def c2c(re: Tensor, im: Tensor | None, dims: list[int], inverse: bool, scale: str, precision: str) -> Planes:
    """Return both planes of a complex transform."""
    shape = tuple(re.shape)
    planes: Planes = (re,) if im is None else (re, im)
    if precision in exact.PRECISIONS:
        y = _exactly(planes, dims, 1 if inverse else -1, scale, precision, shape[dims[-1]])
        return y.real.to(re.dtype), y.imag.to(re.dtype)
    if pieces.fit([Rows("c2c", re.numel() // shape[dim], shape[dim], im is None) for dim in dims]):
        return _once("c2c", planes, dims, shape[dims[-1]], inverse, scale, precision)
    for dim in dims:
        planes = _along("c2c", planes, dim, shape[dim], inverse, scale, precision)
    return planes


def r2c(x: Tensor, dims: list[int], scale: str, precision: str) -> Planes:
    """Return both planes of half a spectrum."""
    n = x.shape[dims[-1]]
    if precision in exact.PRECISIONS:
        y = _exactly((x,), dims, -1, scale, precision, n).narrow(dims[-1], 0, n // 2 + 1)
        return y.real.to(x.dtype), y.imag.to(x.dtype)
    axes = [Rows("r2c", x.numel() // n, n, True)]
    half = x.numel() // n * (n // 2 + 1)
    axes += [Rows("c2c", half // x.shape[dim], x.shape[dim]) for dim in dims[:-1]]
    if pieces.fit(axes):
        return _once("r2c", (x,), dims, n, False, scale, precision)
    re, im = _along("r2c", (x,), dims[-1], n, False, scale, precision)
    return c2c(re, im, dims[:-1], False, scale, precision) if len(dims) > 1 else (re, im)


def c2r(re: Tensor, im: Tensor, dims: list[int], n: int, scale: str, precision: str) -> Tensor:
    """Return real data from half a spectrum."""
    last, dtype = dims[-1], re.dtype
    if precision in exact.PRECISIONS:
        doubled = weight_half(re.double(), last, n, 2.0), weight_half(im.double(), last, n, 2.0)
        return _exactly(doubled, dims, 1, scale, precision, n).real.to(dtype)
    axes = [Rows("c2c", re.numel() // re.shape[dim], re.shape[dim]) for dim in dims[:-1]]
    axes.append(Rows("c2r", re.numel() // re.shape[last], n))
    if pieces.fit(axes):
        return _once("c2r", (re, im), dims, n, True, scale, precision)[0]
    planes = c2c(re, im, dims[:-1], True, scale, precision) if len(dims) > 1 else (re, im)
    return _along("c2r", planes, last, n, True, scale, precision)[0]


def frame_program(
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
    left, right = padded_ends(x, n, hop, by, mode, at)
    kept = [left, right] if window is None else [left, right, window]
    signal_pieces = (
        passes.Piece(True, left.shape[-1], 0, at.before, 0),
        passes.Piece(False, x.shape[-1], at.before, count - at.before - at.after, at.before * hop - by),
        passes.Piece(True, right.shape[-1], count - at.after, at.after, left.numel()),
    )
    cut = tuple(piece for piece in signal_pieces if piece.frames)
    loaded = passes.NONE if window is None else passes.Factor(1, 1, passes.Table(left.numel() + right.numel(), 1, n))
    program = folded_rows(signals * count, factors, written, scale, dtype)
    (step,) = program.passes
    assert isinstance(step.sizes, passes.Folded)
    sizes = step.sizes._replace(loaded=loaded, frames=passes.Frames(count, hop, cut))
    ends = torch.cat([tensor.to(dtype).reshape(-1) for tensor in kept])
    return replace(program, passes=(step._replace(sizes=sizes),), given=ends if ends.numel() else None)


def stft(
    x: Tensor, window: Tensor | None, n: int, hop: int, by: int, mode: str, onesided: bool, scale: str, precision: str
) -> tuple[Tensor, ...]:
    """Return both planes of the spectra of frames [..., t, k], of signals padded by ``by`` samples at either end."""
    transform = frame_program(x, window, n, hop, by, mode, onesided, scale, precision)
    if transform is None:
        cut = cut_frames(x, window, n, hop, by, mode)
        last = [cut.ndim - 1]
        return r2c(cut, last, scale, precision) if onesided else c2c(cut, None, last, False, scale, precision)
    shape = (*x.shape[:-1], -1, transform.written)
    return tuple(plane.reshape(shape).to(x.dtype) for plane in _run(transform, [_plane(x, precision)]))


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
