"""Gamma variates by Marsaglia and Tsang's method, and the distributions made of them."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from trnrand import host, maths
from trnrand.bits import block_words, stream_words
from trnrand.engines import ENGINES, MASK
from trnrand.normal import pairs64
from trnrand.reject import at, rejected, some
from trnrand.request import Number, Request, drawing, half_open, open_unit, substream
from trnrand.source import Source
from trnrand.stream import Stream
from trnsci import Cost, Op

# attempts begin at 1; block 0 holds the uniform that takes shapes below 1 down from shape + 1
FIRST = 1
# from this shape on, no uniform of 53 bits takes a variate below float64's range
SMALL = 2.0**-4


@drawing
def gamma(
    *size: Any,
    shape: Number,
    scale: Number = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Gamma variates: density proportional to ``x**(shape - 1) * exp(-x / scale)``.

    Args:
        size: the shape of the result; without one, the shape the parameters broadcast to.
        shape: positive.
        scale: positive.
        dtype: float16, bfloat16, float32 or float64; computed in float64 and rounded once.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        The variates, with gradients to ``shape`` (implicit reparameterisation) and ``scale``.

    Raises:
        ArgumentError: a parameter is not positive and finite. Nothing was drawn.

    Example:
        >>> trnrand.Generator(0).gamma(2, shape=3.0)
        tensor([4.2715, 1.7776])
    """
    parameters = {"shape": (shape, "shape"), "scale": (scale, "positive")}
    request = Request("gamma", size, generator, dtype=dtype, device=device, out=out, parameters=parameters)
    return request.finish(scaled_gamma(request, request.tensor("shape"), request.tensor("scale")))


def tiny(*shapes: Tensor) -> Tensor | None:
    """Where a shape is so small that variates are taken in logarithms; ``None`` if none is."""
    where = functools.reduce(torch.logical_or, [shape < SMALL for shape in shapes])
    return None if where.is_meta or not bool(where.any()) else where


def moderate(shape: Tensor) -> Tensor:
    """A shape whose variates need no logarithms: itself, where it is not `tiny`."""
    return shape.clamp(min=SMALL)


def scaled_gamma(request: Request, shape: Tensor, scale: Tensor, slot: int = 0) -> Tensor:
    """Gamma variates of a request, right where the standard one underflows and its multiple does not."""
    made = scale * standard_gamma(request, moderate(shape), slot)
    hard = tiny(shape)
    if hard is None:
        return made
    return torch.where(hard, maths.exp(log_gamma(request, shape, slot) + maths.log_positive(scale)), made)


def log_gamma(request: Request, shape: Tensor, slot: int = 0) -> Tensor:
    """Logarithms of standard gamma variates, which never underflow, from the same words as `standard_gamma`."""
    small = shape < 1.0
    made = maths.log(standard_gamma(request, torch.where(small, shape + 1.0, shape), slot))
    w = request.blocks(slot)
    return made + torch.where(small, maths.log(open_unit(w[:, 0], w[:, 1])) / shape, 0.0)


def standard_gamma(request: Request, shape: Tensor, slot: int = 0) -> Tensor:
    """Standard gamma variates of a request, float64 [count], from the substreams of a slot."""
    made: Tensor = _Standard.apply(shape, request, slot)  # type: ignore[no-untyped-call]
    return made


class _Standard(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shape: Tensor, request: Request, slot: int) -> Tensor:
        stream, first = request.claim(1)
        base = substream(stream, slot, 0)
        made = _gamma(shape.detach().contiguous(), base.engine, base.key_words, words_at(base, first), request.count)
        ctx.save_for_backward(shape, made)
        return made

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        shape, made = ctx.saved_tensors
        slope = torch._standard_gamma_grad(shape.expand_as(made), made)
        return (grads[0] * slope).sum_to_size(shape.shape), None, None


