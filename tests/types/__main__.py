"""Run mypy and pyright on the two programs of this folder: ``python -m tests.types``.

Neither may find anything in ``right.py``; both must find every planted mistake of ``wrong.py``, and nothing besides.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = ("right.py", "wrong.py")
Places = set[tuple[str, int]]


def run_mypy() -> Places:
    """Return what mypy reports, as file and line."""
    paths = [f"tests/types/{name}" for name in PROGRAMS]
    # the programs of a user: without this project's settings, but for packages that come without types
    words = ["-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", *paths]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.stdout + done.stderr)
    print(done.stdout, end="")
    return {(name, int(line)) for name, line in re.findall(r"tests/types/(\w+\.py):(\d+): error", done.stdout)}


def run_pyright() -> Places:
    """Return what pyright reports."""
    paths = [str(HERE / name) for name in PROGRAMS]
    words = ["-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *paths]
    done = subprocess.run([sys.executable, *words], cwd=HERE, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.stdout + done.stderr)
    found = [x for x in json.loads(done.stdout)["generalDiagnostics"] if x["severity"] == "error"]
    for each in found:
        print(f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}: {each['message']}")
    return {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in found}


def find_planted() -> Places:
    """Return the lines that are wrong."""
    lines = (HERE / "wrong.py").read_text().splitlines()
    return {("wrong.py", number) for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def main() -> int:
    """Compare; the exit status is 1 where a checker reports too much or too little."""
    planted, differences = find_planted(), []
    for checker, run in (("mypy", run_mypy), ("pyright", run_pyright)):
        found = run()
        differences += [f"{checker}: {name}:{line} is right, and reported" for name, line in sorted(found - planted)]
        differences += [f"{checker}: {name}:{line} is wrong, and not seen" for name, line in sorted(planted - found)]
    print("\n".join(differences) or f"{len(planted)} planted mistakes are found by both, and nothing else")
    return bool(differences)


if __name__ == "__main__":
    sys.exit(main())
