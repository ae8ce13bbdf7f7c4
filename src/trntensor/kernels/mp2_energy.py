"""out[0, 0:2] = sum over i, j, a, b of T[a, b]**2 / D[a, b] and of T[a, b] T[b, a] / D[a, b], with T = B[i] B[j].T.

D = occ[i] + occ[j] - vir[a] - vir[b]. Pairs i < j count twice and are computed once; where another B is given, j runs
over that one, and every pair counts once; with ``spins`` its virtual orbitals are of another spin, and the second sum
is zero. B is transposed into HBM once; then T lives in PSUM and SBUF only, and two numbers leave. With naux beyond a
few hundred the Tensor Engine binds, so the reciprocals of D stay on the Vector Engine, which has the time; squares and
sums are shared with the Scalar Engine.
SBUF in each partition: up to RESIDENT bytes of B[i], COLUMNS of sums, a few tiles of 2 KiB. PSUM: four banks of T, two
of its transpose.
"""

from trnsci.nki import (
    K_TILE,
    M_TILE,
    N_TILE,
    P_MAX,
    QUEUES,
    full,
    is_first_core,
    load,
    multiply_add,
    nisa,
    nki,
    nl,
    store,
    tiles,
)

# Bytes of SBUF in each partition that all of B[i] may take to be loaded once for all j.
RESIDENT = 88 * 1024
# Columns of B loaded at once to be transposed.
WIDTH = 4 * N_TILE
# Bytes of SBUF in each partition that sums of one orbital's pairs may take before they are added up.
COLUMNS = 32 * 1024
# What a search may choose: queues of what is transposed, multiplied and kept.
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def mp2_energy(
    B_hbm,
    occ_hbm,
    vir_hbm,
    column_hbm,
    other_hbm=None,
    other_occ_hbm=None,
    spins=False,
    loads="compiler",
    stores="compiler",
):
    out_hbm = nl.ndarray((1, 2), dtype=nl.float32, buffer=nl.shared_hbm)  # [1, 2]
    # every orbital meets all the others, whose transpose is in memory of one core
    if is_first_core():
        tensors_hbm = (B_hbm, occ_hbm, vir_hbm, column_hbm, other_hbm, other_occ_hbm)
        _add_up(out_hbm, tensors_hbm, spins=spins, loads=loads, stores=stores)
    return out_hbm


def _add_up(out_hbm, tensors_hbm, *, spins, loads, stores):
    """Compute the sums over all pairs."""
    B_hbm, occ_hbm, vir_hbm, column_hbm, other_hbm, other_occ_hbm = tensors_hbm
    C = B_hbm.shape[0]
    once = other_hbm == None
    BT_hbm = _transpose_orbitals(B_hbm, loads, stores)  # [C, X, V]
    others_hbm = BT_hbm if once else _transpose_orbitals(other_hbm, loads, stores)  # [J, X, V]
    occ_sb = _on_every_partition(occ_hbm)  # [P, C]
    other_occ_sb = occ_sb if once else _on_every_partition(other_occ_hbm)  # [P, J]
    vir_sb, column_sb = _virtual(vir_hbm, column_hbm)
    totals_sb = nl.ndarray((P_MAX, 2 * C), dtype=nl.float32, buffer=nl.sbuf)  # [P, 2 C]
    for i in range(C):
        sets = (BT_hbm, others_hbm), (occ_sb, other_occ_sb)
        _orbital(totals_sb, sets[0], sets[1], vir_sb, column_sb, i=i, once=once, spins=spins, loads=loads)
    _store_sums(out_hbm, totals_sb)


def _transpose_orbitals(B_hbm, loads, stores):
    """Return B in HBM with the auxiliary index before the virtual one."""
    C, V, X = B_hbm.shape
    BT_hbm = nl.ndarray((C, X, V), dtype=B_hbm.dtype, buffer=nl.hbm)  # [C, X, V]
    for i in range(C):
        _transpose(BT_hbm, B_hbm, i, loads, stores)
    return BT_hbm


def _virtual(vir_hbm, column_hbm):
    """Load energies of virtual orbitals along rows, and down the partitions."""
    vir_sb = _on_every_partition(vir_hbm)  # [P, V]
    column_sb = []
    for v in tiles(column_hbm.shape[0], M_TILE):
        column_sb.append(load(column_hbm[v.span, 0:1], "compiler"))  # [v, 1]
    return vir_sb, column_sb


