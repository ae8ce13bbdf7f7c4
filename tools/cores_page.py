"""Write ``docs/concepts/logical-cores.md``: every kernel on one core and on two: ``python -m tools.cores_page``.

Each is predicted on trn2 at the largest size of its benchmark, without its arithmetic.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import trnsim
from benchmarks import predictions, registry
from benchmarks.registry import Kernel
from trnsci import tuned
from trnsci.plans import seconds

PAGE = Path(__file__).resolve().parents[1] / "docs" / "concepts" / "logical-cores.md"
TARGET = "trn2"
MARK = "<!-- predicted by tools/cores_page.py -->\n"


class Row(NamedTuple):
    """One kernel at one size: predicted seconds on one core and on two."""

    kernel: str
    size: str
    one: float
    two: float

    @property
    def gain(self) -> float:
        """How many times faster two cores are."""
        return self.one / self.two

    def __str__(self) -> str:
        gain = "the second core is idle" if abs(self.gain - 1) < 0.005 else f"{self.gain:.2f} times"
        return f"| `{self.kernel}` | {self.size} | {seconds(self.one)} | {seconds(self.two)} | {gain} |"


def largest(op: str) -> Kernel | None:
    """Return the kernel of a benchmark with the most recorded cycles; ``None`` where it has none of one rank."""
    kept = predictions.recorded(op)
    own = [each for each in registry.load(op).kernels if TARGET in each.targets and each.ranks is None]
    return max(own, key=lambda each: kept[each.name, TARGET]["cycles"], default=None)


def predict(kernel: Kernel, cores: int) -> float:
    """Return the predicted seconds of a kernel on a logical core of so many cores."""
    inputs, options = kernel.inputs(), dict(kernel.options() if callable(kernel.options) else kernel.options)
    options |= tuned.chosen(kernel.kernel, TARGET, inputs, options)
    run = trnsim.profile(kernel.kernel[cores], target=TARGET, numerics=False)
    found: float = run(*inputs, **options)[1].total_s
    return found


def rows() -> list[Row]:
    """Predict every kernel."""
    made: list[Row] = []
    for op in registry.names():
        kernel = largest(op)
        if kernel is not None:
            name = f"{op.partition('.')[0]}.{kernel.kernel.__name__}"
            made.append(Row(name, kernel.name, predict(kernel, 1), predict(kernel, 2)))
    return made


def main() -> int:
    """Write the table below the text that the page has."""
    text = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    found = sorted(rows(), key=lambda row: (-row.gain, row.kernel))
    head = ["| kernel | size | one core | two cores | gain |", "|---|---|--:|--:|---|"]
    PAGE.write_text(text + MARK + "\n" + "\n".join([*head, *map(str, found)]) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
