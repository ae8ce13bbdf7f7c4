"""out[H, Q, E] = softmax(qT[H, D, Q].T @ kT[G, D, K] over kept pairs) @ v[G, K, E], and the logarithm of the sums.

The scores of a row of blocks fill up to three tiles of a PSUM bank; the row is finished there when it is no longer, and
otherwise goes on by online softmax. Partial blocks get their inside added by a product with the identity. Weights are
transposed by the Tensor Engine for the product with v; for 16-bit operands `_shared` shares that with the DMA engines.
The pattern is known when the kernel is compiled; ``lonely`` says that some query keeps no key. Bound by the Vector and
Scalar Engines.
"""

from trnsci.nki import (
    N_TILE,
    P_MAX,
    PSUM_BANK_BYTES,
    WARM,
    Axis,
    Queue,
    Tile,
    elementwise,
    filled,
    load,
    mine,
    move,
    multiply_add,
    nisa,
    nki,
    nl,
    store,
    tiles,
    warm_up,
)
from trnsparse.kernels._attention import FLOOR, _identity, _largest, _Rows, _score_blocks, _TransposedHead
from trnsparse.kernels._shared import _fits, _Shared

WIDE = 3 * N_TILE
# Groups of key blocks whose weights wait to be transposed: where every row is one group, and elsewhere.
DEPTH = 3
ONLINE = 2
# Bytes of SBUF in each partition that the keys and values of one head may take to stay.
RESIDENT = 64 * 1024
# Loads of what stays.
PIECES = 4
# Bytes of SBUF in each partition for the sums of some heads.
TABLES = 8 * 1024
AXES = (Axis(1, {"qT_hbm": 0, "kT_hbm": 0, "v_hbm": 0}, (0, 0)),)

# What a search may choose: of eighteen blocks how many DMA engines transpose (0: by the length of rows), warming up.
CHOICES = {"moved": (0, 10, 12, 14, 16, 17), "warm": WARM}