def _store_sums(out_hbm, totals_sb):
    """Add up each half of the totals, along rows and then over partitions."""
    C = totals_sb.shape[1] // 2
    parts_sb = nl.ndarray((P_MAX, 2), dtype=nl.float32, buffer=nl.sbuf)  # [P, 2]
    nisa.tensor_reduce(dst=parts_sb[:, 0:1], op=nl.add, data=totals_sb[:, 0:C], axis=1)
    nisa.tensor_reduce(dst=parts_sb[:, 1:2], op=nl.add, data=totals_sb[:, C : 2 * C], axis=1)
    ones_sb = full((P_MAX, 1), 1.0)  # [P, 1]
    sum_ps = nl.ndarray((1, 2), dtype=nl.float32, buffer=nl.psum)  # [1, 2]
    nisa.nc_matmul(dst=sum_ps, stationary=ones_sb, moving=parts_sb, accumulate=False)
    store(out_hbm, sum_ps)


def _on_every_partition(row_hbm):
    """Broadcast a row [1, N] to all partitions by a product with a column of ones."""
    N = row_hbm.shape[1]
    row_sb = load(row_hbm, "compiler")  # [1, N]
    ones_sb = full((1, P_MAX), 1.0)  # [1, P]
    rows_sb = nl.ndarray((P_MAX, N), dtype=nl.float32, buffer=nl.sbuf)  # [P, N]
    for n in tiles(N, N_TILE):
        rows_ps = nl.ndarray((P_MAX, n.size), dtype=nl.float32, buffer=nl.psum)  # [P, n]
        nisa.nc_matmul(dst=rows_ps, stationary=ones_sb, moving=row_sb[:, n.span], accumulate=False)
        nisa.tensor_copy(dst=rows_sb[:, n.span], src=rows_ps)
    return rows_sb


def _transpose(BT_hbm, B_hbm, i, loads, stores):
    """Transpose B[i], so that the auxiliary index comes first."""
    V, X = B_hbm.shape[1], B_hbm.shape[2]
    for block in tiles(V, N_TILE):
        for x in tiles(X, WIDTH):
            B_sb = []
            for v in tiles(block.size, M_TILE):
                rows = slice(block.start + v.start, block.start + v.stop)
                B_sb.append(load(B_hbm[i, rows, x.span], loads))  # [v, x]
            for k in tiles(x.size, K_TILE):
                BT_ps = nl.ndarray((k.size, block.size), dtype=B_hbm.dtype, buffer=nl.psum)  # [k, block]
                for v in tiles(block.size, M_TILE):
                    nisa.nc_transpose(dst=BT_ps[:, v.span], data=B_sb[v.index][:, k.span])
                store(BT_hbm[i, x.start + k.start : x.start + k.stop, block.span], BT_ps, stores)


