"""Analogs of the calls and products of a line of source, for calls that are neither watched nor substituted."""

import ast
import functools
from collections.abc import Mapping
from pathlib import Path

from trnsci.analogs.analog import declarations
from trnsci.fit_scan_python import full_name, read_imports

# methods whose names say enough; those of NumPy's generators are named as its functions
_METHODS = {"dot": "numpy.dot"}


@functools.cache
def last_names() -> Mapping[str, str]:
    """Return the functions of ours by the last part of the names of NumPy's and SciPy's, and by operators."""
    arrays = {name: analog for (name, _), analog in declarations().items() if "::" not in name}
    return {name.rpartition(".")[2]: analog.name for name, analog in arrays.items()}


@functools.lru_cache(maxsize=64)
def read_analogs(filename: str) -> Mapping[int, str]:
    """Return, by line of a Python file, the function of ours that would do what the line calls or multiplies."""
    try:
        tree = ast.parse(Path(filename).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return {}
    imported, ours = read_imports(tree), {name: analog.name for (name, _), analog in declarations().items()}
    by_line: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            by_line.setdefault(node.lineno, last_names().get("@", ""))
        elif isinstance(node, ast.Call):
            name = full_name(node.func, imported)
            if not name and isinstance(node.func, ast.Attribute):
                name = _METHODS.get(node.func.attr, f"numpy.random.{node.func.attr}")
            if name in ours:
                by_line.setdefault(node.lineno, ours[name])
    return by_line
