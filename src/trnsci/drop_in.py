"""Programs of others, unmodified: inside a block, calls of torch, NumPy and SciPy that have an analog run here.

torch's dispatcher looks at a key of its own before gradients are recorded. Inside the block that key is on for this
thread, and the operators that a library replaces have a kernel there; every other operator falls through at no cost.
Functions of NumPy and SciPy are replaced in their modules while some block is open. What ours would answer otherwise
is left to the library that was called, with the reason.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from trnsci import backends, check, neuron
from trnsci.analogs import PLAIN, Analog, Different, operators
from trnsci.analogs.replacing import replace_functions
from trnsci.drop_in_arrays import Transforms, make_call
from trnsci.errors import ArgumentError, TrnError
from trnsci.execution import detached_views
from trnsci.libraries import packages
from trnsci.specs import is_resident, tensors_in
from trnsci.substitutions import ACTIVE, KEY, RANDOM, SMALL, Substitutions, dispatch_key, dispatch_keys, outside
from trnsci.torch_internals import exclude_keys, higher_order, include_key, peek_interpreter_stack


@contextmanager
def drop_in(*, random: bool = False, min_size: int | None = None) -> Iterator[Substitutions]:
    """Run calls of torch, NumPy and SciPy that have an analog through the suite, inside the block and in this thread.

    torch's products, transforms, ``torch.linalg`` and attention are recognised however they are spelled; functions
    of ``numpy.fft``, ``numpy.linalg``, ``scipy.linalg`` and ``scipy.sparse.linalg`` where they are called through
    their modules or imported inside the block, those of ``scipy.fft`` wherever they were imported. Results keep
    type, dtype, device, shape and gradient. A call whose options mean something else here is left alone. Where work
    runs is decided as for the suite's own functions: ``trnsci.backend`` and the settings apply.

    Args:
        random: also draw ``torch.rand``, ``randn``, ``uniform_`` and ``normal_`` from the streams of the suite.
        min_size: elements of the largest operand from which a call is substituted. By default those from which ours
            could pay, 16,384 for most functions; kernels that a setting or `trnsci.backend` asks for by name run at
            every size.

    Example:
        >>> with trnsci.drop_in() as seen:
        ...     y = model(x)
        >>> print(seen)
    """
    if neuron.device() is not None:
        _register_planes()
    if min_size is not None:
        check.integer("drop_in", "min_size", min_size, 0)
    seen = Substitutions(random=random, min_size=min_size)
    # SciPy's transforms take long to import
    from scipy.fft import set_backend

    with replace_functions(make_call), set_backend(Transforms), tracing(seen):
        yield seen


@contextmanager
def tracing(seen: Substitutions) -> Iterator[None]:
    """Let torch's operators with an analog be ours, also in the graph of a tracer."""
    _register()
    if seen.random:
        _register_random()
    token = ACTIVE.set(seen)
    try:
        with include_key(dispatch_key()):
            yield
    finally:
        ACTIVE.reset(token)


@functools.cache
def _register() -> tuple[Any, ...]:
    """Give the operators with an analog a kernel under the key, once. The libraries live as long as the process."""
    dense, sparse = _running(random=False), _running(random=False, sparse=True)
    kernels = {name: _kernel(name, dense.get(name), sparse.get(name)) for name in dense | sparse}
    # torch's own memory is not ours to write
    kernels |= {writing: _left_alone(writing) for name in tuple(kernels) for writing in _writing(name)}
    through = torch.library.Library("_", "IMPL", KEY)
    through.fallback(torch.library.fallthrough_kernel)
    # operators that take functions have a list of their own of keys they do not listen at
    higher_order._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(dispatch_key())
    for operator in higher_order._higher_order_ops.values():
        operator.fallthrough(dispatch_key())
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
    ours = torch.library.Library("aten", "IMPL", KEY)
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
            seen = ACTIVE.get()
            if seen is not None and not _reason(seen, None, args):
                seen.note(shown, "", "it writes into memory it is given")
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
    decomposes = dense is not None and dense.decomposes
    known = dense or sparse
    assert known is not None
    library, declared = backends.library(known.name.partition(".")[0]), 0 if known.random else known.least
    small, original = (shown, SMALL), operator._op
    keys, guard, Tensor = dispatch_keys(), exclude_keys, torch.Tensor

    def kernel(*args: Any, **kwargs: Any) -> Any:
        seen = ACTIVE.get()
        # what runs in here, ours or theirs, calls torch itself
        with guard(keys):
            if seen is not None:
                least = seen.least(declared, library)
                # sizes of a compiler's may be symbols, which are not compared where every size is taken
                large = least == 0
                for value in args if not large else ():
                    large = large or (isinstance(value, Tensor) and value.numel() >= least)
                if large:
                    result = _take(seen, shown, dense, sparse, operator, args, kwargs)
                    if result is not NotImplemented:
                        return result
                elif _CALLS[sys._getframe(1).f_globals.get("__name__", "")]:
                    seen.left_alone[small] += 1
            if not decomposes:
                return original(*args, **kwargs)
        # left alone, it is made of operators that may be ours
        return operator.decompose(*args, **kwargs)

    return kernel


def _take(
    seen: Substitutions,
    shown: str,
    dense: Analog | None,
    sparse: Analog | None,
    operator: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Make a program's call of torch here, or leave it alone."""
    why, analog = _reason(seen, dense, args), dense
    if _IN_SINGLE.match(shown) and any(x.dtype in _HALF for x in tensors_in(args)):
        why = why or "torch refuses half precision"
    if why == _NO_DENSE and sparse is not None:
        why, analog = "", sparse
    if analog is not None and not why:
        try:
            if analog.planes and any(is_resident(x) for x in tensors_in(args)):
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
            seen.note(shown, ours, "")
            return result
    if why != _OWN:
        seen.note(shown, "", why or "no operand is sparse")
    return NotImplemented


class _Callers(dict[str, bool]):
    """Whether calls made in a module are a program's own, by the module's name."""

    def __missing__(self, module: str) -> bool:
        # planes pass on what a program calls with them
        self[module] = module.partition(".")[0] not in packages() or module == "trnsci.planar"
        return self[module]


_CALLS = _Callers()
_HALF = (torch.float16, torch.bfloat16)
# operators that torch has in single and double precision alone
_IN_SINGLE = re.compile(r"torch\.(_?linalg_(?!matrix_exp)|cholesky|triangular|ormqr|geqrf|_fft|i?stft|sparse_sampled)")
_NO_DENSE = "an operand is sparse"
_OWN = "called by the suite, or traced"


def _reason(seen: Substitutions, analog: Analog | None, args: Any) -> str:
    """Return why a call is torch's; empty when it may be ours, by the analog for dense operands if there is one."""
    if not _CALLS[sys._getframe(3).f_globals.get("__name__", "")]:
        return _OWN
    if analog is not None and analog.random:
        return "" if seen.random else RANDOM
    if peek_interpreter_stack() is not None:
        return "inside a transformation of torch.func"
    for value in args:
        # most operands, without the walk through lists of them
        if type(value) in PLAIN and value.layout is torch.strided:
            continue
        for tensor in tensors_in(value):
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
