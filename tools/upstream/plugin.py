"""A plugin of pytest that opens a block of `trnsci.drop_in` before tests are collected and writes what it saw.

Settings come by the environment: UPSTREAM_BACKEND, where the calls run, and UPSTREAM_RECORD, the file to write.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import trnsci

_open = ExitStack()
_seen: list[Any] = []


def pytest_configure() -> None:
    """Open the block: names that test modules import are then ours."""
    backend = os.environ.get("UPSTREAM_BACKEND", "pytorch")
    # kernels refuse some calls, such as integers, and those run on PyTorch
    _open.enter_context(trnsci.backend(backend, strict=False))  # type: ignore[arg-type]
    book = _open.enter_context(trnsci.ledger())
    _seen[:] = [_open.enter_context(trnsci.drop_in(min_size=0)), book]


def pytest_unconfigure() -> None:
    """Close the block and write the record."""
    seen, book = _seen
    _open.close()
    found = {
        "substituted": {f"{theirs} -> {ours}": n for (theirs, ours), n in sorted(seen.substituted.items())},
        "left alone": {f"{theirs}: {why}": n for (theirs, why), n in sorted(seen.left_alone.items())},
        "backends": sorted({entry.step.backend for entry in book}),
    }
    Path(os.environ["UPSTREAM_RECORD"]).write_text(json.dumps(found, indent=1), encoding="utf-8")
