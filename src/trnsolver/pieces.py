"""Spectral divide and conquer in pieces: blocks that nothing couples any more become matrices of their own.

A level of the kernel costs as much for many small blocks as for one large one, so it splits a matrix once, and the host
cuts the two blocks out; of more than `kernels.ONE_LEVEL` rows even one level is too long a program, and the same split
is made of products and a QR factorisation. Blocks of up to 128 rows go side by side to the end, several to a tile.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnblas import gemm
from trnsci.nki import P_MAX, launch
from trnsci.planning import remark
from trnsolver.arguments import roundoff
from trnsolver.divide import constants, launched, renumbered, rotation
from trnsolver.kernels import eigh as kernels
from trnsolver.kernels._divide import LIFT, NEAR, TAYLOR
from trnsolver.qr import factored

# Splits of one matrix at most; what needs more has a spectrum over many decades.
_MOST = 48
# Blocks are padded to a multiple of so many rows, so that few programs serve all.
_STEP = 64

Piece = tuple[Tensor, Tensor]


def in_pieces(a: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """Eigenvalues, eigenvectors as rows, and the error left, of one symmetric matrix [N, N]; ``None`` for a failure."""
    n = a.shape[-1]
    start = rotation(n, 0, a.device)
    size = 1.0 if a.is_meta else float(torch.linalg.matrix_norm(a))
    if a.is_meta:
        remark("counted for splits in halves: a spectrum far from even takes more of them")
    todo: list[Piece] = [(start, _core(a, start))]
    small: list[Piece] = []
    done: list[Tensor] = []
    for _ in range(_MOST):
        if not todo:
            break
        basis, block = todo.pop()
        if not block.is_meta and _scalar(block, size):
            done.append(basis)
            continue
        rows, first = _by_products(block) if len(block) > kernels.ONE_LEVEL else _by_kernel(block)
        if not 0 < first < len(block):
            return None
        core, rotated = _core(block, rows), gemm(1.0, rows, basis)
        for part in (slice(0, first), slice(first, len(block))):
            piece = rotated[part], core[part, part]
            (small if len(piece[1]) <= P_MAX else todo).append(piece)
    if todo:
        return None
    return _checked(a, torch.cat([*_finished(small), *done]))


def _core(a: Tensor, rows: Tensor) -> Tensor:
    core = gemm(1.0, rows, gemm(1.0, a, rows, trans_b="t"))
    return 0.5 * (core + core.mT)


def _scalar(block: Tensor, size: float) -> bool:
    """Whether nothing is left to split, to the accuracy of the whole."""
    rest = block - torch.eye(len(block), device=block.device, dtype=torch.float32) * block.diagonal().mean()
    return float(torch.linalg.matrix_norm(rest)) <= kernels.DONE * size


def _by_kernel(block: Tensor) -> tuple[Tensor, int]:
    """Rows that split a block, and how many belong to the first part: one level of the kernel."""
    k = len(block)
    size = -(-k // _STEP) * _STEP
    padded = torch.zeros((1, size, size), device=block.device, dtype=torch.float32)
    padded[0, :k, :k] = block
    labels = (torch.arange(size, device=block.device) >= k).float().reshape(1, size, 1)
    eye = torch.eye(size, device=block.device, dtype=torch.float32).unsqueeze(0)
    _, rows, labels_out, _ = launch(kernels.eigh, padded, eye, labels, *constants(size, block.device), levels=1)
    rows = rows[0, :k, :k]
    if block.is_meta:
        return rows, k // 2
    order = labels_out[0, :k, 0].argsort(stable=True)
    return rows[order], int((labels_out[0, :k, 0] == 0).sum())


def _by_products(block: Tensor) -> tuple[Tensor, int]:
    """The same of products: the sign of the shifted block, and an orthonormal basis of its two ranges."""
    k = len(block)
    eye = torch.eye(k, device=block.device, dtype=torch.float32)
    x = block - eye * block.diagonal().mean()
    x = x / torch.linalg.matrix_norm(x) - eye * (kernels.OFF / k)
    for step in range(kernels.LIFTS + 3):
        c = LIFT if step < kernels.LIFTS else NEAR if step == kernels.LIFTS else TAYLOR
        y = gemm(1.0, x, x)
        x = gemm(1.0, x, gemm(c[2], y, y, c[1], y) + c[0] * eye)
        x = 0.5 * (x + x.mT)
    if block.is_meta:
        return factored(x)[0].mT, k // 2
    diagonal = x.diagonal()
    first = min(max(round((k + float(diagonal.sum())) / 2), 0), k)
    order = diagonal.argsort(descending=True)
    signs = torch.where(torch.arange(k, device=block.device) < first, 1.0, -1.0)
    # Columns of s + j are twice those of the projectors on the two ranges, but for signs.
    both = 0.5 * (x + torch.diag(torch.zeros_like(diagonal).scatter(0, order, signs)))
    q, _ = factored(both[:, order].contiguous())
    return q.mT.contiguous(), first


def _finished(small: list[Piece]) -> list[Tensor]:
    """Eigenvectors of pieces of up to 128 rows, several of them to a tile."""
    bins: list[list[Piece]] = []
    for piece in sorted(small, key=lambda piece: -len(piece[1])):
        fitting = [held for held in bins if sum(len(other[1]) for other in held) + len(piece[1]) <= P_MAX]
        if fitting:
            fitting[0].append(piece)
        else:
            bins.append([piece])
    if not bins:
        return []
    n, device = small[0][0].shape[-1], small[0][0].device
    blocks = torch.zeros((len(bins), P_MAX, P_MAX), device=device, dtype=torch.float32)
    bases = torch.zeros((len(bins), P_MAX, n), device=device, dtype=torch.float32)
    labels = torch.full((len(bins), P_MAX, 1), 0.0, device=device, dtype=torch.float32)
    rows = []
    for at, held in enumerate(bins):
        first = 0
        for label, (basis, block) in enumerate(held):
            here = slice(first, first + len(block))
            blocks[at, here, here], bases[at, here], labels[at, here] = block, basis, float(label)
            first += len(block)
        labels[at, first:] = float(len(held))
        rows.append(first)
    eye = torch.eye(P_MAX, device=device, dtype=torch.float32).expand(blocks.shape)
    values, rotated, labels_out, left, _ = launched(blocks, eye, labels, P_MAX)
    if not values.is_meta and not bool((left <= 10 * P_MAX * roundoff(torch.float32)).all()):
        _, rotated, _, _, _ = launched(blocks, rotated, renumbered(labels_out), P_MAX)
    whole = gemm(1.0, rotated, bases)
    return [whole[at, :count] for at, count in enumerate(rows)]


def _checked(a: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows made orthonormal, once more rotated by small couplings where they matter, the values, and what is left."""
    eye = torch.eye(len(a), device=a.device, dtype=torch.float32)
    for again in (False, True):
        defect = gemm(-1.0, rows, rows, 1.0, eye, trans_b="t")
        rows = gemm(0.5, defect, rows, 1.0, rows)
        core = _core(a, rows)
        values = core.diagonal()
        off = core - torch.diag(values)
        largest = values.abs().max().clamp_min(torch.finfo(torch.float32).tiny)
        left = torch.linalg.matrix_norm(off) / largest
        lost = 0.75 * torch.linalg.matrix_norm(defect).square()
        if again or a.is_meta or float(left) <= 10 * len(a) * roundoff(a.dtype):
            break
        gaps = values.unsqueeze(0) - values.unsqueeze(1)
        turn = off / torch.where(gaps == 0, 1.0, gaps)
        small = (turn.abs() <= kernels.SMALL) & (off.abs() > kernels.NOISE) & (gaps != 0)
        rows = gemm(1.0, torch.where(small, turn, 0.0), rows, 1.0, rows)
    return values, rows, torch.maximum(left, lost)
