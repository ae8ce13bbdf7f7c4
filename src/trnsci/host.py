"""Which tensors code outside torch may touch: the one rule for every call of NumPy, SciPy and our own extension."""

import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from trnsci.errors import NotConverged, TrnError, UnsupportedError
from trnsci.specs import TensorSpec
from trnsci.torch_internals import (
    current_modes,
    dispatch_modes,
    get_unwrapped,
    included_keys,
    is_functorch_wrapped_tensor,
    parse_key,
    peek_interpreter_stack,
)

PLAIN = frozenset((Tensor, Parameter, TensorSpec))
# active where torch.autograd batches derivatives: is_grads_batched of grad, vectorize of jacobian
_OLDER_VMAP = parse_key("VmapMode")


@functools.cache
def processor(field: str) -> str:
    """Return what Linux says of the processor, its ``vendor_id`` or ``model name``; nothing elsewhere."""
    with contextlib.suppress(OSError):
        if match := re.search(rf"^{field}\s*: (.+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE):
            return match[1]
    return ""


def refusal(tensors: Iterable[Any], *, recorded: bool = False) -> str | None:
    """Return why code outside torch may not compute on these tensors here and now, or ``None``.

    Args:
        tensors: what it would read.
        recorded: whether gradients may be wanted, because the caller attaches them.
    """
    grad = not recorded and torch.is_grad_enabled()
    for x in tensors:
        plain = type(x) in PLAIN and x.is_cpu and x.layout is torch.strided
        if not plain or (grad and x.requires_grad) or x.is_neg() or x.is_conj():
            return f"an operand is on {x.device.type}, not in host memory" if not x.is_cpu else why_not(x)
    return unseen()


def unseen() -> str | None:
    """Return what is active here and sees only torch's own functions, or ``None``: the rule for GPUs too."""
    if dispatch_modes() and not all(getattr(mode, "observes", False) for mode in current_modes()):
        return "a torch dispatch mode is active, which sees only torch's own functions"
    if peek_interpreter_stack() is not None:
        return "torch.func transforms only torch's own functions"
    if included_keys().has(_OLDER_VMAP):
        return "torch's older vmap batches only torch's own functions"
    if forward_ad._current_level >= 0:
        return "forward-mode differentiation follows only torch's own functions"
    return None


def why_not(x: Any) -> str:
    """Return what keeps code outside torch from reading an operand in the right memory."""
    if type(x) not in PLAIN or x.layout is not torch.strided:
        return f"an operand is a {type(x).__name__} of layout {x.layout}, not a plain tensor"
    if x.is_conj() or x.is_neg():
        return "an operand is a lazy conjugate or negative"
    return "an operand requires grad, and torch differentiates only through its own functions"


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Allocate memory for a large result by NumPy, whose huge pages take a third of the time to write first."""
    import numpy as np

    return torch.from_numpy(np.empty(math.prod(shape) * dtype.itemsize, np.uint8)).view(dtype).view(shape)


def is_transformed() -> bool:
    """Return whether ``torch.func`` (vmap, grad, jvp) is transforming this call, or forward mode without it."""
    return peek_interpreter_stack() is not None or forward_ad._current_level >= 0


def unwrap(x: Tensor) -> Tensor:
    """Return the numbers of a tensor that ``torch.func`` transforms: of a batch, those of all its members."""
    while is_functorch_wrapped_tensor(x):
        x = get_unwrapped(x)
    return x


def is_differentiated(*tensors: Tensor) -> bool:
    """Return whether a gradient of these is recorded, or torch transforms the call.

    A function with a gradient of its own is called directly otherwise: torch's way around it costs 40 µs.
    """
    return (torch.is_grad_enabled() and any(x.requires_grad for x in tensors)) or is_transformed()


def missing_rule(call: Any, error: BaseException) -> UnsupportedError | None:
    """Return the refusal that an error of torch is, which lacks a derivative or a rule for batches, or ``None``."""
    words, text = ("forward AD", "forward mode AD", "not differentiable", "derivative of"), str(error)
    if isinstance(error, TrnError):
        return None
    if included_keys().has(_OLDER_VMAP) and "Batching rule" in text:
        reason = "torch's older vmap, of is_grads_batched=True and jacobian(vectorize=True), has no rule for it"
        return UnsupportedError(call._op.name, [("pytorch", reason)], hint="Use torch.func.jacrev, jacfwd or vmap")
    if forward_ad._current_level < 0 or not any(word in text for word in words):
        return None
    hint = "Differentiate in reverse mode, by torch.func.vjp or torch.func.grad, or detach the operands"
    return UnsupportedError(call._op.name, [("pytorch", "it has no derivative in forward mode")], hint=hint)


def lapack(
    op: str,
    a: Tensor,
    first: Callable[[Tensor], Iterable[Tensor]],
    second: Callable[[Any], Iterable[Any]],
    *,
    values: int = 0,
    read: Callable[[Tensor], Tensor] = torch.detach,
) -> tuple[Tensor, ...]:
    """Return what torch's function ``first`` does with ``a``, or where it gives up what SciPy's does with each matrix.

    Algorithms of MKL stall on some matrices of rank one. SciPy's get entries near 1, because their own scaling of tiny
    ones may be lost afterwards: of all results, that with the number ``values`` is multiplied back. ``read`` returns
    what of ``a`` both read.

    Raises:
        NotConverged: both gave up, or only torch may look at ``a``.
    """
    try:
        return tuple(first(a))
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        message = str(error).partition("\n")[0]
    import numpy as np

    whole = read(a.detach().resolve_conj())
    why = refusal([whole])
    try:
        if why is None:
            matrices = whole.reshape(-1, *a.shape[-2:])
            powers = torch.frexp(matrices.abs().amax((-2, -1))).exponent.numpy()
            near = [_times_power(x, -power) for x, power in zip(matrices.numpy(), powers, strict=True)]
            parts = [np.stack(part) for part in zip(*map(second, near), strict=True)]
            parts[values] = np.stack([_times_power(x, power) for x, power in zip(parts[values], powers, strict=True)])
            return tuple(torch.from_numpy(x.reshape(*a.shape[:-2], *x.shape[1:])) for x in parts)
    except (np.linalg.LinAlgError, ValueError) as error:
        message = str(error)
    hint = "" if why is None else f"SciPy's LAPACK could not be asked next: {why}"
    raise NotConverged(op=op, iterations=30 * min(a.shape[-2:]), residual=float("nan"), message=message, hint=hint)


def _times_power(x: Any, power: Any) -> Any:
    """Return an array times a power of two, which may be one that no number of its dtype is."""
    import numpy as np

    if np.iscomplexobj(x):
        parts = np.ldexp(np.ascontiguousarray(x).view(x.real.dtype).reshape(*x.shape, 2), power)
        return np.ascontiguousarray(parts).view(x.dtype).reshape(x.shape)
    return np.ldexp(x, power)


def svd(op: str, a: Tensor, *, full: bool = False) -> tuple[Tensor, ...]:
    """Return ``u``, ``s`` and ``vh`` by torch, or by SciPy's slower driver where torch's gives up; see `lapack`."""
    return lapack(op, a, lambda x: torch.linalg.svd(x, full_matrices=full), lambda x: gesvd(x, full), values=1)


def gesvd(matrix: Any, full: bool = False) -> tuple[Any, Any, Any]:
    """Return ``u``, ``s`` and ``vh`` of one array by SciPy's slower driver."""
    import scipy.linalg

    u, s, vh = scipy.linalg.svd(matrix, full_matrices=full, lapack_driver="gesvd")
    return u, s, vh
