"""Every op registered with torch keeps torch's rules: fakes with the strides of results, gradients, dynamic shapes."""

import json

import pytest
import torch

import trntensor
from trnsci.ops import all_ops
from trnsci.testing import gaussian

F64 = torch.float64


def _calls():
    def g(*shape, seed=1):
        return gaussian(shape, seed, F64)

    low, high = torch.tensor([-2.0, -1.0], dtype=F64), torch.tensor([1.0, 2.0, 3.0], dtype=F64)
    yield "mp2_energy", (g(2, 3, 4), low, high)
    yield "mp2_between", (g(2, 3, 4), g(2, 3, 4, seed=2), low, low.clone(), high, None)
    yield "mp2_between", (g(2, 3, 4), g(2, 3, 4, seed=2), low, low.clone(), high, high + 0.5)
    yield "ao_to_mo_transform", (g(3, 4, 5), g(3, 2, seed=2), g(4, 3, seed=3))
    code = json.dumps(
        [list(row) for row in trntensor.fuse("ik,jk->ij", epilogue=lambda t, d: t * t / d, extras=("j",)).code]
    )
    yield "fuse", (g(2, 3, 4), g(2, 4, 5, seed=2), [g(1, 1, 5, seed=3) + 9], code, "bm")
    yield "einsum", ([g(2, 3), g(3, 4, seed=2)], g(4, 2, seed=3), "ij,jk->ki", 0.5, 2.0, "", 0.0, 0, "auto", [])
    yield (
        "einsum",
        ([g(2, 3), g(3, 4), g(4, 2)], None, "ij,jk,kl->il", 1.0, 0.0, "fp64", 0.0, 0, "path", [2, 0, 1, 2, 0, 1]),
    )
    yield "einsum", ([g(2, 3), g(3, 4)], None, "ij,jk->ik", 1.0, 0.0, "", 0.0, 120, "greedy", [])


def _arranged(value, change):
    if isinstance(value, torch.Tensor):
        return change(value)
    return [_arranged(x, change) for x in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("name", "args"), list(_calls()))
def test_every_op_keeps_the_rules(name, args):
    fresh = tuple(_arranged(x, lambda x: x.detach().clone().requires_grad_()) for x in args)
    torch.library.opcheck(getattr(torch.ops.trntensor, name).default, fresh)


@pytest.mark.parametrize(("name", "args"), list(_calls()))
def test_fakes_have_the_strides_of_results(name, args):
    transposed = tuple(_arranged(x, lambda x: x.mT.contiguous().mT if x.ndim > 1 else x) for x in args)
    torch.library.opcheck(getattr(torch.ops.trntensor, name).default, transposed, test_utils="test_faketensor")


def test_the_table_has_every_op():
    defined = {op.name.removeprefix("trntensor::") for op in all_ops() if op.name.startswith("trntensor::")}
    assert defined == {name for name, _ in _calls()}
