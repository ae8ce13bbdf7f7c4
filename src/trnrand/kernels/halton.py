"""out[R, F, D] = Halton points as float32: point start + r * F + f, one prime base for each dimension.

A digit is what dividing by the base leaves. The quotient comes from multiplying with the inverse and rounding to an
integer, half a unit lowered so that rounding is flooring; fp32 does that exactly below 2**22. Digits come from the
Vector Engine, scaled on the Scalar Engine and added up on GpSimd. Bound by the Vector Engine.
"""

from trnsci.nki import P_MAX, QUEUES, load, mine, nisa, nki, nl, store, tiles

# dimensions together: one tile of points takes 32 KiB of a partition at F = 512
GROUP = 16
TOP = 1.0 - 2.0**-24
# What a search may choose: of so many quotients the Scalar Engine takes one (0: none; trn1's cannot), queues.
CHOICES = {"shared": (0, 1, 2, 3), "stores": QUEUES}


@nki.jit
def halton(start_hbm, bases=(2,), digits=(1,), rows=1, row=1, shared=0, stores="compiler"):
    D = len(bases)
    out_hbm = nl.ndarray((rows, row, D), dtype=nl.float32, buffer=nl.shared_hbm)  # [R, F, D]
    start_sb = load(start_hbm)  # [p, 1]
    for r in mine(tiles(rows, P_MAX)):
        index_sb = nl.ndarray((r.size, row), dtype=nl.float32, buffer=nl.sbuf)  # [r, F]
        nisa.iota(dst=index_sb, pattern=[[1, row]], offset=r.start * row, channel_multiplier=row)
        nisa.tensor_scalar(dst=index_sb, data=index_sb, op0=nl.add, operand0=start_sb[0 : r.size, 0:1])
        for d in tiles(D, GROUP):
            out_sb = nl.ndarray((r.size, row, d.size), dtype=nl.float32, buffer=nl.sbuf)  # [r, F, d]
            for i in range(d.size):
                x_sb = _mirror_digits(index_sb, bases[d.start + i], digits[d.start + i], shared)
                # a sum of many digits may round up to 1
                nisa.tensor_scalar(dst=out_sb[:, :, i], data=x_sb, op0=nl.minimum, operand0=TOP)
            store(out_hbm[r.span, :, d.span], out_sb, stores)
    return out_hbm


def _mirror_digits(index_sb, base, digits, shared):
    """Return the digits of an index after the decimal point, in reverse."""
    rest_sb = index_sb
    x_sb = nl.ndarray(index_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [r, F]
    nisa.memset(dst=x_sb, value=0.0)
    scale = 1.0
    for k in range(digits):
        scale = scale / base
        above_sb = nl.ndarray(index_sb.shape, dtype=nl.int32, buffer=nl.sbuf)  # [r, F]
        nisa.tensor_scalar(
            dst=above_sb,
            data=rest_sb,
            op0=nl.multiply,
            operand0=1.0 / base,
            op1=nl.add,
            operand1=0.5 / base - 0.5,
            engine=nisa.engine.scalar if shared > 0 and k % max(shared, 1) == 0 else nisa.engine.vector,
        )
        digit_sb = nl.ndarray(index_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [r, F]
        nisa.scalar_tensor_tensor(
            dst=digit_sb, data=above_sb, op0=nl.multiply, operand0=-float(base), op1=nl.add, operand1=rest_sb
        )
        nisa.activation(dst=digit_sb, op=nl.copy, data=digit_sb, scale=scale)
        sum_sb = nl.ndarray(index_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [r, F]
        nisa.tensor_tensor(dst=sum_sb, data1=digit_sb, data2=x_sb, op=nl.add, engine=nisa.engine.gpsimd)
        rest_sb, x_sb = above_sb, sum_sb
    return x_sb
