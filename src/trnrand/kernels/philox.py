"""out[4, B] = Philox4x32-10 of counters[4, B] and one key.  Bound by GpSimd; tiles are those of `bits`."""

from trnrand.kernels._engines import BLOCKS, WIDTHS, _of_counters
from trnsci.nki import P_MAX, QUEUES, Axis, nki

# What a search may choose: blocks of a partition, queues.
CHOICES = {"width": WIDTHS, "loads": QUEUES, "stores": QUEUES}
AXES = (Axis(P_MAX * BLOCKS, {"counters_hbm": 1}, (1,)),)


@nki.jit
def philox(start_hbm, counters_hbm, width=BLOCKS, loads="compiler", stores="compiler"):
    return _of_counters(start_hbm, counters_hbm, "philox4x32", width, loads, stores)
