"""Systems with band and tridiagonal matrices, by elimination with row exchanges."""

from __future__ import annotations

import ctypes
import functools
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from trnblas import host
from trnsci import ArgumentError, Singular, array_function, check, native
from trnsolver.arguments import DTYPES, all_finite, finite, matrices, readable, right_hand_side, settled
from trnsolver.on_host import HostOp

SOURCE = Path(__file__).with_name("solve_banded.c")


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
    if len(bands) != 2 or min(bands) < 0:
        raise ArgumentError(op="solve_banded", argument="bands", got=bands, expected="two counts, none negative")
    below, above = bands
    check.equal("solve_banded", "diagonals", ab=ab.shape[-2], bands=below + above + 1)
    return _checked("solve_banded", ab, b, below, above)


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
    return _checked(op, ab, b, 1, 1)


def _checked(op: str, ab: Tensor, b: Tensor, below: int, above: int) -> Tensor:
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
            x = _applied(ab, columns, below, above)
        except Singular as error:
            raise Singular(op=op, index=error.index, batch=error.batch, hint="Use lstsq for singular systems") from None
        settled(op, x, b=b)
    return x.squeeze(-1) if vector else x


def _inside(ab: Tensor, below: int, above: int) -> Tensor:
    """The diagonals with zeros in the corners that lie outside of the matrix."""
    n = ab.shape[-1]
    place = torch.arange(n, device=ab.device) + (torch.arange(below + above + 1, device=ab.device) - above).unsqueeze(
        -1
    )
    return torch.where((place >= 0) & (place < n), ab, 0.0)


def _applied(ab: Tensor, b: Tensor, below: int, above: int) -> Tensor:
    if torch.is_grad_enabled() and (ab.requires_grad or b.requires_grad):
        made: Tensor = _Differentiable.apply(ab, b, below, above)  # type: ignore[no-untyped-call]
        return made
    return _solve(ab, b, below, above)


class _Differentiable(torch.autograd.Function):
    """With ``y`` the solution of the adjoint system: ``y`` is b's gradient, ``-y @ x.mH`` inside the band is a's."""

    @staticmethod
    def forward(ctx: Any, ab: Tensor, b: Tensor, below: int, above: int) -> Tensor:
        x = _solve(ab, b, below, above)
        ctx.save_for_backward(ab, x)
        ctx.bands, ctx.right = (below, above), b.shape
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        ab, x = ctx.saved_tensors
        below, above = ctx.bands
        turned = _applied(_adjoint(ab, below, above), grad, above, below)
        grad_b = turned.sum_to_size(ctx.right) if ctx.needs_input_grad[1] else None
        if not ctx.needs_input_grad[0]:
            return None, grad_b, None, None
        rows = [-(_shifted(turned, d - above, -2) * x.conj()).sum(-1) for d in range(below + above + 1)]
        return torch.stack(rows, -2).sum_to_size(ab.shape), grad_b, None, None


def _shifted(x: Tensor, by: int, axis: int) -> Tensor:
    """``x[i + by]`` at place ``i``, zero outside."""
    n = x.shape[axis]
    by = max(-n, min(n, by))
    kept = x.narrow(axis, max(0, by), n - abs(by))
    sides = (max(0, -by), max(0, by))
    return pad(kept, (0, 0) * (-1 - axis) + sides)


def _adjoint(ab: Tensor, below: int, above: int) -> Tensor:
    """The conjugate transpose, by diagonals: ``above`` of them lie below its main one."""
    whole = _inside(ab, below, above).conj()
    rows = [_shifted(whole[..., above - by, :], by, -1) for by in range(-below, above + 1)]
    return torch.stack(rows, -2)


def _fake(ab: Tensor, b: Tensor, below: int, above: int) -> Tensor:
    batch = check.broadcast("solve_banded", ab=ab.shape[:-2], b=b.shape[:-2])
    return b.new_empty((*batch, *b.shape[-2:]))


def _cost(ab: Tensor, b: Tensor, below: int, above: int) -> int:
    batch = check.broadcast("solve_banded", ab=ab.shape[:-2], b=b.shape[:-2])
    n, k = b.shape[-2:]
    each = 2 * n * (below * (below + above) + (2 * below + above) * k + k)
    return math.prod(batch) * each * (4 if b.is_complex() else 1)


