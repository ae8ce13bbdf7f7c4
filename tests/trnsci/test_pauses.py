"""Launchers that are killed, and jobs that are paused: no rank outlives its launcher, and a pause is no failure."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from trnsci import patience

LAUNCH = [sys.executable, "-m", "trnsci.cli", "launch"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--master-addr", "127.0.0.1"]
TIMEOUT = 8

# Every rank writes its process and, until a file says that it is enough, how many calls it has made.
CALLING = """
import os, sys, time
from pathlib import Path
folder, rank = Path(sys.argv[1]), os.environ["RANK"]
(folder / f"pid-{rank}").write_text(str(os.getpid()))
import torch, trnblas
from trnsci import distributed
torch.set_num_threads(1)
mesh = distributed.mesh(timeout=float(sys.argv[2]), device="cpu")
a = distributed.shard(torch.eye(8), mesh, 0)
enough = torch.zeros(1)
calls = 0
while not enough.item():
    stop = distributed.shard(torch.full((mesh.size(), 1), float((folder / "enough").exists())), mesh, 0)
    total = distributed.gather(trnblas.gemm(1.0, a, a)).sum().item()
    enough = distributed.gather(stop)[:1]
    calls += 1
    (folder / f"calls-{rank}.new").write_text(str(calls))
    os.replace(folder / f"calls-{rank}.new", folder / f"calls-{rank}")
print("rank", rank, "is done", total, flush=True)
"""

COMPUTING = """
import os, sys, time
from pathlib import Path
folder, rank = Path(sys.argv[1]), os.environ["RANK"]
if len(sys.argv) > 3:
    import torch
    from trnsci import distributed
    distributed.mesh(timeout=float(sys.argv[2]), device="cpu")
(folder / f"pid-{rank}").write_text(str(os.getpid()))
(folder / f"calls-{rank}").write_text("1")
while True:
    sum(range(1000))
"""


def read_number(path):
    return int(path.read_text() or 0) if path.exists() else 0


def wait_until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def is_running(pid):
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


class Job:
    """A program on two ranks, and the processes of it."""

    def __init__(self, folder, text, command, *more):
        self.folder, script = folder, folder / "program.py"
        script.write_text(text)
        own = os.environ | {"OMP_NUM_THREADS": "1", "TRNSCI_DISTRIBUTED_TIMEOUT": str(TIMEOUT)}
        words = [*command, str(script), str(folder), str(TIMEOUT), *more]
        self.said = (folder / "said").open("w+")
        self.launcher = subprocess.Popen(words, env=own, stdout=self.said, stderr=subprocess.STDOUT)

    @property
    def ranks(self):
        return [read_number(self.folder / f"pid-{rank}") for rank in range(2)]

    @property
    def calls(self):
        return [read_number(self.folder / f"calls-{rank}") for rank in range(2)]

    def text(self):
        return (self.folder / "said").read_text()

    def wait_for_calls(self, more=3):
        first, second = self.calls
        wanted = [first + more, second + more]
        wait_until(lambda: self.launcher.poll() is not None or all(map(int.__ge__, self.calls, wanted)))
        assert self.launcher.poll() is None, self.text()

    def finish(self):
        (self.folder / "enough").touch()
        assert self.launcher.wait(120) == 0, self.text()
        assert self.text().count("is done 8.0") == 2

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for pid in (self.launcher.pid, *self.ranks):
            if pid and is_running(pid):
                os.kill(pid, signal.SIGKILL)
        self.launcher.wait()
        self.said.close()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before torch", "in a mesh"])
def test_ranks_that_compute_end_with_a_launcher_that_is_killed(when, tmp_path):
    with Job(tmp_path, COMPUTING, [*LAUNCH, "-n", "2"], *(["mesh"] if when == "in a mesh" else [])) as job:
        wait_until(lambda: all(job.calls))
        job.launcher.kill()
        wait_until(lambda: not any(map(is_running, job.ranks)), 10)


@pytest.mark.slow
def test_ranks_of_torchrun_end_with_it(tmp_path):
    with Job(tmp_path, CALLING, [*TORCHRUN, "--nproc-per-node", "2", "--master-port", "29617"]) as job:
        job.wait_for_calls()
        job.launcher.kill()
        wait_until(lambda: not any(map(is_running, job.ranks)), 3 * TIMEOUT)


@pytest.mark.slow
def test_a_stopped_rank_ends_with_its_launcher(tmp_path):
    with Job(tmp_path, CALLING, [*LAUNCH, "-n", "2"]) as job:
        job.wait_for_calls()
        os.kill(job.ranks[1], signal.SIGSTOP)
        job.launcher.kill()
        wait_until(lambda: not any(map(is_running, job.ranks)), 10)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["launcher first", "ranks first"])
def test_a_job_that_is_paused_for_longer_than_the_timeout_goes_on(order, tmp_path):
    with Job(tmp_path, CALLING, [*LAUNCH, "-n", "2"]) as job:
        job.wait_for_calls()
        processes = [job.launcher.pid, *job.ranks]
        for turn in range(2):
            for pid in processes:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(2.5 * TIMEOUT)
            for pid in processes if order == "launcher first" else reversed(processes):
                os.kill(pid, signal.SIGCONT)
                # a scheduler that resumes machines one by one
                time.sleep(2 * turn)
            job.wait_for_calls()
        job.finish()
        assert "RankFailed" not in job.text()


# One rank waits for the other, which comes when it is told to.
MEETING = CALLING.replace(
    "mesh = ",
    """(folder / f"calls-{rank}").write_text("1")
