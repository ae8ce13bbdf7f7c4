"""Methods of PySCF that ``trnsci fit`` watches a program for, and what of their work `dfmp2` does."""

from typing import Any

import torch

from trnsci.analogs import Analog, given
from trnsci.analogs.methods import watches
from trnsci.specs import freeze
from trntensor import mp2_energy

# The energy of pairs, from fitted integrals: the part of `dfmp2` that is the device's.
_ENERGY = Analog(name="trnchem.dfmp2", planned=lambda *x: given(mp2_energy, *x))


def _read_sizes(solver: Any) -> tuple[Any, ...]:
    """Return specifications of what `mp2_energy` takes from a finished calculation; none where sizes are unknown."""
    auxiliary = getattr(getattr(solver, "with_df", solver), "auxmol", None)
    # an open shell has one number for each spin
    if auxiliary is None or not hasattr(solver.nocc, "__index__"):
        return ()
    occupied = int(solver.nocc)
    sizes = occupied, int(solver.nmo) - occupied, int(auxiliary.nao_nr())
    shapes = (sizes, sizes[:1], sizes[1:2])
    return freeze(tuple(torch.empty(x, dtype=torch.float64, device="meta") for x in shapes))


_FIELD = "Hartree-Fock stays PySCF's, on the host; trnchem.dfmp2 takes its mean field"
_INTEGRALS = "integrals stay PySCF's, on the host"
_UNKNOWN = "trnchem.DFMP2 does it density fitted; its sizes for a prediction are not known here"
# `kernel` and `run` of a mean field call `scf`
watches("pyscf.scf.hf", "SCF", "scf", stays=_FIELD)
watches("pyscf.mp.dfmp2", "DFRMP2", "ao2mo", stays=_INTEGRALS)
watches("pyscf.mp.dfmp2_native", "DFRMP2", "calculate_integrals_", stays=_INTEGRALS)
for _module, _kinds in {
    "pyscf.mp.mp2": ("MP2Base", "RMP2"),
    "pyscf.mp.dfmp2": ("DFRMP2",),
    "pyscf.mp.dfmp2_native": ("DFRMP2",),
}.items():
    for _kind in _kinds:
        watches(_module, _kind, "kernel", stays=_UNKNOWN, analog=_ENERGY, operands=_read_sizes)
