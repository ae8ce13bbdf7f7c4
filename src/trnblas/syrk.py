"""Updates of one triangle: syrk, herk, syr2k, her2k, syrkx."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnblas import host_blas
from trnblas.accuracy import choose_for_size, error_bound, working_dtype
from trnblas.arguments import (
    HALF,
    combine,
    conjugate,
    flag,
    in_place,
    matching,
    real,
    real_diagonal,
    require,
    square,
    transpose_by,
    transposition,
    triangle,
    triangle_mask,
)
from trnblas.gemm import gemm
from trnblas.kernels import gemm as gemm_kernels, syrk as kernels
from trnblas.split import split_gemm
from trnsci import ArgumentError, array_function, check, op, programs, run
from trnsci.arrays import like
from trnsci.gradient import saves
from trnsci.nki import N_TILE, launch
from trnsci.precision import Precision, to_bfloat16_values

# Below this the whole product is cheaper than its parts.
_SMALL, _SMALL_GPU = 256, 2048
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
    return rank_k("syrk", alpha, a, a, beta, c, trans, lower, precision=precision, target_error=target_error, out=out)


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
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * (op(a) @ op(b).T + op(b) @ op(a).T) + beta * c``; arguments as for `syrk`."""
    options: dict[str, Any] = {"precision": precision, "target_error": target_error, "out": out}
    return rank_k("syr2k", alpha, a, b, beta, c, trans, lower, twice=True, **options)


