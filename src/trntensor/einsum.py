"""Einstein summation: everything ``numpy.einsum`` accepts, planned once and run on `trnblas`."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnblas.accuracy import check_target, within_single
from trnblas.arguments import conjugate
from trnsci import ArgumentError, array_function, check, op, run
from trnsci.accuracy import state_error
from trnsci.analogs import Different, Given, given, refuse_options, replaces
from trnsci.gradient import saves
from trnsci.precision import Precision
from trnsci.torch_internals import dispatch_modes
from trntensor.contraction import in_order, positions
from trntensor.decomposed import Decomposed, expand_operands
from trntensor.equation import Operand, Order, common_dtype, parse, split_call
from trntensor.plan import ContractionPlan, check_limit, make_plan
from trntensor.steps import unary

_LETTERS = string.ascii_letters
# multiplications for each number read, below which a contraction is as fast as memory
_PRODUCTS = 16


@array_function
def einsum(
    subscripts: str | Operand,
    *operands: Operand,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: Tensor | None = None,
    precision: Precision | None = None,
    target_error: float | None = None,
    memory_limit: int | None = None,
    optimize: Order = "auto",
    c: Tensor | None = None,
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
    text, tensors = split_call("einsum", subscripts, operands)
    for x in tensors:
        if isinstance(x, Decomposed):
            text, tensors = expand_operands(text, tensors)
            break
    # what is added counts among the operands, unless nothing of it is added
    added = c is not None and check.number("einsum", "beta", beta) != 0
    dtype = common_dtype("einsum", (*tensors, c) if added else tensors)
    factor = check.coefficient("einsum", "alpha", alpha, dtype)
    scale = check.coefficient("einsum", "beta", beta, dtype)
    addend = None if scale == 0 else out if c is None else c.to(dtype)
    if addend is None and scale != 0:
        raise ArgumentError("einsum", "c", None, f"a tensor, or out=, because beta is {scale}")
    for x in tensors:
        if x.dtype is not dtype:
            tensors = tuple(x.to(dtype) for x in tensors)
            break
    if is_compiling() or (dispatch_modes() and any(type(x) is not Tensor for x in tensors)):
        check_limit(memory_limit)
        check_target("einsum", precision, target_error)
        settings = precision or "", target_error or 0.0, memory_limit or 0, *_preset(optimize, len(tensors))
        return run(Einsum(list(tensors), addend, text, factor, scale, *settings), out)
    scheme = _scheme(text, tensors, dtype, precision, target_error, memory_limit, optimize)
    if addend is not None or out is not None:
        shape = scheme.program.result_shape
    if addend is not None and tuple(addend.shape) != shape:
        raise ArgumentError("einsum", "shape", {"c": tuple(addend.shape), "contraction": shape})
    if out is not None:
        named = {f"operand {n}": x for n, x in enumerate(tensors)}
        check.out("einsum", out, shape=shape, dtype=dtype, **named, c=None if out is c else c)
    result = scheme.contract(tensors, factor, scale, addend)
    state_error(scheme.error_bound)
    return result if out is None else out.copy_(result)


def _in_numpys_order(value: Any, equation: str, *operands: Any, optimize: Any = False, **_: Any) -> Any:
    """Return a result in the memory order that NumPy gives it, which follows from the order of its operands."""
    if value.ndim < 2:
        return value
    small = [np.zeros_like(x, shape=[min(n, 2) for n in x.shape]) for x in operands]
    array = np.empty_like(np.einsum(equation, *small, optimize=optimize), value.dtype, shape=value.shape)
    array[...] = value
    return array


def _reads_once(equation: Any, *operands: Any, **_: Any) -> bool:
    """Return whether a contraction multiplies few numbers for each that it reads."""
    if not isinstance(equation, str) or "." in equation:
        return False
    labels = [word.strip() for word in equation.partition("->")[0].split(",")]
    sizes: dict[str, int] = {}
    for word, x in zip(labels, operands, strict=True):
        sizes |= dict(zip(word, x.shape, strict=True))
    return math.prod(sizes.values()) < _PRODUCTS * max(x.size for x in operands)


@replaces("numpy.einsum", by=einsum, result=_in_numpys_order, order="A", reads_once=_reads_once)
def _read_numpy(operands: tuple[Any, ...], out: Any, optimize: Any, kwargs: dict[str, Any]) -> Given:
    refuse_options(out=out, **kwargs)
    if not operands or not isinstance(operands[0], str):
        raise Different("its subscripts are no string")
    arrays = operands[1:]
    if len(arrays) == 1:
        raise Different("one operand is viewed or summed, not contracted")
    if any(type(x) is not np.ndarray for x in arrays):
        raise Different("its operands are no arrays")
    return _of_one_dtype(operands[0], arrays)


@replaces("numpy.linalg.multi_dot", by=einsum)
def _read_chain(arrays: Any, out: Any) -> Given:
    refuse_options(out=out)
    arrays = [np.asarray(x) for x in arrays]
    ends = [x.ndim for x in (arrays[0], arrays[-1])] if arrays else []
    if len(arrays) < 3 or any(x.ndim != 2 for x in arrays[1:-1]) or not set(ends) <= {1, 2}:
        raise Different("no chain of three matrices or more")
    labels = [f"{_LETTERS[n]}{_LETTERS[n + 1]}" for n in range(len(arrays))]
    labels[0], labels[-1] = labels[0][-arrays[0].ndim :], labels[-1][: arrays[-1].ndim]
    kept = labels[0][:-1] + labels[-1][1:]
    return _of_one_dtype(f"{','.join(labels)}->{kept}", arrays)


def _of_one_dtype(equation: str, arrays: Sequence[Any]) -> Given:
    if any(x.dtype != arrays[0].dtype or x.dtype.kind == "i" for x in arrays):
        raise Different("its operands are no arrays of floating-point numbers of one dtype")
    return given(einsum, equation, *arrays)


def _scheme(
    text: str, tensors: Sequence[Tensor], dtype: torch.dtype, precision: Any, target: Any, limit: Any, optimize: Any
) -> ContractionPlan:
    """Return the plan of a call. float32 may meet a target where it has the range of the data."""
    shapes = tuple([x.shape for x in tensors])
    single = False
    if target is not None and dtype in (torch.float64, torch.complex128):
        single = within_single(math.prod(dict(parse("einsum", text, shapes).sizes).values()), tensors)
    return make_plan(
        text, shapes, dtype, precision, target_error=target, memory_limit=limit, optimize=optimize, single=single
    )


def _preset(optimize: Any, count: int) -> tuple[str, list[int]]:
    """Return the order of contractions as torch.compile is shown it: a name, or a path as one list."""
    if isinstance(optimize, list | tuple) or optimize is False:
        pairs = (
            in_order(count) if optimize is False else [positions(pair) for pair in optimize if pair != "einsum_path"]
        )
        return "path", [number for pair in pairs for number in (len(pair), *pair)]
    preset = "auto" if optimize is True else optimize
    if not isinstance(preset, str):
        expected, hint = "a preset name or a path inside torch.compile", "Make a plan outside and use its path"
        raise ArgumentError("einsum", "optimize", type(optimize).__name__, expected, hint=hint)
    return preset, []


@op("trntensor::einsum", composed=True)
class Einsum(NamedTuple):
    """A contraction as torch.compile sees it: one operator that makes its plan, and calls it."""

    operands: list[Tensor]
    c: Tensor | None
    subscripts: str
    alpha: complex
    beta: complex
    precision: str
    target: float
    limit: int
    preset: str
    # Each contraction's number of operands, then their positions.
    path: list[int]

    def fake(self) -> Tensor:
        equation = parse("einsum", self.subscripts, [tuple(x.shape) for x in self.operands])
        sizes = dict(equation.sizes)
        return self.operands[0].new_empty([sizes[label] for label in equation.output])

    def cost(self) -> int:
        factor = 4 if self.operands[0].is_complex() else 1
        return factor * sum(step.flops for step in self._plan().program.steps)

    def _plan(self) -> ContractionPlan:
        optimize: Any = self.preset
        if self.preset == "path":
            optimize, rest = [], list(self.path)
            while rest:
                count, *rest = rest
                optimize.append(tuple(rest[:count]))
                rest = rest[count:]
        settings = self.precision or None, self.target or None, self.limit or None, optimize
        return _scheme(self.subscripts, self.operands, self.operands[0].dtype, *settings)

    def pytorch(self) -> Tensor:
        return self._plan().contract(self.operands, self.alpha, self.beta, self.c).contiguous()

    @saves("operands")
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Any]:
        gradients: dict[str, Any] = {"operands": _gradient(self, grad)}
        if not self.path:
            # torch takes an empty list for one of tensors.
            gradients["path"] = []
        if self.c is not None and "c" in needs:
            gradients["c"] = conjugate(self.beta, grad) * grad
        return gradients


def _gradient(call: Einsum, grad: Tensor) -> list[Tensor]:
    """Return gradients: the contraction of everything else, broadcast to the axes only the operand has."""
    operands = call.operands
    equation = parse("einsum", call.subscripts, [tuple(x.shape) for x in operands])
    sizes = dict(equation.sizes)
    gradients = []
    for index, (labels, x) in enumerate(zip(equation.inputs, operands, strict=True)):
        others = [(equation.inputs[n], operands[n].conj()) for n in range(len(operands)) if n != index]
        kept, view, _ = unary(labels, tuple(x.shape), sizes, labels)
        reachable = set(equation.output).union(*(set(names) for names, _ in others))
        wanted = "".join(label for label in kept if label in reachable)
        terms = [*(names for names, _ in others), equation.output]
        gradient = einsum(f"{','.join(terms)}->{wanted}", *(y for _, y in others), grad)
        # labels that only broadcast here at their full size
        gradient = gradient.expand([sizes[label] for label in wanted]) * conjugate(call.alpha, grad)
        for axis, label in enumerate(kept):
            if label not in reachable:
                gradient = gradient.unsqueeze(axis)
        gradient = gradient.expand([sizes[label] for label in kept])
        for first, second in reversed(view.diagonals):
            gradient = torch.diag_embed(gradient, 0, first, second)
        for axis in reversed(view.fixed):
            gradient = gradient.unsqueeze(axis)
        gradients.append(gradient)
    return gradients
