"""Attention: whole, causal, flash, decoding from a cache, rotary embeddings, masks made on the device."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

import trnsim
from tests.trnsim.rounded import rounded, within
from tests.trnsim.styles.helpers import P_MAX, SbufStack, TensorView, load_tile, tiled_range, transpose_to_sbuf
from trnsim import isa as nisa, language as nl
from trnsim.errors import KernelError, OutOfBounds
from trnsim.language import NKIObject

pytestmark = pytest.mark.sim


def gaussian(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def reference(q, k, v, causal=False, scale=1.0):
    scores = q @ k.T * scale
    if causal:
        scores = np.where(np.arange(k.shape[0])[None] <= np.arange(q.shape[0])[:, None], scores, -np.inf)
    return softmax(scores) @ v


@dataclass(frozen=True)
class AttentionConfig(NKIObject):
    causal: bool = False
    scale: float = 1.0
    _block: int = 128


def softmax_rows(scores, n):
    """Exponentials of a tile [p, n] and the reciprocal of their sums."""
    p = scores.shape[0]
    top = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=scores, axis=1, negate=True)
    exps = nl.ndarray((p, n), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(
        dst=exps,
        op=nl.exp,
        data=scores,
        bias=top,
        reduce_op=nl.add,
        reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    inverse = nl.ndarray((p, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=inverse, data=total)
    return exps, inverse


def attention(q, k, v, config):
    """One head: q [S, d], k [L, d], v [L, d]; rows of q in blocks, all of k at once."""
    S, d = q.shape
    L = k.shape[0]
    out = nl.ndarray((S, d), dtype=nl.float32, buffer=nl.shared_hbm)
    kT = nl.ndarray((d, L), dtype=nl.float32, buffer=nl.sbuf)
    for c in tiled_range(L, P_MAX):
        nisa.tensor_copy(
            dst=kT[:, c.start_offset : c.end_offset],
            src=transpose_to_sbuf(load_tile(k[c.start_offset : c.end_offset])),
        )
    for r in tiled_range(S, config._block):
        qT = transpose_to_sbuf(load_tile(q[r.start_offset : r.end_offset]))
        scores_ps = nl.ndarray((r.size, L), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=scores_ps, stationary=qT, moving=kT, accumulate=False)
        scores = nl.ndarray((r.size, L), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=scores, op=nl.copy, data=scores_ps, scale=config.scale)
        if config.causal:
            nisa.affine_select(
                dst=scores,
                pattern=[[-1, L]],
                channel_multiplier=1,
                on_true_tile=scores,
                on_false_value=-3.0e38,
                cmp_op=nl.greater_equal,
                offset=r.start_offset,
            )
        exps, inverse = softmax_rows(scores, L)
        ps = nl.ndarray((r.size, d), dtype=nl.float32, buffer=nl.psum)
        for c in tiled_range(L, P_MAX):
            eT = transpose_to_sbuf(exps[:, c.start_offset : c.end_offset])
            nisa.nc_matmul(
                dst=ps, stationary=eT, moving=load_tile(v[c.start_offset : c.end_offset]), accumulate=c.index > 0
            )
        o_sb = nl.ndarray((r.size, d), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=o_sb, data=ps, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[r.start_offset : r.end_offset], src=o_sb)
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("s", "length"), [(64, 64), (200, 200), (128, 512)])
def test_attention(causal, s, length):
    q, k, v = gaussian((s, 64), 1), gaussian((length, 64), 2), gaussian((length, 64), 3)
    made = trnsim.simulate(attention)(q, k, v, AttentionConfig(causal, 0.125))
    within(made, reference(*rounded(q, k, v), causal, 0.125))


def flash(q, k, v, scale):
    """Running maximum and sum; tiles of k one after the other; state is written in place."""
    S, d = q.shape
    L = k.shape[0]
    out = nl.ndarray((S, d), dtype=nl.float32, buffer=nl.shared_hbm)
    qT = transpose_to_sbuf(load_tile(q))
    top = nl.ndarray((S, 1), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((S, 1), dtype=nl.float32, buffer=nl.sbuf)
    acc = nl.ndarray((S, d), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=top, value=-3.0e38)
    nisa.memset(dst=total, value=0.0)
    nisa.memset(dst=acc, value=0.0)
    for c in tiled_range(L, P_MAX):
        kT = transpose_to_sbuf(load_tile(k[c.start_offset : c.end_offset]))
        ps = nl.ndarray((S, c.size), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=ps, stationary=qT, moving=kT, accumulate=False)
        scores = nl.ndarray((S, c.size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=scores, data=ps, op0=nl.multiply, operand0=scale)
        local = nl.ndarray((S, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=local, op=nl.maximum, data=scores, axis=1)
        new_top = nl.ndarray((S, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=new_top, data1=top, data2=local, op=nl.maximum)
        decay = nl.ndarray((S, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=decay, data1=top, data2=new_top, op=nl.subtract)
        nisa.activation(dst=decay, op=nl.exp, data=decay)
        negative = nl.ndarray((S, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=negative, data=new_top, op0=nl.multiply, operand0=-1.0)
        part = nl.ndarray((S, 1), dtype=nl.float32, buffer=nl.sbuf)
        exps = nl.ndarray((S, c.size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(dst=exps, op=nl.exp, data=scores, reduce_op=nl.add, reduce_res=part, bias=negative)
        nisa.scalar_tensor_tensor(dst=total, data=total, op0=nl.multiply, operand0=decay, op1=nl.add, operand1=part)
        pv = nl.ndarray((S, d), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(
            dst=pv,
            stationary=transpose_to_sbuf(exps),
            moving=load_tile(v[c.start_offset : c.end_offset]),
            accumulate=False,
        )
        nisa.scalar_tensor_tensor(dst=acc, data=acc, op0=nl.multiply, operand0=decay, op1=nl.add, operand1=pv)
        nisa.tensor_copy(dst=top, src=new_top)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=acc, data=acc, op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=out, src=acc)
    return out


@pytest.mark.parametrize("length", [128, 300, 640])
def test_flash_attention(length):
    q, k, v = gaussian((100, 32), 1), gaussian((length, 32), 2), gaussian((length, 32), 3)
    within(trnsim.simulate(flash)(q, k, v, 0.2), reference(*rounded(q, k, v), scale=0.2))


def decode(q, k_cache, v_cache, position, index):
    """One token against a cache whose valid length is a run-time value; the mask is made on the device."""
    heads, d = q.shape
    L = k_cache.shape[0]
    out = nl.ndarray((heads, d), dtype=nl.float32, buffer=nl.shared_hbm)
    qT = transpose_to_sbuf(load_tile(q))
    kT = transpose_to_sbuf(load_tile(k_cache))
    ps = nl.ndarray((heads, L), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=ps, stationary=qT, moving=kT, accumulate=False)
    scores = nl.ndarray((heads, L), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=scores, src=ps)
    columns = nl.ndarray((heads, L), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(dst=columns, pattern=[[1, L]], offset=0, channel_multiplier=0)
    limit = load_tile(position.ap([[0, heads], [1, 1]]), nl.float32)
    mask = nl.ndarray((heads, L), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=mask, data=columns, op0=nl.less_equal, operand0=limit)
    masked = nl.ndarray((heads, L), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=masked, value=-3.0e38)
    nisa.tensor_copy_predicated(dst=masked, src=scores, predicate=mask)
    exps, inverse = softmax_rows(masked, L)
    pv = nl.ndarray((heads, d), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=pv, stationary=transpose_to_sbuf(exps), moving=load_tile(v_cache), accumulate=False)
    o_sb = nl.ndarray((heads, d), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=o_sb, data=pv, op0=nl.multiply, operand0=inverse)
    nisa.dma_copy(dst=out, src=o_sb)
    return out


@pytest.mark.parametrize("position", [0, 17, 127])
def test_decoding_from_a_cache(position):
    q, k, v = gaussian((8, 64), 1), gaussian((128, 64), 2), gaussian((128, 64), 3)
    # what lies beyond the position is garbage of an earlier request
    k[position + 1 :], v[position + 1 :] = 1e4, 1e4
    made = trnsim.simulate(decode)(q, k, v, np.array([[position]], np.int32), None)
    within(made, reference(*rounded(q, k[: position + 1], v[: position + 1])))


def update_cache(cache, new, position):
    """Write one row of a cache the caller owns, at a run-time index."""
    at = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=at, src=position)
    row = load_tile(new)
    nisa.dma_copy(dst=cache.ap([[cache.shape[1], 1], [1, cache.shape[1]]], scalar_offset=at, indirect_dim=0), src=row)
    return cache


def test_a_cache_is_updated_in_place():
    cache, new = gaussian((64, 32)), gaussian((1, 32), 1)
    expected = cache.copy()
    expected[41] = new
    trnsim.simulate(update_cache)(cache, new, np.array([[41]], np.int32))
    np.testing.assert_array_equal(cache, expected)
    with pytest.raises(OutOfBounds):
        trnsim.simulate(update_cache)(cache, new, np.array([[64]], np.int32))
    np.testing.assert_array_equal(cache, expected)


def rope(x, cos, sin, interleaved):
    """Rotate pairs: halves of the row, or neighbours."""
    S, d = x.shape
    half = d // 2
    out = nl.ndarray((S, d), dtype=x.dtype, buffer=nl.shared_hbm)
    for t in tiled_range(S, P_MAX):
        rows = nl.ds(t.start_offset, t.size)
        tile, c, s = load_tile(x[rows, :]), load_tile(cos[rows, :]), load_tile(sin[rows, :])
        made = nl.ndarray((t.size, d), dtype=x.dtype, buffer=nl.sbuf)
        if interleaved:
            pairs, made_pairs = tile.reshape((t.size, half, 2)), made.reshape((t.size, half, 2))
            first, second = pairs[:, :, 0], pairs[:, :, 1]
            to_first, to_second = made_pairs[:, :, 0], made_pairs[:, :, 1]
        else:
            first, second = tile[:, 0:half], tile[:, half:d]
            to_first, to_second = made[:, 0:half], made[:, half:d]
        a = nl.multiply(first, c)
        b = nl.multiply(second, s)
        nisa.tensor_tensor(dst=to_first, data1=a, data2=b, op=nl.subtract)
        nisa.tensor_tensor(dst=to_second, data1=nl.multiply(first, s), data2=nl.multiply(second, c), op=nl.add)
        nisa.dma_copy(dst=out[rows, :], src=made)
    return out


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("s", [40, 200])
def test_rotary_embedding(interleaved, s):
    x = gaussian((s, 64), 1)
    angle = np.arange(s)[:, None] / 10000 ** (np.arange(32) / 32)
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    made = trnsim.simulate(rope)(x, cos, sin, interleaved)
    re, im = rounded(*((x[:, 0::2], x[:, 1::2]) if interleaved else (x[:, :32], x[:, 32:])))
    z = re * cos - im * sin, re * sin + im * cos
    within(made, np.stack(z, -1).reshape(s, 64) if interleaved else np.concatenate(z, 1))


def grouped_scores(q, k, groups):
    """Scores of grouped queries; each group's heads share a key, by views of views."""
    heads = q.shape[0]
    L = k.shape[1]
    out = nl.ndarray((heads, L), dtype=nl.float32, buffer=nl.shared_hbm)
    per = heads // groups
    q_sb = load_tile(q)
    qT = transpose_to_sbuf(q_sb)
    view = TensorView(qT).reshape_dim(1, (groups, per))
    for g in range(groups):
        kT = transpose_to_sbuf(load_tile(k[g]))
        ps = nl.ndarray((per, L), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=ps, stationary=view.select(1, g).get_view(), moving=kT, accumulate=False)
        o_sb = nl.ndarray((per, L), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=o_sb, src=ps)
        nisa.dma_copy(dst=TensorView(out).slice(0, g * per, (g + 1) * per).get_view(), src=o_sb)
    return out


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_grouped_query_scores(groups):
    q, k = gaussian((8, 64), 1), gaussian((groups, 100, 64), 2)
    expected = np.concatenate([rounded(q.reshape(groups, -1, 64)[g]) @ k[g].T for g in range(groups)])
    within(trnsim.simulate(grouped_scores)(q, k, groups), expected)


