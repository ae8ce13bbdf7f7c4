"""Jobs on several machines that lose one: they go on from what was finished, on the rest or on a new machine."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import trnchem
from trnchem.accuracy import FP64
from trnsci import ArgumentError, RankFailed, machines, rendezvous

LAUNCH = [sys.executable, "-m", "trnsci.cli", "launch"]
TIMEOUT = 12

# Makes steps until it is told that they are enough, and says with how many ranks it began and ended, and where.
STEPS = """
import os, sys, time
from pathlib import Path
import torch, trnblas
from trnsci import distributed
torch.set_num_threads(1)

def work(folder, *, resume):
    mesh = distributed.mesh(timeout=float(sys.argv[2]), device="cpu")
    rank, steps, finished = mesh.get_rank(), Path(folder, "steps"), Path(folder, "enough")
    start = int(steps.read_text()) if resume else 0
    Path(folder, f"pid-{resume}-{rank}").write_text(str(os.getpid()))
    a, step, enough = distributed.shard(torch.eye(12), mesh, 0), start, 0.0
    while not enough:
        total = distributed.gather(trnblas.gemm(1.0, a, a)).sum().item()
        stop = torch.full((mesh.size(), 1), float(finished.exists() and step > start + 2))
        enough = distributed.gather(distributed.shard(stop, mesh, 0))[0].item()
        step += 1
        if rank == 0:
            steps.with_suffix(".new").write_text(str(step))
            steps.with_suffix(".new").replace(steps)
        time.sleep(0.02)
    if rank == 0:
        print(f"{total} on {mesh.size()} ranks, resumed {resume} times", flush=True)

distributed.restartable(work, sys.argv[1])
"""


# The energy of a molecule from its checkpoint, pair by pair, with what it took from there.
ENERGY = """
import sys, time
from pathlib import Path
import torch, trnchem
from trnsci import distributed
torch.set_num_threads(1)
folder, steps = Path(sys.argv[1]), Path(sys.argv[1], "steps")
mesh = distributed.mesh(timeout=float(sys.argv[2]), device="cpu")

def progress(now):
    # the first rank alone is told
    if now.stage == "pairs":
        steps.with_suffix(".new").write_text(str(now.done))
        steps.with_suffix(".new").replace(steps)
        time.sleep(0.0 if (folder / "enough").exists() else 0.1)

options = trnchem.MP2Options(basis="sto-3g", mesh=mesh, progress=progress)
result = trnchem.dfmp2("glycine", checkpoint=folder / "pairs.ckpt", options=options)
if mesh.get_rank() == 0:
    print(f"{result.e_corr:.9f} on {mesh.size()} ranks, {result.resumed} of 210 pairs were finished", flush=True)
