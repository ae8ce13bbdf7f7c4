"""Every public symbol of cuBLAS, cuFFT, cuRAND, cuSOLVER, cuSPARSE and cuTENSOR, and what takes its place here.

The data are ``data/rosetta/*.csv``, a row per family. ``symbols`` are patterns as a shell expands them,
``cublas{S,D}gemm{,_v2}``; ``status`` is one of `STATUSES`; ``example`` is one line that runs after `PREAMBLE`;
``result`` is what it equals, or an equation that holds after it; ``removed`` marks what CUDA itself has dropped.
"""

import ast
import difflib
import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from trnsci.errors import ArgumentError
from trnsci.tables import DATA, read_table

LIBRARIES = MappingProxyType(
    {
        "cublas": "cuBLAS",
        "cufft": "cuFFT",
        "curand": "cuRAND",
        "cusolver": "cuSOLVER",
        "cusparse": "cuSPARSE",
        "cutensor": "cuTENSOR",
    }
)
STATUSES = MappingProxyType(
    {
        "analog": "analog",
        "torch": "plain PyTorch",
        "unneeded": "nothing to call",
        "missing": "not covered",
    }
)
KINDS = ("function", "device", "type", "constant")
FUNCTIONS = ("function", "device")
PREAMBLE = (DATA / "rosetta" / "preamble.txt").read_text(encoding="utf-8")
HOW = ("exact", "prefix", "inside", "analog", "near")
_SUGGESTED = 5


@dataclass(frozen=True, slots=True)
class Family:
    """Symbols that differ in dtype or spelling and have one answer.

    Attributes:
        library: ``cublas`` to ``cutensor``.
        patterns: the symbols, as a shell would expand them.
        kind: ``function``, ``device`` (a function called inside kernels), ``type`` or ``constant``.
        removed: whether CUDA itself has dropped them.
        status: a key of `STATUSES`.
        analog: dotted names of what takes their place.
        example: one line of Python, to run after `PREAMBLE`.
        result: what the example equals, or ``left = right`` that holds after it.
        note: differences; why nothing is needed; why nothing is there.
    """

    library: str
    patterns: tuple[str, ...]
    kind: str
    removed: bool
    status: str
    analog: tuple[str, ...]
    example: str
    result: str
    note: str

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every symbol by its full name."""
        return tuple(name for pattern in self.patterns for name in expand(pattern))

    def to_dict(self) -> dict[str, Any]:
        """Return what a program would ask for."""
        return {
            "library": self.library,
            "kind": self.kind,
            "removed_from_cuda": self.removed,
            "status": STATUSES[self.status],
            "analog": list(self.analog),
            "example": self.example,
            "result": self.result,
            "note": self.note,
            "needs": definitions(self.example, self.result),
            "family": list(self.patterns),
        }


class Hit(NamedTuple):
    """A symbol that answers a question, its family, and ``how``: one of `HOW`."""

    symbol: str
    family: Family
    how: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many symbols have which status; a symbol is covered unless nothing takes its place and something should."""

    analog: int
    torch: int
    unneeded: int
    missing: int

    @property
    def total(self) -> int:
        """All symbols."""
        return self.analog + self.torch + self.unneeded + self.missing

    @property
    def covered(self) -> float:
        """The share that is covered, from 0 to 1."""
        return 1 - self.missing / self.total


