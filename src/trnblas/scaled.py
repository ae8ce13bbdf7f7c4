"""Products of 8-bit floating-point matrices with scales, as quantised models store them."""

from __future__ import annotations

import torch
from torch import Tensor

from trnblas.gemm import gemm
from trnsci import ArgumentError, DtypeError, array_function, check

DTYPES = (torch.float8_e4m3fn, torch.float8_e5m2)
RESULTS = (torch.float32, torch.bfloat16, torch.float16)


@array_function
def gemm_scaled(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor | float = 1.0,
    scale_b: Tensor | float = 1.0,
    *,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Multiply FP8 matrices with scales: ``(scale_a * a) @ (scale_b * b) + bias``.

    Args:
        a: float8_e4m3fn or float8_e5m2 [M, K].
        b: the same [K, N]; the two may differ.
        scale_a: a number; [M, 1], one for each row; or [M, K / g], one for each g entries along K, g dividing K.
        scale_b: a number; [1, N]; or [K / g, N] with the g of ``scale_a``, if that has one.
        bias: [N], real; added before the result is rounded.
        dtype: of the result: float32, bfloat16 or float16.

    Returns:
        [M, N].

    Error bound:
        ``g(K + 4) (|scale_a a| @ |scale_b b| + |bias|)`` with ``u = 2**-24``, and a rounding to ``dtype``. Operands are
        exact in bfloat16, so that products on the Tensor Engine are exact in fp32.

    Cost:
        ``2MNK`` FLOPs. Groups of scales along K are a batch of products, added up with their scales.

    Example:
        >>> ones = torch.ones(2, 4).to(torch.float8_e4m3fn)
        >>> gemm_scaled(ones, ones.T, 2.0, 0.5)
        tensor([[4., 4.],
                [4., 4.]])
    """
    for name, x in (("a", a), ("b", b)):
        check.tensor("gemm_scaled", **{name: x})
        if x.dtype not in DTYPES:
            raise DtypeError("gemm_scaled", f"dtype of {name}", x.dtype, "float8_e4m3fn or float8_e5m2")
        if x.ndim != 2:
            raise ArgumentError("gemm_scaled", f"shape of {name}", tuple(x.shape), "a matrix")
    if dtype not in RESULTS:
        raise DtypeError("gemm_scaled", "dtype", dtype, "float32, bfloat16 or float16")
    check.same_device("gemm_scaled", a=a, b=b)
    check.equal("gemm_scaled", "K", a=a.shape[1], b=b.shape[0])
    m, k, n = *a.shape, b.shape[1]
    left, groups = _scale("scale_a", scale_a, a, m, k)
    right, others = _scale("scale_b", scale_b, b, n, k)
    if groups > 1 and others > 1 and groups != others:
        raise ArgumentError("gemm_scaled", "groups", {"scale_a": groups, "scale_b": others})
    pieces = max(groups, others)
    x, y = a.float(), b.float()
    if pieces > 1:
        x = x.reshape(m, pieces, k // pieces).transpose(0, 1).contiguous()  # [pieces, M, k]
        y = y.reshape(pieces, k // pieces, n)  # [pieces, k, N]
    # In float64 only the result need be in range, and it is rounded once.
    scale = left.mT.unsqueeze(-1).double() * right.mT.unsqueeze(-2).double()  # [pieces or 1, M or 1, N or 1]
    product = gemm(1.0, x, y, precision="fast") * scale
    whole = product[0] if pieces == 1 else product.sum(0)
    if bias is not None:
        check.tensor("gemm_scaled", bias=bias)
        if not bias.is_floating_point():
            raise DtypeError("gemm_scaled", "dtype of bias", bias.dtype, "a real floating dtype")
        if tuple(bias.shape) != (n,):
            raise ArgumentError("gemm_scaled", "shape of bias", tuple(bias.shape), f"({n},)")
        whole = whole + bias
    return whole.to(dtype)


def _scale(name: str, scale: Tensor | float, x: Tensor, rows: int, k: int) -> tuple[Tensor, int]:
    """Return scales as [rows or 1, groups], and the number of groups along K."""
    if not isinstance(scale, Tensor | int | float) or (isinstance(scale, Tensor) and not scale.is_floating_point()):
        got = scale.dtype if isinstance(scale, Tensor) else type(scale)
        raise DtypeError("gemm_scaled", name, got, "a real number or a real tensor")
    given = torch.as_tensor(scale, dtype=torch.float32, device=x.device)
    if given.ndim == 0:
        return given.reshape(1, 1), 1
    shape = tuple(given.shape)
    given = given.mT if name == "scale_b" and given.ndim == 2 else given
    if given.ndim != 2 or given.shape[0] not in (1, rows) or not given.shape[1] or k % given.shape[1]:
        side = f"[{rows}, groups]" if name == "scale_a" else f"[groups, {rows}]"
        expected = f"a number, or {side} with groups dividing K = {k}"
        raise ArgumentError("gemm_scaled", f"shape of {name}", shape, expected)
    return given, given.shape[1]
