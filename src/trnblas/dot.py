"""Sums over vectors: dot, dotu, dotc, nrm2, asum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas import host
from trnblas.accuracy import choose, dot_bound, reported
from trnblas.arguments import HALF, rounds, spread, vectors
from trnblas.kernels import dot as kernels
from trnblas.split import compensated_dot, normalised, rescaled, split_gemm
from trnsci import Op, array_function, check
from trnsci.gradient import Saved
from trnsci.nki import launch
from trnsci.precision import Precision, arithmetic, resolve, to_bfloat16_values

# Elements up to which torch sums magnitudes sooner than the host's BLAS.
_SHORT = 1024
# Products whose rounding errors fp32 still holds.
_FAINT = 2.0**-100


@array_function
def dot(
    x: Tensor,
    y: Tensor,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    return_error: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``sum(x * y)`` over the last axis, without conjugation.

    Args:
        x: [..., N]
        y: [..., N]; leading axes broadcast.
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than the operands.
        target_error: error to guarantee, relative to ``|x| . |y|``, instead of ``precision``: the cheapest policy that
            meets it is taken.
        return_error: return ``Achieved(result, error_bound)``, relative to the same.
        out: [...], memory for the result, shared with no operand.

    Returns:
        [...] in the operands' dtype.

    Error bound:
        ``g(N) |x| . |y|`` with ``u`` = 2**-24 (fp32, fast) or 2**-53 (fp64). ``compensated`` gives
        ``u |x . y| + g(N)**2 |x| . |y|``: as if computed in twice the precision and rounded once. ``fast`` rounds the
        operands to bfloat16 first, which adds ``2**-6.99 |x| . |y|``. Complex vectors count 2N + 1 terms, and sqrt(2).

    Example:
        >>> dot(torch.ones(3), torch.ones(3))
        tensor(3.)
    """
    return _reduced("dot", x, y, precision, target_error, return_error, out)


