import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import trnsci
from tests.trnblas.oracles import C64, C128, F32, F64, KERNELS, rounded_once, scipy_blas, sum_bound
from trnblas import asum, dot, dotc, dotu, nrm2
from trnblas.accuracy import dot_bound
from trnblas.dot import norm_bound
from trnsci import ArgumentError
from trnsci.testing import BACKENDS, assert_within, exact_dot, gamma, gaussian, ill_scaled

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
SIZES = [1, 127, 128, 129, 1021]


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [F32, C64, F64, C128], ids=str)
def test_dot_products(backend, n, dtype):
    x, y = gaussian((n,), 1, dtype), gaussian((n,), 2, dtype)
    bound = sum_bound(n, (x.abs() * y.abs()).sum(), dtype)
    with backend:
        plain, conjugated = dotu(x, y), dotc(x, y)
        assert torch.equal(plain, dot(x, y))
    options = {"complex_valued": dtype.is_complex}
    # Two computed results in double precision: each within its own bound.
    assert_within(plain, scipy_blas("dotu" if dtype.is_complex else "dot", x, y, **options), 2 * bound)
    assert_within(conjugated, scipy_blas("dotc" if dtype.is_complex else "dot", x, y, **options), 2 * bound)


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("dtype", [F32, C64], ids=str)
@pytest.mark.parametrize("shape", [(1,), (129,), (3, 50), (2, 1, 7)])
def test_norms_and_sums(backend, dtype, shape):
    x = gaussian(shape, 1, dtype)
    wide = x.to(C128 if dtype.is_complex else F64)
    parts = wide.real.abs() + wide.imag.abs() if dtype.is_complex else wide.abs()
    with backend:
        total, norm = asum(x), nrm2(x)
    assert total.dtype == norm.dtype == F32
    count = 2 * shape[-1]
    assert_within(total, parts.sum(-1), gamma(count, F32) * parts.sum(-1))
    expected = torch.as_tensor(np.linalg.norm(wide.numpy(), axis=-1))
    assert_within(norm, expected, gamma(count + 4, F32) * expected)


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e-20, 1.0, 1e20, 1e30, 1e37])
def test_nrm2_neither_overflows_nor_underflows(backend, scale):
    x = gaussian((300,), 1) * scale
    expected = torch.as_tensor(np.linalg.norm(x.double().numpy()))
    with backend:
        assert_within(nrm2(x), expected, gamma(400, F32) * expected + 2.0**-149 * 300)


@on_backends
def test_nonfinite_values_pass_as_ieee_says(backend):
    inf, nan = torch.inf, torch.nan
    with backend:
        assert nrm2(torch.tensor([1.0, inf])) == inf
        assert nrm2(torch.tensor([1.0, nan])).isnan()
        assert asum(torch.tensor([1.0, -inf])) == inf
        assert dot(torch.tensor([inf, 1.0]), torch.tensor([1.0, 1.0])) == inf
        assert dot(torch.tensor([inf, 1.0]), torch.tensor([0.0, 1.0])).isnan()


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("dtype", [F32, C64], ids=str)
@pytest.mark.parametrize("n", [1, 3, 130, 700])
def test_compensated_is_one_rounding(backend, dtype, n):
    """Sums that cancel to almost nothing."""
    x, y = ill_scaled((n,), 1, dtype), ill_scaled((n,), 2, dtype)
    x, y = torch.cat([x, x, x[:1]]), torch.cat([y, -y, y[:1]])
    exact = torch.tensor(exact_dot(x, y), dtype=C128 if x.is_complex() else F64)
    with backend:
        got = dot(x, y, precision="compensated")
    bound = 2 * (2.0**-24 * exact.abs() + gamma(2 * n + 1, F32) ** 2 * 4 * (x.abs().double() * y.abs().double()).sum())
    assert_within(got, exact, bound)


def test_compensated_double_is_one_rounding():
    x, y = ill_scaled((200,), 1, F64), ill_scaled((200,), 2, F64)
    x, y = torch.cat([x, x, x[:1]]), torch.cat([y, -y, y[:1]])
    exact = torch.tensor(exact_dot(x, y), dtype=C128 if x.is_complex() else F64)
    bound = 2.0**-53 * exact.abs() + gamma(401, F64) ** 2 * (x.abs() * y.abs()).sum()
    assert_within(dot(x, y, precision="kahan"), exact, bound)


