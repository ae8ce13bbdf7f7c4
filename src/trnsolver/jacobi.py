"""The constant operands of the Jacobi kernel: which rows meet in a step, and where they go after it."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from trnsci.nki import P_MAX


def sweeps(n: int) -> int:
    """Sweeps after which single precision gains nothing more, with one to spare."""
    return 6 if n <= 8 else 8 if n <= 32 else 9 if n <= P_MAX else 11


@functools.cache
def masks(n: int, device: torch.device) -> tuple[Tensor]:
    """Eight matrices of an even size: identity, pairs, difference, rotation patterns of both kinds of step, average.

    Position ``i`` of the upper half meets ``i`` of the lower half. A full step then moves everybody one seat on, as in
    a tournament, so that all have met after ``size - 1``; a crossing step moves only the lower half.
    """
    size = P_MAX if n > P_MAX else max(2, n + n % 2)
    half = size // 2
    i = torch.arange(size)
    partner = (i + half) % size
    eye = torch.eye(size)
    pair = 2.0 * eye[partner]
    top = (i < half).float()
    # Column p of the difference sums to (lower minus upper) of p's pair.
    difference = (eye[half + i % half] - eye[i % half]).T
    made = [eye, pair, difference]
    for cross in (False, True):
        seats = torch.tensor(_seats(size, cross))
        cosine, sine = torch.zeros(size, size), torch.zeros(size, size)
        cosine[i, seats[i]] = 1.0
        sine[i, seats[partner]] = 2.0 * top - 1.0
        made += [cosine, sine]
    made.append(0.5 * (eye + eye[partner]))
    return (torch.stack(made).contiguous().to(device),)


def _seats(size: int, cross: bool) -> list[int]:
    """Where each position goes after a step."""
    half = size // 2
    if cross:
        return [*range(half), *(half + (i + 1) % half for i in range(half))]
    if half == 1:
        return [0, 1]
    return [0, *range(2, half), size - 1, 1, *range(half, size - 1)]
