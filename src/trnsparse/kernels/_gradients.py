"""Sums of gradients of attention: of keys and values in SBUF, of queries in PSUM and, where they wait, in HBM."""

from trnsci.nki import P_MAX, load, move, nisa, nl, tiles


def _zero(to_hbm):
    """Store zeros."""
    zero_sb = nl.ndarray(to_hbm.shape, dtype=to_hbm.dtype, buffer=nl.sbuf)  # [s, D]
    nisa.memset(dst=zero_sb, value=0.0)
    move(to_hbm, zero_sb, "static")


class _Sum(nl.NKIObject):
    """Gradients of one operand of some key blocks: sums of a few at a time come from PSUM, complete ones go to HBM."""

    def __init__(self, to_hbm, head, first, blocks):
        self.to_hbm = to_hbm
        self.head = head
        self.first = first
        self.width = to_hbm.shape[2]
        self.sum_sb = nl.ndarray((P_MAX, blocks * self.width), dtype=nl.float32, buffer=nl.sbuf)  # [k, b * D]
        self.begun = [False] * blocks

    def add(self, more_ps, chunk, met, last):
        """Add what PSUM has of the key blocks of a chunk; store them when it is the last time."""
        width = self.width
        out_sb = None
        if last:
            out_sb = nl.ndarray((P_MAX, chunk.size * width), dtype=self.to_hbm.dtype, buffer=nl.sbuf)  # [k, b * D]
        b = 0
        while b < chunk.size:
            # Blocks in one state follow each other: one instruction does for all.
            start, begun = b, self.begun[chunk.start - self.first + b]
            rows = self._rows(chunk.start + b)
            b += 1
            while b < chunk.size and self._alike(chunk.start + b, begun, rows) and met[b] == met[start]:
                b += 1
            at = (chunk.start - self.first) * width
            sum_sb = self.sum_sb[0:rows, at + start * width : at + b * width]
            to_sb = out_sb[0:rows, start * width : b * width] if last else sum_sb
            if met[start] and begun:
                more = more_ps[0:rows, start * width : b * width]
                nisa.tensor_tensor(dst=to_sb, data1=sum_sb, data2=more, op=nl.add)
            elif met[start]:
                nisa.tensor_copy(dst=to_sb, src=more_ps[0:rows, start * width : b * width])
            elif last and begun:
                nisa.tensor_copy(dst=to_sb, src=sum_sb)
            elif last:
                nisa.memset(dst=to_sb, value=0.0)
            for n in range(start, b):
                self.begun[chunk.start - self.first + n] = begun or met[start]
        if last:
            self._store(out_sb, chunk)

    def _alike(self, j, begun, rows):
        return self.begun[j - self.first] == begun and self._rows(j) == rows

    def _rows(self, j):
        """Return the rows of block j: the last may have fewer."""
        return min(P_MAX, self.to_hbm.shape[1] - j * P_MAX)

    def _store(self, out_sb, chunk):
        width = self.width
        whole = chunk.size if self._rows(chunk.stop - 1) == P_MAX else chunk.size - 1
        if whole > 0:
            start = (self.head * self.to_hbm.shape[1] + chunk.start * P_MAX) * width
            to_hbm = self.to_hbm.ap([[width, P_MAX], [P_MAX * width, whole], [1, width]], offset=start)
            move(to_hbm, out_sb.ap([[chunk.size * width, P_MAX], [width, whole], [1, width]]), "static")
        if whole < chunk.size:
            rows, start = self._rows(chunk.stop - 1), (chunk.stop - 1) * P_MAX
            last_sb = out_sb[0:rows, whole * width : (whole + 1) * width]
            move(self.to_hbm[self.head, start : start + rows, 0:width], last_sb, "static")


class _KeySums(nl.NKIObject):
    """Gradients of keys and values of one part of the key blocks, and how often a chunk of them will be met."""

    def __init__(self, dk_hbm, dv_hbm, head, part, *, columns, plan, heads):
        self.K = dk_hbm.shape[1]
        self.chunks = tiles(len(tiles(self.K, P_MAX)), columns)
        self.part = part
        first = self.chunks[part.start].start
        blocks = self.chunks[part.stop - 1].stop - first
        self.dk = _Sum(dk_hbm, head, first, blocks)
        self.dv = _Sum(dv_hbm, head, first, blocks)
        self.left = []
        for c in range(len(self.chunks)):
            times = 0
            for line in plan:
                times += heads if len(line[2][c]) > 0 else 0
            self.left.append(times)

    def finish(self):
        """Store zeros for blocks that nothing meets."""
        for c in range(self.part.start, self.part.stop):
            chunk = self.chunks[c]
            if True not in self.dk.begun[chunk.start - self.dk.first : chunk.stop - self.dk.first]:
                start = chunk.start * P_MAX
                for sums in (self.dk, self.dv):
                    for rows in tiles(min(chunk.stop * P_MAX, self.K) - start, P_MAX):
                        here = slice(start + rows.start, start + rows.stop)
                        _zero(sums.to_hbm[sums.head, here, 0 : sums.width])


