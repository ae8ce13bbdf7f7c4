"""Programs of a size that compiles: counting a kernel's instructions, and cutting a launch into several smaller ones.

Loops of a kernel are unrolled when it is compiled, so a large call is a long program, and beyond some length compiling
does not end. A kernel's file says along which dimensions its work may be cut (``AXES``); `launch` cuts it into equal
pieces, which are launches of one compiled program, and puts the results together. The limit is a setting.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

import trnsim
from trnsci import config
from trnsci.caches import PlanCache
from trnsci.nki import Axis
from trnsci.specs import freeze, thaw
from trnsci.torch_internals import disable_torch_dispatch

Launch = Callable[[tuple[Any, ...]], Any]
Each = Callable[[Launch, Iterable[tuple[Any, ...]]], Iterable[Any]]


class Size(NamedTuple):
    """How long a program is."""

    instructions: int
    matmuls: int

    @property
    def fits(self) -> bool:
        """Whether it is within the suite's limit."""
        return not self.excess

    @property
    def excess(self) -> str:
        """Why it is too long to be compiled, in words; empty when it is not."""
        limit = limits()
        over = [
            f"{count:,} {what}, and {most:,} are the most that are compiled (TRNSCI_PROGRAM_{what.upper()})"
            for what, count, most in zip(self._fields, self, limit, strict=True)
            if count > most
        ]
        return f"a program of it would have {over[0]}" if over else ""

    def holds(self, part: Size) -> int:
        """Return how often a part fits into a program of this size, at least once: a part that does not is not cut."""
        return max(1, min(self.instructions // max(1, part.instructions), self.matmuls // max(1, part.matmuls)))


def limits() -> Size:
    """Return the longest program the settings admit."""
    return Size(config.PROGRAM_INSTRUCTIONS.get(), config.PROGRAM_MATMULS.get())


MATMULS = frozenset({"nc_matmul", "nc_matmul_mx", "nc_transpose"})


class _Counter:
    """A trace that keeps nothing but counts."""

    def __init__(self) -> None:
        self.instructions = 0
        self.matmuls = 0

    def append(self, record: Any) -> None:
        self.instructions += 1
        self.matmuls += record.name in MATMULS


def size_of(kernel: Any, tensors: tuple[Any, ...], static: dict[str, Any]) -> Size:
    """Follow a kernel on shapes alone and count its instructions. Counted once for the same shapes."""
    # these tensors have no data, and must not be seen by what watches the call's tensors
    with disable_torch_dispatch():
        shapes = tuple(t.to("meta") if isinstance(t, Tensor) else t for t in tensors)
        return _count_instructions(kernel, freeze(shapes), *static.items())


@functools.lru_cache(maxsize=1024)
def _count_instructions(kernel: Any, specs: Any, *options: tuple[str, Any]) -> Size:
    from trnsci.kernel_launcher import as_simulated

    counter, shapes, static = _Counter(), thaw(specs), dict(options)
    run = trnsim.simulate(as_simulated(kernel)[1], numerics=False, checks=False, lint="off", trace=counter)  # type: ignore[arg-type]
    run(*shapes, **static)
    return Size(counter.instructions, counter.matmuls)


class Cut(NamedTuple):
    """A launch in pieces: for each axis that is cut, which tensors it cuts, how wide a piece is, and what it gives."""

    axes: tuple[tuple[Axis, int, int], ...]
    names: tuple[str, ...]

    @property
    def launches(self) -> int:
        """How many pieces."""
        return math.prod(-(-extent // width) for _, extent, width in self.axes)

    def run(self, tensors: tuple[Any, ...], launch: Launch, each: Each = map) -> Any:
        """Launch every piece, which ``each`` maps to results in order, and put the results together."""
        return self._together(iter(each(launch, self._pieces(tensors))))

    def _pieces(self, tensors: tuple[Any, ...], at: int = 0) -> Iterator[tuple[Any, ...]]:
        if at == len(self.axes):
            yield tuple(t.contiguous() if isinstance(t, Tensor) else t for t in tensors)
            return
        axis, extent, width = self.axes[at]
        for start in range(0, extent, width):
            piece = _narrow_operands(
                tensors, self.names, axis, extent=extent, start=start, width=min(width, extent - start)
            )
            yield from self._pieces(piece, at + 1)

    def _together(self, results: Iterator[Any], at: int = 0) -> Any:
        if at == len(self.axes):
            return next(results)
        axis, extent, width = self.axes[at]
        return _join_results([self._together(results, at + 1) for _ in range(0, extent, width)], axis.results)

    def first(self, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the operands of the first piece, which is as large as any."""
        for axis, extent, width in self.axes:
            tensors = _narrow_operands(tensors, self.names, axis, extent=extent, start=0, width=width)
        return tensors


def _join_results(parts: list[Any], dims: tuple[int | None, ...]) -> Any:
    if isinstance(parts[0], Tensor):
        return _join(parts, dims[0])
    return type(parts[0])(_join(list(same), dim) for same, dim in zip(zip(*parts, strict=True), dims, strict=True))


def _join(parts: list[Tensor], dim: int | None) -> Tensor:
    return torch.stack(parts).sum(0) if dim is None else torch.cat(parts, dim)


def fits(kernel: Any, tensors: tuple[Any, ...], static: dict[str, Any]) -> bool:
    """Return whether no program of a launch exceeds the limit, cut as its kernel's file says."""
    pieces = cut(kernel, tensors, static)
    return size_of(kernel, tensors if pieces is None else pieces.first(tensors), static).fits


def most(size: Callable[[int], Size]) -> int:
    """Return how many equal items a program holds, at least one; ``size`` tells the length of 1 and of 2 of them."""
    one, two = size(1), size(2)
    room = [(limit - first) // max(1, second - first) for limit, first, second in zip(limits(), one, two, strict=True)]
    return 1 + max(0, min(room))


def runs(row: Callable[[int], Size], counts: Sequence[int]) -> list[slice]:
    """Cut rows of work into runs that fit. ``row`` tells the length of one row of 1 or 2 items, ``counts`` how many."""
    limit, one, two = limits(), row(1), row(2)
    slices, start, used = [], 0, (0, 0)
    for at, count in enumerate(counts):
        more = [first + (count - 1) * (second - first) for first, second in zip(one, two, strict=True)]
        total = used[0] + more[0], used[1] + more[1]
        if at > start and (total[0] > limit.instructions or total[1] > limit.matmuls):
            slices.append(slice(start, at))
            start, total = at, (more[0], more[1])
        used = total
    return [*slices, slice(start, len(counts))]


def _narrow_operands(
    tensors: tuple[Any, ...], names: tuple[str, ...], axis: Axis, *, extent: int, start: int, width: int
) -> tuple[Any, ...]:
    narrowed = list(tensors)
    for name, dim in axis.arguments.items():
        where = names.index(name)
        if where < len(narrowed) and narrowed[where] is not None and narrowed[where].shape[dim] > 1:
            each = narrowed[where].shape[dim] // extent
            narrowed[where] = narrowed[where].narrow(dim, start * each, width * each)
    return tuple(narrowed)


def _extent(tensors: tuple[Any, ...], names: tuple[str, ...], axis: Axis) -> int:
    """Along how much an axis can be cut: the shortest of its tensors, of which the others have multiples; else 1."""
    sizes = []
    for name, dim in axis.arguments.items():
        where = names.index(name)
        if where < len(tensors) and tensors[where] is not None:
            sizes.append(int(tensors[where].shape[dim]))
    if not axis.broadcasts and 1 in sizes:
        return 1
    long = [size for size in sizes if size > 1]
    shortest = min(long, default=1)
    return shortest if all(size % shortest == 0 for size in long) else 1


def cut(kernel: Any, tensors: tuple[Any, ...], static: dict[str, Any]) -> Cut | None:
    """Return how to cut a launch so that no program exceeds the limit; ``None`` when one program does, or must."""
    function = getattr(kernel, "function", kernel)
    names = _names(function)
    stated: tuple[Axis, ...] = getattr(sys.modules.get(function.__module__), "AXES", ())
    axes = tuple(axis for axis in stated if axis.when is None or static.get(axis.when[0]) == axis.when[1])
    if not axes:
        return None
    extents = [_extent(tensors, names, axis) for axis in axes]
    units = [-(-extent // axis.step) for extent, axis in zip(extents, axes, strict=True)]
    if math.prod(units) == 1:
        return None
    key = freeze(tensors), tuple(sorted(static.items())), limits()

    def build() -> tuple[int, ...]:
        return _widths(kernel, tensors, static, names=names, axes=axes, extents=extents, units=units)

    widths = _WIDTHS.get((kernel, key), build)
    chosen = tuple(
        (axis, extent, width) for axis, extent, width in zip(axes, extents, widths, strict=True) if width < extent
    )
    return Cut(chosen, names) if chosen else None


_WIDTHS = PlanCache(max_count=4096)


@functools.cache
def _names(function: Any) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def _widths(
    kernel: Any,
    tensors: tuple[Any, ...],
    static: dict[str, Any],
    *,
    names: tuple[str, ...],
    axes: tuple[Axis, ...],
    extents: list[int],
    units: list[int],
) -> tuple[int, ...]:
    """Return the width of a piece along each axis, if a program grows in proportion to its pieces of one step."""
    one = tensors
    for axis, extent in zip(axes, extents, strict=True):
        if extent > axis.step:
            one = _narrow_operands(one, names, axis, extent=extent, start=0, width=axis.step)
    most = limits().holds(size_of(kernel, one, static))
    each = list(units)
    while math.prod(each) > most:
        # the first axis costs nothing to cut; of the others the longest, so that pieces stay square
        whole = [i for i, axis in enumerate(axes) if each[i] > 1 and not axis.last]
        at = 0 if 0 in whole else max(whole or range(len(each)), key=lambda i: each[i])
        each[at] = -(-each[at] // 2)
    # as many pieces, of equal size
    even = [-(-full // -(-full // part)) for full, part in zip(units, each, strict=True)]
    return tuple(min(extent, part * axis.step) for extent, part, axis in zip(extents, even, axes, strict=True))
