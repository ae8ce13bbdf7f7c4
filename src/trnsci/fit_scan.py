"""Programs for CUDA that cannot run here, read instead: the calls of its libraries, and what takes their place.

C, C++, CUDA and Fortran are read by tree-sitter's grammars (`fit_scan_c`), Python by its own (`fit_scan_python`), so
that comments and strings do not count and every call into a library of CUDA's does, known or not.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from trnsci import config, libraries, rosetta
from trnsci.analogs.lines import last_names
from trnsci.errors import ArgumentError, TrnError
from trnsci.fit_scan_c import read_source
from trnsci.fit_scan_python import read_python
from trnsci.fit_source import SOURCES, Use
from trnsci.plans import seconds
from trnsci.predict import prediction
from trnsci.tables import read_table

# how a symbol is answered, the worst first
STATES = ("unknown", "missing", "write", "torch", "analog", "unneeded")
OWN = "a kernel of its own: write it in NKI, see docs/how-to/run-a-kernel.md"
# where ROCm spells a library of CUDA's otherwise
_HIP = re.compile(r"^hip(?=(blas|fft|rand|solver|sparse|tensor)[A-Z_])")
_DTYPES = {"S": torch.float32, "D": torch.float64, "C": torch.complex64, "Z": torch.complex128, "H": torch.float16}
_LETTER = re.compile(r"^cu(?:blas|solverDn|sparse)(?:Lt|Xt|I)?([SDCZH])(?=[a-z])")
_TRANSPOSED = re.compile(r"^(?:CUBLAS|CUSPARSE|HIPBLAS)_OP(?:ERATION)?_(?!N)\w+$|^'[tTcC]'$")
_PLAIN = re.compile(r"^(?:CUBLAS|CUSPARSE|HIPBLAS)_OP(?:ERATION)?_N\w*$|^'[nN]'$")


class Symbol(NamedTuple):
    """A symbol that a source uses, and what takes its place.

    Attributes:
        name: as the source spells it, in full.
        library: cuBLAS, Thrust, CUDA runtime ….
        times: how often it is called; a kernel, how often it is launched.
        here: a name of ours, or words.
        state: one of `STATES`.
        options: what arguments say: transposes, types, directions.
        where: ``file:line`` of every use.
        predicted: time of the calls whose sizes are constants, in words.
    """

    name: str
    library: str
    times: int
    here: str
    state: str
    options: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    predicted: str = ""


class Scan(NamedTuple):
    """The symbols of one or more sources, those without an answer first, and what could not be read."""

    symbols: tuple[Symbol, ...]
    skipped: tuple[str, ...]
    files: int

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        calls = {state: sum(symbol.times for symbol in self.symbols if symbol.state == state) for state in STATES}
        kernels = [symbol for symbol in self.symbols if symbol.here == OWN]
        whole = sum(calls.values()) - calls["unneeded"] - sum(kernel.times for kernel in kernels)
        if not self.symbols:
            return "it calls nothing of CUDA's."
        kinds = {
            "analog": "with an analog here",
            "torch": "plain PyTorch",
            "missing": "without",
            "unknown": "not known",
        }
        counts = ", ".join(f"{calls[state]} {words}" for state, words in kinds.items() if calls[state])
        text = f"{whole} call{'s' * (whole != 1)} of libraries, {counts}" if whole else "no call of a library"
        if kernels:
            names = ", ".join(kernel.name for kernel in kernels[:3]) + ", …" * (len(kernels) > 3)
            text += f"; {len(kernels)} kernel{'s' * (len(kernels) > 1)} of its own to write in NKI ({names})"
        if calls["unneeded"]:
            text += f"; {calls['unneeded']} that need nothing in their place"
        return text + "."


NOTHING = Scan((), (), 0)


def scan(source: str | Path) -> Scan:
    """Read a source, or every source below a folder, and answer each symbol of CUDA's that it uses.

    Headers that a file includes by a name in quotes are read with it.

    Raises:
        ArgumentError: there is nothing there to read.
        BackendUnavailable: the grammars are not installed.
    """
    path = Path(source)
    files = sorted(_sources(path)) if path.is_dir() else [path]
    if not files:
        raise ArgumentError("fit", "SCRIPT", str(source), f"a folder with sources ({', '.join(SOURCES)}, .py)")
    uses, skipped, read = list[Use](), list[str](), set[Path]()
    base = path if path.is_dir() else path.parent
    while files:
        file = files.pop()
        if file.resolve() in read:
            continue
        read.add(file.resolve())
        label = str(file.relative_to(base)) if file.is_relative_to(base) else file.name
        if file.suffix == ".py":
            names, missed = read_python(file, label)
        else:
            names, missed, included = read_source(file, label)
            files += [header for header in included if header.is_file()]
            absent = ", ".join(header.name for header in included if not header.is_file())
            missed += [f"{label}: what it includes is not here: {absent}"] * bool(absent)
        uses += names
        skipped += missed
    calls, elsewhere = _leave_out_own(uses)
    skipped += [f"{use.where}: {use.name} is declared, and defined in no file that was read" for use in elsewhere]
    return Scan(tuple(sorted(_symbols(calls), key=_order)), tuple(skipped), len(read))


def _leave_out_own(uses: Sequence[Use]) -> tuple[list[Use], list[Use]]:
    """Return the uses without those of functions of the program's own; and declarations of such that nothing defines.

    A program may wrap a library's function under a name like the library's. Prototypes of the library itself count
    as the library's.
    """
    kernels = {use.name for use in uses if use.kernel or use.launch}
    defined = {use.name for use in uses if use.own == "defined"} | kernels
    called = {use.name for use in uses if not use.own}
    declared = {use.name: use for use in uses if use.own == "declared" and use.name not in defined}
    own = defined | {name for name in declared if rosetta.find(_HIP.sub("cu", name)) is None}
    open_ends = [use for name, use in declared.items() if name in own & called and _answer(name) is not None]
    return [use for use in uses if not use.own and (use.name in kernels or use.name not in own)], open_ends


def _sources(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() in (*SOURCES, ".py") and not hidden and path.is_file():
            yield path


def _order(symbol: Symbol) -> tuple[int, int, str]:
    return STATES.index(symbol.state), -symbol.times, symbol.name


def _symbols(uses: Sequence[Use]) -> Iterator[Symbol]:
    alike: dict[tuple[str, tuple[str, ...]], list[Use]] = {}
    kernels = {use.name: use for use in uses if use.kernel}
    launched = {use.name: use for use in uses if use.launch}
    for use in uses:
        if use.name not in kernels and use.name not in launched:
            alike.setdefault((use.name, _options(use)), []).append(use)
    for (name, options), group in alike.items():
        answer = _answer(name)
        if answer is None:
            continue
        library, state, here = answer
        if "inverse" in options and here.rpartition(".")[2] == "fft":
            here = here.removesuffix("fft") + "ifft"
        where = tuple(use.where for use in group)
        yield Symbol(name, library, len(group), here, state, options, where, _predict(group))
    for name in dict.fromkeys((*kernels, *launched)):
        # a kernel that is launched may be defined in a file that was not read
        places = [use.where for use in uses if use.name == name and not use.kernel]
        where = (*(use.where for use in uses if use.name == name and use.kernel), *places)
        yield Symbol(name, "own kernels", len(places), OWN, "write", (), where)


@functools.cache
def _answer(name: str) -> tuple[str, str, str] | None:
    """Return the library of a symbol, its state and what takes its place; ``None`` for a name of the program's own."""
    spelled = _HIP.sub("cu", name)
    family = rosetta.find(spelled)
    if family is not None:
        words = {"analog": "", "torch": "plain PyTorch: "}.get(family.status, f"{rosetta.STATUSES[family.status]}: ")
        here = " ".join(family.analog) if family.status in ("analog", "torch") else family.note
        return rosetta.LIBRARIES[family.library], family.status, words + here
    if name.startswith(("cupy.", "cupyx.", "torch.", "ndarray.", "@")):
        rows = ((row["prefix"], row) for row in read_table("elsewhere.csv"))
        whole = (row for prefix, row in rows if name == prefix or (prefix[-1] == "." and name.startswith(prefix)))
        row = next(whole, None)
        return (row["library"], row["state"], row["instead"]) if row else _array_answer(name)
    for prefix, library in rosetta.LIBRARIES.items():
        if re.match(rf"{prefix}[A-Z_]", spelled):
            return library, "unknown", "not a symbol we know"
    for row in sorted(read_table("elsewhere.csv"), key=lambda row: -len(row["prefix"])):
        prefix = row["prefix"]
        if name.startswith(prefix) and (prefix.endswith((":", "_")) or re.match(r"[A-Z_]|$", name[len(prefix) :])):
            return row["library"], row["state"], row["instead"]
    return None


