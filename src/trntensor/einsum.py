"""Einstein summation: everything ``numpy.einsum`` accepts, planned once and run on `trnblas`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnblas.accuracy import choose, reported
from trnsci import ArgumentError, DtypeError, Op, array_function, check
from trnsci.gradient import Saved
from trnsci.precision import Precision
from trntensor.decomposed import Decomposed, expanded
from trntensor.equation import parse, split_call
from trntensor.precision import contraction_bound, working_dtype
from trntensor.program import Program, compiled
from trntensor.steps import ContractionStep, unary

# Truth values, and integers torch stores but does not add up.
_STORED_ONLY = (torch.bool, torch.uint16, torch.uint32, torch.uint64)
DTYPES = check.FLOATING.union(_STORED_ONLY, (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
_SHORT: dict[Any, ContractionStep] = {}
_SHORT_LIMIT = 4096


@array_function
def einsum(
    subscripts: Any,
    *operands: Any,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: Tensor | None = None,
    precision: Precision | None = None,
    target_error: float | None = None,
    memory_limit: int | None = None,
    optimize: Any = "auto",
    c: Tensor | None = None,
    return_error: bool = False,
) -> Tensor:
    """Contract tensors: ``alpha * contraction + beta * c``.

    Args:
        subscripts: an expression such as ``"ij,jk->ik"``, with implicit output, ellipses and repeated labels as in
            NumPy; or the first operand of the interleaved form ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.
        operands: one or more tensors. Different dtypes are promoted to one that holds them all. A decomposed tensor
            (`CP`, `Tucker`, `TensorTrain`) is contracted part by part, never formed.
        alpha: factor of the contraction.
        beta: factor of ``c``, or of what ``out`` holds where ``c`` is not given.
        out: memory for the result, shared with no operand.
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than the operands.
        target_error: error to guarantee, relative to the contraction of absolute values, instead of ``precision``.
            `trntensor.plan` says which policy that is and what it guarantees, without running it.
        memory_limit: bytes the call may allocate, result included; indices are sliced until it fits.
        optimize: order of contractions: an opt_einsum preset, a path, ``False`` for left to right, or an optimizer
            object of opt_einsum or cotengra.
        c: the addend, of the result's shape.
        return_error: return ``Achieved(result, error_bound)`` as `trnblas.gemm` does: with the result, the error
            guaranteed for it, relative to the contraction of absolute values.

    Returns:
        A tensor that shares no memory with an operand.

    Raises:
        ArgumentError: the expression does not parse or fit, or options contradict each other.
        DtypeError: an operand is not a tensor.
        CapacityError: no slicing meets ``memory_limit``.

    Error bound:
        ``e * contraction of absolute values``, with ``1 + e`` the product over steps of ``1 + error_bound(K)`` of
        `trnblas`, K the terms the step sums; `trntensor.plan` reports ``e``.

    Example:
        >>> einsum("ij,jk->ki", torch.ones(2, 3), torch.ones(3, 4)).shape
        torch.Size([4, 2])
    """
    plain = out is None and precision is None and target_error is None and memory_limit is None and c is None
    plain = plain and not return_error and len(operands) == 2 and optimize == "auto" and not is_compiling()
    if plain and alpha == 1.0 and beta == 0.0:
        known = _remembered(subscripts, *operands)
        if known is not None:
            return known
    text, tensors = split_call("einsum", subscripts, operands)
    if any(isinstance(x, Decomposed) for x in tensors):
        text, tensors = expanded(text, tensors)
    dtype = common_dtype("einsum", tensors)
    exact = check.coefficient("einsum", "alpha", alpha, dtype)
    scale = check.coefficient("einsum", "beta", beta, dtype)
    addend = _addend(c, out, scale)
    if out is not None:
        named = {f"operand {n}": x for n, x in enumerate(tensors)}
        shape = _result_shape(text, tensors)
        check.out("einsum", out, shape=shape, dtype=dtype, **named, c=None if out is c else c)
    made = _contract(text, tensors, dtype, exact, precision, target_error, memory_limit, optimize)
    if addend is not None:
        if tuple(addend.shape) != tuple(made.shape):
            raise ArgumentError(
                op="einsum", argument="shape", got={"c": tuple(addend.shape), "contraction": tuple(made.shape)}
            )
        made = torch.add(made, addend, alpha=scale)
    if plain:
        _remember(subscripts, tensors)
    made = made if out is None else out.copy_(made)
    if not return_error:
        return made
    return reported(made, _achieved(text, tensors, dtype, precision, target_error, memory_limit, optimize), True)


def _achieved(
    text: str,
    tensors: Sequence[Tensor],
    dtype: torch.dtype,
    precision: Precision | None,
    target_error: float | None,
    memory_limit: int | None,
    optimize: Any,
) -> float:
    """What the policy in force guarantees; integers are exact."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0.0
    program = program_for(text, tuple(tuple(x.shape) for x in tensors), dtype, memory_limit, optimize)
    policy = policy_of(program, dtype, precision, target_error, tensors)
    return contraction_bound([step.terms for step in program.steps], dtype, policy)


