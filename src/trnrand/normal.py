"""Normal numbers: Box and Muller's pairs, or the inverse distribution function."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from trnrand import host_loops, maths
from trnrand.bits import Numbers
from trnrand.device import launch_stream
from trnrand.kernels import bits as bit_kernels, normal as kernels
from trnrand.maths import normal_quantile
from trnrand.request import Number, Options, Request, Size, drawing, half_open
from trnrand.segment import Segment
from trnrand.torch_draws import replaces_draws
from trnsci import check, op, run
from trnsci.analogs import resembles


@replaces_draws("aten::randn", "aten::normal_", "loc", "scale")
@resembles(*(f"numpy.random.{name}" for name in ("normal", "standard_normal", "randn")))
@drawing
def normal(
    *size: Size, loc: Number = 0.0, scale: Number = 1.0, method: str = "box-muller", **options: Unpack[Options]
) -> Tensor:
    """Draw normal numbers of mean ``loc`` and standard deviation ``scale``.

    Args:
        size: the shape; without one, the shape ``loc`` and ``scale`` broadcast to.
        loc: mean.
        scale: standard deviation, not negative.
        method: ``"box-muller"``, or ``"inverse"``: the quantile of one float64 uniform, monotone in it.
        dtype: float16, bfloat16, float32 or float64; by default that of the parameters, else torch's default.

    Returns:
        ``loc + scale * z``, with gradients to ``loc`` and ``scale``. Up to float32 ``z`` is computed in float32 from 24
        bits for the radius (so ``|z| <= 5.77``) and 24 for the angle; in float64 from 53 each (``|z| <= 8.58``).
        Elements 2j and 2j + 1 of the stream are a pair, wherever calls begin and end.

    Raises:
        ArgumentError: a parameter is not finite or ``scale`` is negative. Nothing was drawn.

    Error bound:
        Given its words, ``z`` is within ``2**-21 (1 + |z|)`` of Box and Muller's formula in float32 on the host, and
        ``2**-49 (1 + |z|)`` in float64. The kernel's functions add up to ``2**-20 (1 + |z|)``.

    Example:
        >>> trnrand.Generator(0).normal(2)
        tensor([ 0.9911, -0.9247])
    """
    check.option("normal", "method", method, ("box-muller", "inverse"))
    request = Request("normal", size, loc=(loc, "finite"), scale=(scale, "non-negative"), **options)
    plain = not isinstance(loc, Tensor) and not isinstance(scale, Tensor) and loc == 0 and scale == 1
    z = normal_quantile(request.open_unit()) if method == "inverse" else standard(request, plain)
    if not plain:
        z = request.tensor("loc").to(z.dtype) + request.tensor("scale").to(z.dtype) * z
    return request.finish(z)


@drawing
@check.hands_on("normal")
def standard_normal(*size: Size, **options: Unpack[Options]) -> Tensor:
    """Draw normal numbers of mean 0 and standard deviation 1, by NumPy's name; arguments as for `normal`."""
    return normal(*size, **options)


def standard(request: Request, final: bool = False) -> Tensor:
    """Draw standard normals of a request, float64 or float32; ``final`` lets them go straight to ``out``."""
    wide = request.dtype == torch.float64
    stream, first = request.claim(2 if wide else 1)
    dtype = torch.float64 if wide else torch.float32
    call = Normal(Segment.of(stream, first, request.count, 2 if wide else 4), dtype, request.device)
    out = request.out
    if final and out is not None and out.dtype in (torch.float32, torch.float64) and out.is_contiguous():
        return run(call, out.view(-1))
    return run(call)


@op("trnrand::normal")
class Normal(Numbers):
    """Standard normal numbers of a segment by Box and Muller."""

    __slots__ = ()

    def code(self) -> int:
        return host_loops.NORMAL64 if self.each == 2 else host_loops.NORMAL32

    def pytorch(self) -> Tensor:
        segment = Segment(self.segment)
        return self._pairs(segment.words(0, _whole(segment, self.each), self.device))

    def _pairs(self, words: Tensor) -> Tensor:
        """Return the numbers of all words from the first block on, less those before the segment."""
        segment = Segment(self.segment)
        numbers = (pairs64 if self.each == 2 else pairs32)(words)[segment.skip : segment.skip + segment.elements]
        # not a view into more than was asked for
        return numbers.clone() if len(numbers) < len(words) else numbers

    def nki(self) -> Tensor:
        segment = Segment(self.segment)
        if not segment.elements:
            return self.fake()
        if self.each == 1:
            return launch_stream(kernels.normal, segment, self.device)
        # the device has no float64: its words are exact, and the host does the rest
        whole = Segment((segment[0], 0, _whole(segment, self.each), *segment[3:]))
        words = launch_stream(bit_kernels.bits, whole, self.device)
        return self.fake() if words.is_meta else self._pairs(words.to(torch.int64))


def _whole(segment: Segment, each: int) -> int:
    """Return words of all the blocks that hold a segment."""
    return 4 * -(-each * (segment.skip + segment.elements) // 4)


def pairs32(words: Tensor) -> Tensor:
    """Apply Box and Muller in float32 to int64 words, two to a pair."""
    radius = maths.sqrt(-2.0 * maths.log32(((words[0::2] >> 8) + 1).float() * 2.0**-24))
    sine, cosine = maths.sincos2pi32(words[1::2] >> 8)
    return torch.stack([radius * cosine, radius * sine], -1).reshape(-1)


def pairs64(words: Tensor) -> Tensor:
    """Apply Box and Muller in float64 to int64 words, four to a pair."""
    w = words.view(-1, 4)
    radius = maths.sqrt(-2.0 * maths.log(half_open(w[:, 0], w[:, 1]) + 2.0**-53))
    sine, cosine = maths.sincos2pi(half_open(w[:, 2], w[:, 3]))
    return torch.stack([radius * cosine, radius * sine], -1).reshape(-1)
