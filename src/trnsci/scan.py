"""Programs that cannot run here, read instead: what of CUDA's libraries they use, and what takes its place."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from trnsci import rosetta
from trnsci.analogs.lines import NUMPY

# sources of CUDA programs, which are only read
SOURCES = (".cu", ".cuh", ".cpp", ".cc", ".c", ".h", ".hpp", ".f90", ".cuf")

_CUDA = re.compile(rf"\b(?:{'|'.join(rosetta.LIBRARIES)})[A-Z]\w*")
_CUPY = re.compile(r"\b(?:cp|cupy|cupyx|torch)\.(?:\w+\.)*(\w+)\(")
_TORCH_CUDA = re.compile(r"""\.cuda\(|\bcuda:\d|["']cuda["']""")
_INCLUDE = re.compile(r"^\s*#\s*include.*$", re.M)


class Symbol(NamedTuple):
    """A symbol a source uses, how often, and what takes its place: a name of ours, or words."""

    name: str
    times: int
    here: str


def scanned(path: Path) -> tuple[Symbol, ...]:
    """Return the symbols of CUDA's libraries, and the functions of CuPy and torch, that a source names."""
    text = _INCLUDE.sub("", path.read_text(encoding="utf-8", errors="replace"))
    found = [Symbol(name, count, _answer(name)) for name, count in Counter(_CUDA.findall(text)).items()]
    for match, count in Counter(m.group() for m in _CUPY.finditer(text)).items():
        last = match.rstrip("(").rpartition(".")[2]
        if last in NUMPY:
            found.append(Symbol(match.rstrip("("), count, NUMPY[last]))
    if devices := len(_TORCH_CUDA.findall(text)):
        found.append(Symbol("torch.cuda", devices, "left out: on the CPU the program can be run and timed here"))
    return tuple(sorted(found, key=lambda symbol: -symbol.times))


def _answer(name: str) -> str:
    family = rosetta.symbols().get(name)
    if family is None:
        return "not a symbol we know"
    return " ".join(family.analog) or f"{rosetta.STATUSES[family.status]}: {family.note}"
