"""Hosts that are hostile without being broken: no memory, forks, interrupts, odd flags and folders."""

import os
import resource
import signal
import subprocess
import sys
import time

import pytest
import torch

import trnblas
from trnsci import CapacityError


@pytest.fixture
def bounded_addresses():
    """Room for 64 TiB: a host that promises more memory than it has would otherwise hand them out."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 44 if soft == resource.RLIM_INFINITY else soft, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.usefixtures("bounded_addresses")
def test_host_memory_that_is_not_there_is_a_capacity_error():
    huge = torch.ones(1, 1).expand(1 << 22, 1)
    with pytest.raises(CapacityError) as caught:
        trnblas.gemm(1.0, huge, huge.mT)
    assert caught.value.where == "host"
    assert caught.value.required == 4 << 44
    assert 0 < caught.value.available < 1 << 44
    assert "Use smaller operands" in str(caught.value)


FORKED = """
import os, sys, torch, trnblas, trnfft, trnsolver
torch.set_num_threads(4)
a = torch.randn(600, 600)

def work():
    lower = trnsolver.cholesky(a @ a.mT + 600 * torch.eye(600))
    return trnblas.gemm(1.0, a, a).sum() + trnfft.fft(a).abs().sum() + lower.sum()

first = work()
child = os.fork()
if child == 0:
    os._exit(0 if torch.allclose(work(), first, rtol=1e-4) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_after_a_threaded_product_goes_on_computing():
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.strip() == "0", done.stderr


LONG = {
    "simulator": "a = torch.ones(6000, 6000)\nwith trnsci.backend('simulator'):\n    trnblas.gemm(1.0, a, a)",
    "cg": "a = torch.logspace(-9, 9, 3000, dtype=torch.float64)[:, None]\n"
    "trnsolver.cg(lambda x: (time.sleep(0.01), a * x)[1], torch.ones_like(a), tol=1e-15, maxiter=1_000_000)",
    "dfmp2": "trnchem.dfmp2('benzene', options=trnchem.MP2Options(progress=lambda now: time.sleep(5)))",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_an_interrupt_ends_a_long_call_within_seconds(name):
    text = (
        f"import time, torch, trnblas, trnchem, trnsci, trnsolver\nprint('go', flush=True)\n{LONG[name]}\nprint('done')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "go\n"
        time.sleep(2)
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        said, error = child.communicate(timeout=100)
        took = time.monotonic() - start
    assert said == "", "it ended before it could be interrupted"
    assert "KeyboardInterrupt" in error
    # a second, and what ending an interpreter takes on a busy machine
    assert took < 10


EVERYTHING = """
import warnings
# what others deprecate among themselves depends on their versions and Python's
warnings.filterwarnings("error")
for kind in (DeprecationWarning, PendingDeprecationWarning, SyntaxWarning):
    warnings.filterwarnings("ignore", category=kind, module=r"(?!trn|__main__)")
import torch
import trnblas, trnchem, trnfft, trnrand, trnsci, trnsolver, trnsparse, trntensor
from trnsci import distributed

a = torch.eye(6) * 4

def need(right):
    if not right:
        raise SystemExit("wrong")

for backend in ("auto", "simulator"):
    with trnsci.backend(backend):
        need(torch.equal(trnblas.gemm(1.0, a, a), a @ a))
        need(torch.allclose(trnfft.fft(torch.ones(6)).abs().sum(), torch.tensor(6.0)))
        need(torch.allclose(trnsolver.cholesky(a), 2 * torch.eye(6)))
        need(trntensor.einsum("ij,jk->", a, a).item() == 96)
        need(torch.equal(trnsparse.CSRMatrix.from_dense(a) @ a, a @ a))
need(trnrand.Generator(7).uniform(3).shape == (3,))
trnsparse.CSRMatrix.from_dense(a).save("a matrix.npz")
need(torch.equal(trnsparse.load("a matrix.npz").to_dense(), a))
need(trnchem.dfmp2("water", checkpoint="the pairs.ckpt", options=trnchem.MP2Options(basis="sto-3g")).e_corr < 0)
rows = distributed.shard(a, distributed.mesh(), 0)
need(distributed.gather(trnblas.gemm(1.0, rows, rows)).sum() == 96)
distributed.leave()
try:
    trnblas.gemm(1.0, a, torch.ones(3, 3))
except trnsci.ArgumentError:
    print("all well")
"""


@pytest.mark.slow
def test_odd_hosts_run_everything(tmp_path):
    """Optimised, with warnings as errors, no compiler or any other command, no home to write to, names with spaces."""
    folder = tmp_path / "with a space"
    folder.mkdir()
    (folder / "the program.py").write_text(EVERYTHING)
    environment = {"HOME": "/dev/null", "PATH": "/nonexistent", "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-O", "the program.py"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.stdout.strip() == "all well", done.stderr
