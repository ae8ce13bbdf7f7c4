"""Products with BSR matrices: every block shape, on every backend, within the stated bound."""

import ml_dtypes
import numpy as np
import pytest
import torch

import trnsci
import trnsim
import trnsparse as ts
from trnsci.errors import UnsupportedError
from trnsci.testing import BACKENDS, EDGES, assert_within, gamma, gaussian, pairs, stated_and_used, unit_roundoff
from trnsparse.bsr_spmm import BsrSpmm, in_order
from trnsparse.kernels import bsr_spmm as kernels

BLOCKS = [128, 32, 1, (7, 13), (100, 160), (130, 150), (3, 300), (1100, 60)]


def sample(m, k, block, seed=0, dtype=torch.float32):
    """About half of the blocks, whole block rows left out."""
    bm, bn = (block, block) if isinstance(block, int) else block
    kept = torch.from_numpy(gaussian((-(-m // bm), -(-k // bn)), seed + 7).numpy() > 0)
    kept[kept.shape[0] // 2] = kept.shape[0] == 1
    dense = gaussian((m, k), seed, dtype)
    return torch.where(kept.repeat_interleave(bm, 0).repeat_interleave(bn, 1)[:m, :k], dense, 0)


def bound(dense, b):
    """The stated one: sums in float32 at least, a result of half precision rounded once; underflow of one product."""
    sums = torch.float32 if dense.dtype in (torch.bfloat16, torch.float16) else dense.dtype
    size = dense.abs().double() @ b.abs().double()
    error = gamma(dense.shape[1] + 2, sums) * size + torch.finfo(dense.dtype).tiny
    return (
        error
        if sums == dense.dtype
        else error + unit_roundoff(dense.dtype) * ((dense.double() @ b.double()).abs() + error)
    )


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_block_shape(backend, block):
    size = (40, 30) if block == 1 else (270, 310)
    dense = sample(*size, block)
    b = gaussian((size[1], 17), 1)
    a = ts.BSRMatrix.from_dense(dense, block)
    with backend:
        assert_within(a @ b, dense.double() @ b.double(), bound(dense, b))


@pytest.mark.parametrize(("backend", "m", "k", "n"), pairs(BACKENDS, EDGES, EDGES, [1, 513]), ids=str)
def test_edges(backend, m, k, n):
    dense, b = gaussian((m, k), 1), gaussian((k, n), 2)
    with backend:
        assert_within(ts.BSRMatrix.from_dense(dense) @ b, dense.double() @ b.double(), bound(dense, b))


@pytest.mark.grid(1)
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
    assert_within(made, dense.double() @ b.double(), bound(dense, b))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients(dtype):
    a = ts.BSRMatrix.from_dense(sample(7, 8, 3, dtype=dtype), 3)
    values, b = a.values.clone().requires_grad_(), gaussian((8, 2), 1, dtype).requires_grad_()
    assert torch.autograd.gradcheck(lambda v, b: ts.spmm(a.with_values(v), b), (values, b))


# columns without blocks are not read
@pytest.mark.filterwarnings("ignore::trnsim.UnreadInput")
@pytest.mark.sim
@pytest.mark.parametrize("block", [128, 40])
def test_kernel_gradients_are_those_of_float64(block):
    dense, b, g = sample(200, 150, block), gaussian((150, 5), 1), gaussian((200, 5), 2)
    a = ts.BSRMatrix.from_dense(dense, block).requires_grad_()
    b.requires_grad_()
    with trnsci.backend("simulator"):
        (a @ b).backward(g)
    columns = b.detach().double().T
    pattern = a.detach().to(torch.float64)
    # that of sddmm: sums over the columns of b
    error = gamma(5 + 2, torch.float32) * ts.sddmm(pattern, g.abs().double(), columns.abs()).values
    assert_within(a.values.grad, ts.sddmm(pattern, g.double(), columns).values, error)
    assert_within(b.grad, dense.double().T @ g.double(), bound(dense.T, g))


def test_the_op_is_well_registered_and_compiles():
    a, b = ts.BSRMatrix.from_dense(sample(9, 8, 3), 3), gaussian((8, 3), 1)
    args = (a.indptr, a.indices, a.values.clone().requires_grad_(), b.clone().requires_grad_(), 9)
    torch.library.opcheck(torch.ops.trnsparse.bsr_spmm.default, args)
    run = torch.compile(lambda values, b: ts.spmm(a.with_values(values), b), backend="aot_eager")
    assert_within(run(a.values, b), a @ b, 2 * bound(a.to_dense(), b))


@pytest.mark.parametrize(
    ("backend", "dtype", "block"),
    pairs(["pytorch", "simulator"], [torch.float32, torch.bfloat16], [128, 32, 200]),
    ids=str,
)
def test_the_plan_states_the_memory_that_is_used(backend, dtype, block):
    a = ts.BSRMatrix.from_dense(sample(1000, 1000, block, dtype=dtype), block)
    args = (a.indptr, a.indices, a.values, gaussian((1000, 64), 1, dtype), 1000)
    stated, used = stated_and_used(BsrSpmm, backend, *args)
    # rows of shallow blocks may fill their last tile or not, which shapes do not tell
    assert 0.8 * stated <= used <= 1.01 * stated + 4096


def test_the_plan_says_that_float64_has_no_kernel():
    a, b = ts.BSRMatrix.from_dense(gaussian((256, 256), 1, torch.float64)), gaussian((256, 64), 2, torch.float64)
    call = BsrSpmm(a.indptr, a.indices, a.values, b, 256)
    plan = BsrSpmm._op.plan(call)
    assert plan.predicted == {}
    assert "no kernel takes every step" in str(plan)
    assert "takes float32, bfloat16, float16, not float64" in str(trnsci.explain(ts.spmm, a, b))
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match="not float64"):
        ts.spmm(a, b, format="stored")


def predicted(side, density, dtype, target="trn2"):
    """The profile of a product with 512 columns, blocks at random places, and how many blocks there are."""
    grid = side // 128
    rng = np.random.default_rng(0)
    each = max(1, round(density * grid))
    rows = [[((int(c) * 128, 128),) for c in rng.choice(grid, each, replace=False)] for _ in range(grid)]
    run = trnsim.profile(kernels.bsr_spmm, target=target, numerics=False)
    inputs = np.empty((128, grid * each * 128), dtype), np.empty((side, 512), dtype)
    return run(*inputs, rows=side, height=128, steps=in_order(rows)[0])[1], grid * each


@pytest.mark.sim
@pytest.mark.parametrize(("side", "dtype"), [(4096, np.float32), (16384, ml_dtypes.bfloat16)], ids=["fp32", "bf16"])
def test_predicted_time_is_proportional_to_stored_blocks(side, dtype):
    """What a block costs, the launch apart, is the same within 10 % from 5 % to 50 %."""
    (few, some), (more, many) = predicted(side, 0.05, dtype), predicted(side, 0.5, dtype)
    assert few.active_s / some < 1.1 * more.active_s / many


@pytest.mark.sim
def test_predicted_time_is_proportional_with_the_launch_when_the_matrix_is_large():
    (few, some), (more, many) = predicted(16384, 0.05, np.float32), predicted(16384, 0.5, np.float32)
    assert few.total_s / some < 1.1 * more.total_s / many


@pytest.mark.sim
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=["fp32", "bf16"])
def test_predicted_rate_is_most_of_the_peak(dtype):
    report, _ = predicted(4096, 0.25, dtype)
    assert report.flops_per_s * report.active_s / report.total_s > 0.6 * report.peak_flops_per_s


@pytest.mark.sim
def test_rows_of_b_that_no_block_meets_are_not_read():
    run = trnsim.profile(kernels.bsr_spmm, target="trn2", numerics=False)
    steps = tuple((i, ((1280, 128),)) for i in range(4))
    inputs = np.empty((128, 4 * 128), np.float32), np.empty((4096, 512), np.float32)
    report = run(*inputs, rows=1024, height=128, steps=steps)[1]
    assert report.hbm_read_bytes == 4 * (4 * 128 * 128 + 128 * 512)
    assert report.hbm_written_bytes == 4 * 1024 * 512


def test_block_rows_that_need_the_fewest_new_rows_of_b_come_first():
    rows = [[((0, 128),), ((128, 128),)], [((256, 128),)], [((0, 128),), ((256, 128),)], []]
    steps, order = in_order(rows, banks=7)
    assert [i for i, _ in steps] == [1, 2, 2, 0, 0]
    assert order == [2, 3, 4, 0, 1]
    assert [pieces for _, pieces in steps] == [((256, 128),), ((0, 128),), ((256, 128),), ((0, 128),), ((128, 128),)]


def test_the_first_block_rows_are_taken_together_by_column():
    rows = [[((0, 128),), ((256, 128),)], [((0, 128),), ((128, 128),)]]
    assert in_order(rows) == (
        ((0, ((0, 128),)), (1, ((0, 128),)), (1, ((128, 128),)), (0, ((256, 128),))),
        [0, 2, 3, 1],
    )


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b.runs_kernels], ids=str)
@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=pytest.mark.slow), torch.bfloat16])
def test_many_block_rows_share_transfers(backend, dtype):
    # groups of blocks, of rows of b and of rows of the result, each with a rest; a block row is empty
    dense = sample(1310, 1290, 128, dtype=dtype)
    b = gaussian((1290, 520), 1, dtype)
    a = ts.BSRMatrix.from_dense(dense, 128)
    with backend:
        assert_within(a @ b, dense.double() @ b.double(), bound(dense, b))
