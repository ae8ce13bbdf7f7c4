"""Functions of torch, NumPy and SciPy, and what replaces them: read by `trnsci.drop_in`, ``torch.compile`` and fit.

torch is read at its operators: whatever a program calls, a product arrives as ``aten::mm`` or ``aten::bmm`` and a
transform as ``aten::_fft_c2c``. NumPy and SciPy are read at their functions. Libraries declare what they replace beside
the functions that do it: `replaces`, `resembles`.
"""

from trnsci.analogs.analog import (
    LEAST_READ_ONCE,
    PLAIN,
    Analog,
    Different,
    Given,
    as_number,
    given,
    operators,
    replaces,
    resembles,
)
from trnsci.analogs.functions import functions, named_result, plain_result, refuse_options
