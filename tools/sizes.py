"""Lines per source file: the long ones, the median, the ninth decile. Size is a number people look at."""

from __future__ import annotations

import statistics
from pathlib import Path

LONG = 400


def main() -> None:
    """Print the report."""
    root = Path(__file__).resolve().parent.parent
    sizes = sorted((len(path.read_text().splitlines()), path) for path in root.glob("src/**/*.py"))
    counts = [count for count, _ in sizes if count > 10]
    for count, path in reversed(sizes):
        if count > LONG:
            print(f"{count:6d}  {path.relative_to(root)}")
    ninth = statistics.quantiles(counts, n=10)[-1]
    middle = statistics.median(counts)
    print(f"{len(sizes)} files, {sum(counts)} lines; median {middle:.0f}, p90 {ninth:.0f}, longest {counts[-1]}")


if __name__ == "__main__":
    main()
