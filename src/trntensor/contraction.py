"""From an equation and a path to a program: a list of steps that runs on any tensors of the planned shapes."""

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import opt_einsum  # type: ignore[import-untyped]
import torch
from torch import Tensor

from trnsci import ArgumentError, CapacityError, check
from trnsci.backends import backend
from trnsci.memory import MemoryMeter
from trnsci.nki import tiles
from trnsci.precision import Precision
from trntensor.equation import Equation, parse
from trntensor.steps import ContractionStep, one_operand, take_operands, two_operands

Path = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Program:
    """Steps for operands of fixed shapes.

    Attributes:
        equation: what is computed.
        shapes: of the operands.
        path: which operands each contraction takes, in opt_einsum's convention.
        steps: what runs.
        blocks: labels cut into pieces to keep within a memory limit, with the length of a piece.
    """

    equation: Equation
    shapes: tuple[tuple[int, ...], ...]
    path: Path
    steps: tuple[ContractionStep, ...]
    blocks: tuple[tuple[str, int], ...] = ()

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        sizes = dict(self.equation.sizes)
        return tuple(sizes[label] for label in self.equation.output)

    @property
    def slices(self) -> int:
        """How many times the steps run."""
        sizes = dict(self.equation.sizes)
        return math.prod(-(-sizes[label] // length) for label, length in self.blocks)

    def run(
        self,
        operands: Sequence[Tensor],
        precision: Precision | None = None,
        alpha: complex = 1.0,
        known: Mapping[int, Tensor] | None = None,
    ) -> Tensor:
        """Contract operands of the planned shapes; the result shares no memory with one.

        ``known`` holds results of steps computed before, by position.
        """
        if self.blocks:
            return self._run_sliced(operands, precision, alpha)
        live: list[Tensor] = list(operands)
        last = len(self.steps) - 1
        result: Tensor
        for index, step in enumerate(self.steps):
            chosen = take_operands(live, step.positions)
            if known is not None and index in known:
                result = known[index]
            else:
                y = chosen[1] if len(chosen) > 1 else None
                result = step(chosen[0], y, precision, alpha if index == last else 1.0)
                del y
            del chosen
            live.append(result)
        viewed = len(self.steps) == 1 and self.steps[0].strategy in ("permute", "diagonal", "copy") and alpha == 1
        if viewed or (known is not None and last in known):
            # A view of an operand is its memory, and what is known is the plan's.
            result = result.clone(memory_format=torch.contiguous_format)
        return result

    def _run_sliced(self, operands: Sequence[Tensor], precision: Precision | None, alpha: complex) -> Tensor:
        result = operands[0].new_zeros(self.result_shape)
        # Pieces have two lengths at most along each label, so that few programs serve them all.
        programs: dict[Any, Program] = {}
        for piece in self.pieces():
            parts = [cut(x, labels, piece) for x, labels in zip(operands, self.equation.inputs, strict=True)]
            shapes = tuple(tuple(x.shape) for x in parts)
            if shapes not in programs:
                programs[shapes] = compile_program(self.equation.text, shapes, self.path, None)
            where = tuple(piece.get(label, slice(None)) for label in self.equation.output)
            result[where] += programs[shapes].run(parts, precision, alpha)
        return result

    def pieces(self) -> Iterator[dict[str, slice]]:
        """Yield the parts of the sliced labels, in order."""
        sizes = dict(self.equation.sizes)
        ranges = [[tile.span for tile in tiles(sizes[label], length)] for label, length in self.blocks]
        for chosen in itertools.product(*ranges):
            yield {label: part for (label, _), part in zip(self.blocks, chosen, strict=True)}


def cut(x: Tensor, labels: str, piece: Mapping[str, slice]) -> Tensor:
    """Return the part of an operand that a piece of the labels needs; axes that only broadcast stay whole."""
    where = tuple(
        piece[label] if label in piece and size != 1 else slice(None)
        for label, size in zip(labels, x.shape, strict=True)
    )
    return x[where] if any(part != slice(None) for part in where) else x


def compile_program(
    subscripts: str, shapes: tuple[tuple[int, ...], ...], optimize: Hashable, memory_limit: tuple[int, int] | None
) -> Program:
    """Return the program of an expression: parsed, ordered and classified. Plans keep it.

    ``memory_limit`` is the bytes the call may allocate, and those of an element.
    """
    equation = parse("einsum", subscripts, shapes)
    path = find_path(equation, shapes, optimize)
    program = Program(equation, shapes, path, _steps(equation, shapes, path))
    return program if memory_limit is None else _slice_program(program, *memory_limit)


def in_order(count: int) -> tuple[tuple[int, ...], ...]:
    """Return the path from left to right: two operands first, then what they gave with the next."""
    if count <= 2:
        return (tuple(range(count)),) if count else ()
    return ((0, 1), *((0, left - 1) for left in range(count - 1, 1, -1)))


def find_path(equation: Equation, shapes: Sequence[tuple[int, ...]], optimize: Any) -> Path:
    """Order the contractions: by a preset, a given path, or any optimizer that speaks opt_einsum's protocol."""
    count = len(shapes)
    if isinstance(optimize, list | tuple):
        return _explicit(optimize, count)
    search: Any = optimize
    if optimize is True or isinstance(optimize, str):
        search = _preset("auto" if optimize is True else optimize)
    elif optimize is not False and not callable(optimize):
        expected = "a preset name, a path, a bool, or an optimizer that is called as opt_einsum calls it"
        raise ArgumentError(op="einsum", argument="optimize", got=optimize, expected=expected)
    if count <= 2 or optimize is False:
        return in_order(count)
    sizes = dict(equation.sizes)
    inputs = [
        frozenset(label for label, size in zip(labels, shape, strict=True) if size == sizes[label])
        for labels, shape in zip(equation.inputs, shapes, strict=True)
    ]
    call = (inputs, frozenset(equation.output), sizes, None)
    return _explicit(search(*call) if _takes(search, 4) else search(*call[:3]), count)


def _takes(search: Any, count: int) -> bool:
    """Return whether it accepts ``count`` arguments; some optimizers of cotengra have no memory limit."""
    try:
        inspect.signature(search).bind(*range(count))
    except TypeError:
        return False
    return True


def _preset(name: str) -> Any:
    try:
        return opt_einsum.paths.get_path_fn(name)
    except KeyError:
        known = ", ".join(sorted(opt_einsum.paths._PATH_OPTIONS))
        raise ArgumentError(
            op="einsum",
            argument="optimize",
            got=name,
            expected=f"one of {known}",
            hint="Importing cotengra adds its presets; pip install '.[networks]' in a clone installs it",
        ) from None


def positions(pair: Any) -> tuple[int, ...]:
    """Read one contraction of a path."""
    return tuple(
        check.integer("einsum", "optimize", position) for position in check.sequence("einsum", "optimize", pair)
    )


def _explicit(path: Sequence[Any], count: int) -> Path:
    """Check a path; NumPy's may begin with the word ``einsum_path``."""
    pairs = [positions(pair) for pair in check.sequence("einsum", "optimize", path) if not isinstance(pair, str)]
    left = count
    for pair in pairs:
        if not pair or len(set(pair)) != len(pair) or min(pair) < 0 or max(pair) >= left:
            raise ArgumentError("einsum", "path", pair, f"distinct positions among the {left} operands left")
        left -= len(pair) - 1
    check.refuse(left != 1, "einsum", "path", tuple(pairs), f"contractions that leave one operand, not {left}")
    return tuple(pairs)


def _steps(equation: Equation, shapes: Sequence[tuple[int, ...]], path: Path) -> tuple[ContractionStep, ...]:
    sizes = dict(equation.sizes)
    live = list(zip(equation.inputs, shapes, strict=True))
    steps: list[ContractionStep] = []
    for pair in _pairwise(path):
        final = len(live) == len(pair)
        others = "".join(labels for n, (labels, _) in enumerate(live) if n not in pair) + equation.output
        chosen = take_operands(live, pair)
        if len(pair) == 1:
            labels, shape = chosen[0]
            present = {x for x, size in zip(labels, shape, strict=True) if size == sizes[x]}
            wanted = equation.output if final else "".join(x for x in dict.fromkeys(labels) if x in others)
            step = one_operand(pair[0], labels, shape, sizes, "".join(x for x in wanted if x in present))
        else:
            (a, a_shape), (b, b_shape) = chosen
            output = equation.output if final else None
            step, wanted = two_operands(
                (pair[0], pair[1]), (a, b), (a_shape, b_shape), sizes, kept=others, output=output
            )
        live.append((wanted, tuple(sizes[x] for x in wanted)))
        steps.append(step)
    return tuple(steps)


def _pairwise(path: Path) -> Iterator[tuple[int, ...]]:
    """Split contractions of several operands into contractions of two."""
    count = sum(len(pair) - 1 for pair in path) + 1
    for pair in path:
        if len(pair) <= 2:
            yield pair
            count -= len(pair) - 1
            continue
        left = sorted(pair)
        while len(left) > 1:
            first, second = left[0], left[1]
            yield first, second
            count -= 1
            rest = [position - (position > first) - (position > second) for position in left[2:]]
            left = [*rest, count - 1]


def _slice_program(program: Program, limit: int, itemsize: int) -> Program:
    """Cut labels in halves until what is allocated fits: always the label whose halving saves most."""
    equation, blocks = program.equation, dict[str, int]()
    sizes = dict(equation.sizes)
    fixed = math.prod(program.result_shape) * itemsize
    current = program
    while True:
        need = allocated_bytes(current, itemsize) + (fixed if blocks else 0)
        if need <= limit:
            break
        best: tuple[int, str, int, Program] | None = None
        for label, size in sizes.items():
            length = blocks.get(label, size)
            if length <= 1:
                continue
            trial = blocks | {label: -(-length // 2)}
            smaller = _reshape_program(program, trial)
            candidate = (allocated_bytes(smaller, itemsize), label, -(-length // 2), smaller)
            if best is None or candidate[:2] < best[:2]:
                best = candidate
        if best is None or fixed > limit:
            raise CapacityError(
                where="host",
                required=max(need, fixed),
                available=limit,
                hint="The result alone may be larger than memory_limit; raise the limit or contract more indices",
            )
        blocks[best[1]] = best[2]
        current = best[3]
    if not blocks:
        return program
    return Program(equation, program.shapes, program.path, current.steps, tuple(blocks.items()))


def _reshape_program(program: Program, blocks: Mapping[str, int]) -> Program:
    shapes = tuple(
        tuple(blocks.get(label, size) if size != 1 else 1 for label, size in zip(labels, shape, strict=True))
        for labels, shape in zip(program.equation.inputs, program.shapes, strict=True)
    )
    sizes = tuple((label, blocks.get(label, size)) for label, size in program.equation.sizes)
    equation = Equation(program.equation.inputs, program.equation.output, sizes)
    return Program(equation, shapes, program.path, _steps(equation, shapes, program.path))


@functools.lru_cache(maxsize=4096)
def allocated_bytes(program: Program, itemsize: int) -> int:
    """Return the most bytes alive at once beyond the operands: intermediates, merged copies, and the result."""
    dtype = {2: torch.float16, 4: torch.float32, 8: torch.float64, 16: torch.complex128}.get(itemsize, torch.int8)
    meta = [torch.empty(shape, dtype=dtype, device="meta") for shape in program.shapes]
    return peak_allocation(lambda: program.run(meta))


def peak_allocation(work: Callable[[], object]) -> int:
    """Return the most bytes alive at once among those ``work`` allocates; its result counts."""
    with torch.no_grad(), backend("pytorch"), MemoryMeter() as meter:
        kept = work()
    del kept
    return meter.peak
