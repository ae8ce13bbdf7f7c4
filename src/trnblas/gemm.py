"""General matrix multiply: ``alpha * op(a) @ op(b) + beta * c``, batched over leading axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas.kernels import gemm as kernels
from trnsci import ArgumentError, DtypeError, Op, array_function, check, merge_complex, split_complex
from trnsci.gradient import Saved
from trnsci.nki import P_MAX, launch
from trnsci.precision import Precision, arithmetic, resolve, to_bfloat16_values

HALF = (torch.float16, torch.bfloat16)

# SciPy's spellings; False and True are the keys 0 and 1.
_TRANS: dict[bool | int | str, str] = {0: "n", 1: "t", 2: "c", "n": "n", "t": "t", "c": "c"}


@array_function
def gemm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Multiply matrices: ``alpha * op(a) @ op(b) + beta * c``.

    Args:
        alpha: a number. When it is 0, ``a`` and ``b`` are not read and get no gradient.
        a: [..., M, K], or [..., K, M] when transposed.
        b: [..., K, N], or [..., N, K] when transposed.
        beta: a number. When it is 0, ``c`` is not read.
        c: [..., M, N]; needed when ``beta`` is not 0.
        trans_a: ``False``/``"n"``/0, ``True``/``"t"``/1 (transpose) or ``"c"``/2 (conjugate transpose).
        trans_b: the same for ``b``.
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than the operands.
        out: [..., M, N], memory for the result, shared with no operand.

    Returns:
        [..., M, N] in the operands' dtype. Leading axes broadcast.

    Raises:
        ArgumentError: shapes, devices, options or ``out`` do not fit.
        DtypeError: operands are not floating-point, or their dtypes differ.
        UnsupportedError: the backend asked for has no implementation for this dtype and precision.

    Error bound:
        ``|error| <= g(K + 2) * (|alpha| |a| @ |b| + |beta| |c|)`` elementwise, where ``g(n) = n u / (1 - n u)`` and
        ``u`` is the unit roundoff of the arithmetic: 2**-24 for fp32 and fast, 2**-53 for fp64. Complex products count
        ``2K + 1`` terms, and sqrt(2) for the two parts. ``fast`` adds ``2**-6.99 |a| @ |b|`` for rounding operands to
        bfloat16. A result stored in fewer bits than the arithmetic has is rounded once more.

    Cost:
        ``2MNK`` FLOPs per matrix, four times as many for complex operands.

    Example:
        >>> gemm(2.0, torch.ones(2, 3), torch.ones(3, 2))
        tensor([[6., 6.],
                [6., 6.]])
    """
    dtype = check.floating("gemm", a=a, b=b) if c is None else check.floating("gemm", a=a, b=b, c=c)
    if trans_a is not False:
        a = _transposed("a", trans_a, a)
    if trans_b is not False:
        b = _transposed("b", trans_b, b)
    _check(a, b, c, beta)
    if type(alpha) is not float or type(beta) is not float:
        alpha, beta = _coefficient("alpha", alpha, dtype), _coefficient("beta", beta, dtype)
    policy = resolve("gemm", precision, dtype)
    if out is None:
        return _gemm(a, b, c, alpha, beta, policy)
    shape = tuple(_fake(a, b, c, alpha, beta, policy).shape)
    check.out("gemm", out, shape=shape, dtype=dtype, a=a, b=b, c=c)
    return _gemm.write(out, a, b, c, alpha, beta, policy)


def _transposed(name: str, trans: bool | int | str, x: Tensor) -> Tensor:
    kind = _TRANS.get(trans.lower() if isinstance(trans, str) else trans)
    if kind is None:
        check.option("gemm", f"trans_{name}", trans, (False, True, "n", "t", "c", 0, 1, 2))
    if kind == "n":
        return x
    check.ndim("gemm", 2, **{name: x})
    return x.mH if kind == "c" and x.is_complex() else x.mT


