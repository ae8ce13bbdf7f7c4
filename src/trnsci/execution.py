"""Run a call by the implementation decided on, and give its result the memory and strides its fake promised."""

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnsci import cuda, host
from trnsci.kernel_launcher import Launcher, using
from trnsci.memory import capacity_error
from trnsci.specs import tensors_in, thaw
from trnsci.torch_internals import DispatchKey, DispatchKeySet, exclude_keys, excluded_keys, force_keys, included_keys


class Decision(NamedTuple):
    """The one implementation that runs a call, on which backend, and why."""

    backend: str
    implementation: str
    reason: str


def copy_out(result: Any, out: Tensor | None) -> Any:
    """Return a result, or ``out`` with the result copied into it."""
    return result if out is None else out.copy_(result)


def lazy_conjugates() -> AbstractContextManager[Any]:
    """Let implementations read lazy conjugates and negatives right, which compiled programs switch off around ops."""
    included, excluded = included_keys(), excluded_keys()
    lazy = [key for key in (DispatchKey.Conjugate, DispatchKey.Negative) if excluded.has(key)]
    if not lazy:
        return nullcontext()
    for key in lazy:
        excluded = excluded.remove(key)
    return force_keys(included, excluded)


_VIEWS = DispatchKeySet(DispatchKey.ADInplaceOrView)


def unrecorded_views() -> AbstractContextManager[Any]:
    """Let results be tensors of their own, which a program may change in place, though made as parts of others."""
    return exclude_keys(_VIEWS)


def detached_views(result: Any, operands: Sequence[Any]) -> Any:
    """Return results that are no views, with their gradients; memory of an operand's or of NumPy's is copied."""
    if isinstance(result, tuple):
        parts = [detached_views(part, operands) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    if type(result) is not Tensor or result.layout != torch.strided:
        return result
    storage = result.untyped_storage()
    # memory of an array of NumPy's cannot change its size, as that of every result of torch's can
    if not storage.resizable() or any(result is operand for operand in operands):
        return result.clone()
    if not result._is_view():
        return result
    memory = storage.data_ptr()
    others = (x.untyped_storage().data_ptr() for x in tensors_in(operands) if x.layout == torch.strided)
    # a gradient may read the memory, and would not see that it was changed
    if result.requires_grad or (memory != 0 and memory in others):
        return result.clone()
    with unrecorded_views():
        return result.view_as(result)


# Typed: calls of two ops with the same fields are equal as tuples.
@functools.lru_cache(maxsize=1024, typed=True)
def promise(call: Any) -> Any:
    """Return the fake of a frozen call: compiled programs make the same few calls over and over."""
    return thaw(call).fake()


def as_promised(result: Any, promised: Any, args: tuple[Any, ...]) -> Any:
    """Give a result the strides of the fake, memory of its own and its conjugate: traced programs rely on them."""
    if isinstance(result, list | tuple):
        return type(promised)(as_promised(*pair, args) for pair in zip(result, promised, strict=True))
    memory = result.untyped_storage().data_ptr()
    shared = memory != 0 and any(memory == x.untyped_storage().data_ptr() for x in tensors_in(args))
    if shared or result.is_conj() or result.is_neg() or result.stride() != promised.stride():
        return torch.empty_strided(result.shape, promised.stride(), dtype=result.dtype, device=result.device).copy_(
            result
        )
    return result


def compute_call(call: Any, decision: Decision, used: Launcher | None, out: Tensor | None) -> Any:
    """Return the result of the implementation decided on; nothing is tried after it has started."""
    if used is not None:
        with using(used):
            return copy_out(detached_views(call.nki(), call), out)
    name = decision.implementation
    try:
        if out is None:
            result = getattr(call, name)()
        elif (into := writer(call, name)) is None:
            result = out.copy_(getattr(call, name)())
        else:
            into(out)
            result = out
    except (MemoryError, RuntimeError) as error:
        refused = capacity_error(type(call).__name__, error) or host.missing_rule(call, error)
        if refused is None:
            raise
        raise refused from error
    if name == "cuda":
        cuda.note_compiled(call)
    return result


def writer(call: Any, implementation: str) -> Callable[[Tensor], None] | None:
    """Return the method by which an implementation writes into given memory, if it has one."""
    name = "into" if implementation == "pytorch" else f"{implementation}_into"
    method: Callable[[Tensor], None] | None = getattr(call, name, None)
    return method
