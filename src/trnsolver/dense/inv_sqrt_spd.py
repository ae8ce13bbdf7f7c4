"""Inverse square root of positive definite matrices: by eigenvectors, or by Newton-Schulz products."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from trnblas import gemm
from trnblas.trsm import doubling_masks
from trnsci import NotConverged, NotPositiveDefinite, array_function, check, op, run
from trnsci.nki import launch
from trnsolver.arguments import readable, roundoff, square
from trnsolver.eigen.eigh import eigh
from trnsolver.kernels import inv_sqrt_spd as kernels
from trnsolver.scaling import near_one

_STEPS = 60


@array_function
def inv_sqrt_spd(a: Tensor, *, method: Literal["eigen", "newton_schulz"] = "eigen") -> Tensor:
    """Return ``x`` with ``x @ a @ x = 1`` for a Hermitian positive definite matrix.

    Args:
        a: [..., N, N].
        method: ``eigen``; or ``newton_schulz``, products alone, for condition numbers up to about ``1 / (N u)``.

    Raises:
        NotPositiveDefinite: an eigenvalue is not positive.
        NotConverged: Newton-Schulz met a matrix that is too ill-conditioned, or not definite.

    Error bound:
        ``norm(x @ a @ x - 1) <= 20 N u cond(a)``.

    Cost:
        Newton-Schulz: ``6 N**3`` FLOPs a step, about ``log2(cond(a))`` steps to get going and 5 to finish.

    Example:
        >>> inv_sqrt_spd(torch.tensor([[4.0, 0.0], [0.0, 16.0]]), method="newton_schulz")
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    square("inv_sqrt_spd", a=a)
    check.option("inv_sqrt_spd", "method", method, ("eigen", "newton_schulz"))
    if method == "newton_schulz":
        root, defect = run(NewtonSchulz(a))
        _check_convergence(a, defect)
        return root
    values, vectors = eigh(a)
    if readable(values) and values.numel() and not bool((values > 0).all()):
        *batch, index = (values <= 0).nonzero()[0].tolist()
        raise NotPositiveDefinite(
            op="inv_sqrt_spd",
            index=index,
            batch=tuple(batch),
            message=f"eigenvalue {index} is {values[(*batch, index)].item():.3g}, not positive",
        )
    return gemm(1.0, vectors * values.rsqrt().unsqueeze(-2).to(a.dtype), vectors, trans_b="c")


def _check_convergence(a: Tensor, defect: Tensor) -> None:
    if defect.numel() == 0 or not readable(defect):
        return
    worst = float(defect.detach().max())
    if not worst <= max(1e-2, 20 * a.shape[-1] * roundoff(a.dtype)):
        raise NotConverged(
            op="inv_sqrt_spd",
            iterations=_STEPS,
            residual=worst,
            hint="Newton-Schulz needs a positive definite matrix of moderate condition; use method='eigen'",
        )


@op("trnsolver::inv_sqrt_spd")
class NewtonSchulz(NamedTuple):
    """The inverse square root, and how far its square times ``a`` is from 1."""

    a: Tensor  # [..., N, N]

    def fake(self) -> tuple[Tensor, Tensor]:
        a = self.a
        return torch.empty_like(a, memory_format=torch.contiguous_format), a.new_empty(
            a.shape[:-2], dtype=a.dtype.to_real()
        )

    def cost(self) -> int:
        return 6 * 20 * self.a.numel() * self.a.shape[-1] * (4 if self.a.is_complex() else 1)

    def pytorch(self) -> tuple[Tensor, Tensor]:
        scale = near_one(self.a.detach(), (-2, -1))
        root, defect = _iterate(self.a * scale)
        return root * scale.sqrt(), defect

    def nki(self) -> tuple[Tensor, Tensor]:
        a, n = self.a, self.a.shape[-1]
        if a.numel() == 0 or a.dtype != torch.float32 or n > kernels.N_MAX:
            return self.pytorch()
        scale = near_one(a, (-2, -1))
        a = a * scale
        size = torch.linalg.matrix_norm(a).unsqueeze(-1).unsqueeze(-1)
        size = torch.where(size > 0, size, 1.0)
        flat = (a / size).reshape(-1, n, n).contiguous()
        root, defect = launch(kernels.inv_sqrt_spd, flat, doubling_masks(a.device), steps=kernels.STEPS)
        return root.reshape(a.shape) * size.rsqrt() * scale.sqrt(), defect.reshape(a.shape[:-2]).clamp_min(0).sqrt()

    def vjp(self, grad: tuple[Tensor, Tensor | None], needs: frozenset[str]) -> dict[str, Tensor]:
        """Divided differences of ``w**-0.5`` in the eigenvectors' basis (Daleckii and Krein)."""
        values, vectors = eigh(self.a)
        root = values.sqrt()
        across = root.unsqueeze(-1) * root.unsqueeze(-2) * (root.unsqueeze(-1) + root.unsqueeze(-2))
        inner = gemm(1.0, vectors, gemm(1.0, grad[0], vectors), trans_a="c") / across
        return {"a": gemm(-1.0, vectors, gemm(1.0, inner, vectors, trans_b="c"))}


def _iterate(a: Tensor) -> tuple[Tensor, Tensor]:
    """``y`` goes to the square root and ``z`` to its inverse, of the matrix scaled to norm at most 1."""
    n = a.shape[-1]
    size = torch.linalg.matrix_norm(a.detach()).unsqueeze(-1).unsqueeze(-1)
    size = torch.where(size > 0, size, 1.0).to(a.dtype)
    eye = torch.eye(n, dtype=a.dtype, device=a.device).expand(a.shape)
    y, z = a / size, eye
    defect = torch.full(a.shape[:-2], float("inf"), device=a.device, dtype=torch.float32)
    for _ in range(_STEPS):
        product = gemm(1.0, z, y)
        defect = torch.linalg.matrix_norm((eye - product).detach())
        middle = 1.5 * eye - 0.5 * product
        y, z = gemm(1.0, y, middle), gemm(1.0, middle, z)
        # One more step has followed the last defect, which squares it.
        if a.numel() == 0 or (readable(defect) and float(defect.max()) <= (n * roundoff(a.dtype)) ** 0.5):
            break
    return z * size.rsqrt(), defect.square()
