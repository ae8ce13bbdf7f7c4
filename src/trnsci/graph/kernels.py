"""Steps of a program between the kernels of ops: pointwise expressions, reductions, copies, transposes, gathers.

Where each block of the work lies in HBM is worked out before (`trnsci.graph.layouts`): a block is its partitions, its
free sizes and the offset of each operand. So these functions only load, compute and store.
"""

from trnsci.nki import K_TILE, M_TILE, N_TILE, P_MAX, full, is_first_core, load, mine, move, nisa, nl, tiles

# 2 pi in three parts of few bits, so that multiples of the first two are exact
_TURN = (6.28125, 0.0019350051879882812, 3.0199157e-07)
_INFINITY = float("inf")


def pointwise(outs_hbm, ins_hbm, blocks=(), in_strides=(), out_strides=(), code=(), stored=(), dtypes=()):
    """Store values of an expression, block by block: instructions (op, slot, operands) on SBUF slots."""
    for block in mine(blocks):
        p, sizes, in_offsets, out_offsets = block
        wide = 1
        for size in sizes:
            wide = wide * size
        slots = []
        for _ in dtypes:
            slots.append(None)
        for k in range(len(ins_hbm)):
            slots[k] = _load_block(ins_hbm[k], p, sizes, in_strides[k], in_offsets[k])
        for instruction in code:
            _apply(slots, instruction, p, dtypes)
        for k in range(len(outs_hbm)):
            value_sb = _widen(slots[stored[k]], p, wide)
            out_hbm = outs_hbm[k]
            if value_sb.dtype != out_hbm.dtype:
                rounded_sb = nl.ndarray((p, wide), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [p, n]
                nisa.tensor_copy(dst=rounded_sb, src=value_sb)
                value_sb = rounded_sb
            move(_pattern(out_hbm, p, sizes, out_strides[k], out_offsets[k]), value_sb)


def _pattern(x_hbm, p, sizes, strides, offset):
    """Return the view of a block: [p, *sizes]."""
    pattern = [[strides[0], p]]
    for k in range(len(sizes)):
        pattern.append([strides[k + 1], sizes[k]])
    return x_hbm.ap(pattern, offset=offset)


def _load_block(x_hbm, p, sizes, strides, offset):
    """Load a block, [p, n], or [p, 1] where it does not vary along a partition."""
    varies = False
    wide = 1
    for k in range(len(sizes)):
        varies = varies or (strides[k + 1] != 0 and sizes[k] > 1)
        wide = wide * sizes[k]
    if not varies:
        column_sb = nl.ndarray((p, 1), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [p, 1]
        move(column_sb, x_hbm.ap([[strides[0], p], [1, 1]], offset=offset))
        return column_sb
    tile_sb = nl.ndarray((p, wide), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [p, n]
    move(tile_sb, _pattern(x_hbm, p, sizes, strides, offset))
    return tile_sb


def _widen(x_sb, p, wide):
    """Return a column as a tile."""
    if x_sb.shape[1] == wide:
        return x_sb
    wide_sb = full((p, wide), 0.0)  # [p, n]
    nisa.tensor_scalar(dst=wide_sb, data=wide_sb, op0=nl.add, operand0=_as_float(x_sb))
    return wide_sb


def _apply(slots, instruction, p, dtypes):
    """Compute one value of the expression; its operands are ("slot", number) or ("number", itself)."""
    op, slot, operands = instruction
    values = []
    shape = (p, 1)
    for operand in operands:
        value = operand[1]
        if operand[0] == "slot":
            value = slots[operand[1]]
            if value.shape[1] > shape[1]:
                shape = value.shape
        values.append(value)
    if op == "select":
        slots[slot] = _select(operands, values, shape)
        return
    if op == "fill":
        slots[slot] = full((p, 1), values[0])
        return
    value_sb = nl.ndarray(shape, dtype=dtypes[slot], buffer=nl.sbuf)  # [p, n]
    if len(values) == 1:
        _unary(value_sb, op, values[0])
    else:
        _binary(value_sb, op, operands, values)
    slots[slot] = value_sb


def _unary(value_sb, op, x_sb):
    """Apply a function of one value."""
    functions = {
        "exp": nl.exp, "log": nl.log, "tanh": nl.tanh, "sigmoid": nl.sigmoid, "relu": nl.relu, "abs": nl.abs,
        "erf": nl.erf, "sign": nl.sign, "softplus": nl.softplus, "square": nl.square,
    }  # fmt: skip
    if op == "copy":
        nisa.tensor_copy(dst=value_sb, src=x_sb)
    elif op == "reciprocal":
        nisa.reciprocal(dst=value_sb, data=x_sb)
    elif op == "round":
        whole_sb = nl.ndarray(x_sb.shape, dtype=nl.int32, buffer=nl.sbuf)  # [p, n]
        nisa.tensor_copy(dst=whole_sb, src=x_sb)
        nisa.tensor_copy(dst=value_sb, src=whole_sb)
    elif op == "sin" or op == "cos":
        _sine(value_sb, x_sb, op == "cos")
    else:
        nisa.activation(dst=value_sb, op=functions[op], data=x_sb)


def _sine(value_sb, x_sb, cosine):
    """Reduce to half a turn either way, then take the sine; a cosine is a quarter of a turn ahead."""
    turns_sb = nl.ndarray(x_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [p, n]
    nisa.tensor_scalar(
        dst=turns_sb, data=x_sb, op0=nl.multiply, operand0=0.15915494309189535, op1=nl.add, operand1=0.25 * cosine
    )
    whole_sb = nl.ndarray(x_sb.shape, dtype=nl.int32, buffer=nl.sbuf)  # [p, n]
    nisa.tensor_copy(dst=whole_sb, src=turns_sb)
    nisa.tensor_copy(dst=turns_sb, src=whole_sb)
    rest_sb = nl.ndarray(x_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [p, n]
    nisa.tensor_copy(dst=rest_sb, src=x_sb)
    for part in _TURN:
        nisa.scalar_tensor_tensor(
            dst=rest_sb, data=turns_sb, op0=nl.multiply, operand0=-part, op1=nl.add, operand1=rest_sb
        )
    if cosine:
        nisa.tensor_scalar(dst=rest_sb, data=rest_sb, op0=nl.add, operand0=1.5707963267948966)
    nisa.tensor_scalar(
        dst=rest_sb,
        data=rest_sb,
        op0=nl.minimum,
        operand0=3.1415925,
        op1=nl.maximum,
        operand1=-3.1415925,
    )
    nisa.activation(dst=value_sb, op=nl.sin, data=rest_sb)


def _binary(value_sb, op, operands, values):
    """Apply an operator to two values, of which one may be a number or a column."""
    functions = {
        "add": nl.add, "subtract": nl.subtract, "multiply": nl.multiply, "maximum": nl.maximum, "minimum": nl.minimum,
        "power": nl.power, "equal": nl.equal, "not_equal": nl.not_equal, "greater": nl.greater,
        "greater_equal": nl.greater_equal, "less": nl.less, "less_equal": nl.less_equal,
        "logical_and": nl.logical_and, "logical_or": nl.logical_or, "logical_xor": nl.logical_xor,
    }  # fmt: skip
    x, y = values
    if operands[0][0] == "number":
        nisa.tensor_scalar(dst=value_sb, data=y, op0=functions[op], operand0=x, reverse0=True)
    elif operands[1][0] == "number":
        nisa.tensor_scalar(dst=value_sb, data=x, op0=functions[op], operand0=y)
    elif y.shape[1] < x.shape[1]:
        nisa.tensor_scalar(dst=value_sb, data=x, op0=functions[op], operand0=_as_float(y))
    elif x.shape[1] < y.shape[1]:
        nisa.tensor_scalar(dst=value_sb, data=y, op0=functions[op], operand0=_as_float(x), reverse0=True)
    else:
        nisa.tensor_tensor(dst=value_sb, data1=x, data2=y, op=functions[op])


def _as_float(x_sb):
    """Return a tile in float32, as operands of one number for each partition are."""
    if x_sb.dtype == nl.float32:
        return x_sb
    float_sb = nl.ndarray(x_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [p, n]
    nisa.tensor_copy(dst=float_sb, src=x_sb)
    return float_sb


def _select(operands, values, shape):
    """Return the left value where the condition holds, the right one elsewhere; either may be a number."""
    condition_sb, left, right = values
    p, n = shape
    chosen_sb = nl.ndarray((p, n), dtype=nl.float32, buffer=nl.sbuf)  # [p, n]
    if operands[2][0] == "slot":
        nisa.tensor_copy(dst=chosen_sb, src=_widen(right, p, n))
    else:
        nisa.memset(dst=chosen_sb, value=right)
    holds_sb = nl.ndarray((p, n), dtype=nl.uint8, buffer=nl.sbuf)  # [p, n]
    nisa.tensor_copy(dst=holds_sb, src=_widen(condition_sb, p, n))
    if operands[1][0] == "slot":
        left = _as_float(_widen(left, p, n))
    nisa.tensor_copy_predicated(dst=chosen_sb, src=left, predicate=holds_sb)
    return chosen_sb


def reduce_rows(out_hbm, x_hbm, groups=(), strides=(), op="add", scale=1.0):
    """Reduce the free elements of blocks: each group is partitions, an offset of out, and blocks (sizes, offset)."""
    operator = _reducing(op)
    for group in mine(groups):
        p, out_offset, blocks = group
        parts_sb = nl.ndarray((p, len(blocks)), dtype=nl.float32, buffer=nl.sbuf)  # [p, T]
        for k in range(len(blocks)):
            sizes, offset = blocks[k]
            x_sb = _load_block(x_hbm, p, sizes, strides, offset)
            nisa.tensor_reduce(dst=parts_sb[:, k : k + 1], op=operator, data=x_sb, axis=1)
        whole_sb = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
        nisa.tensor_reduce(dst=whole_sb, op=operator, data=parts_sb, axis=1)
        result_sb = nl.ndarray((p, 1), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [p, 1]
        nisa.tensor_scalar(dst=result_sb, data=whole_sb, op0=nl.multiply, operand0=scale)
        move(out_hbm.ap([[1, p], [1, 1]], offset=out_offset), result_sb)


def _reducing(op):
    functions = {"add": nl.add, "maximum": nl.maximum, "minimum": nl.minimum}
    return functions[op]


def reduce_columns(out_hbm, x_hbm, groups=(), stride=0, op="add", scale=1.0):
    """Reduce over partitions: each group is columns, an offset of out, and row tiles (p, offset)."""
    operator = _reducing(op)
    for group in mine(groups):
        n, out_offset, rows = group
        total_sb = nl.ndarray((rows[0][0], n), dtype=nl.float32, buffer=nl.sbuf)  # [p, n]
        for k in range(len(rows)):
            p, offset = rows[k]
            x_sb = nl.ndarray((p, n), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [p, n]
            move(x_sb, x_hbm.ap([[stride, p], [1, n]], offset=offset))
            if k == 0:
                nisa.tensor_copy(dst=total_sb, src=x_sb)
            else:
                nisa.tensor_tensor(dst=total_sb[0:p, :], data1=total_sb[0:p, :], data2=x_sb, op=operator)
        _store_row(out_hbm, total_sb, op, out_offset, scale)


def _store_row(out_hbm, total_sb, op, out_offset, scale):
    """Reduce over partitions and store the row."""
    p, n = total_sb.shape
    for c in tiles(n, N_TILE):
        row_sb = nl.ndarray((1, c.size), dtype=nl.float32, buffer=nl.sbuf)  # [1, n]
        if op == "add":
            row_ps = nl.ndarray((1, c.size), dtype=nl.float32, buffer=nl.psum)  # [1, n]
            nisa.nc_matmul(dst=row_ps, stationary=full((p, 1), 1.0), moving=total_sb[:, c.span], accumulate=False)
            nisa.tensor_copy(dst=row_sb, src=row_ps)
        else:
            # partitions have no least value: of the negatives the greatest
            sign = -1.0 if op == "minimum" else 1.0
            signed_sb = nl.ndarray((p, c.size), dtype=nl.float32, buffer=nl.sbuf)  # [p, n]
            nisa.tensor_scalar(dst=signed_sb, data=total_sb[:, c.span], op0=nl.multiply, operand0=sign)
            most_sb = nl.ndarray((1, c.size), dtype=nl.float32, buffer=nl.sbuf)  # [1, n]
            nisa.tensor_partition_reduce(dst=most_sb, op=nl.maximum, data=signed_sb)
            nisa.tensor_scalar(dst=row_sb, data=most_sb, op0=nl.multiply, operand0=sign)
        result_sb = nl.ndarray((1, c.size), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [1, n]
        nisa.tensor_scalar(dst=result_sb, data=row_sb, op0=nl.multiply, operand0=scale)
        move(out_hbm.ap([[1, 1], [1, c.size]], offset=out_offset + c.start), result_sb)


def reduce_all(out_hbm, x_hbm, blocks=(), op="add", scale=1.0):
    """Reduce everything on one core: blocks are (p, n, offset), contiguous."""
    if not is_first_core():
        return
    operator = _reducing(op)
    neutral = {"add": 0.0, "maximum": -_INFINITY, "minimum": _INFINITY}
    parts_sb = full((P_MAX, len(blocks)), neutral[op])  # [P, T]
    for k in range(len(blocks)):
        p, n, offset = blocks[k]
        x_sb = nl.ndarray((p, n), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [p, n]
        move(x_sb, x_hbm.ap([[n, p], [1, n]], offset=offset))
        nisa.tensor_reduce(dst=parts_sb[0:p, k : k + 1], op=operator, data=x_sb, axis=1)
    total_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [P, 1]
    nisa.tensor_reduce(dst=total_sb, op=operator, data=parts_sb, axis=1)
    _store_row(out_hbm, total_sb, op, 0, scale)


def copy(out_hbm, x_hbm, parts=()):
    """Copy views: each part is sizes, strides and offset in out, and in x; DMA alone moves them."""
    for part in mine(parts):
        sizes, out_strides, out_offset, strides, offset = part
        to, here = [], []
        for k in range(len(sizes)):
            to.append([out_strides[k], sizes[k]])
            here.append([strides[k], sizes[k]])
        move(out_hbm.ap(to, offset=out_offset), x_hbm.ap(here, offset=offset))


def transpose(out_hbm, x_hbm, matrices=(), rows=1, columns=1, stride=1):
    """Set matrices [columns, rows] of out to the transposes of [rows, columns] of x, which has a stride of its own."""
    for offsets in matrices:
        out_offset, offset = offsets
        for n in mine(tiles(columns, M_TILE)):
            for wide in tiles(rows, N_TILE):
                moved_ps = nl.ndarray((n.size, wide.size), dtype=x_hbm.dtype, buffer=nl.psum)  # [n, m]
                for m in tiles(wide.size, K_TILE):
                    first = offset + (wide.start + m.start) * stride + n.start
                    x_sb = load(x_hbm.ap([[stride, m.size], [1, n.size]], offset=first))  # [m, n]
                    nisa.nc_transpose(dst=moved_ps[:, m.span], data=x_sb)
                moved_sb = nl.ndarray((n.size, wide.size), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [n, m]
                nisa.tensor_copy(dst=moved_sb, src=moved_ps)
                first = out_offset + n.start * rows + wide.start
                move(out_hbm.ap([[rows, n.size], [1, wide.size]], offset=first), moved_sb)


def gather(out_hbm, x_hbm, index_hbm, rows=1, columns=1):
    """Set rows of out to the rows of x [R, columns] that the indices name."""
    for r in mine(tiles(rows, P_MAX)):
        index_sb = load(index_hbm.ap([[1, r.size], [1, 1]], offset=r.start))  # [r, 1]
        x_sb = nl.ndarray((r.size, columns), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [r, C]
        taken = x_hbm.ap([[columns, r.size], [1, columns]], offset=0, vector_offset=index_sb, indirect_dim=0)
        nisa.dma_copy(dst=x_sb, src=taken)
        move(out_hbm.ap([[columns, r.size], [1, columns]], offset=r.start * columns), x_sb)


def reverse(out_hbm, x_hbm, exchange_hbm, rows=1, columns=1):
    """Set the rows of out to those of x [rows, columns] in reverse: products with the exchange matrix."""
    for r in mine(tiles(rows, P_MAX)):
        # the lower left corner of the exchange matrix is a smaller one
        exchange_sb = load(exchange_hbm[P_MAX - r.size : P_MAX, 0 : r.size])  # [r, r]
        for c in tiles(columns, N_TILE):
            x_sb = load(x_hbm.ap([[columns, r.size], [1, c.size]], offset=r.start * columns + c.start))  # [r, c]
            moved_ps = nl.ndarray((r.size, c.size), dtype=nl.float32, buffer=nl.psum)  # [r, c]
            nisa.nc_matmul(
                dst=moved_ps,
                stationary=exchange_sb,
                moving=x_sb,
                accumulate=False,
            )
            moved_sb = nl.ndarray((r.size, c.size), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [r, c]
            nisa.tensor_copy(dst=moved_sb, src=moved_ps)
            first = (rows - r.stop) * columns + c.start
            move(out_hbm.ap([[columns, r.size], [1, c.size]], offset=first), moved_sb)
