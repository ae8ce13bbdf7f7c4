"""Errors of the simulated machine, from the table ``refusals.toml``: a sentence, a remedy and a source for each.

The table is read when the first error is built. ``docs/concepts/refusals.md`` shows it, and a test compares every call
of `refuse` with its entry.
"""

import string
from typing import Any

from trnsim import errors
from trnsim.errors import KernelError
from trnsim.tables import read_table

_PICKLED = (bool, int, float, str, list, tuple, dict)


class _Formatter(string.Formatter):
    """Format sentences; ``!l`` writes a shape as a list, ``!o`` a choice as ``a or b``."""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion == "l":
            return list(value)
        return " or ".join(map(str, value)) if conversion == "o" else super().convert_field(value, conversion)


_format = _Formatter().vformat


def refuse(
    key: str,
    /,
    *,
    got: Any = None,
    limit: Any = None,
    hint: str | None = None,
    fields: dict[str, Any] | None = None,
    **values: Any,
) -> KernelError:
    """Build the error of a broken rule.

    Args:
        key: The entry of the table: the rule, or ``rule:case`` where a rule has several sentences.
        got: The offending value.
        limit: The value that the rule admits, unless the table states it.
        hint: The remedy, where it depends on more than values.
        fields: Further fields of the error: ``line``, ``kernel``, ``target``, ``instruction``, ``tensor``.
        values: The values that the sentence and the remedy name beside ``got`` and ``limit``.
    """
    entry = read_table("refusals.toml")[key]
    limit = entry.get("limit") if limit is None else limit
    values |= {"got": got, "limit": limit}
    error: type[KernelError] = getattr(errors, entry["error"])
    return error(
        _format(entry["text"], (), values),
        rule=key.partition(":")[0],
        got=got if got is None or isinstance(got, _PICKLED) else repr(got),
        limit=limit,
        hint=_format(entry.get("hint", ""), (), values) if hint is None else hint,
        **(fields or {}),
    )


def forbid(wrong: object, key: str, /, **values: Any) -> None:
    """Raise the error of a broken rule where something is ``wrong``; the arguments of `refuse` are values at hand."""
    if wrong:
        raise refuse(key, **values)
