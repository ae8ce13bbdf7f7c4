"""The Coulomb metric of the auxiliary basis, and the matrix that fits with it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import trnsolver
from trnsci import NotPositiveDefinite, NumericalError
from trnsci.precision import Precision

# Below this eigenvalue a combination of auxiliary functions is linearly dependent on the others, as in PySCF.
LINEAR_DEPENDENCE = 1e-7
# The largest growth with which float32 keeps the energy to 2**-10 of itself.
FP32_GROWTH = 2.0**14


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """How the metric was inverted.

    Attributes:
        method: ``cholesky``; ``eigenvalues`` where it is not positive definite; ``mean field`` where fitted integrals
            were taken from there; ``none`` where a checkpoint left nothing to do.
        functions: auxiliary functions.
        vectors: how many independent combinations of them were kept.
        growth: by how much the fit multiplies errors of the integrals: the Frobenius norm of ``X``. 0 where nothing was
            fitted here.
    """

    method: str
    functions: int
    vectors: int
    growth: float = 0.0

    def supports(self, precision: Precision) -> None:
        """Refuse a precision whose errors the fit would multiply beyond the stated bound."""
        if precision != "fp64" and self.growth > FP32_GROWTH:
            message = f"the fit multiplies errors by {self.growth:.3g}, and {precision!r} bears {FP32_GROWTH:g}"
            hint = "Take precision='fp64', or an auxiliary basis whose functions depend less on each other"
            raise NumericalError("dfmp2", message, hint)

    def __str__(self) -> str:
        how = {
            "cholesky": "Cholesky",
            "eigenvalues": "eigenvalues, because it is not positive definite",
            "mean field": "fitted already, by the mean field",
            "none": "not needed, every pair was finished",
        }[self.method]
        return f"{how}; {self.vectors} of {self.functions} vectors kept"


def fit_matrix(metric: Tensor) -> tuple[Tensor, Metric]:
    """Return ``X`` with ``X @ X.T = inverse(metric)``, so that ``B = (ia|P) @ X``.

    Args:
        metric: [naux, naux], float64, symmetric.

    Returns:
        [naux, vectors], and how it was computed.

    Raises:
        NumericalError: the matrix has an eigenvalue that no metric has: far below zero, or NaN.
    """
    functions = metric.shape[0]
    if not bool(torch.isfinite(metric).all()):
        hint = "Check the auxiliary basis: an exponent that is zero or negative does this"
        raise NumericalError("dfmp2", "the metric of the auxiliary basis holds NaN or infinity", hint)
    try:
        factor = trnsolver.cholesky(metric)
    except NotPositiveDefinite:
        return _from_eigenvalues(metric)
    X = trnsolver.inv_triangular(factor, lower=True).mT.contiguous()
    return X, Metric(method="cholesky", functions=functions, vectors=functions, growth=float(X.norm()))


def _from_eigenvalues(metric: Tensor) -> tuple[Tensor, Metric]:
    functions = metric.shape[0]
    values, vectors = trnsolver.eigh(metric)
    lowest, highest = float(values[0]), float(values[-1])
    # rounding moves the zero eigenvalues of a dependent basis by about functions * u * highest
    if not lowest >= -1e3 * functions * torch.finfo(metric.dtype).eps * max(highest, 0.0) or highest <= 0:
        message = f"the metric of the auxiliary basis has the eigenvalue {lowest:.3g}, expected none below zero"
        raise NumericalError("dfmp2", message, "It is not a Coulomb metric. Check the auxiliary basis")
    kept = values > LINEAR_DEPENDENCE
    X = vectors[:, kept] * values[kept].rsqrt()
    return X, Metric(method="eigenvalues", functions=functions, vectors=int(kept.sum()), growth=float(X.norm()))
