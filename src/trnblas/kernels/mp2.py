"""partials[Q, L, J] = left[q, i] right[q, j] u_q . Y_ij . u_q  with  Y_ab = T_ab (2 T_ab - T_ba), T[L V, J V].

The Tensor Engine transposes blocks of T into PSUM and, instead of dividing by orbital energies, multiplies Y by the
exponentials u[V, Q]. Per element the Vector Engine does two operations, each with one operand in PSUM, which is its
full rate; the Scalar Engine adds up. Bound by the Tensor Engine, Vector and DMA close behind.
"""

from trnsci.nki import N_TILE, P_MAX, QUEUES, elementwise, load, mine, nisa, nki, nl, store, tiles

# Pairs whose rows are loaded together, for DMA packets of several KiB, as far as SBUF allows; twice this is in use.
TOGETHER = 4
LOADED = 64 * 1024
# What a search may choose: pairs loaded at once, and queues.
CHOICES = {"together": (1, 2, 4, 6, 8), "loads": QUEUES, "stores": QUEUES}


@nki.jit
def mp2(
    t_hbm,
    u_hbm,
    uT_hbm,
    left_hbm,
    right_hbm,
    symmetric=False,
    first=0,
    together=TOGETHER,
    loads="compiler",
    stores="compiler",
):
    V, Q = u_hbm.shape
    L, J = left_hbm.shape[1], right_hbm.shape[1]
    P = _part(V)
    pairs = max(1, min(together, LOADED // (len(tiles(V, P)) * V * 4)))
    out_hbm = nl.ndarray((Q, L, J), dtype=nl.float32, buffer=nl.shared_hbm)  # [Q, L, J]
    u_sb = []
    for a in tiles(V, P):
        u_sb.append(load(u_hbm[a.span, 0:Q], loads))  # [a, Q]
    uT_sb = load(uT_hbm, loads)  # [Q, V]
    left_sb = load(left_hbm, loads)  # [Q, L]
    right_sb = load(right_hbm, loads)  # [Q, J]
    for row in mine(tiles(L, 1)):
        i = row.index
        count = min(J, max(0, first + i + 1)) if symmetric else J
        sums_sb = nl.ndarray((Q, J), dtype=nl.float32, buffer=nl.sbuf)  # [Q, J]
        if count < J:
            nisa.memset(dst=sums_sb[:, count:J], value=0.0)
        for js in tiles(count, pairs):
            t_sb = []
            for a in tiles(V, P):
                rows = slice(i * V + a.start, i * V + a.stop)
                t_sb.append(load(t_hbm[rows, js.start * V : js.stop * V], loads))  # [a, js V]
            for j in range(js.size):
                _pair(sums_sb[:, js.start + j : js.start + j + 1], t_sb, u_sb, uT_sb, V=V, P=P, j=j)
        out_sb = nl.ndarray((Q, J), dtype=nl.float32, buffer=nl.sbuf)  # [Q, J]
        nisa.scalar_tensor_tensor(
            dst=out_sb,
            data=sums_sb,
            op0=nl.multiply,
            operand0=left_sb[:, i : i + 1],
            op1=nl.multiply,
            operand1=right_sb,
        )
        store(out_hbm[0:Q, i, 0:J], out_sb, stores)
    return out_hbm


def _part(V):
    """Return the rows of a tile: the largest divisor of V that fits, or a ragged size if that is small."""
    best = 1
    for p in range(1, P_MAX + 1):
        if V % p == 0:
            best = p
    return best if best >= P_MAX // 2 else min(V, P_MAX)


def _pair(sum_sb, t_sb, u_sb, uT_sb, *, V, P, j):
    """Sum one pair of occupied orbitals: over b, u[q, b] (u.T Y)[q, b]."""
    Q = uT_sb.shape[0]
    chunks = tiles(V, max(1, N_TILE // P) * P)
    part_sb = nl.ndarray((Q, len(chunks)), dtype=nl.float32, buffer=nl.sbuf)  # [Q, chunks]
    for b in chunks:
        projected_ps = nl.ndarray((Q, b.size), dtype=nl.float32, buffer=nl.psum)  # [Q, b]
        for a in tiles(V, P):
            here_sb = t_sb[a.index][:, j * V + b.start : j * V + b.stop]
            transposed_ps = nl.ndarray((a.size, b.size), dtype=nl.float32, buffer=nl.psum)  # [a, b]
            for c in tiles(b.size, P):
                other_sb = t_sb[b.start // P + c.index]
                nisa.nc_transpose(dst=transposed_ps[:, c.span], data=other_sb[:, j * V + a.start : j * V + a.stop])
            # Left in PSUM, because the next operation runs at full rate with one operand there.
            twice_ps = nl.ndarray((a.size, b.size), dtype=nl.float32, buffer=nl.psum)  # [a, b]
            nisa.scalar_tensor_tensor(
                dst=twice_ps, data=here_sb, op0=nl.multiply, operand0=2.0, op1=nl.subtract, operand1=transposed_ps
            )
            y_sb = elementwise(here_sb, twice_ps, nl.multiply)  # [a, b]
            nisa.nc_matmul(dst=projected_ps, stationary=u_sb[a.index], moving=y_sb, accumulate=a.index > 0)
        weighted_sb = elementwise(uT_sb[:, b.span], projected_ps, nl.multiply)  # [Q, b]
        scratch_sb = nl.ndarray((Q, b.size), dtype=nl.float32, buffer=nl.sbuf)  # [Q, b]
        result_sb = sum_sb if len(chunks) == 1 else part_sb[:, b.index : b.index + 1]
        nisa.activation_reduce(dst=scratch_sb, op=nl.copy, data=weighted_sb, reduce_op=nl.add, reduce_res=result_sb)
    if len(chunks) > 1:
        nisa.tensor_reduce(dst=sum_sb, op=nl.add, data=part_sb, axis=1)
