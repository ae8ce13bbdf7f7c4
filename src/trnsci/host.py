"""Which tensors code outside torch may touch: the one rule for every call of NumPy, SciPy and our own extension."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch._C import _len_torch_dispatch_stack as dispatch_modes
from torch.autograd import forward_ad
from torch.nn import Parameter
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as _modes

from trnsci.errors import NotConverged
from trnsci.specs import TensorSpec

PLAIN = frozenset((Tensor, Parameter, TensorSpec))


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
    if dispatch_modes() and not all(getattr(mode, "observes", False) for mode in _modes()):
        return "a torch dispatch mode is active, which sees only torch's own functions"
    if transformed():
        return "torch.func transforms only torch's own functions"
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


def transformed() -> bool:
    """Return whether ``torch.func`` (vmap, grad, jvp) is transforming this call."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def svd(op: str, a: Tensor, *, full: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``u``, ``s`` and ``vh`` by torch, or by SciPy's slower driver where torch's gives up.

    The divide-and-conquer algorithm of MKL stalls on some matrices of rank one.

    Raises:
        NotConverged: both gave up, or only torch may look at ``a``.
    """
    try:
        u, s, vh = torch.linalg.svd(a, full_matrices=full)
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        message = str(error).partition("\n")[0]
    else:
        return u, s, vh
    import numpy as np
    import scipy.linalg

    try:
        if refusal([a.detach().resolve_conj()]) is None:
            driver = functools.partial(scipy.linalg.svd, full_matrices=full, lapack_driver="gesvd")
            parts = zip(*map(driver, a.detach().resolve_conj().reshape(-1, *a.shape[-2:]).numpy()), strict=True)
            u, s, vh = (torch.from_numpy(np.stack(x)) for x in parts)
            batch = a.shape[:-2]
            return u.reshape(*batch, *u.shape[1:]), s.reshape(*batch, -1), vh.reshape(*batch, *vh.shape[1:])
    except (np.linalg.LinAlgError, ValueError) as error:
        message = str(error)
    raise NotConverged(op=op, iterations=30 * min(a.shape[-2:]), residual=float("nan"), message=message)
