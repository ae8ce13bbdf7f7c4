"""Gradients of attention: dv = pT do, dk = dsT q, dq = ds k with p = exp(s - lse) and ds = p (do vT - delta).

One walk over the stored blocks, a few query blocks and a few key blocks at a time, so that PSUM holds what they add to
all three gradients. Those of queries are complete when their key blocks are done; those of keys are summed in SBUF, for
as many key blocks as there is room for. Where there are more, sums of queries wait in HBM for the others. The pattern,
for each query block its key blocks and their slots, is known when the kernel is compiled. With ``wide`` gradients of
keys and values are parts of sums, and keep float32. Bound by the Tensor Engine.
"""

from trnsci.nki import (
    N_TILE,
    P_MAX,
    PSUM_BANK_BYTES,
    PSUM_BANKS,
    WARM,
    Axis,
    Queue,
    load,
    my_indices,
    nisa,
    nki,
    nl,
    tiles,
    warm_up,
)
from trnsparse.kernels._attention import _identity, _Rows, _score_blocks, _TransposedHead
from trnsparse.kernels._gradients import _Chunk, _KeySums, _QuerySums
from trnsparse.kernels._ring import _move_blocks, _transposed_blocks

# Bytes of SBUF in each partition for the operands of a head, and for sums of keys and values.
RESIDENT = 150 * 1024
SUMS = 32 * 1024
# Loads of what stays.
PIECES = 4
# Query blocks whose products wait for their gradients of scores to be transposed.
DEPTH = 3
# Of eighteen blocks the DMA engines transpose so many, where they can.
MOVED = 13
AXES = (
    Axis(
        1,
        {
            "qT_hbm": 0,
            "kT_hbm": 0,
            "vT_hbm": 0,
            "doT_hbm": 0,
            "q_hbm": 0,
            "k_hbm": 0,
            "do_hbm": 0,
            "lse_hbm": 0,
            "delta_hbm": 0,
        },
        (0, 0, 0),
        broadcasts=False,
    ),
)

# What a search may choose: blocks of eighteen that the DMA engines transpose, products of zeros.
CHOICES = {"moved": (3, 6, 8, 10, 13, 16), "warm": WARM}


