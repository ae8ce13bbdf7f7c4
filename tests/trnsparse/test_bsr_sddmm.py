"""Products at the stored blocks of a pattern."""

import pytest
import torch

import trnsci
import trnsparse as ts
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian, stated_and_used
from trnsparse.bsr_sddmm import BsrSddmm


def blocks(m, n, block):
    grid = gaussian((-(-m // block[0]), -(-n // block[1])), 5) > 0
    grid[-1, -1] = True
    return torch.where(grid.repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)[:m, :n], 1.0, 0.0)


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("block", [(128, 128), (30, 70), (140, 520)], ids=str)
@pytest.mark.parametrize("d", [1, 130])
def test_blocks_are_those_of_the_dense_product(backend, block, d):
    m, n = 300, 540
    where, a, b = blocks(m, n, block), gaussian((m, d), 1), gaussian((d, n), 2)
    pattern = ts.BSRMatrix.from_dense(where, block)
    with backend:
        made = ts.sddmm(pattern, a, b)
    wanted = torch.where(where != 0, a.double() @ b.double(), 0)
    assert_within(made.to_dense(), wanted, gamma(d + 2, a.dtype) * (a.abs().double() @ b.abs().double()))


def test_gradients():
    pattern = ts.BSRMatrix.from_dense(blocks(7, 5, (2, 3)).double(), (2, 3))
    a, b = gaussian((7, 3), 1, torch.float64).requires_grad_(), gaussian((3, 5), 2, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: ts.sddmm(pattern, a, b).values, (a, b))


@pytest.mark.sim
def test_kernel_gradients_are_those_of_float64():
    pattern = ts.BSRMatrix.from_dense(blocks(150, 140, (128, 128)))
    a, b = gaussian((150, 4), 1), gaussian((4, 140), 2)
    with trnsci.backend("simulator"):
        x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
        ts.sddmm(pattern, x, y).values.sum().backward()
    mask = pattern.to_dense().double()
    assert_within(x.grad, mask @ b.double().T, gamma(142, a.dtype) * (mask @ b.abs().double().T))
    assert_within(y.grad, a.double().T @ mask, gamma(152, a.dtype) * (a.abs().double().T @ mask))


def test_the_op_is_well_registered():
    pattern = ts.BSRMatrix.from_dense(blocks(6, 5, (2, 3)), (2, 3))
    args = (pattern.indptr, pattern.indices, gaussian((6, 3)).requires_grad_(), gaussian((5, 3)).requires_grad_(), 2, 3)
    torch.library.opcheck(torch.ops.trnsparse.bsr_sddmm.default, args)


@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
@pytest.mark.parametrize("side", [1024, 1000])
def test_the_plan_states_the_memory_that_is_used(backend, side):
    pattern = ts.BSRMatrix.from_dense(blocks(side, side, (128, 128)))
    args = (pattern.indptr, pattern.indices, gaussian((side, 64), 1), gaussian((side, 64), 2), 128, 128)
    stated, used = stated_and_used(BsrSddmm, backend, *args)
    assert 0.85 * stated <= used <= 1.01 * stated + 4096
