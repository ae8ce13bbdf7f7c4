"""einsum, programs of `fuse`, ao_to_mo_transform and mp2_energy on sharded arrays.

Each pairwise step of einsum cuts labels between ranks: one of the result (no rank needs another), or one that is summed
(partial results are added), whichever is cheaper with the placements at hand. Its result is cut as the last step left
it. The others take any placement, bring it to this one on the first axis of the mesh, and have gradients:

| op | brought to | gives |
|---|---|---|
| ao_to_mo_transform | integrals cut along their third axis | three axes: cut along the third; four: along the first |
| mp2_energy | B cut along occupied orbitals, on a grid along auxiliary functions too | numbers on every rank |
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from trnblas.arguments import HALF
from trnblas.sharded import keeps_sums, widen
from trnsci import ArgumentError, check
from trnsci.distributed import Part, Team, chunks, sharded
from trnsci.distributed.arguments import by_name
from trnsci.distributed.calls import find, refuse_sharded, run, written
from trnsci.distributed.parts import start_gather
from trnsci.distributed.rules import place
from trnsci.distributed.team import Wait, in_flight
from trntensor.ao_to_mo_transform import ao_to_mo_transform, transform_pair
from trntensor.contraction import compile_program
from trntensor.einsum import einsum
from trntensor.equation import Equation, common_dtype, parse, split_call
from trntensor.fuse import call_program
from trntensor.mp2_energy import MP2Energy, check_gap, mp2_between, mp2_energy, mp2_within
from trntensor.pair_sums import slopes
from trntensor.steps import take_operands

# Slices in which the orbitals of a column of the grid travel.
_SLICES = 4


def _einsum_gradient(given: Mapping[str, Any], result: Any, grad: Any) -> Mapping[str, Any]:
    text, operands = split_call("einsum", given["subscripts"], given["operands"])
    equation = parse("einsum", text, [tuple(x.shape) for x in operands])
    sizes = dict(equation.sizes)

    def of(index: int) -> Any:
        labels, x = equation.inputs[index], operands[index]
        others = [(names, operands[n]) for n, names in enumerate(equation.inputs) if n != index]
        reachable = set(equation.output).union(*(set(names) for names, _ in others))
        full = all(sizes[label] == size for label, size in zip(labels, x.shape, strict=True))
        if len(set(labels)) < len(labels) or not set(labels) <= reachable or not full:
            reason = f"no gradient for operand {index} of {text}: diagonals, sums and broadcasts"
            raise refuse_sharded("einsum", reason, "Take diagonals and sums of operands before sharding them")
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
        "operands": [partial(of, index) for index in range(len(operands))],
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
) -> Part:
    text, parts = split_call("einsum", subscripts, operands)
    if target_error is not None and len(parts) > 2:
        reason = "errors are bounded per rank, so not for several steps: target_error"
        raise refuse_sharded("einsum", reason, "Ask for precision= instead")
    added = [] if c is None or beta == 0 else [c]
    stored = common_dtype("einsum", [part.local for part in (*parts, *added)])
    # what is scaled and added in half precision is rounded once, in the end
    dtype = torch.float32 if stored in HALF and (alpha != 1 or beta != 0) else stored
    equation = parse("einsum", text, [part.shape for part in parts])
    options = {"precision": precision, "target_error": target_error, "memory_limit": memory_limit}
    sums = not keeps_sums(options, dtype)
    live = [
        _simple(team, labels, part.with_local(part.local.to(dtype)), equation)
        for labels, part in zip(equation.inputs, parts, strict=True)
    ]
    shapes = tuple(tuple(part.shape) for _, part in live)
    simple = f"{','.join(labels for labels, _ in live)}->{equation.output}"
    steps = compile_program(simple, shapes, optimize, None).steps
    for step in steps:
        chosen = take_operands(live, step.positions)
        wanted = equation.output if not live else step.subscripts.split("->")[1]
        rule = f"{','.join(labels for labels, _ in chosen)}->{wanted}"
        placed = place(team, rule, *(part for _, part in chosen), sums=sums)
        wider, factors = widen(options, *placed.operands) if placed.has_terms else (options, list(placed.operands))
        result = placed.result(team, einsum(rule, *factors, **wider))
        live.append((wanted, result.with_local(result.local.to(dtype))))
    result = live[0][1]
    result = result if alpha == 1 else result.with_local(result.local * alpha)
    addend = c if c is not None else out
    if addend is not None and beta != 0:
        check.equal("einsum", "shape", c=addend.shape, contraction=result.shape)
        result = result.with_local(result.local + beta * addend.to(team, result.places).local.to(dtype))
    result = result if dtype is stored else result.with_local(result.local.to(stored))
    return written(team, result, out)


def _simple(team: Team, labels: str, part: Part, equation: Equation) -> tuple[str, Part]:
    """Take repeated labels off on whole copies: a diagonal cut between ranks is on none of them."""
    if len(set(labels)) == len(labels):
        return labels, part
    kept = "".join(dict.fromkeys(labels))
    local = einsum(f"{labels}->{kept}", part.whole(team))
    return kept, part.replicated(local)


def _transform_gradient(given: Mapping[str, Any], result: Any, grad: Any) -> Mapping[str, Any]:
    eri, left, right = (x.conj() if x.is_complex() else x for x in (given["eri"], given["C_occ"], given["C_vir"]))
    if eri.ndim == 3:
        return {
            "eri": lambda: einsum("iax,mi,na->mnx", grad, left, right),
            "C_occ": lambda: einsum("iax,mnx,na->mi", grad, eri, right),
            "C_vir": lambda: einsum("iax,mnx,mi->na", grad, eri, left),
        }

    def twice(one: str, other: str, factors: list[Any]) -> Any:
        """Cut results as the cheapest last step leaves them; coefficients stand in the formula twice."""
        first: Any = einsum(one, grad, eri, *factors)
        second: Any = einsum(other, grad, eri, *factors)
        return first + second.redistribute(first.device_mesh, first.placements)

    return {
        "eri": lambda: einsum("iajb,mi,na,lj,sb->mnls", grad, left, right, left, right),
        "C_occ": lambda: twice("iajb,mnls,na,lj,sb->mi", "iajb,mnls,na,mi,sb->lj", [right, left, right]),
        "C_vir": lambda: twice("iajb,mnls,mi,lj,sb->na", "iajb,mnls,mi,lj,na->sb", [left, left, right]),
    }


@sharded(ao_to_mo_transform, gradient=_transform_gradient)
def _ao_to_mo_transform(team: Team, eri: Part, C_occ: Part, C_vir: Part) -> Part:
    """Transform columns of the third axis where they are; of four axes, the other pair after an exchange."""
    rule = "mnx,mi,na->iax" if len(eri.shape) == 3 else "mnxy,mi,na->iaxy"
    placed = place(team, rule, eri, C_occ, C_vir, whole="mnia")
    half = placed.result(team, _transform_first(*placed.operands))
    if len(eri.shape) == 3:
        return half
    placed = place(team, "iamn,mj,nb->iajb", half, C_occ, C_vir, whole="mnjb")
    pairs, left, right = placed.operands
    both = _transform_first(pairs.permute(2, 3, 0, 1), left, right)  # [j, b, i, a]
    return placed.result(team, both.permute(2, 3, 0, 1))


def _transform_first(integrals: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Transform the first two axes, whatever follows them."""
    nao, rest = integrals.shape[0], integrals.shape[2:]
    pairs = transform_pair(integrals.reshape(nao, nao, math.prod(rest)), left, right)
    return pairs.view(left.shape[1], right.shape[1], *rest)