class _Chunk(nl.NKIObject):
    """Terms that some query blocks add to the gradients of a few key blocks."""

    def __init__(self, sums, index, dv_ps, dk_ps):
        self.sums = sums
        self.index = index
        self.chunk = sums.chunks[index]
        self.dv_ps = dv_ps
        self.dk_ps = dk_ps
        self.met = [False] * self.chunk.size

    def add(self, p_sb, ds_sb, columns, q_sb, do_sb, ends):
        """Add the products of one query block; after the last, add up those of all."""
        sums = self.sums
        for what in ((self.dv_ps, p_sb, do_sb), (self.dk_ps, ds_sb, q_sb)):
            to_ps, pairs_sb, rows_sb = what
            width = rows_sb.shape[1]
            for b in range(len(columns)):
                at = columns[b] - self.chunk.start
                k = min(P_MAX, sums.K - columns[b] * P_MAX)
                nisa.nc_matmul(
                    dst=to_ps[0:k, at * width : (at + 1) * width],
                    stationary=pairs_sb[:, b * P_MAX : b * P_MAX + k],
                    moving=rows_sb,
                    accumulate=self.met[at],
                )
        for j in columns:
            self.met[j - self.chunk.start] = True
        if ends:
            sums.left[self.index] -= 1
            last = sums.left[self.index] == 0
            sums.dv.add(self.dv_ps, self.chunk, self.met, last)
            sums.dk.add(self.dk_ps, self.chunk, self.met, last)


class _QuerySums(nl.NKIObject):
    """Gradients of some query blocks, over one part of the key blocks."""

    def __init__(self, dq_hbm, wait_hbm, line, part, parts):
        self.dq_hbm = dq_hbm
        self.wait_hbm = wait_hbm
        self.first = line[0]
        self.size = line[1]
        # Query blocks still to come in this part; whether some came before it, and whether some will come after.
        self.left = 0
        self.total = 0
        self.before = False
        self.after = False
        for c in range(len(line[2])):
            count = len(line[2][c])
            self.total += count
            self.left += count if c >= part.start and c < part.stop else 0
            self.before = self.before or (count > 0 and c < part.start)
            self.after = self.after or (count > 0 and c >= part.stop)
        self.met = [False] * self.size
        self.only = parts == 1 or part.index == 0

    def empty(self):
        """Store zeros where no key is met at all."""
        if self.only:
            for row in range(self.size):
                _zero(self._to(self.dq_hbm, row))

    def _to(self, to_hbm, row):
        i = self.first + row
        return to_hbm[i * P_MAX : min((i + 1) * P_MAX, to_hbm.shape[0]), 0 : to_hbm.shape[1]]

    def add(self, dq_ps, row, held, columns, keys, ends):
        """Add the product of one query block; after the last, store those of all."""
        D, q = self.dq_hbm.shape[1], held[0].shape[1]
        to_ps = dq_ps[0:q, row * D : (row + 1) * D]
        for b in range(len(columns)):
            nisa.nc_matmul(dst=to_ps, stationary=held[b], moving=keys.block(columns[b]), accumulate=self.met[row])
            self.met[row] = True
        if ends:
            for r in range(self.size):
                self._store(dq_ps[:, r * D : (r + 1) * D], r)

    def _store(self, product_ps, row):
        """Store a complete sum; keep one that is not in HBM, and continue from there."""
        to_hbm = self._to(self.wait_hbm if self.after else self.dq_hbm, row)
        total_sb = product_ps[0 : to_hbm.shape[0], :]
        if self.before:
            waited_sb = load(self._to(self.wait_hbm, row), "static")  # [q, D]
            if self.met[row]:
                nisa.tensor_tensor(dst=waited_sb, data1=waited_sb, data2=total_sb, op=nl.add)
            total_sb = waited_sb
        if self.before or self.met[row]:
            out_sb = nl.ndarray(to_hbm.shape, dtype=to_hbm.dtype, buffer=nl.sbuf)  # [q, D]
            nisa.tensor_copy(dst=out_sb, src=total_sb)
            move(to_hbm, out_sb, "static")
        else:
            _zero(to_hbm)
