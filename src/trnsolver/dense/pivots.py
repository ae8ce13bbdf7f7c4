"""Row exchanges: LAPACK's pivots, the orders in which they leave rows, and the first that stopped a factorisation."""

from typing import Any

import torch
from torch import Tensor

from trnsci import ArgumentError, DtypeError, check
from trnsci.analogs import PLAIN
from trnsci.caches import kept
from trnsci.nki import P_MAX
from trnsolver.arguments import readable


def belong(op: str, factors: Tensor, pivots: Tensor) -> None:
    """Pivots are those of the factors: one per row, int32. That each names a row is for `within` to see."""
    if type(pivots) is not Tensor or pivots.device != factors.device:
        check.tensor(op, pivots=pivots)
        check.same_device(op, factors=factors, pivots=pivots)
    if pivots.dtype != torch.int32:
        raise DtypeError(op, "dtype of pivots", pivots.dtype, "int32", hint="Pass the pivots lu_factor returned")
    if pivots.shape != factors.shape[:-1]:
        expected = f"{tuple(factors.shape[:-1])}, one for each row of the factors"
        raise ArgumentError(op, "shape of pivots", tuple(pivots.shape), expected)


def within(op: str, pivots: Tensor) -> None:
    """Each of the pivots names a row."""
    if pivots.numel() and readable(pivots):
        n = pivots.shape[-1]
        least, most = (int(x) for x in torch.aminmax(pivots))
        check.refuse(least < 1 or most > n, op, "pivots", least if least < 1 else most, f"rows from 1 to {n}")


def permutation_of(pivots: Tensor, rows: int) -> Tensor:
    """Return rows in the order the exchanges leave them: ``a[permutation] = L @ U``."""
    if rows == 0 or pivots.numel() == 0:
        return torch.arange(rows, device=pivots.device).expand(*pivots.shape[:-1], rows).clone()
    eye = torch.empty((*pivots.shape[:-1], rows, pivots.shape[-1]), device=pivots.device, dtype=torch.float32)
    p, _, _ = torch.lu_unpack(eye, pivots, unpack_data=False)
    return p.argmax(-2)


def pivots_of(order: Tensor, k: int) -> Tensor:
    """Return pivots [..., K] of rows in this order [..., M]."""
    pivots, _ = exchanges(order[..., :k].reshape(-1, k), order.shape[-1])
    return pivots.reshape(*order.shape[:-1], k)


def exchanges(wanted: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """Return pivots [B, K] that bring these rows [B, K] to the top, and where they leave all M rows [B, M].

    The rows below follow from the exchanges: they are not in their original order.
    """
    batch, k = wanted.shape
    if wanted.is_meta:
        return wanted.new_empty((batch, k), dtype=torch.int32), wanted.new_empty((batch, m))
    pivots, orders = [], []
    for first in wanted.tolist():
        order, where, pivot = list(range(m)), list(range(m)), []
        for i, row in enumerate(first):
            j, other = where[row], order[i]
            order[i], order[j] = row, other
            where[row], where[other] = i, j
            pivot.append(j + 1)
        pivots.append(pivot)
        orders.append(order)
    exchanged = torch.tensor(pivots, dtype=torch.int32, device=wanted.device)
    return exchanged.reshape(batch, k), torch.tensor(orders, device=wanted.device).reshape(batch, m)


# Rows of a partition beyond the first eight come by the four, so that few programs serve all heights.
_FEW, _STEP = 8, 4


def rows_each(rows: int) -> int:
    """Return how many of the rows lie in each partition."""
    each = -(-rows // P_MAX)
    return each if each <= _FEW else -(-each // _STEP) * _STEP


@kept
def row_tiles(rows: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows dealt out to partitions, neighbours to each: their ranks, descending, indices, and which there are.

    A rank is the last bits of a number of which the leading bit of the exponent is the only other one.
    """
    each = rows_each(rows)
    held = -(-rows // each) if each <= _FEW else P_MAX
    # bits are put together on the host: a device may read them as numbers
    index = torch.arange(held * each, device="cpu").reshape(-1, each)  # [p, T]
    rank = ((index.numel() - 1 - index).int() | (1 << 30)).view(torch.float32)
    return rank.to(device), index.float().to(device), (index < rows).float().to(device)


# torch's operator, and whether entries of its first result show that it went well; an operand's own NaN shows too
_WELL = {
    "linalg_cholesky_ex": lambda factor: factor.diagonal(dim1=-2, dim2=-1).real > 0,
    "linalg_lu_factor_ex": lambda factors: factors.diagonal(dim1=-2, dim2=-1) != 0,
    "linalg_inv_ex": torch.isfinite,
}


def info(result: Tensor, a: Tensor, operator: str) -> Tensor:
    """Return LAPACK's info of ``operator`` applied to ``a`` [..., N, N], from the result ours had.

    Ours raises on data that can be looked at, so there it is zero.
    """
    if type(a) in PLAIN:
        return torch.zeros(a.shape[:-2], dtype=torch.int32, device=a.device)
    return torch.ops.trnsolver.info(result.detach(), a.detach(), operator)


def _info(result: Tensor, a: Tensor, operator: str) -> Tensor:
    if bool(_WELL[operator](result).all()):
        return a.new_zeros(a.shape[:-2], dtype=torch.int32)
    told: Any = getattr(torch.ops.aten, operator).default(a)
    return told[-1].clone()


_LIBRARY: Any = torch.library.Library("trnsolver", "FRAGMENT")
_LIBRARY.define("info(Tensor result, Tensor a, str operator) -> Tensor")
_LIBRARY.impl("info", _info, "CompositeExplicitAutograd")
torch.library.register_fake(
    "trnsolver::info", lambda result, a, operator: a.new_empty(a.shape[:-2], dtype=torch.int32), lib=_LIBRARY
)
