"""Tables for people: with rich in a terminal, as aligned plain text in a pipe, as JSON for programs."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table. ``note`` is a sentence below it."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    note: str = ""


def tables(*each: Table) -> None:
    """Print tables to standard output."""
    if sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
        _rich(each)
    else:
        print("\n\n".join(plain(table) for table in each))


def plain(table: Table) -> str:
    """Return a table as aligned text, two spaces between columns."""
    lines = [table.header, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.header))]
    text = [table.title]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        text.append(("  " + "  ".join(cells)).rstrip())
    if table.note:
        text.append("  " + table.note)
    return "\n".join(text)


def as_json(value: Any) -> None:
    """Print a value of dicts, lists and scalars as JSON."""
    print(json.dumps(value, indent=2, default=str))


def _rich(each: Sequence[Table]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(highlight=False)
    for table in each:
        drawn = RichTable(
            title=table.title, caption=table.note or None, box=box.SIMPLE, title_justify="left", caption_justify="left"
        )
        for number, name in enumerate(table.header):
            drawn.add_column(name, style="bold" if number == 0 else None, overflow="fold")
        for row in table.rows:
            drawn.add_row(*map(Text, row))
        console.print(drawn)
