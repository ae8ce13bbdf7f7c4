"""``trnsci launch``: programs on several ranks, who may reach them, and what happens when one of them fails."""

import re
import signal
import subprocess
import sys
import time

import pytest

import trnsci
from tests.together import together
from trnsci import distributed, launch_cli, rendezvous
from trnsci.cli import main

LAUNCH = [sys.executable, "-m", "trnsci.cli", "launch"]

PROGRAM = """
import os, sys
from pathlib import Path

unpickled = []
sys.addaudithook(lambda event, args: unpickled.append(args) if event == "pickle.find_class" else None)

import torch, trnblas
from trnsci import distributed

before = len(unpickled)
mesh = distributed.mesh()
a = distributed.shard(torch.eye(4), mesh, 0)
total = distributed.gather(trnblas.gemm(2.0, a, a)).sum()

def target(link):
    try:
        return os.readlink(link)
    except OSError:
        return "closed meanwhile"

def listening(pid):
    "Addresses on which a process takes connections, from what the kernel lists."
    sockets = {target(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                yield words[1].split(":")[0]

found = {who: sorted(set(listening(pid))) for who, pid in (("rank", os.getpid()), ("launcher", os.getppid()))}
if mesh.get_rank() == 0:
    print("ranks", mesh.size(), "threads", torch.get_num_threads(), "sum", total.item())
    print("listening", found)
    print("unpickled", unpickled[before:])
distributed.leave()
"""


@pytest.fixture
def program(tmp_path):
    """``program(text)``: a file with a program, in a folder whose name has a space."""
    folder = tmp_path / "a folder"
    folder.mkdir()

    def write(text):
        script = folder / "program.py"
        script.write_text(text)
        return str(script)

    return write


def _launched(*words, **options):
    return subprocess.run([*LAUNCH, *words], capture_output=True, text=True, timeout=600, check=False, **options)


def test_a_program_runs_on_two_ranks_that_only_this_machine_reaches_and_nothing_is_unpickled(program):
    done = _launched("-n", "2", "--threads", "1", program(PROGRAM))
    assert done.returncode == 0, done.stderr
    assert "ranks 2 threads 1 sum 8.0" in done.stdout
    assert "unpickled []" in done.stdout
    # 127.0.0.1 as the kernel writes it
    said = re.search(r"listening (.*)", done.stdout)[1]
    assert set(re.findall(r"'([0-9A-F]{8,})'", said)) == {"0100007F"}, said


HOSTILE = """
import os, pickle, sys, time
from datetime import timedelta
from torch._C._distributed_c10d import TCPStore

class Harm:
    def __reduce__(self):
        return os.system, (f"touch {sys.argv[2]}",)

store = TCPStore("127.0.0.1", int(sys.argv[1]), wait_for_workers=False, timeout=timedelta(seconds=20))
end = time.monotonic() + 6
while time.monotonic() < end:
    for key in [*store.list_keys(), "trnsci/ended", "trnsci/blamed"]:
        store.set(key, pickle.dumps(Harm()))
    time.sleep(0.05)
"""

VICTIM = """
import os, subprocess, sys, time, torch, trnblas
from trnsci import distributed

mesh = distributed.mesh(timeout=20)
a = distributed.shard(torch.eye(4), mesh, 0)
trnblas.gemm(1.0, a, a)
if mesh.get_rank() == 0:
    subprocess.Popen([sys.executable, sys.argv[1], os.environ["MASTER_PORT"], sys.argv[2]])
end = time.monotonic() + 8
while time.monotonic() < end:
    trnblas.gemm(1.0, a, a)
    time.sleep(0.2)
"""


@pytest.mark.slow
def test_what_another_user_writes_into_the_store_is_never_executed(program, tmp_path):
    hostile, harm = tmp_path / "hostile.py", tmp_path / "harmed"
    hostile.write_text(HOSTILE)
    start = time.monotonic()
    done = _launched("-n", "2", program(VICTIM), str(hostile), str(harm))
    assert time.monotonic() - start < 120
    assert not harm.exists()
    # at worst the job ends, with a sentence
    assert done.returncode == 0 or "RankFailed" in done.stderr


