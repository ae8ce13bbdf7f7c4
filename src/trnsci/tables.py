"""Tables that come with the suite: rows of the files in ``data``."""

import csv
import functools
from pathlib import Path

DATA = Path(__file__).parent / "data"


@functools.cache
def read_table(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of a table, each by the names of its columns."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))
