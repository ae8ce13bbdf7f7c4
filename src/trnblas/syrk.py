"""Updates of one triangle: syrk, herk, syr2k, her2k, syrkx."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas import host
from trnblas.accuracy import choose, error_bound, reported
from trnblas.arguments import (
    HALF,
    agree,
    applied,
    flag,
    in_place,
    needed,
    real,
    square,
    transposition,
    triangle,
    triangle_mask,
)
from trnblas.gemm import gemm
from trnblas.kernels import syrk as kernels
from trnblas.split import split_gemm
from trnsci import ArgumentError, Op, array_function, check
from trnsci.gradient import Saved
from trnsci.nki import launch
from trnsci.precision import Precision, arithmetic, to_bfloat16_values

# Below this the whole product is cheaper than its parts.
_SMALL = 256
# Terms of a sum whose tiles stay in SBUF.
_LONGEST = 8192


@array_function
def syrk(
    alpha: complex,
    a: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    return_error: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * op(a) @ op(a).T + beta * c``.

    Args:
        alpha: a number.
        a: [..., N, K], or [..., K, N] when transposed.
        beta: a number. When it is 0, the triangle of ``c`` is not read.
        c: [..., N, N]. Its other triangle is passed on as it is; without ``c`` it is zero.
        trans: ``"n"`` or ``"t"`` (for real matrices also ``"c"``).
        lower: the lower triangle (1, ``"l"``) or the upper one (0, ``"u"``).
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than the operands.
        target_error: error to guarantee, relative to ``|a| @ |a|.T``, instead of ``precision``; as for `gemm`.
        return_error: return ``Achieved(result, error_bound)``, as for `gemm`.
        out: [..., N, N], shared with no operand. Its other triangle is not written.

    Returns:
        [..., N, N]

    Error bound:
        That of `gemm` on the triangle; the other triangle is exact.

    Example:
        >>> syrk(1.0, torch.ones(2, 3), lower=True)
        tensor([[3., 0.],
                [3., 3.]])
    """
    return rank_k(
        "syrk", alpha, a, a, beta, c, trans, lower, precision, out, hermitian=False, twice=False,
        target_error=target_error, return_error=return_error,
    )  # fmt: skip


