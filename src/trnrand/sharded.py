"""Draws into sharded arrays: every rank draws its own elements, and together they are the bits of a single rank's draw.

An element's index in the whole array is its index in the stream, so a part is drawn from counters alone. Ranks exchange
nothing but the two words with which they agree on the call, which has the generator's seed and position in it.
Parameters may be sharded too; one that is cut differently is moved first.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

import trnrand
from trnrand.generator import Generator
from trnrand.request import holds
from trnrand.source import default, shape_of
from trnsci import ArgumentError, check
from trnsci.distributed import Layout, Part, Team, sharded
from trnsci.distributed.parts import SUM

# A part whose runs are short is drawn with what lies between them, this many elements at a time: a call costs more.
_SPAN = 1 << 15
# Functions whose elements are independent of each other; those that draw vectors or orders are not among them.
_ELEMENTWISE = (
    *("uniform", "normal", "lognormal", "exponential", "laplace", "cauchy", "gumbel", "logistic", "weibull", "pareto"),
    *("truncated_normal", "von_mises", "gamma", "beta", "chi_squared", "student_t", "f", "poisson", "bernoulli"),
    *("rademacher", "geometric", "binomial", "negative_binomial", "randint"),
)

Draw = Callable[[int, int, Mapping[str, Tensor]], Tensor]


def _check(public: Callable[..., Tensor], *size: Any, **given: Any) -> None:
    """Refuse what a rank can refuse alone: run the function's own checks on one element, without drawing."""
    op, out, generator = public.__name__, given["out"], given["generator"]
    if given["device"] is not None:
        raise ArgumentError(op, "device", given["device"], "none, because the mesh says where parts live")
    probe, _ = _probe(public, given)
    if generator.size > 1:
        got = f"share {generator.rank} of {generator.size}"
        raise ArgumentError(op, "generator", got, "one that is not partitioned: placements say who draws what")
    shape = _shape(op, size, given)
    if out is not None:
        check.out(op, out, shape=shape, dtype=probe.dtype)


def _probe(public: Callable[..., Tensor], given: Mapping[str, Any]) -> tuple[Tensor, int]:
    """Return a result of no elements, for its dtype, and the words of the stream an element takes."""
    kept = {name: value for name, value in given.items() if name not in ("size", "device", "out", "generator")}
    for name, value in kept.items():
        if isinstance(value, Part) or (isinstance(value, Tensor) and value.is_meta):
            kept[name] = _stand_in(name, value.dtype)
    if given["dtype"] is None and given["out"] is not None:
        kept["dtype"] = given["out"].dtype
    # the second of two shares of one element has none, and moves as far as the first
    source = Generator(0, engine=given["generator"].stream.engine).partition(1, 2)
    return public(1, generator=source, **kept), source.position


def _stand_in(name: str, dtype: torch.dtype) -> Tensor:
    """Return a legal value for a sharded parameter, where only the other arguments are checked."""
    if dtype.is_complex or dtype == torch.bool:
        return torch.ones((), dtype=dtype, device="cpu")
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    value = limits.min if name == "low" else limits.max if name == "high" else 1
    return torch.tensor(value, dtype=dtype, device="cpu")


def _shape(op: str, size: Sequence[Any], given: Mapping[str, Any]) -> tuple[int, ...]:
    shapes = {name: tuple(x.shape) for name, x in given.items() if isinstance(x, Part | Tensor) and name != "out"}
    batch = check.broadcast(op, **shapes) if shapes else ()
    if not size:
        return batch
    shape = shape_of(op, size)
    holds(op, shape, batch)
    return shape


def _attach(public: Callable[..., Tensor]) -> None:
    @sharded(
        public,
        check=functools.partial(_check, public),
        settle=lambda given: given | {"generator": given["generator"] or default()},
    )
    def run(team: Team, size: Sequence[Any], out: Part | None, generator: Generator, **given: Any) -> Part:
        probe, words = _probe(public, {**given, "out": out, "generator": generator})
        shape = _shape(public.__name__, size, given)
        whole = _result(team, shape, given, probe.dtype) if out is None else out
        aligned = {name: _align(team, x, whole.layout) for name, x in given.items() if isinstance(x, Part)}
        kept = {k: v for k, v in given.items() if not isinstance(v, Part)} | {"dtype": probe.dtype}
        begin = -(-generator.position // words) * words
        source = generator.clone_state()

        def draw(first: int, count: int, parameters: Mapping[str, Tensor]) -> Tensor:
            source.stream = generator.stream.at(begin + words * first)
            return public(count, generator=source, **{**kept, "device": whole.local.device, **parameters})

        strides = torch.empty(shape, device="meta", dtype=torch.float32).stride()
        first = sum(start * stride for start, stride in zip(whole.layout.starts(team.coordinate), strides, strict=True))
        _fill(draw, whole.local, aligned, first, strides)
        if not whole.local.is_meta:
            generator.stream = generator.stream.at(begin + words * math.prod(shape))
        return whole


def _result(team: Team, shape: tuple[int, ...], given: Mapping[str, Any], dtype: torch.dtype) -> Part:
    """Allocate a result, cut as the first parameter of its shape; every rank has that one."""
    parts = [value for value in given.values() if isinstance(value, Part)]
    alike = [part for part in parts if part.shape == shape and SUM not in part.places]
    places = alike[0].places if alike else (None,) * len(team.shape)
    layout = Layout(shape, dtype, team.shape, places)
    local = torch.empty(layout.local_shape(team.coordinate), dtype=dtype, device=parts[0].local.device)
    return Part(local, layout)


def _align(team: Team, part: Part, target: Layout) -> Tensor:
    """Return a parameter for each element of this rank's part."""
    if part.shape == target.shape:
        return part.to(team, target.places).local
    return Part.cut(part.whole(team).expand(target.shape), target.places, target.mesh, team.coordinate).local


def _fill(draw: Draw, box: Tensor, aligned: Mapping[str, Tensor], first: int, strides: Sequence[int]) -> None:
    """Draw a box of the whole array, whose first element is ``first``: span by span, each one piece of the stream."""
    if box.numel() == 0:
        return
    span = 1 + sum((size - 1) * stride for size, stride in zip(box.shape, strides, strict=True))
    if span == box.numel() or span <= _SPAN:
        parameters = {name: _between(value, span, strides) for name, value in aligned.items()}
        box.copy_(draw(first, span, parameters).as_strided(box.shape, strides))
        return
    rows = _SPAN // strides[0]
    for at in range(0, box.shape[0], max(rows, 1)):
        key = slice(at, at + rows) if rows else at
        inner = strides if rows else strides[1:]
        _fill(draw, box[key], {name: value[key] for name, value in aligned.items()}, first + at * strides[0], inner)


def _between(box: Tensor, span: int, strides: Sequence[int]) -> Tensor:
    """Return a box's values at their positions in a span, with a legal value between them."""
    flat = box.flatten()[:1].repeat(span)
    flat.as_strided(box.shape, strides).copy_(box)
    return flat


for _name in _ELEMENTWISE:
    _attach(getattr(trnrand, _name))
