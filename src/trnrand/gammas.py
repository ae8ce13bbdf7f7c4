"""Distributions made of gamma variates and normal numbers; every part has a substream of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnrand import maths
from trnrand.gamma import normals_of, standard_gamma
from trnrand.request import Number, Request, drawing
from trnrand.source import Source
from trnsci import ArgumentError


@drawing
def beta(
    *size: Any,
    a: Number,
    b: Number,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Beta numbers in [0, 1]: density proportional to ``x**(a - 1) * (1 - x)**(b - 1)``.

    Args:
        size: the shape; without one, the shape the parameters broadcast to.
        a: positive.
        b: positive.
        dtype: float16, bfloat16, float32 or float64; computed in float64 and rounded once.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        ``x / (x + y)`` of two gamma variates, with gradients to the parameters.

    Raises:
        ArgumentError: a parameter is out of range. Nothing was drawn.
    """
    parameters = {"a": (a, "positive"), "b": (b, "positive")}
    request = Request("beta", size, generator, dtype=dtype, device=device, out=out, parameters=parameters)
    x, y = standard_gamma(request, request.tensor("a"), 0), standard_gamma(request, request.tensor("b"), 1)
    total = x + y
    # both can underflow when both shapes are tiny; the larger shape then wins
    certain = (request.tensor("a") >= request.tensor("b")).double()
    return request.finish(torch.where(total > 0, x / torch.where(total > 0, total, 1.0), certain))


@drawing
def chi_squared(
    *size: Any,
    df: Number,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Chi-squared numbers: gamma variates of shape ``df / 2`` and scale 2.

    Args:
        size: the shape; without one, the shape the parameters broadcast to.
        df: degrees of freedom, positive.
        dtype: float16, bfloat16, float32 or float64; computed in float64 and rounded once.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        The numbers, with gradients to the parameters.

    Raises:
        ArgumentError: a parameter is out of range. Nothing was drawn.
    """
    parameters = {"df": (df, "positive")}
    request = Request("chi_squared", size, generator, dtype=dtype, device=device, out=out, parameters=parameters)
    return request.finish(2.0 * standard_gamma(request, 0.5 * request.tensor("df")))


@drawing
def student_t(
    *size: Any,
    df: Number,
    loc: Number = 0.0,
    scale: Number = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Student's t: a normal number over the root of an independent chi-squared one per degree of freedom.

    Args:
        size: the shape; without one, the shape the parameters broadcast to.
        df: degrees of freedom, positive.
        loc: position.
        scale: width, positive.
        dtype: float16, bfloat16, float32 or float64; computed in float64 and rounded once.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        ``loc + scale * t``, with gradients to the parameters.

    Raises:
        ArgumentError: a parameter is out of range. Nothing was drawn.
    """
    parameters = {"df": (df, "positive"), "loc": (loc, "finite"), "scale": (scale, "positive")}
    request = Request("student_t", size, generator, dtype=dtype, device=device, out=out, parameters=parameters)
    df = request.tensor("df")
    spread = 2.0 * standard_gamma(request, 0.5 * df, 0) / df
    made = normals_of(request, 1) / maths.sqrt(spread)
    return request.finish(request.parameter("loc") + request.parameter("scale") * made)


@drawing
def f(
    *size: Any,
    dfnum: Number,
    dfden: Number,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Fisher's F: the ratio of two chi-squared numbers, each over its degrees of freedom.

    Args:
        size: the shape; without one, the shape the parameters broadcast to.
        dfnum: degrees of freedom of the numerator, positive.
        dfden: degrees of freedom of the denominator, positive.
        dtype: float16, bfloat16, float32 or float64; computed in float64 and rounded once.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        The numbers, with gradients to the parameters.

    Raises:
        ArgumentError: a parameter is out of range. Nothing was drawn.
    """
    parameters = {"dfnum": (dfnum, "positive"), "dfden": (dfden, "positive")}
    request = Request("f", size, generator, dtype=dtype, device=device, out=out, parameters=parameters)
    above, below = request.tensor("dfnum"), request.tensor("dfden")
    x, y = standard_gamma(request, 0.5 * above, 0), standard_gamma(request, 0.5 * below, 1)
    return request.finish((x / above) / (y / below))


@drawing
def dirichlet(
    *size: Any,
    alpha: Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Dirichlet vectors: K non-negative numbers that sum to 1.

    Args:
        size: shape of the batch; without one, the batch shape of ``alpha``.
        alpha: [..., K], positive.
        dtype: float16, bfloat16, float32 or float64; computed in float64 and rounded once.
        device: where the result goes.
        out: memory for the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        [*size, K], with gradients to ``alpha``.

    Raises:
        ArgumentError: ``alpha`` has no axis of categories or is not positive. Nothing was drawn.
    """
    if not isinstance(alpha, Tensor):
        alpha = torch.as_tensor(alpha, dtype=torch.float64)
    if alpha.ndim < 1 or alpha.shape[-1] < 1:
        raise ArgumentError(
            op="dirichlet", argument="shape of alpha", got=tuple(alpha.shape), expected="[..., K], K >= 1"
        )
    whole = (*_batch(size), alpha.shape[-1]) if size else ()
    parameters = {"alpha": (alpha, "positive")}
    request = Request("dirichlet", whole, generator, dtype=dtype, device=device, out=out, parameters=parameters)
    parts = standard_gamma(request, request.tensor("alpha")).reshape(-1, alpha.shape[-1])
    total = parts.sum(-1, keepdim=True)
    # every part can underflow when every alpha is tiny; the largest alpha then takes all
    largest = request.tensor("alpha").expand(request.count).reshape(parts.shape).argmax(-1)
    corner = torch.nn.functional.one_hot(largest, alpha.shape[-1]).double()
    return request.finish(torch.where(total > 0, parts / torch.where(total > 0, total, 1.0), corner))


def _batch(size: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list, torch.Size)) else size
