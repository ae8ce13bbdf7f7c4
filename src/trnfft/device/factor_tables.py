"""Tables of rows of two factors whose twiddles are folded into the first product."""

import functools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trnfft.device.tables import Array, as_real, roots, tensor
from trnsci.nki import P_MAX

# What a row is: half a spectrum that is read, everything, or half a spectrum that is written.
HALF_IN, WHOLE, HALF_OUT = -1, 0, 1

# Cycles of a transposition.
TRANSPOSED = 2 * P_MAX


@dataclass(frozen=True, slots=True)
class Fold:
    """n = n1 n2, and how many k1 share a second product."""

    n1: int
    n2: int
    group: int
    cost: float


@functools.lru_cache(maxsize=4096)
def fold(n: int, half: int, planes: int) -> Fold | None:
    """Return the factors that cost the Tensor Engine least; ``None`` where none fit its 128 partitions."""
    best: Fold | None = None
    for n1 in range(3, min(n // 2, P_MAX) + 1):
        if n % n1:
            continue
        factors = _fold(n1, n // n1, half, planes)
        if factors is not None and (best is None or factors.cost < best.cost):
            best = factors
    return best


def _fold(n1: int, n2: int, half: int, planes: int) -> Fold | None:
    reals = n2 if half == HALF_IN else 2 * n2
    summed = 4 * ((n1 + 1) // 2) if half == HALF_IN else planes * n1
    group = min(P_MAX // reals, n1)
    if summed > P_MAX or group == 0:
        return None
    slots = n2 // 2 + 1 if half == HALF_IN else n2
    columns = n1 if half == HALF_OUT else 2 * n1
    groups = -(-n1 // group) if half != HALF_OUT else -(-((n1 - 1) // 2) // group) + 1
    return Fold(n1, n2, group, cycles(slots, columns, groups, reals * group))


def cycles(slots: int, columns: int, groups: int, outputs: int) -> float:
    """Return cycles of fp32 for a tile of 128 rows: two a row for a transposition, four a column for a product."""
    return (slots + groups) * TRANSPOSED + 4 * (slots * max(64, columns) + groups * max(64, outputs))


@functools.lru_cache(maxsize=1024)
def two_folds(n: int, half: int, planes: int) -> tuple[Fold, Fold] | None:
    """Return the cheapest two folded factors of a long row; of equals those that differ least."""
    best: tuple[tuple[float, int], tuple[Fold, Fold]] | None = None
    for r in (r for r in range(2, n // 2 + 1) if n % r == 0):
        outer, inner = fold(r, WHOLE, planes), fold(n // r, HALF_IN if half == HALF_IN else WHOLE, 2)
        if outer is not None and inner is not None:
            cost = _cost_of_two(outer, inner, half), r + n // r
            if best is None or cost < best[0]:
                best = (cost, (outer, inner))
    return None if best is None else best[1]


def _cost_of_two(outer: Fold, inner: Fold, half: int) -> float:
    """Return cycles of the Tensor Engine for 128 rows, and what DMA loses where runs are short."""
    r, m = outer.n1 * outer.n2, inner.n1 * inner.n2
    if half == WHOLE:
        return outer.cost * m + inner.cost * r
    runs = 1500.0 * (r + m)
    if half == HALF_IN:
        return outer.cost * P_MAX * -(-(m // 2 + 1) // P_MAX) + inner.cost * r + runs
    kept = outer.n1 // 2 + 1
    columns = cycles(outer.n2, 2 * kept, -(-kept // outer.group), 2 * outer.n2 * outer.group)
    columns -= outer.n2 * TRANSPOSED
    # Upper halves of rows are reversed by two products a plane.
    reversed_ = 4 * 2 * P_MAX * P_MAX * -(-m // (2 * P_MAX)) * -(-outer.n2 // max(1, P_MAX // (outer.n1 - kept or 1)))
    return columns * m + inner.cost * kept * outer.n2 + reversed_ + runs


def first(
    factors: Fold,
    half: int,
    planes: int,
    sign: int,
    dtype: torch.dtype,
    diagonal: Array | None = None,
    kept: int | None = None,
) -> Tensor:
    """Return [k, w]: for every residue of n2 the DFT matrix of n1 points with twiddles, after a ``diagonal`` of n.

    Of whole rows the first ``kept`` values of k1 are wanted, all where that is not said.
    """
    n1, n2 = factors.n1, factors.n2
    if half == HALF_IN:
        return tensor(np.concatenate(_first_of_half(n1, n2, sign), axis=1), dtype)
    n = np.arange(n1)[:, None] * n2 + np.arange(n2)  # [j, s]
    pairs = np.arange(1, (n1 + 1) // 2) if half == HALF_OUT else np.arange(n1 if kept is None else kept)
    turns = roots(n[:, :, None] * pairs, n1 * n2, sign)
    if diagonal is not None:
        turns = turns * diagonal[n][:, :, None]
    w = as_real(turns)[:planes]  # [plane, part, j, s, k1]
    table = w.transpose(0, 2, 3, 4, 1).reshape(planes * n1, n2, 2 * len(pairs))
    if half == HALF_OUT:
        alone = [np.ones((n1, n2, 1))]
        if n1 % 2 == 0:
            # Its twiddle is left to the second product, so that what is passed on is real.
            alone.append(np.tile((-1.0) ** np.arange(n1)[:, None, None], (1, n2, 1)))
        table = np.concatenate((table, *alone), axis=2)
    return tensor(table.reshape(planes * n1, -1), dtype)


def _first_of_half(n1: int, n2: int, sign: int) -> list[Array]:
    """Return tables with rows (mirrored, plane, j) and columns (part, k1), one part where a residue mirrors itself."""
    tables, low = [], (n1 + 1) // 2
    j, k1 = np.arange(low)[:, None], np.arange(n1)
    for s in range(n2 // 2 + 1):
        direct = as_real(roots((j * n2 + s) * k1, n1 * n2, sign))  # [plane, part, j, k1]
        # The mirrored element is the conjugate of the one with n1 - 1 - j: its imaginary plane changes sign.
        mirrored = as_real(roots(((n1 - 1 - j) * n2 + s) * k1, n1 * n2, sign)) * np.array([1, -1])[:, None, None, None]
        mirrored[:, :, n1 // 2 :] = 0
        both = np.array([direct, mirrored]).transpose(0, 1, 3, 2, 4)  # [mirrored, plane, j, part, k1]
        tables.append(both[:, :, :, : 1 if 2 * s % n2 == 0 else 2].reshape(4 * low, -1))
    return tables


def second(factors: Fold, half: int, sign: int, scale: float, dtype: torch.dtype) -> Tensor:
    """Return [k, w]: the DFT matrix of n2 points, once for every k1 of a group."""
    n2, eye = factors.n2, np.eye(factors.group)
    w = scale * roots(np.outer(np.arange(n2), np.arange(n2)), n2, sign)  # [s, k2]
    if half == HALF_IN:
        rows = [w.real[0]]
        for s in range(1, n2 // 2 + 1):
            rows += [w.real[s]] if 2 * s == n2 else [2 * w.real[s], -2 * w.imag[s]]
        table = np.einsum("sk,ij->iskj", np.array(rows), eye)  # [i, s, k2, i]
        return tensor(table.reshape(factors.group * n2, -1), dtype)
    low = n2 if half == WHOLE else (n2 + 1) // 2
    whole = np.einsum("pqsk,ij->ipsqkj", as_real(w), eye)  # [i, plane, s, part, k2, i]
    tables = [whole[:, :, :, :, :low]]
    if half == HALF_OUT:
        # The conjugate of k2 is k2' = n2 - 1 - k2 of n1 - k1: k2 and k1 are reversed.
        high = whole[:, :, :, :, : low - 1 : -1, ::-1] * np.array([1, -1])[:, None, None]
        tables.append(high)
    return tensor(np.concatenate([t.reshape(2 * factors.group * n2, -1) for t in tables], axis=1), dtype)


def flip(dtype: torch.dtype) -> Tensor:
    """Return the reversed identity: a product with it comes out backwards."""
    return torch.eye(P_MAX, dtype=dtype, device="cpu").flip(1)


def unpaired_table(factors: Fold, sign: int, scale: float, dtype: torch.dtype) -> Tensor:
    """Return [k, w]: the second product for k1 = 0, and n1 / 2 where there is one."""
    n1, n2 = factors.n1, factors.n2
    s = np.arange(n2)[:, None]
    blocks = [roots(s * np.arange(n2 // 2 + 1), n2, sign)]
    if n1 % 2 == 0:
        blocks.append(roots(s * (1 + 2 * np.arange((n2 + 1) // 2)), 2 * n2, sign))
    table = scale * torch.block_diag(*map(torch.from_numpy, blocks)).numpy()
    return tensor(np.concatenate((table.real, table.imag), axis=1), dtype)
