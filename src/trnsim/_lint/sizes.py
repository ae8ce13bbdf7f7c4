"""Rules of the strict profile about sizes, as far as the text alone tells them: PSUM tiles, programs, launch grids."""

import ast
import operator
from collections.abc import Callable
from types import FunctionType

from trnsim._lint import words
from trnsim._lint.base import RANGES, Base, Function, argument
from trnsim.source_lines import nodes_of
from trnsim.targets import TARGETS

# Longer programs are known not to end compiling; where that begins nobody has published.
INSTRUCTIONS = 30_000
MATMULS = 10_000
BANK_BYTES = 2048
PARTITIONS = 128
# of the generation that has most
PARTITION_BYTES = max(target.sbuf_partition_bytes for target in TARGETS.values())
GRIDS = (1, 2)

_MATMULS = words("matmuls")
# what nki.isa has besides instructions
_NO_INSTRUCTIONS = words("no_instructions")
_ALLOCATE = words("allocate")
_GRIDS = words("grids")
_FOLDS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Mult: operator.mul,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.FloorDiv: operator.floordiv,
}
_BYTES = {"float32": 4, "int32": 4, "uint32": 4, "bfloat16": 2, "float16": 2, "int16": 2, "uint16": 2}


class Sizes(Base):
    """Sizes of tiles and programs that are known before anything runs."""

    def find_integer(self, node: ast.AST) -> int | None:
        """Return the integer an expression is, where constants of the module make it one."""
        if isinstance(node, ast.Constant):
            return node.value if type(node.value) is int else None
        if isinstance(node, (ast.Name, ast.Attribute)):
            value, _ = self.names.resolve(node)
            return value if type(value) is int else None
        if isinstance(node, ast.BinOp):
            left, right, fold = self.find_integer(node.left), self.find_integer(node.right), _FOLDS.get(type(node.op))
            if left is None or right is None or fold is None or (fold is operator.floordiv and right <= 0):
                return None
            return fold(left, right)
        return None

    def check_tile(self, node: ast.Call, api: str) -> None:
        """Report a tile on chip that no memory holds; an unknown dtype counts as one of 8 bits, in PSUM of 16."""
        shape = argument(node, "tile_shape") if api in _GRIDS else argument(node, "shape", 0)
        buffer = argument(node, "buffer")
        if api not in _ALLOCATE | _GRIDS or not isinstance(shape, ast.Tuple):
            return
        for part in shape.elts:
            if self.kind(part) == "scalar":
                self.report("device-value", part, f"`{ast.unparse(part)}`")
        memory = buffer.attr if isinstance(buffer, ast.Attribute) else ""
        if memory not in ("sbuf", "psum") or len(shape.elts) < 2:
            return
        rows = self.find_integer(shape.elts[0]) or 1
        if rows > PARTITIONS:
            self.report("partition-count", node, f"`{ast.unparse(shape)}` has {rows:,}")
        dtype = argument(node, "dtype", 1)
        least = 2 if memory == "psum" else 1
        size = _BYTES.get(dtype.attr, least) if isinstance(dtype, ast.Attribute) else least
        for part in shape.elts[1:]:
            # a dimension that is not known is at least 1
            size *= max(1, self.find_integer(part) or 1)
        if memory == "sbuf" and size > PARTITION_BYTES:
            self.report("sbuf-size", node, f"`{ast.unparse(shape)}` takes {size:,} bytes of a partition")
        elif memory == "psum" and size > BANK_BYTES:
            self.report("psum-bank", node, f"`{ast.unparse(shape)}` takes {size:,} bytes of a partition")

    def check_length(self, node: Function) -> None:
        """Report the loop that makes a function longer than a program can be; loops of unknown length count once."""
        for part in node.body:
            for loop in _statements(part):
                instructions, matmuls = self._count_unrolled(loop) if isinstance(loop, ast.For) else (0, 0)
                if isinstance(loop, ast.For) and (instructions > INSTRUCTIONS or matmuls > MATMULS):
                    many = f"{instructions:,} instructions, {matmuls:,} of them matmuls"
                    self.report("program-size", loop, f"`for … in {ast.unparse(loop.iter)}` is unrolled to {many}")

    def _count_unrolled(self, node: ast.For) -> tuple[int, int]:
        instructions = matmuls = 0
        for part in node.body:
            for child in _statements(part):
                if isinstance(child, ast.For):
                    inner = self._count_unrolled(child)
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
        bounds = [self.find_integer(value) for value in node.args]
        if name not in RANGES or not 1 <= len(bounds) <= 3 or None in bounds:
            return 1
        return len(range(*(bound for bound in bounds if bound is not None)))


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
    """Return launches of a kernel in its own file on other grids than the cores of a logical core: 1 or 2, one axis."""
    outside = []
    for node in nodes_of(function.__code__.co_filename):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            kernel, grid = node.func.value, node.func.slice
            wrong = isinstance(grid, ast.Tuple) or (isinstance(grid, ast.Constant) and grid.value not in GRIDS)
            if wrong and isinstance(kernel, ast.Name) and kernel.id == function.__name__:
                outside.append(node.func)
    return outside
