"""The reader of JSON that somebody else may have written: size, depth, numbers and names are checked before use."""

import json
import math
import os
import re
import stat
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

from trnsim.errors import TrnError

MAX_BYTES = 16 << 20
MAX_DEPTH = 32
MAX_INTEGER = 1 << 63
# The closing quote is optional, so that every quote starts a match and the scan stays linear.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[][{}]")


class MalformedJson(TrnError, ValueError):
    """A text is not JSON, or not JSON of the expected size, depth, numbers and fields; ``message`` says why."""

    message: str

    def __init__(self, message: str) -> None:
        super().__init__(message=message)


def parse_json(text: str | bytes, *, most: int = MAX_BYTES) -> Any:
    """Return the value of a JSON text.

    Raises:
        MalformedJson: the text is longer than ``most``, nested deeper than `MAX_DEPTH`, or not JSON; a number is not
            finite or an integer beyond 64 bits; or an object names a field twice.
    """
    if len(text) > most:
        raise MalformedJson(f"it has {len(text)} bytes, and at most {most} are read")
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise MalformedJson(f"byte {error.start} is not UTF-8") from None
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub("", decoded)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > MAX_DEPTH:
            raise MalformedJson(f"it is nested deeper than {MAX_DEPTH} levels")
    try:
        return json.loads(
            decoded,
            parse_constant=_refuse_constant,
            parse_float=_parse_float,
            parse_int=_parse_integer,
            object_pairs_hook=_build_object,
        )
    except json.JSONDecodeError as error:
        raise MalformedJson(f"it is not JSON: {error}") from None


def read_json(path: Path, *, most: int = MAX_BYTES) -> Any:
    """Return the value in a JSON file; see `parse_json`. A pipe or a device is refused and not waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise MalformedJson("it is not a plain file")
        data = file.read(most + 1)
    if len(data) > most:
        raise MalformedJson(f"it has {path.stat().st_size} bytes, and at most {most} are read")
    return parse_json(data, most=most)


def check_fields(value: Any, **kinds: type) -> dict[str, Any]:
    """Return ``value`` if it is an object with exactly these fields, each of its type; ``float`` admits integers."""
    if type(value) is not dict:
        raise MalformedJson(f"it is {_describe(value)}, not an object")
    if value.keys() != kinds.keys():
        names = ", ".join(sorted(map(_quote, value)))
        raise MalformedJson(f"its fields are {names or 'none'}, and {', '.join(sorted(kinds))} are expected")
    for name, kind in kinds.items():
        if type(value[name]) is not kind and not (kind is float and type(value[name]) is int):
            raise MalformedJson(f"{name} is {_describe(value[name])}, and {kind.__name__} is expected")
    return value


def is_finite(value: Any, least: float = -math.inf, most: float = math.inf) -> bool:
    """Return whether ``value`` is a finite number, no bool, from ``least`` to ``most``."""
    return type(value) in (int, float) and math.isfinite(value) and least <= value <= most


def _describe(value: Any) -> str:
    return repr(value) if type(value) in (int, float, bool, type(None)) else f"of type {type(value).__name__}"


def _quote(name: str) -> str:
    return repr(name if len(name) <= 40 else f"{name[:37]}...")


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedJson(f"it has the number {name}, and numbers are finite")


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise MalformedJson(f"it has the number {text[:40]}, which float64 cannot hold")
    return value


def _parse_integer(text: str) -> int:
    # the length comes first, because long conversions take quadratic time
    value = int(text) if len(text) <= 20 else MAX_INTEGER
    if not -MAX_INTEGER <= value < MAX_INTEGER:
        raise MalformedJson(f"it has an integer of {len(text.lstrip('-'))} digits, beyond 64 bits")
    return value


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise MalformedJson(f"an object names the field {_quote(twice)} twice")
    return built
