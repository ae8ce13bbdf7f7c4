"""Operators that Neuron's PyTorch lacks, on the emulated device, which has no complex numbers."""

import json
import subprocess
import sys

import pytest

import trnsci
from trnsci import BackendUnavailable, neuron

# programs of a device's user, outside any block, and the kernels of ours that run for them
OPERATORS = {
    "torch.linalg.inv(a)": "trnsolver::lu_solve",
    "torch.linalg.solve(a, b)": "trnsolver::lu_solve",
    "torch.linalg.det(a)": "trnsolver::lu",
    "torch.linalg.slogdet(a)[1]": "trnsolver::lu",
    "torch.linalg.cholesky(a @ a.T)": "trnsolver::cholesky",
    "torch.linalg.eigvalsh(a @ a.T)": "trnsolver::eigh",
    "torch.linalg.qr(b).R.abs()": "trnsolver::qr",
    "torch.linalg.svdvals(b)": "trnsolver::svd",
    "torch.linalg.matrix_exp(a / 9)": "trnblas::gemm",
    "torch.linalg.solve_triangular(a.tril(), b, upper=False)": "trnsolver::solve_triangular",
    "torch.fft.rfft(x)": "trnfft::r2c_planes",
    "torch.fft.irfft(torch.fft.rfft(x) * (2 - 1j), n=9)": "trnfft::c2r_planes",
    "torch.fft.fft(x, norm='ortho').conj().imag": "trnfft::c2c_planes",
    "torch.complex(b, b).mT @ torch.complex(b, 2 * b)": "",
    "torch.polar(b.exp(), b) / torch.complex(b + 3, b)": "",
    "torch.linalg.eigvals(a).abs().sum()": "",
}
# inside a block, where complex tensors may also begin as such
BLOCK = {
    "block(x, w)": "trnfft::r2c_planes",
    "torch.fft.fftn(x).conj().real": "trnfft::c2c_planes",
    "torch.fft.fft2(x).abs()": "trnfft::c2c_planes",
    "torch.fft.ifft(z.exp()) - z": "trnfft::c2c_planes",
    "torch.cat([z, z * z], -1).sum(0) / (1 + torch.ones(12, dtype=torch.cfloat, device=z.device))": "",
    "torch.view_as_real(z.mT)[1:].sum(-1)": "",
    "(torch.full((6,), 1 + 1j, device=z.device) * z)[:, ::2].angle()": "",
    "torch.cat([z, z.real[:, :1]], -1).log()": "",
    "torch.where(z.abs() > 1, z, 1j * z) + changed(z)": "",
    "torch.dot(z[0], z[1]) / z + torch.vdot(z[0], z[2]) * (2 / z) ** 2": "",
    "torch.linalg.norm(z) * z.sgn().mean()": "",
    "(z[:, :5] ** 3).diagonal()": "",
}
# the default group tries one of each kind
SLOW = (
    "torch.linalg.det(a)",
    "torch.linalg.qr(b).R.abs()",
    "torch.linalg.svdvals(b)",
    "torch.linalg.matrix_exp(a / 9)",
    "torch.fft.fft(x, norm='ortho').conj().imag",
    "torch.fft.fft2(x).abs()",
)
CASES = {**{code: (False, kernel) for code, kernel in OPERATORS.items()}, **{c: (True, k) for c, k in BLOCK.items()}}


def run(cases):
    given = json.dumps(cases)
    words = [sys.executable, "-W", "ignore", "-m", "tests.trnsci.programs_on_device"]
    done = subprocess.run(words, input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def results():
    return run([(code, mode) for code, (mode, _) in CASES.items() if code not in SLOW])


@pytest.fixture(scope="module")
def slow_results():
    return run([(code, CASES[code][0]) for code in SLOW])


@pytest.mark.slow
def test_a_fourier_neural_operator_runs_unmodified_on_a_device_without_complex_numbers():
    pytest.importorskip("neuralop", reason="needs neuraloperator, of the extra programs")
    (result,) = run([("neural_operator(x)", True)]).values()
    assert "raised" not in result, result["raised"]
    assert result["error"] < 2e-5
    assert result["hosted"] == []
    assert {"trnfft::r2c_planes", "trnfft::c2r_planes"} <= set(result["kernels"])


@pytest.mark.sim
@pytest.mark.parametrize("code", [pytest.param(c, marks=pytest.mark.slow) if c in SLOW else c for c in CASES])
def test_programs_on_a_device_without_complex_numbers_answer_as_on_the_host(request, code):
    result = request.getfixturevalue("slow_results" if code in SLOW else "results")[code]
    kernel = CASES[code][1]
    assert "raised" not in result, result["raised"]
    assert result["device"] == "neuron"
    assert result["error"] < 2e-5
    assert kernel in result["kernels"] or not kernel


def test_what_planes_cannot_do_is_done_on_the_host_and_recorded(results):
    assert results["(z[:, :5] ** 3).diagonal()"]["hosted"] == ["torch.pow"]
    assert "torch.linalg_eig" in results["torch.linalg.eigvals(a).abs().sum()"]["hosted"]
    assert results["block(x, w)"]["hosted"] == []


def test_without_a_device_of_torchs_there_is_nothing_to_register():
    with pytest.raises(BackendUnavailable, match="no Neuron device"):
        trnsci.register_operators()
    with neuron.stand_in(), pytest.raises(BackendUnavailable, match="stand-in"):
        trnsci.register_operators()
