"""torch-neuronx 2.14 imitated as it is documented: what a user of Neuron 2.33 types, in untouched processes.

`tests/neuronx` is a distribution with torch's entry point: ``import torch`` loads it, as it loads AWS's.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LNC = "NEURON_LOGICAL_NC_CONFIG"
# what is said of logical cores, and the cores there are then
SAID = pytest.mark.parametrize(
    ("said", "cores"),
    [("", 2), pytest.param("1", 1, marks=pytest.mark.slow), pytest.param("2", 2, marks=pytest.mark.slow)],
)


def neuron_host(*words, said="", **switches):
    """Run a command on the imitated machine."""
    own = {"PYTHONPATH": str(ROOT / "tests" / "neuronx"), LNC: said, "TORCH_NEURONX_IMITATION": json.dumps(switches)}
    return subprocess.run([sys.executable, *words], env=os.environ | own, capture_output=True, text=True, cwd=ROOT)


def python(code, **more):
    done = neuron_host("-W", "ignore", "-c", code, **more)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


KERNELS = """
import torch, trnblas, trnrand, trnsci, trnsolver
from trnsci import neuron
import nki
assert type(neuron.device()).__name__ == "NativeDevice", neuron.detected()
a = torch.randn(64, 64)
spd = a @ a.mT + 64 * torch.eye(64)
with trnsci.backend("nki"), trnsci.ledger() as book:
    product = trnblas.gemm(1.0, a, a)
    factor = trnsolver.cholesky(spd)
    normal = trnrand.normal(1000, generator=trnrand.Generator(1))
    resident = trnblas.gemm(1.0, a.to("neuron"), a.to("neuron"))
    again = trnblas.gemm(1.0, a + 1, a)
