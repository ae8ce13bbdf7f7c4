"""Who does here what torch, NumPy and SciPy do there. One table serves `trnsci.fit` and `trnsci.drop_in`.

torch is read at its operators: whatever a program calls, a product arrives as ``mm`` or ``bmm`` and a transform as
``_fft_c2c``. NumPy and SciPy are read at their functions.
"""

from trnsci.analogs.analog import PLAIN, Analog, Different
from trnsci.analogs.functions import FUNCTIONS
from trnsci.analogs.lines import NUMPY, looks_like
from trnsci.analogs.methods import ENERGY, STAYS
from trnsci.analogs.operators import ANALOGS, RANDOM, runs_on_neuron
