"""Write ``docs/concepts/refusals.md``, every refusal of the simulator: ``python -m tools.refusals_page``."""

from __future__ import annotations

import re
from pathlib import Path

from trnsim.tables import read_table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "concepts" / "refusals.md"
HEAD = """# What the simulator refuses

One row for each sentence that an error of `trnsim` can have, generated from `src/trnsim/refusals.toml`, which the
errors themselves are built from. Names in italics stand for values of the call. *simulator* as a source means that
the call itself makes no sense; every other source is a page of the NKI documentation or of the architecture guide.
[The simulator](simulator.md) says by area why a rule refuses, warns or lets a value propagate.

| rule | error | says | do | source |
|---|---|---|---|---|
"""


def _show_field(match: re.Match[str]) -> str:
    part = f" {int(match[2]) + 1}" if match[2] else ""
    return f"*{match[1].replace('_', ' ')}{part}*"


def _readable(template: str) -> str:
    """Show a template with its fields in italics; the parts of a pair are numbered."""
    text = (
        template.replace("{{", "\0").replace("}}", "\1").replace("|", "\\|").replace("<", "&lt;").replace("](", "]\\(")
    )
    text = re.sub(r"\{(\w+)(?:\[(\d)\])?[^}]*?\}", _show_field, text)
    # two fields in a row: the stars between them would begin bold type
    return text.replace("**", "*&#8203;*").replace("\0", "{").replace("\1", "}")


def write_page() -> str:
    """Return the page as text."""
    rows = [
        f"| `{key}` | `{entry['error']}` | {_readable(entry['text'])} | {_readable(entry.get('hint', ''))} | "
        f"{entry['source']} |"
        for key, entry in sorted(read_table("refusals.toml").items())
    ]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
