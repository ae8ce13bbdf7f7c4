import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.linalg import blas

from tests.together import together
from tests.trnblas.oracles import C64, C128, F32, F64, scipy_blas, sum_bound
from trnblas import rot, rotg, rotm, rotmg
from trnsci import ArgumentError
from trnsci.testing import BACKENDS, assert_within, gaussian

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
FINITE = st.floats(-1e100, 1e100)
# Implementations of BLAS rescale extreme factors at different steps.
MODERATE = st.one_of(st.just(0.0), st.floats(1e-3, 1e3), st.floats(-1e3, -1e-3))


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("dtype", [F32, C64], ids=str)
@pytest.mark.parametrize("shape", [(1,), (200,), (2, 9)])
def test_rot(backend, dtype, shape):
    x, y = gaussian(shape, 1, dtype), gaussian(shape, 2, dtype)
    s = 0.6 + 0.3j if dtype.is_complex else 0.6
    with backend:
        new_x, new_y = rot(x, y, 0.8, s)
    wide = [t.to(C128 if dtype.is_complex else F64) for t in (x, y)]
    size = x.abs() + y.abs()
    assert_within(new_x, 0.8 * wide[0] + s * wide[1], sum_bound(2, size, dtype))
    assert_within(new_y, 0.8 * wide[1] - np.conj(s) * wide[0], sum_bound(2, size, dtype))


# a rotation is made by eight roundings: scaled, squared, added, rooted and divided
FEW = 8 * 2.0**-53


@given(a=FINITE, b=FINITE)
def test_rotg_zeroes_the_second_component_as_scipy_does(a, b):
    c, s = rotg(torch.tensor(a, dtype=F64), torch.tensor(b, dtype=F64))
    expected_c, expected_s = blas.drotg(a, b)
    assert float(c) == pytest.approx(expected_c, rel=FEW, abs=1e-300)
    assert float(s) == pytest.approx(expected_s, rel=FEW, abs=1e-300)


@together(("a", "b"), [(3 + 1j, 2 - 1j), (0j, 1 + 1j), (1j, 0j), (0j, 0j), (1e200 + 0j, 1e200j)])
def test_complex_rotg(a, b):
    c, s = rotg(torch.tensor(a, dtype=C128), torch.tensor(b, dtype=C128))
    r = complex(c * a + s * b)
    assert abs(complex(c * b - s.conj() * a)) <= FEW * max(abs(a), abs(b))
    assert abs(r) == pytest.approx(np.hypot(abs(a), abs(b)), rel=FEW)
    assert float(c) ** 2 + abs(complex(s)) ** 2 == pytest.approx(1.0, rel=FEW)


def test_rotg_of_batches_and_extremes():
    a = b = torch.tensor([0.0, 1e300, 1e-310], dtype=F64)
    c, s = rotg(a, b)
    assert c.tolist() == pytest.approx([1.0, 0.5**0.5, 0.5**0.5])
    assert s.tolist() == pytest.approx([0.0, 0.5**0.5, 0.5**0.5])


@given(d1=MODERATE.filter(bool), d2=MODERATE, x1=MODERATE, y1=MODERATE)
def test_rotmg_agrees_with_scipy(d1, d2, x1, y1):
    got, expected = rotmg(d1, d2, x1, y1).numpy(), blas.drotmg(d1, d2, x1, y1)
    assert got[0] == expected[0]
    # With flag 0 and 1 BLAS leaves the elements it implies undefined.
    used = {-2: [], -1: [1, 2, 3, 4], 0: [2, 3], 1: [1, 4]}[int(got[0])]
    np.testing.assert_allclose(got[used], expected[used], rtol=1e-13)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e308])
def test_rotmg_never_hangs(value):
    assert rotmg(value, value, 1.0, 2.0).shape == (5,)


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("flag", [-2.0, -1.0, 0.0, 1.0])
def test_rotm(backend, flag):
    x, y, param = gaussian((9,), 1), gaussian((9,), 2), torch.tensor([flag, 0.5, -2.0, 3.0, 0.25])
    with backend:
        new_x, new_y = rotm(x, y, param)
    expected = scipy_blas("rotm", x, y, param)
    bound = sum_bound(2, 3 * (x.abs() + y.abs()), F32)
    assert_within(torch.stack([new_x, new_y]), expected, torch.stack([bound, bound]))


def test_gradients():
    x, y = (gaussian((4,), i, F64).requires_grad_() for i in (1, 2))
    assert torch.autograd.gradcheck(lambda x, y: rot(x, y, 0.6, 0.8), (x, y))
    a, b = (torch.tensor(v, dtype=F64, requires_grad=True) for v in (3.0, 4.0))
    assert torch.autograd.gradcheck(rotg, (a, b))


@together(
    ("call", "text"),
    [
        (lambda: rot(torch.ones(3), torch.ones(4), 1.0, 0.0), "rot: shape differs"),
        (lambda: rot(torch.ones(3), torch.ones(3), 1j, 0.0), "rot: c is 1j, expected a real number"),
        (lambda: rotm(torch.ones(3), torch.ones(3), torch.ones(4)), "shape of param is (4,), expected (5,)"),
        (lambda: rotm(torch.ones(3), torch.ones(3), torch.full((5,), 7.0)), "param[0] is 7.0, expected one of -2"),
        (lambda: rotm(torch.ones(3) + 0j, torch.ones(3) + 0j, torch.ones(5)), "BLAS has no complex rotm"),
    ],
)
def test_bad_arguments_are_named(call, text):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert text in str(caught.value)
