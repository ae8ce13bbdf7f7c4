"""General matrix multiply: ``alpha * op(a) @ op(b) + beta * c``, batched over leading axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas import host
from trnblas.accuracy import choose, error_bound, reported
from trnblas.arguments import HALF, applied, in_place, transposition
from trnblas.epilogue import ACTIVATIONS, Epilogue
from trnblas.kernels import gemm as kernels
from trnblas.split import exact_matmul, split_gemm
from trnsci import ArgumentError, Op, array_function, check, merge_complex, split_complex
from trnsci.gradient import Saved
from trnsci.nki import P_MAX, launch
from trnsci.precision import Precision, arithmetic, resolve, to_bfloat16_values


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
    target_error: float | None = None,
    epilogue: Epilogue | None = None,
    return_error: bool = False,
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
        target_error: error to guarantee, relative to ``|a| @ |b|``, instead of ``precision``: the cheapest policy that
            meets it is taken. `trnblas.error_bound` says what each guarantees.
        epilogue: scale, bias and activation to apply to the result, inside the kernel.
        return_error: return ``Achieved(result, error_bound)``: with the result, the error guaranteed where it was
            computed, relative to ``|a| @ |b|`` and before the epilogue. Plans and the ledger have it too.
        out: [..., M, N], memory for the result, shared with no operand except that it may be ``c`` itself.

    Returns:
        [..., M, N] in the operands' dtype. Leading axes broadcast.

    Raises:
        ArgumentError: shapes, devices, options or ``out`` do not fit.
        DtypeError: operands are not floating-point, or their dtypes differ.
        UnsupportedError: the backend asked for has no implementation for this dtype and precision.

    Error bound:
        ``|error| <= g(K + 2) * (|alpha| |a| @ |b| + |beta| |c|)`` elementwise, where ``g(n) = n u / (1 - n u)`` and
        ``u`` is the unit roundoff of the arithmetic: 2**-24 for fp32 and fast, 2**-53 for fp64. Complex products count
        ``2K + 1`` terms, and sqrt(2) for the two parts. ``compensated`` gives ``u |result| + g(K + 2) |a| @ |b|`` with
        the ``u`` of the dtype and the ``g`` of at least fp64: one rounding. ``fast`` adds ``2**-6.99 |a| @ |b|`` for
        rounding operands to bfloat16. A result stored in fewer bits than the arithmetic has is rounded once more.

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
        alpha, beta = check.coefficient("gemm", "alpha", alpha, dtype), check.coefficient("gemm", "beta", beta, dtype)
    if target_error is None:
        target, policy = 0.0, resolve("gemm", precision, dtype)
    else:
        k = a.shape[-1]
        policy = choose("gemm", precision, target_error, dtype, lambda p: error_bound(k, dtype, p), f"K={k}")
        target = float(target_error)
    call = (a, b, c, alpha, beta, policy, None, "none", target)
    if epilogue is not None:
        made = _with_epilogue(a, b, c, alpha, beta, policy, target, epilogue, out)
    elif out is None:
        made = _gemm(*call)
    else:
        check.out("gemm", out, shape=tuple(_fake(*call).shape), dtype=dtype, a=a, b=b, c=None if out is c else c)
        made = _gemm.write(out, *call)
    return reported(made, _gemm.error_bound(call), True) if return_error else made


def _with_epilogue(
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: complex,
    beta: complex,
    policy: Precision,
    target: float,
    epilogue: Epilogue,
    out: Tensor | None,
) -> Tensor:
    """Fuse where nothing is to be differentiated; PyTorch's own functions follow the product elsewhere."""
    epilogue.check("gemm", a, b.shape[-1])
    if out is not None:
        shape = tuple(_fake(a, b, c, alpha, beta, policy, None, "none", target).shape)
        check.out("gemm", out, shape=shape, dtype=a.dtype, a=a, b=b, c=c, bias=epilogue.bias)
    if in_place(a, b, c, epilogue.bias) and not torch.compiler.is_compiling():
        scaled = alpha * epilogue.scale, beta * epilogue.scale
        made = _gemm(a, b, c, *scaled, policy, epilogue.bias, epilogue.activation, target)
    else:
        made = epilogue(_gemm(a, b, c, alpha, beta, policy, None, "none", target))
    return made if out is None else out.copy_(made)


def _transposed(name: str, trans: bool | int | str, x: Tensor) -> Tensor:
    kind = transposition("gemm", trans, f"trans_{name}")
    if kind == "n":
        return x
    check.ndim("gemm", 2, **{name: x})
    return applied(kind, x)


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


