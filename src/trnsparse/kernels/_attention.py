"""Operands of the attention kernels: whole heads in SBUF where they fit, blocks on demand where they do not."""

from trnsci.nki import K_TILE, P_MAX, load, nisa, nl, tiles


class _Turned(nl.NKIObject):
    """A transposed operand [heads, D, S] of one head: columns are taken as views, or loaded.

    One that is kept comes in ``pieces``: a single one at once, several each by a call of fetch.
    """

    def __init__(self, x_hbm, head, keep, pieces=1):
        self.x_hbm = x_hbm
        self.head = head
        self.parts = tiles(x_hbm.shape[1], K_TILE)
        self.pieces = tiles(x_hbm.shape[2], -(-x_hbm.shape[2] // pieces))
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
                nisa.dma_copy(dst=self.kept[d.index][:, here], src=self.x_hbm[self.head, d.span, here])

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
    """An operand [heads, S, E] of one head: blocks of rows are taken as views, or loaded; pieces as above."""

    def __init__(self, x_hbm, head, keep, pieces=1):
        self.x_hbm = x_hbm
        self.head = head
        self.whole = x_hbm.shape[1] // P_MAX if keep else 0
        self.pieces = tiles(self.whole, max(1, -(-self.whole // pieces)))
        self.kept = None
        if self.whole > 0:
            self.kept = nl.ndarray((P_MAX, self.whole, x_hbm.shape[2]), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [p, n, E]
        if pieces == 1:
            self.fetch(0)

    def fetch(self, piece):
        """Load one piece."""
        if piece < len(self.pieces):
            n = self.pieces[piece]
            S, E = self.x_hbm.shape[1], self.x_hbm.shape[2]
            start = (self.head * S + n.start * P_MAX) * E
            blocks = self.x_hbm.ap([[E, P_MAX], [P_MAX * E, n.size], [1, E]], offset=start)
            nisa.dma_copy(dst=self.kept[:, n.span, :], src=blocks)

    def block(self, j):
        """Block j of the rows."""
        S, E = self.x_hbm.shape[1], self.x_hbm.shape[2]
        if j < self.whole:
            return self.kept[:, j, 0:E]
        return load(self.x_hbm[self.head, j * P_MAX : min((j + 1) * P_MAX, S), 0:E])  # [s, E]


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
