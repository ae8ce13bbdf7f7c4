"""out[4, B] = Threefry4x32-20 of counters[4, B] and one key.  Bound by the Vector Engine; tiles are those of `bits`."""

from trnrand.kernels._engines import BLOCKS, WIDTHS, _of_counters
from trnsci.nki import P_MAX, QUEUES, Axis, nki

# What a search may choose: blocks of a partition, queues.
CHOICES = {"width": WIDTHS, "loads": QUEUES, "stores": QUEUES}
AXES = (Axis(P_MAX * BLOCKS, {"counters_hbm": 1}, (1,)),)


@nki.jit
def threefry(start_hbm, counters_hbm, width=BLOCKS, loads="compiler", stores="compiler"):
    return _of_counters(start_hbm, counters_hbm, "threefry4x32", width, loads, stores)
