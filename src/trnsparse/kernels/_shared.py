"""Rows of blocks whose work all engines share: softmax of a group of blocks in one pass, groups added up afterwards.

Scores of groups follow each other in a ring of PSUM. Of 16-bit operands, from trn2 on, the DMA engines transpose some
blocks of weights; the Tensor Engine transposes the others. Values have a column of ones, so that
the Tensor Engine sums too. A short row is one group, and some rows are divided at once. The groups of a long
row have a largest score each; their products shrink by what it is below that of the row, and GpSimd adds them.
"""

from trnsci.nki import P_MAX, Queue, move, nisa, nl, tiles
from trnsparse.kernels._attention import _largest, _score_blocks
from trnsparse.kernels._ring import _move_blocks, _Ring, _transposed_blocks

# Blocks of a row that is not cut, and of a group where some row is: PSUM holds the scores of three such groups.
SHORT = 12
CUT = 8
# Engines run in order. Weights are transposed so many groups after their scores, and multiplied so many later still, so
# that no engine waits for another.
TRANSPOSED = 2
WEIGHTED = 4
# Groups whose largest scores are compared at once: all are scored before the first is multiplied.
PART = 4
# Of eighteen blocks of weights the DMA engines transpose so many, which takes them as long as the other engines need:
# of one head, of several, where they bring the operands of the next meanwhile, and of long rows.
MOVED_ALONE = 17
MOVED = 10
MOVED_LONG = 16


def _longest(pointers):
    """Return the blocks of the longest row."""
    longest = 0
    for i in range(len(pointers) - 1):
        longest = max(longest, pointers[i + 1] - pointers[i])
    return longest


