"""The earlier `trnsparse`: values before indices, products with positions, iterations of a fixed number of steps."""

import inspect
import itertools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import trnsparse
from trnsci import ArgumentError
from trnsci.earlier.calls import Function, read_calls, weigh_addend
from trnsparse.iterate import chebyshev_steps

_CSR, _COO, _BSR = trnsparse.CSRMatrix, trnsparse.COOMatrix, trnsparse.BSRMatrix
_spmv, _screened_spmm, _triangle = trnsparse.spmv, trnsparse.screened_spmm, trnsparse.triangle


def _in_rows(function: Function) -> Function:
    """Decorate a function of ours: its result is in compressed rows."""
    return lambda *args, **keywords: function(*args, **keywords).to_csr()


_CALLS = read_calls("trnsparse", {"addend": weigh_addend, "rows": _in_rows})["trnsparse"]


class _Stands(type):
    """The type of a class that stands for one of ours: calls build ours, and ours are its instances."""

    ours: type
    build: Callable[..., Any]

    def __call__(cls, *args: Any, **keywords: Any) -> Any:
        return cls.build(*args, **keywords)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.ours)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.ours)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.ours, name)

    @property
    def __signature__(cls) -> inspect.Signature:
        return inspect.signature(cls.build)


class CSRMatrix(metaclass=_Stands):
    """Compressed rows, with values first."""

    ours, build = _CSR, staticmethod(_CALLS["CSRMatrix"])


class COOMatrix(metaclass=_Stands):
    """Coordinates, with values first."""

    ours, build = _COO, staticmethod(_CALLS["COOMatrix"])


class BSRMatrix(metaclass=_Stands):
    """Blocks in compressed rows, with blocks first."""

    ours = _BSR

    @staticmethod
    def build(
        blocks: Tensor, block_col_indices: Tensor, block_row_ptrs: Tensor, shape: Any, block_size: int = 128
    ) -> Any:
        """Return the matrix."""
        if tuple(blocks.shape[1:]) != (block_size, block_size):
            edges = f"{block_size} x {block_size} blocks, as block_size says"
            raise ArgumentError("BSRMatrix", "shape of blocks", tuple(blocks.shape), edges)
        return _BSR(block_row_ptrs, block_col_indices, blocks, shape)

    @staticmethod
    def from_dense(A: Tensor, block_size: int = 128, threshold: float = 0.0) -> Any:
        """Return the blocks that hold an entry above the threshold."""
        return _keep_blocks(_BSR.from_dense(A, block_size), threshold)

    @staticmethod
    def from_csr(csr: Any, block_size: int = 128, threshold: float = 0.0) -> Any:
        """Return the blocks that hold an entry above the threshold."""
        return _keep_blocks(csr.to_bsr(block_size), threshold)


def _keep_blocks(matrix: Any, threshold: float) -> Any:
    """Drop the blocks whose largest entry is at most a threshold."""
    if threshold <= 0:
        return matrix
    kept = matrix.values.abs().amax((1, 2)) > threshold
    counts = torch.zeros_like(matrix.indptr)
    counts[1:].index_add_(
        0, matrix.block_rows[kept].to(torch.int64), torch.ones_like(matrix.indptr[:1]).expand(int(kept.sum()))
    )
    return _BSR(counts.cumsum(0), matrix.indices[kept], matrix.values[kept], matrix.shape)


def from_dense(A: Tensor, threshold: float = 0.0) -> Any:
    """Return the entries above a threshold, in compressed rows."""
    return _CSR.from_dense(torch.where(A.abs() > threshold, A, torch.zeros_like(A)))


def spmv_symmetric(A: Any, x: Tensor, alpha: float = 1.0, uplo: str = "upper") -> Tensor:
    """Return ``alpha * S @ x`` for the symmetric matrix of which ``A`` holds one triangle."""
    if uplo not in ("upper", "lower"):
        raise ArgumentError("spmv_symmetric", "uplo", uplo, "'upper' or 'lower'")
    one = _triangle(A, lower=uplo == "lower")
    both: Tensor = _spmv(one, x) + _spmv(one.T, x) - one.diagonal() * x
    return alpha * both


def screened_spmm(A: Any, diag_integrals: Tensor, B: Tensor, threshold: float) -> Tensor:
    """Return ``A' @ B`` with the entries of ``A`` whose Schwarz bound is above a threshold."""
    bounds = diag_integrals.abs().sqrt()
    return _screened_spmm(A, bounds, bounds, B, threshold)


def sparse_transpose(A: Any) -> Any:
    """Return the transposed matrix in compressed rows."""
    return A.to_coo().transpose().to_csr()


