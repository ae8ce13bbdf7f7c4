"""Make the virtual environment that every ``make`` target uses: ``setup_venv.py VENV EXTRAS [VERSIONS] [PIN ...]``.

VERSIONS of the packages that the project needs at run time are ``pinned`` (those of constraints.txt), ``lowest`` (the
lower bounds of pyproject.toml) or ``newest``. A PIN such as ``torch==2.13.0`` overrides them.

Needs only the standard library. Each way it can fail ends in one sentence that says what to do.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED_GB = 3
# PyTorch's default Linux wheel brings the CUDA libraries along
COMFORTABLE_GB = 12

NETWORK_SIGNS = (
    "Temporary failure in name resolution",
    "Name or service not known",
    "Failed to establish a new connection",
    "Network is unreachable",
    "Connection refused",
    "timed out",
    "getaddrinfo failed",
    "nodename nor servname",
)
CAUSES = (
    (("No space left on device", "Errno 28"), "the disk is full. Free some space and run the same command again."),
    (
        NETWORK_SIGNS,
        "the package index cannot be reached. Check the network (or proxy: HTTPS_PROXY, PIP_INDEX_URL) and run the"
        " same command again.",
    ),
    (("CERTIFICATE_VERIFY_FAILED",), "the index's certificate is not trusted. Point PIP_CERT at your CA bundle."),
    (
        ("No matching distribution found", "Could not find a version"),
        "the package index offers no suitable build: it is out of reach, or has none for this Python or platform."
        " Python 3.11 to 3.13 are tested: make PYTHON=/path/to/python3.11 ...",
    ),
    (("Permission denied", "Errno 13"), "a file could not be written. Check who owns this folder."),
)


def stop(sentence: str) -> None:
    """End with a sentence on stderr."""
    sys.exit(f"set-up: {sentence}")


def say(step: int, text: str) -> None:
    """Print one numbered step."""
    print(f"[{step}/4] {text}", flush=True)


def check_disk(folder: Path) -> None:
    """Refuse to start an installation that cannot end."""
    free_gb = shutil.disk_usage(folder).free / 1e9
    if free_gb < NEEDED_GB:
        stop(f"{folder} has {free_gb:.1f} GB free and the packages need {NEEDED_GB} GB. Free some space and try again.")
    note = "" if free_gb >= COMFORTABLE_GB else "; a PyTorch build with CUDA needs about 8 GB"
    say(2, f"disk: {free_gb:.0f} GB free{note}")


def works(python: Path) -> bool:
    """Whether a virtual environment's interpreter still runs, has pip, and is new enough."""
    if not python.exists():
        return False
    probe = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([python, "-c", probe], capture_output=True, check=False).returncode == 0


def create(venv: Path) -> Path:
    """Create the environment, or keep the one that is there and works."""
    python = venv / "bin" / "python"
    if works(python):
        say(3, f"virtual environment: {venv} is there")
        return python
    if venv.exists() and not (venv / "pyvenv.cfg").exists() and any(venv.iterdir()):
        stop(f"{venv} exists and is not a virtual environment. Move it away or choose another: make VENV=... ")
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        stop(f"{sys.executable} has no venv module. On Debian or Ubuntu: apt install python{version}-venv.")
    say(3, f"virtual environment: creating {venv}")
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(venv)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        stop(f"python -m venv failed: {(made.stderr or made.stdout).strip().splitlines()[-1]}")
    return python


def constraints(versions: str, pins: tuple[str, ...] = ()) -> list[str]:
    """Return pip's constraints: constraints.txt with other versions of what the project needs at run time."""
    if versions not in ("pinned", "lowest", "newest"):
        stop(f"versions are {versions}; choose pinned, lowest or newest.")
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    chosen = {"pinned": [], "newest": needed, "lowest": [need.replace(">=", "==") for need in needed]}[versions]
    lines = [*(ROOT / "constraints.txt").read_text().splitlines(), *chosen, *pins]
    # the last line about a package counts
    return list({re.split("[=<>]", line)[0]: line for line in lines if line and not line.startswith("#")}.values())


def install(python: Path, venv: Path, extras: str, versions: str = "pinned", pins: tuple[str, ...] = ()) -> None:
    """Install the project in editable form with the chosen versions, showing progress, keeping a log."""
    file = venv / "constraints.txt"
    file.write_text("\n".join(constraints(versions, pins)) + "\n")
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command += ["--constraint", file.resolve(), "--editable", f".[{extras}]"]
    say(4, f"packages: trnsci[{extras}], {versions} versions (torch is the large one)")
    log = venv / "setup.log"
    tail: deque[str] = deque(maxlen=200)
    live = sys.stdout.isatty()
    with (
        log.open("w") as lines,
        subprocess.Popen(
            command,
            stdout=None if live else subprocess.PIPE,
            stderr=subprocess.PIPE if live else subprocess.STDOUT,
            text=True,
            cwd=ROOT,
        ) as pip,
    ):
        stream = pip.stderr if live else pip.stdout
        assert stream is not None
        for line in stream:
            lines.write(line)
            tail.append(line)
            words = line.split()
            if words[:1] in (["Downloading"], ["Installing"]) and "metadata" not in line.partition("(")[0]:
                print("      " + line.strip()[:110], flush=True)
    if pip.returncode:
        text = "".join(tail)
        print("".join(list(tail)[-12:]), file=sys.stderr, end="")
        for signs, sentence in CAUSES:
            if any(sign in text for sign in signs):
                stop(f"pip failed: {sentence} (log: {log})")
        stop(f"pip failed, the lines above say why. (log: {log})")


def loops(python: Path) -> str:
    """Whether the optional extension module was built, in words."""
    probe = "from trnsci import loops; print(loops.why_not() or 'built')"
    done = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout.strip() or (done.stderr.strip().splitlines() or ["unknown"])[-1]


def main(venv: Path, extras: str, versions: str = "pinned", *pins: str) -> None:
    """Run the four steps."""
    start = time.monotonic()
    say(1, f"Python {sys.version.split()[0]} at {sys.executable}")
    check_disk(ROOT)
    python = create(venv)
    install(python, venv, extras, versions, pins)
    print(f"      host loops in C: {loops(python)}", flush=True)
    print(f"set-up done in {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
