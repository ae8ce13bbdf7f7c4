import subprocess
import sys

import numpy as np
import pytest
import torch

import trnsci
from trnblas.nki import nki_batched_gemm, nki_gemm
from trnsci.testing import assert_within, gaussian, gemm_bound, in_float64

pytestmark = pytest.mark.sim


@pytest.mark.parametrize(
    ("function", "batch"), [(nki_gemm, ()), (nki_batched_gemm, (3,))], ids=["nki_gemm", "nki_batched_gemm"]
)
def test_the_kernel_runs_whatever_the_backend(function, batch):
    a, b = gaussian((*batch, 65, 130), 1), gaussian((*batch, 130, 9), 2)
    with trnsci.backend("pytorch"), trnsci.ledger() as book:
        got = function(a, b)
    assert [entry.step.backend for entry in book] == ["simulator"]
    assert_within(got, in_float64(np.matmul, a, b), gemm_bound(a, b))


def test_on_a_device_it_runs_there():
    with trnsci.neuron.stand_in(), trnsci.ledger() as book:
        nki_gemm(torch.ones(2, 3), torch.ones(3, 2))
    assert [entry.step.backend for entry in book] == ["nki"]


def test_kernels_by_name_need_no_further_import():
    code = "import torch, trnblas; print(trnblas.nki.nki_gemm(torch.ones(2, 3), torch.ones(3, 2)).sum().item())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "12.0"
