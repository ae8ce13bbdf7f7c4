"""Triangles packed into vectors, column by column: spmv, hpmv, spr, hpr, spr2, hpr2, tpmv, tpsv.

A packed triangle of an N by N matrix has N (N + 1) / 2 elements. The host's BLAS reads it as it is; it is unpacked to
run on the kernels of the full form.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnblas import host_blas
from trnblas.arguments import Trans, alike, combine, flag, matching, nonsingular, real, require, through, transposition
from trnblas.symm import hemv, symv
from trnblas.syr import her, her2, syr, syr2
from trnblas.trmm import Trmm, triangular
from trnblas.trsm import Trsm
from trnsci import ArgumentError, array_function, check, op, run
from trnsci.arrays import like
from trnsci.torch_internals import dispatch_modes

Routine = Literal["spmv", "hpmv", "tpmv", "tpsv", "spr", "hpr", "spr2", "hpr2"]


def _positions(n: int, lower: bool, device: torch.device) -> Tensor:
    """Return row-major positions of the packed elements in the transposed matrix: BLAS packs columns."""
    # A tracer's sizes are no keys of a cache, and its tensors nothing to keep.
    return (_compute if is_compiling() or dispatch_modes() or type(n) is not int else _cached)(n, lower, device)


def _compute(n: int, lower: bool, device: torch.device) -> Tensor:
    rows, columns = (torch.triu_indices if lower else torch.tril_indices)(n, n, device=device)
    return rows * n + columns


# gradients may need what a call in inference mode computed first
_cached = functools.lru_cache(maxsize=8)(torch.inference_mode(False)(_compute))


def unpack(n: int, ap: Tensor, lower: bool) -> Tensor:
    """Return the triangle as a full matrix [..., N, N] with zeros."""
    flat = ap.new_zeros((*ap.shape[:-1], n * n)).index_copy(-1, _positions(n, lower, ap.device), ap)
    return flat.reshape(*ap.shape[:-1], n, n).mT


def pack(a: Tensor, lower: bool) -> Tensor:
    """Return the triangle of [..., N, N] as a packed vector."""
    return a.mT.flatten(-2).index_select(-1, _positions(a.shape[-1], lower, a.device))


@array_function
def spmv(
    n: int, alpha: complex, ap: Tensor, x: Tensor, beta: complex = 0.0, y: Tensor | None = None,
    lower: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``alpha * a @ x + beta * y`` with ``a`` symmetric and packed: ``ap`` is [..., N (N + 1) / 2].

    Example:
        >>> spmv(2, 1.0, torch.tensor([1.0, 2.0, 3.0]), torch.ones(2))
        tensor([3., 5.])
    """
    return _product("spmv", n, alpha, ap, x, beta, y, lower, out=out)


