"""The parts of :mod:`trnsim.lint`: the rules, where source comes from, what names mean, and the walk over a kernel."""

from trnsim.tables import read_table


def words(name: str) -> frozenset[str]:
    """Return the names that ``words.toml`` lists under ``name``."""
    return frozenset(read_table("_lint/words.toml")[name].split())


def format_count(n: int, word: str) -> str:
    """Return a count of something in words."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"
