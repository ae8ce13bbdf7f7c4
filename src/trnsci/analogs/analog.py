"""A function of torch, NumPy or SciPy and the one that replaces it, declared beside the latter.

A declaration says how the arguments map. Dense and sparse operands, and numbers that are others, have declarations of
their own.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from trnsci import libraries
from trnsci.errors import ArgumentError, TrnError
from trnsci.libraries import public_name
from trnsci.plans import Plan
from trnsci.specs import thaw

F = TypeVar("F", bound=Callable[..., Any])

# what a tensor must be for its values to be read: subclasses have operators of their own
PLAIN = (torch.Tensor, torch.nn.Parameter)
# elements of an operand, as of 128 x 128: there a substitution costs less than a tenth of a product
LEAST = 1 << 14
# the same for functions that read every element once
LEAST_READ_ONCE = 1 << 20
# a function of a library, and what to call it with
Given = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def given(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Given:
    """Return a call of ours, for a declaration's ``arguments``."""
    return function, args, kwargs


def as_number(value: complex) -> complex:
    """Return a coefficient of torch's, which may be an integer, as ours take it."""
    return value if isinstance(value, complex) else float(value)


class Different(Exception):
    """A call that ours would answer otherwise, or not at all; the text says why it is left alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analog:
    """A public function of a library in place of another.

    Attributes:
        name: of ours, ``library.function``.
        arguments: their arguments to a call of ours, or raises `Different`; without it a call is never substituted.
        planned: the same for a plan, where that is different.
        result: our result and their arguments to their result; without it they are the same.
        complete: the same with everything that torch's own gradient reads, where ``result`` leaves some of it out.
        sparse: for operands of a sparse layout; else for dense ones.
        random: whether numbers are drawn, which are others than torch's.
        planes: whether complex operands and results may be `trnsci.planar.PlanarTensor`.
        decomposes: whether torch makes it of operators that have analogs, where it is left alone.
        order: the memory order of arrays that NumPy or SciPy return, as `trnsci.analogs.operands.own_arrays` has it.
        least: elements of the largest operand from which ours could pay; smaller calls are left alone.
        reads_once: whether a call does little more than read its operands, by its arguments; it pays later.
        left: why every call is left alone, where there is no ``arguments``.
    """

    name: str
    arguments: Callable[..., Given] | None = None
    planned: Callable[..., Given] | None = None
    result: Callable[..., Any] | None = None
    complete: Callable[..., Any] | None = None
    sparse: bool = False
    random: bool = False
    planes: bool = False
    decomposes: bool = False
    order: str = "C"
    least: int = LEAST
    reads_once: Callable[..., bool] | None = None
    left: str = ""

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, str]:
        """Do their call here; return its result and the name of the function that ran.

        Raises:
            Different: theirs means something else.
            TrnError: ours does not take the operands, or fails on them.
        """
        assert self.arguments is not None
        function, ours, named = self.arguments(*args, **kwargs)
        value = function(*ours, **named)
        if self.result is not None:
            value = self.result(value, *args, **kwargs)
        name = public_name(function)
        return value, self.name if "._" in name else name

    def plan(self, args: Any, kwargs: dict[str, Any]) -> Plan | None:
        """Plan the same work here, from frozen foreign arguments; ``None`` where nothing of ours takes them."""
        # libraries, which declare their analogs, need no plans when they are imported
        from trnsci.planning import plan

        read = self.planned or self.arguments
        if read is None:
            return None
        try:
            theirs, options = thaw(args), {name: thaw(value) for name, value in kwargs.items()}
            function, ours, named = read(*theirs, **options)
            planned = plan(function, *ours, **named)
        except (TrnError, Different):
            # integers, mixed dtypes, other options: theirs computes them, ours would say why not
            return None
        return planned if planned.steps else None


_DECLARED: defaultdict[tuple[str, bool], dict[str, Analog]] = defaultdict(dict)


def replaces(*theirs: str, by: Callable[..., Any] | None = None, **traits: Any) -> Callable[[F], F]:
    """Declare that a public function does the work of others; ``traits`` are attributes of `Analog`.

    Theirs are operators of torch, ``aten::mm``, and full names of functions, ``scipy.linalg.solve``. Decorate the
    function itself where their arguments are ours; else a function that takes theirs and returns `given`
    of ours, with ``by`` the function that usually is. Arguments of NumPy's and SciPy's functions arrive as they bind
    them: the first by position, the others by name, less those that change nothing of a result.

    Example:
        >>> @replaces("aten::mm", "aten::bmm", by=gemm)
        ... def _read_product(a, b):
        ...     return given(gemm, 1.0, a, b)
    """

    def declare(function: F) -> F:
        arguments = functools.partial(given, function) if by is None else function
        resembles(*theirs, arguments=arguments, **traits)(function if by is None else by)
        return function

    return declare


def resembles(*theirs: str, **traits: Any) -> Callable[[F], F]:
    """Declare that a public function does the work of others, whose calls are counted and left alone."""

    def declare(function: F) -> F:
        name = public_name(function)
        for one in theirs:
            analog = Analog(name=name, **traits)
            _DECLARED[one, analog.sparse][name.partition(".")[0]] = analog
        return function

    return declare


@functools.cache
def declarations() -> Mapping[tuple[str, bool], Analog]:
    """Return what the libraries declared, by the foreign name and whether operands are sparse.

    Raises:
        ArgumentError: two libraries replace the same function.
    """
    loaded = libraries.load()
    result = {}
    for key, by_library in _DECLARED.items():
        known = [by_library[library] for library in sorted(by_library) if library in loaded]
        replacing = [analog for analog in known if analog.arguments is not None]
        if len(replacing) > 1:
            names = " and ".join(analog.name for analog in replacing)
            raise ArgumentError("drop_in", "libraries", f"{names} for {key[0]}", "one function that replaces it")
        if known:
            result[key] = (replacing or known)[0]
    return result


@functools.cache
def operators(*, sparse: bool = False) -> Mapping[str, Analog]:
    """Return the analogs of torch's operators, by name: ``mm``."""
    prefix = "aten::"
    return {
        name.removeprefix(prefix): analog
        for (name, is_sparse), analog in declarations().items()
        if name.startswith(prefix) and is_sparse is sparse
    }
