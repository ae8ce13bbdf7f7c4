"""Laws that are a function of one uniform: the formulas, and the op that draws and applies them in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trnrand import host, maths
from trnrand.bits import launched, placed, stream_words, words_cost
from trnrand.engines import ENGINES, pure_words
from trnrand.kernels import bits as bit_kernels
from trnrand.request import Request, half_open, open_unit
from trnsci import Cost, Op


@dataclass(frozen=True, slots=True)
class Law:
    """A law's number in the C helper, its formula in float64, and how it reads a uniform from two words."""

    number: int
    formula: Callable[..., Tensor]
    unit: Callable[[Tensor, Tensor], Tensor] = open_unit


def _laplace(u: Tensor, loc: Any, scale: Any) -> Tensor:
    return loc + scale * torch.where(u < 0.5, 1.0, -1.0) * maths.log(2.0 * torch.minimum(u, 1.0 - u))


def _cauchy(u: Tensor, loc: Any, scale: Any) -> Tensor:
    # -cot(pi u) = tan(pi (u - 1/2))
    sine, cosine = maths.turn(0.5 * u)
    return loc - scale * (cosine / sine)


def _bernoulli(u: Tensor, p: Any) -> Tensor:
    return (u < p).double()


def _geometric(u: Tensor, rate: Any) -> Tensor:
    # an integer holds no more than this
    return torch.ceil(maths.log(u) / rate).clamp(1.0, 2.0**62)


LAWS = {
    "exponential": Law(0, lambda u, scale: -scale * maths.log(u)),
    "laplace": Law(1, _laplace),
    "cauchy": Law(2, _cauchy),
    "gumbel": Law(3, lambda u, loc, scale: loc - scale * maths.log(-maths.log(u))),
    "logistic": Law(4, lambda u, loc, scale: loc + scale * (maths.log(u) - maths.log(1.0 - u))),
    "weibull": Law(5, lambda u, shape, scale: scale * maths.power(-maths.log(u), 1.0 / shape)),
    "pareto": Law(6, lambda u, shape, scale: scale * maths.power(u, -1.0 / shape)),
    "geometric": Law(7, _geometric),
    "bernoulli": Law(8, _bernoulli, half_open),
}


def drawn(request: Request, law: str, *parameters: Any) -> Tensor:
    """A law of each element's uniform, two words each. ``parameters`` are numbers, or float64 tensors of [count].

    Numbers go to the op, which may write the result's dtype at once; tensors, which may need gradients, through torch.
    """
    stream, first = request.claim(2)
    if any(isinstance(value, Tensor) for value in parameters):
        return _applied(law, parameters, stream_words(stream, 2 * first, 2 * request.count, request.device))
    dtype = request.dtype if request.dtype in host.RESULTS else torch.float64
    place = (*placed(stream, first, 2), request.count)
    arguments = (law, list(parameters), *place, dtype, str(request.device))
    out = request.out
    if out is not None and out.dtype == dtype and out.is_contiguous():
        return _inverse.write(out.view(-1), *arguments)
    return _inverse(*arguments)


def _fake(
    law: str,
    parameters: list[float],
    engine: str,
    key: list[int],
    counter: list[int],
    skip: int,
    count: int,
    dtype: torch.dtype,
    device: str,
) -> Tensor:
    return torch.empty(count, dtype=dtype, device=device)


def _cost(
    law: str,
    parameters: list[float],
    engine: str,
    key: list[int],
    counter: list[int],
    skip: int,
    count: int,
    dtype: torch.dtype,
    device: str,
) -> Cost:
    words = words_cost(engine, key, counter, skip, 2 * count, device)
    return Cost(flops=words.flops + 40 * count, read=0, written=dtype.itemsize * count)


_inverse = Op("trnrand::inverse", fake=_fake, cost=_cost)


@_inverse.impl("pytorch")
def _pytorch(
    law: str,
    parameters: list[float],
    engine: str,
    key: list[int],
    counter: list[int],
    skip: int,
    count: int,
    dtype: torch.dtype,
    device: str,
) -> Tensor:
    out = host.empty((count,), dtype, device)
    _pytorch_into(out, law, parameters, engine, key, counter, skip, count, dtype, device)
    return out


@_inverse.into
def _pytorch_into(
    out: Tensor,
    law: str,
    parameters: list[float],
    engine: str,
    key: list[int],
    counter: list[int],
    skip: int,
    count: int,
    dtype: torch.dtype,
    device: str,
) -> None:
    library = host.helper(out.device)
    if library is not None:
        host.inverse(library, LAWS[law].number, parameters, ENGINES[engine], key, counter, skip, out)
        return
    base = sum(word << 32 * i for i, word in enumerate(counter))
    words = pure_words(ENGINES[engine], key, base, 2 * skip, 2 * count, out.device)
    out.copy_(_applied(law, parameters, words))


def _applied(law: str, parameters: Sequence[Any], words: Tensor) -> Tensor:
    pairs = words.view(-1, 2)
    return LAWS[law].formula(LAWS[law].unit(pairs[:, 0], pairs[:, 1]), *parameters)


@_inverse.impl("nki")
def _nki(
    law: str,
    parameters: list[float],
    engine: str,
    key: list[int],
    counter: list[int],
    skip: int,
    count: int,
    dtype: torch.dtype,
    device: str,
) -> Tensor:
    out = _fake(law, parameters, engine, key, counter, skip, count, dtype, device)
    if count == 0:
        return out
    # the words are the kernel's; Trainium has no float64 for the rest
    words = launched(bit_kernels.bits, engine, key, counter, 2 * skip, 2 * count, device)
    return out if words.is_meta else _applied(law, parameters, words.to(torch.int64)).to(dtype)
