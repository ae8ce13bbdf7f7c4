"""What NKI 0.6 brought."""

import functools

import ml_dtypes
import numpy as np

import trnsim
from tests.trnsim.items.table import item, numbers
from trnsim import collectives as ncc, isa as nisa, language as nl

BF16, E4 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3)
F32, I32, U32 = np.float32, np.int32, np.uint32
here = functools.partial(item, since="0.6")
equal = np.testing.assert_array_equal


@here("fori_loop runtime bound", target="trn2")
def _(run):
    x = numbers(8, 4)

    def kernel(x, count):
        out = nl.ndarray((1, 4), nl.float32, buffer=nl.shared_hbm)
        n = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        row = nl.ndarray((1, 4), nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((1, 4), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=n, src=count)
        nisa.memset(dst=total, value=0.0)
        bound = nisa.register_alloc(0)
        nisa.register_load(bound, n)

        def body(i):
            nisa.dma_copy(dst=row, src=x.ap([[4, 1], [1, 4]], scalar_offset=i, indirect_dim=0))
            nisa.tensor_tensor(dst=total, data1=total, data2=row, op=nl.add)

        nl.fori_loop(0, bound, body)
        nisa.dma_copy(dst=out, src=total)
        return out

    np.testing.assert_allclose(run(kernel, x, np.array([[5]], I32))[0], x[:5].sum(0), rtol=1e-5)


def _topk(run):
    x = (np.random.default_rng(0).permutation(48).reshape(16, 3) / 4).astype(BF16)

    def kernel(a, values, indices):
        nisa.topk(values, indices, a, 48)

    values, indices = run(kernel, x, out=[((16, 4), BF16), ((16, 4), U32)])
    snake = x.T.reshape(-1).astype(F32)
    best = np.argsort(snake)[-4:]
    equal(indices[0], best)
    equal(values[0].astype(F32), snake[best])


here("topk")(_topk)
here("topk on trn2", target="trn2")(_topk)


def _transposed(rows, rank):
    """A transpose by hardware descriptors of 96 columns."""

    def check(run):
        x = numbers(rows, *([16 // rows] if rank == 3 else []), 96, dtype=BF16)

        def kernel(x):
            out = nl.ndarray(x.shape[::-1], nl.bfloat16, buffer=nl.shared_hbm)
            tile = nl.ndarray(x.shape[::-1], nl.bfloat16, buffer=nl.sbuf)
            nisa.dma_transpose(dst=tile, src=x, dge_mode=nisa.dge_mode.hwdge)
            nisa.dma_copy(dst=out, src=tile)
            return out

        equal(run(kernel, x), x.transpose(*range(x.ndim)[::-1]))

    return check


for _rows in (1, 2, 4, 8, 16):
    here(f"dma_transpose HWDGE 3D rows={_rows} cols=96", target="trn2")(_transposed(_rows, 3))
here("dma_transpose HWDGE 2D rows=16 cols=96", target="trn2")(_transposed(16, 2))


@here("tensor_scalar_reduce reduce_res=None chain", target="trn2")
def _(run):
    x, y = numbers(4, 6), numbers(4, 6, seed=1)

    def kernel(a, b, total):
        kept = nl.ndarray((4, 6), nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar_reduce(dst=kept, data=a, op0=nl.multiply, operand0=1.0, reduce_op=nl.add)
        nisa.tensor_scalar_reduce(
            dst=kept,
            data=b,
            op0=nl.multiply,
            operand0=1.0,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reduce,
        )

    got = run(kernel, x, y, out=[((4, 1), F32)])
    np.testing.assert_allclose(got[:, 0], x.sum(1) + y.sum(1), rtol=1e-5, atol=1e-5)


@here("nl.copy bit-accurate int32", target="trn2")
def _(run):
    x = np.array([[2**24 + 1, -(2**31), 2**31 - 1]], I32)
    equal(run(lambda a, out: nisa.dma_copy(dst=out, src=nl.copy(a)), x, out=[((1, 3), I32)]), x)


@here(">128 partitions refused", target="trn2", refuse="129 partitions")
def _(run):
    run(lambda a, out: nl.ndarray((129, 4), nl.float32, buffer=nl.sbuf), numbers(1, 1), out=[((1, 1), F32)])


@here("dynamic_range emits deprecation warning", target="trn2", until="0.6", warn="deprecated since NKI 0.6")
def _(run):
    def kernel(a, out):
        nisa.memset(dst=out, value=0.0)
        for _i in nl.dynamic_range(3):
            nisa.tensor_tensor(dst=out, data1=out, data2=a, op=nl.add)

    run(kernel, numbers(4, 6), out=[((4, 6), F32)])


@here("fp32->int RNE, saturate", target="trn2")
def _(run):
    x = np.array([[0.5, 1.5, 2.5, -0.5, 3e10, -3e10]], F32)
    got = run(lambda a, out: nisa.tensor_copy(dst=out, src=a), x, out=[((1, 6), I32)])
    equal(got, [[0, 2, 2, 0, 2**31 - 1, -(2**31)]])


_DATA = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], F32)
_VALS = np.array([[3, 8, 8, 8, 8, 8, 8, 9]], F32)


@here("nc_match_replace8 tie-break", target="trn2")
def _(run):
    def kernel(a, v, replaced, places):
        nisa.nc_match_replace8(dst=replaced, data=a, vals=v, imm=0.0, dst_idx=places)

    replaced, places = run(kernel, _DATA, _VALS, out=[((1, 11), F32), ((1, 8), U32)])
    equal(replaced, [[1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 8]])
    equal(places, [[2, 9, 8, 7, 6, 5, 4, 2**32 - 1]])


@here("nc_find_index8 sentinel and duplicates", target="trn2")
def _(run):
    got = run(lambda a, v, out: nisa.nc_find_index8(dst=out, data=a, vals=v), _DATA, _VALS, out=[((1, 8), U32)])
    equal(got, [[2, 4, 5, 6, 7, 8, 9, 2**32 - 1]])


@here("activation reduce_res aliasing dst", target="trn2")
def _(run):
    x = numbers(4, 6)

    def kernel(a, out):
        nisa.activation(
            dst=out[:, 0:6],
            op=nl.square,
            data=a,
            reduce_op=nl.add,
            reduce_res=out[:, 6:7],
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )

    got = run(kernel, x, out=[((4, 7), F32)])
    np.testing.assert_allclose(got[:, 6], (x * x).sum(1), rtol=1e-5)


@here("sliced MX scale buffers")
def _(run):
    a = numbers(32, 16, dtype=BF16)

    def kernel(a, out):
        scales = nl.ndarray((32, 8), nl.uint8, buffer=nl.sbuf)
        data = nl.ndarray((32, 4), nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        nisa.quantize_mx(dst=data, src=a, dst_scale=scales[:, 4:8])
        ps = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        nisa.nc_matmul_mx(ps, data, data, scales[:, 4:8], scales[:, 4:8])
        nisa.tensor_copy(dst=out, src=ps)

    x = a.astype(np.float64).reshape(32, 4, 4)
    exact, size = np.einsum("kmq,knq->mn", x, x), np.einsum("kmq,knq->mn", abs(x), abs(x))
    assert (abs(run(kernel, a, out=[((4, 4), F32)]) - exact) <= 2.0**-2 * size).all()


@here("nc_matmul double_row")
def _(run):
    a, b = numbers(8, 2, 4, dtype=E4), numbers(8, 2, 6, dtype=E4, seed=1)

    def kernel(a, b, out):
        ps = nl.ndarray((4, 6), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=ps, stationary=a, moving=b, perf_mode=nisa.matmul_perf_mode.double_row)
        nisa.tensor_copy(dst=out, src=ps)

    expected = a.astype(F32).reshape(16, 4).T @ b.astype(F32).reshape(16, 6)
    np.testing.assert_allclose(run(kernel, a, b, out=[((4, 6), F32)]), expected, atol=1e-4)


@here("overlapping PSUM accumulation", target="trn2")
def _(run):
    x, w = numbers(8, 20), numbers(8, 3, 5, seed=1)

    def kernel(a, taps, out):
        ps = nl.ndarray((5, 22), nl.float32, buffer=nl.psum)
        for tap in range(3):
            nisa.nc_matmul(dst=ps[:, tap : tap + 20], stationary=taps[:, tap], moving=a)
        nisa.tensor_copy(dst=out, src=ps)

    expected = np.zeros((5, 22))
    for tap in range(3):
        expected[:, tap : tap + 20] += w[:, tap].T @ x
    np.testing.assert_allclose(run(kernel, x, w, out=[((5, 22), F32)]), expected, atol=1e-4)


@here("tensor_copy_predicated mismatched ranks", target="trn2")
def _(run):
    x = numbers(4, 6)
    chosen = (x > 0).astype(np.uint8).reshape(4, 2, 3)

    def kernel(a, where, out):
        nisa.memset(dst=out, value=-1.0)
        nisa.tensor_copy_predicated(dst=out, src=a, predicate=where)

    equal(run(kernel, x, chosen, out=[((4, 6), F32)]), np.where(x > 0, x, F32(-1)))


@here("affine_select float on_false (fp32 min)", target="trn2")
def _(run):
    x, least = numbers(4, 4), float(np.finfo(F32).min)

    def kernel(a, out):
        nisa.affine_select(
            dst=out,
            pattern=[[-1, 4]],
            channel_multiplier=1,
            on_true_tile=a,
            on_false_value=least,
            cmp_op=nl.greater_equal,
        )

    equal(run(kernel, x, out=[((4, 4), F32)]), np.where(np.tril(np.ones((4, 4))) > 0, x, F32(least)))


@here("all_gather_v exists", target="trn2")
def _(run):
    def kernel(x, counts, group):
        out = nl.ndarray((8,), nl.float32, buffer=nl.shared_hbm)
        meta = nl.ndarray((3, 4), nl.uint32, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=meta, src=counts)
        nisa.core_barrier(data=meta, cores=(0, 1))
        data = nl.ndarray((2,), nl.float32, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=data, src=x)
        nisa.core_barrier(data=data, cores=(0, 1))
        ncc.all_gather_v([data], [out], group, meta)
        return out

    shards = [np.full(2, rank, F32) for rank in range(4)]
    counts = np.array([[2] * 4, [0] * 4, [0] * 4], U32)
    got = run(kernel, trnsim.per_rank(shards), counts, ncc.ReplicaGroup([[0, 1, 2, 3]]), ranks=4, cores=2)
    equal(got[3], [0, 0, 1, 1, 2, 2, 3, 3])
