"""c[B, M, N] = activation(alpha * aT[B, K, M].T @ b[B, K, N] + beta * c[B, M, N] + bias[N]).

A block of up to four row tiles of ``a`` stays in SBUF while the columns of ``b`` stream past, or lie there too when
all of ``b`` fits; each tile of ``b`` feeds one matmul per row tile, every one into its own PSUM bank. Two sets of four
banks alternate, so that one set drains while the other fills. Bound by the Tensor Engine once K >= 4 * K_TILE.
"""

from trnsci.nki import (
    K_TILE,
    M_TILE,
    N_TILE,
    PSUM_BANKS,
    QUEUES,
    WARM,
    Axis,
    Matrix,
    Tile,
    load,
    mine,
    multiply_add,
    nisa,
    nki,
    nl,
    require,
    store,
    tiles,
    warm_up,
)

ROW_TILES = PSUM_BANKS // 2
# Bytes of SBUF in each partition that all of b may take to be loaded once, and a block of a to stay.
RESIDENT = 72 << 10
BLOCK = 1 << 17
AXES = (
    Axis(1, {"aT_hbm": 0, "b_hbm": 0, "c_hbm": 0}, (0,)),
    Axis(ROW_TILES * M_TILE, {"aT_hbm": 2, "c_hbm": 1}, (1,)),
    Axis(N_TILE, {"b_hbm": 2, "c_hbm": 2, "bias_hbm": 1}, (2,)),
)
# What a search may choose: row tiles of a block, and queues.
CHOICES = {"row_tiles": (1, 2, 3, 4, 6, 8), "warm": WARM, "loads": QUEUES, "stores": QUEUES}


@nki.jit
def gemm(
    aT_hbm,
    b_hbm,
    c_hbm=None,
    scale_hbm=None,
    bias_hbm=None,
    half=False,
    activation="none",
    row_tiles=ROW_TILES,
    warm=0,
    loads="compiler",
    stores="compiler",
):
    B_a, K, M = aT_hbm.shape
    B_b, K_b, N = b_hbm.shape
    B = max(B_a, B_b)
    require(K_b == K, f"aT and b disagree on K: {K} and {K_b}")
    require(B_a in (1, B) and B_b in (1, B), f"aT and b disagree on the batch: {B_a} and {B_b}")
    out_hbm = nl.ndarray((B, M, N), dtype=aT_hbm.dtype if half else nl.float32, buffer=nl.shared_hbm)  # [B, M, N]
    warm_up(warm)
    scale_sb = None if scale_hbm == None else load(scale_hbm)  # [p, 2]
    bias_sb = None if bias_hbm == None else load(bias_hbm)  # [p, N]
    finish = (c_hbm, scale_sb, bias_sb, activation)
    for i in range(B):
        aT = Matrix(aT_hbm, min(i, B_a - 1) * K * M, K, M)
        b = Matrix(b_hbm, min(i, B_b - 1) * K * N, K, N)
        _product(out_hbm, aT, b, finish, i=i, row_tiles=row_tiles, loads=loads, stores=stores)
    return out_hbm


def _product(out_hbm, aT, b, finish, *, i, row_tiles, loads, stores):
    """Compute one matrix product."""
    K, M, N = aT.rows, aT.columns, b.columns
    width = 2 if b.hbm.dtype in (nl.bfloat16, nl.float16) else 4
    once = row_tiles * M_TILE < M and len(tiles(K, K_TILE)) * N * width <= RESIDENT
    # Where K is so long that not even a block of a stays, its tiles stream past like those of b.
    stays = len(tiles(K, K_TILE)) * row_tiles * M_TILE * width <= BLOCK
    b_sb = []
    blocks, columns = tiles(M, row_tiles * M_TILE), tiles(N, N_TILE)
    # Two cores share the row blocks, or the columns of a single one.
    if len(blocks) > 1:
        blocks = mine(blocks)
    else:
        columns = mine(columns)
    for rows in blocks:
        aT_sb = []
        begins = len(b_sb) == 0
        for k in tiles(K, K_TILE):
            if stays:
                aT_sb.append(load(aT.tile(k, rows), loads))  # [k, rows]
            if once and begins:
                b_sb.append(load(b.tile(k, Tile(0, 0, N)), loads))  # [k, N]
        for n in columns:
            _columns(out_hbm, aT, aT_sb, b, b_sb, finish=finish, i=i, rows=rows, n=n, loads=loads, stores=stores)


def _columns(out_hbm, aT, aT_sb, b, b_sb, *, finish, i, rows, n, loads, stores):
    """Compute one column tile of the result, for all row tiles of a block."""
    c_ps = []
    for m in tiles(rows.size, M_TILE):
        c_ps.append(nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum))  # [m, n]
    for k in tiles(b.rows, K_TILE):
        moving_sb = load(b.tile(k, n), loads) if len(b_sb) == 0 else b_sb[k.index][:, n.span]  # [k, n]
        fixed_sb = load(aT.tile(k, rows), loads) if len(aT_sb) == 0 else aT_sb[k.index]  # [k, rows]
        for m in tiles(rows.size, M_TILE):
            # The first matmul of a tile must overwrite PSUM: a memset does not count on trn1 and trn2.
            nisa.nc_matmul(dst=c_ps[m.index], stationary=fixed_sb[:, m.span], moving=moving_sb, accumulate=k.index > 0)
    for m in tiles(rows.size, M_TILE):
        here = slice(rows.start + m.start, rows.start + m.stop)
        last_sb = _finish(c_ps[m.index], finish, i, here=here, n=n, dtype=out_hbm.dtype)
        store(out_hbm[i, here, n.span], last_sb, stores)


def _finish(c_ps, finish, i, *, here, n, dtype):
    """Scale, add, add the bias and apply the activation, as far as asked for."""
    c_hbm, scale_sb, bias_sb, activation = finish
    last_sb = c_ps
    if scale_sb != None:
        m = c_ps.shape[0]
        alpha, beta = scale_sb[0:m, 0:1], scale_sb[0:m, 1:2]
        last_sb = nl.ndarray((m, n.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
        if bias_sb == None:
            nisa.tensor_scalar(dst=last_sb, data=c_ps, op0=nl.multiply, operand0=alpha)
        else:
            multiply_add(last_sb, c_ps, alpha, bias_sb[0:m, n.span])
        if c_hbm != None:
            c_sb = load(c_hbm[i, here, n.span])  # [m, n]
            product_sb, last_sb = last_sb, nl.ndarray((m, n.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
            multiply_add(last_sb, c_sb, beta, product_sb)
    if activation != "none":
        functions = {"relu": nl.relu, "gelu": nl.gelu, "silu": nl.silu, "sigmoid": nl.sigmoid, "tanh": nl.tanh}
        active_sb = nl.ndarray(last_sb.shape, dtype=dtype, buffer=nl.sbuf)  # [m, n]
        nisa.activation(dst=active_sb, op=functions[activation], data=last_sb)
        last_sb = active_sb
    if last_sb.buffer == nl.sbuf and last_sb.dtype != dtype:
        rounded_sb = nl.ndarray(last_sb.shape, dtype=dtype, buffer=nl.sbuf)  # [m, n]
        nisa.tensor_copy(dst=rounded_sb, src=last_sb)
        last_sb = rounded_sb
    return last_sb
