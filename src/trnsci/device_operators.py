"""Operators that Neuron's PyTorch lacks, given to the device: programs there call them as they call any other.

Neuron registers Trainium with torch as the device ``neuron`` (torch's key ``PrivateUse1``), or as an XLA device (key
``XLA``). Complex numbers do not exist there: results are `PlanarTensor`. Gradients are torch's own, made of the same
operators.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from trnsci import neuron
from trnsci.analogs import Different, operators
from trnsci.backends import backend, get_backend
from trnsci.errors import BackendUnavailable, TrnError
from trnsci.ledger import Substitution, record
from trnsci.neuron_operators import register_compiled_operators
from trnsci.planar import PlanarTensor, on_host, parts, transform
from trnsci.torch_internals import has_kernel

KEYS = {"neuron": "PrivateUse1", "xla": "XLA"}
# what the device's own library computes
_THEIRS = frozenset(("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "vdot", "scaled_dot_product_attention"))
# results that are complex for real operands
_COMPLEX = ("linalg_eig", "_linalg_eigvals")
# operators that an op of the suite computes here and now, and may call itself
_RUNNING: ContextVar[frozenset[str]] = ContextVar("operators running", default=frozenset())


def register_operators() -> tuple[str, ...]:
    """Give the Neuron device of this machine the transforms and linear algebra it lacks; return their names.

    Done once in a process; ``torch.fft``, ``torch.linalg`` and their gradients then work on tensors of the device. What
    no kernel takes is computed on the host, and the ledger says so.

    Raises:
        BackendUnavailable: there is no Neuron device, or it is not torch's.
    """
    device = neuron.device()
    if device is None or device.kind not in KEYS:
        reason = (
            neuron.why_no_device() or f"the device is a {device.kind if device else 'ghost'}, which torch does not know"
        )
        raise BackendUnavailable(backend="nki", reason=reason, how="Run it on a Trn1, Trn2 or Trn3 instance")
    register_compiled_operators()
    return _register_key(KEYS[device.kind])[1]


@functools.cache
def _register_key(key: str) -> tuple[Any, tuple[str, ...]]:
    running = {name for name, analog in operators().items() if analog.arguments and not analog.random}
    names = [name for name in sorted(running) if _lacking(name)]
    # taken over from the device's own library, which has them, if at all, on the host
    library = torch.library.Library("aten", "IMPL", key)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        for name in (*names, *_COMPLEX):
            library.impl(name, _kernel(name), allow_override=True)
        for name, make in _PLANES.items():
            library.impl(name, make, allow_override=True)
    return library, tuple(names)


def _lacking(name: str) -> bool:
    """Return whether the device lacks an operator that torch does not make of others, which have the gradient then."""
    composite = has_kernel(f"aten::{name}", "CompositeImplicitAutograd")
    return name not in _THEIRS and name not in _COMPLEX and not composite


def _kernel(name: str) -> Callable[..., Any]:
    operator, analog = getattr(torch.ops.aten, name).default, operators().get(name)
    if analog is not None and analog.complete is not None:
        # below torch's gradients, which read all of a result
        analog = replace(analog, result=analog.complete)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if name in _RUNNING.get():
            why = "an op of the suite computes it by torch's operator"
        elif name in _COMPLEX or analog is None:
            why = "its result is complex, and no kernel has it as planes"
        else:
            outside = _RUNNING.set(_RUNNING.get() | {name})
            try:
                if analog.planes:
                    result = transform(name, args, kwargs)
                    if result is not NotImplemented:
                        return result
                    why = f"no kernel of {analog.name} takes it"
                else:
                    with _on_device(analog.name.partition(".")[0]):
                        return analog.run(args, kwargs)[0]
            except (Different, TrnError) as error:
                why = str(error)
            finally:
                _RUNNING.reset(outside)
        record(Substitution(f"torch.{name}", "", f"computed on the host: {why}"))
        return on_host(operator, args, kwargs)

    return kernel


def _on_device(library: str) -> Any:
    """Run on the device what is in its memory, unless a backend was chosen."""
    return backend("nki" if get_backend(library) == "auto" else get_backend(library), strict=False)


# where complex numbers begin: from real ones on the device
_PLANES: dict[str, Callable[..., Any]] = {
    "complex": PlanarTensor,
    "polar": lambda size, angle: PlanarTensor(size * torch.cos(angle), size * torch.sin(angle)),
    "view_as_complex": lambda x: PlanarTensor(x[..., 0].contiguous(), x[..., 1].contiguous()),
}


def _fill_planes(real: Any = 0.0, imag: Any = 0.0) -> Callable[..., Any]:
    """Return a rule that fills a complex tensor on the device, and returns ``NotImplemented`` for any other."""

    def make(size: Any, *rest: Any, dtype: Any = None, device: Any = None, **options: Any) -> Any:
        if dtype is None or not dtype.is_complex or device is None or torch.device(device).type not in KEYS:
            return NotImplemented
        plane = functools.partial(torch.full, size, dtype=dtype.to_real(), device=device)
        return PlanarTensor(plane(real), plane(imag))

    return make


def _full(size: Any, value: Any, *, dtype: Any = None, **options: Any) -> Any:
    if dtype is None and isinstance(value, complex):
        dtype = torch.complex64 if torch.get_default_dtype() == torch.float32 else torch.complex128
    number = complex(value)
    return _fill_planes(number.real, number.imag)(size, dtype=dtype, **options)


def _move_planes(x: Tensor, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return a tensor that becomes complex on the device, or moves there; ``NotImplemented`` for any other."""
    wanted, where = dtype or x.dtype, x.device if device is None else torch.device(device)
    if not wanted.is_complex or where.type not in KEYS or isinstance(x, PlanarTensor):
        return NotImplemented
    return _Move.apply(x, where, wanted)  # type: ignore[no-untyped-call]


class _Move(torch.autograd.Function):
    """To the device as planes, and the gradient back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, device: torch.device, dtype: torch.dtype) -> PlanarTensor:
        ctx.like = x.device, x.dtype
        if x.is_complex():
            return PlanarTensor(*(part.to(device) for part in parts(x.to(dtype))))
        real = x.to(device, dtype.to_real())
        return PlanarTensor(real, torch.zeros_like(real))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
        device, dtype = ctx.like
        return (grad if dtype.is_complex else grad.real_plane).to(device, dtype), None, None


# where complex tensors on the device begin inside a block, besides results of operators on the device
BEGINNINGS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("empty.memory_format", "empty_strided", "zeros"), _fill_planes()),
    "ones": _fill_planes(1.0),
    "full": _full,
    "scalar_tensor": lambda value, **options: _full((), value, **options),
    "_to_copy": _move_planes,
}
