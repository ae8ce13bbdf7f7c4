"""A few steps of an iteration as one operation: what `trnsparse.methods` repeat until they are content."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trnsci import Op
from trnsci.nki import P_MAX, launch
from trnsparse.arguments import evenly
from trnsparse.bsr import BSRMatrix
from trnsparse.csr import CSRMatrix
from trnsparse.kernels import iterate as kernels
from trnsparse.spmm import spmv

# Blocks that a kernel keeps in SBUF, and vector length in blocks: one PSUM bank.
BLOCKS = 256
LENGTH = 512


def _fake(
    indptr: Tensor,
    indices: Tensor,
    blocks: Tensor,
    x: Tensor,
    r: Tensor,
    p: Tensor,
    numbers: Tensor,
    steps: int,
    method: str,
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)


def _cost(
    indptr: Tensor,
    indices: Tensor,
    blocks: Tensor,
    x: Tensor,
    r: Tensor,
    p: Tensor,
    numbers: Tensor,
    steps: int,
    method: str,
) -> int:
    return steps * (2 * blocks.numel() + 10 * x.shape[0])


# ``steps`` iterations from the state (x, r, p) to the next; for "power" the state is (x, a @ x, unused).
iterate = Op("trnsparse::iterate", fake=_fake, cost=_cost)


@iterate.impl("pytorch")
def _pytorch(
    indptr: Tensor,
    indices: Tensor,
    blocks: Tensor,
    x: Tensor,
    r: Tensor,
    p: Tensor,
    numbers: Tensor,
    steps: int,
    method: str,
) -> tuple[Tensor, Tensor, Tensor]:
    matrix = _matrix(indptr, indices, blocks, x.shape[0])
    times = times_of(matrix)
    tiny = torch.finfo(x.dtype).tiny
    if method == "power":
        for _ in range(steps):
            r = times(x)
            x = r / torch.linalg.vector_norm(r).clamp(min=tiny)
        return x, times(x), p.clone()
    for k in range(steps):
        if method == "cg":
            image, norm = times(p), torch.dot(r, r)
            alpha = norm / torch.dot(p, image).clamp(min=tiny)
            x, r = x + alpha * p, r - alpha * image
            p = r + torch.dot(r, r) / norm.clamp(min=tiny) * p
        else:
            p = r + numbers[k, 1] * p
            x, r = x + numbers[k, 0] * p, r - numbers[k, 0] * times(p)
    return x, r, p


def _matrix(indptr: Tensor, indices: Tensor, blocks: Tensor, n: int) -> BSRMatrix | CSRMatrix:
    """Blocks as a matrix; of entries where they are entries."""
    shape, parts = (n, n), {"indptr": indptr, "indices": indices}
    if blocks.shape[1:] == (1, 1):
        return CSRMatrix._rebuilt(parts, blocks.reshape(-1).contiguous(), shape)
    return BSRMatrix._rebuilt(parts, blocks, shape)


def times_of(a: BSRMatrix | CSRMatrix) -> Callable[[Tensor], Tensor]:
    """The product with a vector, in the format as it is."""
    return lambda y: spmv(a, y, format="stored")


def _limits(
    indptr: Tensor,
    indices: Tensor,
    blocks: Tensor,
    x: Tensor,
    r: Tensor,
    p: Tensor,
    numbers: Tensor,
    steps: int,
    method: str,
) -> str | None:
    if x.dtype != torch.float32:
        return f"takes float32, not {str(x.dtype).removeprefix('torch.')}"
    if blocks.shape[0] > BLOCKS:
        return f"keeps up to {BLOCKS} blocks on chip, not {blocks.shape[0]}"
    if indptr.shape[0] - 1 > LENGTH:
        return f"keeps vectors of up to {LENGTH * P_MAX} on chip, not {x.shape[0]}"
    return None


@iterate.impl("nki", limits=_limits)
def _nki(
    indptr: Tensor,
    indices: Tensor,
    blocks: Tensor,
    x: Tensor,
    r: Tensor,
    p: Tensor,
    numbers: Tensor,
    steps: int,
    method: str,
) -> tuple[Tensor, Tensor, Tensor]:
    return _launched(indptr.tolist(), indices.tolist(), blocks, (x, r, p), numbers, steps, method)


@iterate.prediction
def _predicted(
    indptr: Tensor,
    indices: Tensor,
    blocks: Tensor,
    x: Tensor,
    r: Tensor,
    p: Tensor,
    numbers: Tensor,
    steps: int,
    method: str,
) -> tuple[Tensor, Tensor, Tensor]:
    pointers, columns = evenly(indices.shape[0], indptr.shape[0] - 1)
    return _launched(pointers, columns, blocks, (x, r, p), numbers, steps, method)


def _launched(
    pointers: list[int],
    columns: list[int],
    blocks: Tensor,
    state: tuple[Tensor, Tensor, Tensor],
    numbers: Tensor,
    steps: int,
    method: str,
) -> tuple[Tensor, Tensor, Tensor]:
    x, r, p = state
    n = x.shape[0]
    if n == 0 or steps == 0:
        return x.clone(), r.clone(), p.clone()
    if not columns:
        blocks, pointers, columns = blocks.new_zeros((1, P_MAX, P_MAX)), [0] + [1] * (len(pointers) - 1), [0]
    count = blocks.shape[0]
    tiles = blocks.new_empty((P_MAX, count, P_MAX)).copy_(blocks.permute(2, 0, 1)).flatten(1)
    table = numbers if numbers.shape[0] else numbers.new_zeros((steps, 2))
    made = launch(
        kernels.iterate,
        tiles,
        *(_by_partition(y) for y in state),
        table.reshape(1, -1).expand(P_MAX, -1).contiguous(),
        steps=steps,
        method=method,
        pointers=tuple(pointers),
        columns=tuple(columns),
    )
    x, r, p = (y.mT.flatten()[:n].clone() for y in made)
    return x, r, p


@iterate.workspace
def _workspace(
    backend: str,
    indptr: Tensor,
    indices: Tensor,
    blocks: Tensor,
    x: Tensor,
    r: Tensor,
    p: Tensor,
    numbers: Tensor,
    steps: int,
    method: str,
) -> int:
    if backend == "pytorch":
        # A product and an update of each vector; what blocks meet, and their products.
        met = blocks.shape[0] * sum(blocks.shape[1:]) * x.element_size() if blocks.shape[1] > 1 else 0
        return 4 * x.nbytes + met
    return blocks.nbytes + 6 * x.nbytes + P_MAX * 8 * steps


def _by_partition(y: Tensor) -> Tensor:
    return torch.nn.functional.pad(y, (0, -y.shape[0] % P_MAX)).reshape(-1, P_MAX).mT.contiguous()
