"""PSUM as a ring of scores, and blocks of weights transposed by the DMA engines and by the Tensor Engine."""

from trnsci.nki import N_TILE, P_MAX, PSUM_BANKS, nisa, nl, tiles


class _Ring(nl.NKIObject):
    """All of PSUM, a tile for each bank: a ring of scores of rows that follow each other, and one or two banks more.

    Those have the blocks transposed by the Tensor Engine and the products of some rows.
    """

    def __init__(self, longest, E, dtype, share):
        half = P_MAX // 2
        # Where the Tensor Engine transposes all, it does so in the ring.
        blocks = longest - longest * share // 18 if share > 0 else 0
        # As many products as leave room for the scores of three rows.
        self.batch = min(3, N_TILE // (E + 1))
        while self.batch > 1 and self._banks(E, blocks) * N_TILE < 3 * longest * P_MAX:
            self.batch -= 1
        self.banks_ps = []
        for _ in range(PSUM_BANKS):
            self.banks_ps.append(nl.ndarray((P_MAX, N_TILE), dtype=nl.float32, buffer=nl.psum))  # [q, 512]
        # The same memory in the dtype of the weights.
        self.halves_ps = []
        for bank_ps in self.banks_ps:
            self.halves_ps.append(bank_ps.view(dtype))  # [k, 512 or 1024]
        banks = self._banks(E, blocks)
        self.transposed_ps = None
        if share > 0:
            first = N_TILE - blocks * half
            self.transposed_ps = self.halves_ps[banks][:, 2 * first : 2 * first + blocks * P_MAX]  # [k, b * q]
        self.width = E + 1
        self.end = banks * N_TILE
        self.at = 0

    def _banks(self, E, blocks):
        """Return the banks left for scores: products and transposed blocks share the last one if they fit."""
        return PSUM_BANKS - (1 if self.batch * (E + 1) + blocks * (P_MAX // 2) <= N_TILE else 2)

    def scores(self, size, total):
        """Return where the next scores go: a view of each bank they lie in."""
        if self.at + total > self.end:
            self.at = 0
        start, stop = self.at, self.at + total
        self.at += len(tiles(total, P_MAX)) * P_MAX
        parts_ps = []
        while start < stop:
            column = start % N_TILE
            width = min(stop - start, N_TILE - column)
            bank_ps = self.banks_ps[start // N_TILE]
            parts_ps.append(bank_ps[0:size, column : column + width])
            start += width
        return parts_ps

    def holds(self, whole):
        """Return how many blocks the Tensor Engine transposes at a time: of whole rows as many as a bank holds."""
        return (self.halves_ps[0] if whole else self.transposed_ps).shape[1] // P_MAX

    def transposed(self, count, whole):
        """Return room for transposed blocks; for whole rows it is in the next bank of the ring."""
        if not whole:
            return self.transposed_ps
        bank = len(tiles(self.at, N_TILE)) % (self.end // N_TILE)
        self.at = (bank + 1) * N_TILE
        return self.halves_ps[bank]

    def product(self, size, slot):
        """Return room for the product with values in one slot."""
        last_ps = self.banks_ps[PSUM_BANKS - 1]
        return last_ps[0:size, slot * self.width : (slot + 1) * self.width]

    def whole(self, size, count, E):
        """Return the products of some groups, with their sums."""
        last_ps = self.banks_ps[PSUM_BANKS - 1]
        return last_ps.ap([[N_TILE, size], [E + 1, count], [1, E + 1]])

    def products(self, size, count, E):
        """Return the products of some rows, and their sums."""
        last_ps = self.banks_ps[PSUM_BANKS - 1]
        return (
            last_ps.ap([[N_TILE, size], [E + 1, count], [1, E]]),
            last_ps.ap([[N_TILE, size], [E + 1, count]], offset=E),
        )


def _move_blocks(weights_sb, i, share):
    """Transpose the first blocks of row ``i`` with the DMA engines."""
    size, total = weights_sb.shape
    count = (total // P_MAX * share + i % 2 * 9) // 18 if size == P_MAX else 0
    held = []
    if count > 0:
        transposed_sb = nl.ndarray((P_MAX, count, P_MAX), dtype=weights_sb.dtype, buffer=nl.sbuf)  # [k, b, q]
        nisa.dma_transpose(dst=transposed_sb, src=weights_sb.ap([[total, size], [P_MAX, count], [1, P_MAX]]))
        for b in range(count):
            held.append(transposed_sb[:, b, :])
    return held


def _transposed_blocks(weights_sb, held, ring, turns=False):
    """Transpose the other blocks with the Tensor Engine, after those held, as many at a time as there is room.

    The Scalar Engine copies them where some are held, else the Vector Engine, or both by ``turns``.
    """
    size, total = weights_sb.shape
    moved = len(held)
    blocks = tiles(total, P_MAX)[moved:]
    for group in tiles(len(blocks), ring.holds(moved == 0)):
        transposed_ps = ring.transposed(group.size, moved == 0)
        transposed_sb = nl.ndarray((P_MAX, group.size * P_MAX), dtype=weights_sb.dtype, buffer=nl.sbuf)  # [k, b * q]
        for b in range(group.size):
            # Apart by whole blocks, so that none lies in two banks.
            block, here = blocks[group.start + b], slice(b * P_MAX, b * P_MAX + size)
            nisa.nc_transpose(dst=transposed_ps[0 : block.size, here], data=weights_sb[:, block.span])
            held.append(transposed_sb[0 : block.size, here])
        # Whole blocks are copied at once; of a row only the last can be smaller, of all rows those of the last.
        whole = 0
        if size == P_MAX:
            for b in range(group.size):
                block = blocks[group.start + b]
                whole += 1 if block.size == P_MAX else 0
        # At the end the Vector Engine is free, and the Scalar Engine makes logarithms.
        scalar = moved > 0 or (turns and group.index % 2 == 0)
        if whole > 0:
            _copy(transposed_sb[:, 0 : whole * P_MAX], transposed_ps[:, 0 : whole * P_MAX], scalar)
        for b in range(whole, group.size):
            k, here = blocks[group.start + b].size, slice(b * P_MAX, b * P_MAX + size)
            _copy(transposed_sb[0:k, here], transposed_ps[0:k, here], scalar)
    return held


def _copy(to_sb, of_ps, scalar):
    if scalar and nisa.get_nc_version() == nisa.nc_version.gen2:
        nisa.activation(dst=to_sb, op=nl.copy, data=of_ps)
    else:
        nisa.tensor_copy(dst=to_sb, src=of_ps, engine=nisa.engine.scalar if scalar else nisa.engine.vector)
