"""How large kernels are built: allocators, views, functions as values, transposes, cores that meet, packed weights."""

from dataclasses import dataclass, field
from enum import Enum

import ml_dtypes
import numpy as np
import pytest

import trnsim
from tests.trnsim.rounded import rounded, within
from tests.trnsim.styles.helpers import P_MAX, div_ceil, get_program_info, kernel_assert, load_tile, tiled_range
from trnsim import collectives as ncc, isa as nisa, language as nl
from trnsim.errors import Race, TrnError
from trnsim.language import NKIObject

pytestmark = pytest.mark.sim

BF16 = ml_dtypes.bfloat16


def gaussian(shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


class Scope(NKIObject):
    def __init__(self, base, sections, name):
        self.base = base
        self.sections = sections
        self.name = name
        self.section = 0
        self.used = 0
        self._widest = 0


class Manager(NKIObject):
    """A stack from below, a heap from above, scopes whose sections take turns; or the compiler's own placement."""

    def __init__(self, lower, upper, use_auto_alloc=False):
        self.lower = lower
        self.upper = upper
        self.use_auto_alloc = use_auto_alloc
        self._stack = lower
        self._heap = upper
        self._scopes = []
        self._heap_sizes = []
        self._prefix = ""

    def set_name_prefix(self, prefix):
        self._prefix = prefix

    def open_scope(self, interleave_degree=1, name=""):
        self._scopes.append(Scope(self._stack, interleave_degree, name))

    def close_scope(self):
        scope = self._scopes.pop()
        self._stack = scope.base

    def increment_section(self):
        scope = self._scopes[-1]
        scope._widest = max(scope._widest, self._stack - scope.base - scope.section * scope._widest)
        scope.section = (scope.section + 1) % scope.sections
        self._stack = scope.base + scope.section * scope._widest

    def _size(self, shape, dtype):
        row = 1
        for extent in shape[1:]:
            row *= extent
        return div_ceil(row * dtype.itemsize, 32) * 32

    def alloc_stack(self, shape, dtype, name=None, base_partition=0):
        size = self._size(shape, dtype)
        kernel_assert(self._stack + size <= self._heap, f"out of memory: {size} bytes at {self._stack}")
        address = None if self.use_auto_alloc else (base_partition, self._stack)
        label = None if name is None else f"{self._prefix}{name}"
        tensor = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, name=label, address=address)
        self._stack += size
        return tensor

    def alloc_heap(self, shape, dtype, name=None):
        size = self._size(shape, dtype)
        self._heap -= size
        self._heap_sizes.append(size)
        address = None if self.use_auto_alloc else (0, self._heap)
        return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, name=name, address=address)

    def pop_heap(self):
        self._heap += self._heap_sizes.pop()

    def get_free_space(self):
        return self._heap - self._stack


