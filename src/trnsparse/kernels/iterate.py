"""Steps of conjugate gradients, of a two-term recurrence with given coefficients, or of power iteration, all on chip.

The blocks (256 at most: 128 KiB of a partition) and the vectors, one column for each block, stay in SBUF; HBM is read
once and written once however many steps there are. Sums over partitions are products with ones. Bound by the latency of
the steps, and by the Tensor Engine's loading of blocks when there are many.

A matrix of few diagonals has its vectors in SBUF, a run of rows in each partition, and its diagonals come in every
step, unless they fit. The vector that is multiplied lies between its neighbours' rows: only these go from partition to
partition, by DMA, or of short runs by a product with shifted ones. GpSimd multiplies and the Vector Engine adds.
"""

from trnsci.nki import (
    N_TILE,
    P_MAX,
    QUEUES,
    SPARE,
    elementwise,
    full,
    is_first_core,
    keep_up,
    load,
    multiply_add,
    nisa,
    nki,
    nl,
    store,
    tiles,
)

# Added to every sum that is divided by: 0 / 0 would be once a solution is exact.
TINY = 1e-32
TINY_SQUARE = 1e-37
# What a search may choose: columns of products that keep the clock up, queues.
CHOICES = {"spare": SPARE, "loads": QUEUES, "stores": QUEUES}
# Rows of a partition that are multiplied at a time by diagonals; elements of all diagonals, and of all windows, that
# stay in SBUF.
CHUNK = 1024
HELD = 8192
WINDOWS = 12 * 1024
# Rows of a partition that products shift, and up to which the Vector Engine sums what it multiplied; such products.
SHORT = N_TILE
MOVES = 6


@nki.jit
def iterate(
    tiles_hbm,
    x_hbm,
    r_hbm,
    p_hbm,
    coefficients_hbm,
    steps=1,
    method="cg",
    pointers=(),
    columns=(),
    offsets=(),
    spare=0,
    loads="compiler",
    stores="compiler",
):
    P, B = x_hbm.shape
    out = []
    for _ in range(3):
        out.append(nl.ndarray((P, B), dtype=nl.float32, buffer=nl.shared_hbm))  # [p, B]
    # columns are blocks of one vector, so that one core has them all
    if is_first_core():
        operands = (tiles_hbm, x_hbm, r_hbm, p_hbm, coefficients_hbm)
        pattern = (pointers, columns, offsets)
        results = _take_steps(operands, steps=steps, method=method, pattern=pattern, spare=spare, loads=loads)
        for i in range(3):
            store(out[i], results[i], stores)
    return out[0], out[1], out[2]


def _take_steps(operands, *, steps, method, pattern, spare, loads):
    """Return x, r and p after the steps, in SBUF."""
    tiles_hbm, x_hbm, r_hbm, p_hbm, coefficients_hbm = operands
    if len(pattern[2]) > 0:
        a = _Diagonals(tiles_hbm, pattern[2], x_hbm.shape[1], loads)
    else:
        a = _Blocks(load(tiles_hbm, loads), pattern[0], pattern[1])
    x_sb, r_sb, p_sb = load(x_hbm, loads), load(r_hbm, loads), load(p_hbm, loads)
    coefficients_sb = load(coefficients_hbm, loads)  # [p, 2 * steps]
    ones_sb = full((P_MAX, P_MAX), 1.0)  # [p, p]
    if len(pattern[2]) > 0 and x_hbm.shape[1] <= SHORT:
        # between the sums of short runs the clock would fall
        spare = max(spare, SPARE[1])
    if method == "power":
        x_sb = a.place(x_sb)
        for _ in range(steps):
            r_sb = a.times(x_sb)
            _normalize(x_sb, r_sb, _dot(r_sb, None, ones_sb, spare))
        r_sb = a.times(x_sb)
    elif method == "cg":
        p_sb = a.place(p_sb)
        rr_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
        inverse_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
        tiny_sb = full((P_MAX, 1), TINY)  # [p, 1]
        _keep(_dot(r_sb, None, ones_sb, spare, tiny_sb), rr_sb, inverse_sb)
        for _ in range(steps):
            image_sb = a.times(p_sb)
            alpha_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
            nisa.scalar_tensor_tensor(
                dst=alpha_sb,
                data=_dot(p_sb, image_sb, ones_sb, spare, tiny_sb),
                op0=nl.power,
                operand0=-1.0,
                op1=nl.multiply,
                operand1=rr_sb,
            )
            _subtract_multiple(r_sb, alpha_sb, image_sb)
            _add_multiple(x_sb, alpha_sb, p_sb)
            next_ps = _dot(r_sb, None, ones_sb, spare, tiny_sb)
            multiply_add(p_sb, p_sb, elementwise(next_ps, inverse_sb, nl.multiply), r_sb)
            _keep(next_ps, rr_sb, inverse_sb)
    else:
        p_sb = a.place(p_sb)
        for k in range(steps):
            multiply_add(p_sb, p_sb, coefficients_sb[:, 2 * k + 1 : 2 * k + 2], r_sb)
            alpha_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
            nisa.tensor_copy(dst=alpha_sb, src=coefficients_sb[:, 2 * k : 2 * k + 1])
            _subtract_multiple(r_sb, alpha_sb, a.times(p_sb))
            _add_multiple(x_sb, alpha_sb, p_sb)
    return x_sb, r_sb, p_sb


