import numpy as np
import pytest
import torch

import trnsci
from tests.together import together
from tests.trnblas.oracles import C64, C128, F32, F64, KERNELS, scipy_blas, sum_bound
from trnblas import axpy, copy, geam, rot, scal, swap
from trnsci import ArgumentError, DtypeError, UnsupportedError
from trnsci.testing import BACKENDS, assert_within, gaussian

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
SIZES = [1, 7, 127, 128, 129, 5000]


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [F32, C64, torch.bfloat16], ids=str)
def test_axpy_and_scal_agree_with_scipy(backend, n, dtype):
    x, y = gaussian((n,), 1, dtype), gaussian((n,), 2, dtype)
    a = 0.5 - 2j if dtype.is_complex else 1.5
    options = {"complex_valued": dtype.is_complex}
    with backend:
        combined, scaled = axpy(x, y, a), scal(a, x)
    assert combined.dtype == dtype
    assert_within(combined, scipy_blas("axpy", x, y, a=a, **options), sum_bound(2, abs(a) * x.abs() + y.abs(), dtype))
    assert_within(scaled, scipy_blas("scal", a, x.clone(), **options), sum_bound(1, abs(a) * x.abs(), dtype))


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("shape", [(5,), (3, 130), (2, 1, 4), (0,), (3, 0)])
def test_copy_and_swap_move_every_bit(backend, shape):
    x, y = gaussian(shape, 1), gaussian(shape, 2)
    with backend:
        assert torch.equal(copy(x), x)
        into = torch.empty_like(y)
        assert copy(x, into) is into
        new_x, new_y = swap(x, y)
    assert torch.equal(into, x)
    array = np.zeros(shape, ">f4")[::-1]
    assert copy(x.numpy(), array) is array
    assert np.array_equal(array, x.numpy())
    assert torch.equal(new_x, y)
    assert torch.equal(new_y, x)


@on_backends
def test_batches_broadcast_and_strides_do_not_matter(backend):
    x, y = gaussian((3, 1, 20), 1)[..., ::2], gaussian((4, 10), 2)
    with backend:
        assert_within(axpy(x, y, 2.0), 2 * x.double() + y.double(), sum_bound(2, 2 * x.abs() + y.abs(), F32))


@on_backends
def test_a_zero_coefficient_does_not_read_its_vector(backend):
    nan, ones = torch.full((4,), torch.nan), torch.ones(4)
    with backend:
        assert torch.equal(axpy(nan, ones, 0.0), ones)
        assert torch.equal(scal(0.0, nan), torch.zeros(4))


@on_backends
def test_out(backend):
    x, y, out = gaussian((5,), 1), gaussian((5,), 2), torch.empty(5)
    with backend:
        assert axpy(x, y, 2.0, out=out) is out
        assert torch.equal(out, axpy(x, y, 2.0))
        assert scal(3.0, x, out=out) is out
    assert torch.equal(out, 3 * x)
    with pytest.raises(ArgumentError, match="memory shared with x"):
        scal(2.0, x, out=x)


@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
def test_gradients(dtype):
    x, y = (gaussian((2, 3), i, dtype).requires_grad_() for i in (1, 2))
    a = 0.5 + 1j if dtype.is_complex else 0.5
    assert torch.autograd.gradcheck(lambda x, y: axpy(x, y, a), (x, y))
    assert torch.autograd.gradcheck(swap, (x, y))
    combine, rotate = torch.ops.trnblas.combine.default, torch.ops.trnblas.rotate.default
    assert torch.autograd.gradcheck(lambda x, y: combine([x, y], [a, 2.0]), (x, y))
    assert torch.autograd.gradcheck(lambda x, y: rotate(x, y, [a, 2.0, 0.0, a]), (x, y))


@pytest.mark.parametrize("backend", KERNELS, ids=str)
def test_gradients_through_kernels(backend):
    x, y = gaussian((5,), 1, C64).requires_grad_(), gaussian((5,), 2, C64).requires_grad_()
    with backend:
        axpy(x, y, 2j).abs().square().sum().backward()
    expected = 2 * (2j * x + y).detach()
    assert_within(y.grad, expected, sum_bound(4, expected.abs(), C64))
    assert_within(x.grad, -2j * expected, sum_bound(4, 2 * expected.abs(), C64))


def test_opcheck_and_plan():
    x, y = gaussian((3,), 1), gaussian((3,), 2)
    torch.library.opcheck(torch.ops.trnblas.combine.default, ([x, y], [2.0, 1.0]))
    torch.library.opcheck(torch.ops.trnblas.rotate.default, (x, y, [2.0, 1.0, 0.0, 1.0]))
    assert trnsci.plan(axpy, x, y, 2.0).backend == "pytorch"


def test_numpy_in_numpy_out():
    got = axpy(np.ones(3), np.ones(3), 2.0)
    assert isinstance(got, np.ndarray)
    np.testing.assert_array_equal(got, np.full(3, 3.0))


@pytest.mark.parametrize("backend", KERNELS, ids=str)
@together(
    "call",
    [
        lambda x: scal(2.0, x),
        lambda x: axpy(x, x),
        lambda x: swap(x, x),
        lambda x: rot(x, x, 0.6, 0.8),
        lambda x: geam(1.0, x.expand(3, 3), 1.0, x.expand(3, 3)),
    ],
)
def test_a_kernel_that_would_round_refuses_and_says_what_to_do(backend, call):
    with backend, pytest.raises(UnsupportedError) as caught:
        call(torch.ones(3, dtype=F64))
    assert "would round float64; convert it to float32, or use backend 'pytorch'" in str(caught.value)


@together(
    ("kind", "call", "text"),
    [
        (ArgumentError, lambda: axpy(torch.ones(3), torch.ones(4)), "axpy: N differs: x has N=3, y has N=4"),
        (DtypeError, lambda: axpy(torch.ones(3), torch.ones(3), 1j), "axpy: a is 1j, expected a real number"),
        (DtypeError, lambda: scal(1.0, torch.ones(3).int()), "scal: dtype of x is int32"),
        (ArgumentError, lambda: scal(1.0, torch.tensor(1.0)), "shape of x is (), expected at least 1 dim"),
        (ArgumentError, lambda: swap(torch.ones(3), torch.ones(4)), "swap: shape differs"),
    ],
)
def test_bad_arguments_are_named(kind, call, text):
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
