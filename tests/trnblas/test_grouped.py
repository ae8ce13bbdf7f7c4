import numpy as np
import pytest
import torch

import trnsci
from tests.together import together
from tests.trnblas.oracles import C64, C128, F32, F64, KERNELS, gradient_bound
from trnblas import grouped_gemm
from trnsci import ArgumentError, DtypeError
from trnsci.testing import BACKENDS, assert_within, gaussian, gemm_bound, in_float64

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
SHAPES = [(3, 4, 5), (129, 130, 7), (1, 1, 1), (20, 3, 600), (0, 3, 2), (2, 0, 3)]


def operands(dtype=F32):
    lefts = [gaussian((m, k), i, dtype) for i, (m, k, _) in enumerate(SHAPES)]
    rights = [gaussian((k, n), i + 50, dtype) for i, (_, k, n) in enumerate(SHAPES)]
    return lefts, rights


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("dtype", [F32, C64, F64, torch.bfloat16], ids=str)
def test_every_product_is_within_the_bound_of_gemm(backend, dtype):
    lefts, rights = operands(dtype)
    with backend:
        found = grouped_gemm(1.0, lefts, rights)
    for a, b, got in zip(lefts, rights, found, strict=True):
        assert got.dtype == dtype
        work = F32 if dtype is torch.bfloat16 else None
        assert_within(got, in_float64(np.matmul, a, b), 2 * gemm_bound(a, b, arithmetic=work))


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_one_program_serves_all(backend, monkeypatch):
    launched = []
    monkeypatch.setattr(
        "trnblas.grouped.launch", lambda kernel, *args, **options: launched.append(kernel) or _zeros(**options)
    )
    lefts, rights = operands()
    with backend, trnsci.ledger() as book:
        grouped_gemm(1.0, lefts, rights)
    assert len(launched) == 1
    assert [entry.step.backend for entry in book] == [backend.name]


def _zeros(shapes, half):
    return [torch.zeros(1, m, n) for m, _, n in shapes]


@on_backends
def test_scaling_addition_and_transposition(backend):
    lefts, rights = operands()
    addends = [gaussian((m, n), i + 90) for i, (m, _, n) in enumerate(SHAPES)]
    turned = [a.mT.contiguous() for a in lefts]
    with backend:
        found = grouped_gemm(0.5, turned, rights, 2.0, addends, trans_a=True)
        assert grouped_gemm(1.0, [], []) == []
    for a, b, c, got in zip(lefts, rights, addends, found, strict=True):
        expected = 0.5 * in_float64(np.matmul, a, b) + 2 * c.double()
        assert_within(got, expected, gemm_bound(a, b, c, alpha=0.5, beta=2.0))


@on_backends
def test_gradients(backend):
    dtype = F32 if backend.runs_kernels else F64
    lefts = [gaussian((2, 3), 1, dtype).requires_grad_(), gaussian((4, 1), 2, dtype).requires_grad_()]
    rights = [gaussian((3, 2), 3, dtype).requires_grad_(), gaussian((1, 5), 4, dtype).requires_grad_()]
    with backend:
        found = grouped_gemm(1.0, lefts, rights)
        sum(x.square().sum() for x in found).backward()
    for a, b in zip(lefts, rights, strict=True):
        c, d = (t.detach().double().requires_grad_() for t in (a, b))
        (c @ d).square().sum().backward()
        limits = gradient_bound(lambda a, b: (a @ b).square().sum(), (a, b), 16)
        for got, expected, limit in zip((a, b), (c, d), limits, strict=True):
            assert_within(got.grad, expected.grad, limit)


def test_opcheck_and_complex_gradient_rule():
    args = [gaussian((2, 3), 1, C128).requires_grad_()], [gaussian((3, 2), 2, C128).requires_grad_()]
    torch.library.opcheck(torch.ops.trnblas.grouped_gemm.default, (*args, [], 0.5, 0.0, "fp64"))
    assert torch.autograd.gradcheck(
        lambda a, b: torch.ops.trnblas.grouped_gemm.default([a], [b], [], 0.5j, 0.0, "fp64")[0],
        (args[0][0], args[1][0]),
    )


@together(
    ("kind", "call", "text"),
    [
        (ArgumentError, lambda: grouped_gemm(1.0, [torch.ones(2, 2)], []), "number of matrices differs: a has"),
        (
            ArgumentError,
            lambda: grouped_gemm(1.0, [torch.ones(2, 2)], [torch.ones(3, 2)]),
            "a[0] has K=2, b[0] has K=3",
        ),
        (ArgumentError, lambda: grouped_gemm(1.0, [torch.ones(2)], [torch.ones(2, 2)]), "shape of a[0] is (2,)"),
        (
            DtypeError,
            lambda: grouped_gemm(1.0, [torch.ones(2, 2)], [torch.ones(2, 2).double()]),
            "b[0] has dtype=float64",
        ),
        (ArgumentError, lambda: grouped_gemm(1.0, [torch.ones(2, 2)], [torch.ones(2, 2)], 1.0), "c is None"),
    ],
)
def test_bad_arguments_are_named(kind, call, text):
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
