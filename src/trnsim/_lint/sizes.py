"""Rules of the strict profile about sizes, as far as the text alone tells them: PSUM tiles, programs, launch grids."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import NamedTuple

from trnsim._lint import words
from trnsim._lint.base import RANGES, Base, Function
from trnsim.source_lines import nodes_of

# Longer programs are known not to end compiling; where that begins nobody has published.
INSTRUCTIONS = 30_000
MATMULS = 10_000
BANK_BYTES = 2048
GRIDS = (1, 2)

_MATMULS = words("nc_matmul nc_matmul_mx nc_transpose")
# what nki.isa has besides instructions
_NO_INSTRUCTIONS = words("get_nc_version")
_ALLOCATE = words("ndarray zeros ones full")
_BYTES = {"float32": 4, "int32": 4, "uint32": 4, "bfloat16": 2, "float16": 2, "int16": 2, "uint16": 2}


class Sizes(Base):
    """Sizes of tiles and programs that are known before anything runs."""

    def known(self, node: ast.AST) -> int | None:
        """Return the integer an expression is, where constants of the module make it one."""
        if isinstance(node, ast.Constant):
            return node.value if type(node.value) is int else None
        if isinstance(node, (ast.Name, ast.Attribute)):
            value, _ = self.names.resolve(node)
            return value if type(value) is int else None
        if isinstance(node, ast.BinOp):
            left, right = self.known(node.left), self.known(node.right)
            if left is None or right is None:
                return None
            if isinstance(node.op, ast.Mult):
                return left * right
            if isinstance(node.op, ast.Add):
                return left + right
            if isinstance(node.op, ast.Sub):
                return left - right
            return left // right if isinstance(node.op, ast.FloorDiv) and right > 0 else None
        return None

    def check_tile(self, node: ast.Call, api: str) -> None:
        """Report a PSUM tile larger than a bank; an unknown dtype counts as one of 16 bits, the shortest there."""
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        buffer, shape = given.get("buffer"), node.args[0] if node.args else given.get("shape")
        if api not in _ALLOCATE or not isinstance(buffer, ast.Attribute) or buffer.attr != "psum":
            return
        if not isinstance(shape, ast.Tuple) or len(shape.elts) < 2:
            return
        dtype = node.args[1] if len(node.args) > 1 else given.get("dtype")
        size = _BYTES.get(dtype.attr, 2) if isinstance(dtype, ast.Attribute) else 2
        for part in shape.elts[1:]:
            # a dimension that is not known is at least 1
            size *= max(1, self.known(part) or 1)
        if size > BANK_BYTES:
            self.report("psum-bank", node, f"`{ast.unparse(shape)}` takes {size:,} bytes of a partition")

    def check_length(self, node: Function) -> None:
        """Report the loop that makes a function longer than a program can be; loops of unknown length count once."""
        for loop in self._loops(node.body):
            if loop.instructions > INSTRUCTIONS or loop.matmuls > MATMULS:
                many = f"{loop.instructions:,} instructions, {loop.matmuls:,} of them matmuls"
                self.report(
                    "program-size", loop.node, f"`for … in {ast.unparse(loop.node.iter)}` is unrolled to {many}"
                )

    def _loops(self, body: list[ast.stmt]) -> list[_Loop]:
        """Return the outermost loops in some statements, with what is unrolled from them."""
        loops = []
        for node in body:
            for child in _statements(node):
                if isinstance(child, ast.For):
                    loops.append(_Loop(child, *self._unrolled(child)))
        return loops

    def _unrolled(self, node: ast.For) -> tuple[int, int]:
        instructions = matmuls = 0
        for part in node.body:
            for child in _statements(part):
                if isinstance(child, ast.For):
                    inner = self._unrolled(child)
                    instructions, matmuls = instructions + inner[0], matmuls + inner[1]
                else:
                    for call in _calls(child):
                        instructions += 1
                        matmuls += call in _MATMULS
        trips = self._trips(node.iter)
        return trips * instructions, trips * matmuls

    def _trips(self, node: ast.expr) -> int:
        """Return how often a loop over a range of known bounds runs; 1 where that is not known."""
        if not isinstance(node, ast.Call) or node.keywords:
            return 1
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        bounds = [self.known(value) for value in node.args]
        if name not in RANGES or not 1 <= len(bounds) <= 3 or None in bounds:
            return 1
        return len(range(*(bound for bound in bounds if bound is not None)))


class _Loop(NamedTuple):
    node: ast.For
    instructions: int
    matmuls: int


def _statements(node: ast.stmt) -> list[ast.stmt]:
    """Return a statement, or for a branch those inside it: the longer side of a condition is not chosen, both count."""
    if isinstance(node, (ast.If, ast.While, ast.With)):
        return [inner for part in [*node.body, *getattr(node, "orelse", [])] for inner in _statements(part)]
    return [node]


def _calls(node: ast.stmt) -> list[str]:
    """Return the instructions of a statement: calls of ``nisa``."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return []
    called = [x.func for x in ast.walk(node) if isinstance(x, ast.Call) and isinstance(x.func, ast.Attribute)]
    return [
        f.attr
        for f in called
        if isinstance(f.value, ast.Name) and f.value.id in ("nisa", "isa") and f.attr not in _NO_INSTRUCTIONS
    ]


def launches(function: FunctionType) -> list[ast.Subscript]:
    """Launches of a kernel in its own file on other grids than the cores of a logical core: 1 or 2, one axis."""
    outside = []
    for node in nodes_of(function.__code__.co_filename):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            kernel, grid = node.func.value, node.func.slice
            wrong = isinstance(grid, ast.Tuple) or (isinstance(grid, ast.Constant) and grid.value not in GRIDS)
            if wrong and isinstance(kernel, ast.Name) and kernel.id == function.__name__:
                outside.append(node.func)
    return outside
