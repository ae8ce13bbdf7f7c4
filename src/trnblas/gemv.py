"""Matrix times vector, and outer products: gemv, ger, geru, gerc."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnblas.accuracy import error_bound
from trnblas.arguments import (
    HALF,
    add_product,
    alike,
    by_planes,
    combine,
    conjugate,
    matching,
    require,
    transposition,
    vectors,
)
from trnblas.dot import dot, dotc
from trnblas.gemm import gemm
from trnblas.kernels import gemv as kernels
from trnblas.split import split_gemm
from trnsci import array_function, check, op, run
from trnsci.analogs import LEAST_READ_ONCE, Different, Given, given, refuse_options, replaces
from trnsci.gradient import saves
from trnsci.nki import P_MAX, launch
from trnsci.precision import Precision, arithmetic, resolve

# Elements of a vector that stay in SBUF.
_LONGEST = 16384


@array_function
def gemv(
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    trans: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(a) @ x + beta * y``.

    Args:
        alpha: a number.
        a: [..., M, N]
        x: [..., N], or [..., M] when transposed.
        beta: a number. When it is 0, ``y`` is not read.
        y: [..., M], or [..., N] when transposed.
        trans: ``False``/``"n"``/0, ``True``/``"t"``/1 or ``"c"``/2 (conjugate transpose).
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than the operands.
        out: memory for the result, shared with no operand.

    Error bound:
        That of `gemm` with K the length of ``x``.

    Example:
        >>> gemv(1.0, torch.ones(2, 3), torch.ones(3))
        tensor([3., 3.])
    """
    if not matching(a, x, y):
        alike("gemv", a=a, x=x, y=y)
    dtype, kind = a.dtype, transposition("gemv", trans)
    if a.ndim < 2 or x.ndim < 1:
        check.ndim("gemv", 2, a=a)
        check.ndim("gemv", 1, x=x)
    inner, outer = (a.shape[-1], a.shape[-2]) if kind == "n" else (a.shape[-2], a.shape[-1])
    if x.shape[-1] != inner:
        check.equal("gemv", "N" if kind == "n" else "M", a=inner, x=x.shape[-1])
    alpha, beta = check.coefficient("gemv", "alpha", alpha, dtype), check.coefficient("gemv", "beta", beta, dtype)
    require("gemv", "y", y, coefficient="beta", scalar=beta, shape="[..., M]")
    if y is not None:
        check.ndim("gemv", 1, y=y)
        check.equal("gemv", "M" if kind == "n" else "N", a=outer, y=y.shape[-1])
    batch: tuple[int, ...] = ()
    if a.ndim != 2 or x.ndim != 1 or y is not None:
        batch = check.broadcast("gemv", a=a.shape[:-2], x=x.shape[:-1], y=() if y is None else y.shape[:-1])
    policy = resolve("gemv", precision, dtype)
    if out is not None:
        check.out("gemv", out, shape=(*batch, outer), dtype=dtype, a=a, x=x, y=y)
    if policy in ("fast", "compensated") or arithmetic(policy, dtype) is not dtype:
        column = None if y is None else y.unsqueeze(-1)
        target = None if out is None else out.unsqueeze(-1)
        product = gemm(alpha, a, x.unsqueeze(-1), beta, column, kind, precision=policy, out=target)
        return product.squeeze(-1) if out is None else out
    if kind == "c" and a.is_complex():
        a = a.conj()
    return run(Gemv(a, x, y, alpha, beta, kind != "n"), out)


replaces("aten::mv", by=gemv, least=LEAST_READ_ONCE)(lambda a, x: given(gemv, 1.0, a, x))
replaces("aten::addmv", by=gemv, least=LEAST_READ_ONCE)(functools.partial(add_product, gemv))


# rows and columns of a result, below which a product is as fast as memory
_THIN = 16


def _is_thin(a: Any, b: Any, *_: Any, **__: Any) -> bool:
    """Return whether a product multiplies few numbers for each that it reads."""
    return np.ndim(a) == 1 or np.ndim(b) == 1 or min(np.shape(a)[0], min(np.shape(b))) < _THIN


