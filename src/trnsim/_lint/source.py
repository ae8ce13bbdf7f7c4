"""From a kernel object to the syntax tree of its function."""

import ast
import functools
import linecache
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

from trnsim.source_lines import nodes_of

# names under which kernel objects, ours and AWS's, keep the function they wrap
_WRAPPED = ("__wrapped__", "func", "fn", "f", "_func", "_fn", "kernel", "_kernel")


def unwrap(kernel: Any) -> FunctionType | None:
    """Return the Python function inside ``kernel``: through decorators, methods, partials and kernel objects."""
    for _ in range(32):
        if isinstance(kernel, FunctionType):
            inner = kernel.__dict__.get("__wrapped__")
            if inner is None:
                return kernel
            kernel = inner
        elif isinstance(kernel, (MethodType, staticmethod, classmethod)):
            kernel = kernel.__func__
        elif isinstance(kernel, functools.partial):
            kernel = kernel.func
        elif isinstance(kernel, type) or not callable(kernel):
            return None
        else:
            inner = next((x for x in (getattr(kernel, name, None) for name in _WRAPPED) if callable(x)), None)
            kernel = type(kernel).__call__ if inner is None else inner
    return None


@dataclass(frozen=True, slots=True)
class Unit:
    """One function to check: its object, its tree, and the lines of its file."""

    function: FunctionType
    node: ast.FunctionDef | ast.AsyncFunctionDef
    lines: list[str]

    def location(self, node: ast.AST) -> tuple[tuple[str, int, int], str, int]:
        """Return file, line and column of ``node``, counted from one, its first line, and how much of that is meant."""
        line, start = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        text = self.lines[line - 1].rstrip("\n")
        raw = text.encode()
        end = node.end_col_offset if getattr(node, "end_lineno", None) == line else len(raw)  # type: ignore[attr-defined]
        column = 1 + len(raw[:start].decode(errors="replace"))
        width = max(1, len(raw[start:end].decode(errors="replace").rstrip()))
        return (self.function.__code__.co_filename, line, column), text, width


def read(function: FunctionType) -> Unit | None:
    """Return the source of ``function``; None for ``exec`` strings, lambdas and files changed since."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    for node in nodes_of(code.co_filename, function.__globals__):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            head = node.decorator_list[0] if node.decorator_list else node
            if head.lineno == code.co_firstlineno:
                return Unit(function, node, linecache.getlines(code.co_filename, function.__globals__))
    return None


def inner_code(parent: CodeType | None, name: str, line: int) -> CodeType | None:
    """Return the code object of the function ``name`` defined inside ``parent`` at ``line`` of the file."""
    if parent is None:
        return None
    same = [c for c in parent.co_consts if isinstance(c, CodeType) and c.co_name == name]
    return min(same, key=lambda c: abs(c.co_firstlineno - line), default=None)