def words_at(base: Stream, first: int) -> list[int]:
    """Counter of a substream's block ``first``, as words."""
    counter = (base.base + first) % (1 << 128)
    return [counter >> 32 * i & MASK for i in range(4)]


def _fake(shape: Tensor, engine: str, key: list[int], counter: list[int], count: int) -> Tensor:
    return shape.new_empty(count)


def _cost(shape: Tensor, engine: str, key: list[int], counter: list[int], count: int) -> Cost:
    return Cost(flops=150 * count, read=shape.nbytes, written=8 * count)


_gamma = Op("trnrand::gamma", fake=_fake, cost=_cost)


@_gamma.impl("pytorch")
def _pytorch(shape: Tensor, engine: str, key: list[int], counter: list[int], count: int) -> Tensor:
    library = host.helper(shape.device)
    if library is not None:
        return host.sampler(library, "gamma", ENGINES[engine], key, counter, 0, shape, count)
    return _composed(shape, engine, key, counter, count)


@_gamma.impl("nki")
def _nki(shape: Tensor, engine: str, key: list[int], counter: list[int], count: int) -> Tensor:
    # the words are the kernel's; Trainium has no float64 for the rest
    return _composed(shape, engine, key, counter, count)


@_gamma.prediction
def _prediction(shape: Tensor, engine: str, key: list[int], counter: list[int], count: int) -> None:
    # one attempt each; the rejected few per cent are not predicted
    substream_blocks(engine, key, counter, FIRST, count, shape.device, None)


def _composed(shape: Tensor, engine: str, key: list[int], counter: list[int], count: int) -> Tensor:
    def blocks(attempt: int, chosen: Tensor | None) -> Tensor:
        return substream_blocks(engine, key, counter, attempt, count, shape.device, chosen)

    d = torch.where(shape < 1.0, shape + 1.0, shape) - 1.0 / 3.0
    c = 1.0 / maths.sqrt(9.0 * d)

    def propose(w: Tensor, chosen: Tensor | None) -> tuple[Tensor, Tensor]:
        radius = maths.sqrt(-2.0 * maths.log(half_open(w[:, 0], w[:, 1]) + 2.0**-53))
        x = radius * maths.turn(w[:, 2].double() * 2.0**-32)[1]
        t = 1.0 + at(c, chosen) * x
        v, u = t * t * t, (w[:, 3].double() + 0.5) * 2.0**-32
        square, d_here = x * x, at(d, chosen)
        positive = v > 0
        # a logarithm of what is not positive is never looked at
        slow = maths.log(u) < 0.5 * square + d_here * ((1.0 - v) + maths.log(torch.where(positive, v, 1.0)))
        return d_here * v, positive & ((u < 1.0 - 0.0331 * (square * square)) | slow)

    if count == 0:
        return shape.new_empty(0)
    made = rejected(blocks, propose, FIRST)
    small = (shape < 1.0).expand(count)
    if bool(small.any()):
        w = blocks(0, None)
        made[small] = made[small] * maths.exp(maths.log(open_unit(w[:, 0], w[:, 1])[small]) / some(shape, small))
    return made


def substream_blocks(
    engine: str,
    key: list[int],
    counter: list[int],
    attempt: int,
    count: int,
    device: torch.device,
    chosen: Tensor | None,
) -> Tensor:
    """Blocks of the elements that begin at a counter: int64 [n, 4]."""
    base = sum(word << 32 * i for i, word in enumerate(counter)) + (attempt << 96)
    stream = Stream(sum(word << 32 * i for i, word in enumerate(key)), engine, base % (1 << 128))
    if chosen is None:
        return stream_words(stream, 0, 4 * count, device).view(-1, 4)
    return block_words(stream, 0, chosen)


def normals_of(request: Request, slot: int) -> Tensor:
    """One standard normal for each element from the substreams of a slot, float64."""
    return pairs64(request.blocks(slot).reshape(-1))[0::2]
