import pytest
import torch

import trnblas
import trnsci
from trnsci import BackendUnavailable
from trnsci.kernel_launcher import OnDevice, Simulator, current, launcher, using
from trnsci.neuron import stand_in


def test_outside_a_dispatch_the_device_runs_kernels_if_there_is_one():
    assert isinstance(current(), Simulator)
    with stand_in():
        assert isinstance(current(), OnDevice)


def test_using_nests_and_is_restored():
    one, two = launcher("simulator"), launcher("simulator")
    with using(one):
        with using(two):
            assert current() is two
        assert current() is one


def test_no_device_no_launcher():
    with pytest.raises(BackendUnavailable) as caught:
        launcher("nki")
    assert caught.value.reason == "no Neuron device"
    assert 'Run the same kernels here with backend "simulator"' in str(caught.value)


def test_the_simulated_generation_is_configured(monkeypatch):
    monkeypatch.setenv("TRNSCI_TARGET", "trn3")
    assert launcher("simulator").target == "trn3"


@pytest.mark.sim
def test_simulated_transfers_are_counted_as_a_device_would_make_them():
    a, b = torch.ones(3, 4), torch.ones(4, 5)
    with trnsci.backend("simulator"), trnsci.ledger() as book:
        result = trnblas.gemm(1.0, a, b)
    assert (book.bytes_to_device, book.bytes_from_device) == (a.nbytes + b.nbytes, result.nbytes)
