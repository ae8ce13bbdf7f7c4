"""torch's operators that draw, replaced on request: the numbers are others."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from trnrand.source import Source
from trnsci.analogs import Different, Given, given, replaces

F = TypeVar("F", bound=Callable[..., Any])


def replaces_draws(make: str, fill: str, *parameters: str) -> Callable[[F], F]:
    """Declare that a distribution replaces the operators that make a tensor of standard draws, and that fill one.

    Args:
        make: the first operator, ``aten::rand``.
        fill: the second, ``aten::uniform_``.
        parameters: our names of the second one's two parameters.
    """

    def declare(function: F) -> F:
        def read_size(
            size: Sequence[int], *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
        ) -> Given:
            if layout not in (None, torch.strided) or pin_memory:
                raise Different("its layout or memory is special")
            return given(function, tuple(size), dtype=dtype or torch.get_default_dtype(), device=device)

        def read_tensor(x: Tensor, first: float = 0.0, second: float = 1.0, *, generator: Any = None) -> Given:
            if generator is not None:
                raise Different("a generator of torch's has its own numbers")
            named = dict(zip(parameters, (first, second), strict=True))
            return given(function, tuple(x.shape), **named, dtype=x.dtype, device=x.device)

        def fill_tensor(value: Tensor, x: Tensor, *_: Any, **__: Any) -> Tensor:
            return x.copy_(value)

        replaces(make, by=function, random=True, planned=_apart(read_size))(read_size)
        replaces(fill, by=function, random=True, planned=_apart(read_tensor), result=fill_tensor)(read_tensor)
        return function

    return declare


def _apart(read: Callable[..., Given]) -> Callable[..., Given]:
    """Let a plan draw from a generator of its own: claiming numbers would move the program's."""

    def read_apart(*args: Any, generator: Any = None, **kwargs: Any) -> Given:
        function, size, named = read(*args, **kwargs)
        return given(function, *size, **{**named, "device": None, "generator": Source(0)})

    return read_apart
