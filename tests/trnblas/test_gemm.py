import asyncio
import threading

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.linalg import blas

import trnblas
import trnsci
import trnsim
from tests.together import together
from tests.trnblas.oracles import gradient_bound
from trnblas import Epilogue, gemm
from trnblas.kernels import gemm as kernels
from trnsci import ArgumentError, BackendUnavailable, DtypeError
from trnsci.testing import BACKENDS, EDGES, assert_within, gamma, gaussian, gemm_bound, ill_scaled, in_float64, pairs

F32, F64, C64, C128 = torch.float32, torch.float64, torch.complex64, torch.complex128
BF16, F16 = torch.bfloat16, torch.float16

CASES = pairs(EDGES, EDGES, EDGES)
CASES += [(64, 1000, 513), (7, 257, 1021), (520, 130, 3)]

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
on_kernels = pytest.mark.parametrize("backend", [b for b in BACKENDS if b.runs_kernels], ids=str)


def oracle(a, b, c=None, alpha=1.0, beta=0.0):
    product = alpha * in_float64(np.matmul, a, b)
    return product if c is None else product + beta * in_float64(np.array, c)


@on_backends
@pytest.mark.parametrize(("m", "k", "n"), CASES)
def test_stays_within_its_stated_bound(backend, m, k, n):
    a, b = gaussian((m, k), seed=1), gaussian((k, n), seed=2)
    with backend:
        assert_within(gemm(1.0, a, b), oracle(a, b), gemm_bound(a, b))


@pytest.mark.parametrize(
    ("backend", "dtype", "factors"),
    pairs(BACKENDS, [F32, BF16, F16, C64], [(1.0, 0.0), (2.5, 0.0), (1.0, 1.0), (-0.5, 0.75), (0.0, 2.0), (3, 1)]),
    ids=str,
)
def test_scaling_and_addition(backend, dtype, factors):
    alpha, beta = factors
    a, b, c = gaussian((130, 40), 1, dtype), gaussian((40, 70), 2, dtype), gaussian((130, 70), 3, dtype)
    with backend:
        got = gemm(alpha, a, b, beta, c)
    assert got.dtype == dtype
    bound = gemm_bound(a, b, c, alpha=alpha, beta=beta, arithmetic=C64 if dtype.is_complex else F32)
    assert_within(got, oracle(a, b, c, alpha, beta), bound)


@on_backends
def test_complex_coefficients(backend):
    a, b, c = gaussian((9, 5), 1, C64), gaussian((5, 7), 2, C64), gaussian((9, 7), 3, C64)
    with backend:
        got = gemm(1 - 2j, a, b, 0.5j, c)
    assert_within(got, oracle(a, b, c, 1 - 2j, 0.5j), gemm_bound(a, b, c, alpha=1 - 2j, beta=0.5j))


@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
def test_double_precision_on_pytorch(dtype):
    a, b, c = gaussian((65, 33), 1, dtype), gaussian((33, 17), 2, dtype), gaussian((65, 17), 3, dtype)
    peer = blas.dgemm if dtype is F64 else blas.zgemm
    expected = torch.from_numpy(peer(1.5, a.numpy(), b.numpy(), 0.25, c.numpy()))
    # Two computed results: each within its own bound of the exact one.
    assert_within(gemm(1.5, a, b, 0.25, c), expected, 2 * gemm_bound(a, b, c, alpha=1.5, beta=0.25))


