"""The parts of :mod:`trnsim.lint`: the rules, where source comes from, what names mean, and the walk over a kernel."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Return the words of ``text``, to keep long lists of names readable."""
    return frozenset(text.split())


def counted(n: int, word: str) -> str:
    """Return so many of something in words."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"
