import functools
import itertools

import numpy as np
import pytest
import scipy.linalg
import torch
from torch.autograd import forward_ad

import trnblas
import trnsci
import trntensor
from tests.together import together
from trnsci import ArgumentError, DtypeError, NotConverged, Singular, UnsupportedError
from trnsci.testing import gaussian, unit_roundoff
from trnsolver import (
    cholesky,
    cholesky_inverse,
    cond,
    eig,
    eigh,
    eigvals,
    expm,
    gebrd,
    geqrf,
    hessenberg,
    inv_spd,
    ldl,
    logm,
    lstsq,
    ormqr,
    pinv,
    qr,
    schur,
    sign,
    solve,
    sqrtm,
)

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


@pytest.mark.grid(1)
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
    # two roots by Schur's method differ by their condition: that of the equation x dx + dx x (Higham 2008, 6.1)
    x = root.to(torch.complex128).numpy()
    condition = np.linalg.norm(np.linalg.inv(np.kron(np.eye(6), x) + np.kron(x.T, np.eye(6))), 2) * norm(root)
    assert norm(root - torch.from_numpy(np.asarray(expected))) <= 2 * 20 * 6 * 2.0**-53 * condition * norm(root)
    with pytest.raises(Singular):
        sqrtm(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))


def test_logarithm_and_exponential(norm):
    a = gaussian((7, 7), 1, torch.float64) / 7
    assert norm(logm(expm(a)) - a) <= 1e-12
    condition = np.exp(2 * norm(a))
    assert norm(expm(a) - torch.from_numpy(scipy.linalg.expm(a.numpy()))) <= 2 * 20 * 7 * 2.0**-53 * condition
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


def test_gradients():
    x = gaussian((4, 4), 1, torch.float64)
    spd = (x @ x.mT + torch.eye(4)).requires_grad_()
    general = gaussian((2, 3, 3), 2, torch.complex128).requires_grad_()
    for fn in (sqrtm, logm, expm):
        assert torch.autograd.gradcheck(fn, (spd,))
        assert torch.autograd.gradcheck(fn, (general,))
    assert torch.autograd.gradcheck(lambda a: eig(a).values.abs(), (spd,))


@pytest.mark.parametrize("fn", [schur, hessenberg], ids=lambda f: f.__name__)
def test_what_has_no_gradient_says_so(fn):
    with pytest.raises(UnsupportedError, match=r"has no gradient.*Detach the operand"):
        fn(torch.eye(3).requires_grad_())
    with torch.no_grad():
        fn(torch.eye(3).requires_grad_())


@pytest.mark.parametrize("fn", [solve, lstsq, lambda a, b, **to: eigh(a, **to)], ids=["solve", "lstsq", "eigh"])
def test_no_gradient_is_lost_on_the_path_to_a_target_error(fn):
    a, b = 2 * torch.eye(3, dtype=torch.float64), torch.ones(3, 1, dtype=torch.float64)

    def to(x):
        return fn(x, b, target_error=1e-9)[0].sum()

    for call in (torch.func.grad(to), lambda x: torch.func.vmap(to)(x[None]), lambda x: to(x.clone().requires_grad_())):
        with pytest.raises(UnsupportedError, match=r"data of a|with target_error.* has no gradient"):
            call(a)
    with forward_ad.dual_level(), pytest.raises(UnsupportedError, match="has a tangent"):
        to(forward_ad.make_dual(a, a))


def test_tangents_are_right_or_refused():
    x, t = gaussian((3, 3), 1, torch.float64), gaussian((3, 3), 2, torch.float64)
    a, t = x @ x.mT + torch.eye(3), t + t.mT
    root = scipy.linalg.sqrtm(a.numpy())
    inverses = -torch.linalg.inv(a) @ t @ torch.linalg.inv(a)
    roots = torch.from_numpy(scipy.linalg.solve_sylvester(root, root, t.numpy()))
    right = {inv_spd: inverses, pinv: inverses, lambda y: cholesky_inverse(cholesky(y)): inverses, sqrtm: roots}
    for (fn, expected), wanted in itertools.product(right.items(), (False, True)):
        with forward_ad.dual_level():
            tangent = forward_ad.unpack_dual(fn(forward_ad.make_dual(a.clone().requires_grad_(wanted), t))).tangent
            torch.testing.assert_close(tangent, expected)
    with trnsci.backend("simulator"), forward_ad.dual_level(), pytest.raises(UnsupportedError, match="into kernels"):
        trnblas.gemm(1.0, forward_ad.make_dual(x.float(), t.float()), x.float())


def test_derivatives_that_forward_mode_lacks_are_refused():
    a = gaussian((4, 3), 1, torch.float64)
    factors, tau = geqrf(a)
    twice = functools.partial(trntensor.einsum, "ij,kj->ik", a, precision="compensated")
    for fn in (geqrf, gebrd, lambda x: qr(x, "r").r, lambda x: ormqr(factors, tau, x), twice):
        with pytest.raises(UnsupportedError, match=r"no derivative in forward mode.*torch.func.vjp|has a tangent"):
            torch.func.jvp(fn, (a,), (a,))


@together("fn", [schur, hessenberg, ldl, sqrtm, logm, expm, sign, eig, eigvals])
def test_mistakes_are_named(fn):
    with pytest.raises(ArgumentError, match="2 rows and 3 columns"):
        fn(torch.ones(2, 3))
    bad = torch.eye(3)
    bad[2, 1] = float("inf")
    with pytest.raises(ArgumentError, match=r"a\[2, 1\] is inf"):
        fn(bad)
    with pytest.raises(DtypeError, match="int64"):
        fn(torch.eye(3).long())


@together("p", [None, 2, -2, 1, -1, float("inf"), float("-inf"), "fro", "nuc"])
def test_condition_numbers_in_every_norm(p):
    a = gaussian((3, 4, 4), 1, torch.float64)
    for found, one in zip(cond(a, p).tolist(), a.numpy(), strict=True):
        # an inverse, or a smallest singular value, moves by the condition number itself
        rounding = 2 * 20 * 4 * 2.0**-53 * np.linalg.cond(one)
        assert found == pytest.approx(np.linalg.cond(one, p), rel=rounding)
    assert torch.autograd.gradcheck(lambda x: cond(x, p), (a.requires_grad_(),))
    if p not in (None, 2, -2):
        mixed = torch.stack([torch.ones(2, 2), torch.eye(2)])
        assert torch.isinf(cond(mixed, p)).tolist() == [True, False]
    assert cond(torch.zeros(2, 0, 0), p).tolist() == [0.0, 0.0]
