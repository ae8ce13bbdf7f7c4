"""Gradients of block-sparse attention beside dense ones in float64."""

import pytest
import torch

import trnsparse as ts
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian, stated_and_used, unit_roundoff
from trnsparse.attention import Attention
from trnsparse.attention_backward import AttentionBackward

MASKS = {
    "full": ts.full(),
    "streaming": ts.causal() & ts.window(60) | ts.sink(4),
    "nothing for some": ts.function(lambda q, k: (q > 150) & (k < q)),
}


def dense(q, k, v, kept, scale):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    some = kept.any(-1, keepdim=True)
    scores = (scale * q @ k.mT).masked_fill(~(kept | ~some), -torch.inf)
    return torch.where(some, torch.softmax(scores, -1) @ v, 0)


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("heads", "depth"), [((1, 1), 256), ((4, 2), 16)])
def test_gradients_are_those_of_float64(backend, name, dtype, heads, depth):
    n, scale = 200, depth**-0.5
    shapes = [(1, heads[0], n, depth), (1, heads[1], n, depth), (1, heads[1], n, 24)]
    operands = [gaussian(shape, i, dtype).requires_grad_() for i, shape in enumerate(shapes)]
    wide = [x.detach().double().requires_grad_() for x in operands]
    g = gaussian((1, heads[0], n, 24), 9, dtype)
    dense(*wide, MASKS[name].dense(n), scale).backward(g.double())
    with backend:
        ts.attention(*operands, MASKS[name], scale).backward(g)
    allowed = limits(*wide, g.double(), MASKS[name].dense(n), scale, dtype)
    for x, y, most in zip(operands, wide, allowed, strict=True):
        assert_within(x.grad, y.grad, most)


GAPS = torch.tensor([[1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1], [0] * 11, [0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1]]).bool()


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS[1:], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("mask", [ts.full(), ts.window(700), ts.blocks(GAPS)], ids=["everything", "window", "gaps"])
@pytest.mark.parametrize(("heads", "depth", "width"), [((1, 1), 500, 512), ((4, 2), 64, 130)])
def test_gradients_of_many_keys(backend, dtype, mask, heads, depth, width):
    """More key blocks than there are sums on chip for, the last not whole, some met by no query."""
    lengths, scale = (300, 1300), depth**-0.5
    kept = mask.dense(*lengths)
    shapes = [(1, heads[0], 300, depth), (1, heads[1], 1300, depth), (1, heads[1], 1300, width)]
    operands = [gaussian(shape, i, dtype).requires_grad_() for i, shape in enumerate(shapes)]
    wide = [x.detach().double().requires_grad_() for x in operands]
    g = gaussian((1, heads[0], 300, width), 9, dtype)
    dense(*wide, kept, scale).backward(g.double())
    with backend:
        ts.attention(*operands, mask, scale).backward(g)
    allowed = limits(*wide, g.double(), kept, scale, dtype)
    for x, y, most in zip(operands, wide, allowed, strict=True):
        assert_within(x.grad, y.grad, most)


def limits(q, k, v, g, kept, scale, dtype):
    """The bound of docs/trnsparse/attention_backward.md for the gradients of q, k and v."""
    q, k, v = (x.detach() for x in (q, k, v))
    group, n = q.shape[1] // k.shape[1], max(q.shape[2], k.shape[2])
    scores = (scale * q @ k.repeat_interleave(group, 1).mT).masked_fill(~kept, -torch.inf)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    largest = float(scores[scores.isfinite()].abs().max())
    error = gamma(2 * q.shape[3] + 2 * v.shape[3] + 6 * n + 16, torch.float32) * (1 + 2 * largest)
    if dtype == torch.bfloat16:
        error += unit_roundoff(dtype) * (6 + 2 * largest)
    # of one key over all queries and heads that it serves
    share = float(weights.unflatten(1, (-1, group)).sum((2, 3)).max())
    pulled = float(g.norm(dim=-1).max() * v.norm(dim=-1).max())
    of_q = 2 * error * scale * float(k.abs().max()) * pulled
    of_k = 2 * error * scale * float(q.abs().max()) * pulled * share
    return of_q, of_k, error * float(g.abs().max()) * share


def test_the_op_is_well_registered():
    q = gaussian((1, 2, 20, 4))
    p = ts.causal().bind(20, block=8).patterns[0]
    lse, delta = gaussian((1, 2, 20), 1), gaussian((1, 2, 20), 2)
    args = (q, q.clone(), q.clone(), q.clone(), lse, delta, p.indptr, p.indices, p.slots, p.insides, 0.5)
    torch.library.opcheck(torch.ops.trnsparse.attention_backward.default, args)


def test_gradients_of_gradients_on_the_host():
    operands = [gaussian((1, 2, 9, 4), i, torch.float64).requires_grad_() for i in range(3)]
    mask = (ts.causal() & ts.window(3) | ts.sink(1)).bind(9, block=4)

    def call(q, k, v):
        return ts.attention(q, k, v, mask)

    assert torch.autograd.gradcheck(call, operands)
    assert torch.autograd.gradgradcheck(call, operands, fast_mode=True)


def test_the_gradient_on_the_host_touches_stored_blocks_only():
    # torch's own gradient of a slice fills the whole head once for every row of blocks
    n = 1024
    q, k, v = (gaussian((1, 1, n, 8), i).requires_grad_() for i in range(3))
    made = ts.attention(q, k, v, ts.window(64))
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        made.sum().backward()
    largest = max((abs(e.cpu_memory_usage) for e in profile.function_events if "mm" in e.name), default=0)
    assert 0 < largest <= 4 * 128 * 3 * 128


@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_plan_states_the_memory_that_is_used(backend, dtype):
    q, k, v, g = (gaussian((1, 4, 1024, 64), i, dtype) for i in range(4))
    p = ts.window(200).bind(1024).patterns[0]
    pattern = (p.indptr, p.indices, p.slots, p.insides)
    out, lse = Attention(q, k, v, *pattern, 0.1).pytorch()
    delta = (out * g).float().sum(-1)
    stated, used = stated_and_used(AttentionBackward, backend, g, q, k, v, lse, delta, *pattern, 0.1)
    # rows differ in length, and shapes tell the average alone
    assert 0.8 * stated <= used <= 1.2 * stated
