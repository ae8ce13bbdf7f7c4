"""Philox4x32-10 and Threefry4x32-20 on whole tiles of uint32, exact, over two engines.

The Vector Engine does what it does exactly: shifts, masks, XOR, and sums below 2**24. GpSimd has 32-bit integers, of
which only results below 2**32 are taken for granted, neither that they wrap nor that they compare: products are formed
from halves of 16 bits, sums from the lower 31 bits, and the upper bit of a sum and its carry are bit logic.

A row of ``start`` is the counter (4 words), the keys of every round as the host expanded them, then the constants that
do not fit a signed number: 2**31 - 1, 2**31, and for Philox the halves of its multipliers.
"""

from trnsci.nki import N_TILE, P_MAX, load, mine, nisa, nl, store

BLOCKS = 4 * N_TILE
# What a search may choose: how many blocks a partition takes at once.
WIDTHS = (N_TILE, 2 * N_TILE, 4 * N_TILE)
HALF, LOW = 16, 0xFFFF
PHILOX_ROUNDS = 10
THREEFRY_ROUNDS = 20
ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
WORD = 32
UNIT = 2.0**-24
# an angle of one part in 2**24 of a turn
TURN = 3.745070282923929e-7


def _of_counters(start_hbm, counters_hbm, engine, width, loads, stores):
    """Compute the words of given counters."""
    start = _Start(start_hbm, engine)
    blocks = counters_hbm.shape[1]
    out_hbm = nl.ndarray((4, blocks), dtype=nl.uint32, buffer=nl.shared_hbm)  # [4, B]
    for piece in mine(_pieces(blocks, width)):
        first, p, f = piece
        given = []
        for i in range(4):
            given.append(load(counters_hbm.ap([[f, p], [1, f]], offset=i * blocks + first), loads))  # [p, f]
        words_sb = _words(given, start, p, f, engine)
        for i in range(4):
            store(out_hbm.ap([[f, p], [1, f]], offset=i * blocks + first), words_sb[i], stores)
    return out_hbm


