"""Work along rows: norms, convolutions, cumulative sums, top-k, embeddings, segments, random masks."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import trnsim
from tests.trnsim.rounded import rounded, within
from tests.trnsim.styles.helpers import P_MAX, TensorView, get_program_info, load_tile, tiled_range
from trnsim import isa as nisa, language as nl
from trnsim.errors import HardwareLimit, OutOfBounds, ReadUninitialized, WrongShape
from trnsim.language import NKIObject

pytestmark = pytest.mark.sim


def gaussian(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@dataclass
class NormConfig(NKIObject):
    eps: float = 1e-6
    center: bool = False
    weights: tuple = ()
    _tile: int = field(default=128)


def rms_norm(x, weight, config, residual=None):
    """x / rms(x) * weight, rows in tiles, with an optional residual added first."""
    T, H = x.shape
    out = nl.ndarray((T, H), dtype=x.dtype, buffer=nl.shared_hbm)
    w = load_tile(weight.ap([[0, P_MAX], [1, H]]))
    for t in tiled_range(T, config._tile):
        rows = slice(t.start_offset, t.end_offset)
        tile = load_tile(x[rows, :])
        if residual:
            nisa.tensor_tensor(dst=tile, data1=tile, data2=load_tile(residual[rows, :]), op=nl.add)
        square = nl.ndarray((t.size, H), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((t.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(dst=square, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total)
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1.0 / H, op1=nl.add, operand1=config.eps)
        nisa.activation(dst=total, op=nl.rsqrt, data=total)
        nisa.scalar_tensor_tensor(
            dst=tile, data=tile, op0=nl.multiply, operand0=total, op1=nl.multiply, operand1=w[0 : t.size]
        )
        nisa.dma_copy(dst=out[rows, :], src=tile)
    return out


@pytest.mark.parametrize("tokens", [1, 128, 200])
@pytest.mark.parametrize("with_residual", [False, True])
def test_rms_norm(tokens, with_residual):
    x, w, r = gaussian((tokens, 300), 1), gaussian((1, 300), 2), gaussian((tokens, 300), 3)
    made = trnsim.simulate(rms_norm)(x, w, NormConfig(), r if with_residual else None)
    y = rounded(x) + (r if with_residual else 0)
    within(made, y / np.sqrt((y**2).mean(1, keepdims=True) + 1e-6) * w)


def layer_norm(x, gamma, beta, eps):
    """Mean and variance by bn_stats over chunks, joined by bn_aggr."""
    T, H = x.shape
    out = nl.ndarray((T, H), dtype=x.dtype, buffer=nl.shared_hbm)
    chunk = 512
    for t in tiled_range(T, P_MAX):
        tile = load_tile(x[t.start_offset : t.end_offset])
        chunks = (H + chunk - 1) // chunk
        stats = nl.ndarray((t.size, chunks * 6), dtype=nl.float32, buffer=nl.sbuf)
        for c in tiled_range(H, chunk):
            nisa.bn_stats(dst=stats[:, c.index * 6 : c.index * 6 + 6], data=tile[:, c.start_offset : c.end_offset])
        moments = nl.ndarray((t.size, 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.bn_aggr(dst=moments, data=stats)
        spread = nl.ndarray((t.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=spread, data=moments[:, 1:2], op0=nl.add, operand0=eps)
        nisa.activation(dst=spread, op=nl.rsqrt, data=spread)
        nisa.tensor_scalar(
            dst=tile,
            data=tile,
            op0=nl.subtract,
            operand0=moments[:, 0:1],
            op1=nl.multiply,
            operand1=spread,
        )
        nisa.tensor_tensor(dst=tile, data1=tile, data2=load_tile(gamma.ap([[0, t.size], [1, H]])), op=nl.multiply)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=load_tile(beta.ap([[0, t.size], [1, H]])), op=nl.add)
        nisa.dma_copy(dst=out[t.start_offset : t.end_offset], src=tile)
    return out


@pytest.mark.parametrize(("tokens", "width"), [(3, 64), (130, 512), (64, 1200)])
def test_layer_norm(tokens, width):
    x, g, b = gaussian((tokens, width), 1) + 3, gaussian((1, width), 2), gaussian((1, width), 3)
    made = trnsim.simulate(layer_norm)(x, g, b, 1e-5)
    y = rounded(x)
    within(made, (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-5) * g + b)


def conv1d(x, w, stride):
    """Depthwise, causal: channels are partitions, taps shift the window; the pad is written with zeros."""
    C, L = x.shape
    taps = w.shape[1]
    out = nl.ndarray((C, L // stride), dtype=x.dtype, buffer=nl.shared_hbm)
    padded = nl.ndarray((C, L + taps - 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=padded[:, 0 : taps - 1], value=0.0)
    nisa.dma_copy(dst=padded[:, taps - 1 :], src=x)
    w_sb = load_tile(w)
    acc = nl.ndarray((C, L // stride), dtype=x.dtype, buffer=nl.sbuf)
    for tap in range(taps):
        window = padded[:, tap : tap + L : stride]
        if tap == 0:
            nisa.tensor_scalar(dst=acc, data=window, op0=nl.multiply, operand0=w_sb[:, 0:1])
        else:
            nisa.scalar_tensor_tensor(
                dst=acc,
                data=window,
                op0=nl.multiply,
                operand0=w_sb[:, tap : tap + 1],
                op1=nl.add,
                operand1=acc,
            )
    nisa.dma_copy(dst=out, src=acc)
    return out


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("taps", [2, 4])
def test_depthwise_convolution(stride, taps):
    x, w = gaussian((96, 200), 1), gaussian((96, taps), 2)
    padded = rounded(np.concatenate([np.zeros((96, taps - 1)), x], 1))
    expected = sum(padded[:, t : t + 200] * w[:, t : t + 1] for t in range(taps))[:, ::stride]
    within(trnsim.simulate(conv1d)(x, w, stride), expected)


def conv1d_without_padding(x, w):
    """The same with the pad forgotten: what is read there nobody wrote."""
    C, L = x.shape
    out = nl.ndarray((C, L), dtype=x.dtype, buffer=nl.shared_hbm)
    padded = nl.ndarray((C, L + 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=padded[:, 1:], src=x)
    acc = nl.ndarray((C, L), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=acc, data1=padded[:, 0:L], data2=padded[:, 1 : L + 1], op=nl.add)
    nisa.dma_copy(dst=out, src=acc)
    return out


def test_a_forgotten_pad_is_refused_with_the_line_that_read_it():
    with pytest.raises(ReadUninitialized) as caught:
        trnsim.simulate(conv1d_without_padding)(gaussian((32, 64)), None)
    assert caught.value.tensor == "padded"
    assert caught.value.instruction == "tensor_tensor"
    assert "(0, 0)" in str(caught.value)


def cumsum(x, by_scan):
    """Along rows by the scan instruction, or along partitions by a product with a triangle."""
    P, N = x.shape
    out = nl.ndarray((P, N), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = load_tile(x)
    made = nl.ndarray((P, N), dtype=nl.float32, buffer=nl.sbuf)
    if by_scan:
        ones = nl.ndarray((P, N), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=ones, value=1.0)
        nisa.tensor_tensor_scan(dst=made, data0=ones, data1=tile, initial=0.0, op0=nl.multiply, op1=nl.add)
    else:
        triangle = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=triangle, value=1.0)
        nisa.affine_select(
            dst=triangle,
            pattern=[[1, P]],
            channel_multiplier=-1,
            on_true_tile=triangle,
            on_false_value=0.0,
            cmp_op=nl.greater_equal,
        )
        ps = nl.ndarray((P, N), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=ps, stationary=triangle, moving=tile, accumulate=False)
        nisa.tensor_copy(dst=made, src=ps)
    nisa.dma_copy(dst=out, src=made)
    return out


@pytest.mark.parametrize("by_scan", [True, False])
def test_cumulative_sums(by_scan):
    x = gaussian((100, 160), 1)
    within(trnsim.simulate(cumsum)(x, by_scan), np.cumsum(rounded(x), axis=1 if by_scan else 0))


def top_k(x, k):
    """The k largest of each row and where they are, eight at a time."""
    T = x.shape[0]
    values = nl.ndarray((T, k), dtype=nl.float32, buffer=nl.shared_hbm)
    places = nl.ndarray((T, k), dtype=nl.uint32, buffer=nl.shared_hbm)
    left = load_tile(x)
    for r in range(k // 8):
        best = nl.ndarray((T, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.max8(dst=best, src=left)
        at = nl.ndarray((T, 8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.nc_find_index8(dst=at, data=left, vals=best)
        nisa.nc_match_replace8(dst=left, data=left, vals=best, imm=-3.0e38)
        nisa.dma_copy(dst=values[:, r * 8 : r * 8 + 8], src=best)
        nisa.dma_copy(dst=places[:, r * 8 : r * 8 + 8], src=at)
    return values, places


@pytest.mark.parametrize("k", [8, 24])
def test_top_k(k):
    x = np.random.default_rng(1).permuted(np.arange(64 * 100).reshape(64, 100), axis=1).astype(np.float32)
    values, places = trnsim.simulate(top_k)(x, k)
    order = np.argsort(-x, axis=1)[:, :k]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis=1))


def embedding(table, ids, skip):
    """Rows gathered by DMA; negative ids are left out when asked, and those rows are zero."""
    T = ids.shape[0]
    H = table.shape[1]
    out = nl.ndarray((T, H), dtype=table.dtype, buffer=nl.shared_hbm)
    for t in tiled_range(T, P_MAX):
        index = nl.ndarray((t.size, 1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=index, src=ids[t.start_offset : t.end_offset])
        rows = nl.ndarray((t.size, H), dtype=table.dtype, buffer=nl.sbuf)
        nisa.memset(dst=rows, value=0.0)
        nisa.dma_copy(
            dst=rows,
            src=table.ap([[H, t.size], [1, H]], vector_offset=index, indirect_dim=0),
            oob_mode=nisa.oob_mode.skip if skip else nisa.oob_mode.error,
        )
        nisa.dma_copy(dst=out[t.start_offset : t.end_offset], src=rows)
    return out


@pytest.mark.parametrize("skipped", ["none", "some", "all"])
def test_embeddings_with_padding(skipped):
    table = gaussian((50, 24), 1)
    ids = np.random.default_rng(0).integers(0, 50, (140, 1)).astype(np.int32)
    if skipped != "none":
        ids[:: 1 if skipped == "all" else 3] = -1
    expected = np.where(ids >= 0, table[ids[:, 0]], 0)
    np.testing.assert_array_equal(trnsim.simulate(embedding)(table, ids, True), expected)
    if skipped != "none":
        with pytest.raises(OutOfBounds):
            trnsim.simulate(embedding)(table, ids, False)


def scatter_rows(x, ids, rows):
    """Rows written to places known at run time; a row of a table of the kernel's own catches the padding."""
    H = x.shape[1]
    out = nl.ndarray((rows, H), dtype=x.dtype, buffer=nl.shared_hbm)
    zeros = nl.ndarray((rows, H), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=zeros, value=0.0)
    nisa.dma_copy(dst=out, src=zeros)
    nisa.dma_copy(dst=out.vector_select(0, load_tile(ids)), src=load_tile(x), oob_mode=nisa.oob_mode.skip)
    return out


