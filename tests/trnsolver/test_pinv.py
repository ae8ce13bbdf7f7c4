"""The pseudo-inverse against its definition, and its gradient."""

import numpy as np
import pytest
import torch

from tests.together import together
from trnsci.testing import BACKENDS, gaussian, pairs, unit_roundoff
from trnsolver import matrix_rank, null_space, orth, pinv

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


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


@pytest.mark.parametrize(
    ("backend", "dtype", "case", "scale"),
    [
        # test_lstsq has complex double precision of kernels in the default group
        pytest.param(*case, marks=[pytest.mark.slow] if case[0].runs_kernels and case[1] == torch.complex128 else [])
        for case in pairs(BACKENDS, DTYPES, [((6, 4), 4), ((4, 6), 2), ((5, 5), 3), ((3, 3), 0)], [1.0, 1e30, 1e-30])
    ],
    ids=str,
)
def test_the_four_conditions_of_penrose(backend, dtype, case, scale, norm):
    shape, rank = case
    m, n = shape
    a = scale * (gaussian((m, max(rank, 1)), 1, dtype) @ gaussian((max(rank, 1), n), 2, dtype)) * (rank > 0)
    with backend:
        p, counted = pinv(a), matrix_rank(a)
        kernel, image = null_space(a), orth(a)
    assert int(counted) == rank
    assert kernel.shape == (n, n - rank)
    assert image.shape == (m, rank)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    a, p = a.to(wide), p.to(wide)
    kept = np.linalg.svd(a.numpy(), compute_uv=False)[:rank]
    limit = 20 * 6 * unit_roundoff(dtype) * (float(kept[0] / kept[-1]) if rank else 1.0)
    assert norm(a @ p @ a - a) <= limit * norm(a)
    assert norm(p @ a @ p - p) <= 2 * limit * norm(p)
    assert norm(a @ p - (a @ p).mH) <= 2 * limit
    assert norm(p @ a - (p @ a).mH) <= 2 * limit


@together("shape", [(0, 3), (3, 0), (0, 0), (2, 3, 0), (0, 3, 2)])
def test_of_nothing_with_any_tolerance(shape):
    a = torch.zeros(shape, dtype=torch.float64)
    for options in ({}, {"atol": 0.1}, {"atol": 0.1, "rtol": 0.1}):
        assert pinv(a, **options).shape == a.mT.shape
        assert matrix_rank(a, **options).shape == shape[:-2]
        if shape[-1] == shape[-2]:
            assert pinv(a, hermitian=True, **options).shape == shape
