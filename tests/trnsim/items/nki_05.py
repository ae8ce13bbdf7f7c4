"""What NKI 0.5 brought."""

import functools

import ml_dtypes
import numpy as np

import trnsim
from tests.trnsim.items.table import item, numbers
from trnsim import collectives as ncc, isa as nisa, language as nl

BF16 = np.dtype(ml_dtypes.bfloat16)
F32, I32 = np.float32, np.int32
here = functools.partial(item, since="0.5")
equal = np.testing.assert_array_equal


@here("float8_e8m0fnu scales")
def _(run):
    a = numbers(32, 16, dtype=BF16)

    def kernel(a, out):
        data = nl.ndarray((32, 4), nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        scale = nl.ndarray((32, 4), nl.float8_e8m0fnu, buffer=nl.sbuf)
        nisa.quantize_mx(dst=data, src=a, dst_scale=scale)
        ps = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        nisa.nc_matmul_mx(ps, data, data, scale, scale)
        nisa.tensor_copy(dst=out, src=ps)

    x = a.astype(np.float64).reshape(32, 4, 4)
    exact, size = np.einsum("kmq,knq->mn", x, x), np.einsum("kmq,knq->mn", abs(x), abs(x))
    assert (abs(run(kernel, a, out=[((4, 4), F32)]) - exact) <= 2.0**-2 * size).all()


@here("view primitives (12)", target="trn2")
def _(run):
    x = np.arange(4 * 24, dtype=F32).reshape(4, 24)
    index = np.array([[2]], I32)

    def kernel(x, index):
        out = nl.ndarray((4, 24), nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((4, 24), nl.float32, buffer=nl.sbuf)
        at = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        rows = nl.ndarray((4, 1), nl.uint32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=at, src=index)
        nisa.iota(dst=rows, pattern=[[1, 1]], offset=0, channel_multiplier=1)
        cube = tile.reshape_dim(1, (2, 3, 4))
        assert cube.shape == (4, 2, 3, 4)
        assert cube.permute((0, 3, 1, 2)).shape == (4, 4, 2, 3)
        assert cube.flatten_dims(1, 3).shape == (4, 24)
        assert cube.select(1, 1).shape == (4, 3, 4)
        assert cube.select(1, at).is_indirect()
        assert cube.slice(2, 0, 3, 2).shape == (4, 2, 2, 4)
        assert cube.expand_dim(1).squeeze_dim(1).shape == (4, 2, 3, 4)
        assert tile.expand_dim(1).broadcast(1, 5).shape == (4, 5, 24)
        assert cube.rearrange(("p", "a", "b", "c"), ("p", ("a", "b"), "c")).shape == (4, 6, 4)
        assert tile.reinterpret_cast(nl.int32).dtype == nl.int32
        assert tile.is_contiguous()
        assert x.vector_select(0, rows).shape == (4, 24)
        nisa.dma_copy(dst=out, src=cube.permute((0, 3, 1, 2)).permute((0, 2, 3, 1)).flatten_dims(1, 3))
        return out

    equal(run(kernel, x, index), x)


def _picked(instruction):
    """Run an instruction on columns that an index tile picks."""

    def check(run):
        x, index = numbers(16, 8), np.tile(np.array([[5]], np.uint32), (16, 1))
        index[:8, 0] = np.arange(8)

        def kernel(a, at, out):
            instruction(out, a.indirect(at, num_elem=8))

        return x, run(kernel, x, index, out=[((16, 8), F32)])

    return check


@here("indirect() on tensor_copy")
def _(run):
    x, got = _picked(lambda out, a: nisa.tensor_copy(dst=out, src=a))(run)
    equal(got, x)


@here("indirect() on tensor_scalar")
def _(run):
    x, got = _picked(lambda out, a: nisa.tensor_scalar(dst=out, data=a, op0=nl.add, operand0=1.0))(run)
    equal(got, x + 1)


@here("indirect() on activation")
def _(run):
    x, got = _picked(lambda out, a: nisa.activation(dst=out, op=nl.relu, data=a))(run)
    equal(got, np.maximum(x, 0))


@here("indirect() on tensor_tensor")
def _(run):
    def add_one(out, a):
        nisa.memset(dst=out, value=1.0)
        nisa.tensor_tensor(dst=out, data1=a, data2=out, op=nl.add)

    x, got = _picked(add_one)(run)
    equal(got, x + 1)


@here("indirect() on activate2")
def _(run):
    x, got = _picked(lambda out, a: nisa.activate2(out, nl.relu, a, 2.0, 0.0, nl.multiply, nl.bypass))(run)
    equal(got, np.maximum(2 * x, 0))


@here("dma_transpose scalar_offset + oob skip", target="trn2")
def _(run):
    x = numbers(4, 16, 32, dtype=BF16)

    def kernel(x, index):
        out = nl.ndarray((32, 16), nl.bfloat16, buffer=nl.shared_hbm)
        at = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        tile = nl.ndarray((32, 16), nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=at, src=index)
        nisa.memset(dst=tile, value=0.0)
        part = x.ap([[32, 16], [1, 32]], scalar_offset=at, indirect_dim=0)
        nisa.dma_transpose(dst=tile, src=part, oob_mode=nisa.oob_mode.skip)
        nisa.dma_copy(dst=out, src=tile)
        return out

    equal(run(kernel, x, np.array([[2]], I32)), x[2].T)
    equal(run(kernel, x, np.array([[7]], I32)), np.zeros((32, 16), BF16))


@here("warns accumulate=True on uninitialised PSUM", target="trn2", warn="zeros")
def _(run):
    a = numbers(8, 4)

    def kernel(a, out):
        ps = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        nisa.memset(dst=ps, value=0.0)
        nisa.nc_matmul(dst=ps, stationary=a, moving=a, accumulate=True)
        nisa.tensor_copy(dst=out, src=ps)

    np.testing.assert_allclose(run(kernel, a, out=[((4, 4), F32)]), a.T @ a, atol=1e-5)


@here("collectives accept name", target="trn2")
def _(run):
    def kernel(x, group):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        ncc.all_reduce([x], [out], group, nl.add, name="sum")
        return out

    shards = [np.full((4, 4), rank, F32) for rank in range(2)]
    got = run(kernel, trnsim.per_rank(shards), ncc.ReplicaGroup([[0, 1]]), ranks=2)
    equal(got[0], 1)


@here("reshape asserts element count", target="trn2", refuse="does not have 24 elements")
def _(run):
    run(lambda a, out: nisa.tensor_copy(dst=out, src=a.reshape((4, 5))), numbers(4, 6), out=[((4, 5), F32)])


@here("rsqrt refuses PSUM", target="trn2", refuse="psum")
def _(run):
    def kernel(a, out):
        ps = nl.ndarray((4, 6), nl.float32, buffer=nl.psum)
        nisa.tensor_copy(dst=ps, src=a)
        nisa.tensor_scalar(dst=out, data=ps, op0=nl.rsqrt, operand0=0.0, engine=nisa.engine.gpsimd)

    run(kernel, numbers(4, 6), out=[((4, 6), F32)])


@here("nc_matmul bf16 dst 8192 elements")
def _(run):
    a, b = numbers(4, 2, dtype=BF16), numbers(4, 8192, dtype=BF16, seed=1)

    def kernel(a, b, out):
        ps = nl.ndarray((2, 8192), nl.bfloat16, buffer=nl.psum)
        nisa.nc_matmul(dst=ps, stationary=a, moving=b)
        nisa.tensor_copy(dst=out, src=ps)

    got = run(kernel, a, b, out=[((2, 8192), BF16)]).astype(np.float64)
    exact = a.astype(np.float64).T @ b.astype(np.float64)
    assert (abs(got - exact) <= 2.0**-8 * (abs(a.astype(F32)).T @ abs(b.astype(F32)))).all()


@here("while-loop terminates", target="trn2", until="0.6")
def _(run):
    def kernel(count, out):
        left = nisa.register_alloc(1)
        nisa.register_load(left, count)
        total = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        nisa.memset(dst=total, value=0)
        while left:
            nisa.tensor_scalar(dst=total, data=total, op0=nl.add, operand0=2)
            nisa.tensor_scalar(dst=count, data=count, op0=nl.subtract, operand0=1)
            nisa.register_load(left, count)
        nisa.tensor_copy(dst=out, src=total)

    equal(run(kernel, np.array([[3]], I32), out=[((1, 1), I32)]), [[6]])
