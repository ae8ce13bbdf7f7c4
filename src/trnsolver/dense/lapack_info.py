"""LAPACK's ``info`` of a factorisation: 0, or the first pivot, from 1, that stopped it.

Ours raise instead. A compiled graph cannot: there the operator below looks at the result when the graph runs.
"""

from typing import Any

import torch
from torch import Tensor

from trnsci.analogs import PLAIN

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
