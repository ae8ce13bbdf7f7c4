"""out[M, N] = (a where u[M] w[K] > threshold, else 0) @ b[K, N], a in blocks.

Each transposed block [bn, bm] is screened on its way to the Tensor Engine: the Vector Engine compares products of
bounds and multiplies. Blocks without an entry above the threshold are not in the pattern. Bounds and rows of b stay in
SBUF once met, as long as they fit. Bound by the Tensor Engine.
"""

from trnsci.nki import N_TILE, QUEUES, Axis, load, my_indices, nisa, nki, nl, store, tiles

# Bytes of SBUF in each partition that b in one column tile may take to stay.
RESIDENT = 1 << 17
AXES = (Axis(N_TILE, {"b_hbm": 1}, (1,)),)
# What a search may choose: queues of blocks and results.
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def screened_spmm(
    tiles_hbm, u_hbm, w_hbm, limit_hbm, b_hbm, height=0, pointers=(), columns=(), loads="compiler", stores="compiler"
):
    depth, M = u_hbm.shape
    K, N = b_hbm.shape
    out_hbm = nl.ndarray((M, N), dtype=b_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    limit_sb = load(limit_hbm, "static")  # [bn, 1]
    w_sb = [None] * len(tiles(K, depth))
    width = 2 if b_hbm.dtype in (nl.bfloat16, nl.float16) else 4
    keep = len(w_sb) * min(N, N_TILE) * width <= RESIDENT
    for n in tiles(N, N_TILE):
        b_sb = [None] * len(w_sb)
        for i in my_indices(len(pointers) - 1):
            here = slice(i * height, min((i + 1) * height, M))
            size = min(height, M - i * height)
            if pointers[i] == pointers[i + 1]:
                zero_sb = nl.ndarray((size, n.size), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [m, n]
                nisa.memset(dst=zero_sb, value=0.0)
                store(out_hbm[here, n.span], zero_sb, stores)
            else:
                u_sb = load(u_hbm[0:depth, here], "static")  # [bn, m]
                c_ps = nl.ndarray((size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
                for p in range(pointers[i], pointers[i + 1]):
                    j = columns[p]
                    k = min(depth, K - j * depth)
                    if w_sb[j] == None:
                        w_sb[j] = load(w_hbm[j * depth : j * depth + k, 0:1], "static")  # [k, 1]
                    if b_sb[j] == None or not keep:
                        b_sb[j] = load(b_hbm[j * depth : j * depth + k, n.span], "static")  # [k, n]
                    a_sb = load(tiles_hbm[0:k, p * height : p * height + size], loads)  # [k, m]
                    nisa.nc_matmul(
                        dst=c_ps,
                        stationary=_screened(a_sb, u_sb, w_sb[j], limit_sb),
                        moving=b_sb[j],
                        accumulate=p > pointers[i],
                    )
                store(out_hbm[here, n.span], c_ps, stores)
    return out_hbm


def _screened(a_sb, u_sb, w_sb, limit_sb):
    """Return the block with entries below the threshold set to zero."""
    k, m = a_sb.shape
    stays_sb = nl.ndarray((k, m), dtype=nl.float32, buffer=nl.sbuf)  # [k, m]
    nisa.tensor_scalar(
        dst=stays_sb, data=u_sb[0:k, 0:m], op0=nl.multiply, operand0=w_sb, op1=nl.greater, operand1=limit_sb[0:k, 0:1]
    )
    left_sb = nl.ndarray((k, m), dtype=a_sb.dtype, buffer=nl.sbuf)  # [k, m]
    nisa.tensor_tensor(dst=left_sb, data1=a_sb, data2=stays_sb, op=nl.multiply)
    return left_sb
