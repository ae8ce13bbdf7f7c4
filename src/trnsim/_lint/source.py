"""From a kernel object to the syntax tree of its function, with the line numbers of its file."""

from __future__ import annotations

import ast
import functools
import linecache
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

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
    """One function to check: its object, its tree, and how to turn a place in the tree into a place in its file."""

    function: FunctionType
    node: ast.FunctionDef | ast.AsyncFunctionDef
    file: str
    lines: list[str]
    offset: int

    def line(self, node: ast.AST) -> int:
        return int(getattr(node, "lineno", 1)) + self.offset

    def text(self, line: int) -> str:
        return self.lines[line - 1].rstrip("\n") if 0 < line <= len(self.lines) else ""

    def span(self, node: ast.AST, line: int) -> tuple[int, int]:
        """First column, counted from one, and width of ``node`` on its first line."""
        start = int(getattr(node, "col_offset", 0))
        text = self.text(line)
        same = getattr(node, "end_lineno", None) == getattr(node, "lineno", None)
        end = int(getattr(node, "end_col_offset", start + 1)) if same else len(text.encode())
        raw = text.encode()
        first = len(raw[:start].decode(errors="replace"))
        return first + 1, max(1, len(raw[start:end].decode(errors="replace").rstrip()))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _by_indentation(lines: list[str], first: int) -> list[str]:
    """Return the lines of the function whose head starts at index ``first``, if no text of it stands at its margin."""
    margin = _indent(lines[first])
    last = first
    while last < len(lines) and not lines[last].lstrip().startswith(("def ", "async def ")):
        last += 1
    last += 1
    while last < len(lines) and _continues(lines[last], margin):
        last += 1
    return lines[first:last]


def _continues(line: str, margin: int) -> bool:
    text = line.lstrip()
    return not text or len(line) - len(text) > margin or text[0] in ")]}#"


def _by_bytecode(lines: list[str], code: CodeType) -> list[str]:
    """Return the lines of a function up to the end of its last expression."""
    ends = (end or line or 0 for part in _codes(code) for line, end, _, _ in part.co_positions())
    return lines[code.co_firstlineno - 1 : max(ends, default=code.co_firstlineno)]


def _blocks(lines: list[str], code: CodeType) -> Iterator[list[str]]:
    """Yield the lines of a function, by two ways that are much faster than a tokeniser.

    Text at the margin, in a string or after a backslash, cuts the first short; what is left does not parse.
    """
    yield _by_indentation(lines, code.co_firstlineno - 1)
    yield _by_bytecode(lines, code)


def _parse(block: list[str]) -> tuple[ast.stmt, int] | None:
    """Return the statement in ``block`` and how many lines were put before it to make an indented one parse."""
    nested = bool(_indent(block[0])) if block else False
    text = ("if 1:\n" if nested else "") + "".join(block)
    with warnings.catch_warnings():
        # what Python thinks of an escape sequence it has said when the kernel was imported
        warnings.simplefilter("ignore")
        try:
            tree: list[ast.stmt] = ast.parse(text).body
        except SyntaxError:
            return None
    if nested and tree and isinstance(tree[0], ast.If):
        tree = tree[0].body
    return (tree[0], int(nested)) if tree else None


def read(function: FunctionType) -> Unit | None:
    """Return the source of ``function``; None for ``exec`` strings, lambdas and files changed since."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not 0 < code.co_firstlineno <= len(lines):
        return None
    parsed = next((tree for tree in map(_parse, _blocks(lines, code)) if tree is not None), None)
    if parsed is None:
        return None
    node, added = parsed
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name != code.co_name:
        return None
    return Unit(function, node, code.co_filename, lines, code.co_firstlineno - 1 - added)


def inner_code(parent: CodeType | None, name: str, line: int) -> CodeType | None:
    """Return the code object of the function ``name`` defined inside ``parent`` at ``line`` of the file."""
    if parent is None:
        return None
    same = [c for c in parent.co_consts if isinstance(c, CodeType) and c.co_name == name]
    return min(same, key=lambda c: abs(c.co_firstlineno - line), default=None)