def _fake(
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: complex,
    beta: complex,
    precision: Precision,
    bias: Tensor | None,
    activation: str,
    target: float,
) -> Tensor:
    return _shaped(a, b, c)


def _shaped(a: Tensor, b: Tensor, c: Tensor | None) -> Tensor:
    batch = check.broadcast("gemm", a=a.shape[:-2], b=b.shape[:-2], c=() if c is None else c.shape[:-2])
    return a.new_empty((*batch, a.shape[-2], b.shape[-1]))


def _cost(
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: complex,
    beta: complex,
    precision: Precision,
    bias: Tensor | None,
    activation: str,
    target: float,
) -> int:
    products = math.prod(check.broadcast("gemm", a=a.shape[:-2], b=b.shape[:-2]))
    flops = 2 * products * a.shape[-2] * a.shape[-1] * b.shape[-1]
    return 4 * flops if a.is_complex() else flops


_gemm = Op(
    "trnblas::gemm",
    fake=_fake,
    cost=_cost,
    schema="(Tensor a, Tensor b, Tensor? c, Scalar alpha, Scalar beta, str precision, "
    "Tensor? bias, str activation, float target) -> Tensor",
)


@_gemm.bound
def _bound(backend: str, *args: Any) -> float:
    a, precision, target = args[0], args[5], args[8]
    guaranteed = error_bound(a.shape[-1], a.dtype, precision)
    # The kernel cuts operands into no more slices than the target asks for.
    return guaranteed if backend == "pytorch" or precision in ("fast", "fp32") else max(guaranteed, target)


@_gemm.impl("pytorch")
def _pytorch(
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: complex,
    beta: complex,
    precision: Precision,
    bias: Tensor | None,
    activation: str,
    target: float,
) -> Tensor:
    dtype, work = a.dtype, arithmetic(precision, a.dtype)
    if precision == "compensated":
        made = _compensated(a, b, c, alpha, beta)
    elif precision == "fast" and dtype not in HALF:
        made = _multiply(to_bfloat16_values(a).to(work), to_bfloat16_values(b).to(work), _as(c, work), alpha, beta)
    elif work is dtype:
        made = _multiply(a, b, c, alpha, beta)
    else:
        made = _multiply(a.to(work), b.to(work), _as(c, work), alpha, beta)
    if bias is not None:
        made = made + bias
    if activation != "none":
        made = ACTIVATIONS[activation](made)
    return made.to(dtype)


def _as(c: Tensor | None, work: torch.dtype) -> Tensor | None:
    return None if c is None else c.to(work)


def _compensated(a: Tensor, b: Tensor, c: Tensor | None, alpha: complex, beta: complex) -> Tensor:
    if alpha == 0:
        return _multiply(a, b, c, alpha, beta)
    c = None if c is None or beta == 0 else c
    if c is None:
        product = exact_matmul(a, b)
        return product if alpha == 1 else alpha * product
    if a.dtype in (torch.float64, torch.complex128) or a.shape[-1] == 0:
        return alpha * exact_matmul(a, b) + beta * c
    wide = torch.complex128 if a.is_complex() else torch.float64
    return torch.add(beta * c.to(wide), a.to(wide) @ b.to(wide), alpha=alpha).to(a.dtype)


@_gemm.into
def _pytorch_into(
    out: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: complex,
    beta: complex,
    precision: Precision,
    bias: Tensor | None,
    activation: str,
    target: float,
) -> None:
    if precision in ("fp32", "fp64") and arithmetic(precision, a.dtype) is a.dtype:
        _multiply(a, b, c, alpha, beta, out)
    else:
        out.copy_(_pytorch(a, b, c, alpha, beta, precision, bias, activation, target))


def _multiply(
    a: Tensor, b: Tensor, c: Tensor | None, alpha: complex, beta: complex, out: Tensor | None = None
) -> Tensor:
    if alpha == 0:
        zero = _shaped(a, b, c).zero_()
        return torch.add(zero, zero if c is None or beta == 0 else c, alpha=beta, out=out)
    if c is None or beta == 0:
        if c is None and out is None and host.multiplies(a, b):
            made = host.product(a, b)
            return made if alpha == 1 else made.mul_(alpha)
        if alpha == 1 and c is None:
            return torch.matmul(a, b, out=out)
        if a.ndim == 2 and b.ndim == 2 and (c is None or c.ndim == 2):
            return torch.addmm(a.new_empty(()), a, b, beta=0, alpha=alpha, out=out)
        product = a @ b
        return torch.mul(product if c is None else product.expand_as(_shaped(a, b, c)), alpha, out=out)
    if a.ndim == 2 and b.ndim == 2 and c.ndim == 2:
        if a.shape[1] == 1:
            x, y = a.squeeze(1), b.squeeze(0)
            if out is None and host.plain(x, y):
                out = host.empty_like(c)
            return torch.addr(c, x, y, beta=beta, alpha=alpha, out=out)
        if out is None and host.multiplies(a, b):
            made = host.product(a, b)
            return (made if alpha == 1 else made.mul_(alpha)).add_(c, alpha=beta)
        return torch.addmm(c, a, b, beta=beta, alpha=alpha, out=out)
    if a.ndim == 3 and b.ndim == 3 and c.ndim == 3 and a.shape[0] == b.shape[0] == c.shape[0]:
        return torch.baddbmm(c, a, b, beta=beta, alpha=alpha, out=out)
    return torch.add((a @ b).mul_(alpha), c, alpha=beta, out=out)