@nki.jit
def attention_backward(
    qT_hbm,
    kT_hbm,
    vT_hbm,
    doT_hbm,
    q_hbm,
    k_hbm,
    do_hbm,
    lse_hbm,
    delta_hbm,
    hidden_hbm,
    pattern=(),
    wide=False,
    moved=MOVED,
    warm=WARM[1],
):
    H, D, Q = qT_hbm.shape
    G, E, K = vT_hbm.shape
    dtype = q_hbm.dtype
    dq_hbm = nl.ndarray((H, Q, D), dtype=dtype, buffer=nl.shared_hbm)  # [H, Q, D]
    kept = nl.float32 if wide else dtype
    dk_hbm = nl.ndarray((G, K, D), dtype=kept, buffer=nl.shared_hbm)  # [G, K, D]
    dv_hbm = nl.ndarray((G, K, E), dtype=kept, buffer=nl.shared_hbm)  # [G, K, E]
    masks = (_identity(hidden_hbm.dtype), load(hidden_hbm, "static"))
    warm_up(warm)
    half = dtype in (nl.bfloat16, nl.float16)
    keep = _bytes(H, Q, K, D, E, 2 if half else 4) <= RESIDENT
    across = N_TILE // P_MAX
    # As many blocks as one bank of PSUM holds gradients of.
    columns = max(1, min(across, N_TILE // max(D, E)))
    plan = _plan(pattern, max(1, min(across, N_TILE // D)), columns, len(tiles(K, P_MAX)))
    most = max(1, SUMS // (4 * (D + E) * columns))
    moved = moved if half and nisa.get_nc_version() != nisa.nc_version.gen2 else 0
    walk = _Walk(dtype, masks, moved)
    parts = tiles(len(tiles(K, P_MAX * columns)), most)
    waiting_hbm = nl.ndarray((H, Q, D), dtype=nl.float32, buffer=nl.hbm) if len(parts) > 1 else None  # [H, Q, D]
    for g in my_indices(G):
        keys = (
            _TransposedHead(kT_hbm, g, keep, PIECES),
            _TransposedHead(vT_hbm, g, keep, PIECES),
            _Rows(k_hbm, g, keep, PIECES),
        )
        for part in parts:
            sums = _KeySums(dk_hbm, dv_hbm, g, part, columns=columns, plan=plan, heads=H // G)
            for h in range(g * (H // G), (g + 1) * (H // G)):
                queries = (_TransposedHead(qT_hbm, h, keep, PIECES), _TransposedHead(doT_hbm, h, keep, PIECES))
                rows = (_Rows(q_hbm, h, keep, PIECES), _Rows(do_hbm, h, keep, PIECES))
                for piece in range(PIECES):
                    loads = [queries[0], queries[1], rows[0], rows[1]]
                    if part.index == 0 and h == g * (H // G):
                        loads = [keys[0], queries[0], keys[1], queries[1], rows[1], rows[0], keys[2]]
                    for operand in loads:
                        operand.fetch(piece)
                head = (queries, rows, load(lse_hbm[h], "static"), load(delta_hbm[h], "static"))
                wait_hbm = waiting_hbm[h] if waiting_hbm != None else None
                for r in range(len(plan)):
                    out = _QuerySums(dq_hbm[h], wait_hbm, plan[r], part, len(parts))
                    walk.rows(plan[r], part, head=head, keys=keys, sums=sums, out=out)
            walk.finish()
            sums.finish()
    return dq_hbm, dk_hbm, dv_hbm


def _bytes(H, Q, K, D, E, width):
    """Return bytes in each partition of the operands of a head, and of the queries of the next."""
    parts = len(tiles(D, P_MAX)) + len(tiles(E, P_MAX))
    keys = parts * K + len(tiles(K, P_MAX)) * D
    queries = parts * Q + len(tiles(Q, P_MAX)) * (D + E)
    return width * (keys + queries * min(2, H))


def _plan(pattern, rows, columns, across):
    """List, for some query blocks and each few key blocks, (query block, key blocks, slots)."""
    plan = []
    for r in tiles(len(pattern), rows):
        line = []
        for c in tiles(across, columns):
            items = []
            for i in range(r.start, r.stop):
                met, slots = [], []
                for pair in pattern[i]:
                    j, slot = pair
                    if j >= c.start and j < c.stop:
                        met.append(j)
                        slots.append(slot)
                if len(met) > 0:
                    items.append((i, met, slots))
            line.append(items)
        plan.append((r.start, r.size, line))
    return plan


class _Walk(nl.NKIObject):
    """Query blocks one behind the other: gradients of scores, and later the products with them."""

    def __init__(self, dtype, masks, moved):
        self.masks = masks
        self.moved = moved
        # Banks of PSUM: two of scores, two of products of do and v, one each of dv, dk, dq and transposed blocks.
        self.banks_ps = []
        for _ in range(PSUM_BANKS - 1):
            self.banks_ps.append(nl.ndarray((P_MAX, N_TILE), dtype=nl.float32, buffer=nl.psum))  # [p, 512]
        width = PSUM_BANK_BYTES // (2 if dtype in (nl.bfloat16, nl.float16) else 4)
        self.transposed_ps = nl.ndarray((P_MAX, width), dtype=dtype, buffer=nl.psum)  # [k, b * q]
        self.index = 0
        self.waiting = Queue()

    def holds(self, whole):
        """Return how many blocks the Tensor Engine transposes at a time."""
        return self.transposed_ps.shape[1] // P_MAX

    def transposed(self, count, whole):
        """Return room for blocks the Tensor Engine transposes."""
        return self.transposed_ps

    def rows(self, line, part, *, head, keys, sums, out):
        """Compute some query blocks and all key blocks of one part."""
        first = line[0]
        for c in range(part.start, part.stop):
            items = line[2][c]
            chunk = _Chunk(sums, c, self.banks_ps[4], self.banks_ps[5])
            for n in range(len(items)):
                i, columns, slots = items[n]
                pairs = self._pairs(i, columns, slots, head, keys)
                out.left -= 1
                ends = (n == len(items) - 1, out.left == 0)
                self.waiting.put((pairs, i, i - first, columns, head[1], keys[2], chunk, out, ends))
                if self.waiting.count() > DEPTH:
                    self._multiply()
        if out.total == 0:
            out.empty()

    def finish(self):
        """Complete all that wait."""
        while self.waiting.count() > 0:
            self._multiply()

    def _pairs(self, i, columns, slots, head, keys):
        """Return weights p and the scores' gradient ds of a query block and some key blocks, and ds transposed."""
        queries, outs = head[0]
        q0, q1 = i * P_MAX, min((i + 1) * P_MAX, queries.x_hbm.shape[2])
        q, total, dtype = q1 - q0, keys[0].width(columns), queries.x_hbm.dtype
        s_ps = self.banks_ps[self.index % 2][0:q, 0:total]
        _score_blocks(
            [s_ps], queries.columns(q0, q1), keys[0], self.masks[0], self.masks[1], columns=columns, slots=slots
        )
        p_sb = nl.ndarray((q, total), dtype=dtype, buffer=nl.sbuf)  # [q, k]
        nisa.activation(dst=p_sb, op=nl.exp, data=s_ps, bias=head[2][0:q, i : i + 1])
        dp_ps = self.banks_ps[2 + self.index % 2][0:q, 0:total]
        none = [-1] * len(slots)
        _score_blocks([dp_ps], outs.columns(q0, q1), keys[1], self.masks[0], self.masks[1], columns=columns, slots=none)
        ds_sb = nl.ndarray((q, total), dtype=dtype, buffer=nl.sbuf)  # [q, k]
        nisa.scalar_tensor_tensor(
            dst=ds_sb, data=dp_ps, op0=nl.subtract, operand0=head[3][0:q, i : i + 1], op1=nl.multiply, operand1=p_sb
        )
        held = _move_blocks(ds_sb, self.index, self.moved) if self.moved > 0 else []
        self.index += 1
        return p_sb, ds_sb, held

    def _multiply(self):
        """Add to the gradients what the oldest waiting query block contributes."""
        pairs, i, row, columns, rows, keys, chunk, out, ends = self.waiting.take()
        p_sb, ds_sb, held = pairs
        held = _transposed_blocks(ds_sb, held, self)
        chunk.add(p_sb, ds_sb, columns, rows[0].block(i), rows[1].block(i), ends[0])
        out.add(self.banks_ps[6], row, held, columns, keys, ends[1])
