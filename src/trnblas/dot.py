"""Sums over vectors: dot, dotu, dotc, nrm2, asum."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnblas import host_blas
from trnblas.accuracy import choose_for_size, dot_bound, working_dtype
from trnblas.arguments import HALF, by_planes, over_partitions, vectors
from trnblas.kernels import dot as kernels
from trnblas.split import compensated_dot, normalise, rescale, split_gemm
from trnsci import array_function, check, op, run
from trnsci.analogs import LEAST_READ_ONCE, Different, Given, given, refuse_options, replaces
from trnsci.arrays import like
from trnsci.gradient import saves
from trnsci.nki import launch
from trnsci.precision import Precision, to_bfloat16_values
from trnsci.torch_internals import peek_interpreter_stack

Kind = Literal["asum", "nrm2"]

_DOUBLE = (torch.float64, torch.complex128)
# Products whose rounding errors fp32 still holds.
_FAINT = 2.0**-100


@replaces("aten::dot", least=LEAST_READ_ONCE)
@array_function
def dot(
    x: Tensor,
    y: Tensor,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``sum(x * y)`` over the last axis, without conjugation.

    Args:
        x: [..., N]
        y: [..., N]; leading axes broadcast.
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than the operands.
        target_error: error to guarantee, relative to ``|x| . |y|``, instead of ``precision``: the cheapest policy that
            meets it is taken.
        out: [...], memory for the result, shared with no operand.

    Returns:
        [...] in the operands' dtype.

    Error bound:
        ``g(N) |x| . |y|`` with ``u`` = ``2**-24`` (fp32, fast) or ``2**-53`` (fp64). ``compensated`` gives
        ``u |x . y| + g(N)**2 |x| . |y|``: as if computed in twice the precision and rounded once. ``fast`` rounds the
        operands to bfloat16 first, which adds ``2**-6.99 |x| . |y|``. Complex vectors count 2N + 1 terms, and sqrt(2).

    Example:
        >>> dot(torch.ones(3), torch.ones(3))
        tensor(3.)
    """
    return _reduce_product("dot", x, y, precision=precision, target_error=target_error, out=out)


