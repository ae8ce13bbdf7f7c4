"""Conjugate gradients, Chebyshev, Richardson and power iteration on sparse matrices, a few steps to a kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnsci import array_function, check, op, programs, run
from trnsci.arrays import to_numpy
from trnsci.errors import ArgumentError, NotConverged
from trnsci.nki import P_MAX, launch
from trnsparse import scipy_views
from trnsparse.arguments import dense, evenly, only, same_kind, sparse
from trnsparse.bsr import BSRMatrix
from trnsparse.csr import CSRMatrix
from trnsparse.dia_spmm import count_diagonals, to_positions
from trnsparse.format_choice import here
from trnsparse.kernels import iterate as kernels
from trnsparse.matrix import SparseMatrix, SparseMatrixLike
from trnsparse.spmm import spmv

# Blocks that a kernel keeps in SBUF, and vector length in blocks: one PSUM bank.
BLOCKS = 256
LENGTH = 512
# Bytes of an SBUF partition for vectors and the largest window of a matrix of diagonals.
DIAGONALS = 176 * 1024
# Iterations of one operation: of a kernel, whose launch is expensive, and on the host, which stops at the goal.
STEPS, HOST_STEPS = 16, 64
HOST = (torch.float32, torch.float64)
Blocks = tuple[Tensor, Tensor, Tensor]
State = tuple[Tensor, Tensor, Tensor, Tensor]


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


@array_function
def cg(
    a: SparseMatrixLike, b: Tensor, *, x0: Tensor | None = None, tol: float = 1e-5, max_iterations: int = 1000
) -> Solution:
    """Solve ``a @ x = b`` by conjugate gradients, for symmetric positive definite ``a``.

    Args:
        a: sparse [N, N], real; a BSR matrix of 128-blocks is used as it is, any other converted.
        b: [N], finite.
        x0: [N] where to start; zero when left out.
        tol: stop when the residual's norm is at most ``tol * |b|``.
        max_iterations: raise when they do not suffice.

    Raises:
        NotConverged: ``residual`` holds the norm reached.
    """
    return _solve("cg", a, b, x0=x0, tol=tol, most=max_iterations, recurrence=None)


@array_function
def richardson(
    a: SparseMatrixLike,
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
    step = float(check.real("richardson", "omega", omega))
    return _solve("richardson", a, b, x0=x0, tol=tol, most=max_iterations, recurrence=lambda k: (step, 0.0))


@array_function
def chebyshev(
    a: SparseMatrixLike,
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
    smallest, largest = check.real("chebyshev", "smallest", smallest), check.real("chebyshev", "largest", largest)
    if not 0 < smallest <= largest < math.inf:
        raise ArgumentError("chebyshev", "smallest", smallest, f"a positive bound that is at most largest = {largest}")
    kept: list[tuple[float, float]] = []
    further = chebyshev_steps(smallest, largest)

    def coefficients(k: int) -> tuple[float, float]:
        while len(kept) <= k:
            kept.append(next(further))
        return kept[k]

    return _solve("chebyshev", a, b, x0=x0, tol=tol, most=max_iterations, recurrence=coefficients)


def chebyshev_steps(smallest: float, largest: float) -> Iterator[tuple[float, float]]:
    """Yield step and momentum of each Chebyshev iteration for eigenvalues between two bounds."""
    middle, half = (largest + smallest) / 2, (largest - smallest) / 2
    step, beta = 1 / middle, 0.0
    while True:
        yield step, beta
        beta = (half * step / 2) ** 2 if beta else (half * step) ** 2 / 2
        step = 1 / (middle - beta / step)


@array_function
def power_iteration(
    a: SparseMatrixLike, *, x0: Tensor | None = None, tol: float = 1e-4, max_iterations: int = 2000
) -> Eigenpair:
    """Return the eigenvalue of largest magnitude of a symmetric ``a``, by power iteration.

    Args:
        a: as for `cg`, need not be positive definite.
        x0: [N] where to start; a fixed vector of random numbers when left out.
        tol: stop when ``|a @ x - value * x| <= tol * |value|``.
        max_iterations: raise when they do not suffice.
    """
    a = sparse("power_iteration", "a", a)
    matrix = _prepare("power_iteration", a)
    _options("power_iteration", tol, max_iterations)
    n = a.shape[0]
    if x0 is None:
        x0 = torch.randn(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64, device="cpu").to(a.values)
    x = _vector("power_iteration", "x0", x0, a)
    check.refuse(n and not bool(x.any()), "power_iteration", "x0", "zeros", "a vector with a direction")
    x, scale = x / _scale(x), _scale(matrix.values)
    offsets = _offsets(matrix)
    x, matrix = x / torch.linalg.vector_norm(x), matrix.with_values(matrix.values / scale)
    image = _times(matrix, x)
    if not bool(image.any()):
        # x is an eigenvector of 0, and of a matrix that is 0 there is no other.
        return Eigenpair(image.new_zeros(()), x, 0, 0.0)
    empty, done, residual = x.new_zeros((0, 2)), 0, float("inf")
    while done < max_iterations:
        steps = min(STEPS, max_iterations - done)
        x, image, *_ = run(Iterate(*_blocks(matrix), x, x, x, empty, steps, "power", offsets=offsets))
        done += steps
        value = torch.dot(x, image)
        residual = float(torch.linalg.vector_norm(image - value * x))
        if not residual < float("inf") or not bool(x.any()):
            break
        if residual <= tol * abs(float(value)):
            return Eigenpair(value * scale, x, done, residual * scale)
    raise NotConverged(op="power_iteration", iterations=done, residual=residual * scale)


def _options(op: str, tol: Any, most: Any) -> None:
    check.refuse(check.real(op, "tol", tol) < 0, op, "tol", tol, "a number that is not negative")
    check.integer(op, "max_iterations", most, 0)


def _vector(op: str, name: str, x: Any, a: SparseMatrix) -> Tensor:
    """Check a vector [N] of finite numbers, of the matrix's dtype and device, and return it detached."""
    dense(op, **{name: x})
    same_kind(op, a=a, **{name: x})
    if x.ndim != 1:
        raise ArgumentError(op, f"shape of {name}", tuple(x.shape), "[N]")
    check.equal(op, "N", a=a.shape[0], **{name: x.shape[0]})
    check.data(op, a=a.values, **{name: x})
    bad = ~torch.isfinite(x.detach())
    if bool(bad.any()):
        at = int(bad.nonzero()[0])
        raise ArgumentError(op, f"{name}[{at}]", x[at].item(), "a finite number")
    return x.detach()


