"""Spectral divide and conquer by levels: blocks that nothing couples any more become matrices of their own.

A level of the kernel costs as much for many small blocks as for one large one, so a program splits the blocks of one
level once, and the host cuts the halves out. Beyond `kernels.ONE_LEVEL` rows a level is two programs; more than
`kernels.N_MAX` are split by products and a QR factorisation. Blocks of up to 128 rows go side by side to the end,
several to a tile; a program of no level corrects and verifies the whole.
"""

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import programs
from trnsci.nki import P_MAX, launch
from trnsci.planning import remark
from trnsolver.arguments import roundoff
from trnsolver.dense.qr import factor_checked
from trnsolver.eigen.divide import constants, count_programs, levels, measure, renumber_labels, rotation
from trnsolver.kernels import eigh as kernels
from trnsolver.kernels._divide import LIFT, NEAR, TAYLOR

# Levels at most; a spectrum that needs more spans many decades.
_MOST = 24
# Blocks are padded to a multiple of so many rows, so that few programs serve all.
_STEP = 64
# Blocks of one program have at least this share of the rows of its largest.
_SHARE = 0.75

# rows [K, N] of the basis, and the matrix [K, K] in it
Piece = tuple[Tensor, Tensor]


def divide_in_levels(a: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """Eigenvalues, eigenvectors as rows, and the error left, of one symmetric matrix [N, N]; ``None`` for a failure."""
    size = 1.0 if a.is_meta else float(torch.linalg.matrix_norm(a))
    if a.is_meta:
        remark("counted for splits in halves: a spectrum far from even takes more of them")
    todo: list[Piece] = [(rotation(len(a), 0, a.device), a)]
    small: list[Piece] = []
    done: list[Tensor] = []
    for level in range(_MOST):
        halves: list[Piece] = []
        for group in _group_by_size(todo):
            split = _split_by_products if len(group[0][1]) > kernels.N_MAX else _split_by_kernel
            parts = split(group, first=level == 0)
            if parts is None:
                return None
            halves += parts
        todo = []
        for basis, block in halves:
            if not block.is_meta and _is_scalar(block, size):
                done.append(basis)
            else:
                (small if len(block) <= P_MAX else todo).append((basis, block))
        if not todo:
            polish = _polish if len(a) <= kernels.N_MAX else polish_by_products
            return polish(a, torch.cat([*_solve_small(small), *done]))
    return None


def _group_by_size(pieces: list[Piece]) -> list[list[Piece]]:
    """Group pieces that one program splits, the largest first: padding costs as much as rows."""
    groups: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda piece: -len(piece[1])):
        if groups and len(piece[1]) >= _SHARE * len(groups[-1][0][1]) and len(groups[-1][0][1]) <= kernels.N_MAX:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _is_scalar(block: Tensor, size: float) -> bool:
    """Return whether nothing is left to split, to the accuracy of the whole."""
    rest = block - torch.eye(len(block), device=block.device, dtype=torch.float32) * block.diagonal().mean()
    return float(torch.linalg.matrix_norm(rest)) <= kernels.DONE * size


