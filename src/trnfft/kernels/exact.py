"""y = F x for two factors, or one, without rounding: operands and results are digits of base 256, each exact in bf16.

A number of at most 1 is ``sum_i d_i 2**(-7 - 8 i)`` with whole ``|d_i| <= 128``; digits are stored with their powers of
two. Products of one level ``i + j`` are whole multiples, below 2**24, of one power of two, so that PSUM adds them
exactly; levels are carried into digits from the lowest up. Twiddles are in the first tables, one for each residue of
N2, so that nothing but products with tables is needed; between the two products digits cross HBM, which puts the
second factor on the partitions. Bound by the Tensor and the Vector Engine alike. Below 150 KiB a partition.
"""

from trnsci.nki import N_TILE, jit, load, nisa, nl, require, store, tiles

# Adding and subtracting this rounds to whole numbers, to nearest even.
ROUND = 1.5 * 2.0**23


@jit
def exact(x_hbm, first_hbm, second_hbm=None):
    """Transform x [plane, N1, N2, S, F] by tables [plane N1, N2, S, part N1] and [plane N2, 1, S, part N2]."""
    P, N1, N2, S, F = x_hbm.shape
    K, N2_t, S_t, M = first_hbm.shape
    require(S_t == S, f"x and its table disagree on digits: {S} and {S_t}")
    require(N2_t == N2 and K == P * N1, f"x and its table disagree: {N2} times {P * N1} rows and {N2_t} times {K}")
    require(second_hbm is not None or N2 == 1, f"{N2} residues need a second table")
    planes = [x_hbm.reshape((K, N2, S, F))]
    if second_hbm is not None:
        mid_hbm = nl.ndarray((M, N2, S, F), dtype=nl.bfloat16, buffer=nl.private_hbm)  # [part k1, n2, S, F]
        _pass(mid_hbm, planes, first_hbm)
        planes = [mid_hbm[0:N1].permute((1, 0, 2, 3)), mid_hbm[N1:M].permute((1, 0, 2, 3))]  # [n2, k1, S, F]
    last_hbm = first_hbm if second_hbm is None else second_hbm
    out_hbm = nl.ndarray((last_hbm.shape[3],) + planes[0].shape[1:], dtype=nl.bfloat16, buffer=nl.shared_hbm)  # noqa: RUF005
    _pass(out_hbm, planes, last_hbm)
    return out_hbm


def _pass(y_hbm, planes, t_hbm):
    """y[m, n, S, F] = sum_k t[k, n, m] x[k, n, S, F]; ``planes`` are parts of k, and one table may serve all n."""
    _, N, S, F = y_hbm.shape
    shared = t_hbm.shape[1] == 1
    at_f = min(F, N_TILE)
    kept_sb = load(t_hbm) if shared else None  # [k, 1, S, m]
    for n in tiles(N, min(N, N_TILE // at_f)):
        t_sb = kept_sb if shared else load(t_hbm[:, n.span])  # [k, n, S, m]
        for f in tiles(F, at_f):
            x_sb = nl.ndarray((t_sb.shape[0], n.size, S, f.size), dtype=nl.bfloat16, buffer=nl.sbuf)  # [k, n, S, f]
            done = 0
            for plane_hbm in planes:
                rows = plane_hbm.shape[0]
                nisa.dma_copy(dst=x_sb[done : done + rows], src=plane_hbm[:, n.span, :, f.span])
                done += rows
            store(y_hbm[:, n.span, :, f.span], _product(x_sb, t_sb))


def _product(x_sb, t_sb):
    """[m, n, S, f]: digits of the product, the lowest level first."""
    _, N, S, F = x_sb.shape
    M = t_sb.shape[3]
    y_sb = nl.ndarray((M, N, S, F), dtype=nl.bfloat16, buffer=nl.sbuf)  # [m, n, S, f]
    up_sb = None
    for down in range(S + 1):
        level = S - down
        sum_ps = nl.ndarray((M, N, F), dtype=nl.float32, buffer=nl.psum)  # [m, n, f]
        first = max(0, level - S + 1)
        for i in range(first, min(level, S - 1) + 1):
            for n in range(t_sb.shape[1]):
                # One table for all n multiplies them at once.
                here = slice(n, n + 1) if t_sb.shape[1] > 1 else slice(0, N)
                nisa.nc_matmul(
                    dst=sum_ps[:, here],
                    stationary=t_sb[:, n, level - i, :],
                    moving=x_sb[:, here, i],
                    accumulate=i > first,
                )
        up_sb = _carried(y_sb[:, :, level + 1] if level + 1 < S else None, sum_ps, up_sb, 2.0 ** (-7 - 8 * level))
    nisa.tensor_copy(dst=y_sb[:, :, 0], src=up_sb)
    return y_sb


def _carried(digit_sb, sum_ps, up_sb, unit):
    """Add the carry from below, keep what is no multiple of ``unit`` as a digit, return the rest."""
    total = sum_ps
    if up_sb is not None:
        total = nl.ndarray(sum_ps.shape, dtype=nl.float32, buffer=nl.sbuf)  # [m, n, f]
        nisa.tensor_tensor(dst=total, data1=sum_ps, data2=up_sb, op=nl.add)
    up_sb = nl.ndarray(sum_ps.shape, dtype=nl.float32, buffer=nl.sbuf)  # [m, n, f]
    nisa.tensor_scalar(dst=up_sb, data=total, op0=nl.add, operand0=ROUND * unit, op1=nl.subtract, operand1=ROUND * unit)
    if digit_sb is not None:
        nisa.tensor_tensor(dst=digit_sb, data1=total, data2=up_sb, op=nl.subtract, engine=nisa.engine.gpsimd)
    return up_sb
