"""GpSimd Engine: gathers, nonzero positions and top-k."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.together import together
from tests.trnsim.kernels import refused, rng, run
from trnsim import isa as nisa, language as nl
from trnsim.errors import (
    HardwareLimit,
    OutOfBounds,
    ReadUninitialized,
    WrongArgument,
    WrongBuffer,
    WrongDtype,
    WrongEngine,
    WrongShape,
)

pytestmark = pytest.mark.sim

BF16 = ml_dtypes.bfloat16


@together("each", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("valid", [None, 17, 5])
def test_local_gather_per_group_of_sixteen(each, valid):
    x = rng().standard_normal((48, 64, 2)).astype(np.float32)
    index = rng(1).integers(0, 128 - each + 1, (48, 2)).astype(np.uint16)
    count = 32 if valid is None else valid

    def body(x, index, out):
        nisa.local_gather(out, x, index, each, valid)

    got = run(body, x, index, out=[((48, count, each), nl.float32)])
    rows = x.reshape(48, 128)
    for p in range(48):
        group = index[p // 16 * 16 : p // 16 * 16 + 16]
        for i in range(count):
            start = group[i % 16, i // 16]
            np.testing.assert_array_equal(got[p, i], rows[p, start : start + each])


def test_local_gather_into_a_view_reads_only_the_valid_indices():
    x = rng().standard_normal((16, 20)).astype(BF16)

    def body(x, out):
        index = nl.ndarray((16, 2), nl.uint16)
        nisa.iota(index[:, 0:1], [[1, 1]], 0, 1)
        nisa.memset(out, 0.0)
        nisa.local_gather(out[:, 0:32:2], x, index, num_valid_indices=16)

    got = run(body, x, out=[((16, 32), nl.bfloat16)])
    np.testing.assert_array_equal(got[:, ::2], x[:, :16])
    np.testing.assert_array_equal(got[:, 1::2], 0)


def test_local_gather_constraints():
    x = np.ones((16, 8), np.float32)
    index = np.zeros((16, 1), np.uint16)
    out = [((16, 16), nl.float32)]

    def body(each=1, valid=None):
        return lambda x, index, out: nisa.local_gather(out, x, index, num_elem_per_idx=each, num_valid_indices=valid)

    refused(WrongDtype, "operand-dtype", body(), x, index.astype(np.uint32), out=out, says="uint16")
    refused(WrongDtype, "same-dtype", body(), x, index, out=[((16, 16), nl.bfloat16)], says=("bfloat16", "float32"))
    refused(
        WrongShape,
        "partition-group",
        body(),
        x[:8].copy(),
        index[:8].copy(),
        out=[((8, 16), nl.float32)],
        says="multiple of 16",
    )
    refused(WrongShape, "partition-mismatch", body(), np.ones((32, 8), np.float32), index, out=out, says="32")
    refused(WrongArgument, "num-elem-per-idx", body(3), x, index, out=out, says="3")
    refused(WrongArgument, "num-valid-indices", body(1, 17), x, index, out=out, says=("17", "16"))
    refused(WrongShape, "free-size-mismatch", body(2), x, index, out=out, says="16 * 2")
    many = np.zeros((16, 300), np.uint16)
    refused(HardwareLimit, "num-valid-indices", body(), x, many, out=[((16, 4800), nl.float32)], says="4096")
    found = refused(
        OutOfBounds, "gather-index", body(2), x, index + np.uint16(7), out=[((16, 32), nl.float32)], says="row of 8"
    )
    assert (found.got, found.limit) == (7, 6)
    refused(WrongBuffer, "buffer", body(), x, index, out=out, psum=(0,), says="psum")


@settings(max_examples=25, deadline=None)
@given(
    partitions=st.sampled_from([1, 7, 128]), width=st.integers(1, 70), picks=st.integers(1, 600), seed=st.integers(0, 5)
)
def test_nc_n_gather_within_partitions(partitions, width, picks, seed):
    x = rng(seed).standard_normal((partitions, width)).astype(np.float16)
    index = rng(seed + 1).integers(0, width, (partitions, picks)).astype(np.uint32)
    got = run(
        lambda x, i, out: nisa.nc_n_gather(dst=out, data=x, indices=i),
        x,
        index,
        out=[((partitions, picks), nl.float16)],
    )
    np.testing.assert_array_equal(got, np.take_along_axis(x, index.astype(int), axis=1))


def test_nc_n_gather_flattens_free_dimensions():
    x = np.arange(1.0, 9.0, dtype=np.float32).reshape(2, 2, 2)
    index = np.array([[[0, 1], [1, 3]], [[3, 3], [1, 0]]], np.uint32)
    got = run(lambda x, i, out: nisa.nc_n_gather(out, x, i), x, index, out=[((2, 2, 2), nl.float32)])
    np.testing.assert_array_equal(got, [[[1, 2], [2, 4]], [[8, 8], [6, 5]]])


def test_nc_n_gather_constraints():
    x = np.ones((4, 8), np.float32)
    index = np.zeros((4, 3), np.uint32)
    out = [((4, 3), nl.float32)]

    def body(x, index, out):
        nisa.nc_n_gather(out, x, index)

    refused(WrongDtype, "operand-dtype", body, x, index.astype(np.int32), out=out, says="uint32")
    refused(WrongDtype, "same-dtype", body, x, index, out=[((4, 3), nl.float16)], says="float16")
    refused(WrongShape, "partition-mismatch", body, x, index[:2].copy(), out=out, says="partitions")
    refused(WrongShape, "free-size-mismatch", body, x, index, out=[((4, 4), nl.float32)], says="3")
    bad = index.copy()
    bad[2, 1] = 8
    found = refused(OutOfBounds, "gather-index", body, x, bad, out=out, says=("indices[2, 1] is 8", "8 elements"))
    assert (found.got, found.limit) == (8, 7)
    refused(WrongBuffer, "buffer", body, x, index, out=[((4, 3), nl.float32, nl.psum)], says="psum")


@pytest.mark.parametrize("dtype", [np.float32, np.int32], ids=lambda d: d.__name__)
@pytest.mark.parametrize("partitions", [1, 16, 40, 128])
def test_nonzero_with_count_works_on_every_sixteenth_partition(dtype, partitions):
    x = rng().integers(-1, 2, (partitions, 30)).astype(dtype)

    def body(x, out):
        nisa.memset(out, 77)
        nisa.nonzero_with_count(out, x, index_offset=100, padding_val=-5)

    got = run(body, x, out=[((partitions, 31), nl.int32)])
    for p in range(partitions):
        if p % 16:
            np.testing.assert_array_equal(got[p], 77)
            continue
        found = [i + 100 for i in range(30) if x[p, i] != 0]
        np.testing.assert_array_equal(got[p], found + [-5] * (30 - len(found)) + [len(found)])


def test_nonzero_with_count_example_of_one_partition():
    x = np.array([[0, 1, 1, 0, 0, 1, 0, 0]], np.int32)
    got = run(lambda x, out: nisa.nonzero_with_count(dst=out, src=x, index_offset=16), x, out=[((1, 9), nl.int32)])
    np.testing.assert_array_equal(got, [[17, 18, 21, -1, -1, -1, -1, -1, 3]])


def test_nonzero_with_count_touches_no_other_partition():
    def read_two_rows(out):
        x = nl.ndarray((32, 4), nl.float32)
        row = nl.ndarray((1, 4), nl.float32)
        nisa.memset(row, 1.0)
        nisa.dma_copy(dst=x[0:1], src=row)
        nisa.dma_copy(dst=x[16:17], src=row)
        made = nl.ndarray((32, 5), nl.int32)
        nisa.nonzero_with_count(made, x)
        nisa.dma_copy(dst=out, src=made[16:17])

    np.testing.assert_array_equal(run(read_two_rows, out=[((1, 5), nl.int32)]), [[0, 1, 2, 3, 4]])

    def unread(out):
        made = nl.ndarray((32, 5), nl.int32)
        x = nl.ndarray((32, 4), nl.float32)
        nisa.memset(x, 1.0)
        nisa.nonzero_with_count(made, x)
        nisa.tensor_copy(dst=out, src=made)

    refused(ReadUninitialized, "uninitialized", unread, out=[((32, 5), nl.int32)], says="150 of 160")


def test_nonzero_with_count_constraints():
    x = np.ones((16, 4), np.float32)
    out = [((16, 5), nl.int32)]

    def body(**more):
        return lambda x, out: nisa.nonzero_with_count(out, x, **more)

    refused(WrongEngine, "generation", body(), x, out=out, target="trn1", says="trn2")
    refused(WrongDtype, "operand-dtype", body(), x.astype(np.float16), out=out, says="float16")
    refused(WrongDtype, "operand-dtype", body(), x, out=[((16, 5), nl.uint32)], says="int32")
    refused(WrongShape, "free-size-mismatch", body(), x, out=[((16, 4), nl.int32)], says="5")
    refused(WrongArgument, "int32", body(index_offset=2**31), x, out=out, says="index_offset")
    refused(WrongDtype, "int32", body(padding_val=0.5), x, out=out, says="padding_val")


@pytest.mark.parametrize(("n", "k"), [(42, 8), (48, 48), (8, 1), (33, 5)])
@pytest.mark.parametrize("partitions", [16, 64])
def test_topk_of_a_snake(n, k, partitions):
    columns = -(-n // 16)
    x = rng().permutation(partitions * columns).reshape(partitions, columns).astype(np.float32)
    x = (x / 4).astype(BF16)

    def body(x, values, indices):
        nisa.topk(values, indices, x, n)

    values, indices = run(body, x, out=[((partitions, k), nl.bfloat16), ((partitions, k), nl.uint32)])
    for p in range(partitions):
        group = x[p // 16 * 16 : p // 16 * 16 + 16]
        snake = [float(group[i % 16, i // 16]) for i in range(n)]
        best = sorted(range(n), key=lambda i: (-snake[i], i))[:k][::-1]
        np.testing.assert_array_equal(indices[p], best)
        np.testing.assert_array_equal(values[p].astype(np.float32), [snake[i] for i in best])


def test_topk_reads_only_n_elements():
    def body(values, indices):
        x = nl.ndarray((16, 2), nl.bfloat16)
        nisa.memset(x[:, 0:1], 1.0)
        four = nl.ndarray((4, 1), nl.bfloat16)
        nisa.memset(four, 2.0)
        nisa.dma_copy(dst=x[0:4, 1:2], src=four)
        nisa.topk(values, indices, x, 20)

    _, indices = run(body, out=[((16, 4), nl.bfloat16), ((16, 4), nl.uint32)])
    np.testing.assert_array_equal(indices[0], [19, 18, 17, 16])


def test_topk_constraints():
    x = np.ones((16, 3), BF16)
    out = [((16, 8), nl.bfloat16), ((16, 8), nl.uint32)]

    def body(n):
        return lambda x, v, i: nisa.topk(val_dst=v, idx_dst=i, src=x, n=n)

    refused(WrongDtype, "operand-dtype", body(48), x.astype(np.float32), out=out, says="bfloat16")
    refused(WrongDtype, "operand-dtype", body(48), x, out=[((16, 8), nl.float32), out[1]], says="val_dst")
    refused(WrongDtype, "operand-dtype", body(48), x, out=[out[0], ((16, 8), nl.int32)], says="idx_dst")
    refused(WrongArgument, "topk-n", body(7), x, out=out, says="7")
    refused(WrongArgument, "topk-n", body(65536), x, out=out, says="65536")
    refused(WrongShape, "topk-n", body(49), x, out=out, says=("48 elements", "49"))
    refused(WrongArgument, "topk-k", body(9), x, out=[((16, 10), nl.bfloat16), ((16, 10), nl.uint32)], says="10")
    refused(WrongShape, "free-size-mismatch", body(48), x, out=[out[0], ((16, 7), nl.uint32)], says="8")
    refused(
        WrongShape,
        "partition-group",
        body(9),
        x[:8].copy(),
        out=[((8, 8), nl.bfloat16), ((8, 8), nl.uint32)],
        says="multiple of 16",
    )
