"""Row normalisations."""

from trnsci.nki import N_TILE, P_MAX, jit, load, nisa, nl, store, tiles


def _broadcast(row_hbm):
    """A row of HBM on every partition: ones times the row on the Tensor Engine, copied out bank by bank."""
    _, N = row_hbm.shape
    row_sb = load(row_hbm, "compiler")  # [1, N]
    ones_sb = nl.ndarray((1, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [1, P]
    nisa.memset(dst=ones_sb, value=1.0)
    wide_sb = nl.ndarray((P_MAX, N), dtype=row_hbm.dtype, buffer=nl.sbuf)  # [P, N]
    for n in tiles(N, N_TILE):
        wide_ps = nl.ndarray((P_MAX, n.size), dtype=nl.float32, buffer=nl.psum)  # [P, n]
        nisa.nc_matmul(dst=wide_ps, stationary=ones_sb, moving=row_sb[:, n.span])
        nisa.tensor_copy(dst=wide_sb[:, n.span], src=wide_ps)
    return wide_sb


@jit
def layernorm(x_hbm, gamma_hbm, beta_hbm, epsilon):
    """(x - mean) * rsqrt(mean(x^2) - mean^2 + epsilon) * gamma + beta, one operation at a time on the Vector Engine."""
    M, N = x_hbm.shape
    y_hbm = nl.ndarray((M, N), dtype=x_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    gamma_sb = _broadcast(gamma_hbm)  # [P, N]
    beta_sb = _broadcast(beta_hbm)  # [P, N]
    for m in tiles(M, P_MAX):
        x_sb = load(x_hbm[m.span, :], "compiler")  # [m, N]
        mean_sb = nl.ndarray((m.size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [m, 1]
        nisa.tensor_reduce(dst=mean_sb, op=nl.add, data=x_sb, axis=1)
        nisa.tensor_scalar(dst=mean_sb, data=mean_sb, op0=nl.multiply, operand0=1.0 / N)
        y_sb = nl.ndarray((m.size, N), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [m, N]
        nisa.tensor_tensor(dst=y_sb, data1=x_sb, data2=x_sb, op=nl.multiply)
        var_sb = nl.ndarray((m.size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [m, 1]
        nisa.tensor_reduce(dst=var_sb, op=nl.add, data=y_sb, axis=1)
        nisa.tensor_scalar(dst=var_sb, data=var_sb, op0=nl.multiply, operand0=1.0 / N)
        square_sb = nl.ndarray((m.size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [m, 1]
        nisa.tensor_tensor(dst=square_sb, data1=mean_sb, data2=mean_sb, op=nl.multiply)
        nisa.tensor_tensor(dst=var_sb, data1=var_sb, data2=square_sb, op=nl.subtract)
        scale_sb = nl.ndarray((m.size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [m, 1]
        nisa.tensor_scalar(dst=var_sb, data=var_sb, op0=nl.add, operand0=epsilon)
        nisa.activation(dst=scale_sb, op=nl.rsqrt, data=var_sb)
        nisa.tensor_scalar(dst=y_sb, data=x_sb, op0=nl.subtract, operand0=mean_sb)
        nisa.tensor_scalar(dst=y_sb, data=y_sb, op0=nl.multiply, operand0=scale_sb)
        nisa.tensor_tensor(dst=y_sb, data1=y_sb, data2=gamma_sb, op=nl.multiply)
        nisa.tensor_tensor(dst=y_sb, data1=y_sb, data2=beta_sb, op=nl.add)
        store(y_hbm[m.span, :], y_sb, "compiler")
    return y_hbm