def test_it_says_what_it_would_run(program, capsys):
    script = program("")
    assert main(["launch", "-n", "3", "--threads", "2", "--dry-run", script, "--fast"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    for rank, line in enumerate(lines):
        assert f"RANK={rank} " in line
        assert "WORLD_SIZE=3" in line
        assert "MASTER_ADDR=127.0.0.1" in line
        assert "OMP_NUM_THREADS=2 MKL_NUM_THREADS=2" in line
        assert line.endswith(f"{sys.executable} '{script}' --fast")


@together(
    ("words", "says"),
    [
        (["-n", "0"], "ranks is 0, expected at least 1"),
        (["--threads", "0"], "at least 1"),
        (["--restarts", "-1"], "at least 0"),
        (["--address", "10.0.0.1:99"], "one machine's ranks meet on loopback"),
        (["--nnodes", "2", "--node-rank", "2"], "node-rank is 2, expected 0 to 1"),
        (["--nnodes", "2"], "expected HOST:PORT of machine 0"),
        (["--nnodes", "2", "--address", "127.0.0.1:x"], "expected HOST:PORT of machine 0"),
        (["--nnodes", "2", "--address", "127.0.0.1:9999"], "Name the one on the private network"),
        (["--nnodes", "2", "--rejoin", "nan"], "rejoin is nan, expected a positive number of seconds"),
    ],
)
def test_mistakes_end_in_a_sentence(program, capsys, words, says):
    assert main(["launch", *words, program("")]) == 1
    assert says in capsys.readouterr().err


def test_a_missing_program_ends_in_a_sentence(tmp_path, capsys):
    assert main(["launch", str(tmp_path / "missing.py")]) == 1
    assert "expected a file that exists" in capsys.readouterr().err


def test_a_public_address_is_warned_of():
    def on(address):
        return launch_cli.warn(launch_cli.Launch(("x",), 1, 1, 2, 0, address, 99, "lo"))

    assert not any(map(on, ("127.0.0.1", "10.1.2.3", "192.168.0.7", "fd00::1")))
    for public in ("8.8.8.8", "0.0.0.0", "2606:4700::1111"):
        assert "neither encrypted nor authenticated" in on(public)
        assert public in on(public)


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(trnsci.ArgumentError, match="an address of this machine and a free port"):
        rendezvous.serve("192.0.2.1", 0)


RESUMABLE = """
import os, signal, sys, time
from pathlib import Path
import torch, trnblas
from trnsci import distributed

def work(folder, *, resume):
    mesh = distributed.mesh(timeout=20)
    done = Path(folder) / "steps"
    start = int(done.read_text()) if resume else 0
    a = distributed.shard(torch.eye(4), mesh, 0)
    for step in range(start, 6):
        total = distributed.gather(trnblas.gemm(1.0, a, a)).sum().item()
        if mesh.get_rank() == 0:
            done.write_text(str(step + 1))
        if step == 2 and not resume and mesh.get_rank() == 1:
            os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    if mesh.get_rank() == 0:
        print(f"{total} on {mesh.size()} ranks, resumed {resume} times at {start}")

distributed.restartable(work, sys.argv[1])
"""


@pytest.mark.slow
def test_a_dead_rank_need_not_end_the_job(program, tmp_path):
    done = _launched("-n", "3", "--restarts", "2", program(RESUMABLE), str(tmp_path), "SIGKILL")
    assert done.returncode == 0, done.stderr
    assert "4.0 on 2 ranks, resumed 1 times at 3" in done.stdout
    assert "rank 1 died: SIGKILL ended it; ended with it: rank 0, rank 2." in done.stderr
    assert "starting again with 2 of 3 ranks (1 restarts left)" in done.stderr
    assert "trnblas.gemm: rank 1 died: SIGKILL ended it" in done.stderr


ENERGY = """
import os, signal, sys
import trnchem
from trnchem.checkpoint import Slots
from trnsci import config, distributed

mesh = distributed.mesh(timeout=20)
put, finished = Slots.put, []

def counted(self, i, j, energies):
    put(self, i, j, energies)
    finished.append((i, j))
    if not config.restarts() and mesh.get_rank() == 1 and len(finished) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

Slots.put = counted
energy = trnchem.dfmp2("water", checkpoint=sys.argv[1], options=trnchem.MP2Options(basis="sto-3g", mesh=mesh)).e_corr
print(f"rank {mesh.get_rank()} of {mesh.size()}: {len(finished)} pairs, {energy:.12f}")
"""


@pytest.mark.slow
def test_energies_go_on_from_their_finished_pairs_with_the_ranks_that_are_left(program, tmp_path):
    import trnchem

    done = _launched("-n", "3", "--restarts", "1", program(ENERGY), str(tmp_path / "water.ckpt"))
    assert done.returncode == 0, done.stderr
    said = re.findall(r"rank (\d) of 2: (\d+) pairs, (-[\d.]+)", done.stdout)
    assert {rank for rank, _, _ in said} == {"0", "1"}
    # 15 pairs in all, of which rank 1 had finished two when it died
    assert sum(int(pairs) for _, pairs, _ in said) <= 13
    alone = trnchem.dfmp2("water", options=trnchem.MP2Options(basis="sto-3g")).e_corr
    assert all(abs(float(energy) - alone) < 1e-10 for _, _, energy in said)


def test_a_function_that_cannot_resume_is_refused():
    with pytest.raises(trnsci.ArgumentError, match="resume="):
        distributed.restartable(lambda: None)
    assert distributed.restartable(lambda resume: resume) == 0


ENDLESS = """
import sys, time
from pathlib import Path
from trnsci import distributed

def work(folder, *, resume):
    mesh = distributed.mesh(timeout=30)
    Path(folder, f"started-{mesh.get_rank()}").touch()
    try:
        time.sleep(100)
    finally:
        Path(folder, f"saved-{mesh.get_rank()}").touch()

distributed.restartable(work, sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_launcher_that_is_told_to_end_lets_its_ranks_save(program, tmp_path, how):
    with subprocess.Popen([*LAUNCH, "-n", "2", "--restarts", "3", program(ENDLESS), str(tmp_path)]) as job:
        deadline = time.monotonic() + 120
        while not all((tmp_path / f"started-{rank}").exists() for rank in range(2)):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        job.send_signal(how)
        assert job.wait(60) == 128 + how
    assert all((tmp_path / f"saved-{rank}").exists() for rank in range(2))