@on_backends
def test_ill_scaled_operands(backend):
    a, b = ill_scaled((40, 300), 1), ill_scaled((300, 50), 2)
    with backend:
        assert_within(gemm(1.0, a, b), oracle(a, b), gemm_bound(a, b))


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("trans_a", [False, True, "n", "t", "c", 0, 1, 2, "T"])
@pytest.mark.parametrize("trans_b", ["n", "C"])
def test_transposition(backend, trans_a, trans_b):
    a, b = gaussian((6, 4), 1, C64), gaussian((4, 5), 2, C64)
    stored = {"n": lambda x: x, "t": lambda x: x.mT, "c": lambda x: x.mH}
    kind = {False: "n", True: "t", 2: "c"}.get(trans_a, str(trans_a).lower())
    with backend:
        got = gemm(
            1.0, stored[kind](a).contiguous(), stored[trans_b.lower()](b).contiguous(), 0.0, None, trans_a, trans_b
        )
    assert_within(got, oracle(a, b), gemm_bound(a, b))


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        ((5, 3, 4), (5, 4, 6), None),
        ((5, 3, 4), (4, 6), None),
        ((3, 4), (5, 4, 6), None),
        ((2, 1, 3, 4), (5, 4, 6), None),
        ((5, 3, 4), (5, 4, 6), (5, 3, 6)),
        ((5, 3, 4), (4, 6), (3, 6)),
        ((3, 4), (4, 6), (5, 3, 6)),
        ((1, 3, 4), (4, 6), (5, 3, 6)),
        ((2, 1, 3, 4), (2, 5, 4, 6), (5, 3, 6)),
    ],
)
def test_batches_broadcast(backend, a, b, c):
    a, b = gaussian(a, 1), gaussian(b, 2)
    c = None if c is None else gaussian(c, 3)
    beta = 0.0 if c is None else 0.5
    with backend:
        assert_within(gemm(2.0, a, b, beta, c), oracle(a, b, c, 2.0, beta), gemm_bound(a, b, c, alpha=2.0, beta=beta))
        assert gemm(1.0, a, b, 0.0, c).shape == oracle(a, b, c).shape


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize(("m", "k", "n"), [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
@pytest.mark.parametrize("batch", [(), (2,), (0,)])
def test_empty_dimensions(backend, m, k, n, batch):
    a, b, c = torch.ones(*batch, m, k), torch.ones(*batch, k, n), torch.ones(*batch, m, n)
    with backend:
        assert torch.equal(gemm(1.0, a, b), torch.zeros(*batch, m, n))
        assert torch.equal(gemm(1.0, a, b, 2.0, c), 2 * c)


@on_backends
def test_strided_views(backend):
    a = gaussian((12, 20, 3), 1)[::2, ::3, 1]
    b = gaussian((7, 11), 2).T[::1, ::2][:7]
    with backend:
        assert_within(gemm(1.0, a, b), oracle(a, b), gemm_bound(a, b))


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("dtype", [F32, C64, BF16], ids=str)
def test_fast_rounds_operands_to_bfloat16_and_accumulates_in_fp32(backend, dtype):
    a, b = gaussian((50, 300), 1, dtype), gaussian((300, 40), 2, dtype)
    with backend:
        got = gemm(1.0, a, b, precision="fast")
    bound = gemm_bound(a, b, arithmetic=C64 if dtype.is_complex else F32, operands=None if dtype is BF16 else BF16)
    assert_within(got, oracle(a, b), bound)
    if dtype is F32:
        rounded = a.bfloat16().float(), b.bfloat16().float()
        assert_within(got, oracle(*rounded), gemm_bound(*rounded))


@pytest.mark.parametrize("dtype", [F32, F16, C64], ids=str)
def test_fp64_rounds_once(dtype):
    a, b = gaussian((20, 500), 1, dtype), gaussian((500, 30), 2, dtype)
    got = gemm(1.0, a, b, precision="fp64")
    assert got.dtype == dtype
    assert_within(got, oracle(a, b), gemm_bound(a, b, arithmetic=C128 if dtype.is_complex else F64))


@on_backends
def test_fp32_of_doubles_is_fp32_and_stays_double(backend):
    a, b, c = gaussian((20, 50), 1, F64), gaussian((50, 30), 2, F64), gaussian((20, 30), 3, F64)
    with backend:
        got = gemm(1.0, a, b, 0.5, c, precision="fp32")
    assert got.dtype == F64
    assert torch.equal(got, got.float().double())
    bound = gemm_bound(a, b, c, beta=0.5, arithmetic=F32, operands=F32) + 0.5 * 2.0**-24 * c.abs()
    assert_within(got, oracle(a, b, c, 1.0, 0.5), bound)


@on_backends
def test_alpha_zero_does_not_read_the_factors_and_beta_zero_not_the_addend(backend):
    nan, ones = torch.full((3, 3), torch.nan), torch.ones(3, 3)
    with backend:
        assert torch.equal(gemm(0.0, nan, nan, 2.0, ones), 2 * ones)
        assert torch.equal(gemm(0.0, nan, nan), 0 * ones)
        assert torch.equal(gemm(1.0, ones, ones, 0.0, nan), 3 * ones)


@on_backends
def test_nonfinite_values_pass_as_ieee_says(backend):
    a = torch.tensor([[torch.inf, 1.0], [torch.nan, 1.0], [1.0, 1.0]])
    b = torch.tensor([[1.0, 0.0], [2.0, 3.0]])
    with backend:
        got = gemm(1.0, a, b)
    assert_within(got, torch.tensor([[torch.inf, torch.nan], [torch.nan, torch.nan], [3.0, 3.0]]), 0.0)


@on_backends
def test_the_same_bits_every_time(backend):
    a, b = gaussian((200, 300), 1), gaussian((300, 100), 2)
    with backend:
        first = gemm(1.5, a, b)
        assert torch.equal(first, gemm(1.5, a, b))


@pytest.mark.slow
@on_backends
def test_sums_so_long_that_no_operand_stays_on_the_chip(backend):
    a, b = gaussian((3, 40_000), 1), gaussian((40_000, 2), 2)
    with backend:
        assert_within(gemm(1.0, a, b), oracle(a, b), gemm_bound(a, b))


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_out_is_written_and_returned(backend, beta, batch):
    a, b, c = gaussian((*batch, 5, 4), 1), gaussian((*batch, 4, 6), 2), gaussian((*batch, 5, 6), 3)
    out = torch.empty(*batch, 6, 5).mT
    with backend:
        assert gemm(2.0, a, b, beta, c, out=out) is out
    assert_within(out, oracle(a, b, c, 2.0, beta), gemm_bound(a, b, c, alpha=2.0, beta=beta))


@settings(deadline=None, max_examples=40)
@given(
    m=st.integers(1, 9), k=st.integers(1, 9), n=st.integers(1, 9), batch=st.lists(st.integers(1, 3), max_size=2),
    step=st.integers(1, 3), flip=st.booleans(), seed=st.integers(0, 9),
)  # fmt: skip
def test_any_shape_and_stride(m, k, n, batch, step, flip, seed):
    a = gaussian((*batch, m * step, k), seed)[..., ::step, :]
    b = gaussian((n, k) if flip else (k, n), seed + 1)
    got = gemm(1.0, a, b, trans_b=flip)
    b = b.mT if flip else b
    assert got.shape == (*batch, m, n)
    assert_within(got, oracle(a, b), gemm_bound(a, b))


@pytest.mark.cuda
@on_backends
@pytest.mark.parametrize("dtype", [F32, C64, BF16], ids=str)
def test_results_live_on_the_operands_device(backend, dtype):
    a, b, c = gaussian((130, 40), 1, dtype), gaussian((40, 70), 2, dtype), gaussian((130, 70), 3, dtype)
    with backend, trnsci.ledger() as book:
        got = gemm(1.5, a.cuda(), b.cuda(), 0.5, c.cuda())
    assert got.is_cuda
    assert book.measured > 0
    arithmetic = F32 if dtype is BF16 else dtype
    bound = gemm_bound(a, b, c, alpha=1.5, beta=0.5, arithmetic=arithmetic)
    assert_within(got, oracle(a, b, c, 1.5, 0.5), bound)


# Gradients


@pytest.mark.grid(2)
@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
@pytest.mark.parametrize(
    ("a", "b", "c"), [((3, 4), (4, 2), (3, 2)), ((2, 3, 4), (4, 2), (3, 2)), ((3, 4), (2, 4, 2), None)]
)
@pytest.mark.parametrize("alpha", [1.0, -0.5])
def test_gradients_on_pytorch(dtype, a, b, c, alpha):
    a, b = gaussian(a, 1, dtype).requires_grad_(), gaussian(b, 2, dtype).requires_grad_()
    operands = [a, b] if c is None else [a, b, gaussian(c, 3, dtype).requires_grad_()]

    def function(a, b, c=None):
        return gemm(alpha, a, b, 0.0 if c is None else 0.75, c, trans_a="n")

    assert torch.autograd.gradcheck(function, operands)
    assert torch.autograd.gradgradcheck(function, operands)


@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
def test_the_gradient_rule_of_kernels_is_right(dtype):
    """The registered operator runs the rule kernels use; in float64, where gradcheck is sharp."""
    operator = torch.ops.trnblas.gemm.default
    a, b, c = (gaussian(s, i, dtype).requires_grad_() for i, s in enumerate([(2, 3, 4), (4, 2), (3, 2)]))
    alpha, beta = (0.5 - 1j, 2j) if dtype.is_complex else (0.5, -2.0)
    assert torch.autograd.gradcheck(
        lambda a, b, c: operator(a, b, c, alpha, beta, "fp64", 0.0, None, "none"), (a, b, c)
    )
    assert torch.autograd.gradgradcheck(
        lambda a, b, c: operator(a, b, c, alpha, beta, "fp64", 0.0, None, "none"), (a, b, c)
    )


@on_kernels
@pytest.mark.parametrize("dtype", [F32, C64], ids=str)
def test_gradients_through_kernels(backend, dtype):
    shapes = [(2, 5, 7), (7, 3), (5, 3)]
    operands = [gaussian(shape, i, dtype).requires_grad_() for i, shape in enumerate(shapes)]
    exact = [x.detach().to(C128 if dtype.is_complex else F64).requires_grad_() for x in operands]
    with backend, trnsci.ledger() as book:
        loss = gemm(1.5, *operands[:2], 0.5, operands[2]).abs().square().sum()
        loss.backward()
    (1.5 * exact[0] @ exact[1] + 0.5 * exact[2]).abs().square().sum().backward()
    assert {entry.step.backend for entry in book} == {backend.name}
    # Two products in a row, of 7 and of 10 terms, and what scales, adds and squares.
    limits = gradient_bound(lambda a, b, c: (1.5 * a @ b + 0.5 * c).square().sum(), operands, 28)
    for got, expected, limit in zip(operands, exact, limits, strict=True):
        assert_within(got.grad, expected.grad, limit)


@on_kernels
def test_backward_runs_where_forward_ran(backend):
    a, b = gaussian((3, 4), 1).requires_grad_(), gaussian((4, 5), 2)
    with backend:
        result = gemm(1.0, a, b)
    with trnsci.ledger() as book:
        result.sum().backward()
    assert [entry.step.backend for entry in book] == [backend.name]


# Registration


@pytest.mark.parametrize("c", [None, (3, 2)])
def test_opcheck(c):
    a, b = gaussian((2, 3, 4), 1, F64).requires_grad_(), gaussian((4, 2), 2, F64).requires_grad_()
    c = None if c is None else gaussian(c, 3, F64).requires_grad_()
    torch.library.opcheck(
        torch.ops.trnblas.gemm.default, (a, b, c, 2.0, 0.5 if c is not None else 0.0, "fp64", 0.0, None, "none")
    )


@on_backends
def test_under_torch_compile(backend):
    a, b, c = (gaussian(s, i).requires_grad_() for i, s in enumerate([(3, 4), (4, 5), (3, 5)]))
    compiled = torch.compile(lambda a, b, c: torch.relu(gemm(2.0, a, b, 0.5, c)), fullgraph=True, backend="aot_eager")
    with backend, trnsci.ledger() as book:
        got = compiled(a, b, c)
        got.sum().backward()
    assert {entry.step.backend for entry in book} == {backend.name}
    expected = torch.relu(oracle(a.detach(), b.detach(), c.detach(), 2.0, 0.5))
    assert_within(got, expected, gemm_bound(a.detach(), b.detach(), c.detach(), alpha=2.0, beta=0.5))
    assert a.grad.shape == a.shape


# Arrays


@together("dtype", [np.float32, np.float64, np.complex64, ml_dtypes.bfloat16, ">f8"])
def test_numpy_in_numpy_out(dtype):
    a, b = np.arange(6.0).reshape(2, 3).astype(dtype), np.ones((3, 2)).astype(dtype)
    got = gemm(np.float64(2.0), a, b[::-1])
    assert isinstance(got, np.ndarray)
    assert got.dtype == np.dtype(dtype).newbyteorder("=")
    np.testing.assert_array_equal(got.astype(complex), 2.0 * a.astype(complex) @ b.astype(complex))


def test_numpy_out_is_written_in_place():
    a, b, out = np.ones((2, 3)), np.ones((3, 2)), np.full((2, 2), np.nan)
    assert gemm(1.0, a, b, out=out) is out
    assert (out == 3).all()


def test_a_tensor_among_arrays_makes_the_result_a_tensor():
    assert isinstance(gemm(1.0, np.ones((2, 3)), torch.ones(3, 2, dtype=F64)), torch.Tensor)


# Plans, residency, settings


def test_plan_tells_cost_backend_and_reason():
    a, b = torch.ones(5, 64, 32), torch.ones(32, 16)
    plan = trnsci.plan(gemm, 1.0, a, b)
    assert plan.flops == 2 * 5 * 64 * 32 * 16
    assert (plan.bytes_read, plan.bytes_written) == (4 * (5 * 64 * 32 + 32 * 16), 4 * 5 * 64 * 16)
    assert (plan.backend, plan.reason) == ("pytorch", "no Neuron device")
    with trnsci.backend("simulator"):
        assert trnsci.plan(gemm, 1.0, a, b).backend == "simulator"


def test_results_of_resident_operands_are_resident():
    a, b = trnsci.to_device(torch.ones(3, 4)), torch.ones(4, 2)
    with trnsci.ledger() as book, trnsci.backend("simulator"):
        result = gemm(1.0, a, b)
    assert trnsci.is_resident(result)
    assert (book.bytes_to_device, book.bytes_from_device) == (b.nbytes, 0)
    assert torch.equal(trnsci.from_device(result), torch.full((3, 2), 4.0))


def test_threads_and_tasks_keep_their_own_backend():
    a, seen = torch.ones(2, 2), {}

    def in_thread():
        seen["thread"] = trnsci.plan(gemm, 1.0, a, a).backend

    async def task(name):
        with trnsci.backend(name):
            await asyncio.sleep(0)
            return trnsci.plan(gemm, 1.0, a, a).backend

    async def both():
        return await asyncio.gather(task("simulator"), task("pytorch"))

    with trnsci.backend("simulator"):
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
    assert seen == {"thread": "pytorch"}
    assert asyncio.run(both()) == ["simulator", "pytorch"]


def test_library_setting(monkeypatch):
    a = torch.ones(2, 2)
    trnblas.set_backend("simulator")
    try:
        assert trnblas.get_backend() == "simulator"
        with trnsci.ledger() as book:
            gemm(1.0, a, a)
        assert [entry.step.backend for entry in book] == ["simulator"]
        assert book.entries[0].step.reason == 'trnblas.set_backend("simulator")'
    finally:
        trnblas.set_backend(None)
    monkeypatch.setenv("TRNBLAS_FORCE_BACKEND", "simulator")
    trnblas.set_backend(None)
    assert trnblas.get_backend() == "simulator"
    monkeypatch.delenv("TRNBLAS_FORCE_BACKEND")
    trnblas.set_backend(None)
    assert trnblas.get_backend() == "auto"


# What errors say

ONES = torch.ones(2, 3)


def raised(kind, *args, **options):
    with pytest.raises(kind) as caught:
        gemm(*args, **options)
    return caught.value


def test_reports_both_sizes_when_k_differs():
    error = raised(ArgumentError, 1.0, ONES, torch.ones(4, 5))
    assert (error.op, error.argument, error.got) == ("gemm", "K", {"a": 3, "b": 4})
    assert str(error) == "gemm: K differs: a has K=3, b has K=4. Transpose one of them with trans_a or trans_b?"


@together(("kind", "args", "options", "argument", "text"), [
        (DtypeError, (1.0, ONES.int(), ONES.T.int()), {}, "dtype of a", "gemm: dtype of a is int32, expected a real"),
        (DtypeError, (1.0, ONES, ONES.T.double()), {}, "dtype", "a has dtype=float32, b has dtype=float64"),
        (DtypeError, (1.0, [[1.0]], ONES), {}, "a", "a is list, expected a tensor"),
        (DtypeError, (1j, ONES, ONES.T), {}, "alpha", "alpha is 1j, expected a real number"),
        (DtypeError, ("1", ONES, ONES.T), {}, "alpha", "alpha is str, expected a number"),
        (ArgumentError, (1.0, ONES[0], ONES.T), {}, "shape of a", "shape of a is (3,), expected at least 2 dim"),
        (ArgumentError, (1.0, ONES, ONES.T, 1.0), {}, "c", "c is None, expected a tensor [..., M, N], because beta"),
        (ArgumentError, (1.0, ONES, ONES.T, 1.0, torch.ones(3, 2)), {}, "M", "a has M=2, c has M=3"),
        (ArgumentError, (1.0, ONES, ONES.T, 1.0, torch.ones(2, 5)), {}, "N", "b has N=2, c has N=5"),
        (ArgumentError, (1.0, torch.ones(2, 2, 3), torch.ones(5, 3, 2)), {}, "batch shape", "a has batch shape=(2,)"),
        (ArgumentError, (1.0, ONES, ONES), {"trans_b": "x"}, "trans_b", "trans_b is 'x', expected one of False, True"),
        (ArgumentError, (1.0, ONES, ONES), {"trans_b": None}, "trans_b", "trans_b is None, expected one of"),
        (ArgumentError, (1.0, ONES, ONES.T), {"precision": "fp16"}, "precision", "precision is 'fp16', expected"),
        (ArgumentError, (1.0, ONES, ONES.T), {"out": torch.ones(3, 3)}, "shape of out", "is (3, 3), expected (2, 2)"),
        (DtypeError, (1.0, ONES, ONES.T), {"out": torch.ones(2, 2, dtype=F64)}, "dtype of out", "is float64, expected"),
        (ArgumentError, (1.0, ONES, ONES.T), {"out": torch.ones(2, 1).expand(2, 2)}, "out", "elements share memory"),
        (ArgumentError, (1.0, ONES, ONES.T), {"out": torch.ones(9).as_strided((2, 2), (1, 1))}, "out", "share memory"),
        (ArgumentError, (torch.tensor(1.0, requires_grad=True), ONES, ONES.T), {}, "alpha", "requires grad"),
    ])  # fmt: skip
def test_bad_arguments_are_named(kind, args, options, argument, text):
    error = raised(kind, *args, **options)
    assert error.op == "gemm"
    assert error.argument == argument
    assert text in str(error)


def test_out_may_not_share_memory():
    storage = torch.ones(20)
    a, out = storage[:6].view(2, 3), storage[4:8].view(2, 2)
    error = raised(ArgumentError, 1.0, a, ONES.T, out=out)
    assert error.got == "memory shared with a"
    assert "pass a copy of a" in str(error)


def test_out_may_not_be_differentiated():
    error = raised(ArgumentError, 1.0, ONES.clone().requires_grad_(), ONES.T, out=torch.ones(2, 2))
    assert "a requires grad" in str(error)
    with torch.no_grad():
        gemm(1.0, ONES.clone().requires_grad_(), ONES.T, out=torch.ones(2, 2))


@pytest.mark.parametrize("device", ["meta", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_operands_on_two_devices(device):
    error = raised(ArgumentError, 1.0, ONES, ONES.T.to(device))
    assert error.argument == "device"
    assert set(error.got) == {"a", "b"}


def test_no_device_no_nki():
    with trnsci.backend("nki"):
        error = raised(BackendUnavailable, 1.0, ONES, ONES.T)
    assert (error.backend, error.reason) == ("nki", "no Neuron device")


# Epilogues, in-place addition


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "silu", "sigmoid", "tanh"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_epilogues(backend, activation, with_bias):
    a, b, c = gaussian((130, 20), 1), gaussian((20, 520), 2), gaussian((130, 520), 3)
    bias = gaussian((520,), 4) if with_bias else None
    with backend:
        got = gemm(0.5, a, b, 0.25, c, epilogue=Epilogue(bias=bias, scale=0.5, activation=activation))
    before = 0.5 * oracle(a, b, c, 0.5, 0.25) + (0 if bias is None else bias.double())
    size = gemm_bound(a, b, c, alpha=0.5, beta=0.25) + 2.0**-22 * (before.abs() + 1)
    functions = {"relu": torch.relu, "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu}
    functions |= {"none": lambda x: x, "sigmoid": torch.sigmoid, "tanh": torch.tanh}
    # Every function's slope is below 1.2; its own evaluation in fp32 adds a few roundings.
    assert_within(got, functions[activation](before), 1.2 * size + 2.0**-20 * before.abs() + 2.0**-20)


@on_backends
def test_epilogues_are_differentiable(backend):
    a, b, bias = (gaussian(s, i).requires_grad_() for i, s in enumerate([(5, 4), (4, 3), (3,)]))
    with backend:
        gemm(1.0, a, b, epilogue=Epilogue(bias=bias, activation="silu")).sum().backward()
    x, y, z = (t.detach().double().requires_grad_() for t in (a, b, bias))
    torch.nn.functional.silu(x @ y + z).sum().backward()
    # The slope of silu is below 1.1 and its second derivative below 0.5: errors of the sum move the slope by as much.
    inside = gamma(8, F32) * (x.abs() @ y.abs() + z.abs()).detach().max() + gamma(12, F32)
    for got, expected, size in ((a, x, y.abs().sum(1)), (b, y, x.abs().sum(0).unsqueeze(1)), (bias, z, len(a))):
        assert_within(got.grad, expected.grad, 2 * inside * size)


@on_backends
def test_half_precision_and_out_with_an_epilogue(backend):
    a, b, bias, out = (
        gaussian((5, 4), 1, BF16),
        gaussian((4, 3), 2, BF16),
        gaussian((3,), 3, BF16),
        torch.empty(5, 3).bfloat16(),
    )
    with backend:
        assert gemm(1.0, a, b, epilogue=Epilogue(bias=bias, activation="relu"), out=out) is out
    expected = torch.relu(oracle(a, b) + bias.double())
    assert_within(out, expected, 2.0**-7 * (gemm_bound(a, b) * 0 + a.abs().double() @ b.abs().double() + 1))


@on_backends
def test_c_may_be_updated_in_place(backend):
    a, b, c = gaussian((5, 4), 1), gaussian((4, 3), 2), gaussian((5, 3), 3)
    expected = oracle(a, b, c, 2.0, 0.5)
    bound = gemm_bound(a, b, c, alpha=2.0, beta=0.5)
    with backend:
        assert gemm(2.0, a, b, 0.5, c, out=c) is c
    assert_within(c, expected, bound)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Epilogue(activation="swish"), "activation is 'swish', expected one of 'none', 'relu'"),
        (
            lambda: gemm(1.0, ONES, ONES.T, epilogue=Epilogue(bias=torch.ones(3))),
            "shape of bias is (3,), expected (2,)",
        ),
        (lambda: gemm(1.0, ONES + 0j, ONES.T + 0j, epilogue=Epilogue()), "complex operands', expected real operands"),
    ],
)
def test_bad_epilogues_are_named(call, text):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert text in str(caught.value)


@pytest.mark.sim
def test_no_padding():
    """200x300x77: two row tiles, three inner tiles, one column tile, and no more instructions than that."""
    shapes = torch.empty(1, 300, 200, device="meta"), torch.empty(1, 300, 77, device="meta")
    records = []
    trnsim.simulate(kernels.gemm, target="trn2", numerics=False, trace=records)(*shapes)
    count = {name: sum(record.name == name for record in records) for name in ("nc_matmul", "dma_copy", "tensor_copy")}
    assert count == {"nc_matmul": 2 * 3, "dma_copy": 3 + 3 + 2, "tensor_copy": 2}
    assert len(records) == sum(count.values())


@together("left", [(3,), (2, 3), (4, 2, 3), (5, 1, 2, 3), (0, 3)])
@together("right", [(3,), (3, 2), (4, 3, 2), (3, 0)])
def test_matmul_is_numpys_for_vectors_matrices_and_batches(left, right):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(left), rng.standard_normal(right)
    want = np.asarray(np.matmul(a, b))
    bound = 5 * 2.0**-53 * np.matmul(abs(a), abs(b)) + 1e-300
    for result in (trnblas.matmul(a, b), trnblas.matmul(torch.from_numpy(a), torch.from_numpy(b)).numpy()):
        assert result.shape == want.shape
        assert (abs(result - want) <= bound).all()
    out = np.full_like(want, np.nan)
    assert trnblas.matmul(a, b, out=out) is out
    assert (abs(out - want) <= bound).all()


def test_matmul_refuses_what_numpy_refuses():
    ones = torch.ones
    for args, text in (
        ((torch.tensor(1.0), ones(2)), "matmul: shape of a is"),
        ((ones(2), ones(3)), "matmul: K differs: a has K=2, b has K=3"),
        ((ones(2, 1, 2), ones(3, 2, 2)), "matmul: "),
        ((ones(2, 2), ones(2, dtype=torch.float64)), "matmul: dtype differs"),
    ):
        with pytest.raises(ArgumentError, match=text):
            trnblas.matmul(*args)
    with pytest.raises(ArgumentError, match=r"matmul: shape of out is \(3,\), expected \(2,\)"):
        trnblas.matmul(ones(2, 2), ones(2), out=ones(3))
