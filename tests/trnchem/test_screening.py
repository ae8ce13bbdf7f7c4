"""Schwarz screening: the bound holds, few pairs survive in long molecules, and the energy does not notice."""

import numpy as np
import pytest
import torch

import trnchem.integrals
from trnchem import MP2Options, dfmp2, mean_field
from trnchem.accuracy import FP64
from trnchem.screening import equal_pairs, keep_pairs_above

MOLECULES = 8


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """Hydrogen molecules in a row, 4 angstrom apart: orbitals of neighbours overlap, others hardly."""
    path = tmp_path_factory.mktemp("chain") / "chain.xyz"
    atoms = [f"H 0 {y} {4 * k}" for k in range(MOLECULES) for y in (0.0, 0.74)]
    path.write_text("\n".join([str(len(atoms)), "", *atoms]))
    return mean_field(path, basis="6-31g")


def integrals(field):
    from pyscf import df

    auxiliary = df.addons.make_auxmol(field.mol, field.with_df.auxbasis)
    return df.incore.aux_e2(field.mol, auxiliary, "int3c2e"), torch.from_numpy(auxiliary.intor("int2c2e"))


def screen(molecule, metric, threshold):
    return keep_pairs_above(equal_pairs(molecule), float(metric.diagonal().max().sqrt()), threshold)


def test_no_integral_above_the_threshold_is_dropped(chain):
    three, metric = integrals(chain)
    for threshold in (1e-12, 1e-6, 1e-3):
        found = screen(chain.mol, metric, threshold)
        kept = np.zeros(three.shape[:2], dtype=bool)
        kept[found.pairs.majors.numpy(), found.pairs.indices.numpy()] = True
        assert np.abs(three[~kept]).max(initial=0.0) <= threshold
        assert found.kept == kept.sum()
        assert found.total == kept.size


def test_long_molecules_run_sparse_and_give_the_same_energy(chain, monkeypatch):
    from pyscf.mp import dfmp2 as theirs

    found = dfmp2(chain, options=MP2Options(reuse=False))
    expected = float(theirs.DFMP2(chain).kernel(with_t2=False)[0])
    assert found.screen.fraction < 0.5
    assert abs(found.e_corr - expected) <= FP64
    monkeypatch.setattr("trnchem.screening.SPARSE_BELOW", 0.4)
    loose = dfmp2(chain, options=MP2Options(reuse=False, screening=1e-7))
    assert loose.screen.sparse
    assert loose.screen.kept < found.screen.kept
    assert "sparse" in str(loose.screen)
    assert abs(loose.e_corr - expected) <= 1e-6


@pytest.mark.parametrize("precision", ["fp64", "fp32"])
def test_sparse_and_dense_transformation_agree(chain, monkeypatch, precision):
    results = []
    for limit in (0.0, 1.1):
        monkeypatch.setattr("trnchem.screening.SPARSE_BELOW", limit)
        results.append(dfmp2(chain, options=MP2Options(reuse=False, precision=precision)))
    assert [found.screen.sparse for found in results] == [False, True]
    assert abs(results[0].e_corr - results[1].e_corr) <= (1e-10 if precision == "fp64" else 1e-6)


def test_small_molecules_keep_every_pair(water):
    found = dfmp2(water, options=MP2Options(reuse=False)).screen
    assert found.kept == found.total == 24**2
    assert not found.sparse


def test_slabs_hold_the_integrals_of_kept_pairs(chain):
    three, metric = integrals(chain)
    found = screen(chain.mol, metric, 1e-6)
    row, column = np.tril_indices(three.shape[0])
    packed = torch.from_numpy(np.ascontiguousarray(three[row, column, :5].T))
    dense = found.slab(packed).to_dense().numpy().reshape(5, *three.shape[:2])
    whole = three[:, :, :5].transpose(2, 0, 1)
    assert np.abs(dense - whole).max() <= 1e-6
    mask = dense != 0
    # the two triangles of PySCF's integrals differ in the last bit
    np.testing.assert_allclose(dense[mask], whole[mask], rtol=1e-13)


def test_auxiliary_shells_are_never_cut():
    starts = np.array([0, 1, 4, 9, 12, 13])
    for width in range(1, 14):
        ranges = list(trnchem.integrals.shell_ranges(starts, width))
        assert [begin for begin, _ in ranges][1:] == [end for _, end in ranges][:-1]
        assert (ranges[0][0], ranges[-1][1]) == (0, 5)
        assert all(starts[e] - starts[b] <= width or e == b + 1 for b, e in ranges)
