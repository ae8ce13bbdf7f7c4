"""Programs of others, unmodified: inside a block, calls of torch, NumPy and SciPy that have an analog run here.

torch's dispatcher looks at a key of its own before gradients are recorded. Inside the block that key is on for this
thread, and the operators that a library replaces have a kernel there; every other operator falls through at no cost.
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

from trnsci import neuron
from trnsci.analogs import PLAIN, Analog, Different, functions, operators
from trnsci.analogs.replacing import observed
from trnsci.errors import ArgumentError, TrnError
from trnsci.execution import detached_views
from trnsci.ledger import Substitution, record
from trnsci.libraries import packages
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
        random: also draw ``torch.rand``, ``randn``, ``uniform_`` and ``normal_`` from the streams of the suite.

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
    dense, sparse = _running(random=False), _running(random=False, sparse=True)
    kernels = {name: _kernel(name, dense.get(name), sparse.get(name)) for name in dense | sparse}
    # torch's own memory is not ours to write
    kernels |= {writing: _left_alone(writing) for name in tuple(kernels) for writing in _writing(name)}
    through = torch.library.Library("_", "IMPL", _KEY)
    through.fallback(torch.library.fallthrough_kernel)
    # operators that take functions have a list of their own of keys they do not listen at
    torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(_key())
    for operator in torch._ops._higher_order_ops.values():
        operator.fallthrough(_key())
    return through, _library(kernels)


def _running(*, random: bool, sparse: bool = False) -> dict[str, Analog]:
    """Return the analogs whose calls can be substituted, by operator."""
    known = operators(sparse=sparse).items()
    return {name: analog for name, analog in known if analog.arguments and analog.random is random}


@functools.cache
def _register_random() -> Any:
    """Register kernels of draws at the first block that asks for ours, so that other programs pay nothing."""
    return _library({name: _kernel(name, analog, None) for name, analog in _running(random=True).items()})


def _library(kernels: Mapping[str, Callable[..., Any]]) -> Any:
    ours = torch.library.Library("aten", "IMPL", _KEY)
    for name, kernel in kernels.items():
        ours.impl(name, kernel)
    return ours


def _operator(name: str) -> Any:
    """Return an operator of torch by its name, and that of its overload where it is not the default."""
    packet, _, overload = name.partition(".")
    try:
        return getattr(getattr(torch.ops.aten, packet), overload or "default")
    except AttributeError:
        raise ArgumentError("drop_in", "operator", f"aten::{name}", f"one that torch {torch.__version__} has") from None


def _writing(name: str) -> list[str]:
    """Return the forms of an operator that write into given memory, and that change an operand."""
    packet = _operator(name).overloadpacket
    arguments = {overload: getattr(packet, overload)._schema.arguments for overload in packet.overloads()}
    written = [overload for overload, given in arguments.items() if any(arg.is_out for arg in given)]
    in_place = f"{packet.__name__}_"
    return [f"{packet.__name__}.{overload}" for overload in written] + [in_place] * hasattr(torch.ops.aten, in_place)


def _left_alone(name: str) -> Callable[..., Any]:
    operator, shown = _operator(name), f"torch.{name.partition('.')[0]}"

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with outside():
            seen = _active.get()
            if seen is not None and not _reason(seen, None, args):
                _note(seen, shown, "", "it writes into memory it is given")
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
    operator = _operator(name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with outside():
            if name == "_to_copy" and not isinstance(args[0], torch.Tensor):
                # torch hands a tensor that stands for a number on as the number
                args = (torch.tensor(args[0], device="cpu"),)
            result = begin(*args, **kwargs)
            return operator(*args, **kwargs) if result is NotImplemented else result

    return kernel


def _kernel(name: str, dense: Analog | None, sparse: Analog | None) -> Callable[..., Any]:
    operator, shown = _operator(name), f"torch.{name}"
    decomposes, planes = dense is not None and dense.decomposes, dense is not None and dense.planes

    def kernel(*args: Any, **kwargs: Any) -> Any:
        # what runs in here, ours or theirs, calls torch itself
        with outside():
            seen = _active.get()
            why = _reason(seen, dense, args)
            analog = dense
            if why == _NO_DENSE and sparse is not None:
                why, analog = "", sparse
            if seen is not None and analog is not None and not why:
                try:
                    if planes and any(is_resident(x) for x in tensors_in(args)):
                        # complex numbers on a device begin below torch's gradients, as planes
                        result, ours = operator(*args, **kwargs), analog.name
                    else:
                        result, ours = analog.run(args, kwargs)
                        result = detached_views(result, args)
                except (Different, TrnError) as error:
                    why = str(error)
                except seen.unreadable:
                    why = "what ours does depends on values, which a compiled graph does not have"
                else:
                    _note(seen, shown, ours, "")
                    return result
            if seen is not None and why != _OWN:
                _note(seen, shown, "", why or "no operand is sparse")
            if not decomposes:
                return operator(*args, **kwargs)
        # left alone, it is made of operators that may be ours
        return operator.decompose(*args, **kwargs)

    return kernel


def _take(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make a program's call of NumPy or SciPy here, or leave it alone."""
    seen = _active.get()
    if seen is None:
        return function(*args, **kwargs)
    # what runs in here, ours or theirs, calls NumPy itself
    token = _active.set(None)
    try:
        result, ours = functions()[name].run(args, kwargs)
    except (Different, TrnError, TypeError) as error:
        _note(seen, name, "", str(error))
        return function(*args, **kwargs)
    finally:
        _active.reset(token)
    _note(seen, name, ours, "")
    return result


_NO_DENSE = "an operand is sparse"
_OWN = "called by the suite, or traced"


def _reason(seen: Substitutions | None, analog: Analog | None, args: Any) -> str:
    """Return why a call is torch's; empty when it may be ours, by the analog for dense operands if there is one."""
    if seen is None:
        return "outside the block"
    caller = sys._getframe(2).f_globals.get("__name__", "")
    # planes pass on what a program calls with them
    if caller.partition(".")[0] in packages() and caller != "trnsci.planar":
        return _OWN
    if analog is not None and analog.random:
        return "" if seen.random else "random numbers stay torch's unless random=True"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "inside a transformation of torch.func"
    for tensor in tensors_in(args):
        if type(tensor) not in PLAIN and not seen.unreadable:
            planar = getattr(tensor, "is_planar", False)
            if planar and analog is not None and analog.planes:
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
