"""Placement by rule: how the operands of a function may be cut between ranks, and which exchange follows.

A rule names the axes of operands and result, ``mk,kn->mn`` for a product. An axis of the mesh may cut any label: one of
the result needs no other rank, one that is summed leaves terms to be added. Labels listed as ``whole`` are never cut:
``bmn->b`` with ``whole="mn"`` is a function of each matrix of a batch. Axes of the result after those named are whole.
"""

import itertools
import math
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trnsci.distributed.parts import SUM, Layout, Part, Place, Places, traffic
from trnsci.distributed.team import Team

# FLOPs a rank does in the time one byte takes to reach it: between a CPU with gloo (25) and a NeuronCore (200).
_FLOPS_PER_BYTE = 100.0
# Per axis of the mesh, the label it cuts.
Cut = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """Operands of a call where a rule wants them.

    Attributes:
        operands: this rank's parts of them.
        cut: per axis of the mesh, the label that is cut along it.
        has_terms: whether results are terms of a sum over ranks.
    """

    operands: tuple[Tensor, ...]
    cut: Cut
    has_terms: bool
    _output: str
    _sizes: Mapping[str, int]
    _held: frozenset[str]

    def result(self, team: Team, local: Any) -> Any:
        """Return the part of the result (or of each result of a tuple) that ``local`` is, terms added up."""
        if not isinstance(local, Tensor):
            return type(local)(*(self.result(team, each) for each in local))
        places: list[Place] = []
        for label in self.cut:
            # a label no operand has in full is not cut in the result either
            real = label if label in self._held else None
            places.append(None if real is None else self._output.index(real) if real in self._output else SUM)
        named = [self._sizes.get(label, size) for label, size in zip(self._output, local.shape, strict=False)]
        shape = (*named, *local.shape[len(named) :])
        part = Part(local, Layout(shape, local.dtype, team.shape, tuple(places)))
        return part.to(team, places_of_sums(part)) if SUM in places else part


def places_of_sums(part: Part) -> Places:
    """Return the placement of terms once added: cut along the longest axis that is not cut, or copies."""
    places = list(part.places)
    for where, place in enumerate(places):
        if place == SUM:
            free = [d for d in range(len(part.shape)) if d not in places]
            places[where] = max(free, key=lambda d: part.shape[d]) if free else None
    return tuple(places)


def place(team: Team, rule: str, *parts: Part, sums: bool = True, whole: str = "") -> Placed:
    """Bring operands to the cheapest placement that a rule allows; without ``sums`` no summed label is cut."""
    inputs, output = rule.split("->")
    names = inputs.split(",")
    layouts = [(labels, part.layout) for labels, part in zip(names, parts, strict=True)]
    cut, sizes = choose_cut(rule, [part.layout for part in parts], sums=sums, whole=whole)
    operands = tuple(
        part.to(team, _places(labels, part.layout, sizes, cut)).local for labels, part in zip(names, parts, strict=True)
    )
    held = {x for labels, layout in layouts for x, n in zip(labels, layout.shape, strict=True) if n == sizes[x]}
    terms = any(label is not None and label not in output for label in cut)
    # a whole axis may come out with another length
    known = {label: size for label, size in sizes.items() if label not in whole}
    return Placed(operands, cut, terms, output, known, frozenset(held))


def choose_cut(
    rule: str, layouts: Sequence[Layout], *, sums: bool = True, whole: str = ""
) -> tuple[Cut, dict[str, int]]:
    """Return the label that each axis of the mesh should cut, by bytes and arithmetic, and the size of every label."""
    inputs, output = rule.split("->")
    named = list(zip(inputs.split(","), layouts, strict=True))
    sizes: dict[str, int] = {}
    for labels, layout in named:
        for label, size in zip(labels, layout.shape, strict=True):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    mesh = layouts[0].mesh
    every = _cuts(len(mesh), [x for x in sizes if x not in whole and (sums or x in output)])
    return min(every, key=lambda cut: _cost(mesh, named, output, sizes, cut)), sizes


def by_batch(team: Team, fn: Callable[..., Any], *parts: Part, axes: Sequence[int] = ()) -> Any:
    """Cut batches and keep the last ``axes`` of each operand (two by default) whole, so that ``fn`` works alone."""
    counts = axes or (2,) * len(parts)
    leading = [len(part.shape) - count for part, count in zip(parts, counts, strict=True)]
    batch, single = string.ascii_lowercase[: max(leading)], string.ascii_uppercase[: sum(counts)]
    spare = iter(single)
    names = [
        batch[len(batch) - n :] + "".join(itertools.islice(spare, count))
        for n, count in zip(leading, counts, strict=True)
    ]
    placed = place(team, f"{','.join(names)}->{batch}", *parts, whole=single)
    return placed.result(team, fn(*placed.operands))


def _cuts(axes: int, labels: Sequence[str]) -> Iterator[Cut]:
    """Yield the labels that each axis of the mesh may cut: different ones, or none."""
    for cut in itertools.product((None, *labels), repeat=axes):
        used = [label for label in cut if label is not None]
        if len(set(used)) == len(used):
            yield cut


def _places(labels: str, layout: Layout, sizes: Mapping[str, int], cut: Cut) -> Places:
    def axis_of(label: str | None) -> Place:
        if label is None or label not in labels:
            return None
        axis = labels.index(label)
        return axis if layout.shape[axis] == sizes[label] else None

    return tuple(map(axis_of, cut))


def _cost(
    mesh: Sequence[int], named: Sequence[tuple[str, Layout]], output: str, sizes: Mapping[str, int], cut: Cut
) -> float:
    """Return bytes received plus the bytes the arithmetic is worth."""
    moved = sum(traffic(layout, _places(labels, layout, sizes, cut)) for labels, layout in named)
    work, result = 2.0 * math.prod(sizes.values()), float(named[0][1].dtype.itemsize)
    result *= math.prod(sizes.get(label, 1) for label in output)
    for ranks, label in zip(mesh, cut, strict=True):
        if label is not None:
            work /= min(ranks, max(1, sizes[label]))
            result /= ranks if label in output else 1
    for ranks, label in zip(mesh, cut, strict=True):
        if label is not None and label not in output:
            moved += result * (ranks - 1) / ranks
    return moved + work / _FLOPS_PER_BYTE


def with_batches(public: Callable[..., Any], fn: Callable[..., Any], axes: Mapping[str, int]) -> Callable[..., Any]:
    """Return ``fn``, with batches of operands left to the public function; ``axes`` are those of a single operand."""

    def run(team: Team, **given: Any) -> Any:
        parts = {name: given[name] for name in axes if isinstance(given[name], Part)}
        if all(len(part.shape) <= axes[name] for name, part in parts.items()):
            return fn(team, **given)

        def alone(*operands: Tensor) -> Any:
            return public(**given | dict(zip(parts, operands, strict=True)))

        return by_batch(team, alone, *parts.values(), axes=[axes[name] for name in parts])

    return run


def positions(team: Team, part: Part) -> tuple[Tensor, Tensor]:
    """Return the indices of the rows of a matrix that are here, [m, 1], and of all its columns, [1, N]."""
    start = part.layout.starts(team.coordinate)[-2]
    row = torch.arange(start, start + part.local.shape[-2], device=part.local.device)[:, None]
    return row, torch.arange(part.shape[-1], device=part.local.device)[None, :]