def _check(a: Tensor, b: Tensor, c: Tensor | None, beta: complex) -> None:
    """Shapes and devices fit. Comparisons are inline, and `check` is called where one fails, to say so."""
    a_shape, b_shape = a.shape, b.shape
    if len(a_shape) < 2 or len(b_shape) < 2:
        check.ndim("gemm", 2, a=a, b=b)
    if a_shape[-1] != b_shape[-2]:
        check.equal("gemm", "K", a=a_shape[-1], b=b_shape[-2], hint="Transpose one of them with trans_a or trans_b?")
    if a.device != b.device:
        check.same_device("gemm", a=a, b=b)
    if a_shape[:-2] != b_shape[:-2]:
        check.broadcast("gemm", a=a_shape[:-2], b=b_shape[:-2])
    if c is not None:
        c_shape = c.shape
        if len(c_shape) < 2 or c_shape[-2] != a_shape[-2] or c_shape[-1] != b_shape[-1]:
            check.ndim("gemm", 2, c=c)
            check.equal("gemm", "M", a=a_shape[-2], c=c_shape[-2])
            check.equal("gemm", "N", b=b_shape[-1], c=c_shape[-1])
        if a.device != c.device:
            check.same_device("gemm", a=a, c=c)
        if c_shape[:-2] != a_shape[:-2] or c_shape[:-2] != b_shape[:-2]:
            check.broadcast("gemm", a=a_shape[:-2], b=b_shape[:-2], c=c_shape[:-2])
    elif beta != 0:
        raise ArgumentError(op="gemm", argument="c", got=None, expected=f"a tensor [..., M, N], because beta is {beta}")


def _coefficient(argument: str, value: complex, dtype: torch.dtype) -> complex:
    number = check.number("gemm", argument, value)
    if isinstance(number, complex) and not dtype.is_complex:
        expected = f"a real number, because the operands are {str(dtype).removeprefix('torch.')}"
        raise DtypeError(op="gemm", argument=argument, got=number, expected=expected)
    return number


def _fake(a: Tensor, b: Tensor, c: Tensor | None, alpha: complex, beta: complex, precision: Precision) -> Tensor:
    batch = check.broadcast("gemm", a=a.shape[:-2], b=b.shape[:-2], c=() if c is None else c.shape[:-2])
    return a.new_empty((*batch, a.shape[-2], b.shape[-1]))


def _cost(a: Tensor, b: Tensor, c: Tensor | None, alpha: complex, beta: complex, precision: Precision) -> int:
    products = math.prod(check.broadcast("gemm", a=a.shape[:-2], b=b.shape[:-2]))
    flops = 2 * products * a.shape[-2] * a.shape[-1] * b.shape[-1]
    return 4 * flops if a.is_complex() else flops


_gemm = Op(
    "trnblas::gemm",
    fake=_fake,
    cost=_cost,
    schema="(Tensor a, Tensor b, Tensor? c, Scalar alpha, Scalar beta, str precision) -> Tensor",
)


def _pytorch_limits(
    a: Tensor, b: Tensor, c: Tensor | None, alpha: complex, beta: complex, precision: Precision
) -> str | None:
    return "precision 'compensated' is not implemented" if precision == "compensated" else None


@_gemm.impl("pytorch", limits=_pytorch_limits)
def _pytorch(a: Tensor, b: Tensor, c: Tensor | None, alpha: complex, beta: complex, precision: Precision) -> Tensor:
    dtype, work = a.dtype, arithmetic(precision, a.dtype)
    if precision == "fast" and dtype not in HALF:
        a, b = to_bfloat16_values(a), to_bfloat16_values(b)
    if work is dtype:
        return _multiply(a, b, c, alpha, beta)
    return _multiply(a.to(work), b.to(work), None if c is None else c.to(work), alpha, beta).to(dtype)


@_gemm.into
def _pytorch_into(
    out: Tensor, a: Tensor, b: Tensor, c: Tensor | None, alpha: complex, beta: complex, precision: Precision
) -> None:
    if precision != "fast" and arithmetic(precision, a.dtype) is a.dtype:
        _multiply(a, b, c, alpha, beta, out)
    else:
        out.copy_(_pytorch(a, b, c, alpha, beta, precision))


def _multiply(
    a: Tensor, b: Tensor, c: Tensor | None, alpha: complex, beta: complex, out: Tensor | None = None
) -> Tensor:
    if alpha == 0:
        zero = _fake(a, b, c, alpha, beta, "fp32").zero_()
        return torch.add(zero, zero if c is None or beta == 0 else c, alpha=beta, out=out)
    if c is None or beta == 0:
        if alpha == 1 and c is None:
            return torch.matmul(a, b, out=out)
        if a.ndim == 2 and b.ndim == 2 and (c is None or c.ndim == 2):
            return torch.addmm(a.new_empty(()), a, b, beta=0, alpha=alpha, out=out)
        product = a @ b
        return torch.mul(product if c is None else product.expand_as(_fake(a, b, c, 1, 0, "fp32")), alpha, out=out)
    if a.ndim == 2 and b.ndim == 2 and c.ndim == 2:
        return torch.addmm(c, a, b, beta=beta, alpha=alpha, out=out)
    if a.ndim == 3 and b.ndim == 3 and c.ndim == 3 and a.shape[0] == b.shape[0] == c.shape[0]:
        return torch.baddbmm(c, a, b, beta=beta, alpha=alpha, out=out)
    return torch.add((a @ b).mul_(alpha), c, alpha=beta, out=out)


