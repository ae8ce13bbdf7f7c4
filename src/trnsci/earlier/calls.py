"""Functions that differ in names, order and defaults of arguments alone, made from a table.

A row of ``data/earlier/calls.csv`` has the earlier signature, the call of ours with its arguments
(``trnblas.axpy(x, y, alpha)``), the ``way`` in which a library converts operands and results, and a docstring.
"""

import functools
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

import torch

from trnsci.errors import ArgumentError, NumericalError
from trnsci.tables import read_table

Function = Callable[..., Any]


def read_calls(library: str, ways: Mapping[str, Callable[[Function], Function]]) -> dict[str, dict[str, Function]]:
    """Return the functions of a library by module and name; ``ways`` decorate ours by the names in the table."""
    modules: dict[str, dict[str, Function]] = {}
    for row in read_table("earlier/calls.csv"):
        if row["module"].partition(".")[0] == library:
            function = _make_function(row, ways)
            modules.setdefault(row["module"], {})[function.__name__] = function
    return modules


def _make_function(row: Mapping[str, str], ways: Mapping[str, Callable[[Function], Function]]) -> Function:
    name, parameters = row["earlier"].removesuffix(")").split("(", 1)
    path, arguments = row["ours"].removesuffix(")").split("(", 1)
    # by attribute: a function shares its name with its module
    ours: Function = pkgutil.resolve_name(path.replace(".", ":", 1))
    known = {"torch": torch, "ours": ways[row["way"]](ours) if row["way"] else ours}
    function: Function = eval(f"lambda {parameters}: ours({arguments})", known)
    function.__name__ = function.__qualname__ = name
    function.__doc__, function.__module__ = row["doc"], row["module"]
    return function


@functools.cache
def raise_as_torch(function: Function) -> Function:
    """Decorate a function: programs that expect torch's ``RuntimeError`` and ``LinAlgError`` catch its errors too."""

    @functools.wraps(function)
    def run(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except ArgumentError as error:
            if isinstance(error, RuntimeError):
                raise
            raise _as_torch_error(type(error))(**vars(error)).with_traceback(error.__traceback__) from None
        except NumericalError as error:
            raise torch.linalg.LinAlgError(str(error)) from error  # type: ignore[attr-defined]

    return run


def _as_torch_error(kind: type[ArgumentError]) -> type[ArgumentError]:
    # a class made here has no name to be found by, and is pickled as the one that has
    members = {"__module__": kind.__module__, "__reduce__": lambda error: (functools.partial(kind, **vars(error)), ())}
    return type(kind.__name__, (kind, RuntimeError), members)


def weigh_addend(function: Function) -> Function:
    """Decorate a function of ours: the factor of an addend is zero where there is none."""

    def run(*args: Any, beta: complex, **keywords: Any) -> Any:
        has_addend = keywords.get("c", keywords.get("y")) is not None
        return function(*args, beta=beta if has_addend else 0.0, **keywords)

    return run
