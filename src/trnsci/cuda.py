"""NVIDIA GPUs: what ``cuda`` implementations may read, what they need of the machine, and what the first call compiles.

Kernels are Triton's, which comes with PyTorch's CUDA builds. Nothing here imports it: modules ``<library>.cuda`` do,
where a call runs that no limit refused.
"""

import functools
import importlib.util
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from trnsci import torch_internals
from trnsci.host import PLAIN, unseen, why_not

# bfloat16 and the FP64 tensor cores begin with this compute capability
OLDEST = (8, 0)


def refusal(tensors: Iterable[Any], *, recorded: bool) -> str | None:
    """Return why GPU code outside torch's dispatcher may not compute on these tensors here and now, or ``None``.

    Args:
        tensors: what it would read.
        recorded: whether gradients may be wanted, because the caller attaches them.
    """
    grad = not recorded and torch.is_grad_enabled()
    for x in tensors:
        plain = x.is_cuda and type(x) in PLAIN and x.layout is torch.strided
        if not plain or (grad and x.requires_grad) or x.is_neg() or x.is_conj():
            return "an operand is not on an NVIDIA GPU" if not x.is_cuda else why_not(x)
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
    if index != torch_internals.cuda_device():
        with torch.cuda.device(index):
            return launch(kernel, grid, device, args, constants, words, **options)
    # as Triton: by a tensor's dtype and alignment; by ones, multiples of 16 and words of an integer
    key: list[Any] = [id(kernel), index, constants, *options.values()]
    given: list[int] = []
    for x in args:
        if isinstance(x, Tensor):
            # Triton would ask the driver for the pointer behind a tensor
            given.append(x.data_ptr())
            key.append((x.dtype, given[-1] % 16 == 0))
        else:
            given.append(x)
            key.append((x == 1, x % 16 == 0, (x if x >= 0 else ~x).bit_length() >> 5))
    compiled = _kernels.get(tuple(key))
    if compiled is not None:
        compiled[grid](*given, *words, *constants, stream=torch_internals.cuda_stream(index))
        return None
    # Triton's interpreter returns nothing, and is asked again
    _kernels[tuple(key)] = kernel[grid](*args, *words, *constants, **options)
    return None


def own(function: Callable[..., Sequence[Tensor]]) -> Callable[..., Sequence[Tensor]]:
    """Give a function code of its own: torch counts compilations by code objects, and stops compiling after a few."""
    function.__code__ = function.__code__.replace()
    return function


class Compiled:
    """A function of tensors that torch compiles, called without Dynamo's guards where a caller vouches for them.

    Guards take longer than most launches. What the compiled graph was called with is kept under the caller's key, which
    stands for everything the guards look at: shapes, strides, dtypes and device.
    """

    def __init__(self, function: Callable[..., Sequence[Tensor]], *, dynamic: bool) -> None:
        self._function = torch.compile(own(function), backend=self._backend, dynamic=dynamic, fullgraph=True)
        self._seen: list[tuple[Any, ...]] = []
        self._kept: dict[Hashable, tuple[Callable[..., Sequence[Tensor]], list[Any], list[int], list[int]]] = {}

    def __call__(self, key: Hashable, *tensors: Tensor) -> list[Tensor]:
        """Return the results of the function."""
        known = self._kept.get(key)
        if known is None:
            return self._first(key, [x.detach() for x in tensors])
        run, operands, positions, results = known
        operands = operands.copy()
        for position, x in zip(positions, tensors, strict=True):
            operands[position] = x
        outputs = run(*operands)
        return [outputs[i] for i in results]

    def _first(self, key: Hashable, tensors: list[Tensor]) -> list[Tensor]:
        with torch.no_grad():
            results = list(self._function(*tensors))
        # taken out: what torch keeps of this function must not keep the operands
        run, operands, outputs = self._seen.pop()
        positions = [_index(x, operands) for x in tensors]
        others = [None if i in positions else x for i, x in enumerate(operands)]
        self._kept[key] = run, others, positions, [_index(x, outputs) for x in results]
        return results

    def _backend(self, graph: Any, examples: Any) -> Any:
        # a second that other programs need not wait
        from trnsci.torch_internals import inductor

        compiled: Any = inductor.compile_fx(graph, examples)

        def run(*operands: Any) -> Any:
            outputs = compiled(*operands)
            self._seen.append((compiled, operands, outputs))
            return outputs

        return run


def _index(x: Tensor, among: Sequence[Any]) -> int:
    return next(i for i, y in enumerate(among) if y is x)


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