def _read_arrays(a: Any, b: Any, *, vectors: bool = False) -> tuple[Any, Any]:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or (vectors and (a.ndim != 1 or b.ndim != 1)):
        raise Different("its operands are no vectors and matrices of one dtype")
    return a, b


@replaces("numpy.dot", by=gemm, reads_once=_is_thin)
def _read_dot(a: Any, b: Any, out: Any = None) -> Given:
    refuse_options(out=out)
    a, b = _read_arrays(a, b)
    if a.ndim == 2 and b.ndim in (1, 2):
        return given(gemm if b.ndim == 2 else gemv, 1.0, a, b)
    if a.ndim == 1 and b.ndim == 2:
        return given(gemv, 1.0, b, a, trans=True)
    return given(dot, *_read_arrays(a, b, vectors=True))


@replaces("numpy.inner", by=gemm, reads_once=_is_thin)
def _read_inner(a: Any, b: Any) -> Given:
    a, b = _read_arrays(a, b)
    if a.ndim == 2 and b.ndim == 2:
        return given(gemm, 1.0, a, b, trans_b=True)
    return given(dot, *_read_arrays(a, b, vectors=True))


@replaces("numpy.vdot", by=dotc, least=LEAST_READ_ONCE)
def _read_vdot(a: Any, b: Any) -> Given:
    return given(dotc, *_read_arrays(a, b, vectors=True))


