"""out[M, N] = a[M, K] @ b[K, N], a in blocks: one matmul for each stored block, nothing for the others.

``tiles_hbm`` [k, T * height] holds the transposed blocks side by side in the order of their use, so that one DMA brings
several. ``steps`` is the pattern, known when the kernel is compiled: for each tile, in the order of use, its block row
and the runs of rows of b it meets. Rows of b stay in SBUF once met, as long as they fit; rows of the result leave late
and in bursts, so that what is still to be multiplied comes first. Bound by the Tensor Engine, or by the DMA of b and
the result where a block row has few blocks.
"""

from trnsci.nki import (
    K_TILE,
    M_TILE,
    N_TILE,
    PSUM_BANKS,
    QUEUES,
    WARM,
    Axis,
    Queue,
    load,
    mine,
    move,
    nisa,
    nki,
    nl,
    store,
    tiles,
    warm_up,
)

# Bytes of SBUF in each partition: b in one panel of columns may take so much to stay, one load of blocks so much, rows
# of the result that wait to leave so much.
RESIDENT = 1 << 17
GROUP = 4 * 1024
WAITING = 32 * 1024
AXES = (Axis(N_TILE, {"b_hbm": 1}, (1,)),)
# What a search may choose: products of zeros, and who takes every other load of b and every other row of the result.
CHOICES = {"warm": WARM, "loads": QUEUES, "stores": QUEUES}


