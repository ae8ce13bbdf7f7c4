"""Where a program's time goes: calls that have an analog timed one by one, everything else sampled by line."""

from __future__ import annotations

import linecache
import sys
import sysconfig
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np
import torch

from trnsci.analogs import Analog, functions, operators
from trnsci.analogs.lines import read_analogs
from trnsci.analogs.methods import Method, methods_observed
from trnsci.analogs.replacing import IS_PROGRAM, Replacement, replace_functions
from trnsci.console import shorter
from trnsci.ledger import WATCHES, in_op, record
from trnsci.libraries import packages
from trnsci.ops import Op
from trnsci.specs import freeze, tensors_in
from trnsci.substitutions import RANDOM
from trnsci.tables import read_table
from trnsci.torch_internals import TorchDispatchMode, disable_dynamo

PERIOD = 2e-3
# characters of a line of source that a report shows
SOURCE = 60
# seconds up to which a first call is made a second time
REPEATED = 1.0
# what makes a function as fast as an experienced caller would have it
PEERS: dict[str, dict[str, Any]] = {"numpy.einsum": {"optimize": True}}

_HERE = Path(__file__).resolve().parents[1]
# frames between a program's call and the library it calls
_WATCHERS = {
    str(Path(__file__).parent / name)
    for name in (
        "fit_profiler.py",
        "product_operators.py",
        "drop_in.py",
        "drop_in_arrays.py",
        "analogs/replacing.py",
        "analogs/methods.py",
    )
}


@dataclass(slots=True)
class Plain:
    """Calls of one operator or function from one line, with the same operands where an analog wants to know them.

    ``stays`` says why a method is done where it is; ``again`` is the time of the first call done a second time.
    """

    operator: str
    where: str
    args: Any = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    analog: Analog | None = None
    stays: str = ""
    calls: int = 0
    measured: float = 0.0
    first: float = 0.0
    again: float = 0.0
    nbytes: int = 0

    @property
    def operands(self) -> str:
        """Shapes and dtypes of the operands, for tables."""
        arrays = [arg for arg in self.args if isinstance(arg, np.ndarray)]
        shapes = [f"{a.dtype}[{'x'.join(map(str, a.shape)) or 'scalar'}]" for a in arrays]
        return " ".join([*map(str, tensors_in(self.args)), *shapes])


