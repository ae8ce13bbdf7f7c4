"""Products with a symmetric or Hermitian matrix of which one triangle is stored: symm, hemm, symv, hemv."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnblas import host_blas
from trnblas.accuracy import error_bound
from trnblas.arguments import check_sides, combine, conjugate, flag, real_diagonal, require, triangle
from trnblas.gemm import gemm
from trnblas.kernels import symm as kernels
from trnsci import array_function, check, op, run
from trnsci.arrays import like
from trnsci.gradient import saves
from trnsci.nki import launch
from trnsci.precision import Precision, resolve

# Rows whose tiles stay in SBUF; longer ones go through the whole product.
_LARGEST = 8192


@array_function
def symm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * a @ b + beta * c``, or ``alpha * b @ a + beta * c``, with ``a`` symmetric.

    Args:
        alpha: a number.
        a: [..., M, M] on the left, [..., N, N] on the right. Only the triangle ``lower`` names is read.
        b: [..., M, N]
        beta: a number. When it is 0, ``c`` is not read.
        c: [..., M, N]
        side: ``a`` on the left (0, ``"l"``) or on the right (1, ``"r"``).
        lower: the lower triangle is stored (1, ``"l"``), or the upper one (0, ``"u"``).
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than the operands.
        out: [..., M, N], memory for the result, shared with no operand.

    Error bound:
        That of `gemm` with the whole matrix.

    Example:
        >>> symm(1.0, torch.tensor([[1.0, 2.0], [9.0, 3.0]]), torch.eye(2))
        tensor([[1., 2.],
                [2., 3.]])
    """
    return _product("symm", alpha, a, b, beta, c, side, lower, precision=precision, out=out)


