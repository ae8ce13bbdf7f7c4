import mpmath
import numpy as np
import pytest
import scipy.linalg
import torch

from trnsci import ArgumentError, DtypeError, NotConverged, NumericalError, Singular, UnsupportedError
from trnsci.testing import BACKENDS, gaussian, unit_roundoff
from trnsolver import cond, eig, eigvals, expm, hessenberg, ldl, logm, pinv, schur, sign, sqrtm

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (9, 9), (2, 5, 5), (0, 0)])
@pytest.mark.parametrize("output", ["real", "complex"])
def test_schur_form(dtype, shape, output, norm):
    a = gaussian(shape, 1, dtype)
    t, z = schur(a, output=output)
    kind = torch.promote_types(dtype, torch.complex64) if output == "complex" else dtype
    assert t.dtype == z.dtype == kind
    limit = 20 * max(1, shape[-1]) * unit_roundoff(dtype)
    assert norm(z @ t @ z.mH - a.to(kind)) <= limit * norm(a) * 2
    assert norm(z.mH @ z - torch.eye(shape[-1], dtype=kind)) <= limit
    below = t.tril(-1) if kind.is_complex else t.tril(-2)
    assert not below.any()
    if not kind.is_complex and shape[-1] > 2:
        # No two neighbouring entries below the diagonal: blocks have at most two rows.
        low = t.diagonal(-1, -2, -1)
        assert not (low[..., 1:] * low[..., :-1]).any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_schur_of_hard_matrices(dtype, family, norm):
    a = torch.from_numpy(family(14)).to(dtype)
    t, z = schur(a)
    assert norm(z @ t @ z.mH - a) <= 40 * 14 * unit_roundoff(dtype) * norm(a)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_hessenberg_form(dtype, norm):
    a = gaussian((2, 8, 8), 1, dtype)
    h, q = hessenberg(a)
    limit = 20 * 8 * unit_roundoff(dtype)
    assert norm(q @ h @ q.mH - a) <= 2 * limit * norm(a)
    assert not h.tril(-2).any()


def test_eigenvalues_of_general_matrices(norm):
    a = gaussian((7, 7), 1, torch.float64)
    w, v = eig(a)
    assert norm(a.to(v.dtype) @ v - v * w) <= 20 * 7 * 2.0**-53 * norm(a)
    assert np.allclose(np.sort_complex(eigvals(a).numpy()), np.sort_complex(np.linalg.eigvals(a.numpy())))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("hermitian", [True, False])
def test_ldl_multiplies_back(dtype, hermitian, norm):
    x = gaussian((2, 11, 11), 1, dtype)
    a = x + (x.mH if hermitian else x.mT)
    lower, middle, order = ldl(a, hermitian=hermitian)
    turned = a.gather(-2, order.unsqueeze(-1).expand(a.shape)).gather(-1, order.unsqueeze(-2).expand(a.shape))
    back = lower @ middle @ (lower.mH if hermitian else lower.mT)
    limit = 20 * 11 * unit_roundoff(dtype) * norm(lower) ** 2 * norm(middle)
    assert norm(back - turned) <= limit
    assert not lower.triu(1).any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_square_roots(dtype, norm):
    x = gaussian((2, 6, 6), 1, dtype)
    a = x @ x.mH + torch.eye(6, dtype=dtype)
    root = sqrtm(a)
    assert root.dtype == dtype
    assert norm(root @ root - a) <= 20 * 6 * unit_roundoff(dtype) * norm(root) ** 2
    general = gaussian((6, 6), 2, torch.float64)
    root = sqrtm(general)
    expected = scipy.linalg.sqrtm(general.numpy())
    assert norm(root - torch.from_numpy(np.asarray(expected))) <= 1e-10 * norm(root)
    with pytest.raises(Singular):
        sqrtm(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))


def test_logarithm_and_exponential(norm):
    a = gaussian((7, 7), 1, torch.float64) / 7
    assert norm(logm(expm(a)) - a) <= 1e-12
    assert norm(expm(a) - torch.from_numpy(scipy.linalg.expm(a.numpy()))) <= 1e-13 * norm(expm(a))
    b = gaussian((5, 5), 2, torch.complex128) + 3 * torch.eye(5, dtype=torch.complex128)
    assert norm(logm(b) - torch.from_numpy(scipy.linalg.logm(b.numpy()))) <= 1e-11
    with pytest.raises(Singular):
        logm(torch.zeros(2, 2))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sign(dtype, norm):
    a = gaussian((8, 8), 3, dtype)
    s = sign(a)
    expected = scipy.linalg.signm(a.to(torch.complex128).numpy())
    assert norm(s @ s - torch.eye(8, dtype=dtype)) <= 1e4 * 20 * 8 * unit_roundoff(dtype)
    assert norm(s - torch.from_numpy(expected)) <= 1e4 * 20 * 8 * unit_roundoff(dtype) * norm(s)
    with pytest.raises((NotConverged, Singular)):
        sign(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [1e-6, 1.0, 30.0])
