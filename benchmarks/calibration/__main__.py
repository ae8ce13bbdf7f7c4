"""``python -m benchmarks.calibration`` predicts every row and prints the table; ``--docs`` writes it into the docs."""

from __future__ import annotations

import argparse
import sys

from benchmarks.calibration.rows import ROWS
from benchmarks.calibration.table import DOCS, predict, summary, table, write


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.calibration", description="Predicted against published times."
    )
    parser.add_argument("--docs", action="store_true", help=f"write the table into {DOCS}")
    parser.add_argument("--light", action="store_true", help="leave out rows that take seconds")
    options = parser.parse_args()
    results = []
    for row in ROWS:
        if options.light and row.heavy:
            continue
        results.append(predict(row))
        made = results[-1]
        print(
            f"{row.target} {row.name} {row.dtype}: predicted {made.predicted_us:.4g} us, {made.error:+.1%}",
            file=sys.stderr,
        )
    print(table(results))
    print(summary(results))
    if options.docs:
        write(results)
        print(f"wrote {DOCS}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