def _ring(team: Team, part: Part, steps: int) -> Iterator[tuple[int, Tensor]]:
    """Yield this rank's block and those of the ranks after it, with whose they are; the next travels meanwhile."""
    here, ranks = team.here(0), team.size(0)
    sizes = [size for _, size in chunks(part.shape[0], ranks)]
    held = part.local.contiguous()
    for step in range(steps + 1):
        wait = team.shift(0, held, (sizes[(here + step + 1) % ranks], *part.shape[1:])) if step < steps else None
        yield (here + step) % ranks, held
        held = held if wait is None else wait()


def _orbitals(team: Team, B: Part, eps_occ: Part, eps_vir: Part) -> tuple[Part, list[Tensor], Tensor]:
    """Return B cut along occupied orbitals, their energies as every rank has them, and the virtual energies."""
    occ, vir = eps_occ.whole(team), eps_vir.whole(team)
    check_gap(occ, vir)
    cuts = chunks(B.shape[0], team.size(0))
    return B.to(team, team.first(0)), [occ.narrow(0, start, size) for start, size in cuts], vir


def _mp2_gradient(given: Mapping[str, Any], result: Any, *grads: Any) -> Mapping[str, Any]:
    operands = [given[name] for name in ("B", "eps_occ", "eps_vir")]

    @cache
    def slopes_of_all() -> Any:
        return run("mp2_energy", _mp2_slopes, operands[0].device_mesh, (*operands, list(grads)), {})

    return {name: lambda at=at: slopes_of_all()[at] for at, name in enumerate(("B", "eps_occ", "eps_vir"))}


