"""Every name of the earlier suite that is written otherwise here, or does something else without an error.

Rows are in ``data/earlier/names.csv``. Their ``here`` is the spelling of a name that is not ours, ``spelled`` that of
arguments which are refused without `trnsci.earlier.install`, and ``differs`` how a call that both accept differs.
"""

from typing import NamedTuple

from trnsci.tables import read_table


class Row(NamedTuple):
    """How an earlier name or its arguments are written here, and how the same call differs."""

    here: str = ""
    differs: str = ""
    spelled: str = ""


ROWS: dict[str, dict[str, Row]] = {}
for _row in read_table("earlier/names.csv"):
    _rows = ROWS.setdefault(_row["module"], {})
    _rows[_row["name"]] = Row(_row["here"], _row["differs"], _row["spelled"])
