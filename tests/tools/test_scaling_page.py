"""The page on DF-MP2 with many cores: made from the plans, up to date, and of a molecule as large as it says."""

import numpy as np
import pytest

from tools import scaling_page
from trnsci.config import TARGETS


@pytest.mark.slow
def test_the_page_is_up_to_date():
    written = scaling_page.PAGE.read_text(encoding="utf-8")
    made = scaling_page.page(scaling_page.recorded())
    assert written == made, "plans or kernels changed: python -m tools.scaling_page --record"


def test_sizes_are_those_of_the_basis():
    from pyscf import df, gto
    from pyscf.data.elements import chemcore

    widest = 0
    for element, (electrons, core, nao, naux) in scaling_page.ELEMENTS.items():
        molecule = gto.M(atom=f"{element} 0 0 0", basis="cc-pvtz", spin=electrons % 2, verbose=0)
        auxiliary = df.addons.make_auxmol(molecule, "cc-pvtz-ri")
        assert (molecule.nelectron, chemcore(molecule), molecule.nao, auxiliary.nao) == (electrons, core, nao, naux)
        widest = max(widest, *np.diff(auxiliary.ao_loc_nr()))
    assert widest == scaling_page.WIDEST
    assert scaling_page.molecule().nao >= 3000


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_the_table_holds_together(target):
    laws = scaling_page.recorded()[target]
    found = list(scaling_page.rows(target, laws))
    # B alone is more than a core has, and 64 cores have room
    assert found[0].plan is None
    assert found[-1].plan is not None
    pairs = scaling_page.molecule().nocc * (scaling_page.molecule().nocc + 1) // 2
    for row in found:
        # every pair once, whoever computes it; more time only for transposing
        assert pairs * laws.pair <= row.shared * row.cores <= 1.25 * pairs * laws.pair
        assert row.shared <= row.pairs
        assert found[0].seconds / row.cores <= row.balanced * 1.001


@pytest.mark.sim
@pytest.mark.slow
def test_the_law_of_pairs_is_what_the_model_says():
    n, law = scaling_page.molecule(), scaling_page.recorded()["trn2"]
    assert scaling_page._pairs(n, 1, 1, "trn2").total_s == pytest.approx(law.launch + 2 * law.turn + law.pair, rel=1e-9)


@pytest.mark.sim
@pytest.mark.slow
def test_the_law_is_linear_in_orbitals_and_pairs():
    n = scaling_page.Sizes(nao=1600, nocc=8, nvir=1500, naux=3000, widest=9, itemsize=4)
    one, two, four, six = (scaling_page._pairs(n, *shape, "trn2").total_s for shape in ((1, 1), (1, 2), (2, 2), (2, 3)))
    pair = four - 2 * two + one
    turn = two - one - pair
    # (2, 3) from the other three: one orbital and two pairs more than (2, 2)
    assert six == pytest.approx(four + turn + 2 * pair, rel=0.005)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_the_record_is_what_the_model_says(target):
    assert scaling_page.predict(target) == scaling_page.recorded()[target]