def _scale(x: Tensor) -> float:
    """Return a power of two near the largest magnitude, so that squares stay in range; 1 for zeros."""
    top = float(x.abs().max()) if x.numel() else 0.0
    return 2.0 ** min(max(math.frexp(top)[1], -1000), 1000) if top else 1.0


def _prepare(op: str, a: SparseMatrix) -> BSRMatrix | CSRMatrix:
    """Return the matrix as what runs needs it: rows of few diagonals or blocks of 128 for a device, or as stored."""
    check.floating(op, a=a.values)
    check.equal(op, "N", rows=a.shape[0], columns=a.shape[1])
    check.refuse(a.dtype.is_complex, op, "dtype of a", a.dtype, "a real dtype")
    if here() == "host":
        return a.detach() if isinstance(a, BSRMatrix) and a.block[0] == a.block[1] else a.detach().to_csr()
    rows = a.detach().to_csr()
    return rows if _offsets(rows) else a.detach().to_bsr(P_MAX)


def _offsets(a: BSRMatrix | CSRMatrix) -> tuple[int, ...]:
    """Return the diagonals of rows whose vectors fit into SBUF; none on the host, or for blocks."""
    if isinstance(a, BSRMatrix) or a.device.type == "meta" or here() == "host":
        return ()
    offsets = a._once("diagonals", lambda: count_diagonals(a.indptr, a.indices, a.shape[1])) or ()
    return offsets if _diagonal_bytes(a.shape[0], offsets) <= DIAGONALS else ()


