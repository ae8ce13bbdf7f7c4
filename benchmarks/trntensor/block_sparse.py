"""``trntensor.block_einsum`` beside torch on the whole tensors."""

from __future__ import annotations

import torch

import trntensor
from benchmarks.registry import Bench, Case, Peer
from trnsci.testing import gaussian


def _case(count: int, size: int) -> Case:
    """A tensor of ``count`` sections an axis, with the blocks in which numbers are conserved, times itself."""

    def inputs() -> tuple[trntensor.BlockSparse, trntensor.BlockSparse]:
        sections = (size,) * count
        places = [(i, j, (i + j) % count) for i in range(count) for j in range(count)]
        a = {place: gaussian((size,) * 3, k) for k, place in enumerate(places)}
        return trntensor.BlockSparse((sections,) * 3, a), trntensor.BlockSparse((sections,) * 3, a)

    return Case(
        name=f"{count} sections of {size}, ijk,klm->ijlm",
        inputs=inputs,
        flops=2 * count**3 * size**5,
        bytes=4 * (2 * count**2 * size**3 + count**3 * size**4),
        devices=("cpu",),
    )


def _whole(a: trntensor.BlockSparse, b: trntensor.BlockSparse) -> tuple[torch.Tensor, torch.Tensor]:
    return a.dense(), b.dense()


BENCH = Bench(
    op="trntensor.block_sparse",
    run=lambda a, b: trntensor.block_einsum("ijk,klm->ijlm", a, b),
    tests="tests/trntensor/test_block_sparse.py",
    cases=(_case(4, 12), _case(8, 6)),
    peers=(Peer(name="torch.einsum", run=lambda a, b: torch.einsum("ijk,klm->ijlm", a, b), prepare=_whole),),
    comparable=lambda result: result.dense() if isinstance(result, trntensor.BlockSparse) else result,
    tolerance=1e-5,
    notes="Its kernel is grouped_gemm's. Blocks that meet the same partners are stacked: 512 blocks of the result are "
    "views of 8 products, and making the views takes most of the time.",
    devices=("cpu",),
)
