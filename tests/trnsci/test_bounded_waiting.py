"""Nobody waits longer than the timeout: a rank that is killed, stops or raises, in every kind of call and launch."""

import atexit
import contextlib
import itertools
import multiprocessing
import os
import random
import re
import runpy
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.ranks import _IMPORTS

# beside the tests of ranks, which are forked from the same process
pytestmark = pytest.mark.usefixtures("ranks")
LAUNCH = [sys.executable, "-m", "trnsci.cli", "launch"]
TIMEOUT = 12
# of the case in the default group, which is judged on a busy machine too: all the time to ask who is missing, and brief
# pauses between two looks
LONG = 60
# starting Python and torch on a busy machine, ending processes, and the launcher's grace for those that stand still
SLACK = 400
CALLS = ("gemm", "cholesky", "dfmp2", "einsum", "fft", "cg")

PROGRAM = """
import os, signal, sys, time
import torch, trnblas
from trnsci import RankFailed, distributed
from trnsci.distributed import world
from trnsci.distributed.team import LiveTeam

calls, fault, who, timeout = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
torch.set_num_threads(1)
if timeout == 60:
    world.World._interval, world._INQUIRY = 0.25, 80
mesh = distributed.mesh(timeout=60, device="cpu")
rank = mesh.get_rank()
a = distributed.shard(torch.eye(24, dtype=torch.float64) * 4, mesh, 0)
b = distributed.shard(torch.ones(24, 3, dtype=torch.float64), mesh, 0)

def cholesky():
    import trnsolver
    trnsolver.cholesky(a)

def cg():
    import trnsolver
    trnsolver.cg(a, distributed.shard(torch.ones(24, dtype=torch.float64), mesh, 0))

def einsum():
    import trntensor
    trntensor.einsum("ij,jk->k", a, a)

def fft():
    import trnfft
    trnfft.fft(a.to(torch.complex128), axis=0)

def dfmp2():
    import trnchem
    trnchem.dfmp2("water", checkpoint=sys.argv[5], options=trnchem.MP2Options(basis="sto-3g", mesh=mesh))

def gemm():
    trnblas.gemm(1.0, a, a)

trnblas.gemm(1.0, a, b)
# meeting takes as long as it does; waiting in a call is what is bounded
mesh = distributed.mesh(timeout=timeout, device="cpu")
honest, started = LiveTeam._start, set()

def faulty(self, *exchange, **options):
    op = self.op.split(".")[-1]
    if rank == who and op == call and op not in started and self.world.started >= 2:
        started.add(op)
        print("fault", op, time.time(), flush=True)
        if fault == "raise":
            raise ZeroDivisionError("no reason")
        os.kill(os.getpid(), signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
    return honest(self, *exchange, **options)

LiveTeam._start = faulty
blamed = 0
for call in calls.split(","):
    try:
        globals()[call]()
        print("finished", flush=True)
    except RankFailed as error:
        blamed = 3
        print(f"{call} heard at {time.time()}; blamed {error.failed}; {error}", flush=True)
        if not error.raised:
            sys.exit(3)
    except ZeroDivisionError:
        pass
sys.exit(blamed)
"""


def _port():
    """A free port, from below those that the kernel hands to whoever asks for any."""
    for port in random.sample(range(20000, 32000), 100):
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


def _jobs(how, ranks, words):
    """Commands that together are one job, each with its environment."""
    if how == "launcher":
        return [([*LAUNCH, "-n", str(ranks), *words], {})]
    address = f"127.0.0.1:{_port()}"
    if how == "nodes":
        own = ["--nnodes", str(ranks), "-n", "1", "--address", address, "--interface", "lo"]
        return [([*LAUNCH, *own, "--node-rank", str(node), *words], {}) for node in range(ranks)]
    host, port = address.split(":")
    common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": host, "MASTER_PORT": port}
    return [(words, {**common, "RANK": str(rank), "LOCAL_RANK": "0"}) for rank in range(ranks)]


def _plainly(words, own, said):
    """Run a program as a process that was started by hand: forked from one that has imported everything."""
    os.environ.update(own)
    sys.argv = words
    for number in (1, 2):
        os.dup2(os.open(said, os.O_WRONLY | os.O_APPEND), number)
    try:
        runpy.run_path(words[0])
    finally:
        # as the end of an interpreter does, and of a forked process does not
        atexit._run_exitfuncs()


