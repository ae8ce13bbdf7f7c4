"""The compiled host loops (`trnsci.loops`): where they run, and how they are called."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnrand.segment import Segment
from trnsci import DtypeError, cuda, loops
from trnsci.host import refusal

WORDS, UNIFORM32, UNIFORM64, NORMAL32, NORMAL64 = range(5)
LOG, EXP, SIN_TURN, COS_TURN = range(4)
SAMPLERS = {"gamma": 0, "poisson": 1}

_LARGE = 1 << 20
# Devices that were there, by the names users gave.
_THERE: dict[Any, torch.device] = {}
_NUMPY = {
    torch.uint32: np.uint32, torch.int64: np.int64, torch.float32: np.float32, torch.float64: np.float64,
    torch.bool: np.bool_,
}  # fmt: skip
# what functions of one uniform are written as
RESULTS = {torch.float32: 0, torch.float64: 1, torch.int64: 2, torch.bool: 3}


def limits(implementation: str, device: torch.device) -> str | None:
    """Why the compiled loops, or the kernels of GPUs, do not run for results on a device."""
    if implementation == "cuda":
        return cuda.why_no_triton(device)
    if implementation != "host":
        return None
    if device.type != "cpu":
        return f"the result goes to {device.type}, not to host memory"
    why = loops.why_not()
    return None if why is None else f"no host loops in C: {why}"


def mapping(x: Tensor) -> bool:
    """Whether the compiled functions of arrays may read a tensor."""
    return loops.compiled is not None and refusal((x.detach(),)) is None


def device_of(op: str, device: Any) -> torch.device:
    """A device by its name, which has memory here."""
    named = type(device) in (str, torch.device)
    if named and device in _THERE:
        return _THERE[device]
    try:
        found = torch.device(device)
        if found.type not in ("cpu", "meta"):
            torch.empty(0, device=found)
    except (RuntimeError, TypeError, ValueError, OverflowError, AssertionError) as error:
        said = str(error).partition("\n")[0]
        expected = "a device torch knows and this machine has, as 'cpu' or 'cuda:0'"
        raise DtypeError(op=op, argument="device", got=device, expected=expected, hint=f"torch says: {said}") from None
    if named:
        _THERE[device] = found
    return found


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Fresh memory of the CPU; large arrays are NumPy's, which asks for huge pages and so is cheaper to touch first."""
    if math.prod(shape) < _LARGE or torch.compiler.is_compiling():
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(np.empty(shape, _NUMPY[dtype]))


def fill(kind: int, segment: Segment, out: Tensor) -> None:
    """Write a segment into a contiguous tensor of the CPU."""
    number, threads = segment.engine.number, torch.get_num_threads()
    loops.compiled.fill(kind, number, segment.place, segment.skip, out.numpy(), threads)


def sampler(name: str, segment: Segment, parameter: Tensor) -> Tensor:
    """Gamma or Poisson variates as float64; ``parameter`` is float64, of one element or one for each."""
    out = empty((segment.elements,), torch.float64)
    number, threads = segment.engine.number, torch.get_num_threads()
    loops.compiled.sample(SAMPLERS[name], number, segment.place, _array(parameter), out.numpy(), threads)
    return out


def binomial(segment: Segment, stride: int, n: Tensor, p: Tensor) -> Tensor:
    """Binomial counts as float64 from every ``stride``-th substream; ``n`` and ``p`` are as for `sampler`."""
    out = empty((segment.elements,), torch.float64)
    number, threads = segment.engine.number, torch.get_num_threads()
    loops.compiled.binomial(number, segment.place, stride - 1, _array(n), _array(p), out.numpy(), threads)
    return out


def inverse(case: int, parameters: Sequence[float], segment: Segment, out: Tensor) -> None:
    """Write a function of one uniform (`trnrand.inverse`), of one or two parameters, into a contiguous tensor."""
    a, b = parameters if len(parameters) == 2 else (parameters[0], 0.0)
    number, threads = segment.engine.number, torch.get_num_threads()
    loops.compiled.inverse(
        case, number, segment.place, segment.skip, a, b, RESULTS[out.dtype], out.detach().numpy(), threads
    )


def integers(segment: Segment, other: Segment, span: int, low: int) -> Tensor:
    """Integers from ``low``, below ``low + span``; ``other`` is where the elements' substreams begin."""
    out = empty((segment.elements,), torch.int64)
    number, threads, substreams = segment.engine.number, torch.get_num_threads(), struct.pack("<4I", *other.counter)
    arguments = (number, segment.place, substreams, segment.skip, span % (1 << 64), low)
    loops.compiled.randint(*arguments, out.numpy(), threads)
    return out


def mapped(kind: int, x: Tensor) -> Tensor:
    """A function of `trnrand.maths`, element by element; float64."""
    out = empty(tuple(x.shape), x.dtype)
    loops.compiled.map(kind, _array(x), out.numpy(), torch.get_num_threads())
    return out


def _array(values: Tensor) -> Any:
    return values.detach().contiguous().numpy()
