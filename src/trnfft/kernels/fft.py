"""y = F x along any axes of [A, N, C] views: a program of passes, each a multiplication by DFT matrices.

A program is a tuple of passes: a kind, the size of its result, whether that is real, and sizes and tables, which the
pass names in its first line. Tables are flat tensors, one of matrices in the dtype of the operand and one of twiddles
in float32; ``given`` holds what a call brings: padded ends of signals, a window, factors of its rows. Between passes
data is in HBM as two planes. The first pass converts what it loads to the dtype of the matrices, the last one what it
stores to ``result``.

* ``rows``: rows times one matrix, for short or prime lengths.
* ``folded``: rows of N = N1 N2 on chip, twiddles in the tables of the first product; half a spectrum for real data;
  rows may be overlapping, windowed frames of signals.
* ``folded columns``: the same along an inner axis; ``folded transposed``: rows that become columns, for long lengths.
* ``unfolded``, ``completed``: half a spectrum of long rows, the last pass of real rows and the first of real results.
* ``fused``: few rows of N = N1 N2 on chip, twiddles between two multiplications.
* ``turn``: the first of several multiplications of rows; its result comes out transposed.
* ``columns``: one multiplication with what is beside the axis streaming past.
* ``multiply``: a chirp or its spectrum, element by element, with zero padding or cutting; ``times``: a given factor.

Bound by the Tensor Engine for batches, by DMA for long lengths.
"""

from trnfft.kernels._folded import _transform_folded
from trnfft.kernels._folded_columns import _folded_columns, _folded_transposed
from trnfft.kernels._mirrored import _complete_columns, _write_half
from trnfft.kernels._passes import _columns, _multiply, _turn
from trnfft.kernels._rows import _rows, _transform_fused
from trnsci.nki import WARM, is_first_core, nki, nl, warm_up

# What a search may choose: products of zeros while the first loads are on their way.
CHOICES = {"warm": WARM}


@nki.jit
def fft(re_hbm, im_hbm, matrices_hbm, twiddles_hbm, given_hbm, program=(), result="float32", warm=0):
    # What is between passes is an operand of the next, so it has the dtype of its tables.
    operand = matrices_hbm.dtype
    results = {"float32": nl.float32, "bfloat16": nl.bfloat16, "float16": nl.float16}
    warm_up(warm)
    # a pass reads all that the one before it wrote, in memory of one core
    for index in range(len(program)):
        kind, size, real, sizes = program[index]
        last = index == len(program) - 1
        buffer = nl.shared_hbm if last else nl.private_hbm
        dtype = results[result] if last else operand
        out_re_hbm = nl.ndarray((size,), dtype=dtype, buffer=buffer)  # [size]
        out_im_hbm = None
        if not real:
            out_im_hbm = nl.ndarray((size,), dtype=dtype, buffer=buffer)  # [size]
        if is_first_core():
            _pass(kind, (out_re_hbm, out_im_hbm), (re_hbm, im_hbm), (matrices_hbm, twiddles_hbm, given_hbm), sizes)
        re_hbm, im_hbm = out_re_hbm, out_im_hbm
    if im_hbm == None:
        return re_hbm
    return re_hbm, im_hbm


def _pass(kind, outs_hbm, operands_hbm, tables_hbm, sizes):
    """Run one pass of a program."""
    out_re_hbm, out_im_hbm = outs_hbm
    re_hbm, im_hbm = operands_hbm
    matrices_hbm, twiddles_hbm, given_hbm = tables_hbm
    if kind == "rows":
        _rows(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, sizes)
    elif kind == "fused":
        _transform_fused(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, twiddles_hbm, sizes)
    elif kind == "folded":
        _transform_folded(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, twiddles_hbm, given_hbm, sizes)
    elif kind == "folded columns":
        _folded_columns(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, sizes)
    elif kind == "folded transposed":
        _folded_transposed(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, twiddles_hbm, sizes)
    elif kind == "unfolded":
        _write_half(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, sizes)
    elif kind == "completed":
        _complete_columns(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, sizes)
    elif kind == "turn":
        _turn(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, twiddles_hbm, sizes)
    elif kind == "columns":
        _columns(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, twiddles_hbm, sizes)
    elif kind == "times":
        _multiply(out_re_hbm, out_im_hbm, re_hbm, im_hbm, given_hbm, sizes)
    else:
        _multiply(out_re_hbm, out_im_hbm, re_hbm, im_hbm, twiddles_hbm, sizes)