class _Blocks(nl.NKIObject):
    """Blocks in SBUF [p, T * p]."""

    def __init__(self, a_sb, pointers, columns):
        self.a_sb = a_sb
        self.pointers = pointers
        self.columns = columns

    def place(self, y_sb):
        """Return where a vector is to lie that is multiplied."""
        return y_sb

    def times(self, y_sb):
        """Multiply by a vector: one column of PSUM for each block row."""
        B, pointers = y_sb.shape[1], self.pointers
        image_sb = nl.ndarray((P_MAX, B), dtype=nl.float32, buffer=nl.sbuf)  # [p, B]
        image_ps = nl.ndarray((P_MAX, B), dtype=nl.float32, buffer=nl.psum)  # [p, B]
        nisa.memset(dst=image_sb, value=0.0)
        for i in range(B):
            for q in range(pointers[i], pointers[i + 1]):
                nisa.nc_matmul(
                    dst=image_ps[:, i : i + 1],
                    stationary=self.a_sb[:, q * P_MAX : (q + 1) * P_MAX],
                    moving=y_sb[:, self.columns[q] : self.columns[q] + 1],
                    accumulate=q > pointers[i],
                )
        # Runs of rows that have blocks come out together.
        first = 0
        while first < B:
            last = first
            while last < B and pointers[last + 1] > pointers[last]:
                last += 1
            if last > first:
                nisa.tensor_copy(dst=image_sb[:, first:last], src=image_ps[:, first:last])
            first = last + 1
        return image_sb