class _Part(nl.NKIObject):
    """Some groups of a row of blocks: what came before them, what they have come to, and where the row goes."""

    def __init__(self, out_hbm, top_sb, inverse_sb, *, groups, before, last):
        self.out_hbm = out_hbm
        self.top_sb = top_sb
        self.inverse_sb = inverse_sb
        self.groups = groups
        self.before = before
        self.last = last
        self.alone = before == None and last and groups == 1
        # One more column where something came before: what that had for its largest score.
        self.first = 0 if before == None else 1
        self.tops_sb = nl.ndarray((out_hbm.shape[0], self.first + groups), dtype=nl.float32, buffer=nl.sbuf)  # [q, g]
        self.best_sb = None
        self.factors_sb = None
        self.sum_sb = None
        self.done = 0

    def compare(self):
        """Find by how much each group shrinks, when the largest scores of all are known."""
        self.best_sb = self.tops_sb
        if not self.alone:
            if self.before != None:
                nisa.tensor_copy(dst=self.tops_sb[:, 0:1], src=self.before.best_sb, engine=nisa.engine.vector)
            self.best_sb = nl.ndarray((self.tops_sb.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)  # [q, 1]
            nisa.tensor_reduce(dst=self.best_sb, op=nl.minimum, data=self.tops_sb, axis=1)
            self.factors_sb = nl.ndarray(self.tops_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [q, g]
            nisa.activation(dst=self.factors_sb, op=nl.exp, data=self.tops_sb, scale=-1.0, bias=self.best_sb)
        if self.last:
            nisa.tensor_copy(dst=self.top_sb, src=self.best_sb, engine=nisa.engine.gpsimd)

    def add(self, product_ps, count):
        """Add the products of the last groups done, and what came before the first."""
        size, E = self.out_hbm.shape
        width = self.tops_sb.shape[1]
        if self.before != None and self.done == count:
            self.sum_sb = nl.ndarray((size, E + 1), dtype=nl.float32, buffer=nl.sbuf)  # [q, E + 1]
            factor = self.factors_sb.ap([[width, size], [0, E + 1]])
            nisa.tensor_tensor(
                dst=self.sum_sb, data1=self.before.sum_sb, data2=factor, op=nl.multiply, engine=nisa.engine.gpsimd
            )
        parts_sb = nl.ndarray((size, count, E + 1), dtype=nl.float32, buffer=nl.sbuf)  # [q, g, E + 1]
        at = self.first + self.done - count
        if count == 1:
            # Of single ones the Scalar Engine has time for more than the Vector Engine.
            nisa.activation(dst=parts_sb, op=nl.copy, data=product_ps, scale=self.factors_sb[:, at : at + 1])
        else:
            factor = self.factors_sb.ap([[width, size], [1, count], [0, E + 1]], offset=at)
            nisa.tensor_tensor(dst=parts_sb, data1=product_ps, data2=factor, op=nl.multiply)
        for g in range(count):
            if self.sum_sb == None:
                self.sum_sb = parts_sb[:, g, :]
            else:
                both_sb = nl.ndarray((size, E + 1), dtype=nl.float32, buffer=nl.sbuf)  # [q, E + 1]
                nisa.tensor_tensor(
                    dst=both_sb, data1=self.sum_sb, data2=parts_sb[:, g, :], op=nl.add, engine=nisa.engine.gpsimd
                )
                self.sum_sb = both_sb


class _Shared(nl.NKIObject):
    """Rows of all heads, one behind the other, and how far they are.

    Groups are scored, compared when all of a part are, transposed, multiplied by the values, and summed.
    """

    def __init__(self, alone, pointers, E, dtype, *, lonely, moved):
        longest = _longest(pointers)
        self.most = longest if longest <= SHORT else CUT
        self.share = moved
        if moved == 0:
            self.share = MOVED_LONG if longest > SHORT else MOVED_ALONE if alone else MOVED
        # trn1 has one kind of queue for a DMA; from trn2 on its engines transpose 16-bit numbers.
        first = nisa.get_nc_version() == nisa.nc_version.gen2
        self.queue = "static" if first else "scalar"
        if first or dtype not in (nl.bfloat16, nl.float16):
            self.share = 0
        self.ring = _Ring(self.most, E, dtype, self.share)
        self.lonely = lonely
        self.index = 0
        self.scored = Queue()
        self.complete = Queue()
        self.transposed = Queue()
        self.multiplied = []
        self.summed = Queue()

    def head(self, out_hbm, top_all, inverse_all, queries, keys, *, values, masks, last):
        """Start all rows of one head: top is the negated largest score of each query, inverse that of the sum."""
        pointers = masks[2]
        Q, E = out_hbm.shape
        for i in range(len(pointers) - 1):
            size, count = min(P_MAX, Q - i * P_MAX), pointers[i + 1] - pointers[i]
            rows = out_hbm[i * P_MAX : i * P_MAX + size, 0:E]
            if count == 0:
                zero_sb = nl.ndarray((size, E), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [q, E]
                nisa.memset(dst=zero_sb, value=0.0)
                move(rows, zero_sb, "static")
            else:
                q_sb = queries.columns(i * P_MAX, i * P_MAX + size)
                # Groups of about one size.
                groups = tiles(count, -(-count // -(-count // self.most)))
                part = None
                for some in tiles(len(groups), PART):
                    sums = (top_all[0:size, i : i + 1], inverse_all[0:size, i : i + 1])
                    part = _Part(rows, sums[0], sums[1], groups=some.size, before=part, last=some.stop == len(groups))
                    # All else waits for the last two rows of all, and the DMA engines take longer.
                    late = last and i >= len(pointers) - 3 and part.alone
                    for w in groups[some.span]:
                        span = slice(pointers[i] + w.start, pointers[i] + w.stop)
                        self._score(
                            part, w.index - some.start, span, q_sb, keys=keys, values=values, masks=masks, late=late
                        )

    def _score(self, part, index, span, q_sb, *, keys, values, masks, late):
        """Compute the scores of a group and their exponentials."""
        identity_sb, hidden_sb, _, columns, slots = masks
        size, total = part.out_hbm.shape[0], keys.width(columns[span])
        parts_ps = self.ring.scores(size, total)
        _score_blocks(parts_ps, q_sb, keys, identity_sb, hidden_sb, columns=columns[span], slots=slots[span])
        self.advance(TRANSPOSED, WEIGHTED)
        top_sb = part.tops_sb[:, part.first + index : part.first + index + 1]
        _largest(top_sb, parts_ps, self.lonely)
        weights_sb = nl.ndarray((size, total), dtype=part.out_hbm.dtype, buffer=nl.sbuf)  # [q, k]
        at = 0
        for part_ps in parts_ps:
            width = part_ps.shape[1]
            nisa.activation(dst=weights_sb[:, at : at + width], op=nl.exp, data=part_ps, bias=top_sb)
            at += width
        moved = [] if late else _move_blocks(weights_sb, self.index, self.share)
        self.index += 1
        if index == part.groups - 1:
            self.complete.put(part)
        self.scored.put((weights_sb, moved, values, columns[span], part))

    def advance(self, transposed, weighted):
        """Advance earlier groups until at most ``transposed`` wait to be transposed and ``weighted`` after that."""
        if self.summed.count() > 0:
            self._close(self.summed.take())
        if self.scored.count() >= transposed and self.scored.count() > 0:
            weights_sb, held, values, columns, part = self.scored.take()
            held = _transposed_blocks(weights_sb, held, self.ring, self.share == 0)
            self.transposed.put((held, values, columns, part))
        if self.transposed.count() >= weighted and self.transposed.count() > 0:
            self._weigh(self.transposed.take())
        if self.complete.count() > 0:
            part = self.complete.take()
            part.compare()

    def finish(self):
        """Complete all rows."""
        while self.complete.count() > 0:
            part = self.complete.take()
            part.compare()
        while self.scored.count() > 0:
            self.advance(0, 0)
        while self.transposed.count() > 0:
            self.advance(0, 0)
        self._empty()
        while self.summed.count() > 0:
            self._close(self.summed.take())

    def _weigh(self, group):
        """Multiply the weights of a group by the values and a column of ones."""
        held, values, columns, part = group
        size = part.out_hbm.shape[0]
        # What leaves PSUM together is of one size: rows of one group each, or groups of one part.
        if part.done == 0 and (size < P_MAX or not part.alone):
            self._empty()
        product_ps = self.ring.product(size, len(self.multiplied))
        for b in range(len(held)):
            nisa.nc_matmul(dst=product_ps, stationary=held[b], moving=values.block(columns[b]), accumulate=b > 0)
        part.done += 1
        self.multiplied.append(part)
        complete = part.done == part.groups and (size < P_MAX or not part.alone)
        if complete or len(self.multiplied) == self.ring.batch:
            self._empty()

    def _empty(self):
        """Take the products out of PSUM."""
        if len(self.multiplied) > 0:
            part = self.multiplied[0]
            if part.alone:
                self._divide()
            else:
                size, E = part.out_hbm.shape
                part.add(self.ring.whole(size, len(self.multiplied), E), len(self.multiplied))
                if part.last and part.done == part.groups:
                    self.summed.put(part)
        self.multiplied = []

    def _invert(self, inverse_sb, sums):
        """Invert sums. A sum is at least about 1, that of a query that keeps nothing 0: it becomes 0.5."""
        if self.lonely:
            nisa.tensor_scalar(dst=inverse_sb, data=sums, op0=nl.maximum, operand0=0.5)
            nisa.reciprocal(dst=inverse_sb, data=inverse_sb)
        else:
            nisa.reciprocal(dst=inverse_sb, data=sums)

    def _close(self, part):
        """Divide the sum of a row of several groups, and store it."""
        size, E = part.out_hbm.shape
        inverse_sb = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [q, 1]
        self._invert(inverse_sb, part.sum_sb[:, E : E + 1])
        out_sb = nl.ndarray((size, E), dtype=part.out_hbm.dtype, buffer=nl.sbuf)  # [q, E]
        factor, engine = inverse_sb.ap([[1, size], [0, E]]), nisa.engine.gpsimd
        nisa.tensor_tensor(dst=out_sb, data1=part.sum_sb[:, 0:E], data2=factor, op=nl.multiply, engine=engine)
        move(part.out_hbm, out_sb, "static")
        nisa.tensor_copy(dst=part.inverse_sb, src=inverse_sb, engine=engine)

    def _divide(self):
        """Divide the rows that wait for it, and store them."""
        count = len(self.multiplied)
        size, E = self.multiplied[0].out_hbm.shape
        product_ps, sums_ps = self.ring.products(size, count, E)
        inverse_sb = nl.ndarray((size, count), dtype=nl.float32, buffer=nl.sbuf)  # [q, r]
        self._invert(inverse_sb, sums_ps)
        factor = inverse_sb.ap([[count, size], [1, count], [0, E]])
        out_sb = nl.ndarray((size, count, E), dtype=self.multiplied[0].out_hbm.dtype, buffer=nl.sbuf)  # [q, r, E]
        nisa.tensor_tensor(dst=out_sb, data1=product_ps, data2=factor, op=nl.multiply)
        for r in range(count):
            part = self.multiplied[r]
            # Rows that lie together in HBM travel together, those of several blocks would not.
            # Two queues issue them by turns.
            move(part.out_hbm, out_sb[:, r, :], "static" if r % 2 == 0 else self.queue)
            nisa.tensor_copy(dst=part.inverse_sb, src=inverse_sb[:, r : r + 1], engine=nisa.engine.gpsimd)