def _reduce_product(
    name: str,
    x: Tensor,
    y: Tensor,
    *,
    conjugate: bool = False,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    if conjugate:
        check.tensor(name, x=x)
        x = x.conj()
    dtype = vectors(name, x, y)
    if x.shape != y.shape:
        check.equal(name, "N", x=x.shape[-1], y=y.shape[-1])
        check.broadcast(name, x=x.shape[:-1], y=y.shape[:-1])
    policy = choose_for_size(name, precision, target_error, dtype, dot_bound, (x, y), N=x.shape[-1])
    call = Dot(x, y, policy)
    if out is not None:
        check.out(name, out, shape=call.shape, dtype=dtype, x=x, y=y)
    return run(call, out)


@like(dot, functools.partial(_reduce_product, "dotu"))
def dotu(*args: Any, **kwargs: Any) -> Any:
    """Return ``sum(x * y)``: `dot` under BLAS's name for complex vectors."""


@replaces("aten::vdot", least=LEAST_READ_ONCE)
@like(dot, functools.partial(_reduce_product, "dotc", conjugate=True))
def dotc(*args: Any, **kwargs: Any) -> Any:
    """Return ``sum(conj(x) * y)`` over the last axis; arguments and bound as for `dot`.

    Example:
        >>> dotc(torch.tensor([1j]), torch.tensor([1j]))
        tensor(1.+0.j)
    """


@array_function
def asum(
    x: Tensor,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the sum of ``|x|`` over the last axis; ``|Re| + |Im|`` for complex vectors, as BLAS does.

    Args:
        x: [..., N]
        precision: as for `dot`.
        target_error: as for `dot`, relative to the result.
        out: [...], memory for the result, real, shared with no operand.

    Returns:
        [...], real. ``|error| <= g(N - 1) sum(|x|)``, ``g(2N - 1)`` for complex vectors.

    Example:
        >>> asum(torch.tensor([1.0, -2.0]))
        tensor(3.)
    """
    return _norm("asum", x, precision=precision, target_error=target_error, out=out)


def _norm(
    name: Kind,
    x: Tensor,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    dtype = vectors(name, x)
    bound = functools.partial(norm_bound, name)
    policy = choose_for_size(name, precision, target_error, dtype, bound, (x,), N=x.shape[-1])
    if out is not None:
        check.out(name, out, shape=tuple(x.shape[:-1]), dtype=x.real.dtype, x=x)
    return run(Norm(x, name, policy), out)


@like(asum, functools.partial(_norm, "nrm2"))
def nrm2(*args: Any, **kwargs: Any) -> Any:
    """Return the Euclidean norm over the last axis, safe from overflow and underflow; arguments as for `asum`.

    Returns:
        [...], real. ``|error| <= g(N / 2 + 3) norm``, ``g(N + 3)`` for complex vectors.

    Example:
        >>> nrm2(torch.tensor([3.0, 4.0]))
        tensor(5.)
    """


def _refuse_overflow(value: Any, *_: Any, **__: Any) -> Any:
    # NumPy adds squares
    limits = np.finfo(value.dtype)
    if not (value == 0 or limits.tiny**0.5 / limits.eps < value < limits.max**0.5):
        raise Different("squares of it are no normal numbers, or it is none")
    return value


@replaces("numpy.linalg.norm", "scipy.linalg.norm", by=nrm2, result=_refuse_overflow, least=LEAST_READ_ONCE)
def _read_norm(x: Any, ord: Any, axis: Any, keepdims: bool) -> Given:  # noqa: A002
    # the first axis is number 0
    refuse_options(axis=axis is not None, keepdims=keepdims)
    x = np.asarray(x)
    if not (ord is None or (ord == 2 and x.ndim == 1)) or x.dtype.kind == "i":
        raise Different("it is another norm, or one of integers")
    # theirs adds squares of single precision in a wider format
    return given(nrm2, x.ravel(order="K"), precision="fp64")


def norm_bound(name: str, n: int, dtype: torch.dtype, precision: Precision) -> float:
    """Return guaranteed error of asum or nrm2 of ``n`` elements, relative to the result."""
    n, real = (2 * n, dtype.to_real()) if dtype.is_complex else (n, dtype)
    total = dot_bound(n, real, precision)
    # A square root halves a relative error; it and the scaling around it round by themselves.
    return total if name == "asum" else total / 2 + 3 * dot_bound(0, real, precision)


@op("trnblas::dot")
class Dot(NamedTuple):
    """``sum(x * y)`` over the last axis."""

    x: Tensor  # [..., N]
    y: Tensor  # [..., N]
    precision: Precision

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return check.broadcast("dot", x=self.x.shape[:-1], y=self.y.shape[:-1])

    def fake(self) -> Tensor:
        return self.x.new_empty(self.shape)

    def cost(self) -> int:
        return 2 * self.x.shape[-1] * math.prod(self.shape) * (4 if self.x.is_complex() else 1)

    def bound(self, implementation: str) -> float:
        return dot_bound(self.x.shape[-1], self.x.dtype, self.precision)

    def limits(self, implementation: str) -> str | None:
        single = self.x.dtype in (torch.float32, torch.complex64)
        if implementation == "nki" and self.precision == "compensated" and not single:
            return "the compensated kernel takes float32 and complex64; ask for fp64, or use backend 'pytorch'"
        return None

    def pytorch(self) -> Tensor:
        x, y, dtype = self.x, self.y, self.x.dtype
        work = working_dtype(self.precision, dtype)
        if self.precision == "compensated":
            return compensated_dot(x, y)
        if self.precision == "fast" and dtype not in HALF:
            x, y = to_bfloat16_values(x), to_bfloat16_values(y)
        if work is not dtype:
            x, y = x.to(work), y.to(work)
        result = torch.dot(x, y) if x.ndim == 1 and y.ndim == 1 else torch.linalg.vecdot(x.conj(), y)
        return result if work is dtype else result.to(dtype)

    @saves("x", "y")
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        gradients = {}
        if "x" in needs:
            gradients["x"] = (grad.unsqueeze(-1) * self.y.conj()).sum_to_size(self.x.shape)
        if "y" in needs:
            gradients["y"] = (grad.unsqueeze(-1) * self.x.conj()).sum_to_size(self.y.shape)
        return gradients

    def nki(self) -> Tensor:
        x, y, shape = self.x, self.y, self.shape
        if 0 in shape or x.shape[-1] == 0:
            return x.new_zeros(shape)
        if x.is_complex():
            return by_planes(lambda left, right: _sums(left, right, self.precision), x, y, (1, 1)).to(x.dtype)
        return _sums(x, y, self.precision).to(x.dtype)


def _sums(x: Tensor, y: Tensor, precision: Precision) -> Tensor:
    """Return real dot products before rounding: float32, or float64 where slices are added up."""
    if precision == "fp64":
        return split_gemm(x.unsqueeze(-2).double(), y.unsqueeze(-1).double())[..., 0, 0]
    if precision == "compensated":
        return _sum_compensated(x.float(), y.float())
    if precision == "fp32":
        x, y = x.float(), y.float()
    elif x.dtype not in HALF:
        x, y = x.bfloat16(), y.bfloat16()
    return _launch_sums(x, y, "dot")


def _launch_sums(x: Tensor, y: Tensor, mode: str) -> Tensor:
    batch = torch.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    left, right = (over_partitions(t.expand(*batch, t.shape[-1])) for t in (x, y))
    sums: Tensor = launch(kernels.dot, left, right, mode=mode)  # [1 or 2, B, 1]
    if sums.shape[2] > 1:
        # a long sum comes in parts
        sums = sums.double().sum(2).float()
    return sums.sum(0).reshape(batch)


def _sum_compensated(x: Tensor, y: Tensor) -> Tensor:
    """Scale vectors by powers of two, so that no product or rounding error leaves the range of fp32."""
    (x, x_exponent), (y, y_exponent) = normalise(x, -1), normalise(y, -1)
    if not x.is_meta and not _all_matter(x, y):
        product = _sums(x, y, "fp64")
    else:
        product = _launch_sums(x, y, "compensated")
    return rescale(product, (x_exponent + y_exponent).squeeze(-1))


def _all_matter(x: Tensor, y: Tensor) -> bool:
    """Return whether products of vectors below 1 are large enough for fp32 to hold their rounding errors."""
    least = [float(torch.where(t == 0, 1.0, t.abs()).min()) for t in (x, y)]
    return least[0] * least[1] > _FAINT or not math.isfinite(least[0] * least[1])


@op("trnblas::norm")
class Norm(NamedTuple):
    """The sum of magnitudes (``asum``), or the Euclidean norm (``nrm2``), over the last axis."""

    x: Tensor  # [..., N]
    kind: Kind
    precision: Precision

    def fake(self) -> Tensor:
        return self.x.new_empty(self.x.shape[:-1], dtype=self.x.dtype.to_real())

    def cost(self) -> int:
        return 2 * self.x.numel() * (2 if self.x.is_complex() else 1)

    def bound(self, implementation: str) -> float:
        return norm_bound(self.kind, self.x.shape[-1], self.x.dtype, self.precision)

    def limits(self, implementation: str) -> str | None:
        if implementation == "host":
            if self.kind != "asum":
                return "torch has norms"
            if self.x.ndim and self.x.stride(-1) != 1:
                # BLAS adds in an order that depends on alignment, and SciPy copies to memory of any alignment.
                return "a strided vector would be copied, and its bits depend on where to"
            return host_blas.refusal(self.x, ndim=1, precision=self.precision)
        if implementation == "nki" and self.precision == "compensated" and self.x.dtype in _DOUBLE:
            return "the compensated kernel takes float32 and complex64; ask for fp64, or use backend 'pytorch'"
        return None

    def calls(self, implementation: str) -> str:
        return host_blas.name("asum", self.x)

    def host(self) -> Tensor:
        total = host_blas.routine("asum", self.x.dtype)(self.x.numpy())
        return torch.scalar_tensor(total, dtype=self.x.dtype, device="cpu")

    def pytorch(self) -> Tensor:
        x, dtype = self.x, self.x.dtype.to_real()
        if self.precision == "compensated":
            return self._by_dot()
        if self.precision == "fast" and x.dtype not in HALF:
            x = to_bfloat16_values(x)
        x = x.to(working_dtype(self.precision, x.dtype))
        if self.kind == "asum":
            planes = torch.view_as_real(x.resolve_conj()).flatten(-2) if x.is_complex() else x
            return torch.linalg.vector_norm(planes, 1, -1).to(dtype)
        norm = torch.linalg.vector_norm(x, dim=-1)
        if x.shape[-1] == 0 or in_range(norm):
            return norm.to(dtype)
        # Row by row: what one of them needs changes no other.
        lowest, highest = _RANGE[norm.dtype]
        unit, exponent = normalise(torch.view_as_real(x.resolve_conj()).flatten(-2) if x.is_complex() else x, -1)
        safe = rescale(torch.linalg.vector_norm(unit, dim=-1), exponent.squeeze(-1))
        return torch.where((norm > lowest) & (norm < highest), norm, safe).to(dtype)

    def _by_dot(self) -> Tensor:
        """Take a dot product of higher precision, scaled by a power of two so that no square overflows."""
        x, dtype = self.x.resolve_conj(), self.x.dtype.to_real()
        x = torch.cat([x.real, x.imag], -1) if x.is_complex() else x
        if x.shape[-1] == 0:
            return x.sum(-1)
        x = x.to(working_dtype(self.precision, dtype))
        policy: Precision = "compensated" if self.precision == "compensated" and dtype == x.dtype else "fp64"
        if self.kind == "asum":
            return run(Dot(x.abs(), torch.ones_like(x), policy)).to(dtype)
        scaled, exponent = normalise(x, -1)
        norm = run(Dot(scaled, scaled, policy)).sqrt()
        return rescale(norm, exponent.squeeze(-1)).to(dtype)

    @saves("x")
    def vjp(self, grad: Tensor, needs: frozenset[str], result: Tensor) -> dict[str, Tensor]:
        x, grad = self.x.resolve_conj(), grad.unsqueeze(-1)
        if self.kind == "asum":
            sign = torch.complex(x.real.sgn(), x.imag.sgn()) if x.is_complex() else x.sgn()
            return {"x": grad * sign}
        norm = result.unsqueeze(-1)
        return {"x": grad * torch.where(norm == 0, 0.0, x / torch.where(norm == 0, 1.0, norm))}

    def nki(self) -> Tensor:
        x, shape, dtype = self.x, self.x.shape[:-1], self.x.dtype.to_real()
        if self.precision in ("fp64", "compensated"):
            return self._by_dot()
        x = torch.cat([x.real, x.imag], -1) if x.is_complex() else x
        if 0 in x.shape:
            return x.new_zeros(shape, dtype=dtype)
        operand = x.dtype if x.dtype in HALF else torch.bfloat16 if self.precision == "fast" else torch.float32
        sums: Tensor = launch(kernels.dot, over_partitions(x.to(operand)), None, mode=self.kind)  # [1 or 3, B, 1]
        # a long sum comes in parts
        sums = sums.sum(2)
        if self.kind == "asum":
            return sums[0].reshape(shape).to(dtype)
        # Sums of squares scaled down, not at all, and up: the one that neither overflowed nor underflowed is accurate.
        low, plain, high = sums.sqrt()
        norm = torch.where(plain > 2.0**63, low * 2.0**64, torch.where(plain < 2.0**-40, high * 2.0**-64, plain))
        return torch.where(plain.isnan(), plain, norm).reshape(shape).to(dtype)


# Norms whose squares are far from underflow and overflow.
_RANGE = {
    dtype: (torch.finfo(dtype).tiny ** 0.5 / torch.finfo(dtype).eps, torch.finfo(dtype).max ** 0.5)
    for dtype in (torch.float32, torch.float64)
}


def in_range(norm: Tensor) -> bool:
    """Return whether no square overflowed, or lost bits to underflow, on the way to these norms."""
    if peek_interpreter_stack() is not None or norm.numel() == 0:
        return False
    lowest, highest = _RANGE[norm.dtype]
    if norm.ndim == 0:
        return lowest < norm.item() < highest
    low, high = torch.aminmax(norm.detach())
    return lowest < low.item() and high.item() < highest