def with_stack(x, w, blocks):
    """Scratch memory by hand: a stack of addresses, scopes that give memory back and reuse it."""
    T, H = x.shape
    out = nl.ndarray((T, H), dtype=nl.float32, buffer=nl.shared_hbm)
    stack = SbufStack()
    x_sb = stack.alloc((T, H), nl.float32, "x_sb")
    nisa.dma_copy(dst=x_sb, src=x)
    for _ in range(blocks):
        stack.open_scope()
        square = stack.alloc((T, H), nl.float32, "square")
        nisa.tensor_tensor(dst=square, data1=x_sb, data2=x_sb, op=nl.multiply)
        w_sb = stack.alloc((T, H), nl.float32, "w_sb")
        nisa.dma_copy(dst=w_sb, src=w.ap([[0, T], [1, H]]))
        nisa.tensor_tensor(dst=square, data1=square, data2=w_sb, op=nl.multiply)
        nisa.tensor_tensor(dst=x_sb, data1=x_sb, data2=square, op=nl.add)
        stack.close_scope()
    nisa.dma_copy(dst=out, src=x_sb)
    return out


@pytest.mark.parametrize("blocks", [1, 3])
def test_scratch_memory_by_hand(blocks):
    x, w = gaussian((64, 500), 1) / 4, gaussian((1, 500), 2) / 4
    expected = rounded(x)
    for _ in range(blocks):
        expected = expected + expected**2 * w
    within(trnsim.simulate(with_stack)(x, w, blocks), expected)


def test_a_stack_that_overflows_is_refused():
    with pytest.raises((AssertionError, KernelError)):
        trnsim.simulate(with_stack)(np.ones((4, 20000), np.float32), np.ones((1, 20000), np.float32), 1)


def test_scale_is_what_the_head_size_says():
    q = gaussian((16, 64), 1)
    made = trnsim.simulate(attention)(q, q, q, AttentionConfig(scale=1 / math.sqrt(64)))
    within(made, reference(*rounded(q, q, q), scale=0.125))
