"""Spectral divide and conquer on the device: what the kernel starts from, and when it runs again."""

import torch
from torch import Tensor

from trnsci import programs
from trnsci.caches import kept
from trnsci.nki import P_MAX, launch
from trnsci.planning import remark
from trnsolver.arguments import readable, roundoff
from trnsolver.kernels import eigh as kernels

PROGRAMS = 4


def levels(n: int) -> int:
    """Return splits in half down to single rows, and two more, since halves are not exact."""
    return max(1, (n - 1).bit_length()) + 2


def divide(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Eigenvalues, eigenvectors as rows, and the error left, of symmetric matrices [B, N, N] with entries up to 1.

    The error is the norm off the diagonal over the largest eigenvalue, or the loss of orthogonality, whichever is more.
    Levels are fixed, and vectors start from a random rotation. Where the error is too large, the program runs again: to
    split further from where it ended, then to split anew what it left, then from another rotation.
    """
    batch, n = a.shape[:2]
    # Four matrices go side by side; of small ones, several share the rows of each, as blocks.
    share = min(P_MAX // n, -(-batch // kernels.GROUP)) if n <= P_MAX // 2 else 1
    if share > 1:
        return _solve_in_groups(a, share)
    zero = torch.zeros((batch, n, 1), device=a.device, dtype=torch.float32)
    start = rotation(n, 0, a.device).expand(a.shape)
    return _solve_tiles(a, start, zero)


def _solve_in_groups(a: Tensor, share: int) -> tuple[Tensor, Tensor, Tensor]:
    batch, n = a.shape[:2]
    groups = -(-batch // share)
    size = share * n
    filled = torch.cat([a, torch.zeros((groups * share - batch, n, n), device=a.device, dtype=a.dtype)])
    label = torch.arange(share, device=a.device).repeat_interleave(n).float()
    start = _blocks(rotation(n, 0, a.device).expand(1, share, n, n)).expand(groups, size, size)
    values, rows, left = _solve_tiles(
        _blocks(filled.reshape(groups, share, n, n)), start, label.reshape(1, size, 1).expand(groups, size, 1), share
    )
    own = rows.reshape(groups, share, n, share, n).diagonal(dim1=1, dim2=3).movedim(-1, 1)
    return values.reshape(-1, n)[:batch], own.reshape(-1, n, n)[:batch], left.repeat_interleave(share)[:batch]


def _blocks(a: Tensor) -> Tensor:
    """Return block-diagonal matrices [G, S N, S N] of blocks [G, S, N, N]."""
    groups, share, n, _ = a.shape
    whole = torch.zeros((groups, share, n, share, n), device=a.device, dtype=a.dtype)
    for i in range(share):
        whole[:, i, :, i] = a[:, i]
    return whole.reshape(groups, share * n, share * n)


def _solve_tiles(a: Tensor, first: Tensor, labels: Tensor, share: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    n = a.shape[-1] // share
    limit = 10 * n * roundoff(torch.float32)
    values, rows, last, left, lost = launch_levels(a, first, labels, n)
    for again in range(1, PROGRAMS):
        if not readable(left):
            remark("counted once: where eigenvalues nearly coincide the program runs again, at most three times")
            break
        todo = (~((left <= limit) & (lost <= limit))).nonzero().flatten()
        if len(todo) == 0:
            break
        # Not orthogonal: an s + j was singular to working precision, which another rotation cures.
        fresh = ~(lost[todo] <= limit) | (again == PROGRAMS - 1)
        rotated = _blocks(rotation(n, again, a.device).expand(1, share, n, n))
        start = torch.where(fresh.reshape(-1, 1, 1), rotated, rows[todo])
        place = torch.where((fresh | (again > 1)).reshape(-1, 1, 1), labels[todo], renumber_labels(last[todo]))
        results = launch_levels(a[todo], start, place, n)
        for whole, part in zip((values, rows, last, left, lost), results, strict=True):
            whole[todo] = part
    return values, rows, torch.maximum(left, lost)


def renumber_labels(labels: Tensor) -> Tensor:
    """Renumber labels of blocks in the same order, as small as possible: a level doubles them."""
    return (labels > labels.mT).sum(-1, keepdim=True).float()


def count_programs(operands: tuple[Tensor | None, ...], count: int) -> tuple[int, int]:
    """Return levels of one program, so that it is not too long to compile, and how often it runs."""
    group = tuple(x if x is None or at in (3, 4) else x[: kernels.GROUP] for at, x in enumerate(operands))
    times = max(1, -(-count // programs.limits().holds(programs.size_of(kernels.eigh, group, {"levels": 1}))))
    return -(-count // times), times


def launch_levels(a: Tensor, start: Tensor, labels: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Launch one program: values, rows, labels, the part off the diagonal and the loss of orthogonality."""
    size = a.shape[-1]
    operands = a.contiguous(), start.contiguous(), labels.contiguous(), *constants(size, a.device)
    each, times = count_programs(tuple(operands), levels(n))
    for _ in range(times):
        values, rows, labels_out, left, _ = launch(kernels.eigh, *operands, levels=each)
        operands = operands[0], rows.contiguous(), renumber_labels(labels_out), *operands[3:]
    return values.reshape(-1, size), rows, labels_out, *measure(values, left, n)


def measure(values: Tensor, left: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the part off the diagonal, over the largest value, and the loss of orthogonality of each matrix."""
    # Of matrices that share rows, the one with the smallest norm has the largest relative error; zeros have none.
    largest = values.abs().reshape(len(values), -1, n).amax(-1)
    largest = torch.where(largest > 0, largest, torch.inf).amin(-1)
    left = left.reshape(-1, 2)
    # A Newton-Schulz step leaves three quarters of the square of what was lost.
    return left[:, 0].clamp_min(0).sqrt() / largest, 0.75 * left[:, 1]


@kept
def rotation(n: int, seed: int, device: torch.device) -> Tensor:
    """Return a random orthogonal matrix, always the same one: no structure of ``a`` survives it."""
    source = torch.Generator().manual_seed(seed)
    drawn = torch.randn((n, n), dtype=torch.float64, generator=source, device="cpu")
    return torch.linalg.qr(drawn).Q.float().to(device)


@kept
def constants(n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the identity, and a little of each position, to settle ties."""
    order = torch.arange(n, dtype=torch.float32, device=device).reshape(n, 1) * 2.0**-22
    return torch.eye(P_MAX, device=device, dtype=torch.float32), order
