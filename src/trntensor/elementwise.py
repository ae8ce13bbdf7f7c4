"""Permutations, elementwise combinations and reductions of tensors by labels, with operators on the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnblas.arguments import HALF
from trnsci import ArgumentError, DtypeError, array_function, check
from trnsci.analogs import Different, Given, given, replaces
from trntensor.einsum import einsum
from trntensor.equation import common_dtype, parse

_BY_NAME = (
    "conj neg abs sqrt exp log sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh ceil floor sigmoid relu"
)
OPERATORS: dict[str, Callable[[Tensor], Tensor]] = {name: getattr(torch, name) for name in _BY_NAME.split()} | {
    "identity": lambda x: x,
    "rcp": torch.reciprocal,
    "swish": torch.nn.functional.silu,
    "mish": torch.nn.functional.mish,
    "softplus": torch.nn.functional.softplus,
    "softsign": torch.nn.functional.softsign,
}
COMBINATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "multiply": torch.mul,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
}


@array_function
def elementwise(
    subscripts: str,
    *operands: Tensor,
    scalars: Sequence[complex] | None = None,
    operators: Sequence[str] | None = None,
    combine: str | Sequence[str] = "add",
    out: Tensor | None = None,
) -> Tensor:
    """Combine one, two or three (or more) tensors element by element, axes matched by label.

    ``D = (s0 op0(A)) combine0 (s1 op1(B)) combine1 (s2 op2(C))``, from the left: cuTENSOR's permutation and its binary
    and trinary operations.

    Args:
        subscripts: labels of every operand and of the result, ``"ij,ji->ij"``. A label an operand lacks broadcasts.
        operands: tensors of one dtype.
        scalars: a factor per operand; ones by default.
        operators: a name per operand, applied before its factor: cuTENSOR's operators in lower case, ``identity``,
            ``conj``, ``neg``, ``abs``, ``sqrt``, ``rcp``, ``exp``, ``log``, the trigonometric and hyperbolic functions,
            ``ceil``, ``floor``, ``sigmoid``, ``relu``, ``swish``, ``mish``, ``softplus`` and ``softsign``.
        combine: ``add``, ``multiply``, ``maximum`` or ``minimum``; one for all, or one for each pair of neighbours.
        out: memory for the result, shared with no operand.

    Example:
        >>> elementwise("ij,j->ji", torch.ones(2, 3), torch.arange(3.0), scalars=(1.0, 10.0))[:, 0]
        tensor([ 1., 11., 21.])
    """
    count = len(operands)
    common_dtype("elementwise", operands)
    equation = parse("elementwise", subscripts, [tuple(x.shape) for x in operands])
    factors = [_factor("elementwise", "scalars", x, operands[0]) for x in _each("scalars", scalars, 1.0, count)]
    names = _each("operators", operators, "identity", count)
    joins = [combine] * (count - 1) if isinstance(combine, str) else check.sequence("elementwise", "combine", combine)
    if len(joins) != count - 1:
        raise ArgumentError("elementwise", "length of combine", {"operands - 1": count - 1, "combine": len(joins)})
    sizes = dict(equation.sizes)
    result: Tensor | None = None
    for index, (x, labels) in enumerate(zip(operands, equation.inputs, strict=True)):
        check.option("elementwise", "operators", names[index], OPERATORS)
        if not set(labels) <= set(equation.output) or len(set(labels)) != len(labels):
            raise ArgumentError(
                op="elementwise",
                argument=f"labels of operand {index}",
                got=labels,
                expected=f"distinct labels of the result, {equation.output!r}",
                hint="Use reduce or einsum to sum over a label",
            )
        aligned = _align_axes(_widen(x), labels, equation.output)
        term = _compute("elementwise", names[index], OPERATORS[names[index]], aligned)
        if factors[index] != 1:
            term = term * factors[index]
        if result is None:
            result = term
        else:
            join = check.option("elementwise", "combine", joins[index - 1], COMBINATIONS)
            result = _compute("elementwise", join, COMBINATIONS[join], result, term)
    assert result is not None
    result = result.to(operands[0].dtype) if operands[0].dtype in HALF else result
    shape = tuple(sizes[label] for label in equation.output)
    if out is None:
        return result.expand(shape).clone(memory_format=torch.contiguous_format)
    check.out(
        "elementwise", out, shape=shape, dtype=result.dtype, **{f"operand {n}": x for n, x in enumerate(operands)}
    )
    return out.copy_(result.expand(shape))


def _compute(op: str, name: str, function: Callable[..., Tensor], *operands: Tensor) -> Tensor:
    """Apply a function of PyTorch; not every one has every dtype."""
    try:
        return function(*operands)
    except (RuntimeError, TypeError) as error:
        if all(x.is_floating_point() for x in operands):
            raise
        dtype = operands[0].dtype
        expected = "a dtype in which PyTorch computes it, float32 for one"
        raise DtypeError(op, f"dtype of an operand of {name!r}", dtype, expected) from error


def _factor(op: str, argument: str, value: Any, x: Tensor) -> complex:
    """Return a number; real in half precision, which has no complex numbers to round to, and whole for integers."""
    wide = x.dtype not in HALF and (x.is_floating_point() or x.is_complex())
    return check.number(op, argument, value) if wide else check.coefficient(op, argument, value, x.dtype)


def _widen(x: Tensor) -> Tensor:
    """Return half precision as float32, which is rounded once, at the end."""
    return x.float() if x.dtype in HALF else x


def _each(argument: str, given: Sequence[Any] | None, default: Any, count: int) -> list[Any]:
    values = [default] * count if given is None else check.sequence("elementwise", argument, given)
    if len(values) != count:
        raise ArgumentError("elementwise", f"length of {argument}", {"operands": count, argument: len(values)})
    return values


def _align_axes(x: Tensor, labels: str, output: str) -> Tensor:
    """Return axes in the order of ``output``, of length 1 for labels it lacks."""
    view = x.permute([labels.index(label) for label in output if label in labels])
    for axis, label in enumerate(output):
        if label not in labels:
            view = view.unsqueeze(axis)
    return view


@array_function
@check.hands_on("elementwise")
def permute(
    subscripts: str, a: Tensor, *, alpha: complex = 1.0, operator: str = "identity", out: Tensor | None = None
) -> Tensor:
    """Reorder axes: ``alpha * op(a)`` with the labels of the result, ``"ijk->kij"``, which are those of `a`.

    Example:
        >>> permute("ij->ji", torch.ones(2, 3)).shape
        torch.Size([3, 2])
    """
    return elementwise(subscripts, a, scalars=(alpha,), operators=(operator,), out=out)


@array_function
@check.hands_on("elementwise")
def elementwise_binary(
    subscripts: str,
    a: Tensor,
    c: Tensor,
    *,
    alpha: complex = 1.0,
    gamma: complex = 1.0,
    operators: Sequence[str] = ("identity", "identity"),
    combine: str = "add",
    out: Tensor | None = None,
) -> Tensor:
    """Return ``(alpha op(A)) combine (gamma op(C))``: `elementwise` under the names of cuTENSOR's binary operation.

    Example:
        >>> elementwise_binary("i,i->i", torch.ones(2), torch.ones(2), gamma=2.0)
        tensor([3., 3.])
    """
    return elementwise(subscripts, a, c, scalars=(alpha, gamma), operators=operators, combine=combine, out=out)


@array_function
@check.hands_on("elementwise")
def elementwise_trinary(
    subscripts: str,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    alpha: complex = 1.0,
    beta: complex = 1.0,
    gamma: complex = 1.0,
    operators: Sequence[str] = ("identity", "identity", "identity"),
    combine: Sequence[str] = ("add", "add"),
    out: Tensor | None = None,
) -> Tensor:
    """Return ``((alpha op(A)) combine0 (beta op(B))) combine1 (gamma op(C))``, as cuTENSOR names it.

    Example:
        >>> x = torch.full((2,), 3.0)
        >>> elementwise_trinary("i,i,i->i", x, x, x, combine=("multiply", "add"))
        tensor([12., 12.])
    """
    scalars = (alpha, beta, gamma)
    return elementwise(subscripts, a, b, c, scalars=scalars, operators=operators, combine=combine, out=out)


@array_function
def reduce(
    subscripts: str,
    a: Tensor,
    *,
    op: str = "add",
    alpha: complex = 1.0,
    operator: str = "identity",
    beta: complex = 0.0,
    c: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Reduce over the labels the result lacks: ``alpha * fold(op(a)) + beta * c``.

    Args:
        subscripts: ``"ijk->j"``.
        a: the tensor.
        op: ``add``, ``multiply``, ``maximum`` or ``minimum``. Empty sums are 0, empty products 1.
        alpha: factor of the reduction.
        operator: applied to ``a`` first, as for `elementwise`.
        beta: factor of ``c``.
        c: the addend, of the result's shape.
        out: memory for the result, shared with no operand.

    Example:
        >>> reduce("ij->i", torch.tensor([[1.0, 5.0], [3.0, 2.0]]), op="maximum")
        tensor([5., 3.])
    """
    common_dtype("reduce", (a,) if c is None else (a, c))
    equation = parse("reduce", subscripts, [tuple(a.shape)])
    check.option("reduce", "op", op, COMBINATIONS)
    check.option("reduce", "operator", operator, OPERATORS)
    labels, output = equation.inputs[0], equation.output
    check.refuse(len(set(labels)) != len(labels), "reduce", "labels", labels, "distinct ones", hint="Use einsum")
    result = _fold_labels(_widen(a), labels, output, op, operator)
    alpha, beta = (_factor("reduce", name, x, a) for name, x in (("alpha", alpha), ("beta", beta)))
    result = result if alpha == 1 else result * alpha
    if c is None and beta != 0:
        raise ArgumentError("reduce", "c", None, f"a tensor, because beta is {beta}")
    if c is not None and beta != 0:
        check.equal("reduce", "shape", c=tuple(c.shape), reduction=tuple(result.shape))
        result = result + beta * _widen(c)
    result = result.to(a.dtype) if a.dtype in HALF else result
    if out is None:
        return result
    check.out("reduce", out, shape=tuple(result.shape), dtype=result.dtype, a=a, c=c)
    return out.copy_(result)


