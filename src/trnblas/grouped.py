"""Products of different shapes in one program: grouped_gemm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnblas.accuracy import error_bound
from trnblas.arguments import HALF, combine, conjugate, transpose_by, transposition
from trnblas.gemm import gemm
from trnblas.kernels import gemm as gemm_kernels, grouped as kernels
from trnsci import ArgumentError, array_function, check, op, programs, run
from trnsci.gradient import saves
from trnsci.nki import launch
from trnsci.precision import Precision, resolve


@array_function
def grouped_gemm(
    alpha: complex,
    a: Sequence[Tensor],
    b: Sequence[Tensor],
    beta: complex = 0.0,
    c: Sequence[Tensor] | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
) -> list[Tensor]:
    """Return ``alpha * op(a[g]) @ op(b[g]) + beta * c[g]`` for every g, all in one program on the device.

    Args:
        alpha: a number, the same for all.
        a: matrices [M_g, K_g], of any shapes, of one dtype.
        b: as many matrices [K_g, N_g].
        beta: a number.
        c: matrices [M_g, N_g]; needed when ``beta`` is not 0.
        trans_a: as for `gemm`, the same for all.
        trans_b: likewise.
        precision: as for `gemm`.

    Returns:
        The products, in order. Errors are bounded as for `gemm`.

    Example:
        >>> lefts, rights = [torch.ones(2, 3), torch.ones(4, 1)], [torch.ones(3, 5), torch.ones(1, 1)]
        >>> for product in grouped_gemm(1.0, lefts, rights):
        ...     print(tuple(product.shape))
        (2, 5)
        (4, 1)
    """
    lefts, rights = (check.sequence("grouped_gemm", name, x) for name, x in (("a", a), ("b", b)))
    check.equal("grouped_gemm", "number of matrices", a=len(lefts), b=len(rights))
    if c is not None:
        c = check.sequence("grouped_gemm", "c", c)
        check.equal("grouped_gemm", "number of matrices", a=len(lefts), c=len(c))
    if not lefts:
        return []
    kinds = transposition("grouped_gemm", trans_a, "trans_a"), transposition("grouped_gemm", trans_b, "trans_b")
    named = {f"a[{g}]": x for g, x in enumerate(lefts)} | {f"b[{g}]": x for g, x in enumerate(rights)}
    dtype = check.floating("grouped_gemm", **named)
    check.same_device("grouped_gemm", **named)
    for name, x in named.items():
        if x.ndim != 2:
            raise ArgumentError("grouped_gemm", f"shape of {name}", tuple(x.shape), "[M, K]")
    lefts, rights = [transpose_by(kinds[0], x) for x in lefts], [transpose_by(kinds[1], x) for x in rights]
    for g, (x, y) in enumerate(zip(lefts, rights, strict=True)):
        check.equal("grouped_gemm", "K", "", **{f"a[{g}]": x.shape[-1], f"b[{g}]": y.shape[-2]})
    alpha, beta = (
        check.coefficient("grouped_gemm", "alpha", alpha, dtype),
        check.coefficient("grouped_gemm", "beta", beta, dtype),
    )
    if c is None and beta != 0:
        raise ArgumentError("grouped_gemm", "c", None, f"tensors, because beta is {beta}")
    addends = [] if c is None or beta == 0 else list(c)
    for g, (x, y, z) in enumerate(zip(lefts, rights, addends, strict=False)):
        check.floating("grouped_gemm", **{f"a[{g}]": x, f"c[{g}]": z})
        check.equal("grouped_gemm", "shape", "", product=(x.shape[0], y.shape[1]), **{f"c[{g}]": tuple(z.shape)})
    policy = resolve("grouped_gemm", precision, dtype)
    return list(run(Grouped(lefts, rights, addends, alpha, beta, policy)))


@op("trnblas::grouped_gemm")
class Grouped(NamedTuple):
    """``alpha * a[g] @ b[g] + beta * c[g]`` for every g; no ``c`` is an empty list."""

    a: list[Tensor]  # [M_g, K_g]
    b: list[Tensor]  # [K_g, N_g]
    c: list[Tensor]  # [M_g, N_g]
    alpha: complex
    beta: complex
    precision: Precision

    def fake(self) -> list[Tensor]:
        return [x.new_empty((x.shape[0], y.shape[1])) for x, y in zip(self.a, self.b, strict=True)]

    def cost(self) -> int:
        each = 8 if self.a[0].is_complex() else 2
        return sum(each * x.shape[0] * x.shape[1] * y.shape[1] for x, y in zip(self.a, self.b, strict=True))

    def bound(self, implementation: str) -> float:
        return max(error_bound(x.shape[1], x.dtype, self.precision) for x in self.a)

    @property
    def _addends(self) -> Sequence[Tensor | None]:
        return self.c or [None] * len(self.a)

    def pytorch(self) -> list[Tensor]:
        groups = zip(self.a, self.b, self._addends, strict=True)
        return [gemm(self.alpha, x, y, self.beta, z, precision=self.precision) for x, y, z in groups]

    @saves("a", "b")
    def vjp(self, grad: list[Tensor], needs: frozenset[str]) -> dict[str, Any]:
        alpha, beta = (conjugate(value, self.a[0]) for value in (self.alpha, self.beta))
        # torch wants a list for every list, whoever needs a gradient.
        gradients: dict[str, Any] = {name: [None] * len(getattr(self, name)) for name in ("a", "b", "c")}
        if "a" in needs:
            gradients["a"] = grouped_gemm(alpha, grad, self.b, trans_b="c", precision=self.precision)
        if "b" in needs:
            gradients["b"] = grouped_gemm(alpha, self.a, grad, trans_a="c", precision=self.precision)
        if "c" in needs:
            gradients["c"] = [beta * part for part in grad]
        return gradients

    def nki(self) -> list[Tensor]:
        a, b, dtype = self.a, self.b, self.a[0].dtype
        if a[0].is_complex() or self.precision in ("fp64", "compensated"):
            return self.pytorch()
        operand = dtype if dtype in HALF else torch.bfloat16 if self.precision == "fast" else torch.float32
        rounds = dtype in HALF and self.alpha == 1 and not self.c
        products = [x.zero_() for x in self.fake()]
        some = [g for g, x in enumerate(a) if x.shape[1] and products[g].numel()]
        lefts = {g: a[g].mT.to(operand).contiguous() for g in some}
        rights = {g: b[g].to(operand).contiguous() for g in some}
        for group in _programs(some, lefts, rights):
            if len(group) == 1:
                (g,) = group
                products[g] = launch(gemm_kernels.gemm, lefts[g][None], rights[g][None], half=rounds)[0]
                continue
            # tensors are arguments of their own: the matrices of a side lie one after the other in one
            left, right = (torch.cat([side[g].reshape(-1) for g in group]) for side in (lefts, rights))
            shapes = tuple((*a[g].shape, b[g].shape[1]) for g in group)
            for g, product in zip(group, launch(kernels.grouped, left, right, shapes=shapes, half=rounds), strict=True):
                products[g] = product[0]
        groups = zip(products, self._addends, strict=True)
        return [combine(x, self.alpha, self.beta, z, dtype) for x, z in groups]


def _programs(some: list[int], lefts: Mapping[int, Tensor], rights: Mapping[int, Tensor]) -> list[list[int]]:
    """Group consecutive products into programs that compile; one that is too long is alone, and is cut."""
    parts: list[list[int]] = []
    used = programs.Size(0, 0)
    for g in some:
        size = programs.size_of(gemm_kernels.gemm, (lefts[g][None], rights[g][None]), {})
        used = programs.Size(used.instructions + size.instructions, used.matmuls + size.matmuls)
        if not parts or not used.fits:
            parts.append([])
            used = size
        parts[-1].append(g)
    return parts
