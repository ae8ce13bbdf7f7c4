"""Projections: MLP blocks, gated ones, biases, accumulated tiles, quantised weights."""

from dataclasses import dataclass
from enum import Enum

import ml_dtypes
import numpy as np
import pytest

import trnsim
from tests.trnsim.rounded import rounded, within
from tests.trnsim.styles.helpers import P_MAX, TensorView, kernel_assert, load_tile, tiled_range, transpose_to_sbuf
from trnsim import isa as nisa, language as nl
from trnsim.errors import KernelError, PsumRule
from trnsim.language import NKIObject

pytestmark = pytest.mark.sim

BF16 = ml_dtypes.bfloat16


def gaussian(shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


class ActFn(Enum):
    silu = 1
    gelu = 2
    relu = 3


@dataclass
class MlpConfig(NKIObject):
    act: ActFn = ActFn.silu
    has_bias: bool = False
    tile_n: int = 512
    _dtype: object = None


def silu(x):
    return x / (1 + np.exp(-x))


ACTIVATIONS = {ActFn.silu: silu, ActFn.relu: lambda x: np.maximum(x, 0)}


def matmul_tiled(aT, b, out_dtype, tile_n=512):
    """[K, M] and [K, N] in HBM to [M, N] in HBM."""
    K, M = aT.shape
    K_b, N = b.shape
    kernel_assert(K_b == K, f"K differs: {K} and {K_b}")
    out = nl.ndarray((M, N), dtype=out_dtype, buffer=nl.shared_hbm)
    for m in tiled_range(M, P_MAX):
        for n in tiled_range(N, tile_n):
            ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)
            for k in tiled_range(K, P_MAX):
                a_sb = load_tile(aT[k.start_offset : k.end_offset, m.start_offset : m.end_offset])
                b_sb = load_tile(b[k.start_offset : k.end_offset, n.start_offset : n.end_offset])
                nisa.nc_matmul(dst=ps, stationary=a_sb, moving=b_sb, accumulate=k.index > 0)
            o_sb = nl.ndarray((m.size, n.size), dtype=out_dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=o_sb, src=ps)
            nisa.dma_copy(dst=out[m.start_offset : m.end_offset, n.start_offset : n.end_offset], src=o_sb)
    return out


@pytest.mark.parametrize(("m", "k", "n"), [(128, 128, 512), (100, 300, 513), (1, 1, 1), (129, 257, 700)])
def test_tiled_matmul(m, k, n):
    a, b = gaussian((k, m), 1), gaussian((k, n), 2)
    made = trnsim.simulate(matmul_tiled)(a, b, nl.float32)
    within(made, rounded(a.T) @ b)


def matmul_zeros_then_accumulate(aT, b):
    """The sum is declared with zeros, as kernels written for earlier releases do."""
    K, M = aT.shape
    N = b.shape[1]
    out = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm)
    ps = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(dst=ps, value=0.0)
    for k in range(K // P_MAX):
        nisa.nc_matmul(
            dst=ps,
            stationary=load_tile(aT[k * P_MAX : (k + 1) * P_MAX]),
            moving=load_tile(b[k * P_MAX : (k + 1) * P_MAX]),
            accumulate=True,
        )
    o_sb = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=o_sb, src=ps)
    nisa.dma_copy(dst=out, src=o_sb)
    return out


def test_a_sum_declared_with_zeros():
    a, b = gaussian((256, 64), 1), gaussian((256, 200), 2)
    with pytest.warns(trnsim.ZerosAccumulated):
        made = trnsim.simulate(matmul_zeros_then_accumulate)(a, b)
    within(made, rounded(a.T) @ b)


def test_a_sum_declared_with_ones_is_refused():
    def ones(aT, b):
        ps = nl.ndarray((64, 200), dtype=nl.float32, buffer=nl.psum)
        nisa.memset(dst=ps, value=1.0)
        nisa.nc_matmul(dst=ps, stationary=load_tile(aT), moving=load_tile(b), accumulate=True)
        return aT

    with pytest.raises(PsumRule):
        trnsim.simulate(ones)(gaussian((128, 64)), gaussian((128, 200)))


