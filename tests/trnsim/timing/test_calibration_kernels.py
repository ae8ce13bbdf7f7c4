"""The restated kernels compute what they say, so that what is timed is the real thing."""

import numpy as np
import pytest

import trnsim
from benchmarks.calibration import attention, elementwise, matmul, norms, pairs, products, scan, searched, streams
from tests.trnsim.rounded import rounded, within

pytestmark = pytest.mark.sim


def gaussian(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run(kernel, *arguments, target="trn2", **options):
    return np.asarray(trnsim.simulate(kernel, target=target)(*arguments, **options), np.float64)


def close(made, expected, k=1):
    np.testing.assert_allclose(made, expected, rtol=k * 2.0**-20, atol=k * 2.0**-20 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (matmul.tiled, {}),
        (matmul.hoisted, {}),
        (matmul.blocked, {}),
        (matmul.fully_blocked, {"m_tiles": 2, "n_tiles": 1, "k_tiles": 2}),
        (searched.blocked_by_hand, {"m_tiles": 2, "k_tiles": 2}),
        (searched.resident, {"banks": 1}),
        (searched.resident, {"banks": 2}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_products(kernel, options):
    a, b = gaussian(512, 256), gaussian(512, 1024, seed=1)
    close(run(kernel, a, b, **options), a.T.astype(np.float64) @ b, k=512)


def test_product_with_a_transposing_dma():
    a, b = gaussian(256, 256), gaussian(512, 256, seed=1)
    half = (a.astype(np.float16), b.astype(np.float16))
    within(trnsim.simulate(searched.transposed, target="trn2")(*half), rounded(half[0].T) @ half[1].T)


def test_streams():
    x, y = gaussian(128, 64), gaussian(128, 64, seed=1)
    close(run(streams.exp, x), np.exp(x.astype(np.float64)), k=4)
    close(run(streams.add_tiles, x, y, width=24), x.astype(np.float64) + y)
    column, other = x.reshape(-1, 1), y.reshape(-1, 1)
    close(run(streams.add_rows, column, other), column.astype(np.float64) + other)


def _attention(q, k, v):
    scores = np.exp(q.T @ k - (q.T @ k).max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True) @ v.T


@pytest.mark.parametrize(("kernel", "options"), [(attention.fused, {}), (attention.through_hbm, {})])
@pytest.mark.parametrize("seqlen", [512, 1024])
def test_attention(kernel, options, seqlen):
    q, k, v = (gaussian(128, seqlen, seed=s) / 8 for s in range(3))
    expected = _attention(*(x.astype(np.float64) for x in (q, k, v)))
    close(run(kernel, q, k, v, **options), expected, k=seqlen)


def test_layernorm():
    x, gamma, beta = gaussian(256, 1024), gaussian(1, 1024, seed=1), gaussian(1, 1024, seed=2)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-6) * gamma + beta
    close(run(norms.layernorm, x, gamma, beta, 1e-6), expected, k=1024)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_pair_energies(target):
    occupied, virtual, p = 3, 128, 64
    t = gaussian(occupied * virtual, occupied * virtual)
    eps_o, eps_v = np.linspace(-2, -1, occupied, dtype=np.float32), np.linspace(1, 3, virtual, dtype=np.float32)
    spread = np.ones((p, 1), np.float32)
    made = run(
        pairs.divided,
        t,
        spread * eps_o,
        spread * eps_o,
        np.ascontiguousarray(eps_v.reshape(-1, p).T),
        spread * eps_v,
        target=target,
    )
    blocks = t.reshape(occupied, virtual, occupied, virtual).transpose(0, 2, 1, 3).astype(np.float64)
    below = eps_o[:, None, None, None] + eps_o[:, None, None] - eps_v[:, None] - eps_v
    expected = (blocks * (2 * blocks - blocks.swapaxes(2, 3)) / below).sum(axis=(2, 3))
    close(made.sum(axis=0), expected, k=virtual**2)


def test_elementwise():
    x, cos, sin = gaussian(128, 1024), gaussian(64, 1024, seed=1), gaussian(64, 1024, seed=2)
    low, high = x[:64].astype(np.float64), x[64:].astype(np.float64)
    close(run(elementwise.rope, x, cos, sin), np.vstack([low * cos - high * sin, high * cos + low * sin]), k=4)
    theta, g, m, v = (gaussian(130, 1024, seed=s) for s in range(4))
    v = np.abs(v)
    first, second = (
        0.9 * m.astype(np.float64) + 0.1 * g,
        0.999 * v.astype(np.float64) + 0.001 * g.astype(np.float64) ** 2,
    )
    expected = theta * (1 - 1e-5) - 0.01 * first / (np.sqrt(1000 * second) + 1e-8)
    close(run(elementwise.adamw, theta, g, m, v), expected, k=16)
    s = gaussian(128, 2, 1024)
    close(run(elementwise.silu, s), s / (1 + np.exp(-s.astype(np.float64))), k=16)


def test_batched_and_low_rank_products():
    a, b = gaussian(2, 1024, 64), gaussian(2, 64, 1024, seed=1)
    close(run(products.bmm, a, b), a.astype(np.float64) @ b, k=64)
    x, w, low, up = (
        gaussian(512, 1024),
        gaussian(1024, 1024, seed=1),
        gaussian(1024, 128, seed=2),
        gaussian(128, 1024, seed=3),
    )
    wide = x.astype(np.float64)
    close(run(products.lora, x, w, low, up, target="trn1"), wide @ w + wide @ low @ up, k=4096)


def test_scan():
    delta, u = np.abs(gaussian(128, 512)) / 8, gaussian(128, 512, seed=1)
    a, b, c = -np.abs(gaussian(128, 4, seed=2)), gaussian(4, 512, seed=3), gaussian(4, 512, seed=4)
    total = np.zeros((128, 512))
    for n in range(4):
        state = np.zeros(128)
        for t in range(512):
            state = np.exp(delta[:, t] * a[:, n].astype(np.float64)) * state + delta[:, t] * u[:, t] * b[n, t]
            total[:, t] += c[n, t] * state
    close(run(scan.mamba, delta, u, a, b, c, target="trn1"), total, k=512)
    close(run(scan.mamba, delta, u, a, b, c, target="trn1", reused=True), total, k=512)
    close(run(scan.mamba, delta, u, a, b, c, target="trn1", reused=True, columns=128), total, k=512)
