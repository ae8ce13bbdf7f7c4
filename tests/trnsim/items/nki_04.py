"""What NKI 0.4 brought."""

import contextlib
import functools
import io
import types
from dataclasses import dataclass

import ml_dtypes
import numpy as np

import trnsim
from tests.trnsim.items.table import item, numbers
from trnsim import isa as nisa, language as nl

BF16, E4, E4FN = (np.dtype(getattr(ml_dtypes, n)) for n in ("bfloat16", "float8_e4m3", "float8_e4m3fn"))
F32, I32, U8 = np.float32, np.int32, np.uint8
here = functools.partial(item, since="0.4")
equal = np.testing.assert_array_equal


@here("abs_max/abs_min callable")
def _(run):
    x, y = numbers(4, 6), numbers(4, 6, seed=1)

    def kernel(a, b, most, least):
        nisa.tensor_copy(dst=most, src=nl.abs_max(a, b))
        nisa.tensor_copy(dst=least, src=nl.abs_min(a, b))

    most, least = run(kernel, x, y, out=[((4, 6), F32)] * 2)
    equal(most, np.where(np.abs(x) > np.abs(y), x, y))
    equal(least, np.where(np.abs(x) < np.abs(y), x, y))


def _abs_max(a, out):
    nisa.tensor_scalar(dst=out, data=a, op0=nl.abs_max, operand0=1.0)


@here("abs_max op0 tensor_scalar")
def _(run):
    x = numbers(4, 6)
    equal(run(_abs_max, x, out=[((4, 6), F32)]), np.where(np.abs(x) > 1, x, F32(1)))


@here("abs_max refused on trn2", target="trn2", refuse="exists from trn3 on")
def _(run):
    run(_abs_max, numbers(4, 6), out=[((4, 6), F32)])


@here("activate2 scale+bias")
def _(run):
    x = numbers(4, 6)

    def kernel(a, out):
        nisa.activate2(dst=out, op=nl.square, data=a, imm0=2.0, imm1=1.0, op0=nl.multiply, op1=nl.add)

    np.testing.assert_allclose(run(kernel, x, out=[((4, 6), F32)]), (2 * x + 1) ** 2, rtol=1e-6)


@here("square,relu op0")
def _(run):
    x = numbers(4, 6)

    def kernel(a, squared, clipped):
        nisa.activation(dst=squared, op=nl.square, data=a)
        nisa.activation(dst=clipped, op=nl.relu, data=a)

    squared, clipped = run(kernel, x, out=[((4, 6), F32)] * 2)
    np.testing.assert_allclose(squared, x * x, rtol=1e-6)
    equal(clipped, np.maximum(x, 0))


@here("prelu/bypass in activate2")
def _(run):
    x = numbers(4, 6)

    def kernel(a, out):
        nisa.activate2(out, nl.prelu, a, 0.0, 0.0, nl.bypass, nl.bypass, relu_param=0.25)

    equal(run(kernel, x, out=[((4, 6), F32)]), np.where(x >= 0, x, x * F32(0.25)))


@here("tile_size bytes constants", target="trn2")
def _(run):
    seen = []

    def kernel(x):
        size = nl.tile_size
        seen.append((size.psum_bank_fmax_bytes, size.sbuf_size_bytes, size.sbuf_fmax_bytes, size.psum_bank_fmax))
        return x

    run(kernel, np.zeros((1, 1), F32), lint="off")
    assert seen[0][:2] == (2048, 128 * 224 * 1024)
    assert seen[0][2] <= 224 * 1024
    assert seen[0][3] == 512


@here("dma_compute oob_mode.skip", target="trn2")
def _(run):
    index = np.array([[1], [9]], np.uint32)

    def kernel(table, rows, out):
        t = nl.ndarray((4, 8), nl.float32, buffer=nl.hbm)
        nisa.dma_copy(dst=t, src=table)
        nisa.memset(dst=out, value=1.0)
        part = t.ap([[8, 2], [1, 8]], vector_offset=rows, indirect_dim=0)
        nisa.dma_compute(dst=out, srcs=[out, part], reduce_op=nl.add, oob_mode=nisa.oob_mode.skip)

    x = numbers(4, 8)
    got = run(kernel, x, index, out=[((2, 8), F32)])
    equal(got, np.stack([1 + x[1], np.ones(8, F32)]))


def _product(a, b, out):
    ps = nl.ndarray(out.shape, nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=ps, stationary=a, moving=b)
    nisa.tensor_copy(dst=out, src=ps)