distributed.leave()
"""


def choose_port():
    for port in random.sample(range(20000, 32000), 100):
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


def read_number(path):
    return int(path.read_text() or 0) if path.exists() else 0


def wait_until(condition, seconds=150):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


class Cluster:
    """Launchers of one job, each of which stands for a machine."""

    def __init__(
        self, folder, size, ranks=1, restarts=2, rejoin=8, address="127.0.0.1", interface="lo", inside=None, text=STEPS
    ):
        self.folder, self.inside = folder, inside or (lambda node: [])
        (folder / "steps.py").write_text(text)
        where = ["--nnodes", str(size), "--address", f"{address}:{choose_port()}"]
        again = ["--restarts", str(restarts), "--rejoin", str(rejoin), "-n", str(ranks)]
        self.words = [*LAUNCH, *where, *again, "--interface"]
        self.interface = interface
        self.launchers = {}
        for node in range(size):
            self.start(node)

    def start(self, node):
        script = [str(self.folder / "steps.py"), str(self.folder), str(TIMEOUT)]
        own = os.environ | {"OMP_NUM_THREADS": "1", "TRNSCI_DISTRIBUTED_TIMEOUT": "100"}
        words = [*self.inside(node), *self.words, self.interface, "--node-rank", str(node), *script]
        with (self.folder / f"said-{node}").open("a") as said:
            self.launchers[node] = subprocess.Popen(words, env=own, stdout=said, stderr=subprocess.STDOUT)

    def said(self):
        return "".join(path.read_text() for path in sorted(self.folder.glob("said-*")))

    def wait_for_steps(self, more=3):
        steps = self.folder / "steps"
        wanted = read_number(steps) + more
        wait_until(lambda: read_number(steps) >= wanted)

    def finish(self):
        (self.folder / "enough").touch()
        statuses = [launcher.wait(150) for launcher in self.launchers.values() if launcher]
        assert not any(statuses), self.said()
        return self.said()

    def lose(self, node):
        self.launchers[node].kill()
        self.launchers[node].wait()
        self.launchers[node] = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for launcher in filter(None, self.launchers.values()):
            launcher.kill()
            launcher.wait()


@pytest.mark.slow
def test_a_job_that_lost_a_machine_goes_on_on_the_rest(tmp_path):
    with Cluster(tmp_path, 3) as cluster:
        cluster.wait_for_steps()
        cluster.lose(1)
        (tmp_path / "enough").touch()
        said = cluster.finish()
    assert "going on without machine 1, which has not come within 8 s" in said
    assert "12.0 on 2 ranks, resumed 1 times" in said


@pytest.mark.slow
def test_a_new_machine_takes_the_place_of_a_lost_one(tmp_path):
    with Cluster(tmp_path, 2, ranks=2, rejoin=100) as cluster:
        cluster.wait_for_steps()
        cluster.lose(1)
        cluster.start(1)
        said = cluster.finish()
    assert "12.0 on 4 ranks, resumed 1 times" in said


@pytest.mark.slow
def test_machine_0_may_be_lost_and_another_take_its_place(tmp_path):
    with Cluster(tmp_path, 2, rejoin=100) as cluster:
        cluster.wait_for_steps()
        cluster.lose(0)
        cluster.start(0)
        said = cluster.finish()
    assert "12.0 on 2 ranks, resumed 1 times" in said


@pytest.mark.slow
def test_a_machine_that_lost_a_rank_goes_on_with_one_less(tmp_path):
    with Cluster(tmp_path, 2, ranks=2) as cluster:
        cluster.wait_for_steps()
        os.kill(read_number(tmp_path / "pid-0-3"), signal.SIGKILL)
        said = cluster.finish()
    assert "starting again with 1 of 2 ranks here (1 restarts left)" in said
    assert "rank 3 died: SIGKILL ended it" in said
    assert "12.0 on 3 ranks, resumed 1 times" in said


@pytest.mark.slow
def test_without_machine_0_the_others_end_in_a_sentence(tmp_path):
    with Cluster(tmp_path, 2, rejoin=3) as cluster:
        cluster.wait_for_steps()
        cluster.lose(0)
        assert cluster.launchers[1].wait(100) == 1
        assert re.search(r"no launcher of machine 0 answers at 127.0.0.1:\d+", cluster.said())


@contextlib.contextmanager
def namespaces(count):
    """Yield functions for machines with a network each, joined by a bridge: a command's prefix, and a cut."""
    token = random.randrange(16**4)
    names = [f"trn{token:04x}{node}" for node in range(count)]
    bridge = f"tb{token:04x}"

    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    try:
        ip("link", "add", bridge, "type", "bridge")
        ip("link", "set", bridge, "up")
        for node, name in enumerate(names):
            ip("netns", "add", name)
            ip("link", "add", f"{bridge}h{node}", "type", "veth", "peer", "name", "eth7", "netns", name)
            ip("link", "set", f"{bridge}h{node}", "master", bridge, "up")
            ip("-n", name, "addr", "add", f"10.77.0.{node + 1}/24", "dev", "eth7")
            ip("-n", name, "link", "set", "eth7", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield (
            lambda node: ["ip", "netns", "exec", names[node]],
            lambda node: ip("link", "set", f"{bridge}h{node}", "down"),
        )
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", bridge], check=False, capture_output=True)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="networks of their own take root")
def test_a_machine_whose_network_is_cut_is_left_behind(tmp_path):
    with (
        namespaces(3) as (inside, cut),
        Cluster(tmp_path, 3, address="10.77.0.1", interface="eth7", inside=inside) as cluster,
    ):
        cluster.wait_for_steps()
        cut(2)
        wait_until(lambda: "going on without machine 2" in cluster.said())
        cluster.launchers.pop(2).kill()
        said = cluster.finish()
    assert "12.0 on 2 ranks, resumed 1 times" in said


def check_energy(said, ranks, least=5):
    """Require one line with the energy of one process, from a checkpoint that held some pairs and not all."""
    alone = trnchem.dfmp2("glycine", options=trnchem.MP2Options(basis="sto-3g")).e_corr
    ((energy, size, resumed),) = re.findall(r"(-\d\.\d{9}) on (\d) ranks, (\d+) of 210 pairs", said)
    assert abs(float(energy) - alone) <= 2 * FP64
    assert int(size) == ranks
    assert least <= int(resumed) < 210


@pytest.mark.slow
@pytest.mark.parametrize(("lost", "replaced"), [(1, False), (1, True), (0, True)])
def test_an_energy_goes_on_from_its_checkpoint_when_a_machine_is_lost(lost, replaced, tmp_path):
    with Cluster(tmp_path, 3, rejoin=100 if replaced else 8, text=ENERGY) as cluster:
        cluster.wait_for_steps(10)
        cluster.lose(lost)
        if replaced:
            cluster.start(lost)
        check_energy(cluster.finish(), 3 if replaced else 2)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="networks of their own take root")
