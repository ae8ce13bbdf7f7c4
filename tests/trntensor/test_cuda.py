"""Tensors of an NVIDIA GPU, beside NumPy in double precision; the CPU runs the same tests."""

import numpy as np
import pytest
import torch

from trnsci.testing import assert_within, gamma, gaussian
from trntensor import (
    ao_to_mo_transform,
    block_einsum,
    block_sparse,
    einsum,
    elementwise,
    fuse,
    mp2_energy,
    multi_einsum,
    permute,
    plan,
    reduce,
    tensor_train,
    tucker,
)

F32, F64 = torch.float32, torch.float64
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
on_devices = pytest.mark.parametrize("device", DEVICES)


def wide(*tensors):
    return [x.to(torch.complex128 if x.is_complex() else F64).numpy() for x in tensors]


@on_devices
@pytest.mark.parametrize("dtype", [F32, F64, torch.complex64], ids=str)
@pytest.mark.parametrize("equation", ["ij,jk->ki", "ii,ij->j", "bij,bjk,kl->bli", "ij,ij->", "ijk->kj", "i,j->ji"])
def test_einsum(device, dtype, equation):
    sizes = dict(zip("bijkl", (2, 5, 5, 6, 7), strict=True))
    terms = equation.split("->")[0].split(",")
    operands = [gaussian(tuple(sizes[label] for label in term), n, dtype) for n, term in enumerate(terms)]
    on = [x.to(device) for x in operands]
    got = einsum(equation, *on)
    size = torch.from_numpy(np.asarray(np.einsum(equation, *wide(*(x.abs() for x in operands)))))
    limit = plan(equation, *operands).error_bound * size + torch.finfo(dtype).smallest_normal
    assert got.device.type == device
    assert_within(got, np.einsum(equation, *wide(*operands)), limit)
    assert_within(multi_einsum([(equation, *on)])[0], np.einsum(equation, *wide(*operands)), limit)


@on_devices
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_chemistry(device, dtype):
    nao, nocc, nvir, naux = 9, 3, 6, 11
    eri, left, right = (
        gaussian((nao, nao, naux), 1, dtype),
        gaussian((nao, nocc), 2, dtype),
        gaussian((nao, nvir), 3, dtype),
    )
    occ, vir = -torch.linspace(0.5, 2.0, nocc, dtype=dtype), torch.linspace(0.1, 3.0, nvir, dtype=dtype)
    B = ao_to_mo_transform(eri.to(device), left.to(device), right.to(device))
    expected = np.einsum("mnx,mi,na->iax", *wide(eri, left, right), optimize=True)
    size = np.einsum("mnx,mi,na->iax", *wide(eri.abs(), left.abs(), right.abs()), optimize=True)
    assert_within(B, expected, gamma(2 * nao + 4, dtype) * torch.from_numpy(size))
    got = mp2_energy(B, occ.to(device), vir.to(device))
    e_i, e_a = wide(occ, vir)
    D = e_i[:, None, None, None] + e_i[:, None, None] - e_a[:, None] - e_a
    T, bound = (np.einsum("iap,jbp->ijab", x, x) for x in (expected, size))
    exact = (T * (2 * T - T.swapaxes(2, 3)) / D).sum()
    total = float((bound * (2 * bound + bound.swapaxes(2, 3)) / -D).sum())
    assert got.device.type == device
    assert_within(got, exact, 2 * gamma(2 * (2 * nao + 4) + 3 * naux + nvir**2 + nocc**2 + 12, dtype) * total)


@on_devices
def test_fused_programs_blocks_and_other_operations(device):
    a, b = gaussian((5, 4), 1, F64), gaussian((4, 6), 2, F64)
    x, y = wide(a, b)
    on = a.to(device), b.to(device)
    size = np.abs(x) @ np.abs(y)
    fused = fuse("ik,kj->ij", epilogue=lambda t: t * t, reduce="ij->i")(*on)
    assert_within(fused, ((x @ y) ** 2).sum(1), 2 * gamma(2 * 6 + 10, F64) * torch.from_numpy((size**2).sum(1)))
    blocks = block_einsum("ij,jk->ik", block_sparse(on[0], [(2, 3), (1, 3)]), block_sparse(on[1], [(1, 3), (6,)]))
    assert_within(blocks.dense(), x @ y, 2 * gamma(6, F64) * torch.from_numpy(size))
    assert_within(permute("ij->ji", on[0]), x.T, 0)
    assert_within(reduce("ij->i", on[0], op="maximum"), x.max(1), 0)
    assert_within(elementwise("ij,i->ij", on[0], on[0][:, 0].contiguous(), combine="multiply"), x * x[:, :1], 0)


@on_devices
def test_decompositions_reconstruct(device):
    x = gaussian((4, 5, 6), 1, F64).to(device)
    for made in (tucker(x, (4, 5, 6)), tensor_train(x)):
        again = made.reconstruct()
        assert again.device.type == device
        # Orthogonal factors of full rank: an error of a few times the norm's roundings.
        assert float((again - x).norm()) <= gamma(200, F64) * float(x.norm())
