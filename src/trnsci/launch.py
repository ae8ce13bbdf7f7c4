"""``trnsci launch``: a thin wrapper of torchrun for one machine."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from trnsci.errors import ArgumentError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    parser.add_argument("-n", "--ranks", type=int, default=2, help="processes to start (default 2)")
    parser.add_argument("--threads", type=int, help="CPU threads of each (default: the cores divided between them)")
    parser.add_argument("--dry-run", action="store_true", help="print the torchrun command and stop")
    parser.add_argument("-m", "--module", action="store_true", help="SCRIPT is a module's name, as for python -m")
    parser.add_argument("script", metavar="SCRIPT.py", help="the program; it calls trnsci.distributed.mesh()")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def command(ranks: int, threads: int | None, script: str, given: Sequence[str], *, module: bool = False) -> list[str]:
    """Return the torchrun command, with the environment it sets."""
    if ranks < 1:
        raise ArgumentError(op="launch", argument="ranks", got=ranks, expected="at least 1")
    if threads is not None and threads < 1:
        raise ArgumentError(op="launch", argument="threads", got=threads, expected="at least 1")
    if module and importlib.util.find_spec(script.partition(".")[0]) is None:
        raise ArgumentError(op="launch", argument="module", got=script, expected="one that can be imported")
    if not module and not Path(script).is_file():
        raise ArgumentError(op="launch", argument="SCRIPT.py", got=script, expected="a file that exists")
    each = threads or max(1, (os.cpu_count() or 1) // ranks)
    # standalone: a free port on this machine, and no trace of it afterwards
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    return ["env", f"OMP_NUM_THREADS={each}", f"MKL_NUM_THREADS={each}", *torchrun, *["-m"] * module, script, *given]


def run(args: argparse.Namespace) -> int:
    """Replace this process by torchrun's, or say what it would be."""
    words = command(args.ranks, args.threads, args.script, args.arguments, module=args.module)
    if not args.dry_run:
        os.execvp(words[0], words)
    print(shlex.join(words))  # noqa: T201
    return 0
