"""Products of different shapes in one program: grouped_gemm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from trnblas.arguments import HALF, agree, applied, conjugated, finished, transposition
from trnblas.gemm import gemm
from trnblas.kernels import grouped as kernels
from trnsci import ArgumentError, Op, array_function, check
from trnsci.gradient import Saved
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
    lefts, rights = list(a), list(b)
    check.equal("grouped_gemm", "number of matrices", a=len(lefts), b=len(rights))
    if c is not None:
        check.equal("grouped_gemm", "number of matrices", a=len(lefts), c=len(c))
    if not lefts:
        return []
    kinds = transposition("grouped_gemm", trans_a, "trans_a"), transposition("grouped_gemm", trans_b, "trans_b")
    named = {f"a[{g}]": x for g, x in enumerate(lefts)} | {f"b[{g}]": x for g, x in enumerate(rights)}
    dtype = check.floating("grouped_gemm", **named)
    check.same_device("grouped_gemm", **named)
    for name, x in named.items():
        if x.ndim != 2:
            raise ArgumentError(op="grouped_gemm", argument=f"shape of {name}", got=tuple(x.shape), expected="[M, K]")
    lefts, rights = [applied(kinds[0], x) for x in lefts], [applied(kinds[1], x) for x in rights]
    for g, (x, y) in enumerate(zip(lefts, rights, strict=True)):
        agree("grouped_gemm", "K", {f"a[{g}]": x.shape[-1], f"b[{g}]": y.shape[-2]})
    alpha, beta = (
        check.coefficient("grouped_gemm", "alpha", alpha, dtype),
        check.coefficient("grouped_gemm", "beta", beta, dtype),
    )
    if c is None and beta != 0:
        raise ArgumentError(op="grouped_gemm", argument="c", got=None, expected=f"tensors, because beta is {beta}")
    addends = [] if c is None or beta == 0 else list(c)
    for g, (x, y, z) in enumerate(zip(lefts, rights, addends, strict=False)):
        check.floating("grouped_gemm", **{f"a[{g}]": x, f"c[{g}]": z})
        agree("grouped_gemm", "shape", {"product": (x.shape[0], y.shape[1]), f"c[{g}]": tuple(z.shape)})
    policy = resolve("grouped_gemm", precision, dtype)
    return list(_grouped(lefts, rights, addends, alpha, beta, policy))


def _fake(
    a: list[Tensor], b: list[Tensor], c: list[Tensor], alpha: complex, beta: complex, precision: Precision
) -> list[Tensor]:
    return [x.new_empty((x.shape[0], y.shape[1])) for x, y in zip(a, b, strict=True)]


def _cost(a: list[Tensor], b: list[Tensor], *_: Any) -> int:
    each = 8 if a[0].is_complex() else 2
    return sum(each * x.shape[0] * x.shape[1] * y.shape[1] for x, y in zip(a, b, strict=True))


# No ``c`` is an empty list.
_grouped = Op(
    "trnblas::grouped_gemm",
    fake=_fake,
    cost=_cost,
    schema="(Tensor[] a, Tensor[] b, Tensor[] c, Scalar alpha, Scalar beta, str precision) -> Tensor[]",
)


@_grouped.impl("pytorch")
def _pytorch(
    a: list[Tensor], b: list[Tensor], c: list[Tensor], alpha: complex, beta: complex, precision: Precision
) -> list[Tensor]:
    addends = c or [None] * len(a)
    return [gemm(alpha, x, y, beta, z, precision=precision) for x, y, z in zip(a, b, addends, strict=True)]


@_grouped.vjp(saves=("a", "b"))
def _gradient(saved: Saved, grads: list[Tensor]) -> Mapping[str, Any]:
    alpha, beta = (conjugated(value, saved.a[0]) for value in (saved.alpha, saved.beta))
    # torch wants a list for every list, whoever needs a gradient.
    found: dict[str, Any] = {"a": [None] * len(grads), "b": [None] * len(grads), "c": [None] * len(saved.c)}
    if saved.needs("a"):
        found["a"] = grouped_gemm(alpha, grads, saved.b, trans_b="c", precision=saved.precision)
    if saved.needs("b"):
        found["b"] = grouped_gemm(alpha, saved.a, grads, trans_a="c", precision=saved.precision)
    if saved.needs("c"):
        found["c"] = [beta * grad for grad in grads]
    return found


@_grouped.impl("nki")
def _nki(
    a: list[Tensor], b: list[Tensor], c: list[Tensor], alpha: complex, beta: complex, precision: Precision
) -> list[Tensor]:
    if a[0].is_complex() or precision in ("fp64", "compensated"):
        return _pytorch(a, b, c, alpha, beta, precision)
    dtype = a[0].dtype
    operand = dtype if dtype in HALF else torch.bfloat16 if precision == "fast" else torch.float32
    rounds = dtype in HALF and alpha == 1 and not c
    products = [x.zero_() for x in _fake(a, b, c, alpha, beta, precision)]
    run = [g for g, x in enumerate(a) if x.shape[1] and products[g].numel()]
    if run:
        # tensors are arguments of their own: the matrices of a side lie one after the other in one
        lefts = torch.cat([a[g].mT.to(operand).reshape(-1) for g in run])
        rights = torch.cat([b[g].to(operand).reshape(-1) for g in run])
        shapes = tuple((*a[g].shape, b[g].shape[1]) for g in run)
        for g, product in zip(run, launch(kernels.grouped, lefts, rights, shapes=shapes, half=rounds), strict=True):
            products[g] = product[0]
    addends = c or [None] * len(a)
    return [finished(x, alpha, beta, z, dtype) for x, z in zip(products, addends, strict=True)]
