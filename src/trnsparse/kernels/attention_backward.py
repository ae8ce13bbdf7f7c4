"""Gradients of attention: dv = pT do, dk = dsT q, dq = ds k with p = exp(s - lse) and ds = p (do vT - delta).

Two walks over the stored blocks, by key block and by query block, so that every gradient is summed in PSUM and nothing
grows with the sequence. Scores are computed anew in both. The pattern is known when the kernel is compiled; ``turned``
lists, for each key block, its query blocks and their slots. Bound by the Tensor Engine and the Vector Engine.
"""

from trnsci.nki import N_TILE, P_MAX, jit, load, nisa, nl, store, tiles
from trnsparse.kernels._attention import _identity, _Rows, _score_blocks, _Turned

RESIDENT = 24 * 1024


@jit
def attention_backward(
    qT_hbm, kT_hbm, vT_hbm, doT_hbm, q_hbm, k_hbm, do_hbm, lse_hbm, delta_hbm, hidden_hbm, pattern=(), turned=()
):
    H, D, Q = qT_hbm.shape
    G, E, K = vT_hbm.shape
    dtype = q_hbm.dtype
    dq_hbm = nl.ndarray((H, Q, D), dtype=dtype, buffer=nl.shared_hbm)  # [H, Q, D]
    dk_hbm = nl.ndarray((G, K, D), dtype=dtype, buffer=nl.shared_hbm)  # [G, K, D]
    dv_hbm = nl.ndarray((G, K, E), dtype=dtype, buffer=nl.shared_hbm)  # [G, K, E]
    identity_sb = _identity(hidden_hbm.dtype)
    hidden_sb = load(hidden_hbm)  # [p, T * p]
    width = 2 if dtype in (nl.bfloat16, nl.float16) else 4
    keep = max(Q, K) * len(tiles(max(D, E), P_MAX)) * width <= RESIDENT
    for g in range(G):
        keys = (_Turned(kT_hbm, g, keep), _Turned(vT_hbm, g, keep), _Rows(k_hbm, g, keep))
        heads = []
        for h in range(g * (H // G), (g + 1) * (H // G)):
            sums = (load(lse_hbm[h]), load(delta_hbm[h]))
            turns = (_Turned(qT_hbm, h, keep), _Turned(doT_hbm, h, keep))
            heads.append((turns[0], turns[1], sums, _Rows(q_hbm, h, keep), _Rows(do_hbm, h, keep), dq_hbm[h]))
        for j in range(len(turned)):
            _key_block(dk_hbm[g], dv_hbm[g], j, keys, heads, identity_sb, hidden_sb, turned[j])
        for head in heads:
            for i in range(len(pattern)):
                _query_block(head, i, keys, identity_sb, hidden_sb, pattern[i])
    return dq_hbm, dk_hbm, dv_hbm


def _pairs(head, keys, i, columns, slots, identity_sb, hidden_sb):
    """Weights p and the gradient ds of the scores, for a query block and some key blocks side by side."""
    queries, outs, sums = head[0], head[1], head[2]
    q0, q1 = i * P_MAX, min((i + 1) * P_MAX, queries.x_hbm.shape[2])
    q, total = q1 - q0, keys[0].width(columns)
    dtype = queries.x_hbm.dtype
    s_ps = nl.ndarray((q, total), dtype=nl.float32, buffer=nl.psum)  # [q, k]
    _score_blocks(s_ps, 0, queries.columns(q0, q1), keys[0], identity_sb, hidden_sb, columns, slots)
    p_sb = nl.ndarray((q, total), dtype=dtype, buffer=nl.sbuf)  # [q, k]
    nisa.activation(dst=p_sb, op=nl.exp, data=s_ps, bias=sums[0][0:q, i : i + 1])
    dp_ps = nl.ndarray((q, total), dtype=nl.float32, buffer=nl.psum)  # [q, k]
    _score_blocks(dp_ps, 0, outs.columns(q0, q1), keys[1], identity_sb, hidden_sb, columns, [-1] * len(slots))
    ds_sb = nl.ndarray((q, total), dtype=dtype, buffer=nl.sbuf)  # [q, k]
    nisa.scalar_tensor_tensor(
        dst=ds_sb,
        data=dp_ps,
        op0=nl.subtract,
        operand0=sums[1][0:q, i : i + 1],
        op1=nl.multiply,
        operand1=p_sb,
    )
    return p_sb, ds_sb


def _key_block(dk_hbm, dv_hbm, j, keys, heads, identity_sb, hidden_sb, rows):
    """Gradients of one block of keys and values, over all query blocks that meet it."""
    K, D = dk_hbm.shape
    E = dv_hbm.shape[1]
    here = slice(j * P_MAX, min((j + 1) * P_MAX, K))
    k = min(P_MAX, K - j * P_MAX)
    if len(rows) == 0:
        _zero(dk_hbm[here, 0:D])
        _zero(dv_hbm[here, 0:E])
    else:
        dk_ps = nl.ndarray((k, D), dtype=nl.float32, buffer=nl.psum)  # [k, D]
        dv_ps = nl.ndarray((k, E), dtype=nl.float32, buffer=nl.psum)  # [k, E]
        met = False
        for head in heads:
            for i, slot in rows:
                p_sb, ds_sb = _pairs(head, keys, i, [j], [slot], identity_sb, hidden_sb)
                nisa.nc_matmul(dst=dv_ps, stationary=p_sb, moving=head[4].block(i), accumulate=met)
                nisa.nc_matmul(dst=dk_ps, stationary=ds_sb, moving=head[3].block(i), accumulate=met)
                met = True
        store(dk_hbm[here, 0:D], dk_ps)
        store(dv_hbm[here, 0:E], dv_ps)


def _query_block(head, i, keys, identity_sb, hidden_sb, blocks):
    """Gradient of one block of queries, over all key blocks it meets."""
    dq_hbm = head[5]
    Q, D = dq_hbm.shape
    here = slice(i * P_MAX, min((i + 1) * P_MAX, Q))
    q = min(P_MAX, Q - i * P_MAX)
    if len(blocks) == 0:
        _zero(dq_hbm[here, 0:D])
    else:
        dq_ps = nl.ndarray((q, D), dtype=nl.float32, buffer=nl.psum)  # [q, D]
        met = False
        # As many key blocks at once as a bank of PSUM holds: fewer, longer instructions.
        for n in tiles(len(blocks), N_TILE // P_MAX):
            columns, slots = [], []
            for j, slot in blocks[n.span]:
                columns.append(j)
                slots.append(slot)
            ds_sb = _pairs(head, keys, i, columns, slots, identity_sb, hidden_sb)[1]
            held = _turned_blocks(ds_sb)
            for b in range(n.size):
                nisa.nc_matmul(dst=dq_ps, stationary=held[b], moving=keys[2].block(columns[b]), accumulate=met)
                met = True
        store(dq_hbm[here, 0:D], dq_ps)


def _turned_blocks(ds_sb):
    """Blocks side by side, each with its keys in the partitions."""
    q, total = ds_sb.shape
    blocks = tiles(total, P_MAX)
    turned_ps = nl.ndarray((P_MAX, len(blocks) * q), dtype=ds_sb.dtype, buffer=nl.psum)  # [k, b * q]
    turned_sb = nl.ndarray((P_MAX, len(blocks) * q), dtype=ds_sb.dtype, buffer=nl.sbuf)  # [k, b * q]
    held = []
    for block in blocks:
        here = slice(block.index * q, (block.index + 1) * q)
        nisa.nc_transpose(dst=turned_ps[0 : block.size, here], data=ds_sb[:, block.span])
        held.append(turned_sb[0 : block.size, here])
    # Only the last block of all can be smaller than the others.
    last = blocks[len(blocks) - 1].size
    full = len(blocks) if last == P_MAX else len(blocks) - 1
    for first, stop, k in ((0, full, P_MAX), (full, len(blocks), last)):
        if first < stop:
            here = slice(first * q, stop * q)
            nisa.tensor_copy(dst=turned_sb[0:k, here], src=turned_ps[0:k, here])
    return held


def _zero(to_hbm):
    zero_sb = nl.ndarray(to_hbm.shape, dtype=to_hbm.dtype, buffer=nl.sbuf)  # [s, D]
    nisa.memset(dst=zero_sb, value=0.0)
    store(to_hbm, zero_sb)
