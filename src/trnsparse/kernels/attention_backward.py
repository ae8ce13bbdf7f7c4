"""Gradients of attention: dv = pT do, dk = dsT q, dq = ds k with p = exp(s - lse) and ds = p (do vT - delta).

Two walks over the stored blocks, by key block and by query block, so that every gradient is summed in PSUM and nothing
grows with the sequence. Scores are computed anew in both. The pattern is known when the kernel is compiled; ``turned``
lists, for each key block, its query blocks and their slots. Bound by the Tensor Engine and the Vector Engine.
"""

from trnsci.nki import P_MAX, jit, load, nisa, nl, store, tiles
from trnsparse.kernels._attention import _hide, _identity, _product, _Rows, _Turned

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


def _pair(head, keys, i, j, slot, identity_sb, hidden_sb):
    """Weights p and the gradient ds of the scores, for one block."""
    queries, outs, sums = head[0], head[1], head[2]
    Q, K = queries.x_hbm.shape[2], keys[0].x_hbm.shape[2]
    q0, q1, k0, k1 = i * P_MAX, min((i + 1) * P_MAX, Q), j * P_MAX, min((j + 1) * P_MAX, K)
    q, k = q1 - q0, k1 - k0
    dtype = queries.x_hbm.dtype
    s_ps = nl.ndarray((q, k), dtype=nl.float32, buffer=nl.psum)  # [q, k]
    _product(s_ps, queries.columns(q0, q1), keys[0].columns(k0, k1))
    if slot >= 0:
        _hide(s_ps, identity_sb, hidden_sb, slot, q, k)
    p_sb = nl.ndarray((q, k), dtype=dtype, buffer=nl.sbuf)  # [q, k]
    nisa.activation(dst=p_sb, op=nl.exp, data=s_ps, bias=sums[0][0:q, i : i + 1])
    dp_ps = nl.ndarray((q, k), dtype=nl.float32, buffer=nl.psum)  # [q, k]
    _product(dp_ps, outs.columns(q0, q1), keys[1].columns(k0, k1))
    ds_sb = nl.ndarray((q, k), dtype=dtype, buffer=nl.sbuf)  # [q, k]
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
                p_sb, ds_sb = _pair(head, keys, i, j, slot, identity_sb, hidden_sb)
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
        for j, slot in blocks:
            ds_sb = _pair(head, keys, i, j, slot, identity_sb, hidden_sb)[1]
            k = ds_sb.shape[1]
            turned_ps = nl.ndarray((k, q), dtype=ds_sb.dtype, buffer=nl.psum)  # [k, q]
            nisa.nc_transpose(dst=turned_ps, data=ds_sb)
            turned_sb = nl.ndarray((k, q), dtype=ds_sb.dtype, buffer=nl.sbuf)  # [k, q]
            nisa.tensor_copy(dst=turned_sb, src=turned_ps)
            nisa.nc_matmul(dst=dq_ps, stationary=turned_sb, moving=keys[2].block(j), accumulate=met)
            met = True
        store(dq_hbm[here, 0:D], dq_ps)


def _zero(to_hbm):
    zero_sb = nl.ndarray(to_hbm.shape, dtype=to_hbm.dtype, buffer=nl.sbuf)  # [s, D]
    nisa.memset(dst=zero_sb, value=0.0)
    store(to_hbm, zero_sb)
