"""LDL factorisation of symmetric or Hermitian indefinite matrices (Bunch and Kaufman)."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnsci import ArgumentError, array_function, check, op, run
from trnsci.gradient import saves
from trnsolver.arguments import all_finite, check_result, nonsingular, readable, right_hand_side, square, triangle
from trnsolver.dense.solve_triangular import triangular
from trnsolver.scaling import near_one
from trnsolver.scipy_calls import compute, cubes, no_transform

Matrix = NDArray[Any]
# Matrices from which on steps of all of them together cost less than those of one after the other.
_MANY = 8


class LDL(NamedTuple):
    """``a[order][:, order] = l @ d @ l.mH`` (``l.mT`` when not Hermitian)."""

    l: Tensor  # noqa: E741
    d: Tensor
    order: Tensor


@array_function
def ldl(a: Tensor, *, hermitian: bool = True) -> LDL:
    """Factor an indefinite matrix with symmetric exchanges.

    Args:
        a: [..., N, N]; its lower triangle is read.
        hermitian: for complex matrices: Hermitian, or else symmetric.

    Returns:
        ``l`` [..., N, N] lower triangular with ones on its diagonal, ``d`` block diagonal with blocks of 1 and 2 rows,
        and ``order`` [..., N].

    Error bound:
        ``norm(l @ d @ l.mH - a[order][:, order]) <= 20 N u norm(l) norm(d) norm(l)``.

    Cost:
        ``N**3 / 3`` FLOPs, on the host whatever the backend and the device of ``a``. Gradients flow from ``l`` and
        ``d``.

    Example:
        >>> ldl(torch.tensor([[0.0, 1.0], [1.0, 0.0]])).d
        tensor([[0., 1.],
                [1., 0.]])
    """
    check.flag("ldl", hermitian=hermitian)
    square("ldl", look=False, a=a)
    triangle("ldl", True, a=a)
    result = LDL(*run(LdlCall(a, hermitian)))
    if all_finite(result.d):
        return result
    # near 1, where LAPACK divides by a pivot whose reciprocal overflows
    power = near_one(a.tril(), (-2, -1))
    lower, middle, order = run(LdlCall(a * power, hermitian))
    check_result("ldl", middle := middle / power)
    return LDL(lower, middle, order)


@array_function
def ldl_solve(l: Tensor, d: Tensor, order: Tensor, b: Tensor, *, hermitian: bool = True) -> Tensor:  # noqa: E741
    """Solve ``a @ x = b`` with what `ldl` returned: LAPACK's ``sytrs`` and ``hetrs``.

    Args:
        l: [..., N, N], unit lower triangular.
        d: [..., N, N], block diagonal.
        order: [..., N].
        b: [..., N, K] or [..., N]. Gradients flow to it, and to ``l`` and ``d``.
        hermitian: as `ldl` was called.

    Raises:
        Singular: a block of ``d`` is singular; ``index`` is its first row.

    Error bound:
        backward: ``norm(b - a @ x) <= 20 N u norm(l) norm(d) norm(l) norm(x)``.

    Cost:
        ``2 N**2 K`` FLOPs in two triangular systems, which run on the backend.

    Example:
        >>> ldl_solve(*ldl(torch.tensor([[0.0, 2.0], [2.0, 0.0]])), torch.tensor([2.0, 4.0]))
        tensor([2., 1.])
    """
    check.flag("ldl_solve", hermitian=hermitian)
    _check_factors("ldl_solve", l, d, order)
    vector = right_hand_side("ldl_solve", l, b, look=False)
    x = _solve_with_factors("ldl_solve", l, d, order, b.unsqueeze(-1) if vector else b, hermitian=hermitian)
    check_result("ldl_solve", x, l=lambda: l.tril(-1), d=d, b=b)
    return x.squeeze(-1) if vector else x


@array_function
def ldl_inverse(l: Tensor, d: Tensor, order: Tensor, *, hermitian: bool = True) -> Tensor:  # noqa: E741
    """Invert ``a`` from what `ldl` returned: LAPACK's ``sytri`` and ``hetri``. Exactly Hermitian, or symmetric.

    Args:
        l: [..., N, N], unit lower triangular.
        d: [..., N, N], block diagonal.
        order: [..., N].
        hermitian: as `ldl` was called.

    Raises:
        Singular: a block of ``d`` is singular; ``index`` is its first row.

    Error bound:
        each column is a solution with the bound of `ldl_solve`.

    Cost:
        ``2 N**3`` FLOPs in two triangular systems, which run on the backend.

    Example:
        >>> ldl_inverse(*ldl(torch.tensor([[0.0, 2.0], [2.0, 0.0]]))).abs()
        tensor([[0.0000, 0.5000],
                [0.5000, 0.0000]])
    """
    check.flag("ldl_inverse", hermitian=hermitian)
    _check_factors("ldl_inverse", l, d, order)
    eye = torch.eye(l.shape[-1], dtype=l.dtype, device=l.device).expand(l.shape)
    x = _solve_with_factors("ldl_inverse", l, d, order, eye, hermitian=hermitian)
    check_result("ldl_inverse", x, l=lambda: l.tril(-1), d=d)
    return 0.5 * (x + (x.mH if hermitian else x.mT))


def _check_factors(op: str, lower: Tensor, middle: Tensor, order: Tensor) -> None:
    square(op, look=False, l=lower, d=middle)
    check.tensor(op, order=order)
    check.same_device(op, l=lower, d=middle, order=order)
    check.equal(op, "shape", l=tuple(lower.shape), d=tuple(middle.shape))
    check.equal(op, "shape of order", l=tuple(lower.shape[:-1]), order=tuple(order.shape))
    n = lower.shape[-1]
    if order.numel() and readable(order):
        ranks = torch.arange(n, device=order.device).expand(order.shape)
        if order.dtype != torch.int64 or not torch.equal(order.sort(-1).values, ranks):
            expected = f"an int64 permutation of 0 to {n - 1}, as ldl returns"
            raise ArgumentError(op, "order", f"{order.dtype} values", expected)


def _solve_with_factors(op: str, lower: Tensor, middle: Tensor, order: Tensor, b: Tensor, *, hermitian: bool) -> Tensor:
    batch = check.broadcast(op, l=lower.shape[:-2], b=b.shape[:-2])
    b = b.expand(*batch, *b.shape[-2:])
    if b.numel() == 0:
        return b.clone()
    rows = order.expand(*batch, -1).unsqueeze(-1).expand(b.shape)
    y = _solve_middle(op, middle, triangular(lower, b.gather(-2, rows), lower=True, unit=True), hermitian)
    z = triangular(lower.mH if hermitian else lower.mT, y, lower=False, unit=True)
    return torch.zeros_like(z).scatter(-2, rows, z)


def _solve_middle(op: str, middle: Tensor, y: Tensor, hermitian: bool) -> Tensor:
    """Solve with blocks of one and two rows, all at once: a row and its neighbour below, or above, make a block."""
    diagonal = middle.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)  # [..., N, 1]
    off = middle.diagonal(-1, dim1=-2, dim2=-1).unsqueeze(-1)  # [..., N - 1, 1]
    nothing = torch.zeros_like(diagonal[..., :1, :])
    down, up = torch.cat([off, nothing], -2), torch.cat([nothing, off], -2)
    paired = (down != 0) | (up != 0)
    beside = torch.where(down != 0, diagonal.roll(-1, -2), diagonal.roll(1, -2))
    # of the row's own entry beside the diagonal; that of the other row is its conjugate
    other = torch.where(down != 0, down.conj() if hermitian else down, up)
    size = torch.where(paired, other, 1.0)
    partner = torch.where(down != 0, y.roll(-1, -2), y.roll(1, -2))
    # divided through by the entry beside the diagonal, which the pivoting made the largest of its block
    back = size.conj() if hermitian else size
    determinant = torch.where(paired, (diagonal / size) * (beside / back) - 1.0, diagonal)
    nonsingular(op, determinant.squeeze(-1), d=middle)
    pair = ((beside / back) * (y / size) - partner / back) / determinant
    return torch.where(paired, pair, y / determinant)


@op("trnsolver::ldl", host_only="pivots of two rows are a chain of small decisions")
class LdlCall(NamedTuple):
    """``l``, ``d`` and the order of rows and columns."""

    a: Tensor  # [..., N, N]
    hermitian: bool

    def fake(self) -> tuple[Tensor, Tensor, Tensor]:
        a = self.a
        return a.new_empty(a.shape), a.new_empty(a.shape), a.new_empty(a.shape[:-1], dtype=torch.int64)

    def cost(self) -> int:
        return cubes(self.a, 1 / 3)

    def limits(self, implementation: str) -> str | None:
        return no_transform() if implementation == "host" else None

    def calls(self, implementation: str) -> str:
        return "torch.linalg.ldl_factor"

    def host(self) -> tuple[Tensor, Tensor, Tensor]:
        a, n = self.a, self.a.shape[-1]
        if a.numel() == 0:
            return torch.zeros_like(a), torch.zeros_like(a), torch.zeros(a.shape[:-1], dtype=torch.int64, device="cpu")
        packed, pivots = _call_lapack(a.reshape(-1, n, n), self.hermitian)
        if len(packed) < _MANY:
            parts = [_unpack_factors(*each, self.hermitian) for each in zip(packed, pivots.tolist(), strict=True)]
            together = tuple(np.stack(each) for each in zip(*parts, strict=True))
        else:
            together = _unpack_batch(packed, pivots.astype(np.int64), self.hermitian)
        lower, middle, order = (torch.from_numpy(each) for each in together)
        return lower.reshape(a.shape), middle.reshape(a.shape), order.reshape(a.shape[:-1])

    def pytorch(self) -> tuple[Tensor, Tensor, Tensor]:
        result: tuple[Tensor, Tensor, Tensor] = compute(self)
        return result

    @saves(host=True, pytorch=True)
    def vjp(
        self, grad: tuple[Tensor, Tensor, None], needs: frozenset[str], result: tuple[Tensor, Tensor, Tensor]
    ) -> dict[str, Tensor]:
        """Differentiate ``l @ d @ l.mH`` with the order and the blocks of ``d`` as they are.

        Of ``m = inv(l) @ da @ inv(l.mH)`` the blocks of the diagonal are the change of ``d``, and those below it
        times ``inv(d)`` are ``inv(l) @ dl``.
        """
        (lower, middle, order), (of_lower, of_middle, _) = result, grad
        blocks, under = _block_masks(middle)
        quotient = _solve_middle("ldl", middle, of_lower.mH @ lower, self.hermitian).mH
        inner = torch.where(under, quotient, torch.where(blocks, of_middle, 0.0))
        right = lower.mH if self.hermitian else lower.mT
        left = triangular(lower.mH, inner, lower=False, unit=True)
        # left @ inv(right).mH, as the adjoint of a system with the factor itself
        whole = triangular(right, left.mH, lower=False, unit=True).mH
        whole = 0.5 * (whole + (whole.mH if self.hermitian else whole.mT))
        place = order.argsort(-1)
        rows = whole.gather(-2, place.unsqueeze(-1).expand(whole.shape))
        return {"a": rows.gather(-1, place.unsqueeze(-2).expand(whole.shape))}

    def tangent(self, of_a: Tensor, result: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, None]:
        """Return the changes of ``l`` and ``d``: `vjp` has their derivation."""
        lower, middle, order = result
        of_a = of_a.gather(-2, order.unsqueeze(-1).expand(of_a.shape))
        of_a = of_a.gather(-1, order.unsqueeze(-2).expand(of_a.shape))
        blocks, under = _block_masks(middle)

        def flip(x: Tensor) -> Tensor:
            return x.mH if self.hermitian else x.mT

        half = triangular(lower, 0.5 * (of_a + flip(of_a)), lower=True, unit=True)
        inner = flip(triangular(lower, flip(half), lower=True, unit=True))
        quotient = flip(_solve_middle("ldl", middle, flip(torch.where(under, inner, 0.0)), self.hermitian))
        return lower @ quotient, torch.where(blocks, inner, 0.0), None


def _block_masks(middle: Tensor) -> tuple[Tensor, Tensor]:
    """Return where the blocks of ``d`` are, and the entries below them."""
    n, below = middle.shape[-1], middle.diagonal(-1, dim1=-2, dim2=-1) != 0
    pairs = torch.diag_embed(below, -1) if n > 1 else torch.zeros_like(middle, dtype=torch.bool)
    blocks = pairs | pairs.mT | torch.eye(n, dtype=torch.bool, device=middle.device)
    return blocks, torch.ones_like(blocks).tril() & ~blocks


def _call_lapack(a: Tensor, hermitian: bool) -> tuple[Matrix, Matrix]:
    """Return LAPACK's factors and exchanges [B, ...]. A singular block is no failure: d holds it."""
    import scipy.linalg

    factors = torch.linalg.ldl_factor_ex(a, hermitian=hermitian)
    packed, pivots = factors.LD.contiguous().numpy(), factors.pivots.numpy()
    for index in np.nonzero(factors.info.numpy())[0]:
        # blocks of columns lose their updates where a column is zero; one column at a time, as so little room asks for
        one = a[index].numpy()
        sytrf = scipy.linalg.get_lapack_funcs("hetrf" if hermitian and np.iscomplexobj(one) else "sytrf", (one,))
        packed[index], pivots[index], _ = sytrf(one, lower=1, lwork=len(one))
    return packed, pivots