print(neuron.device().cores)
print(float((product - a @ a).abs().max()), float((factor @ factor.mT - spd).abs().max()))
print(resident.device.type, book.fallbacks, {entry.step.backend for entry in book})
print([name for name, *_ in nki.COMPILED].count("gemm"))
"""


@pytest.mark.sim
@SAID
def test_kernels_run_whatever_is_said_of_logical_cores(said, cores):
    lines = python(KERNELS, said=said).splitlines()
    assert lines[0] == str(cores)
    assert all(float(error) < 1e-4 for error in lines[1].split())
    # the same shapes and constants are compiled once
    assert lines[2:] == ["neuron () {'nki'}", "1"]


def test_a_variable_set_after_torch_is_too_late_and_kernels_run_all_the_same():
    text = python(
        "import os, torch, trnsci, trnblas\n"
        f"os.environ['{LNC}'] = '1'\n"
        "from trnsci.info import info\n"
        "a = torch.ones(4, 4)\n"
        "with trnsci.backend('nki'):\n"
        "    print(float(trnblas.gemm(1.0, a, a).sum()))\n"
        "print([b.detail for b in info().backends if b.name == 'nki'][0])\n"
    )
    assert text.startswith("64.0\ntrn2 as a neuron device, 2 cores to a logical core; too late: ")


@pytest.mark.slow
def test_without_a_usable_nki_there_is_no_backend_and_no_simulator_under_its_name(tmp_path):
    (tmp_path / "nki.py").write_text("raise ImportError('placeholder')\n")
    own = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'tests' / 'neuronx'}", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    code = (
        "import torch, trnsci, trnblas\n"
        "from trnsci.emulation.device import Machine\n"
        "from trnsci.emulation.rules import Rules\n"
        "Machine('trn2', Rules()).install()\n"
        "try:\n"
        "    with trnsci.backend('nki'):\n"
        "        trnblas.gemm(1.0, torch.ones(2, 2), torch.ones(2, 2))\n"
        "except trnsci.BackendUnavailable as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | own, capture_output=True, text=True)
    assert "AWS's nki does not import (placeholder)" in done.stdout, done.stderr[-2000:]
    assert "no kernel can be compiled for it" in done.stdout


@pytest.mark.slow
def test_a_mismatch_of_logical_cores_is_what_the_compiler_says_it_is():
    code = (
        "import torch, nki\n"
        "from trnblas.kernels.gemm import gemm\n"
        "a = torch.ones(1, 4, 4).to('neuron')\n"
        "for run in (gemm, gemm[1], gemm[2]):\n"
        "    try:\n"
        "        print(float(run(a, a).sum()))\n"
        "    except RuntimeError as error:\n"
        "        print(str(error)[:13])\n"
    )
    assert python(code).split() == ["[NCC_EVRF066]", "[NCC_EVRF066]", "64.0"]
    assert python(code, said="2").split() == ["64.0", "[NCC_EVRF066]", "64.0"]


@pytest.mark.slow
@pytest.mark.parametrize("reports", [True, False])
def test_fallbacks_are_read_where_they_are_reported_and_said_to_be_unknown_where_not(reports):
    text = python(
        "import torch, trnsci\n"
        "from trnsci import neuron\n"
        "neuron.device()\n"
        "with trnsci.ledger() as book:\n"
        "    torch.rand(3, device='neuron')\n"
        "print(book.fallbacks)\n"
        "print(book)\n",
        reports=reports,
    )
    assert text.startswith("('aten::rand',)" if reports else "None")
    assert (
        "as the device's own library reports: aten::rand" if reports else "not reported by the device's own"
    ) in text


# what nobody outside AWS knows, both ways
@pytest.mark.slow
@pytest.mark.parametrize("casts", [True, False])
@pytest.mark.parametrize("has_complex", [True, False])
def test_operators_answer_whatever_the_release_does_with_64_bits_and_complex_numbers(casts, has_complex):
    text = python(
        "import torch, trnsci\n"
        "trnsci.register_operators()\n"
        "x = torch.linspace(0, 1, 64)\n"
        "a = torch.eye(8) * 4 + torch.ones(8, 8)\n"
        "got = torch.fft.rfft(x.to('neuron')).abs().cpu()\n"
        "print(float((got - torch.fft.rfft(x).abs()).abs().max()))\n"
        "print(float((torch.linalg.inv(a.to('neuron')).cpu() - torch.linalg.inv(a)).abs().max()))\n",
        casts=casts,
        has_complex=has_complex,
    )
    assert all(float(error) < 1e-5 for error in text.split())


@pytest.mark.slow
@SAID
def test_the_commands_of_the_first_hour(said, cores, tmp_path):
    info = neuron_host("-m", "trnsci.cli", "info", "--probe", said=said)
    assert info.returncode == 0, info.stderr[-2000:]
    assert f"trn2 as a neuron device, {cores} core" in info.stdout
    assert "2.14.3.0" in info.stdout
    # ops of one kernel each
    faults = {
        "trmm": {"wrong": 0.01},
        "symm": {"refuse": "[NCC_EVRF007] number of instructions"},
        "axpy": {"crash": "SIGSEGV"},
        "iamax": {"fail": "NRT_EXEC_HW_ERR"},
    }
    only = [word for op in ("banded", *faults) for word in ("--only", f"trnblas.{op}")]
    words = ("-m", "trnsci.cli", "validate", "--output", str(tmp_path / "out"), "--limit", "4m", *only)
    first = neuron_host(*words, "--budget", "20s", said=said, faults=faults)
    assert "trn2 as a neuron device" in first.stderr
    whole = neuron_host(*words, said=said, faults=faults)
    assert whole.returncode == 1, whole.stderr[-2000:]
    kept = json.loads((tmp_path / "out" / "validate.json").read_text())
    assert kept["jobs"] == len(kept["results"])
    kernels = {(r["job"].split()[1], r["status"]) for r in kept["results"] if r["job"].startswith("kernel")}
    wanted = {"trmm": "wrong", "symm": "refused", "axpy": "crashed", "iamax": "failed", "banded": "right"}
    assert kernels == {(f"trnblas.{op}", status) for op, status in wanted.items()}
    # on the instance or on a laptop; one kernel was right, and a time model needs more rows
    words = ("-m", "trnsim", "calibrate", str(tmp_path / "out" / "validate.json"), "--output", str(tmp_path / "target"))
    for model in (
        neuron_host(*words, said=said),
        subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT),
    ):
        assert "1 rows are left to fit. Measure more kernels" in model.stderr


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("library", ["trnblas", "trnfft", "trnsolver", "trnsparse", "trntensor"])
def test_every_function_takes_tensors_of_the_device(library):
    done = neuron_host("-m", "tests.trnsci.functions_on_device", library)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) >= 8
    wrong = [line for line in found if not (isinstance(line[2], float) and line[2] < 2e-3) and line[:2] != CHEBYSHEV]
    assert not wrong


# without bounds of the spectrum its steps diverge in single precision sooner than on the host
CHEBYSHEV = ["trnsolver.chebyshev", "nki"]


@pytest.mark.slow
@pytest.mark.sim
@SAID
def test_ctrl_c_ends_the_walk_with_a_report_and_the_same_command_goes_on(said, cores, tmp_path):
    words = ["validate", "--only", "probes", "--output", str(tmp_path / "out")]
    own = {"PYTHONPATH": str(ROOT / "tests" / "neuronx"), LNC: said, "TORCH_NEURONX_IMITATION": "{}"}
    command = [sys.executable, "-m", "trnsci.cli", *words]
    walk = subprocess.Popen(command, env=os.environ | own, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    for line in walk.stderr:
        if "[1/11]" in line:
            break
    # a job is under way: in a session of its own, which Ctrl-C of a terminal does not reach
    running = [pid for pid in _descendants(walk.pid) if pid != walk.pid]
    walk.send_signal(signal.SIGINT)
    assert walk.wait() == 130
    assert "interrupted: 1 of 11 results are in" in walk.stderr.read()
    # the kernel takes a moment to clear away what was killed
    while any(Path(f"/proc/{pid}").exists() for pid in running):
        time.sleep(0.1)
    assert json.loads((tmp_path / "out" / "validate.json").read_text())["about"]["logical_cores"] == cores
    again = neuron_host(*command[1:], "--budget", "1s", said=said)
    assert again.returncode == 0, again.stderr[-2000:]
    assert "11 jobs, 1 known" in again.stderr
    assert "left for another time" in again.stderr


def _descendants(pid):
    """Return a process and what it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in _descendants(int(child)))]