@nki.jit
def attention(qT_hbm, kT_hbm, v_hbm, hidden_hbm, pointers=(), columns=(), slots=(), lonely=True, moved=0, warm=WARM[1]):
    H, D, Q = qT_hbm.shape
    G, K, E = v_hbm.shape
    group = H // G
    out_hbm = nl.ndarray((H, Q, E), dtype=v_hbm.dtype, buffer=nl.shared_hbm)  # [H, Q, E]
    rows = len(pointers) - 1
    lse_hbm = nl.ndarray((H, P_MAX, rows), dtype=nl.float32, buffer=nl.shared_hbm)  # [H, p, n]
    identity_sb = _identity(hidden_hbm.dtype)
    hidden_sb = load(hidden_hbm, "compiler")  # [p, T * p]
    warm_up(warm)
    _exponentials()
    width = 2 if v_hbm.dtype in (nl.bfloat16, nl.float16) else 4
    keep = (K * len(tiles(D, P_MAX)) + len(tiles(K, P_MAX)) * E) * width <= RESIDENT
    shared = None
    if _fits(pointers, E, v_hbm.dtype, keep):
        shared = _Shared(H == 1 and keep, pointers, E, v_hbm.dtype, lonely=lonely, moved=moved)
    masks = (identity_sb, hidden_sb, pointers, columns, slots)
    # The Scalar Engine changes its table for the logarithms of many heads at once.
    first, last = H, 0
    for some in mine(tiles(H, group)):
        first, last = min(first, some.start), max(last, some.stop)
    for heads in tiles(max(0, last - first), max(1, TABLES // (4 * rows))):
        batch = Tile(heads.index, first + heads.start, heads.size)
        top_sb = nl.ndarray((P_MAX, batch.size * rows), dtype=nl.float32, buffer=nl.sbuf)  # [p, h * n]
        sum_sb = nl.ndarray((P_MAX, batch.size * rows), dtype=nl.float32, buffer=nl.sbuf)  # [p, h * n]
        nisa.memset(dst=top_sb, value=FLOOR)
        nisa.memset(dst=sum_sb, value=1.0)
        for h in range(batch.start, batch.stop):
            if h % group == 0:
                keys = _TransposedHead(kT_hbm, h // group, keep, PIECES)
                values = _Rows(v_hbm, h // group, keep, PIECES, shared != None)
            queries = _TransposedHead(qT_hbm, h, Q * len(tiles(D, P_MAX)) * width <= RESIDENT // 2, PIECES)
            # The first row needs the first piece of each, and begins when it is there.
            for piece in range(PIECES):
                if h % group == 0:
                    keys.fetch(piece)
                queries.fetch(piece)
                if h % group == 0:
                    values.fetch(piece)
            own = slice((h - batch.start) * rows, (h - batch.start + 1) * rows)
            if shared != None:
                sums = (top_sb[:, own], sum_sb[:, own])
                shared.head(out_hbm[h], sums[0], sums[1], queries, keys, values=values, masks=masks, last=h == last - 1)
            else:
                _head(
                    out_hbm[h], top_sb[:, own], sum_sb[:, own], queries, keys, values=values, masks=masks, lonely=lonely
                )
        if shared != None:
            shared.finish()
        _logarithms(lse_hbm, batch, top_sb, sum_sb, shared != None)
    return out_hbm, lse_hbm


def _logarithms(lse_hbm, batch, top_sb, sum_sb, inverse):
    """Store the logarithms of the sums less top of some heads.

    Shared rows bring inverse sums. Those of the last two come when the Scalar Engine has nothing else to do, so that
    its table is there when they do.
    """
    rows, total = lse_hbm.shape[2], top_sb.shape[1]
    lse_sb = nl.ndarray((P_MAX, total), dtype=nl.float32, buffer=nl.sbuf)  # [p, h * n]
    early = max(0, total - 2) if inverse else 0
    for part in (slice(0, early), slice(early, total)):
        if part.start < part.stop:
            log_sb = nl.ndarray((P_MAX, part.stop - part.start), dtype=nl.float32, buffer=nl.sbuf)  # [p, h * n]
            nisa.activation(dst=log_sb, op=nl.log, data=sum_sb[:, part])
            nisa.scalar_tensor_tensor(
                dst=lse_sb[:, part],
                data=log_sb,
                op0=nl.multiply,
                operand0=-1.0 if inverse else 1.0,
                op1=nl.subtract,
                operand1=top_sb[:, part],
            )
    for h in range(batch.size):
        move(lse_hbm[batch.start + h], lse_sb[:, h * rows : (h + 1) * rows], "static")


def _exponentials():
    """Have the Scalar Engine load its table while the first operands are on their way."""
    one_sb = filled((P_MAX, 1), 0.0)  # [p, 1]
    nisa.activation(dst=one_sb, op=nl.exp, data=one_sb)


def _head(out_hbm, top_all, sum_all, queries, keys, *, values, masks, lonely):
    """Compute all rows of one head: top is each query's negated largest score, sum that of its exponentials."""
    identity_sb, hidden_sb, pointers, columns, slots = masks
    Q, E = out_hbm.shape
    waiting, transposed = Queue(), Queue()
    acc = None
    depth = DEPTH
    for i in range(len(pointers) - 1):
        if pointers[i + 1] - pointers[i] > WIDE // P_MAX:
            depth = ONLINE
    for i in range(len(pointers) - 1):
        here = slice(i * P_MAX, min((i + 1) * P_MAX, Q))
        size = min(P_MAX, Q - i * P_MAX)
        # Tiles of their own, collected at the end of the row: a row must not wait for the columns of another.
        top_sb = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [q, 1]
        sum_sb = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [q, 1]
        q_sb = queries.columns(i * P_MAX, min((i + 1) * P_MAX, Q))
        groups = tiles(pointers[i + 1] - pointers[i], WIDE // P_MAX)
        if len(groups) == 0:
            zero_sb = nl.ndarray((size, E), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [q, E]
            nisa.memset(dst=zero_sb, value=0.0)
            store(out_hbm[here, 0:E], zero_sb)
        for w in groups:
            span = slice(pointers[i] + w.start, pointers[i] + w.stop)
            parts_ps, spare_ps = _scores(
                q_sb, keys, identity_sb, hidden_sb, columns=columns[span], slots=slots[span], E=E
            )
            # Engines run in order: weights are transposed groups later and multiplied one later still, so that none
            # waits for another, and before the softmax of this group, so that their PSUM is free first.
            if transposed.count() > 0:
                acc = _weighted(acc, transposed.take(), values, E, spare_ps)
            if waiting.count() >= depth:
                transposed.put(_transposed_group(waiting.take()))
            weights_sb, factor_sb = _softmax(
                parts_ps, top_sb, sum_sb, first=w.index == 0, lonely=lonely, dtype=out_hbm.dtype
            )
            done = None
            if w.index == len(groups) - 1:
                done = (out_hbm[here, 0:E], sum_sb, sum_all[0:size, i : i + 1], lonely)
                nisa.tensor_copy(dst=top_all[0:size, i : i + 1], src=top_sb, engine=nisa.engine.gpsimd)
            waiting.put((weights_sb, factor_sb, columns[span], done))
    while waiting.count() > 0:
        transposed.put(_transposed_group(waiting.take()))
        acc = _weighted(acc, transposed.take(), values, E, None)
    while transposed.count() > 0:
        acc = _weighted(acc, transposed.take(), values, E, None)


def _scores(q_sb, keys, identity_sb, hidden_sb, *, columns, slots, E):
    """Score a query block with some key blocks, a bank at a time; return what the last bank has left, too."""
    total = keys.width(columns)
    spare_ps = None
    parts_ps = []
    for w in tiles(total, N_TILE):
        spare = E if w.stop == total and w.size < N_TILE and w.size + E <= N_TILE else 0
        bank_ps = nl.ndarray((q_sb[0].shape[1], w.size + spare), dtype=nl.float32, buffer=nl.psum)  # [q, k + E]
        parts_ps.append(bank_ps[:, 0 : w.size])
        if spare > 0:
            spare_ps = bank_ps[:, w.size : w.size + E]
    _score_blocks(parts_ps, q_sb, keys, identity_sb, hidden_sb, columns=columns, slots=slots)
    return parts_ps, spare_ps


def _exponentials_of(parts_ps, top_sb, sum_sb, dtype):
    """Return the exponentials below the largest score, and their sum."""
    size, total = parts_ps[0].shape[0], 0
    for part_ps in parts_ps:
        total += part_ps.shape[1]
    weights_sb = nl.ndarray((size, total), dtype=dtype, buffer=nl.sbuf)  # [q, k]
    sums_sb = sum_sb
    if len(parts_ps) > 1:
        sums_sb = nl.ndarray((size, len(parts_ps)), dtype=nl.float32, buffer=nl.sbuf)  # [q, n]
    at = 0
    for n in range(len(parts_ps)):
        part_ps = parts_ps[n]
        width = part_ps.shape[1]
        nisa.activation_reduce(
            dst=weights_sb[:, at : at + width],
            op=nl.exp,
            data=part_ps,
            bias=top_sb,
            reduce_op=nl.add,
            reduce_res=sums_sb[:, n : n + 1],
        )
        at += width
    if len(parts_ps) > 1:
        nisa.tensor_reduce(dst=sum_sb, op=nl.add, data=sums_sb, axis=1)
    return weights_sb


def _softmax(parts_ps, top_sb, sum_sb, *, first, lonely, dtype):
    """Return exponentials below the largest score so far, and by how much earlier ones shrink."""
    size = sum_sb.shape[0]
    if first:
        _largest(top_sb, parts_ps, lonely)
        return _exponentials_of(parts_ps, top_sb, sum_sb, dtype), None
    best_sb = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [q, 1]
    _largest(best_sb, parts_ps, False)
    nisa.tensor_tensor(dst=best_sb, data1=best_sb, data2=top_sb, op=nl.minimum)
    drop_sb = elementwise(best_sb, top_sb, nl.subtract)  # [q, 1]
    nisa.tensor_copy(dst=top_sb, src=best_sb)
    factor_sb = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [q, 1]
    nisa.activation(dst=factor_sb, op=nl.exp, data=drop_sb)
    part_sb = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [q, 1]
    weights_sb = _exponentials_of(parts_ps, best_sb, part_sb, dtype)
    multiply_add(sum_sb, sum_sb, factor_sb, part_sb)
    return weights_sb, factor_sb


def _transposed_group(waiting):
    """Return a group's weights with keys in the partitions: for each block which tile holds it, and where."""
    weights_sb, factor_sb, columns, done = waiting
    size, total = weights_sb.shape
    bank = PSUM_BANK_BYTES // 2 if weights_sb.dtype in (nl.bfloat16, nl.float16) else PSUM_BANK_BYTES // 4
    blocks = tiles(total, P_MAX)
    # The short bank first: the Vector Engine empties it at once, and the scores of the next group find room.
    first = len(blocks) % (bank // P_MAX)
    held = []
    for n in tiles(first, bank // P_MAX) + tiles(len(blocks) - first, bank // P_MAX):
        start = len(held)
        transposed_ps = nl.ndarray((P_MAX, n.size, size), dtype=weights_sb.dtype, buffer=nl.psum)  # [k, b, q]
        transposed_sb = nl.ndarray((P_MAX, n.size, size), dtype=weights_sb.dtype, buffer=nl.sbuf)  # [k, b, q]
        full = 0
        for b in range(n.size):
            block = blocks[start + b]
            nisa.nc_transpose(dst=transposed_ps[0 : block.size, b, 0:size], data=weights_sb[:, block.span])
            held.append(transposed_sb[0 : block.size, b, 0:size])
            full += 1 if block.size == P_MAX else 0
        # The Scalar Engine copies what brings it level with the Vector Engine, which finds the largest scores.
        cut = full if factor_sb != None else full // 2 if full > 2 else 0
        if cut > 0:
            nisa.activation(dst=transposed_sb[:, 0:cut, :], op=nl.copy, data=transposed_ps[:, 0:cut, :])
        if full > cut:
            nisa.tensor_copy(
                dst=transposed_sb[:, cut:full, :], src=transposed_ps[:, cut:full, :], engine=nisa.engine.vector
            )
        if full < n.size:
            rest = blocks[len(blocks) - 1].size
            nisa.tensor_copy(dst=transposed_sb[0:rest, full, :], src=transposed_ps[0:rest, full, :])
    return held, size, factor_sb, columns, done


def _weighted(acc, transposed, values, E, spare_ps):
    """Add the product of weights and values to a row; divide by the sum and store where the row is complete."""
    held, size, factor_sb, columns, done = transposed
    if spare_ps != None and spare_ps.shape[0] >= size:
        product = spare_ps[0:size, 0:E]
    else:
        product = nl.ndarray((size, E), dtype=nl.float32, buffer=nl.psum)  # [q, E]
    for b in range(len(held)):
        nisa.nc_matmul(dst=product, stationary=held[b], moving=values.block(columns[b]), accumulate=b > 0)
    if factor_sb != None:
        both_sb = nl.ndarray((size, E), dtype=nl.float32, buffer=nl.sbuf)  # [q, E]
        multiply_add(both_sb, acc, factor_sb, product)
        product = both_sb
    elif done == None:
        # The next product is in PSUM too, and an instruction reads one operand from there.
        acc_sb = nl.ndarray((size, E), dtype=nl.float32, buffer=nl.sbuf)  # [q, E]
        nisa.tensor_copy(dst=acc_sb, src=product)
        product = acc_sb
    if done != None:
        to_hbm, sum_sb, kept_sb, lonely = done
        # A sum is at least 1, that of a query that keeps nothing 0: it becomes 0.5, and the result 0.
        if lonely:
            nisa.tensor_scalar(dst=sum_sb, data=sum_sb, op0=nl.maximum, operand0=0.5)
        nisa.tensor_copy(dst=kept_sb, src=sum_sb, engine=nisa.engine.gpsimd)
        inverse_sb = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [q, 1]
        nisa.reciprocal(dst=inverse_sb, data=sum_sb)
        out_sb = nl.ndarray((size, E), dtype=to_hbm.dtype, buffer=nl.sbuf)  # [q, E]
        nisa.tensor_scalar(dst=out_sb, data=product, op0=nl.multiply, operand0=inverse_sb)
        store(to_hbm, out_sb)
    return product
