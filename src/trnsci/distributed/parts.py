"""A rank's part of a sharded array, and how one placement becomes another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from trnsci.distributed.team import Team
from trnsci.errors import ArgumentError

# Per axis of the mesh: the axis of the array that is cut along it, None for copies, SUM for terms still to be added.
SUM = "sum"
Place = int | str | None
Places = tuple[Place, ...]


def chunk(extent: int, ranks: int, rank: int) -> tuple[int, int]:
    """Return start and length of a rank's part of ``extent``, cut as ``torch.chunk`` cuts."""
    width = -(-extent // ranks)
    start = min(rank * width, extent)
    return start, min(width, extent - start)


def chunks(extent: int, ranks: int) -> list[tuple[int, int]]:
    """Return start and length of every rank's part."""
    return [chunk(extent, ranks, rank) for rank in range(ranks)]


def read_placements(op: str, placements: Sequence[Any], mesh_ndim: int, ndim: int) -> Places:
    """Return placements in our words; torch's are taken too, and axes of the mesh left out hold copies."""
    if len(placements) == 1 and isinstance(placements[0], list | tuple):
        placements = placements[0]
    if len(placements) > mesh_ndim:
        raise ArgumentError(op, "placements", tuple(placements), f"at most {mesh_ndim}, the axes of the mesh")
    known: list[Place] = []
    for placement in placements:
        place: Place
        if placement is None or isinstance(placement, Replicate):
            place = None
        elif isinstance(placement, int | Shard):
            axis = placement.dim if isinstance(placement, Shard) else placement
            if not -ndim <= axis < ndim:
                raise ArgumentError(op, "placements", axis, f"an axis of the array, which has {ndim}")
            place = axis % ndim
        elif placement == SUM or (isinstance(placement, Partial) and placement.reduce_op == "sum"):
            place = SUM
        else:
            raise ArgumentError(op, "placements", placement, "an axis, None, Shard, Replicate, Partial('sum')")
        known.append(place)
    return (*known, *[None] * (mesh_ndim - len(known)))


@dataclass(frozen=True, slots=True)
class Layout:
    """A sharded array without its data: the whole shape, the mesh's shape, and what is cut along each of its axes."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    mesh: tuple[int, ...]
    places: Places

    def __post_init__(self) -> None:
        if len(self.places) != len(self.mesh):
            raise ArgumentError("Layout", "places", self.places, f"{len(self.mesh)}, one per axis of the mesh")
        read_placements("Layout", self.places, len(self.mesh), len(self.shape))

    def __str__(self) -> str:
        size = "x".join(map(str, self.shape)) or "scalar"
        places = ", ".join("copies" if p is None else "terms" if p == SUM else f"axis {p}" for p in self.places)
        return f"{str(self.dtype).removeprefix('torch.')}[{size}] on {'x'.join(map(str, self.mesh))} ranks: {places}"

    def spans(self, coordinate: Sequence[int]) -> list[tuple[int, int]]:
        """Return where the part at a coordinate of the mesh begins along each axis of the array, and its length."""
        spans = [(0, size) for size in self.shape]
        for ranks, rank, place in zip(self.mesh, coordinate, self.places, strict=True):
            if isinstance(place, int):
                start, size = chunk(spans[place][1], ranks, rank)
                spans[place] = spans[place][0] + start, size
        return spans

    def local_shape(self, coordinate: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of that part."""
        return tuple(size for _, size in self.spans(coordinate))

    def starts(self, coordinate: Sequence[int]) -> tuple[int, ...]:
        """Return where that part begins in the whole array."""
        return tuple(start for start, _ in self.spans(coordinate))


@runtime_checkable
class Sharded(Protocol):
    """A matrix that is no tensor and is sharded by rules of its own, a sparse one for example."""

    shape: tuple[int, int]

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the entries."""

    def for_rank(self, coordinate: Sequence[int]) -> Any:
        """Return the operand as a rank has it, without data."""

    def class_of(self, coordinate: Sequence[int]) -> tuple[object, ...]:
        """Return what ranks whose parts cost the same have in common."""

    def held(self) -> list[Tensor]:
        """Return the tensors of this rank's part."""

    def times(self, team: Team, part: Part) -> Part:
        """Return the product with a dense matrix, cut along rows over the first axis of the mesh."""


def traffic(layout: Layout, places: Places) -> float:
    """Return the bytes a rank receives when an array changes placement, from sizes that all ranks know."""
    held = float(math.prod(layout.shape) * layout.dtype.itemsize)
    for ranks, place in zip(layout.mesh, layout.places, strict=True):
        held /= ranks if isinstance(place, int) else 1
    received = 0.0
    for ranks, old, new in zip(layout.mesh, layout.places, places, strict=True):
        share = held * (ranks - 1) / ranks
        if old == new:
            continue
        if old == SUM:
            received += share if new is not None else 2 * share
        elif old is not None:
            received += share if new is not None else held * (ranks - 1)
        # how much a rank holds from here on
        held *= (ranks if isinstance(old, int) else 1) / (ranks if isinstance(new, int) else 1)
    return received


@dataclass(frozen=True, slots=True)
class Part:
    """One rank's part: the local tensor, and the layout of the whole."""

    local: Tensor
    layout: Layout

    @classmethod
    def of(cls, op: str, tensor: DTensor) -> Part:
        """Take a DTensor apart."""
        mesh = tensor.device_mesh
        places = read_placements(op, tensor.placements, mesh.ndim, tensor.ndim)
        local: Tensor = tensor.detach().to_local()  # type: ignore[attr-defined]
        layout = Layout(tuple(tensor.shape), tensor.dtype, tuple(mesh.shape), places)
        wanted = layout.local_shape(mesh.get_coordinate() or ())
        if tuple(local.shape) != wanted:
            expected = f"{wanted}, as torch.chunk cuts {layout.shape}"
            hint = "Build it with trnsci.distributed.shard, or DTensor.from_local with even parts"
            raise ArgumentError(op, "shape of a part", tuple(local.shape), expected, hint=hint)
        return cls(local, layout)

    @classmethod
    def cut(cls, whole: Tensor, places: Places, mesh: tuple[int, ...], coordinate: tuple[int, ...]) -> Part:
        """Take a rank's part out of a whole tensor."""
        layout = Layout(tuple(whole.shape), whole.dtype, mesh, places)
        local = whole
        for axis, (start, size) in enumerate(layout.spans(coordinate)):
            local = local.narrow(axis, start, size)
        if any(place == SUM and rank for place, rank in zip(places, coordinate, strict=True)):
            local = torch.zeros_like(local)
        # a copy, so that the whole can be freed
        return cls(local.contiguous() if local.shape == whole.shape else local.clone(), layout)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole."""
        return self.layout.shape

    @property
    def places(self) -> Places:
        """Dimension that is cut along each axis of the mesh."""
        return self.layout.places

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the elements."""
        return self.layout.dtype

    def with_local(self, local: Tensor, shape: Sequence[int] | None = None, places: Places | None = None) -> Part:
        """Return a part of another array on the same mesh."""
        layout = Layout(
            self.shape if shape is None else tuple(shape),
            local.dtype,
            self.layout.mesh,
            self.places if places is None else places,
        )
        return Part(local, layout)

    def replicated(self, local: Tensor) -> Part:
        """Return an array that every rank of the same mesh has whole."""
        return self.with_local(local, local.shape, (None,) * len(self.places))

    def transposed(self, *, conj: bool = False) -> Part:
        """Return the part of the matrix with its last two axes exchanged."""
        n = len(self.shape)
        swap = {n - 1: n - 2, n - 2: n - 1}
        local = self.local.mH if conj else self.local.mT
        places = tuple(swap.get(p, p) if isinstance(p, int) else p for p in self.places)
        return self.with_local(local, (*self.shape[:-2], self.shape[-1], self.shape[-2]), places)

    def on(self, mesh: DeviceMesh) -> DTensor:
        """Return the DTensor these parts make."""
        words: dict[Place, Placement] = {None: Replicate(), SUM: Partial("sum")}
        placements = [Shard(p) if isinstance(p, int) else words[p] for p in self.places]
        stride = torch.empty(self.shape, device="meta", dtype=torch.float32).stride()
        return DTensor.from_local(
            self.local.resolve_conj().contiguous(),
            mesh,
            placements,
            run_check=False,
            shape=torch.Size(self.shape),
            stride=stride,
        )

    def whole(self, team: Team) -> Tensor:
        """Return the whole array on every rank."""
        return self.to(team, (None,) * len(self.places)).local

    def _changes(self, wanted: Places) -> list[int]:
        """Return the axes of the mesh along which a placement differs."""
        return [axis for axis, (old, new) in enumerate(zip(self.places, wanted, strict=True)) if old != new]

    def to(self, team: Team, *places: Place | Places) -> Part:
        """Return the array in another placement, with as little traffic as the path there allows.

        Terms are added on the way; an axis that moves is one exchange of everyone with everyone; copies are cut for
        free; anything else is gathered and cut again.
        """
        wanted: Places = places[0] if len(places) == 1 and isinstance(places[0], tuple) else places  # type: ignore[assignment]
        if SUM in wanted and wanted != self.places:
            raise ValueError("elements cannot become terms of a sum")
        part = self
        for axis in range(len(wanted)):
            if part.places[axis] == SUM:
                part = _add_terms(part, team, axis, wanted[axis])
        changed = part._changes(wanted)
        # one axis after the other, while the axis of the array that it moves to is free
        while ready := [x for x in changed if wanted[x] not in part.places and _movable(part.places, wanted, x)]:
            part = _move_axis(part, team, ready[0], wanted[ready[0]])  # type: ignore[arg-type]
            changed = part._changes(wanted)
        if len(changed) == 1 and _movable(part.places, wanted, changed[0]):
            return _move_axis(part, team, changed[0], wanted[changed[0]])  # type: ignore[arg-type]
        if changed:
            first, loose = changed[0], {p for axis in changed for p in (part.places[axis], wanted[axis])}
            # a cut inside another cut of the same axis has to be undone before it
            undone = [a for a in range(first, len(wanted)) if part.places[a] is not None and part.places[a] in loose]
            for axis in reversed(undone):
                part = _gather_axis(part, team, axis)
            for axis in range(len(wanted)):
                if part.places[axis] is None and wanted[axis] is not None:
                    part = _cut(part, team, axis, wanted[axis])  # type: ignore[arg-type]
        return part


def _replace(places: Places, axis: int, place: Place) -> Places:
    return (*places[:axis], place, *places[axis + 1 :])


def _extents(part: Part, axis: int, dim: int) -> list[tuple[int, int]]:
    """Return how the local part would be cut along an axis of the mesh."""
    return chunks(part.local.shape[dim], part.layout.mesh[axis])


def _outer_extent(part: Part, team: Team, axis: int, dim: int) -> int:
    extent = part.shape[dim]
    for before in range(axis):
        if part.places[before] == dim:
            extent = chunk(extent, team.size(before), team.here(before))[1]
    return extent


def _gather_axis(part: Part, team: Team, axis: int) -> Part:
    return start_gather(part, team, axis)()


def start_gather(part: Part, team: Team, axis: int) -> Callable[[], Part]:
    """Start gathering what an axis of the mesh cuts; a slice of other axes is gathered alike."""
    dim = part.places[axis]
    assert isinstance(dim, int)
    extent = _outer_extent(part, team, axis, dim)
    shapes = []
    for _, size in chunks(extent, team.size(axis)):
        shape = list(part.local.shape)
        shape[dim] = size
        shapes.append(shape)
    wait = team.start_all_gather(axis, part.local.contiguous(), shapes)
    return lambda: part.with_local(torch.cat(wait(), dim), places=_replace(part.places, axis, None))


def _cut(part: Part, team: Team, axis: int, dim: int) -> Part:
    start, size = _extents(part, axis, dim)[team.here(axis)]
    return part.with_local(part.local.narrow(dim, start, size).clone(), places=_replace(part.places, axis, dim))


def _add_terms(part: Part, team: Team, axis: int, place: Place) -> Part:
    if isinstance(place, int) and all(p != place for p in part.places[axis + 1 :]):
        pieces = [part.local.narrow(place, start, size) for start, size in _extents(part, axis, place)]
        return part.with_local(team.reduce_scatter(axis, pieces), places=_replace(part.places, axis, place))
    return part.with_local(team.all_reduce(axis, part.local), places=_replace(part.places, axis, None))


def _movable(old: Places, new: Places, axis: int) -> bool:
    return (
        isinstance(old[axis], int) and isinstance(new[axis], int) and not {old[axis], new[axis]} & set(old[axis + 1 :])
    )


def _move_axis(part: Part, team: Team, axis: int, dim: int) -> Part:
    return start_move(part, team, axis, dim)()


def start_move(part: Part, team: Team, axis: int, dim: int) -> Callable[[], Part]:
    """Start moving the cut along an axis of the mesh to another axis of the array; the result waits for it.

    Only the two axes have to be complete: a slice of the others moves alike.
    """
    old = part.places[axis]
    assert isinstance(old, int)
    cuts = _extents(part, axis, dim)
    pieces = [part.local.narrow(dim, start, size).contiguous() for start, size in cuts]
    sources = chunks(_outer_extent(part, team, axis, old), team.size(axis))

    def shape(rows: int, columns: int) -> list[int]:
        sizes = list(part.local.shape)
        sizes[old], sizes[dim] = rows, columns
        return sizes

    wait = team.start_all_to_all(axis, pieces, [shape(rows, cuts[team.here(axis)][1]) for _, rows in sources])
    return lambda: part.with_local(torch.cat(wait(), old), places=_replace(part.places, axis, dim))
