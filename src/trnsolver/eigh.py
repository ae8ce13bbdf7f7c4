"""Eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, NotConverged, Op, array_function, check
from trnsci.gradient import Saved
from trnsci.nki import launch
from trnsolver.arguments import readable, roundoff, square, triangle
from trnsolver.jacobi import masks, sweeps
from trnsolver.kernels import eigh as kernels
from trnsolver.refine import improve_eigenvectors

if TYPE_CHECKING:
    from trnsolver.contract import Spectrum


class Eigh(NamedTuple):
    """``a @ vectors = vectors * values``; values ascend."""

    values: Tensor
    vectors: Tensor


@overload
def eigh(a: Tensor, *, uplo: str = ..., subset: tuple[int, int] | None = ..., target_error: None = ...) -> Eigh: ...
@overload
def eigh(a: Tensor, *, uplo: str = ..., subset: tuple[int, int] | None = ..., target_error: float) -> Spectrum: ...
@array_function
def eigh(
    a: Tensor, *, uplo: str = "L", subset: tuple[int, int] | None = None, target_error: float | None = None
) -> Eigh | Spectrum:
    """Eigenvalues, ascending, and orthonormal eigenvectors of a Hermitian matrix.

    Args:
        a: [..., N, N]. Only the triangle ``uplo`` names is read.
        uplo: ``"L"`` or ``"U"``.
        subset: first and last index (included) of the eigenvalues to return; all by default.
        target_error: error to reach, relative to ``norm(a)``. The start is single precision, refined in float64 by
            products alone, and the result a `Spectrum` with the error reached; `NotConverged` where it was not.

    Raises:
        NotConverged: the kernel's sweeps, or the refinement, did not suffice; ``residual`` says what is left.

    Error bound:
        ``norm(a - v @ diag(w) @ v.mH) <= 20 N u norm(a)`` and ``norm(v.mH @ v - 1) <= 20 N u``.

    Cost:
        about ``9 N**3`` FLOPs on PyTorch. The kernel is a Jacobi method: about ``6 N**3`` per sweep.

    Example:
        >>> eigh(torch.tensor([[2.0, 1.0], [1.0, 2.0]])).values.round(decimals=4)
        tensor([1., 3.])
    """
    square("eigh", look=False, a=a)
    check.option("eigh", "uplo", uplo, ("L", "U", "l", "u"))
    triangle("eigh", uplo in ("L", "l"), a=a)
    lower = a.mH if uplo in ("U", "u") else a
    if target_error is not None:
        from trnsolver.contract import eigh_to

        if subset is not None:
            raise ArgumentError(op="eigh", argument="subset", got=subset, expected="None with target_error")
        return eigh_to(lower, target_error)
    values, vectors, residual = _eigh(lower)
    _converged(a, residual)
    if subset is None:
        return Eigh(values, vectors)
    first, last = _subset(subset, a.shape[-1])
    return Eigh(values[..., first:last], vectors[..., first:last])


@array_function
def eigvalsh(a: Tensor, *, uplo: str = "L", subset: tuple[int, int] | None = None) -> Tensor:
    """Eigenvalues of a Hermitian matrix [..., N, N], ascending; arguments as for `eigh`.

    Example:
        >>> eigvalsh(torch.tensor([[2.0, 1.0], [1.0, 2.0]])).round(decimals=4)
        tensor([1., 3.])
    """
    square("eigvalsh", look=False, a=a)
    check.option("eigvalsh", "uplo", uplo, ("L", "U", "l", "u"))
    triangle("eigvalsh", uplo in ("L", "l"), a=a)
    lower = a.mH if uplo in ("U", "u") else a
    if torch.is_grad_enabled() and a.requires_grad:
        values = _eigh(lower)[0]
    else:
        values = _eigvalsh(lower)
    if subset is None:
        return values
    first, last = _subset(subset, a.shape[-1])
    return values[..., first:last]


def _subset(subset: tuple[int, int], n: int) -> tuple[int, int]:
    first, last = subset
    if not 0 <= first <= last < n:
        raise ArgumentError(op="eigh", argument="subset", got=subset, expected=f"0 <= first <= last < {n}")
    return first, last + 1


def _converged(a: Tensor, residual: Tensor) -> None:
    """The kernel's sweeps are fixed; what is left off the diagonal says whether they sufficed."""
    if residual.numel() == 0 or not readable(residual):
        return
    worst = float(residual.detach().max())
    if worst > 20 * a.shape[-1] * roundoff(a.dtype):
        raise NotConverged(op="eigh", iterations=_LAUNCHES * sweeps(a.shape[-1]), residual=worst)


