"""Every kernel through AWS's own wheels, on a machine without a device: their simulator, their tracing, their compiler.

``python -m tools.aws_check`` wants AWS's ``nki`` and ``neuronx-cc`` installed beside this checkout (x86-64, Linux).
Each kernel at its smallest registered size runs in processes of its own: in AWS's simulator beside trnsim, results
compared in bits or within the benchmark's tolerance, then compiled for trn2 and for trn3. What is found is appended to
``results.jsonl`` as it comes, and a run that was stopped continues; ``page.md`` has all of it, and of compile times the
fixed part and the part of each instruction.

A kernel is compiled as AWS documents it: called with NumPy arrays, which compiles it standalone and then runs it, with
``NKI_ARTIFACTS_DIR`` set, where the executable is kept. Without a device the run fails after that; an executable in the
folder is the success that is looked for, and what was raised is shown beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import registry
from benchmarks.validation import cases
from benchmarks.validation.one import ALIKE, difference
from trnsci import programs
from trnsci.kernel_launcher import as_simulated
from trnsci.nki import HAS_NKI
from trnsci.specs import map_tensors

TARGETS = ("trn2", "trn3")
WHEELS = ("nki", "neuronx-cc", "torch-neuronx", "torch", "numpy", "ml-dtypes")
INSTALL = (
    "AWS's nki is not installed here, so there is nothing to check against. On x86-64 Linux, in an environment of its "
    "own: pip install nki neuronx-cc, with AWS's package index as the Neuron documentation gives it, then this package."
)


def kernels(only: str = "") -> list[tuple[str, str]]:
    """Return op and case of each kernel at its smallest registered size, the quickest first."""
    found: dict[Any, tuple[float, str, str]] = {}
    for job in cases.jobs("trn2"):
        if job.kind == "kernel" and job.name.startswith(only):
            entry = next(k.kernel for k in registry.load(job.name).kernels if k.name == job.case)
            found.setdefault(entry, (job.cost, job.name, job.case))
    return [(name, case) for _, name, case in sorted(found.values())]


def describe_machine() -> dict[str, str]:
    """Return versions of the wheels, of Python and of the machine."""
    found = {}
    for name in WHEELS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found | {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}


# -- one kernel, in a process of its own -----------------------------------------------------------------------------


def compare_simulators(name: str, case: str) -> Iterator[dict[str, Any]]:
    """Run a kernel in trnsim and in AWS's simulator, and say how far apart the results are."""
    import nki

    import trnsim

    registered, tensors, static = cases.kernel_of(name, case)
    arrays = map_tensors(tensors, trnsim.arrays.to_numpy)
    begin = time.perf_counter()
    ours = trnsim.simulate(as_simulated(registered.kernel), lint="strict")(*arrays, **static)
    yield {"stage": "trnsim", "seconds": time.perf_counter() - begin}
    begin = time.perf_counter()
    theirs = nki.simulate(registered.kernel)(*arrays, **static)
    yield {"stage": "simulated", "seconds": time.perf_counter() - begin}
    mine, other = ([cases.filled(np.asarray(x), 0) for x in _as_list(result)] for result in (ours, theirs))
    apart = difference(other, mine, min(registry.load(name).tolerance, ALIKE))
    yield {"stage": "compared", "bits": apart["error"] == 0.0, **apart}


def compile_kernel(name: str, case: str) -> Iterator[dict[str, Any]]:
    """Compile a kernel standalone, and say how long it took and how large the executable is."""
    import trnsim

    registered, tensors, static = cases.kernel_of(name, case)
    arrays = map_tensors(tensors, trnsim.arrays.to_numpy)
    size = programs.size_of(registered.kernel, tensors, static)
    yield {"stage": "counted", "instructions": size.instructions, "matmuls": size.matmuls}
    begin, said = time.perf_counter(), ""
    try:
        registered.kernel(*arrays, **static)
    except Exception as error:  # noqa: BLE001
        # without a device the run fails after the compiler is done: the folder tells whether it was
        said = f"{type(error).__name__}: {error}"[:2000]
    ended = time.time()
    made = sorted(Path(os.environ["NKI_ARTIFACTS_DIR"]).rglob("*.neff"))
    waited = max((path.stat().st_mtime - ended for path in made), default=0.0)
    taken = time.perf_counter() - begin + min(0.0, waited)
    yield {"stage": "compiled", "neff_bytes": sum(p.stat().st_size for p in made), "seconds": taken, "said": said}


def _as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


# -- all of them -----------------------------------------------------------------------------------------------------


