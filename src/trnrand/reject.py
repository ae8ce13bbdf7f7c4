"""Samplers that reject: every element has a substream of its own, and attempt ``t`` reads its block ``t``.

What one element needs never moves another, so element ``i`` is the same in any call, on any backend, in any partition.
"""

import importlib
from collections.abc import Callable, Hashable
from typing import NamedTuple

import torch
from torch import Tensor

from trnrand import host_loops
from trnrand.bits import attempt_words
from trnrand.segment import Segment
from trnsci import Cost, NumericalError

# Attempts of an element: at most half are refused, so that no parameter that was checked gets here.
ATTEMPTS = 1000
# attempt, elements or None for all -> int64 [n, 4]
Blocks = Callable[[int, Tensor | None], Tensor]
# words, elements or None for all -> candidates and whether each is taken
Propose = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]


def draw_accepted(blocks: Blocks, propose: Propose, first: int = 0) -> Tensor:
    """Propose until every element is accepted. ``first`` is the index of the first attempt.

    Raises:
        NumericalError: an element was refused too often, because its parameter belongs to no distribution.
    """
    result, taken = propose(blocks(first, None), None)
    if result.is_meta:
        return result
    attempt, pending = first, (~taken).nonzero().flatten()
    while pending.numel():
        attempt += 1
        if attempt > ATTEMPTS:
            hint = "A parameter is not finite or out of range: call the function, which checks it"
            raise NumericalError("trnrand", f"{pending.numel()} elements were refused {ATTEMPTS} times", hint)
        values, taken = propose(blocks(attempt, pending), pending)
        result[pending[taken]] = values[taken]
        pending = pending[~taken]
    return result


def at(value: Tensor, chosen: Tensor | None) -> Tensor:
    """Select a parameter of one element or of all, for the chosen ones."""
    return value if chosen is None or value.numel() == 1 else value[chosen]


def by_case(
    cases: Tensor, blocks: Blocks, yes: Callable[[Blocks, Tensor], Tensor], no: Callable[[Blocks, Tensor], Tensor]
) -> Tensor:
    """Run two samplers on two kinds of elements; each gets its blocks and its elements' indices."""
    result = torch.empty(cases.shape, dtype=torch.float64, device=cases.device)
    for holds, sampler in ((True, yes), (False, no)):
        elements = (cases == holds).nonzero().flatten()
        if elements.numel():

            def subset(attempt: int, chosen: Tensor | None, elements: Tensor = elements) -> Tensor:
                return blocks(attempt, elements if chosen is None else elements[chosen])

            result[elements] = sampler(subset, elements)
    return result


class Variates(NamedTuple):
    """Variates of every ``stride``-th of a segment of substreams, float64.

    Each of ``parameters`` has one element or one for each. Only binomial counts have a stride that is not 1.
    """

    parameters: list[Tensor]
    segment: tuple[int, ...]
    stride: int = 1

    def name(self) -> str:
        """Return what the compiled loops and the kernel of GPUs are called."""
        return type(self).__name__.lower()

    def fake(self) -> Tensor:
        return self.parameters[0].new_empty(self.segment[2])

    def cost(self) -> Cost:
        read = sum(x.nbytes for x in self.parameters)
        return Cost(flops=150 * self.segment[2], read=read, written=8 * self.segment[2])

    def blocks(self, attempt: int, chosen: Tensor | None) -> Tensor:
        """Return the words of an attempt, of all elements or of the chosen ones."""
        device = self.parameters[0].device
        if self.stride > 1:
            chosen = self.stride * (torch.arange(self.segment[2], device=device) if chosen is None else chosen)
        return attempt_words(Segment(self.segment), attempt, device, chosen)

    def host(self) -> Tensor:
        return host_loops.sample(self.name(), Segment(self.segment), self.parameters, self.stride)

    def cuda(self) -> Tensor:
        kernels = importlib.import_module(f"trnrand.cuda.{self.name()}")
        variates: Tensor = kernels.draw(Segment(self.segment), self.parameters, self.stride)
        return variates

    def calls(self, implementation: str) -> str:
        if implementation == "cuda":
            return f"triton trnrand.cuda.{self.name()}"
        return f"trnsci._loops.{'sample' if self.name() in host_loops.SAMPLERS else self.name()}"

    def limits(self, implementation: str) -> str | None:
        return host_loops.limits(implementation, self.parameters[0].device)

    def compiles(self) -> tuple[Hashable, float]:
        return (f"trnrand.cuda.{self.name()}", self.segment[0], *(x.numel() > 1 for x in self.parameters)), 4.0

    def prediction(self) -> None:
        # one attempt each; the rejected few per cent are not predicted
        attempt_words(Segment(self.segment), 1, self.parameters[0].device, None)
