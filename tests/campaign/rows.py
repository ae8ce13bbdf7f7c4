"""Functions whose sample names an oracle of NumPy: the operands of the sample, in drawn sizes, layouts and dtypes."""

from collections import defaultdict

import numpy as np

from tests.campaign.blas import DTYPES, FINITE
from tests.campaign.draw import Draw
from tests.campaign.oracles import narrow, summed, wide, within_range
from tests.campaign.trial import Trial, spec
from tests.samples import ORACLES, oracle, sample


def _row(draw: Draw, name: str) -> Trial:
    dtype, terms = draw.dtype(*DTYPES), ORACLES[name][1]
    sizes, operands = defaultdict(draw.size), []
    batch = draw.batch()

    def drawn(shape, _):
        operands.append(draw.tensor((*batch, *(sizes[size] for size in shape)), dtype))
        return operands[-1]

    function, positional, named = sample(name, drawn)
    exact = oracle(name)(*map(wide, operands))
    within_range(dtype, exact)
    bound = summed(terms, np.abs(exact), exact, dtype) if terms else np.zeros(exact.shape)
    return Trial(function, tuple(positional), named, lambda: narrow(exact), lambda _: bound, kernels="maybe")


for terms in sorted({terms for _, terms in ORACLES.values()}):
    named = [name for name, row in ORACLES.items() if row[1] == terms]
    spec(*named, promise=f"`g({terms})` of the result" if terms else "exact", when=FINITE if terms else "")(_row)
