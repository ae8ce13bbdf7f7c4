"""Few cases for many options: every pair of values is tried, not every product."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any


def pairs(*options: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return cases, one value from each of ``options``, such that any two values of different options meet in one.

    Cases are chosen greedily, in the order of the product, so that the list is always the same one.
    """
    indices = [range(len(values)) for values in options]
    sides = list(itertools.combinations(range(len(options)), 2))
    open_pairs = {(i, x, j, y) for i, j in sides for x in indices[i] for y in indices[j]}
    products = list(itertools.product(*indices))
    met = [{(i, case[i], j, case[j]) for i, j in sides} for case in products]
    chosen: list[int] = []
    while open_pairs:
        best = max(range(len(products)), key=lambda k: len(met[k] & open_pairs))
        open_pairs -= met[best]
        chosen.append(best)
    return [tuple(values[i] for values, i in zip(options, products[k], strict=True)) for k in sorted(chosen)]