def rank_k(
    name: str,
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    hermitian: bool = False,
    twice: bool = False,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Check the arguments, then scale the triangle of the product, or of both products, and add that of ``c``."""
    operands = {"a": a, "b": b} if c is None else {"a": a, "b": b, "c": c}
    if not matching(*operands.values()) or a.ndim < 2 or b.ndim < 2 or (c is not None and c.ndim < 2):
        check.floating(name, **operands)
        check.ndim(name, 2, **operands)
        check.same_device(name, **operands)
    dtype = a.dtype
    kind = transposition(name, trans)
    allowed = ("n", "c") if hermitian and dtype.is_complex else ("n", "t") if dtype.is_complex else ("n", "t", "c")
    if kind not in allowed:
        raise ArgumentError(name, "trans", kind, " or ".join(map(repr, allowed)))
    stored_lower = flag(name, "lower", lower, "ul")
    if hermitian:
        beta = real(name, "beta", beta)
        alpha = check.coefficient(name, "alpha", alpha, dtype) if twice else real(name, "alpha", alpha)
    else:
        alpha, beta = check.coefficient(name, "alpha", alpha, dtype), check.coefficient(name, "beta", beta, dtype)
    require(name, "c", c, coefficient="beta", scalar=beta, shape="[..., N, N]")
    x = transpose_by(kind, a)
    y = x if a is b else transpose_by(kind, b)
    n = x.shape[-2]
    if y is not x and x.shape[-2:] != y.shape[-2:]:
        check.equal(name, "shape", a=tuple(x.shape[-2:]), b=tuple(y.shape[-2:]))
    if c is not None and c.shape[-2:] != (n, n):
        check.equal(name, "N", a=n, c=square(name, c, "c"))
    shape: tuple[int, ...] = (n, n)
    if x.ndim > 2 or y.ndim > 2 or (c is not None and c.ndim > 2):
        shape = (*check.broadcast(name, **{name: value.shape[:-2] for name, value in operands.items()}), n, n)
    if out is not None:
        check.out(name, out, shape=shape, dtype=dtype, **operands)
    k = x.shape[-1] * (2 if twice else 1)
    policy = choose_for_size(name, precision, target_error, dtype, error_bound, (x, y), K=k)
    other, conjugates = None if a is b else y, hermitian and dtype.is_complex
    call = Syrk(x, other, c, alpha, beta, stored_lower, conjugates, policy, twice)
    return into_triangle(run(call), stored_lower, out)


def into_triangle(result: Tensor, lower: bool, out: Tensor | None) -> Tensor:
    """Return a result, or ``out`` with one triangle of the result copied into it."""
    if out is None:
        return result
    return out.copy_(torch.where(triangle_mask(out.shape[-1], lower, out.device), result, out))


@like(syrk, lambda alpha, a, *more, **options: rank_k("herk", alpha, a, a, *more, hermitian=True, **options))
def herk(*args: Any, **kwargs: Any) -> Any:
    """Return one triangle of ``alpha * op(a) @ op(a).mH + beta * c``, with real coefficients and a real diagonal.

    ``trans`` is ``"n"`` or ``"c"``; everything else as for `syrk`.
    """


@like(syr2k, functools.partial(rank_k, "her2k", hermitian=True, twice=True))
def her2k(*args: Any, **kwargs: Any) -> Any:
    """Return one triangle of ``alpha * op(a) @ op(b).mH + conj(alpha) * op(b) @ op(a).mH + beta * c``.

    ``beta`` is real, ``trans`` is ``"n"`` or ``"c"``, the diagonal comes out real; everything else as for `syrk`.
    """


@like(syr2k, functools.partial(rank_k, "syrkx"))
def syrkx(*args: Any, **kwargs: Any) -> Any:
    """Return one triangle of ``alpha * op(a) @ op(b).T + beta * c``, for products known to be symmetric.

    CUDA's ``cublasSsyrkx``; arguments as for `syrk`.
    """


@op("trnblas::syrk")
class Syrk(NamedTuple):
    """One triangle of ``alpha * x @ y.T + beta * c``, ``twice`` with the mirrored product; the other is that of ``c``.

    ``hermitian`` conjugates ``y`` and the mirrored product. Left out, ``y`` is ``x`` and ``c`` is zero.
    """

    x: Tensor  # [..., N, K]
    y: Tensor | None  # [..., N, K]
    c: Tensor | None  # [..., N, N]
    alpha: complex
    beta: complex
    lower: bool
    hermitian: bool
    precision: Precision
    twice: bool

    def fake(self) -> Tensor:
        c = () if self.c is None else self.c.shape[:-2]
        return self.x.new_empty((*check.broadcast("syrk", a=self._shape[:-2], c=c), *self._shape[-2:]))

    @property
    def _shape(self) -> tuple[int, ...]:
        """Shape of the product."""
        y = () if self.y is None else self.y.shape[:-2]
        return (*check.broadcast("syrk", a=self.x.shape[:-2], b=y), self.x.shape[-2], self.x.shape[-2])

    def cost(self) -> int:
        (*batch, n, _), k = self._shape, self.x.shape[-1]
        flops = math.prod(batch) * n * (n + 1) * k * (2 if self.twice else 1)
        return 4 * flops if self.x.is_complex() else flops

    def bound(self, implementation: str) -> float:
        return error_bound(self.x.shape[-1] * (2 if self.twice else 1), self.x.dtype, self.precision)

    def limits(self, implementation: str) -> str | None:
        if implementation != "host":
            return None
        if (self.hermitian and not self._rank_one) or self.alpha == 0 or (self.y is None) == self.twice:
            return "it takes one product of a real matrix or a vector with itself, or the sum of two with another"
        given = [t for t in (self.x, self.y, self.c) if t is not None]
        dtypes = host_blas.COMPLEX if self.hermitian else host_blas.REAL
        return host_blas.refusal(*given, precision=self.precision, dtypes=dtypes)

    @property
    def _rank_one(self) -> bool:
        return self.x.shape[-1] == 1 and (self.c is None or self.beta == 1)

    def calls(self, implementation: str) -> str:
        routine = ("her" if self.hermitian else "syr") + ("2" if self.twice else "")
        return host_blas.name(routine if self._rank_one else routine + "k", self.x)

    def host(self) -> Tensor:
        x, y, alpha = self.x, self.y, self.alpha
        if self._rank_one:
            return host_blas.rank_one(alpha, x, y, self.c, self.lower, hermitian=self.hermitian)
        return self._finish(host_blas.symmetric_sum(alpha.real, x, y, self.lower), 1.0)

    def pytorch(self) -> Tensor:
        x, y, alpha, lower, policy, dtype = self.x, self.y, self.alpha, self.lower, self.precision, self.x.dtype
        work = working_dtype(policy, dtype)
        if policy == "fast" and dtype not in HALF:
            x, y = to_bfloat16_values(x), None if y is None else to_bfloat16_values(y)
        x, y = x.to(work), None if y is None else y.to(work)
        if alpha == 0:
            product = x.new_zeros(self._shape)
        elif self.hermitian and self.twice:
            product, alpha = _hermitian_sum(alpha, x, y, lower, policy), 1.0
        elif policy == "compensated" and work is dtype:
            product = triangle(gemm(1.0, *_factors(x, y, self.hermitian, self.twice), precision=policy), lower)
        else:
            product = _product(*_factors(x, y, self.hermitian, self.twice), lower)
        return self._finish(product, alpha)

    def _finish(self, product: Tensor, alpha: complex) -> Tensor:
        """Scale, add ``beta * c`` on the triangle, pass the rest of ``c`` on, and round once."""
        beta, c, dtype = self.beta, self.c, self.x.dtype
        if c is not None and alpha == 1 and beta == 1 and product.dtype is dtype:
            # The other triangle of the product is zero: adding passes that of c on.
            product = product.add_(c) if product.shape == c.shape and in_place(product, c) else product + c
        elif c is not None:
            mask = triangle_mask(c.shape[-1], self.lower, c.device)
            product = torch.where(mask, combine(product, alpha, beta, c, dtype), c)
        else:
            product = combine(product, alpha, beta, c, dtype)
        return real_diagonal(product) if self.hermitian else product

    @saves("x", "y")
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        x, y, lower, hermitian, policy = self.x, self.y, self.lower, self.hermitian, self.precision
        slope = triangle(real_diagonal(grad) if hermitian else grad, lower)
        alpha, gradients = conjugate(self.alpha, x), {}
        if self.c is not None and "c" in needs:
            mask = triangle_mask(grad.shape[-1], lower, grad.device)
            inside = torch.where(mask, conjugate(self.beta, x) * slope, grad)
            gradients["c"] = inside.sum_to_size(self.c.shape)
        if self.twice:
            slope = slope + (slope.mH if hermitian else slope.mT)

        def of_x() -> Tensor:
            other = x if y is None else y
            return gemm(alpha, slope, other if hermitian else other.conj(), precision=policy).sum_to_size(x.shape)

        def of_y(like: Tensor) -> Tensor:
            factor, left = (conjugate(alpha, x), slope.mH) if hermitian else (alpha, slope.mT)
            return gemm(factor, left, x if hermitian else x.conj(), precision=policy).sum_to_size(like.shape)

        if "x" in needs:
            gradients["x"] = of_x() + of_y(x) if y is None else of_x()
        if y is not None and "y" in needs:
            gradients["y"] = of_y(y)
        return gradients

    def nki(self) -> Tensor:
        x, y, alpha, policy, dtype = self.x, self.y, self.alpha, self.precision, self.x.dtype
        if policy in ("fp64", "compensated"):
            wide = working_dtype(policy, dtype)
            x, y = x.to(wide), None if y is None else y.to(wide)
        if 0 in self._shape or x.shape[-1] == 0 or alpha == 0:
            product, alpha = x.new_zeros(self._shape), 1.0
        elif self.hermitian and self.twice:
            product, alpha = _hermitian_sum(alpha, x, y, self.lower, policy), 1.0
        elif y is None and not self.twice and not self.hermitian:
            product = _kernel(x, None, self.lower, policy)
        else:
            left, right = _factors(x, y, self.hermitian, self.twice)
            product = _kernel(left, right.mT, self.lower, policy)
        return self._finish(product, alpha)


def _factors(x: Tensor, y: Tensor | None, hermitian: bool, twice: bool) -> tuple[Tensor, Tensor]:
    """Return matrices whose product is that of ``x`` and ``y``; with its mirror image, of twice the depth."""
    other = x if y is None else y
    if twice:
        x, other = torch.broadcast_tensors(x, other)
        return torch.cat([x, other], -1), torch.cat([other, x], -1).mT
    return x, (other.conj_physical() if hermitian else other).mT


def _hermitian_sum(alpha: complex, x: Tensor, y: Tensor | None, lower: bool, precision: Precision) -> Tensor:
    """Return the triangle of ``alpha * x @ y.mH`` plus its conjugate transpose."""
    whole = gemm(1.0, x, (x if y is None else y).mT.conj_physical(), precision=precision)
    scaled = alpha * whole
    return triangle(scaled + scaled.mT.conj_physical(), lower)


def _product(x: Tensor, yT: Tensor, lower: bool) -> Tensor:
    """Return the triangle of a product, and zeros."""
    if x.shape[-2] <= 2 * (_SMALL_GPU if x.is_cuda else _SMALL) or not in_place(x, yT):
        return triangle(x @ yT, lower)
    product = x.new_zeros((*torch.broadcast_shapes(x.shape[:-2], yT.shape[:-2]), x.shape[-2], x.shape[-2]))
    _fill(product, x, yT, lower)
    return product


def _fill(out: Tensor, x: Tensor, yT: Tensor, lower: bool) -> None:
    """Halve the triangle until the whole product is cheap; the squares beside it are products."""
    n = x.shape[-2]
    if n <= (_SMALL_GPU if x.is_cuda else _SMALL):
        out.copy_(triangle(x @ yT, lower))
        return
    h = n // 2
    _fill(out[..., :h, :h], x[..., :h, :], yT[..., :h], lower)
    _fill(out[..., h:, h:], x[..., h:, :], yT[..., h:], lower)
    if lower:
        out[..., h:, :h] = x[..., h:, :] @ yT[..., :h]
    else:
        out[..., :h, h:] = x[..., :h, :] @ yT[..., h:]


def _kernel(x: Tensor, y: Tensor | None, lower: bool, precision: Precision) -> Tensor:
    """Return the triangle of ``x @ y.T`` before rounding: float32, or float64 where slices are added up."""
    same = y is None
    y = x if y is None else y
    if x.is_complex():
        # Real and imaginary parts are a batch of two real triangles of twice the depth.
        left = torch.stack([torch.cat([x.real, -x.imag], -1), torch.cat([x.imag, x.real], -1)])
        right = torch.cat([y.real, y.imag], -1)
        left = left.reshape(2, *[1] * (max(x.ndim, y.ndim) - x.ndim), *left.shape[1:])
        real_part, imag_part = _kernel(left, right, lower, precision)
        return torch.complex(real_part, imag_part)
    if precision in ("fp64", "compensated"):
        return triangle(split_gemm(x, y.mT), lower)
    if not lower:
        return _kernel(y, None if same else x, True, precision).mT
    if x.shape[-1] > _LONGEST:
        # Sums too long for their tiles to stay in SBUF are added up in parts.
        parts = zip(x.split(_LONGEST, -1), y.split(_LONGEST, -1), strict=True)
        return torch.stack([_kernel(u, None if same else v, lower, precision) for u, v in parts]).sum(0)
    shape = (*torch.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], x.shape[-2])
    operand = x.dtype if x.dtype in HALF else torch.bfloat16 if precision == "fast" else torch.float32
    planes = [
        t.expand(*shape[:-2], *t.shape[-2:]).reshape(-1, *t.shape[-2:]).mT.to(operand).contiguous()
        for t in ([x] if same else [x, y])
    ]  # [B, K, N]
    return _lower(planes[0], None if same else planes[1]).reshape(shape)


def _lower(xT: Tensor, yT: Tensor | None) -> Tensor:
    """Return the lower triangle of x @ y.T; cut one too large for a program into two triangles and a square."""
    n = xT.shape[-1]
    if n <= N_TILE or programs.fits(kernels.syrk, (xT, yT), {}):
        whole: Tensor = launch(kernels.syrk, xT, yT)
        return whole
    h = -(-n // (2 * N_TILE)) * N_TILE
    (top, bottom), right = (xT[..., :h].contiguous(), xT[..., h:].contiguous()), xT if yT is None else yT
    square = launch(gemm_kernels.gemm, bottom, right[..., :h].contiguous())
    first = _lower(top, None if yT is None else yT[..., :h].contiguous())
    second = _lower(bottom, None if yT is None else yT[..., h:].contiguous())
    above = first.new_zeros((*first.shape[:-1], n - h))
    return torch.cat([torch.cat([first, above], -1), torch.cat([square, second], -1)], -2)
