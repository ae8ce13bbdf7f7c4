"""Draws inside a traced function: the numbers are no constants, so a program draws them again each time it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from torch import Tensor

from trnsci.errors import UnsupportedError
from trnsci.specs import tensors_in
from trnsci.torch_internals import FakeTensor, disable_modes

# the seed of torch's generator while a function is traced
UNSEEDED = 0x7E57AB1E


class Captured(NamedTuple):
    """A tensor that a function takes from outside, or draws: as it was traced, as a run finds it, and taken back."""

    value: Tensor
    now: Callable[[], Tensor]
    undo: Callable[[], None] = lambda: None


_DRAWS: ContextVar[dict[int, Captured] | None] = ContextVar("trnsci.graph.draws", default=None)


@contextmanager
def collecting_draws() -> Iterator[dict[int, Captured]]:
    """Collect the draws of a function traced in the block, by the identity of what was drawn."""
    draws: dict[int, Captured] = {}
    token = _DRAWS.set(draws)
    try:
        yield draws
    finally:
        _DRAWS.reset(token)
        for draw in reversed(draws.values()):
            draw.undo()


def is_drawing() -> bool:
    """Return whether a function is traced for a program here and now."""
    return _DRAWS.get() is not None


def refuse_draw(op: str) -> None:
    """Raise where a function traced for a program draws what its program could not draw again."""
    if is_drawing():
        hint = "Draw before the program runs, and pass the numbers; or draw from a generator that counts its draws"
        raise UnsupportedError(op, [("nki", "a program would repeat the numbers it was traced with")], hint=hint)


def refuse_seed() -> None:
    """Raise for a function that seeds torch's generator: its program would not."""
    raise UnsupportedError("program", [("nki", "it seeds torch's generator, once, when it is traced")])


def draw_each_time(op: str, call: Callable[..., Any], args: Any, kwargs: Any, undo: Callable[[], None]) -> Tensor:
    """Draw for the function that is traced, and let its program draw again, in order, each time it runs."""
    draws = _DRAWS.get()
    assert draws is not None
    if any(isinstance(x, FakeTensor) for x in tensors_in([*args, *kwargs.values()])):
        why = "it draws with parameters that the program computes"
        raise UnsupportedError(op, [("nki", why)], hint="Draw with plain parameters, and transform the numbers")
    token = _DRAWS.set(None)
    try:
        with disable_modes():
            value = call(*args, **kwargs)
    finally:
        _DRAWS.reset(token)
    if not isinstance(value, Tensor):
        undo()
        refuse_draw(op)
    draws[id(value)] = Captured(value, lambda: call(*args, **kwargs), undo)
    return value
