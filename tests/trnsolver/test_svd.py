import itertools
import sys

import numpy as np
import pytest
import torch

import trnsci
from trnsci import ArgumentError, NotConverged, UnsupportedError
from trnsci.testing import BACKENDS, Backend, gaussian, unit_roundoff
from trnsolver import (
    cond,
    cond_estimate,
    eigh,
    eigh_randomized,
    matrix_rank,
    null_space,
    orth,
    pinv,
    polar,
    svd,
    svd_randomized,
    svdvals,
)
from trnsolver.eigen import polar_factor


def _holds(u, s, vh, a, norm):
    wide = torch.complex128 if a.is_complex() else torch.float64
    u, vh, k = u.to(wide), vh.to(wide), s.shape[-1]
    limit = 20 * max(1, *a.shape[-2:]) * unit_roundoff(a.dtype)
    back = norm((u[..., :k] * s.unsqueeze(-2).to(wide)) @ vh[..., :k, :] - a.to(wide)) <= limit * norm(a)
    left = norm(u.mH @ u - torch.eye(u.shape[-1], dtype=wide)) <= limit
    right = norm(vh @ vh.mH - torch.eye(vh.shape[-2], dtype=wide)) <= limit
    return back and left and right and bool((s.diff(dim=-1) <= 0).all()) and bool((s >= 0).all())


@pytest.mark.grid(2)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (9, 5), (5, 9), (2, 6, 3), (0, 3), (3, 0)])
def test_the_triplets_multiply_back(backend, full, shape, norm):
    a = gaussian(shape, 1)
    with backend:
        u, s, vh = svd(a, full_matrices=full)
    expected = torch.linalg.svd(a, full_matrices=full)
    assert [x.shape for x in (u, s, vh)] == [x.shape for x in expected]
    assert _holds(u, s, vh, a, norm)


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_hard_matrices(backend, family, norm):
    a = torch.from_numpy(family(9)).float()
    with backend:
        found = svd(a)
        values = svdvals(a)
    assert _holds(*found, a, norm)
    expected = np.linalg.svd(a.double().numpy(), compute_uv=False)
    assert np.abs(values.numpy() - expected).max() <= 20 * 9 * 2.0**-24 * norm(a)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64], ids=str)
def test_other_dtypes(backend, dtype, norm):
    a = gaussian((8, 6), 1, dtype)
    with backend:
        assert _holds(*svd(a, full_matrices=False), a, norm)


def test_what_follows_from_it(norm):
    a = gaussian((7, 3), 1, torch.float64) @ gaussian((3, 5), 2, torch.float64)
    assert int(matrix_rank(a)) == 3
    assert int(matrix_rank(torch.eye(4), hermitian=True)) == 4
    found = pinv(a)
    bound = 2 * 20 * 7 * 2.0**-53 * norm(a) * norm(found) ** 2
    assert norm(found - torch.from_numpy(np.linalg.pinv(a.numpy()))) <= bound
    empty, span = null_space(a), orth(a)
    assert (empty.shape, span.shape) == ((5, 2), (7, 3))
    assert norm(a @ empty) <= 20 * 7 * 2.0**-53 * norm(a)
    assert norm(span @ (span.mT @ a) - a) <= 20 * 7 * 2.0**-53 * norm(a)
    u, p = polar(a)
    assert norm(u @ p - a) <= 40 * 7 * 2.0**-53 * norm(a)
    assert float(torch.linalg.eigvalsh(p).min()) >= -20 * 7 * 2.0**-53 * norm(a)
    u, p = polar(a, side="left")
    assert norm(p @ u - a) <= 40 * 7 * 2.0**-53 * norm(a)


def test_condition_numbers():
    a = gaussian((30, 30), 1, torch.float64)
    rounding = 2 * 20 * 30 * 2.0**-53 * np.linalg.cond(a.numpy())
    for p in (None, 1, float("inf"), "fro"):
        assert float(cond(a, p=p)) == pytest.approx(np.linalg.cond(a.numpy(), p), rel=rounding)
    exact = np.linalg.cond(a.numpy(), 1)
    assert exact / 10 <= float(cond_estimate(a)) <= exact * (1 + rounding)
    assert float(cond_estimate(torch.ones(3, 3))) == float("inf")


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_a_few_random_directions_suffice(backend):
    q = torch.linalg.qr(gaussian((24, 24), 1)).Q
    a = (q * torch.logspace(0, -12, 24)) @ q.mT
    exact = np.linalg.svd(a.double().numpy(), compute_uv=False)
    with backend:
        found = svd_randomized(a, 4, oversampling=4)
        again = svd_randomized(a, 4, oversampling=4)
        pairs = eigh_randomized(0.5 * (a + a.mT), 3, oversampling=4)
    missed = np.linalg.norm((a - (found.u * found.s) @ found.vh).double().numpy(), 2)
    assert np.abs(found.s.numpy() - exact[:4]).max() <= float(found.error) + 20 * 24 * 2.0**-24
    assert exact[4] * 0.99 <= missed <= exact[4] + float(found.error)
    assert torch.equal(found.s, again.s)
    assert np.abs(pairs.s.numpy() - exact[:3]).max() <= float(pairs.error) + 20 * 24 * 2.0**-24
    with pytest.raises(ArgumentError, match="k is 50, expected 1 to 24"):
        svd_randomized(a, 50)