@functools.lru_cache(maxsize=64)
def _below(n: int) -> Matrix:
    """Where a matrix of ``n`` rows is below its diagonal."""
    return np.tri(n, k=-1, dtype=bool)


def _unpack_factors(packed: Matrix, pivots: list[int], hermitian: bool) -> tuple[Matrix, Matrix, Matrix]:
    """Unpack LAPACK's compact form: exchanges of later steps are not applied to earlier columns."""
    n = len(pivots)
    # rows are exchanged where they lie together
    lower, middle, across = np.where(_below(n), packed, 0.0), np.zeros((n, n), packed.dtype), n + 1
    lower.flat[::across] = 1.0
    middle.flat[::across] = packed.diagonal()
    order, k = list(range(n)), 0
    while k < n:
        width = 1 if pivots[k] > 0 else 2
        row, other = k + width - 1, abs(pivots[k]) - 1
        if row != other:
            kept = lower[row, :k].copy()
            lower[row, :k] = lower[other, :k]
            lower[other, :k] = kept
            order[row], order[other] = order[other], order[row]
        if width == 2:
            corner = packed[k + 1, k]
            middle[k + 1, k] = corner
            middle[k, k + 1] = corner.conjugate() if hermitian else corner
            lower[k + 1, k] = 0.0
        k += width
    return lower, middle, np.array(order, np.int64)


