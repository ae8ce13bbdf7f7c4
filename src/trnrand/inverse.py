"""Distributions that are a function of one uniform: the formulas, and the op that draws and applies them."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnrand import host_loops, maths
from trnrand.bits import compiles, stream_words, words_cost
from trnrand.device import launch_stream
from trnrand.kernels import bits as bit_kernels
from trnrand.request import Options, Request, half_open, open_unit
from trnrand.segment import Segment
from trnsci import Cost, op, run


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula's code in the compiled loops, itself in float64, and how it reads a uniform from two words."""

    code: int
    function: Callable[..., Tensor]
    unit: Callable[[Tensor, Tensor], Tensor] = open_unit


def _cauchy(u: Tensor, loc: Any, scale: Any) -> Tensor:
    # -cot(pi u) = tan(pi (u - 1/2))
    sine, cosine = maths.sincos2pi(0.5 * u)
    return loc - scale * (cosine / sine)


FORMULAS = {
    "exponential": Formula(0, lambda u, scale: -scale * maths.log(u)),
    "laplace": Formula(
        1,
        lambda u, loc, scale: (
            loc + scale * torch.where(u < 0.5, 1.0, -1.0).to(u.dtype) * maths.log(2.0 * torch.minimum(u, 1.0 - u))
        ),
    ),
    "cauchy": Formula(2, _cauchy),
    "gumbel": Formula(3, lambda u, loc, scale: loc - scale * maths.log(-maths.log(u))),
    "logistic": Formula(4, lambda u, loc, scale: loc + scale * (maths.log(u) - maths.log(1.0 - u))),
    "weibull": Formula(5, lambda u, shape, scale: scale * maths.power(-maths.log(u), 1.0 / shape)),
    "pareto": Formula(6, lambda u, shape, scale: scale * maths.power(u, -1.0 / shape)),
    # an integer holds no more than 2**62
    "geometric": Formula(7, lambda u, rate: torch.ceil(maths.log(u) / rate).clamp(1.0, 2.0**62)),
    "bernoulli": Formula(8, lambda u, p: (u < p).double(), half_open),
}


def by_formula(name: str, size: tuple[Any, ...], options: Options, **parameters: Any) -> Tensor:
    """Draw from the distribution whose formula has its name; parameters are (value, rule) in the formula's order."""
    request = Request(name, size, **parameters, **options)
    return request.finish(draw_formula(request, name, *map(request.parameter, parameters)))


def draw_formula(request: Request, formula: str, *parameters: Any) -> Tensor:
    """Apply a formula to each element's uniform. ``parameters`` are numbers, or float64 tensors of [count].

    Numbers go to the op, which may write the result's dtype at once; tensors, which may need gradients, through torch.
    """
    stream, first = request.claim(2)
    if any(isinstance(value, Tensor) for value in parameters):
        return _apply_formula(formula, parameters, stream_words(stream, 2 * first, 2 * request.count, request.device))
    dtype = request.dtype if request.dtype in host_loops.RESULTS else torch.float64
    segment = Segment.of(stream, first, request.count, 2)
    call = Inverse(formula, tuple(map(float, parameters)), segment, dtype, request.device)
    out = request.out
    if out is not None and out.dtype == dtype and out.is_contiguous():
        return run(call, out.view(-1))
    return run(call)


@op("trnrand::inverse", calls={"cuda": "triton trnrand.cuda.inverse", "host": "trnsci._loops.inverse"})
class Inverse(NamedTuple):
    """A formula of each element's uniform, of a segment whose elements are two words long."""

    formula: str
    parameters: tuple[float, ...]
    segment: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def fake(self) -> Tensor:
        return torch.empty(self.segment[2], dtype=self.dtype, device=self.device)

    def cost(self) -> Cost:
        count = self.segment[2]
        words = words_cost(Segment(self.segment), 2 * count)
        return Cost(flops=words.flops + 40 * count, read=0, written=self.dtype.itemsize * count)

    def pytorch(self) -> Tensor:
        segment = Segment(self.segment)
        words = segment.words(2 * segment.skip, 2 * segment.elements, self.device)
        return _apply_formula(self.formula, self.parameters, words).to(self.dtype)

    def host(self) -> Tensor:
        out = host_loops.empty((self.segment[2],), self.dtype)
        self.host_into(out)
        return out

    def host_into(self, out: Tensor) -> None:
        host_loops.inverse(FORMULAS[self.formula].code, self.parameters, Segment(self.segment), out)

    def cuda(self) -> Tensor:
        out = self.fake()
        self.cuda_into(out)
        return out

    def cuda_into(self, out: Tensor) -> None:
        from trnrand.cuda import inverse

        inverse.inverse(FORMULAS[self.formula].code, self.parameters, Segment(self.segment), out)

    def nki(self) -> Tensor:
        if not self.segment[2]:
            return self.fake()
        # the words are the kernel's; Trainium has no float64 for the rest
        words = launch_stream(bit_kernels.bits, Segment(self.segment).in_words(2), self.device)
        if words.is_meta:
            return self.fake()
        return _apply_formula(self.formula, self.parameters, words.to(torch.int64)).to(self.dtype)

    def limits(self, implementation: str) -> str | None:
        return host_loops.limits(implementation, self.device)

    def compiles(self) -> tuple[Hashable, float]:
        return compiles((self.formula, self.dtype), self.segment)


def _apply_formula(formula: str, parameters: Sequence[Any], words: Tensor) -> Tensor:
    pairs = words.view(-1, 2)
    return FORMULAS[formula].function(FORMULAS[formula].unit(pairs[:, 0], pairs[:, 1]), *parameters)