def _remembered(subscripts: Any, a: Any, b: Any) -> Tensor | None:
    """The contraction of two tensors whose program is kept, or ``None``."""
    if type(a) is not Tensor or type(b) is not Tensor or a.is_nested or b.is_nested:
        return None
    step = _SHORT.get((subscripts, a.shape, b.shape, a.dtype, b.dtype))
    if step is None or a.device != b.device:
        return None
    return step(a, b, None) if step.places[0] == 0 else step(b, a, None)


def _remember(subscripts: Any, tensors: Sequence[Tensor]) -> None:
    """Keep a two-operand program under a key that costs little to form."""
    if not isinstance(subscripts, str) or len(tensors) != 2:
        return
    a, b = tensors
    if a.dtype != b.dtype or a.dtype in _STORED_ONLY:
        return
    program = compiled(subscripts, (tuple(a.shape), tuple(b.shape)), "auto", None)
    if len(_SHORT) >= _SHORT_LIMIT:
        _SHORT.clear()
    _SHORT[subscripts, a.shape, b.shape, a.dtype, b.dtype] = program.steps[0]


def common_dtype(op: str, tensors: Sequence[Any]) -> torch.dtype:
    """The dtype that holds all operands; they are tensors on one device."""
    if not tensors:
        raise ArgumentError(op=op, argument="number of operands", got=0, expected="at least one")
    for place, x in enumerate(tensors):
        check.dense(op, **{f"operand {place}": x})
        if x.dtype not in DTYPES:
            raise DtypeError(
                op=op,
                argument=f"dtype of operand {place}",
                got=x.dtype,
                expected="a floating-point, complex, integer or bool dtype of 8 to 128 bits that torch computes with",
                hint="Convert it, with .to(torch.bfloat16) for one",
            )
    first = tensors[0]
    dtype: torch.dtype = first.dtype
    for place, x in enumerate(tensors[1:], 1):
        if x.dtype != dtype:
            dtype = _promoted(op, place, dtype, x.dtype)
        if x.device != first.device:
            raise ArgumentError(
                op=op,
                argument="device",
                got={"operand 0": first.device, f"operand {place}": x.device},
                hint="Move one side with .to(device)",
            )
    return dtype


def _promoted(op: str, place: int, dtype: torch.dtype, other: torch.dtype) -> torch.dtype:
    try:
        return torch.promote_types(dtype, other)
    except RuntimeError:
        raise DtypeError(
            op=op,
            argument=f"dtype of operand {place}",
            got=other,
            expected=f"{dtype}, because torch has no common dtype for the two",
            hint="Convert one with .to(dtype)",
        ) from None


def _addend(c: Tensor | None, out: Tensor | None, beta: Any) -> Tensor | None:
    if beta == 0:
        return None
    addend = out if c is None else c
    if addend is None:
        raise ArgumentError(op="einsum", argument="c", got=None, expected=f"a tensor, or out=, because beta is {beta}")
    return addend


def _result_shape(text: str, tensors: Sequence[Tensor]) -> tuple[int, ...]:
    equation = parse("einsum", text, [tuple(x.shape) for x in tensors])
    sizes = dict(equation.sizes)
    return tuple(sizes[label] for label in equation.output)


def _contract(
    text: str,
    tensors: Sequence[Tensor],
    dtype: torch.dtype,
    alpha: Any,
    precision: Precision | None,
    target_error: float | None,
    memory_limit: int | None,
    optimize: Any,
) -> Tensor:
    tensors = [x if x.dtype == dtype else x.to(dtype) for x in tensors]
    if is_compiling():
        return _traced(text, tensors, alpha, precision, target_error, memory_limit, optimize)
    shapes = tuple(tuple(x.shape) for x in tensors)
    program = program_for(text, shapes, dtype, memory_limit, optimize)
    if not (dtype.is_floating_point or dtype.is_complex):
        return _exact(program, tensors, dtype, alpha)
    if precision is None and target_error is None:
        return program.run(tensors, None, alpha)
    policy = policy_of(program, dtype, precision, target_error, tensors)
    work = working_dtype(dtype, policy)
    return program.run([x.to(work) for x in tensors], policy, alpha).to(dtype)


def program_for(
    text: str, shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype, memory_limit: int | None, optimize: Any
) -> Program:
    """The program of an expression, from the cache wherever the way of ordering can be a key."""
    limit = None
    if memory_limit is not None:
        if isinstance(memory_limit, bool) or not isinstance(memory_limit, int) or memory_limit <= 0:
            raise ArgumentError(
                op="einsum", argument="memory_limit", got=memory_limit, expected="a positive number of bytes"
            )
        limit = (memory_limit, dtype.itemsize)
    if isinstance(optimize, list | tuple):
        optimize = tuple(pair if isinstance(pair, str) else tuple(pair) for pair in optimize)
    return compiled(text, shapes, optimize, limit)


