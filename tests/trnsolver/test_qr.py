import itertools

import numpy as np
import pytest
import scipy.linalg
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import trnsci
from trnsci import ArgumentError, NumericalError, UnsupportedError
from trnsci.testing import BACKENDS, Backend, gaussian, pairs, unit_roundoff
from trnsolver import qr, qr_pivoted, svd


def _holds(q, r, a, norm):
    wide = torch.complex128 if a.is_complex() else torch.float64
    q, r, limit = q.to(wide), r.to(wide), 20 * max(1, *a.shape[-2:]) * unit_roundoff(a.dtype)
    eye = torch.eye(q.shape[-1], dtype=wide)
    return norm(q @ r - a.to(wide)) <= limit * norm(a) and norm(q.mH @ q - eye) <= limit and not r.tril(-1).any()


@pytest.mark.parametrize(
    ("backend", "mode", "shape"),
    pairs(
        BACKENDS, ["reduced", "complete", "r"], [(1, 1), (5, 3), (3, 5), (130, 20), (33, 33), (2, 6, 6), (4, 0), (0, 4)]
    ),
    ids=str,
)
def test_q_r_multiply_back(backend, mode, shape, norm):
    a = gaussian(shape, 1)
    with backend:
        q, r = qr(a, mode=mode)
    expected = torch.linalg.qr(a, mode)
    assert (q.shape, r.shape) == (expected.Q.shape, expected.R.shape)
    if mode != "r":
        assert _holds(q, r, a, norm)
    else:
        assert (
            norm(r.double().mT @ r.double() - a.double().mT @ a.double()) <= 40 * max(shape) * 2.0**-24 * norm(a) ** 2
        )


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_hard_matrices(backend, family, norm):
    a = torch.from_numpy(family(17)).float()
    with backend:
        assert _holds(*qr(a), a, norm)


@pytest.mark.parametrize(
    ("backend", "dtype", "shape", "mode"),
    pairs(BACKENDS, [torch.complex64, torch.complex128], [(17, 17), (20, 7), (7, 20)], ["reduced", "complete"]),
    ids=str,
)
def test_complex_columns_that_vanish(backend, dtype, shape, mode, norm):
    # MKL's reflections are NaN where what is left of a column is near underflow
    m, n = shape
    phases = torch.exp(1j * torch.linspace(0, 6, n, dtype=torch.float64))
    checkers = (torch.arange(m).unsqueeze(1) + torch.arange(n)) % 2
    for real in (torch.ones(m, n), checkers, 1e-30 * torch.ones(m, n), torch.zeros(m, n)):
        a = (real * phases).to(dtype)
        with backend:
            assert _holds(*qr(a, mode), a, norm)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("fn", [qr, qr_pivoted])
def test_a_column_longer_than_the_dtype_holds_is_an_error(backend, fn):
    with backend, pytest.raises(NumericalError, match="overflows"):
        fn(torch.full((20, 3), 3e38))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("shape", [(129, 129), (300, 257)])
def test_several_panels(backend, shape, norm):
    a = gaussian(shape, 1)
    with backend:
        assert _holds(*qr(a), a, norm)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize(("shape", "digits"), [((60, 40), 5), ((60, 40), 9), ((1030, 5), 9)])
def test_conditions_that_need_a_second_pass_or_reflections(backend, shape, digits, norm):
    u, _, v = np.linalg.svd(np.random.default_rng(0).standard_normal(shape), full_matrices=False)
    good = gaussian(shape, 2)
    hard = torch.from_numpy(u * np.logspace(0, -digits, shape[1]) @ v).float()
    a = torch.stack([good, hard, torch.zeros(shape)])
    with backend:
        q, r = qr(a)
        alone = qr(good[None])
    for i in range(3):
        assert _holds(q[i], r[i], a[i], norm)
    assert torch.equal(alone.q[0], q[0])


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_columns_of_very_different_size(backend, norm):
    a = gaussian((20, 4), 1) * torch.tensor([1e-30, 1.0, 1e25, 1e-10])
    with backend:
        q, _ = qr(a)
    assert norm(q.double().mT @ q.double() - torch.eye(4)) <= 20 * 20 * 2.0**-24


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.complex128], ids=str)
def test_other_dtypes(backend, dtype, norm):
    a = gaussian((80, 70), 1, dtype)
    with backend:
        assert _holds(*qr(a), a, norm)


