"""A trial: one drawn call, what it must give, and how far off it may be. `spec` registers how a function is tried."""

import contextlib
import copy
import functools
import importlib
import inspect
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import trnsci
from tests.campaign.contexts import CONTEXTS, DEFAULTS, OTHER_BITS, in_fork
from tests.campaign.draw import Draw
from tests.campaign.torch_ways import checked, in_batches, on_meta, under_vmap
from trnsci.testing import assert_within

LIBRARIES = ("trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor", "trnchem")
SPECS: dict[str, Callable[[Draw], "Trial"]] = {}
# what is promised, and under which conditions
PROMISES: dict[str, tuple[str, str]] = {}
# public functions that compute nothing from arrays, with the reason a reader would accept
EXEMPT: dict[str, str] = {}


@dataclass
class Trial:
    """One call with its oracle.

    Attributes:
        function: the public function.
        args, kwargs: its arguments.
        expected: called for the result in higher precision, as an array or a tuple of arrays; ``None`` when ``check``
            judges alone.
        bound: called with what ``expected`` gave; absolute, elementwise, one per array.
        kernel_bound: the same where the simulator runs, if another.
        check: called with the result, and whether the simulator ran, where a property decides; raises AssertionError.
        view: what of the result is compared, by default the result itself or the tuple it is.
        kernels: whether the simulator runs it too; ``"maybe"`` where the kernel may refuse.
        simulated: how often the simulator runs it; rarely where that takes seconds.
        differentiable: whether gradients are tried in float64.
        compiles: whether ``torch.compile`` is tried.
        arrays: whether NumPy arrays are taken for tensors.
        outs: whether a result may go to memory that is given, where the function has ``out=``.
        repeats: whether a second call gives the same bits.
        rows: whether the first operand has a leading axis whose rows the function treats apart: a NaN in one of them
            leaves every bit of the others as it was.
        carries: whether a NaN in an operand shows in the result, unless it is refused.
        mistakes: whether the function is the public one itself, which answers wrong arguments with typed errors.
        magnitudes: the terms of a sum, the sum of their magnitudes, which the errors of policies are relative to, and
            what underflow adds.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    expected: Callable[[], Any] | None = None
    bound: Callable[..., Any] | None = None
    kernel_bound: Callable[..., Any] | None = None
    check: Callable[[Any, bool], None] | None = None
    view: Callable[[Any], Any] = lambda result: result
    kernels: bool | str = True
    simulated: float = 0.3
    differentiable: bool = True
    compiles: bool = True
    arrays: bool = True
    outs: bool = True
    repeats: bool = True
    rows: bool = False
    carries: bool = False
    mistakes: bool = False
    magnitudes: tuple[int, Any, Any] | None = None

    def run(self) -> Any:
        return self.function(*self.args, **self.kwargs)

    def judge(self, result: Any, *, kernel: bool = False) -> None:
        """Raise AssertionError unless the result is what it must be."""
        if self.check is not None:
            self.check(result, kernel)
        if self.expected is None:
            return
        expected = self.expected()
        assert self.bound is not None
        limits = self.kernel_bound if kernel and self.kernel_bound is not None else self.bound
        got, bound = self.view(result), limits(expected)
        pairs = zip(_several(got), _several(expected), _several(bound), strict=True)
        for number, (one, exact, limit) in enumerate(pairs):
            assert_within(one, exact, limit, what=f"result {number}")


class Outside(Exception):
    """What was drawn leaves the conditions of a promise: draw again."""


def spec(*names: str, promise: str, when: str = "") -> Callable[[Callable[..., Trial]], Callable[..., Trial]]:
    """Register how functions are tried: ``fn(draw)``, or ``fn(draw, name)`` where one serves several."""

    def register(fn: Callable[..., Trial]) -> Callable[..., Trial]:
        takes_name = len(inspect.signature(fn).parameters) > 1
        for name in names:
            SPECS[name] = (lambda draw, name=name: fn(draw, name)) if takes_name else fn
            PROMISES[name] = (promise, when)
        return fn

    return register


def public(name: str) -> Callable[..., Any]:
    """The public function of a full name, ``trnblas.gemm``."""
    library, stem = name.split(".")
    return getattr(importlib.import_module(library), stem)


@functools.cache
def functions() -> list[str]:
    """Every public function of every library."""
    found = []
    for library in LIBRARIES:
        module = importlib.import_module(library)
        found += [f"{library}.{name}" for name in module.__all__ if inspect.isfunction(getattr(module, name))]
    return found


def load() -> None:
    """Import the specs of every library that has some."""
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        if path.stem not in ("contexts", "draw", "trial", "oracles", "torch_ways"):
            importlib.import_module(f"tests.campaign.{path.stem}")


def drawn(name: str, seed: int, largest: int = 10**9) -> tuple[Trial, Draw]:
    """The trial of a function with a seed."""
    if name not in SPECS:
        load()
    for turn in range(100):
        draw = Draw((seed, turn), largest)
        try:
            trial = SPECS[name](draw)
            trial.mistakes = name.split(" ")[0] in functions() and trial.function is public(name.split(" ")[0])
            return trial, draw
        except Outside:
            continue
    raise RuntimeError(f"{name}: nothing drawn with seed {seed} and sizes up to {largest} meets its conditions")


def attempt(name: str, seed: int, largest: int = 10**9) -> str | None:
    """Try one drawn call every way it is meant to work; return what went wrong, or ``None``."""
    trial, draw = drawn(name, seed, largest)
    for way in _ways(trial, draw):
        try:
            with warnings.catch_warnings(), _unwritten_is_nan(seed % 2 == 1):
                warnings.simplefilter("ignore")
                _try(trial, way)
        except AssertionError as error:
            return f"{way}: {error}"
        except trnsci.TrnError as error:
            if not _may_refuse(trial, way, error):
                return f"{way}: raised {type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001  a raw error is a finding
            return f"{way}: raised {type(error).__name__}: {error}"
    return None


@contextlib.contextmanager
def _unwritten_is_nan(on: bool) -> Iterator[None]:
    """Fill memory that torch allocates with NaN, which shows where a result depends on what nobody wrote."""
    torch.use_deterministic_algorithms(on, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def _ways(trial: Trial, draw: Draw) -> list[str]:
    ways = ["pytorch"]
    if trial.kernels and draw.chance(trial.simulated):
        ways.append("simulator")
    if draw.chance(0.05):
        ways.append("threads")
    if trial.arrays and _has_tensors(trial) and draw.chance(0.1):
        ways.append("numpy")
    if trial.compiles and draw.chance(0.01):
        ways.append("compiled")
    if trial.differentiable and draw.chance(0.05):
        ways.append("gradient")
    if _inexact(trial) and draw.chance(0.1):
        ways.append("not a number")
    if trial.mistakes and draw.chance(0.1):
        ways.append("mistake")
    if trial.mistakes and _has_tensors(trial):
        ways += [way for way, chance in (("meta", 0.05), ("vmap", 0.03), ("opcheck", 0.003)) if draw.chance(chance)]
        if trial.function.__module__.startswith("trnblas") and draw.chance(0.05):
            ways.append("batch")
    if trial.outs and "out" in inspect.signature(trial.function).parameters and draw.chance(0.1):
        ways.append("out")
    if draw.chance(0.25):
        follows = not (trial.mistakes and _has_tensors(trial))
        context = draw.among(*(name for name in CONTEXTS if name not in DEFAULTS or not follows))
        ways += [f"{way} in {context}" for way in ways if way in ("pytorch", "simulator")]
    if trial.mistakes and draw.chance(0.02):
        ways.append("fork")
    return ways


def _try(trial: Trial, way: str) -> None:
    before = copy.deepcopy((trial.args, trial.kwargs))
    if way == "threads":
        results = _in_threads(trial)
        for result in results:
            trial.judge(result)
    elif way == "numpy":
        converted = Trial(trial.function, *_as_numpy((trial.args, trial.kwargs)))
        trial.judge(converted.run())
    elif way == "compiled":
        torch.compiler.reset()
        trial.judge(torch.compile(trial.function, backend="aot_eager")(*trial.args, **trial.kwargs))
    elif way == "gradient":
        _gradient(trial)
    elif way == "not a number":
        _not_a_number(trial)
    elif way == "out":
        _into_memory(trial)
    elif way == "mistake":
        _mistaken(trial)
    elif way in ("meta", "vmap", "opcheck", "batch"):
        {"meta": on_meta, "vmap": under_vmap, "opcheck": checked, "batch": in_batches}[way](trial)
    elif way == "fork":
        in_fork(lambda: trial.judge(trial.run()))
    elif " in " in way:
        _surrounded(trial, *way.split(" in "))
    else:
        with trnsci.backend(way):
            result = trial.run()
            trial.judge(result, kernel=way == "simulator")
            if trial.repeats:
                assert _same_bits(trial.view(result), trial.view(trial.run())), "a second call gives other bits"
    if way in ("pytorch", "simulator"):
        assert _same_bits(before, (trial.args, trial.kwargs)), "an operand was changed"


def _surrounded(trial: Trial, backend: str, context: str) -> None:
    """The same call inside a context: a result of the same kind, and where the same code runs the same bits."""
    with trnsci.backend(backend):
        plain = trial.run()
        with CONTEXTS[context]():
            result = trial.run()
        trial.judge(result, kernel=backend == "simulator")
    for one, other in zip(_several(trial.view(plain)), _several(trial.view(result)), strict=True):
        if isinstance(one, torch.Tensor):
            assert (one.dtype, one.device) == (other.dtype, other.device), f"{other.dtype} on {other.device}"
    if trial.repeats and context not in OTHER_BITS:
        assert _same_bits(trial.view(plain), trial.view(result)), "other bits than outside"


def _in_threads(trial: Trial) -> list[Any]:
    results: list[Any] = [None] * 6
    errors: list[BaseException] = []

    def work(slot: int) -> None:
        try:
            results[slot] = trial.run()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(slot,)) for slot in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _await_exits(threads)
    if errors:
        raise errors[0]
    return results


def _await_exits(threads: list[threading.Thread]) -> None:
    """Wait until the system's threads have ended, too.

    After Python has joined them, MKL still frees their buffers under a lock. A fork at that moment copies it held, and
    the child waits for it forever, in torch alone as well.
    """
    while any(Path(f"/proc/self/task/{thread.native_id}").exists() for thread in threads):
        time.sleep(1e-3)


def _gradient(trial: Trial) -> None:
    """`gradcheck` in float64 where everything is small; gradcheck's own tolerances are those of differences."""
    leaves = [x for x in _tensors((trial.args, trial.kwargs)) if x.is_floating_point() or x.is_complex()]
    # of sizes that differences of 1e-6 suit, and away from kinks at zero, which a part of a number may have too
    double = (torch.float64, torch.complex128)
    parts = [torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in leaves if x.numel()]
    wide = all(x.dtype in double for x in leaves)
    wide = wide and all(x.abs().max() < 1e3 and x.abs().min() > 1e-3 for x in parts)
    if not leaves or not wide or sum(x.numel() for x in leaves) > 64 or any(x.numel() == 0 for x in leaves):
        return
    leaves = [x.detach().clone().requires_grad_() for x in leaves]

    def function(*tensors: torch.Tensor) -> Any:
        args, kwargs = _replaced((trial.args, trial.kwargs), iter(tensors))
        results = _several(trial.view(trial.function(*args, **kwargs)))
        return tuple(x for x in results if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()))

    if any(result.requires_grad for result in function(*leaves)):
        assert torch.autograd.gradcheck(function, leaves, raise_exception=True)


