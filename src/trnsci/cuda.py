"""NVIDIA GPUs: what ``cuda`` implementations may read, what they need of the machine, and what the first call compiles.

Kernels are Triton's, which comes with PyTorch's CUDA builds. Nothing here imports it: modules ``<library>.cuda`` do,
where a call runs that no limit refused.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Hashable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from trnsci.host import unseen
from trnsci.specs import TensorSpec

# bfloat16 and the FP64 tensor cores begin with this compute capability
OLDEST = (8, 0)
_PLAIN = (Tensor, Parameter, TensorSpec)


def refusal(tensors: Iterable[Any], *, recorded: bool) -> str | None:
    """Return why GPU code outside torch's dispatcher may not compute on these tensors here and now, or ``None``.

    Args:
        tensors: what it would read.
        recorded: whether gradients may be wanted, because the caller attaches them.
    """
    grad = torch.is_grad_enabled() and not recorded
    for x in tensors:
        if not x.is_cuda:
            return "an operand is not on an NVIDIA GPU"
        if type(x) not in _PLAIN or x.layout is not torch.strided:
            return f"an operand is a {type(x).__name__} of layout {x.layout}, not a plain tensor"
        if grad and x.requires_grad:
            return "an operand requires grad, and torch differentiates only through its own functions"
        if x.is_conj() or x.is_neg():
            return "an operand is a lazy conjugate or negative"
    return unseen()


def why_no_triton(device: torch.device) -> str | None:
    """Return why Triton's kernels cannot run on a device, or ``None``."""
    if device.type != "cuda":
        return f"the result goes to {device.type}, not to an NVIDIA GPU"
    return why_old(device) or _why_no_package()


def why_old(device: torch.device) -> str | None:
    """Return why a GPU is too old, or ``None``."""
    return _why_old(torch.cuda.current_device() if device.index is None and _here() else device.index or 0)


def _here() -> bool:
    return torch.cuda.is_available()


@functools.cache
def _why_old(index: int) -> str | None:
    if not _here() or index >= torch.cuda.device_count():
        return "PyTorch finds no such NVIDIA GPU here"
    capability = torch.cuda.get_device_capability(index)
    if capability >= OLDEST:
        return None
    wanted, has = (".".join(map(str, version)) for version in (OLDEST, capability))
    return f"needs compute capability {wanted}, and {torch.cuda.get_device_name(index)} has {has}"


@functools.cache
def _why_no_package() -> str | None:
    if importlib.util.find_spec("triton") is not None:
        return None
    return "Triton is not installed; it comes with PyTorch's CUDA builds, or by pip install triton"


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Make a device the current one for a block; entering torch's own costs more than asking which it is."""
    return nullcontext() if device.index == torch.cuda.current_device() else torch.cuda.device(device)


# Compiled kernels by what Triton specialised them for. Its own look-up takes several times as long as a launch.
_kernels: dict[Hashable, Any] = {}


def launch(
    kernel: Any,
    grid: tuple[int, int, int],
    device: torch.device,
    args: tuple[Any, ...],
    constants: tuple[Any, ...] = (),
    words: tuple[int, ...] = (),
    **options: Any,
) -> None:
    """Launch a Triton kernel.

    Args:
        kernel: what ``triton.jit`` returned.
        grid: programs along each axis.
        device: where every tensor is.
        args: tensors and integers, for the kernel's first parameters.
        constants: for its last parameters, those of ``tl.constexpr``.
        words: for parameters between them, int32 that the kernel is not specialised for.
        options: of Triton's compiler, such as ``num_warps``.
    """
    index = device.index
    if index != torch.cuda.current_device():
        with torch.cuda.device(index):
            return launch(kernel, grid, device, args, constants, words, **options)
    # as Triton: by a tensor's dtype and alignment; by ones, multiples of 16 and words of an integer
    kinds = [
        (x.dtype, x.data_ptr() % 16 == 0)
        if isinstance(x, Tensor)
        else (x == 1, x % 16 == 0, (x if x >= 0 else ~x).bit_length() >> 5)
        for x in args
    ]
    key = (id(kernel), index, constants, *options.values(), *kinds)
    compiled = _kernels.get(key)
    if compiled is not None:
        compiled[grid](*args, *words, *constants, stream=torch._C._cuda_getCurrentRawStream(index))
        return None
    # Triton's interpreter returns nothing, and is asked again
    _kernels[key] = kernel[grid](*args, *words, *constants, **options)
    return None


# What this process has compiled, or loaded from the caches of Triton and torch, which are kept on disk.
_compiled: set[Hashable] = set()


def first_call(call: Any) -> str:
    """Return what a plan says of the first call of a kernel in this process; nothing once it has run."""
    if not hasattr(call, "compiles"):
        return ""
    key, seconds = call.compiles()
    return "" if not seconds or key in _compiled else f"first call compiles, about {seconds:g} s, unless kept on disk"


def note_compiled(call: Any) -> None:
    """Remember that the kernel of a call has run."""
    if hasattr(call, "compiles"):
        _compiled.add(call.compiles()[0])


def state() -> int:
    """Return a number that changes when plans must be made again: how many kernels have run."""
    return len(_compiled)