def _started(how, command, own, said):
    if how == "env":
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_IMPORTS)
        child = context.Process(target=_plainly, args=(command, own, said))
        child.start()
        return child, child.join
    with Path(said).open("a") as out:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **own}
        child = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
    return child, child.wait


def _tried(tmp_path, how, call, fault, who, ranks, timeout):
    """Run a job with one fault; return what the surviving ranks said, and how long the job took."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    words = [str(script), call, fault, str(who), str(timeout), str(tmp_path / "pairs.ckpt")]
    said = tmp_path / "said"
    said.touch()
    start, children = time.monotonic(), []
    try:
        for command, own in _jobs(how, ranks, words):
            children.append(_started(how, command, own, str(said)))
        for number, (_, wait) in enumerate(children):
            # nobody is there to end one that was started by hand
            if (how, fault, number) != ("env", "stop", who):
                wait(TIMEOUT + SLACK)
        took = time.monotonic() - start
    finally:
        for child, wait in children:
            child.kill()
            wait(TIMEOUT)
    return said.read_text(), took


def _check(tmp_path, how, calls, fault, who, ranks=2, timeout=TIMEOUT):
    text, took = _tried(tmp_path, how, calls, fault, who, ranks, timeout)
    for call in calls.split(","):
        began = re.search(rf"fault {call} ([\d.]+)", text)
        assert began, text
        heard = re.findall(rf"{call} heard at ([\d.]+); blamed (-?\d+)", text)
        assert len(heard) == ranks - 1, text
        for moment, blamed in heard:
            # and a machine that does other things
            assert float(moment) - float(began[1]) <= timeout + 3, text
            assert int(blamed) == who, text
    assert took < timeout + SLACK
    if fault == "raise":
        assert text.count("raised ZeroDivisionError: no reason") >= len(calls.split(",")) * (ranks - 1)
    elif how == "launcher":
        assert f"trnsci launch: rank {who} " in text


SHORT = [("env", "gemm", "kill", 1)]
EVERY = [
    (how, call, fault, who)
    for how, call, fault, who in itertools.product(("env", "launcher", "nodes"), CALLS, ("kill", "stop"), range(2))
    if (how, call, fault, who) not in SHORT
]
# ranks go on after one has raised, so that one job tries every call
EVERY += list(itertools.product(("env", "launcher", "nodes"), (",".join(CALLS),), ("raise",), range(2)))


@pytest.mark.parametrize(("how", "call", "fault", "who"), SHORT)
def test_nobody_waits_longer_than_the_timeout(tmp_path, how, call, fault, who):
    _check(tmp_path, how, call, fault, who, timeout=LONG)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "call", "fault", "who"), EVERY)
def test_nobody_waits_longer_than_the_timeout_in_any_call(tmp_path, how, call, fault, who):
    _check(tmp_path, how, call, fault, who)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "who"), list(itertools.product(("kill", "stop", "raise"), range(3))))
def test_of_three_ranks_the_right_one_is_named(tmp_path, fault, who):
    _check(tmp_path, "env", "cholesky", fault, who, ranks=3)


@pytest.mark.slow
def test_a_launcher_that_stands_still_is_not_waited_for(tmp_path):
    """It holds the store: ranks whose message does not come say so."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    words = [str(script), "gemm", "stop", "1", str(TIMEOUT), "none"]
    with (tmp_path / "said").open("w+") as said:
        job = subprocess.Popen([*LAUNCH, "-n", "2", *words], stdout=said, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + SLACK
            while "fault" not in (tmp_path / "said").read_text():
                assert time.monotonic() < deadline
                time.sleep(0.1)
            job.send_signal(signal.SIGSTOP)
            deadline = time.monotonic() + TIMEOUT + 20
            while "heard" not in (tmp_path / "said").read_text():
                assert time.monotonic() < deadline, (tmp_path / "said").read_text()
                time.sleep(0.1)
        finally:
            job.send_signal(signal.SIGCONT)
            job.send_signal(signal.SIGTERM)
            job.wait(60)
    text = (tmp_path / "said").read_text()
    assert "the launcher keeps the store the ranks meet in, and it does not answer" in text or "blamed 1" in text
