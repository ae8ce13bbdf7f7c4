"""out = sum of f(aT[B, K, M].T @ b[B, K, N], extras) over nothing, N, M, both, or everything; f is elementwise.

The product lives in PSUM, f runs on the Vector and Scalar Engines tile by tile, sums along N are folded on the Vector
Engine and sums along M are products with ones. Only what is asked for reaches HBM. f comes as instructions (op, left,
right, constant): operands are numbers of earlier values, or constants. Extras are [B or 1, M or 1, N or 1].
SBUF in each partition: the row tile of aT, two tiles of b, and 2 KiB per instruction.
"""

from trnsci.nki import (
    K_TILE,
    M_TILE,
    N_TILE,
    P_MAX,
    QUEUES,
    Axis,
    full,
    is_first_core,
    load,
    mine,
    my_indices,
    nisa,
    nki,
    nl,
    require,
    store,
    tiles,
)

_EXTRAS = ("first_hbm", "second_hbm", "third_hbm", "fourth_hbm")
_DIMENSIONS = (
    ("b", 1, {"aT_hbm": 0, "b_hbm": 0}),
    ("m", M_TILE, {"aT_hbm": 2}),
    ("n", N_TILE, {"b_hbm": 2}),
)
AXES = tuple(
    Axis(step, {**cut, **dict.fromkeys(_EXTRAS, dim)}, (dim,), last=name not in keep, when=("keep", keep))
    for keep in ("bmn", "bm", "bn", "b", "")
    for dim, (name, step, cut) in enumerate(_DIMENSIONS)
)
# What a search may choose: queues of factors and results.
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def fuse(
    aT_hbm,
    b_hbm,
    first_hbm=None,
    second_hbm=None,
    third_hbm=None,
    fourth_hbm=None,
    code=(),
    keep="bmn",
    loads="compiler",
    stores="compiler",
):
    B, K, M = aT_hbm.shape
    B_b, K_b, N = b_hbm.shape
    require(K_b == K and B_b == B, f"aT and b disagree on [B, K]: {(B, K)} and {(B_b, K_b)}")
    extras_hbm = (first_hbm, second_hbm, third_hbm, fourth_hbm)
    shape = (B if "b" in keep else 1, M if "m" in keep else 1, N if "n" in keep else 1)
    out_hbm = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)  # [B, M, N]
    total_sb = full((P_MAX, 1), 0.0)  # [P, 1]
    # two cores share the products, or the tiles of a single one; what is one sum stays on one
    inside = B == 1 and keep in ("bmn", "bm", "bn")
    if "b" in keep:
        products = my_indices(B, not inside)
    else:
        products = my_indices(B if is_first_core() else 0, False)
    for i in products:
        if "b" in keep and i > 0:
            total_sb = full((P_MAX, 1), 0.0)  # [P, 1]
        if keep == "bn":
            _columns(out_hbm, aT_hbm, b_hbm, extras_hbm, code=code, i=i, loads=loads, stores=stores)
        else:
            _rows(out_hbm, total_sb, aT_hbm, b_hbm, extras_hbm, code=code, keep=keep, i=i, loads=loads, stores=stores)
        if keep == "b" or (keep == "" and i == B - 1):
            store(out_hbm[i if keep == "b" else 0], _over_partitions(total_sb), stores)
    return out_hbm


def _over_partitions(values_sb):
    """Add the partitions: [P, n] to [1, n], in PSUM."""
    ones_sb = full((values_sb.shape[0], 1), 1.0)  # [P, 1]
    sum_ps = nl.ndarray((1, values_sb.shape[1]), dtype=nl.float32, buffer=nl.psum)  # [1, n]
    nisa.nc_matmul(dst=sum_ps, stationary=ones_sb, moving=values_sb, accumulate=False)
    return sum_ps


