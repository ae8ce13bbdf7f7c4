"""einsum on spread arrays.

Each pairwise step cuts labels between ranks: one of the result (no rank needs another), or one that is summed (partial
results are added), whichever is cheaper with the placements at hand. The result is cut as its last step left it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from trnblas.sharded import keeps_sums
from trnsci import ArgumentError
from trnsci.distributed import Part, Team, sharded, traffic
from trnsci.distributed.parts import SUM, Layout, Place, Places
from trnsci.errors import UnsupportedError
from trntensor.einsum import common_dtype, einsum
from trntensor.equation import Equation, parse, split_call
from trntensor.program import compiled

# FLOPs a rank does in the time one byte takes to reach it: between a CPU with gloo (25) and a NeuronCore (200).
_FLOPS_PER_BYTE = 100.0


def _einsum_gradient(given: Mapping[str, Any], result: Any, grad: Any) -> Mapping[str, Any]:
    text, operands = split_call("einsum", given["subscripts"], given["operands"])
    equation = parse("einsum", text, [tuple(x.shape) for x in operands])
    sizes = dict(equation.sizes)

    def of(place: int) -> Any:
        labels, x = equation.inputs[place], operands[place]
        others = [(names, operands[n]) for n, names in enumerate(equation.inputs) if n != place]
        reachable = set(equation.output).union(*(set(names) for names, _ in others))
        full = all(sizes[label] == size for label, size in zip(labels, x.shape, strict=True))
        if len(set(labels)) < len(labels) or not set(labels) <= reachable or not full:
            raise UnsupportedError(
                op="einsum",
                reasons=[("distributed", f"no gradient for operand {place} of {text}: diagonals, sums and broadcasts")],
                hint="Take diagonals and sums of operands before spreading them",
            )
        alpha = complex(given["alpha"]).conjugate()
        factors = [y.conj() if y.is_complex() else y for _, y in others]
        words = ",".join([*(names for names, _ in others), equation.output])
        return einsum(
            f"{words}->{labels}",
            *factors,
            grad,
            alpha=alpha if x.is_complex() else alpha.real,
            optimize=given["optimize"],
        )

    beta = complex(given["beta"]).conjugate()
    return {
        "operands": [partial(of, place) for place in range(len(operands))],
        "c": lambda: grad * (beta if grad.is_complex() else beta.real),
    }


@sharded(einsum, gradient=_einsum_gradient)
def _einsum(
    team: Team,
    subscripts: Any,
    operands: list[Any],
    alpha: Any,
    beta: Any,
    out: Part | None,
    precision: Any,
    target_error: Any,
    memory_limit: Any,
    optimize: Any,
    c: Part | None,
    return_error: bool,
) -> Part:
    text, parts = split_call("einsum", subscripts, operands)
    if return_error or (target_error is not None and len(parts) > 2):
        raise UnsupportedError(
            op="einsum",
            reasons=[("distributed", "errors are bounded per rank: return_error, and target_error of several steps")],
            hint="Ask for precision= instead",
        )
    dtype = common_dtype("einsum", [part.local for part in parts])
    equation = parse("einsum", text, [part.shape for part in parts])
    options = {"precision": precision, "target_error": target_error, "memory_limit": memory_limit}
    sums = not keeps_sums(options, dtype)
    live = [
        _simple(team, labels, part.with_local(part.local.to(dtype)), equation)
        for labels, part in zip(equation.inputs, parts, strict=True)
    ]
    shapes = tuple(tuple(part.shape) for _, part in live)
    simple = f"{','.join(labels for labels, _ in live)}->{equation.output}"
    steps = compiled(simple, shapes, optimize, None).steps
    for step in steps:
        chosen = [live[place] for place in step.places]
        for place in sorted(step.places, reverse=True):
            del live[place]
        wanted = equation.output if not live else step.subscripts.split("->")[1]
        live.append((wanted, _step(team, chosen, wanted, dict(equation.sizes), sums, options)))
    made = live[0][1]
    made = made if alpha == 1 else made.with_local(made.local * alpha)
    addend = c if c is not None else out
    if addend is not None and beta != 0:
        if addend.shape != made.shape:
            raise ArgumentError(op="einsum", argument="shape", got={"c": addend.shape, "contraction": made.shape})
        made = made.with_local(made.local + beta * addend.to(team, made.places).local)
    if out is None:
        return made
    out.local.copy_(made.to(team, out.places).local)
    return out


def _simple(team: Team, labels: str, part: Part, equation: Equation) -> tuple[str, Part]:
    """Repeated labels are taken off on whole copies: a diagonal cut between ranks is on none of them."""
    if len(set(labels)) == len(labels):
        return labels, part
    kept = "".join(dict.fromkeys(labels))
    local = einsum(f"{labels}->{kept}", part.whole(team))
    return kept, part.with_local(local, tuple(local.shape), (None,) * len(part.places))


def _step(
    team: Team, chosen: list[tuple[str, Part]], wanted: str, sizes: Mapping[str, int], sums: bool, options: Any
) -> Part:
    layouts = [(labels, part.layout) for labels, part in chosen]
    cut = min(_cuts(team, layouts, wanted, sums), key=lambda cut: _cost(team, layouts, wanted, sizes, cut))
    local = einsum(
        f"{','.join(labels for labels, _ in chosen)}->{wanted}",
        *(part.to(team, _places(labels, part.layout, sizes, cut)).local for labels, part in chosen),
        **options,
    )
    shape = tuple(sizes[label] for label in wanted)
    # a label no operand has in full is not cut in the result either
    held = {
        label for labels, part in chosen for label, size in zip(labels, part.shape, strict=True) if size == sizes[label]
    }
    places: list[Place] = []
    for label in cut:
        real = label if label in held else None
        places.append(None if real is None else wanted.index(real) if real in wanted else SUM)
    made = chosen[0][1].with_local(local, shape, tuple(places))
    return made.to(team, _scattered(made)) if SUM in made.places else made


def _scattered(part: Part) -> Places:
    """Where terms go when they are added: the longest axis that is not cut, or everywhere."""
    places = list(part.places)
    for where, place in enumerate(places):
        if place == SUM:
            free = [d for d in range(len(part.shape)) if d not in places]
            places[where] = max(free, key=lambda d: part.shape[d]) if free else None
    return tuple(places)


def _cuts(team: Team, layouts: list[tuple[str, Layout]], wanted: str, sums: bool) -> Iterator[tuple[str | None, ...]]:
    """Which label each axis of the mesh may cut: different ones, or none."""
    labels = dict.fromkeys("".join(names for names, _ in layouts))
    allowed = [None, *(label for label in labels if sums or label in wanted)]
    for cut in itertools.product(allowed, repeat=len(team.shape)):
        used = [label for label in cut if label is not None]
        if len(set(used)) == len(used):
            yield cut


def _places(labels: str, layout: Layout, sizes: Mapping[str, int], cut: tuple[str | None, ...]) -> Places:
    def place(label: str | None) -> Place:
        if label is None or label not in labels:
            return None
        axis = labels.index(label)
        return axis if layout.shape[axis] == sizes[label] else None

    return tuple(map(place, cut))


def _cost(
    team: Team, layouts: list[tuple[str, Layout]], wanted: str, sizes: Mapping[str, int], cut: tuple[str | None, ...]
) -> float:
    """Bytes received plus the bytes the arithmetic is worth."""
    every = set("".join(labels for labels, _ in layouts))
    moved = sum(traffic(layout, _places(labels, layout, sizes, cut)) for labels, layout in layouts)
    work, result = 2.0 * math.prod(sizes[label] for label in every), float(layouts[0][1].dtype.itemsize)
    result *= math.prod(sizes[label] for label in wanted)
    for ranks, label in zip(team.shape, cut, strict=True):
        if label is None:
            continue
        work /= min(ranks, max(1, sizes[label]))
        result /= ranks if label in wanted else 1
    for ranks, label in zip(team.shape, cut, strict=True):
        if label is not None and label not in wanted:
            moved += result * (ranks - 1) / ranks
    return moved + work / _FLOPS_PER_BYTE
