"""Transforms of sharded arrays: by transposition between ranks, and one axis too long for any of them.

A transform needs its axis whole on a rank. Axes that are not cut are transformed where they are; for one that is, the
cut moves to another axis and back, two exchanges of everyone with everyone. Results have the operand's placement, and
are copies where the operand was terms. An array with a single axis is transformed as a matrix (four steps) cut along
the first axis of the mesh, at lengths with no fitting factors on every rank. `stft`, `spectrogram` and `istft` cut
signals; of fewer signals than ranks the first two cut frames instead, and every rank takes all samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trnfft.arguments import COMPLEX_OF, REAL_OF, axes_of, axis_of
from trnfft.device.digit_programs import halves
from trnfft.fft import fft, hfft, ifft, ihfft, irfft, rfft
from trnfft.fftn import fft2, fftn, ifft2, ifftn, irfft2, irfftn, rfft2, rfftn
from trnfft.framing import pad_signal
from trnfft.stft import istft, spectrogram, stft
from trnsci.distributed import Part, Team, chunks, sharded
from trnsci.distributed.calls import refuse_sharded
from trnsci.distributed.parts import SUM, Place, start_move
from trnsci.distributed.rules import by_batch
from trnsci.distributed.team import Wait, in_flight
from trnsci.precision import to_bfloat16_values

# Slices that travel one after the other at most, and the least bytes of one.
_ROUNDS, _SLICE = 8, 1 << 26
# A transform of one axis; parts of arrays are on the host, where its result is a tensor.
One = Callable[..., Any]


def _along(team: Team, x: Part, fn: One, *, axis: int, n: int | None, options: Any) -> Part:
    """Transform one axis, after moving its cut out of the way; slices of a large array travel while others are used."""
    cut = [where for where, place in enumerate(x.places) if place == axis]

    def transform(part: Part) -> Part:
        local = fn(part.local, n, axis, **options)
        if not isinstance(local, Tensor):
            # planes, which a part has none of
            local = torch.complex(local.real, local.imag)
        shape = list(part.shape)
        shape[axis] = local.shape[axis]
        return part.with_local(local, shape)

    if cut:
        free = [d for d in range(len(x.shape)) if d != axis and d not in x.places]
        # where every other axis is cut as well, the axis is gathered
        other = max(free, key=lambda d: x.shape[d]) if free else None
        spare = max((d for d in range(len(x.shape)) if d not in (axis, other)), key=lambda d: x.shape[d], default=None)
        rounds = min(_ROUNDS, math.prod(x.shape) * x.dtype.itemsize // (math.prod(team.shape) * _SLICE))
        if len(cut) == 1 and other is not None and spare is not None and rounds > 1:
            cuts = chunks(x.local.shape[spare], rounds)
            slices = ([x.with_local(x.local.narrow(spare, *each))] for each in cuts)
            arrived = in_flight(lambda part: [Wait(start_move(part, team, cut[0], other))], slices)
            parts = [transform(part) for (part,) in arrived]
            return parts[0].with_local(torch.cat([part.local for part in parts], spare))
        moved: list[Place] = [other if where in cut else place for where, place in enumerate(x.places)]
        x = x.to(team, tuple(moved))
    return transform(x)


def _transform_axes(team: Team, x: Part, steps: Sequence[tuple[One, int, int | None]], options: Any) -> Part:
    places = tuple(None if place == SUM else place for place in x.places)
    x = x.to(team, places)
    long = len(x.shape) == 1 and x.places != (None,) * len(x.places)
    if options["precision"] == "fast" and (long or len(steps) > 1) and x.dtype in COMPLEX_OF.keys() | REAL_OF.keys():
        # rounded once, as on one rank: a line cut between ranks takes up to six transforms
        x, options = x.with_local(to_bfloat16_values(x.local)), options | {"precision": "fp32"}
    for fn, axis, n in steps:
        if long:
            x = _long(team, x, fn, n, options)
        else:
            x = _along(team, x, fn, axis=axis, n=n, options=options)
    return x.to(team, places)


def _refuse_plan(op: str, plan: Any) -> None:
    if plan is not None:
        raise refuse_sharded(op, "a plan is for one rank's array", "Leave plan= out; parts are cached")


def _attach_one(one: One) -> None:
    name = one.__name__

    @sharded(one)
    def run(team: Team, x: Part, n: Any, dim: Any, norm: Any, axis: Any, precision: Any, plan: Any) -> Part:
        _refuse_plan(name, plan)
        where = axis_of(name, dim, axis, len(x.shape))
        return _transform_axes(team, x, [(one, where, n)], {"norm": norm, "precision": precision})


def _attach_many(many: One, each: One, *, first: One | None = None, last: One | None = None) -> None:
    """Attach a transform of several axes: the last axis by ``first`` or ``last`` of all, the others by ``each``."""
    name, halved = many.__name__, first or last

    @sharded(many)
    def run(team: Team, x: Part, s: Any, dim: Any, norm: Any, axes: Any, precision: Any, plan: Any) -> Part:
        _refuse_plan(name, plan)
        dims, lengths = axes_of(name, s, dim, axes, torch.Size(x.shape))
        # the length of a halved axis is known only where somebody says it
        said = [None] * len(dims) if s is None else lengths
        rest = list(zip(dims[:-1] if halved else dims, said, strict=False))
        # axes that are whole already go first, while nothing has moved
        rest.sort(key=lambda pair: pair[0] in x.places)
        steps: list[tuple[One, int, int | None]] = [(each, axis, n) for axis, n in rest]
        if first is not None:
            steps.insert(0, (first, dims[-1], said[-1]))
        if last is not None:
            steps.append((last, dims[-1], said[-1]))
        return _transform_axes(team, x, steps, {"norm": norm, "precision": precision})


_ONE: tuple[One, ...] = (fft, ifft, rfft, irfft, hfft, ihfft)
for _one in _ONE:
    _attach_one(_one)
_MANY: tuple[tuple[One, One], ...] = ((fftn, fft), (fft2, fft), (ifftn, ifft), (ifft2, ifft))
for _many, _each in _MANY:
    _attach_many(_many, _each)
for _many in (rfftn, rfft2):
    _attach_many(_many, fft, first=rfft)
for _many in (irfftn, irfft2):
    _attach_many(_many, ifft, last=irfft)


def _attach_frames(frames: One) -> None:
    @sharded(frames)
    def run(team: Team, x: Part, n_fft: int, window: Part | None, center: bool, pad_mode: str, **options: Any) -> Part:
        taper = None if window is None else window.whole(team)
        padding: Any = {"center": center, "pad_mode": pad_mode}
        if math.prod(x.shape[:-1]) >= team.size(0):
            return by_batch(team, lambda each: frames(each, n_fft, window=taper, **padding, **options), x, axes=(1,))
        signal, hop = x.whole(team), options["hop_length"] or n_fft // 4
        signal = pad_signal(signal, n_fft // 2, pad_mode) if center else signal
        count, axis = (signal.shape[-1] - n_fft) // hop + 1, len(x.shape)
        start, size = chunks(count, team.size(0))[team.here(0)]
        first = min(start, count - 1)
        mine = signal.narrow(-1, first * hop, (max(size, 1) - 1) * hop + n_fft)
        local = frames(mine, n_fft, window=taper, center=False, **options).narrow(axis, 0, size).contiguous()
        return x.with_local(local, (*local.shape[:axis], count, *local.shape[axis + 1 :]), team.first(axis))


for _frames in (stft, spectrogram):
    _attach_frames(_frames)


@sharded(istft)
def _istft(team: Team, x: Part, window: Part | None, **options: Any) -> Part:
    taper = None if window is None else window.whole(team)
    return by_batch(team, lambda each: istft(each, window=taper, **options), x)


def _long(team: Team, x: Part, fn: One, n: int | None, options: Any) -> Part:
    """Transform one axis, cut between ranks along the first axis of the mesh, as one complex line."""
    x = x.to(team, team.first(0))
    folded, halved = fn in (irfft, hfft), fn in (rfft, ihfft)
    length = n if n is not None else 2 * (x.shape[0] - 1) if folded else x.shape[0]
    if folded:
        x = _weight_half(team, x, length)
    x = _recut(team, x, length)
    x = x if x.dtype.is_complex else x.with_local(x.local + 0j)
    inverse = fn in (ifft, irfft, ihfft)
    if inverse:
        x = x.with_local(x.local.conj().resolve_conj())
    if length and halves(length)[0] >= team.size(0):
        x = _four_steps(team, x, options)
    elif length:
        start, size = chunks(length, team.size(0))[team.here(0)]
        whole: One = fft
        x = x.with_local(whole(x.whole(team), precision=options["precision"])[start : start + size].clone())
    # both ways were computed without a scale
    norm = options["norm"] or "backward"
    scaled = {"backward": inverse, "forward": not inverse, "ortho": True}[norm]
    local = x.local.conj().resolve_conj() if inverse else x.local
    if scaled and length:
        local = local / (math.sqrt(length) if norm == "ortho" else length)
    x = x.with_local(local.real.contiguous() if folded else local)
    return _recut(team, x, length // 2 + 1) if halved else x


def _weight_half(team: Team, x: Part, length: int) -> Part:
    """Weight half of a Hermitian line for its other half: the real part of its transform is the line's."""
    x = _recut(team, x, length // 2 + 1)
    start = chunks(x.shape[0], team.size(0))[team.here(0)][0]
    index = torch.arange(start, start + x.local.shape[0], device=x.local.device)
    alone = (index == 0) | (2 * index == length)
    return x.with_local(torch.where(alone, x.local, 2 * x.local))


def _four_steps(team: Team, x: Part, options: Any) -> Part:
    """Transform ``length = rows * columns``: columns, twiddles, rows, transpose."""
    length = x.shape[0]
    rows, columns = halves(length)
    plain = {"precision": options["precision"]}
    matrix = _matrix(team, x, rows, columns).to(team, team.first(1))
    one: One = fft
    local = one(matrix.local, dim=0, **plain)
    start = chunks(columns, team.size(0))[team.here(0)][0]
    row = torch.arange(rows, device=local.device)[:, None]
    column = torch.arange(start, start + local.shape[1], device=local.device)[None, :]
    local = local * _roots(row * column, length, local.dtype)
    matrix = matrix.with_local(local).to(team, team.first(0))
    matrix = matrix.with_local(one(matrix.local, dim=1, **plain)).to(team, team.first(1))
    # element [k1, k2] is the spectrum at k1 + rows * k2
    transposed = matrix.transposed()
    return _line(team, transposed.with_local(transposed.local.contiguous()))


def _roots(index: Tensor, length: int, dtype: torch.dtype) -> Tensor:
    """Return ``exp(-2 pi i index / length)``, the index reduced in integers first."""
    angle = (index % length).double() * (-2 * math.pi / length)
    return torch.polar(torch.ones_like(angle), angle).to(dtype)


def _recut(team: Team, x: Part, length: int) -> Part:
    """Cut a line for another length: shortened, or longer with zeros at its end."""
    return _ranges(team, x, [range(s, s + n) for s, n in chunks(length, team.size(0))], (length,))


def _matrix(team: Team, x: Part, rows: int, columns: int) -> Part:
    """Return a line as a matrix cut along its rows."""
    wanted = [range(s * columns, (s + n) * columns) for s, n in chunks(rows, team.size(0))]
    line = _ranges(team, x, wanted, (rows * columns,))
    return line.with_local(line.local.reshape(-1, columns), (rows, columns), team.first(0))


def _line(team: Team, x: Part) -> Part:
    """Invert `_matrix`."""
    rows, columns = x.shape
    held = [range(s * columns, (s + n) * columns) for s, n in chunks(rows, team.size(0))]
    wanted = [range(s, s + n) for s, n in chunks(rows * columns, team.size(0))]
    flat = x.with_local(x.local.reshape(-1), (rows * columns,), team.first(0))
    return _ranges(team, flat, wanted, (rows * columns,), held)


def _ranges(
    team: Team, x: Part, wanted: Sequence[range], shape: tuple[int, ...], held: Sequence[range] | None = None
) -> Part:
    """Exchange a line so that every rank holds its wanted range; elements that no rank holds are zero."""
    ranks, here = team.size(0), team.here(0)
    held = held or [range(s, s + n) for s, n in chunks(x.shape[0], ranks)]
    if list(held) == list(wanted):
        return x.with_local(x.local, shape)

    def common(a: range, b: range) -> range:
        return range(max(a.start, b.start), max(max(a.start, b.start), min(a.stop, b.stop)))

    pieces = []
    for want in wanted:
        shared = common(held[here], want)
        first = shared.start - held[here].start if len(shared) else 0
        pieces.append(x.local[first : first + len(shared)])
    shapes = [(len(common(have, wanted[here])),) for have in held]
    local = x.local.new_zeros(len(wanted[here]))
    for have, piece in zip(held, team.all_to_all(0, pieces, shapes), strict=True):
        shared = common(have, wanted[here])
        if len(shared):
            local[shared.start - wanted[here].start : shared.stop - wanted[here].start] = piece
    return x.with_local(local, shape)
