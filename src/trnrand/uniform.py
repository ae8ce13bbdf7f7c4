"""Uniform numbers: the upper bits of a word, scaled."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor

from trnrand import host_loops
from trnrand.bits import Numbers, stream_words
from trnrand.device import launch_stream
from trnrand.kernels import bits as bit_kernels, uniform as kernels
from trnrand.request import Number, Options, Request, Size, drawing, half_open
from trnrand.segment import Segment
from trnrand.torch_draws import replaces_draws
from trnsci import ArgumentError, check, op, run
from trnsci.analogs import resembles

# bits of a result in [0, 1) that a dtype holds exactly
BITS = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24}


@replaces_draws("aten::rand", "aten::uniform_", "low", "high")
@resembles(*(f"numpy.random.{name}" for name in ("uniform", "rand", "random", "random_sample")))
@drawing
def uniform(*size: Size, low: Number = 0.0, high: Number = 1.0, ends: str = "[)", **options: Unpack[Options]) -> Tensor:
    """Draw uniform numbers between ``low`` and ``high``.

    Args:
        size: the shape; without one, the shape ``low`` and ``high`` broadcast to.
        low: lower end, less than ``high``.
        high: upper end.
        ends: which ends of the unit interval belong to it: ``"[)"``, ``"(]"`` or ``"()"``.
        dtype: float16, bfloat16, float32 or float64; by default that of the parameters, else torch's default.

    Returns:
        ``low + (high - low) * u``. In [0, 1) ``u`` is a multiple of ``2**-24`` (float32), ``2**-11`` (float16),
        ``2**-8`` (bfloat16) or ``2**-53`` (float64, two words an element). An end that is excluded is never returned,
        rounding included.

    Raises:
        ArgumentError: ``low >= high``, an end is not finite in the dtype, no number of the dtype lies between them, or
            shapes do not fit. Nothing was drawn.

    Example:
        >>> trnrand.Generator(0).uniform(3)
        tensor([0.3990, 0.8805, 0.7357])
    """
    check.option("uniform", "ends", ends, ("[)", "(]", "()"))
    request = Request("uniform", size, low=(low, "finite"), high=(high, "finite"), **options)
    plain = not isinstance(low, Tensor) and not isinstance(high, Tensor) and low == 0 and high == 1
    if not plain:
        check_order("uniform", low, high)
        _representable(request, ends)
    values = _unit(request, ends)
    if not plain:
        values = _scale_unit(request, values, ends)
    return request.finish(values)


@drawing
@check.hands_on("uniform")
def random(*size: Size, **options: Unpack[Options]) -> Tensor:
    """Draw uniform numbers in [0, 1), by NumPy's name; arguments as for `uniform`."""
    return uniform(*size, **options)


def check_order(op: str, low: Any, high: Any) -> None:
    """Check that ``low < high`` everywhere."""
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        pair = [
            x.detach() if isinstance(x, Tensor) else torch.as_tensor(x, dtype=torch.float64, device="cpu")
            for x in (low, high)
        ]
        below = pair[0] < pair[1]
        if below.is_meta or bool(below.all()):
            return
        low, high = (x[~below].flatten()[0].item() for x in torch.broadcast_tensors(*pair))
    check.refuse(not low < high, op, "low", {"low": low, "high": high}, hint="low must be less than high")


def cut(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """Truncate numbers in [0, 1) to a narrower dtype; rounding would reach 1."""
    if numbers.dtype != dtype:
        scale = 2.0 ** BITS[dtype]
        numbers = (numbers * scale).floor() / scale
    return numbers.to(dtype)


def _unit(request: Request, ends: str) -> Tensor:
    wide = request.dtype == torch.float64
    if ends == "()":
        return request.open_unit() if wide else _open_unit32(request)
    stream, first = request.claim(2 if wide else 1)
    dtype = torch.float64 if wide else torch.float32
    call = Uniform(Segment.of(stream, first, request.count, 2 if wide else 4), dtype, request.device)
    out = request.out
    if ends == "[)" and out is not None and out.dtype.itemsize > 2 and out.is_contiguous():
        return run(call, out.view(-1))
    unit = cut(run(call), request.dtype)
    return 1.0 - unit if ends == "(]" else unit


def _open_unit32(request: Request) -> Tensor:
    bits = BITS[request.dtype] - 1
    stream, first = request.claim(1)
    words = stream_words(stream, first, request.count, request.device) >> 32 - bits
    return (words.float() + 0.5) * 2.0**-bits


def _representable(request: Request, ends: str) -> None:
    """Check that both ends are finite in the result's dtype and that a number lies between them."""
    low, high = (request.tensor(name).detach().to(request.dtype) for name in ("low", "high"))
    above = torch.nextafter(low, high) if ends == "()" else low
    good = low.isfinite() & high.isfinite() & (above < high)
    if not good.is_meta and not bool(good.all()):
        first = [x.expand(good.shape)[~good].flatten()[0].item() for x in (low, high)]
        got = dict(zip(("low", "high"), first, strict=True))
        expected = f"finite ends with numbers of {str(request.dtype).removeprefix('torch.')} between them"
        raise ArgumentError("uniform", "end", got, expected)


def _scale_unit(request: Request, unit: Tensor, ends: str) -> Tensor:
    work = torch.float64 if request.dtype == torch.float64 else torch.float32
    low, high = (request.tensor(name).to(work) for name in ("low", "high"))
    unit, span = unit.to(work), high - low
    scaled = low + span * unit
    wide = span.isinf()
    if not wide.is_meta and bool(wide.any()):
        # the difference is beyond the dtype, its parts are not
        scaled = torch.where(wide, low * (1.0 - unit) + high * unit, scaled)
    scaled = scaled.to(request.dtype)
    low, high = low.detach().to(request.dtype), high.detach().to(request.dtype)
    # rounding may reach an end that does not belong
    if ends[1] == ")":
        scaled = torch.minimum(scaled, torch.nextafter(high, low))
    if ends[0] == "(":
        scaled = torch.maximum(scaled, torch.nextafter(low, high))
    return scaled


@op("trnrand::uniform")
class Uniform(Numbers):
    """Uniform numbers of a segment in [0, 1)."""

    __slots__ = ()

    def code(self) -> int:
        return host_loops.UNIFORM64 if self.each == 2 else host_loops.UNIFORM32

    def pytorch(self) -> Tensor:
        segment, each = Segment(self.segment), self.each
        return _convert_words(segment.words(each * segment.skip, each * segment.elements, self.device), self.dtype)

    def nki(self) -> Tensor:
        segment = Segment(self.segment)
        if not segment.elements:
            return self.fake()
        if self.each == 1:
            return launch_stream(kernels.uniform, segment, self.device)
        # the device has no float64: its words are exact, and the host puts two together
        words = launch_stream(bit_kernels.bits, segment.in_words(2), self.device)
        return self.fake() if words.is_meta else _convert_words(words.to(torch.int64), self.dtype)


def _convert_words(words: Tensor, dtype: torch.dtype) -> Tensor:
    return half_open(words[0::2], words[1::2]) if dtype == torch.float64 else (words >> 8).float() * 2.0**-24
