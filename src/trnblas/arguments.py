"""Arguments of BLAS functions: flags in SciPy's spelling, coefficients, vectors as matrices, triangles."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnsci import ArgumentError, DtypeError, Singular, check, host
from trnsci.analogs import Different, Given, as_number, given
from trnsci.arrays import to_numpy
from trnsci.nki import N_TILE, P_MAX
from trnsci.torch_internals import peek_interpreter_stack

Trans = Literal["n", "t", "c"]

HALF = (torch.float16, torch.bfloat16)

# Elements of a partition that kernels over vectors read at a time.
_WIDTH = 4 * N_TILE
# SciPy's spellings; False and True are the keys 0 and 1.
_TRANS: dict[bool | int | str, Trans] = {0: "n", 1: "t", 2: "c", "n": "n", "t": "t", "c": "c"}

# Bytes from which on the C library maps memory anew for every result.
_MAPPED = 1 << 25
# BLAS's letters in full.
_WORDS = {"upper": "u", "lower": "l", "left": "l", "right": "r", "unit": "u", "nonunit": "n", "non-unit": "n"}


def transposition(op: str, value: bool | int | str, argument: str = "trans") -> Trans:
    """Read a ``trans`` flag: ``False``/0/"n", ``True``/1/"t" or 2/"c"."""
    kind = _TRANS[value] if value is False or value is True else None
    if kind is None and isinstance(value, Hashable):
        kind = _TRANS.get(value.lower() if isinstance(value, str) else value)
    if kind is None:
        check.option(op, argument, value, (False, True, "n", "t", "c", 0, 1, 2))
        raise AssertionError("every accepted spelling is in the table")
    return kind


def transpose_by(kind: Trans, x: Tensor) -> Tensor:
    """Return ``op(x)`` as a view."""
    if kind == "n":
        return x
    return x.mH if kind == "c" and x.is_complex() else x.mT


def flag(op: str, argument: str, value: bool | int | str, letters: str) -> bool:
    """Read a yes/no flag: 0 or 1, or BLAS's letter or word for no and for yes (``"ul"`` for ``lower``)."""
    if value is False or value is True:
        return value
    spelled = _WORDS.get(value.lower(), value.lower()) if isinstance(value, str) else value
    if isinstance(value, Tensor) and (value.ndim or value.layout != torch.strided):
        check.option(op, argument, value, (False, True, *letters))
    if spelled in (0, letters[0]):
        return False
    if spelled in (1, letters[1]):
        return True
    check.option(op, argument, value, (False, True, *letters))
    raise AssertionError("every accepted spelling is handled")


def real(op: str, argument: str, value: Any) -> float:
    """Read a coefficient that is real whatever the operands are (Hermitian updates)."""
    if type(value) is float:
        return value
    scalar = complex(check.number(op, argument, value))
    if scalar.imag != 0:
        raise DtypeError(op, argument, scalar, "a real number: the result is Hermitian")
    return scalar.real


def require(op: str, argument: str, value: Tensor | None, *, coefficient: str, scalar: complex, shape: str) -> None:
    """Check that an addend is given when its coefficient is not 0."""
    if value is None and scalar != 0:
        raise ArgumentError(op, argument, None, f"a tensor {shape}, because {coefficient} is {scalar}")


