"""Where in the kernel's source the simulator is, and what the kernel calls a tensor."""

import ast
import dis
import functools
import itertools
import linecache
import os
import sys
import warnings
from pathlib import Path
from typing import Any

HERE = str(Path(__file__).resolve().parent) + os.sep
# source positions are asked for at every instruction, and code objects hash by content: weak keys would not pay
_INSIDE: dict[Any, bool] = {}
_LINES: dict[tuple[Any, int], str] = {}


def kernel_line() -> str:
    """``file:number`` of the kernel line being executed: the innermost frame outside the simulator and its helpers."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        inside = _INSIDE.get(code)
        if inside is None:
            inside = _INSIDE[code] = code.co_filename.startswith(HERE) or "__trnsim_helper__" in frame.f_globals
        if not inside:
            lineno = frame.f_lineno
            text = _LINES.get((code, lineno))
            if text is None:
                text = _LINES[code, lineno] = f"{code.co_filename}:{lineno}"
            return text
        frame = frame.f_back
    return "?"


def line_of(error: BaseException) -> str | None:
    """``file:number`` of the kernel line an error came from, once it has left the kernel: views are no instructions."""
    trace, line = error.__traceback__, None
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(HERE) and "__trnsim_helper__" not in trace.tb_frame.f_globals:
            line = f"{code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


def warn(message: str, category: type[Warning]) -> None:
    """Warn about the innermost line outside the simulator: the kernel's while it runs, its caller's afterwards."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def nodes_of(file: str, space: dict[str, Any] | None = None) -> tuple[ast.AST, ...]:
    """Return all parts of the syntax tree of a file or notebook cell; nothing of one that cannot be read."""
    return _nodes("".join(linecache.getlines(file, space)))


@functools.lru_cache(maxsize=64)
def _nodes(text: str) -> tuple[ast.AST, ...]:
    with warnings.catch_warnings():
        # what Python thinks of an escape sequence it has said when the file was imported
        warnings.simplefilter("ignore")
        try:
            return tuple(ast.walk(ast.parse(text)))
        except (SyntaxError, ValueError, RecursionError):
            return ()


@functools.lru_cache(maxsize=256)
def _read_assignments(path: str) -> dict[tuple[int, int], str | None] | None:
    """Return the variable that gets the value of each call in a file, by where the call begins.

    ``None`` stands for a ``return``, whose caller may name it; a file that cannot be read has no answer.
    """
    names: dict[tuple[int, int], str | None] = {}

    def give(value: ast.AST | None, name: str | None) -> None:
        if isinstance(value, ast.IfExp):
            give(value.body, name)
            give(value.orelse, name)
        elif isinstance(value, ast.Call):
            names[value.lineno, value.col_offset] = name

    nodes = nodes_of(path)
    for node in nodes:
        if isinstance(node, ast.Return):
            for part in ast.walk(node):
                give(part, None)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            give(node.args[0] if node.args else None, _last(node.func.value))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            value = node.value
            if isinstance(target, ast.Tuple) and isinstance(value, (ast.Tuple, ast.List)):
                for each, part in zip(target.elts, value.elts, strict=False):
                    give(part, _last(each))
            elif isinstance(value, (ast.Tuple, ast.List)):
                for i, part in enumerate(value.elts):
                    give(part, f"{_last(target)}[{i}]")
            else:
                give(value, _last(target))
    return names if len(nodes) > 1 else None


def _last(node: ast.AST) -> str:
    """Return the last part of a name, ``x`` of ``self.x``; nothing for what is none."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


@functools.lru_cache(maxsize=4096)
def _read_bytecode(code: Any, at: int) -> str | None:
    """Return the same for code without source (``exec``, a prompt), from the bytecode after the call at ``at``."""
    after = next((i for i in dis.get_instructions(code) if i.offset > at), None)
    if after is None or after.opname == "RETURN_VALUE":
        return None
    return str(after.argval) if after.opname.startswith("STORE_") and isinstance(after.argval, str) else ""


# by identity: code objects hash by content, which takes longer than the answer
_NAMES: dict[tuple[int, int], tuple[Any, str | None]] = {}


def variable_name() -> str:
    """Return the variable that gets the tensor being made, which names it when nothing else does."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        code, at = frame.f_code, frame.f_lasti
        if not code.co_filename.startswith(HERE):
            known = _NAMES.get((id(code), at))
            if known is None or known[0] is not code:
                if len(_NAMES) > 4096:
                    _NAMES.clear()
                names = _read_assignments(code.co_filename)
                line, _, column, _ = next(itertools.islice(code.co_positions(), at // 2, None))
                name = _read_bytecode(code, at) if names is None else names.get((line, column), "")
                known = _NAMES[id(code), at] = (code, name)
            if known[1] is not None:
                return known[1]
        frame = frame.f_back
    return ""