@_gemm.vjp(saves=("a", "b"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    a, b, policy = saved.a, saved.b, saved.precision
    alpha, beta = saved.alpha.conjugate(), saved.beta.conjugate()
    found = {}
    # With an epilogue the op is called only where nothing is to be differentiated.
    assert saved.bias is None
    assert saved.activation == "none"
    if saved.needs("a"):
        found["a"] = gemm(alpha, grad, b, trans_b="c", precision=policy).sum_to_size(a.shape)
    if saved.needs("b"):
        found["b"] = gemm(alpha, a, grad, trans_a="c", precision=policy).sum_to_size(b.shape)
    if saved.needs("c"):
        found["c"] = (beta * grad).sum_to_size(saved.c.shape)
    return found


@_gemm.impl("nki")
def _nki(
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: complex,
    beta: complex,
    precision: Precision,
    bias: Tensor | None,
    activation: str,
    target: float,
) -> Tensor:
    result = _shaped(a, b, c)
    batch = result.shape[:-2]
    # A batch of addends to one product: the kernel sees a batch of products.
    if c is not None and c.ndim > 2:
        a = a.expand(*batch, *a.shape[-2:])
    c = None if beta == 0 else c
    empty = result.numel() == 0 or a.shape[-1] == 0 or alpha == 0
    if empty or a.is_complex() or precision in ("fp64", "compensated"):
        if empty:
            made = result.zero_()
        elif a.is_complex():
            made = _nki_complex(a, b, precision, target)
        else:
            made = split_gemm(a.double(), b.double(), target)
        made = made if alpha == 1 else alpha * made
        made = made if c is None else made + beta * c
        made = made if bias is None else made + bias
        return ACTIVATIONS[activation](made).to(result.dtype)
    half = a.dtype in HALF
    operand = a.dtype if half else torch.bfloat16 if precision == "fast" else torch.float32
    # One right factor for a batch of left ones: the batch is more rows of one product.
    if b.ndim == 2 and c is None:
        a, batch = a.reshape(-1, a.shape[-1]), torch.Size()
    aT_hbm = _stacked(a.mT, batch).to(operand).contiguous()  # [B or 1, K, M]
    b_hbm = _stacked(b, batch).to(operand).contiguous()  # [B or 1, K, N]
    stored = a.dtype if half else torch.float32
    c_hbm = None if c is None else _stacked(c.expand_as(result), batch).to(stored).contiguous()  # [B, M, N]
    scale_hbm = None
    if alpha != 1 or c is not None or bias is not None:
        scale_hbm = torch.tensor([alpha, beta], device=a.device).float().expand(P_MAX, 2).contiguous()  # [p, 2]
    bias_hbm = None if bias is None else bias.float().expand(P_MAX, -1).contiguous()  # [p, N]
    product: Tensor = launch(
        kernels.gemm, aT_hbm, b_hbm, c_hbm, scale_hbm, bias_hbm, half=half, activation=activation
    )  # [B, M, N]
    return product.reshape(result.shape).to(result.dtype)


def _stacked(x: Tensor, batch: torch.Size) -> Tensor:
    """One leading axis: of length 1 when a single matrix serves the whole batch."""
    if x.ndim == 2:
        return x.unsqueeze(0)
    return x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:])


def _nki_complex(a: Tensor, b: Tensor, precision: Precision, target: float) -> Tensor:
    """One real product of twice the height and depth: ``[[Re a, -Im a], [Im a, Re a]] @ [[Re b], [Im b]]``."""
    a_re, a_im = split_complex(a)
    rows = torch.cat([torch.cat([a_re, -a_im], -1), torch.cat([a_im, a_re], -1)], -2)  # [..., 2M, 2K]
    columns = torch.cat(split_complex(b), -2)  # [..., 2K, N]
    real, imag = _nki(rows, columns, None, 1.0, 0.0, precision, None, "none", target).chunk(2, -2)
    return merge_complex(real, imag)
