"""The test toolkit shipped with the suite: backends, edge sizes, data, stated bounds and independent oracles.

| name | what it is |
|---|---|
| `BACKENDS` | what to parametrize over: ``pytorch``, ``simulator``, and ``nki`` on a Neuron host |
| `EDGES` | sizes around the hardware's tile of 128 |
| `gaussian`, `ill_scaled` | reproducible data |
| `assert_within` | compares elementwise with a bound, and reports the first and the worst violation |
| `unit_roundoff`, `gamma`, `dot_bound`, `gemm_bound` | bounds computed from dtypes and sizes, never tuned |
| `in_float64`, `exact_dot` | oracles from NumPy and mpmath |
| `known_answers` | rows of a CSV of published values |
| `poisoned` | makes fresh memory NaN |
| `stated_and_used` | the peak memory of a plan, and of a run |
| `pairs` | few cases in which any two values of different options meet |
| `counting_op` | an op that counts which implementation ran |
"""

from trnsci.testing.backends import BACKENDS as BACKENDS, Backend as Backend
from trnsci.testing.bounds import (
    assert_within as assert_within,
    dot_bound as dot_bound,
    gamma as gamma,
    gemm_bound as gemm_bound,
    unit_roundoff as unit_roundoff,
)
from trnsci.testing.data import (
    EDGES as EDGES,
    exact_dot as exact_dot,
    gaussian as gaussian,
    ill_scaled as ill_scaled,
    in_float64 as in_float64,
    known_answers as known_answers,
    pairs as pairs,
)
from trnsci.testing.memory import stated_and_used as stated_and_used
from trnsci.testing.mock import CountingOp as CountingOp, counting_op as counting_op
from trnsci.testing.poison import poisoned as poisoned
from trnsim.lazy import export as _export

_export(__name__)
