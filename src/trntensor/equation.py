"""Reading einsum expressions: both of NumPy's forms, ellipses and broadcasting, into one canonical equation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from trnsci import ArgumentError, DtypeError, check, libraries
from trnsci.arrays import Array

if TYPE_CHECKING:
    from trntensor.decomposed import Decomposed

# What a contraction takes: arrays, decomposed tensors, and the lists of labels of the interleaved form.
Operand: TypeAlias = "Tensor | Array | Decomposed | Sequence[object]"
libraries.operand("Operand")
# The order of contractions: a preset, a path, False for left to right, or an optimizer of opt_einsum or cotengra.
Order: TypeAlias = "str | bool | Sequence[str | Sequence[int]] | Callable[..., object]"

# Truth values, and integers torch stores but does not add up.
STORED_ONLY = (torch.bool, torch.uint16, torch.uint32, torch.uint64)
DTYPES = check.FLOATING.union(STORED_ONLY, (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
# Past the alphabet, letters of a long row of them.
_SUBLIST_START = 0x3400


@dataclass(frozen=True, slots=True)
class Equation:
    """One label per axis of every operand, and the labels of the result. An ellipsis has become labels of its own.

    Attributes:
        inputs: a string of labels per operand.
        output: labels of the result, in order.
        sizes: pairs of label and size.
    """

    inputs: tuple[str, ...]
    output: str
    sizes: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """The equation as ``ij,jk->ik``."""
        return f"{','.join(self.inputs)}->{self.output}"


def split_call(op: str, subscripts: Any, operands: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Convert a call in either of NumPy's forms to a string and its operands.

    The interleaved form is ``einsum(a, [0, 1], b, [1, 2], [0, 2])``, with ``Ellipsis`` allowed in the lists.
    """
    if isinstance(subscripts, str):
        return subscripts, tuple(operands)
    items = (subscripts, *operands)
    arrays, lists = items[: len(items) // 2 * 2 : 2], items[1::2]
    result = items[-1] if len(items) % 2 else None
    given = [*lists, *([] if result is None else [result])]
    for index, labels in enumerate(given):
        if isinstance(labels, Tensor) or not isinstance(labels, list | tuple):
            raise ArgumentError(
                op=op,
                argument=f"index list {index}",
                got=type(labels).__name__,
                expected="a list of integers and Ellipsis",
                hint="The interleaved form is einsum(a, [0, 1], b, [1, 2], [0, 2])",
            )
    numbers = sorted({label for labels in given for label in labels if label is not Ellipsis}, key=_integer(op))
    # Increasing letters keep the implicit output in the order of the integers.
    letters = dict(zip(numbers, (_letter(rank) for rank in range(len(numbers))), strict=True))
    words = ["".join("..." if label is Ellipsis else letters[label] for label in labels) for labels in given]
    text = ",".join(words[: len(arrays)])
    return (text if result is None else f"{text}->{words[-1]}"), tuple(arrays)


def _integer(op: str) -> Any:
    def key(label: Any) -> int:
        if isinstance(label, bool) or not hasattr(label, "__index__"):
            raise ArgumentError(op, "index", label, "an integer or Ellipsis")
        return int(label.__index__())

    return key


def _letter(rank: int) -> str:
    if rank < 26:
        return chr(ord("A") + rank)
    return chr(ord("a") + rank - 26) if rank < 52 else chr(_SUBLIST_START + rank)


def parse(op: str, subscripts: str, shapes: Sequence[Sequence[int]]) -> Equation:
    """Read ``subscripts`` for operands of these shapes.

    Raises:
        ArgumentError: the expression is malformed, or does not fit the shapes.
    """
    check.kind(op, "subscripts", subscripts, str, "a text such as 'ij,jk->ik'")
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    check.refuse(len(terms) != len(shapes), op, "number of operands", {"subscripts": len(terms), "call": len(shapes)})
    for where, term in enumerate(terms):
        _check_letters(op, term, f"subscripts of operand {where}")
    _check_letters(op, right, "output")
    used = set(left) | set(right)
    spare = (chr(code) for code in range(0x3B1, 0x3B1 + 4096) if chr(code) not in used)
    widths = [_ellipsis_width(op, term, shape, n) for n, (term, shape) in enumerate(zip(terms, shapes, strict=True))]
    dots = [next(spare) for _ in range(max([0, *widths]))]
    inputs = tuple(
        term.replace("...", "".join(dots[len(dots) - width :])) for term, width in zip(terms, widths, strict=True)
    )
    letters = [label for term in terms for label in term.replace("...", "")]
    if arrow:
        output = right.replace("...", "".join(dots))
        if dots and "..." not in right:
            raise ArgumentError(
                op=op,
                argument="output",
                got=right,
                expected="an ellipsis, because the operands have one",
                hint="Write '...' in the output to keep these axes, or name them to sum over them",
            )
    else:
        output = "".join(dots) + "".join(sorted(label for label in set(letters) if letters.count(label) == 1))
    known = set(letters) | set(dots)
    for label in output:
        if label not in known:
            raise ArgumentError(op, "output label", label, f"one of the labels of {left!r}")
        if output.count(label) > 1:
            raise ArgumentError(op, "output", right, f"every label once; {label!r} is repeated")
    return Equation(inputs, output, _sizes(op, inputs, shapes))


def _check_letters(op: str, term: str, where: str) -> None:
    bare = term.replace("...", "", 1)
    for label in bare:
        check.refuse(not label.isalpha(), op, where, term, "letters and at most one '...'")


def _ellipsis_width(op: str, term: str, shape: Sequence[int], index: int) -> int:
    named = len(term.replace("...", ""))
    width = len(shape) - named
    if width < 0 or (width > 0 and "..." not in term):
        raise ArgumentError(
            op=op,
            argument=f"number of axes of operand {index}",
            got={f"subscripts {term!r}": named, "operand": len(shape)},
            hint="Name every axis, or stand '...' for the rest",
        )
    return width


def _sizes(op: str, inputs: Sequence[str], shapes: Sequence[Sequence[int]]) -> tuple[tuple[str, int], ...]:
    """Return the size of every label; an axis of length 1 broadcasts against a longer one of the same label."""
    sizes: dict[str, int] = {}
    owner: dict[str, int] = {}
    for index, (labels, shape) in enumerate(zip(inputs, shapes, strict=True)):
        for label, size in zip(labels, shape, strict=True):
            first = shape[labels.index(label)]
            if first != size:
                raise ArgumentError(
                    op=op,
                    argument=f"size of {label!r} in operand {index}",
                    got={f"axis {labels.index(label)}": first, "a later axis": size},
                    hint="A diagonal has axes of one length",
                )
            before = sizes.get(label, 1)
            if before != size and before != 1 and size != 1:
                raise ArgumentError(
                    op, f"size of {label!r}", {f"operand {owner[label]}": before, f"operand {index}": size}
                )
            if label not in sizes or size != 1:
                sizes[label], owner[label] = int(size), index
    return tuple(sizes.items())


def common_dtype(op: str, tensors: Sequence[Any]) -> torch.dtype:
    """Check that operands are tensors on one device, and return the dtype that holds them all."""
    if not tensors:
        raise ArgumentError(op, "number of operands", 0, "at least one")
    for index, x in enumerate(tensors):
        if type(x) is not Tensor or x.layout is not torch.strided or x.is_nested:
            check.dense(op, **{f"operand {index}": x})
        if x.dtype not in DTYPES:
            raise DtypeError(
                op=op,
                argument=f"dtype of operand {index}",
                got=x.dtype,
                expected="a floating-point, complex, integer or bool dtype of 8 to 128 bits that torch computes with",
                hint="Convert it, to bfloat16 or float32",
            )
    first = tensors[0]
    dtype: torch.dtype = first.dtype
    for index, x in enumerate(tensors[1:], 1):
        if x.dtype != dtype:
            dtype = _promote_dtype(op, index, dtype, x.dtype)
        if x.device != first.device:
            raise ArgumentError(
                op=op,
                argument="device",
                got={"operand 0": first.device, f"operand {index}": x.device},
                hint="Move one side with .to(device)",
            )
    return dtype


def _promote_dtype(op: str, index: int, dtype: torch.dtype, other: torch.dtype) -> torch.dtype:
    try:
        return torch.promote_types(dtype, other)
    except RuntimeError:
        raise DtypeError(
            op=op,
            argument=f"dtype of operand {index}",
            got=other,
            expected=f"{str(dtype).removeprefix('torch.')}, because torch has no common dtype for the two",
            hint="Convert one of them",
        ) from None
