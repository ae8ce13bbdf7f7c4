"""Reductions, softmax and RMS norm against NumPy in float64."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special

from tests.together import together
from tests.trnsim.kernels import TARGETS, refused, rng
from tests.trnsim.rounded import Rounded, rounded, within
from tests.trnsim.test_language_maths import call
from trnsim import language as nl
from trnsim.errors import WrongArgument

pytestmark = pytest.mark.sim

BF16 = ml_dtypes.bfloat16
FOLDS = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean, "prod": np.prod, "var": np.var}


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(FOLDS)),
    partitions=st.sampled_from([1, 3, 128]),
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    reduced=st.integers(1, 4),
    keepdims=st.booleans(),
    negative=st.booleans(),
    psum=st.booleans(),
)
def test_reductions_of_the_last_dimensions(name, partitions, shape, reduced, keepdims, negative, psum):
    ndim = len(shape) + 1
    axis = tuple(range(max(1, ndim - reduced), ndim))
    asked = tuple(a - ndim for a in axis) if negative else axis
    x = rng(ndim).uniform(0.5, 1.5, (partitions, *shape)).astype(np.float32)
    got = call(
        lambda t: getattr(nl, name)(t, asked[0] if len(asked) == 1 else asked, keepdims=keepdims),
        x,
        psum=(0,) if psum else (),
    )
    keep = keepdims or name == "var"
    want = FOLDS[name](x.astype(np.float64), axis=axis, keepdims=keep)
    if want.ndim == 1:
        want = want[:, None]
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-7)


@together("name", FOLDS)
def test_reduction_dtypes(name):
    x = rng().uniform(0.5, 2, (4, 6)).astype(BF16)
    assert call(lambda t: getattr(nl, name)(t, 1), x).dtype == BF16
    assert call(lambda t: getattr(nl, name)(t, 1, nl.float32), x).dtype == np.float32


def test_all():
    x = (rng().uniform(0, 1, (64, 5)) > 0.2).astype(np.float32)
    np.testing.assert_array_equal(call(lambda t: nl.all(t, axis=1), x)[:, 0], x.all(axis=1))
    assert call(lambda t: nl.all(t, 1, dtype=nl.uint8), x).dtype == np.uint8


@together("axis", [0, (0, 1), (1,), 3, (), "1"])
def test_axes_that_are_not_the_last(axis):
    x = np.ones((4, 3, 2), np.float32)
    found = refused(WrongArgument, "reduce-axis", lambda t: nl.sum(t, axis), x, says="axis")
    assert found.instruction == "nl.sum"


@pytest.mark.parametrize("target", TARGETS)
@together(
    ("shape", "axis"), [((128, 50), 1), ((128, 50), -1), ((16, 4, 9), (1, 2)), ((16, 4, 9), 2), ((1, 3, 4, 5), (2, 3))]
)
def test_softmax(target, shape, axis):
    x = rng().uniform(-30, 30, shape).astype(np.float32)
    got = call(lambda t: nl.softmax(t, axis=axis), x, target=target)
    e = np.exp(rounded(x) - x.max(axis, keepdims=True))
    within(got, Rounded(special.softmax(x.astype(np.float64), axis=axis), (e / e.sum(axis, keepdims=True)).error))
    low = call(lambda t: nl.softmax(t, axis, dtype=nl.bfloat16), x)
    assert low.dtype == BF16


@pytest.mark.parametrize("weights", ["full", "row"])
@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=lambda d: np.dtype(d).name)
def test_rms_norm(weights, dtype):
    x = rng().standard_normal((32, 40)).astype(dtype)
    w = rng(1).uniform(0.5, 2, (32, 40 if weights == "full" else 1)).astype(np.float32)
    got = call(lambda x, w: nl.rms_norm(x, w, axis=1, n=40, epsilon=1e-3), x, w)
    wide = rounded(x)
    assert got.dtype == dtype
    within(got, wide / np.sqrt((wide**2).sum(1, keepdims=True) / 40 + 1e-3) * w)


def test_rms_norm_of_psum_in_pieces_and_in_low_precision():
    x = rng().standard_normal((8, 3, 10)).astype(np.float32)
    w = np.ones((8, 3, 10), np.float32)
    wide = rounded(x)
    want = wide / np.sqrt((wide**2).mean(2, keepdims=True) + 1e-6)
    within(call(lambda x, w: nl.rms_norm(x, w, 2, 10), x, w, psum=(0,)), want)
    rough = call(lambda x, w: nl.rms_norm(x, w, 2, 10, compute_dtype=nl.bfloat16), x, w)
    np.testing.assert_allclose(rough, want.value, rtol=2.0**-6, atol=2.0**-8)
    assert (np.abs(rough - want.value) > want.error).any()
    refused(WrongArgument, "rms-norm", lambda x, w: nl.rms_norm(x, w, 2, 0), x, w, says="0")
