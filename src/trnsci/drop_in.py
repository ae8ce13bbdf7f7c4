"""Programs of others, unmodified: inside a block, calls of torch, NumPy and SciPy that have an analog run here.

torch's dispatcher looks at a key of its own before gradients are recorded. Inside the block that key is on for this
thread, and the operators of `trnsci.analogs` have a kernel there; every other operator falls through at no cost.
Functions of NumPy and SciPy are replaced in their modules while some block is open. What ours would answer otherwise
is left to the library that was called, with the reason.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from trnsci import config, neuron
from trnsci.analogs import ANALOGS, FUNCTIONS, PLAIN, RANDOM, Analog, Different
from trnsci.analogs.replacing import observed
from trnsci.errors import TrnError
from trnsci.ledger import Substitution, record
from trnsci.specs import is_resident, tensors_in

# torch keeps this key for experiments with modes; nothing of its own listens there
_KEY = "TESTING_ONLY_GenericMode"


class Substitutions:
    """What ran here instead, and what was left alone and why, with counts."""

    def __init__(self, *, random: bool, unreadable: tuple[type[Exception], ...] = ()) -> None:
        self.random = random
        # what a tracer raises where values are looked at; there operands are its own tensors
        self.unreadable = unreadable
        self.substituted: Counter[tuple[str, str]] = Counter()
        self.left_alone: Counter[tuple[str, str]] = Counter()

    def __str__(self) -> str:
        lines = [f"{theirs} -> {ours}: {n}" for (theirs, ours), n in sorted(self.substituted.items())]
        lines += [f"{theirs} left alone: {why}: {n}" for (theirs, why), n in sorted(self.left_alone.items())]
        return "\n".join(lines) or "nothing was called that has an analog"


_active: ContextVar[Substitutions | None] = ContextVar("trnsci.drop_in", default=None)


@contextmanager
def drop_in(*, random: bool = False) -> Iterator[Substitutions]:
    """Run calls of torch, NumPy and SciPy that have an analog through the suite, inside the block and in this thread.

    torch's products, transforms, ``torch.linalg`` and attention are recognised however they are spelled; functions of
    ``numpy.fft``, ``numpy.linalg``, ``scipy.fft``, ``scipy.linalg`` and ``scipy.sparse.linalg`` where they are called
    through their modules or imported inside the block. Results keep type, dtype, device, shape and gradient. A call
    whose options mean something else here is left alone. Where work runs is decided as for the suite's own functions:
    ``trnsci.backend`` and the settings apply.

    Args:
        random: also draw ``torch.rand``, ``randn``, ``uniform_`` and ``normal_`` from the streams of `trnrand`.

    Example:
        >>> with trnsci.drop_in() as seen:
        ...     y = model(x)
        >>> print(seen)
    """
    if neuron.device() is not None:
        _register_planes()
    seen = Substitutions(random=random)
    with observed(_take), tracing(seen):
        yield seen


@contextmanager
def tracing(seen: Substitutions) -> Iterator[None]:
    """Let torch's operators with an analog be ours, also in the graph of a tracer."""
    _register()
    if seen.random:
        _register_random()
    token = _active.set(seen)
    try:
        with torch._C._IncludeDispatchKeyGuard(_key()):
            yield
    finally:
        _active.reset(token)


def outside() -> Any:
    """Return a block in which nothing of torch's is substituted."""
    return torch._C._ExcludeDispatchKeyGuard(_keys())


@functools.cache
def _key() -> Any:
    return torch._C._dispatch_key_parse(_KEY)


@functools.cache
def _keys() -> Any:
    return torch._C.DispatchKeySet(_key())


@functools.cache
def _register() -> tuple[Any, ...]:
    """Give the operators with an analog a kernel under the key, once. The libraries live as long as the process."""
    through = torch.library.Library("_", "IMPL", _KEY)
    through.fallback(torch.library.fallthrough_kernel)
    # operators that take functions have a list of their own of keys they do not listen at
    torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(_key())
    for operator in torch._ops._higher_order_ops.values():
        operator.fallthrough(_key())
    kernels = {name: _kernel(name, analog) for name, analog in _substituted().items()}
    kernels |= {f"{name}.{overload}": _left_alone(name, overload) for name in kernels for overload in _written(name)}
    return through, _library(kernels | {name: _left_alone(name, "default") for name in _IN_PLACE})


# what changes an operand; torch's own memory is not ours to write
_IN_PLACE = ("addmm_", "baddbmm_", "addmv_")


def _substituted() -> dict[str, Analog | None]:
    """Operators by name, with their analog; ``None`` for those that sparse operands alone have."""
    runs = {name: analog for name, analog in ANALOGS.items() if analog.runs and analog.arguments is not None}
    sparse = {name.removesuffix(_SPARSE): None for name in runs if name.endswith(_SPARSE)}
    return {**sparse, **{name: analog for name, analog in runs.items() if not name.endswith(_SPARSE)}}


@functools.cache
def _register_random() -> Any:
    """Register kernels of draws at the first block that asks for ours, so that other programs pay nothing."""
    return _library({name: _kernel(name, analog) for name, analog in RANDOM.items()})


