"""Philox4x32-10 and Threefry4x32-20 on whole tiles of uint32, exact, over two engines.

The Vector Engine does what it does exactly: shifts, masks, XOR, and sums below 2**24. GpSimd has native 32-bit integers
that wrap: it does the additions of Threefry, and the products of Philox in halves of 16 bits, since it keeps only the
low word of a product. A row of ``start`` is the counter (4 words), then the keys of every round as the host expanded
them. Ten rounds of Philox take 160 cycles of GpSimd and 110 of the Vector Engine for a block of four words in every
partition; twenty of Threefry take 64 and 120.
"""

from trnsci.nki import N_TILE, P_MAX, nisa, nl

BLOCKS = 4 * N_TILE
HALF, LOW = 16, 0xFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
PHILOX_ROUNDS = 10
THREEFRY_ROUNDS = 20
TURNS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
WORD = 32
UNIT = 2.0**-24
# an angle of one part in 2**24 of a turn
TURN = 3.745070282923929e-7


def _pieces(blocks):
    """Cut blocks into tiles: (first block, partitions, blocks of a partition)."""
    cut = []
    first = 0
    whole = P_MAX * BLOCKS
    for _ in range(blocks // whole):
        cut.append((first, P_MAX, BLOCKS))
        first = first + whole
    columns = (blocks - first) // P_MAX
    if columns > 0:
        cut.append((first, P_MAX, columns))
        first = first + columns * P_MAX
    if blocks > first:
        cut.append((first, blocks - first, 1))
    return cut


def _bits(data, op0, operand0, op1=None, operand1=None):
    """One or two bit operations with constants or columns, on the Vector Engine."""
    made_sb = nl.ndarray(data.shape, dtype=nl.uint32, buffer=nl.sbuf)  # [p, f]
    if op1 == None:
        nisa.tensor_scalar(dst=made_sb, data=data, op0=op0, operand0=operand0)
    else:
        nisa.tensor_scalar(dst=made_sb, data=data, op0=op0, operand0=operand0, op1=op1, operand1=operand1)
    return made_sb


def _pair(data1, data2, op, engine):
    """One operation on two tiles."""
    made_sb = nl.ndarray(data1.shape, dtype=nl.uint32, buffer=nl.sbuf)  # [p, f]
    nisa.tensor_tensor(dst=made_sb, data1=data1, data2=data2, op=op, engine=engine)
    return made_sb


def _add(data1, data2):
    """The sum modulo 2**32."""
    return _pair(data1, data2, nl.add, nisa.engine.gpsimd)


def _xor(data1, data2):
    return _pair(data1, data2, nl.bitwise_xor, nisa.engine.vector)


def _column(value, p, f):
    """A constant word as a tile of which every element is the same memory."""
    made_sb = nl.ndarray((p, 1), dtype=nl.uint32, buffer=nl.sbuf)  # [p, 1]
    nisa.memset(dst=made_sb, value=value)
    return made_sb.broadcast(1, f)


def _spread(start_sb, word, p, f):
    """One word of the start row as a tile."""
    return start_sb[0:p, word : word + 1].broadcast(1, f)


def _counters(start_sb, first, p, f, groups=1):
    """Words of the counters ``start + first + index``, with carries through all 128 bits.

    The index runs along a partition's ``f / groups`` blocks, then over partitions, then over groups.
    """
    index_sb = nl.ndarray((p, f), dtype=nl.uint32, buffer=nl.sbuf)  # [p, f]
    row = f // groups
    nisa.iota(dst=index_sb, pattern=[[p * row, groups], [1, row]], offset=first, channel_multiplier=row)
    carry_sb = index_sb
    words = []
    for i in range(4):
        word_sb = _add(_spread(start_sb, i, p, f), carry_sb)
        words.append(word_sb)
        if i < 3:
            # a sum that wrapped is smaller than what was added
            carry_sb = _pair(word_sb, carry_sb, nl.less, nisa.engine.gpsimd)
    return words


def _product(x, whole, low, high):
    """High and low word of ``x`` times a constant, whose word and halves are given as tiles."""
    x_low = _bits(x, nl.bitwise_and, LOW)
    x_high = _bits(x, nl.right_shift, HALF)
    low_low = _pair(x_low, low, nl.multiply, nisa.engine.gpsimd)
    high_low = _pair(x_high, low, nl.multiply, nisa.engine.gpsimd)
    low_high = _pair(x_low, high, nl.multiply, nisa.engine.gpsimd)
    high_high = _pair(x_high, high, nl.multiply, nisa.engine.gpsimd)
    middle = _add(high_low, _bits(low_low, nl.right_shift, HALF))
    other = _add(low_high, _bits(middle, nl.bitwise_and, LOW))
    # both terms are below 2**16, so that fp32 holds their sum
    carried = _pair(_bits(middle, nl.right_shift, HALF), _bits(other, nl.right_shift, HALF), nl.add, nisa.engine.vector)
    return _add(high_high, carried), _pair(x, whole, nl.multiply, nisa.engine.gpsimd)


def _philox(words, start_sb, p, f):
    constants = []
    for multiplier in MULTIPLIERS:
        constants.append(
            (_column(multiplier, p, f), _column(multiplier & LOW, p, f), _column(multiplier >> HALF, p, f))
        )
    x0, x1, x2, x3 = words[0], words[1], words[2], words[3]
    for r in range(PHILOX_ROUNDS):
        key = 4 + 2 * r
        high0, low0 = _product(x0, constants[0][0], constants[0][1], constants[0][2])
        high1, low1 = _product(x2, constants[1][0], constants[1][1], constants[1][2])
        mixed1 = _bits(x1, nl.bitwise_xor, start_sb[0:p, key : key + 1])
        mixed3 = _bits(x3, nl.bitwise_xor, start_sb[0:p, key + 1 : key + 2])
        x0, x1, x2, x3 = _xor(high1, mixed1), low1, _xor(high0, mixed3), low0
    return [x0, x1, x2, x3]


def _mix(x, y, turn):
    """One half of a Threefry round: ``x + y``, and ``y`` turned left and XORed with it."""
    total = _add(x, y)
    # the two parts of a turned word have no bit in common, so XOR joins them
    left = _xor(_bits(y, nl.left_shift, turn), total)
    return total, _xor(left, _bits(y, nl.right_shift, WORD - turn))


def _inject(words, start_sb, number, p, f):
    made = []
    for i in range(4):
        made.append(_add(words[i], _spread(start_sb, 4 + 4 * number + i, p, f)))
    return made


def _threefry(words, start_sb, p, f):
    x = _inject(words, start_sb, 0, p, f)
    for r in range(THREEFRY_ROUNDS):
        turn = TURNS[r % 8]
        second, fourth = (3, 1) if r % 2 == 1 else (1, 3)
        x[0], x[second] = _mix(x[0], x[second], turn[0])
        x[2], x[fourth] = _mix(x[2], x[fourth], turn[1])
        if r % 4 == 3:
            x = _inject(x, start_sb, r // 4 + 1, p, f)
    return x


def _words(words, start_sb, p, f, engine):
    """The four words of every block, from the four words of its counter."""
    if engine == "philox4x32":
        return _philox(words, start_sb, p, f)
    return _threefry(words, start_sb, p, f)


def _normals(dst_sb, words, p, f):
    """Box and Muller: four standard normals from each block, written to ``dst`` [p, 4 f] in the order of the stream."""
    radius_sb = nl.ndarray((p, 2 * f), dtype=nl.float32, buffer=nl.sbuf)  # [p, 2 f]
    angle_sb = nl.ndarray((p, 2 * f), dtype=nl.float32, buffer=nl.sbuf)  # [p, 2 f]
    one_sb = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.memset(dst=one_sb, value=UNIT)
    for q in range(2):
        here = slice(q * f, (q + 1) * f)
        # ln((k + 1) / 2**24); the argument is exact
        kept_sb = _bits(words[2 * q], nl.right_shift, 8)
        nisa.activation(dst=radius_sb[:, here], op=nl.log, data=kept_sb, scale=UNIT, bias=one_sb)
        turn_sb = _bits(words[2 * q + 1], nl.right_shift, 8)
        nisa.tensor_scalar(dst=angle_sb[:, here], data=turn_sb, op0=nl.subtract, operand0=float(1 << 23))
    # ln 1 is 0, which the table of square roots does not cover
    nisa.tensor_scalar(
        dst=radius_sb, data=radius_sb, op0=nl.multiply, operand0=-2.0, op1=nl.maximum, operand1=2.0**-100
    )
    nisa.activation(dst=radius_sb, op=nl.sqrt, data=radius_sb)
    # sine wants [-pi, pi]: half a turn is subtracted above, which changes both signs
    cosine_sb = nl.ndarray((p, 2 * f), dtype=nl.float32, buffer=nl.sbuf)  # [p, 2 f]
    nisa.tensor_scalar(
        dst=cosine_sb, data=angle_sb, op0=nl.abs, operand0=None, op1=nl.subtract, operand1=float(1 << 22)
    )
    nisa.activation(dst=cosine_sb, op=nl.sin, data=cosine_sb, scale=TURN)
    nisa.activation(dst=angle_sb, op=nl.sin, data=angle_sb, scale=-TURN)
    for q in range(2):
        here = slice(q * f, (q + 1) * f)
        for i, part_sb in ((2 * q, cosine_sb), (2 * q + 1, angle_sb)):
            nisa.tensor_tensor(
                dst=dst_sb[:, i : 4 * f : 4], data1=radius_sb[:, here], data2=part_sb[:, here], op=nl.multiply
            )
