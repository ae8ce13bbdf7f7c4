"""The symbolic half of a multifrontal factorisation: elimination tree, supernodes, and fronts in batches of one size.

A front holds the rows and columns of a supernode: P columns to eliminate, and Q rows below that their elimination
changes. Fronts of one level of the tree do not touch each other; those of one size form a `Group`, a batch of dense
matrices. Sizes are rounded up, and what is added has ones on the diagonal of pivots and zeros elsewhere.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnsolver.sparse_direct.compressed_rows import Compressed, Index

# Sizes of fronts, then multiples of the last: fewer sizes mean longer batches, and more zeros.
SIZES = np.array([2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128])
# Columns up to which a supernode joins its parent whatever the zeros, and the share of zeros allowed beyond.
_SMALL, _ZEROS = 8, 0.15


@dataclass(slots=True)
class Group:
    """G fronts of one level and size.

    Attributes:
        pivots: [G, P] rows to eliminate; N stands for one that was added.
        rest: [G, Q] rows below them, likewise.
        source: entries of the matrix that belong here.
        target: where each goes in [G, P + Q, P + Q], flat.
        swapped: which of them go to the other side of the diagonal, for Hermitian matrices.
        padding: diagonal places of pivots that were added.
        inherited: for every group below that changes this one: its index, and flat places there and here.
        heirs: how many groups this one changes.
    """

    pivots: Tensor
    rest: Tensor
    source: Tensor
    target: Tensor
    swapped: Tensor
    padding: Tensor
    inherited: list[tuple[int, Tensor, Tensor]] = field(default_factory=list)
    heirs: int = 0

    @property
    def shape(self) -> tuple[int, int, int]:
        """G, P and Q."""
        return self.pivots.shape[0], self.pivots.shape[1], self.rest.shape[1]


@dataclass(frozen=True, slots=True)
class Analysis:
    """Analysis of the pattern alone: the order, and the groups from the leaves to the roots."""

    n: int
    order: Tensor
    groups: tuple[Group, ...]
    fill: int
    flops: int
    largest: int


def analyse_pattern(a: Compressed, order: Index, rows: Index, *, lower: bool) -> Analysis:
    """Plan the factorisation of ``a[rows][order][:, order]``; ``lower`` reads that triangle of a Hermitian one."""
    n = a.shape[0]
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    at = np.empty(n, np.int64)
    at[rows] = np.arange(n)
    i, j = place[at[a.rows]], place[a.indices]
    source = np.arange(len(i))
    if lower:
        kept = a.rows >= a.indices
        i, j, source = i[kept], j[kept], source[kept]
    nodes = supernodes(n, i, j)
    order = order[np.argsort(nodes.relabel)]
    return _group_fronts(n, order, nodes, i=nodes.relabel[i], j=nodes.relabel[j], source=source, lower=lower)


class Supernodes(NamedTuple):
    """Columns that are eliminated together: the first of each, the rows below, and whose rows those begin with."""

    relabel: Index
    starts: list[int]
    ends: list[int]
    structures: list[Index]
    heir: Index
    level: Index


def supernodes(n: int, i: Index, j: Index) -> Supernodes:
    """Return the supernodes of a symmetric pattern, its rows and columns relabelled so that each is contiguous."""
    parent = _tree(n, i, j)
    relabel = _postorder(parent)
    i, j = relabel[i], relabel[j]
    starts, structures = _merge_supernodes(n, _relabel_parents(parent, relabel), np.maximum(i, j), np.minimum(i, j))
    owner = np.repeat(np.arange(len(starts)), np.diff([*starts, n]))
    level, heir = np.zeros(len(starts), np.int64), np.full(len(starts), -1, np.int64)
    for s, rows in enumerate(structures):
        if len(rows):
            heir[s] = owner[rows[0]]
            level[heir[s]] = max(level[heir[s]], level[s] + 1)
    return Supernodes(relabel, starts, [*starts[1:], n][: len(starts)], structures, heir, level)


def _tree(n: int, i: Index, j: Index) -> list[int]:
    """Return the parent of every column in the elimination tree (Liu, with compressed paths); -1 for roots."""
    high, low = np.maximum(i, j), np.minimum(i, j)
    by = np.lexsort((low, high))
    parent, ancestor = [-1] * n, [-1] * n
    for row, column in zip(high[by].tolist(), low[by].tolist(), strict=True):
        while column != -1 and column < row:
            following = ancestor[column]
            ancestor[column] = row
            if following == -1:
                parent[column] = row
            column = following
    return parent


def _postorder(parent: list[int]) -> Index:
    """Return new labels in which every subtree is contiguous and children come before their parents."""
    n = len(parent)
    children: list[list[int]] = [[] for _ in range(n + 1)]
    for child in range(n - 1, -1, -1):
        children[parent[child]].append(child)
    label = np.empty(n, np.int64)
    count, stack = n, list(reversed(children[n]))
    # parents first from the back: reversed, that is children before parents
    while stack:
        node = stack.pop()
        count -= 1
        label[node] = count
        stack.extend(reversed(children[node]))
    return label


def _relabel_parents(parent: list[int], relabel: Index) -> list[int]:
    moved = np.full(len(parent), -1, np.int64)
    old = np.asarray(parent, np.int64)
    has = old >= 0
    moved[relabel[has]] = relabel[old[has]]
    return moved.tolist()


def _merge_supernodes(n: int, parent: list[int], below: Index, columns: Index) -> tuple[list[int], list[Index]]:
    """Return first columns of supernodes, and rows below each; small ones, or with few new zeros, join their parent."""
    by = np.lexsort((below, columns))
    sorted_rows, first = below[by], np.searchsorted(columns[by], np.arange(n + 1))
    starts: list[int] = []
    structures: list[Index] = []
    zeros: list[int] = []
    waiting: dict[int, list[Index]] = {}
    for column in range(n):
        own = sorted_rows[first[column] : first[column + 1]]
        pieces = [own[own > column], *(s[s > column] for s in waiting.pop(column, ()))]
        rows = pieces[0] if len(pieces) == 1 else np.unique(np.concatenate(pieces))
        if len(rows) and len(pieces) == 1:
            rows = np.unique(rows)
        starts.append(column)
        structures.append(rows)
        zeros.append(0)
        _join(starts, structures, zeros, parent, column + 1)
        if parent[column] >= 0:
            waiting.setdefault(parent[column], []).append(rows)
    return starts, structures


def _join(starts: list[int], structures: list[Index], zeros: list[int], parent: list[int], end: int) -> None:
    """Let the last supernode take in the one before it, its last child, as long as that pays."""
    while len(starts) > 1 and starts[-1] <= parent[starts[-1] - 1] < end:
        columns, grown = starts[-1] - starts[-2], end - starts[-2]
        added = len(structures[-1]) + end - starts[-1] - len(structures[-2])
        total = zeros[-2] + zeros[-1] + columns * added
        entries = grown * (grown + 1) // 2 + grown * len(structures[-1])
        if added and grown > _SMALL and total > _ZEROS * entries:
            return
        del starts[-1], structures[-2], zeros[-1]
        zeros[-1] = total


def _group_fronts(
    n: int, order: Index, nodes: Supernodes, *, i: Index, j: Index, source: Index, lower: bool
) -> Analysis:
    _, starts, ends, structures, heir, level = nodes
    if n == 0:
        return Analysis(0, torch.empty(0, dtype=torch.int64, device="cpu"), (), 0, 0, 0)
    owner = np.repeat(np.arange(len(starts)), np.diff([*starts, n]))
    width = round_up_sizes(np.asarray(ends) - np.asarray(starts))
    height = round_up_sizes(np.asarray([len(rows) for rows in structures], np.int64))
    keys, member = np.unique(np.stack([level, width, height], 1), axis=0, return_inverse=True)
    member = member.reshape(-1)
    by = np.argsort(member, kind="stable")
    slot = np.empty(len(starts), np.int64)
    slot[by] = np.concatenate([np.arange(c) for c in np.bincount(member, minlength=len(keys))] or [by])
    front = _Fronts(starts, ends, structures, width, member, slot)
    groups = [front.group(n, g, by[member[by] == g]) for g in range(len(keys))]
    front.entries(groups, owner, i, j, source, lower)
    front.inheritance(groups, heir)
    sizes = np.asarray(ends) - np.asarray(starts), np.asarray([len(rows) for rows in structures])
    fill = int((sizes[0] * (sizes[0] + 1) // 2 + sizes[0] * sizes[1]).sum())
    flops = int((sizes[0] ** 3 // 3 + sizes[0] ** 2 * sizes[1] + sizes[0] * sizes[1] ** 2).sum())
    largest = int((sizes[0] + sizes[1]).max()) if len(starts) else 0
    return Analysis(n, torch.from_numpy(order.copy()), tuple(groups), fill, flops, largest)


def round_up_sizes(sizes: Index) -> Index:
    """Round sizes up to those of the batches that fronts join."""
    top = SIZES[-1]
    small = SIZES[np.minimum(np.searchsorted(SIZES, sizes), len(SIZES) - 1)]
    return np.where(sizes == 0, 0, np.where(sizes > top, -(-sizes // 64) * 64, small))


@dataclass(slots=True)
class _Fronts:
    starts: list[int]
    ends: list[int]
    structures: list[Index]
    width: Index
    member: Index
    slot: Index

    def group(self, n: int, g: int, members: Index) -> Group:
        p, q = int(self.width[members[0]]), int(round_up_sizes(np.array([len(self.structures[members[0]])]))[0])
        pivots, rest = np.full((len(members), p), n), np.full((len(members), q), n)
        padding = []
        for k, s in enumerate(members.tolist()):
            real = self.ends[s] - self.starts[s]
            pivots[k, :real] = np.arange(self.starts[s], self.ends[s])
            rest[k, : len(self.structures[s])] = self.structures[s]
            padding.append((k * (p + q) + np.arange(real, p)) * (p + q) + np.arange(real, p))
        empty = torch.empty(0, dtype=torch.int64, device="cpu")
        flat = torch.from_numpy(np.concatenate(padding))
        return Group(torch.from_numpy(pivots), torch.from_numpy(rest), empty, empty, empty.bool(), flat)

    def local(self, s: int, rows: Index) -> Index:
        """Where rows are in the front of a supernode."""
        start, end = self.starts[s], self.ends[s]
        inside = rows < end
        return np.where(inside, rows - start, self.width[s] + np.searchsorted(self.structures[s], rows))

    def entries(self, groups: list[Group], owner: Index, i: Index, j: Index, source: Index, lower: bool) -> None:
        """Send every entry of the matrix to its place."""
        swapped = (i < j) & lower
        i, j = np.where(swapped, j, i), np.where(swapped, i, j)
        home = owner[np.minimum(i, j)]
        by = np.argsort(home, kind="stable")
        bounds = np.searchsorted(home[by], np.arange(len(self.starts) + 1))
        where = np.empty(len(i), np.int64)
        for s in range(len(self.starts)):
            of = by[bounds[s] : bounds[s + 1]]
            if len(of):
                size = sum(groups[self.member[s]].shape[1:])
                where[of] = (self.slot[s] * size + self.local(s, i[of])) * size + self.local(s, j[of])
        group = self.member[home]
        by = np.argsort(group, kind="stable")
        bounds = np.searchsorted(group[by], np.arange(len(groups) + 1))
        for g, each_group in enumerate(groups):
            of = by[bounds[g] : bounds[g + 1]]
            each_group.source, each_group.target = torch.from_numpy(source[of]), torch.from_numpy(where[of])
            each_group.swapped = torch.from_numpy(swapped[of])

    def inheritance(self, groups: list[Group], heir: Index) -> None:
        """Where every supernode's update goes in the front above it."""
        shares: dict[tuple[int, int], list[tuple[Index, Index]]] = {}
        for s, rows in enumerate(self.structures):
            if not len(rows):
                continue
            above = int(heir[s])
            there, here = int(self.member[s]), int(self.member[above])
            q, size = groups[there].shape[2], sum(groups[here].shape[1:])
            own, local = np.arange(len(rows)), self.local(above, rows)
            taken = ((self.slot[s] * q + own)[:, None] * q + own).reshape(-1)
            given = ((self.slot[above] * size + local)[:, None] * size + local).reshape(-1)
            shares.setdefault((here, there), []).append((taken, given))
        for (here, there), pairs in sorted(shares.items()):
            taken, given = (torch.from_numpy(np.concatenate(part)) for part in zip(*pairs, strict=True))
            groups[here].inherited.append((there, taken, given))
            groups[there].heirs += 1
