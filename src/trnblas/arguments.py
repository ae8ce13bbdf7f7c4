"""What BLAS functions share: flags in SciPy's spelling, coefficients, vectors as matrices, triangles."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from trnblas import host
from trnsci import ArgumentError, DtypeError, Singular, check
from trnsci.nki import N_TILE, P_MAX

Trans = Literal["n", "t", "c"]

HALF = (torch.float16, torch.bfloat16)
FLOATING = frozenset((*HALF, torch.float32, torch.float64, torch.complex64, torch.complex128))

# Elements of a partition that kernels over vectors read at a time.
_WIDTH = 4 * N_TILE
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
    if value is False or value is True:
        return value
    spelled = value.lower() if isinstance(value, str) else value
    if spelled in (0, letters[0]):
        return False
    if spelled in (1, letters[1]):
        return True
    check.option(op, argument, value, (False, True, *letters))
    raise AssertionError("every accepted spelling is handled")


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


def accumulated(
    op: str, alpha: complex, made: Tensor, beta: complex, y: Tensor | None, out: Tensor | None, **operands: Tensor
) -> Tensor:
    """``alpha * made + beta * y`` for a vector just computed, into ``out`` where that is given."""
    alpha, beta = check.coefficient(op, "alpha", alpha, made.dtype), check.coefficient(op, "beta", beta, made.dtype)
    needed(op, "y", y, "beta", beta, "[..., M]")
    if y is not None:
        check.floating(op, **operands, y=y)
        check.equal(op, "M", product=made.shape[-1], y=y.shape[-1] if y.ndim else 0)
    if alpha == 0:
        made = torch.zeros_like(made)
    elif alpha != 1:
        made = alpha * made
    made = made if y is None or beta == 0 else made + beta * y
    if out is None:
        return made
    check.out(op, out, shape=tuple(made.shape), dtype=made.dtype, **operands, y=y)
    return out.copy_(made)


def square(op: str, **values: Tensor) -> int:
    """Every value is [..., N, N]; returns N of the first."""
    for name, value in values.items():
        check.ndim(op, 2, **{name: value})
        if value.shape[-1] != value.shape[-2]:
            raise ArgumentError(op=op, argument=f"shape of {name}", got=tuple(value.shape), expected="[..., N, N]")
    return next(iter(values.values())).shape[-1]


def vectors(op: str, x: Tensor, y: Tensor | None = None) -> torch.dtype:
    """``x``, and ``y`` where it is given, are floating vectors [..., N] of one dtype, on one device."""
    if y is None:
        if not alike(x) or x.ndim == 0:
            check.floating(op, x=x)
            check.ndim(op, 1, x=x)
    elif not alike(x, y) or x.ndim == 0 or y.ndim == 0:
        check.floating(op, x=x, y=y)
        check.same_device(op, x=x, y=y)
        check.ndim(op, 1, x=x, y=y)
    return x.dtype


def alike(first: Any, *others: Any) -> bool:
    """Whether all are tensors of one floating dtype on one device. Where not, `check` has the words for it."""
    if type(first) is not Tensor:
        return False
    dtype, device = first.dtype, first.device
    for t in others:
        if type(t) is not Tensor or t.dtype is not dtype or t.device != device:
            return False
    return dtype in FLOATING


def fits(a: Any, x: Any) -> bool:
    """Whether these are one square matrix and one vector of its size: most calls, which need no other check."""
    return alike(a, x) and a.ndim == 2 and x.ndim == 1 and a.shape[0] == a.shape[1] == x.shape[0]


def nonsingular(op: str, diagonal: Tensor) -> None:
    """No zero on the diagonal [..., N]; the error names the first."""
    if host.plain(diagonal):
        if host.nonzero(diagonal.numpy()):
            return
    elif diagonal.is_meta or torch._C._functorch.peek_interpreter_stack() is not None:
        return
    zero = diagonal.detach() == 0
    if bool(zero.any()):
        *batch, index = zero.nonzero()[0].tolist()
        raise Singular(op=op, index=index, batch=tuple(batch))


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
    for t in tensors:
        if t is not None and t.requires_grad:
            return not torch.is_grad_enabled()
    return True


def rounds(*tensors: Tensor | None) -> str | None:
    """Why a kernel that computes in fp32 refuses these operands, or ``None``."""
    for t in tensors:
        if t is not None and t.dtype in (torch.float64, torch.complex128):
            name = str(t.dtype).removeprefix("torch.")
            return f"the kernel computes in fp32 and would round {name}; convert with .to(), or use backend 'pytorch'"
    return None


def spread(x: Tensor, *, repeat: bool = False) -> Tensor:
    """Cut each vector over the partitions: [B, p, width], filled up with zeros or with its own first element."""
    count = x.shape[-1]
    width = max(8, -(-count // P_MAX))
    width = width if width <= _WIDTH else -(-width // _WIDTH) * _WIDTH
    rows = x.reshape(-1, count)
    if count < width * P_MAX:
        missing = width * P_MAX - count
        filler = rows[:, :1].expand(-1, missing) if repeat else rows.new_zeros(()).expand(rows.shape[0], missing)
        rows = torch.cat([rows, filler], -1)
    return rows.reshape(-1, P_MAX, width).contiguous()
