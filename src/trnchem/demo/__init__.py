"""The demonstrations behind ``make demo`` and ``trnsci demo``: a molecule, and a voice in noise."""

from __future__ import annotations

import argparse
import importlib
import time
from pathlib import Path

from trnchem.demo.report import Report
from trnsci import cache, check, console
from trnsim.cli import output_file

NAMES = ("water", "speech")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``trnsci demo``."""
    parser.description = "A calculation on PyTorch and the simulator, and what Trainium would do."
    parser.add_argument("name", metavar="NAME", nargs="?", default="water", help="water (default) or speech")
    parser.add_argument("--html", metavar="FILE", type=output_file, help="where the page goes (default: the cache)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Run ``trnsci demo``."""
    return demo(args.name, html=args.html, as_json=args.json)


def demo(name: str = "water", *, html: Path | None = None, as_json: bool = False) -> int:
    """Run a demonstration, print it, and write it as a page.

    Args:
        name: ``water`` or ``speech``.
        html: where the page goes; by default into the cache folder.
        as_json: print JSON instead; what is going on goes to stderr.

    Returns:
        The exit status: one when a result leaves its bound.
    """
    check.option("demo", "NAME", name, NAMES)
    page = html or cache.folder() / f"demo-{name}.html"
    start = time.perf_counter()
    compute = getattr(importlib.import_module(f"trnchem.demo.{name}"), name)
    report: Report = compute(lambda text: console.progress(f"{text} ...\n"))
    if html is None:
        cache.write(page.name, report.html())
    else:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(report.html(), encoding="utf-8")
    if as_json:
        console.as_json({**report.facts, "ok": report.ok, "page": str(page)})
        return int(not report.ok)
    console.tables(*report.tables)
    print(f"\n{report.verdict}")
    print(f"The same as a page: {page}")
    print(f"It took {time.perf_counter() - start:.0f} s. Next: {report.following}")
    return int(not report.ok)
