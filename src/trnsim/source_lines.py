"""Where in the kernel's source the simulator is, and what the kernel calls a tensor."""

from __future__ import annotations

import ast
import dis
import functools
import itertools
import linecache
import os
import re
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


_ASSIGNMENT = re.compile(r"\s*(?:\w+\.)*([A-Za-z_]\w*)\s*(?::[^=]+)?(?:=(?!=)|\.append\()")


_NO_SOURCE = "<no source>"


@functools.lru_cache(maxsize=4096)
def assigned_name(path: str, lineno: int) -> str | None:
    """Return the variable a source line assigns; ``None`` for a ``return``, whose caller may."""
    text = linecache.getline(path, lineno)
    if not text:
        return _NO_SOURCE
    if text.lstrip().startswith("return "):
        return None
    match = _ASSIGNMENT.match(text)
    return match[1] if match else ""


@functools.lru_cache(maxsize=4096)
def stored_name(code: Any, at: int) -> str | None:
    """Return the same for code without source (``exec``, a prompt), from the bytecode after the call at ``at``."""
    after = next((i for i in dis.get_instructions(code) if i.offset > at), None)
    if after is None or after.opname == "RETURN_VALUE":
        return None
    return str(after.argval) if after.opname.startswith("STORE_") and isinstance(after.argval, str) else ""


_NOT_TOLD = "<not told>"


# by identity: code objects hash by content, which takes longer than the answer
_TARGETS: dict[tuple[int, int], tuple[Any, str]] = {}


def _target(code: Any, frame: Any) -> str | None:
    """Return the variable assigned by the call at this column, on a line of several; none for an argument."""
    known = _TARGETS.get((id(code), frame.f_lasti))
    if known is not None and known[0] is code:
        return known[1]
    line, name = frame.f_lineno, _NOT_TOLD
    if linecache.getline(code.co_filename, line).count("(") > 1:
        start, _, column, _ = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None))
        if column is not None and start == line:
            name = _target_at(code.co_filename, line, column)
    if len(_TARGETS) > 4096:
        _TARGETS.clear()
    _TARGETS[id(code), frame.f_lasti] = (code, name)
    return name


def _target_at(path: str, lineno: int, column: int) -> str:
    text = linecache.getline(path, lineno)
    at = column - (len(text) - len(text.lstrip()))
    try:
        statements = ast.parse(text.strip()).body
    except SyntaxError:
        return _NOT_TOLD
    for node in statements:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            names = [target]
            if isinstance(target, ast.Tuple):
                names = list(target.elts)
            elif isinstance(value, (ast.Tuple, ast.List)):
                names = [ast.Name(f"{ast.unparse(target)}[{i}]") for i in range(len(value.elts))]
            values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
            for name, part in zip(names, values, strict=False):
                if part.col_offset <= at < (part.end_col_offset or 0):
                    return name.id if isinstance(name, ast.Name) and part.col_offset == at else ""
    return _NOT_TOLD


def variable_name() -> str:
    """Return the variable that gets the tensor being made, which names it when nothing else does."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(HERE):
            name = _target(code, frame)
            if name == _NOT_TOLD:
                name = assigned_name(code.co_filename, frame.f_lineno)
            if name == _NO_SOURCE:
                name = stored_name(code, frame.f_lasti)
            if name is not None:
                return name
        frame = frame.f_back
    return ""