@here("nc_matmul float8_e4m3fn")
def _(run):
    a, b = numbers(8, 4, dtype=E4FN), numbers(8, 6, dtype=E4FN, seed=1)
    got = run(_product, a, b, out=[((4, 6), F32)])
    np.testing.assert_allclose(got, a.astype(F32).T @ b.astype(F32), rtol=1e-6, atol=1e-6)


@here("mixing e4m3 with e4m3fn refused", refuse="e4m3")
def _(run):
    run(_product, numbers(8, 4, dtype=E4), numbers(8, 6, dtype=E4FN), out=[((4, 6), F32)])


@here("sendrecv partition not multiple of 16", target="trn2")
def _(run):
    def kernel(x):
        out = nl.ndarray((2, 10, 4), nl.float32, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        tile = nl.ndarray((10, 4), nl.float32, buffer=nl.sbuf)
        got = nl.ndarray((10, 4), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[core])
        nisa.sendrecv(src=tile, dst=got, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        nisa.dma_copy(dst=out[core], src=got)
        return out

    x = numbers(2, 10, 4)
    equal(run(kernel, x, cores=2), x[::-1])


@here("NKI_PRECISE_FP default: bf16 rounding", target="trn2")
def _(run):
    x = numbers(4, 6)

    def kernel(a, out):
        half = nl.ndarray((4, 6), nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=half, src=a)
        nisa.tensor_copy(dst=out, src=half)

    equal(run(kernel, x, out=[((4, 6), F32)]), x.astype(BF16).astype(F32))


@here("NKI_SIMULATOR=1 with torch tensors", target="trn2")
def _(run):
    import torch

    @trnsim.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(x), 1.0))
        return out

    assert (kernel(torch.ones(4, 6)) == 2).all()


@here("tensor_copy_dynamic_src removed", target="trn2", refuse="no attribute 'tensor_copy_dynamic_src'")
def _(run):
    run(lambda a, out: nisa.tensor_copy_dynamic_src(dst=out, src=a), numbers(4, 6), out=[((4, 6), F32)], lint="off")


@here("dma_transpose rank enforced", target="trn2", refuse="rank included")
def _(run):
    def kernel(a, out):
        nisa.dma_transpose(dst=out, src=a.reshape((4, 2, 3)))

    run(kernel, numbers(4, 6, dtype=BF16), out=[((6, 4), BF16)])


@here("neuronxcc.nki inside refuses", target="trn2", refuse="legacy-namespace")
def _(run):
    # AWS's package, of which the linter knows the name alone
    old = types.ModuleType("neuronxcc.nki.language")
    vars(old).update(load=nl.load, store=nl.store)

    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, old.load(x))
        return out

    run(kernel, numbers(4, 6))


@here("dma_copy oob skip keeps integer bits", target="trn2")
def _(run):
    table = np.array([[2**24 + 1], [2**30 + 3]], I32)

    def kernel(x, rows):
        out = nl.ndarray((2, 1), nl.int32, buffer=nl.shared_hbm)
        at = nl.ndarray((2, 1), nl.uint32, buffer=nl.sbuf)
        tile = nl.ndarray((2, 1), nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=at, src=rows)
        nisa.memset(dst=tile, value=-7)
        source = x.ap([[1, 2], [1, 1]], vector_offset=at, indirect_dim=0)
        nisa.dma_copy(dst=tile, src=source, oob_mode=nisa.oob_mode.skip)
        nisa.dma_copy(dst=out, src=tile)
        return out

    equal(run(kernel, table, np.array([[1], [5]], np.uint32)), [[2**30 + 3], [-7]])


@here("nc_stream_shuffle mask=255 preserves", target="trn2")
def _(run):
    x = numbers(32, 4)

    def kernel(a, out):
        nisa.memset(dst=out, value=9.0)
        nisa.nc_stream_shuffle(dst=out, src=a, shuffle_mask=[1, 255] + [0] * 30)

    got = run(kernel, x, out=[((32, 4), F32)])
    equal(got[:3], np.stack([x[1], np.full(4, 9, F32), x[0]]))


@here("local_gather into sub-view", target="trn2")
def _(run):
    x = numbers(16, 20)
    index = np.zeros((16, 1), np.uint16)
    index[:, 0] = np.arange(16)[::-1]

    def kernel(a, at, out):
        nisa.memset(dst=out, value=0.0)
        nisa.local_gather(dst=out[:, 4:20], src_buffer=a, index=at)

    got = run(kernel, x, index, out=[((16, 20), F32)])
    equal(got[:, 4:], x[:, 15::-1])
    equal(got[:, :4], 0)


