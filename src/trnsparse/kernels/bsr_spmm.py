"""out[M, N] = a[M, K] @ b[K, N], a in blocks: one matmul for each stored block, nothing for the others.

``tiles_hbm`` [k, T * height] holds the transposed blocks side by side, so that one DMA brings several. ``chunks`` is
the pattern, known when the kernel is compiled: for each block row, for each tile, the runs of rows of b it meets. Rows
of b that some block meets lie in SBUF, several tiles to a DMA and loaded when first met, as long as they fit; rows of
the result leave several blocks to a DMA. Bound by the Tensor Engine in fp32 and, from four blocks in a block row on, in
bf16.
"""

from trnsci.nki import K_TILE, M_TILE, N_TILE, P_MAX, jit, load, nisa, nl, store, tiles

# Bytes of SBUF in each partition: all of b in one column tile may take so much to stay, one load of blocks so much,
# one load of b or store of the result so much.
RESIDENT = 1 << 17
GROUP = 6 * 1024
RUN = 4 * 1024


@jit
def bsr_spmm(tiles_hbm, b_hbm, rows=0, height=0, chunks=()):
    K, N = b_hbm.shape
    out_hbm = nl.ndarray((rows, N), dtype=b_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    width = 2 if b_hbm.dtype in (nl.bfloat16, nl.float16) else 4
    keep = len(tiles(K, K_TILE)) * min(N, N_TILE) * width <= RESIDENT
    run = max(1, RUN // (min(N, N_TILE) * width))
    for n in tiles(N, N_TILE):
        held = _Held(b_hbm, n, _met(chunks, K) if keep else [], run)
        _columns(out_hbm, tiles_hbm, b_hbm, n, height, chunks, held, max(1, GROUP // (height * width)), run)
    return out_hbm


def _met(chunks, K):
    """For each whole tile of rows of b, whether some block meets it."""
    met = [False] * (K // K_TILE)
    for row in chunks:
        for chunk in row:
            for piece in chunk:
                if piece[0] % K_TILE == 0 and piece[0] // K_TILE < len(met):
                    met[piece[0] // K_TILE] = True
    return met


class _Blocks(nl.NKIObject):
    """The blocks in the order of their use, many to a DMA: the first few alone, then half a group ahead."""

    def __init__(self, tiles_hbm, height, group):
        self.tiles_hbm = tiles_hbm
        self.height = height
        self.group = group
        self.first = max(1, group // 4)
        self.number = -1
        self.now_sb = None
        self.next_sb = self._load(0)

    def _start(self, number):
        return 0 if number == 0 else self.first + (number - 1) * self.group

    def _load(self, number):
        depth, total = self.tiles_hbm.shape
        start, stop = self._start(number) * self.height, min(self._start(number + 1) * self.height, total)
        return load(self.tiles_hbm[0:depth, start:stop]) if start < total else None  # [k, g * height]

    def at(self, place):
        """The group that holds block ``place``, and where in it the block begins."""
        number = 0 if place < self.first else 1 + (place - self.first) // self.group
        if number != self.number:
            self.number = number
            self.now_sb = self.next_sb if self.next_sb is not None else self._load(number)
            self.next_sb = None
        # Not sooner: at the start rows of b are wanted more.
        if place == (self._start(number) + self._start(number + 1)) // 2:
            self.next_sb = self._load(number + 1)
        return self.now_sb, (place - self._start(number)) * self.height


class _Held(nl.NKIObject):
    """Rows of b that stay: tiles that follow each other and are met at all come in one DMA, when first asked for."""

    def __init__(self, b_hbm, n, met, run):
        self.b_hbm = b_hbm
        self.n = n
        self.met = met
        self.run = run
        self.kept = [None] * len(met)

    def tile(self, place):
        """The rows of tile ``place``, or None where they do not stay."""
        if place >= len(self.met):
            return None
        if self.kept[place] is None:
            last = place + 1
            while last < len(self.met) and last - place < self.run and self.met[last] and self.kept[last] is None:
                last += 1
            N, count = self.b_hbm.shape[1], last - place
            rows_sb = nl.ndarray((P_MAX, count, self.n.size), dtype=self.b_hbm.dtype, buffer=nl.sbuf)  # [k, t, n]
            rows = self.b_hbm.ap(
                [[N, P_MAX], [K_TILE * N, count], [1, self.n.size]], offset=place * K_TILE * N + self.n.start
            )
            nisa.dma_copy(dst=rows_sb, src=rows)
            for t in range(count):
                self.kept[place + t] = rows_sb[:, t, 0 : self.n.size]
        return self.kept[place]


def _columns(out_hbm, tiles_hbm, b_hbm, n, height, chunks, held, group, run):
    """One column tile of the result."""
    depth = tiles_hbm.shape[0]
    at = 0
    blocks = _Blocks(tiles_hbm, height, group)
    # Whole block rows of the native height leave together; the last few alone, so that the end does not wait for them.
    whole = out_hbm.shape[0] // P_MAX if height == P_MAX else 0
    out_sb = None
    for i in range(len(chunks)):
        size = min(height, out_hbm.shape[0] - i * height)
        met = False
        c_ps = []
        for m in tiles(size, M_TILE):
            c_ps.append(nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum))  # [m, n]
        for chunk in chunks[i]:
            a_sb, first = blocks.at(at)
            if len(chunk) > 0:
                b_sb, k = _moving(b_hbm, chunk, held, n, depth)
                for m in tiles(size, M_TILE):
                    nisa.nc_matmul(
                        dst=c_ps[m.index],
                        stationary=a_sb[0:k, first + m.start : first + m.stop],
                        moving=b_sb[0:k, 0 : n.size],
                        accumulate=met,
                    )
                met = True
            at += 1
        if i < whole - whole % run - run:
            if i % run == 0:
                out_sb = nl.ndarray((P_MAX, run, n.size), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [m, r, n]
            if met:
                nisa.tensor_copy(dst=out_sb[:, i % run, :], src=c_ps[0])
            else:
                nisa.memset(dst=out_sb[:, i % run, :], value=0.0)
            if i % run == run - 1:
                N = out_hbm.shape[1]
                rows = out_hbm.ap(
                    [[N, P_MAX], [P_MAX * N, run], [1, n.size]], offset=(i - run + 1) * P_MAX * N + n.start
                )
                nisa.dma_copy(dst=rows, src=out_sb)
        else:
            _finish(out_hbm, c_ps, i * height, size, n, met)


def _finish(out_hbm, c_ps, start, size, n, met):
    """Store the rows of one block row."""
    for m in tiles(size, M_TILE):
        here = slice(start + m.start, start + m.stop)
        if met:
            store(out_hbm[here, n.span], c_ps[m.index])
        else:
            zero_sb = nl.ndarray((m.size, n.size), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [m, n]
            nisa.memset(dst=zero_sb, value=0.0)
            store(out_hbm[here, n.span], zero_sb)


def _moving(b_hbm, chunk, held, n, depth):
    """The rows of b one tile meets, stacked over the partitions, and how many."""
    start, k = chunk[0]
    if len(chunk) == 1 and start % K_TILE == 0:
        kept = held.tile(start // K_TILE)
        if kept is not None:
            return kept, k
    b_sb = nl.ndarray((depth, n.size), dtype=b_hbm.dtype, buffer=nl.sbuf)  # [k, n]
    k = 0
    for run in chunk:
        nisa.dma_copy(dst=b_sb[k : k + run[1], 0 : n.size], src=b_hbm[run[0] : run[0] + run[1], n.span])
        k += run[1]
    return b_sb, k