def _fold_labels(a: Tensor, labels: str, output: str, op: str, operator: str) -> Tensor:
    gone = [label for label in labels if label not in output]
    ordered = a.permute([labels.index(label) for label in (*output, *gone)])
    view = _compute("reduce", operator, OPERATORS[operator], ordered)
    flat = view.flatten(len(output)) if gone else view.unsqueeze(-1)
    if op in ("maximum", "minimum"):
        check.refuse(flat.shape[-1] == 0, "reduce", "shape of a", tuple(a.shape), f"elements for {op}")
        return _compute("reduce", op, lambda x: x.amax(-1) if op == "maximum" else x.amin(-1), flat)
    if a.dtype in (torch.uint16, torch.uint32, torch.uint64):
        # Torch stores these and does not add them up.
        return (flat.long().sum(-1) if op == "add" else flat.long().prod(-1)).to(a.dtype)
    return flat.sum(-1, dtype=a.dtype) if op == "add" else flat.prod(-1, dtype=a.dtype)


_THIN = 1 << 10
# How many axes, or those of each operand.
Pairing = int | Sequence[int | Sequence[int]]


@array_function
def tensordot(a: Tensor, b: Tensor, axes: Pairing = 2, *, dims: Pairing | None = None) -> Tensor:
    """Contract over ``axes`` as ``numpy.tensordot``; opt_einsum calls it for ``contract(..., backend="trntensor")``.

    Args:
        a: [...]
        b: [...]
        axes: how many axes, the last of ``a`` with the first of ``b``; or two lists of axes.
        dims: torch's name for ``axes``.

    Example:
        >>> tensordot(torch.ones(2, 3), torch.ones(3, 4), axes=1).shape
        torch.Size([2, 4])
    """
    common_dtype("tensordot", (a, b))
    if dims is not None and not (isinstance(axes, int) and axes == 2):
        raise ArgumentError("tensordot", "axes and dims", (axes, dims), "one of them, not both")
    axes = axes if dims is None else dims
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            expected = f"from 0 to {min(a.ndim, b.ndim)}, because operands have {a.ndim} and {b.ndim} dimensions"
            raise ArgumentError("tensordot", "axes", axes, expected)
        left, right = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        sides = check.sequence("tensordot", "axes", axes)
        check.equal("tensordot", "sides", axes=len(sides), operands=2)
        left, right = ([x] if isinstance(x, int) else check.sequence("tensordot", "axes", x) for x in sides)
        left, right = _axes("tensordot", "axes of a", left, a.ndim), _axes("tensordot", "axes of b", right, b.ndim)
    check.equal("tensordot", "number of axes", a=len(left), b=len(right))
    names_a = list(range(a.ndim))
    names_b = list(range(a.ndim, a.ndim + b.ndim))
    for x, y in zip(left, right, strict=True):
        check.equal("tensordot", f"length of axes {x} and {y}", a=a.shape[x], b=b.shape[y])
        names_b[y] = names_a[x]
    gone = {names_a[x] for x in left}
    kept = [name for name in (*names_a, *names_b) if name not in gone]
    return einsum(a, names_a, b, names_b, kept)


