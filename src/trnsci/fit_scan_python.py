"""Calls of CuPy, torch and Numba in a Python source, from its syntax tree."""

import ast
import re
import warnings
from pathlib import Path

from trnsci.fit_source import Use

_PACKAGES = ("cupy", "cupyx", "torch", "numba", "triton")
# methods of arrays that are products or transforms; others are moves and arithmetic
_METHODS = ("dot", "inverse", "cholesky", "svd", "matmul", "mm", "bmm", "addmm", "mv")


def read_python(file: Path, label: str) -> tuple[list[Use], list[str]]:
    """Return the uses of array packages in a program, and what could not be read."""
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        return [], [f"{label}: not read: {error}"]
    names = read_imports(tree)
    if not any(full.split(".")[0] in _PACKAGES for full in names.values()):
        return [], []
    uses = []
    for node in ast.walk(tree):
        where = f"{label}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call):
            uses += _call(node, names, where)
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            uses.append(Use("@", where))
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"cuda(:\d+)?", node.value)
        ):
            uses.append(Use("torch.cuda", where))
        elif isinstance(node, ast.FunctionDef) and any(_is_jit(mark, names) for mark in node.decorator_list):
            uses.append(Use(node.name, where, kernel=True))
    return sorted(uses, key=lambda use: int(use.where.rpartition(":")[2])), []


def read_imports(tree: ast.AST) -> dict[str, str]:
    """Return the full names behind those a program imports."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def full_name(node: ast.expr, names: dict[str, str]) -> str:
    """Return the full name of an imported function or of a name within an imported module, or nothing."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return ""
    return ".".join((names[node.id], *reversed(parts)))


def _is_jit(mark: ast.expr, names: dict[str, str]) -> bool:
    target = mark.func if isinstance(mark, ast.Call) else mark
    return full_name(target, names) in ("numba.cuda.jit", "triton.jit", "cupyx.jit.rawkernel", "cupy.fuse")


def _call(node: ast.Call, names: dict[str, str], where: str) -> list[Use]:
    full = full_name(node.func, names)
    if full.startswith(("cupy.", "cupyx.", "torch.")):
        if full.endswith("Kernel"):
            # the name comes after the code of a raw kernel, after operands and operation of others
            words = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            name = (
                words[1]
                if full.endswith("RawKernel") and len(words) > 1
                else words[3]
                if len(words) > 3
                else f"line {node.lineno}"
            )
            return [Use(f"{full}:{name}", where)]
        return [Use(full, where)]
    if not full and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
        return [Use(f"ndarray.{node.func.attr}", where)]
    if isinstance(node.func, ast.Subscript) and isinstance(node.func.value, ast.Name):
        return [Use(node.func.value.id, where)]
    if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda" and not full:
        return [Use("torch.cuda", where)]
    return []
