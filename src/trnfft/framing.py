"""Signals and their frames: padding, overlap, and their adjoints."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

PAD_MODES = ("constant", "reflect", "replicate", "circular")


def pad_signal(x: Tensor, by: int, mode: str) -> Tensor:
    """Pad ``x`` by ``by`` samples at either end of its last axis."""
    if mode == "constant" or not x.numel():
        return functional.pad(x, (by, by))
    rows = x.reshape(1, math.prod(x.shape[:-1]), x.shape[-1])
    return functional.pad(rows, (by, by), mode=mode).reshape(*x.shape[:-1], -1)


def cut_frames(x: Tensor, window: Tensor | None, n: int, hop: int, by: int, mode: str) -> Tensor:
    """Return windowed frames [..., t, n] of a signal padded by ``by`` samples at either end."""
    frames = (pad_signal(x, by, mode) if by else x).unfold(-1, n, hop)
    return frames if window is None else frames * window


def fold_padding(y: Tensor, by: int, mode: str) -> Tensor:
    """Apply the adjoint of `pad_signal`."""
    length = y.shape[-1] - 2 * by
    left, x, right = y[..., :by], y[..., by : by + length], y[..., by + length :]
    if mode == "constant" or by == 0:
        return x
    if mode == "reflect":
        x = x + functional.pad(left.flip(-1), (1, length - 1 - by))
        return x + functional.pad(right.flip(-1), (length - 1 - by, 1))
    if mode == "replicate":
        x = x + functional.pad(left.sum(-1, keepdim=True), (0, length - 1))
        return x + functional.pad(right.sum(-1, keepdim=True), (length - 1, 0))
    return x + functional.pad(left, (length - by, 0)) + functional.pad(right, (0, length - by))


# Samples from which torch's own sum of overlapping frames is the slower one, where few frames meet at a sample.
_MANY = 1 << 14
_SLICES = 16


def overlap_add(frames: Tensor, hop: int) -> Tensor:
    """Add [..., t, n] at distance ``hop``: [..., n + hop (t - 1)]."""
    count, n = frames.shape[-2:]
    total = n + hop * (count - 1)
    met = n // hop
    if met * hop == n and met <= _SLICES and frames.numel() >= _MANY:
        parts = frames.unflatten(-1, (met, hop))
        signal = frames.new_zeros((*frames.shape[:-2], count + met - 1, hop))
        for j in range(met):
            signal[..., j : j + count, :] += parts[..., j, :]
        return signal.flatten(-2)
    return torch.ops.aten.unfold_backward(frames, [*frames.shape[:-2], total], frames.ndim - 2, n, hop)


@dataclass(frozen=True, slots=True)
class Ends:
    """How many frames reach beyond either end of a signal, and from where in it the last of them are read."""

    before: int
    after: int
    start: int


def frames_beyond(length: int, n: int, hop: int, by: int) -> Ends | None:
    """Return how many frames reach beyond either end; ``None`` where one could reach beyond both."""
    count = (length + 2 * by - n) // hop + 1
    before = min(count, -(-by // hop))
    if before and (before - 1) * hop + n - by > length:
        return None
    first = min(count, max(before, (by + length - n) // hop + 1))
    return Ends(before, count - first, first * hop - by)


def padded_ends(x: Tensor, n: int, hop: int, by: int, mode: str, at: Ends) -> tuple[Tensor, Tensor]:
    """Return the beginning and the end of the padded signal, as far as the frames that reach beyond ``x`` need them."""
    length = x.shape[-1]
    if mode == "reflect":
        left, right = x[..., 1 : by + 1].flip(-1), x[..., length - 1 - by : length - 1].flip(-1)
    elif mode == "replicate":
        left, right = x[..., :1].expand(*x.shape[:-1], by), x[..., -1:].expand(*x.shape[:-1], by)
    elif mode == "circular":
        left, right = x[..., length - by :], x[..., :by]
    else:
        left = right = x.new_zeros(()).expand(*x.shape[:-1], by)
    first = torch.cat((left, x[..., : (at.before - 1) * hop + n - by]), -1) if at.before else x[..., :0]
    last = torch.cat((x[..., at.start :], right), -1) if at.after else x[..., :0]
    return first, last
