"""Compile-time arguments that a kernel leaves free.

A kernel declares them with the decorator `choices`, or its module with ``CHOICES``: names of keyword arguments, and
the values to choose between.
"""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trnsim.refusals import refuse


def choices(**free: Sequence[Any]) -> Callable[[Any], Any]:
    """Declare keyword arguments of a kernel that `trnsim tune` may choose, and the values to choose between."""

    def declare(kernel: Any) -> Any:
        function = getattr(kernel, "function", kernel)
        known = inspect.signature(function).parameters
        for name in free:
            if name not in known or known[name].default is inspect.Parameter.empty:
                raise refuse("choices", got=name, function=function.__name__)
        function.choices = {name: tuple(values) for name, values in free.items()}
        return kernel

    return declare


def find_choices(kernel: Any) -> Mapping[str, tuple[Any, ...]]:
    """Return the free arguments of a kernel and their values; empty where neither it nor its module declares any."""
    function = getattr(kernel, "function", kernel)
    module = sys.modules.get(function.__module__)
    return getattr(function, "choices", None) or getattr(module, "CHOICES", {})
