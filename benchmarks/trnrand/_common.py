"""Cases and kernels the random-number benchmarks share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.registry import Bench, Case, Kernel, Peer, device
from trnrand import Generator

ENGINES = {"philox4x32": 30, "threefry4x32": 30}
SAMPLES = 1 << 24
_DTYPES = {torch.float32: np.float32, torch.float64: np.float64}


def case(
    name: str,
    arguments: tuple[Any, ...],
    elements: int,
    itemsize: int,
    operations: int,
    devices: tuple[str, ...] = ("cpu", "cuda"),
) -> Case:
    """A draw of so many elements, at so many operations each."""
    flops, size = operations * elements, itemsize * elements
    return Case(name=name, inputs=lambda: arguments, flops=flops, bytes=size, devices=devices)


def counter_kernels(kernel: Callable[..., Any]) -> tuple[Kernel, ...]:
    """A kernel that makes the words of 2**20 counters."""
    shapes = (128, 30), (4, 1 << 20)
    inputs = tuple(torch.empty(shape, dtype=torch.uint32, device="meta") for shape in shapes)
    return (Kernel(name="2^20 counters", kernel=kernel, inputs=lambda: inputs),)


def stream_kernels(kernel: Callable[..., Any]) -> tuple[Kernel, ...]:
    """A kernel that makes a stretch of a stream, for both engines and 2**24 elements."""
    return tuple(
        Kernel(
            name=f"2^24 {engine}",
            kernel=kernel,
            inputs=lambda width=width: (torch.empty((128, width), dtype=torch.uint32, device="meta"),),
            options={"blocks": SAMPLES // 4, "engine": engine},
        )
        for engine, width in ENGINES.items()
    )


def counter_bench(stem: str, run: Callable[..., Any], kernel: Callable[..., Any], key: int, operations: int) -> Bench:
    """The benchmark of an engine on a million counters, with a key of so many words."""
    n = 10**6
    counters = torch.arange(4 * n).view(n, 4), torch.arange(key)
    return Bench(
        op=f"trnrand.{stem}",
        run=run,
        tests=f"tests/trnrand/test_{stem}.py",
        slower="reads counters as operands, with words from torch's integer operations; the peer draws other numbers",
        cases=(case("10^6 counters", counters, 4 * n, 4, operations),),
        peers=(
            Peer(
                name="torch.randint",
                run=lambda counter, key: torch.randint(0, 2**31 - 1, (4 * n,), dtype=torch.int32, device=device()),
            ),
        ),
        kernels=counter_kernels(kernel),
        comparable=None,
    )


def stream_bench(
    stem: str,
    kernel: Callable[..., Any],
    torch_peer: Callable[..., Any],
    numpy_peer: str,
    operations: tuple[int, int, int],
) -> Bench:
    """The benchmark of a distribution that fills memory, both engines and dtypes.

    Args:
        stem: the method of a `Generator`.
        kernel: what makes it on the device.
        torch_peer: torch's function, of the number of elements.
        numpy_peer: the method of NumPy's generator.
        operations: per element of float32 by Philox and by Threefry, and of float64.
    """
    generator = np.random.default_rng(1)
    single, other, double = operations
    n = 10**7

    def ours(engine: str, dtype: torch.dtype, elements: int) -> torch.Tensor:
        # a new one each time: the device and the definition draw the same numbers
        drawn: torch.Tensor = getattr(Generator(1, engine=engine), stem)(elements, dtype=dtype, device=device())
        return drawn

    return Bench(
        op=f"trnrand.{stem}",
        run=ours,
        tests=f"tests/trnrand/test_{stem}.py",
        cases=(
            case("10^7 float32 philox4x32", ("philox4x32", torch.float32, n), n, 4, single),
            case("10^7 float32 threefry4x32", ("threefry4x32", torch.float32, n), n, 4, other),
            case("10^7 float64 philox4x32", ("philox4x32", torch.float64, n), n, 8, double),
            case("10^8 float32 philox4x32", ("philox4x32", torch.float32, 10**8), 10**8, 4, single, devices=("cuda",)),
        ),
        peers=(
            Peer(
                name=f"torch.{torch_peer.__name__}",
                run=lambda engine, dtype, elements: torch_peer(elements, dtype=dtype, device=device()),
            ),
            Peer(
                name=f"numpy.{numpy_peer}",
                run=lambda engine, dtype, elements: getattr(generator, numpy_peer)(elements, dtype=_DTYPES[dtype]),
                devices=("cpu",),
            ),
        ),
        kernels=stream_kernels(kernel),
        comparable=None,
    )
