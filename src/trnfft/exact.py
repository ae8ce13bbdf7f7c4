"""Transforms more precise than fp32 on Trainium: one program of products with DFT matrices in digits of base 256.

The host scales columns by powers of two, takes numbers apart into digits and puts digits together, in float64; for
lengths with large primes it multiplies by chirps as well.
"""

import math

import numpy as np
import torch
from torch import Tensor

from trnfft.arguments import resize_axes
from trnfft.device import digit_programs, tables
from trnfft.device.digit_programs import DigitProgram, digits
from trnfft.kernels import exact as kernels
from trnsci.nki import launch

PRECISIONS = tuple(digit_programs.BOUND)


def together(parts: Tensor) -> Tensor:
    """Invert `digits`, in float64."""
    total = torch.zeros(parts.shape[1:], dtype=torch.float64, device=parts.device)
    for digit in parts.flip(0):
        total = total + digit.double()
    return total


def _run(parts: Tensor, transform: DigitProgram) -> Tensor:
    """Transform [2, n, F]; axes come out in reverse."""
    # Powers of two per column: rows of very different size in one batch keep their own precision.
    largest = parts.abs().amax((0, 1))
    finite = torch.isfinite(largest)
    exponent = torch.frexp(largest)[1].double().clamp(-1000, 1023)
    scaled = torch.where(finite, parts * torch.exp2(-exponent), 0.0)
    room = digit_programs.room(transform, scaled[0].abs() + scaled[1].abs())
    x = digits(scaled * torch.exp2(-room), transform.count).permute(1, 2, 0, 3).contiguous()  # [2, n, S, F]
    result: Tensor = launch(kernels.exact, x, transform.tables, program=transform.steps)
    y = together(result.movedim(2, 0)) * torch.exp2(room + transform.shift) * torch.exp2(exponent)
    # Digits hold no infinities: a column with one is NaN, as it is where infinities meet in a sum.
    return torch.where(finite, y, torch.nan)


def _multiply_chirps(x: Tensor, transform: DigitProgram, sign: int) -> Tensor:
    """Multiply [n.., F] by the chirps of its axes."""
    for at, axis in enumerate(transform.axes):
        if axis.chirp:
            chirp = torch.from_numpy(tables.chirp(axis.n, axis.n, sign)).to(x.device)
            x = x * chirp.reshape(-1, *[1] * (x.ndim - at - 1))
    return x


def programs(shape: tuple[int, ...], dims: tuple[int, ...], sign: int, precision: str) -> list[DigitProgram]:
    """Return the programs of a complex transform over axes of a tensor of this shape, each for all its columns."""
    lengths = tuple(shape[dim] for dim in dims)
    columns = math.prod(shape) // max(1, math.prod(lengths))
    if not digit_programs.fits(lengths, 1, precision):
        if len(dims) > 1:
            return [part_program for dim in dims for part_program in programs(shape, (dim,), sign, precision)]
        axis = digit_programs.axis_for(lengths[0])
        parts = digit_programs.halves(axis.length)
        if 1 not in parts:
            return [
                _program((part,), columns * axis.length // part, sign, precision, _POINTS * axis.length)
                for part in parts
            ]
    return [_program(lengths, columns, sign, precision, 0)]


def _program(lengths: tuple[int, ...], columns: int, sign: int, precision: str, points: int) -> DigitProgram:
    width = digit_programs.columns_at_once(lengths, columns, precision, points)
    return digit_programs.digit_program(lengths, width, sign, precision, points)


def c2c(x: Tensor, dims: list[int], sign: int, scale: float, precision: str, points: int = 0) -> Tensor:
    """Transform complex128 over axes, in as many launches as its columns need.

    ``points`` are those of the transform that this one is a part of.
    """
    beside = [dim for dim in range(x.ndim) if dim not in dims]
    lengths = tuple(x.shape[dim] for dim in dims)
    moved = x.permute(*dims, *beside).reshape(*lengths, -1)
    if digit_programs.fits(lengths, 1, precision, points):
        width = digit_programs.columns_at_once(lengths, moved.shape[-1], precision, points)
        y = torch.cat([_columns(part, sign, precision, points) for part in moved.split(width, -1)], -1)
    elif len(dims) > 1:
        y = moved
        for dim in range(len(dims)):
            y = c2c(y, [dim], sign, 1.0, precision, max(points, _POINTS * math.prod(lengths)))
    else:
        y = _long(moved, sign, precision, points)
    y = y.reshape(*lengths, *(x.shape[dim] for dim in beside))
    y = y.permute(*(([*dims, *beside]).index(dim) for dim in range(x.ndim)))
    return y * scale if scale != 1 else y


# Errors of two or three transforms in a row add up: each has the digits of one with this many times the points.
_POINTS = 16


def _long(x: Tensor, sign: int, precision: str, points: int) -> Tensor:
    """Transform columns [n, F] too long for a program by many short ones, with twiddles on the host in between."""
    n, columns = x.shape
    axis = digit_programs.axis_for(n)
    points = max(points, _POINTS * axis.length)
    if axis.chirp:
        convolved = tables.chirp(n, n, sign), tables.chirp_spectrum(n, n, n, axis.length, sign)
        chirp, spectrum = (torch.from_numpy(each).to(x.device)[:, None] for each in convolved)
        padded = resize_axes(x * chirp, [0], [axis.length])
        there = c2c(padded, [0], -1, 1.0, precision, points) * spectrum
        return c2c(there, [0], 1, 1.0, precision, points)[:n] * chirp
    first, last = digit_programs.halves(n)
    if first == 1:
        return _columns(x, sign, precision, points)
    inner = c2c(x.reshape(first, last, columns), [0], sign, 1.0, precision, points)
    turns = torch.from_numpy(tables.roots(np.outer(np.arange(first), np.arange(last)), n, sign)).to(x.device)
    outer = c2c(inner * turns[..., None], [1], sign, 1.0, precision, points)  # [k1, k2, F] of point k1 + n1 k2
    return outer.transpose(0, 1).reshape(n, columns)


def _columns(x: Tensor, sign: int, precision: str, points: int) -> Tensor:
    """Transform all axes but the last of [n.., F], in one program."""
    transform = digit_programs.digit_program(tuple(x.shape[:-1]), x.shape[-1], sign, precision, points)
    moved = _multiply_chirps(x, transform, sign)
    padded = resize_axes(moved, range(x.ndim - 1), [axis.length for axis in transform.axes])
    parts = torch.stack((padded.real, padded.imag)).flatten(1, -2)
    re, im = _run(parts, transform).unflatten(1, [axis.length for axis in reversed(transform.axes)])
    y = torch.complex(re, im).permute(*range(x.ndim - 2, -1, -1), x.ndim - 1)
    return _multiply_chirps(resize_axes(y, range(x.ndim - 1), x.shape[:-1]), transform, sign)
