"""The demonstrations behind ``make demo`` and ``trnsci demo``: a molecule, and a voice in noise."""

import argparse
import importlib
import time

from trnchem.demo.report import Report
from trnsci import cache, check, console
from trnsim.cli import output_file
from trnsim.terminal import escape_controls

NAMES = ("water", "speech")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``trnsci demo``."""
    parser.description = "A calculation on PyTorch and the simulator, and what Trainium would do."
    parser.add_argument("name", metavar="NAME", nargs="?", default="water", help="water (default) or speech")
    parser.add_argument("--html", metavar="FILE", type=output_file, help="where the page goes (default: the cache)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Run ``trnsci demo``: print it and write it as a page; the exit status is one when a result leaves its bound.

    The page goes into the cache folder unless ``--html`` names a file; with ``--json`` what is going on goes to stderr.
    """
    name: str = args.name
    check.option("demo", "NAME", name, NAMES)
    page = args.html or cache.folder() / f"demo-{name}.html"
    start = time.perf_counter()
    compute = getattr(importlib.import_module(f"trnchem.demo.{name}"), name)
    report: Report = compute(lambda text: console.progress(f"{text} ...\n"))
    if args.html is None:
        cache.write(page.name, report.html())
    else:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(report.html(), encoding="utf-8")
    if args.json:
        console.as_json({**report.facts, "ok": report.ok, "page": str(page)})
        return int(not report.ok)
    console.tables(*report.tables)
    print(f"\n{report.verdict}")
    print(escape_controls(f"The same as a page: {page}"))
    print(f"It took {time.perf_counter() - start:.0f} s. Next: {report.following}")
    return int(not report.ok)