class Watch(TorchDispatchMode):
    """Times torch operators that no op of the suite called. Ops switch it off inside themselves."""

    # It changes nothing, so that code outside torch runs as it would without it.
    observes = True

    def __init__(self, *, random: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: dict[Any, Plain] = {}
        self._random = random
        # time of the calls within each call of a watched method that has begun
        self._within: list[float] = []
        # time of calls that were made a second time, on the wall and of this thread
        self.repeated = (0.0, 0.0)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # else torch imports torch._dynamo for the first call, two seconds that a program may never need
        return False

    def __enter__(self) -> Watch:
        WATCHES.append(self)
        self._others = ExitStack()
        self._others.enter_context(replace_functions(partial(_Watched, self)))
        self._others.enter_context(methods_observed(self._method))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._others.close()
        WATCHES.remove(self)

    def _array(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Time a call of NumPy's or SciPy's. Arrays are kept as their shapes."""
        if self._within:
            return function(*args, **kwargs)
        result, start = None, time.thread_time()
        try:
            result = function(*args, **kwargs)
            return result
        finally:
            measured = time.thread_time() - start
            where = _caller(sys._getframe())
            shapes = tuple(_shape_of(arg) for arg in args)
            words = str([[getattr(arg, "shape", arg) for arg in shapes], sorted(kwargs)])
            arrays = [*args, *(result if isinstance(result, tuple) else (result,))]
            plain = Plain(name, where, shapes, kwargs, functions()[name])
            if self._add(plain, words, measured, sum(getattr(a, "nbytes", 0) for a in arrays)) and result is not None:
                plain.again = self._repeat(name, function, args, kwargs, measured)

    def _repeat(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], measured: float
    ) -> float:
        """Make a first call of a function again, where that changes nothing; return its time, or 0."""
        if name in PEERS and len(args) > 3 and not kwargs.get("optimize"):
            kwargs = {**kwargs, **PEERS[name]}
        elif measured > REPEATED:
            return 0.0
        draws = ".random." in name or any(isinstance(x, np.random.Generator) for x in (*args, *kwargs.values()))
        writes = any(word in ("out", "a", "b") or (word.startswith("overwrite") and kwargs[word]) for word in kwargs)
        if draws or writes or any(callable(value) for value in (*args, *kwargs.values())):
            return 0.0
        wall, start = time.perf_counter(), time.thread_time()
        function(*args, **kwargs)
        spent = time.thread_time() - start
        self.repeated = (self.repeated[0] + time.perf_counter() - wall, self.repeated[1] + spent)
        return spent

    def _method(
        self, solver: Any, known: Method, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Time a call of a method, less those within it; what it calls of NumPy is part of it."""
        self._within.append(0.0)
        start = time.thread_time()
        try:
            return method(solver, *args, **kwargs)
        finally:
            whole = time.thread_time() - start
            measured = whole - self._within.pop()
            if self._within:
                self._within[-1] += whole
            operator, where = f"{known.package}.{type(solver).__name__}.{known.name}", _caller(sys._getframe())
            specs = known.operands(solver)
            plain = Plain(operator, where, specs, analog=known.analog if specs else None, stays=known.stays)
            self._add(plain, str(specs), measured, sum(spec.nbytes for spec in tensors_in(specs)))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "torch._dynamo" in sys.modules:
            return _uncompiled(self, func, args, kwargs)
        return self._time_operator(func, args, kwargs)

    def _time_operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        start = time.thread_time()
        result = func(*args, **(kwargs or {}))
        namespace, _, name = str(func._schema.name).partition("::")
        if namespace in packages() or in_op():
            # the ledger has it
            return result
        results = list(tensors_in(result))
        if any(tensor.is_cuda for tensor in results):
            torch.cuda.synchronize()
        measured = time.thread_time() - start
        if not any(tensor.is_meta for tensor in results):
            written = sum(tensor.numel() * tensor.element_size() for tensor in results)
            plain = self._note(name, args, kwargs or {}, measured, written)
            pure = not (func._schema.is_mutable or torch.Tag.nondeterministic_seeded in func.tags)
            if plain is not None and plain.analog is not None and pure:
                plain.again = self._repeat(name, func, args, kwargs or {}, measured)
        return result

    def _note(self, name: str, args: Any, kwargs: dict[str, Any], measured: float, written: int) -> Plain | None:
        where = _caller(sys._getframe())
        sparse = any(tensor.layout != torch.strided for tensor in tensors_in(args))
        plain = Plain(f"{name} (sparse)" if sparse else name, where, analog=operators(sparse=sparse).get(name))
        if plain.analog is not None and plain.analog.random and not self._random:
            plain.analog, plain.stays = None, RANDOM
        if plain.analog is not None:
            plain.args, plain.kwargs = freeze(args), {key: freeze(value) for key, value in kwargs.items()}
        nbytes = written + sum(spec.nbytes for spec in tensors_in(plain.args))
        return plain if self._add(plain, str(plain.args), measured, nbytes) else None

    def _add(self, plain: Plain, words: str, measured: float, nbytes: int) -> bool:
        """Count one call more of those that the words tell to be alike; return whether it is the first."""
        known = self.seen.setdefault((plain.operator, plain.where, words), plain)
        known.first = known.first if known.calls else measured
        known.calls += 1
        known.measured += measured
        known.nbytes += nbytes
        return known.calls == 1


class _Watched(Replacement):
    """A function whose calls by the program are timed."""

    def __init__(self, watch: Watch, name: str, function: Callable[..., Any]) -> None:
        super().__init__(name, function)
        self._watch = watch

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not IS_PROGRAM[sys._getframe(1).f_globals.get("__name__", "")]:
            return self._function(*args, **kwargs)
        return self._watch._array(self._name, self._function, args, kwargs)


def _shape_of(value: Any) -> Any:
    """Return an array of the same shape and dtype that takes no memory; what is no array stays."""
    if not isinstance(value, np.ndarray):
        return value
    return np.broadcast_to(np.zeros((), value.dtype), value.shape)


# a program that compiles must not compile what watches it
_uncompiled = disable_dynamo(Watch._time_operator, recursive=True)


@cache
def _package(filename: str) -> str:
    """Return a file's owner: a package's name, ``python`` for the standard library, empty for the program's own."""
    if filename.startswith("<frozen importlib"):
        return "import"
    if filename.startswith("<"):
        return "python"
    path = Path(filename).resolve()
    for folder in ("site-packages", "dist-packages"):
        if folder in path.parts[:-1]:
            return path.parts[path.parts.index(folder) + 1].removesuffix(".py")
    if path.is_relative_to(_HERE) and path.relative_to(_HERE).parts[0] in packages():
        return path.relative_to(_HERE).parts[0]
    return "python" if path.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve()) else ""


def _line(frame: FrameType) -> int:
    """Return the line a frame is at; instructions that stand for none count as its first."""
    return frame.f_lineno or frame.f_code.co_firstlineno


def _at(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{_line(frame)}"


def _caller(frame: FrameType | None) -> str:
    """Return the program's line a call came from, or the library of ours that made it."""
    while frame is not None:
        package = _package(frame.f_code.co_filename)
        if package in packages() and frame.f_code.co_filename not in _WATCHERS:
            return f"inside {package}"
        if not package:
            return _at(frame)
        frame = frame.f_back
    return ""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the program, the function of a package it was in, and what its calls resemble here.

    There is no function in the program's own code and in C that it calls itself.
    """

    where: str
    source: str = ""
    package: str = ""
    analog: str = ""


IMPORTS, WATCHING = Place("imports"), Place("making this report")
# the frames that tell whether a moment is measured already, or is this report's own work
_MEASURED = {Op.execute.__code__, Watch._time_operator.__code__, Watch._array.__code__, Watch._method.__code__}
_WATCHING = {Op.step.__code__, record.__code__, Watch._note.__code__}


def library_behind(module: str) -> str:
    """Return the library in C that functions of a module call, or nothing."""
    return next((row["library"] for row in read_table("behind.csv") if row["part"] in module), "")


class Sampler:
    """Looks every few milliseconds where the thread that made it is, and credits its processor time since."""

    def __init__(self) -> None:
        self.places: dict[Place, float] = defaultdict(float)
        self.threads: dict[str, float] = defaultdict(float)
        self._thread = threading.Thread(target=self._run, name="trnsci fit", daemon=True)
        self._watched = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._watched)
        self._stop = threading.Event()

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        last, used = time.perf_counter(), time.clock_gettime(self._clock)
        while not self._stop.wait(PERIOD):
            place = _place(sys._current_frames().get(self._watched))
            now, using = time.perf_counter(), time.clock_gettime(self._clock)
            if place is not None:
                self.places[place] += using - used
            for thread in threading.enumerate():
                if thread.ident not in (self._watched, self._thread.ident) and not thread.daemon:
                    self.threads[thread.name] += now - last
            last, used = now, using


def _place(frame: FrameType | None) -> Place | None:
    """Return where a moment belongs, or ``None`` when it is measured already or outside the program."""
    called = ours = behind = ""
    place: Place | None = None
    while frame is not None:
        code = frame.f_code
        if code in _WATCHING:
            return WATCHING
        if code in _MEASURED:
            return None
        package = _package(code.co_filename)
        if package == "import":
            return IMPORTS
        if package in packages() and place is None:
            ours = ours or package
        elif not package and place is None:
            line = _line(frame)
            source = linecache.getline(code.co_filename, line).partition("  #")[0].strip()
            analog = read_analogs(code.co_filename).get(line, "")
            called += f" ({behind})" if behind and called else ""
            place = Place(f"inside {ours}") if ours else Place(_at(frame), shorter(source, SOURCE), called, analog)
        elif package and place is None:
            module = frame.f_globals.get("__name__") or package
            behind = behind or library_behind(module)
            called = package if package == "python" else f"{package} {code.co_name}"
        frame = frame.f_back
    return place


class Children:
    """The processes a program starts, by the words that started them."""

    def __init__(self) -> None:
        self.commands: list[str] = []

    def __enter__(self) -> Children:
        _listen()
        _LISTENING.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _LISTENING.remove(self)


_LISTENING: list[Children] = []


@cache
def _listen() -> None:
    # Once: a hook cannot be taken back, and every call of `id` and every look at a frame pays for it.
    sys.addaudithook(_note_child)


def _note_child(event: str, args: tuple[Any, ...]) -> None:
    if _LISTENING and event in ("subprocess.Popen", "os.fork"):
        words = args[1] if args else "a fork of itself"
        for children in _LISTENING:
            children.commands.append(words if isinstance(words, str) else " ".join(map(str, words)))