def _diagonal_bytes(n: int, offsets: tuple[int, ...]) -> int:
    """Return the bytes of an SBUF partition that four vectors and a window of some offsets take."""
    run = -(-n // P_MAX)
    beyond = min(offsets[-1] - offsets[0], run, 4 * kernels.CHUNK) if offsets else 0
    return 4 * (5 * run + beyond)


def _blocks(a: BSRMatrix | CSRMatrix) -> Blocks:
    """Return index pointers, block columns and blocks; an entry is a block of one."""
    return a.indptr, a.indices, a.values if isinstance(a, BSRMatrix) else a.values.reshape(-1, 1, 1)


def _solve(
    op: str, a: SparseMatrixLike, b: Tensor, *, x0: Tensor | None, tol: float, most: int, recurrence: Any
) -> Solution:
    a = sparse(op, "a", a)
    matrix = _prepare(op, a)
    _options(op, tol, most)
    b = _vector(op, "b", b, a)
    x = torch.zeros_like(b) if x0 is None else _vector(op, "x0", x0, a).clone()
    if not bool(b.any()):
        return Solution(torch.zeros_like(b), 0, 0.0)
    scale = _scale(b)
    b, x = b / scale, x / scale
    r = b.clone() if x0 is None else b - _times(matrix, x)
    p = torch.zeros_like(r) if recurrence is not None else r.clone()
    goal, done = tol * float(torch.linalg.vector_norm(b)), 0
    residual, each = float(torch.linalg.vector_norm(r)), HOST_STEPS if here() == "host" and b.is_cpu else STEPS
    while not residual <= goal:
        if done >= most or not residual < float("inf"):
            residual = float(torch.linalg.vector_norm(b - _times(matrix, x)))
            raise NotConverged(op=op, iterations=done, residual=residual * scale)
        steps = min(each, most - done)
        table = [recurrence(done + k) for k in range(steps)] if recurrence is not None else []
        coefficients = torch.tensor(table, dtype=b.dtype, device=b.device).reshape(-1, 2)
        method = "cg" if recurrence is None else "fixed"
        x, r, p, taken = run(Iterate(*_blocks(matrix), x, r, p, coefficients, steps, method, goal, _offsets(matrix)))
        done += int(taken)
        residual = float(torch.linalg.vector_norm(r))
        if residual <= goal:
            # The recurrence drifts from the truth in low precision: the residual that counts is computed.
            r = b - _times(matrix, x)
            residual = float(torch.linalg.vector_norm(r))
            p = r.clone() if recurrence is None else p
    return Solution(x * scale, done, residual * scale)


def _times(a: BSRMatrix | CSRMatrix, x: Tensor) -> Tensor:
    """Return the product with a vector, in the format as it is."""
    return spmv(a, x, format="dia" if _offsets(a) else "stored")


@op("trnsparse::iterate", calls="scipy.sparse, numpy")
class Iterate(NamedTuple):
    """A few iterations as one operation, from the state (x, r, p) to the next; for "power" that is (x, a @ x, p).

    The last result is how many: on the host fewer, where the residual is no longer than the goal before the end.
    """

    indptr: Tensor  # [block rows + 1]
    indices: Tensor  # [blocks]
    blocks: Tensor  # [blocks, edge, edge]
    x: Tensor  # [N]
    r: Tensor  # [N]
    p: Tensor  # [N]
    coefficients: Tensor  # [steps, 2], of "fixed"
    steps: int
    method: str
    goal: float = 0.0
    # of the diagonals that hold the entries, where these are blocks of one on a device
    offsets: tuple[int, ...] = ()

    def fake(self) -> State:
        x = self.x
        return torch.empty_like(x), torch.empty_like(x), torch.empty_like(x), x.new_empty((), dtype=torch.int64)

    def cost(self) -> int:
        return self.steps * (2 * self.blocks.numel() + 10 * self.x.shape[0])

    def limits(self, implementation: str) -> str | None:
        if implementation == "host":
            edge = self.blocks.shape[1]
            fits = self.x.shape[0] % edge == 0
            return only(self.x.dtype, HOST) if fits else f"takes lengths that blocks of {edge} divide"
        if implementation != "nki":
            return None
        if self.offsets:
            needed = _diagonal_bytes(self.x.shape[0], self.offsets)
            if needed > DIAGONALS:
                return f"keeps vectors and a window of up to {DIAGONALS} bytes a partition on chip, not {needed}"
            return only(self.x.dtype, (torch.float32,))
        if self.blocks.shape[1] != P_MAX:
            return f"takes diagonals, or blocks of {P_MAX}, not of {self.blocks.shape[1]}"
        if self.blocks.shape[0] > BLOCKS:
            return f"keeps up to {BLOCKS} blocks on chip, not {self.blocks.shape[0]}"
        if self.indptr.shape[0] - 1 > LENGTH:
            return f"keeps vectors of up to {LENGTH * P_MAX} on chip, not {self.x.shape[0]}"
        return only(self.x.dtype, (torch.float32,))

    def host(self) -> State:
        values = self.blocks.reshape(-1) if self.blocks.shape[1:] == (1, 1) else self.blocks
        a = scipy_views.view(self.indptr, self.indices, values, self.indptr.shape[0] - 1).rows
        state = (to_numpy(self.x), to_numpy(self.r), to_numpy(self.p))
        tiny, coefficients = np.finfo(state[0].dtype).tiny, to_numpy(self.coefficients)
        with np.errstate(all="ignore"):
            x, r, p, taken = _take_steps(
                self, a.__matmul__, state, coefficients=coefficients, norm=np.linalg.norm, floor=lambda y: max(y, tiny)
            )
        return torch.from_numpy(x), torch.from_numpy(r), torch.from_numpy(p), torch.tensor(taken, device="cpu")

    def pytorch(self) -> State:
        matrix, tiny = self._matrix(), torch.finfo(self.x.dtype).tiny
        state = (self.x, self.r, self.p)
        x, r, p, taken = _take_steps(
            self,
            lambda y: _times(matrix, y),
            state,
            coefficients=self.coefficients,
            norm=torch.linalg.vector_norm,
            floor=lambda y: y.clamp(min=tiny),
        )
        return x, r, p, self._count(taken)

    def _count(self, taken: int) -> Tensor:
        return torch.tensor(taken, device=self.x.device)

    def _matrix(self) -> BSRMatrix | CSRMatrix:
        """Return blocks as a matrix; of entries where they are entries."""
        n, parts = self.x.shape[0], {"indptr": self.indptr, "indices": self.indices}
        if self.blocks.shape[1:] == (1, 1):
            return CSRMatrix._rebuilt(parts, self.blocks.reshape(-1), (n, n))
        return BSRMatrix._rebuilt(parts, self.blocks, (n, n))

    def nki(self) -> State:
        if self.offsets:
            return self._along_diagonals(to_positions(self.indptr, self.indices, self.offsets))
        return self._launch_kernel(self.indptr.tolist(), self.indices.tolist())

    def prediction(self) -> State:
        if self.offsets:
            return self._along_diagonals(None)
        return self._launch_kernel(*evenly(self.indices.shape[0], self.indptr.shape[0] - 1))

    def _launch_kernel(self, pointers: list[int], columns: list[int]) -> State:
        """Take the steps with blocks; a column of the state is a block of a vector."""
        blocks = self.blocks
        if self.x.shape[0] == 0 or self.steps == 0:
            return self.x.clone(), self.r.clone(), self.p.clone(), self._count(self.steps)
        if not columns:
            blocks, pointers, columns = blocks.new_zeros((1, P_MAX, P_MAX)), [0] + [1] * (len(pointers) - 1), [0]
        tiles = blocks.new_empty((P_MAX, blocks.shape[0], P_MAX)).copy_(blocks.permute(2, 0, 1)).flatten(1)
        return self._launch_steps(tiles, {"pointers": tuple(pointers), "columns": tuple(columns)}, by_blocks=True)

    def _along_diagonals(self, positions: Tensor | None) -> State:
        """Take the steps with vectors as runs of rows; without positions of the entries, on shapes alone."""
        n = self.x.shape[0]
        run = -(-n // P_MAX)
        diagonals = self.x.new_zeros((len(self.offsets), P_MAX * run))
        if positions is not None:
            at = positions.div(n, rounding_mode="floor") * (P_MAX * run) + positions % n
            diagonals = diagonals.flatten().index_copy(0, at, self.blocks.flatten()).reshape(diagonals.shape)
        return self._launch_steps(diagonals, {"offsets": tuple(self.offsets)}, by_blocks=False)

    def _launch_steps(self, tiles: Tensor, options: dict[str, Any], *, by_blocks: bool) -> State:
        """Launch the steps, a few in each program, with vectors as columns of blocks or as runs of rows."""
        n = self.x.shape[0]
        whole = (torch.nn.functional.pad(y, (0, -n % P_MAX)) for y in (self.x, self.r, self.p))
        state = [y.reshape(-1, P_MAX).mT.contiguous() if by_blocks else y.reshape(P_MAX, -1) for y in whole]
        table = self.coefficients if self.coefficients.shape[0] else self.coefficients.new_zeros((self.steps, 2))
        options = {"method": self.method} | options

        def size(steps: int) -> programs.Size:
            coefficients = table.new_empty((P_MAX, 2 * steps))
            return programs.size_of(kernels.iterate, (tiles, *state, coefficients), {"steps": steps, **options})

        # Between launches of a few steps the state is in HBM; one step is cut no further.
        launches = -(-self.steps // programs.most(size))
        for some in table.split(-(-self.steps // launches)):
            coefficients, steps = some.reshape(1, -1).expand(P_MAX, -1).contiguous(), some.shape[0]
            state = list(launch(kernels.iterate, tiles, *state, coefficients, steps=steps, **options))
        x, r, p = ((y.mT if by_blocks else y).flatten()[:n].clone() for y in state)
        return x, r, p, self._count(self.steps)

    def workspace(self, implementation: str) -> int:
        size = self.x.nbytes
        if implementation == "host":
            return 4 * size
        if implementation == "pytorch":
            # A product and an update of each vector; what blocks meet, and their products.
            count, bm, bn = self.blocks.shape
            return 4 * size + (count * (bm + bn) * self.x.element_size() if bm > 1 else 0)
        return self.blocks.nbytes + 6 * size + P_MAX * 8 * self.steps


def _take_steps(call: Iterate, times: Any, state: Any, *, coefficients: Any, norm: Any, floor: Any) -> Any:
    """Run the steps on tensors or arrays: ``times`` multiplies by the matrix, ``floor`` keeps divisors from 0."""
    x, r, p = (y + 0 for y in state)
    if call.method == "power":
        for _ in range(call.steps):
            r = times(x)
            x = r / floor(norm(r))
        return x, times(x), p, call.steps
    square, k, goal = r @ r, 0, call.goal**2
    while k < call.steps:
        if call.method == "cg":
            image = times(p)
            alpha = square / floor(p @ image)
        else:
            p *= coefficients[k, 1]
            p += r
            image, alpha = times(p), coefficients[k, 0]
        x += alpha * p
        image *= alpha
        r -= image
        last, square, k = floor(square), r @ r, k + 1
        if call.method == "cg":
            p *= square / last
            p += r
        if call.x.is_cpu and not square > goal:
            break
    return x, r, p, k