@here("nc_matmul 3D operands", target="trn2")
def _(run):
    a, b = numbers(8, 4), numbers(8, 2, 3, seed=1)

    def kernel(a, b, out):
        ps = nl.ndarray((4, 2, 3), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=ps, stationary=a, moving=b)
        nisa.tensor_copy(dst=out, src=ps)

    np.testing.assert_allclose(run(kernel, a, b, out=[((4, 2, 3), F32)]), np.einsum("km,kij->mij", a, b), atol=1e-5)


@here("quantize_mx e4m3fn_x4 + matmul_mx")
def _(run):
    a, b = numbers(32, 16, dtype=BF16), numbers(32, 16, dtype=BF16, seed=1)

    def kernel(a, b, out):
        packed, scales = [], []
        for source in (a, b):
            data = nl.ndarray((32, 4), nl.float8_e4m3fn_x4, buffer=nl.sbuf)
            scale = nl.ndarray((32, 4), nl.uint8, buffer=nl.sbuf)
            nisa.quantize_mx(dst=data, src=source, dst_scale=scale)
            packed.append(data)
            scales.append(scale)
        ps = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        nisa.nc_matmul_mx(ps, packed[0], packed[1], scales[0], scales[1])
        nisa.tensor_copy(dst=out, src=ps)

    x, y = (t.astype(np.float64).reshape(32, 4, 4) for t in (a, b))
    exact, size = np.einsum("kmq,knq->mn", x, y), np.einsum("kmq,knq->mn", abs(x), abs(y))
    assert (abs(run(kernel, a, b, out=[((4, 4), F32)]) - exact) <= 2.0**-2 * size).all()


@here("iota with register offset", target="trn2")
def _(run):
    def kernel(start, out):
        at = nisa.register_alloc(0)
        nisa.register_load(at, start)
        nisa.iota(dst=out, pattern=[[1, 6]], offset=at, channel_multiplier=10)

    got = run(kernel, np.array([[3]], I32), out=[((4, 6), I32)])
    equal(got, 3 + 10 * np.arange(4)[:, None] + np.arange(6))


@here("dma_compute scales of ones", target="trn2")
def _(run):
    x, y = numbers(4, 6), numbers(4, 6, seed=1)

    def kernel(a, b, out):
        nisa.dma_compute(dst=out, srcs=[a, b], reduce_op=nl.add, scales=[1.0, 1.0])

    equal(run(kernel, x, y, out=[((4, 6), F32)]), x + y)


@here("logical_and", target="trn2")
def _(run):
    x, y = np.array([[0, 1, 2, 0]], F32), np.array([[0, 0, 3, 4]], F32)

    def kernel(a, b, out):
        nisa.tensor_tensor(dst=out, data1=a, data2=b, op=nl.logical_and)

    equal(run(kernel, x, y, out=[((1, 4), F32)]), [[0, 0, 1, 0]])


@dataclass(frozen=True)
class Scale(nl.NKIObject):
    factor: float = 2.0
    times: int = 1


@here("NKIObject frozen dataclass", target="trn2")
def _(run):
    x = numbers(4, 6)

    def kernel(a, out):
        scale = Scale(times=2)
        nisa.tensor_scalar(dst=out, data=a, op0=nl.multiply, operand0=scale.factor * scale.times)

    equal(run(kernel, x, out=[((4, 6), F32)]), 4 * x)


@here("dynamic_range induction var as scalar_offset (<=0.6)", target="trn2", until="0.6")
def _(run):
    x = numbers(4, 6)

    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for i in nl.dynamic_range(4):
            row = nl.ndarray((1, 6), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=row, src=x.ap([[6, 1], [1, 6]], scalar_offset=i, indirect_dim=0))
            nisa.dma_copy(dst=out.ap([[6, 1], [1, 6]], scalar_offset=i, indirect_dim=0), src=row)
        return out

    equal(run(kernel, x), x)


@here("nc_transpose engine vector/tensor honoured", target="trn2")
def _(run):
    x = numbers(32, 32)
    trace = []

    def kernel(a, by_vector, by_tensor):
        nisa.nc_transpose(dst=by_vector, data=a, engine=nisa.engine.vector)
        ps = nl.ndarray((32, 32), nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=ps, data=a, engine=nisa.engine.tensor)
        nisa.tensor_copy(dst=by_tensor, src=ps)

    for got in run(kernel, x, out=[((32, 32), F32)] * 2, trace=trace):
        equal(got, x.T)
    assert [r.engine for r in trace if r.name == "nc_transpose"] == ["vector", "tensor"]


@here("device_print 1-D HBM", target="trn2")
def _(run):
    def kernel(x):
        nl.device_print("x", x)
        return x

    with contextlib.redirect_stdout(io.StringIO()) as shown:
        run(kernel, np.arange(4, dtype=F32))
    assert "x" in shown.getvalue()
    assert "3." in shown.getvalue()