def _is_thin(a: Any, b: Any, *_: Any, **__: Any) -> bool:
    """Return whether the smaller operand is too small to multiply many numbers for each of the larger that is read."""
    return min(np.size(a), np.size(b)) < _THIN


@replaces("numpy.tensordot", by=tensordot, reads_once=_is_thin)
def _read_tensordot(a: Any, b: Any, axes: Any) -> Given:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.dtype.kind == "i" or not a.ndim or not b.ndim:
        raise Different("its operands are no arrays of floating-point numbers of one dtype")
    if 2 * (axes if isinstance(axes, int) else np.size(axes[0])) == a.ndim + b.ndim:
        raise Different("theirs returns an array without axes")
    return given(tensordot, a, b, axes)


def _axes(op: str, argument: str, axes: list[int], ndim: int) -> list[int]:
    axes = [check.integer(op, argument, axis) for axis in axes]
    if any(not -ndim <= axis < ndim for axis in axes) or len({axis % ndim for axis in axes}) < len(axes):
        raise ArgumentError(op, argument, axes, f"different axes of {ndim} dimensions")
    return [axis % ndim for axis in axes]


@array_function
def transpose(a: Tensor, axes: Sequence[int]) -> Tensor:
    """Reorder axes as ``numpy.transpose``; opt_einsum calls it for ``contract(..., backend="trntensor")``.

    Example:
        >>> transpose(torch.ones(2, 3), (1, 0)).shape
        torch.Size([3, 2])
    """
    common_dtype("transpose", (a,))
    order = _axes("transpose", "axes", check.sequence("transpose", "axes", axes), a.ndim)
    check.equal("transpose", "number of axes", a=a.ndim, axes=len(order))
    return einsum(a, list(range(a.ndim)), order)
