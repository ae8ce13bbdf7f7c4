"""Triangular systems: trsm, trsv."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnblas.accuracy import working_dtype
from trnblas.arguments import HALF, combine, conjugate, stack, triangle
from trnblas.gemm import gemm
from trnblas.kernels import trsm as kernels
from trnblas.trmm import Trmm, solve_bound, triangular, trmv
from trnsci import array_function, op, run
from trnsci.arrays import like
from trnsci.caches import kept
from trnsci.gradient import saves
from trnsci.nki import P_MAX, launch
from trnsci.precision import Precision, to_bfloat16_values

# Rows a solve in float64 takes from the host at a time, and rows the kernel holds in SBUF.
_BLOCK = 256
_LARGEST = 2048


@array_function
def trsm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans_a: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Solve ``op(a) @ x = alpha * b``, or ``x @ op(a) = alpha * b``, with ``a`` triangular.

    Args:
        alpha: a number.
        a: [..., M, M] on the left, [..., N, N] on the right. Only the triangle ``lower`` names is read.
        b: [..., M, N]
        side: ``a`` on the left (0, ``"l"``) or on the right (1, ``"r"``).
        lower: ``a`` is lower triangular (1, ``"l"``) or upper triangular (0, ``"u"``), before ``trans_a``.
        trans_a: ``"n"``, ``"t"`` or ``"c"``.
        diag: 1 or ``"u"``: the diagonal of ``a`` is not read and counts as ones.
        precision: ``fast`` rounds operands to bfloat16, ``compensated`` refines the solution once with an accurate
            residual, ``fp32`` and ``fp64`` name the arithmetic; by default never less precise than the operands.
        target_error: error to guarantee, relative to ``|inv(a)| |a| |inv(a)| |b|``, instead of ``precision``: the
            cheapest policy that meets it on every backend is taken.
        out: [..., M, N], memory for the result, shared with no operand.

    Raises:
        Singular: an element of the diagonal is zero; the error names its index.

    Error bound:
        ``|x - exact| <= g(N) |inv(a)| |a| |x|`` elementwise on PyTorch. The kernel inverts diagonal blocks:
        ``g(2 N + 128) |inv(a)| |a| |inv(a)| |b|``, with 4 N and a factor of 4 for complex matrices.

    Example:
        >>> trsm(1.0, torch.tensor([[2.0, 0.0], [2.0, 1.0]]), torch.ones(2, 1), lower=True)
        tensor([[0.5000],
                [0.0000]])
    """
    flags: dict[str, Any] = {"side": side, "lower": lower, "trans": trans_a, "diag": diag}
    accuracy: dict[str, Any] = {"precision": precision, "target_error": target_error}
    return triangular("trsm", Trsm, a, b, alpha=alpha, **flags, **accuracy, out=out)


def _solve_vector(
    a: Tensor, x: Tensor, lower: Any = False, trans: Any = False, diag: Any = False, **given: Any
) -> Tensor:
    return triangular("trsv", Trsm, a, x, lower=lower, trans=trans, diag=diag, vector=True, **given)


@like(trmv, _solve_vector)
def trsv(*args: Any, **kwargs: Any) -> Any:
    """Solve ``op(a) @ y = x`` with ``a`` [..., N, N] triangular and ``x`` [..., N]; flags as for `trsm`.

    Example:
        >>> trsv(torch.tensor([[2.0, 2.0], [0.0, 1.0]]), torch.ones(2))
        tensor([-0.5000,  1.0000])
    """


@op("trnblas::trsm")
class Trsm(Trmm):
    """``alpha * inv(a) @ b`` with ``a`` triangular."""

    __slots__ = ()

    @property
    def routine(self) -> str:
        return "trs"

    def bound(self, implementation: str) -> float:
        return solve_bound(self.a.shape[-1], self.a.dtype, self.precision)

    def pytorch(self) -> Tensor:
        a, b, dtype = self.a, self.b, self.a.dtype
        if self.precision == "compensated":
            return _refine(a, b, self.alpha, self.lower, self.unit)
        work = working_dtype(self.precision, dtype)
        if self.precision == "fast" and dtype not in HALF:
            a, b = to_bfloat16_values(a), to_bfloat16_values(b)
        options = {"upper": not self.lower, "unitriangular": self.unit}
        solved = torch.linalg.solve_triangular(a.to(work), b.to(work), **options)
        return combine(solved, self.alpha, 0.0, None, dtype)

    @saves("a")
    def vjp(  # type: ignore[override]
        self, grad: Tensor, needs: frozenset[str], result: Tensor
    ) -> dict[str, Tensor]:
        a, lower, unit, policy = self.a, self.lower, self.unit, self.precision
        solved = run(Trsm(a.mH, grad, 1.0, not lower, unit, policy))
        gradients = {}
        if "b" in needs:
            gradients["b"] = (conjugate(self.alpha, a) * solved).sum_to_size(self.b.shape)
        if "a" in needs:
            whole = gemm(-1.0, solved, result, trans_b="c", precision=policy)
            kept = (whole.tril(-1) if lower else whole.triu(1)) if unit else triangle(whole, lower)
            gradients["a"] = kept.sum_to_size(a.shape)
        return gradients

    def nki(self) -> Tensor:
        a, b, policy, dtype = self.a, self.b, self.precision, self.a.dtype
        if policy == "fast" and dtype not in HALF:
            a, b = to_bfloat16_values(a), to_bfloat16_values(b)
        if dtype in HALF:
            a, b, policy = a.float(), b.float(), "fp32" if policy == "fast" else policy
        solved = _solve(a, b, self.lower, self.unit, policy)
        return combine(solved, self.alpha, 0.0, None, dtype)