def _library(kernels: Mapping[str, Callable[..., Any]]) -> Any:
    ours = torch.library.Library("aten", "IMPL", _KEY)
    for name, kernel in kernels.items():
        ours.impl(name, kernel)
    return ours


def _written(name: str) -> list[str]:
    """Return the overloads of an operator that write into given memory."""
    packet = getattr(torch.ops.aten, name)
    arguments = {overload: getattr(packet, overload)._schema.arguments for overload in packet.overloads()}
    return [overload for overload, given in arguments.items() if any(arg.is_out for arg in given)]


def _left_alone(name: str, overload: str) -> Callable[..., Any]:
    operator = getattr(getattr(torch.ops.aten, name), overload)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with outside():
            seen = _active.get()
            if seen is not None and not _reason(seen, name, args):
                _note(seen, f"torch.{name}", "", "it writes into memory it is given")
            return operator(*args, **kwargs)

    return kernel


@functools.cache
def _register_planes() -> Any:
    """Let complex tensors on a Neuron device be planes, once. Machines without one do not pay for it."""
    from trnsci.device_operators import BEGINNINGS, KEYS, register_operators

    device = neuron.device()
    if device is None or device.kind not in KEYS:
        return None
    register_operators()
    return _library({name: _beginning(name, begin) for name, begin in BEGINNINGS.items()})


def _beginning(name: str, begin: Callable[..., Any]) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with outside():
            if name == "_to_copy" and not isinstance(args[0], torch.Tensor):
                # torch hands a tensor that stands for a number on as the number
                args = (torch.tensor(args[0]),)
            result = begin(*args, **kwargs)
            return operator(*args, **kwargs) if result is NotImplemented else result

    return kernel


def _kernel(name: str, dense: Analog | None) -> Callable[..., Any]:
    operator, sparse = getattr(torch.ops.aten, name).default, ANALOGS.get(f"{name}{_SPARSE}")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        # what runs in here, ours or theirs, calls torch itself
        with outside():
            seen = _active.get()
            why = _reason(seen, name, args)
            analog = dense
            if why == _NO_DENSE and sparse is not None:
                why, analog = "", sparse
            if seen is not None and analog is not None and not why:
                try:
                    # complex numbers on a device begin below torch's gradients, as planes
                    planes = name.startswith("_fft") and any(is_resident(x) for x in tensors_in(args))
                    result = (operator if planes else analog)(*args, **kwargs)
                except (Different, TrnError) as error:
                    why = str(error)
                except seen.unreadable:
                    why = "what ours does depends on values, which a compiled graph does not have"
                else:
                    _note(seen, f"torch.{name}", analog.named(*args, **kwargs), "")
                    return result
            if seen is not None and why != _OWN:
                _note(seen, f"torch.{name}", "", why or "no operand is sparse")
            if name not in _COMPOSITE:
                return operator(*args, **kwargs)
        return operator.decompose(*args, **kwargs)

    return kernel


# left alone, they are transforms that may be ours
_COMPOSITE = ("stft", "istft")


def _take(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make a program's call of NumPy or SciPy here, or leave it alone."""
    seen = _active.get()
    if seen is None:
        return function(*args, **kwargs)
    # what runs in here, ours or theirs, calls NumPy itself
    token = _active.set(None)
    try:
        result = FUNCTIONS[name](*args, **kwargs)
    except (Different, TrnError, TypeError) as error:
        _note(seen, name, "", str(error))
        return function(*args, **kwargs)
    finally:
        _active.reset(token)
    _note(seen, name, FUNCTIONS[name].named(*args, **kwargs), "")
    return result


_SPARSE, _NO_DENSE = " (sparse)", "an operand is sparse"
_OWN = "called by the suite, or traced"


def _reason(seen: Substitutions | None, name: str, args: Any) -> str:
    """Return why a call is torch's; empty when it may be ours."""
    if seen is None:
        return "outside the block"
    caller = sys._getframe(2).f_globals.get("__name__", "")
    # planes pass on what a program calls with them
    if caller.partition(".")[0] in config.PACKAGES and caller != "trnsci.planar":
        return _OWN
    if name in RANDOM:
        return "" if seen.random else "random numbers stay torch's unless random=True"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "inside a transformation of torch.func"
    for tensor in tensors_in(args):
        if type(tensor) not in PLAIN and not seen.unreadable:
            planar = getattr(tensor, "is_planar", False)
            if planar and name.startswith("_fft"):
                continue
            # torch following a program of its own compiler's is no call of the program's; planes see to themselves
            silent = planar or type(tensor).__module__.startswith("torch._subclasses")
            return _OWN if silent else f"an operand is a {type(tensor).__name__}"
        if tensor.layout != torch.strided:
            return _NO_DENSE
    return ""


def _note(seen: Substitutions, theirs: str, ours: str, why: str) -> None:
    (seen.substituted if ours else seen.left_alone)[theirs, ours or why] += 1
    record(Substitution(theirs, ours, why))
