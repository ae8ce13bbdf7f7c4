"""Eigenvalues of general matrices, Schur and Hessenberg forms."""

import numpy as np
import pytest
import scipy.linalg
import torch

from tests.together import together
from trnsci import NotConverged
from trnsci.testing import gaussian, pairs, unit_roundoff
from trnsolver import eig, eigh, eigvals, eigvalsh, hessenberg, schur

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


@together(("dtype", "shape", "output"), pairs(DTYPES, [(1, 1), (2, 2), (9, 9), (2, 5, 5), (0, 0)], ["real", "complex"]))
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


@pytest.mark.grid(1)
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


@pytest.mark.parametrize("n", [18, 20, 31, 32])
def test_matrices_of_equal_elements(n, norm):
    ones = torch.ones(n, dtype=torch.complex128)
    for column in (ones, ones * (-1.0) ** torch.arange(n)):
        # where torch gives up, what SciPy answers is checked, too: of 1e-140 it loses its own scaling
        for scale in (1.0, 3e-20, 7e20, 1e-140, 1e140, 1e-300, 1e300):
            a = torch.outer(column, ones * scale)
            values, vectors = eig(a.real)
            assert norm(a @ vectors - vectors * values) <= 20 * n * 2.0**-53 * norm(a)
            assert abs(eigvals(a.real).abs().max() - values.abs().max()) <= 20 * n * 2.0**-53 * norm(a)


def test_a_library_that_gives_up_is_not_the_last_word(monkeypatch, norm):
    def stalls(*args, **kwargs):
        raise torch.linalg.LinAlgError("The algorithm failed to converge")

    for name in ("eig", "eigvals", "eigh", "eigvalsh"):
        monkeypatch.setattr(torch.linalg, name, stalls)
    a = gaussian((2, 3, 9, 9), 1, torch.float64)
    values, vectors = eig(a)
    assert norm(a.to(vectors.dtype) @ vectors - vectors * values.unsqueeze(-2)) <= 20 * 9 * 2.0**-53 * norm(a)
    assert eigvals(a).shape == (2, 3, 9)
    assert eig(a + a.mT).vectors.dtype is torch.complex128
    # what lies in the other triangle is not read
    whole = a.tril() + a.tril(-1).mT
    for scale, elsewhere in ((1.0, float("nan")), (1e-140, 1e200), (1e300, 1.0)):
        values, vectors = eigh(scale * a.tril() + torch.full_like(a, elsewhere).triu(1))
        values = values / scale
        assert norm(whole @ vectors - vectors * values.unsqueeze(-2)) <= 20 * 9 * 2.0**-53 * norm(a)
        assert norm(eigvalsh(scale * whole) / scale - values) <= 20 * 9 * 2.0**-53 * norm(a)
    for scale in (1e-140, 1e-300, 1e300):
        values, vectors = eig(a * scale)
        values = values / scale
        assert norm(a.to(vectors.dtype) @ vectors - vectors * values.unsqueeze(-2)) <= 20 * 9 * 2.0**-53 * norm(a)
    with pytest.raises(NotConverged, match="SciPy's LAPACK could not be asked next"):
        torch.func.vmap(eigvals)(a)
    monkeypatch.setattr(scipy.linalg, "eig", lambda *args, **kwargs: stalls_in_scipy())
    with pytest.raises(NotConverged, match="eig"):
        eig(a)


def stalls_in_scipy():
    raise np.linalg.LinAlgError("eig algorithm did not converge")