def test_pivoting_orders_like_lapack(norm):
    a = gaussian((9, 6), 4, torch.float64)
    q, r, order = qr_pivoted(a)
    _, expected, places = scipy.linalg.qr(a.numpy(), pivoting=True, mode="economic")
    assert order.tolist() == places.tolist()
    assert _holds(q, r, a[:, order], norm)
    assert float((r.abs() - torch.from_numpy(expected).abs()).abs().max()) <= 20 * 9 * 2.0**-53 * norm(a)
    batch = gaussian((3, 5, 5), 1)
    q, r, order = qr_pivoted(batch)
    assert _holds(q, r, batch.gather(-1, order.unsqueeze(-2).expand(3, 5, 5)), norm)


def test_gradients_and_errors():
    a = gaussian((5, 3), 1, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(qr, (a,))
    with pytest.raises(ArgumentError, match="'full', expected one of 'reduced'"):
        qr(torch.eye(2), mode="full")


@pytest.mark.grid(2)
@pytest.mark.parametrize("fn", [qr, qr_pivoted], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 3)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_kernel_gradients(fn, shape, dtype, gradient):
    a = gaussian(shape, 1, dtype)

    def invariant(a):
        # Moduli: q and r are unique up to phases only.
        q, r = fn(a)[:2]
        return q.abs(), r.abs()

    expected, found = (gradient(invariant, a, Backend(name)) for name in ("pytorch", "simulator"))
    limit = 20 * 5 * unit_roundoff(dtype) * float(torch.linalg.cond(a).max()) ** 2
    assert float((found - expected).abs().max()) <= limit * float(expected.abs().max())


def test_gradients_that_do_not_exist():
    a = gaussian((4, 3), 1).requires_grad_()
    for backend, mode in itertools.product(("simulator", "pytorch"), ("r", "complete")):
        with trnsci.backend(backend), pytest.raises(UnsupportedError, match=r"has no gradient.*mode='reduced'"):
            qr(a, mode=mode).r.abs().sum().backward()
    qr(a[:3], mode="complete").r.abs().sum().backward()


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (2, 5, 5), (0, 3), (1, 1)])
def test_pivoting_in_every_mode(backend, mode, shape, norm):
    a = gaussian(shape, 1)
    with backend:
        q, r, order = qr_pivoted(a, mode=mode)
    expected = torch.linalg.qr(a, mode)
    assert (q.shape, r.shape) == (expected.Q.shape, expected.R.shape)
    assert order.dtype == torch.int64
    turned = a.gather(-1, order.unsqueeze(-2).expand(a.shape))
    if mode != "r":
        assert _holds(q, r, turned, norm)
    diagonal = r.diagonal(dim1=-2, dim2=-1).abs()
    assert bool((diagonal.diff(dim=-1) <= 20 * 6 * 2.0**-24 * max(norm(a), 1.0)).all())


def test_columns_below_the_normal_range(norm):
    """Failed before: the scale of a denormal column overflowed."""
    a = gaussian((6, 3), 1) * torch.tensor([1e-40, 1e-39, 1.0])
    with trnsci.backend("simulator"):
        q, _ = qr(a)
    assert norm(q.double().mT @ q.double() - torch.eye(3)) <= 20 * 6 * 2.0**-24


@pytest.mark.parametrize(("shape", "dtype"), [((66, 5), torch.float64), ((70, 66), torch.complex128)], ids=str)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_columns_that_depend_exactly(backend, shape, dtype, norm):
    """The directions of equal columns are anybody's choice, but orthogonal to all others."""
    m, limit = shape[0], 20 * shape[0] * unit_roundoff(dtype)
    a = torch.ones(shape, dtype=dtype)
    with backend:
        q, r = qr(a, mode="complete")
    assert norm(q.mH @ q - torch.eye(m, dtype=dtype)) <= limit
    assert norm(q @ r - a) <= limit * norm(a)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3), (0, 0)])
def test_shapes_of_empty_factors_are_known_in_advance(shape):
    a = torch.empty(shape)
    for whole in (True, False):
        for call in (
            lambda x, mode=("reduced", "complete")[whole]: qr(x, mode=mode),
            lambda x, whole=whole: svd(x, full_matrices=whole),
        ):
            with FakeTensorMode() as mode:
                known = call(mode.from_tensor(a))
            assert [x.shape for x in known] == [x.shape for x in call(a)]