class _Diagonals(nl.NKIObject):
    """Diagonals in HBM [D, p * R], of a matrix whose vectors have R rows in each partition; few rows stay in SBUF."""

    def __init__(self, diagonals_hbm, offsets, R, loads):
        self.diagonals_hbm = diagonals_hbm
        self.offsets = offsets
        self.loads = loads
        self.held = []
        if len(offsets) * R <= HELD:
            for d in range(len(offsets)):
                self.held.append(load(diagonals_hbm.ap([[R, P_MAX], [1, R]], offset=d * P_MAX * R), loads))  # [p, R]
        # offsets that lie close share a window, of which edges stay zero: first and last of them, and its width
        self.groups = []
        total = 0
        first = 0
        reach = 4 * R if R <= SHORT else min(R, 4 * CHUNK)
        while first < len(offsets):
            last = first
            while last + 1 < len(offsets) and offsets[last + 1] - offsets[first] <= reach:
                last += 1
            self.groups.append((first, last, R + offsets[last] - offsets[first]))
            total += R + offsets[last] - offsets[first]
            first = last + 1
        # that around 0 holds the vector and stays; others stay if they are small, or each takes the place of another
        self.windows = []
        self.around = None
        # by how many partitions rows move
        self.moves = []
        for g in range(len(self.groups)):
            low, high, width = offsets[self.groups[g][0]], offsets[self.groups[g][1]], self.groups[g][2]
            if low <= 0 and high >= 0:
                self.around = g
            self.windows.append(full((P_MAX, width), 0.0) if g == self.around or total <= WINDOWS else None)  # [p, w]
            for k in range(low // R, (high + R - 1) // R + 1):
                if k != 0 and abs(k) < P_MAX and k not in self.moves:
                    self.moves.append(k)
        self.shifts = []
        if R <= SHORT and len(self.moves) <= MOVES:
            for k in self.moves:
                self.shifts.append(_shifted_identity(k))

    def place(self, y_sb):
        """Move a vector that is to be multiplied between its neighbours, where a window is around it."""
        if self.around == None:
            return y_sb
        low = self.offsets[self.groups[self.around][0]]
        middle_sb = self.windows[self.around][:, -low : y_sb.shape[1] - low]
        nisa.tensor_copy(dst=middle_sb, src=y_sb)
        return middle_sb

    def times(self, y_sb):
        """Multiply by a placed vector: GpSimd multiplies by diagonals, the Vector Engine adds."""
        R, offsets = y_sb.shape[1], self.offsets
        image_sb = nl.ndarray((P_MAX, R), dtype=nl.float32, buffer=nl.sbuf)  # [p, R]
        moved = []
        for k in range(len(self.shifts)):
            moved_ps = nl.ndarray((P_MAX, R), dtype=nl.float32, buffer=nl.psum)  # [p, R]
            nisa.nc_matmul(dst=moved_ps, stationary=self.shifts[k], moving=y_sb, accumulate=False)
            moved.append(moved_ps)
        for g in range(len(self.groups)):
            first, last, width = self.groups[g][0], self.groups[g][1], self.groups[g][2]
            window_sb = self.windows[g] if self.windows[g] != None else full((P_MAX, width), 0.0)  # [p, w]
            self._fill(window_sb, y_sb, moved, offsets[first], g == self.around)
            for c in tiles(R, CHUNK):
                for d in range(first, last + 1):
                    at = c.start + offsets[d] - offsets[first]
                    term_sb = image_sb[:, c.span]
                    if d > 0:
                        term_sb = nl.ndarray((P_MAX, c.size), dtype=nl.float32, buffer=nl.sbuf)  # [p, c]
                    nisa.tensor_tensor(
                        dst=term_sb,
                        data1=self._diagonal(d, c, R),
                        data2=window_sb[:, at : at + c.size],
                        op=nl.multiply,
                        engine=nisa.engine.gpsimd,
                    )
                    if d > 0:
                        image = image_sb[:, c.span]
                        nisa.tensor_tensor(dst=image, data1=image, data2=term_sb, op=nl.add)
        return image_sb

    def _diagonal(self, d, c, R):
        if len(self.held) > 0:
            return self.held[d][:, c.span]
        return load(self.diagonals_hbm.ap([[R, P_MAX], [1, c.size]], offset=d * P_MAX * R + c.start), self.loads)

    def _fill(self, window_sb, y_sb, moved, start, is_around):
        """Bring rows from ``start`` on after the first of every partition's run, as far as the vector has them."""
        R, width = y_sb.shape[1], window_sb.shape[1]
        for k in range(start // R, (start + width - 1) // R + 1):
            low, high = max(0, k * R - start), min(width, (k + 1) * R - start)
            first, last = max(0, -k), min(P_MAX, P_MAX - k)
            if last > first and not (is_around and k == 0):
                source = slice(start + low - k * R, start + high - k * R)
                if k == 0:
                    nisa.tensor_copy(dst=window_sb[:, low:high], src=y_sb[:, source])
                elif len(moved) > 0:
                    engine = nisa.engine.scalar if k > 0 else nisa.engine.vector
                    part = moved[self.moves.index(k)][:, source]
                    nisa.tensor_copy(dst=window_sb[:, low:high], src=part, engine=engine)
                else:
                    part = y_sb[first + k : last + k, source]
                    nisa.dma_copy(dst=window_sb[first:last, low:high], src=part, dge_mode=nisa.dge_mode.none)


def _shifted_identity(k):
    """Return ones where the row is the column and ``k``: its product has row m + k of a vector in row m."""
    shifted_sb = nl.ndarray((P_MAX, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [p, p]
    nisa.affine_select(
        dst=shifted_sb,
        pattern=[[-1, P_MAX]],
        channel_multiplier=1,
        offset=-k,
        on_true_tile=full((P_MAX, P_MAX), 1.0),
        on_false_value=0.0,
        cmp_op=nl.equal,
    )
    return shifted_sb


def _dot(y_sb, z_sb, ones_sb, spare, tiny_sb=None):
    """Return the inner product, in every partition; ``z`` is left out for a square. Something tiny may be added."""
    sum_ps = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.psum)  # [p, 1]
    if tiny_sb != None:
        nisa.nc_matmul(dst=sum_ps, stationary=ones_sb, moving=tiny_sb, accumulate=False)
    for c in tiles(y_sb.shape[1], 2 * CHUNK):
        part_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
        other_sb = y_sb if z_sb == None else z_sb
        if y_sb.shape[1] <= SHORT:
            product_sb = elementwise(y_sb, other_sb, nl.multiply)  # [p, B]
            nisa.tensor_reduce(dst=part_sb, op=nl.add, data=product_sb, axis=1)
        else:
            # the Scalar Engine sums one chunk while the Vector Engine multiplies the next
            terms_sb, op = y_sb[:, c.span], nl.square
            if z_sb != None:
                terms_sb, op = elementwise(y_sb[:, c.span], other_sb[:, c.span], nl.multiply), nl.copy
            spent_sb = nl.ndarray((P_MAX, c.size), dtype=nl.float32, buffer=nl.sbuf)  # [p, c]
            nisa.activation_reduce(dst=spent_sb, op=op, data=terms_sb, reduce_op=nl.add, reduce_res=part_sb)
        nisa.nc_matmul(dst=sum_ps, stationary=ones_sb, moving=part_sb, accumulate=c.index > 0 or tiny_sb != None)
        keep_up(ones_sb, part_sb, spare)
    return sum_ps


def _keep(square_ps, square_sb, inverse_sb):
    """Keep a sum for the next step, and its inverse."""
    nisa.tensor_copy(dst=square_sb, src=square_ps)
    nisa.tensor_scalar(dst=inverse_sb, data=square_ps, op0=nl.power, operand0=-1.0)


def _normalize(x_sb, y_sb, square_ps):
    """Set x to y over its norm, of which the square is given."""
    inverse_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_scalar(
        dst=inverse_sb, data=square_ps, op0=nl.maximum, operand0=TINY_SQUARE, op1=nl.power, operand1=-0.5
    )
    nisa.tensor_scalar(dst=x_sb, data=y_sb, op0=nl.multiply, operand0=inverse_sb)


def _add_multiple(x_sb, alpha_sb, y_sb):
    """Add alpha * y to x, on GpSimd: nothing waits for it."""
    for c in tiles(x_sb.shape[1], 2 * CHUNK):
        step_sb = nl.ndarray((P_MAX, c.size), dtype=nl.float32, buffer=nl.sbuf)  # [p, c]
        x, alpha, engine = x_sb[:, c.span], alpha_sb.ap([[1, P_MAX], [0, c.size]]), nisa.engine.gpsimd
        nisa.tensor_tensor(dst=step_sb, data1=y_sb[:, c.span], data2=alpha, op=nl.multiply, engine=engine)
        nisa.tensor_tensor(dst=x, data1=x, data2=step_sb, op=nl.add, engine=engine)


def _subtract_multiple(r_sb, alpha_sb, y_sb):
    """Subtract alpha * y from r."""
    for c in tiles(r_sb.shape[1], 2 * CHUNK):
        r = r_sb[:, c.span]
        nisa.scalar_tensor_tensor(
            dst=r, data=y_sb[:, c.span], op0=nl.multiply, operand0=alpha_sb, op1=nl.subtract, operand1=r, reverse1=True
        )