def nnz_per_row(A: Any) -> Tensor:
    """Return the number of stored entries of each row."""
    return A.to_csr().indptr.diff()


def schwarz_bounds(diagonal_integrals: Tensor) -> Tensor:
    """Return the square roots of integrals with equal pairs."""
    return diagonal_integrals.abs().sqrt()


def screen_quartets(Q: Tensor, threshold: float = 1e-10) -> Tensor:
    """Return a mask [*pairs, *pairs] of the quartets whose bounds' product is above a threshold."""
    return Q.reshape(*Q.shape, *(1,) * Q.ndim) * Q > threshold


def density_screen(Q: Tensor, P: Tensor, threshold: float = 1e-10) -> Tensor:
    """Return a mask of the entries of a density that matter: those with ``Q |P| max(Q)`` above a threshold."""
    return Q * P.abs() * Q.max() > threshold


def sparsity_stats(Q: Tensor, threshold: float = 1e-10) -> dict[str, float]:
    """Return how many pairs and quartets a threshold keeps."""
    pairs, quartets = int((Q * Q.max() > threshold).sum()), int(screen_quartets(Q, threshold).sum())
    return {
        "n_pairs": Q.numel(),
        "n_significant_pairs": pairs,
        "pair_sparsity": 1.0 - pairs / max(Q.numel(), 1),
        "n_quartets": Q.numel() ** 2,
        "n_significant_quartets": quartets,
        "quartet_sparsity": 1.0 - quartets / max(Q.numel() ** 2, 1),
    }


def chebyshev_coeffs(lam_min: float, lam_max: float, K: int) -> list[tuple[float, float]]:
    """Return step and momentum of each Chebyshev iteration for eigenvalues between two bounds."""
    if not 0 < lam_min <= lam_max:
        raise ArgumentError("chebyshev_coeffs", "lam_min", lam_min, f"a positive bound up to lam_max = {lam_max}")
    return list(itertools.islice(chebyshev_steps(lam_min, lam_max), K))


def chebyshev_bsr(A: Any, b: Tensor, lam_min: float, lam_max: float, K: int = 50, x0: Tensor | None = None) -> Tensor:
    """Return ``K`` Chebyshev iterations towards the solution."""
    x = torch.zeros_like(b) if x0 is None else x0.clone()
    direction = torch.zeros_like(b)
    for step, momentum in chebyshev_coeffs(lam_min, lam_max, K):
        direction = b - _spmv(A, x) + momentum * direction
        x = x + step * direction
    return x


def richardson_bsr(A: Any, b: Tensor, omega: float, K: int = 100, x0: Tensor | None = None) -> Tensor:
    """Return ``K`` Richardson iterations towards the solution."""
    x = torch.zeros_like(b) if x0 is None else x0.clone()
    for _ in range(K):
        x = x + omega * (b - _spmv(A, x))
    return x


def power_iteration_bsr(
    A: Any, v0: Tensor | None = None, max_iter: int = 100, tol: float = 1e-09
) -> tuple[float, Tensor, int]:
    """Return the eigenvalue of largest magnitude, its vector and the steps, of which there are ``max_iter`` at most."""
    v = torch.ones(A.shape[0], dtype=A.dtype, device=A.device) if v0 is None else v0
    v, value, steps = v / v.norm(), 0.0, 0
    while steps < max_iter:
        steps += 1
        image = _spmv(A, v)
        last, value = value, float(v @ image)
        norm = image.norm()
        if norm == 0:
            break
        v = image / norm
        if abs(value - last) <= tol * abs(value):
            break
    return value, v, steps


_FUNCTIONS = (
    from_dense, spmv_symmetric, screened_spmm, sparse_transpose, nnz_per_row, schwarz_bounds, screen_quartets,
    density_screen, sparsity_stats, chebyshev_bsr, chebyshev_coeffs, richardson_bsr, power_iteration_bsr,
)  # fmt: skip
MODULES: dict[str, dict[str, Any]] = {
    "trnsparse": _CALLS | {x.__name__: x for x in (*_FUNCTIONS, CSRMatrix, COOMatrix, BSRMatrix)},
}


def _rename(**names: str) -> dict[str, Any]:
    """Return properties that read attributes of ours by their earlier names."""
    return {earlier: property(operator.attrgetter(here)) for earlier, here in names.items()}


CLASSES: dict[type, dict[str, Any]] = {
    _CSR: _rename(row_ptrs="indptr", col_indices="indices"),
    _COO: _rename(row_indices="row", col_indices="col"),
    _BSR: {
        **_rename(block_row_ptrs="indptr", block_col_indices="indices", blocks="values"),
        "block_size": property(lambda self: self.block[0]),
    },
}