def _orbital(totals_sb, BT_hbm, occ_sb, vir_sb, column_sb, *, i, once, spins, loads):
    """Sum i with every j, or with j >= i once, into columns i and C + i of the totals."""
    X, V = BT_hbm[0].shape[1], BT_hbm[0].shape[2]
    C, J = totals_sb.shape[1] // 2, BT_hbm[1].shape[0]
    slots = 2 * len(tiles(V, N_TILE)) * len(tiles(V, M_TILE))
    pairs_sb = nl.ndarray((P_MAX, J), dtype=nl.float32, buffer=nl.sbuf)  # [P, J]
    nisa.tensor_scalar(dst=pairs_sb, data=occ_sb[1], op0=nl.add, operand0=occ_sb[0][:, i : i + 1])
    left_sb = []
    if len(tiles(X, K_TILE)) * V * 4 <= RESIDENT:
        for k in tiles(X, K_TILE):
            left_sb.append(load(BT_hbm[0][i, k.span, 0:V], loads))  # [k, V]
    first = i if once else 0
    for group in tiles(J - first, max(1, COLUMNS // (8 * slots))):
        square_sb = full((P_MAX, group.size * slots), 0.0)  # [P, slots]
        cross_sb = full((P_MAX, group.size * slots), 0.0)  # [P, slots]
        for j in range(first + group.start, first + group.stop):
            slot = (j - first - group.start) * slots
            sums = (square_sb, cross_sb, pairs_sb, vir_sb, column_sb, j)
            _pair(sums, BT_hbm, left_sb, i=i, slot=slot, spins=spins, loads=loads)
        _weigh(totals_sb[:, i : i + 1], square_sb, slots, group.index == 0, once)
        _weigh(totals_sb[:, C + i : C + i + 1], cross_sb, slots, group.index == 0, once)


def _pair(sums, BT_hbm, left_sb, *, i, slot, spins, loads):
    """Sum one pair into columns from ``slot`` on: blocks of T and of its transpose go together."""
    j = sums[5]
    blocks = tiles(BT_hbm[0].shape[2], N_TILE)
    for rows in blocks:
        for cols in blocks[rows.index :]:
            t_sb = _integrals(BT_hbm, left_sb, i, j, rows=rows, cols=cols, loads=loads)
            if rows.index == cols.index:
                slot = _reduce(sums, t_sb, None if spins else t_sb, rows=rows, cols=cols, weight=1.0, slot=slot)
            else:
                u_sb = _integrals(BT_hbm, left_sb, i, j, rows=cols, cols=rows, loads=loads)
                slot = _reduce(sums, t_sb, None if spins else u_sb, rows=rows, cols=cols, weight=2.0, slot=slot)
                slot = _reduce(sums, u_sb, None, rows=cols, cols=rows, weight=0.0, slot=slot)


def _integrals(BT_hbm, left_sb, i, j, *, rows, cols, loads):
    """Compute T[rows, cols] = B[i, rows] B[j, cols].T in SBUF, one tile of up to 128 rows each."""
    X = BT_hbm[0].shape[1]
    t_ps = []
    for m in tiles(rows.size, M_TILE):
        t_ps.append(nl.ndarray((m.size, cols.size), dtype=nl.float32, buffer=nl.psum))  # [m, cols]
    for k in tiles(X, K_TILE):
        if len(left_sb) == 0:
            i_sb = load(BT_hbm[0][i, k.span, rows.span], loads)  # [k, rows]
        else:
            i_sb = left_sb[k.index][:, rows.span]  # [k, rows]
        j_sb = load(BT_hbm[1][j, k.span, cols.span], loads)  # [k, cols]
        for m in tiles(rows.size, M_TILE):
            nisa.nc_matmul(dst=t_ps[m.index], stationary=i_sb[:, m.span], moving=j_sb, accumulate=k.index > 0)
    t_sb = []
    for m in tiles(rows.size, M_TILE):
        tile_sb = nl.ndarray((m.size, cols.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, cols]
        # Two engines drain, so that the banks are free for the next pair as soon as can be.
        if m.index % 2 == 0:
            nisa.activation(dst=tile_sb, op=nl.copy, data=t_ps[m.index])
        else:
            nisa.tensor_copy(dst=tile_sb, src=t_ps[m.index], engine=nisa.engine.vector)
        t_sb.append(tile_sb)
    return t_sb


def _reduce(sums, t_sb, u_sb, *, rows, cols, weight, slot):
    """Sum t t / D, and weight t u.T / D unless u is None, along rows, into one column per tile."""
    square_sb, cross_sb, pairs_sb, vir_sb, column_sb, j = sums
    for m in tiles(rows.size, M_TILE):
        into = slice(slot + m.index, slot + m.index + 1)
        y_sb = nl.ndarray((m.size, cols.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, cols]
        nisa.tensor_scalar(
            dst=y_sb,
            data=vir_sb[0 : m.size, cols.span],
            op0=nl.subtract,
            operand0=pairs_sb[0 : m.size, j : j + 1],
            reverse0=True,
            op1=nl.subtract,
            operand1=column_sb[rows.start // M_TILE + m.index],
        )
        nisa.reciprocal(dst=y_sb, data=y_sb)
        nisa.tensor_tensor(dst=y_sb, data1=y_sb, data2=t_sb[m.index], op=nl.multiply, engine=nisa.engine.gpsimd)
        z_sb = nl.ndarray((m.size, cols.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, cols]
        nisa.tensor_tensor(dst=z_sb, data1=y_sb, data2=t_sb[m.index], op=nl.multiply, engine=nisa.engine.gpsimd)
        nisa.activation_reduce(
            dst=z_sb, op=nl.copy, data=z_sb, reduce_op=nl.add, reduce_res=square_sb[0 : m.size, into]
        )
        if u_sb != None:
            uT_ps = nl.ndarray((m.size, cols.size), dtype=nl.float32, buffer=nl.psum)  # [m, cols]
            for c in tiles(cols.size, M_TILE):
                nisa.nc_transpose(dst=uT_ps[:, c.span], data=u_sb[c.index][:, m.span])
            w_sb = nl.ndarray((m.size, cols.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, cols]
            nisa.scalar_tensor_tensor(
                dst=w_sb, data=y_sb, op0=nl.multiply, operand0=weight, op1=nl.multiply, operand1=uT_ps
            )
            nisa.activation_reduce(
                dst=w_sb, op=nl.copy, data=w_sb, reduce_op=nl.add, reduce_res=cross_sb[0 : m.size, into]
            )
    return slot + len(tiles(rows.size, M_TILE))


def _weigh(into_sb, columns_sb, slots, fresh, once):
    """Add sums to a total. ``once``: the very first pair, i = j, counts once and the others twice."""
    start = slots if once and fresh else 0
    if once and fresh:
        nisa.tensor_reduce(dst=into_sb, op=nl.add, data=columns_sb[:, 0:slots], axis=1)
    elif fresh:
        nisa.memset(dst=into_sb, value=0.0)
    if columns_sb.shape[1] > start:
        rest_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [P, 1]
        nisa.tensor_reduce(dst=rest_sb, op=nl.add, data=columns_sb[:, start : columns_sb.shape[1]], axis=1)
        multiply_add(into_sb, rest_sb, 2.0 if once else 1.0, into_sb)
