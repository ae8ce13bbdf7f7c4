"""A function of another library and ours that does the same, with conversions of arguments and results."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from trnsci.errors import TrnError
from trnsci.planning import plan
from trnsci.plans import Plan
from trnsci.specs import thaw

# what a tensor must be for its values to be read: subclasses have operators of their own
PLAIN = (torch.Tensor, torch.nn.Parameter)
Given = tuple[tuple[Any, ...], dict[str, Any]]


def given(*args: Any, **kwargs: Any) -> Given:
    """Return arguments for ours."""
    return args, kwargs


class Different(Exception):
    """A call that ours would answer otherwise, or not at all; the text says why it is left alone."""


@dataclass(frozen=True, slots=True)
class Analog:
    """A public function of ours in place of another.

    Attributes:
        name: of ours, ``trnblas.gemm``.
        arguments: their arguments to ours, or raises `Different`; without it only the name is known.
        result: our result and their arguments to their result; without it they are the same.
        choose: their arguments to the name of ours, where one operator is several functions here.
        runs: whether a call may be substituted; some operators only tell what a program did.
    """

    name: str
    arguments: Callable[..., Given] | None = None
    result: Callable[..., Any] | None = None
    choose: Callable[..., str] | None = None
    runs: bool = True

    def named(self, *args: Any, **kwargs: Any) -> str:
        """Return the name of the function of ours for their arguments."""
        return self.name if self.choose is None else self.choose(*args, **kwargs)

    def function(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """Return the function of ours for their arguments."""
        library, _, function = self.named(*args, **kwargs).partition(".")
        return getattr(importlib.import_module(library), function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do their call here.

        Raises:
            Different: theirs means something else.
            TrnError: ours does not take the operands, or fails on them.
        """
        assert self.arguments is not None
        given, named = self.arguments(*args, **kwargs)
        value = self.function(*args, **kwargs)(*given, **named)
        return value if self.result is None else self.result(value, *args, **kwargs)

    def plan(self, args: Any, kwargs: dict[str, Any]) -> Plan | None:
        """Plan the same work here, from frozen arguments of theirs; ``None`` where nothing of ours takes them."""
        if self.arguments is None:
            return None
        try:
            theirs, options = thaw(args), {name: thaw(value) for name, value in kwargs.items()}
            given, named = self.arguments(*theirs, **options)
            planned = plan(self.function(*theirs, **options), *given, **named)
        except (TrnError, Different):
            # integers, mixed dtypes, other options: theirs computes them, ours would say why not
            return None
        return planned if planned.steps else None
