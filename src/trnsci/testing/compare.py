"""Comparison by bound, with a message that says where and by how much."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.arrays import from_numpy


def assert_within(got: Any, expected: Any, bound: Any, *, what: str = "result") -> None:
    """Fail unless ``|got - expected| <= bound`` elementwise.

    NaN matches NaN and an infinity matches the same infinity; anything else that is not finite is a violation.

    Args:
        got: a tensor or array.
        expected: the oracle's values, of at least float64 precision.
        bound: finite and not negative, broadcast against ``expected``.
        what: named in the message.
    """
    got, expected = _exactable(got), _exactable(expected)
    if tuple(got.shape) != tuple(expected.shape):
        raise AssertionError(f"{what}: shape is {tuple(got.shape)}, expected {tuple(expected.shape)}")
    limit = torch.as_tensor(bound, dtype=torch.float64, device="cpu").broadcast_to(expected.shape)
    if not bool(((limit >= 0) & limit.isfinite()).all()):
        raise AssertionError(f"{what}: the bound itself is negative, infinite or NaN somewhere")
    error = (got - expected).abs()
    same = (got == expected) | (got.isnan() & expected.isnan())
    bad = ~same & ~(error <= limit)
    if not bool(bad.any()):
        return
    places = bad.nonzero()
    ratio = torch.where(bad, torch.nan_to_num(error / limit, nan=torch.inf, posinf=torch.inf), 0.0)
    worst = tuple(int(i) for i in torch.unravel_index(ratio.argmax(), ratio.shape))
    first = tuple(places[0].tolist())
    lines = [f"{what}: {len(places)} of {expected.numel()} elements exceed the bound"]
    for label, place in (("first", first), ("worst", worst)):
        lines.append(
            f"  {label} at {place}: got {got[place].item()!r}, expected {expected[place].item()!r}, "
            f"error {error[place].item():.3g}, bound {limit[place].item():.3g}, ratio {ratio[place].item():.3g}"
        )
    raise AssertionError("\n".join(lines))


def _exactable(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        value = from_numpy(np.asarray(value).copy())
    plain: Tensor = value.detach().as_subclass(Tensor).cpu()
    return plain.to(torch.complex128 if plain.is_complex() else torch.float64)
