"""Write ``docs/how-to/from-the-earlier-suite.md`` from the table of names: ``python -m tools.earlier_page``."""

from __future__ import annotations

from pathlib import Path

from trnsci.earlier.table import ROWS, Row

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "from-the-earlier-suite.md"

OPENING = """# Come from the earlier suite

The six libraries existed before under the same names, as separate packages. A program written for them runs unchanged
with `trnsci run --earlier program.py`, or with `import trnsci.earlier; trnsci.earlier.install()` as its first line.

From there on `import trnblas` and the others give the earlier names, module paths (`trnfft.complex`,
`trnrand.distributions`, `trnblas.nki`), signatures and defaults. Modules that were imported before, and the suite
itself, keep the names of this suite. Modules whose names the earlier documents do not give (`trnsparse.formats`,
`trnblas.level3`, `trnsolver.iterative`) hold all names of their library. A wrong argument is torch's `RuntimeError` as
well as this suite's `ValueError`, and a matrix that cannot be factored is `torch.linalg.LinAlgError`. Without
`install()`, a name that is written otherwise here is an error with the spelling:

```pycon
>>> import trnrand
>>> trnrand.sobol(1024, 3)
Traceback (most recent call last):
    ...
AttributeError: module 'trnrand' has no attribute 'sobol': write trnrand.Sobol(dimensions).random(points), or call \
trnsci.earlier.install() first
```

One distribution holds all six: [install](../install.md) says how to get it. The earlier packages must not be installed
beside it, because their import names are the same.

## The same call, another result

These calls are accepted by both suites and mean something else. After `install()` they do what they did there.

"""

BETWEEN = """
Three things differ in both:

- **Random numbers of a seed are others**: [the streams](../trnrand/philox.md) are Philox's words in order, whatever
  the shape, the number of calls or of processes.
- **Nothing falls back.** A kernel that fails raises; a backend that is asked for and cannot run a call raises with the
  reasons.
- **`auto` goes by predicted time**, transfers included, not by a limit of FLOPs. `trnsci.explain(function, ...)` says
  what would run and why.

## Arguments that are written otherwise

Without `install()` these are errors.

"""


def page() -> str:
    """Return the text of the page."""
    silent = _table("| call | what differs |", [(m, n, r.differs) for m, n, r in _rows() if r.differs])
    spelled = _table("| call | arguments |", [(m, n, r.spelled) for m, n, r in _rows() if r.spelled])
    here = _table("| earlier | here |", [(m, n, _as_code(r.here)) for m, n, r in _rows() if r.here])
    return f"{OPENING}{silent}{BETWEEN}{spelled}\n## Names that are written otherwise\n\n{here}"


def _rows() -> list[tuple[str, str, Row]]:
    return [(module, name, row) for module, rows in ROWS.items() for name, row in rows.items()]


def _table(head: str, rows: list[tuple[str, str, str]]) -> str:
    """Return a table with one line for all names of a module that share their text."""
    alike: dict[tuple[str, str], list[str]] = {}
    for module, name, text in rows:
        alike.setdefault((module, text), []).append(name)
    lines = [
        f"| {', '.join(f'`{module}.{name}`' for name in names)} | {text} |" for (module, text), names in alike.items()
    ]
    return "\n".join([head, "|---|---|", *lines]) + "\n"


def _as_code(text: str) -> str:
    """Set a spelling as code, and the words behind it as words."""
    for mark in (": ", ", "):
        spelling, found, words = text.partition(mark)
        if found and not spelling.count("(") > spelling.count(")"):
            return f"`{spelling}`{mark}{words}"
    return f"`{text}`" if " of " not in text else text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
