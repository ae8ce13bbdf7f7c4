"""The walk over all jobs: each in its own process under limits, results appended as they come, stopped and resumed."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.registry import ROOT
from benchmarks.validation import profiler
from benchmarks.validation.cases import Job
from trnsci import config
from trnsci.errors import ArgumentError
from trnsim.json_reader import parse_json

LOOK = 0.1
# where nrtpy finds the run time
NEURON_LIBRARIES = "/opt/aws/neuron/lib"
RESULTS = "results.jsonl"
# what errors of AWS's run time, as against its compiler, say
RUN_TIME = r"\bNRT_|\bnrt_|NrtError"


class Limits(NamedTuple):
    """What one process may take: seconds, and bytes of memory with everything it started."""

    seconds: float
    bytes: int


def command(job: Job, said: Path) -> list[str]:
    """Return the words that start a job, which appends its stages to a file."""
    return [sys.executable, "-m", "benchmarks.validation.one", job.kind, job.name, job.case, str(said)]


def run_one(
    job: Job, limits: Limits, *, profile: bool, nrtpy: str | None = None, more: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a job in a process of its own and return what it said, how it ended, and the verdict.

    Args:
        job: the job.
        limits: its own.
        profile: let the run time leave traces of a kernel, and read them.
        nrtpy: a Python with ``nrtpy``, which times a kernel that is right by the device's clock.
        more: variables of its environment.
    """
    with tempfile.TemporaryDirectory(prefix="trnsci-validate-") as name:
        folder = Path(name)
        said, log = folder / "stages.jsonl", folder / "log"
        inspected = folder / "inspected"
        inspected.mkdir()
        own = profiler.variables(inspected) if profile and job.kind == "kernel" else dict(more or {})
        begun = time.monotonic()
        with log.open("wb") as out:
            process = subprocess.Popen(
                command(job, said),
                cwd=ROOT,
                env=config.environment(own),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
            try:
                ended = _wait(process, begun, limits)
            finally:
                _end(process)
        lines = said.read_text().splitlines() if said.exists() else []
        stages = {stage.pop("stage"): stage for stage in map(parse_json, lines)}
        if profile and "measure" in stages:
            stages["profile"] = profiler.summary(inspected)
        result = {"job": job.key, **job._asdict(), "elapsed_s": round(time.monotonic() - begun, 3), "stages": stages}
        tail = log.read_text(errors="replace").strip().splitlines()[-5:]
        result |= verdict(stages, process.returncode, ended, "\n".join(tail))
    if nrtpy is not None and "measure" in stages and stages["predict"]["launches"] == 1:
        stages["clock"] = time_on_device(job, limits, nrtpy)
    return result


def time_on_device(job: Job, limits: Limits, nrtpy: str) -> dict[str, Any]:
    """Compile a kernel alone and time the program by the device's clock; what was said instead where that fails."""
    with tempfile.TemporaryDirectory(prefix="trnsci-validate-") as folder:
        own = {"NKI_ARTIFACTS_DIR": folder, "NKI_COMPILE_CACHE_URL": f"{folder}/cache"}
        found = run_one(job._replace(kind="alone"), limits, profile=False, more=own)
        made = sorted(Path(folder).rglob("*.neff"))
        if len(made) != 1:
            return {"said": found["text"] or f"{len(made)} programs were left, expected one"}
        words = [nrtpy, str(Path(__file__).with_name("device_clock.py")), str(made[0]), f"{folder}/arrays.npz"]
        libraries = {"LD_LIBRARY_PATH": NEURON_LIBRARIES}
        try:
            done = subprocess.run(
                words,
                capture_output=True,
                text=True,
                timeout=limits.seconds,
                check=True,
                env=config.environment(libraries),
            )
            clock: dict[str, Any] = parse_json(done.stdout.splitlines()[-1])
        except subprocess.CalledProcessError as error:
            return {"said": error.stderr.strip()[-500:]}
        except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
            return {"said": f"{type(error).__name__}: {error}"}
        return clock


def _wait(process: subprocess.Popen[bytes], begun: float, limits: Limits) -> str:
    """Wait for a process; return ``time`` or ``memory`` when it exceeded a limit, else nothing."""
    while True:
        try:
            process.wait(LOOK)
            return ""
        except subprocess.TimeoutExpired:
            if time.monotonic() - begun > limits.seconds:
                return "time"
            if resident_bytes(process.pid) > limits.bytes:
                return "memory"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a job and whatever it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def resident_bytes(session: int) -> int:
    """Memory of all processes of a session, as Linux tells it; 0 elsewhere."""
    total, page = 0, os.sysconf("SC_PAGE_SIZE")
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                total += int((entry / "statm").read_text().split()[1]) * page
        except (OSError, ValueError, IndexError):
            # it has ended meanwhile
            continue
    return total


def verdict(stages: dict[str, Any], code: int, ended: str, tail: str) -> dict[str, Any]:
    """Say in one word how a job went, and in a sentence why."""
    compiled = "compile" in stages or "run" in stages
    where = next(reversed(stages), "start")
    raised = stages.get("raised")
    if ended == "time":
        # what was measured stands, though the simulator took too long to compare with
        return _said("uncompared" if "measure" in stages else "hung", f"over its time in the stage after {where}")
    if ended == "memory":
        return _said("memory", f"over its memory in the stage after {where}")
    if raised is not None:
        text = f"{raised['type']}: {raised['message']}"
        compiling = "compile begins" in stages and not compiled and not re.search(RUN_TIME, text)
        return _said("refused" if compiling else "failed", text)
    if code < 0:
        return _said("crashed", f"{signal.Signals(-code).name} in the stage after {where}. {tail}".strip())
    if code:
        return _said("crashed", f"exit status {code} in the stage after {where}. {tail}".strip())
    if "about" in stages:
        return _said("right", "")
    if "alone" in stages:
        return _said("right", "")
    if "probe" in stages:
        return _said("right" if stages["probe"]["holds"] else "wrong", stages["probe"]["text"])
    if stages.get("run", {}).get("reason"):
        return _said("not run", stages["run"]["reason"])
    if stages.get("run", {}).get("fallbacks"):
        return _said("fell back", f"operators ran on the host: {', '.join(stages['run']['fallbacks'])}")
    compared = stages["compare"]
    error = "infinite" if compared["error"] is None else f"{compared['error']:.1e}"
    text = compared.get("text") or f"differs by {error}, allowed is {compared['limit']:.1e} ({compared['against']})"
    return _said("right" if compared["right"] else "wrong", text)


def _said(status: str, text: str) -> dict[str, Any]:
    return {"status": status, "text": text}


def read(folder: Path, about: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what an earlier walk of the same machine has found, by job.

    Raises:
        ArgumentError: the folder holds results of another machine, or of other versions.
    """
    path = folder / RESULTS
    if not path.exists():
        return {}
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(parse_json(line))
        except ValueError:
            # the last line of a walk that was killed while it wrote
            continue
    if not all(type(line) is dict and type(line.get("about", {})) is dict for line in lines):
        raise ArgumentError("validate", "output", f"{path}, with lines that are no objects", "results of validate")
    before = lines[0].get("about") if lines else None
    if before is not None and before != about:
        differ = sorted(name for name in {*before, *about} if before.get(name) != about.get(name))
        raise ArgumentError(
            op="validate",
            argument="output",
            got=f"{folder}, with results of another machine or other versions ({', '.join(differ)} differ)",
            expected="a new folder, or results of this machine",
            hint="Name another folder with --output",
        )
    return {line["job"]: line for line in lines if "job" in line}


def append(folder: Path, line: dict[str, Any]) -> None:
    """Add one result, at once."""
    with (folder / RESULTS).open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")
        out.flush()
        os.fsync(out.fileno())


def walk(
    jobs: Sequence[Job],
    folder: Path,
    known: dict[str, dict[str, Any]],
    limits: Limits,
    budget_s: float | None,
    say: Callable[[str], None],
    *,
    profile: bool,
    nrtpy: str | None = None,
) -> list[dict[str, Any]]:
    """Run what is not known yet, until the budget is spent; ``KeyboardInterrupt`` leaves everything said on file."""
    begun = time.monotonic()
    fresh: list[dict[str, Any]] = []
    while left := [job for job in jobs if job.key not in known]:
        job = min(left, key=lambda job: (job.turn, compile_seconds(job, known) if job.turn == 2 else 0.0))
        spent = time.monotonic() - begun
        if budget_s is not None and spent >= budget_s:
            say(f"the budget is spent: {len(left)} jobs are left for another time")
            break
        seconds = limits.seconds if budget_s is None else min(limits.seconds, budget_s - spent)
        found = run_one(job, limits._replace(seconds=seconds), profile=profile, nrtpy=nrtpy)
        if seconds < limits.seconds and found["status"] in ("hung", "uncompared"):
            say("the budget is spent, and the job that was running is left for another time")
            break
        known[job.key] = found
        append(folder, found)
        fresh.append(found)
        each = sum(one["elapsed_s"] for one in fresh) / len(fresh)
        done = len(jobs) - len(left) + 1
        say(f"[{done}/{len(jobs)}] {job.key}: {found['status']}; about {clock(each * (len(left) - 1))} left")
    return [known[job.key] for job in jobs if job.key in known]


def compile_seconds(job: Job, known: dict[str, dict[str, Any]]) -> float:
    """Return how long this machine took to compile the kernel of a job; infinite where it did not get that far."""
    stages = (found["stages"] for found in known.values() if found["name"] == job.name)
    return max((stage["compile"]["seconds"] for stage in stages if "compile" in stage), default=math.inf)


def clock(seconds: float) -> str:
    """Seconds as people say them while they wait."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
