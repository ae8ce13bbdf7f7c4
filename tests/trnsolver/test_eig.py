"""Eigenvalues of general matrices, Schur and Hessenberg forms."""

import numpy as np
import pytest
import torch

from trnsci.testing import gaussian, pairs, unit_roundoff
from trnsolver import eig, eigvals, hessenberg, schur

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


@pytest.mark.parametrize(
    ("dtype", "shape", "output"),
    pairs(DTYPES, [(1, 1), (2, 2), (9, 9), (2, 5, 5), (0, 0)], ["real", "complex"]),
    ids=str,
)
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
