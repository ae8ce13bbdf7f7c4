"""``trnsci validate``: the first hour on a Trainium. Every kernel compiled, run, compared and measured; a report.

Results are kept as they come: the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.validation import cases, report, walk
from benchmarks.validation.cases import Job
from trnsci import neuron_host
from trnsci.errors import ArgumentError, TrnError
from trnsci.signals import terminable

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the status is 0 when everything that ran was right."""
    args = _parser().parse_args(argv)
    try:
        with terminable():
            return run(args)
    except TrnError as error:
        print(f"trnsci validate: {str(error).removeprefix('validate: ')}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"trnsci validate: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trnsci validate", description=__doc__.splitlines()[0].partition(": ")[2])
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a library, an op, or probes")
    parser.add_argument("--budget", metavar="TIME", help="stop in time: 30m, 1h, 900s")
    parser.add_argument("--limit", metavar="TIME", default="10m", help="what one job may take (default 10m)")
    parser.add_argument("--memory", metavar="GIB", type=float, default=32.0, help="and its memory (default 32)")
    parser.add_argument("--nrtpy", metavar="PYTHON", help="a Python with nrtpy: times by the device's own clock, too")
    parser.add_argument("--output", metavar="FOLDER", type=Path, default=Path("validate"), help="default: validate")
    parser.add_argument("--list", action="store_true", help="print what would run, and stop")
    return parser


def duration(text: str, option: str) -> float:
    """Seconds of ``30m``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if found is None or float(found[1]) == 0:
        raise ArgumentError(op="validate", argument=option, got=text, expected="a time such as 30m, 1h or 900s")
    return float(found[1]) * UNITS[found[2]]


def run(args: argparse.Namespace) -> int:
    """Look at the machine, walk, report."""
    neuron_host.settle()
    budget = duration(args.budget, "budget") if args.budget else None
    if args.nrtpy is not None and shutil.which(args.nrtpy) is None:
        raise ArgumentError(op="validate", argument="nrtpy", got=args.nrtpy, expected="a Python that can be started")
    limits = walk.Limits(duration(args.limit, "limit"), int(args.memory * 2**30))
    looked = walk.run_one(Job("about", "", "", 0.0), limits, profile=False)["stages"]
    if "about" not in looked:
        raise ArgumentError(
            op="validate", argument="machine", got=looked.get("raised"), expected="one that imports trnsci"
        )
    about = looked["about"]
    del about["at_s"]
    if about["device"] is None:
        raise ArgumentError(
            op="validate",
            argument="device",
            got=about["why"],
            expected="a Trainium",
            hint="docs/how-to/run-on-trainium.md says which instance; TRNSCI_EMULATE=trn2 tries it without one",
        )
    jobs = cases.jobs(about["target"], args.only)
    if args.list:
        for job in jobs:
            print(f"{job.cost * 1e6:12.1f} µs  {job.key}")
        return 0
    args.output.mkdir(parents=True, exist_ok=True)
    known = walk.read(args.output, about)
    if not (args.output / walk.RESULTS).exists():
        walk.append(args.output, {"about": about})
    _say(
        f"{about['target']} as a {about['device']} device: {len(jobs)} jobs, {sum(j.key in known for j in jobs)} known"
    )
    status = 0
    try:
        how = {"profile": about["profiler"] is not None, "nrtpy": args.nrtpy}
        results = walk.walk(jobs, args.output, known, limits, budget, _say, **how)
    except (KeyboardInterrupt, SystemExit) as stopped:
        results = [known[job.key] for job in jobs if job.key in known]
        status = 130 if isinstance(stopped, KeyboardInterrupt) else 143
    written = report.write(args.output, about, len(jobs), results)
    if status:
        _say(f"interrupted: {len(results)} of {len(jobs)} results are in {args.output}; the same command goes on")
        return status
    print(report.lead(about, len(jobs), results))
    for item in report.items(results)[:10]:
        print(f"{item.kind}: {item.job}: {item.text}\n    to {item.to}")
    print(f"wrote {written[0]} and {written[1]}")
    return int(any(result["status"] not in ("right", "not run", "uncompared") for result in results))


def _say(text: str) -> None:
    print(f"trnsci validate: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
