"""Random vectors and matrices."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from trnrand.normal import standard
from trnrand.request import Options, Request, Size, drawing, holds
from trnrand.source import Source, shape_of
from trnsci import ArgumentError, NotPositiveDefinite, check


@drawing
def multivariate_normal(
    *size: Size,
    mean: Tensor,
    covariance: Tensor,
    method: str = "cholesky",
    dtype: torch.dtype | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw normal vectors of a mean and a covariance.

    Args:
        size: shape of the batch; without one, what the batches of ``mean`` and ``covariance`` broadcast to.
        mean: [..., D].
        covariance: [..., D, D], symmetric; its lower triangle is read.
        method: ``"cholesky"``, or ``"eigh"``, which also takes covariances that are only semi-definite.
        dtype: floating; by default that of ``mean``.

    Returns:
        [*size, D], with gradients to ``mean`` and ``covariance``.

    Raises:
        ArgumentError: shapes do not fit, or an entry is not finite. Nothing was drawn.
        NotPositiveDefinite: the covariance has no factor. Nothing was drawn.
    """
    op = "multivariate_normal"
    check.option(op, "method", method, ("cholesky", "eigh"))
    check.floating(op, mean=mean, covariance=covariance)
    check.ndim(op, 1, mean=mean)
    check.ndim(op, 2, covariance=covariance)
    d = mean.shape[-1]
    check.equal(op, "D", mean=d, rows=covariance.shape[-2], columns=covariance.shape[-1])
    check.same_device(op, mean=mean, covariance=covariance)
    batch = check.broadcast(op, mean=tuple(mean.shape[:-1]), covariance=tuple(covariance.shape[:-2]))
    shape = shape_of(op, size) if size else batch
    holds(op, shape, batch)
    for name, value in (("mean", mean), ("covariance", covariance)):
        if not value.is_meta and not bool(torch.isfinite(value).all()):
            raise ArgumentError(op, name, "an entry that is not finite", "finite numbers")
    request = Request(op, (shape,), generator, dtype=dtype or mean.dtype, device=mean.device, event=(d,))
    factor = _factor(covariance, method)
    work = torch.float64 if request.dtype == torch.float64 else torch.float32
    here = request._rows if shape else slice(None)
    z = standard(request).reshape(*request.local)
    mean = mean.expand(*shape, d)
    if covariance.ndim > 2:
        factor = factor.expand(*shape, d, d)
        factor = factor[here] if shape else factor
    mean = mean[here] if shape else mean
    return request.finish(mean.to(work) + (factor.to(work) @ z.unsqueeze(-1).to(work)).squeeze(-1))


def _factor(covariance: Tensor, method: str) -> Tensor:
    wide = covariance.to(torch.promote_types(covariance.dtype, torch.float32))
    if method == "cholesky":
        factor, info = torch.linalg.cholesky_ex(wide)
        if not info.is_meta and bool((info > 0).any()):
            at = tuple(int(i) for i in (info > 0).nonzero()[0]) if info.ndim else ()
            hint = 'A semi-definite covariance can be drawn from with method="eigh"'
            raise NotPositiveDefinite(op="multivariate_normal", index=int(info[at]) - 1, batch=at, hint=hint)
        return factor
    values, vectors = torch.linalg.eigh(wide)
    largest = values[..., -1:].clamp(min=0)
    bound = 16 * wide.shape[-1] * torch.finfo(wide.dtype).eps * largest
    if not values.is_meta and bool((values < -bound).any()):
        index = int((values < -bound).nonzero()[0][-1])
        raise NotPositiveDefinite(
            op="multivariate_normal", index=index, hint="The covariance has a negative eigenvalue"
        )
    return vectors * values.clamp(min=0).sqrt().unsqueeze(-2)


@drawing
def unit_vector(*size: Size, dim: int = 3, **options: Unpack[Options]) -> Tensor:
    """Draw vectors uniform on the unit sphere.

    Args:
        size: shape of the batch.
        dim: length of a vector, at least 1.
        dtype: float16, bfloat16, float32 or float64.

    Returns:
        [*size, dim]: normal vectors over their lengths.
    """
    check.integer("unit_vector", "dim", dim, 1)
    request = Request("unit_vector", (shape_of("unit_vector", size),), event=(dim,), **options)
    z = standard(request).double().reshape(-1, dim)
    length = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    first = torch.nn.functional.one_hot(torch.zeros(len(z), dtype=torch.int64, device=z.device), dim).double()
    return request.finish(torch.where(length > 0, z / torch.where(length > 0, length, 1.0), first))


@drawing
def orthogonal(
    *size: Size,
    n: int,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw orthogonal matrices, uniform with respect to Haar's measure.

    Args:
        size: shape of the batch.
        n: order of the matrices.
        dtype: float32 or float64.

    Returns:
        [*size, n, n]: the Q of normal matrices, with a positive diagonal of R. The words are the same everywhere; the
        factorisation is the device's own, so devices agree to rounding.
    """
    check.integer("orthogonal", "n", n, 1)
    floats = (torch.float32, torch.float64)
    shape = shape_of("orthogonal", size)
    request = Request(
        "orthogonal", (shape,), generator, dtype=dtype, device=device, dtypes=floats, event=(n, n), whole=not shape
    )
    z = standard(request).reshape(-1, n, n)
    q, r = torch.linalg.qr(z)
    signs = torch.where(torch.diagonal(r, dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(q.dtype)
    return request.finish(q * signs.unsqueeze(-2))