def test_scatter_with_skipped_rows():
    x = gaussian((20, 16), 1)
    ids = np.random.default_rng(0).permutation(40)[:20].astype(np.int32)
    expected = np.zeros((32, 16), np.float32)
    expected[ids[ids < 32]] = x[ids < 32]
    np.testing.assert_array_equal(trnsim.simulate(scatter_rows)(x, ids[:, None], 32), expected)


@dataclass
class Routing(NKIObject):
    k: int
    normalise: bool
    _scores: object = None


def router(x, w, routing):
    """Softmax over experts, the best of them, their weights; what is not chosen is zero."""
    T, H = x.shape
    E = w.shape[1]
    affinities = nl.ndarray((T, E), dtype=nl.float32, buffer=nl.shared_hbm)
    chosen = nl.ndarray((T, 8), dtype=nl.uint32, buffer=nl.shared_hbm)
    ps = nl.ndarray((T, E), dtype=nl.float32, buffer=nl.psum)
    x_sb = load_tile(x)
    for h in tiled_range(H, P_MAX):
        xT_ps = nl.ndarray((h.size, T), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=xT_ps, data=x_sb[:, h.start_offset : h.end_offset])
        nisa.nc_matmul(
            dst=ps,
            stationary=nl.copy(xT_ps),
            moving=load_tile(w[h.start_offset : h.end_offset]),
            accumulate=h.index > 0,
        )
    routing._scores = nl.copy(ps)
    scores = routing._scores
    best = nl.ndarray((T, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.max8(dst=best, src=scores)
    at = nl.ndarray((T, 8), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.nc_find_index8(dst=at, data=scores, vals=best)
    negative = nl.ndarray((T, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=negative, data=best[:, 0:1], op0=nl.multiply, operand0=-1.0)
    exps = nl.ndarray((T, E), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=exps, op=nl.exp, data=scores, bias=negative)
    mask = nl.ndarray((T, E), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=mask, data=scores, op0=nl.greater_equal, operand0=best[:, routing.k - 1 : routing.k])
    total = nl.ndarray((T, 1), dtype=nl.float32, buffer=nl.sbuf)
    if routing.normalise:
        nisa.tensor_tensor(dst=exps, data1=exps, data2=mask, op=nl.multiply)
        nisa.tensor_reduce(dst=total, op=nl.add, data=exps, axis=1)
    else:
        nisa.tensor_reduce(dst=total, op=nl.add, data=exps, axis=1)
        nisa.tensor_tensor(dst=exps, data1=exps, data2=mask, op=nl.multiply)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=exps, data=exps, op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=affinities, src=exps)
    nisa.dma_copy(dst=chosen, src=at)
    return affinities, chosen


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("k", [1, 4])
def test_router(k, normalise):
    x, w = gaussian((60, 200), 1), gaussian((200, 32), 2) / 14
    affinities, chosen = trnsim.simulate(router)(x, w, Routing(k, normalise))
    scores = rounded(x) @ w
    order = np.argsort(-scores.value, axis=1)
    np.testing.assert_array_equal(chosen[:, :k], order[:, :k])
    e = np.exp(scores - scores.max(1, keepdims=True))
    mask = np.zeros(e.shape)
    np.put_along_axis(mask, order[:, :k], 1, axis=1)
    expected = e * mask / ((e * mask).sum(1, keepdims=True) if normalise else e.sum(1, keepdims=True))
    within(affinities, expected)


def experts(x, weights, expert_of_block, blocks):
    """Blocks of tokens, each multiplied by the weights of an expert known at run time."""
    T, H = x.shape
    size = T // blocks
    N = weights.shape[2]
    out = nl.ndarray((T, N), dtype=nl.float32, buffer=nl.shared_hbm)
    ids = load_tile(expert_of_block)
    for b in range(blocks):
        xT = nl.ndarray((H, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=xT, src=TensorView(x).slice(0, b * size, (b + 1) * size).permute((1, 0)).get_view())
        w = nl.ndarray((H, N), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=w, src=weights.select(0, ids[:, b : b + 1]))
        ps = nl.ndarray((size, N), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=ps, stationary=xT, moving=w, accumulate=False)
        nisa.dma_copy(dst=out[b * size : (b + 1) * size], src=nl.copy(ps))
    return out


def test_blocks_of_tokens_by_expert():
    x, w = gaussian((96, 64), 1), gaussian((5, 64, 80), 2)
    ids = np.array([[3, 0, 4]], np.int32)
    made = trnsim.simulate(experts)(x, w, ids, 3)
    within(made, np.concatenate([rounded(x[i * 32 : i * 32 + 32]) @ w[e] for i, e in enumerate(ids[0])]))
    with pytest.raises(OutOfBounds):
        trnsim.simulate(experts)(x, w, np.array([[3, 0, 5]], np.int32), 3)


def split_over_cores(x, w):
    """Rows are sharded over the cores of the launch, whatever their number."""
    _, cores, core = get_program_info()
    T, H = x.shape
    out = nl.ndarray((T, w.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    mine = T // cores
    tile = load_tile(x[core * mine : (core + 1) * mine])
    xT = nl.ndarray((H, mine), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=xT, data=tile)
    ps = nl.ndarray((mine, w.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=ps, stationary=nl.copy(xT), moving=load_tile(w), accumulate=False)
    nisa.dma_copy(dst=out[core * mine : (core + 1) * mine], src=nl.copy(ps))
    return out


@pytest.mark.parametrize("cores", [1, 2])
def test_rows_sharded_over_cores(cores):
    x, w = gaussian((64, 100), 1), gaussian((100, 48), 2)
    kernel = trnsim.jit(split_over_cores)
    made = trnsim.simulate(kernel[cores] if cores > 1 else kernel)(x, w)
    within(made, rounded(x) @ w)


def contracted_over_cores(x, w):
    """K is sharded: each core has half a sum, exchanges it with the other and adds."""
    _, cores, core = get_program_info()
    K, M = x.shape
    N = w.shape[1]
    half = K // cores
    out = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm)
    rows = nl.ds(core * half, half)
    ps = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=ps, stationary=load_tile(x[rows, :]), moving=load_tile(w[rows, :]), accumulate=False)
    mine = nl.copy(ps)
    theirs = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.sbuf)
    nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nisa.tensor_tensor(dst=mine, data1=mine, data2=theirs, op=nl.add)
    part = N // cores
    nisa.dma_copy(dst=out[:, core * part : (core + 1) * part], src=mine[:, core * part : (core + 1) * part])
    return out


def test_a_contraction_sharded_over_two_cores():
    x, w = gaussian((200, 64), 1), gaussian((200, 96), 2)
    made = trnsim.simulate(trnsim.jit(contracted_over_cores)[2])(x, w)
    within(made, rounded(x.T) @ w)


def running_total(x, count, step):
    """As many rows as a register says are added, in a loop of the device."""
    H = x.shape[1]
    out = nl.ndarray((1, H), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((1, H), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    n = nisa.register_alloc()
    nisa.register_load(n, load_tile(count))
    for i in nl.dynamic_range(0, n, step):
        row = nl.ndarray((1, H), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=row, src=x.ap([[H, 1], [1, H]], scalar_offset=i, indirect_dim=0))
        nisa.tensor_tensor(dst=total, data1=total, data2=row, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


@pytest.mark.parametrize(("count", "step"), [(0, 1), (7, 1), (16, 3)])
def test_a_loop_of_the_device_with_a_run_time_bound(count, step):
    x = gaussian((16, 40), 1)
    made = trnsim.simulate(running_total, nki="0.6")(x, np.array([[count]], np.int32), step)
    within(made[0], rounded(x[:count:step]).sum(axis=0))


def hostile_partition_broadcast(x, bias):
    tile = load_tile(x)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=load_tile(bias), op=nl.add)
    return x


def hostile_row_copy(x, bias):
    tile = load_tile(x)
    row = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=row, src=tile[5:6])
    return x


def hostile_tall_tile(x, bias):
    nl.ndarray((256, 4), dtype=x.dtype, buffer=nl.sbuf)
    return x


def hostile_remainder(x, bias):
    out = nl.ndarray((x.shape[0], 1), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0] // 48):
        total = nl.sum(load_tile(x[i * 48 : (i + 1) * 48]), axis=1)
        nisa.dma_copy(dst=out[i * 48 : (i + 1) * 48], src=total)
    return out


@pytest.mark.parametrize(
    ("kernel", "error"),
    [
        (hostile_partition_broadcast, WrongShape),
        (hostile_row_copy, HardwareLimit),
        (hostile_tall_tile, HardwareLimit),
        (hostile_remainder, ReadUninitialized),
    ],
)
@pytest.mark.filterwarnings("ignore::trnsim.UnreadInput")
def test_hostile_variants_are_refused(kernel, error):
    with pytest.raises(error):
        trnsim.simulate(kernel)(gaussian((100, 64)), gaussian((1, 64)))
