"""Steps of conjugate gradients, of a two-term recurrence with given coefficients, or of power iteration, all on chip.

The blocks (256 at most: 128 KiB of a partition) and the vectors, one column for each block, stay in SBUF; HBM is read
once and written once however many steps there are. Sums over partitions are products with ones. Bound by the latency of
the steps, and by the Tensor Engine's loading of blocks when there are many.

A matrix of few diagonals has its vectors in SBUF, a run of rows in each partition, and its diagonals come in every
step: windows of neighbours go from partition to partition by DMA, GpSimd multiplies and the Vector Engine adds.
"""

from trnsci.nki import (
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

# Keeps 0 / 0 at 0 once a solution is exact.
TINY = 1e-30
TINY_SQUARE = 1e-37
# What a search may choose: columns of products that keep the clock up, queues.
CHOICES = {"spare": SPARE, "loads": QUEUES, "stores": QUEUES}
# Rows of a partition that are multiplied at a time by diagonals; elements of all diagonals, and of all windows, that
# stay in SBUF.
CHUNK = 1024
HELD = 8192
WINDOWS = 12 * 1024


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
    if method == "power":
        for _ in range(steps):
            r_sb = a.times(x_sb)
            x_sb = _normalize(r_sb, _dot(r_sb, r_sb, ones_sb, spare))
        r_sb = a.times(x_sb)
    elif method == "cg":
        rr_ps = _dot(r_sb, r_sb, ones_sb, spare)
        for _ in range(steps):
            image_sb = a.times(p_sb)
            alpha_sb = _ratio(rr_ps, _dot(p_sb, image_sb, ones_sb, spare))
            r_sb = _minus(image_sb, alpha_sb, r_sb)
            x_sb = _plus(p_sb, alpha_sb, x_sb)
            next_ps = _dot(r_sb, r_sb, ones_sb, spare)
            p_sb = _plus(p_sb, _ratio(next_ps, rr_ps), r_sb)
            rr_ps = next_ps
    else:
        for k in range(steps):
            p_sb = _plus(p_sb, coefficients_sb[:, 2 * k + 1 : 2 * k + 2], r_sb)
            alpha_sb = coefficients_sb[:, 2 * k : 2 * k + 1]
            x_sb = _plus(p_sb, alpha_sb, x_sb)
            r_sb = _minus(a.times(p_sb), alpha_sb, r_sb)
    return x_sb, r_sb, p_sb


class _Blocks(nl.NKIObject):
    """Blocks in SBUF [p, T * p]."""

    def __init__(self, a_sb, pointers, columns):
        self.a_sb = a_sb
        self.pointers = pointers
        self.columns = columns

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
        # those of some stay; of many each takes the place of the one before
        total = 0
        first = 0
        while first < len(offsets):
            last = first
            while last + 1 < len(offsets) and offsets[last + 1] - offsets[first] <= min(R, 4 * CHUNK):
                last += 1
            self.groups.append((first, last, R + offsets[last] - offsets[first]))
            total += R + offsets[last] - offsets[first]
            first = last + 1
        self.windows = []
        if total <= WINDOWS:
            for group in self.groups:
                self.windows.append(full((P_MAX, group[2]), 0.0))  # [p, w]

    def times(self, y_sb):
        """Multiply by a vector: GpSimd multiplies by diagonals, the Vector Engine adds."""
        R, offsets = y_sb.shape[1], self.offsets
        image_sb = nl.ndarray((P_MAX, R), dtype=nl.float32, buffer=nl.sbuf)  # [p, R]
        for g in range(len(self.groups)):
            first, last, width = self.groups[g][0], self.groups[g][1], self.groups[g][2]
            window_sb = self.windows[g] if len(self.windows) > 0 else full((P_MAX, width), 0.0)  # [p, w]
            _shift(window_sb, y_sb, offsets[first])
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


def _shift(window_sb, y_sb, start):
    """Copy elements from ``start`` on after the first of every partition's run, as far as the vector has them."""
    R, width = y_sb.shape[1], window_sb.shape[1]
    for k in range(start // R, (start + width - 1) // R + 1):
        low, high = max(0, k * R - start), min(width, (k + 1) * R - start)
        first, last = max(0, -k), min(P_MAX, P_MAX - k)
        if last > first:
            source = y_sb[first + k : last + k, start + low - k * R : start + high - k * R]
            nisa.dma_copy(dst=window_sb[first:last, low:high], src=source, dge_mode=nisa.dge_mode.none)


def _dot(y_sb, z_sb, ones_sb, spare):
    """Return the inner product, in every partition."""
    product_sb = elementwise(y_sb, z_sb, nl.multiply)  # [p, B]
    part_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_reduce(dst=part_sb, op=nl.add, data=product_sb, axis=1)
    sum_ps = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.psum)  # [p, 1]
    nisa.nc_matmul(dst=sum_ps, stationary=ones_sb, moving=part_sb, accumulate=False)
    keep_up(ones_sb, part_sb, spare)
    return sum_ps


def _ratio(above_ps, below_ps):
    ratio_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_scalar(dst=ratio_sb, data=below_ps, op0=nl.maximum, operand0=TINY, op1=nl.power, operand1=-1.0)
    nisa.tensor_tensor(dst=ratio_sb, data1=ratio_sb, data2=above_ps, op=nl.multiply)
    return ratio_sb


def _normalize(y_sb, square_ps):
    """Divide a vector by its norm, of which the square is given."""
    inverse_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_scalar(
        dst=inverse_sb, data=square_ps, op0=nl.maximum, operand0=TINY_SQUARE, op1=nl.power, operand1=-0.5
    )
    out_sb = nl.ndarray(y_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [p, B]
    nisa.tensor_scalar(dst=out_sb, data=y_sb, op0=nl.multiply, operand0=inverse_sb)
    return out_sb


def _plus(y_sb, alpha_sb, z_sb):
    """Return alpha * y + z, as a new vector."""
    out_sb = nl.ndarray(y_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [p, B]
    multiply_add(out_sb, y_sb, alpha_sb, z_sb)
    return out_sb


def _minus(y_sb, alpha_sb, z_sb):
    """Return z - alpha * y, as a new vector."""
    out_sb = nl.ndarray(y_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [p, B]
    nisa.scalar_tensor_tensor(
        dst=out_sb, data=y_sb, op0=nl.multiply, operand0=alpha_sb, op1=nl.subtract, operand1=z_sb, reverse1=True
    )
    return out_sb