def _split_by_kernel(pieces: list[Piece], *, first: bool) -> list[Piece] | None:
    """Split every block in two by one level of the kernel; ``None`` where one does not split.

    The first matrix is not yet in its basis, which the kernel starts from.
    """
    most = len(pieces[0][1])
    size = most if first else -(-most // _STEP) * _STEP
    fixed = constants(size, pieces[0][1].device)
    bases, blocks, labels = _pad(pieces, size)
    one = programs.size_of(
        kernels.eigh,
        (blocks[:1], None, labels[:1], *fixed, bases[:1], blocks[:1] if size > kernels.ONE_LEVEL else None),
        {"levels": 1},
    )
    most = programs.limits().holds(one)
    if len(pieces) > most:
        # a program is too long for all: launches of equal numbers
        each = -(-len(pieces) // -(-len(pieces) // most))
        halves = [_split_by_kernel(pieces[at : at + each], first=first) for at in range(0, len(pieces), each)]
        return None if None in halves else [piece for part in halves if part is not None for piece in part]
    start, sign = bases if first else None, None
    if size > kernels.ONE_LEVEL:
        sign, blocks = launch(kernels.eigh, blocks, start, labels, *fixed, levels=1, half=True)
        start, first = None, False
    basis = None if first else bases
    _, rows, labels_out, _, cores = launch(kernels.eigh, blocks, start, labels, *fixed, basis, sign, levels=1)
    split: list[Piece] = []
    for at, (_, block) in enumerate(pieces):
        k = len(block)
        label = labels_out[at, :k, 0]
        if block.is_meta:
            parts = [torch.arange(k // 2, device="cpu"), torch.arange(k // 2, k, device="cpu")]
        else:
            parts = [(label == side).nonzero().flatten() for side in (0.0, 1.0)]
            if not all(map(len, parts)):
                return None
        split += [(rows[at, part], cores[at, part][:, part]) for part in parts]
    return split


def _pad(pieces: list[Piece], size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return bases [B, S, N], blocks [B, S, S] and labels [B, S, 1], which keep padding apart."""
    n, like = pieces[0][0].shape[-1], pieces[0][1]
    bases = like.new_zeros((len(pieces), size, n))
    blocks = like.new_zeros((len(pieces), size, size))
    labels = like.new_ones((len(pieces), size, 1))
    for at, (basis, block) in enumerate(pieces):
        k = len(block)
        bases[at, :k], blocks[at, :k, :k], labels[at, :k] = basis, block, 0.0
    return bases, blocks, labels


def _core(a: Tensor, rows: Tensor) -> Tensor:
    core = gemm(1.0, rows, gemm(1.0, a, rows, trans_b="t"))
    return 0.5 * (core + core.mT)


def _split_by_products(pieces: list[Piece], *, first: bool) -> list[Piece] | None:
    """Split a block in two by products: the sign of the shifted block, and an orthonormal basis of its two ranges."""
    ((basis, block),) = pieces
    block, k = _core(block, basis) if first else block, len(block)
    eye = torch.eye(k, device=block.device, dtype=torch.float32)
    x = block - eye * block.diagonal().mean()
    x = x / torch.linalg.matrix_norm(x) - eye * (kernels.OFF / k)
    for step in range(kernels.LIFTS + 3):
        c = LIFT if step < kernels.LIFTS else NEAR if step == kernels.LIFTS else TAYLOR
        y = gemm(1.0, x, x)
        x = gemm(1.0, x, gemm(c[2], y, y, c[1], y) + c[0] * eye)
        x = 0.5 * (x + x.mT)
    count, ordered = k // 2, x
    if not block.is_meta:
        diagonal = x.diagonal()
        count = round((k + float(diagonal.sum())) / 2)
        if not 0 < count < k:
            return None
        order = diagonal.argsort(descending=True)
        signs = torch.where(torch.arange(k, device=block.device) < count, 1.0, -1.0)
        # Columns of s + j are twice those of the projectors on the two ranges, but for signs.
        both = 0.5 * (x + torch.diag(torch.zeros_like(diagonal).scatter(0, order, signs)))
        ordered = both[:, order].contiguous()
    rows = factor_checked(ordered)[0].mT.contiguous()
    core, rotated = _core(block, rows), gemm(1.0, rows, basis)
    return [(rotated[part], core[part, part]) for part in (slice(0, count), slice(count, k))]


def _solve_small(small: list[Piece]) -> list[Tensor]:
    """Return eigenvectors of blocks of up to 128 rows, several to a tile."""
    bins: list[list[Piece]] = []
    for piece in sorted(small, key=lambda piece: -len(piece[1])):
        fitting = [held for held in bins if sum(len(other[1]) for other in held) + len(piece[1]) <= P_MAX]
        if fitting:
            fitting[0].append(piece)
        else:
            bins.append([piece])
    if not bins:
        return []
    like = small[0][1]
    blocks = like.new_zeros((len(bins), P_MAX, P_MAX))
    rows = like.new_zeros((len(bins), P_MAX, small[0][0].shape[-1]))
    labels = like.new_zeros((len(bins), P_MAX, 1))
    counts = []
    for at, held in enumerate(bins):
        first = 0
        for label, (basis, block) in enumerate(held):
            here = slice(first, first + len(block))
            blocks[at, here, here], rows[at, here], labels[at, here] = block, basis, float(label)
            first += len(block)
        labels[at, first:] = float(len(held))
        counts.append(first)
    fixed = constants(P_MAX, like.device)
    each, times = count_programs((blocks, None, labels, *fixed, rows), levels(P_MAX))
    limit = 10 * P_MAX * roundoff(torch.float32)
    for done in range(2 * times):
        values, rows, labels, left, blocks = launch(kernels.eigh, blocks, None, labels, *fixed, rows, levels=each)
        labels = renumber_labels(labels)
        if done >= times - 1 and (like.is_meta or bool((measure(values, left, P_MAX)[0] <= limit).all())):
            break
    return [rows[at, :count] for at, count in enumerate(counts)]


def _polish(a: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rotate by small couplings and orthonormalise, twice where that matters; return values, rows and residual."""
    n = len(a)
    for again in (False, True):
        operands = a[None], rows[None].contiguous(), a.new_zeros((1, n, 1)), *constants(n, a.device)
        values, rotated, _, error, _ = launch(kernels.eigh, *operands, levels=0)
        rows = rotated[0]
        left, lost = measure(values, error, n)
        if again or a.is_meta or float(left) <= 10 * n * roundoff(a.dtype):
            break
    return values.reshape(n), rows, torch.maximum(left, lost)[0]


def polish_by_products(a: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Polish rows, of more than the kernel holds or of another method."""
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
        gaps = values.unsqueeze(1) - values.unsqueeze(0)
        turn = off / torch.where(gaps == 0, 1.0, gaps)
        small = (turn.abs() <= kernels.SMALL) & (off.abs() > kernels.NOISE) & (gaps != 0)
        rows = gemm(1.0, torch.where(small, turn, 0.0), rows, 1.0, rows)
    return values, rows, torch.maximum(left, lost)