@nki.jit
def bsr_spmm(tiles_hbm, b_hbm, rows=0, height=0, steps=(), warm=WARM[1], loads="compiler", stores="compiler"):
    K, N = b_hbm.shape
    out_hbm = nl.ndarray((rows, N), dtype=b_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    width = 2 if b_hbm.dtype in (nl.bfloat16, nl.float16) else 4
    deep = len(tiles(K, K_TILE)) * width
    # Half a panel costs a second load of the blocks, which is less than a load of b for each of them.
    wide = N_TILE if deep * min(N, N_TILE) <= RESIDENT or deep * N_TILE // 2 > RESIDENT else N_TILE // 2
    keep = deep * min(N, wide) <= RESIDENT
    warm_up(warm)
    for n in mine(tiles(N, wide)):
        held = _Held(b_hbm, n, K // K_TILE if keep else 0, loads)
        # Taller blocks than PSUM has banks for are taken in slabs.
        for h in tiles(height, (PSUM_BANKS - 1) * M_TILE):
            _panel(
                out_hbm,
                tiles_hbm,
                b_hbm,
                n=n,
                height=height,
                h=h,
                steps=steps,
                held=held,
                width=width,
                stores=stores,
            )
    return out_hbm


class _Blocks(nl.NKIObject):
    """The blocks in the order of their use, many to a DMA: one, then each time four times as many up to ``group``."""

    def __init__(self, tiles_hbm, height, group):
        self.tiles_hbm = tiles_hbm
        self.height = height
        self.group = group
        self.start = 0
        self.stop = 0
        self.count = 1
        self.now_sb = None

    def at(self, index):
        """Return the group that holds block ``index``, and where in it the block begins; indices must rise."""
        depth, total = self.tiles_hbm.shape
        if index >= self.stop:
            while index >= self.stop:
                self.start = self.stop
                self.stop = min(self.stop + self.count, total // self.height)
                self.count = min(4 * self.count, self.group)
            self.now_sb = load(self.tiles_hbm[0:depth, self.start * self.height : self.stop * self.height], "static")
        return self.now_sb, (index - self.start) * self.height  # [k, g * height]


class _Held(nl.NKIObject):
    """Whole tiles of rows of b, which stay once they are met. Two queues take turns: one issues too slowly."""

    def __init__(self, b_hbm, n, count, queue):
        self.b_hbm = b_hbm
        self.n = n
        self.kept = [None] * count
        self.queue = queue
        self.count = 0

    def tile(self, index):
        """Return the rows of tile ``index``, or None where they do not stay."""
        if index >= len(self.kept):
            return None
        if self.kept[index] == None:
            rows = self.b_hbm[index * K_TILE : (index + 1) * K_TILE, self.n.span]
            self.kept[index] = load(rows, "static") if self.count % 2 == 0 else load(rows, self.queue)  # [k, n]
            self.count += 1
        return self.kept[index]


class _Results(nl.NKIObject):
    """Rows of the result on their way out.

    Half of those that wait leave at once, issued by two queues: reading and writing HBM by turns is slower than either.
    """

    def __init__(self, out_hbm, n, limit, queue):
        self.out_hbm = out_hbm
        self.n = n
        self.limit = limit
        self.queue = queue
        self.waiting = Queue()
        self.count = 0

    def add(self, start, size, c_ps):
        """Append the sums of ``size`` rows from ``start`` on."""
        for m in tiles(size, M_TILE):
            c_sb = nl.ndarray((m.size, self.n.size), dtype=self.out_hbm.dtype, buffer=nl.sbuf)  # [m, n]
            nisa.tensor_copy(dst=c_sb, src=c_ps[m.index])
            self.waiting.put((start + m.start, c_sb))
        if self.waiting.count() > self.limit:
            self.leave(max(1, self.limit // 2))

    def leave(self, keep):
        """Store all but the last ``keep``."""
        while self.waiting.count() > keep:
            start, c_sb = self.waiting.take()
            rows = self.out_hbm[start : start + c_sb.shape[0], self.n.span]
            self.count += 1
            if keep == 0 or self.count % 2 == 0:
                move(rows, c_sb, "static")
            else:
                store(rows, c_sb, self.queue)


def _panel(out_hbm, tiles_hbm, b_hbm, *, n, height, h, steps, held, width, stores):
    """Compute one panel of columns of the result, the rows ``h`` of each block row."""
    rows = (out_hbm.shape[0] + height - 1) // height
    blocks = _Blocks(tiles_hbm, height, max(1, GROUP // (height * width)))
    results = _Results(out_hbm, n, max(1, WAITING // (n.size * width)), stores)
    left = [0] * rows
    for step in steps:
        left[step[0]] += 1 if len(step[1]) > 0 else 0
    sums = [None] * rows
    for index in range(len(steps)):
        i, pieces = steps[index]
        start = i * height + h.start
        size = min(h.size, out_hbm.shape[0] - start)
        if len(pieces) > 0 and size > 0:
            a_sb, first = blocks.at(index)
            b_sb, k = _moving(b_hbm, pieces, held, n, tiles_hbm.shape[0])
            opened = sums[i] != None
            if not opened:
                sums[i] = _room(size, n.size)
            for m in tiles(size, M_TILE):
                nisa.nc_matmul(
                    dst=sums[i][m.index],
                    stationary=a_sb[0:k, first + h.start + m.start : first + h.start + m.stop],
                    moving=b_sb[0:k, 0 : n.size],
                    accumulate=opened,
                )
            left[i] -= 1
            if left[i] == 0:
                results.add(start, size, sums[i])
    results.leave(0)
    _zeros(out_hbm, n, height, h, sums)


def _room(size, columns):
    """Allocate PSUM for the sums of some rows."""
    sums = []
    for m in tiles(size, M_TILE):
        sums.append(nl.ndarray((m.size, columns), dtype=nl.float32, buffer=nl.psum))  # [m, n]
    return sums


def _zeros(out_hbm, n, height, h, sums):
    """Store zeros for block rows without sums."""
    zero_sb = None
    for i in range(len(sums)):
        if sums[i] == None:
            if zero_sb == None:
                zero_sb = nl.ndarray((M_TILE, n.size), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [m, n]
                nisa.memset(dst=zero_sb, value=0.0)
            for m in tiles(min(h.size, out_hbm.shape[0] - i * height - h.start), M_TILE):
                first = i * height + h.start + m.start
                move(out_hbm[first : first + m.size, n.span], zero_sb[0 : m.size, :], "static")


def _moving(b_hbm, pieces, held, n, depth):
    """Return the rows of b one tile meets, stacked over the partitions, and how many."""
    start, k = pieces[0]
    if len(pieces) == 1 and start % K_TILE == 0:
        kept = held.tile(start // K_TILE)
        if kept != None:
            return kept, k
    b_sb = nl.ndarray((depth, n.size), dtype=b_hbm.dtype, buffer=nl.sbuf)  # [k, n]
    k = 0
    for run in pieces:
        nisa.dma_copy(dst=b_sb[k : k + run[1], 0 : n.size], src=b_hbm[run[0] : run[0] + run[1], n.span])
        k += run[1]
    return b_sb, k