def _mp2_slopes(team: Team, B: Part, eps_occ: Part, eps_vir: Part, grads: list[Part | None]) -> list[Part]:
    """Bring every block to every rank once; each keeps the gradient of its own rows."""
    zero = B.local.new_zeros(())
    known = [zero if grad is None else grad.whole(team) for grad in grads]
    total, opposite, same = (*known, *[zero] * (3 - len(known)))
    B, occ, vir = _orbitals(team, B, eps_occ, eps_vir)
    mine = occ[team.here(0)]
    rows, energies, virtual = torch.zeros_like(B.local), torch.zeros_like(mine), torch.zeros_like(vir)
    for owner, block in _ring(team, B, team.size(0) - 1):
        parts = slopes(B.local, block, mine, occ[owner], vir, 2 * total + opposite + same, -total - same)
        rows, energies, virtual = rows + parts[0], energies + parts[1], virtual + parts[2]
    return [
        B.with_local(rows),
        eps_occ.with_local(energies, places=team.first(0)),
        eps_vir.with_local(team.all_reduce(0, virtual), places=team.first(None)),
    ]


@sharded(call_program)
def _call_program(team: Team, program: Any, operands: list[Part]) -> Part:
    """Cut labels that the contraction does not sum; sums after the epilogue are terms. A chain goes link by link."""
    first, *links = program.equations
    if links:
        result = operands[0]
        for equation, other in zip(program.equations, operands[1:], strict=True):
            contract = find(einsum).fn
            result = contract(team, **by_name(find(einsum), (equation, result, other), {}))
        return result
    inputs, output = first.split("->")
    rule = f"{','.join([inputs, *program.extras])}->{program.reduce}"
    summed = "".join({*inputs} - {*output, ","})
    placed = place(team, rule, *operands, whole=summed)
    return placed.result(team, program(*placed.operands))


@sharded(mp2_energy, gradient=_mp2_gradient)
def _mp2_energy(
    team: Team, B: Part, eps_occ: Part, eps_vir: Part, parts: bool, device: Any = None, memory: int | None = None
) -> Any:
    """Pass blocks of occupied orbitals round half the ring; on a grid gather those of a row and of a column instead."""
    for name, value in (("device", device), ("memory", memory)):
        if value is not None:
            expected = "None for arrays that are sharded, whose ranks have devices of their own"
            raise ArgumentError("mp2_energy", name, value, expected)
    if len(team.shape) > 1:
        occ, vir = eps_occ.whole(team), eps_vir.whole(team)
        check_gap(occ, vir)
        sums = team.all_reduce(1, _sum_grid(team, B, occ, vir))
    else:
        sums = _sum_ring(team, *_orbitals(team, B, eps_occ, eps_vir))
    square, cross = team.all_reduce(0, sums).to(B.dtype).unbind()
    wanted = (2 * square - cross, square, square - cross)[: 3 if parts else 1]
    results = [B.with_local(x.clone(), (), team.first(None)) for x in wanted]
    return MP2Energy(*results) if parts else results[0]