def combine(product: Tensor, alpha: complex, beta: complex, c: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return ``alpha * product + beta * c`` in the arithmetic of ``product``, rounded to ``dtype`` once.

    The shape is what both broadcast to. A coefficient of 0 does not read its operand. Half precision is scaled and
    added in float32.
    """
    if c is None and alpha == 1 and product.dtype is dtype:
        return product
    if product.dtype in HALF:
        product = product.float()
    shape = product.shape if c is None else torch.broadcast_shapes(product.shape, c.shape)
    if alpha == 0:
        product = torch.zeros_like(product)
    elif alpha != 1:
        product = alpha * product
    if c is not None and beta != 0:
        product = torch.add(product, c.to(product.dtype), alpha=beta)
    return product.expand(shape).to(dtype)


def conjugate(value: complex, like: Tensor) -> complex:
    """Return the coefficient a gradient is multiplied by."""
    return complex(value).conjugate() if like.is_complex() else complex(value).real


def through(call: Any, names: Sequence[str], grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
    """Differentiate a call's own definition, whose tensors are the fields ``names``; gradients have gradients, too."""
    again = torch.is_grad_enabled()
    wanted = [name for name in names if name in needs]
    with torch.enable_grad():
        # Views, so that one tensor in two fields has two gradients.
        fields = {name: x.view_as(x) for name in names if (x := getattr(call, name)) is not None}
        result = call._replace(**fields).pytorch()
        gradients = torch.autograd.grad(result, [fields[name] for name in wanted], grad, create_graph=again)
    return dict(zip(wanted, gradients, strict=True))


def square(op: str, value: Tensor, name: str = "a") -> int:
    """Check that a value is [..., N, N], and return N."""
    shape = value.shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        check.ndim(op, 2, **{name: value})
        raise ArgumentError(op, f"shape of {name}", tuple(shape), "[..., N, N]")
    return shape[-1]


def check_sides(
    op: str, a: Tensor, b: Tensor, c: Tensor | None, right: bool, *, vector: str, out: Tensor | None
) -> tuple[int, ...]:
    """Check a square ``a`` beside ``b`` and an addend like ``b``; return the shape of the result.

    ``vector`` is the letter of their length where ``b`` and ``c`` are vectors, called x and y, else empty.
    """
    second, third = "xy" if vector else "bc"
    operands = {"a": a, second: b} if c is None else {"a": a, second: b, third: c}
    if not matching(a, b, c):
        alike(op, **operands)
    own = -1 if vector else -2  # where the axes of one vector or one matrix begin
    n = square(op, a)
    check.ndim(op, -own, **operands)
    rows = -1 if right else own
    if b.shape[rows] != n:
        check.equal(op, vector or "MN"[right], "", **{"a": n, second: b.shape[rows]})
    if c is not None and b.shape[own:] != c.shape[own:]:
        check.equal(op, "shape", "", **{second: tuple(b.shape[own:]), third: tuple(c.shape[own:])})
    batches = {name: x.shape[: -2 if name == "a" else own] for name, x in operands.items()}
    shape = (*(check.broadcast(op, **batches) if any(batches.values()) else ()), *b.shape[own:])
    if out is not None:
        check.out(op, out, shape=shape, dtype=a.dtype, **operands)
    return shape


def vectors(op: str, *xs: Tensor) -> torch.dtype:
    """Check that ``x``, or ``x`` and ``y``, are floating [..., N] of one dtype on one device."""
    if not matching(*xs) or xs[0].ndim == 0 or xs[-1].ndim == 0:
        named = dict(zip("xy", xs, strict=False))
        alike(op, **named)
        check.ndim(op, 1, **named)
    return xs[0].dtype


def has_data(*tensors: Tensor) -> bool:
    """Return whether values can be read: no meta tensors, no trace, no transformation."""
    if is_compiling() or peek_interpreter_stack() is not None:
        return False
    return all(not x.is_meta and type(x) in (Tensor, torch.nn.Parameter) for x in tensors)


def matching(first: Any, *others: Any) -> bool:
    """Return whether all are tensors of one floating dtype on one device; the last of three may be ``None``."""
    if type(first) is not Tensor:
        return False
    dtype, in_host_memory = first.dtype, first.is_cpu
    for t in (first, others[0]) if len(others) == 2 and others[1] is None else (first, *others):
        if type(t) is not Tensor or t.layout is not torch.strided or t.is_nested or t.dtype is not dtype:
            return False
        if not (in_host_memory and t.is_cpu) and t.device != first.device:
            return False
    return dtype in check.FLOATING


def alike(op: str, **operands: Any) -> None:
    """Check that all are tensors of one floating dtype on one device; the last of three may be ``None``."""
    if not matching(*operands.values()):
        if len(operands) == 3 and [*operands.values()][-1] is None:
            operands.popitem()
        check.floating(op, **operands)
        check.same_device(op, **operands)


def add_product(
    function: Callable[..., Any], c: Tensor, a: Tensor, b: Tensor, *, beta: complex = 1, alpha: complex = 1
) -> Given:
    """Return the call of torch's ``addmm`` and its kin, whose first operand broadcasts."""
    if a.shape[-1] != b.shape[max(b.ndim - 2, 0)]:
        raise Different("the sizes of its operands differ")
    if beta == 0:
        return given(function, as_number(alpha), a, b)
    shape = (*a.shape[:-1], b.shape[-1]) if b.ndim > 1 else a.shape[:-1]
    return given(function, as_number(alpha), a, b, as_number(beta), c.expand(shape))


def nonsingular(op: str, a: Tensor, solved: Tensor, diagonal: Callable[[Any], Any]) -> None:
    """Check that the diagonal of ``a``, by which ``solved`` was divided, has no zero; the error names the first.

    A zero leaves an element of one vector infinite, NaN or, where a library divides no zeros, zero. Only then is the
    diagonal looked at: its elements are far apart.
    """
    if not has_data(a):
        return
    if solved.ndim == 1 and solved.is_cpu:
        x = to_numpy(solved)
        if np.count_nonzero(x) == len(x) == np.count_nonzero(np.isfinite(x)):
            return
    stored = diagonal(to_numpy(a) if a.is_cpu else a.detach())
    if not stored.all():
        *batch, index = torch.as_tensor(stored == 0, device="cpu").nonzero()[0].tolist()
        raise Singular(op=op, index=index, batch=tuple(batch))


def triangle_mask(n: int, lower: bool, device: torch.device) -> Tensor:
    """Return a mask that is true on the stored triangle, diagonal included."""
    mask = torch.ones(n, n, dtype=torch.bool, device=device)
    return mask.tril_() if lower else mask.triu_()


def triangle(x: Tensor, lower: bool, unit: bool = False) -> Tensor:
    """Return the stored triangle of ``x`` and zeros, without reading the rest; ``unit`` sets the diagonal to 1."""
    if not unit:
        return x.tril() if lower else x.triu()
    strict = x.tril(-1) if lower else x.triu(1)
    return strict + torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def real_diagonal(x: Tensor) -> Tensor:
    """Return a complex matrix with zeros for the imaginary parts of its diagonal."""
    diagonal = torch.diagonal(x, 0, -2, -1).real
    return torch.diagonal_scatter(x, torch.complex(diagonal, torch.zeros_like(diagonal)), 0, -2, -1)


def in_place(*tensors: Tensor | None) -> bool:
    """Return whether a result may be written piece by piece: nothing differentiates or transforms the call."""
    if peek_interpreter_stack() is not None:
        return False
    for t in tensors:
        if t is not None and t.requires_grad:
            return not torch.is_grad_enabled()
    return True


def large_pages(*operands: Tensor) -> Tensor | None:
    """Return memory for a large result on the host, like the first operand; ``None`` where torch must allocate it."""
    first = operands[0]
    if first.nbytes < _MAPPED or host.refusal(operands) is not None:
        return None
    return host.empty(first.shape, first.dtype)


def rounds(*tensors: Tensor | None) -> str | None:
    """Return why a kernel that computes in fp32 refuses these operands, or ``None``."""
    for t in tensors:
        if t is not None and t.dtype in (torch.float64, torch.complex128):
            name = str(t.dtype).removeprefix("torch.")
            return (
                f"the kernel computes in fp32 and would round {name}; convert it to float32, or use backend 'pytorch'"
            )
    return None


def stack(x: Tensor, batch: Sequence[int]) -> Tensor:
    """Flatten leading axes into one, of length 1 when the whole batch shares a matrix."""
    return x.unsqueeze(0) if x.ndim == 2 else x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:])


def by_planes(multiply: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, axes: tuple[int, int]) -> Tensor:
    """Multiply complex operands as a batch of four real products of their planes, the last ``axes`` of each."""
    batch = max(x.ndim - axes[0], y.ndim - axes[1])
    planes = (x.real, x.imag, x.real, x.imag), (y.real, y.imag, y.imag, y.real)
    lined_up = (
        torch.stack(parts).reshape(4, *[1] * (batch - t.ndim + own), *t.shape)
        for t, parts, own in zip((x, y), planes, axes, strict=True)
    )
    rr, ii, ri, ir = multiply(*lined_up)
    return torch.complex(rr - ii, ri + ir)


def over_partitions(x: Tensor, *, repeat: bool = False) -> Tensor:
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
