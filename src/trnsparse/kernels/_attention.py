"""Operands of the attention kernels: whole heads in SBUF where they fit, blocks on demand where they do not."""

from trnsci.nki import K_TILE, N_TILE, P_MAX, Tile, load, nisa, nl, tiles
from trnsparse.kernels._moves import _copy

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


class _Turned(nl.NKIObject):
    """A transposed operand [heads, D, S] of one head: columns are taken as views, or loaded.

    One that is kept comes in ``pieces``: a single one at once, several each by a call of fetch.
    """

    def __init__(self, x_hbm, head, keep, pieces=1):
        self.x_hbm = x_hbm
        self.head = head
        self.parts = tiles(x_hbm.shape[1], K_TILE)
        self.pieces = _pieces(x_hbm.shape[2], pieces)
        self.kept = []
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
                _copy(self.kept[d.index][:, here], self.x_hbm[self.head, d.span, here])

    def width(self, blocks):
        """Columns of blocks in ascending order: the last of all may be smaller than the others."""
        return len(blocks) * P_MAX - max(0, (blocks[len(blocks) - 1] + 1) * P_MAX - self.x_hbm.shape[2])

    def columns(self, start, stop):
        """The columns from start to stop: one tile for each part of D."""
        taken = []
        for d in self.parts:
            if len(self.kept) > 0:
                taken.append(self.kept[d.index][:, start:stop])
            else:
                taken.append(load(self.x_hbm[self.head, d.span, start:stop]))  # [d, s]
        return taken


class _Rows(nl.NKIObject):
    """An operand [heads, S, E] of one head: blocks of rows are taken as views, or loaded; pieces as above.

    With ``ones`` each row ends in one more element, 1.
    """

    def __init__(self, x_hbm, head, keep, pieces=1, ones=False):
        self.x_hbm = x_hbm
        self.head = head
        self.width = x_hbm.shape[2] + 1 if ones else x_hbm.shape[2]
        self.whole = x_hbm.shape[1] // P_MAX if keep else 0
        self.pieces = _pieces(self.whole, pieces)
        self.kept = None
        if self.whole > 0:
            self.kept = nl.ndarray((P_MAX, self.whole, self.width), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [p, n, E]
            if ones:
                nisa.memset(dst=self.kept[:, :, self.width - 1 : self.width], value=1.0)
        if pieces == 1:
            self.fetch(0)

    def fetch(self, piece):
        """Load one piece."""
        if piece < len(self.pieces):
            n = self.pieces[piece]
            S, E = self.x_hbm.shape[1], self.x_hbm.shape[2]
            start = (self.head * S + n.start * P_MAX) * E
            blocks = self.x_hbm.ap([[E, P_MAX], [P_MAX * E, n.size], [1, E]], offset=start)
            _copy(self.kept[:, n.span, 0:E], blocks)

    def block(self, j):
        """Block j of the rows."""
        S, E = self.x_hbm.shape[1], self.x_hbm.shape[2]
        if j < self.whole:
            return self.kept[:, j, 0 : self.width]
        size = min(P_MAX, S - j * P_MAX)
        rows_sb = nl.ndarray((size, self.width), dtype=self.x_hbm.dtype, buffer=nl.sbuf)  # [s, E]
        if self.width > E:
            nisa.memset(dst=rows_sb[:, E : self.width], value=1.0)
        nisa.dma_copy(dst=rows_sb[:, 0:E], src=self.x_hbm[self.head, j * P_MAX : j * P_MAX + size, 0:E])
        return rows_sb


def _identity(dtype):
    """Ones on the diagonal."""
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
    """Dst = stationary.T @ moving, both in parts of the contracted dimension."""
    for d in range(len(stationary)):
        nisa.nc_matmul(dst=dst_ps, stationary=stationary[d], moving=moving[d], accumulate=d > 0)


def _hide(dst_ps, identity_sb, hidden_sb, slot, q, k):
    """Add the inside of a partial block to its scores: the Tensor Engine does it as one more product."""
    nisa.nc_matmul(
        dst=dst_ps,
        stationary=identity_sb[:, 0:q],
        moving=hidden_sb[:, slot * P_MAX : slot * P_MAX + k],
        accumulate=True,
    )


def _score_blocks(scores_ps, shift, q_sb, keys, identity_sb, hidden_sb, columns, slots):
    """Scores of a query block with some key blocks, side by side from block ``shift`` of PSUM on."""
    size, K = q_sb[0].shape[1], keys.x_hbm.shape[2]
    bank = N_TILE // P_MAX
    at = 0
    while at < len(columns):
        # Blocks that follow each other share one product, as far as a PSUM bank reaches.
        count = 1
        while (
            at + count < len(columns) and (at + count + shift) % bank > 0 and columns[at + count] == columns[at] + count
        ):
            count += 1
        first, last = columns[at] * P_MAX, min((columns[at] + count) * P_MAX, K)
        _product(scores_ps[:, at * P_MAX : at * P_MAX + last - first], q_sb, keys.columns(first, last))
        for b in range(at, at + count):
            if slots[b] >= 0:
                k = min(P_MAX, K - columns[b] * P_MAX)
                _hide(scores_ps[:, b * P_MAX : b * P_MAX + k], identity_sb, hidden_sb, slots[b], size, k)
        at += count


def _largest(scores_ps, lonely):
    """The negated largest score of each query; of one that may keep nothing at most FLOOR."""
    top_sb = nl.ndarray((scores_ps.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)  # [q, 1]
    nisa.tensor_reduce(dst=top_sb, op=nl.maximum, data=scores_ps, axis=1, negate=True)
    if lonely:
        nisa.tensor_scalar(dst=top_sb, data=top_sb, op0=nl.minimum, operand0=FLOOR)
    return top_sb