def _rows(out_hbm, total_sb, aT_hbm, b_hbm, extras_hbm, *, code, keep, i, loads, stores):
    """Compute one product by row tiles: stored as it is, or summed along N into rows or into the total."""
    K, M = aT_hbm.shape[1], aT_hbm.shape[2]
    N = b_hbm.shape[2]
    for m in mine(tiles(M, M_TILE), aT_hbm.shape[0] == 1 and "m" in keep):
        aT_sb = []
        for k in tiles(K, K_TILE):
            aT_sb.append(load(aT_hbm[i, k.span, m.span], loads))  # [k, m]
        sums_sb = nl.ndarray((m.size, len(tiles(N, N_TILE))), dtype=nl.float32, buffer=nl.sbuf)  # [m, T]
        for n in tiles(N, N_TILE):
            tile_sb = _tile(aT_sb, b_hbm, extras_hbm, code, i=i, m=m, n=n, loads=loads)  # [m, n]
            if keep == "bmn":
                store(out_hbm[i, m.span, n.span], tile_sb, stores)
            else:
                nisa.tensor_reduce(dst=sums_sb[:, n.index : n.index + 1], op=nl.add, data=tile_sb, axis=1)
        if keep != "bmn":
            row_sb = nl.ndarray((m.size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [m, 1]
            nisa.tensor_reduce(dst=row_sb, op=nl.add, data=sums_sb, axis=1)
            if keep == "bm":
                store(out_hbm[i, m.span, 0:1], row_sb, stores)
            else:
                part_sb = total_sb[0 : m.size, :]
                nisa.tensor_tensor(dst=part_sb, data1=part_sb, data2=row_sb, op=nl.add)


def _columns(out_hbm, aT_hbm, b_hbm, extras_hbm, *, code, i, loads, stores):
    """Compute one product by column tiles, summed along M."""
    K, M = aT_hbm.shape[1], aT_hbm.shape[2]
    N = b_hbm.shape[2]
    for n in mine(tiles(N, N_TILE), aT_hbm.shape[0] == 1):
        sum_sb = full((P_MAX, n.size), 0.0)  # [P, n]
        for m in tiles(M, M_TILE):
            aT_sb = []
            for k in tiles(K, K_TILE):
                aT_sb.append(load(aT_hbm[i, k.span, m.span], loads))  # [k, m]
            tile_sb = _tile(aT_sb, b_hbm, extras_hbm, code, i=i, m=m, n=n, loads=loads)  # [m, n]
            part_sb = sum_sb[0 : m.size, :]
            nisa.tensor_tensor(dst=part_sb, data1=part_sb, data2=tile_sb, op=nl.add)
        store(out_hbm[i, 0:1, n.span], _over_partitions(sum_sb), stores)


def _tile(aT_sb, b_hbm, extras_hbm, code, *, i, m, n, loads):
    """Apply the function to one tile of the product, in SBUF."""
    product_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
    for k in tiles(b_hbm.shape[1], K_TILE):
        b_sb = load(b_hbm[i, k.span, n.span], loads)  # [k, n]
        nisa.nc_matmul(dst=product_ps, stationary=aT_sb[k.index], moving=b_sb, accumulate=k.index > 0)
    product_sb = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
    nisa.activation(dst=product_sb, op=nl.copy, data=product_ps)
    values = [product_sb]
    for extra_hbm in extras_hbm:
        if extra_hbm != None:
            values.append(_extra(extra_hbm, i, m, n))
    for step in range(len(values), len(code)):
        values.append(_apply(code[step], values))
    last_sb = values[len(values) - 1]
    if last_sb.shape[1] != n.size:
        wide_sb = full((m.size, n.size), 0.0)  # [m, n]
        nisa.tensor_scalar(dst=wide_sb, data=wide_sb, op0=nl.add, operand0=last_sb)
        last_sb = wide_sb
    return last_sb


def _extra(extra_hbm, i, m, n):
    """Load the tile of an extra operand: [m, n], or [m, 1] where it does not depend on N."""
    B, M, N = extra_hbm.shape
    at = min(i, B - 1)
    if M > 1 and N > 1:
        return load(extra_hbm[at, m.span, n.span], "compiler")  # [m, n]
    if N == 1 and M > 1:
        return load(extra_hbm[at, m.span, 0:1], "compiler")  # [m, 1]
    # One row for all partitions: a product with a column of ones.
    columns = n.span if N > 1 else slice(0, 1)
    row_sb = load(extra_hbm[at, 0:1, columns], "compiler")  # [1, n]
    ones_sb = full((1, m.size), 1.0)  # [1, m]
    rows_ps = nl.ndarray((m.size, row_sb.shape[1]), dtype=nl.float32, buffer=nl.psum)  # [m, n]
    nisa.nc_matmul(dst=rows_ps, stationary=ones_sb, moving=row_sb, accumulate=False)
    rows_sb = nl.ndarray((m.size, row_sb.shape[1]), dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
    nisa.tensor_copy(dst=rows_sb, src=rows_ps)
    return rows_sb


def _apply(instruction, values):
    """Apply one instruction of f."""
    op, left, right, constant = instruction
    if op in ("exp", "log", "sqrt", "rsqrt", "square", "abs", "tanh", "sigmoid", "relu"):
        functions = {
            "exp": nl.exp, "log": nl.log, "sqrt": nl.sqrt, "rsqrt": nl.rsqrt, "square": nl.square, "abs": nl.abs,
            "tanh": nl.tanh, "sigmoid": nl.sigmoid, "relu": nl.relu,
        }  # fmt: skip
        x_sb = values[int(left)]
        result_sb = nl.ndarray(x_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
        nisa.activation(dst=result_sb, op=functions[op], data=x_sb)
        return result_sb
    if op == "reciprocal":
        return _inverse(values[int(left)])
    x = left if constant == "left" else values[int(left)]
    y = right if constant == "right" else values[int(right)]
    if op == "divide":
        op = "multiply"
        if constant == "right":
            y = 1.0 / y
        else:
            y = _inverse(y)
    functions = {
        "add": nl.add, "subtract": nl.subtract, "multiply": nl.multiply, "maximum": nl.maximum, "minimum": nl.minimum
    }  # fmt: skip
    return _binary(functions[op], x, y, constant)


def _inverse(x_sb):
    inverse_sb = nl.ndarray(x_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
    nisa.reciprocal(dst=inverse_sb, data=x_sb)
    return inverse_sb


def _binary(op, x, y, constant):
    """Apply op to x and y, where one may be a number or a column."""
    if constant == "left":
        wide_sb, other, reverse = y, x, True
    elif constant == "right" or y.shape[1] < x.shape[1]:
        wide_sb, other, reverse = x, y, False
    elif x.shape[1] < y.shape[1]:
        wide_sb, other, reverse = y, x, True
    else:
        result_sb = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
        nisa.tensor_tensor(dst=result_sb, data1=x, data2=y, op=op, engine=nisa.engine.gpsimd)
        return result_sb
    result_sb = nl.ndarray(wide_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
    nisa.tensor_scalar(dst=result_sb, data=wide_sb, op0=op, operand0=other, reverse0=reverse)
    return result_sb
