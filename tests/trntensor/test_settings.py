"""The library the user called decides where its work runs, whoever does the work."""

import pytest
import torch

import trnblas
import trnsci
import trntensor
from trnsci.testing import gaussian


def g(*shape, seed=1):
    return gaussian(shape, seed)


LOW, HIGH = torch.tensor([-2.0, -1.0]), torch.tensor([1.0, 2.0, 3.0])
CALLS = {
    "einsum": lambda: trntensor.einsum("ij,jk,kl->il", g(4, 4), g(4, 4), g(4, 4)),
    "einsum_precision": lambda: trntensor.einsum("ij,jk->ik", g(4, 4), g(4, 4), precision="fp64", beta=1.0, c=g(4, 4)),
    "plan": lambda: trntensor.plan("ij,jk->ik", (4, 4), (4, 4))(g(4, 4), g(4, 4)),
    "multi_einsum": lambda: trntensor.multi_einsum([("ij,jk->ik", g(4, 4), g(4, 4)), ("ij,jk->ki", g(4, 4), g(4, 4))]),
    "tensordot": lambda: trntensor.tensordot(g(4, 4), g(4, 4), 1),
    "cp": lambda: trntensor.cp(g(4, 4, 4), 2),
    "tucker": lambda: trntensor.tucker(g(4, 4, 4), (2, 2, 2)),
    "mp2_energy": lambda: trntensor.mp2_energy(g(2, 3, 4), LOW, HIGH),
    "ao_to_mo_transform": lambda: trntensor.ao_to_mo_transform(g(4, 4, 5), g(4, 2), g(4, 3)),
    "fuse": lambda: trntensor.fuse("ik,jk->ij", epilogue=lambda t: t * t, reduce="ij->i")(g(4, 4), g(4, 4)),
}
# Their factorisations are trnsolver's business, and have no kernel for every step.
MIXED = ("cp", "tucker")


def products(book):
    return [entry.step for entry in book if entry.step.op.startswith(("trnblas::", "trntensor::"))]


@pytest.mark.parametrize("name", CALLS)
def test_a_setting_of_the_library_moves_the_products_others_do_for_it(name):
    with trnsci.ledger() as book, trnsci.backend("simulator", library="trntensor", strict=name not in MIXED):
        CALLS[name]()
    steps = products(book)
    assert steps
    assert {step.backend for step in steps} == {"simulator"}


@pytest.mark.parametrize("name", ["einsum", "plan", "multi_einsum"])
def test_the_inner_library_decides_where_it_was_itself_forced(name):
    outer, inner = trnsci.backend("simulator", library="trntensor"), trnsci.backend("pytorch", library="trnblas")
    with trnsci.ledger() as book, outer, inner:
        CALLS[name]()
    assert {step.backend for step in products(book)} == {"pytorch"}


def test_set_backend_and_the_environment_reach_the_products(monkeypatch):
    trntensor.set_backend("simulator")
    try:
        with trnsci.ledger() as book:
            CALLS["einsum"]()
            CALLS["plan"]()
    finally:
        trntensor.set_backend(None)
    assert {step.backend for step in products(book)} == {"simulator"}
    monkeypatch.setenv("TRNTENSOR_FORCE_BACKEND", "simulator")
    with trnsci.ledger() as book:
        CALLS["einsum"]()
    assert {step.backend for step in products(book)} == {"simulator"}
    monkeypatch.delenv("TRNTENSOR_FORCE_BACKEND")
    monkeypatch.setenv("TRNTENSOR_REQUIRE_NKI", "1")
    with pytest.raises(trnsci.BackendUnavailable, match="no Neuron device"):
        CALLS["einsum"]()


def test_a_listener_changes_nothing():
    a, b = g(8, 8), g(8, 8)
    alone = trntensor.einsum("ij,jk->ik", a, b)
    with trnsci.ledger() as book:
        heard = trntensor.einsum("ij,jk->ik", a, b)
    assert torch.equal(alone, heard)
    (step,) = trntensor.plan("ij,jk->ik", a, b).steps
    assert [entry.step.implementation for entry in book] == [step.implementation]
    assert trnblas.get_backend() == "auto" or step.backend == trnblas.get_backend()
