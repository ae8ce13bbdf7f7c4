"""Samplers that reject: every element has a substream of its own, and attempt ``t`` reads its block ``t``.

What one element needs never moves another, so element ``i`` is the same in any call, on any backend, in any partition.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# attempt, elements or None for all -> int64 [n, 4]
Blocks = Callable[[int, Tensor | None], Tensor]
# words, elements or None for all -> candidates and whether each is taken
Propose = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]


def rejected(blocks: Blocks, propose: Propose, first: int = 0) -> Tensor:
    """Propose until every element is accepted. ``first`` is the index of the first attempt."""
    result, taken = propose(blocks(first, None), None)
    if result.is_meta:
        return result
    attempt, pending = first, (~taken).nonzero().flatten()
    while pending.numel():
        attempt += 1
        values, taken = propose(blocks(attempt, pending), pending)
        result[pending[taken]] = values[taken]
        pending = pending[~taken]
    return result


def at(value: Tensor, chosen: Tensor | None) -> Tensor:
    """Select a parameter of one element or of all, for the chosen ones."""
    return value if chosen is None or value.numel() == 1 else value[chosen]


def some(value: Tensor, where: Tensor) -> Tensor:
    """Select a parameter of one element or of all, where a mask holds."""
    return value if value.numel() == 1 else value[where]


def blocks_of(blocks: Blocks, elements: Tensor) -> Blocks:
    """Return the same substreams for a subset of the elements."""

    def subset(attempt: int, chosen: Tensor | None) -> Tensor:
        return blocks(attempt, elements if chosen is None else elements[chosen])

    return subset


def by_case(
    cases: Tensor, blocks: Blocks, yes: Callable[[Blocks, Tensor], Tensor], no: Callable[[Blocks, Tensor], Tensor]
) -> Tensor:
    """Run two samplers on two kinds of elements; each gets its blocks and its elements' indices."""
    result = torch.empty(cases.shape, dtype=torch.float64, device=cases.device)
    for holds, sampler in ((True, yes), (False, no)):
        elements = (cases == holds).nonzero().flatten()
        if elements.numel():
            result[elements] = sampler(blocks_of(blocks, elements), elements)
    return result
