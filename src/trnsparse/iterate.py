"""Iterations on a BSR matrix whose vectors never leave the chip: conjugate gradients, Chebyshev, Richardson, power."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from trnsci import Op, check
from trnsci.errors import ArgumentError, NotConverged
from trnsci.nki import P_MAX, launch
from trnsparse import host
from trnsparse.arguments import evenly, same_kind, sparse
from trnsparse.bsr import BSRMatrix
from trnsparse.choice import here
from trnsparse.csr import CSRMatrix
from trnsparse.kernels import iterate as kernels
from trnsparse.matrix import SparseMatrix
from trnsparse.spmm import spmv

# Iterations between two looks at the residual.
STEPS = 16
Blocks = tuple[Tensor, Tensor, Tensor]
# Blocks that a kernel keeps in SBUF, and vector length in blocks: one PSUM bank.
BLOCKS = 256
LENGTH = 512


class Solution(NamedTuple):
    """A solution, the iterations it took and the norm of its residual ``b - a @ x``."""

    x: Tensor
    iterations: int
    residual: float


class Eigenpair(NamedTuple):
    """The eigenvalue of largest magnitude, its vector, the iterations and the norm of ``a @ x - value * x``."""

    value: Tensor
    vector: Tensor
    iterations: int
    residual: float


def cg(
    a: SparseMatrix, b: Tensor, *, x0: Tensor | None = None, tol: float = 1e-5, max_iterations: int = 1000
) -> Solution:
    """Solve ``a @ x = b`` by conjugate gradients, for symmetric positive definite ``a``.

    Args:
        a: sparse [N, N], real; a BSR matrix of 128-blocks is used as it is, any other converted.
        b: [N]
        x0: [N] where to start; zero when left out.
        tol: stop when the residual's norm is at most ``tol * |b|``.
        max_iterations: raise when they do not suffice.

    Raises:
        NotConverged: ``residual`` holds the norm reached.
    """
    return _solved("cg", a, b, x0, tol, max_iterations, None)


def richardson(
    a: SparseMatrix,
    b: Tensor,
    *,
    omega: float,
    x0: Tensor | None = None,
    tol: float = 1e-5,
    max_iterations: int = 1000,
) -> Solution:
    """Solve ``a @ x = b`` by ``x += omega * (b - a @ x)``; converges when ``|1 - omega * eigenvalue| < 1`` for all.

    Args:
        a: as for `cg`, need not be symmetric.
        b: [N]
        omega: the step.
        x0: as for `cg`.
        tol: as for `cg`.
        max_iterations: as for `cg`.
    """
    return _solved("richardson", a, b, x0, tol, max_iterations, lambda k: (omega, 0.0))


def chebyshev(
    a: SparseMatrix,
    b: Tensor,
    *,
    smallest: float,
    largest: float,
    x0: Tensor | None = None,
    tol: float = 1e-5,
    max_iterations: int = 1000,
) -> Solution:
    """Solve ``a @ x = b`` by Chebyshev iteration, for eigenvalues between ``smallest`` and ``largest``, both positive.

    It needs no inner products, so that nothing is summed over partitions.

    Args:
        a: as for `cg`.
        b: [N]
        smallest: a lower bound of the eigenvalues.
        largest: an upper bound of the eigenvalues.
        x0: as for `cg`.
        tol: as for `cg`.
        max_iterations: as for `cg`.
    """
    if not 0 < smallest <= largest:
        raise ArgumentError(
            op="chebyshev",
            argument="smallest",
            got=smallest,
            expected=f"a positive bound that is at most largest = {largest}",
        )
    middle, half = (largest + smallest) / 2, (largest - smallest) / 2
    kept: list[tuple[float, float]] = [(1 / middle, 0.0)]

    def coefficients(k: int) -> tuple[float, float]:
        while len(kept) <= k:
            last = kept[-1][0]
            beta = (half * last) ** 2 / 2 if len(kept) == 1 else (half * last / 2) ** 2
            kept.append((1 / (middle - beta / last), beta))
        return kept[k]

    return _solved("chebyshev", a, b, x0, tol, max_iterations, coefficients)


def power_iteration(
    a: SparseMatrix, *, x0: Tensor | None = None, tol: float = 1e-4, max_iterations: int = 2000
) -> Eigenpair:
    """Return the eigenvalue of largest magnitude of a symmetric ``a``, by power iteration.

    Args:
        a: as for `cg`, need not be positive definite.
        x0: [N] where to start; a fixed vector of random numbers when left out.
        tol: stop when ``|a @ x - value * x| <= tol * |value|``.
        max_iterations: raise when they do not suffice.
    """
    blocks = _blocks(_prepared("power_iteration", a))
    n = a.shape[0]
    if x0 is None:
        x0 = torch.randn(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(a.device).to(a.dtype)
    x = x0 / torch.linalg.vector_norm(x0)
    empty, done, residual = x.new_zeros((0, 2)), 0, float("inf")
    while done < max_iterations:
        steps = min(STEPS, max_iterations - done)
        x, image, _ = _iterate(*blocks, x, x, x, empty, steps, "power")
        done += steps
        value = torch.dot(x, image)
        residual = float(torch.linalg.vector_norm(image - value * x))
        if residual <= tol * abs(float(value)):
            return Eigenpair(value, x, done, residual)
    raise NotConverged(op="power_iteration", iterations=done, residual=residual)


def _prepared(op: str, a: SparseMatrix) -> BSRMatrix | CSRMatrix:
    """The matrix as what runs wants it: in blocks of 128 for a device, in entries or full blocks on the host."""
    sparse(op, a=a)
    check.floating(op, a=a.values)
    check.equal(op, "N", rows=a.shape[0], columns=a.shape[1])
    if a.dtype.is_complex:
        raise ArgumentError(op=op, argument="dtype of a", got=a.dtype, expected="a real dtype")
    found = _BLOCKS.setdefault(a, {})
    where = "host" if here() == "host" else "device"
    version, made = found.get(where, (-1, None))
    if made is None or version != a.values._version:
        made = _entries(a.detach()) if where == "host" else a.detach().to_bsr(P_MAX)
        found[where] = (a.values._version, made)
    return made


def _blocks(a: BSRMatrix | CSRMatrix) -> Blocks:
    """Index pointers, block columns and blocks; an entry is a block of one."""
    return a.indptr, a.indices, a.values if isinstance(a, BSRMatrix) else a.values.reshape(-1, 1, 1)


# A matrix is solved with more than once: its blocks are kept as long as it lives and its values are not written to.
_BLOCKS: WeakKeyDictionary[SparseMatrix, dict[str, tuple[int, Any]]] = WeakKeyDictionary()


def _entries(a: SparseMatrix) -> BSRMatrix | CSRMatrix:
    """What the host multiplies by: entries one by one, unless blocks are mostly full."""
    if not isinstance(a, BSRMatrix):
        return a.to_csr()
    return a if int(torch.count_nonzero(a.values)) * 4 > a.nnz else a.prune().to_csr()


def _solved(
    op: str, a: SparseMatrix, b: Tensor, x0: Tensor | None, tol: float, most: int, coefficients: Any
) -> Solution:
    matrix = _prepared(op, a)
    check.tensor(op, b=b)
    same_kind(op, a=a, b=b)
    check.equal(op, "N", a=a.shape[0], b=b.shape[0])
    b = b.detach()
    x = torch.zeros_like(b) if x0 is None else x0.detach().clone()
    blocks, times = _blocks(matrix), _times(matrix)
    r = b - times(x)
    p = torch.zeros_like(r) if coefficients is not None else r.clone()
    goal, done = tol * float(torch.linalg.vector_norm(b)), 0
    residual = float(torch.linalg.vector_norm(r))
    while residual > goal:
        if done >= most:
            raise NotConverged(op=op, iterations=done, residual=residual)
        steps = min(STEPS, most - done)
        table = [coefficients(done + k) for k in range(steps)] if coefficients is not None else []
        numbers = torch.tensor(table, dtype=b.dtype, device=b.device).reshape(-1, 2)
        x, r, p = _iterate(*blocks, x, r, p, numbers, steps, "cg" if coefficients is None else "fixed")
        done += steps
        # The recurrence drifts from the truth in low precision: the residual that counts is computed.
        true = b - times(x)
        residual = float(torch.linalg.vector_norm(true))
        if not residual < float("inf"):
            raise NotConverged(op=op, iterations=done, residual=residual)
    return Solution(x, done, residual)


def _fake(
    indptr: Tensor,
    indices: Tensor,
    blocks: Tensor,
    x: Tensor,
    r: Tensor,
    p: Tensor,
    numbers: Tensor,
    steps: int,
    method: str,
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)


def _cost(
    indptr: Tensor,
    indices: Tensor,
    blocks: Tensor,
    x: Tensor,
    r: Tensor,
    p: Tensor,
    numbers: Tensor,
    steps: int,
    method: str,
) -> int:
    return steps * (2 * blocks.numel() + 10 * x.shape[0])


# ``steps`` iterations from the state (x, r, p) to the next; for "power" the state is (x, a @ x, unused).
_iterate = Op("trnsparse::iterate", fake=_fake, cost=_cost)


@_iterate.impl("pytorch")
def _pytorch(
    indptr: Tensor,
    indices: Tensor,
    blocks: Tensor,
    x: Tensor,
    r: Tensor,
    p: Tensor,
    numbers: Tensor,
    steps: int,
    method: str,
) -> tuple[Tensor, Tensor, Tensor]:
    matrix = _matrix(indptr, indices, blocks, x.shape[0])
    fast = host.loop(method, x) if isinstance(matrix, CSRMatrix) and x.dtype in (torch.float32, torch.float64) else None
    if fast is not None and (torch.get_num_threads() == 1 or matrix.nnz < host.SERIAL):
        x, r, p = (y.contiguous().clone() for y in (x, r, p))
        numbers, image = numbers.contiguous(), torch.empty_like(x)
        places = host.at(matrix.indptr, matrix.indices, matrix.values, numbers, x, r, p, image)
        fast(x.shape[0], steps, *places)
        return x, r, p
    times = _times(matrix)
    tiny = torch.finfo(x.dtype).tiny
    if method == "power":
        for _ in range(steps):
            r = times(x)
            x = r / torch.linalg.vector_norm(r).clamp(min=tiny)
        return x, times(x), p.clone()
    for k in range(steps):
        if method == "cg":
            image, norm = times(p), torch.dot(r, r)
            alpha = norm / torch.dot(p, image).clamp(min=tiny)
            x, r = x + alpha * p, r - alpha * image
            p = r + torch.dot(r, r) / norm.clamp(min=tiny) * p
        else:
            p = r + numbers[k, 1] * p
            x, r = x + numbers[k, 0] * p, r - numbers[k, 0] * times(p)
    return x, r, p


def _matrix(indptr: Tensor, indices: Tensor, blocks: Tensor, n: int) -> BSRMatrix | CSRMatrix:
    """Blocks as a matrix: of entries where they are entries, or are mostly zero."""
    shape, parts = (n, n), {"indptr": indptr, "indices": indices}
    if blocks.shape[1:] == (1, 1):
        return CSRMatrix._rebuilt(parts, blocks.reshape(-1).contiguous(), shape)
    version, known = _MATRICES.get(blocks, (-1, None))
    if known is None or version != blocks._version:
        # no reference to the key itself, which would keep the entry for ever
        known = BSRMatrix._rebuilt(parts, blocks.view_as(blocks), shape)
        known = known if blocks.is_meta else _entries(known)
        _MATRICES[blocks] = (blocks._version, known)
    return known


# Sorting out the entries costs as much as many products, and a solve comes here every few steps.
_MATRICES: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def _times(a: BSRMatrix | CSRMatrix) -> Callable[[Tensor], Tensor]:
    """The product with a vector, in the format as it is."""
    return lambda y: spmv(a, y, format="stored")


def _limits(
    indptr: Tensor,
    indices: Tensor,
    blocks: Tensor,
    x: Tensor,
    r: Tensor,
    p: Tensor,
    numbers: Tensor,
    steps: int,
    method: str,
) -> str | None:
    if x.dtype != torch.float32:
        return f"takes float32, not {str(x.dtype).removeprefix('torch.')}"
    if blocks.shape[0] > BLOCKS:
        return f"keeps up to {BLOCKS} blocks on chip, not {blocks.shape[0]}"
    if indptr.shape[0] - 1 > LENGTH:
        return f"keeps vectors of up to {LENGTH * P_MAX} on chip, not {x.shape[0]}"
    return None


@_iterate.impl("nki", limits=_limits)
def _nki(
    indptr: Tensor,
    indices: Tensor,
    blocks: Tensor,
    x: Tensor,
    r: Tensor,
    p: Tensor,
    numbers: Tensor,
    steps: int,
    method: str,
) -> tuple[Tensor, Tensor, Tensor]:
    return _launched(indptr.tolist(), indices.tolist(), blocks, (x, r, p), numbers, steps, method)


@_iterate.prediction
def _predicted(
    indptr: Tensor,
    indices: Tensor,
    blocks: Tensor,
    x: Tensor,
    r: Tensor,
    p: Tensor,
    numbers: Tensor,
    steps: int,
    method: str,
) -> tuple[Tensor, Tensor, Tensor]:
    pointers, columns = evenly(indices.shape[0], indptr.shape[0] - 1)
    return _launched(pointers, columns, blocks, (x, r, p), numbers, steps, method)


def _launched(
    pointers: list[int],
    columns: list[int],
    blocks: Tensor,
    state: tuple[Tensor, Tensor, Tensor],
    numbers: Tensor,
    steps: int,
    method: str,
) -> tuple[Tensor, Tensor, Tensor]:
    x, r, p = state
    n = x.shape[0]
    if n == 0 or steps == 0:
        return x.clone(), r.clone(), p.clone()
    if not columns:
        blocks, pointers, columns = blocks.new_zeros((1, P_MAX, P_MAX)), [0] + [1] * (len(pointers) - 1), [0]
    count = blocks.shape[0]
    tiles = blocks.new_empty((P_MAX, count, P_MAX)).copy_(blocks.permute(2, 0, 1)).flatten(1)
    table = numbers if numbers.shape[0] else numbers.new_zeros((steps, 2))
    made = launch(
        kernels.iterate,
        tiles,
        *(_by_partition(y) for y in state),
        table.reshape(1, -1).expand(P_MAX, -1).contiguous(),
        steps=steps,
        method=method,
        pointers=tuple(pointers),
        columns=tuple(columns),
    )
    x, r, p = (y.mT.flatten()[:n].clone() for y in made)
    return x, r, p


@_iterate.workspace
def _workspace(
    backend: str,
    indptr: Tensor,
    indices: Tensor,
    blocks: Tensor,
    x: Tensor,
    r: Tensor,
    p: Tensor,
    numbers: Tensor,
    steps: int,
    method: str,
) -> int:
    if backend == "pytorch":
        # A product and an update of each vector.
        return 4 * x.nbytes
    return blocks.nbytes + 6 * x.nbytes + P_MAX * 8 * steps


def _by_partition(y: Tensor) -> Tensor:
    return torch.nn.functional.pad(y, (0, -y.shape[0] % P_MAX)).reshape(-1, P_MAX).mT.contiguous()
