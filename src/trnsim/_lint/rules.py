"""The rules of the linter, read from ``rules.toml``.

Some rules hold for every version. Others are those of the parser, which NKI has up to 0.6: it reads the source of a
kernel and knows part of Python. From 0.7 on a kernel is traced, which is running it in Python, and what is refused is
what tracing and the compiler behind it refuse.

An ``error`` is what the reference says is refused. A ``warning`` is what it discourages, deprecates or does not
mention. ``strict`` is what the compiler is not known to accept: sizes, and of the parser what its published source
alone refuses or reads otherwise than Python does (``leanprover/KLR``, March 2026, older than NKI 0.4).
``docs/concepts/lint.md`` is this table with examples, and a test keeps the two equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from trnsim.tables import read_table
from trnsim.versions import TRACED, Version

Severity = Literal["error", "warning", "strict"]
Front = Literal["", "parser", "tracer"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: ``reason`` is a sentence without its full stop, ``basis`` names document and section.

    ``front`` is the front end it belongs to: ``parser`` (up to NKI 0.6), ``tracer`` (from 0.7 on), or none of them.
    ``nodes`` are the parts of Python's syntax whose mere presence breaks it.
    """

    id: str
    severity: Severity
    reason: str
    rewrite: str
    basis: str
    front: Front = ""
    nodes: Sequence[str] = field(default=(), compare=False)

    def holds(self, nki: Version) -> bool:
        """Return whether the rule holds for a version of NKI."""
        return not self.front or (self.front == "tracer") == (nki >= TRACED)


RULES = {name: Rule(name, **fields) for name, fields in read_table("_lint/rules.toml").items()}
"""Rules by id: those of every version, of tracing, and of the parser that older versions have."""