while rank == "1" and not (folder / "come").exists():
    time.sleep(0.1)
mesh = """,
)


@pytest.mark.slow
@pytest.mark.parametrize("waiting", [False, True], ids=["while torch is loaded", "while one rank waits"])
def test_a_job_that_is_paused_while_its_ranks_meet_goes_on(waiting, tmp_path):
    with Job(tmp_path, MEETING, [*LAUNCH, "-n", "2"]) as job:
        wait_until(lambda: all(job.calls if waiting else job.ranks))
        # into gloo, which has a limit of twice the timeout
        time.sleep(2 * waiting)
        processes = [job.launcher.pid, *job.ranks]
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(2.5 * TIMEOUT)
        for pid in processes:
            os.kill(pid, signal.SIGCONT)
        time.sleep(2 * waiting)
        (tmp_path / "come").touch()
        wait_until(lambda: all(job.calls))
        job.wait_for_calls()
        job.finish()
        assert "RankFailed" not in job.text()


@pytest.mark.slow
def test_a_launcher_that_is_paused_is_no_failure_of_a_rank(tmp_path):
    with Job(tmp_path, CALLING, [*LAUNCH, "-n", "2"]) as job:
        job.wait_for_calls()
        job.launcher.send_signal(signal.SIGSTOP)
        time.sleep(2.5 * TIMEOUT)
        job.launcher.send_signal(signal.SIGCONT)
        job.finish()


@pytest.mark.slow
@pytest.mark.parametrize("who", [0, 1])
def test_a_rank_that_is_paused_alone_is_the_one_named(who, tmp_path):
    with Job(tmp_path, CALLING, [*LAUNCH, "-n", "2"]) as job:
        job.wait_for_calls()
        os.kill(job.ranks[who], signal.SIGSTOP)
        assert job.launcher.wait(120) != 0
        said = [line for line in job.text().splitlines() if line.startswith("trnsci launch: ")]
        assert said == [
            f"trnsci launch: rank {who} has died or hangs: its pulse stopped; ended with it: rank {1 - who}."
        ]


RAISING = """
import os, sys, time, torch, trnblas
from trnsci import distributed
mesh = distributed.mesh(timeout=float(sys.argv[2]), device="cpu")
a = distributed.shard(torch.eye(8), mesh, 0)
trnblas.gemm(1.0, a, a)
if mesh.get_rank() == 1:
    try:
        trnblas.gemm(1.0, a, torch.ones(3, 3))
    except Exception:
        # the other rank has long ended when this one does
        time.sleep(3)
        raise
trnblas.gemm(1.0, a, a)
"""


@pytest.mark.slow
def test_a_rank_that_ended_for_another_is_not_the_culprit(tmp_path):
    with Job(tmp_path, RAISING, [*LAUNCH, "-n", "2"]) as job:
        assert job.launcher.wait(120) != 0
        (said,) = [line for line in job.text().splitlines() if line.startswith("trnsci launch: ")]
        assert said.startswith("trnsci launch: rank 1 raised ArgumentError: ")
        assert said.endswith("ended with it: rank 0.")


def test_a_wait_begins_again_when_the_clock_jumped(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: now[0])
    wait = patience.Patience(16)
    for _ in range(15):
        now[0] += 1
        assert not wait.is_over()
    now[0] += 60
    assert wait.left() == 16
    assert wait.has_paused
    for _ in range(16):
        assert not wait.is_over()
        now[0] += 1
    assert wait.is_over()


def test_a_wait_ends_with_its_time_or_with_the_answer():
    answer = Future()
    with pytest.raises(TimeoutError):
        patience.Patience(0.01).wait(answer)
    answer.set_result(3)
    assert patience.Patience(0).wait(answer) == 3
    failed = Future()
    failed.set_exception(TimeoutError("its own"))
    with pytest.raises(TimeoutError, match="its own"):
        patience.Patience(5).wait(failed)
    short = patience.Patience(60)
    short.shorten(0)
    assert short.is_over()