@_gemm.vjp(saves=("a", "b"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    a, b, policy = saved.a, saved.b, saved.precision
    alpha, beta = saved.alpha.conjugate(), saved.beta.conjugate()
    found = {}
    if saved.needs("a"):
        found["a"] = gemm(alpha, grad, b, trans_b="c", precision=policy).sum_to_size(a.shape)
    if saved.needs("b"):
        found["b"] = gemm(alpha, a, grad, trans_a="c", precision=policy).sum_to_size(b.shape)
    if saved.needs("c"):
        found["c"] = (beta * grad).sum_to_size(saved.c.shape)
    return found


def _nki_limits(
    a: Tensor, b: Tensor, c: Tensor | None, alpha: complex, beta: complex, precision: Precision
) -> str | None:
    if precision in ("fp64", "compensated"):
        return f"the kernel computes in fp32 and would round precision {precision!r}; ask for fp32 or fast"
    return None


@_gemm.impl("nki", limits=_nki_limits)
def _nki(a: Tensor, b: Tensor, c: Tensor | None, alpha: complex, beta: complex, precision: Precision) -> Tensor:
    result = _fake(a, b, c, alpha, beta, precision)
    batch = result.shape[:-2]
    # A batch of addends to one product: the kernel sees a batch of products.
    if c is not None and c.ndim > 2:
        a = a.expand(*batch, *a.shape[-2:])
    c = None if beta == 0 else c
    if result.numel() == 0 or a.shape[-1] == 0 or alpha == 0:
        return result.zero_() if c is None else beta * c.expand_as(result)
    if a.is_complex():
        return _nki_complex(a, b, c, alpha, beta, precision)
    half = a.dtype in HALF
    operand = a.dtype if half else torch.bfloat16 if precision == "fast" else torch.float32
    # One right factor for a batch of left ones: the batch is more rows of one product.
    if b.ndim == 2 and c is None:
        a, batch = a.reshape(-1, a.shape[-1]), torch.Size()
    aT_hbm = _stacked(a.mT, batch).to(operand).contiguous()  # [B or 1, K, M]
    b_hbm = _stacked(b, batch).to(operand).contiguous()  # [B or 1, K, N]
    c_hbm = None
    if c is not None:
        c_hbm = _stacked(c.expand_as(result), batch).to(c.dtype if half else torch.float32).contiguous()  # [B, M, N]
    scale_hbm = None
    if alpha != 1 or c is not None:
        scale_hbm = torch.tensor([alpha, beta], device=a.device).float().expand(P_MAX, 2).contiguous()  # [p, 2]
    product: Tensor = launch(kernels.gemm, aT_hbm, b_hbm, c_hbm, scale_hbm, half=half)  # [B, M, N]
    return product.reshape(result.shape).to(result.dtype)


def _stacked(x: Tensor, batch: torch.Size) -> Tensor:
    """One leading axis: of length 1 when a single matrix serves the whole batch."""
    if x.ndim == 2:
        return x.unsqueeze(0)
    return x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:])


def _nki_complex(a: Tensor, b: Tensor, c: Tensor | None, alpha: complex, beta: complex, precision: Precision) -> Tensor:
    """One real product of twice the height and depth: ``[[Re a, -Im a], [Im a, Re a]] @ [[Re b], [Im b]]``."""
    a_re, a_im = split_complex(a)
    rows = torch.cat([torch.cat([a_re, -a_im], -1), torch.cat([a_im, a_re], -1)], -2)  # [..., 2M, 2K]
    columns = torch.cat(split_complex(b), -2)  # [..., 2K, N]
    real, imag = _nki(rows, columns, None, 1.0, 0.0, precision).chunk(2, -2)
    product = merge_complex(real, imag)
    product = product if alpha == 1 else alpha * product
    return product if c is None else product + beta * c
