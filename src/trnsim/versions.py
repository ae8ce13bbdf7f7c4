"""Versions of NKI: which ones are simulated, and when each name came and went.

What has no row in ``names.toml`` has been there since 0.3. Versions of names, parameters and tensor attributes are
those of the API stubs of each release; `trnsim._lint.reference` reads the signatures themselves from the simulator's
functions.
"""

from typing import Any

from trnsim.errors import WrongVersion
from trnsim.refusals import refuse
from trnsim.tables import read_table

Version = tuple[int, int]
VERSIONS: tuple[Version, ...] = ((0, 3), (0, 4), (0, 5), (0, 6), (0, 7))
FIRST, LATEST = VERSIONS[0], VERSIONS[-1]
# the first version that runs a kernel in Python to record it; older ones parse its source
TRACED: Version = (0, 7)


def _version(text: str) -> Version:
    major, minor = text.split(".")
    return int(major), int(minor)


_NAMES = read_table("names.toml")
SINCE = {name: _version(version) for version, names in _NAMES["since"].items() for name in names.split()}
# the first version without a name, and what to write instead
GONE: dict[str, tuple[Version, str]] = {name: (_version(v), instead) for name, (v, instead) in _NAMES["gone"].items()}
# parameters that came after their function; the collectives gained theirs all at once
PARAMETERS = {name: {p: _version(v) for p, v in ages.items()} for name, ages in _NAMES["parameters"].items()}
COLLECTIVE_PARAMETERS = {name: _version(v) for name, v in _NAMES["collective_parameters"].items()}
# methods and attributes of a tensor
TENSOR: dict[Version, str] = {_version(version): names for version, names in _NAMES["tensor"].items()}


def version_text(version: Version) -> str:
    """Return a version as it is written: ``"0.4"``."""
    return f"{version[0]}.{version[1]}"


def as_version(value: Any) -> Version:
    """Return the version of NKI meant by ``"0.6"``, ``"0.6.0"`` or ``(0, 6)``; ``None`` is the latest."""
    if value is None:
        return LATEST
    parts = str(value).split(".") if not isinstance(value, tuple) else [str(part) for part in value]
    version = tuple(int(part) for part in parts[:2]) if all(part.isdecimal() for part in parts) else ()
    if version not in VERSIONS:
        known = [version_text(version) for version in VERSIONS]
        raise refuse("nki-version", got=value, limit=known, names=", ".join(known))
    return version


def check_version(name: str, version: Version) -> None:
    """Raise unless NKI ``version`` has the function or instruction ``name``."""
    gone, instead = GONE.get(name, ((9, 9), ""))
    since = SINCE.get(name, FIRST)
    if since <= version < gone:
        return
    shown = version_text(version)
    if version < since:
        text, hint = f"{name} came with NKI {version_text(since)}", f'simulate with nki="{version_text(since)}"'
    else:
        text, hint = f"{name} is gone from NKI {version_text(gone)} on", f"use {instead}"
    raise WrongVersion(f"{text}, and the kernel runs as NKI {shown}", "nki-version", shown, name, hint)