@array_function
def herk(
    alpha: float,
    a: Tensor,
    beta: float = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    return_error: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * op(a) @ op(a).mH + beta * c``, with real coefficients and a real diagonal.

    ``trans`` is ``"n"`` or ``"c"``; everything else as for `syrk`.
    """
    return rank_k(
        "herk", alpha, a, a, beta, c, trans, lower, precision, out, hermitian=True, twice=False,
        target_error=target_error, return_error=return_error,
    )  # fmt: skip


@array_function
def syr2k(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    return_error: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * (op(a) @ op(b).T + op(b) @ op(a).T) + beta * c``; arguments as for `syrk`."""
    return rank_k(
        "syr2k", alpha, a, b, beta, c, trans, lower, precision, out, hermitian=False, twice=True,
        target_error=target_error, return_error=return_error,
    )  # fmt: skip


@array_function
def her2k(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: float = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    return_error: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * op(a) @ op(b).mH + conj(alpha) * op(b) @ op(a).mH + beta * c``.

    ``beta`` is real, ``trans`` is ``"n"`` or ``"c"``, the diagonal comes out real; everything else as for `syrk`.
    """
    return rank_k(
        "her2k", alpha, a, b, beta, c, trans, lower, precision, out, hermitian=True, twice=True,
        target_error=target_error, return_error=return_error,
    )  # fmt: skip


@array_function
def syrkx(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    return_error: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * op(a) @ op(b).T + beta * c``, for products known to be symmetric.

    CUDA's ``cublasSsyrkx``; arguments as for `syrk`.
    """
    return rank_k(
        "syrkx", alpha, a, b, beta, c, trans, lower, precision, out, hermitian=False, twice=False,
        target_error=target_error, return_error=return_error,
    )  # fmt: skip


def rank_k(
    op: str,
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex,
    c: Tensor | None,
    trans: bool | int | str,
    lower: bool | int | str,
    precision: Precision | None,
    out: Tensor | None,
    *,
    hermitian: bool,
    twice: bool,
    names: tuple[str, str, str] = ("a", "b", "c"),
    target_error: float | None = None,
    return_error: bool = False,
) -> Tensor:
    """Check the arguments, then scale the triangle of the product and add that of ``c``."""
    operands = {names[0]: a, names[1]: b} | ({} if c is None else {names[2]: c})
    dtype = check.floating(op, **operands)
    check.ndim(op, 2, **operands)
    check.same_device(op, **operands)
    kind = transposition(op, trans)
    allowed = ("n", "c") if hermitian and dtype.is_complex else ("n", "t") if dtype.is_complex else ("n", "t", "c")
    if kind not in allowed:
        raise ArgumentError(op=op, argument="trans", got=kind, expected=" or ".join(map(repr, allowed)))
    stored_lower = flag(op, "lower", lower, "ul")
    if hermitian:
        beta = real(op, "beta", beta)
        alpha = check.coefficient(op, "alpha", alpha, dtype) if twice else real(op, "alpha", alpha)
    else:
        alpha, beta = check.coefficient(op, "alpha", alpha, dtype), check.coefficient(op, "beta", beta, dtype)
    needed(op, names[2], c, "beta", beta, "[..., N, N]")
    x, y = applied(kind, a), applied(kind, b)
    agree(op, "shape", {names[0]: tuple(x.shape[-2:]), names[1]: tuple(y.shape[-2:])})
    if c is not None:
        n = square(op, **{names[2]: c})
        agree(op, "N", {names[0]: x.shape[-2], names[2]: n})
    batches = {name: value.shape[:-2] for name, value in operands.items()}
    shape = (*check.broadcast(op, **batches), x.shape[-2], x.shape[-2])
    if out is not None:
        check.out(op, out, shape=shape, dtype=dtype, **operands)
    k = x.shape[-1] * (2 if twice else 1)
    policy = choose(op, precision, target_error, dtype, lambda p: error_bound(k, dtype, p), f"K={k}")
    conjugated = hermitian and dtype.is_complex
    if alpha == 0:
        made = x.new_zeros(shape)
    else:
        made = _triangle(alpha, x, None if a is b else y, stored_lower, policy, conjugated, twice)
    made = _finish(made, beta, c, out, shape, stored_lower, conjugated)
    return reported(made, error_bound(k, dtype, policy), return_error)


def _triangle(
    alpha: complex, x: Tensor, y: Tensor | None, lower: bool, policy: Precision, conjugated: bool, twice: bool
) -> Tensor:
    """``alpha * x @ y.T``, with its own transpose added if ``twice``; without ``y``, that is ``x``."""
    if twice:
        x, other = torch.broadcast_tensors(x, x if y is None else y)
        if conjugated:
            # Both products are one of twice the depth.
            left, right = torch.cat([alpha * x, alpha.conjugate() * other], -1), torch.cat([other, x], -1)
            return _gemmt(left, right.conj(), lower, policy, False)
        made = _gemmt(x, other, lower, policy, True)
    elif conjugated:
        made = _gemmt(x, (x if y is None else y).conj(), lower, policy, False)
    else:
        made = _gemmt(x, y, lower, policy, False)
    return made if alpha == 1 else alpha * made


def _finish(
    made: Tensor,
    beta: complex,
    c: Tensor | None,
    out: Tensor | None,
    shape: tuple[int, ...],
    lower: bool,
    hermitian: bool,
) -> Tensor:
    """Add ``beta * c`` on the triangle, pass the rest of ``c`` on, and write only the triangle of ``out``."""
    mask = None
    if out is not None or (c is not None and beta != 1):
        mask = triangle_mask(shape[-1], lower, made.device)
    if c is not None and mask is None:
        # The other triangle of the product is zero: adding passes that of c on.
        made = made.add_(c) if made.shape == c.shape and in_place(made, c) else made + c
    elif c is not None:
        made = torch.where(mask, made if beta == 0 else made + beta * c, c)  # type: ignore[arg-type]
    if hermitian:
        diagonal = torch.diagonal(made, 0, -2, -1)
        made = torch.diagonal_scatter(made, torch.complex(diagonal.real, torch.zeros_like(diagonal.real)), 0, -2, -1)
    made = made.expand(shape)
    if out is None:
        return made
    assert mask is not None
    return out.copy_(torch.where(mask, made, out))


def _fake(x: Tensor, y: Tensor | None, lower: bool, precision: Precision, twice: bool) -> Tensor:
    batch = check.broadcast("syrk", a=x.shape[:-2], b=x.shape[:-2] if y is None else y.shape[:-2])
    return x.new_empty((*batch, x.shape[-2], x.shape[-2]))


def _cost(x: Tensor, y: Tensor | None, lower: bool, precision: Precision, twice: bool) -> int:
    batch = math.prod(_fake(x, y, lower, precision, twice).shape[:-2])
    n, k = x.shape[-2:]
    return batch * n * (n + 1) * k * (4 if x.is_complex() else 1) * (2 if twice else 1)


_gemmt = Op(
    "trnblas::gemmt",
    fake=_fake,
    cost=_cost,
    schema="(Tensor x, Tensor? y, bool lower, str precision, bool twice) -> Tensor",
)


@_gemmt.bound
def _bound(backend: str, x: Tensor, y: Tensor | None, lower: bool, precision: Precision, twice: bool) -> float:
    return error_bound(x.shape[-1] * (2 if twice else 1), x.dtype, precision)


@_gemmt.impl("pytorch")
def _pytorch(x: Tensor, y: Tensor | None, lower: bool, precision: Precision, twice: bool) -> Tensor:
    """The triangle of ``x @ y.T``, ``twice`` plus its transpose; zeros elsewhere. Left out, ``y`` is ``x``."""
    if (y is None or twice) and precision in ("fp32", "fp64") and arithmetic(precision, x.dtype) is x.dtype:
        if y is None and host.serves(x):
            return host.symmetric_square(x, lower)
        if y is not None and host.serves(x, y):
            return host.symmetric_sum(x, y, lower)
    y = x if y is None else y
    if twice:
        x, y = torch.cat([x, y], -1), torch.cat([y, x], -1)
    dtype, work = x.dtype, arithmetic(precision, x.dtype)
    if precision == "compensated":
        return triangle(gemm(1.0, x, y.mT, precision="compensated"), lower)
    if precision == "fast" and dtype not in HALF:
        x, y = to_bfloat16_values(x), to_bfloat16_values(y)
    x, y = x.to(work), y.to(work)
    if x.shape[-2] <= 2 * _SMALL or not in_place(x, y):
        return triangle(x @ y.mT, lower).to(dtype)
    made = _fake(x, y, lower, precision, False).zero_()
    _fill(made, x, y.mT, lower)
    return made.to(dtype)


def _fill(out: Tensor, x: Tensor, yT: Tensor, lower: bool) -> None:
    """Halve the triangle until the whole product is cheap; the squares beside it are products."""
    n = x.shape[-2]
    if n <= _SMALL:
        out.copy_(triangle(x @ yT, lower))
        return
    h = n // 2
    _fill(out[..., :h, :h], x[..., :h, :], yT[..., :h], lower)
    _fill(out[..., h:, h:], x[..., h:, :], yT[..., h:], lower)
    if lower:
        out[..., h:, :h] = x[..., h:, :] @ yT[..., :h]
    else:
        out[..., :h, h:] = x[..., :h, :] @ yT[..., h:]


@_gemmt.vjp(saves=("x", "y"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    inside = triangle(grad, saved.lower)
    found = {}
    both = inside + inside.mT
    if saved.twice:
        inside = both
    if saved.y is None:
        return {"x": gemm(1.0, both, saved.x.conj(), precision=saved.precision).sum_to_size(saved.x.shape)}
    if saved.needs("x"):
        found["x"] = gemm(1.0, inside, saved.y.conj(), precision=saved.precision).sum_to_size(saved.x.shape)
    if saved.needs("y"):
        found["y"] = gemm(1.0, inside, saved.x.conj(), trans_a="t", precision=saved.precision).sum_to_size(
            saved.y.shape
        )
    return found


@_gemmt.impl("nki")
def _nki(x: Tensor, y: Tensor | None, lower: bool, precision: Precision, twice: bool) -> Tensor:
    result = _fake(x, y, lower, precision, twice)
    same = y is None
    y = x if y is None else y
    if twice:
        # Both products are one of twice the depth.
        return _nki(torch.cat([x, y], -1), torch.cat([y, x], -1), lower, precision, False)
    if result.numel() == 0 or x.shape[-1] == 0:
        return result.zero_()
    if x.is_complex():
        # Real and imaginary parts are a batch of two real triangles of twice the depth.
        left = torch.stack([torch.cat([x.real, -x.imag], -1), torch.cat([x.imag, x.real], -1)])
        right = torch.cat([y.real, y.imag], -1)
        batch = len(result.shape) - 2
        left = left.reshape(2, *[1] * (batch - x.ndim + 2), *left.shape[1:])
        real_part, imag_part = _nki(left, right, lower, precision, False)
        return torch.complex(real_part, imag_part)
    dtype = x.dtype
    if precision in ("fp64", "compensated"):
        return triangle(split_gemm(x.double(), y.double().mT), lower).to(dtype)
    if not lower:
        return _nki(y, None if same else x, True, precision, False).mT
    if x.shape[-1] > _LONGEST:
        # Sums too long for their tiles to stay in SBUF are added up in parts.
        parts = zip(x.split(_LONGEST, -1), y.split(_LONGEST, -1), strict=True)
        return sum((_nki(u, None if same else v, lower, precision, False) for u, v in parts), result.zero_())
    operand = dtype if dtype in HALF else torch.bfloat16 if precision == "fast" else torch.float32
    planes = [
        t.expand(*result.shape[:-2], *t.shape[-2:]).reshape(-1, *t.shape[-2:]).mT.to(operand).contiguous()
        for t in ([x] if same else [x, y])
    ]  # [B, K, N]
    made: Tensor = launch(kernels.syrk, planes[0], None if same else planes[1])
    return made.reshape(result.shape).to(dtype)
