"""Tables for people: with rich in a terminal, as aligned plain text in a pipe, as JSON for programs."""

import importlib.util
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trnsim.terminal import escape_controls


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table. ``note`` is a sentence below it; a header of empty names is not shown."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    note: str = ""


def tables(*each: Table) -> None:
    """Print tables to standard output."""
    each = tuple(map(_escape_table, each))
    if sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
        _rich(each)
    else:
        print("\n\n".join(plain(table) for table in each))


def plain(table: Table) -> str:
    """Return a table as aligned text, two spaces between columns."""
    table = _escape_table(table)
    lines = [table.header, *table.rows] if any(table.header) else list(table.rows)
    widths = [max((len(line[column]) for line in lines), default=0) for column in range(len(table.header))]
    text = [table.title]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        text.append(("  " + "  ".join(cells)).rstrip())
    if table.note:
        text.append("  " + table.note)
    return "\n".join(text)


def _escape_table(table: Table) -> Table:
    """Return a table without control characters: names of kernels, files and arguments may be a stranger's."""
    rows = [tuple(map(escape_controls, row)) for row in table.rows]
    return Table(escape_controls(table.title), table.header, rows, escape_controls(table.note))


def say(program: str, text: str) -> None:
    """Print a sentence of a program on stderr."""
    print(f"{program}: {escape_controls(text)}", file=sys.stderr, flush=True)


def shorter(text: str, length: int) -> str:
    """Cut a text to a length."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def progress(text: str) -> None:
    """Say what is going on, on a line of the terminal that the next one replaces unless it ends in a newline.

    Where stderr is no terminal nothing is said. An empty text clears the line.
    """
    if sys.stderr.isatty():
        text = escape_controls(text)
        line = text if text.endswith("\n") else text[: shutil.get_terminal_size().columns - 1]
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def as_json(value: Any) -> None:
    """Print a value of dicts, lists and scalars as JSON."""
    print(json.dumps(value, indent=2, default=str))


def _rich(each: Sequence[Table]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for table in each:
        console.print(_draw_table(table) if _fits(table, console.width) else _list_rows(table))


def _fits(table: Table, width: int) -> bool:
    """Return whether a terminal is wide enough for the longest word of every column."""
    words = _words(table)
    return sum(words) + 3 * (len(words) - 1) <= width


def _words(table: Table) -> list[int]:
    columns = zip(table.header, *table.rows, strict=True)
    return [max((len(word) for cell in column for word in cell.split()), default=0) for column in columns]


def _draw_table(table: Table) -> Any:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(
        title=table.title,
        caption=table.note or None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE,
        show_edge=False,
        pad_edge=False,
        show_header=any(table.header),
    )
    for index, (name, width) in enumerate(zip(table.header, _words(table), strict=True)):
        drawn.add_column(name, style="bold" if index == 0 else None, min_width=width, overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    return drawn


def _list_rows(table: Table) -> Any:
    """Each row as its first cell and, below it, the others with their names."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table as RichTable
    from rich.text import Text

    parts: list[Any] = [Text(table.title, style="italic")]
    for first, *rest in table.rows:
        grid = RichTable.grid(padding=(0, 2))
        for name, cell in zip(table.header[1:], rest, strict=True):
            if cell:
                grid.add_row(Text(name, style="dim"), Text(cell))
        parts += [Padding(Text(first, style="bold"), (0, 0, 0, 2)), Padding(grid, (0, 0, 0, 4))]
    return Group(*parts, Padding(Text(table.note, style="dim"), (0, 0, 0, 2))) if table.note else Group(*parts)