@array_function
def ger(alpha: complex, x: Tensor, y: Tensor, a: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return ``alpha * outer(x, y) + a``, without conjugation.

    Args:
        alpha: a number.
        x: [..., M]
        y: [..., N]
        a: [..., M, N]; zero when left out.
        out: [..., M, N], memory for the result, shared with no operand.

    Error bound:
        ``g(3) (|alpha| |x| |y| + |a|)`` elementwise.

    Example:
        >>> ger(1.0, torch.ones(1), torch.ones(2))
        tensor([[1., 1.]])
    """
    return _outer("ger", alpha, x, y, a=a, out=out)


@replaces("numpy.outer", by=ger, least=LEAST_READ_ONCE)
def _read_outer(a: Any, b: Any, out: Any) -> Given:
    refuse_options(out=out)
    return given(ger, 1.0, *_read_arrays(a, b, vectors=True))


@array_function
def geru(alpha: complex, x: Tensor, y: Tensor, a: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return ``alpha * outer(x, y) + a``: `ger` under BLAS's name for complex vectors."""
    return _outer("geru", alpha, x, y, a=a, out=out)


@array_function
def gerc(alpha: complex, x: Tensor, y: Tensor, a: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return ``alpha * outer(x, conj(y)) + a``; arguments as for `ger`."""
    check.tensor("gerc", y=y)
    return _outer("gerc", alpha, x, y.conj(), a=a, out=out)


def _outer(name: str, alpha: complex, x: Tensor, y: Tensor, *, a: Tensor | None, out: Tensor | None) -> Tensor:
    vectors(name, x, y)
    check.coefficient(name, "alpha", alpha, x.dtype)
    beta = 0.0 if a is None else 1.0
    if a is not None:
        check.floating(name, x=x, a=a)
        check.ndim(name, 2, a=a)
        check.equal(name, "M", x=x.shape[-1], a=a.shape[-2])
        check.equal(name, "N", y=y.shape[-1], a=a.shape[-1])
    return gemm(alpha, x.unsqueeze(-1), y.unsqueeze(-2), beta, a, out=out)


@op("trnblas::gemv")
class Gemv(NamedTuple):
    """``alpha * a @ x + beta * y`` in the arithmetic of the operands; ``trans`` transposes ``a``."""

    a: Tensor  # [..., M, N]
    x: Tensor  # [..., N] or [..., M]
    y: Tensor | None
    alpha: complex
    beta: complex
    trans: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        y = () if self.y is None else self.y.shape[:-1]
        batch = check.broadcast("gemv", a=self.a.shape[:-2], x=self.x.shape[:-1], y=y)
        return (*batch, self.a.shape[-1 if self.trans else -2])

    def fake(self) -> Tensor:
        return self.a.new_empty(self.shape)

    def cost(self) -> int:
        batch = math.prod(check.broadcast("gemv", a=self.a.shape[:-2], x=self.x.shape[:-1]))
        return 2 * batch * self.a.shape[-1] * self.a.shape[-2] * (4 if self.a.is_complex() else 1)

    def bound(self, implementation: str) -> float:
        return error_bound(self.x.shape[-1], self.a.dtype)

    def pytorch(self) -> Tensor:
        return self._multiply_elements(None)

    def into(self, out: Tensor) -> None:
        self._multiply_elements(out)

    def _multiply_elements(self, out: Tensor | None) -> Tensor:
        a, x, y, alpha, beta = self.a.mT if self.trans else self.a, self.x, self.y, self.alpha, self.beta
        if alpha == 0:
            zero = a.new_zeros(self.shape)
            return torch.add(zero, zero if y is None or beta == 0 else y, alpha=beta, out=out)
        if a.ndim == 2 and x.ndim == 1 and y is None:
            if alpha == 1:
                return torch.mv(a, x, out=out)
            return torch.addmv(a.new_zeros(()), a, x, beta=0, alpha=alpha, out=out)
        if a.ndim == 2 and x.ndim == 1 and y is not None and y.ndim == 1 and beta != 0:
            return torch.addmv(y, a, x, beta=beta, alpha=alpha, out=out)
        product = (a @ x.unsqueeze(-1)).squeeze(-1).expand(self.shape)
        if y is None or beta == 0:
            return torch.mul(product, alpha, out=out)
        return torch.add(product * alpha, y, alpha=beta, out=out)

    @saves("a", "x")
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        a, x, alpha = self.a, self.x, conjugate(self.alpha, self.a)
        gradients: dict[str, Tensor] = {}
        if "a" in needs:
            left, right = (x.conj(), grad) if self.trans else (grad, x.conj())
            gradients["a"] = ger(alpha, left, right).sum_to_size(a.shape)
        if "x" in needs:
            gradients["x"] = gemv(alpha, a.conj(), grad, trans="n" if self.trans else "t").sum_to_size(x.shape)
        if self.y is not None and "y" in needs:
            gradients["y"] = (conjugate(self.beta, a) * grad).sum_to_size(self.y.shape)
        return gradients

    def nki(self) -> Tensor:
        shape = self.shape
        if 0 in shape or self.x.shape[-1] == 0 or self.alpha == 0:
            product = self.a.new_zeros(shape)
        else:
            product = _product(self.a, self.x, self.trans)
        return combine(product, self.alpha, self.beta, self.y, self.a.dtype).expand(shape)


def _product(a: Tensor, x: Tensor, trans: bool) -> Tensor:
    """Return the product before rounding: float32, or float64 where slices are added up."""
    batch = torch.broadcast_shapes(a.shape[:-2], x.shape[:-1])
    if a.is_complex():
        return by_planes(lambda matrices, vectors: _product(matrices, vectors, trans), a, x, (2, 1))
    if a.dtype == torch.float64:
        return split_gemm(a.mT if trans else a, x.unsqueeze(-1)).squeeze(-1)
    if not trans and x.shape[-1] > _LONGEST:
        # The vector stays in SBUF; a longer one is taken in parts.
        parts = zip(a.split(_LONGEST, -1), x.split(_LONGEST, -1), strict=True)
        return torch.stack([_product(u, v, trans) for u, v in parts]).sum(0)
    operand = a.dtype if a.dtype in HALF else torch.float32
    a = a.expand(*batch, *a.shape[-2:]).reshape(-1, *a.shape[-2:]).to(operand).contiguous()  # [B, M, N]
    x = x.expand(*batch, x.shape[-1]).reshape(-1, x.shape[-1]).to(operand)  # [B, K]
    if trans:
        product: Tensor = launch(kernels.gemv, a, x.unsqueeze(-1).contiguous(), trans=True)  # [B, 1, N]
        # a long sum comes in parts
        product = product.sum(1)
    else:
        product = launch(kernels.gemv, a, x.unsqueeze(1).expand(-1, P_MAX, -1).contiguous(), trans=False)  # [B, M, 1]
    return product.reshape(*batch, -1)