@pytest.mark.slow
@pytest.mark.sim
@SAID
def test_the_devices_clock_is_read_where_a_python_has_nrtpy(said, cores, tmp_path):
    words = ("-m", "trnsci.cli", "validate", "--only", "trnblas.banded", "--nrtpy", sys.executable)
    done = neuron_host(*words, "--output", str(tmp_path), said=said)
    assert done.returncode == 0, done.stderr[-2000:]
    kept = json.loads((tmp_path / "validate.json").read_text())
    kernels = [result["stages"] for result in kept["results"] if result["kind"] == "kernel"]
    # the clock of the imitation is the time model
    for stages in kernels:
        assert stages["clock"]["mean_s"] == pytest.approx(stages["predict"]["total_s"], rel=1e-3), stages["clock"]
    assert sum(row["metric"] == "total" for row in kept["measured"]) == len(kernels) > 0


OPERATORS = """
import torch, trnblas, trnfft, trnsci, trnsolver
import nki
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from trnsci import ops
from trnsci.neuron_operators import register_compiled_operators
seen = []
def keep(graph, inputs):
    seen.append([str(node.target) for node in graph.graph.nodes if "gemm" in str(node.target)])
    return make_boxed_func(graph.forward)
capture = aot_autograd(fw_compiler=keep, bw_compiler=keep)
def layer(x, w):
    return torch.relu(trnblas.gemm(1.0, x, w)).sum()
x, w = torch.randn(8, 16), torch.randn(16, 4)
xs, ws = x.to("neuron"), w.to("neuron").requires_grad_()
torch.compile(layer, backend=capture, fullgraph=True)(xs, ws).backward()
print(*map(set, seen))
ws.grad = None
compiled = torch.compile(layer, backend="neuron", fullgraph=True, dynamic=False)
compiled(xs, ws).backward()
expected = torch.relu(x @ w).sum(), x.mT @ (x @ w > 0).float()
print(float((layer(xs, ws.detach()).cpu() - expected[0]).abs()), float((ws.grad.cpu() - expected[1]).abs().max()))
print("gemm" in nki.TRACED)
inner = torch.compile(lambda a, b: torch.tanh(a @ b), backend="trnsci", options={"inner": "neuron"}, dynamic=False)
print(float((inner(xs, ws.detach()).cpu() - torch.tanh(x @ w)).abs().max()))
print(torch_neuronx.MACHINE.record.graphs)
print(register_compiled_operators() - sum(hasattr(op.kind, "nki") and not op.eager for op in ops.all_ops()))
# on the host the operator is torch's own
hosts = []
torch.compile(layer, backend=lambda graph, _: hosts.append(graph.code) or graph.forward)(x, w)
print("trnblas_neuron" in hosts[0])
there = trnfft.plan((4, 64), torch.float32, kind="rfft")
back = trnfft.plan((4, 33), torch.complex64, kind="irfft", n=64)
smooth = trnfft.with_callbacks(there, store=trnfft.Multiply(torch.linspace(0, 1, 33))).then(back)
signal = torch.randn(4, 64)
with trnsci.backend("nki"):
    smoothed = torch.compile(lambda x: smooth(x), backend="neuron", dynamic=False, fullgraph=True)(signal.to("neuron"))
print(float((smoothed.cpu() - smooth(signal)).abs().max()))
""".replace("import nki\n", "import nki, torch_neuronx\n")


@pytest.mark.slow
@pytest.mark.sim
def test_ops_are_operators_of_neurons_compiler_and_keep_their_gradients():
    lines = python(OPERATORS).splitlines()
    # nothing was registered by hand, and the backward pass is made of them too
    assert lines[0] == "{'trnblas_neuron.gemm.default'} {'trnblas_neuron.gemm.default'}"
    assert all(float(error) < 1e-4 for error in (*lines[1].split(), lines[3]))
    # followed as their own fakes
    assert lines[2] == "True"
    # forward, backward, and the one inside ours
    assert int(lines[4]) == 3
    # every op that has a kernel
    assert lines[5:7] == ["0", "False"]
    assert float(lines[7]) < 1e-4
