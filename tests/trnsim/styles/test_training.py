"""Long rows and whole tensors: losses, optimisers, scans, convolutions, padding, pooling, gradients, dropout."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

import trnsim
from tests.trnsim.rounded import Rounded, rounded, within
from tests.trnsim.styles.helpers import (
    P_MAX,
    get_program_info,
    kernel_assert,
    load_tile,
    tiled_range,
    transpose_to_sbuf,
)
from trnsim import isa as nisa, language as nl
from trnsim.errors import TrnError
from trnsim.language import NKIObject

pytestmark = pytest.mark.sim

BF16 = ml_dtypes.bfloat16


def gaussian(shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def cross_entropy(logits, targets, positions, chunk):
    """Online log-sum-exp over chunks of the vocabulary; positions are dealt to the cores in turn, targets are 1-D."""
    N, V = logits.shape
    _, cores, core = get_program_info()
    loss = nl.ndarray((N,), dtype=nl.float32, buffer=nl.shared_hbm)
    for b in range(N // (positions * cores)):
        first = b * positions * cores + core
        label = nl.ndarray((positions, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=label, src=targets.ap([[cores, positions], [1, 1]], offset=first))
        top = nl.full((positions, 1), -3.0e38, dtype=nl.float32)
        total = nl.zeros((positions, 1), dtype=nl.float32)
        picked = nl.zeros((positions, 1), dtype=nl.float32)
        for c in tiled_range(V, chunk):
            x = nl.ndarray((positions, c.size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(
                dst=x, src=logits.ap([[cores * V, positions], [1, c.size]], offset=first * V + c.start_offset)
            )
            local = nl.ndarray((positions, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(dst=local, op=nl.maximum, data=x, axis=(1,))
            nisa.tensor_tensor(dst=local, data1=local, data2=top, op=nl.maximum)
            decay = nl.subtract(top, local)
            nisa.activation(dst=decay, op=nl.exp, data=decay)
            negative = nl.negative(local)
            exps = nl.ndarray((positions, c.size), dtype=nl.float32, buffer=nl.sbuf)
            part = nl.ndarray((positions, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation_reduce(dst=exps, op=nl.exp, data=x, bias=negative, reduce_op=nl.add, reduce_res=part)
            nisa.scalar_tensor_tensor(dst=total, data=total, op0=nl.multiply, operand0=decay, op1=nl.add, operand1=part)
            nisa.tensor_copy(dst=top, src=local)
            where = nl.ndarray((positions, c.size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.iota(dst=where, pattern=[[1, c.size]], offset=c.start_offset, channel_multiplier=0)
            hit = nl.ndarray((positions, c.size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.scalar_tensor_tensor(dst=hit, data=where, op0=nl.equal, operand0=label, op1=nl.multiply, operand1=x)
            nisa.tensor_tensor(dst=picked, data1=picked, data2=nl.sum(hit, axis=1), op=nl.add)
        nisa.activation(dst=total, op=nl.log, data=total)
        nisa.tensor_tensor(dst=total, data1=total, data2=top, op=nl.add)
        nisa.tensor_tensor(dst=total, data1=total, data2=picked, op=nl.subtract)
        nisa.dma_copy(dst=loss.ap([[cores, positions], [1, 1]], offset=first), src=total)
    return loss


@pytest.mark.parametrize("cores", [1, 2])
def test_cross_entropy_over_chunks_of_the_vocabulary(cores):
    logits = gaussian((32, 700), 1) * 4
    targets = np.random.default_rng(0).integers(0, 700, 32).astype(np.int32)
    kernel = trnsim.jit(cross_entropy)
    made = trnsim.simulate(kernel[cores] if cores > 1 else kernel)(logits, targets, 8, 256)
    e = np.exp(rounded(logits))
    within(made, np.log(e.sum(1)) - logits[np.arange(32), targets])


@dataclass
class AdamArgs(NKIObject):
    lr: float
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    step: int = 1
    _correction1: float = 1.0
    _correction2: float = 1.0

    def __post_init__(self):
        self._correction1 = 1.0 - self.beta1**self.step
        self._correction2 = 1.0 - self.beta2**self.step


def fused_adam(param, grad, m, v, args):
    """The state is updated where it lies; rows of a flat tensor that no tile divides."""
    n = param.shape[0]
    width = 512
    for t in tiled_range(n, P_MAX * width):
        rows = t.size // width
        shapes = [(0, rows, width)] if rows > 0 else []
        if t.size % width:
            shapes = shapes + [(rows * width, 1, t.size % width)]  # noqa: RUF005
        for first, p, f in shapes:
            at = t.start_offset + first
            views = []
            for tensor in (param, grad, m, v):
                views.append(tensor.ap([[f, p], [1, f]], offset=at))
            w_sb, g_sb, m_sb, v_sb = load_tile(views[0]), load_tile(views[1]), load_tile(views[2]), load_tile(views[3])
            nisa.tensor_scalar(dst=m_sb, data=m_sb, op0=nl.multiply, operand0=args.beta1)
            nisa.scalar_tensor_tensor(
                dst=m_sb, data=g_sb, op0=nl.multiply, operand0=1.0 - args.beta1, op1=nl.add, operand1=m_sb
            )
            square = nl.ndarray((p, f), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=square, op=nl.square, data=g_sb)
            nisa.tensor_scalar(dst=v_sb, data=v_sb, op0=nl.multiply, operand0=args.beta2)
            nisa.scalar_tensor_tensor(
                dst=v_sb, data=square, op0=nl.multiply, operand0=1.0 - args.beta2, op1=nl.add, operand1=v_sb
            )
            root = nl.ndarray((p, f), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=root, op=nl.sqrt, data=v_sb, scale=1.0 / args._correction2)
            nisa.tensor_scalar(dst=root, data=root, op0=nl.add, operand0=args.eps)
            nisa.reciprocal(dst=root, data=root)
            nisa.tensor_tensor(dst=root, data1=root, data2=m_sb, op=nl.multiply)
            nisa.scalar_tensor_tensor(
                dst=w_sb, data=root, op0=nl.multiply, operand0=-args.lr / args._correction1, op1=nl.add, operand1=w_sb
            )
            for view, tile in zip((views[0], views[2], views[3]), (w_sb, m_sb, v_sb)):  # noqa: B905
                nisa.dma_copy(dst=view, src=tile)
    return param, m, v


@pytest.mark.parametrize("n", [300, 1024, 70_001])
def test_an_optimiser_step_in_place(n):
    w, g, m, v = (gaussian((n,), i) for i in range(4))
    v = v**2
    expected_m, expected_v = 0.9 * rounded(m) + 0.1 * rounded(g), 0.999 * rounded(v) + 0.001 * rounded(g) ** 2
    correction = 1 - 0.9**3, 1 - 0.999**3
    expected = w - 0.01 / correction[0] * expected_m / (np.sqrt(expected_v / correction[1]) + 1e-8)
    trnsim.simulate(fused_adam)(w, g, m, v, AdamArgs(0.01, step=3))
    within(m, expected_m)
    within(v, expected_v)
    within(w, expected)


def linear_scan(decay, x, initial, chunk):
    """h = decay * h + x along rows; the state goes from chunk to chunk."""
    P, L = x.shape
    out = nl.ndarray((P, L), dtype=nl.float32, buffer=nl.shared_hbm)
    state = load_tile(initial)
    for c in tiled_range(L, chunk):
        columns = nl.ds(c.start_offset, c.size)
        made = nl.ndarray((P, c.size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor_scan(
            dst=made, data0=load_tile(decay[:, columns]), data1=load_tile(x[:, columns]), initial=state,
            op0=nl.multiply, op1=nl.add,
        )  # fmt: skip
        nisa.tensor_copy(dst=state, src=made[:, c.size - 1 : c.size])
        nisa.dma_copy(dst=out[:, columns], src=made)
    return out


def test_a_scan_whose_state_goes_from_chunk_to_chunk():
    decay, x, h = (
        np.random.default_rng(0).random((96, 500)).astype(np.float32),
        gaussian((96, 500)),
        gaussian((96, 1), 2),
    )
    made = trnsim.simulate(linear_scan)(decay, x, h, 128)
    state, expected = rounded(h[:, 0]), []
    for i in range(500):
        state = decay[:, i] * state + x[:, i]
        expected.append(state)
    within(made, np.stack(expected, 1))


def selective_scan(delta, u, a, b, c):
    """Channels on partitions, one state after the other; rows of b and c are broadcast over the channels."""
    C, L = u.shape
    S = a.shape[1]
    out = nl.ndarray((C, L), dtype=nl.float32, buffer=nl.shared_hbm)
    for ch in tiled_range(C, P_MAX):
        rows = slice(ch.start_offset, ch.end_offset)
        d_sb, u_sb, a_sb = load_tile(delta[rows, :]), load_tile(u[rows, :]), load_tile(a[rows, :])
        du = nl.multiply(d_sb, u_sb)
        total = nl.zeros((ch.size, L), dtype=nl.float32, buffer=nl.sbuf)
        for s in nl.static_range(S):
            decay = nl.ndarray((ch.size, L), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=decay, op=nl.exp, data=d_sb, scale=a_sb[:, s])
            drive = nl.multiply(du, nl.broadcast_to(nl.load(b[s : s + 1, :]), (ch.size, L)))
            state = nl.ndarray((ch.size, L), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor_scan(dst=state, data0=decay, data1=drive, initial=0.0, op0=nl.multiply, op1=nl.add)
            shown = nl.multiply(state, nl.broadcast_to(nl.load(c[s : s + 1, :]), (ch.size, L)))
            nisa.tensor_tensor(dst=total, data1=total, data2=shown, op=nl.add)
        nl.store(out[rows, :], total)
    return out


@pytest.mark.filterwarnings("ignore:nl.static_range is an alias of range")
def test_selective_scan():
    C, L, S = 130, 60, 3
    delta, u = np.abs(gaussian((C, L), 1)) / 4, gaussian((C, L), 2)
    a, b, c = -np.abs(gaussian((C, S), 3)), gaussian((S, L), 4), gaussian((S, L), 5)
    made = trnsim.simulate(selective_scan)(delta, u, a, b, c)
    states, (delta, a) = [rounded(np.zeros(C))] * S, rounded(delta, a)
    for t in range(L):
        states = [np.exp(delta[:, t] * a[:, s]) * states[s] + delta[:, t] * u[:, t] * b[s, t] for s in range(S)]
        within(made[:, t], sum(states[s] * c[s, t] for s in range(S)))


@dataclass(frozen=True)
class ConvConfig(NKIObject):
    stride: int = 1
    padding: tuple = (0, 0)
    dilation: int = 1

    def out_length(self, L, K):
        return (L + self.padding[0] + self.padding[1] - self.dilation * (K - 1) - 1) // self.stride + 1


def conv1d_matmul(x, filters, bias, config):
    """[B, C_in, L] and [K, C_in, C_out]: taps are strided views of a padded row, summed in PSUM; act is fused."""
    B, C_in, L = x.shape
    K, _, C_out = filters.shape
    L_out = config.out_length(L, K)
    left, right = config.padding
    out = nl.ndarray((B, C_out, L_out), dtype=x.dtype, buffer=nl.shared_hbm)
    w_sb = nl.ndarray((C_in, K, C_out), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=w_sb, src=filters.permute((1, 0, 2)))
    b_sb = load_tile(bias.reshape((C_out, 1)))
    for b in range(B):
        row = nl.ndarray((C_in, left + L + right), dtype=x.dtype, buffer=nl.sbuf)
        if left > 0:
            nisa.memset(dst=row[:, 0:left], value=0)
        if right > 0:
            nisa.memset(dst=row[:, left + L :], value=0)
        nisa.dma_copy(dst=row[:, nl.ds(left, L)], src=x[b])
        for c in tiled_range(C_out, P_MAX):
            ps = nl.ndarray((c.size, L_out), dtype=nl.float32, buffer=nl.psum)
            for k in range(K):
                first = k * config.dilation
                last = first + (L_out - 1) * config.stride + 1
                nisa.nc_matmul(
                    dst=ps,
                    stationary=w_sb[:, k, c.start_offset : c.end_offset],
                    moving=row[:, first : last : config.stride],
                    accumulate=k > 0,
                )
            o_sb = nl.ndarray((c.size, L_out), dtype=x.dtype, buffer=nl.sbuf)
            nisa.activation(dst=o_sb, op=nl.relu, data=ps, bias=b_sb[c.start_offset : c.end_offset])
            nisa.dma_copy(dst=out[b, c.start_offset : c.end_offset, :], src=o_sb)
    return out


@pytest.mark.parametrize("config", [ConvConfig(), ConvConfig(2, (1, 2)), ConvConfig(1, (2, 2), 2)])
def test_convolution_by_products(config):
    x, w, bias = gaussian((2, 32, 90), 1), gaussian((3, 32, 96), 2), gaussian((96,), 3)
    made = trnsim.simulate(conv1d_matmul)(x, w, bias, config)
    padded = rounded(np.pad(x, ((0, 0), (0, 0), config.padding)))
    n = config.out_length(90, 3)
    taps = [padded[:, :, k * config.dilation :][:, :, : (n - 1) * config.stride + 1 : config.stride] for k in range(3)]
    expected = sum(np.einsum("bil,io->bol", taps[k], w[k]) for k in range(3)) + bias[:, None]
    within(made, np.maximum(expected, 0))


def pad2d(x, padding, mode, value=0.0):
    """[C, H, W]: constant, replicate or circular, innermost first; borders are copies of strided views."""
    left, right, above, below = padding
    C, H, W = x.shape
    out = nl.ndarray((C, above + H + below, left + W + right), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(out.shape, dtype=x.dtype, buffer=nl.sbuf)
    inside = tile[:, above : above + H, :]
    if mode == "constant":
        nisa.memset(dst=tile, value=value)
    nisa.dma_copy(dst=tile[:, above : above + H, left : left + W], src=x)
    if mode == "replicate":
        if left > 0:
            nisa.tensor_copy(dst=inside[:, :, 0:left], src=inside[:, :, left : left + 1].broadcast(2, left))
        if right > 0:
            nisa.tensor_copy(
                dst=inside[:, :, left + W :], src=inside[:, :, left + W - 1 : left + W].broadcast(2, right)
            )
        for i in range(above):
            nisa.tensor_copy(dst=tile[:, i, :], src=tile[:, above, :])
        for i in range(below):
            nisa.tensor_copy(dst=tile[:, above + H + i, :], src=tile[:, above + H - 1, :])
    elif mode == "circular":
        nisa.tensor_copy(dst=inside[:, :, 0:left], src=inside[:, :, W : W + left])
        nisa.tensor_copy(dst=inside[:, :, left + W :], src=inside[:, :, left : left + right])
        nisa.tensor_copy(dst=tile[:, 0:above, :], src=tile[:, H : H + above, :])
        nisa.tensor_copy(dst=tile[:, above + H :, :], src=tile[:, above : above + below, :])
    else:
        kernel_assert(mode == "constant", f"unknown mode {mode}")
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.parametrize(("mode", "numpy"), [("constant", "constant"), ("replicate", "edge"), ("circular", "wrap")])
def test_padding(mode, numpy):
    x = gaussian((40, 6, 9), 1)
    made = trnsim.simulate(pad2d)(x, (2, 1, 1, 3), mode)
    np.testing.assert_array_equal(made, np.pad(x, ((0, 0), (1, 3), (2, 1)), mode=numpy))
    with pytest.raises((AssertionError, TrnError)):
        trnsim.simulate(pad2d)(x, (2, 1, 1, 3), "mirror")


def max_pool(x, size):
    """Windows as dimensions of one view, reduced at once."""
    C, H, W = x.shape
    out = nl.ndarray((C, H // size, W // size), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = load_tile(x)
    windows = tile.ap([[H * W, C], [size * W, H // size], [size, W // size], [W, size], [1, size]])
    made = nl.ndarray((C, H // size, W // size), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=made, op=nl.maximum, data=windows, axis=[3, 4])
    nisa.dma_copy(dst=out, src=made)
    return out


def test_pooling_by_a_view_of_windows():
    x = gaussian((50, 12, 8), 1)
    expected = x.reshape(50, 6, 2, 4, 2).max(axis=(2, 4))
    np.testing.assert_array_equal(trnsim.simulate(max_pool)(x, 2), expected)


def layernorm_chunks(x, gamma, beta, eps):
    """Statistics by bn_stats in chunks of its limit, aggregated; one fused scale and shift."""
    T, H = x.shape
    out = nl.ndarray((T, H), dtype=x.dtype, buffer=nl.shared_hbm)
    g_sb, b_sb = load_tile(gamma.broadcast(0, P_MAX)), load_tile(beta.broadcast(0, P_MAX))
    limit = nl.tile_size.bn_stats_fmax
    chunks = (H + limit - 1) // limit
    for t in tiled_range(T, P_MAX):
        tile = load_tile(x[t.start_offset : t.end_offset], nl.float32)
        stats = nl.ndarray((t.size, chunks * 6), dtype=nl.float32, buffer=nl.sbuf)
        for c in tiled_range(H, limit):
            nisa.bn_stats(dst=stats[:, c.index * 6 : c.index * 6 + 6], data=tile[:, c.start_offset : c.end_offset])
        both = nl.ndarray((t.size, 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.bn_aggr(dst=both, data=stats)
        mean, var = both[:, 0:1], both[:, 1:2]
        inverse = nl.ndarray((t.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=inverse, op=nl.rsqrt, data=var, bias=nl.full((t.size, 1), eps, nl.float32))
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=mean, op1=nl.multiply, operand1=inverse)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=g_sb[0 : t.size], op=nl.multiply)
        made = nl.ndarray((t.size, H), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=made, data1=tile, data2=b_sb[0 : t.size], op=nl.add)
        nisa.dma_copy(dst=out[t.start_offset : t.end_offset], src=made)
    return out


def test_layer_norm_by_statistics_of_chunks():
    x, gamma, beta = gaussian((140, 1300), 1), gaussian((1, 1300), 2), gaussian((1, 1300), 3)
    made = trnsim.simulate(layernorm_chunks)(x, gamma, beta, 1e-5)
    x = rounded(x)
    within(made, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gamma + beta)


def attention_backward(q, k, v, o, do, scale):
    """Gradients of one head, scores formed again; dk and dv are summed in PSUM over rows of q."""
    S, d = q.shape
    L = k.shape[0]
    dq = nl.ndarray((S, d), dtype=nl.float32, buffer=nl.shared_hbm)
    dk = nl.ndarray((L, d), dtype=nl.float32, buffer=nl.shared_hbm)
    dv = nl.ndarray((L, d), dtype=nl.float32, buffer=nl.shared_hbm)
    k_sb, v_sb = load_tile(k), load_tile(v)
    kT, vT = transpose_to_sbuf(k_sb), transpose_to_sbuf(v_sb)
    dk_ps = nl.ndarray((L, d), dtype=nl.float32, buffer=nl.psum)
    dv_ps = nl.ndarray((L, d), dtype=nl.float32, buffer=nl.psum)
    for r in tiled_range(S, P_MAX):
        rows = slice(r.start_offset, r.end_offset)
        q_sb, o_sb, do_sb = load_tile(q[rows]), load_tile(o[rows]), load_tile(do[rows])
        ps = nl.ndarray((r.size, L), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=ps, stationary=transpose_to_sbuf(q_sb), moving=kT)
        scores = nl.ndarray((r.size, L), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=scores, data=ps, op0=nl.multiply, operand0=scale)
        p = nl.softmax(scores, axis=1)
        dp = nl.ndarray((r.size, L), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=dp, stationary=transpose_to_sbuf(do_sb), moving=vT)
        inner = nl.sum(nl.multiply(o_sb, do_sb), axis=1)
        ds = nl.ndarray((r.size, L), dtype=nl.float32, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(dst=ds, data=dp, op0=nl.subtract, operand0=inner, op1=nl.multiply, operand1=p)
        nisa.tensor_scalar(dst=ds, data=ds, op0=nl.multiply, operand0=scale)
        nisa.nc_matmul(dst=dk_ps, stationary=ds, moving=q_sb, accumulate=r.index > 0)
        nisa.nc_matmul(dst=dv_ps, stationary=p, moving=do_sb, accumulate=r.index > 0)
        dq_ps = nl.ndarray((r.size, d), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=dq_ps, stationary=transpose_to_sbuf(ds), moving=k_sb)
        nisa.dma_copy(dst=dq[rows], src=nl.copy(dq_ps))
    nisa.dma_copy(dst=dk, src=nl.copy(dk_ps))
    nisa.dma_copy(dst=dv, src=nl.copy(dv_ps))
    return dq, dk, dv


def test_gradients_of_attention():
    import torch

    q, k, v, do = (torch.from_numpy(gaussian((n, 32), i)).double() for i, n in enumerate((200, 100, 100, 200)))
    for t in (q, k, v):
        t.requires_grad_()
    o = torch.softmax(q @ k.T * 0.2, -1) @ v
    expected = torch.autograd.grad(o, (q, k, v), do)
    arrays = [t.detach().float().numpy() for t in (q, k, v, o, do)]
    Q, K, V, made_o, dO = rounded(*arrays)
    e = np.exp(Q @ K.T * 0.2 - (Q @ K.T * 0.2).max(1, keepdims=True))
    P = e / e.sum(1, keepdims=True)
    dS = P * (dO @ V.T - (dO * made_o).sum(1, keepdims=True)) * 0.2
    analysed = dS @ K, dS.T @ Q, P.T @ dO
    for made, wanted, bound in zip(trnsim.simulate(attention_backward)(*arrays, 0.2), expected, analysed, strict=True):
        within(made, Rounded(wanted.numpy(), bound.error))


def dropout_scaled(x, seed, rate):
    """Seeded on the device; what is kept is scaled."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.set_rng_seed(load_tile(seed))
    tile = load_tile(x)
    kept = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dropout(dst=kept, data=tile, prob=rate)
    nisa.tensor_scalar(dst=kept, data=kept, op0=nl.multiply, operand0=1.0 / (1.0 - rate))
    nisa.dma_copy(dst=out, src=kept)
    return out