_solve = HostOp(
    "trnsolver::solve_banded",
    fake=_fake,
    cost=_cost,
    why="elimination along a band is a chain of dependent steps, each of a few numbers",
)


@_solve.impl("pytorch")
def _pytorch(ab: Tensor, b: Tensor, below: int, above: int) -> Tensor:
    batch = check.broadcast("solve_banded", ab=ab.shape[:-2], b=b.shape[:-2])
    diagonals = ab.expand(*batch, *ab.shape[-2:])
    loop = _loop(ab.dtype)
    if loop is None or not host.plain(ab.detach(), b.detach(), dtypes=DTYPES):
        return _by_windows(diagonals, b.expand(*batch, *b.shape[-2:]), below, above)
    x = b.detach().expand(*batch, *b.shape[-2:]).clone(memory_format=torch.contiguous_format)
    diagonals = diagonals.detach().contiguous()
    n, k = b.shape[-2:]
    code = int(loop(math.prod(batch), n, below, above, k, diagonals.data_ptr(), x.data_ptr()))
    if code < 0:
        raise MemoryError(f"no room for a band of {n} rows")
    if code > 0:
        where, index = divmod(code - 1, n)
        raise _singular(index, where, batch)
    return x


def _singular(index: int, where: int, batch: tuple[int, ...]) -> Singular:
    place = []
    for size in reversed(batch):
        where, here = divmod(where, size)
        place.append(here)
    return Singular(op="solve_banded", index=index, batch=tuple(reversed(place)))


@functools.cache
def _loop(dtype: torch.dtype) -> Any:
    library = native.load(SOURCE)
    if library is None:
        return None
    found = getattr(library, f"solve_banded_{str(dtype).removeprefix('torch.')}")
    found.argtypes, found.restype = (ctypes.c_int64,) * 7, ctypes.c_int64
    return found


def _by_windows(ab: Tensor, b: Tensor, below: int, above: int) -> Tensor:
    """The same elimination in torch, all matrices of a batch at once: a window of KL + 1 rows slides down the band."""
    n, reach, batch = ab.shape[-1], below + above, ab.shape[:-2]
    whole = _inside(ab, below, above).reshape(-1, below + above + 1, n)
    rows = torch.stack([_shifted(whole[:, above - by, :], by, -1) for by in range(-below, above + 1)], -1)  # [B, N, .]
    rows = pad(rows, (0, below, 0, below + 1))  # row i: columns i - KL to i + KU + KL
    right = pad(b.reshape(-1, *b.shape[-2:]), (0, 0, 0, below + 1))
    window = torch.stack([rows[:, r, below - r : below - r + reach + 1] for r in range(below + 1)], 1)
    beside, tops, sides, missing = right[:, : below + 1], [], [], []
    for i in range(n):
        chosen = window[..., 0].abs().argmax(-1)
        order = torch.arange(below + 1, device=ab.device).expand(len(window), -1).clone()
        order.scatter_(1, chosen.unsqueeze(1), 0)
        order[:, 0] = chosen
        window = window.gather(1, order.unsqueeze(-1).expand_as(window))
        beside = beside.gather(1, order.unsqueeze(-1).expand_as(beside))
        top, side = window[:, :1], beside[:, :1]
        missing.append(top[:, 0, 0] == 0)
        by = window[:, 1:, :1] / torch.where(top[:, :, :1] == 0, 1.0, top[:, :, :1])
        tops.append(top[:, 0])
        sides.append(side[:, 0])
        fresh = rows[:, i + below + 1, : reach + 1].unsqueeze(1)
        window = torch.cat([pad((window[:, 1:] - by * top)[..., 1:], (0, 1)), fresh], 1)
        beside = torch.cat([beside[:, 1:] - by * side, right[:, i + below + 1].unsqueeze(1)], 1)
    if readable(ab):
        bad = torch.stack(missing, -1)
        if bool(bad.any()):
            where, index = bad.nonzero()[0].tolist()
            raise _singular(index, where, batch)
    solved: list[Tensor] = []
    for i in range(n - 1, -1, -1):
        x = sides[i]
        for j, known in enumerate(reversed(solved[-reach:] if reach else []), 1):
            x = x - tops[i][:, j : j + 1] * known
        solved.append(x / tops[i][:, :1])
    return torch.stack(solved[::-1], 1).reshape(b.shape)