def test_exponentials_of_any_norm(backend, dtype, size, norm):
    x = gaussian((3, 8, 8), 1, dtype)
    a = size * torch.tensor([1.0, 0.1, 3.0]).reshape(3, 1, 1).to(dtype) * (x - x.mH) / 8
    with backend:
        found = expm(a)
    wide = a.to(torch.complex128)
    expected = torch.stack([torch.from_numpy(scipy.linalg.expm(one.numpy())) for one in wide])
    assert found.dtype == dtype
    assert norm(found.to(torch.complex128) - expected) <= 20 * 8 * unit_roundoff(dtype) * max(1.0, norm(a)) * norm(
        expected
    )


def test_an_exponential_that_overflows():
    with pytest.raises(NumericalError, match=r"overflows torch\.float32: norm"):
        expm(200 * torch.eye(3))
    assert expm(torch.zeros(2, 0, 0)).shape == (2, 0, 0)


FAR_FROM_NORMAL = {
    "jordan": [[0.0, 1e30], [0.0, 0.0]],
    "two": [[1.0, 1e6], [0.0, -1.0]],
    "three": [[0.3, 1e4, 1e4], [0.0, 0.2, 1e4], [0.0, 0.0, 0.1]],
    "four": [[0.3, 3e4, 3e4, 3e4], [0.0, 0.2, 3e4, 3e4], [0.0, 0.0, 0.1, 3e4], [0.0, 0.0, 0.0, 0.2]],
}


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("name", FAR_FROM_NORMAL)
def test_exponentials_far_from_normal(name, dtype, norm):
    a = torch.tensor(FAR_FROM_NORMAL[name], dtype=dtype)
    with mpmath.workdps(120):
        exact = mpmath.expm(mpmath.matrix(a.tolist()), method="taylor")
        expected = torch.tensor([[float(x) for x in row] for row in exact.tolist()], dtype=torch.float64)
    # what counts is the size of powers: the norm, a million times theirs, would cost six digits
    size = max(norm(torch.linalg.matrix_power(a.double(), p)) ** (1 / p) for p in (4, 6))
    limit = 20 * len(a) * unit_roundoff(dtype) * max(1.0, size)
    assert norm(expm(a).double() - expected) <= limit * norm(expected)


def test_gradients():
    x = gaussian((4, 4), 1, torch.float64)
    spd = (x @ x.mT + torch.eye(4)).requires_grad_()
    general = gaussian((2, 3, 3), 2, torch.complex128).requires_grad_()
    for fn in (sqrtm, logm, expm):
        assert torch.autograd.gradcheck(fn, (spd,))
        assert torch.autograd.gradcheck(fn, (general,))
    assert torch.autograd.gradcheck(lambda a: eig(a).values.abs(), (spd,))


@pytest.mark.parametrize("fn", [schur, hessenberg, ldl], ids=lambda f: f.__name__)
def test_what_has_no_gradient_says_so(fn):
    with pytest.raises(UnsupportedError, match=r"has no gradient.*Detach the operand"):
        fn(torch.eye(3).requires_grad_())
    with torch.no_grad():
        fn(torch.eye(3).requires_grad_())


@pytest.mark.parametrize(
    "fn", [schur, hessenberg, ldl, sqrtm, logm, expm, sign, eig, eigvals], ids=lambda f: f.__name__
)
def test_mistakes_are_named(fn):
    with pytest.raises(ArgumentError, match="2 rows and 3 columns"):
        fn(torch.ones(2, 3))
    bad = torch.eye(3)
    bad[2, 1] = float("inf")
    with pytest.raises(ArgumentError, match=r"a\[2, 1\] is inf"):
        fn(bad)
    with pytest.raises(DtypeError, match="float16"):
        fn(torch.eye(3).half())


@pytest.mark.parametrize("p", [None, 2, -2, 1, -1, float("inf"), float("-inf"), "fro", "nuc"])
def test_condition_numbers_in_every_norm(p):
    a = gaussian((3, 4, 4), 1, torch.float64)
    assert np.allclose(cond(a, p).numpy(), [np.linalg.cond(one.numpy(), p) for one in a], rtol=1e-12)
    assert torch.autograd.gradcheck(lambda x: cond(x, p), (a.requires_grad_(),))
    if p not in (None, 2, -2):
        mixed = torch.stack([torch.ones(2, 2), torch.eye(2)])
        assert torch.isinf(cond(mixed, p)).tolist() == [True, False]
    assert cond(torch.zeros(2, 0, 0), p).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5)])
def test_gradients_of_pseudo_inverses(shape):
    # an orthonormal matrix has one singular value, many times
    q = torch.from_numpy(np.eye(*shape)).requires_grad_()
    assert torch.autograd.gradcheck(pinv, (q,))
    assert torch.autograd.gradgradcheck(pinv, (q,))
    for dtype in (torch.float64, torch.complex128):
        assert torch.autograd.gradcheck(pinv, (gaussian((2, *shape), 1, dtype).requires_grad_(),))
    square = gaussian((3, 3), 2, torch.complex128).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: pinv(x + x.mH, hermitian=True), (square,))