def mlp(x, gate_w, up_w, down_w, config, bias=None):
    """down(act(x gate) * (x up)): x [T, H], gate and up [H, I], down [I, H]; T at most 128."""
    T, H = x.shape
    inner = gate_w.shape[1]
    out = nl.ndarray((T, H), dtype=x.dtype, buffer=nl.shared_hbm)
    xT = []
    for h in tiled_range(H, P_MAX):
        xT.append(transpose_to_sbuf(load_tile(x[:, h.start_offset : h.end_offset])))
    acted = nl.ndarray((T, inner), dtype=x.dtype, buffer=nl.sbuf)
    for i in tiled_range(inner, config.tile_n):
        gate_ps = nl.ndarray((T, i.size), dtype=nl.float32, buffer=nl.psum)
        up_ps = nl.ndarray((T, i.size), dtype=nl.float32, buffer=nl.psum)
        for h in tiled_range(H, P_MAX):
            rows = nl.ds(h.start_offset, h.size)
            columns = nl.ds(i.start_offset, i.size)
            nisa.nc_matmul(
                dst=gate_ps, stationary=xT[h.index], moving=load_tile(gate_w[rows, columns]), accumulate=h.index > 0
            )
            nisa.nc_matmul(
                dst=up_ps, stationary=xT[h.index], moving=load_tile(up_w[rows, columns]), accumulate=h.index > 0
            )
        gate_sb = nl.ndarray((T, i.size), dtype=nl.float32, buffer=nl.sbuf)
        if config.act == ActFn.silu:
            nisa.activation(dst=gate_sb, op=nl.silu, data=gate_ps)
        elif config.act == ActFn.relu:
            nisa.activation(dst=gate_sb, op=nl.relu, data=gate_ps)
        else:
            raise ValueError("unknown activation")
        nisa.tensor_tensor(dst=acted[:, i.start_offset : i.end_offset], data1=gate_sb, data2=up_ps, op=nl.multiply)
    for h in tiled_range(H, config.tile_n):
        ps = nl.ndarray((T, h.size), dtype=nl.float32, buffer=nl.psum)
        for i in tiled_range(inner, P_MAX):
            aT = transpose_to_sbuf(acted[:, i.start_offset : i.end_offset])
            w = load_tile(down_w[i.start_offset : i.end_offset, h.start_offset : h.end_offset])
            nisa.nc_matmul(dst=ps, stationary=aT, moving=w, accumulate=i.index > 0)
        o_sb = nl.ndarray((T, h.size), dtype=x.dtype, buffer=nl.sbuf)
        if config.has_bias:
            row = bias[:, h.start_offset : h.end_offset].ap([[0, T], [1, h.size]], offset=0)
            nisa.tensor_tensor(dst=o_sb, data1=ps, data2=load_tile(row), op=nl.add)
        else:
            nisa.tensor_copy(dst=o_sb, src=ps)
        nisa.dma_copy(dst=out[:, h.start_offset : h.end_offset], src=o_sb)
    return out


@pytest.mark.parametrize("act", ACTIVATIONS)
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("tokens", [7, 128])
def test_gated_mlp(act, has_bias, tokens):
    x = gaussian((tokens, 200), 1)
    gate, up, down = gaussian((200, 300), 2) / 14, gaussian((200, 300), 3) / 14, gaussian((300, 200), 4) / 17
    bias = gaussian((1, 200), 5)
    config = MlpConfig(act, has_bias)
    made = trnsim.simulate(mlp)(x, gate, up, down, config, bias if has_bias else None)
    x = rounded(x)
    within(made, (ACTIVATIONS[act](x @ gate) * (x @ up)) @ down + (bias if has_bias else 0))


def test_an_activation_the_config_excludes_does_not_refuse_the_kernel():
    # the raise of the last branch is what the parser's rules report; with silu it is never compiled
    assert trnsim.lint(mlp, nki="0.6").warnings
    assert not trnsim.lint(mlp)
    x, w = gaussian((4, 128)), gaussian((128, 128))
    with pytest.raises((ValueError, KernelError)):
        trnsim.simulate(mlp)(x, w, w, w, MlpConfig(ActFn.gelu))