@array_function
def dotu(
    x: Tensor,
    y: Tensor,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    return_error: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``sum(x * y)``: `dot` under BLAS's name for complex vectors."""
    return _reduced("dotu", x, y, precision, target_error, return_error, out)


@array_function
def dotc(
    x: Tensor,
    y: Tensor,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    return_error: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``sum(conj(x) * y)`` over the last axis; arguments and bound as for `dot`.

    Example:
        >>> dotc(torch.tensor([1j]), torch.tensor([1j]))
        tensor(1.+0.j)
    """
    check.tensor("dotc", x=x)
    return _reduced("dotc", x.conj(), y, precision, target_error, return_error, out)


def _reduced(
    op: str,
    x: Tensor,
    y: Tensor,
    precision: Precision | None,
    target: float | None,
    return_error: bool,
    out: Tensor | None,
) -> Tensor:
    dtype = vectors(op, x, y)
    if x.shape != y.shape:
        check.equal(op, "N", x=x.shape[-1], y=y.shape[-1])
        _batch(x, y, op)
    policy = resolve(op, precision, dtype)
    if target is not None:
        n = x.shape[-1]
        policy = choose(op, precision, target, dtype, lambda p: dot_bound(n, dtype, p), f"N={n}", (x, y), n)
    if out is None:
        made = _dot(x, y, policy)
    else:
        check.out(op, out, shape=_batch(x, y, op), dtype=dtype, x=x, y=y)
        made = _dot.write(out, x, y, policy)
    return reported(made, dot_bound(x.shape[-1], dtype, policy), True) if return_error else made


@array_function
def asum(
    x: Tensor,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    return_error: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return the sum of ``|x|`` over the last axis; ``|Re| + |Im|`` for complex vectors, as BLAS does.

    Args:
        x: [..., N]
        precision: as for `dot`.
        target_error: as for `dot`, relative to the result.
        return_error: as for `dot`, relative to the result.
        out: [...], memory for the result, real, shared with no operand.

    Returns:
        [...], real. ``|error| <= g(N - 1) sum(|x|)``, ``g(2N - 1)`` for complex vectors.

    Example:
        >>> asum(torch.tensor([1.0, -2.0]))
        tensor(3.)
    """
    return _norm("asum", x, precision, target_error, return_error, out)


@array_function
def nrm2(
    x: Tensor,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    return_error: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return the Euclidean norm over the last axis, without overflow or harmful underflow.

    Args:
        x: [..., N]
        precision: as for `dot`.
        target_error: as for `dot`, relative to the result.
        return_error: as for `dot`, relative to the result.
        out: [...], memory for the result, real, shared with no operand.

    Returns:
        [...], real. ``|error| <= g(N / 2 + 3) norm``, ``g(N + 3)`` for complex vectors.

    Example:
        >>> nrm2(torch.tensor([3.0, 4.0]))
        tensor(5.)
    """
    return _norm("nrm2", x, precision, target_error, return_error, out)


def _norm(
    op: str, x: Tensor, precision: Precision | None, target: float | None, return_error: bool, out: Tensor | None
) -> Tensor:
    dtype = vectors(op, x)
    policy = resolve(op, precision, dtype)
    if target is not None:
        n = x.shape[-1]
        policy = choose(op, precision, target, dtype, lambda p: norm_bound(op, n, dtype, p), f"N={n}", (x,), 2 * n)
    if out is not None:
        check.out(op, out, shape=tuple(x.shape[:-1]), dtype=dtype.to_real(), x=x)
    if policy == "compensated" or (policy == "fp64" and arithmetic(policy, dtype) is not dtype):
        made = _by_dot(op, x, policy)
        made = made if out is None else out.copy_(made)
    else:
        made = _norms(x, op, policy) if out is None else _norms.write(out, x, op, policy)
    return reported(made, norm_bound(op, x.shape[-1], dtype, policy), True) if return_error else made


def norm_bound(op: str, n: int, dtype: torch.dtype, precision: Precision) -> float:
    """Guaranteed error of asum or nrm2 of ``n`` elements, relative to the result."""
    n, real = (2 * n, dtype.to_real()) if dtype.is_complex else (n, dtype)
    total = dot_bound(n, real, precision)
    # A square root halves a relative error; it and the scaling around it round by themselves.
    return total if op == "asum" else total / 2 + 3 * dot_bound(0, real, precision)


def _by_dot(op: str, x: Tensor, policy: Precision) -> Tensor:
    """The norm from a dot product of higher precision, scaled by a power of two so that no square overflows."""
    x = torch.cat([x.real, x.imag], -1) if x.is_complex() else x
    if op == "asum":
        return _dot(x.abs(), torch.ones_like(x), policy)
    if x.shape[-1] == 0:
        return x.sum(-1)
    scaled, exponent = normalised(x, -1)
    return rescaled(_dot(scaled, scaled, policy).sqrt(), exponent.squeeze(-1))


def _batch(x: Tensor, y: Tensor, op: str = "dot") -> tuple[int, ...]:
    return check.broadcast(op, x=x.shape[:-1], y=y.shape[:-1])


def _dot_fake(x: Tensor, y: Tensor, precision: Precision) -> Tensor:
    return x.new_empty(_batch(x, y))


def _dot_cost(x: Tensor, y: Tensor, precision: Precision) -> int:
    return 2 * x.shape[-1] * _dot_fake(x, y, precision).numel() * (4 if x.is_complex() else 1)


_dot = Op("trnblas::dot", fake=_dot_fake, cost=_dot_cost, schema="(Tensor x, Tensor y, str precision) -> Tensor")


@_dot.bound
def _dot_bound(backend: str, x: Tensor, y: Tensor, precision: Precision) -> float:
    return dot_bound(x.shape[-1], x.dtype, precision)


@_dot.impl("pytorch")
def _dot_pytorch(x: Tensor, y: Tensor, precision: Precision) -> Tensor:
    dtype, work = x.dtype, arithmetic(precision, x.dtype)
    if work is dtype and x.ndim == 1 and y.ndim == 1 and precision in ("fp32", "fp64"):
        return torch.dot(x, y)
    if precision == "compensated":
        return compensated_dot(x, y)
    if precision == "fast":
        work = torch.complex64 if dtype.is_complex else torch.float32
        if dtype not in HALF:
            x, y = to_bfloat16_values(x), to_bfloat16_values(y)
    x, y = x.to(work), y.to(work)
    if x.ndim == 1 and y.ndim == 1:
        return torch.dot(x, y).to(dtype)
    return torch.linalg.vecdot(x.conj(), y).to(dtype)


@_dot.vjp(saves=("x", "y"))
def _dot_gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    found = {}
    if saved.needs("x"):
        found["x"] = (grad.unsqueeze(-1) * saved.y.conj()).sum_to_size(saved.x.shape)
    if saved.needs("y"):
        found["y"] = (grad.unsqueeze(-1) * saved.x.conj()).sum_to_size(saved.y.shape)
    return found


def _dot_limits(x: Tensor, y: Tensor, precision: Precision) -> str | None:
    if precision == "compensated" and x.dtype not in (torch.float32, torch.complex64):
        return "the compensated kernel takes float32 and complex64; ask for fp64, or use backend 'pytorch'"
    return None


@_dot.impl("nki", limits=_dot_limits)
def _dot_nki(x: Tensor, y: Tensor, precision: Precision) -> Tensor:
    result = _dot_fake(x, y, precision)
    if result.numel() == 0 or x.shape[-1] == 0:
        return result.zero_()
    if x.is_complex():
        # Four real products of the planes, in one program.
        real = torch.stack([x.real, x.imag, x.real, x.imag]), torch.stack([y.real, y.imag, y.imag, y.real])
        shape = (4, *result.shape, x.shape[-1])
        left, right = (t.reshape(4, *[1] * (len(shape) - t.ndim), *t.shape[1:]).expand(shape) for t in real)
        rr, ii, ri, ir = _dot_nki(left, right, precision)
        return torch.complex(rr - ii, ri + ir)
    if precision == "fp64":
        product = split_gemm(x.unsqueeze(-2).double(), y.unsqueeze(-1).double())
        return product[..., 0, 0].to(x.dtype)
    shape = (*result.shape, x.shape[-1])
    if precision == "fp32" or precision == "compensated":
        x, y = x.float(), y.float()
    elif x.dtype not in HALF:
        x, y = x.bfloat16(), y.bfloat16()
    if precision == "compensated":
        return _compensated_nki(x, y, result)
    sums: Tensor = launch(kernels.dot, spread(x.expand(shape)), spread(y.expand(shape)), mode="dot")  # [1, B, 1]
    return sums.sum(0).reshape(result.shape).to(result.dtype)


def _compensated_nki(x: Tensor, y: Tensor, result: Tensor) -> Tensor:
    """Vectors scaled by powers of two: neither a product nor what rounding it loses leaves the range of fp32."""
    (x, x_exponent), (y, y_exponent) = normalised(x, -1), normalised(y, -1)
    if not x.is_meta and not _all_matter(x, y):
        product = split_gemm(x.unsqueeze(-2).double(), y.unsqueeze(-1).double())[..., 0, 0]
    else:
        shape = (*result.shape, x.shape[-1])
        sums: Tensor = launch(
            kernels.dot, spread(x.expand(shape)), spread(y.expand(shape)), mode="compensated"
        )  # [2, B, 1]
        product = sums.sum(0).reshape(result.shape)
    return rescaled(product, (x_exponent + y_exponent).squeeze(-1)).to(result.dtype)


def _all_matter(x: Tensor, y: Tensor) -> bool:
    """Whether products of vectors below 1 are so large that fp32 has what rounding them loses."""
    least = [float(torch.where(t == 0, 1.0, t.abs()).min()) for t in (x, y)]
    return least[0] * least[1] > _FAINT or not math.isfinite(least[0] * least[1])


def _norm_fake(x: Tensor, op: str, precision: Precision) -> Tensor:
    return x.new_empty(x.shape[:-1], dtype=x.dtype.to_real())


def _norm_cost(x: Tensor, op: str, precision: Precision) -> int:
    return 2 * x.numel() * (2 if x.is_complex() else 1)


_norms = Op("trnblas::norm", fake=_norm_fake, cost=_norm_cost, schema="(Tensor x, str op, str precision) -> Tensor")


@_norms.bound
def _norm_bound(backend: str, x: Tensor, op: str, precision: Precision) -> float:
    return norm_bound(op, x.shape[-1], x.dtype, precision)


@_norms.impl("pytorch")
def _norm_pytorch(x: Tensor, op: str, precision: Precision) -> Tensor:
    dtype = x.dtype.to_real()
    wide = torch.float32 if x.dtype in HALF else arithmetic("fp32" if precision == "fast" else precision, x.dtype)
    if op == "asum" and wide is x.dtype and precision != "fast" and x.numel() > _SHORT and host.vectors(x):
        return torch.scalar_tensor(host.call(op, x, x.numpy()), dtype=dtype)
    if precision == "fast" and x.dtype not in HALF:
        x = to_bfloat16_values(x)
    work = x if wide is x.dtype else x.to(wide)
    if op == "asum":
        planes = torch.view_as_real(work.resolve_conj()).flatten(-2) if work.is_complex() else work
        found = torch.linalg.vector_norm(planes, 1, -1)
    else:
        found = torch.linalg.vector_norm(work, dim=-1)
        if work.shape[-1] == 0 or work.is_meta or not in_range(found):
            found = _scaled_norm(work)
    return found if found.dtype is dtype else found.to(dtype)


# Norms whose squares are far from underflow and overflow.
_RANGE = {
    dtype: (torch.finfo(dtype).tiny ** 0.5 / torch.finfo(dtype).eps, torch.finfo(dtype).max ** 0.5)
    for dtype in (torch.float32, torch.float64)
}


def in_range(norm: Tensor) -> bool:
    """Whether squares neither overflowed nor lost bits to underflow on the way to these norms."""
    if torch._C._functorch.peek_interpreter_stack() is not None or norm.numel() == 0:
        return False
    lowest, highest = _RANGE[norm.dtype]
    if norm.ndim == 0:
        return lowest < norm.item() < highest
    low, high = torch.aminmax(norm.detach())
    return lowest < low.item() and high.item() < highest


def _scaled_norm(x: Tensor) -> Tensor:
    if x.shape[-1] == 0:
        return x.abs().sum(-1)
    size = torch.maximum(x.real.abs(), x.imag.abs()) if x.is_complex() else x.abs()
    largest = size.detach().amax(-1, keepdim=True)
    scale = torch.where(largest.isfinite() & (largest > 0), largest, 1.0)
    # Halved, the inverse of the smallest subnormal is still finite.
    return torch.linalg.vector_norm((x * 0.25) / (scale * 0.25).clamp(min=torch.finfo(scale.dtype).tiny), dim=-1) * (
        (scale * 0.25).clamp(min=torch.finfo(scale.dtype).tiny) * 4
    ).squeeze(-1)


@_norms.vjp(saves=("x", "result"))
def _norm_gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    x, grad = saved.x, grad.unsqueeze(-1)
    if saved.op == "asum":
        sign = torch.complex(x.real.sgn(), x.imag.sgn()) if x.is_complex() else x.sgn()
        return {"x": grad * sign}
    norm = saved.result.unsqueeze(-1)
    return {"x": grad * torch.where(norm == 0, 0.0, x / torch.where(norm == 0, 1.0, norm))}


def _norm_limits(x: Tensor, op: str, precision: Precision) -> str | None:
    return None if precision == "fp32" or precision == "fast" else rounds(x)


@_norms.impl("nki", limits=_norm_limits)
def _norm_nki(x: Tensor, op: str, precision: Precision) -> Tensor:
    result = _norm_fake(x, op, precision)
    x = torch.cat([x.real, x.imag], -1) if x.is_complex() else x
    if result.numel() == 0 or x.shape[-1] == 0:
        return result.zero_()
    operand = x.dtype if x.dtype in HALF else torch.bfloat16 if precision == "fast" else torch.float32
    sums: Tensor = launch(kernels.dot, spread(x.to(operand)), None, mode=op)  # [1 or 3, B, 1]
    if op == "asum":
        return sums[0].reshape(result.shape).to(result.dtype)
    # Sums of squares scaled down, not at all, and up: the one that neither overflowed nor underflowed is accurate.
    low, plain, high = sums.squeeze(-1).sqrt()
    norm = torch.where(plain > 2.0**63, low * 2.0**64, torch.where(plain < 2.0**-40, high * 2.0**-64, plain))
    return torch.where(plain.isnan(), plain, norm).reshape(result.shape).to(result.dtype)