def _array_answer(name: str) -> tuple[str, str, str]:
    """Answer a function of CuPy or torch: an analog of ours, torch's own, or nothing."""
    package, _, rest = name.partition(".")
    library = {"cupy": "CuPy", "cupyx": "CuPy", "torch": "torch", "ndarray": "CuPy"}.get(package, "operators")
    last = rest.rpartition(".")[2] or name
    if "Kernel" in last:
        return library, "write", OWN
    if name.startswith(("torch.cuda", "cupy.cuda")):
        return library, "unneeded", "leave it out: on the CPU the program runs here and is timed"
    if last in last_names():
        return library, "analog", last_names()[last]
    if package == "torch":
        return library, "torch", "runs on the device through AWS's own PyTorch"
    for module in ("torch", "torch.linalg", "torch.fft", "torch.special"):
        owner = functools.reduce(getattr, module.split(".")[1:], torch)
        if hasattr(owner, last):
            return library, "torch", f"plain PyTorch: {module}.{last}"
    return library, "missing", "not covered"


def _dtype(name: str) -> torch.dtype | None:
    """Return the type that a letter of a symbol names, where the symbol has others for other types."""
    spelled = _HIP.sub("cu", name)
    letter = _LETTER.match(spelled)
    if letter is None:
        return None
    other = "D" if letter[1] == "S" else "S" if letter[1] != "C" else "Z"
    return (
        _DTYPES[letter[1]]
        if spelled[: letter.start(1)] + other + spelled[letter.end(1) :] in rosetta.symbols()
        else None
    )


