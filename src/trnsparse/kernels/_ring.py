"""PSUM as a ring of scores, and blocks of weights turned by the DMA engines and by the Tensor Engine."""

from trnsci.nki import N_TILE, P_MAX, PSUM_BANKS, nisa, nl, tiles


class _Ring(nl.NKIObject):
    """All of PSUM: scores of rows that follow each other, blocks turned by the Tensor Engine, products of some rows."""

    def __init__(self, longest, E, dtype, share):
        columns, half = PSUM_BANKS * N_TILE, P_MAX // 2
        blocks = longest - longest * share // 18
        # As many products as leave room for the scores of three rows.
        self.batch = min(3, N_TILE // (E + 1))
        while self.batch > 1 and columns - self.batch * (E + 1) - blocks * half < 3 * longest * P_MAX:
            self.batch -= 1
        self.made = columns - self.batch * (E + 1)
        first = self.made // half * half - blocks * half
        self.room_ps = nl.ndarray((P_MAX, columns), dtype=nl.float32, buffer=nl.psum)  # [q, 8 * 512]
        # The same memory in 16 bits.
        self.half_ps = self.room_ps.view(dtype)  # [k, 8 * 1024]
        self.turned_ps = self.half_ps[:, 2 * first : 2 * first + blocks * P_MAX]  # [k, b * q]
        self.end = first // P_MAX * P_MAX
        self.at = 0

    def room(self, total):
        """Where in the ring the next columns go."""
        if self.at + total > self.end:
            self.at = 0
        first = self.at
        self.at += len(tiles(total, P_MAX)) * P_MAX
        return first

    def scores(self, size, total):
        """Where the next scores go, and where in the ring that is."""
        first = self.room(total)
        return self.room_ps[0:size, first : first + total], first

    def turned(self, count, whole):
        """Room for blocks the Tensor Engine turns, for whole rows where scores are, and how many blocks it holds."""
        if not whole:
            return self.turned_ps, self.turned_ps.shape[1] // P_MAX
        total = (count + 1) // 2 * P_MAX
        first = self.room(total)
        return self.half_ps[:, 2 * first : 2 * (first + total)], count

    def product(self, size, slot):
        """Room for the product with values in one slot."""
        width = (self.room_ps.shape[1] - self.made) // self.batch
        return self.room_ps[0:size, self.made + slot * width : self.made + (slot + 1) * width]

    def whole(self, size, count, E):
        """The products of some groups, with their sums."""
        width = self.room_ps.shape[1]
        return self.room_ps.ap([[width, size], [E + 1, count], [1, E + 1]], offset=self.made)

    def products(self, size, count, E):
        """The products of some rows, and their sums."""
        width = self.room_ps.shape[1]
        return (
            self.room_ps.ap([[width, size], [E + 1, count], [1, E]], offset=self.made),
            self.room_ps.ap([[width, size], [E + 1, count]], offset=self.made + E),
        )


def _moved(weights_sb, i, share):
    """The first blocks of row ``i`` turned by the DMA engines."""
    size, total = weights_sb.shape
    count = (total // P_MAX * share + i % 2 * 9) // 18 if size == P_MAX else 0
    held = []
    if count > 0:
        turned_sb = nl.ndarray((P_MAX, count, P_MAX), dtype=weights_sb.dtype, buffer=nl.sbuf)  # [k, b, q]
        nisa.dma_transpose(dst=turned_sb, src=weights_sb.ap([[total, size], [P_MAX, count], [1, P_MAX]]))
        for b in range(count):
            held.append(turned_sb[:, b, :])
    return held


def _turned(weights_sb, held, ring):
    """The other blocks turned by the Tensor Engine, behind those held; as many at a time as there is room for."""
    size, total = weights_sb.shape
    moved = len(held)
    blocks = tiles(total, P_MAX)[moved:]
    turned_ps, room = ring.turned(len(blocks), moved == 0)
    # At the end the Vector Engine is free, and the Scalar Engine makes logarithms.
    engine = nisa.engine.scalar if moved > 0 else nisa.engine.vector
    for group in tiles(len(blocks), room):
        turned_sb = nl.ndarray((P_MAX, group.size * P_MAX), dtype=weights_sb.dtype, buffer=nl.sbuf)  # [k, b * q]
        for b in range(group.size):
            # Apart by whole blocks, so that none lies in two banks.
            block, here = blocks[group.start + b], slice(b * P_MAX, b * P_MAX + size)
            nisa.nc_transpose(dst=turned_ps[0 : block.size, here], data=weights_sb[:, block.span])
            held.append(turned_sb[0 : block.size, here])
        # Whole blocks are copied at once; of a row only the last can be smaller, of all rows those of the last.
        whole = 0
        if size == P_MAX:
            for b in range(group.size):
                block = blocks[group.start + b]
                whole += 1 if block.size == P_MAX else 0
        if whole > 0:
            nisa.tensor_copy(dst=turned_sb[:, 0 : whole * P_MAX], src=turned_ps[:, 0 : whole * P_MAX], engine=engine)
        for b in range(whole, group.size):
            k, here = blocks[group.start + b].size, slice(b * P_MAX, b * P_MAX + size)
            nisa.tensor_copy(dst=turned_sb[0:k, here], src=turned_ps[0:k, here], engine=engine)
    return held
