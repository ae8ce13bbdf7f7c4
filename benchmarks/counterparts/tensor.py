"""trntensor beside torch.einsum and torch's own operators."""

from __future__ import annotations

from functools import partial as f

import opt_einsum
import torch

import trntensor
from benchmarks.counterparts import Cases, double
from trnsci.testing import gaussian

ALONE = {
    "get_backend": "a setting",
    "set_backend": "a setting",
    "to_xla": "moves to a device",
    "from_xla": "moves from a device",
    "cp": "neither torch nor SciPy has it",
    "tucker": "neither torch nor SciPy has it",
    "tensor_train": "neither torch nor SciPy has it",
    "block_sparse": "a value that calls are made with",
}


def cases(n: int) -> Cases:
    """Calls of n by n matrices, and of tensors of about as many elements."""
    return {**_contractions(n), **_elements(n), **_chemistry(n)}


def _contractions(n: int) -> Cases:
    a, b, c = (gaussian((n, n), seed) for seed in (1, 2, 3))
    half = n // 2
    blocks = trntensor.block_sparse(torch.block_diag(a[:half, :half], a[half:, half:]), ((half, half), (half, half)))
    pair = "ij,jk->ik"
    fused = trntensor.fuse("ij,jk->ik", epilogue=torch.relu)
    three = "ij,jk,kl->il"
    path = opt_einsum.contract_expression(three, *[(n, n)] * 3)
    return {
        "einsum": (f(trntensor.einsum, pair, a, b), "torch.einsum", f(torch.einsum, pair, a, b)),
        "einsum chain": (f(trntensor.einsum, three, a, b, c), "opt_einsum", f(path, a, b, c)),
        "multi_einsum": (
            f(trntensor.multi_einsum, [(pair, a, b), (pair, b, c)]),
            "torch.einsum, twice",
            lambda: [torch.einsum(pair, a, b), torch.einsum(pair, b, c)],
        ),
        "tensordot": (f(trntensor.tensordot, a, b, 1), "torch.tensordot", f(torch.tensordot, a, b, 1)),
        "plan": (
            f(trntensor.plan, three, (n, n), (n, n), (n, n)),
            "opt_einsum.contract_path",
            f(opt_einsum.contract_path, three, *[(n, n)] * 3, shapes=True),
        ),
        "fuse": (f(fused, a, b), "torch, two calls", lambda: torch.relu(a @ b)),
        "block_einsum": (
            f(trntensor.block_einsum, pair, blocks, blocks),
            "torch.matmul, twice",
            lambda: (a[:half, :half] @ a[:half, :half], a[half:, half:] @ a[half:, half:]),
        ),
    }


def _elements(n: int) -> Cases:
    a, b, c = (gaussian((n, n), seed) for seed in (1, 2, 3))
    return {
        "transpose": (f(trntensor.transpose, a, (1, 0)), "torch, a copy", lambda: a.permute(1, 0).contiguous()),
        "permute": (f(trntensor.permute, "ij->ji", a), "torch, a copy", lambda: a.permute(1, 0).contiguous()),
        "reduce": (f(trntensor.reduce, "ij->i", a), "torch.sum", f(torch.sum, a, 1)),
        "elementwise": (f(trntensor.elementwise, "ij,ij->ij", a, b), "torch.add", f(torch.add, a, b)),
        "elementwise_binary": (f(trntensor.elementwise_binary, "ij,ij->ij", a, b), "torch.add", f(torch.add, a, b)),
        "elementwise_trinary": (
            f(trntensor.elementwise_trinary, "ij,ij,ij->ij", a, b, c),
            "torch, two sums",
            lambda: a + b + c,
        ),
    }


def _chemistry(n: int) -> Cases:
    basis = max(4, min(n // 4, 24))
    occupied, virtual = basis // 4, basis - basis // 4
    eri = double(basis, basis, basis, basis)
    c_occ, c_vir = double(basis, occupied), double(basis, virtual)
    b = double(occupied, virtual, 3 * basis)
    low, high = -1.0 - double(occupied).abs(), 1.0 + double(virtual).abs()
    spelt = "pqrs,pi,qa,rj,sb->iajb"
    path = opt_einsum.contract_expression(spelt, eri.shape, *[x.shape for x in (c_occ, c_vir, c_occ, c_vir)])

    def energy() -> torch.Tensor:
        t = torch.einsum("iap,jbp->ijab", b, b)
        below = low[:, None, None, None] + low[:, None, None] - high[:, None] - high
        return (t * (2 * t - t.mT) / below).sum()

    return {
        "ao_to_mo_transform": (
            f(trntensor.ao_to_mo_transform, eri, c_occ, c_vir),
            "opt_einsum",
            f(path, eri, c_occ, c_vir, c_occ, c_vir),
        ),
        "mp2_energy": (f(trntensor.mp2_energy, b, low, high), "torch, written out", energy),
    }
