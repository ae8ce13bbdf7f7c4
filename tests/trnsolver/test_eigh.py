import numpy as np
import pytest
import scipy.linalg
import torch

import trnsci
from trnsci import ArgumentError, NotConverged, NotPositiveDefinite
from trnsci.testing import BACKENDS, gaussian, unit_roundoff
from trnsolver import Eigh, eigh, eigh_generalized, eigvalsh


def _hermitian(shape, seed=0, dtype=torch.float32):
    x = gaussian(shape, seed, dtype)
    return 0.5 * (x + x.mH)


def _holds(w, v, a, norm):
    wide = torch.complex128 if a.is_complex() else torch.float64
    v, limit = v.to(wide), 20 * max(1, a.shape[-1]) * unit_roundoff(a.dtype)
    middle = torch.diag_embed(w).to(wide)
    ordered = bool((w.diff(dim=-1) >= 0).all())
    eye = torch.eye(a.shape[-1], dtype=wide)
    return ordered and norm(v @ middle @ v.mH - a.to(wide)) <= limit * norm(a) and norm(v.mH @ v - eye) <= limit


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (17, 17), (5, 6, 6), (2, 1, 4, 4), (0, 0)])
def test_the_pairs_multiply_back(backend, shape, norm):
    a = _hermitian(shape, 1)
    with backend:
        w, v = eigh(a)
    assert _holds(w, v, a, norm)
    assert np.allclose(
        w.numpy(), np.linalg.eigvalsh(a.double().numpy()), rtol=0, atol=20 * shape[-1] * 2.0**-24 * norm(a)
    )


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_hard_matrices(backend, family, norm):
    x = torch.from_numpy(family(11)).float()
    a = 0.5 * (x + x.mT)
    with backend:
        assert _holds(*eigh(a), a, norm)


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("n", [100, 128, 129, 200])
def test_blocks_of_a_large_matrix(n, norm):
    a = _hermitian((n, n), 3)
    with trnsci.backend("simulator"):
        assert _holds(*eigh(a), a, norm)


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.complex128], ids=str)
def test_other_dtypes(backend, dtype, norm):
    a = _hermitian((2, 5, 5), 1, dtype)
    with backend:
        assert _holds(*eigh(a), a, norm)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_double_precision_of_repeated_eigenvalues(backend, dtype, norm):
    q = torch.linalg.qr(gaussian((7, 7), 2, dtype)).Q
    a = (q * torch.tensor([1.0] * 3 + [2.0] * 2 + [2.0 + 1e-9] * 2, dtype=dtype)) @ q.mH
    a = 0.5 * (a + a.mH)
    with backend:
        assert _holds(*eigh(a), a, norm)


def test_triangles_and_subsets():
    a = _hermitian((8, 8), 1, torch.float64)
    lower, upper = a.tril() + 7 * torch.ones(8, 8).triu(1), a.triu() + 7 * torch.ones(8, 8).tril(-1)
    expected = torch.from_numpy(np.linalg.eigvalsh(a.numpy()))
    limit = 20 * 8 * 2.0**-53 * float(expected.abs().max())
    for found in (eigh(lower).values, eigh(upper, uplo="U").values, eigvalsh(lower), eigvalsh(upper, uplo="U")):
        assert float((found - expected).abs().max()) <= limit
    part = eigh(a, subset=(2, 4))
    assert part.vectors.shape == (8, 3)
    assert torch.equal(eigvalsh(a, subset=(2, 4)), eigvalsh(a)[2:5])
    with pytest.raises(ArgumentError, match=r"\(3, 8\), expected 0 <= first <= last < 8"):
        eigh(a, subset=(3, 8))


@pytest.mark.grid(1)
@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_generalised(kind, dtype, norm):
    a, x = _hermitian((7, 7), 1, dtype), gaussian((7, 7), 2, dtype)
    b = x @ x.mH + torch.eye(7, dtype=dtype)
    w, v = eigh_generalized(a, b, kind=kind)
    expected = scipy.linalg.eigh(a.numpy(), b.numpy(), type=kind, eigvals_only=True)
    limit = 20 * 7 * 2.0**-53 * np.linalg.cond(b.numpy())
    assert np.abs(w.numpy() - expected).max() <= limit * np.abs(expected).max()
    weight = torch.linalg.inv(b) if kind == 3 else b
    assert norm(v.mH @ weight @ v - torch.eye(7, dtype=dtype)) <= limit


def test_generalised_needs_a_definite_b():
    with pytest.raises(NotPositiveDefinite):
        eigh_generalized(torch.eye(2), -torch.eye(2))


@pytest.mark.grid(1)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128], ids=str)
def test_a_target_error_is_met(backend, dtype):
    a = _hermitian((8, 8), 2, dtype)
    with backend:
        found, stated = trnsci.achieved(eigh, a, target_error=1e-13)
    expected = np.linalg.eigvalsh(a.to(torch.complex128).numpy())
    assert np.abs(found.values.numpy() - expected).max() <= 1e-13 * np.linalg.norm(a.numpy()) * 2
    assert isinstance(found, Eigh)
    wide = a.to(found.vectors.dtype)
    left = torch.linalg.matrix_norm(wide @ found.vectors - found.vectors * found.values) / torch.linalg.matrix_norm(
        wide
    )
    assert float(left) <= stated + 8 * 8 * 2.0**-53 <= 1e-13


def test_a_target_out_of_reach():
    with pytest.raises(NotConverged) as caught:
        eigh(_hermitian((15, 15), 2), target_error=1e-18)
    assert 1e-18 < caught.value.residual < 1e-12
    with pytest.raises(ArgumentError, match="a positive number"):
        eigh(torch.eye(2), target_error=-1.0)


def test_gradients():
    a = _hermitian((4, 4), 1, torch.float64).requires_grad_()

    def projectors(a):
        w, v = eigh(0.5 * (a + a.mT))
        return w, v.abs()

    assert torch.autograd.gradcheck(projectors, (a,))
    narrow = _hermitian((6, 6)).requires_grad_()
    with trnsci.backend("simulator"):
        w, v = eigh(0.5 * (narrow + narrow.mT))
        (w.sin().sum() + v.abs()[0].sum()).backward()
    wide = narrow.detach().double().requires_grad_()
    w, v = torch.linalg.eigh(0.5 * (wide + wide.mT))
    (w.sin().sum() + v.abs()[0].sum()).backward()
    gap = float(w.detach().diff().min())
    assert float((narrow.grad - wide.grad).abs().max()) <= 20 * 6 * 2.0**-24 / gap**2 * float(wide.grad.abs().max())


def test_registered():
    torch.library.opcheck(torch.ops.trnsolver.eigh.default, (_hermitian((3, 3)), "auto"), test_utils="test_faketensor")
    assert trnsci.plan(eigh, torch.eye(3)).op


def test_too_many_rows_for_the_chip():
    with (
        trnsci.backend("simulator"),
        pytest.raises(NotImplementedError, match="at most 1024 rows, and this one needs 1100"),
    ):
        eigh(torch.eye(1100), method="jacobi")
    # in pieces there is no limit
    with trnsci.backend("simulator"):
        assert float((eigh(torch.eye(1100)).values - 1.0).abs().max()) <= 20 * 1100 * 2.0**-24
