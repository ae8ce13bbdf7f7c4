"""Systems with band and tridiagonal matrices, by elimination with row exchanges."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from trnsci import ArgumentError, Singular, array_function, check, op, run
from trnsci.gradient import saves
from trnsolver.arguments import all_finite, check_result, finite, matrices, right_hand_side
from trnsolver.scipy_calls import compute

Matrix = NDArray[Any]


@array_function
def solve_banded(bands: tuple[int, int], ab: Tensor, b: Tensor) -> Tensor:
    """Solve ``a @ x = b`` with a band matrix: the arguments of `scipy.linalg.solve_banded`, in batches, with gradients.

    Args:
        bands: how many diagonals lie below and above the main one: KL and KU.
        ab: [..., KL + KU + 1, N], the diagonals, the uppermost first: ``ab[KU + i - j, j]`` is ``a[i, j]``. Corners
            that lie outside of ``a`` are not read.
        b: [..., N, K] or [..., N].

    Raises:
        Singular: no row has a pivot for column ``index``.

    Error bound:
        backward: ``norm(b - a @ x) <= 20 (KL + KU + 1) u g norm(a) norm(x)``, with ``g`` the growth of entries.

    Cost:
        ``2 N KL (KL + KU) + 2 N (2 KL + KU) K`` FLOPs, on the host whatever the backend and the device of ``ab``:
        elimination along the band is a chain of N dependent steps.

    Example:
        >>> ab = torch.tensor([[0.0, 1.0, 1.0], [4.0, 4.0, 4.0], [1.0, 1.0, 0.0]])
        >>> solve_banded((1, 1), ab, torch.tensor([5.0, 6.0, 5.0])).round(decimals=4)
        tensor([1., 1., 1.])
    """
    matrices("solve_banded", look=False, ab=ab)
    bands = tuple(check.sequence("solve_banded", "bands", bands))
    if len(bands) != 2 or not all(isinstance(count, int) and count >= 0 for count in bands):
        raise ArgumentError("solve_banded", "bands", bands, "two counts, none negative")
    below, above = bands
    check.equal("solve_banded", "diagonals", ab=ab.shape[-2], bands=below + above + 1)
    return _check_bands("solve_banded", ab, b, below, above)


@array_function
def solve_tridiagonal(lower: Tensor, diagonal: Tensor, upper: Tensor, b: Tensor) -> Tensor:
    """Solve ``a @ x = b`` with a tridiagonal matrix: LAPACK's and cuSPARSE's ``gtsv``, in batches, with gradients.

    Args:
        lower: [..., N - 1], ``a[i + 1, i]``.
        diagonal: [..., N].
        upper: [..., N - 1], ``a[i, i + 1]``.
        b: [..., N, K] or [..., N].

    Raises:
        Singular: no row has a pivot for column ``index``.

    Error bound:
        that of `solve_banded`.

    Cost:
        ``(2 + 8 K) N`` FLOPs, on the host like `solve_banded`.

    Example:
        >>> one = torch.ones(2)
        >>> solve_tridiagonal(one, torch.full((3,), 4.0), one, torch.tensor([5.0, 6.0, 5.0])).round(decimals=4)
        tensor([1., 1., 1.])
    """
    op = "solve_tridiagonal"
    check.floating(op, lower=lower, diagonal=diagonal, upper=upper)
    check.ndim(op, 1, lower=lower, diagonal=diagonal, upper=upper)
    n = diagonal.shape[-1]
    wanted = max(0, n - 1)
    check.equal(op, "N - 1", lower=lower.shape[-1], upper=upper.shape[-1], diagonal=wanted)
    batch = check.broadcast(op, lower=lower.shape[:-1], diagonal=diagonal.shape[:-1], upper=upper.shape[:-1])
    if n == 0:
        ab = diagonal.new_empty((*batch, 3, 0))
    else:
        rows = (pad(upper, (1, 0)), diagonal, pad(lower, (0, 1)))
        ab = torch.stack([row.expand(*batch, n) for row in rows], -2)
    matrices(op, look=False, diagonals=ab)
    return _check_bands(op, ab, b, 1, 1)


def _check_bands(op: str, ab: Tensor, b: Tensor, below: int, above: int) -> Tensor:
    n = ab.shape[-1]
    square = ab[..., :1, :].expand(*ab.shape[:-2], n, n)
    vector = right_hand_side(op, square, b, look=False)
    columns = b.unsqueeze(-1) if vector else b
    if n == 0 or columns.numel() == 0:
        batch = check.broadcast(op, ab=ab.shape[:-2], b=columns.shape[:-2])
        x = columns.new_zeros((*batch, *columns.shape[-2:]))
    else:
        if not all_finite(ab):
            finite(op, ab=_inside(ab, below, above))
        try:
            x = run(SolveBanded(ab, columns, below, above))
        except Singular as error:
            raise Singular(op=op, index=error.index, batch=error.batch, hint="Use lstsq for singular systems") from None
        check_result(op, x, b=b)
    return x.squeeze(-1) if vector else x


def _inside(ab: Tensor, below: int, above: int) -> Tensor:
    """Return the diagonals with zeros in the corners that lie outside of the matrix."""
    n = ab.shape[-1]
    place = torch.arange(n, device=ab.device) + (torch.arange(below + above + 1, device=ab.device) - above).unsqueeze(
        -1
    )
    return torch.where((place >= 0) & (place < n), ab, 0.0)


def _shift_rows(x: Tensor, by: int, axis: int) -> Tensor:
    """Return ``x[i + by]`` at index ``i``, zero outside."""
    n = x.shape[axis]
    by = max(-n, min(n, by))
    kept = x.narrow(axis, max(0, by), n - abs(by))
    sides = (max(0, -by), max(0, by))
    return pad(kept, (0, 0) * (-1 - axis) + sides)


def _adjoint(ab: Tensor, below: int, above: int) -> Tensor:
    """Return the conjugate transpose, by diagonals: ``above`` of them lie below its main one."""
    whole = _inside(ab, below, above).conj()
    rows = [_shift_rows(whole[..., above - by, :], by, -1) for by in range(-below, above + 1)]
    return torch.stack(rows, -2)


@op(
    "trnsolver::solve_banded", host_only="elimination along a band is a chain of dependent steps, each of a few numbers"
)
class SolveBanded(NamedTuple):
    """``x`` with ``a @ x = b``, ``a`` given by its diagonals."""

    ab: Tensor  # [..., KL + KU + 1, N]
    b: Tensor  # [..., N, K]
    below: int
    above: int

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading axes of the result."""
        return check.broadcast("solve_banded", ab=self.ab.shape[:-2], b=self.b.shape[:-2])

    def fake(self) -> Tensor:
        return self.b.new_empty((*self.batch, *self.b.shape[-2:]))

    def cost(self) -> int:
        (n, k), below, above = self.b.shape[-2:], self.below, self.above
        each = 2 * n * (below * (below + above) + (2 * below + above) * k + k)
        return math.prod(self.batch) * each * (4 if self.b.is_complex() else 1)

    def calls(self, implementation: str) -> str:
        return "scipy.linalg.lapack." + ("gtsv" if self.below == self.above == 1 else "gbsv")

    def host(self) -> Tensor:
        ab, b, below, above = self.ab, self.b, self.below, self.above
        batch = self.batch
        bands, right = (x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:]).numpy() for x in (ab, b))
        solution = np.empty_like(right)
        for where, (band, columns) in enumerate(zip(bands, right, strict=True)):
            solution[where], failed = _call_lapack(band, columns, below, above)
            if failed:
                place = tuple(int(i) for i in np.unravel_index(where, batch)) if batch else ()
                raise Singular(op="solve_banded", index=failed - 1, batch=place)
        return torch.from_numpy(solution).reshape(*batch, *b.shape[-2:])

    @saves("ab", "b", host=True, pytorch=True)
    def vjp(self, grad: Tensor, needs: frozenset[str], result: Tensor) -> dict[str, Tensor]:
        """With ``y`` the solution of the adjoint system, ``-y @ x.mH`` inside the band is the gradient of ``a``."""
        below, above, gradients = self.below, self.above, {}
        y = run(SolveBanded(_adjoint(self.ab, below, above), grad, above, below))
        if "b" in needs:
            gradients["b"] = y.sum_to_size(self.b.shape)
        if "ab" in needs:
            rows = [-(_shift_rows(y, d - above, -2) * result.conj()).sum(-1) for d in range(below + above + 1)]
            gradients["ab"] = torch.stack(rows, -2).sum_to_size(self.ab.shape)
        return gradients

    def pytorch(self) -> Tensor:
        result: Tensor = compute(self)
        return result

    def tangent(self, of_ab: Tensor, of_b: Tensor, result: Tensor) -> Tensor:
        """Return the change of the solution."""
        above, diagonals = self.above, self.below + self.above + 1
        rows = [_shift_rows(of_ab[..., d, :, None] * result, above - d, -2) for d in range(diagonals)]
        return run(self._replace(b=of_b - torch.stack(rows).sum(0)))


def _call_lapack(band: Matrix, columns: Matrix, below: int, above: int) -> tuple[Matrix, int]:
    """Return LAPACK's solution, and the column, from 1, that has no pivot."""
    import scipy.linalg

    if below == above == 1 and band.shape[-1] > 1:
        gtsv = scipy.linalg.get_lapack_funcs("gtsv", (band, columns))
        *_, x, failed = gtsv(band[2, :-1], band[1], band[0, 1:], columns)
        return x, failed
    gbsv = scipy.linalg.get_lapack_funcs("gbsv", (band, columns))
    # with room above for what row exchanges fill in
    _, _, x, failed = gbsv(below, above, np.pad(band, ((below, 0), (0, 0))), columns, overwrite_ab=True)
    return x, failed
