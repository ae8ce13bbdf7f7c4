"""Whole kernels as practitioners write them, against NumPy in float64, at sizes that do not divide evenly.

A result may differ from NumPy's by ``steps`` roundings of fp32, relative to the largest magnitude: the length of the
longest chain of dependent operations, times how much the computation magnifies what goes in.
"""

import math

import ml_dtypes
import numpy as np
import pytest

import trnsim
from tests.trnsim.kernels import rng
from trnsim import isa as nisa, language as nl

pytestmark = pytest.mark.sim

F32 = np.float32


def normal(*shape, seed=0, dtype=F32):
    return rng(seed).standard_normal(shape).astype(dtype)


def simulated(kernel, *arrays, **options):
    return trnsim.simulate(kernel)(*arrays, **options)


def within(got, want, steps):
    want = np.asarray(want, np.float64)
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= steps * 2.0**-24 * max(np.abs(want).max(), 1.0)


def placed(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


# attention: views, PSUM sums, causal masks, running maxima


def flash_forward(q, k, v):
    S, d = q.shape
    out, lse = placed((S, d)), placed((S, 1))
    for i in range(math.ceil(S / 128)):
        rows = slice(i * 128, min(S, i * 128 + 128))
        qT = nl.load_transpose2d(q[rows])
        n = qT.shape[1]
        top = nl.full((n, 1), -3e38, dtype=nl.float32)
        total = nl.zeros((n, 1), dtype=nl.float32)
        sums = nl.zeros((n, d), dtype=nl.float32)
        for j in range(i + 1):
            columns = slice(j * 128, min(S, j * 128 + 128))
            kT, values = nl.load_transpose2d(k[columns]), nl.load(v[columns])
            m = kT.shape[1]
            scores_ps = nl.ndarray((n, m), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=scores_ps, stationary=qT, moving=kT)
            scores = nl.ndarray((n, m), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=scores, data=scores_ps, op0=nl.multiply, operand0=1.0 / math.sqrt(d))
            if i == j:
                nisa.affine_select(
                    dst=scores,
                    pattern=[[-1, m]],
                    channel_multiplier=1,
                    on_true_tile=scores,
                    on_false_value=-3e38,
                    cmp_op=nl.greater_equal,
                )
            now = nl.maximum(top, nl.max(scores, axis=1, keepdims=True))
            below = nl.negative(now)
            fade = nl.ndarray((n, 1), dtype=nl.float32)
            nisa.activation(dst=fade, op=nl.exp, data=top, bias=below)
            weights, part = nl.ndarray((n, m), dtype=nl.float32), nl.ndarray((n, 1), dtype=nl.float32)
            nisa.activation_reduce(dst=weights, op=nl.exp, data=scores, reduce_op=nl.add, reduce_res=part, bias=below)
            nisa.scalar_tensor_tensor(dst=total, data=total, op0=nl.multiply, operand0=fade, op1=nl.add, operand1=part)
            product = nl.matmul(nl.copy(nl.transpose(weights)), values, transpose_x=True)
            nisa.scalar_tensor_tensor(dst=sums, data=sums, op0=nl.multiply, operand0=fade, op1=nl.add, operand1=product)
            top = now
        nisa.tensor_scalar(dst=sums, data=sums, op0=nl.multiply, operand0=nl.reciprocal(total))
        nl.store(out[rows], sums)
        nl.store(lse[rows], nl.add(nl.log(total), top))
    return out, lse


@pytest.mark.parametrize(("S", "d"), [(256, 64), (200, 128), (1, 32), (129, 16)])
def test_flash_attention(S, d):
    q, k, v = (normal(S, d, seed=i) for i in range(3))
    out, lse = simulated(flash_forward, q, k, v)
    scores = q.astype(float) @ k.T.astype(float) / np.sqrt(d)
    scores = np.where(np.tril(np.ones((S, S))) > 0, scores, -np.inf)
    top = scores.max(1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(1, keepdims=True)
    # an error in a score of size s is magnified by s in its weight
    steps = (S + d) * np.abs(scores[np.isfinite(scores)]).max()
    within(out, weights / total @ v, steps)
    within(lse, top + np.log(total), steps)


# convolution: taps that accumulate in one bank, strided windows of a tile


def convolution(x, w):
    C, H, W = x.shape
    kh, kw, _, O = w.shape  # noqa: E741
    rows, columns = H - kh + 1, W - kw + 1
    out = placed((O, rows, columns))
    x_sb = nl.load(x)
    w_sb = nl.ndarray((C, kh, kw, O), dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=w_sb, src=w.permute((2, 0, 1, 3)))
    step = max(1, 512 // columns)
    for first in range(0, rows, step):
        n = min(step, rows - first)
        sums = nl.ndarray((O, n, columns), dtype=nl.float32, buffer=nl.psum)
        for i in range(kh):
            for j in range(kw):
                window = x_sb[:, first + i : first + i + n, j : j + columns]
                nisa.nc_matmul(dst=sums, stationary=w_sb[:, i, j, :], moving=window)
        nl.store(out[:, first : first + n, :], nl.copy(sums))
    return out


@pytest.mark.parametrize("shape", [(64, 16, 16, 3, 3, 32), (3, 29, 31, 5, 2, 7), (128, 4, 4, 4, 4, 128)])
def test_convolution(shape):
    C, H, W, kh, kw, O = shape  # noqa: E741
    x, w = normal(C, H, W), normal(kh, kw, C, O, seed=1)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(float), (kh, kw), axis=(1, 2))
    within(simulated(convolution, x, w), np.einsum("chwij,ijco->ohw", windows, w.astype(float)), C * kh * kw)


# a transform and a factorisation: patterns, broadcasts, one column after the other


def stockham(re, im, cosines, sines):
    P, N = re.shape
    out_re, out_im = placed((P, N)), placed((P, N))
    xr, xi = nl.load(re), nl.load(im)
    wr, wi = nl.ndarray((P, N // 2), dtype=nl.float32), nl.ndarray((P, N // 2), dtype=nl.float32)
    nisa.dma_copy(dst=wr, src=cosines.expand_dim(0).broadcast(0, P))
    nisa.dma_copy(dst=wi, src=sines.expand_dim(0).broadcast(0, P))
    half, stride = N // 2, 1
    while half >= 1:
        ar, ai = xr.reshape((P, 2, half, stride)), xi.reshape((P, 2, half, stride))
        yr = nl.ndarray((P, half, 2, stride), dtype=nl.float32)
        yi = nl.ndarray((P, half, 2, stride), dtype=nl.float32)
        cr = wr.ap([[N // 2, P], [stride, half], [0, stride]])
        ci = wi.ap([[N // 2, P], [stride, half], [0, stride]])
        nisa.tensor_tensor(yr[:, :, 0, :], ar[:, 0], ar[:, 1], nl.add)
        nisa.tensor_tensor(yi[:, :, 0, :], ai[:, 0], ai[:, 1], nl.add)
        dr, di = nl.subtract(ar[:, 0], ar[:, 1]), nl.subtract(ai[:, 0], ai[:, 1])
        nisa.tensor_tensor(yr[:, :, 1, :], nl.multiply(dr, cr), nl.multiply(di, ci), nl.subtract)
        nisa.tensor_tensor(yi[:, :, 1, :], nl.multiply(dr, ci), nl.multiply(di, cr), nl.add)
        xr, xi = yr.reshape((P, N)), yi.reshape((P, N))
        half, stride = half // 2, 2 * stride
    nl.store(out_re, xr)
    nl.store(out_im, xi)
    return out_re, out_im


@pytest.mark.parametrize(("P", "N"), [(128, 64), (3, 512), (1, 2)])
def test_fourier_transform(P, N):
    re, im = normal(P, N), normal(P, N, seed=1)
    roots = np.exp(-2j * np.pi * np.arange(N // 2) / N)
    got = simulated(stockham, re, im, roots.real.astype(F32), roots.imag.astype(F32))
    want = np.fft.fft(re + 1j * im.astype(float))
    within(got[0], want.real, 4 * math.log2(N) + 1)
    within(got[1], want.imag, 4 * math.log2(N) + 1)


def cholesky(a):
    n = a.shape[0]
    out = placed((n, n))
    low = nl.load(a)
    identity = nl.shared_identity_matrix(n=n, dtype=nl.float32)
    for j in range(n):
        pivot_row = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=pivot_row, stationary=identity[:, j : j + 1].broadcast(1, n), moving=low)
        scale = nl.ndarray((n, 1), dtype=nl.float32)
        nisa.activation(dst=scale, op=nl.rsqrt, data=pivot_row[:, j : j + 1])
        column = low[:, j : j + 1]
        nisa.tensor_tensor(dst=column, data1=column, data2=scale, op=nl.multiply)
        nisa.affine_select(
            dst=column,
            pattern=[[0, 1]],
            channel_multiplier=1,
            offset=-j,
            on_true_tile=column,
            on_false_value=0.0,
            cmp_op=nl.greater_equal,
        )
        if j + 1 < n:
            row = nl.transpose(nl.copy(column.broadcast(1, n)))
            rest = low[:, j + 1 :]
            nisa.scalar_tensor_tensor(
                dst=rest, data=row[:, j + 1 :], op0=nl.multiply, operand0=nl.negative(column), op1=nl.add, operand1=rest
            )
    nl.store(out, low)
    return out


@pytest.mark.parametrize("n", [1, 5, 32, 128])
def test_cholesky(n):
    half = normal(n, n).astype(float)
    a = (half @ half.T + n * np.eye(n)).astype(F32)
    within(simulated(cholesky, a), np.linalg.cholesky(a.astype(float)), 4 * n)


# searching, routing, moving rows by number


def route(logits):
    T, E = logits.shape
    weights, experts, counts = placed((T, 2)), placed((T, 2), nl.uint32), placed((1, E))
    counted = nl.ndarray((1, E), dtype=nl.float32, buffer=nl.psum)
    for i in range(math.ceil(T / 128)):
        rows = slice(i * 128, min(T, i * 128 + 128))
        scores = nl.load(logits[rows])
        n = scores.shape[0]
        best, where = nl.ndarray((n, 8), dtype=nl.float32), nl.ndarray((n, 8), dtype=nl.uint32)
        nisa.max8(dst=best, src=scores)
        nisa.nc_find_index8(dst=where, data=scores, vals=best)
        nl.store(weights[rows], nl.softmax(best[:, 0:2], axis=1))
        nl.store(experts[rows], where[:, 0:2])
        chosen = nl.ndarray((n, E), dtype=nl.float32)
        nisa.tensor_scalar(dst=chosen, data=scores, op0=nl.greater_equal, operand0=best[:, 1:2])
        nisa.nc_matmul(dst=counted, stationary=nl.ones((n, 1), dtype=nl.float32), moving=chosen, accumulate=i > 0)
    nl.store(counts, nl.copy(counted))
    return weights, experts, counts


@pytest.mark.parametrize(("T", "E"), [(200, 16), (5, 8), (128, 9)])
def test_routing_to_experts(T, E):
    logits = normal(T, E)
    weights, experts, counts = simulated(route, logits)
    order = np.argsort(-logits, 1)[:, :2]
    np.testing.assert_array_equal(experts, order)
    np.testing.assert_array_equal(counts[0], np.bincount(order.ravel(), minlength=E))
    best = np.take_along_axis(logits.astype(float), order, 1)
    share = np.exp(best - best[:, :1])
    within(weights, share / share.sum(1, keepdims=True), 8)


def add_rows(table, rows, numbers):
    P, D = rows.shape
    tile, index = nl.load(rows), nl.load(numbers)
    place = table.ap(pattern=[[D, P], [1, D]], vector_offset=index, indirect_dim=0)
    nisa.dma_compute(dst=place, srcs=[place, tile], reduce_op=nl.add)
    return table


def put_token(cache, token, position):
    B, S, D = cache.shape
    at = nisa.register_alloc()
    nisa.register_load(at, nl.load(position))
    nisa.dma_copy(dst=cache.ap([[S * D, B], [1, D]], scalar_offset=at, indirect_dim=1), src=nl.load(token))
    return cache


def test_rows_by_number():
    table, rows = normal(50, 9), normal(20, 9, seed=1)
    numbers = rng(2).permutation(50)[:20].astype(np.int32).reshape(20, 1)
    want = table.copy()
    want[numbers[:, 0]] += rows
    np.testing.assert_array_equal(simulated(add_rows, table, rows, numbers), want)
    np.testing.assert_array_equal(table, want)

    cache, token = normal(4, 16, 8, dtype=ml_dtypes.bfloat16), normal(4, 8, seed=1, dtype=ml_dtypes.bfloat16)
    for position in (0, 15):
        want = cache.copy()
        want[:, position] = token
        made = simulated(put_token, cache.copy(), token, np.array([[position]], np.int32))
        np.testing.assert_array_equal(made, want)


# recurrences


def selective_scan(delta, u, A, B, C):
    channels, L = delta.shape
    out = placed((channels, L))
    for first in range(0, channels, 128):
        rows = nl.ds(first, min(128, channels - first))
        d, a = nl.load(delta[rows]), nl.load(A[rows])
        driven = nl.multiply(d, nl.load(u[rows]))
        n = d.shape[0]
        total = nl.zeros((n, L), dtype=nl.float32)
        for s in range(A.shape[1]):
            decay, state = nl.ndarray((n, L), dtype=nl.float32), nl.ndarray((n, L), dtype=nl.float32)
            nisa.activation(dst=decay, op=nl.exp, data=d, scale=a[:, s : s + 1])
            enters = nl.multiply(driven, nl.broadcast_to(nl.load(B[s : s + 1, :]), (n, L)))
            nisa.tensor_tensor_scan(dst=state, data0=decay, data1=enters, initial=0.0, op0=nl.multiply, op1=nl.add)
            total[...] = nl.add(total, nl.multiply(state, nl.broadcast_to(nl.load(C[s : s + 1, :]), (n, L))))
        nl.store(out[rows], total)
    return out


@pytest.mark.parametrize(("channels", "L", "states"), [(128, 64, 4), (130, 33, 2), (1, 1, 1)])
def test_selective_scan(channels, L, states):
    delta, u = np.abs(normal(channels, L)), normal(channels, L, seed=1)
    A = -np.abs(normal(channels, states, seed=2))
    B, C = normal(states, L, seed=3), normal(states, L, seed=4)
    state, want = np.zeros((channels, states)), np.zeros((channels, L))
    for t in range(L):
        state = np.exp(delta[:, t : t + 1].astype(float) * A) * state
        state += (delta[:, t].astype(float) * u[:, t])[:, None] * B[:, t]
        want[:, t] = state @ C[:, t]
    within(simulated(selective_scan, delta, u, A, B, C), want, 8 * (L + states))