def _product(
    name: str, n: int, alpha: complex, ap: Tensor, x: Tensor, beta: complex = 0.0, y: Tensor | None = None,
    lower: bool | int | str = False, *, hermitian: bool = False, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    _check_operands(name, n, ap, x, y)
    stored = flag(name, "lower", lower, "ul")
    alpha, beta = check.coefficient(name, "alpha", alpha, ap.dtype), check.coefficient(name, "beta", beta, ap.dtype)
    require(name, "y", y, coefficient="beta", scalar=beta, shape="[..., N]")
    routine: Routine = "hpmv" if hermitian and ap.is_complex() else "spmv"
    return _into(name, Packed(ap, x, y, alpha, beta, routine, stored, "n", False), out)


@like(spmv, functools.partial(_product, "hpmv", hermitian=True))
def hpmv(*args: Any, **kwargs: Any) -> Any:
    """Return ``alpha * a @ x + beta * y`` with ``a`` Hermitian and packed; arguments as for `spmv`."""


def _check_operands(name: str, n: int, ap: Tensor, x: Tensor, y: Tensor | None = None) -> None:
    """Check vectors [..., N] and a packed triangle of N rows, of one dtype on one device."""
    if not matching(ap, x, y):
        alike(name, ap=ap, x=x, y=y)
    if type(n) is not int or n < 0 or not ap.ndim or ap.shape[-1] != n * (n + 1) // 2:
        check.ndim(name, 1, ap=ap)
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise ArgumentError(name, "n", n, "a number of rows, 0 or more")
        expected = f"[..., {n * (n + 1) // 2}], which is n (n + 1) / 2 for n={n}"
        raise ArgumentError(name, "shape of ap", tuple(ap.shape), expected)
    if y is not None or x.ndim != 1 or x.shape[0] != n or ap.ndim > 1:
        vectors = {"x": x} if y is None else {"x": x, "y": y}
        check.ndim(name, 1, **vectors)
        check.equal(name, "N", "", ap=n, **{argument: v.shape[-1] for argument, v in vectors.items()})
        check.broadcast(name, ap=ap.shape[:-1], **{argument: v.shape[:-1] for argument, v in vectors.items()})


def _into(name: str, call: Packed, out: Tensor | None) -> Tensor:
    if out is not None:
        check.out(name, out, shape=call.shape, dtype=call.ap.dtype, ap=call.ap, x=call.x, y=call.y)
    return run(call, out)


@array_function
def spr(
    n: int, alpha: complex, x: Tensor, ap: Tensor, lower: bool | int | str = False, *, out: Tensor | None = None
) -> Tensor:
    """Return ``alpha * outer(x, x) + a``, packed like ``ap``.

    Example:
        >>> spr(2, 1.0, torch.ones(2), torch.zeros(3))
        tensor([1., 1., 1.])
    """
    return _update("spr", n, alpha, x, None, ap, lower, out=out)


@array_function
def spr2(
    n: int, alpha: complex, x: Tensor, y: Tensor, ap: Tensor, lower: bool | int | str = False,
    *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``alpha * (outer(x, y) + outer(y, x)) + a``, packed like ``ap``."""
    return _update("spr2", n, alpha, x, y, ap, lower, twice=True, out=out)


def _update(
    name: str,
    n: int,
    alpha: complex,
    x: Tensor,
    y: Tensor | None,
    ap: Tensor,
    lower: bool | int | str = False,
    *,
    hermitian: bool = False,
    twice: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    if twice:
        check.tensor(name, y=y)
    _check_operands(name, n, ap, x, y)
    stored, needs_real = flag(name, "lower", lower, "ul"), hermitian and not twice
    factor = real(name, "alpha", alpha) if needs_real else check.coefficient(name, "alpha", alpha, ap.dtype)
    # of real vectors, Hermitian is symmetric
    routine: Any = ("hpr" if hermitian and ap.is_complex() else "spr") + ("2" if twice else "")
    return _into(name, PackedUpdate(ap, x, y, factor, 1.0, routine, stored, "n", False), out)


@like(spr, lambda n, alpha, x, *more, **options: _update("hpr", n, alpha, x, None, *more, hermitian=True, **options))
def hpr(*args: Any, **kwargs: Any) -> Any:
    """Return ``alpha * outer(x, conj(x)) + a``, packed like ``ap``."""


@like(spr2, functools.partial(_update, "hpr2", hermitian=True, twice=True))
def hpr2(*args: Any, **kwargs: Any) -> Any:
    """Return ``alpha * outer(x, conj(y)) + conj(alpha) * outer(y, conj(x)) + a``, packed like ``ap``."""


@array_function
def tpmv(
    n: int, ap: Tensor, x: Tensor, lower: bool | int | str = False, trans: bool | int | str = False,
    diag: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``op(a) @ x`` with ``a`` triangular and packed; flags as for `trmv`.

    Example:
        >>> tpmv(2, torch.tensor([1.0, 2.0, 3.0]), torch.ones(2))
        tensor([3., 3.])
    """
    return _triangular("tpmv", n, ap, x, lower, trans, diag, out=out)


def _triangular(
    name: Literal["tpmv", "tpsv"], n: int, ap: Tensor, x: Tensor, lower: bool | int | str = False,
    trans: bool | int | str = False, diag: bool | int | str = False, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    _check_operands(name, n, ap, x)
    stored, kind, unit = flag(name, "lower", lower, "ul"), transposition(name, trans), flag(name, "diag", diag, "nu")
    call = Packed(ap, x, None, 1.0, 0.0, name, stored, kind, unit)
    if out is not None:
        check.out(name, out, shape=call.shape, dtype=ap.dtype, ap=ap, x=x)
    result = run(call)
    if name == "tpsv" and not unit:
        nonsingular(name, ap, result, lambda triangle: triangle[..., _diagonal(n, stored)])
    return result if out is None else out.copy_(result)


@like(tpmv, functools.partial(_triangular, "tpsv"))
def tpsv(*args: Any, **kwargs: Any) -> Any:
    """Solve ``op(a) @ y = x`` with ``a`` triangular and packed; flags as for `trsv`."""


@functools.lru_cache(maxsize=8)
def _diagonal(n: int, lower: bool) -> np.ndarray[Any, Any]:
    """Return positions of the diagonal in the packed triangle."""
    ends = np.arange(1, n + 1).cumsum()
    return n * (n + 1) // 2 - ends[::-1] if lower else ends - 1


@op("trnblas::packed_product", composed=True)
class Packed(NamedTuple):
    """``alpha * a @ x + beta * y`` (spmv, hpmv), ``op(a) @ x`` (tpmv) or ``inv(op(a)) @ x`` (tpsv)."""

    ap: Tensor  # [..., N (N + 1) / 2]
    x: Tensor  # [..., N]
    y: Tensor | None  # [..., N]
    alpha: complex
    beta: complex
    routine: Routine
    lower: bool
    trans: Trans
    unit: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        y = () if self.y is None else self.y.shape[:-1]
        return (*check.broadcast("spmv", ap=self.ap.shape[:-1], x=self.x.shape[:-1], y=y), self.x.shape[-1])

    def fake(self) -> Tensor:
        return self.x.new_empty(self.shape)

    def cost(self) -> int:
        batch = math.prod(check.broadcast("spmv", ap=self.ap.shape[:-1], x=self.x.shape[:-1]))
        each = (4 if self.routine in ("spmv", "hpmv") else 2) * (4 if self.ap.is_complex() else 1)
        return each * batch * self.ap.shape[-1]

    def limits(self, implementation: str) -> str | None:
        if implementation != "host":
            return None
        if self.routine == "spmv" and self.ap.is_complex():
            return "BLAS has no complex symmetric packed matrices"
        if self.alpha == 0:
            return "nothing is multiplied"
        return host_blas.refusal(self.ap, self.x, ndim=1, dtypes=host_blas.ALL_LETTERS)

    def calls(self, implementation: str) -> str:
        return host_blas.name(self.routine, self.ap)

    def host(self) -> Tensor:
        n, ap, x, routine = self.x.shape[0], self.ap.numpy(), self.x.numpy(), self.routine
        compute = host_blas.routine(routine, self.x.dtype)
        if routine == "tpmv" or routine == "tpsv":
            trans = "ntc".index(self.trans)
            return torch.from_numpy(compute(n, ap, x, lower=self.lower, trans=trans, diag=self.unit))
        product = torch.from_numpy(compute(n, self.alpha, ap, x, lower=self.lower))
        return product if self.y is None else combine(product, 1.0, self.beta, self.y, self.x.dtype)

    def pytorch(self) -> Tensor:
        whole = unpack(self.x.shape[-1], self.ap, self.lower)
        if self.routine in ("spmv", "hpmv"):
            multiply = symv if self.routine == "spmv" else hemv
            return multiply(self.alpha, whole, self.x, self.beta, self.y, self.lower)
        kind = Trmm if self.routine == "tpmv" else Trsm
        flags: dict[str, Any] = {"lower": self.lower, "trans": self.trans, "diag": self.unit}
        return triangular(self.routine, kind, whole, self.x, **flags, vector=True)

    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        return through(self, ("ap", "x", "y"), grad, needs)


@op("trnblas::packed_update", composed=True)
class PackedUpdate(Packed):
    """``alpha * outer(x, x) + a`` (spr, hpr), or with ``y`` the sum of both outer products (spr2, hpr2)."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return (*super().shape[:-1], self.ap.shape[-1])

    def cost(self) -> int:
        return (2 if self.y is None else 4) * self.ap.numel() * (4 if self.ap.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        if implementation != "host":
            return None
        hermitian = self.routine.startswith("h")
        if hermitian and self.alpha == 0:
            return "BLAS leaves imaginary parts of the diagonal where nothing is added"
        given = [t for t in (self.ap, self.x, self.y) if t is not None]
        return host_blas.refusal(*given, ndim=1, dtypes=host_blas.COMPLEX if hermitian else host_blas.REAL)

    def host(self) -> Tensor:
        xs = [t.numpy() for t in (self.x, self.y) if t is not None]
        update = host_blas.routine(self.routine, self.x.dtype)
        alpha = self.alpha.real if self.routine == "hpr" else self.alpha
        return torch.from_numpy(update(len(xs[0]), alpha, *xs, self.ap.numpy(), lower=self.lower))

    def pytorch(self) -> Tensor:
        whole = unpack(self.x.shape[-1], self.ap, self.lower)
        xs = [t for t in (self.x, self.y) if t is not None]
        update: Any = {"spr": syr, "hpr": her, "spr2": syr2, "hpr2": her2}[self.routine]
        return pack(update(self.alpha, *xs, self.lower, whole), self.lower)