def _refine(a: Tensor, b: Tensor, alpha: complex, lower: bool, unit: bool) -> Tensor:
    """Solve, and once more for an accurate residual; half precision in float32, rounded once."""
    dtype = a.dtype
    if dtype in HALF:
        a, b = a.float(), b.float()
    plain: Precision = "fp64" if a.dtype in (torch.float64, torch.complex128) else "fp32"
    solved = run(Trsm(a, b, 1.0, lower, unit, plain))
    residual = gemm(-1.0, triangle(a, lower, unit), solved, 1.0, b, precision="compensated")
    corrected = solved + run(Trsm(a, residual, 1.0, lower, unit, plain))
    return combine(corrected, alpha, 0.0, None, dtype)


def _solve(a: Tensor, b: Tensor, lower: bool, unit: bool, precision: Precision) -> Tensor:
    """Return the solution before scaling and rounding, in float64 where the policy asks for it."""
    shape = Trsm(a, b, 1.0, lower, unit, precision).shape
    if 0 in shape:
        return b.new_empty(shape)

    def on_host(block: Tensor, right: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(block, right, upper=not lower, unitriangular=unit)

    if precision == "fp64":
        wide = torch.complex128 if a.is_complex() else torch.float64
        return _solve_blocks(
            a.to(wide), b.to(wide).expand(shape), lower=lower, precision="fp64", block=_BLOCK, solve=on_host
        )
    if precision == "compensated":
        return _refine(a, b, 1.0, lower, unit)
    if a.is_complex():
        return _complex(a, b.expand(shape), lower, unit, precision)
    if a.shape[-1] > _LARGEST:

        def on_device(block: Tensor, right: Tensor) -> Tensor:
            return _solve(block, right, lower, unit, precision)

        return _solve_blocks(a, b.expand(shape), lower=lower, precision=precision, block=_LARGEST, solve=on_device)
    if not lower:
        # Backwards, an upper triangle is a lower one.
        return _solve(a.flip(-1, -2), b.flip(-2), True, unit, precision).flip(-2)
    aT, columns = stack(a.mT.float(), shape[:-2]), b.float().expand(shape).reshape(-1, *shape[-2:])
    solution: Tensor = launch(kernels.trsm, aT.contiguous(), columns.contiguous(), doubling_masks(a.device), unit=unit)
    return solution.reshape(shape)


def _complex(a: Tensor, b: Tensor, lower: bool, unit: bool, precision: Precision) -> Tensor:
    """Solve one real system of twice the size. Rows scaled to a diagonal of ones, it is triangular too."""
    diagonal = torch.diagonal(a, 0, -2, -1)
    ones = torch.ones_like(diagonal)
    scale = ones.unsqueeze(-1) if unit else diagonal.unsqueeze(-1)
    scaled = torch.diagonal_scatter(triangle(a, lower, unit) / scale, ones, 0, -2, -1)
    n = a.shape[-1]
    # Element (i, j) becomes [[Re, -Im], [Im, Re]] at rows 2 i, 2 i + 1.
    pairs = torch.stack([torch.stack([scaled.real, -scaled.imag], -1), torch.stack([scaled.imag, scaled.real], -1)], -3)
    right = torch.view_as_real((b / scale).resolve_conj()).movedim(-1, -2)  # [..., M, 2, N]
    solution = _solve(
        pairs.reshape(*a.shape[:-2], 2 * n, 2 * n),
        right.reshape(*b.shape[:-2], 2 * n, b.shape[-1]),
        lower,
        True,
        precision,
    )
    return torch.complex(solution[..., 0::2, :], solution[..., 1::2, :])


@kept
def doubling_masks(device: torch.device) -> Tensor:
    """For blocks of 1, 2, 4 ... rows: the block above and right of each neighbouring pair; the last is the identity."""
    i, masks, size = torch.arange(P_MAX, device="cpu"), [], 1
    while size < P_MAX:
        pair, half = i // (2 * size), (i // size) % 2
        masks.append((pair.unsqueeze(1) == pair) & (half.unsqueeze(1) == 0) & (half == 1))
        size *= 2
    masks.append(torch.eye(P_MAX, dtype=torch.bool, device="cpu"))
    return torch.stack(masks).float().to(device)  # [8, k, m]


def _solve_blocks(
    a: Tensor, b: Tensor, *, lower: bool, precision: Precision, block: int, solve: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Solve what the kernel cannot hold or compute: ``solve`` takes diagonal blocks, the rest is products."""
    n = a.shape[-1]
    starts = list(range(0, n, block))
    solved: Tensor | None = None
    for start in starts if lower else reversed(starts):
        here = slice(start, min(n, start + block))
        right = b[..., here, :]
        if solved is not None:
            known = slice(0, start) if lower else slice(here.stop, n)
            right = gemm(-1.0, a[..., here, known], solved, 1.0, right, precision=precision)
        part = solve(a[..., here, here], right)
        solved = part if solved is None else torch.cat([solved, part] if lower else [part, solved], -2)
    assert solved is not None
    return solved