@array_function
def symv(
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * a @ x + beta * y`` with ``a`` [..., N, N] symmetric, one triangle stored.

    ``x`` and ``y`` are [..., N]; everything else as for `symm`.

    Example:
        >>> symv(1.0, torch.tensor([[1.0, 2.0], [9.0, 3.0]]), torch.ones(2))
        tensor([3., 5.])
    """
    return _product("symv", alpha, a, x, beta, y, False, lower, vector=True, precision=precision, out=out)


def _product(
    name: str,
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    hermitian: bool = False,
    vector: bool = False,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    right, stored_lower = flag(name, "side", side, "lr"), flag(name, "lower", lower, "ul")
    check_sides(name, a, b, c, right, vector="N" if vector else "", out=out)
    dtype = a.dtype
    alpha, beta = check.coefficient(name, "alpha", alpha, dtype), check.coefficient(name, "beta", beta, dtype)
    third, shape = ("y", "[..., N]") if vector else ("c", "[..., M, N]")
    require(name, third, c, coefficient="beta", scalar=beta, shape=shape)
    policy = resolve(name, precision, dtype)
    hermitian = hermitian and dtype.is_complex
    if vector:
        b, c = b.unsqueeze(-1), None if c is None else c.unsqueeze(-1)
    if right:
        # b @ a is the transpose of a.T @ b.T, and a.T is a, or its conjugate.
        flipped, addend = a.conj() if hermitian else a, None if c is None else c.mT
        result = run(Symm(flipped, b.mT, addend, alpha, beta, stored_lower, hermitian, policy)).mT
    else:
        result = run(Symm(a, b, c, alpha, beta, stored_lower, hermitian, policy))
    if vector:
        result = result.squeeze(-1)
    return result if out is None else out.copy_(result)


@like(symm, functools.partial(_product, "hemm", hermitian=True))
def hemm(*args: Any, **kwargs: Any) -> Any:
    """Return ``alpha * a @ b + beta * c`` with ``a`` Hermitian; imaginary parts of its diagonal are not read.

    Arguments as for `symm`.
    """


def _hermitian_vector(
    alpha: complex, a: Tensor, x: Tensor, beta: complex = 0.0, y: Tensor | None = None, *lower: Any, **options: Any
) -> Tensor:
    return _product("hemv", alpha, a, x, beta, y, False, *lower, hermitian=True, vector=True, **options)


@like(symv, _hermitian_vector)
def hemv(*args: Any, **kwargs: Any) -> Any:
    """Return ``alpha * a @ x + beta * y`` with ``a`` Hermitian; arguments as for `symv`."""


def fill_triangle(a: Tensor, lower: bool, hermitian: bool) -> Tensor:
    """Return the whole matrix from its stored triangle."""
    kept = triangle(a, lower)
    strict = a.tril(-1) if lower else a.triu(1)
    # Not a lazy conjugate: inside a compiled graph nobody would resolve it.
    whole = kept + (strict.mT.conj_physical() if hermitian else strict.mT)
    return real_diagonal(whole) if hermitian else whole


@op("trnblas::symm")
class Symm(NamedTuple):
    """``alpha * a @ b + beta * c`` with one triangle of ``a`` stored."""

    a: Tensor  # [..., M, M]
    b: Tensor  # [..., M, N]
    c: Tensor | None  # [..., M, N]
    alpha: complex
    beta: complex
    lower: bool
    hermitian: bool
    precision: Precision

    def fake(self) -> Tensor:
        c = () if self.c is None else self.c.shape[:-2]
        batch = check.broadcast("symm", a=self.a.shape[:-2], b=self.b.shape[:-2], c=c)
        return self.b.new_empty((*batch, *self.b.shape[-2:]))

    def cost(self) -> int:
        batch = math.prod(check.broadcast("symm", a=self.a.shape[:-2], b=self.b.shape[:-2]))
        flops = 2 * batch * self.a.shape[-1] * math.prod(self.b.shape[-2:])
        return 4 * flops if self.a.is_complex() else flops

    def bound(self, implementation: str) -> float:
        return error_bound(self.a.shape[-1], self.a.dtype, self.precision)

    def limits(self, implementation: str) -> str | None:
        if implementation != "host":
            return None
        if self.alpha == 0:
            return "nothing is multiplied"
        # of several columns torch's product is as fast
        dtypes = host_blas.COMPLEX if self.hermitian and self._vector else host_blas.REAL
        return host_blas.refusal(self.a, self.b, precision=self.precision, dtypes=dtypes)

    @property
    def _vector(self) -> bool:
        return self.b.shape[-1] == 1

    def calls(self, implementation: str) -> str:
        return host_blas.name(("hemv" if self.hermitian else "symv") if self._vector else "symm", self.a)

    def host(self) -> Tensor:
        if self.hermitian:
            product = host_blas.hermitian_product(self.alpha, self.a, self.b, self.lower)
        else:
            product = host_blas.symmetric_product(self.alpha.real, self.a, self.b, self.lower)
        return product if self.c is None else combine(product, 1.0, self.beta, self.c, self.a.dtype)

    def pytorch(self) -> Tensor:
        whole = fill_triangle(self.a, self.lower, self.hermitian)
        return gemm(self.alpha, whole, self.b, self.beta, self.c, precision=self.precision)

    @saves("a", "b")
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        a, b, lower, hermitian, policy = self.a, self.b, self.lower, self.hermitian, self.precision
        alpha = conjugate(self.alpha, a)
        gradients = {}
        if "b" in needs:
            factor = a if hermitian else a.conj()
            of_b = run(Symm(factor, grad, None, alpha, 0.0, lower, hermitian, policy))
            gradients["b"] = of_b.sum_to_size(b.shape)
        if "a" in needs:
            whole = gemm(alpha, grad, b, trans_b="c", precision=policy)
            other = whole.mH if hermitian else whole.mT
            both = triangle(whole, lower) + (other.tril(-1) if lower else other.triu(1))
            gradients["a"] = (real_diagonal(both) if hermitian else both).sum_to_size(a.shape)
        if self.c is not None and "c" in needs:
            gradients["c"] = (conjugate(self.beta, a) * grad).sum_to_size(self.c.shape)
        return gradients

    def nki(self) -> Tensor:
        a, b = self.a, self.b
        whole = a.dtype != torch.float32 or self.precision != "fp32" or a.shape[-1] > _LARGEST
        if whole or b.numel() == 0 or self.alpha == 0:
            # Planes, slices and rounded operands are cut from the whole matrix.
            return self.pytorch()
        batch = check.broadcast("symm", a=a.shape[:-2], b=b.shape[:-2])
        # The upper triangle of a matrix is the lower one of its transpose.
        stored = a if self.lower else a.mT
        stored = stored.unsqueeze(0) if a.ndim == 2 else stored.expand(*batch, *a.shape[-2:]).flatten(0, -3)
        columns = b.expand(*batch, *b.shape[-2:]).reshape(-1, *b.shape[-2:])
        product: Tensor = launch(kernels.symm, stored.contiguous(), columns.contiguous())
        return combine(product.reshape(*batch, *b.shape[-2:]), self.alpha, self.beta, self.c, a.dtype)
