"""One step of a contraction: classified once, by the planner, into views and at most one product.

Axes of two operands fall into four groups: batch (in both and kept), contracted (in both and dropped), and the free
axes of either. Grouped, the step is a matrix product; with groups missing it is one of its simpler relatives.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import torch
from torch import Tensor

import trnblas
from trnblas.arguments import HALF
from trnblas.gemm import Gemm
from trnsci import run
from trnsci.precision import DEFAULT, Precision

Strategy = Literal["gemm", "batched gemm", "gemv", "dot", "outer", "hadamard", "reduce", "diagonal", "permute", "copy"]

PRODUCTS = ("gemm", "batched gemm", "gemv", "dot")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class View:
    """How an operand becomes a factor: fixed axes, diagonals, sums, a permutation, merged axes, a transpose."""

    fixed: tuple[int, ...] = ()
    diagonals: tuple[tuple[int, int], ...] = ()
    sums: tuple[int, ...] = ()
    order: tuple[int, ...] | None = None
    shape: tuple[int, ...] | None = None
    transposed: bool = False

    def __call__(self, x: Tensor, exact: bool = False) -> Tensor:
        for axis in self.fixed:
            x = x.select(axis, 0)
        for first, second in self.diagonals:
            x = x.diagonal(0, first, second)
        if self.sums:
            x = _exact_sum(x, self.sums) if exact else x.sum(self.sums, dtype=x.dtype)
        if self.order is not None:
            x = x.permute(self.order)
        x = x if self.shape is None else x.reshape(self.shape)
        return x.mT if self.transposed else x


def _exact_sum(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Sum through a compensated product with ones."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape = [x.shape[axis] for axis in kept]
    flat = x.permute(*kept, *axes).reshape(math.prod(shape), math.prod(x.shape[axis] for axis in axes))
    return trnblas.gemm(1.0, flat, x.new_ones(flat.shape[1], 1), precision="compensated").reshape(shape)


def take_operands(live: list[T], positions: Sequence[int]) -> list[T]:
    """Remove one or two operands from those still to be contracted, and return them; their result is to be appended."""
    first = live.pop(positions[0])
    if len(positions) == 1:
        return [first]
    return [first, live.pop(positions[1] - (positions[1] > positions[0]))]


@dataclass(frozen=True, slots=True)
class ContractionStep:
    """Combine one or two operands.

    Attributes:
        positions: where the operands are among those still to be contracted; see `take_operands`.
        subscripts: the step as an equation.
        strategy: what it is.
        left: view of the first factor.
        right: view of the second, ``None`` for steps of one operand.
        shape: of the result before ``order``.
        order: final permutation, if any.
        terms: length of the sums.
        flops: real operations on real operands, a multiplication and an addition counting as two.
        elements: elements read and written.
    """

    positions: tuple[int, ...]
    subscripts: str
    strategy: Strategy
    left: View
    right: View | None
    shape: tuple[int, ...]
    order: tuple[int, ...] | None
    terms: int
    flops: int
    elements: tuple[int, int]

    @property
    def _summed_before(self) -> int:
        """How many of two factors are sums of their own."""
        return 0 if self.right is None else bool(self.left.sums) + bool(self.right.sums)

    @property
    def roundings(self) -> int:
        """How many factors of a product are rounded to half precision as sums, before they are multiplied."""
        return self._summed_before if self.strategy in PRODUCTS else 0

    def __call__(self, x: Tensor, y: Tensor | None, precision: Precision | None, alpha: complex = 1.0) -> Tensor:
        """Run the step; ``alpha`` scales the result, which is rounded once."""
        if x.dtype in HALF and self.strategy not in PRODUCTS and (alpha != 1 or self._summed_before):
            return self(x.float(), None if y is None else y.float(), precision, alpha).to(x.dtype)
        exact = precision == "compensated"
        x = self.left(x, exact)
        if self.right is None or y is None:
            result = x
            if alpha != 1:
                result = result * alpha
        else:
            y = self.right(y, exact)
            if self.strategy in PRODUCTS:
                result = multiply(x, y, precision, alpha)
                result = result if result.shape == self.shape else result.reshape(self.shape)
            else:
                result = torch.mul(x, y)
                if alpha != 1:
                    result = result * alpha
        return result if self.order is None else result.permute(self.order)


def multiply(x: Tensor, y: Tensor, precision: Precision | None, alpha: complex = 1.0) -> Tensor:
    """Return ``alpha * x @ y`` of checked factors on trnblas; integers, which BLAS does not know, on torch."""
    if x.dtype.is_floating_point or x.dtype.is_complex:
        factor = float(alpha) if isinstance(alpha, int) else alpha
        return run(Gemm(x, y, c=None, alpha=factor, beta=0.0, precision=precision or DEFAULT[x.dtype], target=0.0))
    product = torch.matmul(x, y)
    return product if alpha == 1 else product * alpha


def unary(labels: str, shape: tuple[int, ...], sizes: Mapping[str, int], kept: str) -> tuple[str, View, int]:
    """Drop broadcast axes, take diagonals and sum labels that no other operand needs: labels, view and terms summed."""
    now = list(labels)
    fixed = []
    for axis in reversed(range(len(now))):
        if shape[axis] == 1 and sizes[now[axis]] != 1:
            fixed.append(axis)
            del now[axis]
    diagonals = []
    for label in dict.fromkeys(now):
        while now.count(label) > 1:
            first = now.index(label)
            second = now.index(label, first + 1)
            diagonals.append((first, second))
            del now[second], now[first]
            now.append(label)
    sums = tuple(axis for axis, label in enumerate(now) if label not in kept)
    terms = math.prod(sizes[now[axis]] for axis in sums)
    left = "".join(label for label in now if label in kept)
    return left, View(tuple(fixed), tuple(diagonals), sums), terms


def _factor(
    view: View,
    labels: str,
    batch: tuple[str, ...],
    *,
    groups: tuple[str, str],
    lead: tuple[int, ...],
    size: tuple[int, int],
) -> View:
    """Return a view as a matrix of ``groups``. Copies keep neighbours together, and may come transposed."""
    if not labels or labels[-1] not in groups[0] or len(groups[0]) + len(groups[1]) <= 2:
        return _arrange_view(view, labels, (*batch, *groups), (*lead, *size))
    arranged = _arrange_view(view, labels, (*batch, groups[1], groups[0]), (*lead, size[1], size[0]))
    return replace(arranged, transposed=True)


def _arrange_view(view: View, labels: str, groups: tuple[str, ...], shape: tuple[int, ...]) -> View:
    order = tuple(labels.index(label) for group in groups for label in group)
    natural = tuple(range(len(order)))
    same_axes = all(len(group) == 1 for group in groups) and len(groups) == len(shape)
    # two last axes exchanged: torch does that faster than any permutation
    transposed = same_axes and len(order) > 1 and order == (*natural[:-2], natural[-1], natural[-2])
    return replace(
        view,
        order=None if order == natural or transposed else order,
        shape=None if same_axes else shape,
        transposed=transposed,
    )


def one_operand(
    index: int, labels: str, shape: tuple[int, ...], sizes: Mapping[str, int], output: str
) -> ContractionStep:
    """Return the step from one operand to ``output``, whose labels that it lacks have been broadcast away."""
    left, view, terms = unary(labels, shape, sizes, output)
    strategy: Strategy = "copy"
    if view.sums:
        strategy = "reduce"
    elif view.diagonals:
        strategy = "diagonal"
    elif left != output:
        strategy = "permute"
    arranged = _arrange_view(view, left, tuple(output), tuple(sizes[label] for label in output))
    count = math.prod(sizes[label] for label in output)
    flops = count * terms if view.sums else 0
    return ContractionStep(
        (index,), f"{labels}->{output}", strategy, arranged, None, (), None, terms, flops, (math.prod(shape), count)
    )


def two_operands(
    positions: tuple[int, int],
    labels: tuple[str, str],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    sizes: Mapping[str, int],
    *,
    kept: str,
    output: str | None,
) -> tuple[ContractionStep, str]:
    """Return the step that multiplies two operands and keeps the labels in ``kept``, ordered as ``output``."""
    a, a_view, a_terms = unary(labels[0], shapes[0], sizes, kept + labels[1])
    b, b_view, b_terms = unary(labels[1], shapes[1], sizes, kept + labels[0])
    batch = "".join(label for label in a if label in b and label in kept)
    summed = "".join(label for label in a if label in b and label not in kept)
    # A label both share but one has only broadcast: `unary` kept it in the other alone, unneeded afterwards.
    a, a_view, a_more = _drop(a, a_view, batch + summed + kept, sizes)
    b, b_view, b_more = _drop(b, b_view, batch + summed + kept, sizes)
    left_size, right_size = (math.prod(sizes[label] for label in term) for term in (a, b))
    # The larger comes first, so that a chain of transformations takes its axes off one end and adds them at the other.
    swap = left_size < right_size if output is None else _prefers_swap(a, b, batch + summed, output)
    main = a if left_size >= right_size else b
    if swap:
        a, b, a_view, b_view, positions = b, a, b_view, a_view, (positions[1], positions[0])
    summed = "".join(label for label in main if label in summed)
    batch = "".join(label for label in (main if output is None else output) if label in batch)
    m = "".join(label for label in a if label not in batch + summed)
    n = "".join(label for label in b if label not in batch + summed)
    B, M, N, K = (math.prod(sizes[label] for label in group) for group in (batch, m, n, summed))
    natural = batch + m + n
    wanted = natural if output is None else output
    order = None if wanted == natural else tuple(natural.index(label) for label in wanted)
    shape = tuple(sizes[label] for label in natural)
    strategy = _strategy(batch, m, n, summed)
    if strategy in PRODUCTS:
        groups, lead = ((batch,), (B,)) if batch else ((), ())
        left = _factor(a_view, a, groups, groups=(m, summed), lead=lead, size=(M, K))
        right = _factor(b_view, b, groups, groups=(summed, n), lead=lead, size=(K, N))
        flops = 2 * B * M * N * K
    else:
        each, rows, columns = (tuple(sizes[label] for label in group) for group in (batch, m, n))
        left = _arrange_view(a_view, a, (*batch, *m), (*each, *rows, *[1] * len(n)))
        right = _arrange_view(b_view, b, (*batch, *n), (*each, *[1] * len(m), *columns))
        flops = B * M * N
    reductions = sum(math.prod(shapes[i]) for i, t in enumerate((a_terms * a_more, b_terms * b_more)) if t > 1)
    terms = K * a_terms * b_terms * a_more * b_more
    step = ContractionStep(
        positions,
        f"{','.join(reversed(labels) if swap else labels)}->{wanted}",
        strategy,
        left,
        right,
        shape,
        order,
        terms,
        flops + reductions,
        (math.prod(shapes[0]) + math.prod(shapes[1]), B * M * N),
    )
    return step, wanted


def _drop(labels: str, view: View, needed: str, sizes: Mapping[str, int]) -> tuple[str, View, int]:
    sums = tuple(axis for axis, label in enumerate(labels) if label not in needed)
    if not sums:
        return labels, view, 1
    # Axes are counted after the first sums; both sets are merged into one.
    left = [axis for axis in range(len(labels) + len(view.sums)) if axis not in view.sums]
    merged = tuple(sorted((*view.sums, *(left[axis] for axis in sums))))
    terms = math.prod(sizes[labels[axis]] for axis in sums)
    rest = "".join(label for label in labels if label in needed)
    return rest, View(view.fixed, view.diagonals, merged), terms


def _prefers_swap(a: str, b: str, shared: str, output: str) -> bool:
    """Return whether the result is wanted with the free axes of the second operand first."""
    only_a = [output.index(label) for label in a if label not in shared]
    only_b = [output.index(label) for label in b if label not in shared]
    return bool(only_a and only_b) and min(only_b) < min(only_a)


def _strategy(batch: str, m: str, n: str, summed: str) -> Strategy:
    if not summed:
        return "outer" if not batch else "hadamard"
    if batch:
        return "batched gemm"
    if m and n:
        return "gemm"
    return "gemv" if m or n else "dot"
