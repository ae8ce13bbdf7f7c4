"""Rows of so few blocks that PSUM holds the scores of several: softmax in one pass, and work for every engine.

From trn2 on, for 16-bit operands. Scores of rows follow each other in a ring of PSUM. The DMA engines turn some blocks
of weights, the Tensor Engine the others, which the Scalar Engine copies. Values have a column of ones, so that the
Tensor Engine makes the sums too. Results of a few rows are divided at once.
"""

from trnsci.nki import N_TILE, P_MAX, PSUM_BANKS, nisa, nl, tiles
from trnsparse.kernels._attention import _largest, _score_blocks
from trnsparse.kernels._moves import _copy

# Engines run in order. Weights are turned so many rows after their scores, and multiplied so many later still, so that
# no engine waits for another.
TURNED = 2
WEIGHTED = 4
# Of eighteen blocks of weights the DMA engines turn so many, which takes them as long as the other engines need for all
# they do: of one head, and of several, where they also bring the operands of the next.
MOVED_ALONE = 13
MOVED = 10


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
        self.turned_ps = self.room_ps[:, first : first + blocks * half].view(dtype)  # [k, b * q]
        self.end = first // P_MAX * P_MAX
        self.at = 0

    def scores(self, size, total):
        """Where the next scores go, and where in the ring that is."""
        if self.at + total > self.end:
            self.at = 0
        first = self.at
        self.at += len(tiles(total, P_MAX)) * P_MAX
        return self.room_ps[0:size, first : first + total], first

    def turned(self, count, whole):
        """Room for blocks the Tensor Engine turns, for whole rows where scores are, and how many blocks it holds."""
        if not whole:
            return self.turned_ps, self.turned_ps.shape[1] // P_MAX
        room_ps, _ = self.scores(P_MAX, (count + 1) // 2 * P_MAX)
        return room_ps.view(self.turned_ps.dtype), count

    def product(self, size, slot):
        """Room for the product with values in one slot."""
        width = (self.room_ps.shape[1] - self.made) // self.batch
        return self.room_ps[0:size, self.made + slot * width : self.made + (slot + 1) * width]

    def products(self, size, count, E):
        """The products of some rows, and their sums."""
        width = self.room_ps.shape[1]
        whole = self.room_ps[0:size, self.made : self.made + count * (E + 1)]
        return (
            whole.ap([[width, size], [E + 1, count], [1, E]]),
            whole.ap([[width, size], [E + 1, count]], offset=E),
        )


def _longest(pointers):
    """Blocks of the longest row."""
    longest = 0
    for i in range(len(pointers) - 1):
        longest = max(longest, pointers[i + 1] - pointers[i])
    return longest


def _fits(pointers, E, dtype):
    """Whether all rows are short enough, for these operands on this generation."""
    if dtype not in (nl.bfloat16, nl.float16) or nisa.get_nc_version() == nisa.nc_version.gen2:
        return False
    return E < N_TILE and _longest(pointers) <= 3 * N_TILE // P_MAX


class _Short(nl.NKIObject):
    """Rows of all heads, one behind the other: what has been scored, what has been turned, what is to be divided."""

    def __init__(self, heads, pointers, E, dtype, lonely):
        self.share = MOVED_ALONE if heads == 1 else MOVED
        self.ring = _Ring(_longest(pointers), E, dtype, self.share)
        self.lonely = lonely
        self.scored = []
        self.turned = []
        self.made = []

    def head(self, out_hbm, top_all, inverse_all, queries, keys, values, masks, last):
        """All rows of one head: top is the negated largest score of each query, inverse that of the sum."""
        identity_sb, hidden_sb, pointers, columns, slots = masks
        Q, E = out_hbm.shape
        for i in range(len(pointers) - 1):
            size = min(P_MAX, Q - i * P_MAX)
            rows = out_hbm[i * P_MAX : i * P_MAX + size, 0:E]
            span = slice(pointers[i], pointers[i + 1])
            if pointers[i + 1] == pointers[i]:
                zero_sb = nl.ndarray((size, E), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [q, E]
                nisa.memset(dst=zero_sb, value=0.0)
                _copy(rows, zero_sb)
            else:
                scores_ps, first = self.ring.scores(size, keys.width(columns[span]))
                q_sb = queries.columns(i * P_MAX, i * P_MAX + size)
                _score_blocks(scores_ps, first // P_MAX, q_sb, keys, identity_sb, hidden_sb, columns[span], slots[span])
                self.advance(TURNED, WEIGHTED)
                top_sb = _largest(scores_ps, self.lonely)
                weights_sb = nl.ndarray(scores_ps.shape, dtype=out_hbm.dtype, buffer=nl.sbuf)  # [q, k]
                nisa.activation(dst=weights_sb, op=nl.exp, data=scores_ps, bias=top_sb)
                nisa.tensor_copy(dst=top_all[0:size, i : i + 1], src=top_sb, engine=nisa.engine.gpsimd)
                # All else waits for the last two rows of all, and the DMA engines take longer.
                moved = [] if last and i >= len(pointers) - 3 else _moved(weights_sb, i, self.share)
                to = (rows, inverse_all[0:size, i : i + 1])
                self.scored.append((weights_sb, moved, values, columns[span], to))

    def advance(self, turned, weighted):
        """Go on with the rows before, until no more than ``turned`` wait to be turned and ``weighted`` after that."""
        if len(self.scored) >= turned and len(self.scored) > 0:
            weights_sb, held, values, columns, to = self.scored.pop(0)
            self.turned.append((_turned(weights_sb, held, self.ring), values, columns, to))
        if len(self.turned) >= weighted and len(self.turned) > 0:
            self._weigh(self.turned.pop(0))

    def finish(self):
        """Complete all rows."""
        while len(self.scored) > 0:
            self.advance(0, 0)
        while len(self.turned) > 0:
            self.advance(0, 0)
        self._divide()

    def _weigh(self, row):
        """The product of the weights of a row with the values and a column of ones."""
        held, values, columns, to = row
        size = to[0].shape[0]
        # Rows that are divided together are of one size.
        if size < P_MAX:
            self._divide()
        made_ps = self.ring.product(size, len(self.made))
        for b in range(len(held)):
            nisa.nc_matmul(dst=made_ps, stationary=held[b], moving=values.block(columns[b]), accumulate=b > 0)
        self.made.append(to)
        if size < P_MAX or len(self.made) == self.ring.batch:
            self._divide()

    def _divide(self):
        """Divide the products that wait for it, and store them."""
        count = len(self.made)
        if count > 0:
            size, E = self.made[0][0].shape
            made_ps, sums_ps = self.ring.products(size, count, E)
            inverse_sb = nl.ndarray((size, count), dtype=nl.float32, buffer=nl.sbuf)  # [q, r]
            if self.lonely:
                # A sum is at least about 1, that of a query that keeps nothing 0: it becomes 0.5, and the result 0.
                nisa.tensor_scalar(dst=inverse_sb, data=sums_ps, op0=nl.maximum, operand0=0.5)
                nisa.reciprocal(dst=inverse_sb, data=inverse_sb)
            else:
                nisa.reciprocal(dst=inverse_sb, data=sums_ps)
            factor = inverse_sb.ap([[count, size], [1, count], [0, E]])
            out_sb = nl.ndarray((size, count, E), dtype=self.made[0][0].dtype, buffer=nl.sbuf)  # [q, r, E]
            nisa.tensor_tensor(dst=out_sb, data1=made_ps, data2=factor, op=nl.multiply)
            for r in range(count):
                rows, kept_sb = self.made[r]
                # Rows that lie together in HBM travel together, those of several blocks would not.
                if r % 2 == 0:
                    _copy(rows, out_sb[:, r, :])
                else:
                    # Another queue issues it meanwhile.
                    mode, engine = nisa.dge_mode.hwdge, nisa.engine.scalar
                    nisa.dma_copy(dst=rows, src=out_sb[:, r, :], dge_mode=mode, engine=engine)
                nisa.tensor_copy(dst=kept_sb, src=inverse_sb[:, r : r + 1], engine=nisa.engine.gpsimd)
        self.made = []


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
    for group in tiles(len(blocks), room):
        turned_sb = nl.ndarray((P_MAX, group.size * size), dtype=weights_sb.dtype, buffer=nl.sbuf)  # [k, b * q]
        for b in range(group.size):
            block = blocks[group.start + b]
            here = slice(b * size, (b + 1) * size)
            nisa.nc_transpose(dst=turned_ps[0 : block.size, here], data=weights_sb[:, block.span])
            held.append(turned_sb[0 : block.size, here])
        # Only the last block of all can be smaller than the others.
        last = blocks[group.stop - 1].size
        full = group.size if last == P_MAX else group.size - 1
        # At the end the Vector Engine is free, and the Scalar Engine makes logarithms.
        engine = nisa.engine.scalar if moved > 0 else nisa.engine.vector
        for first, stop, k in ((0, full, P_MAX), (full, group.size, last)):
            if first < stop:
                here = slice(first * size, stop * size)
                nisa.tensor_copy(dst=turned_sb[0:k, here], src=turned_ps[0:k, here], engine=engine)
    return held
