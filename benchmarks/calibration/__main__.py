"""``python -m benchmarks.calibration`` predicts every row and prints the tables.

``--refit`` fits the constants to the rows and prints what moves and the errors of families left out; with ``--open``
on the rows of a folder too (`benchmarks.calibration.open_rows`). ``--docs`` writes what was printed into the docs, and
the intervals into `trnsim.constants`. Data of one's own are rows of the same form in another file.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.calibration import open_rows, refit
from benchmarks.calibration.rows import ROWS, read
from benchmarks.calibration.table import BEGIN, DOCS, END, FIT_BEGIN, FIT_END, generated, predict, write


def say(text: str) -> None:
    """Progress goes to stderr, so that the tables can be piped."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration", description=__doc__.splitlines()[0])
    parser.add_argument("--refit", action="store_true", help="fit the constants to the rows that take no seconds")
    parser.add_argument("--rows", type=Path, metavar="CSV", help="more rows, in the form of rows.csv")
    parser.add_argument("--open", type=Path, metavar="FOLDER", help="rows of kernels published elsewhere, with --refit")
    parser.add_argument("--processes", type=int, default=1, help="rows predicted at once by --refit")
    parser.add_argument("--docs", action="store_true", help=f"write the result into {DOCS}")
    parser.add_argument("--light", action="store_true", help="leave out rows that take seconds")
    options = parser.parse_args()
    rows = [*ROWS, *(read(options.rows) if options.rows else ())]
    if options.refit:
        rows = [row for row in rows if not row.heavy] + (open_rows.read(options.open) if options.open else [])
        results, fit = refit.refit(rows, say, options.processes)
        print(refit.text(results, fit))
        if options.docs:
            write(FIT_BEGIN, FIT_END, refit.page(results, fit))
            refit.keep(results, fit)
        return 0
    results = []
    for row in rows:
        if options.light and row.heavy:
            continue
        results.append(predict(row))
        made = results[-1]
        say(f"{row.target} {row.name} {row.dtype}: predicted {made.predicted_us:.4g} us, {made.error:+.1%}")
    print(generated(results))
    if options.docs:
        write(BEGIN, END, generated(results))
        say(f"wrote {DOCS}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
