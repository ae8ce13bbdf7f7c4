"""Contraction plans: what an expression will do, as a value that can be printed, kept, pickled and called."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnblas import accuracy
from trnblas.accuracy import error_bound
from trnblas.arguments import HALF, combine
from trnsci import ArgumentError, DtypeError, check, neuron
from trnsci.arrays import Array, from_numpy, to_numpy
from trnsci.backends import inside, settings
from trnsci.caches import CACHE
from trnsci.planning import plan as traced
from trnsci.plans import Plan, Step, quantity
from trnsci.precision import Precision, arithmetic
from trntensor.contraction import Program, allocated_bytes, compile_program, cut, positions
from trntensor.equation import STORED_ONLY, Operand, Order, common_dtype, split_call
from trntensor.steps import PRODUCTS, ContractionStep, take_operands


def working_dtype(dtype: torch.dtype, precision: Precision) -> torch.dtype:
    """Return the dtype of intermediates: float64 arithmetic keeps them in float64, whatever the operands are."""
    return arithmetic(precision, dtype) if precision == "fp64" else dtype


@functools.lru_cache(maxsize=4096)
def contraction_bound(terms: tuple[int, ...], dtype: torch.dtype, precision: Precision, roundings: int = 0) -> float:
    """Return the error relative to the contraction of absolute values: a factor ``1 + e`` per step of ``terms``.

    ``roundings`` are factors that are sums of their own, which half precision rounds once more.
    """
    work = working_dtype(dtype, precision)
    total = (1.0 + error_bound(0, work, "compensated")) ** roundings if work in HALF else 1.0
    for count in terms:
        total *= 1.0 + error_bound(count, work, precision)
    if work is not dtype:
        total *= 1.0 + error_bound(0, dtype, "compensated")
    return total - 1.0


_HOST = "a view, a sum or an elementwise product: PyTorch, where the operands are"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contraction:
    """One row of a plan: an equation of one or two operands, its strategy, where it runs and why."""

    subscripts: str
    strategy: str
    backend: str
    reason: str = field(compare=False)
    flops: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ContractionPlan(Plan):
    """Plan of ``einsum`` for operands of these shapes.

    Attributes:
        program: the steps with their views.
        dtype: of the operands.
        precision: the policy in force.
        contractions: one row per pairwise step.
        constants: operands given as tensors, by position; steps among constants alone are computed once.
        error_bound: guaranteed error, relative to the contraction of absolute values.
    """

    program: Program
    dtype: torch.dtype
    precision: Precision | None
    contractions: tuple[Contraction, ...]
    constants: Mapping[int, Tensor] = field(default_factory=dict, compare=False, repr=False)
    known: Mapping[int, Tensor] = field(default_factory=dict, compare=False, repr=False)
    error_bound: float = field(init=False, compare=False, repr=False, default=0.0)

    def __post_init__(self) -> None:
        """Compute the error bound once: every call states it."""
        if self.precision is not None:
            object.__setattr__(self, "error_bound", _bound(self.program, self.dtype, self.precision))

    @inside("trntensor")
    def __call__(self, *operands: Tensor | Array, alpha: complex = 1.0, out: Tensor | None = None) -> Tensor:
        """Contract operands of the planned shapes and dtype; constants are left out."""
        numpy = bool(operands) and not any(isinstance(x, Tensor) for x in operands)
        given = iter(operands)
        wanted = len(self.program.shapes) - len(self.constants)
        check.refuse(len(operands) != wanted, "plan", "number of operands", {"plan": wanted, "call": len(operands)})
        full = [
            self.constants[index] if index in self.constants else _tensor(next(given))
            for index in range(len(self.program.shapes))
        ]
        for index, (x, shape) in enumerate(zip(full, self.program.shapes, strict=True)):
            check.dense("plan", **{f"operand {index}": x})
            if tuple(x.shape) != shape:
                raise ArgumentError("plan", f"shape of operand {index}", tuple(x.shape), str(shape))
            if x.dtype != self.dtype:
                raise DtypeError("plan", f"dtype of operand {index}", x.dtype, str(self.dtype))
        if out is not None:
            named = {f"operand {index}": x for index, x in enumerate(full)}
            check.out("plan", out, shape=self.program.result_shape, dtype=self.dtype, **named)
        result = self.contract(full, check.coefficient("plan", "alpha", alpha, self.dtype))
        if out is not None:
            return out.copy_(result)
        return to_numpy(result) if numpy else result  # type: ignore[return-value]

    def contract(
        self, operands: Sequence[Tensor], alpha: complex = 1.0, beta: complex = 0.0, c: Tensor | None = None
    ) -> Tensor:
        """Return ``alpha * contraction + beta * c`` of checked operands, rounded once: every contraction runs this."""
        if self.precision is None:
            return self._exact(operands, alpha, beta, c)
        work, policy = self.dtype, self.precision
        if policy == "fp64" or c is not None or (self.program.blocks and self.dtype in HALF):
            # What is added later is added before the one rounding.
            work = accuracy.working_dtype(policy, self.dtype)
            if work is not self.dtype and (policy == "compensated" or self.dtype in HALF):
                policy = "fp64" if work in (torch.float64, torch.complex128) else "fp32"
        if work is not self.dtype:
            operands = [x.to(work) for x in operands]
        last = len(self.program.steps) - 1
        known = self.known if alpha == 1 else {n: x for n, x in self.known.items() if n < last}
        result = self.program.run(operands, policy, alpha, known or None)
        return result if work is self.dtype and c is None else combine(result, 1.0, beta, c, self.dtype)

    def _exact(self, operands: Sequence[Tensor], alpha: complex, beta: complex, c: Tensor | None) -> Tensor:
        """Contract integers modulo their range, as NumPy does, and truth values by "and" and "or"."""
        stored = self.dtype in STORED_ONLY
        result = self.program.run([x.long() for x in operands] if stored else operands, None, alpha)
        if stored:
            result = result != 0 if self.dtype is torch.bool else result.to(self.dtype)
        return result if c is None else torch.add(result, c, alpha=beta)

    @property
    def path(self) -> tuple[tuple[int, ...], ...]:
        """The order of contractions, in opt_einsum's convention."""
        return self.program.path

    @property
    def slices(self) -> int:
        """How many pieces ``memory_limit`` made necessary."""
        return self.program.slices

    @property
    def flops(self) -> int:
        """Floating-point operations of all steps and slices."""
        return sum(row.flops for row in self.contractions) * self.slices

    @property
    def predicted(self) -> dict[str, float]:
        """Predicted seconds of the kernels per generation, without transfers; what is no product is not counted."""
        # Slots make a new class, so that the two-argument form is needed.
        times = super(ContractionPlan, self).predicted
        return {target: time * self.slices for target, time in times.items()}

    @property
    def nbytes(self) -> int:
        """Bytes the plan holds."""
        tensors = [*self.constants.values(), *self.known.values()]
        return 1024 * (1 + len(self.contractions)) + sum(x.nbytes for x in tensors)

    def explain(self) -> str:
        """Return the plan as a table: a row per step, where it runs, what it costs, what it guarantees."""
        lines = [
            f"{self.program.equation.text} on {self.backend}: {self.reason}",
            f"  {quantity(self.flops, 'FLOP')}, {quantity(sum(r.bytes for r in self.contractions) * self.slices, 'B')} "
            f"moved, peak {quantity(self.peak_bytes, 'B')}, {self.slices} slice{'s' if self.slices > 1 else ''}",
        ]
        if self.precision is not None:
            lines.append(
                f"  {self.precision}: error at most {self.error_bound:.2g} of the contraction of absolute values"
            )
        lines.append(f"  predicted: {self.predicted_text or 'nothing, there is no product a kernel takes'}")
        for index, row in enumerate(self.contractions, 1):
            flops = quantity(row.flops, "FLOP")
            lines.append(f"  {index}. {row.subscripts}  {row.strategy}  {row.backend}  {flops}  {row.reason}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.explain()


@inside("trntensor")
@check.hands_on("einsum", "from_numpy")
def plan(
    subscripts: str | Operand,
    *shapes_or_tensors: Operand,
    dtype: torch.dtype | None = None,
    precision: Precision | None = None,
    target_error: float | None = None,
    memory_limit: int | None = None,
    optimize: Order = "auto",
    constants: Sequence[int] = (),
) -> ContractionPlan:
    """Plan a contraction without running it.

    Args:
        subscripts: as for `einsum`.
        shapes_or_tensors: a shape, a tensor or a NumPy array per operand.
        dtype: of operands given as shapes; float32 where no tensor says otherwise.
        precision: as for `einsum`.
        target_error: as for `einsum`; ``plan.precision`` and ``plan.error_bound`` say what it came to.
        memory_limit: as for `einsum`.
        optimize: as for `einsum`.
        constants: positions of operands, given as tensors, that stay the same from call to call: they are copied.

    Returns:
        A plan to call with the operands that are not constants. Plans without constants are cached.

    Example:
        >>> plan("ij,jk->ik", (2, 3), (3, 4)).flops
        48
    """
    text, operands = split_call("plan", subscripts, shapes_or_tensors)
    sizes = [x.shape if hasattr(x, "shape") else check.sequence("plan", "shape", x) for x in operands]
    shapes = tuple(tuple(check.integer("plan", "shape", size, 0, 2**63 - 1) for size in shape) for shape in sizes)
    kind = _dtype(operands, dtype)
    held = {index: _constant(operands, index) for index in check.sequence("plan", "constants", constants)}
    scheme = make_plan(
        text, shapes, kind, precision, target_error=target_error, memory_limit=memory_limit, optimize=optimize
    )

    def build() -> ContractionPlan:
        return _describe_plan(scheme, held)

    key = ("trntensor.plan", scheme, settings(), neuron.why_no_device())
    return build() if held else CACHE.get(key, build)


def make_plan(
    text: str,
    shapes: tuple[tuple[int, ...], ...],
    dtype: torch.dtype,
    precision: Precision | None = None,
    *,
    target_error: float | None = None,
    memory_limit: int | None = None,
    optimize: Order = "auto",
    single: bool = False,
) -> ContractionPlan:
    """Return the plan that runs, without the report of where: from the cache wherever the order can be a key.

    ``single``: float32's range holds the data, so that a target may be met with its arithmetic.
    """
    if isinstance(optimize, list | tuple):
        optimize = tuple(pair if isinstance(pair, str) else positions(pair) for pair in optimize)
    check_limit(memory_limit)
    key = (text, shapes, dtype, precision, target_error, memory_limit, optimize, single)

    def build() -> ContractionPlan:
        # Pieces of half precision are added up in float32.
        itemsize = max(dtype.itemsize, 4) if dtype.is_floating_point else dtype.itemsize
        program = compile_program(text, shapes, optimize, None if memory_limit is None else (memory_limit, itemsize))
        policy = None
        if dtype.is_floating_point or dtype.is_complex:
            # Without operands every product is in range; with no sight of them, none is.
            policy = accuracy.choose(
                "einsum",
                precision,
                target_error,
                dtype,
                lambda policy: _bound(program, dtype, policy),
                what="this contraction",
                operands=() if single else None,
            )
        return ContractionPlan(
            op="trntensor.einsum", steps=(), peak_bytes=0, program=program, dtype=dtype, precision=policy,
            contractions=(),
        )  # fmt: skip

    plain = type(optimize) is str and precision is None and target_error is None
    keyed = plain or all(isinstance(option, Hashable) for option in (optimize, precision, target_error))
    return CACHE.get(key, build) if keyed else build()


def check_limit(memory_limit: Any) -> None:
    """Check a limit of memory, if there is one."""
    if memory_limit is not None:
        check.integer("einsum", "memory_limit", memory_limit, 1, 2**63 - 1)


def _bound(program: Program, dtype: torch.dtype, policy: Precision) -> float:
    terms, roundings = tuple(step.terms for step in program.steps), sum(step.roundings for step in program.steps)
    return contraction_bound(terms, dtype, policy, roundings)


def _describe_plan(scheme: ContractionPlan, held: Mapping[int, Tensor]) -> ContractionPlan:
    """Return the plan with where each step runs, its cost and its memory, by a run on shapes alone."""
    program, dtype, policy = scheme.program, scheme.dtype, scheme.precision
    work = dtype if policy is None else working_dtype(dtype, policy)
    shapes = program.shapes
    if program.blocks:
        piece = next(program.pieces())
        operands = (torch.empty(shape, dtype=torch.float32, device="meta") for shape in shapes)
        whole = zip(operands, program.equation.inputs, strict=True)
        shapes = tuple(tuple(cut(x, labels, piece).shape) for x, labels in whole)
    once = Program(program.equation, shapes, program.path, program.steps)
    meta = [torch.empty(shape, dtype=work, device="meta") for shape in shapes]
    steps = traced(_Once(once, policy), *meta).steps
    rows = tuple(_rows(program.steps, steps, dtype))
    element = dtype.itemsize
    peak = sum(map(math.prod, program.shapes)) * element
    peak += allocated_bytes(once, element) + (math.prod(program.result_shape) * element if program.blocks else 0)
    known = _compute_constants(program, held, work, policy) if held and not program.blocks else {}
    return ContractionPlan(
        op="trntensor.einsum",
        steps=steps,
        peak_bytes=peak,
        program=program,
        dtype=dtype,
        precision=policy,
        contractions=rows,
        constants=held,
        known=known,
    )


@dataclass(frozen=True)
class _Once:
    """A program as a function for the recorder; equal when it does the same."""

    program: Program
    precision: Precision | None

    def __call__(self, *operands: Tensor) -> Tensor:
        return self.program.run(operands, self.precision)


def _rows(program: Sequence[ContractionStep], steps: Sequence[Step], dtype: torch.dtype) -> list[Contraction]:
    products = iter(steps)
    factor = 4 if dtype.is_complex else 1
    rows = []
    for step in program:
        backend, reason = "pytorch", _HOST
        if step.strategy in PRODUCTS and (dtype.is_floating_point or dtype.is_complex):
            product = next(products)
            backend, reason = product.backend, product.reason
        rows.append(
            Contraction(
                subscripts=step.subscripts,
                strategy=step.strategy,
                backend=backend,
                reason=reason,
                flops=factor * step.flops,
                bytes=dtype.itemsize * sum(step.elements),
            )
        )
    return rows


def _compute_constants(
    program: Program, held: Mapping[int, Tensor], work: torch.dtype, policy: Precision | None
) -> dict[int, Tensor]:
    """Return results of the steps among constants alone."""
    live: list[Tensor | None] = [held.get(i) for i in range(len(program.shapes))]
    live = [None if x is None else x.to(work) for x in live]
    known: dict[int, Tensor] = {}
    for index, step in enumerate(program.steps):
        chosen = take_operands(live, step.positions)
        x, y = chosen[0], chosen[1] if len(chosen) > 1 else None
        ready = x is not None and (y is not None or len(chosen) == 1)
        if ready and x is not None:
            known[index] = step(x, y, policy)
        live.append(known.get(index))
    return known


def _tensor(x: Any) -> Any:
    return from_numpy(x) if isinstance(x, np.ndarray) else x


def _dtype(operands: Sequence[Any], dtype: torch.dtype | None) -> torch.dtype:
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise DtypeError("plan", "dtype", type(dtype), "a torch.dtype")
    tensors = [_tensor(x[..., :0] if x.ndim else x) for x in operands if hasattr(x, "shape")]
    if dtype is not None:
        device = tensors[0].device if tensors else "cpu"
        tensors.append(torch.empty(0, dtype=dtype, device=device))
    return common_dtype("plan", tensors) if tensors else torch.float32


def _constant(operands: Sequence[Any], index: Any) -> Tensor:
    if not isinstance(index, int) or not 0 <= index < len(operands) or not hasattr(operands[index], "shape"):
        raise ArgumentError("plan", "constants", index, "positions of operands that are given as tensors")
    held: Tensor = _tensor(operands[index])
    return held.clone() if isinstance(held, Tensor) else held