def test_an_energy_goes_on_without_a_machine_whose_network_is_cut(tmp_path):
    with (
        namespaces(3) as (inside, cut),
        Cluster(tmp_path, 3, address="10.77.0.1", interface="eth7", inside=inside, text=ENERGY) as cluster,
    ):
        cluster.wait_for_steps(10)
        cut(2)
        wait_until(lambda: "going on without machine 2" in cluster.said())
        cluster.launchers.pop(2).kill()
        check_energy(cluster.finish(), 2)


def test_shares_are_those_of_the_machines_that_ask_and_live(monkeypatch):
    monkeypatch.setenv("TRNSCI_DISTRIBUTED_TIMEOUT", "30")
    port, said = choose_port(), []
    host = machines.Host("127.0.0.1", port, 3, 1.0, said.append)
    results = {}

    def join(node, ranks, restarts):
        results[node] = machines.Guest("127.0.0.1", port, node, 5.0).begin(ranks, restarts)[1]

    guests = [threading.Thread(target=join, args=(node, node + 2, 0), daemon=True) for node in (1, 2)]
    for guest in guests:
        guest.start()
    store, share = host.begin(2, 0)
    for guest in guests:
        guest.join(20)
    assert share == machines.Share(0, 3, 0, 9, store.port, 0, "127.0.0.1")
    assert results == {1: share._replace(position=1, first=2), 2: share._replace(position=2, first=5)}
    # a restart leaves out a machine that asked once and died, and one with a count of ranks that cannot be
    client = rendezvous.connect("127.0.0.1", port, 5.0)
    client.set("trnsci/join/1", json.dumps({"token": "dead", "ranks": 1, "restarts": 1, "beat": 7}))
    client.set("trnsci/join/2", json.dumps({"token": "many", "ranks": 10**9, "restarts": 1, "beat": 7}))
    _, alone = host.begin(2, 1)
    assert alone[:4] == (0, 1, 0, 2)
    assert said == ["going on without machine 1, 2, which has not come within 1 s"]


def test_a_stranger_in_the_store_and_a_number_taken_twice_are_typed_errors(monkeypatch):
    monkeypatch.setenv("TRNSCI_DISTRIBUTED_TIMEOUT", "3")
    port = choose_port()
    host = machines.Host("127.0.0.1", port, 2, 1.0, lambda text: None)
    with pytest.raises(RankFailed, match="the launcher of machine 1 has not come"):
        host.begin(1, 0)
    client = rendezvous.connect("127.0.0.1", port, 5.0)
    stop = threading.Event()

    def take_over():
        while not stop.wait(0.01):
            client.set("trnsci/join/1", json.dumps({"token": "other", "ranks": 1, "restarts": 0, "beat": 1}))

    thread = threading.Thread(target=take_over, daemon=True)
    thread.start()
    with pytest.raises(ArgumentError, match="no other launcher takes"):
        machines.Guest("127.0.0.1", port, 1, 1.0).begin(1, 0)
    stop.set()
    thread.join()
    client.set("trnsci/join/1", "[" * 10_000)
    with pytest.raises(RankFailed, match="has not come"):
        host.begin(1, 0)