def test_dropout_with_a_seed():
    x = np.ones((128, 400), np.float32)
    seed = np.array([[7]], np.uint32)
    made = trnsim.simulate(dropout_scaled)(x, seed, 0.25)
    np.testing.assert_array_equal(made, trnsim.simulate(dropout_scaled)(x, seed, 0.25))
    assert set(np.unique(made)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((made == 0).mean() - 0.25) < 0.01


def dynamic_add(a, b, tiles):
    """As many tiles of rows as a tensor says; the rest of the result is the caller's business."""
    M, H = a.shape
    out = nl.ndarray((M, H), dtype=a.dtype, buffer=nl.shared_hbm)
    count = nisa.register_alloc(0)
    n_sb = load_tile(tiles)
    nisa.register_load(count, n_sb)
    for i in nl.dynamic_range(count):
        a_sb = nl.ndarray((P_MAX, H), dtype=a.dtype, buffer=nl.sbuf)
        b_sb = nl.ndarray((P_MAX, H), dtype=b.dtype, buffer=nl.sbuf)
        by_tile = [[H, P_MAX], [1, H]]
        nisa.dma_copy(dst=a_sb, src=a.reshape((M // P_MAX, P_MAX, H)).select(0, i))
        nisa.dma_copy(dst=b_sb, src=b.reshape((M // P_MAX, P_MAX * H)).ap(by_tile, scalar_offset=i, indirect_dim=0))
        nisa.tensor_tensor(dst=a_sb, data1=a_sb, data2=b_sb, op=nl.add)
        nisa.dma_copy(dst=out.reshape((M // P_MAX, P_MAX * H)).ap(by_tile, scalar_offset=i, indirect_dim=0), src=a_sb)
    return out


def test_as_many_tiles_as_a_tensor_says():
    a, b = gaussian((512, 64), 1, BF16), gaussian((512, 64), 2, BF16)
    with pytest.warns(trnsim.UnwrittenOutput):
        made = trnsim.simulate(dynamic_add, nki="0.6")(a, b, np.array([[3]], np.int32))
    expected = (a[:384].astype(np.float32) + b[:384].astype(np.float32)).astype(BF16)
    np.testing.assert_array_equal(made[:384], expected)


def l2_norm(data, numel):
    """A flat tensor over both cores; partial sums meet by sendrecv, and the first core writes."""
    _, cores, core = get_program_info()
    out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    share = numel // cores
    width = share // P_MAX
    tile = nl.ndarray((P_MAX, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=data.ap([[width, P_MAX], [1, width]], offset=core * share))
    sums = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=tile, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=sums)
    ones = nl.full((P_MAX, 1), 1.0, dtype=nl.float32, buffer=nl.sbuf)
    ps = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=ps, stationary=ones, moving=sums)
    total = nl.copy(ps)
    if cores == 2:
        other = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.sendrecv(src=total, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        nisa.tensor_tensor(dst=total, data1=total, data2=other, op=nl.add)
    nisa.activation(dst=total, op=nl.sqrt, data=total)
    if core == 0:
        nisa.dma_copy(dst=out, src=total)
    return out


@pytest.mark.parametrize("cores", [1, 2])
def test_a_norm_over_both_cores(cores):
    x = gaussian((128 * 2 * 50,), 1)
    kernel = trnsim.jit(l2_norm)
    made = trnsim.simulate(kernel[cores] if cores > 1 else kernel)(x, x.size)
    within(made, np.sqrt((rounded(x) ** 2).sum()).reshape(1, 1))