def run_limited(what: str, name: str, case: str, target: str, seconds: float) -> dict[str, Any]:
    """Run one check in a process of its own and return its stages, and how it ended."""
    with tempfile.TemporaryDirectory(prefix="aws-check-") as folder:
        own = {"NEURON_PLATFORM_TARGET_OVERRIDE": target, "NEURON_LOGICAL_NC_CONFIG": "1", "NKI_ARTIFACTS_DIR": folder}
        # caches of another run would make compiling look quick
        own["NKI_COMPILE_CACHE_URL"] = f"{folder}/cache"
        words = [sys.executable, "-m", "tools.aws_check", "--one", what, name, case]
        process = subprocess.Popen(
            words,
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        ended = ""
        try:
            out, log = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            ended = f"over its {seconds:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if ended:
            out, log = process.communicate()
        elif process.returncode:
            ended = f"exit status {process.returncode}. {' '.join(log.strip().splitlines()[-3:])}"[:2000]
    marked = (line.removeprefix("aws_check ") for line in out.splitlines() if line.startswith("aws_check "))
    stages = {stage.pop("stage"): stage for stage in map(json.loads, marked)}
    return {"what": what, "op": name, "case": case, "target": target, "stages": stages, "ended": ended}


def judge(result: dict[str, Any]) -> str:
    """Say in a word or two how a check went."""
    stages = result["stages"]
    if result["what"] == "simulate":
        compared = stages.get("compared")
        if compared is not None:
            return "same bits" if compared["bits"] else "within the bound" if compared["right"] else "apart"
        return "refused by AWS's simulator" if "trnsim" in stages else "refused by trnsim"
    if stages.get("compiled", {}).get("neff_bytes"):
        return "compiled"
    return "not compiled"


def fit_compile_time(results: list[dict[str, Any]]) -> tuple[float, float] | None:
    """Return seconds that every program takes and seconds of each instruction, of what was compiled; else ``None``."""
    done = [r["stages"] for r in results if r["what"] == "compile" and judge(r) == "compiled"]
    if len({s["counted"]["instructions"] for s in done}) < 2:
        return None
    table = np.array([[1.0, s["counted"]["instructions"]] for s in done])
    fixed, each = np.linalg.lstsq(table, np.array([s["compiled"]["seconds"] for s in done]), rcond=None)[0]
    return float(fixed), float(each)


def write_page(results: list[dict[str, Any]], machine: dict[str, str]) -> str:
    """Return the page: versions, what was found in numbers, a line for each check, and what was said in it."""
    verdicts = [judge(r) for r in results]
    lines = ["# AWS's wheels on every kernel", "", ", ".join(f"{k} {v}" for k, v in machine.items()), ""]
    lines += [f"- {verdicts.count(word)} of {len(verdicts)}: {word}" for word in sorted(set(verdicts))]
    fitted = fit_compile_time(results)
    if fitted is not None:
        lines.append(f"- compile time: {fitted[0]:.3g} s a program and {1e3 * fitted[1]:.3g} ms an instruction")
    lines += ["", "| kernel | check | target | found | seconds | detail |", "|---|---|---|---|---|---|"]
    for r, word in zip(results, verdicts, strict=True):
        stages = r["stages"]
        compared, compiled = stages.get("compared", {}), stages.get("compiled", {})
        took = compiled.get("seconds", stages.get("simulated", {}).get("seconds"))
        detail = f"differs by {compared['error']}" if compared else ""
        if compiled:
            detail = f"{stages['counted']['instructions']:,} instructions, {compiled['neff_bytes']:,} bytes"
        seconds = "" if took is None else f"{took:.2f}"
        lines.append(f"| `{r['op']}` {r['case']} | {r['what']} | {r['target']} | {word} | {seconds} | {detail} |")
    lines += ["", "## What was said", ""]
    for r in results:
        said = f"{r['ended']} {r['stages'].get('compiled', {}).get('said', '')}".split()
        if said:
            lines.append(f"- `{r['op']}` {r['case']}, {r['what']} for {r['target']}: {' '.join(said)}")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Check all kernels and write the page; 0 when every one agrees and compiles, 1 when not, 2 without the wheels."""
    parser = argparse.ArgumentParser(prog="python -m tools.aws_check", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("aws-check"), help="folder of results.jsonl and page.md")
    parser.add_argument("--only", default="", help="a library, or an op such as trnblas.gemm")
    parser.add_argument("--seconds", type=float, default=1800.0, help="the most one check may take")
    parser.add_argument("--one", nargs=3, metavar=("WHAT", "OP", "CASE"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if not HAS_NKI:
        print(INSTALL, file=sys.stderr)
        return 2
    if options.one:
        what, name, case = options.one
        for stage in (compare_simulators if what == "simulate" else compile_kernel)(name, case):
            print("aws_check", json.dumps(stage), flush=True)
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    log = options.output / "results.jsonl"
    results = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    known = {(r["what"], r["op"], r["case"], r["target"]) for r in results}
    checks = [("simulate", "trn2"), *(("compile", target) for target in TARGETS)]
    for what, target in checks:
        for name, case in kernels(options.only):
            if (what, name, case, target) in known:
                continue
            result = run_limited(what, name, case, target, options.seconds)
            print(f"{name} {case}, {what} for {target}: {judge(result)}", flush=True)
            results.append(result)
            with log.open("a") as out:
                out.write(json.dumps(result) + "\n")
            (options.output / "page.md").write_text(write_page(results, describe_machine()))
    (options.output / "page.md").write_text(write_page(results, describe_machine()))
    good = {"same bits", "within the bound", "compiled"}
    return int(not results or any(judge(r) not in good for r in results))


if __name__ == "__main__":
    raise SystemExit(main())
