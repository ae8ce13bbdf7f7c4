"""Gradients of block-sparse attention beside dense ones in float64."""

import pytest
import torch

import trnsparse as ts
from trnsci.testing import BACKENDS, assert_within, gaussian, unit_roundoff

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
    # Each gradient is a sum of at most heads * n products of weights, scores' gradients and operands.
    for x, y in zip(operands, wide, strict=True):
        size = float(y.grad.abs().max()) + 1
        assert_within(x.grad, y.grad, unit_roundoff(dtype) * (24 if dtype == torch.bfloat16 else 400) * size)


def test_the_op_is_well_registered():
    q = gaussian((1, 2, 20, 4))
    p = ts.causal().bind(20, block=8).patterns[0]
    lse, delta = gaussian((1, 2, 20), 1), gaussian((1, 2, 20), 2)
    args = (q, q.clone(), q.clone(), q.clone(), lse, delta, p.indptr, p.indices, p.slots, p.insides, 0.5)
    torch.library.opcheck(
        torch.ops.trnsparse.attention_backward.default, args, test_utils=("test_schema", "test_faketensor")
    )