def policy_of(
    program: Program,
    dtype: torch.dtype,
    precision: Precision | None,
    target_error: float | None,
    operands: Sequence[Tensor] | None = None,
) -> Precision:
    """The policy in force: the one asked for, the cheapest that meets a target, or the default.

    Without ``operands`` to look at, float64 is not entrusted to the range of float32.
    """
    terms = [step.terms for step in program.steps]

    def bound(policy: Precision) -> float:
        return contraction_bound(terms, dtype, policy)

    return choose("einsum", precision, target_error, dtype, bound, "this contraction", operands, math.prod(terms))


def _exact(program: Program, tensors: Sequence[Tensor], dtype: torch.dtype, alpha: Any) -> Tensor:
    """Integers modulo their range, as NumPy; truth values by "and" and "or"."""
    if dtype not in _STORED_ONLY:
        return program.run(tensors, None, alpha)
    made = program.run([x.long() for x in tensors], None, alpha)
    return made != 0 if dtype is torch.bool else made.to(dtype)


def _traced(
    text: str,
    tensors: Sequence[Tensor],
    alpha: Any,
    precision: Precision | None,
    target_error: float | None,
    memory_limit: int | None,
    optimize: Any,
) -> Tensor:
    if isinstance(optimize, list | tuple):
        way = ";".join(",".join(str(place) for place in pair) for pair in optimize if not isinstance(pair, str))
    elif isinstance(optimize, str):
        way = optimize
    else:
        raise ArgumentError(
            op="einsum",
            argument="optimize",
            got=type(optimize).__name__,
            expected="a preset name or a path inside torch.compile",
            hint="Make a plan outside and use its path",
        )
    return _einsum(list(tensors), text, alpha, precision or "", target_error or 0.0, memory_limit or 0, way)


def _fake(
    operands: list[Tensor], subscripts: str, alpha: complex, precision: str, target: float, limit: int, way: str
) -> Tensor:
    return operands[0].new_empty(_result_shape(subscripts, operands))


def _cost(
    operands: list[Tensor], subscripts: str, alpha: complex, precision: str, target: float, limit: int, way: str
) -> int:
    program = program_for(subscripts, tuple(tuple(x.shape) for x in operands), operands[0].dtype, None, _way(way))
    return (4 if operands[0].is_complex() else 1) * sum(step.flops for step in program.steps)


def _way(way: str) -> Any:
    if not way[:1].isdigit():
        return way
    return tuple(tuple(int(place) for place in pair.split(",")) for pair in way.split(";"))


_einsum = Op(
    "trntensor::einsum",
    fake=_fake,
    cost=_cost,
    schema="(Tensor[] operands, str subscripts, Scalar alpha, str precision, float target, int limit, str way) "
    "-> Tensor",
)


@_einsum.impl("pytorch")
def _pytorch(
    operands: list[Tensor], subscripts: str, alpha: complex, precision: Any, target: float, limit: int, way: str
) -> Tensor:
    """Run the program; every product in it is dispatched on its own."""
    made = _contract(
        subscripts, operands, operands[0].dtype, alpha, precision or None, target or None, limit or None, _way(way)
    )
    return made.contiguous()


@_einsum.impl("nki")
def _nki(
    operands: list[Tensor], subscripts: str, alpha: complex, precision: Any, target: float, limit: int, way: str
) -> Tensor:
    """The same program: its products are kernels, its views and sums are not."""
    return _pytorch(operands, subscripts, alpha, precision, target, limit, way)


@_einsum.vjp(saves=("operands",))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    operands = saved.operands
    equation = parse("einsum", saved.subscripts, [tuple(x.shape) for x in operands])
    sizes = dict(equation.sizes)
    found = []
    for place, (labels, x) in enumerate(zip(equation.inputs, operands, strict=True)):
        others = [(equation.inputs[n], operands[n].conj()) for n in range(len(operands)) if n != place]
        kept, view, _ = unary(labels, tuple(x.shape), sizes, labels)
        reachable = set(equation.output).union(*(set(names) for names, _ in others))
        wanted = "".join(label for label in kept if label in reachable)
        terms = [*(names for names, _ in others), equation.output]
        made = _spread(terms, [*(y for _, y in others), grad], wanted, sizes)
        made = made * _conjugate(saved.alpha)
        for axis, label in enumerate(kept):
            if label not in reachable:
                made = made.unsqueeze(axis)
        made = made.expand([sizes[label] for label in kept])
        for first, second in reversed(view.diagonals):
            made = torch.diag_embed(made, 0, first, second)
        for axis in reversed(view.fixed):
            made = made.unsqueeze(axis)
        found.append(made)
    return {"operands": found}


def _conjugate(alpha: Any) -> Any:
    return alpha.conjugate() if isinstance(alpha, complex) else alpha


def _spread(terms: Sequence[str], tensors: Sequence[Tensor], wanted: str, sizes: Mapping[str, int]) -> Tensor:
    """Contract, with labels that only broadcast here brought to their full size."""
    made = einsum(f"{','.join(terms)}->{wanted}", *tensors)
    return made.expand([sizes[label] for label in wanted])