def _options(use: Use) -> tuple[str, ...]:
    """Return what the name and the arguments of a call say beyond the function."""
    spelled, dtype = _HIP.sub("cu", use.name), _dtype(use.name)
    words = [str(dtype).removeprefix("torch.")] if dtype else []
    turns = [a for a in use.arguments if _TRANSPOSED.match(a) or _PLAIN.match(a)]
    words += [f"trans_{side}=True" for side, a in zip("ab", turns, strict=False) if _TRANSPOSED.match(a)]
    says = {row["constant"]: row["says"] for row in read_table("source_options.csv")}
    words += [says[a] for a in use.arguments if a in says]
    if "Batched" in spelled:
        words.append("batch as a leading axis")
    return tuple(dict.fromkeys(words))


@functools.cache
def _sizes() -> Mapping[str, dict[str, str]]:
    rows = read_table("source_sizes.csv")
    return {name: row for row in rows for pattern in row["symbols"].split() for name in rosetta.expand(pattern)}


def _predict(group: Sequence[Use]) -> str:
    """Predict the calls whose sizes are constants of the source."""
    total, counted, target = 0.0, 0, config.TARGET.get()
    for use in group:
        row = _sizes().get(_HIP.sub("cu", use.name))
        at = (
            {k: use.constants.get(int(v)) for k, v in (part.split("=") for part in row["sizes"].split())} if row else {}
        )
        if row is None or not at or not all(at.values()):
            continue
        dtype = _dtype(use.name) or (torch.complex64 if "fft" in use.name else torch.float32)
        took = _seconds(row["function"], row["operands"], tuple((k, v) for k, v in at.items() if v), dtype, target)
        total, counted = (total + took, counted + 1) if took is not None else (total, counted)
    if not counted:
        return ""
    each = f" for {counted} of {len(group)} calls" if counted < len(group) else ""
    return f"{seconds(total)} predicted on {target}{each}"


@functools.lru_cache(maxsize=256)
def _seconds(
    function: str, operands: str, sizes: tuple[tuple[str, int], ...], dtype: torch.dtype, target: config.TargetName
) -> float | None:
    package, _, stem = function.partition(".")
    called = getattr(libraries.load().get(package), stem, None)
    shapes = dict(sizes)
    args = [
        float(part)
        if part[0].isdigit()
        else torch.empty([shapes[k] for k in part.split(",")], dtype=dtype, device="cpu")
        for part in operands.split()
    ]
    if called is None:
        return None
    from trnsci.planning import plan

    try:
        parts = [prediction(step.call, target) for step in plan(called, *args).steps]
    except TrnError:
        return None
    return None if not parts or None in parts else sum(part.seconds for part in parts if part is not None)
