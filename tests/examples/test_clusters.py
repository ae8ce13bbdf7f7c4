"""The files for torchrun, SLURM and Kubernetes run, the last two with a stand-in for the scheduler."""

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import trnchem

CLUSTERS = Path(__file__).resolve().parents[2] / "examples" / "clusters"

# srun starts a task on every node, and scontrol lists the nodes; here all of them are this machine.
SRUN = """#!/bin/bash
for option in "$@"; do case $option in --*) shift ;; *) break ;; esac; done
for node in $(seq 0 $((SLURM_NNODES - 1))); do SLURM_NODEID=$node "$@" & done
status=0
for task in $(jobs -p); do wait "$task" || status=$?; done
exit $status
"""
SCONTROL = """#!/bin/bash
test "$1 $2" = "show hostnames" && echo "$3" | tr , '\\n'
"""


@pytest.fixture
def own(tmp_path):
    """Variables of a job whose nodes are all this machine."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    for name in ("trnsci", "torchrun"):
        (tools / name).symlink_to(Path(sys.executable).parent / name)
    shutil.copy(CLUSTERS / "energy.py", tmp_path)
    port = str(random.randrange(20000, 32000))
    more = {"INTERFACE": "lo", "FOLDER": str(tmp_path), "PORT": port, "OMP_NUM_THREADS": "1"}
    return os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"} | more


def find_energy(text, ranks):
    found = re.search(rf"water: (-[\d.]+) Ha on {ranks} ranks", text)
    assert found, text
    return float(found[1])


@pytest.mark.slow
def test_every_file_gives_the_energy(own, tmp_path):
    expected = trnchem.dfmp2("water", options=trnchem.MP2Options(basis="sto-3g")).e_corr
    command = [str(CLUSTERS / "torchrun.sh")]
    own["CHECKPOINT"] = str(tmp_path / "torchrun.ckpt")
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert abs(find_energy(done.stdout, 2) - expected) < 1e-7

    slurm = {"SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "127.0.0.1,localhost", "RANKS": "1"}
    command = ["bash", str(CLUSTERS / "slurm.sbatch")]
    done = subprocess.run(command, env=own | slurm, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert abs(find_energy(done.stdout, 2) - expected) < 1e-7

    (tmp_path / "water.ckpt").unlink()
    parts = {part["kind"]: part for part in yaml.safe_load_all((CLUSTERS / "kubernetes.yaml").read_text())}
    job, service = parts["Job"]["spec"], parts["Service"]
    (container,) = job["template"]["spec"]["containers"]
    named = {each["name"]: each["value"] for each in container["env"]}
    host, _, port = named["ADDRESS"].partition(":")
    assert host == f"{parts['Job']['metadata']['name']}-0.{service['metadata']['name']}"
    assert job["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["ports"] == [{"port": int(port)}]
    assert container["volumeMounts"][0]["mountPath"] == named["FOLDER"]
    assert f"--nnodes {job['completions']} " in container["command"][-1]
    pods = [
        subprocess.Popen(
            container["command"],
            env=own | {"ADDRESS": f"127.0.0.1:{own['PORT']}", "JOB_COMPLETION_INDEX": str(index)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(job["completions"])
    ]
    said = [pod.communicate(timeout=300)[0] for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0]
    assert abs(find_energy("".join(said), 4) - expected) < 1e-7