def _unpack_batch(packed: Matrix, pivots: Matrix, hermitian: bool) -> tuple[Matrix, Matrix, Matrix]:
    """Unpack many matrices, one step of all of them at a time."""
    count, n = pivots.shape
    double, second = pivots < 0, np.zeros(pivots.shape, bool)
    for k in range(1, n):
        second[:, k] = double[:, k - 1] & ~second[:, k - 1]
    # the row a step exchanges is its own, or the second of a block of two
    rows, others = np.arange(n) + double, np.abs(pivots) - 1
    moves = (rows != others) & ~second
    lower, order = np.where(_below(n), packed, 0.0), np.tile(np.arange(n), (count, 1))
    middle = np.zeros_like(packed)
    matrices, starts = np.nonzero(double & ~second)
    corner = packed[matrices, starts + 1, starts]
    middle[matrices, starts + 1, starts] = corner
    middle[matrices, starts, starts + 1] = corner.conj() if hermitian else corner
    lower[matrices, starts + 1, starts] = 0.0
    for each, diagonal in ((lower, 1.0), (middle, packed.diagonal(0, -2, -1))):
        each.reshape(count, -1)[:, :: n + 1] = diagonal
    for k in range(n):
        which = np.nonzero(moves[:, k])[0]
        row, other = rows[which, k], others[which, k]
        for array, width in ((lower, k), (order[..., None], 1)):
            kept = array[which, row, :width]
            array[which, row, :width] = array[which, other, :width]
            array[which, other, :width] = kept
    return lower, middle, order
