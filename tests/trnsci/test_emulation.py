"""The device without the device: programs written for a Trainium, in untouched processes, and what is said of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("programs_for_neuron.py")


def emulated(name, *options, target="trn2"):
    words = ("run", "--emulate", target, *options, str(PROGRAMS), name)
    done = subprocess.run([sys.executable, "-m", "trnsci.cli", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    return json.loads(done.stdout), done.stderr


def python(code):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.sim
def test_a_network_is_trained_and_compiled_and_the_report_counts_it():
    result, text = emulated("network")
    assert result == {"falls": True, "compiled": True, "on": "neuron"}
    said = {name.strip(): count for name, _, count in (row.strip().rpartition(" ") for row in text.splitlines())}
    assert int(said["operators started"]) > 100
    assert int(said["compiled graphs started"]) == 1
    assert int(said["fallbacks to the host"]) == 0
    assert "programs_for_neuron.py" in text.partition("What did not stay on the device")[2]


@pytest.mark.slow
@pytest.mark.sim
def test_a_gaussian_process_runs_our_kernels():
    result, text = emulated("process")
    assert result["falls"]
    rows = [row.split() for row in text.splitlines() if "kernels of the suite started" in row]
    assert int(rows[0][-1]) >= 5


@pytest.mark.slow
@pytest.mark.sim
def test_a_fourier_operator_is_trained_through_our_transforms():
    result, text = emulated("operator")
    assert result["falls"]
    rows = [row.split() for row in text.splitlines() if "kernels of the suite started" in row]
    # two transforms and their gradients in each of six steps
    assert int(rows[0][-1]) >= 24


def test_what_the_device_lacks_is_refused_or_narrowed_as_reported():
    result, text = emulated("limits")
    # a third times three in single precision, and an integer of 32 bits
    assert result["double"] == 1.0
    assert result["wraps"] == -(2**31)
    assert "NCC_EVRF004" in result["complex"]
    assert "channels_last" in result["layout"]
    assert result["memory"].startswith("OutOfMemoryError: Neuron device out of memory. Tried to allocate 34.4 GB")
    assert "dynamic=False" in result["dynamic"]
    assert result["elapsed"] > 0.06
    assert result["peak"] >= 360_000
    assert "computed in 32 bits for 64" in text


@pytest.mark.slow
def test_a_trn1_has_one_core_and_starts_work_over_xla():
    text = python(
        "import torch, trnsci\n"
        "device = trnsci.emulate('trn1')\n"
        "torch.ones(3, device='neuron') * 2\n"
        "print(device.device.cores, device.record.parts['starting work'])\n"
    )
    cores, starting = text.split()
    assert cores == "1"
    assert float(starting) == pytest.approx(2 * 0.67e-3)


def test_memory_is_given_back_and_views_share_it():
    text = python(
        "import gc, torch, trnsci\n"
        "trnsci.emulate('trn2')\n"
        "x = torch.zeros(100, device='neuron')\n"
        "y = x.view(10, 10)[2:4]\n"
        "y += 1\n"
        "print(torch.neuron.memory_allocated(), float(x.sum()))\n"
        "del x\n"
        "print(torch.neuron.memory_allocated())\n"
        "del y; gc.collect()\n"
        "print(torch.neuron.memory_allocated())\n"
    )
    assert text.split() == ["400", "20.0", "400", "0"]


def test_a_model_is_copied_and_another_index_is_refused():
    text = python(
        "import copy, torch, trnsci\n"
        "trnsci.emulate('trn2')\n"
        "model = torch.nn.Linear(4, 3).to('neuron')\n"
        "state = copy.deepcopy(model).state_dict()\n"
        "print(all(torch.equal(state[name].cpu(), value.cpu()) for name, value in model.state_dict().items()))\n"
        "try:\n"
        "    torch.ones(2, device='neuron:1')\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
    )
    assert text.startswith("True\ninvalid device neuron:1")


def test_one_process_emulates_one_device():
    text = python(
        "import trnsci\n"
        "one = trnsci.emulate('trn2')\n"
        "assert trnsci.emulate('trn2') is one\n"
        "try:\n"
        "    trnsci.emulate('trn3')\n"
        "except trnsci.BackendUnavailable as error:\n"
        "    print(error)\n"
        "try:\n"
        "    trnsci.emulate('trn9')\n"
        "except trnsci.ArgumentError as error:\n"
        "    print(error)\n"
    )
    assert "this process emulates trn2" in text
    assert "trn9" in text


@pytest.mark.slow
def test_operators_can_be_refused_where_the_device_lacks_them():
    text = python(
        "import torch, trnsci\n"
        "device = trnsci.emulate('trn2', fallback=False, has_complex=True)\n"
        "print(torch.ones(2, dtype=torch.complex64, device='neuron').device)\n"
        "try:\n"
        "    torch.rand(3, device='neuron')\n"
        "except NotImplementedError as error:\n"
        "    print(error)\n"
    )
    assert "neuron" in text
    assert "aten::rand is not implemented for the Neuron device" in text


@pytest.mark.slow
def test_planes_fill_complex_tensors_of_the_device():
    text = python(
        "import torch, trnsci\n"
        "trnsci.emulate('trn2', has_complex=True)\n"
        "x = torch.arange(8.0).reshape(2, 4)\n"
        "filled = torch.zeros(2, 3, dtype=torch.complex64, device='neuron')\n"
        "filled[:, :2] = torch.fft.rfft(x.to('neuron'))[:, 1:]\n"
        "want = torch.zeros(2, 3, dtype=torch.complex64)\n"
        "want[:, :2] = torch.fft.rfft(x)[:, 1:]\n"
        "print(bool((filled.cpu() - want).abs().max() < 1e-5), bool(want.imag.abs().max() > 1))\n"
    )
    assert "True True" in text


def test_a_ledger_names_what_fell_back():
    text = python(
        "import torch, trnsci\n"
        "trnsci.emulate('trn2')\n"
        "with trnsci.ledger() as book:\n"
        "    torch.atan2(torch.ones(2).to('neuron'), torch.ones(2).to('neuron'))\n"
        "with trnsci.ledger() as other:\n"
        "    torch.ones(2).to('neuron') + 1\n"
        "print(book.fallbacks, other.fallbacks)\n"
        "print(book)\n"
    )
    assert "('atan2',) ()" in text
    assert "on the host, as the device's own library reports: atan2" in text
    assert "the device is emulated: kernels ran on the simulator" in text
