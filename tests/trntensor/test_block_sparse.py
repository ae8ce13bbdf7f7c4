import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import trnsci
from tests.together import together
from trnsci import ArgumentError, DtypeError
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian
from trntensor import BlockSparse, block_einsum, block_sparse

F32, F64 = torch.float32, torch.float64
SECTIONS = {"i": (2, 3, 1), "j": (4, 2), "k": (3, 3), "l": (1, 5), "m": (2, 2)}
CASES = ["ij,jk->ik", "ij,jk->ki", "ijk,kl->lij", "ijk,jkl->il", "ij,kl->ijkl", "ij,ij->", "ijm,jkm->mik", "ij,jk->k"]


def random_blocks(labels, seed, dtype=F64, keep=0.6):
    x = gaussian(tuple(sum(SECTIONS[label]) for label in labels), seed, dtype)
    made = block_sparse(x, [SECTIONS[label] for label in labels])
    rng = np.random.default_rng(seed)
    kept = {place: block for place, block in made.blocks.items() if rng.random() < keep}
    return BlockSparse(made.sections, kept or dict(list(made.blocks.items())[:1]))


def limit(equation, a, b, dtype):
    """A sum of as many terms as the contracted axes have, of absolute values."""
    size = np.einsum(equation, np.abs(a.numpy()), np.abs(b.numpy()), dtype=np.float64)
    return gamma(a.numel() + b.numel() + 4, dtype) * torch.from_numpy(np.asarray(size)) + torch.finfo(dtype).tiny


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("equation", CASES)
def test_against_numpy_on_whole_tensors(backend, equation):
    first, second = equation.split("->")[0].split(",")
    a, b = random_blocks(first, 1, F32), random_blocks(second, 2, F32)
    with backend:
        got = block_einsum(equation, a, b, alpha=1.5)
    whole = a.dense(), b.dense()
    expected = 1.5 * np.einsum(equation, whole[0].double().numpy(), whole[1].double().numpy())
    made = got.dense() if got.blocks else torch.zeros(got.shape)
    assert_within(made, expected, 1.5 * limit(equation, *whole, F32))


@settings(deadline=None, max_examples=30)
@given(equation=st.sampled_from(CASES), seed=st.integers(0, 50), keep=st.floats(0.1, 1.0))
def test_any_pattern(equation, seed, keep):
    first, second = equation.split("->")[0].split(",")
    a, b = random_blocks(first, seed, keep=keep), random_blocks(second, seed + 1, keep=keep)
    got = block_einsum(equation, a, b)
    expected = np.einsum(equation, a.dense().numpy(), b.dense().numpy())
    made = got.dense() if got.blocks else torch.zeros(got.shape, dtype=F64)
    assert_within(made, expected, limit(equation, a.dense(), b.dense(), F64))


def test_all_products_are_one_dispatch_and_absent_blocks_are_not_multiplied():
    x = block_sparse(torch.block_diag(*[gaussian((4, 4), s, F64) for s in range(3)]), [(4, 4, 4), (4, 4, 4)])
    with trnsci.ledger() as book:
        got = block_einsum("ij,jk->ik", x, x)
    (call,) = [entry for entry in book if entry.depth == 0]
    assert call.step.op == "trnblas::grouped_gemm"
    assert call.step.cost.flops == 3 * 2 * 4**3
    assert sorted(got.blocks) == [(0, 0), (1, 1), (2, 2)]


def test_stacked_blocks_stay_apart():
    # rows i and j of blocks store k = (i + j) % 2 alone: two products, of two rows each, with blocks of every length
    lengths = (2, 3)
    sizes = [(lengths[i], lengths[j], lengths[(i + j) % 2]) for i in range(2) for j in range(2)]
    places = [(i, j, (i + j) % 2) for i in range(2) for j in range(2)]
    blocks = {place: gaussian(size, n, F64) for n, (place, size) in enumerate(zip(places, sizes, strict=True))}
    x = BlockSparse((lengths,) * 3, blocks)
    y = BlockSparse((lengths, (2, 0)), {(0, 0): gaussian((2, 2), 7, F64), (1, 1): gaussian((3, 0), 8, F64)})
    clean = block_einsum("ijk,kl->lij", x, y)
    assert sorted(clean.blocks) == [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
    bad = BlockSparse(x.sections, {**blocks, (0, 0, 0): torch.full((2, 2, 2), torch.nan, dtype=F64)})
    with trnsci.ledger() as book:
        got = block_einsum("ijk,kl->lij", bad, y)
    (call,) = [entry for entry in book if entry.depth == 0]
    assert [tuple(left.shape) for left in call.step.call.a] == [(2 * 2 + 3 * 3, 2), (2 * 3 + 3 * 2, 3)]
    assert got.blocks.pop((0, 0, 0)).isnan().all()
    assert all(torch.equal(block, clean.blocks[place]) for place, block in got.blocks.items())


def test_an_addend_and_gradients():
    a, b = random_blocks("ij", 1), random_blocks("jk", 2)
    c = random_blocks("ik", 3)
    got = block_einsum("ij,jk->ik", a, b, alpha=2.0, beta=-0.5, c=c)
    expected = 2 * a.dense().numpy() @ b.dense().numpy() - 0.5 * c.dense().numpy()
    size = 2 * a.dense().abs().numpy() @ b.dense().abs().numpy() + 0.5 * c.dense().abs().numpy()
    assert_within(got.dense(), expected, gamma(20, F64) * torch.from_numpy(size) + torch.finfo(F64).tiny)
    place, block = next(iter(a.blocks.items()))
    block = block.clone().requires_grad_()
    moved = BlockSparse(a.sections, {**a.blocks, place: block})
    block_einsum("ij,jk->ik", moved, b).dense().sum().backward()
    rows = b.dense().sum(1).split(a.sections[1])[place[1]]
    assert_within(block.grad, rows.expand(block.shape), gamma(10, F64) * b.dense().abs().sum())


@together(
    ("call", "text"),
    [
        (lambda: BlockSparse(((2,), (2,)), {(0, 1): torch.ones(2, 2)}), "position is (0, 1), expected a section"),
        (lambda: BlockSparse(((2,), (2,)), {(0, 0): torch.ones(2, 3)}), "shape of block (0, 0) is (2, 3)"),
        (lambda: block_sparse(torch.ones(4), [(2, 1)]), "sections is (3,), expected sums (4,)"),
        (lambda: BlockSparse(((2,),), {}).dense(), "expected at least one"),
        (
            lambda: block_einsum(
                "ii->i", block_sparse(torch.eye(2), [(2,), (2,)]), block_sparse(torch.eye(2), [(2,)] * 2)
            ),
            "block_einsum",
        ),
        (
            lambda: block_einsum(
                "ij,jk->ik", block_sparse(torch.eye(2), [(2,), (2,)]), block_sparse(torch.eye(2), [(1, 1), (2,)])
            ),
            "sections of j",
        ),
        (
            lambda: block_einsum("i,i->", *[block_sparse(torch.ones(2), [(2,)])] * 2, beta=1.0),
            "because beta is 1.0",
        ),
    ],
)
def test_bad_arguments_are_named(call, text):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert text in str(caught.value)


def test_blocks_of_two_dtypes():
    with pytest.raises(DtypeError, match="nothing is promoted silently"):
        BlockSparse(((1, 1),), {(0,): torch.ones(1), (1,): torch.ones(1, dtype=F64)})