def expand(pattern: str) -> list[str]:
    """Return the names a pattern stands for.

    Example:
        >>> expand("cublas{S,D}gemm{,_v2}")
        ['cublasSgemm', 'cublasSgemm_v2', 'cublasDgemm', 'cublasDgemm_v2']
    """
    parts = re.split(r"\{([^}]*)\}", pattern)
    choices = [part.split(",") if index % 2 else [part] for index, part in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


@functools.cache
def families() -> tuple[Family, ...]:
    """Return every family, in the order of the files."""
    return tuple(family for library in LIBRARIES for family in _read(library))


def _read(library: str) -> Iterable[Family]:
    for row in read_table(f"rosetta/{library}.csv"):
        patterns, analog = (tuple(row[name].split()) for name in ("symbols", "analog"))
        words = [row[name] for name in ("example", "result", "note")]
        yield Family(library, patterns, row["kind"], row["removed"] == "yes", row["status"], analog, *words)


@functools.cache
def symbols() -> Mapping[str, Family]:
    """Return every symbol with its family."""
    return MappingProxyType({name: family for family in families() for name in family.symbols})


@functools.cache
def _by_lower_case() -> Mapping[str, str]:
    return {name.casefold(): name for name in symbols()}


def find(symbol: str) -> Family | None:
    """Return the family of a symbol, or ``None``; upper and lower case are the same."""
    return symbols().get(symbol) or symbols().get(_by_lower_case().get(symbol.casefold(), ""))


def lookup(symbol: str) -> Family:
    """Return what takes the place of a symbol; upper and lower case are the same.

    Raises:
        ArgumentError: there is no such symbol; ``hint`` names the nearest ones.

    Example:
        >>> lookup("cublasDgemm").analog
        ('trnblas.gemm',)
    """
    exact = find(symbol)
    if exact is None:
        near = ", ".join(nearest(symbol)) or "none; trnsci rosetta lists the libraries"
        libraries = ", ".join(LIBRARIES.values())
        raise ArgumentError("rosetta", "symbol", symbol, f"a symbol of {libraries}", hint=f"Nearest: {near}")
    return exact


def search(query: str, library: str | None = None) -> list[Hit]:
    """Return the symbols that answer a question, best first.

    A symbol itself comes before those that begin with the query, these before those that contain it, and these before
    those whose analog does; only where there is none, the nearest spellings are returned.

    Example:
        >>> for hit in search("cusolverDnSpotrf"):
        ...     print(hit.symbol, hit.how)
        cusolverDnSpotrf exact
        cusolverDnSpotrfBatched prefix
        cusolverDnSpotrf_bufferSize prefix
        >>> search("cublasSgmm")[0].symbol
        'cublasSgemm'
    """
    wanted = query.casefold()
    hits = [
        Hit(name, family, HOW[_how(wanted, name.casefold(), family)])
        for name, family in symbols().items()
        if library in (None, family.library)
    ]
    kept = [hit for hit in hits if hit.how != "near"]
    kept.sort(key=_order)
    return kept or [Hit(name, symbols()[name], "near") for name in nearest(query, library)]


def _order(hit: Hit) -> tuple[int, bool, int, int]:
    """Sort current symbols before removed ones and covered ones before the rest; keep S before D, C and Z."""
    family = hit.family
    return HOW.index(hit.how), family.removed, list(STATUSES).index(family.status), len(hit.symbol)


def _how(wanted: str, name: str, family: Family) -> int:
    if name == wanted:
        return 0
    if name.startswith(wanted):
        return 1
    if wanted in name:
        return 2
    return 3 if any(wanted in analog for analog in family.analog) else 4


def nearest(query: str, library: str | None = None) -> list[str]:
    """Return the symbols spelled most like ``query``."""
    names = [lower for lower, name in _by_lower_case().items() if library in (None, symbols()[name].library)]
    return [
        _by_lower_case()[name] for name in difflib.get_close_matches(query.casefold(), names, n=_SUGGESTED, cutoff=0.6)
    ]


def coverage(library: str | None = None, *kinds: str) -> Coverage:
    """Count the symbols of a library, or of all, and of some kinds, or of all, by status."""
    counts: Counter[str] = Counter()
    for family in families():
        if library in (None, family.library) and family.kind in (kinds or KINDS):
            counts[family.status] += len(family.symbols)
    return Coverage(**{status: counts[status] for status in STATUSES})


def definitions(*code: str) -> list[str]:
    """Return the lines of `PREAMBLE`, its imports cut to measure, that some code and these lines themselves need.

    Example:
        >>> for line in definitions("trnblas.gemm(1.0, a, b)"):
        ...     print(line)
        import torch, trnblas
        real, cplx = torch.float64, torch.complex128
        a, b, c = torch.randn(3, 4, 4, dtype=real)
    """
    used = set().union(*map(_names, code))
    kept, modules = [], []
    for statement in reversed(ast.parse(PREAMBLE).body):
        line = ast.get_source_segment(PREAMBLE, statement) or ""
        if isinstance(statement, ast.Assign) and used & _names(ast.unparse(statement.targets[0])):
            kept.append(line)
            used |= _names(ast.unparse(statement.value))
        elif isinstance(statement, ast.ImportFrom) and used & {alias.name for alias in statement.names}:
            kept.append(line)
        elif isinstance(statement, ast.Import):
            modules += [alias.name for alias in statement.names if alias.name in used]
    return [f"import {', '.join(sorted(modules))}"] * bool(modules) + kept[::-1]


def _names(code: str) -> set[str]:
    text = code.replace(" = ", " == ") if code else "0"
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
