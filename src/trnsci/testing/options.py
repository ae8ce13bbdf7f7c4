"""Few cases for many options: every pair of values is tried, not every product."""

import itertools
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any


def pairs(*options: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return cases, one value from each of ``options``, such that any two values of different options meet in one."""
    products = list(itertools.product(*(range(len(values)) for values in options)))
    return [tuple(values[i] for values, i in zip(options, products[k], strict=True)) for k in covering(products)]


def covering(cases: Sequence[Sequence[Hashable]], strength: int = 2) -> list[int]:
    """Return the indices of cases in which any ``strength`` values that meet in some case meet.

    They are chosen greedily: the most new meetings, then the values used least, then the first, so that the list is
    always the same one and no value is tried much more often than its neighbours.
    """
    columns = range(len(cases[0]) if cases else 0)
    sides = list(itertools.combinations(columns, min(strength, len(columns))))
    met = [{(side, tuple(case[i] for i in side)) for side in sides} for case in cases]
    left = set().union(*met)
    used: Counter[tuple[int, Hashable]] = Counter()
    chosen: list[int] = []
    while left:
        best = max(
            range(len(cases)), key=lambda k: (len(met[k] & left), -sum(used[pair] for pair in enumerate(cases[k])))
        )
        left -= met[best]
        used.update(enumerate(cases[best]))
        chosen.append(best)
    return sorted(chosen)