def _fake(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    values, vectors = torch.linalg.eigh(a)
    return values, vectors, values.new_empty(a.shape[:-2])


def _cost(a: Tensor) -> int:
    return 9 * a.numel() * a.shape[-1] * (4 if a.is_complex() else 1)


_eigh = Op("trnsolver::eigh", fake=_fake, cost=_cost)


@_eigh.impl("pytorch")
def _pytorch(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    values, vectors = torch.linalg.eigh(a)
    return values, vectors, values.new_zeros(a.shape[:-2])


def _fake_values(a: Tensor) -> Tensor:
    return torch.linalg.eigvalsh(a)


_eigvalsh = Op("trnsolver::eigvalsh", fake=_fake_values, cost=_cost)


@_eigvalsh.impl("pytorch")
def _pytorch_values(a: Tensor) -> Tensor:
    return torch.linalg.eigvalsh(a)


@_eigvalsh.impl("nki")
def _nki_values(a: Tensor) -> Tensor:
    values, _, residual = _eigh(a)
    _converged(a, residual)
    return values


def _limits(a: Tensor) -> str | None:
    n = a.shape[-1] * (2 if a.is_complex() else 1)
    if n > kernels.N_MAX:
        return f"the kernel keeps the matrix on chip: at most {kernels.N_MAX} rows, and this one needs {n}"
    return None


@_eigh.impl("nki", limits=_limits)
def _nki(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if a.numel() == 0:
        return _pytorch(a)
    if a.is_complex():
        return _complex(a)
    if a.dtype == torch.float64:
        _, start, _ = _eigh(a.float())
        values, vectors = improve_eigenvectors(a.tril() + a.tril(-1).mT, start.double())
        return values, vectors, values.new_zeros(a.shape[:-2])
    n = a.shape[-1]
    whole = a.tril() + a.tril(-1).mT
    scale = whole.abs().amax((-2, -1), keepdim=True)
    scale = torch.where(scale > 0, scale, 1.0)
    flat = (whole / scale).reshape(-1, n, n).contiguous()
    values, rows, residual = _launched(flat)
    order = values.argsort(-1)
    values = values.gather(-1, order).reshape(a.shape[:-1]) * scale.squeeze(-1)
    rows = rows.gather(-2, order.unsqueeze(-1).expand(rows.shape))
    return values, rows.mT.reshape(a.shape).contiguous(), residual.reshape(a.shape[:-2])


def _launched(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Values, vectors as rows, and what is off the diagonal relative to the largest value, of matrices [B, N, N].

    Sweeps are fixed. Where they do not suffice, which happens with few distinct eigenvalues among many, the program
    runs again on what it left.
    """
    n = a.shape[-1]
    core, rows = a, None
    for _ in range(_LAUNCHES):
        values, turned, left = launch(kernels.eigh, core, *masks(n, a.device), sweeps=sweeps(n))
        rows = turned if rows is None else gemm(1.0, turned, rows)
        values = values.reshape(-1, n)
        largest = values.abs().amax(-1).clamp_min(torch.finfo(torch.float32).tiny)
        residual = left.reshape(-1).clamp_min(0).sqrt() / largest
        if not readable(residual) or float(residual.max()) <= 20 * n * roundoff(a.dtype):
            break
        core = gemm(1.0, rows, gemm(1.0, a, rows, trans_b="t"))
        core = (0.5 * (core + core.mT)).contiguous()
    assert rows is not None
    return values, rows, residual


_LAUNCHES = 4


def _complex(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As a real matrix of twice the size, whose eigenvalues come in pairs; one complex vector is taken of each pair."""
    n = a.shape[-1]
    re, im = a.real.tril(), a.imag.tril(-1)
    re, im = re + re.tril(-1).mT, im - im.mT
    double = torch.cat([torch.cat([re, -im], -1), torch.cat([im, re], -1)], -2)
    _, x, residual = _eigh(double)
    z = torch.complex(x[..., :n, :].contiguous(), x[..., n:, :].contiguous())  # [..., n, 2n]
    vectors = independent(z)
    rotated = gemm(1.0, vectors, gemm(1.0, re.to(a.dtype) + 1j * im, vectors), trans_a="c")
    found = rotated.diagonal(dim1=-2, dim2=-1).real
    order = found.argsort(-1)
    return found.gather(-1, order), vectors.gather(-1, order.unsqueeze(-2).expand(vectors.shape)), residual


def independent(z: Tensor) -> Tensor:
    """Of 2n complex vectors that span every eigenspace twice, n orthonormal ones, by Gram-Schmidt."""
    n = z.shape[-2]
    if z.is_meta:
        return z.new_empty((*z.shape[:-2], n, n))
    flat = z.reshape(-1, n, 2 * n)
    chosen = torch.empty((flat.shape[0], n, n), dtype=z.dtype, device=z.device)
    for one, out in zip(flat, chosen, strict=True):
        rest = one.to(torch.complex128, copy=True)
        for k in range(n):
            # The first that is clearly outside the span so far: in order, so that each keeps its eigenvalue.
            lengths = torch.linalg.vector_norm(rest, dim=0)
            clear = lengths > 0.5
            first = int(clear.int().argmax()) if bool(clear.any()) else int(lengths.argmax())
            unit = rest[:, first] / lengths[first]
            out[:, k] = unit.to(z.dtype)
            rest -= torch.outer(unit, unit.conj() @ rest)
            rest[:, first] = 0
    return chosen.reshape(*z.shape[:-2], n, n)


@_eigh.vjp(saves=("result",))
def _gradient(
    saved: Saved, grad_values: Tensor, grad_vectors: Tensor, grad_residual: Tensor | None
) -> Mapping[str, Any]:
    values, v, _ = saved.result
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    inverse = torch.where(gaps == 0, 0.0, 1.0 / gaps)
    inner = gemm(1.0, v, grad_vectors, trans_a="c") * inverse + torch.diag_embed(grad_values).to(v.dtype)
    whole = gemm(1.0, v, gemm(1.0, inner, v, trans_b="c"))
    return {"a": 0.5 * (whole + whole.mH)}