def _pieces(blocks, width):
    """Cut blocks into tiles: (first block, partitions, blocks of a partition)."""
    cut = []
    first = 0
    whole = P_MAX * width
    for _ in range(blocks // whole):
        cut.append((first, P_MAX, width))
        first = first + whole
    columns = (blocks - first) // P_MAX
    if columns > 0:
        cut.append((first, P_MAX, columns))
        first = first + columns * P_MAX
    if blocks > first:
        cut.append((first, blocks - first, 1))
    return cut


class _Start(nl.NKIObject):
    """The start row on every partition: its words, and each word's lower 31 bits, upper bit in place, and upper bit.

    For Philox the halves of each word in their place as well.
    """

    def __init__(self, start_hbm, engine):
        keys = 2 * PHILOX_ROUNDS if engine == "philox4x32" else 4 * (THREEFRY_ROUNDS // 4 + 1)
        self.words_sb = load(start_hbm)  # [P, 4 + keys + constants]
        # columns of 2**31 - 1 and 2**31, and where the halves of Philox' multipliers begin
        self.rest = 4 + keys
        self.sign = 5 + keys
        self.halves = 6 + keys
        self.low_sb = _bits(self.words_sb, nl.bitwise_and, self.column(self.rest, P_MAX))
        self.top_sb = _bits(self.words_sb, nl.bitwise_and, self.column(self.sign, P_MAX))
        self.bit_sb = _bits(self.words_sb, nl.right_shift, WORD - 1)
        if engine == "philox4x32":
            self.lower_sb = _bits(self.words_sb, nl.bitwise_and, LOW)
            self.upper_sb = _bits(self.words_sb, nl.right_shift, HALF, nl.left_shift, HALF)

    def column(self, word, p):
        """Return one word as a [p, 1] operand."""
        return self.words_sb[0:p, word : word + 1]


def _broadcast(row_sb, word, p, f):
    """Broadcast one word of a row to a tile, all of whose elements are the same memory."""
    return row_sb.ap([[row_sb.shape[1], p], [0, f]], offset=word)


def _bits(data, op0, operand0, op1=None, operand1=None):
    """Apply one or two bit operations with constants or columns, on the Vector Engine."""
    out_sb = nl.ndarray(data.shape, dtype=nl.uint32, buffer=nl.sbuf)  # [p, f]
    if op1 == None:
        nisa.tensor_scalar(dst=out_sb, data=data, op0=op0, operand0=operand0)
    else:
        nisa.tensor_scalar(dst=out_sb, data=data, op0=op0, operand0=operand0, op1=op1, operand1=operand1)
    return out_sb


def _pair(data1, data2, op, engine):
    """Apply one operation to two tiles."""
    out_sb = nl.ndarray(data1.shape, dtype=nl.uint32, buffer=nl.sbuf)  # [p, f]
    nisa.tensor_tensor(dst=out_sb, data1=data1, data2=data2, op=op, engine=engine)
    return out_sb


def _add(data1, data2):
    """Add two words whose sum stays below 2**32."""
    return _pair(data1, data2, nl.add, nisa.engine.gpsimd)


def _xor(data1, data2):
    return _pair(data1, data2, nl.bitwise_xor, nisa.engine.vector)


def _sum(x, y, start, p):
    """Add modulo 2**32: the lower 31 bits as integers, the upper bit as the XOR of three."""
    low = start.column(start.rest, p)
    total = _add(_bits(x, nl.bitwise_and, low), _bits(y, nl.bitwise_and, low))
    return _xor(_bits(_xor(x, y), nl.bitwise_and, start.column(start.sign, p)), total)


def _sum_word(x, start, word, p, f):
    """Add one word of the start row to a tile, modulo 2**32."""
    low = _bits(x, nl.bitwise_and, start.column(start.rest, p))
    total = _add(low, _broadcast(start.low_sb, word, p, f))
    top = _bits(x, nl.bitwise_xor, start.column(word, p), nl.bitwise_and, start.column(start.sign, p))
    return _xor(top, total)


def _counters(start, first, p, f, groups=1):
    """Return the words of counters ``start + first + index``, with carries through all 128 bits.

    The index runs along a partition's ``f / groups`` blocks, then over partitions, then over groups.
    """
    index_sb = nl.ndarray((p, f), dtype=nl.uint32, buffer=nl.sbuf)  # [p, f]
    row = f // groups
    nisa.iota(dst=index_sb, pattern=[[p * row, groups], [1, row]], offset=first, channel_multiplier=row)
    carry_sb = index_sb
    words = []
    for i in range(4):
        # what is added has no upper bit, so that of the sum is the carry out of the lower 31
        total_sb = _add(_broadcast(start.low_sb, i, p, f), carry_sb)
        words.append(_bits(total_sb, nl.bitwise_xor, start.top_sb[0:p, i : i + 1]))
        if i < 3:
            carry_sb = _bits(total_sb, nl.right_shift, WORD - 1, nl.bitwise_and, start.bit_sb[0:p, i : i + 1])
    return words


def _product(x, low, high, start, key, p):
    """Return high and low word of ``x`` times a constant, given as tiles of its halves; no step reaches 2**32.

    The low word comes XORed with word ``key`` of the start row, if there is one: shifts and masks take it along.
    """
    x_low = _bits(x, nl.bitwise_and, LOW)
    x_high = _bits(x, nl.right_shift, HALF)
    low_low = _pair(x_low, low, nl.multiply, nisa.engine.gpsimd)
    high_low = _pair(x_high, low, nl.multiply, nisa.engine.gpsimd)
    low_high = _pair(x_low, high, nl.multiply, nisa.engine.gpsimd)
    high_high = _pair(x_high, high, nl.multiply, nisa.engine.gpsimd)
    middle = _add(high_low, _bits(low_low, nl.right_shift, HALF))
    other = _add(low_high, _bits(middle, nl.bitwise_and, LOW))
    carry1, carry2 = _bits(middle, nl.right_shift, HALF), _bits(other, nl.right_shift, HALF)
    above = _add(_add(high_high, carry1), carry2)
    if key == None:
        upper = _bits(other, nl.left_shift, HALF)
        lower = _bits(low_low, nl.bitwise_and, LOW)
    else:
        upper = _bits(other, nl.left_shift, HALF, nl.bitwise_xor, start.upper_sb[0:p, key : key + 1])
        lower = _bits(low_low, nl.bitwise_and, LOW, nl.bitwise_xor, start.lower_sb[0:p, key : key + 1])
    return above, _xor(lower, upper)


def _philox(words, start, p, f):
    halves = []
    for i in range(4):
        halves.append(_broadcast(start.words_sb, start.halves + i, p, f))
    # the keys of a round are in the words they are XORed with before it begins
    x = [words[0], _bits(words[1], nl.bitwise_xor, start.column(4, p))]
    x.append(words[2])
    x.append(_bits(words[3], nl.bitwise_xor, start.column(5, p)))
    for r in range(PHILOX_ROUNDS):
        old = [x[0], x[1], x[2], x[3]]
        for j in range(2):
            # the word that was ready first in the last round comes first in this one
            i = j if r % 2 == 0 else 1 - j
            key = 7 + 2 * r - i if r < PHILOX_ROUNDS - 1 else None
            high, low = _product(old[2 * i], halves[2 * i], halves[2 * i + 1], start, key, p)
            x[2 - 2 * i] = _xor(high, old[3 - 2 * i])
            x[3 - 2 * i] = low
    return x


def _mix(x, y, shift, start, p):
    """Compute half a Threefry round: ``x + y``, and ``y`` rotated left and XORed with it."""
    total = _sum(x, y, start, p)
    # the two parts of a rotated word have no bit in common: GpSimd, which has time, joins them by a sum
    rotated = _add(_bits(y, nl.left_shift, shift), _bits(y, nl.right_shift, WORD - shift))
    return total, _xor(rotated, total)


def _inject(words, start, index, p, f):
    injected = []
    for i in range(4):
        injected.append(_sum_word(words[i], start, 4 + 4 * index + i, p, f))
    return injected


def _threefry(words, start, p, f):
    x = _inject(words, start, 0, p, f)
    for r in range(THREEFRY_ROUNDS):
        shifts = ROTATIONS[r % 8]
        second, fourth = (3, 1) if r % 2 == 1 else (1, 3)
        one, two = _mix(x[0], x[second], shifts[0], start, p)
        three, four = _mix(x[2], x[fourth], shifts[1], start, p)
        x[0] = one
        x[second] = two
        x[2] = three
        x[fourth] = four
        if r % 4 == 3:
            x = _inject(x, start, r // 4 + 1, p, f)
    return x


def _words(words, start, p, f, engine):
    """Return the four words of every block, from the four words of its counter."""
    if engine == "philox4x32":
        return _philox(words, start, p, f)
    return _threefry(words, start, p, f)


def _normals(dst_sb, words, p, f):
    """Write four standard normals of each block to ``dst`` [p, 4 f], by Box and Muller, in stream order."""
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
        _fourth(dst_sb, 2 * q, f, radius_sb[:, here], cosine_sb[:, here])
        _fourth(dst_sb, 2 * q + 1, f, radius_sb[:, here], angle_sb[:, here])


def _fourth(dst_sb, i, f, data1, data2):
    """Write a product to every fourth element of ``dst``, from element i on."""
    p, width = dst_sb.shape
    nisa.tensor_tensor(dst=dst_sb.ap([[width, p], [4, f]], offset=i), data1=data1, data2=data2, op=nl.multiply)
