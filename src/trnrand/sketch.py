"""Gaussian sketches: a random projection whose matrix is made where it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnrand.bits import placed, start_row, trust
from trnrand.kernels import sketch as kernels
from trnrand.normal import _normal
from trnrand.quasi import whole_number
from trnrand.request import Request, drawing
from trnrand.source import Source
from trnsci import ArgumentError, Cost, Op, check
from trnsci.gradient import Saved
from trnsci.nki import P_MAX, launch

# normals that fit a core's SBUF beside the tiles that make and use them: 96 KiB of a partition
KERNEL_LIMIT = P_MAX * 96 * 256


@drawing
def sketch(a: Tensor, size: int, *, generator: Source | None = None) -> Tensor:
    """Project the rows of ``a``: ``normals.T @ a``, where ``normals`` is what ``normal(M, size)`` would give.

    Args:
        a: [M, N], float32 or float64.
        size: rows of the result.
        generator: a `Generator`; by default the one `manual_seed` seeds.

    Returns:
        [size, N], with a gradient to ``a``. Divide by ``sqrt(size)`` to keep lengths on average.

    Raises:
        ArgumentError: ``a`` is not a matrix, or the generator is partitioned. Nothing was drawn.

    Error bound:
        That of the product, ``g(M) |normals|.T @ |a|``, and the normals' own (see `normal`).

    Cost:
        ``2 M N size`` FLOPs. The kernel makes the normals on chip: they never travel through device memory.
    """
    dtype = check.floating("sketch", a=a)
    if a.ndim != 2:
        raise ArgumentError(op="sketch", argument="shape of a", got=tuple(a.shape), expected="[M, N]")
    check.option("sketch", "dtype of a", dtype, (torch.float32, torch.float64))
    size = whole_number("sketch", "size", size, 1)
    request = Request("sketch", ((a.shape[0], size),), generator, dtype=dtype, device=a.device)
    if request.source.size > 1:
        raise ArgumentError(op="sketch", argument="generator", got="a partitioned one", expected="one that is not")
    wide = dtype == torch.float64
    stream, first = request.claim(2 if wide else 1)
    made = _sketch(a, *placed(stream, first, 2 if wide else 4), size)
    request.commit()
    return made


def _fake(a: Tensor, engine: str, key: list[int], counter: list[int], skip: int, size: int) -> Tensor:
    return a.new_empty((size, a.shape[1]))


def _cost(a: Tensor, engine: str, key: list[int], counter: list[int], skip: int, size: int) -> Cost:
    m, n = a.shape
    return Cost(flops=2 * m * n * size + 40 * m * size, read=a.nbytes, written=a.element_size() * size * n)


_sketch = Op("trnrand::sketch", fake=_fake, cost=_cost)


def _noise(a: Any, engine: str, key: list[int], counter: list[int], skip: int, size: int) -> Tensor:
    wide = a.dtype == torch.float64
    return _normal(engine, key, counter, skip, a.shape[0] * size, wide, str(a.device)).view(a.shape[0], size)


@_sketch.impl("pytorch")
def _pytorch(a: Tensor, engine: str, key: list[int], counter: list[int], skip: int, size: int) -> Tensor:
    return _noise(a, engine, key, counter, skip, size).T @ a


def _limits(a: Tensor, engine: str, key: list[int], counter: list[int], skip: int, size: int) -> str | None:
    if skip or size % 4:
        return f"the kernel makes normals four at a time: position {skip} and size {size} must be multiples of 4"
    if a.shape[0] * size > KERNEL_LIMIT:
        return f"the kernel keeps up to {KERNEL_LIMIT} normals on chip, and this call has {a.shape[0] * size}"
    return None


@_sketch.impl("nki", dtypes=(torch.float32,), limits=_limits)
def _nki(a: Tensor, engine: str, key: list[int], counter: list[int], skip: int, size: int) -> Tensor:
    if a.numel() == 0:
        return _fake(a, engine, key, counter, skip, size).zero_()
    trust(engine)
    start = start_row(engine, torch.tensor(key), torch.tensor(counter))
    made: Tensor = launch(kernels.sketch, start, a.contiguous(), size=size, engine=engine)
    return made


@_sketch.vjp(saves=())
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    if not saved.needs("a"):
        return {}
    spec = saved.a
    noise = _normal(
        saved.engine,
        saved.key,
        saved.counter,
        saved.skip,
        spec.shape[0] * saved.size,
        grad.dtype == torch.float64,
        str(grad.device),
    )
    return {"a": noise.view(spec.shape[0], saved.size) @ grad}
