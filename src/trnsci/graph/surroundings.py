"""Values a function reads besides its arguments: a program is made for those there when it was traced."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from trnsci.errors import UnsupportedError
from trnsci.torch_internals import FakeTensor

_VALUES = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


class _Same:
    """An object as a key: equal to itself alone, and kept, so that no other takes its address."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


def value_key(x: Any) -> Any:
    """Return a value as a key: numbers that compare equal, such as 1 and 1.0, compute different things."""
    return (type(x), repr(x)) if isinstance(x, _VALUES) else x


class Surroundings:
    """Closures, defaults and globals of a function, and of the functions and objects of its own file that it reads.

    Attributes:
        key: equal while they are the same: numbers and texts by value, everything else by identity.
        tensors: all that were found, those of modules among them.
    """

    def __init__(self, function: Any) -> None:
        self.tensors: list[Tensor] = []
        self._seen: set[int] = set()
        # attributes, dictionaries and lists, with what they held
        self._held: list[tuple[Any, Any]] = []
        self._parts: list[Any] = []
        self._home = getattr(function, "__module__", None)
        self._add(function)
        self.key = tuple(self._parts)

    def _add(self, x: Any) -> None:
        if isinstance(x, _VALUES):
            self._parts.append(value_key(x))
            return
        self._parts.append(_Same(x))
        if id(x) in self._seen:
            return
        self._seen.add(id(x))
        containers: tuple[Any, ...] = () if isinstance(x, ModuleType) else (x, getattr(x, "__dict__", None))
        self._held += [(each, each.copy()) for each in containers if type(each) in (dict, list)]
        for each in self._inside(x):
            self._add(each)

    def _inside(self, x: Any) -> Iterator[Any]:
        is_own = getattr(x if isinstance(x, FunctionType) else type(x), "__module__", None) == self._home
        if isinstance(x, Tensor):
            self.tensors.append(x)
            yield x.requires_grad
        elif isinstance(x, Module):
            yield from (*vars(x).values(), type(x).forward)
        elif isinstance(x, MethodType):
            yield from (x.__self__, x.__func__)
        elif isinstance(x, functools.partial):
            yield from (x.func, *x.args, *x.keywords.values())
        elif isinstance(x, FunctionType) and is_own:
            yield from _captured_values(x)
        elif isinstance(x, dict | list | tuple | set | frozenset):
            yield from (*x, *x.values()) if isinstance(x, dict) else x
        elif is_own and not isinstance(x, type):
            yield from getattr(x, "__dict__", {}).values()

    @contextmanager
    def restoring_numbers(self) -> Iterator[None]:
        """Take back what the block does to tensors of one element: torch computes with these while it traces.

        Raises:
            UnsupportedError: it kept a tensor of the trace, in an attribute or a list, where a run could not put one.
        """
        before = [(x, x.detach().clone()) for x in self.tensors if x.numel() == 1]
        try:
            yield
        finally:
            for x, value in before:
                x.data.copy_(value)
            keeping = [(each, held) for each, held in self._held if _has_trace(each)]
            for each, held in keeping:
                each.clear()
                if isinstance(each, dict):
                    each.update(held)
                else:
                    each.extend(held)
        if keeping:
            hint = "Change tensors in place (copy_), or return them"
            raise UnsupportedError("program", [("nki", "it puts a new tensor in an object or a list")], hint=hint)


def _has_trace(container: Any) -> bool:
    values = container.values() if isinstance(container, dict) else container
    return any(isinstance(x, FakeTensor) for x in values)


def _captured_values(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            # a name that is bound later
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield function.__globals__[name]


@functools.cache
def _names(code: CodeType) -> frozenset[str]:
    return frozenset(code.co_names).union(*(_names(x) for x in code.co_consts if isinstance(x, CodeType)))