@on_backends
@pytest.mark.parametrize("data", [gaussian, ill_scaled])
def test_fp64_meets_the_bound_of_double_precision(backend, data):
    x, y = data((2, 300), 1, F64), data((2, 300), 2, F64)
    exact = torch.tensor([exact_dot(u, v) for u, v in zip(x, y, strict=True)], dtype=F64)
    with backend:
        assert_within(dot(x, y), exact, gamma(300, F64) * (x.abs() * y.abs()).sum(-1))
        rounded = dot(x.float(), y.float(), precision="fp64")
    single = torch.tensor([exact_dot(u, v) for u, v in zip(x.float(), y.float(), strict=True)], dtype=F64)
    assert_within(rounded, single, 2.0**-24 * single.abs() + gamma(301, F64) * (x.abs() * y.abs()).sum(-1))


@on_backends
@pytest.mark.parametrize("precision", ["compensated", "fp64"])
def test_norms_take_a_precision(backend, precision):
    x = gaussian((1000,), 1) * 1e25
    expected = torch.as_tensor(np.linalg.norm(x.double().numpy()))
    with backend:
        assert_within(nrm2(x, precision=precision), expected, 3 * 2.0**-24 * expected)
        total = x.double().abs().sum()
        assert_within(asum(x, precision=precision), total, rounded_once(total, total, 1002))


@on_backends
@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
def test_norms_in_less_than_the_operands_precision_keep_both_planes(backend, dtype):
    x = gaussian((2000,), 1, dtype)
    norm = torch.as_tensor(np.linalg.norm(x.numpy()))
    total = sum(plane.abs().sum() for plane in ([x.real, x.imag] if x.is_complex() else [x]))
    with backend:
        # Rounding the operands costs u, the sums g(4000).
        assert_within(nrm2(x, precision="fp32"), norm, gamma(4003, F32) * norm)
        assert_within(asum(x, precision="fp32"), total, gamma(4001, F32) * total)


@on_backends
def test_fast_rounds_operands_to_bfloat16(backend):
    x, y = gaussian((300,), 1), gaussian((300,), 2)
    with backend:
        got = dot(x, y, precision="fast")
    a, b = x.bfloat16().double(), y.bfloat16().double()
    assert_within(got, (a * b).sum(), gamma(300, F32) * (a * b).abs().sum())


@on_backends
def test_batches_empties_and_out(backend):
    x, y = gaussian((3, 1, 20), 1), gaussian((4, 20), 2)
    with backend:
        got = dot(x, y)
        assert_within(got, (x.double() * y.double()).sum(-1), gamma(20, F32) * (x * y).abs().sum(-1).double())
        assert torch.equal(dot(torch.ones(2, 0), torch.ones(2, 0)), torch.zeros(2))
        assert torch.equal(nrm2(torch.ones(2, 0)), torch.zeros(2))
        assert asum(torch.ones(0, 5)).shape == (0,)
        out = torch.empty(3, 4)
        assert dot(x, y, out=out) is out
    assert torch.equal(out, got)


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=40))
def test_any_vector(values):
    x = torch.tensor(values)
    assert_within(
        dot(x, x),
        exact_dot(x, x),
        gamma(len(values), F32) * float((x.double() ** 2).sum()) + torch.finfo(F32).smallest_normal,
    )


@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
def test_gradients(dtype):
    x, y = (gaussian((2, 3), i, dtype).requires_grad_() for i in (1, 2))
    for function in (dot, dotc, lambda x, y: dot(x, y, precision="compensated")):
        assert torch.autograd.gradcheck(function, (x, y))
    assert torch.autograd.gradcheck(nrm2, (x,))
    assert torch.autograd.gradcheck(asum, (x,))
    assert torch.autograd.gradcheck(lambda x, y: torch.ops.trnblas.dot.default(x, y, "fp64"), (x, y))
    for op in ("nrm2", "asum"):
        assert torch.autograd.gradcheck(lambda x, op=op: torch.ops.trnblas.norm.default(x, op, "fp64"), (x,))


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_gradients_through_kernels(backend):
    x, y = gaussian((9,), 1, C64).requires_grad_(), gaussian((9,), 2, C64).requires_grad_()
    with backend:
        (dotc(x, y).abs() + nrm2(x) + asum(y)).backward()
    a, b = (t.detach().to(C128).requires_grad_() for t in (x, y))
    ((a.conj() * b).sum().abs() + torch.linalg.norm(a) + b.real.abs().sum() + b.imag.abs().sum()).backward()
    # A unit vector times y, or x, whose direction errs by what the sum errs over its size; and two more of length 1.
    product, size = (a.conj() * b).sum().abs(), (a.abs() * b.abs()).sum()
    turn = 2 * gamma(2 * 9 + 6, F32) * size / product
    for got, expected, other in ((x, a, b), (y, b, a)):
        assert_within(got.grad, expected.grad, (turn + gamma(6, F32)) * other.abs() + gamma(20, F32) * 2)


