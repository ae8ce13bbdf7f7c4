"""Normal numbers: Box and Muller's pairs, or the inverse distribution function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnrand import host, maths
from trnrand.bits import launched, placed
from trnrand.engines import ENGINES, pure_words
from trnrand.kernels import bits as bit_kernels
from trnrand.kernels import normal as kernels
from trnrand.quantiles import normal_quantile
from trnrand.request import Number, Request, drawing, half_open
from trnrand.source import Source
from trnrand.uniform import cost
from trnsci import Op, check


@drawing
def normal(
    *size: Any,
    loc: Number = 0.0,
    scale: Number = 1.0,
    method: str = "box-muller",
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Normal numbers of mean ``loc`` and standard deviation ``scale``.

    Args:
        size: the shape; without one, the shape ``loc`` and ``scale`` broadcast to.
        loc: mean.
        scale: standard deviation, not negative.
        method: ``"box-muller"``, or ``"inverse"``: the quantile of one float64 uniform, monotone in it.
        dtype: float16, bfloat16, float32 or float64; by default that of the parameters, else torch's default.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        ``loc + scale * z``, with gradients to ``loc`` and ``scale``. Up to float32 ``z`` is made in float32 from 24
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
    parameters = {"loc": (loc, "finite"), "scale": (scale, "non-negative")}
    request = Request("normal", size, generator, dtype=dtype, device=device, out=out, parameters=parameters)
    plain = not isinstance(loc, Tensor) and not isinstance(scale, Tensor) and loc == 0 and scale == 1
    z = normal_quantile(request.open_unit()) if method == "inverse" else standard(request, plain)
    return request.finish(z if plain else located(request, z))


def standard(request: Request, final: bool = False) -> Tensor:
    """Standard normals of a request, float64 or float32; ``final`` allows them to go straight to ``out``."""
    wide = request.dtype == torch.float64
    stream, first = request.claim(2 if wide else 1)
    place = (*placed(stream, first, 2 if wide else 4), request.count, wide, str(request.device))
    out = request.out
    if final and out is not None and out.dtype in (torch.float32, torch.float64) and out.is_contiguous():
        return _normal.write(out.view(-1), *place)
    return _normal(*place)


def located(request: Request, z: Tensor) -> Tensor:
    """``loc + scale * z`` in the arithmetic of ``z``."""
    return request.tensor("loc").to(z.dtype) + request.tensor("scale").to(z.dtype) * z


def _fake(engine: str, key: list[int], counter: list[int], skip: int, count: int, wide: bool, device: str) -> Tensor:
    return torch.empty(count, dtype=torch.float64 if wide else torch.float32, device=device)


_normal = Op("trnrand::normal", fake=_fake, cost=cost)


@_normal.impl("pytorch")
def _pytorch(engine: str, key: list[int], counter: list[int], skip: int, count: int, wide: bool, device: str) -> Tensor:
    out = host.empty((count,), torch.float64 if wide else torch.float32, device)
    _pytorch_into(out, engine, key, counter, skip, count, wide, device)
    return out


@_normal.into
def _pytorch_into(
    out: Tensor, engine: str, key: list[int], counter: list[int], skip: int, count: int, wide: bool, device: str
) -> None:
    library = host.helper(out.device)
    if library is not None:
        host.fill(library, host.NORMAL64 if wide else host.NORMAL32, ENGINES[engine], key, counter, skip, out)
        return
    base = sum(word << 32 * i for i, word in enumerate(counter))
    words = pure_words(ENGINES[engine], key, base, 0, _whole(skip + count, wide), out.device)
    out.copy_((pairs64(words) if wide else pairs32(words))[skip : skip + count])


def _whole(elements: int, wide: bool) -> int:
    """Words of all the blocks that hold so many elements."""
    return 4 * -(-elements // (2 if wide else 4))


def pairs32(words: Tensor) -> Tensor:
    """Box and Muller in float32 on int64 words, two to a pair."""
    radius = maths.sqrt(-2.0 * maths.log32(((words[0::2] >> 8) + 1).float() * 2.0**-24))
    sine, cosine = maths.turn32(words[1::2] >> 8)
    return torch.stack([radius * cosine, radius * sine], -1).reshape(-1)


def pairs64(words: Tensor) -> Tensor:
    """Box and Muller in float64 on int64 words, four to a pair."""
    w = words.view(-1, 4)
    radius = maths.sqrt(-2.0 * maths.log(half_open(w[:, 0], w[:, 1]) + 2.0**-53))
    sine, cosine = maths.turn(half_open(w[:, 2], w[:, 3]))
    return torch.stack([radius * cosine, radius * sine], -1).reshape(-1)


@_normal.impl("nki")
def _nki(engine: str, key: list[int], counter: list[int], skip: int, count: int, wide: bool, device: str) -> Tensor:
    if count == 0:
        return _fake(engine, key, counter, skip, count, wide, device)
    if not wide:
        return launched(kernels.normal, engine, key, counter, skip, count, device)
    # the device has no float64: its words are exact, and the host does the rest
    words = launched(bit_kernels.bits, engine, key, counter, 0, _whole(skip + count, wide), device)
    if words.is_meta:
        return torch.empty(count, dtype=torch.float64, device="meta")
    return pairs64(words.to(torch.int64))[skip : skip + count]
