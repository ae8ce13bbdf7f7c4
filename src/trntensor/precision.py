"""Error bounds of whole contractions."""

import functools

import torch

from trnblas.accuracy import error_bound
from trnblas.arguments import HALF
from trnsci.precision import Precision, arithmetic


def working_dtype(dtype: torch.dtype, precision: Precision) -> torch.dtype:
    """Return the dtype of intermediates: float64 arithmetic keeps them in float64, whatever the operands are."""
    return arithmetic(precision, dtype) if precision == "fp64" else dtype


@functools.lru_cache(maxsize=4096)
def contraction_bound(terms: tuple[int, ...], dtype: torch.dtype, precision: Precision, roundings: int = 0) -> float:
    """Return the error relative to the contraction of absolute values: a factor ``1 + e`` per step of ``terms``.

    ``roundings`` are factors that are sums of their own, which half precision rounds once more.
    """
    work = working_dtype(dtype, precision)
    total = (1.0 + error_bound(0, work, "compensated")) ** roundings if work in HALF else 1.0
    for count in terms:
        total *= 1.0 + error_bound(count, work, precision)
    if work is not dtype:
        total *= 1.0 + error_bound(0, dtype, "compensated")
    return total - 1.0
