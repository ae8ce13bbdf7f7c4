"""Every op registered with torch keeps torch's rules: fakes with the strides of results, gradients, dynamic shapes."""

import pytest
import torch

import trnblas  # noqa: F401  its ops
from tests.samples import operands, planned
from tests.trnblas.oracles import C128, F32, F64
from trnsci.ops import all_ops
from trnsci.testing import gaussian


def by_columns(x):
    return x.mT.contiguous().mT if x.ndim > 1 else torch.stack([x, x], -1)[..., 0]


def _variants(dtype):
    """Arguments of ops in more forms than one, with tensors in every position that takes one."""

    def g(*shape, seed=1):
        return gaussian(shape, seed, dtype)

    alpha = 0.5 - 1j if dtype.is_complex else 0.5
    h = dtype.is_complex
    policy = {F32: "fp32", F64: "fp64", C128: "fp64"}[dtype]
    square = g(3, 3) + 4 * torch.eye(3, dtype=dtype)
    batch = g(2, 3, 3) + 4 * torch.eye(3, dtype=dtype)
    band = g(3, 5) + 4
    yield "gemm", (g(3, 4), g(4, 2, seed=2), g(3, 2, seed=3), alpha, 2.0, policy, 0.0, None, "none")
    yield "gemm", (g(2, 3, 4), g(4, 2, seed=2), None, alpha, 0.0, "compensated", 0.0, None, "none")
    yield "gemv", (g(3, 4), g(4, seed=2), g(3, seed=3), alpha, 2.0, False)
    yield "gemv", (g(2, 3, 4), g(3, seed=2), None, 1.0, 0.0, True)
    yield "symm", (g(3, 3), g(3, 2, seed=2), g(3, 2, seed=3), alpha, 2.0, True, h, policy)
    yield "symm", (g(2, 3, 3), g(3, 2, seed=2), None, 1.0, 0.0, False, False, policy)
    yield "syrk", (g(3, 4), g(3, 4, seed=2), g(3, 3, seed=3), alpha, 2.0, True, h, policy, True)
    yield "syrk", (g(2, 3, 4), None, None, 1.0, 0.0, False, False, policy, False)
    yield "syrk", (g(3, 1), None, g(3, 3), 2.0, 1.0, False, False, policy, False)
    yield "trmm", (g(3, 3), g(3, 2, seed=2), alpha, True, False, policy)
    yield "trmm", (g(2, 3, 3), g(3, 2, seed=2), alpha, False, True, policy)
    yield "trsm", (square, g(3, 2, seed=2), alpha, True, False, policy)
    yield "trsm", (batch, g(3, 2, seed=2), 1.0, False, False, policy)
    yield "trsm", (square, g(3, 1, seed=2), 1.0, False, False, "compensated")
    yield "dot", (g(2, 5), g(5, seed=2), policy)
    yield "dot", (g(5), g(5, seed=2), "compensated")
    yield "norm", (g(2, 5), "nrm2", policy)
    yield "norm", (g(5), "asum", policy)
    yield "combine", ([g(3, 4), g(3, 4, seed=2)], [alpha, 2.0])
    yield "rotate", (g(4), g(4, seed=2), [0.5, 2.0, -2.0, 0.5])
    yield "dgmm", (g(2, 3, 4), g(4, seed=2), True)
    yield "dgmm", (g(3, 4), g(3, seed=2), False)
    yield "grouped_gemm", ([g(2, 3), g(1, 4)], [g(3, 2), g(4, 1)], [g(2, 2), g(1, 1)], alpha, 2.0, policy)
    yield "banded", (band, g(5, seed=2), g(5, seed=3), alpha, 2.0, 5, 1, "n", False, "general")
    yield "banded", (g(2, 3, 5), g(5, seed=2), None, alpha, 0.0, 5, 2, "n", False, "symmetric")
    yield "banded", (band, g(6, seed=2), None, alpha, 0.0, 6, 1, "c", False, "general")
    yield "band_solve", (band, g(5, seed=2), True, "n", False)
    yield "band_solve", (g(2, 3, 5), g(5, seed=2), False, "c", True)
    yield "packed_product", (g(6), g(3, seed=2), g(3, seed=3), alpha, 2.0, "hpmv" if h else "spmv", True, "n", False)
    yield "packed_product", (g(2, 6), g(3, seed=2), None, 1.0, 0.0, "tpsv", False, "c", True)
    yield "packed_update", (g(6), g(3, seed=2), g(3, seed=3), alpha, 1.0, "hpr2" if h else "spr2", True, "n", False)
    yield "packed_update", (g(6), g(3, seed=2), None, 0.5, 1.0, "hpr" if h else "spr", False, "n", False)
    if not h:
        yield "gemm_int", (torch.ones(2, 3, 4, dtype=torch.int8), torch.ones(4, 2, dtype=torch.uint8))
        yield "iamax", (g(2, 5), True)
        low, high = torch.tensor([-2.0, -1.0], dtype=dtype), torch.tensor([1.0, 2.0, 3.0], dtype=dtype)
        yield "mp2", (g(6, 6), low, low.clone(), high, False, 0, 1e-7)
        yield "mp2", (g(6, 6), low, low.clone(), high, True, 0, 1e-7)


def _calls(dtype):
    """Variants, and for every other op what the sample of the function of its name plans."""
    yield from _variants(dtype)
    known = {name for given in (F64, C128) for name, _ in _variants(given)}
    for stem in [op.name.removeprefix("trnblas::") for op in all_ops() if op.name.startswith("trnblas::")]:
        if stem not in known:
            yield stem, operands(planned(f"trnblas::{stem}", dtype))


def _arranged(value, change):
    if isinstance(value, torch.Tensor):
        return change(value)
    return [_arranged(x, change) for x in value] if isinstance(value, list) else value


def _differentiable(x):
    x = x.detach().clone()
    return x.requires_grad_() if x.is_floating_point() or x.is_complex() else x


def _cases(dtype):
    return [pytest.param(name, args, id=f"{index}-{name}") for index, (name, args) in enumerate(_calls(dtype))]


@pytest.mark.parametrize(("name", "args"), _cases(F64))
def test_every_op_keeps_the_rules(name, args):
    change = (lambda x: x) if name == "iamax" else _differentiable
    torch.library.opcheck(getattr(torch.ops.trnblas, name).default, tuple(_arranged(x, change) for x in args))


# following the compiler takes most of the time, and it does not look at dtypes
EAGER = ("test_schema", "test_autograd_registration", "test_faketensor")


@pytest.mark.parametrize("rules", [EAGER, pytest.param("test_aot_dispatch_dynamic", marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize(("name", "args"), _cases(C128))
def test_complex_operands_by_columns(name, args, rules):
    args = tuple(_arranged(x, lambda x: by_columns(_differentiable(x))) for x in args)
    torch.library.opcheck(getattr(torch.ops.trnblas, name).default, args, test_utils=rules)


@pytest.mark.grid(1)
@pytest.mark.parametrize(("name", "args"), _cases(F32))
@pytest.mark.parametrize("change", [lambda x: x, by_columns], ids=["by rows", "by columns"])
def test_fakes_have_the_strides_of_results(name, args, change):
    # Without a gradient, which is where other libraries than torch compute.
    args = tuple(_arranged(x, change) for x in args)
    torch.library.opcheck(getattr(torch.ops.trnblas, name).default, args, test_utils="test_faketensor")
