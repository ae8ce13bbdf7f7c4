"""Programs that cannot run here, read instead: what of CUDA's libraries they use, and what takes its place."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from trnsci import rosetta
from trnsci.analogs.lines import PRODUCT, last_names

# sources of CUDA programs, which are only read
SOURCES = (".cu", ".cuh", ".cpp", ".cc", ".c", ".h", ".hpp", ".f90", ".cuf")

_CUDA = re.compile(rf"\b(?:{'|'.join(rosetta.LIBRARIES)})[A-Z]\w*")
_CUPY = re.compile(r"\b(?:cp|cupy|cupyx|torch)\.(?:\w+\.)*(\w+)\(")
_TORCH_CUDA = re.compile(r"""\.cuda\(|\bcuda:\d|["']cuda["']""")
_INCLUDE = re.compile(r"^\s*#\s*include.*$", re.M)
# kernels the program brings itself: CUDA C, CuPy, Numba, Triton
_KERNELS = re.compile(
    r"__global__\s+[\w\s]+?(\w+)\s*\(|\b((?:Raw|Elementwise|Reduction)Kernel)\(|@((?:cuda|triton)\.jit)\b"
)

UNKNOWN = "not a symbol we know"
OWN = "a kernel of its own: write it in NKI"


class Symbol(NamedTuple):
    """A symbol a source uses, how often, and what takes its place: a name of ours, or words."""

    name: str
    times: int
    here: str

    @property
    def covered(self) -> bool:
        """Whether something takes its place, or nothing has to."""
        return not self.here.startswith((UNKNOWN, OWN, rosetta.STATUSES["missing"]))


def scanned(path: Path) -> tuple[Symbol, ...]:
    """Return the symbols of CUDA's libraries, and the functions of CuPy and torch, that a source names."""
    text = _INCLUDE.sub("", path.read_text(encoding="utf-8", errors="replace"))
    symbols = [Symbol(name, count, _answer(name)) for name, count in Counter(_CUDA.findall(text)).items()]
    for match, count in Counter(m.group() for m in _CUPY.finditer(text)).items():
        name = match.rstrip("(")
        last = name.rpartition(".")[2]
        if last in last_names():
            symbols.append(Symbol(name, count, last_names()[last]))
        elif name.startswith("torch.nn."):
            symbols.append(Symbol(name, count, "runs on the device through AWS's own PyTorch"))
    if path.suffix == ".py" and (products := len(PRODUCT.findall(text))):
        symbols.append(Symbol("@", products, last_names().get("@", UNKNOWN)))
    for names, count in Counter(_KERNELS.findall(text)).items():
        symbols.append(Symbol(next(filter(None, names)), count, OWN))
    if devices := len(_TORCH_CUDA.findall(text)):
        symbols.append(Symbol("torch.cuda", devices, "leave it out: on the CPU the program runs here and is timed"))
    return tuple(sorted(symbols, key=lambda symbol: -symbol.times))


def _answer(name: str) -> str:
    family = rosetta.symbols().get(name)
    if family is None:
        return UNKNOWN
    return " ".join(family.analog) or f"{rosetta.STATUSES[family.status]}: {family.note}"
