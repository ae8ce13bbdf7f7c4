"""Products with BSR matrices: every block shape, on every backend, within the stated bound."""

import pytest
import torch

import trnsci
import trnsparse as ts
from trnsci.testing import BACKENDS, EDGES, assert_within, gamma, gaussian, unit_roundoff

BLOCKS = [128, 32, 1, (7, 13), (100, 160), (130, 150), (3, 300)]


def sample(m, k, block, seed=0, dtype=torch.float32):
    """About half of the blocks, whole block rows left out."""
    bm, bn = (block, block) if isinstance(block, int) else block
    kept = torch.from_numpy(gaussian((-(-m // bm), -(-k // bn)), seed + 7).numpy() > 0)
    kept[kept.shape[0] // 2] = kept.shape[0] == 1
    dense = gaussian((m, k), seed, dtype)
    return torch.where(kept.repeat_interleave(bm, 0).repeat_interleave(bn, 1)[:m, :k], dense, 0)


def bound(dense, b):
    return gamma(dense.shape[1] + 2, dense.dtype) * (dense.abs().double() @ b.abs().double()) + 1e-37


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_block_shape(backend, block):
    size = (40, 30) if block == 1 else (270, 310)
    dense = sample(*size, block)
    b = gaussian((size[1], 17), 1)
    a = ts.BSRMatrix.from_dense(dense, block)
    with backend:
        assert_within(a @ b, dense.double() @ b.double(), bound(dense, b))


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("m", EDGES)
@pytest.mark.parametrize("k", EDGES)
@pytest.mark.parametrize("n", [1, 513])
def test_edges(backend, m, k, n):
    dense, b = gaussian((m, k), 1), gaussian((k, n), 2)
    with backend:
        assert_within(ts.BSRMatrix.from_dense(dense) @ b, dense.double() @ b.double(), bound(dense, b))


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (200, 300)], ids=str)
def test_nothing_stored_gives_zeros(backend, shape):
    with backend:
        assert torch.equal(
            ts.BSRMatrix.from_dense(torch.zeros(shape)) @ torch.ones(shape[1], 3), torch.zeros(shape[0], 3)
        )


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_rounds_once(backend, dtype):
    dense, b = sample(260, 140, 128, dtype=dtype), gaussian((140, 9), 1, dtype)
    with backend:
        made = ts.BSRMatrix.from_dense(dense) @ b
    assert_within(made, dense.double() @ b.double(), gamma(2, dtype) * (dense.abs().double() @ b.abs().double()) + 1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients(dtype):
    a = ts.BSRMatrix.from_dense(sample(7, 8, 3, dtype=dtype), 3)
    values, b = a.values.clone().requires_grad_(), gaussian((8, 2), 1, dtype).requires_grad_()
    assert torch.autograd.gradcheck(lambda v, b: ts.spmm(a.with_values(v), b), (values, b))


@pytest.mark.sim
@pytest.mark.parametrize("block", [128, 40])
def test_kernel_gradients_are_those_of_float64(block):
    dense, b, g = sample(200, 150, block), gaussian((150, 5), 1), gaussian((200, 5), 2)
    a = ts.BSRMatrix.from_dense(dense, block).requires_grad_()
    b.requires_grad_()
    with trnsci.backend("simulator"):
        (a @ b).backward(g)
    wanted = ts.sddmm(a.detach().to(torch.float64), g.double(), b.detach().double().T).values
    assert_within(a.values.grad, wanted, gamma(8, torch.float32) * 5 * float(g.abs().max() * b.abs().max()))
    assert_within(b.grad, dense.double().T @ g.double(), bound(dense.T, g))


def test_the_op_is_well_registered_and_compiles():
    a, b = ts.BSRMatrix.from_dense(sample(9, 8, 3), 3), gaussian((8, 3), 1)
    args = (a.indptr, a.indices, a.values.clone().requires_grad_(), b.clone().requires_grad_(), 9)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.trnsparse.bsr_spmm.default, args, test_utils=checks)
    run = torch.compile(lambda values, b: ts.spmm(a.with_values(values), b), backend="aot_eager")
    assert torch.equal(run(a.values, b), a @ b)


def test_predicted_time_grows_with_stored_blocks_alone():
    """Linear in the blocks: what a block costs is the same from 5 % to 50 %, up to a constant."""
    side, n = 8192, 512

    def active(density):
        pattern = torch.zeros(side // 128, side // 128, dtype=torch.bool)
        pattern[:, : round(density * side // 128)] = True
        blocks = int(pattern.sum())
        indptr = torch.arange(side // 128 + 1) * (blocks // (side // 128))
        a = ts.BSRMatrix._rebuilt(
            {"indptr": indptr, "indices": pattern.nonzero()[:, 1]},
            torch.empty(blocks, 128, 128, device="meta"),
            (side, side),
        )
        plan = trnsci.plan(ts.spmm, a, torch.empty(side, n, device="meta"))
        return plan.predicted["trn2"], blocks

    (few, some), (more, many) = active(0.05), active(0.5)
    slope = (more - few) / (many - some)
    assert few - slope * some < 35e-6
    assert 2 * 128**2 * n / slope > 0.9 * 19.66e12


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b.runs_kernels], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_many_block_rows_share_transfers(backend, dtype):
    # groups of blocks, of rows of b and of rows of the result, each with a rest; a block row is empty
    dense = sample(1310, 1290, 128, dtype=dtype)
    b = gaussian((1290, 520), 1, dtype)
    a = ts.BSRMatrix.from_dense(dense, 128)
    exact = dense.double() @ b.double()
    # sums are float32 whatever the operands are, and the result is rounded once
    sums = gamma(dense.shape[1] + 2, torch.float32) * (dense.abs().double() @ b.abs().double())
    with backend:
        assert_within(a @ b, exact, sums + unit_roundoff(dtype) * (exact.abs() + sums) + 1e-37)
