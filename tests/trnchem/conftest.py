"""Mean fields and PySCF's own DF-MP2, each computed once."""

import functools

import pytest
import torch

import trnchem


@functools.cache
def field_of(name, basis="cc-pvdz", fitted=True):
    if fitted:
        return trnchem.mean_field(name, basis=basis)
    from pyscf import gto, scf

    field = scf.RHF(gto.M(atom=trnchem.GEOMETRIES[name], basis=basis, verbose=0))
    field.chkfile = None
    return field.run()


@functools.cache
def reference_of(name, basis="cc-pvdz", fitted=True, frozen=None):
    """Total, opposite-spin and same-spin energy from PySCF, with the same auxiliary basis."""
    from pyscf.mp import dfmp2

    solver = dfmp2.DFMP2(field_of(name, basis, fitted), frozen=frozen)
    found = dfmp2.kernel(solver, eris=solver.ao2mo(), with_t2=False)[0]
    return float(found), float(found.e_corr_os), float(found.e_corr_ss)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def field():
    return field_of


@pytest.fixture(scope="session")
def reference():
    return reference_of


@pytest.fixture
def water(field):
    return field("water")
