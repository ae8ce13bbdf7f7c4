"""Token generation: small MLPs in tiles of the array, experts chosen on the device, pages, norms, projections."""

from dataclasses import dataclass, field
from enum import Enum

import ml_dtypes
import numpy as np
import pytest

import trnsim
from tests.trnsim.rounded import rounded, within
from tests.trnsim.styles.helpers import (
    P_MAX,
    TensorView,
    get_program_info,
    kernel_assert,
    load_tile,
    tiled_range,
    transpose_to_sbuf,
)
from trnsim import isa as nisa, language as nl
from trnsim.errors import OutOfBounds, TrnError
from trnsim.language import NKIObject

pytestmark = pytest.mark.sim

BF16 = ml_dtypes.bfloat16
FP8_MAX = 240.0


def gaussian(shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@dataclass
class MlpDims(NKIObject):
    """Sizes of a kernel, some derived; names with an underscore are for itself."""

    T: int
    H: int
    inner: int
    _column: int = 32
    _tiles: int = field(default=0, init=False)

    def __post_init__(self):
        kernel_assert(self._column >= self.T, f"{self.T} tokens exceed a column tile of {self._column}")
        self._tiles = P_MAX // self._column

    def column(self, i):
        return (i % self._tiles) * self._column


def mlp_column_tiled(x, w):
    """x [T, H] with few tokens, w [H, I]: four parts of K side by side in the array, added at the end."""
    dims = MlpDims(x.shape[0], x.shape[1], w.shape[1])
    out = nl.ndarray((dims.T, dims.inner), dtype=x.dtype, buffer=nl.shared_hbm)
    parts = nl.ndarray((P_MAX, dims.inner), dtype=nl.float32, buffer=nl.psum)
    for k in tiled_range(dims.H, P_MAX):
        xT = transpose_to_sbuf(load_tile(x[:, k.start_offset : k.end_offset]))
        at = dims.column(k.index)
        nisa.nc_matmul(
            dst=parts[at : at + dims.T, :],
            stationary=xT,
            moving=load_tile(w[k.start_offset : k.end_offset]),
            tile_position=(0, at),
            tile_size=(k.size, 32),
            accumulate=k.index >= 4,
        )
    total = nl.ndarray((dims.T, dims.inner), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(4):
        part = parts[i * 32 : i * 32 + dims.T, :]
        if i == 0:
            nisa.tensor_copy(dst=total, src=part)
        else:
            # engines work lane by lane: the part is brought to the lanes of the total first
            here = nl.ndarray((dims.T, dims.inner), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=here, src=part)
            nisa.tensor_tensor(dst=total, data1=total, data2=here, op=nl.add)
    o_sb = nl.ndarray((dims.T, dims.inner), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=o_sb, src=total)
    nisa.dma_copy(dst=out, src=o_sb)
    return out


def test_decode_projection_in_column_tiles():
    x, w = gaussian((4, 1024), 1, BF16), gaussian((1024, 256), 2, BF16)
    made = trnsim.simulate(mlp_column_tiled)(x, w)
    within(made, rounded(x) @ w.astype(np.float32))
    with pytest.raises((AssertionError, TrnError)):
        trnsim.simulate(mlp_column_tiled)(gaussian((64, 128), 1, BF16), gaussian((128, 64), 2, BF16))


def linear_double_row(xT_q, w_q, x_scale, w_scale):
    """fp8 with two rows of K in a cell; one scale of the input, one for each output column."""
    K, T = xT_q.shape
    N = w_q.shape[1]
    out = nl.ndarray((T, N), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    ps = nl.ndarray((T, N), dtype=nl.float32, buffer=nl.psum)
    for k in range(K // 256):
        a = nl.ndarray((P_MAX, 2, T), dtype=xT_q.dtype, buffer=nl.sbuf)
        b = nl.ndarray((P_MAX, 2, N), dtype=w_q.dtype, buffer=nl.sbuf)
        for row in range(2):
            first = k * 256 + row * P_MAX
            nisa.dma_copy(dst=a[:, row, :], src=xT_q[first : first + P_MAX])
            nisa.dma_copy(dst=b[:, row, :], src=w_q[first : first + P_MAX])
        nisa.nc_matmul(dst=ps, stationary=a, moving=b, accumulate=k > 0, perf_mode=nisa.matmul_perf_mode.double_row)
    factor = load_tile(w_scale.ap([[0, T], [1, N]]))
    scaled = nl.ndarray((T, N), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=scaled, data=ps, op0=nl.multiply, operand0=load_tile(x_scale.ap([[0, T], [1, 1]])), op1=nl.multiply,
        operand1=factor,
    )  # fmt: skip
    nisa.dma_copy(dst=out, src=scaled)
    return out


def test_fp8_projection_with_double_rows():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((512, 16)).astype(ml_dtypes.float8_e4m3)
    w = rng.standard_normal((512, 96)).astype(ml_dtypes.float8_e4m3)
    x_scale, w_scale = np.array([[0.25]], np.float32), rng.random((1, 96)).astype(np.float32) + 0.5
    made = trnsim.simulate(linear_double_row)(x, w, x_scale, w_scale)
    within(made, rounded(x.T) @ w.astype(np.float32) * 0.25 * w_scale)


class Scaling(Enum):
    NONE = 0
    POST = 1


@dataclass
class MoeArgs(NKIObject):
    k: int
    scaling: Scaling = Scaling.POST
    clamp: float = None


def moe_selective(x, gate_up, down, index, affinity, args):
    """Each token's experts, chosen by a run-time index into [E, H, 2, I] and [E, I, H]; results are added."""
    T, H = x.shape
    inner = gate_up.shape[3]
    out = nl.ndarray((T, H), dtype=nl.float32, buffer=nl.shared_hbm)
    for t in range(T):
        ids = load_tile(index[t : t + 1, :])
        weights = load_tile(affinity[t : t + 1, :])
        xT = nl.ndarray((H, 1), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=xT, src=x.ap([[1, H], [1, 1]], offset=t * H))
        total = nl.ndarray((1, H), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=total, value=0.0)
        for k in range(args.k):
            both = nl.ndarray((H, 2, inner), dtype=gate_up.dtype, buffer=nl.sbuf)
            nisa.dma_copy(
                dst=both,
                src=gate_up.ap(
                    [[2 * inner, H], [inner, 2], [1, inner]], scalar_offset=ids[:, k : k + 1], indirect_dim=0
                ),
            )
            w2 = nl.ndarray((inner, H), dtype=down.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=w2, src=down.select(0, ids[:, k : k + 1]))
            gate = nl.ndarray((inner, 1), dtype=nl.float32, buffer=nl.psum)
            up = nl.ndarray((inner, 1), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=gate, stationary=both[:, 0, :], moving=xT)
            nisa.nc_matmul(dst=up, stationary=both[:, 1, :], moving=xT)
            acted = nl.ndarray((inner, 1), dtype=nl.float32, buffer=nl.sbuf)
            if args.clamp is not None:
                nisa.tensor_scalar(dst=acted, data=gate, op0=nl.minimum, operand0=args.clamp)
                nisa.activation(dst=acted, op=nl.silu, data=acted)
            else:
                nisa.activation(dst=acted, op=nl.silu, data=gate)
            nisa.tensor_tensor(dst=acted, data1=acted, data2=up, op=nl.multiply)
            o_ps = nl.ndarray((1, H), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=o_ps, stationary=acted, moving=w2)
            if args.scaling == Scaling.POST:
                nisa.scalar_tensor_tensor(
                    dst=total, data=o_ps, op0=nl.multiply, operand0=weights[:, k : k + 1], op1=nl.add, operand1=total
                )
            else:
                nisa.tensor_tensor(dst=total, data1=total, data2=o_ps, op=nl.add)
        nisa.dma_copy(dst=out[t : t + 1], src=total)
    return out


@pytest.mark.parametrize("scaling", list(Scaling))
@pytest.mark.parametrize("clamp", [None, 0.5])
def test_selected_experts(scaling, clamp):
    T, H, inner, E, k = 3, 64, 48, 6, 2
    x, gate_up, down = gaussian((T, H), 1), gaussian((E, H, 2, inner), 2) / 8, gaussian((E, inner, H), 3) / 7
    index = np.array([[5, 0], [2, 2], [1, 4]], np.int32)
    affinity = softmax(gaussian((T, k), 4))
    made = trnsim.simulate(moe_selective)(x, gate_up, down, index, affinity, MoeArgs(k, scaling, clamp))
    for t in range(T):
        expected = rounded(np.zeros(H))
        for j, e in enumerate(index[t]):
            gate, up = rounded(x[t]) @ gate_up[e, :, 0], rounded(x[t]) @ gate_up[e, :, 1]
            gate = gate if clamp is None else np.minimum(gate, clamp)
            part = (gate / (1 + np.exp(-gate)) * up) @ down[e]
            expected = expected + part * (affinity[t, j] if scaling is Scaling.POST else 1)
        within(made[t], expected)
    with pytest.raises(OutOfBounds):
        trnsim.simulate(moe_selective)(x, gate_up, down, index + E, affinity, MoeArgs(k, scaling, clamp))


def moe_all_experts(x, w, index, affinity, rank):
    """All local experts for all tokens; the affinity of those a token did not choose is masked on the device."""
    T = x.shape[0]
    E_L, _, N = w.shape
    K = index.shape[1]
    out = nl.ndarray((T, N), dtype=nl.float32, buffer=nl.shared_hbm)
    ids = load_tile(index, nl.float32)
    scores = load_tile(affinity)
    first = load_tile(rank.ap([[0, T], [1, 1]]), nl.float32)
    nisa.tensor_scalar(dst=first, data=first, op0=nl.multiply, operand0=float(E_L))
    local = nl.ndarray((T, E_L), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(dst=local, pattern=[[1, E_L]], offset=0, channel_multiplier=0)
    nisa.tensor_scalar(dst=local, data=local, op0=nl.add, operand0=first)
    mask = nl.ndarray((T, E_L), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=mask, value=0.0)
    for k in range(K):
        nisa.scalar_tensor_tensor(
            dst=mask, data=local, op0=nl.equal, operand0=ids[:, k : k + 1], op1=nl.maximum, operand1=mask
        )
    nisa.tensor_tensor(dst=mask, data1=mask, data2=scores, op=nl.multiply)
    xT = transpose_to_sbuf(load_tile(x))
    total = nl.zeros((T, N), dtype=nl.float32, buffer=nl.sbuf)
    for e in nl.affine_range(E_L):
        ps = nl.ndarray((T, N), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=ps, stationary=xT, moving=load_tile(w[e]))
        nisa.scalar_tensor_tensor(
            dst=total, data=ps, op0=nl.multiply, operand0=mask[:, e : e + 1], op1=nl.add, operand1=total
        )
    nisa.dma_copy(dst=out, src=total)
    return out


@pytest.mark.filterwarnings("ignore:nl.affine_range is an alias of range")
@pytest.mark.parametrize("rank", [0, 1])
def test_all_experts_masked_by_what_was_chosen(rank):
    x, w, affinity = gaussian((20, 80), 1), gaussian((4, 80, 56), 2), gaussian((20, 4), 3)
    index = np.random.default_rng(0).integers(0, 8, (20, 2)).astype(np.int32)
    made = trnsim.simulate(moe_all_experts)(x, w, index, affinity, np.array([[rank]], np.int32))
    chosen = (index[:, :, None] == np.arange(4) + 4 * rank).any(axis=1)
    within(made, sum(np.where(chosen, affinity, 0)[:, e : e + 1] * (rounded(x) @ w[e]) for e in range(4)))


@dataclass
class CacheConfig(NKIObject):
    block: int
    scale: float
    _sink: float = None


def attention_paged(q, k_cache, v_cache, table, length, config):
    """One query a head against pages [blocks, block, d]; pages are gathered by a table, the tail is masked."""
    heads, d = q.shape
    pages = table.shape[0]
    L = pages * config.block
    out = nl.ndarray((heads, d), dtype=nl.float32, buffer=nl.shared_hbm)
    page = load_tile(table)
    flat_k = k_cache.reshape((k_cache.shape[0], config.block * d))
    flat_v = v_cache.reshape((v_cache.shape[0], config.block * d))
    k_sb = nl.ndarray((pages, config.block * d), dtype=nl.float32, buffer=nl.sbuf)
    v_sb = nl.ndarray((pages, config.block * d), dtype=nl.float32, buffer=nl.sbuf)
    for dst, src in ((k_sb, flat_k), (v_sb, flat_v)):
        nisa.dma_copy(
            dst=dst, src=src.ap([[config.block * d, pages], [1, config.block * d]], vector_offset=page, indirect_dim=0)
        )
    qT = transpose_to_sbuf(load_tile(q))
    scores = nl.ndarray((heads, config.block, pages), dtype=nl.float32, buffer=nl.sbuf)
    for b in range(config.block):
        kT = transpose_to_sbuf(k_sb[:, b * d : (b + 1) * d])
        ps = nl.ndarray((heads, pages), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=ps, stationary=qT, moving=kT)
        nisa.activation(dst=scores[:, b, :], op=nl.copy, data=ps, scale=config.scale)
    # positions of the transposed layout: page * block + b
    where = nl.ndarray((heads, config.block, pages), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(dst=where, pattern=[[1, config.block], [config.block, pages]], offset=0, channel_multiplier=0)
    limit = load_tile(length.ap([[0, heads], [1, 1]]), nl.float32)
    mask = nl.ndarray((heads, L), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=mask, data=where.reshape((heads, L)), op0=nl.greater_equal, operand0=limit, op1=nl.multiply, operand1=-1e30
    )
    flat = scores.reshape((heads, L))
    nisa.tensor_tensor(dst=flat, data1=flat, data2=mask, op=nl.add)
    top = nl.max(flat, axis=1, keepdims=True)
    nisa.tensor_scalar(dst=flat, data=flat, op0=nl.subtract, operand0=top)
    total = nl.ndarray((heads, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=flat, op=nl.exp, data=flat, reduce_op=nl.add, reduce_res=total)
    if config._sink is not None:
        sink = nl.ndarray((heads, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=sink, op=nl.exp, data=top, scale=-1.0, bias=nl.full((heads, 1), config._sink, nl.float32))
        nisa.tensor_tensor(dst=total, data1=total, data2=sink, op=nl.add)
    nisa.reciprocal(dst=total, data=total)
    o_ps = nl.ndarray((heads, d), dtype=nl.float32, buffer=nl.psum)
    for b in range(config.block):
        eT = transpose_to_sbuf(scores[:, b, :])
        nisa.nc_matmul(dst=o_ps, stationary=eT, moving=v_sb[:, b * d : (b + 1) * d], accumulate=b > 0)
    o_sb = nl.ndarray((heads, d), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=o_sb, data=o_ps, op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=out, src=o_sb)
    return out


@pytest.mark.parametrize("sink", [None, 0.7])
@pytest.mark.parametrize("length", [1, 37, 64])
def test_attention_over_pages(length, sink):
    heads, d, block = 8, 32, 16
    q, k, v = gaussian((heads, d), 1), gaussian((10, block, d), 2), gaussian((10, block, d), 3)
    table = np.array([[7], [0], [3], [9]], np.int32)
    config = CacheConfig(block, 0.25, sink)
    made = trnsim.simulate(attention_paged)(q, k, v, table, np.array([[length]], np.int32), config)
    keys, values = (a[table[:, 0]].reshape(-1, d)[:length] for a in (k, v))
    scores = rounded(q) @ keys.T * 0.25
    if sink is not None:
        scores = np.concatenate([scores, np.full((heads, 1), sink)], 1)
    within(made, softmax(scores)[:, :length] @ values)


def write_pages(cache, new, slots):
    """New rows into slots of a paged cache that the caller owns; slot -1 is padding."""
    blocks, block, d = cache.shape
    rows = cache.reshape((blocks * block, d))
    for t in tiled_range(new.shape[0], P_MAX):
        at = nl.ndarray((t.size, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=at, src=slots[t.start_offset : t.end_offset].reshape((t.size, 1)))
        nisa.dma_copy(
            dst=rows.ap([[d, t.size], [1, d]], vector_offset=at, indirect_dim=0),
            src=load_tile(new[t.start_offset : t.end_offset]),
            oob_mode=nisa.oob_mode.skip,
        )
    return cache


def test_a_paged_cache_is_written_by_slots():
    cache, new = gaussian((6, 16, 24), 1), gaussian((5, 24), 2)
    slots = np.array([90, -1, 3, 17, -1], np.int32)
    expected = cache.copy().reshape(96, 24)
    expected[slots[slots >= 0]] = new[slots >= 0]
    trnsim.simulate(write_pages)(cache, new, slots)
    np.testing.assert_array_equal(cache.reshape(96, 24), expected)


def rmsnorm_tkg(x, gamma, eps):
    """Few tokens with H over the partitions: [128, T, H/128]; sums over partitions by a product with ones."""
    T, H = x.shape
    H1 = H // P_MAX
    out = nl.ndarray((P_MAX, T, H1), dtype=x.dtype, buffer=nl.shared_hbm)
    view = TensorView(x).reshape_dim(1, (P_MAX, H1)).permute((1, 0, 2))
    x_sb = nl.ndarray((P_MAX, T, H1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=x_sb, src=view.get_view())
    g_sb = nl.ndarray((P_MAX, H1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=g_sb, src=gamma.reshape((P_MAX, H1)))
    square = nl.ndarray((P_MAX, T, H1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=square, op=nl.square, data=x_sb)
    partial = nl.ndarray((P_MAX, T), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=partial, op=nl.add, data=square, axis=2)
    ones = nl.ndarray((P_MAX, P_MAX), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    total = nl.ndarray((P_MAX, T), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=ones, moving=partial)
    eps_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=eps_sb, value=eps)
    inverse = nl.ndarray((P_MAX, T), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=inverse, op=nl.rsqrt, data=total, scale=1.0 / H, bias=eps_sb)
    made = nl.ndarray((P_MAX, T, H1), dtype=x.dtype, buffer=nl.sbuf)
    gamma_view = TensorView(g_sb).expand_dim(1).broadcast(1, T)
    nisa.tensor_tensor(dst=x_sb, data1=x_sb, data2=gamma_view.get_view(), op=nl.multiply)
    nisa.tensor_tensor(
        dst=made, data1=x_sb, data2=TensorView(inverse).expand_dim(2).broadcast(2, H1).get_view(), op=nl.multiply
    )
    nisa.dma_copy(dst=out, src=made)
    return out


@pytest.mark.parametrize("tokens", [1, 4])
def test_norm_with_the_hidden_dimension_over_partitions(tokens):
    x, gamma = gaussian((tokens, 512), 1), gaussian((512,), 2)
    made = trnsim.simulate(rmsnorm_tkg)(x, gamma, 1e-6)
    x = rounded(x)
    expected = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6) * gamma
    within(made.transpose(1, 0, 2).reshape(tokens, 512), expected)


@dataclass
class NormQuantArgs(NKIObject):
    lower_bound: float = 0.0
    norm: bool = True
    eps: float = 1e-6
    _least_scale: float = 1e-5

    def has_lower_bound(self):
        return self.lower_bound > 0


def rmsnorm_quant(hidden, gamma, args):
    """[B, S, H] to fp8 [B, S, H + 4]: rows and, in the last four bytes, the fp32 scale that takes them back."""
    B, S, H = hidden.shape
    _, cores, core = get_program_info()
    rows = hidden.reshape((B * S, H))
    packed = nl.ndarray((B, S, H + 4), dtype=nl.float8_e4m3, buffer=nl.shared_hbm)
    out = packed.reshape((B * S, H + 4))
    mine = B * S // cores
    ones = nl.ndarray((1, P_MAX), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    gamma_sb = load_tile(gamma.reshape((1, H)))
    for t in tiled_range(mine, P_MAX):
        first = core * mine + t.start_offset
        x = load_tile(rows[first : first + t.size], nl.float32)
        if args.has_lower_bound():
            nisa.tensor_scalar(
                dst=x, data=x, op0=nl.minimum, operand0=args.lower_bound, op1=nl.maximum, operand1=-args.lower_bound
            )
        if args.norm:
            square = nl.ndarray((t.size, H), dtype=nl.float32, buffer=nl.sbuf)
            total = nl.ndarray((t.size, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation_reduce(dst=square, op=nl.square, data=x, reduce_op=nl.add, reduce_res=total)
            eps = nl.ndarray((t.size, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=eps, value=args.eps)
            nisa.activation(dst=total, op=nl.rsqrt, data=total, scale=1.0 / H, bias=eps)
            for h in tiled_range(H, nl.tile_size.gemm_moving_fmax):
                columns = nl.ds(h.start_offset, h.size)
                wide = nl.ndarray((t.size, h.size), dtype=nl.float32, buffer=nl.psum)
                nisa.nc_matmul(dst=wide, stationary=ones[:, 0 : t.size], moving=gamma_sb[:, columns])
                nisa.scalar_tensor_tensor(
                    dst=x[:, columns], data=x[:, columns], op0=nl.multiply, operand0=total, op1=nl.multiply,
                    operand1=wide,
                )  # fmt: skip
        most = nl.ndarray((t.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=most, op=nl.maximum, data=nl.abs(x), axis=1)
        row = nl.ndarray((t.size, H + 4), dtype=nl.float8_e4m3, buffer=nl.sbuf)
        scale = row[:, H : H + 4].view(nl.float32)
        nisa.tensor_scalar(
            dst=scale, data=most, op0=nl.multiply, operand0=1 / FP8_MAX, op1=nl.maximum, operand1=args._least_scale
        )
        inverse = nl.ndarray((t.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=scale)
        nisa.tensor_scalar(dst=row[:, 0:H], data=x, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[first : first + t.size], src=row)
    return packed


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("bound", [0.0, 1.5])
def test_norm_and_fp8_with_the_scale_packed_behind(bound, cores):
    x, gamma = gaussian((2, 70, 640), 1, BF16), gaussian((640,), 2)
    kernel = trnsim.jit(rmsnorm_quant)
    made = np.asarray(trnsim.simulate(kernel[cores] if cores > 1 else kernel)(x, gamma, NormQuantArgs(bound)))
    assert made.shape == (2, 70, 644)
    scale = np.ascontiguousarray(made[..., 640:]).view(np.uint8).view(np.float32)
    x = x.astype(np.float32)
    x = np.clip(x, -bound, bound) if bound else x
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gamma
    got = made[..., :640].astype(np.float32) * scale
    assert np.abs(got - expected).max() <= np.abs(expected).max() / 16


def output_projection_tkg(attention, weight, bias, transpose_out):
    """[D, B, N, S] with the head dimension on partitions times [N*D, H]; heads are summed in PSUM."""
    D, B, N, S = attention.shape
    H = weight.shape[1]
    a_sb = load_tile(attention)
    if transpose_out:
        out = nl.ndarray((H, B * S), dtype=nl.float32, buffer=nl.shared_hbm)
    else:
        out = nl.ndarray((B * S, H), dtype=nl.float32, buffer=nl.shared_hbm)
    for h in tiled_range(H, P_MAX if transpose_out else 512):
        columns = slice(h.start_offset, h.end_offset)
        ps = nl.ndarray((h.size, B * S) if transpose_out else (B * S, h.size), dtype=nl.float32, buffer=nl.psum)
        for n in range(N):
            head = TensorView(a_sb).select(2, n).get_view()
            w_sb = load_tile(weight[n * D : (n + 1) * D, columns])
            if transpose_out:
                nisa.nc_matmul(dst=ps, stationary=w_sb, moving=head, accumulate=n > 0)
            else:
                nisa.nc_matmul(dst=ps, stationary=head, moving=w_sb, accumulate=n > 0)
        if transpose_out:
            o_sb = nl.ndarray((h.size, B * S), dtype=nl.float32, buffer=nl.sbuf)
            b_sb = load_tile(bias.reshape((H, 1))[columns])
            nisa.tensor_scalar(dst=o_sb, data=ps, op0=nl.add, operand0=b_sb)
            nisa.dma_copy(dst=out[columns, :], src=o_sb)
        else:
            o_sb = nl.ndarray((B * S, h.size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=o_sb, data1=ps, data2=load_tile(bias[:, columns].broadcast(0, B * S)), op=nl.add)
            nisa.dma_copy(dst=out[:, columns], src=o_sb)
    return out


@pytest.mark.parametrize("transpose_out", [False, True])
def test_output_projection_of_a_few_tokens(transpose_out):
    a, w, bias = gaussian((64, 2, 3, 4), 1), gaussian((192, 640), 2), gaussian((1, 640), 3)
    made = trnsim.simulate(output_projection_tkg)(a, w, bias, transpose_out)
    within(made.T if transpose_out else made, rounded(a.transpose(1, 3, 2, 0).reshape(8, 192)) @ w + bias)


def qkv_norm_rope(x, gamma, w, cos, sin, heads):
    """Norm, projection and rotation of q and k; heads on a dimension of their own by names."""
    T, H = x.shape
    d = w.shape[1] // (3 * heads)
    out = nl.ndarray((3, heads, T, d), dtype=nl.float32, buffer=nl.shared_hbm)
    x_sb = load_tile(x)
    normed = nl.rms_norm(x_sb, load_tile(gamma.ap([[0, T], [1, H]])), axis=1, n=H, epsilon=1e-5)
    ps = nl.ndarray((T, w.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for k in tiled_range(H, P_MAX):
        nisa.nc_matmul(
            dst=ps,
            stationary=transpose_to_sbuf(normed[:, k.start_offset : k.end_offset]),
            moving=load_tile(w[k.start_offset : k.end_offset]),
            accumulate=k.index > 0,
        )
    sb = nl.copy(ps)
    by_head = sb.rearrange(
        ("t", ("c", "n", "half", "e")), ("t", "c", "n", "half", "e"), {"c": 3, "n": heads, "half": 2}
    )
    c_sb, s_sb = load_tile(cos), load_tile(sin)
    made = nl.ndarray((T, 3, heads, 2, d // 2), dtype=nl.float32, buffer=nl.sbuf)
    c_wide = c_sb.expand_dim(1).broadcast(1, heads)
    s_wide = s_sb.expand_dim(1).broadcast(1, heads)
    for part in range(2):
        low, high = by_head[:, part, :, 0, :], by_head[:, part, :, 1, :]
        a = nl.ndarray((T, heads, d // 2), dtype=nl.float32, buffer=nl.sbuf)
        b = nl.ndarray((T, heads, d // 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=a, data1=low, data2=c_wide, op=nl.multiply)
        nisa.tensor_tensor(dst=b, data1=high, data2=s_wide, op=nl.multiply)
        nisa.tensor_tensor(dst=made[:, part, :, 0, :], data1=a, data2=b, op=nl.subtract)
        nisa.tensor_tensor(dst=a, data1=high, data2=c_wide, op=nl.multiply)
        nisa.tensor_tensor(dst=b, data1=low, data2=s_wide, op=nl.multiply)
        nisa.tensor_tensor(dst=made[:, part, :, 1, :], data1=a, data2=b, op=nl.add)
    nisa.tensor_copy(dst=made[:, 2], src=by_head[:, 2])
    nisa.dma_copy(dst=out.permute((2, 0, 1, 3)), src=made.flatten_dims(3, 4))
    return out


def test_norm_projection_and_rotation_in_one_kernel():
    T, H, heads, d = 40, 200, 3, 32
    x, gamma, w = gaussian((T, H), 1), gaussian((1, H), 2), gaussian((H, 3 * heads * d), 3) / 14
    angle = np.arange(T)[:, None] / 100 ** (np.arange(d // 2) / 16)
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    made = trnsim.simulate(qkv_norm_rope)(x, gamma, w, cos, sin, heads)
    x = rounded(x)
    y = (x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * gamma) @ w
    y = y.reshape(T, 3, heads, d).transpose(1, 2, 0, 3)
    re, im = y[:2, ..., : d // 2], y[:2, ..., d // 2 :]
    within(made, np.concatenate([np.concatenate([re * cos - im * sin, re * sin + im * cos], -1), y[2:]]))
