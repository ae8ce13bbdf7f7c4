"""Results of double precision from those of single precision, by products.

What a result leaves is computed in double precision, which the device emulates; the correction that follows from it is
small, so that single precision suffices, and is repeated until residuals are roundoff. That needs a condition number
clearly below 1 / u of single precision: whether it was is seen from the residuals.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from trnblas import gemm
from trnsci.planning import remark
from trnsolver.arguments import readable
from trnsolver.scaling import near_one

# Corrections at most, and those of a matrix that is well conditioned.
_MOST = 8
_USUAL = 2
# Share of the tolerance that residuals may have without another correction.
_GOAL = 0.2

Parts = tuple[Tensor, ...]


def single(x: Tensor) -> Tensor:
    """Return the same in single precision."""
    return x.to(torch.complex64 if x.is_complex() else torch.float32)


def product(x: Tensor, y: Tensor) -> Tensor:
    """``x @ y`` with digits of single precision, of entries that need not be in its range."""
    left, right = near_one(x, (-2, -1)), near_one(y, (-2, -1))
    return gemm(1.0, single(x * left), single(y * right)).to(x.dtype) / left / right


def correctable(a: Tensor) -> bool:
    """Return whether ``a`` is of double precision, and may be looked at, or has nothing to look at."""
    return a.dtype in (torch.float64, torch.complex128) and (a.is_meta or readable(a))


def improve_factors(
    parts: Parts,
    find_residuals: Callable[[Parts], Parts],
    correct: Callable[[Parts, Parts], Parts],
    allowed: tuple[Tensor | float, ...],
    most: Tensor | float = 1.0,
) -> tuple[Parts, Tensor]:
    """Correct factors while that helps; a matrix of a batch that needs no more stays as it is.

    Also return for which matrices no residual has more than ``most`` times the norm that is allowed.
    """
    if parts[0].is_meta:
        remark(
            f"counted with {_USUAL} corrections of factors of single precision: matrices of a condition number beyond "
            "about 1e6 are factored in halves of double precision instead, their blocks of 64 on the host"
        )
        for _ in range(_USUAL):
            parts = correct(parts, find_residuals(parts))
        find_residuals(parts)
        return parts, torch.ones(parts[0].shape[:-2], dtype=torch.bool, device=parts[0].device)
    rest = find_residuals(parts)
    size = _size(rest, allowed)
    for _ in range(_MOST):
        todo = size > _GOAL
        if not bool(todo.any()):
            break
        new = correct(parts, rest)
        new_rest = find_residuals(new)
        new_size = _size(new_rest, allowed)
        better = todo & (new_size < 0.5 * size)
        if not bool(better.any()):
            break
        parts, rest = (
            tuple(torch.where(better[..., None, None], x, y) for x, y in zip(*pair, strict=True))
            for pair in ((new, parts), (new_rest, rest))
        )
        size = torch.where(better, new_size, size)
    return parts, size <= most


def _size(rest: Parts, allowed: tuple[Tensor | float, ...]) -> Tensor:
    """Return the residual divided by its tolerance; NaN where a factor is not finite."""
    tiny = torch.finfo(rest[0].dtype).tiny
    ratios = []
    for x, most in zip(rest, allowed, strict=True):
        limit = most.clamp_min(tiny) if isinstance(most, Tensor) else most
        ratios.append(torch.linalg.matrix_norm(x) / limit)
    return torch.stack(ratios).amax(0)
