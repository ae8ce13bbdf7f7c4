"""Operands of the attention kernels: whole heads in SBUF where they fit, blocks on demand where they do not."""

from trnsci.nki import K_TILE, N_TILE, P_MAX, Tile, load, move, nisa, nl, tiles

# Blocks that are loaded together where not all stay, and how many such loads are kept for the next who asks.
GROUP = N_TILE // P_MAX
NEAR = 4
# Above every score that is kept and below every one that is not, in absolute value.
FLOOR = 1e25


def _pieces(total, count):
    """Cut a length into pieces: the first two alike, then each twice as long, so that little is waited for at first."""
    cut = []
    start = 0
    for index in range(count):
        size = total - start if index == count - 1 else -(-total * 2 ** max(0, index - 1) // 2 ** (count - 1))
        size = min(size, total - start)
        if size > 0:
            cut.append(Tile(index, start, size))
        start += size
    return cut


class _Near(nl.NKIObject):
    """The last few groups of blocks that were loaded."""

    def __init__(self):
        self.groups = [None] * NEAR
        self.tiles = [None] * NEAR
        self.next = 0

    def find(self, group):
        """Return the tiles of a group, or nothing."""
        for n in range(NEAR):
            if self.groups[n] == group:
                return self.tiles[n]
        return []

    def keep(self, group, loaded):
        """Remember a group, and forget the one loaded first."""
        self.groups[self.next] = group
        self.tiles[self.next] = loaded
        self.next = (self.next + 1) % NEAR


class _TransposedHead(nl.NKIObject):
    """A transposed operand [heads, D, S] of one head: columns are taken as views of the whole, or of groups of blocks.

    One that is kept comes in ``pieces``: a single one at once, several each by a call of fetch.
    """

    def __init__(self, x_hbm, head, keep, pieces=1):
        self.x_hbm = x_hbm
        self.head = head
        self.parts = tiles(x_hbm.shape[1], K_TILE)
        self.pieces = _pieces(x_hbm.shape[2], pieces)
        self.kept = []
        self.near = _Near()
        if keep:
            for d in self.parts:
                self.kept.append(nl.ndarray((d.size, x_hbm.shape[2]), dtype=x_hbm.dtype, buffer=nl.sbuf))  # [d, S]
        if pieces == 1:
            self.fetch(0)

    def fetch(self, piece):
        """Load one piece."""
        if piece < len(self.pieces):
            here = self.pieces[piece].span
            for d in self.parts[0 : len(self.kept)]:
                move(self.kept[d.index][:, here], self.x_hbm[self.head, d.span, here], "static")

    def width(self, blocks):
        """Return the columns of blocks in ascending order: the last of all may be smaller than the others."""
        return len(blocks) * P_MAX - max(0, (blocks[len(blocks) - 1] + 1) * P_MAX - self.x_hbm.shape[2])

    def columns(self, start, stop):
        """Return the columns from start to stop: one tile for each part of D; of one group, where not all stay."""
        taken = []
        if len(self.kept) > 0:
            for d in self.parts:
                taken.append(self.kept[d.index][:, start:stop])
        else:
            group = start // N_TILE
            loaded = self.near.find(group)
            if len(loaded) == 0:
                last = min((group + 1) * N_TILE, self.x_hbm.shape[2])
                for d in self.parts:
                    loaded.append(load(self.x_hbm[self.head, d.span, group * N_TILE : last], "static"))  # [d, s]
                self.near.keep(group, loaded)
            for d in self.parts:
                taken.append(loaded[d.index][:, start - group * N_TILE : stop - group * N_TILE])
        return taken


class _Rows(nl.NKIObject):
    """An operand [heads, S, E] of one head: blocks of rows are taken as views as above; pieces as well.

    With ``ones`` each row ends in one more element, 1.
    """

    def __init__(self, x_hbm, head, keep, pieces=1, ones=False):
        self.x_hbm = x_hbm
        self.head = head
        self.width = x_hbm.shape[2] + 1 if ones else x_hbm.shape[2]
        self.whole = x_hbm.shape[1] // P_MAX
        self.kept = self._room(self.whole) if keep and self.whole > 0 else None
        self.pieces = _pieces(self.whole, pieces) if keep else []
        self.near = _Near()
        if pieces == 1:
            self.fetch(0)

    def _room(self, blocks):
        room_sb = nl.ndarray((P_MAX, blocks, self.width), dtype=self.x_hbm.dtype, buffer=nl.sbuf)  # [p, n, E]
        if self.width > self.x_hbm.shape[2]:
            nisa.memset(dst=room_sb[:, :, self.width - 1 : self.width], value=1.0)
        return room_sb

    def _load(self, room_sb, first, blocks):
        """Load whole blocks from the first on."""
        S, E = self.x_hbm.shape[1], self.x_hbm.shape[2]
        start = (self.head * S + first * P_MAX) * E
        move(room_sb[:, :, 0:E], self.x_hbm.ap([[E, P_MAX], [P_MAX * E, blocks], [1, E]], offset=start), "static")

    def fetch(self, piece):
        """Load one piece."""
        if piece < len(self.pieces):
            n = self.pieces[piece]
            self._load(self.kept[:, n.span, :], n.start, n.size)

    def block(self, j):
        """Return block j of the rows."""
        if j < self.whole and self.kept != None:
            return self.kept[:, j, 0 : self.width]
        # The last block of all, where it is smaller, is a group of its own.
        group = j // GROUP if j < self.whole else -1
        loaded = self.near.find(group)
        if len(loaded) == 0:
            if group >= 0:
                blocks = min(GROUP, self.whole - group * GROUP)
                loaded.append(self._room(blocks))
                self._load(loaded[0], group * GROUP, blocks)
            else:
                loaded.append(self._last(j))
            self.near.keep(group, loaded)
        return loaded[0][:, j - group * GROUP, 0 : self.width] if group >= 0 else loaded[0]

    def _last(self, j):
        """Load the rows of the last block, which is smaller."""
        S, E = self.x_hbm.shape[1], self.x_hbm.shape[2]
        rows_sb = nl.ndarray((S - j * P_MAX, self.width), dtype=self.x_hbm.dtype, buffer=nl.sbuf)  # [s, E]
        if self.width > E:
            nisa.memset(dst=rows_sb[:, E : self.width], value=1.0)
        move(rows_sb[:, 0:E], self.x_hbm[self.head, j * P_MAX : S, 0:E], "static")
        return rows_sb


def _identity(dtype):
    """Return ones on the diagonal."""
    across_sb = nl.ndarray((P_MAX, P_MAX), dtype=nl.int32, buffer=nl.sbuf)  # [p, p]
    nisa.iota(dst=across_sb, pattern=[[1, P_MAX]])
    down_sb = nl.ndarray((P_MAX, 1), dtype=nl.int32, buffer=nl.sbuf)  # [p, 1]
    nisa.iota(dst=down_sb, pattern=[[1, 1]], channel_multiplier=1)
    place_sb = nl.ndarray((P_MAX, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [p, p]
    nisa.tensor_copy(dst=place_sb, src=across_sb)
    own_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_copy(dst=own_sb, src=down_sb)
    identity_sb = nl.ndarray((P_MAX, P_MAX), dtype=dtype, buffer=nl.sbuf)  # [p, p]
    nisa.tensor_scalar(dst=identity_sb, data=place_sb, op0=nl.equal, operand0=own_sb)
    return identity_sb


def _product(dst_ps, stationary, moving):
    """Compute dst = stationary.T @ moving, both in parts of the contracted dimension."""
    for d in range(len(stationary)):
        nisa.nc_matmul(dst=dst_ps, stationary=stationary[d], moving=moving[d], accumulate=d > 0)


def _hide(dst_ps, identity_sb, hidden_sb, *, slot, q, k):
    """Add the inside of a partial block to its scores: the Tensor Engine does it as one more product."""
    nisa.nc_matmul(
        dst=dst_ps,
        stationary=identity_sb[:, 0:q],
        moving=hidden_sb[:, slot * P_MAX : slot * P_MAX + k],
        accumulate=True,
    )


def _score_blocks(parts_ps, q_sb, keys, identity_sb, hidden_sb, *, columns, slots):
    """Score a query block with some key blocks, side by side in parts that each lie in one PSUM bank."""
    size, K = q_sb[0].shape[1], keys.x_hbm.shape[2]
    first = 0
    for part_ps in parts_ps:
        stop = first + len(tiles(part_ps.shape[1], P_MAX))
        at = first
        while at < stop:
            # Blocks that follow each other share one product, as far as the part reaches, and a group that was loaded.
            count = 1
            while (
                at + count < stop
                and columns[at + count] == columns[at] + count
                and (len(keys.kept) > 0 or columns[at + count] % GROUP > 0)
            ):
                count += 1
            start, end, to = columns[at] * P_MAX, min((columns[at] + count) * P_MAX, K), (at - first) * P_MAX
            _product(part_ps[:, to : to + end - start], q_sb, keys.columns(start, end))
            for b in range(at, at + count):
                if slots[b] >= 0:
                    k, to = min(P_MAX, K - columns[b] * P_MAX), (b - first) * P_MAX
                    _hide(part_ps[:, to : to + k], identity_sb, hidden_sb, slot=slots[b], q=size, k=k)
            at += count
        first = stop


def _largest(top_sb, parts_ps, lonely):
    """Write the negated largest score of each query; of one that may keep nothing at most FLOOR."""
    tops_sb = top_sb
    if len(parts_ps) > 1:
        tops_sb = nl.ndarray((top_sb.shape[0], len(parts_ps)), dtype=nl.float32, buffer=nl.sbuf)  # [q, n]
    for n in range(len(parts_ps)):
        nisa.tensor_reduce(dst=tops_sb[:, n : n + 1], op=nl.maximum, data=parts_ps[n], axis=1, negate=True)
    if len(parts_ps) > 1:
        nisa.tensor_reduce(dst=top_sb, op=nl.minimum, data=tops_sb, axis=1)
    if lonely:
        nisa.tensor_scalar(dst=top_sb, data=top_sb, op0=nl.minimum, operand0=FLOOR)