def test_gradients():
    a = gaussian((4, 3), 1, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(svdvals, (a,))


@pytest.mark.grid(1)
@pytest.mark.parametrize("shape", [(4, 4), (4, 3), (3, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
def test_kernel_gradients(shape, dtype, gradient):
    a = gaussian(shape, 1, dtype)

    def invariant(a):
        u, s, vh = svd(a, full_matrices=False)
        return u.abs(), s, vh.abs(), (u[..., :2] * s[..., :2]) @ vh[..., :2, :]

    wide = a.to(torch.complex128 if dtype.is_complex else torch.float64)
    gap = float(torch.linalg.svdvals(wide).diff().abs().min())
    for fn in (invariant, svdvals):
        expected = gradient(fn, wide, Backend("pytorch"))
        found = gradient(fn, a, Backend("simulator"))
        limit = 20 * 4 * unit_roundoff(dtype) / min(gap, 1.0) ** 2
        assert float((found - expected).abs().max()) <= limit * float(expected.abs().max())


def test_a_library_that_gives_up_is_not_the_last_word(monkeypatch, norm):
    def stalls(*args, **kwargs):
        raise torch.linalg.LinAlgError("The algorithm failed to converge")

    for name in ("svd", "svdvals"):
        monkeypatch.setattr(torch.linalg, name, stalls)
    a = gaussian((2, 3, 7, 5), 1, torch.complex128)
    u, s, vh = svd(a, full_matrices=False)
    assert norm(u * s.unsqueeze(-2) @ vh - a) <= 20 * 7 * 2.0**-53 * norm(a)
    assert torch.equal(svdvals(a), s)
    with pytest.raises(NotConverged, match="failed to converge"):
        torch.func.vmap(svdvals)(a)


def test_gradients_that_do_not_exist():
    a = gaussian((4, 3), 1).requires_grad_()
    for backend, matrix in itertools.product(("simulator", "pytorch"), (a, a.mT)):
        with trnsci.backend(backend), pytest.raises(UnsupportedError, match="full_matrices=True has no gradient"):
            sum(x.abs().sum() for x in svd(matrix)).backward()
    with pytest.raises(UnsupportedError, match="full_matrices=True has no gradient"):
        torch.func.jacrev(lambda x: svd(x).u)(a.detach())
    for of in (lambda r: r.s, lambda r: r.u[:, :3].abs()):
        whole, part = (torch.func.jacrev(lambda x, f=full, g=of: g(svd(x, f)))(a.detach()) for full in (True, False))
        torch.testing.assert_close(whole, part)


@pytest.mark.grid(1)
@pytest.mark.sim
@pytest.mark.parametrize("method", ["polar", "jacobi"])
def test_methods_on_hard_matrices(method, family, norm):
    for n in (5, 21):
        a = torch.from_numpy(family(n)).float()
        with trnsci.backend("simulator"):
            assert _holds(*svd(a, method=method), a, norm)


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("shape", [(130, 130), (200, 140), (2, 64, 64)])
def test_polar_factors_of_more_than_a_tile(shape, norm):
    a = gaussian(shape, 3)
    with trnsci.backend("simulator"):
        assert _holds(*svd(a, full_matrices=False), a, norm)


@pytest.mark.sim
@pytest.mark.parametrize("rank", [0, 1, 12])
def test_polar_factors_of_singular_matrices(rank, norm):
    for a in (torch.diag(torch.tensor([1.0] * rank + [0.0] * (24 - rank))), torch.ones(24, 24).tril(rank - 24)):
        with trnsci.backend("simulator"):
            assert _holds(*svd(a, method="polar"), a, norm)


@pytest.mark.sim
def test_which_method_runs():
    a = gaussian((20, 20), 1)
    ran = {}
    for method in ("auto", "polar", "jacobi"):
        with trnsci.backend("simulator"), trnsci.ledger() as book:
            svd(a, method=method)
        ran[method] = any(entry.step.op == "trnsolver::eigh" for entry in book)
    assert ran == {"auto": True, "polar": True, "jacobi": False}


@pytest.mark.sim
def test_failure_is_said(monkeypatch, norm):
    module = sys.modules["trnsolver.eigen.svd"]
    factor = module.polar_factor

    def spoiled(a):
        u, h, skew, lost = factor(a)
        u[1] = 1.01 * u[1]
        return u, h, skew, lost + torch.tensor([0.0, 0.1])

    monkeypatch.setattr(module, "polar_factor", spoiled)
    a = gaussian((2, 12, 12), 1)
    with trnsci.backend("simulator"):
        with pytest.warns(RuntimeWarning, match=r"left 0\.1 on 1 of 2 matrices.*; Jacobi solves them"):
            u, s, vh = svd(a)
        with pytest.raises(NotConverged) as caught:
            svd(a, method="polar")
    assert caught.value.residual == pytest.approx(0.1, rel=1e-3)
    for one in range(2):
        assert _holds(u[one], s[one], vh[one], a[one], norm)


def test_methods_have_names_and_pytorch_has_one():
    with pytest.raises(ArgumentError, match="'qr'"):
        svd(torch.eye(3), method="qr")
    with trnsci.backend("pytorch"), pytest.raises(UnsupportedError, match="method='polar' names a kernel"):
        svd(torch.eye(3), method="polar")
    with (
        trnsci.backend("simulator", strict=True),
        pytest.raises(UnsupportedError, match="method='jacobi' is of single precision"),
    ):
        svd(torch.eye(3, dtype=torch.float64), method="jacobi")


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_auto_takes_the_method_predicted_to_be_faster(target):
    def predicted(n, method):
        with trnsci.backend("simulator"):
            return trnsci.plan(svd, torch.empty((n, n), device="meta"), method=method).predicted[target]

    assert predicted(2, "auto") == predicted(2, "jacobi") < predicted(2, "polar")
    assert predicted(10, "auto") == predicted(10, "polar") < predicted(10, "jacobi")


def test_too_many_rows_for_the_chip():
    with (
        trnsci.backend("simulator"),
        pytest.raises(NotImplementedError, match="at most 1024 rows, and this one needs 1100"),
    ):
        svd(torch.ones(1100, 1200))


@pytest.mark.sim
def test_polar_factors_of_products_are_those_of_the_kernel(monkeypatch):
    a = gaussian((2, 20, 20), 4) / 5
    a[1, :, 3:] = 0.0
    with trnsci.backend("simulator"):
        one = polar_factor.polar_factor(a)
        monkeypatch.setattr(polar_factor.kernels, "ONE_PROGRAM", 16)
        u, h, *left = polar_factor.polar_factor(a)
    # of a singular matrix u is not unique, but h is
    torch.testing.assert_close(h, one[1], rtol=0, atol=20 * 20 * 2.0**-24)
    torch.testing.assert_close(u @ h, a, rtol=0, atol=20 * 20 * 2.0**-24)
    assert max(float(part.max()) for part in left) <= 20 * 20 * 2.0**-24


def test_sweeps_of_jacobi_are_cut_into_programs(norm, monkeypatch):
    monkeypatch.setenv("TRNSCI_PROGRAM_INSTRUCTIONS", "1500")
    a = gaussian((20, 20), 5)
    with trnsci.backend("simulator"):
        u, s, vh = svd(a, method="jacobi")
        values, v = eigh(a + a.mT, method="jacobi")
        plans = [trnsci.plan(*call, method="jacobi").programs for call in ((svd, a), (eigh, a + a.mT))]
    limit = 20 * 20 * unit_roundoff(a.dtype)
    assert norm(u * s @ vh - a) <= limit * norm(a)
    assert norm((a + a.mT) @ v - v * values) <= limit * norm(a + a.mT)
    assert norm(v.mT @ v - torch.eye(20)) <= limit
    assert all(plan.launches > 2 and plan.longest <= 1500 for plan in plans)


def test_float64_of_rank_one_from_products_of_it():
    """Blocks of the refinement that are exactly zero are left alone."""
    a = torch.ones(7, 5, dtype=torch.float64) / 3
    a[:, 1::2] *= -1
    with trnsci.backend("simulator"):
        u, s, vh = svd(a, full_matrices=False)
    assert torch.linalg.matrix_norm((u * s) @ vh - a) <= 20 * 7 * 2.0**-53 * torch.linalg.matrix_norm(a)


def test_vectors_of_vanishing_values_are_orthonormal_to_double_precision():
    """Values of the size of roundoff turn by large angles while they are refined."""
    constants = torch.complex(*torch.randn(2, 2, 1, 1, generator=torch.Generator().manual_seed(0)).double())
    with trnsci.backend("simulator"):
        u, _, vh = svd(constants.expand(2, 20, 7), full_matrices=False)
    for x in (u, vh.mH):
        assert torch.linalg.matrix_norm(x.mH @ x - torch.eye(7)).max() <= 20 * 20 * 2.0**-53