def test_opcheck_plan_and_compile():
    x, y = gaussian((3,), 1, F64).requires_grad_(), gaussian((3,), 2, F64)
    torch.library.opcheck(torch.ops.trnblas.dot.default, (x, y, "fp64"))
    torch.library.opcheck(torch.ops.trnblas.norm.default, (x, "nrm2", "fp64"))
    assert trnsci.plan(dot, x.detach(), y).flops == 6
    compiled = torch.compile(lambda x, y: dot(x, y) + 1, fullgraph=True, backend="aot_eager")
    assert_within(compiled(x, y), dot(x, y) + 1, 2 * gamma(5, F64) * (1 + (x * y).abs().sum()))


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e200, 1e-200])
def test_norms_of_float64_are_float64_on_every_backend(backend, dtype, scale):
    x = scale * gaussian((2, 50), 1, dtype)
    wide = x.numpy()
    with backend:
        norm, total = nrm2(x), asum(x)
    assert_within(norm / scale, np.linalg.norm(wide / scale, axis=-1), norm_bound("nrm2", 50, dtype, "fp64") * 20)
    expected = (np.abs(wide.real) + np.abs(wide.imag)).sum(-1)
    assert_within(total, expected, norm_bound("asum", 50, dtype, "fp64") * torch.from_numpy(expected))


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize(("large", "small"), [(1e36, 1e-36), (1e37, 1e-37), (1e-30, 1e30)])
def test_compensated_sums_keep_the_range_of_float32(backend, large, small):
    x, y = large * gaussian((100,), 1), small * gaussian((100,), 2)
    with backend:
        got, norm = dot(x, y, precision="compensated"), nrm2(x, precision="compensated")
    exact = float(x.double() @ y.double())
    size = float(x.abs().double() @ y.abs().double())
    assert_within(got, exact, dot_bound(100, F32, "compensated") * size)
    assert_within(
        norm, float(x.double().norm()), norm_bound("nrm2", 100, F32, "compensated") * float(x.double().norm())
    )


@pytest.mark.parametrize("scale", [1e200, 1e-200, 1e150])
def test_compensated_sums_keep_the_range_of_float64(scale):
    x = scale * gaussian((100,), 1, F64)
    unit = x / scale
    assert_within(
        nrm2(x, precision="compensated") / scale, unit.norm(), 2 * norm_bound("nrm2", 100, F64, "fp64") * unit.norm()
    )
    assert_within(dot(x, unit / scale, precision="compensated"), unit @ unit, 2 * dot_bound(100, F64) * (unit @ unit))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: dot(torch.ones(3), torch.ones(4)), "dot: N differs: x has N=3, y has N=4"),
        (lambda: nrm2(torch.tensor(1.0)), "nrm2: shape of x is (), expected at least 1 dim"),
        (lambda: dot(torch.ones(3), torch.ones(3), precision="x"), "precision is 'x', expected one of"),
        (lambda: dot(torch.ones(3), torch.ones(3), out=torch.ones(2)), "shape of out is (2,), expected ()"),
    ],
)
def test_bad_arguments_are_named(call, text):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert text in str(caught.value)


def test_a_strided_sum_has_the_same_bits_wherever_memory_is():
    # BLAS takes another order of additions at another alignment; SciPy copied strided vectors to any.
    x = (gaussian((378, 2), 1) * torch.logspace(-3, 3, 378).unsqueeze(1))[:, 0]
    kept, results = [], set()
    for size in range(1, 40):
        kept.append(np.empty(16 * size, np.uint8))
        results.add(float(asum(x)))
    assert len(results) == 1
