"""Functions that differ in names, order and defaults of arguments alone, made from a table.

A row of ``data/earlier/calls.csv`` has the earlier signature, the call of ours with its arguments
(``trnblas.axpy(x, y, alpha)``), the ``way`` in which a library converts operands and results, and a docstring.
"""

from __future__ import annotations

import ast
import functools
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, cast

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
    definition = cast(ast.FunctionDef, ast.parse(f"def {row['earlier']}: ...").body[0])
    call = cast(ast.Call, ast.parse(row["ours"], mode="eval").body)
    signature = _read_signature(definition.args)
    # by attribute: a function shares its name with its module
    ours: Function = pkgutil.resolve_name(ast.unparse(call.func).replace(".", ":", 1))
    ours = ways[row["way"]](ours) if row["way"] else ours

    def function(*args: Any, **keywords: Any) -> Any:
        try:
            bound = signature.bind(*args, **keywords)
        except TypeError as error:
            raise TypeError(f"{definition.name}() {error}") from None
        bound.apply_defaults()
        given = bound.arguments

        def value_of(node: ast.expr) -> Any:
            return given[node.id] if isinstance(node, ast.Name) else ast.literal_eval(node)

        values: list[Any] = []
        for node in call.args:
            values += value_of(node.value) if isinstance(node, ast.Starred) else [value_of(node)]
        return ours(*values, **{str(keyword.arg): value_of(keyword.value) for keyword in call.keywords})

    function.__name__ = function.__qualname__ = definition.name
    function.__doc__, function.__module__ = row["doc"], row["module"]
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _read_signature(args: ast.arguments) -> inspect.Signature:
    """Return the signature of a definition; defaults are literals or dtypes of torch's."""

    def default(node: ast.expr | None) -> Any:
        if node is None:
            return Parameter.empty
        return getattr(torch, node.attr) if isinstance(node, ast.Attribute) else ast.literal_eval(node)

    without = [None] * (len(args.args) - len(args.defaults))
    plain = zip(args.args, [*without, *args.defaults], strict=True)
    parameters = [Parameter(x.arg, Parameter.POSITIONAL_OR_KEYWORD, default=default(node)) for x, node in plain]
    if args.vararg is not None:
        parameters.append(Parameter(args.vararg.arg, Parameter.VAR_POSITIONAL))
    named = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    parameters += [Parameter(x.arg, Parameter.KEYWORD_ONLY, default=default(node)) for x, node in named]
    return inspect.Signature(parameters)


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
    found = {"__module__": kind.__module__, "__reduce__": lambda error: (functools.partial(kind, **vars(error)), ())}
    return type(kind.__name__, (kind, RuntimeError), found)


def weigh_addend(function: Function) -> Function:
    """Decorate a function of ours: the factor of an addend is zero where there is none."""

    def run(*args: Any, beta: complex, **keywords: Any) -> Any:
        has_addend = keywords.get("c", keywords.get("y")) is not None
        return function(*args, beta=beta if has_addend else 0.0, **keywords)

    return run