def managed_mlp(x, w1, w2, auto, sections):
    """Weights on the heap, activations on the stack, two buffers that take turns for the loads."""
    T, H = x.shape
    inner = w1.shape[1]
    out = nl.ndarray((T, H), dtype=nl.float32, buffer=nl.shared_hbm)
    sbm = Manager(0, nl.tile_size.sbuf_fmax_bytes, use_auto_alloc=auto)
    sbm.set_name_prefix("mlp_")
    before = sbm.get_free_space()
    w2_sb = sbm.alloc_heap((inner, H), nl.float32, name="w2")
    print(f"w2.address = {w2_sb.address}")
    nisa.dma_copy(dst=w2_sb, src=w2)
    sbm.open_scope(name="outer")
    total = nl.ndarray((inner, T), dtype=nl.float32, buffer=nl.psum)
    sbm.open_scope(interleave_degree=sections, name="loads")
    for k in tiled_range(H, 64):
        xT = sbm.alloc_stack((k.size, T), nl.float32)
        nisa.dma_copy(dst=xT, src=x[:, k.start_offset : k.end_offset].permute((1, 0)))
        w_sb = sbm.alloc_stack((k.size, inner), nl.float32)
        nisa.dma_copy(dst=w_sb, src=w1[k.start_offset : k.end_offset])
        nisa.nc_matmul(dst=total, stationary=w_sb, moving=xT, accumulate=k.index > 0)
        sbm.increment_section()
    sbm.close_scope()
    acted = sbm.alloc_stack((inner, T), nl.float32, name="acted")
    nisa.activation(dst=acted, op=nl.gelu, data=total)
    o_ps = nl.ndarray((T, H), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=o_ps, stationary=acted, moving=w2_sb)
    o_sb = sbm.alloc_stack((T, H), nl.float32, name="o_sb")
    nisa.tensor_copy(dst=o_sb, src=o_ps)
    nisa.dma_copy(dst=out, src=o_sb)
    sbm.close_scope()
    sbm.pop_heap()
    kernel_assert(sbm.get_free_space() == before, f"{before - sbm.get_free_space()} bytes were not given back")
    return out


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("sections", [1, 2])
def test_a_manager_of_stack_and_heap(auto, sections, capsys):
    from scipy.special import erf

    x, w1, w2 = gaussian((48, 256), 1), gaussian((256, 96), 2) / 16, gaussian((96, 256), 3)
    made = trnsim.simulate(managed_mlp)(x, w1, w2, auto, sections)
    h = rounded(x) @ w1
    within(made, (h * (1 + erf(h / np.sqrt(2))) / 2) @ w2)
    assert f"w2.address = {None if auto else '(0, 21'}" in capsys.readouterr().out


def act_relu(dst, src):
    nisa.activation(dst=dst, op=nl.relu, data=src)


def act_swish(dst, src):
    nisa.activation(dst=dst, op=nl.silu, data=src)


def select_activation(name):
    if name == "relu":
        return act_relu
    elif name == "silu":  # noqa: RET505
        return act_swish
    raise ValueError("no such activation")


def tiled_process(x, out, tile_fns):
    for t in tiled_range(x.shape[0], nl.tile_size.pmax):
        tile = load_tile(x[t.start_offset : t.end_offset])
        for i in range(len(tile_fns)):
            made = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
            tile_fns[i](dst=made, src=tile)
            tile = made
        nisa.dma_copy(dst=out[t.start_offset : t.end_offset], src=tile)


