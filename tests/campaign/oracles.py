"""Extended precision, and the bounds that several libraries state in the same words."""

import numpy as np
import torch

from tests.campaign.draw import HALF, Draw
from tests.campaign.trial import Outside
from trnsci.testing import unit_roundoff

_WORK = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
TRANSPOSED = {"n": lambda x: x, "t": lambda x: np.swapaxes(x, -1, -2), "c": lambda x: np.conj(np.swapaxes(x, -1, -2))}


def wide(x: torch.Tensor) -> np.ndarray:
    """Values in extended precision."""
    plain = x.detach().resolve_conj()
    if plain.is_complex():
        return plain.to(torch.complex128).numpy().astype(np.clongdouble)
    return plain.double().numpy().astype(np.longdouble)


def narrow(x: np.ndarray) -> np.ndarray:
    """What `assert_within` compares: double precision."""
    return np.asarray(x).astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def unit(dtype: torch.dtype) -> float:
    """The unit roundoff of the arithmetic a dtype is computed in: half precision is summed up in float32."""
    return unit_roundoff(_WORK.get(dtype, dtype))


def summed(terms: int, size: np.ndarray, result: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """``g(terms + 4)`` of ``size``, the sum of magnitudes, and a rounding to storage; complex terms count twice."""
    work = unit(dtype)
    count, factor = (2 * terms + 3, 2**0.5) if dtype.is_complex else (terms + 4, 1.0)
    stored = unit_roundoff(dtype) if dtype in HALF else 0.0
    # x86's bfloat16 products take subnormal terms and sums for zero, each of them, as docs/trnblas/gemm.md says
    lost = terms if dtype == torch.bfloat16 else 1
    tiny = lost * torch.finfo(dtype).smallest_normal * (1 + 0 * np.abs(size))
    return narrow(factor * count * work / (1 - count * work) * size + stored * np.abs(result) + tiny).real


def within_range(dtype: torch.dtype, *arrays: np.ndarray) -> None:
    """Draw again where the largest intermediate leaves the dtype's range."""
    largest = max((float(np.max(np.abs(x), initial=0.0)) for x in arrays), default=0.0)
    if not largest < torch.finfo(dtype).max / 4:
        raise Outside


def spectral(x: np.ndarray) -> float:
    """The largest singular value of a matrix, 0 of an empty one; accurate where numbers are near underflow, too."""
    largest = float(np.max(np.abs(x), initial=0.0))
    if largest == 0 or not np.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(narrow(x / largest), 2))


def unread(draw: Draw, a: torch.Tensor, lower: bool, *, diagonal: bool = False) -> None:
    """Sometimes put NaN where a function that reads one triangle, and maybe not its diagonal, must not look."""
    if draw.chance(0.3):
        other = torch.ones(a.shape[-2:], dtype=torch.bool)
        offset = 0 if diagonal else 1
        a.masked_fill_(other.triu(offset) if lower else other.tril(-offset), float("nan"))
        draw.log.append("NaN in the other triangle")
