"""Predicted times the library stands for, at sizes too large to simulate with their arithmetic."""

import pytest
import torch

import trnsim
from trntensor.kernels.ao_to_mo_transform import ao_to_mo_transform
from trntensor.kernels.mp2_energy import mp2_energy


def predict(kernel, target, *shapes):
    arrays = [torch.empty(shape, device="meta") for shape in shapes]
    return trnsim.profile(kernel, target=target, numerics=False)(*arrays)[1]


def energy(target, nocc, nvir, naux):
    return predict(mp2_energy, target, (nocc, nvir, naux), (1, nocc), (1, nvir), (nvir, 1))


@pytest.mark.sim
def test_a_small_energy_takes_less_than_two_milliseconds():
    assert energy("trn1", 16, 128, 128).total_s <= 2e-3


@pytest.mark.sim
@pytest.mark.slow
def test_a_large_energy_takes_less_than_a_fifth_of_a_second():
    report = energy("trn1", 64, 448, 1536)
    assert report.total_s <= 0.20


@pytest.mark.sim
@pytest.mark.slow
def test_the_transformation_reaches_six_tenths_of_the_tensor_engine_on_trn2():
    report = predict(ao_to_mo_transform, "trn2", (512, 512, 1536), (512, 64), (512, 448))
    assert report.fraction_of_peak >= 0.60
    # Integrals in, result out, coefficients: nothing half-transformed.
    assert report.hbm_read_bytes + report.hbm_written_bytes <= 1.001 * 4 * (
        512 * 512 * 1536 + 64 * 448 * 1536 + 512 * 512
    )