def _sum_grid(team: Team, B: Part, occ: Tensor, vir: Tensor) -> Tensor:
    """Sum the pairs of a block of orbitals along either axis of the mesh, of pairs that two ranks have by their parity.

    B is cut along orbitals and auxiliary functions first, so that no rank gathers more than its two blocks.
    """
    others = (None,) * (len(team.shape) - 2)
    cut = B.to(team, (0, 2, *others))
    left = cut.to(team, (0, None, *others)).local
    column = cut.to(team, (1, 2, *others)).to(team, (1, 0, *others))
    (start, count), (first, width) = (chunks(B.shape[0], team.size(k))[team.here(k)] for k in (0, 1))
    rows, sums = range(start, start + count), torch.zeros(2, dtype=torch.float64, device=vir.device)
    slices = chunks(width, _SLICES)
    parts = ([column.with_local(column.local.narrow(0, *each))] for each in slices)
    arrived = in_flight(lambda part: [Wait(start_gather(part, team, 0))], parts)
    for (at, size), (part,) in zip(slices, arrived, strict=True):
        right, columns = part.local, range(first + at, first + at + size)
        both = range(max(rows.start, columns.start), min(rows.stop, columns.stop))
        if both:
            sums = sums + torch.stack(
                mp2_within(left[both.start - start :][: len(both)], occ[both.start : both.stop], vir)
            )
        for a, b in _halves(rows, columns, both):
            one = left[a.start - start : a.stop - start : 2].contiguous()
            other = right[b.start - columns.start : b.stop - columns.start : 2].contiguous()
            energies = occ[a.start : a.stop : 2], occ[b.start : b.stop : 2]
            sums = sums + 2 * torch.stack(mp2_between(one, other, *energies, vir))
    return sums


def _halves(rows: range, columns: range, both: range) -> Iterator[tuple[range, range]]:
    """Yield blocks in steps of two: of every two pairs ``i, j`` and ``j, i`` that are not both in ``both``, one.

    It is the one with ``i < j`` where both are even or both are odd, and the other one where they are not.
    """
    blocks = (
        (rows, range(columns.start, min(columns.stop, rows.start)), 1),
        (rows, range(max(columns.start, rows.stop), columns.stop), 0),
        (range(rows.start, both.start), both, 0),
        (range(both.stop, rows.stop), both, 1),
    )
    for (a, b, odd), parity in itertools.product(blocks, (0, 1)):
        alike = range(a.start + (a.start + parity) % 2, a.stop, 2)
        others = range(b.start + (b.start + parity + odd) % 2, b.stop, 2)
        if alike and others:
            yield alike, others


def _sum_ring(team: Team, B: Part, occ: list[Tensor], vir: Tensor) -> Tensor:
    """Sum pairs of the blocks that pass: every two of them meet once.

    With an even number of ranks the two that face each other meet on both; each takes half of the pairs.
    """
    here, ranks = team.here(0), team.size(0)
    mine, sums = occ[here], torch.zeros(2, dtype=torch.float64, device=vir.device)
    for step, (owner, block) in enumerate(_ring(team, B, ranks // 2)):
        if step == 0:
            sums = sums + torch.stack(mp2_within(block, mine, vir))
            continue
        left, other, energies = B.local, block, (mine, occ[owner])
        if 2 * step == ranks:
            # the lower rank, whose block may be the larger one, takes the smaller half of its own orbitals
            low, high = (mine, occ[owner]) if here < owner else (occ[owner], mine)
            cut = len(low) // 2
            if here < owner:
                left, energies = left[:cut], (low[:cut], high)
            else:
                other, energies = other[cut:], (high, low[cut:])
        sums = sums + 2 * torch.stack(mp2_between(left, other, *energies, vir))
    return sums