def composed(x, names):
    """Functions are chosen by name, kept in a list and called by keyword."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    def shift(dst, src):
        nisa.tensor_scalar(dst=dst, data=src, op0=nl.add, operand0=0.5)

    table = dict()  # noqa: C408
    table["shift"] = shift
    fns = []
    for name in names:
        fns.append(table[name] if name in table else select_activation(name))
    print(f"composing {len(fns)} functions over {x.shape} of {x.dtype}")
    tiled_process(x, out, fns)
    return out


def test_functions_are_values(capsys):
    x = gaussian((150, 40), 1)
    made = trnsim.simulate(composed)(x, ("shift", "relu", "silu"))
    y = np.maximum(rounded(x) + 0.5, 0)
    within(made, y / (1 + np.exp(-y)))
    assert "composing 3 functions over (150, 40) of float32" in capsys.readouterr().out


class Layout(Enum):
    ROWS = "rows"
    COLUMNS = "columns"


@dataclass
class Tile(NKIObject):
    start: int = 0
    size: int = 0


@dataclass
class Plan(NKIObject):
    """Nested classes, lists of them, defaults from factories, fields derived after construction."""

    layout: Layout
    shape: tuple
    tiles: list = field(default_factory=list)
    options: dict = field(default_factory=dict)
    _count: int = 0

    def __post_init__(self):
        axis = 0 if self.layout == Layout.ROWS else 1
        start = 0
        while start < self.shape[axis]:
            size = min(self.options.setdefault("tile", 64), self.shape[axis] - start)
            self.tiles.append(Tile(start, size))
            start += size
        self._count = len(self.tiles)


def planned_scale(x, factor, layout, tile):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    plan = Plan(layout, tuple(x.shape), options={"tile": tile})
    done = 0
    for part in plan.tiles:
        index = nl.ds(part.start, part.size)
        src = x[index, :] if layout == Layout.ROWS else x[:, index]
        dst = out[index, :] if layout == Layout.ROWS else out[:, index]
        sb = load_tile(src)
        nisa.tensor_scalar(dst=sb, data=sb, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=dst, src=sb)
        done += 1
    assert done == plan._count
    return out


@pytest.mark.parametrize("layout", list(Layout))
def test_plans_of_nested_classes(layout):
    x = gaussian((100, 90), 1)
    within(trnsim.simulate(planned_scale)(x, 1.5, layout, 48), rounded(x) * 1.5)


def broadcast_row(x, rows):
    """One partition to all by shuffling within quadrants, 32 at a time."""
    out = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    made = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    for q in range(rows // 32):
        nisa.dma_copy(dst=made[q * 32 : q * 32 + 1], src=x)
        nisa.nc_stream_shuffle(dst=made[q * 32 : (q + 1) * 32], src=made[q * 32 : (q + 1) * 32], shuffle_mask=[0] * 32)
    nisa.dma_copy(dst=out, src=made)
    return out


def test_a_row_for_all_partitions_by_shuffles():
    x = gaussian((1, 33), 1)
    np.testing.assert_array_equal(trnsim.simulate(broadcast_row)(x, 96), np.repeat(x, 96, 0))


def transposes(x, how):
    """[P, F] to [F, P] by the Tensor Engine, by 32x32 blocks of the Vector Engine, or on the way by DMA."""
    P, F = x.shape
    out = nl.ndarray((F, P), dtype=x.dtype, buffer=nl.shared_hbm)
    made = nl.ndarray((F, P), dtype=x.dtype, buffer=nl.sbuf)
    if how == "dma":
        nisa.dma_transpose(dst=made, src=x)
    elif how == "vector":
        tile = load_tile(x)
        for p in range(P // 32):
            for f in range(F // 32):
                nisa.nc_transpose(
                    dst=made[f * 32 : f * 32 + 32, p * 32 : p * 32 + 32],
                    data=tile[p * 32 : p * 32 + 32, f * 32 : f * 32 + 32],
                    engine=nisa.engine.vector,
                )
    elif how == "matmul":
        identity = nl.shared_identity_matrix(P, dtype=x.dtype)
        ps = nl.ndarray((F, P), dtype=x.dtype, buffer=nl.psum)
        nisa.nc_matmul(dst=ps, stationary=load_tile(x), moving=identity, is_transpose=True)
        nisa.tensor_copy(dst=made, src=ps)
    else:
        ps = nl.ndarray((F, P), dtype=x.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=ps, data=load_tile(x), engine=nisa.engine.tensor)
        nisa.tensor_copy(dst=made, src=ps, engine=nisa.engine.scalar)
    nisa.dma_copy(dst=out, src=made)
    return out


@pytest.mark.parametrize("how", ["dma", "vector", "matmul", "tensor"])
def test_four_ways_to_transpose(how):
    x = gaussian((128, 64), 1, BF16)
    np.testing.assert_array_equal(np.asarray(trnsim.simulate(transposes)(x, how)), x.T)


def batched_dma_transpose(cache, heads):
    """[B, S, N, d] to [B, N, d, S]: keys for the next product, batch by batch, through a 4-D transpose."""
    B, S, N, d = cache.shape
    out = nl.ndarray((B, N, d, S), dtype=cache.dtype, buffer=nl.shared_hbm)
    for b in range(B):
        for n in heads:
            kT = nl.ndarray((d, S), dtype=cache.dtype, buffer=nl.sbuf)
            nisa.dma_transpose(dst=kT, src=cache[b, :, n, :])
            nisa.dma_copy(dst=out[b, n], src=kT)
    return out


def test_a_cache_transposed_by_dma():
    cache = gaussian((2, 48, 3, 32), 1, BF16)
    made = trnsim.simulate(batched_dma_transpose)(cache, (0, 1, 2))
    np.testing.assert_array_equal(np.asarray(made), cache.transpose(0, 2, 3, 1))


def sharded_softmax(x):
    """A row over both cores: maxima and sums are exchanged before each core scales its half."""
    _, cores, core = get_program_info()
    T, N = x.shape
    half = N // cores
    out = nl.ndarray((T, N), dtype=x.dtype, buffer=nl.shared_hbm)
    columns = slice(core * half, (core + 1) * half)
    tile = load_tile(x[:, columns])

    def exchange(mine, op, pipe):
        theirs = nl.ndarray(mine.shape, dtype=mine.dtype, buffer=nl.sbuf)
        nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=pipe)
        nisa.tensor_tensor(dst=mine, data1=mine, data2=theirs, op=op)

    top = nl.max(tile, axis=1)
    exchange(top, nl.maximum, 0)
    total = nl.ndarray((T, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=tile, op=nl.exp, data=tile, bias=nl.negative(top), reduce_op=nl.add, reduce_res=total)
    exchange(total, nl.add, 1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=out[:, columns], src=tile)
    return out


def test_softmax_over_both_cores():
    x = gaussian((70, 300), 1) * 3
    e = np.exp(rounded(x) - x.max(1, keepdims=True))
    made = trnsim.simulate(trnsim.jit(sharded_softmax)[2])(x)
    within(made, e / e.sum(1, keepdims=True))


def two_phases(x, w1, w2, meet):
    """Each core writes half of the first product to HBM; after a barrier both read all of it."""
    _, cores, core = get_program_info()
    M = x.shape[1]
    N, L = w2.shape
    half = N // cores
    middle = nl.ndarray((N, M), dtype=nl.float32, buffer=nl.shared_hbm, name="middle")
    out = nl.ndarray((M, L), dtype=nl.float32, buffer=nl.shared_hbm)
    mine = slice(core * half, (core + 1) * half)
    ps = nl.ndarray((half, M), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=ps, stationary=load_tile(w1[:, mine]), moving=load_tile(x))
    nisa.dma_copy(dst=middle[mine], src=nl.copy(ps))
    if meet:
        nisa.core_barrier(middle, (0, 1))
    rows = slice(core * (M // cores), (core + 1) * (M // cores))
    o_ps = nl.ndarray((M // cores, L), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=o_ps, stationary=load_tile(middle[:, rows]), moving=load_tile(w2))
    nisa.dma_copy(dst=out[rows], src=nl.copy(o_ps))
    return out


def test_two_phases_with_a_barrier_between():
    x, w1, w2 = gaussian((90, 64), 1), gaussian((90, 100), 2), gaussian((100, 80), 3)
    kernel = trnsim.jit(two_phases)[2]
    within(trnsim.simulate(kernel)(x, w1, w2, True), rounded(x.T) @ w1 @ w2)
    with pytest.raises((Race, TrnError)):
        trnsim.simulate(kernel)(x, w1, w2, False)


def tensor_parallel(x, w, group):
    """A row-parallel projection: products of shards, summed over the ranks in HBM."""
    T, K = x.shape
    N = w.shape[1]
    part = nl.ndarray((T, N), dtype=nl.float32, buffer=nl.shared_hbm)
    out = nl.ndarray((T, N), dtype=nl.float32, buffer=nl.shared_hbm)
    ps = nl.ndarray((T, N), dtype=nl.float32, buffer=nl.psum)
    xT = nl.ndarray((K, T), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=xT, src=x.permute((1, 0)))
    nisa.nc_matmul(dst=ps, stationary=xT, moving=load_tile(w))
    nisa.dma_copy(dst=part, src=nl.copy(ps))
    ncc.all_reduce(srcs=[part], dsts=[out], replica_group=group, op=nl.add)
    return out


def test_a_projection_over_ranks():
    x, w = gaussian((20, 128), 1), gaussian((128, 60), 2)
    shards = trnsim.per_rank(list(np.split(x, 4, 1))), trnsim.per_rank(list(np.split(w, 4, 0)))
    for made in trnsim.simulate_ranks(tensor_parallel, 4)(*shards, ncc.ReplicaGroup([[0, 1, 2, 3]])):
        within(made, rounded(x) @ w)


def mx_tiled(w, w_scale, x, x_scale, x4):
    """MX weights and activations packed on the host, K in several tiles summed in PSUM (trn3)."""
    tiles, P, M = w.shape
    N = x.shape[2]
    out = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm)
    ps = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.psum)
    for k in range(tiles):
        parts = []
        for data, scale, width in ((w, w_scale, M), (x, x_scale, N)):
            packed = load_tile(data[k]).view(x4)
            spread = nl.ndarray((P, width), dtype=nl.uint8, buffer=nl.sbuf)
            for q in range(P // 32):
                nisa.dma_copy(dst=spread[q * 32 : q * 32 + 4], src=scale[k, q * 4 : q * 4 + 4])
            parts.append((packed, spread))
        nisa.nc_matmul_mx(
            dst=ps,
            stationary=parts[0][0],
            moving=parts[1][0],
            stationary_scale=parts[0][1],
            moving_scale=parts[1][1],
            accumulate=k > 0,
        )
    o_sb = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=o_sb, src=ps)
    nisa.dma_copy(dst=out, src=o_sb)
    return out


@pytest.mark.parametrize("four", [False, True])
def test_mx_products_over_several_tiles(four):
    rng = np.random.default_rng(0)
    tiles, P, M, N = 2, 64, 32, 48
    element = ml_dtypes.float4_e2m1fn if four else ml_dtypes.float8_e4m3fn

    def operand(width):
        values = rng.choice([-2.0, -1.0, 0.5, 1.0, 3.0, 4.0], (tiles, P, width, 4)).astype(element)
        scale = rng.integers(125, 130, (tiles, P // 8, width)).astype(np.uint8)
        if four:
            codes = values.view(np.uint8).astype(np.uint16)
            packed = codes[..., 0] | codes[..., 1] << 4 | codes[..., 2] << 8 | codes[..., 3] << 12
        else:
            packed = values.view(np.uint8).reshape(tiles, P, width * 4).view(np.uint32)
        real = values.astype(np.float64) * 2.0 ** (np.repeat(scale, 8, 1).astype(float) - 127)[..., None]
        return packed, scale, real

    w, w_scale, w_real = operand(M)
    x, x_scale, x_real = operand(N)
    x4 = nl.float4_e2m1fn_x4 if four else nl.float8_e4m3fn_x4
    made = trnsim.simulate(mx_tiled, target="trn3")(w, w_scale, x, x_scale, x4)
    within(made, np.einsum("kpmi,kpni->mn", rounded(w_real), x_real))


def nonzero_columns(x, chunk):
    """Positions of nonzero elements of every column, eight columns at a time on partitions 0, 16, 32, …"""
    T, C = x.shape
    found = nl.ndarray((C, T), dtype=nl.int32, buffer=nl.shared_hbm)
    count = nl.ndarray((C, 1), dtype=nl.int32, buffer=nl.shared_hbm)
    for c in range(C // 8):
        src = nl.ndarray((P_MAX, T), dtype=nl.int32, buffer=nl.sbuf)
        nisa.memset(dst=src, value=0)
        for i in range(8):
            nisa.dma_copy(dst=src[i * 16 : i * 16 + 1], src=x[:, c * 8 + i : c * 8 + i + 1].permute((1, 0)))
        made = nl.ndarray((P_MAX, T + 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.nonzero_with_count(dst=made, src=src, index_offset=0, padding_val=-1)
        for i in range(8):
            row = made[i * 16 : i * 16 + 1]
            nisa.dma_copy(dst=found[c * 8 + i : c * 8 + i + 1], src=row[:, 0:T])
            nisa.dma_copy(dst=count[c * 8 + i : c * 8 + i + 1], src=row[:, T : T + 1])
    return found, count


def test_positions_of_nonzero_elements():
    x = (np.random.default_rng(0).random((64, 16)) < 0.3).astype(np.int32)
    found, count = trnsim.simulate(nonzero_columns)(x, None)
    for c in range(16):
        (expected,) = np.nonzero(x[:, c])
        assert count[c, 0] == len(expected)
        np.testing.assert_array_equal(found[c, : len(expected)], expected)
        assert (found[c, len(expected) :] == -1).all()


def scatter_add(x, ids, rows):
    """Rows added by a product with a one-hot matrix made on the device; repeated ids add up."""
    T, H = x.shape
    out = nl.ndarray((rows, H), dtype=nl.float32, buffer=nl.shared_hbm)
    ps = nl.ndarray((rows, H), dtype=nl.float32, buffer=nl.psum)
    for t in tiled_range(T, P_MAX):
        at = load_tile(ids[t.start_offset : t.end_offset].expand_dim(1), nl.float32)
        hot = nl.ndarray((t.size, rows), dtype=nl.float32, buffer=nl.sbuf)
        nisa.iota(dst=hot, pattern=[[1, rows]], offset=0, channel_multiplier=0)
        nisa.tensor_scalar(dst=hot, data=hot, op0=nl.equal, operand0=at)
        nisa.nc_matmul(
            dst=ps, stationary=hot, moving=load_tile(x[t.start_offset : t.end_offset]), accumulate=t.index > 0
        )
    nisa.dma_copy(dst=out, src=nl.copy(ps))
    return out


def test_rows_added_by_id():
    x, ids = gaussian((300, 40), 1), np.random.default_rng(0).integers(0, 50, 300).astype(np.int32)
    within(trnsim.simulate(scatter_add)(x, ids, 50), rounded(np.equal.outer(np.arange(50), ids)) @ x)


def sliding_window(q, k, v, window, scale):
    """Causal attention of the last ``window`` keys; both sides of the band by two selections."""
    S, d = q.shape
    out = nl.ndarray((S, d), dtype=nl.float32, buffer=nl.shared_hbm)
    for r in tiled_range(S, P_MAX):
        first = max(0, r.start_offset - window + 1)
        L = r.end_offset - first
        qT = nl.load_transpose2d(q[r.start_offset : r.end_offset])
        kT = nl.ndarray((d, L), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=kT, src=k[first : r.end_offset].permute((1, 0)))
        ps = nl.ndarray((r.size, L), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=ps, stationary=qT, moving=kT)
        scores = nl.ndarray((r.size, L), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=scores, data=ps, op0=nl.multiply, operand0=scale)
        ahead = r.start_offset - first
        for offset, multiplier in ((ahead, 1), (window - 1 - ahead, -1)):
            nisa.affine_select(
                dst=scores,
                pattern=[[-multiplier, L]],
                offset=offset,
                channel_multiplier=multiplier,
                on_true_tile=scores,
                on_false_value=-9984.0,
                cmp_op=nl.greater_equal,
            )
        p = nl.softmax(scores, axis=-1)
        o_ps = nl.ndarray((r.size, d), dtype=nl.float32, buffer=nl.psum)
        for c in tiled_range(L, P_MAX):
            pT = nl.ndarray((c.size, r.size), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=pT, data=p[:, c.start_offset : c.end_offset])
            rows = slice(first + c.start_offset, first + c.end_offset)
            nisa.nc_matmul(dst=o_ps, stationary=nl.copy(pT), moving=load_tile(v[rows]), accumulate=c.index > 0)
        nisa.dma_copy(dst=out[r.start_offset : r.end_offset], src=nl.copy(o_ps))
    return out


def test_attention_in_a_sliding_window():
    S, window = 300, 70
    q, k, v = gaussian((S, 32), 1), gaussian((S, 32), 2), gaussian((S, 32), 3)
    gap = np.arange(S)[:, None] - np.arange(S)
    scores = np.where((gap >= 0) & (gap < window), rounded(q) @ k.T * 0.2, -np.inf)
    e = np.exp(scores - scores.max(1, keepdims=True))
    made = trnsim.simulate(sliding_window)(q, k, v, window, 0.2)
    within(made, e / e.sum(1, keepdims=True) @ v)


def blocks_of_experts(x, w, expert_of, count):
    """Blocks of tokens in a loop of the device: the expert is a register, so is the number of blocks."""
    blocks, B, H = x.shape
    N = w.shape[2]
    out = nl.ndarray((blocks, B, N), dtype=nl.float32, buffer=nl.shared_hbm)
    zero = nl.zeros((B, N), dtype=nl.float32, buffer=nl.sbuf)
    for b in range(blocks):
        nisa.dma_copy(dst=out[b], src=zero)
    ids = load_tile(expert_of)
    n = nisa.register_alloc(0)
    nisa.register_load(n, load_tile(count))
    for b in nl.dynamic_range(n):
        expert = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=expert, src=ids.select(1, b))
        w_sb = nl.ndarray((H, N), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=w_sb, src=w.select(0, expert))
        xT = nl.ndarray((H, B), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=xT, src=x.select(0, b).permute((1, 0)))
        ps = nl.ndarray((B, N), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=ps, stationary=xT, moving=w_sb, accumulate=False)
        o_sb = nl.ndarray((B, N), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=o_sb, src=ps)
        nisa.dma_copy(dst=out.select(0, b), src=o_sb)
    return out


@pytest.mark.parametrize("count", [0, 2, 4])
def test_blocks_of_experts_in_a_loop_of_the_device(count):
    x, w = gaussian((4, 24, 64), 1), gaussian((5, 64, 40), 2)
    ids = np.array([[3, 1, 4, 3]], np.int32)
    made = trnsim.simulate(blocks_of_experts, nki="0.6")(x, w, ids, np.array([[count]], np.int32))
    expected = np.einsum("bth,bhn->btn", rounded(x), w[ids[0]])
    within(made[:count], expected[:count])
    assert not made[count:].any()


def segments(x, ids):
    """Packed sequences: bounds of each element's run, and a mask of its own run only."""
    N = ids.shape[1]
    out = nl.ndarray((N, N), dtype=nl.float32, buffer=nl.shared_hbm)
    bounds = nl.ndarray((1, 2, N), dtype=nl.float32, buffer=nl.sbuf)
    nisa.sequence_bounds(dst=bounds, segment_ids=load_tile(ids))
    low = nl.ndarray((N, 1), dtype=nl.float32, buffer=nl.sbuf)
    high = nl.ndarray((N, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=low, src=bounds[:, 0, :])
    nisa.dma_copy(dst=high, src=bounds[:, 1, :])
    tile = load_tile(x)
    made = nl.ndarray((N, N), dtype=nl.float32, buffer=nl.sbuf)
    nisa.range_select(
        dst=made,
        on_true_tile=tile,
        comp_op0=nl.greater_equal,
        comp_op1=nl.less,
        bound0=low,
        bound1=high,
        range_start=0,
        on_false_value=-3.4028235e38,
    )
    nisa.dma_copy(dst=out, src=made)
    return out


def test_a_mask_of_packed_sequences():
    ids = np.repeat([1, 2, 3], [20, 7, 37])[None].astype(np.float32)
    x = gaussian((64, 64), 1)
    made = trnsim.simulate(segments)(x, ids)
    same = ids == ids.T
    np.testing.assert_array_equal(made[same], x[same])
    assert (made[~same] < -3e38).all()