def _not_a_number(trial: Trial) -> None:
    """One element that is NaN or infinite: a typed error or a result; rows beside it keep their bits."""
    plain = _several(trial.view(trial.run())) if trial.rows else ()
    args, kwargs = copy.deepcopy((trial.args, trial.kwargs))
    operands = _inexact(replace(trial, args=args, kwargs=kwargs))
    which = zlib.crc32(repr([tuple(x.shape) for x in operands]).encode())
    operand = operands[0 if trial.rows else which % len(operands)]
    index = [which % size for size in operand.shape]
    if trial.rows:
        index[0] = 0
    operand[tuple(index)] = float("nan") if trial.carries or which % 3 else float("inf")
    try:
        result = _several(trial.view(trial.function(*args, **kwargs)))
    except trnsci.TrnError:
        return
    if trial.carries and not trial.rows:
        assert any(bool(x.isnan().any()) for x in result), "a NaN does not show in the result"
    for one, other in zip(plain, result, strict=bool(plain)):
        assert _same_bits(one[1:], other[1:]), "a NaN in one row reaches another"


# what no argument is meant to be
WRONG = (None, "no", 1j, [1.0], {}, object(), float("nan"), -7, torch.tensor(1.0 + 1j), np.array(["a"]))


def _mistaken(trial: Trial) -> None:
    """Something else for one argument: a typed error, or an answer where it makes sense."""
    seed = zlib.crc32(repr([tuple(x.shape) for x in _tensors((trial.args, trial.kwargs))]).encode())
    places = [*range(len(trial.args)), *trial.kwargs]
    if not places or not trial.mistakes:
        return
    for turn in range(3):
        place = places[(seed + turn) % len(places)]
        given = trial.args[place] if isinstance(place, int) else trial.kwargs[place]
        choices = (*WRONG, torch.ones(2, 2).to_sparse()) if isinstance(given, torch.Tensor) else WRONG
        wrong = choices[(seed // 97 + turn) % len(choices)]
        args = tuple(wrong if i == place else x for i, x in enumerate(trial.args))
        kwargs = {name: wrong if name == place else x for name, x in trial.kwargs.items()}
        refused(trial.function, args, kwargs, f"{wrong!r} as argument {place}")


def refused(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], what: str) -> None:
    """Call with a mistake: an answer where it makes sense, or a typed error that names the function."""
    try:
        function(*args, **kwargs)
    except trnsci.TrnError as error:
        module, name = function.__module__.partition(".")[0], function.__name__
        if getattr(error, "op", name) not in (name, f"{module}.{name}", f"{module}::{name}"):
            raise AssertionError(f"{what}: {error}") from error
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


def _into_memory(trial: Trial) -> None:
    """Results written to given memory, which holds NaN and whose rows lie apart, are those returned without."""
    plain = trial.run()
    outs = [apart(x) for x in _several(plain)]
    given = outs[0] if isinstance(plain, torch.Tensor) else tuple(outs)
    made = trial.function(*trial.args, **trial.kwargs, out=given)
    trial.judge(made)
    for memory, result in zip(outs, _several(made), strict=True):
        assert result.data_ptr() == memory.data_ptr(), "the result is elsewhere"
        assert _same_bits(memory, result), "what was given does not hold the result"
    shared = tuple(x.new_empty(x.numel() + 3).as_strided(x.shape, [1] * x.ndim) for x in _several(plain))
    _spoilt(trial, 5)
    _spoilt(trial, shared[0] if isinstance(plain, torch.Tensor) else shared)
    for index in range(len(_tensors((trial.args, trial.kwargs)))):
        again = replace(trial, **dict(zip(("args", "kwargs"), copy.deepcopy((trial.args, trial.kwargs)), strict=True)))
        operand = _tensors((again.args, again.kwargs))[index]
        _spoilt(again, operand if isinstance(plain, torch.Tensor) else (operand, *outs[1:]))


def _spoilt(trial: Trial, out: Any) -> None:
    """Memory that holds no result, because elements or operands share it: a typed error, or right all the same."""
    try:
        made = trial.function(*trial.args, **trial.kwargs, out=out)
    except trnsci.TrnError:
        return
    trial.judge(made)


def apart(like: torch.Tensor) -> torch.Tensor:
    """Memory for a result: every second element of its last axis, filled with what is no result."""
    if like.ndim == 0:
        return torch.full_like(like, 7)
    nothing = float("nan") if like.is_floating_point() or like.is_complex() else 7
    return like.new_full((*like.shape[:-1], 2 * like.shape[-1]), nothing)[..., ::2]


def _inexact(trial: Trial) -> list[torch.Tensor]:
    """Operands that can hold a NaN."""
    tensors = _tensors((trial.args, trial.kwargs))
    return [x for x in tensors if x.numel() and (x.is_floating_point() or x.is_complex())]


def _may_refuse(trial: Trial, way: str, error: Exception) -> bool:
    kernels = trial.kernels == "maybe" and way.startswith("simulator")
    if way in ("meta", "vmap", "batch"):
        return True
    return isinstance(error, trnsci.UnsupportedError) and (kernels or way == "compiled")


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [x for item in value for x in _tensors(item)]
    if isinstance(value, dict):
        return _tensors(list(value.values()))
    return []


def _has_tensors(trial: Trial) -> bool:
    return bool(_tensors((trial.args, trial.kwargs)))


def _replaced(value: Any, tensors: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return next(tensors) if value.is_floating_point() or value.is_complex() else value
    if isinstance(value, tuple | list):
        return type(value)(_replaced(item, tensors) for item in value)
    if isinstance(value, dict):
        return {key: _replaced(item, tensors) for key, item in value.items()}
    return value


def _as_numpy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return trnsci.arrays.to_numpy(value)
    if isinstance(value, tuple | list):
        return type(value)(_as_numpy(item) for item in value)
    if isinstance(value, dict):
        return {key: _as_numpy(item) for key, item in value.items()}
    return value


def _same_bits(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        if one.dtype.itemsize == 1:
            return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
        return np.array_equal(*(trnsci.arrays.to_numpy(x.contiguous()) for x in (one, other)), equal_nan=True)
    if isinstance(one, tuple | list):
        return all(map(_same_bits, one, other))
    if isinstance(one, dict):
        return all(_same_bits(one[key], other[key]) for key in one)
    return True
