"""The compiled host loops (`trnsci.loops`): where they run, and how they are called."""

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnrand.engines import Engine
from trnrand.segment import Segment
from trnsci import cuda, host, loops

WORDS, UNIFORM32, UNIFORM64, NORMAL32, NORMAL64 = range(5)
LOG, EXP, SIN_2PI, COS_2PI = range(4)
SAMPLERS = {"gamma": 0, "poisson": 1}

_LARGE = 1 << 20
# what functions of one uniform are written as
RESULTS = {torch.float32: 0, torch.float64: 1, torch.int64: 2, torch.bool: 3}


def limits(implementation: str, device: torch.device) -> str | None:
    """Return why the compiled loops, or the kernels of GPUs, do not run for results on a device."""
    if implementation == "cuda":
        return cuda.why_no_triton(device)
    if implementation != "host":
        return None
    if device.type != "cpu":
        return f"the result goes to {device.type}, not to host memory"
    why = loops.why_not()
    return None if why is None else f"no host loops in C: {why}"


def mapping(x: Tensor) -> bool:
    """Return whether the compiled functions of arrays may read a tensor."""
    return loops.compiled is not None and host.refusal((x.detach(),)) is None


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Allocate host memory, of large arrays in huge pages."""
    if math.prod(shape) < _LARGE or torch.compiler.is_compiling():
        return torch.empty(shape, dtype=dtype, device="cpu")
    return host.empty(shape, dtype)


def fill(kind: int, segment: Segment, out: Tensor) -> None:
    """Write a segment into a contiguous tensor of the CPU."""
    code, threads = segment.engine.code, torch.get_num_threads()
    loops.compiled.fill(kind, code, segment.key_and_counter, segment.skip, out.numpy(), threads)


def blocks(engine: Engine, counter: Tensor, key: Tensor) -> Tensor:
    """Return the words of counters [..., 4] and one key."""
    out = empty(tuple(counter.shape), torch.uint32)
    words = _array(key.flatten()).astype(np.uint32).tobytes()
    loops.compiled.counters(engine.code, words.ljust(32, b"\0"), _array(counter), out.numpy(), torch.get_num_threads())
    return out


def sample(name: str, segment: Segment, parameters: Sequence[Tensor], stride: int) -> Tensor:
    """Draw gamma, Poisson or binomial variates; parameters are float64, of one element or one for each."""
    start = segment.engine.code, segment.key_and_counter
    if name in SAMPLERS:
        return _draw("sample", segment, SAMPLERS[name], *start, *map(_array, parameters))
    return _draw(name, segment, *start, stride - 1, *map(_array, parameters))


def inverse(case: int, parameters: Sequence[float], segment: Segment, out: Tensor) -> None:
    """Write a function of one uniform (`trnrand.inverse`), of one or two parameters, into a contiguous tensor."""
    a, b = parameters if len(parameters) == 2 else (parameters[0], 0.0)
    code, threads = segment.engine.code, torch.get_num_threads()
    loops.compiled.inverse(
        case, code, segment.key_and_counter, segment.skip, a, b, RESULTS[out.dtype], out.detach().numpy(), threads
    )


def integers(segment: Segment, other: Segment, span: int, low: int) -> Tensor:
    """Draw integers from ``low``, below ``low + span``; ``other`` is where the elements' substreams begin."""
    substreams = struct.pack("<4I", *other.counter)
    arguments = (segment.engine.code, segment.key_and_counter, substreams, segment.skip, span % (1 << 64), low)
    return _draw("randint", segment, *arguments, dtype=torch.int64)


def map_function(kind: int, x: Tensor) -> Tensor:
    """Apply a function of `trnrand.maths` to float64, element by element."""
    out = empty(tuple(x.shape), x.dtype)
    loops.compiled.map(kind, _array(x), out.numpy(), torch.get_num_threads())
    return out


def _draw(loop: str, segment: Segment, *arguments: Any, dtype: torch.dtype = torch.float64) -> Tensor:
    """Run a loop that writes a number for every element of a segment."""
    out = empty((segment.elements,), dtype)
    getattr(loops.compiled, loop)(*arguments, out.numpy(), torch.get_num_threads())
    return out


def _array(values: Tensor) -> Any:
    return values.detach().contiguous().numpy()
