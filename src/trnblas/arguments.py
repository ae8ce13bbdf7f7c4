"""What BLAS functions share: flags in SciPy's spelling, coefficients, vectors as matrices, triangles."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from trnsci import ArgumentError, DtypeError, check

Trans = Literal["n", "t", "c"]

HALF = (torch.float16, torch.bfloat16)

# SciPy's spellings; False and True are the keys 0 and 1.
_TRANS: dict[bool | int | str, Trans] = {0: "n", 1: "t", 2: "c", "n": "n", "t": "t", "c": "c"}


def transposition(op: str, value: bool | int | str, argument: str = "trans") -> Trans:
    """Read a ``trans`` flag: ``False``/0/"n", ``True``/1/"t" or 2/"c"."""
    kind = _TRANS.get(value.lower() if isinstance(value, str) else value)
    if kind is None:
        check.option(op, argument, value, (False, True, "n", "t", "c", 0, 1, 2))
        raise AssertionError("every accepted spelling is in the table")
    return kind


def applied(kind: Trans, x: Tensor) -> Tensor:
    """``op(x)`` as a view."""
    if kind == "n":
        return x
    return x.mH if kind == "c" and x.is_complex() else x.mT


def flag(op: str, argument: str, value: bool | int | str, letters: str) -> bool:
    """Read a yes/no flag: 0 or 1, or BLAS's letter for no and for yes (``"ul"`` for ``lower``)."""
    spelled = value.lower() if isinstance(value, str) else value
    if spelled in (0, letters[0]):
        return False
    if spelled in (1, letters[1]):
        return True
    check.option(op, argument, value, (False, True, *letters))
    raise AssertionError("every accepted spelling is handled")


def coefficient(op: str, argument: str, value: Any, dtype: torch.dtype) -> complex:
    """Read alpha, beta and the like: a number, real unless the operands are complex."""
    if type(value) is float:
        return value
    number = check.number(op, argument, value)
    if isinstance(number, complex) and not dtype.is_complex:
        expected = f"a real number, because the operands are {str(dtype).removeprefix('torch.')}"
        raise DtypeError(op=op, argument=argument, got=number, expected=expected)
    return number


def real(op: str, argument: str, value: Any) -> float:
    """Read a coefficient that is real whatever the operands are (Hermitian updates)."""
    number = check.number(op, argument, value)
    if isinstance(number, complex):
        if number.imag != 0:
            raise DtypeError(op=op, argument=argument, got=number, expected="a real number: the result is Hermitian")
        return number.real
    return float(number)


def agree(op: str, dimension: str, sizes: dict[str, Any]) -> None:
    """All sizes are equal, where the names of the arguments are data."""
    check.equal(op, dimension, **sizes)


def needed(op: str, argument: str, value: Tensor | None, coefficient: str, number: complex, shape: str) -> None:
    """An addend is given when its coefficient is not 0."""
    if value is None and number != 0:
        expected = f"a tensor {shape}, because {coefficient} is {number}"
        raise ArgumentError(op=op, argument=argument, got=None, expected=expected)


def square(op: str, **values: Tensor) -> int:
    """Every value is [..., N, N]; returns N of the first."""
    for name, value in values.items():
        check.ndim(op, 2, **{name: value})
        if value.shape[-1] != value.shape[-2]:
            raise ArgumentError(op=op, argument=f"shape of {name}", got=tuple(value.shape), expected="[..., N, N]")
    return next(iter(values.values())).shape[-1]


def vectors(op: str, **values: Tensor) -> torch.dtype:
    """Every value is a floating vector [..., N] of one dtype, on one device."""
    dtype = check.floating(op, **values)
    check.ndim(op, 1, **values)
    check.same_device(op, **values)
    return dtype


def triangle_mask(n: int, lower: bool, device: torch.device) -> Tensor:
    """True on the stored triangle, diagonal included."""
    mask = torch.ones(n, n, dtype=torch.bool, device=device)
    return mask.tril_() if lower else mask.triu_()


def triangle(x: Tensor, lower: bool, unit: bool = False) -> Tensor:
    """The stored triangle of ``x``, zeros elsewhere; the other one is not read. ``unit`` puts ones on the diagonal."""
    if not unit:
        return x.tril() if lower else x.triu()
    strict = x.tril(-1) if lower else x.triu(1)
    return strict + torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def in_place(*tensors: Tensor | None) -> bool:
    """Whether a result may be assembled by writing into it: nothing differentiates or transforms the call."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    return not (torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors))


def rounds(*tensors: Tensor | None) -> str | None:
    """Why a kernel that computes in fp32 refuses these operands, or ``None``."""
    for t in tensors:
        if t is not None and t.dtype in (torch.float64, torch.complex128):
            name = str(t.dtype).removeprefix("torch.")
            return f"the kernel computes in fp32 and would round {name}; convert with .to(), or use backend 'pytorch'"
    return None
