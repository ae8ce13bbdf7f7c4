"""Build the extension with AddressSanitizer and UndefinedBehaviorSanitizer; run its tests and the fuzzer on that build.

``make sanitize SECONDS=60`` needs gcc with its sanitizers. Whatever reads or writes outside an argument, overflows a
signed integer, or converts a number that does not fit ends the run with a report.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKS = "address,undefined,float-cast-overflow"
FLAGS = f"-g -fno-omit-frame-pointer -fsanitize={CHECKS} -fno-sanitize-recover=all"
# Tests that compare the extension with torch bit for bit, and those of what it refuses.
TESTS = (
    "tests/trnsci/test_loops.py",
    *(f"tests/trnrand/test_{name}.py" for name in ("bits", "uniform", "normal", "maths", "inverse", "randint")),
    *(f"tests/trnrand/test_{name}.py" for name in ("gamma", "poisson", "binomial", "extremes")),
    "tests/trnsparse/test_triangular.py",
    "tests/trntensor/test_mp2_energy.py",
)


def build(folder: Path) -> Path:
    """Build the extension into a folder; return its file."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--force"]
    command += ["--build-lib", str(folder / "lib"), "--build-temp", str(folder / "temp")]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "CC": "gcc", "CFLAGS": FLAGS}, check=True)
    return next((folder / "lib").rglob("_loops*.so"))


def environment(file: Path) -> dict[str, str]:
    """Return the environment of an interpreter that loads the build: the run time of the sanitizers comes first."""
    libraries = ("libasan.so", "libstdc++.so")
    paths = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in libraries
    ]
    options = "detect_leaks=0:alloc_dealloc_mismatch=0"
    own = {"LOOPS_FILE": str(file), "LD_PRELOAD": " ".join(paths), "ASAN_OPTIONS": options, "PYTHONMALLOC": "malloc"}
    return {**os.environ, **own, "OMP_NUM_THREADS": "1"}


def main() -> int:
    """Run both; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", default="60", help="of the fuzzer (default 60)")
    parser.add_argument("--seed", default="0", help="of the fuzzer (default 0)")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "sanitized", help="of the build")
    parser.add_argument("--fuzz-only", action="store_true", help="leave out the tests")
    args = parser.parse_args()
    file = build(args.folder)
    fuzz = ["-m", "tests.fuzz.loops", str(file), "--seconds", args.seconds, "--seed", args.seed]
    tests = ["-m", "pytest", "-q", "-n", "0", "-s", "-p", "tests.fuzz.sanitized", *TESTS]
    tests += ["-m", "not slow and not cuda and not neuron"]
    for words in (fuzz,) if args.fuzz_only else (fuzz, tests):
        status = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment(file), check=False).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
