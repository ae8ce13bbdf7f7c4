"""y[M, F] = t[K, M].T @ x[K, F] without rounding: operands and result are digits of base 256, each exact in bf16.

``x = sum_i x_i 2**(-7 - 8 i)`` with whole ``|x_i| <= 128``, and so for t and y, where ``y`` is half the product. The
products of one level ``i + j`` are whole numbers below 2**24, so that PSUM adds them exactly; levels are carried into
digits from the lowest up. Bound by the Vector Engine, which carries. Below 40 KiB a partition.
"""

from trnsci.nki import N_TILE, jit, load, nisa, nl, require, store, tiles

BASE = 256.0
# Adding and subtracting this rounds to whole numbers, to nearest even.
ROUND = 1.5 * 2.0**23


@jit
def exact(x_hbm, t_hbm):
    S, K, F = x_hbm.shape
    S_t, K_t, M = t_hbm.shape
    require(S_t == S and K_t == K, f"x and t disagree: {S} digits of {K} rows and {S_t} of {K_t}")
    out_hbm = nl.ndarray((S, M, F), dtype=nl.bfloat16, buffer=nl.shared_hbm)  # [S, M, F]
    t_sb = load(t_hbm.permute((1, 0, 2)))  # [K, S, M]
    for f in tiles(F, N_TILE):
        x_sb = load(x_hbm[:, :, f.span].permute((1, 0, 2)))  # [K, S, f]
        y_sb = nl.ndarray((M, S, f.size), dtype=nl.bfloat16, buffer=nl.sbuf)  # [M, S, f]
        carry_sb = None
        for down in range(S + 1):
            level = S - down
            sum_ps = nl.ndarray((M, f.size), dtype=nl.float32, buffer=nl.psum)  # [M, f]
            first = max(0, level - S + 1)
            for i in range(first, min(level, S - 1) + 1):
                nisa.nc_matmul(dst=sum_ps, stationary=t_sb[:, level - i, :], moving=x_sb[:, i, :], accumulate=i > first)
            carry_sb = _carried(y_sb[:, level + 1, :] if level + 1 < S else None, sum_ps, carry_sb)
        nisa.tensor_copy(dst=y_sb[:, 0, :], src=carry_sb)
        store(out_hbm[:, :, f.span].permute((1, 0, 2)), y_sb)
    return out_hbm


def _carried(digit_sb, sum_ps, carry_sb):
    """Add the carry from below, keep the remainder as a digit, return what goes up."""
    shape = sum_ps.shape
    total_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [M, f]
    if carry_sb is None:
        nisa.tensor_copy(dst=total_sb, src=sum_ps)
    else:
        nisa.tensor_tensor(dst=total_sb, data1=sum_ps, data2=carry_sb, op=nl.add)
    shifted_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [M, f]
    nisa.tensor_scalar(dst=shifted_sb, data=total_sb, op0=nl.multiply, operand0=1.0 / BASE, op1=nl.add, operand1=ROUND)
    up_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [M, f]
    nisa.tensor_scalar(dst=up_sb, data=shifted_sb, op0=nl.subtract, operand0=ROUND)
    if digit_sb is not None:
        nisa.scalar_tensor_tensor(
            dst=digit_sb, data=up_sb, op0=nl.multiply, operand0=-BASE, op1=nl.add, operand1=total_sb
        )
    return up_sb
