"""Gamma variates by Marsaglia and Tsang's method, and the distributions derived from them."""

from __future__ import annotations

import functools
from typing import Any, Unpack

import torch
from torch import Tensor

from trnrand import maths
from trnrand.reject import Variates, at, draw_accepted
from trnrand.request import Number, Options, Request, Size, drawing, half_open, open_unit, substream
from trnrand.segment import Segment
from trnsci import op, run
from trnsci.analogs import resembles
from trnsci.host import is_differentiated
from trnsci.torch_internals import standard_gamma_grad

# attempts begin at 1; block 0 holds the uniform that takes shapes below 1 down from shape + 1
FIRST = 1
# from this shape on, no uniform of 53 bits takes a variate below float64's range
SMALL = 2.0**-4


@resembles("numpy.random.gamma")
@drawing
def gamma(*size: Size, shape: Number, scale: Number = 1.0, **options: Unpack[Options]) -> Tensor:
    """Draw gamma variates: density proportional to ``x**(shape - 1) * exp(-x / scale)``.

    Args:
        size: the shape of the result; without one, the shape the parameters broadcast to.
        shape: positive.
        scale: positive.

    Returns:
        The variates, with gradients to ``scale`` and ``shape`` (implicit reparameterisation, by torch, to a relative
        5e-4).

    Raises:
        ArgumentError: a parameter is not positive and finite. Nothing was drawn.

    Example:
        >>> trnrand.Generator(0).gamma(2, shape=3.0)
        tensor([4.2715, 1.7776])
    """
    request = Request("gamma", size, shape=(shape, "shape"), scale=(scale, "positive"), **options)
    given, by = request.parameter("shape"), request.parameter("scale")
    if not isinstance(given, Tensor) and given >= SMALL:
        # a number needs no look at the device to see that no logarithms are needed
        variates = standard_gamma(request, request.tensor("shape"))
        return request.finish(variates if not isinstance(by, Tensor) and by == 1 else by * variates)
    return request.finish(scaled_gamma(request, request.tensor("shape"), request.tensor("scale")))


def tiny(*shapes: Tensor) -> Tensor | None:
    """Return where a shape is so small that variates are computed in logarithms, or ``None``."""
    where = functools.reduce(torch.logical_or, [shape < SMALL for shape in shapes])
    return None if where.is_meta or not bool(where.any()) else where


def moderate(shape: Tensor) -> Tensor:
    """Clamp a shape to where its variates need no logarithms."""
    return shape.clamp(min=SMALL)


def scaled_gamma(request: Request, shape: Tensor, scale: Tensor, slot: int = 0) -> Tensor:
    """Draw gamma variates, right where the standard one underflows and its multiple does not."""
    variates = scale * standard_gamma(request, moderate(shape), slot)
    hard = tiny(shape)
    if hard is None:
        return variates
    return torch.where(hard, maths.exp(log_gamma(request, shape, slot) + maths.log_positive(scale)), variates)


def log_gamma(request: Request, shape: Tensor, slot: int = 0) -> Tensor:
    """Draw logarithms of standard gamma variates, which never underflow, from the words of `standard_gamma`."""
    small = shape < 1.0
    logarithm = maths.log(standard_gamma(request, torch.where(small, shape + 1.0, shape), slot))
    w = request.blocks(slot)
    return logarithm + torch.where(small, maths.log(open_unit(w[:, 0], w[:, 1])) / shape, 0.0)


def standard_gamma(request: Request, shape: Tensor, slot: int = 0) -> Tensor:
    """Draw standard gamma variates of a request, float64 [count], from the substreams of a slot."""
    if not is_differentiated(shape):
        return _Standard.forward(shape, request, slot)
    return _Standard.apply(shape, request, slot)  # type: ignore[no-untyped-call]


class _Standard(torch.autograd.Function):
    @staticmethod
    def forward(shape: Tensor, request: Request, slot: int) -> Tensor:
        stream, first = request.claim(1)
        segment = Segment.of(substream(stream, slot, 0), first, request.count, 1)
        return run(Gamma([shape.detach().contiguous()], segment))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        shape, variates = ctx.saved_tensors
        slope = standard_gamma_grad(shape.expand_as(variates), variates)
        return (grads[0] * slope).sum_to_size(shape.shape), None, None


@op("trnrand::gamma", composed=True)
class Gamma(Variates):
    """Standard gamma variates; the parameter is their shape."""

    __slots__ = ()

    def pytorch(self) -> Tensor:
        (shape,), count = self.parameters, self.segment[2]
        if count == 0:
            return self.fake()
        d = torch.where(shape < 1.0, shape + 1.0, shape) - 1.0 / 3.0
        c = 1.0 / maths.sqrt(9.0 * d)

        def propose(w: Tensor, chosen: Tensor | None) -> tuple[Tensor, Tensor]:
            radius = maths.sqrt(-2.0 * maths.log(half_open(w[:, 0], w[:, 1]) + 2.0**-53))
            x = radius * maths.sincos2pi(w[:, 2].double() * 2.0**-32)[1]
            t = 1.0 + at(c, chosen) * x
            v, u = t * t * t, (w[:, 3].double() + 0.5) * 2.0**-32
            square, d_here = x * x, at(d, chosen)
            positive = v > 0
            # a logarithm of what is not positive is never looked at
            slow = maths.log(u) < 0.5 * square + d_here * ((1.0 - v) + maths.log(torch.where(positive, v, 1.0)))
            return d_here * v, positive & ((u < 1.0 - 0.0331 * (square * square)) | slow)

        variates = draw_accepted(self.blocks, propose, FIRST)
        small = (shape < 1.0).expand(count)
        if bool(small.any()):
            w = self.blocks(0, None)
            variates[small] *= maths.exp(maths.log(open_unit(w[:, 0], w[:, 1])[small]) / at(shape, small))
        return variates
