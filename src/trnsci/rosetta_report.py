"""Answers of ``trnsci rosetta``: the coverage of every library, the answer for a symbol, several answers, the gaps."""

from collections.abc import Sequence
from typing import Any

from trnsci import rosetta
from trnsci.console import Table
from trnsci.rosetta import FUNCTIONS, KINDS, LIBRARIES, STATUSES, Coverage, Family, Hit

_SHOWN = 20
_RELATED = 4
_WIDTH = 48
_HEADER = ("symbol", "here", "example or reason")


def answer(symbol: str | None, library: str | None, gaps: bool) -> tuple[dict[str, Any], list[Table | str]]:
    """Return the answer to a question, as JSON would have it and as parts to print.

    Args:
        symbol: what to look for; without it, a library or all of them.
        library: only of this one.
        gaps: the counts per kind, and what is not covered.

    Raises:
        ArgumentError: nothing is spelled remotely like ``symbol``.
    """
    if gaps:
        missing = [family for family in _families(library) if family.status == "missing"]
        listed = [family.to_dict() for family in missing]
        reasons = [(LIBRARIES[f.library], _short(f), str(len(f.symbols)), f.note) for f in missing]
        table = Table("Not covered", ("library", "symbols", "count", "reason"), reasons)
        return {"coverage": _counts(library), "missing": listed}, [_kinds(library), table]
    if symbol is not None:
        hits = rosetta.search(symbol, library)
        if not hits:
            rosetta.lookup(symbol)
        listed = [{"symbol": hit.symbol, "match": hit.how, **hit.family.to_dict()} for hit in hits]
        return {"query": symbol, "hits": listed}, _answer(symbol, hits)
    if library is not None:
        rows = [_row(_short(family), family) for family in _families(library)]
        listed = [family.to_dict() for family in _families(library)]
        return {"coverage": _counts(library), "families": listed}, [Table(LIBRARIES[library], _HEADER, rows)]
    return {"coverage": _counts(None)}, [_overview()]


def card(hit: Hit) -> str:
    """Return all that is known of one symbol."""
    family = hit.family
    kind = "device function" if family.kind == "device" else family.kind
    removed = ", removed from CUDA" if family.removed else ""
    parts = {
        "here": " ".join(family.analog) if family.status in ("analog", "torch") else STATUSES[family.status],
        "example": family.example,
        "result": family.result,
        "note": family.note,
        "needs": "\n           ".join(rosetta.definitions(family.example, family.result)),
        "family": " ".join(family.patterns),
    }
    lines = [f"  {name:<8} {text}" for name, text in parts.items() if text]
    return "\n".join([f"{hit.symbol}: {LIBRARIES[family.library]} {kind}{removed}", *lines])


def _answer(symbol: str, hits: Sequence[Hit]) -> list[Table | str]:
    exact = [hit for hit in hits if hit.how == "exact"]
    if not exact and len(hits) == 1 and hits[0].how != "near":
        exact = list(hits)
    if not exact:
        return [_several(symbol, hits)]
    families = {hit.family for hit in exact}
    related = [hit.symbol for hit in hits if hit.how == "prefix" and hit.family not in families][:_RELATED]
    return [*map(card, exact), *([f"  see also {', '.join(related)}"] if related else [])]


def _several(symbol: str, hits: Sequence[Hit]) -> Table:
    grouped: dict[Family, list[Hit]] = {}
    for hit in hits:
        grouped.setdefault(hit.family, []).append(hit)
    rows = []
    for family, of_family in list(grouped.items())[:_SHOWN]:
        more = f" and {len(of_family) - 1} more" if len(of_family) > 1 else ""
        rows.append(_row(of_family[0].symbol + more, family))
    left = len(grouped) - len(rows)
    note = f"{left} more families; a longer name or --library shows fewer." if left else ""
    near = hits[0].how == "near"
    title = f"No symbol is like {symbol}; nearest:" if near else f"{symbol}: {len(hits)} symbols"
    return Table(title, _HEADER, rows, note)


def _overview() -> Table:
    rows = []
    for library in (*LIBRARIES, None):
        counts, functions = rosetta.coverage(library), rosetta.coverage(library, *FUNCTIONS)
        name = "all" if library is None else LIBRARIES[library]
        rows.append((name, *_cells(functions), f"{functions.covered:.1%}", f"{counts.covered:.1%}"))
    header = ("library", "functions", *STATUSES.values(), "covered", "with types")
    return Table("What takes the place of CUDA's symbols", header, rows, "trnsci rosetta SYMBOL answers for one.")


def _kinds(library: str | None) -> Table:
    rows = []
    for name in LIBRARIES if library is None else (library,):
        for kind in KINDS:
            counts = rosetta.coverage(name, kind)
            if counts.total:
                rows.append((LIBRARIES[name], kind, *_cells(counts), f"{counts.covered:.1%}"))
    return Table("Coverage", ("library", "kind", "symbols", *STATUSES.values(), "covered"), rows)


def _cells(counts: Coverage) -> tuple[str, ...]:
    return tuple(map(str, (counts.total, counts.analog, counts.torch, counts.unneeded, counts.missing)))


def _counts(library: str | None) -> dict[str, Any]:
    return {
        name: {
            kind: {
                "symbols": counts.total,
                **{text: getattr(counts, status) for status, text in STATUSES.items()},
                "covered": counts.covered,
            }
            for kind in KINDS
            if (counts := rosetta.coverage(name, kind)).total
        }
        for name in (LIBRARIES if library is None else (library,))
    }


def _families(library: str | None) -> list[Family]:
    return [family for family in rosetta.families() if library in (None, family.library)]


def _row(symbol: str, family: Family) -> tuple[str, str, str]:
    if family.status in ("analog", "torch"):
        return symbol, " ".join(family.analog), family.example
    return symbol, STATUSES[family.status], family.note


def _short(family: Family) -> str:
    """One pattern where it is short; else the first symbol and how many more there are."""
    pattern, *others = family.patterns
    if not others and len(pattern) <= _WIDTH:
        return pattern
    return f"{family.symbols[0]} and {len(family.symbols) - 1} more"