def projection_column_then_transpose(x, w, keep):
    """One column a head is written into a square tile; the tile is transposed and its first row used."""
    P, heads = x.shape
    out = nl.ndarray((heads * keep, P), dtype=nl.float32, buffer=nl.shared_hbm)
    for h in range(heads):
        square = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=square[:, 0:1], data=load_tile(x[:, h : h + 1]), op0=nl.multiply, operand0=load_tile(w)[:, 0:1]
        )
        flipped = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=flipped, data=square)
        row = nl.ndarray((keep, P), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=row, src=flipped[0:keep])
        nisa.dma_copy(dst=out[h * keep : (h + 1) * keep], src=row)
    return out


def test_a_column_transposed_with_the_rest_of_its_tile_unwritten():
    x, w = gaussian((128, 3), 1), gaussian((128, 1), 2)
    within(trnsim.simulate(projection_column_then_transpose)(x, w, 1), (rounded(x) * w).T)
    with pytest.raises(KernelError, match=r"square\[128, 128\]"):
        trnsim.simulate(projection_column_then_transpose)(x[:, :2], w, 2)


def qkv(x, w, heads, kv_heads):
    """Fused projection split into heads by views; q is scaled."""
    T, H = x.shape
    d = w.shape[1] // (heads + 2 * kv_heads)
    q = nl.ndarray((heads, T, d), dtype=nl.float32, buffer=nl.shared_hbm)
    kv = nl.ndarray((2, kv_heads, T, d), dtype=nl.float32, buffer=nl.shared_hbm)
    ps = nl.ndarray((T, w.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for k in tiled_range(H, P_MAX):
        xT = transpose_to_sbuf(load_tile(x[:, k.start_offset : k.end_offset]))
        nisa.nc_matmul(
            dst=ps, stationary=xT, moving=load_tile(w[k.start_offset : k.end_offset]), accumulate=k.index != 0
        )
    sb = nl.ndarray((T, w.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=sb[:, 0 : heads * d], op=nl.copy, data=ps[:, 0 : heads * d], scale=d**-0.5)
    nisa.tensor_copy(dst=sb[:, heads * d :], src=ps[:, heads * d :])
    view = TensorView(sb).reshape_dim(1, (heads + 2 * kv_heads, d))
    nisa.dma_copy(dst=q.permute((1, 0, 2)), src=view.slice(1, 0, heads).get_view())
    for part in range(2):
        first = heads + part * kv_heads
        nisa.dma_copy(dst=kv[part].permute((1, 0, 2)), src=view.slice(1, first, first + kv_heads).get_view())
    return q, kv


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (1, 1)])
def test_fused_qkv_projection(heads, kv_heads):
    d, x = 16, gaussian((96, 160), 1)
    w = gaussian((160, (heads + 2 * kv_heads) * d), 2)
    q, kv = trnsim.simulate(qkv)(x, w, heads, kv_heads)
    expected = (rounded(x) @ w).reshape(96, -1, d).transpose(1, 0, 2)
    within(q, expected[:heads] * d**-0.5)
    within(kv.reshape(-1, 96, d), expected[heads:])


def quantised_linear(x, w_q, scale):
    """fp8 weights with one scale for each output column."""
    K, N = w_q.shape
    T = x.shape[0]
    out = nl.ndarray((T, N), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    ps = nl.ndarray((T, N), dtype=nl.float32, buffer=nl.psum)
    for k in tiled_range(K, P_MAX):
        part = load_tile(x[:, k.start_offset : k.end_offset], nl.bfloat16)
        nisa.nc_matmul(
            dst=ps,
            stationary=transpose_to_sbuf(part),
            moving=load_tile(w_q[k.start_offset : k.end_offset]),
            accumulate=k.index > 0,
        )
    factors = load_tile(scale.ap([[0, T], [1, N]]))
    o_sb = nl.ndarray((T, N), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=o_sb, data1=ps, data2=factors, op=nl.multiply)
    nisa.dma_copy(dst=out, src=o_sb)
    return out


@pytest.mark.parametrize("fp8", [ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2])
def test_linear_with_fp8_weights(fp8):
    x, w = gaussian((32, 256), 1), gaussian((256, 160), 2)
    scale = (np.abs(w).max(axis=0, keepdims=True) / 200).astype(np.float32)
    w_q = (w / scale).astype(fp8)
    made = trnsim.simulate(quantised_linear)(x, w_q, scale)
    within(made, rounded(x.astype(BF16)) @ w_q.astype(np.float32) * scale)


def quantise_rows(x):
    """Symmetric int8 with one scale a row: the largest magnitude becomes 127."""
    T, N = x.shape
    q = nl.ndarray((T, N), dtype=nl.int8, buffer=nl.shared_hbm)
    scales = nl.ndarray((T, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    for t in tiled_range(T, P_MAX):
        rows = slice(t.start_offset, t.end_offset)
        tile = load_tile(x[rows, :])
        size = nl.ndarray((t.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        magnitude = nl.abs(tile)
        nisa.tensor_reduce(dst=size, op=nl.maximum, data=magnitude, axis=1)
        nisa.tensor_scalar(dst=size, data=size, op0=nl.maximum, operand0=1e-6, op1=nl.multiply, operand1=1.0 / 127)
        inverse = nl.ndarray((t.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=size)
        q_sb = nl.ndarray((t.size, N), dtype=nl.int8, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=q_sb, data=tile, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=q[rows, :], src=q_sb)
        nisa.dma_copy(dst=scales[rows, :], src=size)
    return q, scales


@pytest.mark.parametrize("tokens", [5, 130])
def test_rows_quantised_to_int8(tokens):
    x = gaussian((tokens, 96), 3)
    q, scales = trnsim.simulate(quantise_rows)(x)
    expected = np.abs(x).max(axis=1, keepdims=True) / 127
    within(scales, rounded(np.abs(x).max(axis=1, keepdims=True)) / 127)
    assert np.abs(q * scales - x).max() <= 0.501 * expected.max()
    assert np.abs(q.astype(int)).max() == 127


def mx_linear(stationary_bits, stationary_scale, moving, x4):
    """MX weights packed on the host, activations quantised on the device (trn3)."""
    K, M = stationary_bits.shape
    F = moving.shape[1]
    out = nl.ndarray((M, F // 4), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    data = load_tile(stationary_bits).view(x4)
    scale = nl.ndarray((K, M), dtype=nl.uint8, buffer=nl.sbuf)
    for i in range(K // 32):
        nisa.dma_copy(dst=scale[i * 32 : i * 32 + 4], src=stationary_scale[i * 4 : i * 4 + 4])
    x_q = nl.ndarray((K, F // 4), dtype=x4, buffer=nl.sbuf)
    x_scale = nl.ndarray((K, F // 4), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.quantize_mx(dst=x_q, src=load_tile(moving), dst_scale=x_scale)
    ps = nl.ndarray((M, F // 4), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(
        dst=ps, stationary=data, moving=x_q, stationary_scale=scale, moving_scale=x_scale, accumulate=False
    )
    o_sb = nl.ndarray((M, F // 4), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=o_sb, src=ps)
    nisa.dma_copy(dst=out, src=o_sb)
    return out


def test_mx_weights_packed_on_the_host():
    rng = np.random.default_rng(0)
    K, M, N = 128, 32, 64
    # powers of two are exact in fp8, and one scale of 1 for all
    w = (2.0 ** rng.integers(-3, 4, (K, M * 4)) * rng.choice([-1, 1], (K, M * 4))).astype(ml_dtypes.float8_e4m3fn)
    x = (2.0 ** rng.integers(-2, 3, (K, N * 4))).astype(BF16)
    scale = np.full((K // 8, M), 127, np.uint8)
    made = trnsim.simulate(mx_linear, target="trn3")(w.view(np.uint8).view(np.uint32), scale, x, nl.float8_e4m3fn_x4)
    left = w.astype(np.float32).reshape(K, M, 4).transpose(0, 2, 1).reshape(-1, M)
    right = x.astype(np.float32).reshape(K, N, 4).transpose(0, 2, 1).reshape(-1, N)
    within(made, rounded(left.T) @ right)
