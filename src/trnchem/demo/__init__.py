"""The demonstrations behind ``make demo`` and ``trnsci demo``: a molecule, and a voice in noise."""

from __future__ import annotations

import importlib
import time
from pathlib import Path

from trnchem.demo.report import Report
from trnsci import cache, check, console

NAMES = ("water", "speech")


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
    run = getattr(importlib.import_module(f"trnchem.demo.{name}"), name)
    report: Report = run(lambda text: console.progress(f"{text} ...\n"))
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
